"""Rows in memory, folded block by block on all cores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import TypeVar, final

import numpy as np

from latentia.data.rows import Additive, Rows
from latentia.data.sources.all_cores import in_parallel
from latentia.data.sources.progress import answer_progress
from latentia.data.sources.row_sketch import every_row, sketch_rows
from latentia.typing import Array, Codes, TableLike

Sum = TypeVar("Sum", bound=Additive)

BLOCK_ROWS = 2**15
MANY_BLOCKS, SHARE = 8, 4  # of so many, the last two are cut into such shares of a block
LOOKED_AT = 2000
FEW_CELLS = 16  # times the rows
COUNTED_ROWS = 2**18  # at a time, or as many as there are joint states
MANY_EQUAL = 0.6  # different rows among those looked at
MANY_ROWS, PAIRED_ROWS = 2**17, 2**14  # to sort so many takes long: pairs of some are looked at


@final
@dataclass(frozen=True, slots=True)
class LocalRows:
    """A source over rows in memory. The blocks, not the cores, decide the order of the sums."""

    rows: Rows
    block_rows: int = BLOCK_ROWS
    threads: int | None = None  # None: one per core

    def fold(self, summary: Callable[[Rows], Sum]) -> Sum:
        blocks = even_blocks(len(self.rows), self.block_rows)
        return reduce(add, in_parallel(lambda b: summary(self.rows[b]), blocks, self.threads))

    def sample(self, size: int, rng: np.random.Generator) -> Rows:
        """About `size` rows, drawn by weight; all of them with their weights if they are few."""
        seed = int(rng.integers(2**31))  # drawn in any case: what comes next depends on it
        few = every_row(self.rows, size)
        return self.fold(partial(sketch_rows, size, seed)).draw() if few is None else few


def even_blocks(rows: int, most: int) -> list[slice]:
    """Blocks of at most so many rows: alike, and the last of many small: cores end together.

    >>> even_blocks(100, 40)
    [slice(0, 25, None), slice(25, 50, None), slice(50, 75, None), slice(75, 100, None)]
    >>> [part.stop - part.start for part in even_blocks(1000, 125)]
    [125, 125, 125, 125, 125, 125, 32, 32, 32, 32, 32, 32, 32, 26]
    """
    blocks = -(-rows // most)
    step = most if blocks < 2 else -(-rows // (blocks + blocks % 2))
    large = rows if blocks < MANY_BLOCKS else rows - 2 * step
    small = -(-step // SHARE)
    found = [slice(a, min(a + step, large)) for a in range(0, max(large, 1), step)]
    return found + [slice(a, min(a + small, rows)) for a in range(large, rows, small)]


def told_in_blocks(work: Iterator[TableLike], blocks: int, rows: int) -> None:
    """Go through work on so many blocks, which answer for so many rows; tell how far it is."""
    told = answer_progress()
    told.begin(rows)
    for k, _ in enumerate(work):
        told.advance(rows * (k + 1) // blocks - rows * k // blocks)
    told.end()


def compress(rows: Rows, states: Sequence[int]) -> Rows:
    """Equal rows once, with their weight, where the joint states are fewer than the rows."""
    holed = [int(c.min(initial=0) < 0) for c in rows.codes]  # a missing cell is a state of its own
    sizes = [m + more for m, more in zip(states, holed, strict=True)]
    cells = math.prod(sizes)
    if not 0 < cells <= len(rows):
        return rows
    counts = np.zeros(cells)
    step = max(cells, COUNTED_ROWS)
    for part in (slice(a, min(a + step, len(rows))) for a in range(0, len(rows), step)):
        narrow = np.int32 if cells < 2**31 else np.int64
        joint: Codes = np.zeros(part.stop - part.start, dtype=narrow)
        for codes, m, more in zip(rows.codes, sizes, holed, strict=True):
            joint *= m
            joint += codes[part]
            joint += more
        weight: Array | None = None if rows.weight is None else rows.weight[part]
        counts += np.bincount(joint, weight, minlength=cells)
    found = np.flatnonzero(counts)
    cell = zip(np.unravel_index(found, sizes), holed, rows.codes, strict=True)
    return Rows(tuple((c - more).astype(old.dtype) for c, more, old in cell), counts[found])


def counted_once(rows: Rows, states: Sequence[int]) -> Rows:
    """Equal rows once, with their weight, where a look at some of them says that it pays."""
    step = max(1, len(rows) // LOOKED_AT)
    if step < 2 or rows.weight is not None or any(c.dtype.kind == "f" for c in rows.codes):
        return rows
    shifted = Rows(tuple(c + 1 for c in rows.codes))  # a missing cell is a state of its own
    sizes = [m + 1 for m in states]
    some = unique_rows(Rows(tuple(c[::step] for c in shifted.codes)), sizes)
    if some.weight is None or len(some) > MANY_EQUAL * len(shifted.codes[0][::step]):
        return rows
    found = unique_rows(shifted, sizes)
    codes = zip(found.codes, rows.codes, strict=True)
    return Rows(tuple((c - 1).astype(old.dtype) for c, old in codes), found.weight)


def unique_rows(rows: Rows, states: Sequence[int]) -> Rows:
    """Equal rows once, with their weight, found by sorting; as they are where most rows differ.

    Codes must not be negative.
    """
    cells = math.prod(states)
    if rows.weight is None and cells <= FEW_CELLS * len(rows):  # counting is faster than sorting
        joint: Codes = np.zeros(len(rows), dtype=np.int64)
        for codes, m in zip(rows.codes, states, strict=True):
            joint = joint * m + codes
        counts = np.bincount(joint, minlength=cells)
        found = np.flatnonzero(counts)
        if len(found) > 0.9 * len(rows):
            return rows
        cell = np.unravel_index(found, list(states))
        small = [c.astype(old.dtype) for c, old in zip(cell, rows.codes, strict=True)]
        return Rows(tuple(small), counts[found].astype(float))
    if len(rows) > MANY_ROWS and _few_equal(rows, states):
        return rows
    first, place = equal_rows(rows.codes, states)
    if len(first) > 0.9 * len(rows):
        return rows
    weight = np.bincount(place, rows.weight).astype(float)
    return Rows(tuple(c[first] for c in rows.codes), weight)


def _few_equal(rows: Rows, states: Sequence[int]) -> bool:
    """Do less than a tenth of the rows have a twin, as pairs among some of them tell?

    A row has n Σ p² others like it; of m rows, m² Σ p² / 2 pairs are alike.
    """
    n, m = len(rows), PAIRED_ROWS
    some = np.random.default_rng(0).choice(n, m, replace=False, shuffle=False)
    met = np.bincount(equal_rows([c[some] for c in rows.codes], states)[1])
    return bool(float((met * (met - 1)).sum()) / 2 * n < 0.1 * m**2)


def equal_rows(columns: Sequence[Codes], states: Sequence[int]) -> tuple[Codes, Codes]:
    """One row of each kind, and the kind of every row; codes must not be negative.

    >>> equal_rows([np.array([1, 0, 1]), np.array([0, 0, 0])], [2, 2])
    (array([1, 0]), array([1, 0, 1]))
    """
    joint: Codes = np.zeros(len(columns[0]), dtype=np.int64)
    cells = 1
    for codes, m in zip(columns, states, strict=True):
        if cells * m >= 2**62:  # number the different ones so far
            joint = np.unique(joint, return_inverse=True)[1]
            cells = int(joint.max(initial=0)) + 1
        joint = joint * m + codes
        cells *= m
    _, first, place = np.unique(joint, return_index=True, return_inverse=True)
    return first, place
