"""Sketches: what a first pass over rows must tell of columns, as values that add up.

Of each column: Σ w of the cells with a value and without, its numbers, and its other states. Of
numbers: their ends with the weight there, the different numbers with their weights (of many, those
with the smallest hashes: the same ones whatever the blocks), and those that many rows share.
`a + b` is the sketch of both sets of rows. A table in memory is a sum of one block.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from latentia.data.columns.clock import Clock, told_clock
from latentia.data.columns.values import (
    EXACT,
    Values,
    Words,
    check_finite,
    distinct_states,
    find_words,
    is_number,
    sorted_states,
)
from latentia.errors import MomentsError
from latentia.typing import Array, Bools, Cell, CellArray, Label

MOST_VALUES = 1001  # one more than any discrete column may have
SAMPLE = 2**13  # different numbers that tell the range and shape of a continuous column
CLOSE = 2**16  # whole numbers within such a range are counted by a table
FEW_VALUES = 16  # small whole numbers that are counted one by one
LOOKED_AT = 2**12  # cells that tell which numbers may be frequent …
FREQUENT = 0.01  # … with such a share of a block

Number: TypeAlias = "float | np.integer | np.floating"
Numbers = CellArray
Ends = tuple[tuple[float, float], ...]


@final
@dataclass(frozen=True, slots=True)
class NumberSketch:
    """Numbers of some cells: what is needed to count or to measure them."""

    weight: float  # Σ w
    seen: Numbers  # different numbers, rising; at most SAMPLE
    weights: Array  # of each of them, exact
    whole: bool  # are these all different numbers?
    low: Ends  # the two smallest numbers and their weights, outermost first
    high: Ends
    frequent: Mapping[float, float]  # numbers that many rows share; all of them if `whole`

    def __add__(self, other: NumberSketch) -> NumberSketch:
        if not isinstance(other, NumberSketch):
            return NotImplemented
        seen, weights, whole = _merged(self, other)
        total = self.weight + other.weight
        return NumberSketch(
            weight=total,
            seen=seen,
            weights=weights,
            whole=whole,
            low=_outer([*self.low, *other.low]),
            high=_outer([*self.high, *other.high], -1.0),
            frequent=_often(seen, weights, total) if whole else _both_often(self, other),
        )


@final
@dataclass(frozen=True, slots=True)
class ColumnSketch:
    """Σ over the cells of one column."""

    rows: int  # cells, missing ones too
    weight: float  # Σ w of the rows that have a value
    missing: float  # Σ w of those that have none
    numbers: NumberSketch | None = None
    others: tuple[Hashable, ...] = ()  # different values that are no numbers, sorted
    odd: tuple[int, Cell] | None = (
        None  # row and value of the first cell that is no number (a time)
    )
    categories: tuple[Hashable, ...] | None = None  # declared states
    cells: int = 0  # that have a value, in rows of positive weight
    clock: Clock | None = None  # of times, which are among the numbers

    @property
    def different(self) -> int:
        """Different values; `MOST_VALUES` and more are not all counted."""
        return len(self.others) + (0 if self.numbers is None else len(self.numbers.seen))

    def __add__(self, other: ColumnSketch) -> ColumnSketch:
        if not isinstance(other, ColumnSketch):
            return NotImplemented
        if self.clock != other.clock and self.cells and other.cells:
            return without_clock(self) + without_clock(other)
        odd = self.odd
        if odd is None and other.odd is not None:
            odd = (self.rows + other.odd[0], other.odd[1])
        parts = [s.numbers for s in (self, other) if s.numbers is not None]
        return ColumnSketch(
            rows=self.rows + other.rows,
            weight=self.weight + other.weight,
            missing=self.missing + other.missing,
            numbers=parts[0] + parts[1] if len(parts) == 2 else next(iter(parts), None),
            others=_union(self.others, other.others),
            odd=odd,
            categories=_all_categories(self.categories, other.categories),
            cells=self.cells + other.cells,
            clock=self.clock or other.clock,
        )


@final
@dataclass(frozen=True, slots=True)
class TableSketch:
    """The sketches of all columns of a table."""

    rows: int
    weight: float
    columns: Mapping[Label, ColumnSketch] = field(default_factory=dict)

    def __add__(self, other: TableSketch) -> TableSketch:
        if not isinstance(other, TableSketch):
            return NotImplemented
        if self.columns.keys() != other.columns.keys():
            raise MomentsError("these sketches are of tables with different columns.")
        both = {name: mine + other.columns[name] for name, mine in self.columns.items()}
        return TableSketch(self.rows + other.rows, self.weight + other.weight, both)


def sketch_column(
    values: Values, weight: Array | None = None, name: Label | None = None
) -> ColumnSketch:
    """The sketch of the cells of one block; rows of weight zero are as if they were not there.

    >>> a, b = (sketch_column(Values(np.array(x))) for x in ([3, 1, 1], [2, 3]))
    >>> (a + b).numbers.seen.tolist(), (a + b).numbers.weights.tolist(), (a + b).weight
    ([1, 2, 3], [2.0, 1.0, 2.0], 5.0)
    """
    n = len(values)
    there = np.ones(n, dtype=bool) if values.missing is None else ~values.missing
    if weight is not None:
        there &= weight > 0
    whole = bool(there.all())
    cells = values.given if whole else values.given[there]
    own = weight if weight is None or whole else weight[there]
    count = float(len(cells)) if own is None else float(own.sum())
    total = float(n) if weight is None else float(weight.sum())
    blank = ColumnSketch(n, count, total - count, categories=values.categories, cells=len(cells))
    if not len(cells):
        return blank
    check_finite(values if whole else values.where(there), name)
    if isinstance(cells, Words):
        return _sketch_words(blank, cells, own, there)
    if cells.dtype.kind in "iuf":
        return replace(blank, numbers=sketch_numbers(cells, own))
    if cells.dtype.kind == "b":
        met = tuple(state for state in (False, True) if (cells == state).any())
        return replace(blank, others=met, odd=(int(np.argmax(there)), bool(cells[0])))
    words = find_words(cells)
    if words is None:
        distinct_states(cells, name)  # which tells why not
        raise AssertionError("cells that cannot be words cannot be states")
    return _sketch_words(blank, words, own, there)


def without_clock(sketch: ColumnSketch) -> ColumnSketch:
    """Times as states, each by itself."""
    if sketch.clock is None or sketch.numbers is None:
        return sketch
    seen = sketch.clock.times(sketch.numbers.seen.astype(float)).tolist()
    others = _cut(sorted_states(seen))
    return replace(sketch, numbers=None, others=others, clock=None)


def _sketch_words(
    blank: ColumnSketch, words: Words, own: Array | None, there: Bools
) -> ColumnSketch:
    """Words that are numbers like numbers, the others as they are."""
    met = words.met
    times = told_clock(words.values[met]) if blank.categories is None else None
    if times is not None:
        clock, seen = times
        table = np.zeros(len(met), dtype=seen.dtype)
        table[met] = seen
        odd = (int(np.flatnonzero(there)[0]), words.values[words.codes[0]])
        told = sketch_numbers(words.taken(table, 0), own)
        return replace(blank, numbers=told, odd=odd, clock=clock)
    is_one = met & np.fromiter(map(_is_finite, words.values), bool, len(met))
    found = _exact_numbers(words.values[is_one].tolist()) if is_one.any() else None
    if found is None:  # or beyond what numpy counts exactly: states like text
        is_one[:] = False
    rows = words.taken(is_one, False)
    numbers = None
    if found is not None:
        table = np.zeros(len(is_one), dtype=found.dtype)
        table[is_one] = found
        cells = words.taken(table, 0)[rows]
        numbers = sketch_numbers(cells, own if own is None else own[rows])
    if rows.all():
        return replace(blank, numbers=numbers)
    first = int(np.argmin(rows))
    others = _cut(sorted_states(distinct_states(words.values[met & ~is_one].tolist())))
    odd = (int(np.flatnonzero(there)[first]), words.values[words.codes[first]])
    return replace(blank, numbers=numbers, others=others, odd=odd)


def _is_finite(value: Cell) -> bool:
    """A number that can be measured; infinity among objects is a state like another."""
    return is_number(value) and abs(value) != math.inf


def _exact_numbers(listed: list[Cell]) -> Numbers | None:
    """Python's numbers as an array that holds each of them exactly; None: there is none."""
    found = np.array(listed)
    if found.dtype.kind != "i" and all(isinstance(v, int) and 0 <= v < 2**64 for v in listed):
        return np.array(listed, dtype=np.uint64)  # beside small ones numpy makes floats of them
    if found.dtype.kind == "f" and any(
        isinstance(v, int) and abs(v) > EXACT and int(float(v)) != v for v in listed
    ):
        return None
    return found if found.dtype.kind in "iuf" else None


