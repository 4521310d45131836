"""Cells as they come from a table: an array, which of them are missing, declared categories.

Text comes as words and codes: what is done for each different value is done once.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, final

import numpy as np

from latentia.errors import DataError
from latentia.typing import Array, Bools, Cell, CellArray, Codes, Label, Selection

WIDEST = 2**128  # whole decimals up to this one are integers, as databases have them
EXACT = 2**53  # whole numbers up to this one are floats, too
LENIENT = (  # advice at the end of an error
    "; questions about rows, but not about sequences, take it as missing with unknown='missing' "
    "(in a shell: --unknown missing)"
)


@final
@dataclass(frozen=True, slots=True)
class Words:
    """Cells told by their different values: row i holds values[codes[i]], nothing where that is -1.

    Values of one type differ; they need not all be met. Whoever reads cells looks at each word once
    and takes what it found for the rows.
    """

    values: CellArray  # (k,) objects
    codes: Codes  # (n,) whole numbers

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Selection) -> Words:
        """The words of some rows: a slice, places, or which of them."""
        return Words(self.values, self.codes[rows])

    def taken(self, found: CellArray, nothing: object) -> CellArray:
        """What was `found` for each word, for every row; `nothing` where there is no word."""
        table = np.empty(len(found) + 1, dtype=found.dtype)
        table[:-1], table[-1] = found, nothing  # code -1 is the last one
        return table.take(self.codes)

    @property
    def met(self) -> Bools:
        """Which of the words some row holds: (k,)."""
        found = np.zeros(len(self.values) + 1, dtype=bool)
        found[self.codes] = True
        return found[:-1]


@final
@dataclass(frozen=True, slots=True)
class Values:
    """The cells of one column: an array or words, which of them are missing, and categories."""

    given: CellArray | Words  # numbers or objects
    missing: Bools | None = None  # (n,) bool; None: nothing is missing
    categories: tuple[Hashable, ...] | None = None
    first: int | None = 0  # row of the first cell in its table; None: in a part of it
    rows: Codes | None = None  # where not all are here: which cells these are

    def __len__(self) -> int:
        return len(self.given)

    @property
    def words(self) -> Words | None:
        return self.given if isinstance(self.given, Words) else None

    @property
    def cells(self) -> CellArray:
        """One by one; words are spelled out, so that many rows take their time."""
        given = self.given
        return given.taken(given.values, None) if isinstance(given, Words) else given

    @property
    def kind(self) -> str:
        """What numpy calls the type of the cells: O for objects."""
        return "O" if isinstance(self.given, Words) else self.given.dtype.kind

    def cell(self, row: int) -> Cell:
        given = self.given[row : row + 1]
        return (given.taken(given.values, None) if isinstance(given, Words) else given)[0]

    @property
    def present(self) -> CellArray:
        return self.cells if self.missing is None else self.cells[~self.missing]

    def where(self, kept: Selection) -> Values:
        """The cells of some rows only."""
        missing = None if self.missing is None else self.missing[kept]
        rows = (np.arange(len(self)) if self.rows is None else self.rows)[kept]
        return Values(self.given[kept], missing, self.categories, self.first, rows)

    def without(self, odd: Bools) -> Values:
        """The same with more cells missing."""
        gone = odd if self.missing is None else self.missing | odd
        return replace(self, missing=gone)

    def row(self, place: int) -> str:
        """The row of a cell, for who has to find it.

        >>> Values(np.zeros(3), first=1000).row(2)
        'row 1002'
        """
        return row_of(self.first, place if self.rows is None else int(self.rows[place]))


def row_of(first: int | None, place: int) -> str:
    """The row at some place of a block that begins at row `first`; None: nobody knows where."""
    return f"row {place} of its part" if first is None else f"row {first + place}"


def code_type(count: int) -> type[np.signedinteger[Any]]:
    """The narrowest type for codes of so many states, and −1 and −2."""
    return np.int8 if count <= 127 else np.int16 if count < 2**15 else np.int32


def find_words(cells: CellArray) -> Words | None:
    """The different values of an array, in the order they come; None: some cannot be hashed.

    Values of different types stay apart, for Python takes 1, 1.0 and True for one.

    >>> found = find_words(np.array(["b", 1, "b", True], dtype=object))
    >>> found.values.tolist(), found.codes.tolist()
    (['b', 1, True], [0, 1, 0, 2])
    """
    listed = cells.tolist()
    kinds = set(map(type, listed))
    mixed = len(kinds - {str, type(None)}) > 1  # text equals no other type's values
    try:  # dict and map: no step of the interpreter for a cell
        if mixed:
            pairs = dict.fromkeys(zip(map(type, listed), listed, strict=True))
            values = [value for _, value in pairs]
            place: dict[Label, int] = {key: k for k, key in enumerate(pairs)}
            found = map(place.__getitem__, zip(map(type, listed), listed, strict=True))
        else:
            values = list(dict.fromkeys(listed))
            place = {value: k for k, value in enumerate(values)}
            found = map(place.__getitem__, listed)
        codes = np.fromiter(found, np.int32, len(listed))
    except TypeError:  # a list or a dict
        return None
    return Words(as_objects(values), codes.astype(code_type(len(values)), copy=False))


def as_objects(values: Sequence[Cell]) -> CellArray:
    """An array of just these objects, be they lists."""
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def word_values(
    words: Words,
    missing: CellArray | None = None,
    categories: tuple[Hashable, ...] | None = None,
) -> Values:
    """Cells from words; None and words that differ from themselves (NaN, NaT) are missing."""
    words = Words(_without_decimals(words.values), words.codes)
    categories = categories and tuple(map(plain, categories))
    gone = np.fromiter(map(is_missing, words.values), bool, len(words.values))
    if gone.any():
        words = Words(words.values, np.where(words.taken(gone, True), -1, words.codes))
    away = words.codes < 0
    away = away if missing is None else away | missing
    return Values(words, away if away.any() else None, categories)


def _without_decimals(values: CellArray) -> CellArray:
    """Decimals of databases as the numbers they are; two that would become one are an error."""
    if not any(isinstance(value, Decimal) for value in values):
        return values
    found: dict[Label, Decimal] = {}
    for value in values:
        if isinstance(value, Decimal) and found.setdefault(plain(value), value) != value == value:
            raise DataError(
                f"a column holds {found[plain(value)]} and {value}, which are one number as "
                "floats. Round them, or make them text."
            )
    return as_objects([plain(v) if isinstance(v, Decimal) else v for v in values])


def is_missing(value: object) -> bool:
    """None, NaN, NaT and pandas.NA."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ArithmeticError):  # pandas.NA and a signalling NaN cannot be compared
        return True
    except ValueError:  # an array in a cell: no state, but not missing
        return False


