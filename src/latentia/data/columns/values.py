"""Cells as they come from a table: an array, which of them are missing, declared categories."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from latentia.errors import DataError
from latentia.typing import Array, Label

EXACT = 2**53  # whole numbers up to this one are floats, too


@final
@dataclass(frozen=True, slots=True)
class Values:
    """The cells of one column: an array, which of them are missing, and declared categories."""

    cells: np.ndarray[Any, Any]  # numbers or objects
    missing: np.ndarray[Any, Any] | None = None  # (n,) bool; None: nothing is missing
    categories: tuple[Hashable, ...] | None = None
    first: int | None = 0  # row of the first cell in its table; None: in a part of it
    rows: np.ndarray[Any, Any] | None = None  # where not all are here: which cells these are

    @property
    def present(self) -> np.ndarray[Any, Any]:
        return self.cells if self.missing is None else self.cells[~self.missing]

    def where(self, kept: np.ndarray[Any, Any]) -> Values:
        """The cells of some rows only."""
        missing = None if self.missing is None else self.missing[kept]
        rows = np.flatnonzero(kept) if self.rows is None else self.rows[kept]
        return Values(self.cells[kept], missing, self.categories, self.first, rows)

    def row(self, place: int) -> str:
        """The row of a cell, for who has to find it.

        >>> Values(np.zeros(3), first=1000).row(2)
        'row 1002'
        """
        return row_of(self.first, place if self.rows is None else int(self.rows[place]))


def row_of(first: int | None, place: int) -> str:
    """The row at some place of a block that begins at row `first`; None: nobody knows where."""
    return f"row {place} of its part" if first is None else f"row {first + place}"


def is_number(value: Any) -> bool:
    """Integers and floats, Python's and numpy's; True and False are none.

    >>> is_number(1), is_number(np.float32(1)), is_number(True), is_number("1")
    (True, True, False, False)
    """
    if isinstance(value, np.generic):
        return value.dtype.kind in "iuf"
    return isinstance(value, int | float) and not isinstance(value, bool)


def to_values(values: Values) -> Array:
    """Numbers, NaN where missing."""
    cells = values.cells
    if cells.dtype.kind == "O" and values.missing is not None:
        cells = np.where(values.missing, np.nan, cells)
    try:
        x = cells.astype(float)
    except OverflowError:
        raise DataError(
            "Input contains a whole number beyond the largest float (1.8e308). Replace it, or take "
            "logarithms."
        ) from None
    if np.isinf(x).any():
        raise DataError(
            "Input contains infinity; expected finite numbers or missing cells (NaN). "
            "Replace infinite values."
        )
    if values.missing is not None:
        x[values.missing] = np.nan
    return x


def first_odd(values: Values) -> tuple[int, Any] | None:
    """Row and value of the first present cell that is no number; None: all are."""
    if values.cells.dtype.kind in "iuf":
        return None
    cells = values.cells.tolist()
    gone = [False] * len(cells) if values.missing is None else values.missing.tolist()
    for row, (cell, skip) in enumerate(zip(cells, gone, strict=True)):
        if not skip and not is_number(cell):
            return row, cell
    return None


def plain(value: Any) -> Any:
    """Python's own number or string for a numpy scalar; whole floats as they are."""
    return value.item() if isinstance(value, np.generic) else value


def distinct_states(cells: Iterable[Any], name: Label | None = None) -> set[Any]:
    """Different values; those that cannot be hashed cannot be states."""
    try:
        return {plain(v) for v in cells}
    except TypeError as error:
        where = "a column" if name is None else f"column {name!r}"
        raise DataError(
            f"{where} holds values that cannot be states ({error}). Make them text or numbers, or "
            "leave the column out of the graph."
        ) from None


def sorted_states(states: Iterable[Any]) -> tuple[Hashable, ...]:
    """In the order of their kind; of several types: by type, then by what they print."""
    try:
        return tuple(sorted(states))
    except TypeError:
        return tuple(sorted(states, key=lambda s: (type(s).__name__, str(s))))