# --- numbers --------------------------------------------------------------------------------------


def sketch_numbers(cells: Numbers, weight: Array | None = None) -> NumberSketch:
    """The sketch of numbers, none of them missing, all of positive weight."""
    total = float(len(cells)) if weight is None else float(weight.sum())
    if cells.dtype.kind == "f":
        cells = cells.astype(float, copy=False) + 0.0  # −0.0 is 0.0
    low, high = cells.min(), cells.max()
    counted = _counted_close(cells, weight, low, high)
    if counted is None:
        counted = _smallest_hashes(cells, weight)
    seen, weights, whole = counted
    if whole:
        often, x = _often(seen, weights, total), seen.astype(float)
        different = np.unique(x)
        low, high = x <= different[:2].max(), x >= different[-2:].min()
        lowest = _outer(_ends(x[low], weights[low]))
        highest = _outer(_ends(x[high], weights[high]), -1.0)
        return NumberSketch(total, seen, weights, True, lowest, highest, often)
    often = _frequent(cells, weight, total)
    lowest = _outer([_end(cells, weight, x) for x in (low, cells[cells > low].min())])
    highest = _outer([_end(cells, weight, x) for x in (high, cells[cells < high].max())], -1.0)
    return NumberSketch(total, seen, weights, False, lowest, highest, often)


