"""Plain values as JSON with their types kept, and strict readers of JSON fields.

Text, whole numbers, finite decimals, true, false and null stand for themselves, a list for a list;
everything else is an object with one field that names its type: {"tuple": ["a", 1]}.
"""

from __future__ import annotations

import math
from datetime import date, datetime

import numpy as np

from latentia.errors import StoreError
from latentia.structure.graph import spell
from latentia.typing import Cell, Given

LARGEST_WHOLE = 2**64
LARGEST_COUNT = 2**31  # of states, ranks
DEEPEST = 16  # tuples within tuples
BOXES: dict[str, Given] = {"tuple": tuple, "frozenset": frozenset, "set": set}
NUMPY_KINDS = (
    *("bool", "str", "float16", "float32", "float64"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)
NUMPY: dict[str, Given] = {name: np.dtype(name).type for name in NUMPY_KINDS}
DATES: dict[str, type[date]] = {"date": date, "datetime": datetime}
BOX_NAMES = {kind: name for name, kind in BOXES.items()}
NUMPY_NAMES = {kind: name for name, kind in NUMPY.items()}


def pack(value: Given, what: str, depth: int = 0) -> object:
    """JSON for a plain value; `what` names it in errors.

    >>> pack(("a", 1, 2.0, True), "a state")
    {'tuple': ['a', 1, 2.0, True]}
    """
    kind = type(value)
    if depth > DEEPEST:
        raise StoreError(f"{what} is nested more than {DEEPEST} deep. Flatten it.")
    if value is None or kind in (str, bool):
        return value
    if kind is int and abs(value) < LARGEST_WHOLE:
        return value
    if kind is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if kind is list:
        return [pack(v, what, depth + 1) for v in value]
    if kind is dict:
        pairs = [[pack(k, what, depth + 1), pack(v, what, depth + 1)] for k, v in value.items()]
        return {"dict": pairs}
    if kind in BOX_NAMES:
        ordered = value if kind is tuple else sorted(value, key=spell)
        return {BOX_NAMES[kind]: [pack(v, what, depth + 1) for v in ordered]}
    if kind in NUMPY_NAMES:
        return {"numpy": [NUMPY_NAMES[kind], pack(value.item(), what, depth + 1)]}
    if kind is date:
        return {"date": value.isoformat()}
    if isinstance(value, datetime) and _is_plain_time(value):
        return {"datetime": datetime(*value.timetuple()[:6], value.microsecond).isoformat()}
    from latentia.store.typed_cells import spell_cell, tag_of  # few files have such cells

    tag = tag_of(value)
    if tag is not None:
        return {tag: [pack(part, what, depth + 1) for part in spell_cell(tag, value)]}
    raise StoreError(
        f"{what} cannot be kept in a model file: {value!r:.80} of type {kind.__module__}."
        f"{kind.__qualname__}. Expected text, numbers (whole ones within 64 bits), booleans, "
        "dates and times, intervals, tuples and frozensets of these. Rename it, for example to "
        "str(…), and fit again."
    )


def _is_plain_time(value: datetime) -> bool:
    """Without a zone, and nothing finer than the microseconds that `datetime` has.

    pandas' Timestamp is a `datetime`, equal to the plain one that is read.
    """
    return value.tzinfo is None and not getattr(value, "nanosecond", 0)


def unpack(value: object) -> Cell:
    """The value that `pack` was given."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, list):
        return [unpack(v) for v in value]
    if isinstance(value, dict) and len(value) == 1:
        return _unpack_tagged(*next(iter(value.items())))
    known = (isinstance(value, int) and abs(value) < LARGEST_WHOLE) or (
        isinstance(value, float) and math.isfinite(value)
    )
    if not known:
        raise StoreError(f"expected a plain value, got {value!r:.80}.")
    return value


def _unpack_tagged(tag: str, inner: object) -> Cell:
    if tag == "float" and inner in ("nan", "inf", "-inf"):
        return float(inner)
    if tag in BOXES:
        return BOXES[tag](unpack(v) for v in items(inner))
    if tag == "dict":
        return {unpack(k): unpack(v) for k, v in (items(pair, 2) for pair in items(inner))}
    if tag == "numpy":
        return _unpack_numpy(*items(inner, 2))
    if tag in DATES:
        return _unpack_date(DATES[tag], text(inner))
    from latentia.store.typed_cells import CODECS, read_cell

    if tag in CODECS:
        return read_cell(tag, [unpack(v) for v in items(inner)])
    raise StoreError(f"expected a plain value, got {{{tag!r:.40}: {inner!r:.80}}}.")


def _unpack_numpy(name: object, inner: object) -> Cell:
    value = unpack(inner)
    if isinstance(name, str) and name in NUMPY and isinstance(value, str | int | float):
        with np.errstate(over="ignore"):
            made = NUMPY[name](value)
        if type(made.item()) is type(value) and repr(made.item()) == repr(value):
            return made
    raise StoreError(f"expected a number of type {name!r:.40}, got {value!r:.80}.")


def _unpack_date(kind: type[date], spelled: str) -> Cell:
    try:
        return kind.fromisoformat(spelled)
    except ValueError:
        raise StoreError(f"expected a {kind.__name__}, got {spelled!r:.80}.") from None


def fields(record: object, *names: str) -> list[Given]:
    """The values of an object that has these fields and no others."""
    if not isinstance(record, dict) or record.keys() != set(names):
        got = list(record) if isinstance(record, dict) else record
        raise StoreError(f"expected the fields {', '.join(names)}, got {got!r:.200}.")
    return [record[name] for name in names]


def items(value: object, length: int | None = None) -> list[Given]:
    """A list, of this length."""
    if not isinstance(value, list) or length not in (None, len(value)):
        many = "" if length is None else f" of {length} values"
        raise StoreError(f"expected a list{many}, got {value!r:.80}.")
    return value


def whole(value: object, below: int, lowest: int = 0) -> int:
    """A whole number in lowest, …, below - 1."""
    if type(value) is not int or not lowest <= value < below:
        raise StoreError(
            f"expected a whole number from {lowest} to {below - 1}, got {value!r:.80}."
        )
    return value


def wholes(
    value: object, below: int, lowest: int = 0, length: int | None = None
) -> tuple[int, ...]:
    """Whole numbers in lowest, …, below - 1."""
    return tuple(whole(v, below, lowest) for v in items(value, length))


def number(value: object, low: float = -math.inf, high: float = math.inf) -> float:
    """A decimal number within [low, high]; without bounds any, NaN too."""
    found = unpack(value)
    bounded = low > -math.inf or high < math.inf
    if type(found) is not float or (bounded and not low <= found <= high):
        raise StoreError(f"expected a number from {low:g} to {high:g}, got {value!r:.80}.")
    return found


def text(value: object) -> str:
    if not isinstance(value, str):
        raise StoreError(f"expected text, got {value!r:.80}.")
    return value
