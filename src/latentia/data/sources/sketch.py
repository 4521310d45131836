"""Sketches: what a first pass over rows must tell, as values that add up like any other sum.

Of each column: Σ 1, Σ missing, its different values up to a limit, and of numbers min, max, Σ x and
Σ x². `a + b` is the sketch of both sets of rows, in either order. Whole rows: see `row_sketch`.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from latentia.data.columns.continuous import MANY_INTEGERS
from latentia.data.columns.discrete import MANY_FLOATS, MOST_STATES, Values, distinct_states
from latentia.errors import MomentsError
from latentia.typing import Array, Label

MOST_VALUES = MOST_STATES + 1  # one more than any discrete column may have
SAMPLE = 2**13  # numbers that tell the range and shape of a continuous column
BLOCK_SAMPLE = 2**11  # of one block
FEW_VALUES = 16  # small whole numbers that are counted one by one


@final
@dataclass(frozen=True, slots=True)
class ColumnSketch:
    """Σ over the cells of one column."""

    weight: float  # Σ w of the rows that have a value
    missing: float  # Σ w of those that have none
    values: np.ndarray[Any, Any] | None  # the smallest different values; None: no value yet
    categories: tuple[Hashable, ...] | None = None  # declared states
    low: float = np.inf
    high: float = -np.inf
    total: float = 0.0  # Σ w x of numbers
    squares: float = 0.0  # Σ w x²
    sample: Array = field(default_factory=lambda: np.zeros((2, 0)))  # keys, numbers; in any order

    @property
    def many(self) -> bool:
        """More different values than a discrete column may have: not all of them were kept."""
        return self.values is not None and len(self.values) >= MOST_VALUES

    def cells(self, kind: str | None = None) -> Values:
        """The column's different values, as if they were its cells.

        Of a continuous column: a sample of its numbers, with the smallest and the largest.
        """
        kept = np.zeros(0) if self.values is None else self.values
        many = len(kept) > MANY_FLOATS if kind is None else kind == "continuous"
        if many and kept.dtype.kind in "iuf" and self.categories is None:
            whole = len(kept) <= MANY_INTEGERS and bool((kept == np.rint(kept)).all())
            if kind == "continuous" or not whole:
                numbers = self.sample[1, np.argsort(self.sample[0], kind="stable")]
                if len(numbers) < self.weight:  # not all of them
                    numbers = np.concatenate([numbers, [self.low, self.high]])
                return Values(numbers.astype(kept.dtype), None, None)
        return Values(kept, None, self.categories)

    def __add__(self, other: ColumnSketch) -> ColumnSketch:
        if not isinstance(other, ColumnSketch):
            return NotImplemented
        return ColumnSketch(
            weight=self.weight + other.weight,
            missing=self.missing + other.missing,
            values=_union(self.values, other.values),
            categories=_all_categories(self.categories, other.categories),
            low=min(self.low, other.low),
            high=max(self.high, other.high),
            total=self.total + other.total,
            squares=self.squares + other.squares,
            sample=_smallest_keys(np.concatenate([self.sample, other.sample], axis=1)),
        )


@final
@dataclass(frozen=True, slots=True)
class TableSketch:
    """The sketches of all columns of a table."""

    rows: int
    weight: float
    columns: Mapping[Label, ColumnSketch]

    def __add__(self, other: TableSketch) -> TableSketch:
        if not isinstance(other, TableSketch):
            return NotImplemented
        if self.columns.keys() != other.columns.keys():
            raise MomentsError("these sketches are of tables with different columns.")
        both = {name: mine + other.columns[name] for name, mine in self.columns.items()}
        return TableSketch(self.rows + other.rows, self.weight + other.weight, both)


def sketch_column(values: Values, weight: Array | None = None) -> ColumnSketch:
    """The sketch of the cells of one block.

    >>> a, b = (sketch_column(Values(np.array(x))) for x in ([3, 1, 1], [2, 3]))
    >>> (a + b).values.tolist(), (a + b).weight, (a + b).high
    ([1, 2, 3], 5.0, 3.0)
    """
    n, there = len(values.cells), None if values.missing is None else ~values.missing
    own = weight if weight is None or there is None else weight[there]
    cells = values.present
    count = float(len(cells)) if own is None else float(own.sum())
    gone = (float(n) if weight is None else float(weight.sum())) - count
    if not len(cells):
        return ColumnSketch(count, gone, None, values.categories)
    if cells.dtype.itemsize == 1 and cells.dtype.kind in "iub":
        return _sketch_bytes(values, cells, own, (count, gone))
    kept = _union(None, cells)
    if cells.dtype.kind not in "iufb":
        return ColumnSketch(count, gone, kept, values.categories)
    x = cells.astype(float)
    y = x if own is None else x * own
    with np.errstate(over="ignore", invalid="ignore"):  # such a column is refused by its values
        sums = (float(x.min()), float(x.max()), float(y.sum()), float(y @ x))
    return ColumnSketch(*(count, gone, kept, values.categories), *sums, _sample_numbers(cells, own))


def _sketch_bytes(
    values: Values, cells: np.ndarray[Any, Any], own: Array | None, weights: tuple[float, float]
) -> ColumnSketch:
    """Of small whole numbers: there are few different ones, and their counts tell the rest."""
    kept, counts, sums = _counted_bytes(cells, own)
    x = kept.astype(float)
    y = x * sums
    if own is None and len(cells) > BLOCK_SAMPLE:
        # a cell at random is a value at random, by its count
        rng = np.random.default_rng(zlib.crc32(cells[:BLOCK_SAMPLE].tobytes() + counts.tobytes()))
        keys = rng.random(BLOCK_SAMPLE) / (len(cells) / BLOCK_SAMPLE)
        places = rng.integers(len(cells), size=BLOCK_SAMPLE)
        drawn = x[np.searchsorted(np.cumsum(counts), places, side="right")]
        sample = _smallest_keys(np.stack([keys, drawn]))
    else:
        sample = _sample_numbers(cells, own)
    return ColumnSketch(
        *(*weights, kept, values.categories),
        *(float(x[0]), float(x[-1]), float(y.sum()), float(y @ x)),
        sample,
    )


def _counted_bytes(
    cells: np.ndarray[Any, Any], own: Array | None
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], Array]:
    """The different values, rising, how many cells each has, and their weight."""
    low, high = int(cells.min()), int(cells.max())
    if high - low < FEW_VALUES:  # comparing is ten times faster than counting all 256
        met = np.arange(low, high + 1).astype(cells.dtype)
        counts = np.array([np.count_nonzero(cells == v) for v in met])
    else:
        met = np.arange(256).astype(np.uint8).view(cells.dtype)
        counts = np.bincount(cells.view(np.uint8), minlength=256)
    order = np.argsort(met, kind="stable")
    order = order[counts[order] > 0]
    kept, counts = met[order], counts[order]
    if own is None:
        return kept, counts, counts.astype(float)
    by_byte: Array = np.bincount(cells.view(np.uint8), own, 256).astype(float)
    return kept, counts, by_byte[kept.view(np.uint8)]


def _sample_numbers(cells: np.ndarray[Any, Any], weight: Array | None) -> Array:
    """Some cells of a block, each with the key u / w by which some of all blocks are kept."""
    rng = np.random.default_rng(zlib.crc32(np.ascontiguousarray(cells).tobytes()))
    count = min(len(cells), BLOCK_SAMPLE)
    whole = count == len(cells)
    chosen = np.arange(count) if whole else rng.integers(len(cells), size=count)
    own = np.ones(count) if weight is None else weight[chosen]
    keys = rng.random(count) / np.maximum(own * (len(cells) / count), 1e-300)
    return _smallest_keys(np.stack([keys, cells[chosen].astype(float)]))


def _smallest_keys(sample: Array) -> Array:
    """The columns of the smallest keys, in any order."""
    if sample.shape[1] <= SAMPLE:
        return sample
    return np.asarray(sample[:, np.argpartition(sample[0], SAMPLE - 1)[:SAMPLE]])


def _union(
    a: np.ndarray[Any, Any] | None, b: np.ndarray[Any, Any] | None
) -> np.ndarray[Any, Any] | None:
    """Different values of both, in a fixed order, the smallest ones only."""
    parts = [x for x in (a, b) if x is not None and len(x)]
    if not parts:
        return None
    if all(x.dtype.kind in "iufb" for x in parts):
        found = np.unique(np.concatenate(parts))
        return found[:MOST_VALUES]
    seen = distinct_states(v for x in parts for v in x.tolist())
    try:
        ordered = sorted(seen)
    except TypeError:  # values of several types
        ordered = sorted(seen, key=lambda s: (type(s).__name__, str(s)))
    out = np.empty(min(len(ordered), MOST_VALUES), dtype=object)
    out[:] = ordered[:MOST_VALUES]
    return out


def _all_categories(
    a: tuple[Hashable, ...] | None, b: tuple[Hashable, ...] | None
) -> tuple[Hashable, ...] | None:
    if a is None or b is None or a == b:
        return b if a is None else a
    return (*a, *(state for state in b if state not in set(a)))
