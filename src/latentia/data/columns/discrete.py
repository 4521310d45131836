"""Discrete columns: their states in a fixed order, and values as codes.

States are sorted: numbers by size, strings by letter, False before True; categorical columns keep
the order of their categories. Missing values (NaN, None, null) get the code -1.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from latentia.errors import DataError, UnknownNameError
from latentia.typing import Codes, Label

MOST_STATES = 1000
MANY_FLOATS = 20  # floats with more distinct values than this are continuous


@final
@dataclass(frozen=True, slots=True)
class Values:
    """The cells of one column: an array, which of them are missing, and declared categories."""

    cells: np.ndarray[Any, Any]  # numbers or objects
    missing: np.ndarray[Any, Any] | None = None  # (n,) bool; None: nothing is missing
    categories: tuple[Hashable, ...] | None = None

    @property
    def present(self) -> np.ndarray[Any, Any]:
        return self.cells if self.missing is None else self.cells[~self.missing]

    def where(self, kept: np.ndarray[Any, Any]) -> Values:
        """The cells of some rows only."""
        missing = None if self.missing is None else self.missing[kept]
        return Values(self.cells[kept], missing, self.categories)


@final
@dataclass(frozen=True, slots=True)
class DiscreteColumn:
    """A column and its states; code k stands for states[k]."""

    name: Label
    states: tuple[Hashable, ...]

    def __post_init__(self) -> None:
        if not self.states:
            raise DataError(f"column {self.name!r} has no states.")
        if len(set(self.states)) != len(self.states):
            raise DataError(f"the states of {self.name!r} must differ, got {list(self.states)}.")

    def code(self, state: Any) -> int:
        """The code of one state."""
        try:
            return self.states.index(_plain(state))
        except (ValueError, TypeError):  # pandas.NA and arrays cannot be compared
            raise UnknownNameError(
                f"state of {self.name!r}",
                state,
                self.states,
                "Pass one of the states, or leave the variable out to marginalise it.",
            ) from None


def discover_states(
    name: Label, values: Values, kind: str | None = None, given: Sequence[Any] | None = None
) -> DiscreteColumn:
    """The states of a column: those given, its categories, or the sorted values seen.

    >>> discover_states("D", Values(np.array([3, 1, 1])))
    DiscreteColumn(name='D', states=(1, 3))
    """
    if given is not None:
        return DiscreteColumn(name, _given_states(name, given))
    if values.categories is not None:
        return DiscreteColumn(name, values.categories)
    present = values.present
    if not len(present):
        raise DataError(
            f"column {name!r} has no value at all. Drop it from the graph, make it latent, "
            "or name its states in state_names."
        )
    states = _sorted_states(name, present)
    floats = present.dtype.kind == "f" and any(isinstance(s, float) for s in states)
    if kind is None and floats and len(states) > MANY_FLOATS:
        raise DataError(
            f"column {name!r} looks continuous ({len(states)} different decimal numbers), which is "
            f"not supported yet. Bin it, or pass kinds={{{name!r}: 'discrete'}}."
        )
    if len(states) > MOST_STATES:
        raise DataError(
            f"column {name!r} has more than {MOST_STATES} different values, more than are sensible "
            "as states. Is it an identifier or continuous? Bin it or leave it out of the graph."
        )
    return DiscreteColumn(name, states)


def encode(column: DiscreteColumn, values: Values) -> Codes:
    """Codes of the cells, -1 where missing; an unseen state is an error.

    >>> encode(DiscreteColumn("D", (1, 3)), Values(np.array([3, 1, 3]))).tolist()
    [1, 0, 1]
    """
    dtype = np.int8 if len(column.states) <= 127 else np.int16
    codes = _find_codes(column, values)
    if codes.min(initial=0) < -1:
        row = int(np.argmax(codes < -1))
        raise UnknownNameError(
            f"state of {column.name!r} (row {row})",
            _plain(values.cells[row]),
            column.states,
            "Map it to a known state or make the cell missing (None or NaN).",
        )
    return codes.astype(dtype, copy=False)


def without_unknown(column: DiscreteColumn, values: Values) -> tuple[Values, np.ndarray[Any, Any]]:
    """The cells with those that are no state made missing; and which these are.

    >>> without_unknown(DiscreteColumn("D", (1, 3)), Values(np.array([3, 2])))[1].tolist()
    [False, True]
    """
    odd = np.asarray(_find_codes(column, values) < -1)
    if not odd.any():
        return values, odd
    gone = odd if values.missing is None else values.missing | odd
    return Values(values.cells, gone, values.categories), odd


def _find_codes(column: DiscreteColumn, values: Values) -> Codes:
    """-1 where missing, -2 for a value that is no state."""
    numeric = values.cells.dtype.kind in "iufb" and all(
        isinstance(s, int | float) for s in column.states
    )
    find = _numeric_codes if numeric else _object_codes
    codes = find(column.states, values)
    if values.missing is not None:
        codes[values.missing] = -1
    return codes


def decode(column: DiscreteColumn, codes: Codes) -> np.ndarray[Any, Any]:
    """States of codes, in the plainest array that holds them."""
    kinds = {type(s) for s in column.states}
    if kinds <= {int} or kinds <= {float, int} or kinds <= {bool}:
        return np.asarray(column.states)[codes]
    states = np.empty(len(column.states), dtype=object)
    states[:] = column.states
    return states[codes]


def _given_states(name: Label, given: Any) -> tuple[Hashable, ...]:
    """States as listed: each hashable, none of them missing."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise DataError(
            f"expected state_names as {{column: list of states}}, got {given!r} for {name!r}."
        )
    states = tuple(_plain(s) for s in given)
    distinct_states(states, name)
    if any(s is None or (isinstance(s, float) and s != s) for s in states):
        raise DataError(f"None and NaN are missing cells, no states of {name!r}: {list(states)}.")
    return states