def is_number(value: object) -> bool:
    """Integers and floats, Python's and numpy's; True and False are none.

    >>> is_number(1), is_number(np.float32(1)), is_number(True), is_number("1")
    (True, True, False, False)
    """
    if isinstance(value, np.generic):
        return value.dtype.kind in "iuf"
    return isinstance(value, int | float) and not isinstance(value, bool)


def to_values(values: Values, name: Label | None = None, advice: str = "") -> Array:
    """Numbers, NaN where missing; one that cannot be measured is an error, with `advice`."""
    cells = values.cells
    if cells.dtype.kind == "O" and values.missing is not None:
        cells = np.where(values.missing, np.nan, cells)
    try:
        x = cells.astype(float)
    except OverflowError:
        x = np.array([_as_float(cell) for cell in cells])
    if values.missing is not None:
        x[values.missing] = np.nan
    if np.isinf(x).any():
        row = int(np.isinf(x).argmax())
        raise _beyond_floats(values, row, name, advice)
    return x


def check_finite(values: Values, name: Label | None, advice: str = "") -> None:
    """Numbers of numpy: none of those that are there may be infinite."""
    if values.kind != "f":
        return
    infinite = np.isinf(values.cells)
    infinite = infinite if values.missing is None else infinite & ~values.missing
    if infinite.any():
        raise _beyond_floats(values, int(infinite.argmax()), name, advice)


def _beyond_floats(values: Values, row: int, name: Label | None, advice: str = "") -> DataError:
    """Why a number cannot be measured: it is infinite, or larger than all floats."""
    where = "" if name is None else f" in column {name!r} ({values.row(row)})"
    if isinstance(values.cell(row), int):
        return DataError(
            f"Input contains a whole number beyond the largest float (1.8e308){where}. Replace it, "
            f"or take logarithms{advice}."
        )
    return DataError(
        f"Input contains infinity{where}; expected finite numbers or missing cells (NaN). "
        f"Replace infinite values{advice}."
    )


def _as_float(cell: Cell) -> float:
    """Of a whole number beyond all floats: infinity."""
    try:
        return float(cell)
    except OverflowError:
        return math.inf if cell > 0 else -math.inf


def are_measurable(values: Values) -> Bools:
    """Which cells are finite numbers, as floats: (n,); of missing ones it does not matter."""
    if values.kind == "f":
        return np.isfinite(values.cells)
    found = are_numbers(values)
    if values.kind != "O" or not found.any():
        return found
    there = found if values.missing is None else found & ~values.missing
    cells = values.cells[there].tolist()
    found[there] = [math.isfinite(_as_float(cell)) for cell in cells]
    return found


def are_numbers(values: Values) -> Bools:
    """Which cells are numbers: (n,) bool; of those that are missing it does not matter."""
    if values.kind in "iuf":
        return np.ones(len(values), dtype=bool)
    words = find_words(values.cells) if values.words is None else values.words
    if words is None:
        return np.fromiter(map(is_number, values.cells.tolist()), bool, len(values))
    return words.taken(np.fromiter(map(is_number, words.values), bool, len(words.values)), False)


def first_odd(values: Values) -> tuple[int, Cell] | None:
    """Row and value of the first present cell that is no number; None: all are."""
    odd = ~are_numbers(values)
    odd = odd if values.missing is None else odd & ~values.missing
    row = int(odd.argmax()) if odd.any() else None
    return None if row is None else (row, plain(values.cell(row)))


def plain(value: object) -> Cell:
    """Python's own number or string for a numpy scalar; whole floats as they are.

    A `Decimal` is the number that the same cell is in a file of text: 1.10 is the float 1.1.

    >>> plain(np.int8(3)), plain(Decimal("1.10")), plain(Decimal("9007199254740993"))
    (3, 1.1, 9007199254740993)
    """
    if isinstance(value, Decimal):
        whole = value.is_finite() and value == value.to_integral_value()
        return int(value) if whole and abs(value) < WIDEST else float(value)
    return value.item() if isinstance(value, np.generic) else value


def distinct_states(cells: Iterable[Cell], name: Label | None = None) -> set[Cell]:
    """Different values; those that cannot be hashed cannot be states."""
    try:
        return {plain(v) for v in cells}
    except TypeError as error:
        where = "a column" if name is None else f"column {name!r}"
        raise DataError(
            f"{where} holds values that cannot be states ({error}). Make them text or numbers, or "
            "leave the column out of the graph."
        ) from None


def sorted_states(states: Iterable[Cell]) -> tuple[Hashable, ...]:
    """In the order of their kind; of several types: by type, then by what they print."""
    try:
        return tuple(sorted(states))
    except TypeError:
        return tuple(sorted(states, key=lambda s: (type(s).__name__, str(s))))
