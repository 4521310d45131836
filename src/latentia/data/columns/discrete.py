"""Discrete columns: their states in a fixed order, and values as codes.

States are sorted: numbers by size, strings by letter, False before True; categorical columns keep
the order of their categories. Missing values (NaN, None, null) get the code -1. Whole numbers are
compared as whole numbers, however large.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from latentia.data.columns.labels import printed_apart
from latentia.data.columns.values import (
    LENIENT,
    Values,
    as_objects,
    check_finite,
    code_type,
    find_words,
    plain,
)
from latentia.data.columns.values import distinct_states as distinct_states
from latentia.data.columns.values import sorted_states as sorted_states
from latentia.errors import DataError, EvidenceError, UnknownNameError
from latentia.typing import Array, Bools, Cell, CellArray, Codes, Label

UNKNOWN = -2  # the code of a value that is no state
WIDEST_TABLE = 2**16  # whole numbers so close together are looked up in a table


@final
@dataclass(frozen=True, slots=True)
class DiscreteColumn:
    """A column and its states; code k stands for states[k]."""

    name: Label
    states: tuple[Hashable, ...]
    kind: ClassVar[str] = "discrete"
    continuous: ClassVar[bool] = False
    curved: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self.states:
            raise DataError(f"column {self.name!r} has no states.")
        if len(set(self.states)) != len(self.states):
            raise DataError(f"the states of {self.name!r} must differ, got {list(self.states)}.")

    def code(self, state: Cell) -> int:
        """The code of one state."""
        try:
            return self.states.index(plain(state))
        except (ValueError, TypeError):  # pandas.NA and arrays cannot be compared
            raise UnknownNameError(
                f"state of {self.name!r}",
                state,
                self.states,
                "Pass one of the states, or leave the variable out to marginalise it.",
            ) from None

    @property
    def cells(self) -> int:
        return len(self.states)

    @property
    def labels(self) -> tuple[Cell, ...]:
        return self.states

    @property
    def summary_names(self) -> tuple[Cell, ...]:
        """The states; those that print alike (1 and '1') as Python writes them."""
        return printed_apart(self.states, f"the states of {self.name!r}")

    @property
    def summary_type(self) -> type:
        return float

    @property
    def answer_type(self) -> type:
        kinds = {type(s) for s in self.states}
        if kinds <= {bool}:
            return bool
        if kinds <= {int}:
            return _whole_type([s for s in self.states if isinstance(s, int)])
        exact = kinds <= {int, float} and all(map(_is_float, self.states))
        return float if exact else str

    def place(self, values: Values) -> Codes:
        """Codes of the cells, -1 where missing; an unseen state is an error."""
        return encode(self, values)

    def known(self, values: Values) -> tuple[Values, Bools]:
        return without_unknown(self, values)

    def beyond(self, values: Values) -> Bools:
        return np.zeros(len(values), dtype=bool)

    def nothing(self, count: int) -> Codes:
        return np.full(count, -1, dtype=np.int8)

    def present(self, places: Codes) -> Bools:
        return np.asarray(places >= 0)

    def corners(self, places: Codes) -> tuple[Codes, Array]:
        """The cell itself, with weight one; one beyond the last where missing."""
        return np.where(places < 0, self.cells, places).astype(np.int64)[None], np.ones(
            (1, len(places))
        )

    def nearest(self, places: Codes) -> Codes:
        return places

    def coordinates(self, places: Codes) -> Array:
        """Codes as numbers, NaN where missing."""
        return np.where(places < 0, np.nan, places)

    def place_of(self, state: Cell) -> Codes:
        return np.array([self.code(state)])

    def told(self, state: Cell) -> Values:
        return Values(as_objects([state]))

    def is_range(self, told: Cell) -> bool:
        return False

    def likelihood(self, given: Cell) -> Array:
        """By states; those that are not named have none."""
        if not isinstance(given, Mapping):
            raise EvidenceError(
                f"soft evidence of {self.name!r} is likelihoods of its states, such as "
                f"{{{self.states[0]!r}: 0.8}}; got {type(given).__name__}."
            )
        found = np.zeros(len(self.states))
        for state, likelihood in given.items():
            found[self.code(state)] = self._number(state, likelihood)
        return found

    def _number(self, state: Cell, likelihood: Cell) -> float:
        try:
            return float(likelihood)
        except (TypeError, ValueError, OverflowError):
            raise EvidenceError(
                f"expected a number as likelihood of {state!r} of {self.name!r}, got "
                f"{likelihood!r}."
            ) from None

    def measured(self, values: Values) -> Array:
        return self.coordinates(self.place(values))

    def log_slope(self, values: Values) -> Array:
        return np.zeros(len(values))

    def of_places(self, places: Codes) -> Array:
        return self.coordinates(places)

    def of_measures(self, measures: Array) -> CellArray:
        return self.answers(measures)

    def best(self, p: Array) -> Array:
        """The most probable code, (n,)."""
        return np.asarray(p.argmax(axis=0), dtype=float)

    def answers(self, best: CellArray) -> CellArray:
        return decode(self, np.asarray(best).astype(np.int64))

    def settled(self, best: CellArray) -> CellArray:
        return best

    def filled(self, values: Values, best: CellArray) -> CellArray:
        """The cells of a table, with the states of `best` codes where they are missing."""
        codes = encode(self, values)
        return decode(self, np.where(codes < 0, np.asarray(best).astype(np.int64), codes))

    def summary(self, p: Array) -> Array:
        return p

    def spelled(self, x: Array) -> CellArray:
        """Probabilities stay what they are."""
        return x

    def log_factor(self, values: Values) -> Array:
        """Probabilities need no factor."""
        return np.zeros(len(values))

    def log_units(self, places: Codes) -> Array:
        return np.zeros(len(places))

    def bins(self, places: Codes, most: int) -> Codes:
        return np.where(places < 0, -1, places).astype(np.int64)

    def bin_names(self, most: int) -> tuple[Cell, ...]:
        return self.states

    def draw(self, cells: Codes, rng: np.random.Generator) -> CellArray:
        return decode(self, cells)


def encode(column: DiscreteColumn, values: Values) -> Codes:
    """Codes of the cells, -1 where missing; an unseen state is an error.

    >>> encode(DiscreteColumn("D", (1, 3)), Values(np.array([3, 1, 3]))).tolist()
    [1, 0, 1]
    """
    codes = _find_codes(column, values)
    if codes.min(initial=0) < -1:
        check_finite(values, column.name, LENIENT)
        row = int(np.argmax(codes < -1))
        raise UnknownNameError(
            f"state of {column.name!r} ({values.row(row)})",
            plain(values.cell(row)),
            column.states,
            f"Map it to a known state or make the cell missing (None or NaN){LENIENT}.",
        )
    return codes.astype(code_type(len(column.states)), copy=False)


def without_unknown(column: DiscreteColumn, values: Values) -> tuple[Values, CellArray]:
    """The cells with those that are no state made missing; and which these are.

    >>> without_unknown(DiscreteColumn("D", (1, 3)), Values(np.array([3, 2])))[1].tolist()
    [False, True]
    """
    odd = np.asarray(_find_codes(column, values) < -1)
    if not odd.any():
        return values, odd
    return values.without(odd), odd


def decode(column: DiscreteColumn, codes: Codes) -> CellArray:
    """States of codes, in the plainest array that holds each of them exactly."""
    states = np.empty(len(column.states), dtype=object)
    states[:] = column.states
    kinds = {type(s) for s in column.states}
    kind = column.answer_type
    if kinds <= {int, float, bool} and kind is not str:
        numbers: CellArray = states.astype(kind)
        if numbers.tolist() == list(column.states):  # 2⁵³ + 1 and ½ are no floats together
            return numbers[codes]
    return states[codes]


def _whole_type(states: Sequence[int]) -> type:
    """The plainest type that holds these integers: of 64 bits, or text.

    >>> _whole_type([-1, 7]), _whole_type([2**63]), _whole_type([-1, 2**63])
    (<class 'int'>, <class 'numpy.uint64'>, <class 'str'>)
    """
    low, high = min(states), max(states)
    if low >= -(2**63) and high < 2**63:
        return int
    return np.uint64 if low >= 0 and high < 2**64 else str


def _find_codes(column: DiscreteColumn, values: Values) -> Codes:
    """-1 where missing, -2 for a value that is no state."""
    kind = values.kind
    numbers = all(isinstance(s, int | float) for s in column.states)
    if kind in "iub" and numbers:
        codes = _whole_codes(column, values)
    elif kind == "f" and numbers:
        codes = _float_codes(column.states, values.cells)
    else:
        codes = _object_codes(column.states, values)
    if values.missing is not None:
        codes[values.missing] = -1
    return codes


def _whole_codes(column: DiscreteColumn, values: Values) -> Codes:
    """Codes of integers, compared as integers; their own type may be too narrow to subtract in."""
    cells = values.cells.view(np.uint8) if values.cells.dtype.kind == "b" else values.cells
    states: tuple[Cell, ...] = column.states
    known = [(int(s), k) for k, s in enumerate(states) if _is_whole(s)]
    if not known or not len(cells):
        return np.full(len(cells), UNKNOWN, dtype=np.int64)
    low, high = min(known)[0], max(known)[0]
    if high - low < WIDEST_TABLE and low > -(2**62) and high < 2**62:
        return _close_codes(cells, known, low, high, values.missing is None)
    kind = np.iinfo(cells.dtype)
    there = sorted((s, k) for s, k in known if kind.min <= s <= kind.max)
    if not there:
        return np.full(len(cells), UNKNOWN, dtype=np.int64)
    rising = np.array([s for s, _ in there], dtype=cells.dtype)
    return _looked_up(rising, np.array([k for _, k in there]), cells)


def _close_codes(
    cells: CellArray, known: list[tuple[int, int]], low: int, high: int, whole: bool
) -> Codes:
    """Of states that lie close together: their distance from the first, or a table of it."""
    first, last = int(cells.min()), int(cells.max())
    inside = low <= first and last <= high
    in_order = all(s == low + k for k, (s, _) in enumerate(known)) and len(known) == high - low + 1
    if in_order and inside and [k for _, k in known] == list(range(len(known))):
        if not low and cells.dtype == np.int8 and whole:
            return cells  # codes already, and nobody writes into codes
        most = np.iinfo(cells.dtype)
        if cells.dtype.kind == "i" and most.min <= low and high <= most.max >= high - low:
            return np.asarray(cells - cells.dtype.type(low))
        return np.asarray(cells.astype(np.int64) - low)
    table = np.full(high - low + 3, UNKNOWN, dtype=np.int32)  # one more on either side
    for s, k in known:
        table[s - low + 1] = k
    if inside:
        return np.asarray(table[cells.astype(np.int64) - low + 1])
    odd = (cells < low) | (cells > high)  # numpy compares whole numbers of any type exactly
    place = np.where(odd, 0, cells.astype(np.int64) - low + 1)
    return np.asarray(np.where(odd, UNKNOWN, table[place]))


def _float_codes(states: tuple[Cell, ...], cells: CellArray) -> Codes:
    """Codes of floats; a state that is no float (2⁵³ + 1) is met by none."""
    there = sorted((float(s), k) for k, s in enumerate(states) if _is_float(s))
    if not there:
        return np.full(len(cells), UNKNOWN, dtype=np.int64)
    known = np.array([s for s, _ in there])
    return _looked_up(known, np.array([k for _, k in there]), cells.astype(float, copy=False))


def _looked_up(known: CellArray, codes: Codes, cells: CellArray) -> Codes:
    """Codes of cells among rising values of the same type."""
    place = np.minimum(np.searchsorted(known, cells), len(known) - 1)
    return np.where(known[place] == cells, codes[place], UNKNOWN).astype(np.int64)


def _is_whole(state: Cell) -> bool:
    return isinstance(state, int) or (isinstance(state, float) and state.is_integer())


def _is_float(state: Cell) -> bool:
    try:
        return bool(float(state) == state)
    except OverflowError:  # a whole number beyond all floats
        return False


def _object_codes(states: tuple[Hashable, ...], values: Values) -> Codes:
    """Each different value is looked up once."""
    code: Mapping[Cell, int] = {s: k for k, s in enumerate(states)}
    words = find_words(values.cells) if values.words is None else values.words
    if words is None:  # a list or a dict is no state
        cells = values.cells.tolist()
        listed = [code.get(plain(v), UNKNOWN) if _hashable(v) else UNKNOWN for v in cells]
        return np.array(listed, dtype=np.int64)
    found = [code.get(plain(v), UNKNOWN) for v in words.values.tolist()]
    return words.taken(np.array(found, dtype=code_type(len(states))), -1)


def _hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
