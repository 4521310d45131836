"""Cells of types that JSON has no word for, each as what it is spelled from and read again.

Times with a zone, spans of time, exact numbers, identifiers, and what pandas cuts columns into.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import final
from uuid import UUID
from zoneinfo import ZoneInfo

from latentia.errors import MissingLibraryError, StoreError
from latentia.typing import Cell

LONGEST = 4096  # characters of a number or of bytes
LARGEST = 2**64


@final
@dataclass(frozen=True, slots=True)
class Codec:
    """Plain parts of a value, and the value of plain parts."""

    spell: Callable[[Cell], list[Cell]]
    read: Callable[[list[Cell]], Cell]


def tag_of(value: Cell) -> str | None:
    """What the type is called in files, if it has a name there."""
    kind = type(value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return None if getattr(value, "nanosecond", 0) else "zoned"
    if kind.__module__.partition(".")[0] == "pandas" and kind.__qualname__ in PANDAS:
        return PANDAS[kind.__qualname__]
    return TYPES.get(kind)


def spell_cell(tag: str, value: Cell) -> list[Cell]:
    """What the cell is made of."""
    return CODECS[tag].spell(value)


def read_cell(tag: str, parts: list[Cell]) -> Cell:
    """The cell that is made of these."""
    try:
        return CODECS[tag].read(parts)
    except MissingLibraryError:
        raise
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, OSError):
        raise StoreError(f"expected the parts of a {tag}, got {parts!r:.80}.") from None


def _zoned(value: Cell) -> list[Cell]:
    """The time as its zone has it, and the name of the zone, if it has one."""
    name = getattr(value.tzinfo, "key", None) or getattr(value.tzinfo, "zone", None)
    return [value.isoformat(), name if isinstance(name, str) else None]


def _read_zoned(parts: list[Cell]) -> Cell:
    spelled, name = parts
    found = datetime.fromisoformat(spelled)
    if found.tzinfo is None:
        raise ValueError("no zone")
    if name is None:
        return found
    try:
        return found.astimezone(ZoneInfo(name))
    except (KeyError, ValueError, OSError):  # a zone that this machine does not know
        return found


def _read_fraction(parts: list[Cell]) -> Cell:
    above, below = parts
    if not (type(above) is type(below) is int and max(abs(above), below) < LARGEST):
        raise ValueError("no whole numbers")
    return Fraction(above, below)


def _short(spelled: Cell) -> str:
    if not isinstance(spelled, str) or len(spelled) > LONGEST:
        raise ValueError("no short text")
    return spelled


def _spell_decimal(value: Cell) -> list[Cell]:
    if len(str(value)) > LONGEST or not _is_short(value):
        raise StoreError(
            f"{value!r:.80} has too many digits to be kept in a model file. Rename it."
        )
    return [str(value)]


def _read_decimal(parts: list[Cell]) -> Cell:
    found = Decimal(_short(*parts))
    if not _is_short(found):
        raise ValueError("too large")
    return found


def _is_short(value: Decimal) -> bool:
    """Is it a number that takes no more than a line to write out?"""
    return value.is_finite() and abs(value.adjusted()) <= LONGEST


def _spell_bytes(value: Cell) -> list[Cell]:
    if 2 * len(value) > LONGEST:
        raise StoreError(f"a state of {len(value):,} bytes is too long to be kept. Rename it.")
    return [value.hex()]


def _spell_fraction(value: Cell) -> list[Cell]:
    if max(abs(value.numerator), value.denominator) >= LARGEST:
        raise StoreError(f"{value!r:.80} is too long to be kept in a model file. Rename it.")
    return [value.numerator, value.denominator]


def _spell_interval(value: Cell) -> list[Cell]:
    return [value.left, value.right, value.closed]


def _read_interval(parts: list[Cell]) -> Cell:
    *ends, closed = parts
    pandas = _pandas()
    kinds = ((datetime, pandas.Timestamp), (timedelta, pandas.Timedelta))
    for plain, own in kinds:
        ends = [own(end) if isinstance(end, plain) else end for end in ends]
    return pandas.Interval(*ends, closed)


def _read_period(parts: list[Cell]) -> Cell:
    ordinal, frequency = parts
    if type(ordinal) is not int:
        raise ValueError("no whole number")
    return _pandas().Period(ordinal=ordinal, freq=_short(frequency))


def _pandas() -> Cell:
    try:
        import pandas
    except ImportError:
        raise MissingLibraryError(
            "the states of a column are intervals or periods of pandas. Install it: "
            "pip install pandas."
        ) from None
    return pandas


CODECS = {
    "zoned": Codec(_zoned, _read_zoned),
    "span": Codec(
        lambda x: [x.days, x.seconds, x.microseconds],
        lambda parts: timedelta(*(int(p) for p in parts)),
    ),
    "time": Codec(lambda x: [x.isoformat()], lambda parts: time.fromisoformat(*parts)),
    "decimal": Codec(_spell_decimal, _read_decimal),
    "fraction": Codec(_spell_fraction, _read_fraction),
    "uuid": Codec(lambda x: [x.hex], lambda parts: UUID(_short(*parts))),
    "bytes": Codec(_spell_bytes, lambda parts: bytes.fromhex(_short(*parts))),
    "interval": Codec(_spell_interval, _read_interval),
    "period": Codec(lambda x: [x.ordinal, x.freqstr], _read_period),
}
TYPES: dict[type, str] = {
    timedelta: "span",
    time: "time",
    Decimal: "decimal",
    Fraction: "fraction",
    UUID: "uuid",
    bytes: "bytes",
}
PANDAS = {"Interval": "interval", "Period": "period", "Timedelta": "span"}
