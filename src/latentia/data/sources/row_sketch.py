"""A sketch of whole rows: a weighted random sample, and all different rows while they are few.

Priority sampling: `a + b` is the sketch of both sets of rows, in either order. Which rows a block
gives, and their order in the end, depend on colours, not on what states and columns are called.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from latentia.data.row_colours import by_colour, rising, row_colours
from latentia.data.rows import Rows
from latentia.errors import MomentsError
from latentia.typing import Array, CellArray, Codes

if TYPE_CHECKING:
    from latentia.data.columns.column import Places

FEW_ROWS = 2**12  # enough of a block to see that its rows differ


@final
@dataclass(frozen=True, slots=True)
class RowSketch:
    """Some of many rows: those of smallest u / w, u uniform, and all different ones while few.

    With τ the smallest key left out, a row kept stands for max(w, 1/τ) rows (priority sampling):
    sums over the sample are unbiased whatever the weights.
    """

    size: int
    keys: Array  # (at most size + 1,), rising
    rows: Rows  # in the order of the keys; weights are those they came with
    all_rows: Rows | None  # every row; None: too many differ
    once: bool = True  # equal ones among them once

    def __add__(self, other: RowSketch) -> RowSketch:
        if not isinstance(other, RowSketch):
            return NotImplemented
        if self.size != other.size:
            raise MomentsError(f"these samples are of {self.size} and {other.size} rows.")
        keys = np.concatenate([self.keys, other.keys])
        order = np.argsort(keys, kind="stable")[: self.size + 1]
        few, once = None, False
        if self.all_rows is not None and other.all_rows is not None:
            few = _joined(self.all_rows, other.all_rows)
            if len(few) > 2 * self.size:  # so that sorting is rare, however many blocks there are
                few, once = distinct_rows(few, self.size), True
        both = _joined(self.rows, other.rows)
        return RowSketch(self.size, keys[order], _taken(both, order), few, once)

    def draw(self) -> Rows:
        """All rows with their weights if they are few; else about `size` of them, as one each."""
        every = self.whole()
        if every is not None:
            return every
        kept = _taken(self.rows, np.arange(min(self.size, len(self.keys))))
        if len(self.keys) > self.size:
            weight = np.maximum(kept.weights, 1.0 / self.keys[self.size])
            kept = Rows(kept.codes, weight * (self.size / weight.sum()))
        return by_colour(kept)

    def whole(self) -> Rows | None:
        """All different rows with their weights, by colour; None if more than `size` differ."""
        few = self.all_rows
        if few is not None and not self.once:
            few = distinct_rows(few, self.size)
        return None if few is None else by_colour(few)


def every_row(rows: Rows, size: int) -> Rows | None:
    """What a sketch of so few rows would give as a whole, without random numbers; None of more."""
    few = distinct_rows(rows, size) if 0 < len(rows) <= size else None
    return None if few is None else by_colour(few)


def sketch_rows(size: int, seed: int, rows: Rows) -> RowSketch:
    """The sketch of one block; its random numbers depend on the seed and on what it holds.

    So they do not depend on the order of blocks or of rows, nor on who reads them. Equal rows are
    one of their weight, unless too many rows differ.
    """
    few: Rows | None = None
    if len(rows) <= FEW_ROWS or distinct_rows(rows[:FEW_ROWS], size) is not None:
        few = distinct_rows(rows, size)
    kept = rows if few is None else few
    keys = _keys(seed, kept)
    count = min(size + 1, len(keys))
    order = np.argpartition(keys, count - 1)[:count] if count < len(keys) else np.arange(count)
    order = order[np.argsort(keys[order], kind="stable")]
    return RowSketch(size, keys[order], _taken(kept, order), few)


def _keys(seed: int, rows: Rows) -> Array:
    """u / w of every row; u is dealt in the order of colours."""
    colours = row_colours(rows)
    digest = int(colours.sum(dtype=np.uint64))
    keys = np.empty(len(rows))
    drawn = np.random.default_rng([seed, len(rows), digest]).random(len(rows))
    keys[rising(colours)] = drawn
    return keys if rows.weight is None else keys / np.maximum(rows.weight, 1e-300)


def distinct_rows(rows: Rows, most: int) -> Rows | None:
    """Equal rows once, with their weight, in a fixed order; None if more than `most` differ."""
    joint = _joint_codes(rows)
    order = _lexical_order(rows) if joint is None else _order_of_joint(joint, rows.weight)
    fresh = np.zeros(len(rows), dtype=bool)
    fresh[:1] = True
    for codes in rows.codes if joint is None else (joint,):
        c = codes[order]
        same = c[1:] == c[:-1]
        if c.dtype.kind == "f":
            same |= np.isnan(c[1:]) & np.isnan(c[:-1])
        fresh[1:] |= ~same
    first = np.flatnonzero(fresh)
    if len(first) > most:
        return None
    if rows.weight is None:
        weight = np.diff(first, append=len(rows))
    else:
        weight = np.add.reduceat(rows.weight[order], first) if len(first) else np.zeros(0)
    first = order[first]
    return Rows(tuple(c[first] for c in rows.codes), weight.astype(float))


def _lexical_order(rows: Rows) -> CellArray:
    last = () if rows.weight is None else (rows.weight,)  # so that they add up in a fixed order
    return np.lexsort((*last, *rows.codes[::-1]))


def _joint_codes(rows: Rows) -> Codes | None:
    """One number a row, the first column counting most; None where columns are not so few."""
    if not rows.codes or not len(rows) or any(c.dtype.kind == "f" for c in rows.codes):
        return None
    sizes = [int(c.max()) + 2 for c in rows.codes]  # a missing cell is a state of its own
    if math.prod(sizes) >= 2**62:
        return None
    joint: Codes = np.zeros(len(rows), dtype=np.int64)
    for codes, m in zip(rows.codes, sizes, strict=True):
        joint *= m
        joint += codes
        joint += 1
    return joint


def _order_of_joint(joint: Codes, weight: Array | None) -> CellArray:
    """The order of these numbers; where weights could add up to another sum, by them as well."""
    if weight is None or (weight == np.floor(weight)).all():
        return np.argsort(joint)
    return np.lexsort((weight, joint))


def _taken(rows: Rows, order: CellArray) -> Rows:
    weight = None if rows.weight is None else rows.weight[order]
    return Rows(tuple(c[order] for c in rows.codes), weight)


def _joined(a: Rows, b: Rows) -> Rows:
    codes: Sequence[Places] = [np.concatenate(pair) for pair in zip(a.codes, b.codes, strict=True)]
    if a.weight is None and b.weight is None:
        return Rows(tuple(codes))
    return Rows(tuple(codes), np.concatenate([a.weights, b.weights]))