def distinct_states(cells: Iterable[Any], name: Label | None = None) -> set[Any]:
    """Different values; those that cannot be hashed cannot be states."""
    try:
        return {_plain(v) for v in cells}
    except TypeError as error:
        where = "a column" if name is None else f"column {name!r}"
        raise DataError(
            f"{where} holds values that cannot be states ({error}). Make them text or numbers, or "
            "leave the column out of the graph."
        ) from None


def _sorted_states(name: Label, present: np.ndarray[Any, Any]) -> tuple[Hashable, ...]:
    if present.dtype.kind in "iu" and len(present):
        low, high = int(present.min()), int(present.max())
        if high - low < 2**16:
            seen = np.bincount((present - present.min()).astype(np.int64))
            return tuple(int(s) + low for s in np.flatnonzero(seen))
    if present.dtype.kind in "iufb":
        states = np.unique(present).tolist()
        whole = all(isinstance(s, float) and s.is_integer() for s in states)
        return tuple(int(s) for s in states) if whole else tuple(states)
    return sorted_states(distinct_states(present.tolist(), name))


def sorted_states(states: Iterable[Any]) -> tuple[Hashable, ...]:
    """In the order of their kind; of several types: by type, then by what they print."""
    try:
        return tuple(sorted(states))
    except TypeError:
        return tuple(sorted(states, key=lambda s: (type(s).__name__, str(s))))


def _numeric_codes(states: tuple[Hashable, ...], values: Values) -> Codes:
    """-2 for a value that is no state."""
    known: np.ndarray[Any, Any] = np.asarray(states, dtype=float)
    cells = values.cells
    if (
        cells.dtype.kind in "iu"
        and len(cells)
        and np.isfinite(known[0])
        and (np.diff(known) == 1).all()
    ):
        low, high = int(known[0]), int(known[-1])
        fits = low == known[0] and high - low < 2**7 and low >= np.iinfo(cells.dtype).min
        if fits and low <= cells.min() and cells.max() <= high:  # nothing to look up
            if not low and cells.dtype == np.int8 and values.missing is None:
                return cells  # codes already, and nobody writes into codes
            shifted: Codes = cells - cells.dtype.type(low) if low else cells.copy()
            return shifted.astype(np.int16) if cells.dtype.kind == "u" else shifted
    if cells.dtype.kind in "iub" and np.isfinite(known).all():
        low, high = int(known.min()), int(known.max())
        if high - low < 2**16 and max(-low, high) < 2**53 and (known == np.rint(known)).all():
            table = np.full(high - low + 3, -2, dtype=np.int16)
            table[known.astype(np.int64) - low + 1] = np.arange(len(known))
            codes: Codes = table[np.clip(cells.astype(np.int64) - low + 1, 0, high - low + 2)]
            return codes
    order = np.argsort(known)
    place = np.searchsorted(known[order], cells)
    place = np.minimum(place, len(known) - 1)
    return np.where(known[order][place] == cells, order[place], -2).astype(np.int64)


def _object_codes(states: tuple[Hashable, ...], values: Values) -> Codes:
    code: Mapping[Any, int] = {s: k for k, s in enumerate(states)}
    missing = values.missing
    cells = values.cells.tolist()
    if missing is not None:
        cells = [None if gone else v for v, gone in zip(cells, missing, strict=True)]
    try:
        found = [code.get(_plain(v), -2) for v in cells]
    except TypeError:  # a list or a dict is no state
        found = [code.get(_plain(v), -2) if _hashable(v) else -2 for v in cells]
    return np.array(found, dtype=np.int64)


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _plain(value: Any) -> Any:
    """Python's own number or string for a numpy scalar; whole floats as they are."""
    return value.item() if isinstance(value, np.generic) else value