def _counted_close(
    cells: Numbers, weight: Array | None, low: Number, high: Number
) -> tuple[Numbers, Array, bool] | None:
    """Whole numbers that lie close together, counted by a table; None where they do not."""
    width = int(high) - int(low) if abs(float(low)) < EXACT and abs(float(high)) < EXACT else CLOSE
    if width >= CLOSE:
        return None
    if cells.dtype.kind == "f" and not (cells[:LOOKED_AT] == np.rint(cells[:LOOKED_AT])).all():
        return None
    if cells.itemsize == 1 and width < FEW_VALUES and weight is None:
        met = np.arange(int(low), int(high) + 1).astype(cells.dtype)
        counts = np.array([np.count_nonzero(cells == v) for v in met])  # faster than a table
        return _fewest(met[counts > 0], counts[counts > 0].astype(float))
    place = cells.astype(np.int64) - int(low)
    if cells.dtype.kind == "f" and not (place + int(low) == cells).all():
        return None
    order = slice(None) if weight is None else np.lexsort((weight, place))
    counts = np.bincount(place[order], None if weight is None else weight[order])
    where = np.flatnonzero(counts)
    return _fewest((where + int(low)).astype(cells.dtype), counts[where].astype(float))


def _smallest_hashes(cells: Numbers, weight: Array | None) -> tuple[Numbers, Array, bool]:
    """The different numbers with the smallest hashes, rising, their weights, and: are these all?

    A cut by hash takes all cells of a number or none, so that weights are exact.
    """
    if len(np.unique(cells[:LOOKED_AT])) < LOOKED_AT / 2:  # many are equal: sort them all
        return _fewest(*_summed(cells, weight))
    keys = _hashes(cells)
    count = SAMPLE + 1
    while count < len(keys):
        cut = np.partition(keys, count - 1)[count - 1]
        kept = keys <= cut
        some = cells[kept]
        if len(np.unique(some)) > SAMPLE:
            seen, weights, _ = _fewest(*_summed(some, None if weight is None else weight[kept]))
            return seen, weights, False
        count *= 8
    return _fewest(*_summed(cells, weight))


def _summed(cells: Numbers, weight: Array | None) -> tuple[Numbers, Array]:
    """Different numbers, rising, and their weights."""
    if weight is None:
        seen, counts = np.unique(cells, return_counts=True)
        return seen, counts.astype(float)
    seen, place = np.unique(cells, return_inverse=True)
    order = np.lexsort((weight, place))  # so that sums do not depend on the order of the rows
    return seen, np.bincount(place[order], weight[order]).astype(float)


def _fewest(seen: Numbers, weights: Array) -> tuple[Numbers, Array, bool]:
    """At most SAMPLE of them, by their hashes."""
    if len(seen) <= SAMPLE:
        return seen, weights, True
    kept = np.sort(np.argsort(_hashes(seen), kind="stable")[:SAMPLE])
    return seen[kept], weights[kept], False


def _merged(a: NumberSketch, b: NumberSketch) -> tuple[Numbers, Array, bool]:
    """Different numbers of both, the weights of equal ones added."""
    both = _in_one_array(a.seen, b.seen)
    seen, place = np.unique(both, return_inverse=True)
    weights = np.bincount(place, np.concatenate([a.weights, b.weights])).astype(float)
    seen, weights, whole = _fewest(seen, weights)
    return seen, weights, whole and a.whole and b.whole


def _in_one_array(a: Numbers, b: Numbers) -> Numbers:
    """Both in a type that holds every number of either exactly."""
    both = np.concatenate([a, b])
    if both.dtype.kind != "f" or (a.dtype.kind == "f" and b.dtype.kind == "f"):
        return both
    if all(x.dtype.kind == "f" or _are_floats(x) for x in (a, b)):
        return both
    out = np.empty(len(both), dtype=object)
    out[:] = [*a.tolist(), *b.tolist()]  # Python compares 2⁵³ + 1 and 2.0⁵³ exactly
    return out


def _are_floats(x: Numbers) -> bool:
    return not len(x) or max(abs(int(x.min())), abs(int(x.max()))) <= EXACT


def _hashes(x: Numbers) -> NDArray[np.uint64]:
    """A number of 64 bits for each; equal for equal numbers of any type."""
    if x.dtype.kind == "O":
        return np.concatenate([_hashes(np.array([v])) for v in x.tolist()])
    if x.dtype.kind == "f" or _are_floats(x):
        bits = (x.astype(np.float64) + 0.0).view(np.uint64)
    else:
        near = x.astype(np.float64)
        inside = near < (2.0**63 if x.dtype.kind == "i" else 2.0**64)
        same = inside & (np.where(inside, near, 0.0).astype(x.dtype) == x)
        bits = np.where(same, near.view(np.uint64), x.astype(np.uint64) ^ np.uint64(2**63 - 25))
    with np.errstate(over="ignore"):  # splitmix64, whose outputs differ where its inputs do
        bits = bits + np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(bits ^ (bits >> np.uint64(31)))


def _frequent(cells: Numbers, weight: Array | None, total: float) -> dict[float, float]:
    """Numbers that FREQUENT of a block's rows share, with their weight in the block."""
    chosen = np.random.default_rng(len(cells)).integers(len(cells), size=LOOKED_AT)
    seen, weights = _summed(cells[chosen], None if weight is None else weight[chosen])
    likely = seen[weights >= 0.5 * FREQUENT * weights.sum()]
    found = {float(x): _weight_at(cells, weight, x) for x in likely.tolist()}
    return {x: w for x, w in found.items() if w >= FREQUENT * total}


def _often(seen: Numbers, weights: Array, total: float) -> dict[float, float]:
    """Those among numbers that are all known."""
    chosen = weights >= FREQUENT * total
    return dict(zip(map(float, seen[chosen].tolist()), weights[chosen].tolist(), strict=True))


def _both_often(a: NumberSketch, b: NumberSketch) -> dict[float, float]:
    """Those of two sets of rows; half the share is enough to stay, so that later rows may add."""
    found = dict(a.frequent)
    for x, w in b.frequent.items():
        found[x] = found.get(x, 0.0) + w
    return {x: w for x, w in found.items() if w >= 0.5 * FREQUENT * (a.weight + b.weight)}


def _weight_at(cells: Numbers, weight: Array | None, x: Number) -> float:
    met = cells == x
    return float(np.count_nonzero(met)) if weight is None else float(weight[met].sum())


def _end(cells: Numbers, weight: Array | None, x: Number) -> tuple[float, float]:
    return float(x), _weight_at(cells, weight, x)


def _ends(x: Array, weights: Array) -> list[tuple[float, float]]:
    """Numbers with their weights; large whole ones may be one number as floats."""
    return list(zip(x.tolist(), weights.tolist(), strict=True))


def _outer(ends: list[tuple[float, float]], sign: float = 1.0) -> Ends:
    """The two outermost, outermost first; the weights of equal ones add up."""
    found: dict[float, float] = {}
    for x, w in ends:
        found[x] = found.get(x, 0.0) + w
    return tuple(heapq.nsmallest(2, found.items(), key=lambda end: sign * end[0]))


# --- other states ---------------------------------------------------------------------------------


def _union(a: tuple[Hashable, ...], b: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
    """Different values of both, in a fixed order, as many as tell that they are too many."""
    if not a or not b or a == b:
        return a or b
    return _cut(sorted_states(distinct_states([*a, *b])))


def _cut(states: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
    return states[:MOST_VALUES]


def _all_categories(
    a: tuple[Hashable, ...] | None, b: tuple[Hashable, ...] | None
) -> tuple[Hashable, ...] | None:
    if a is None or b is None or a == b:
        return b if a is None else a
    return (*a, *(state for state in b if state not in set(a)))
