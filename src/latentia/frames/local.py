"""Rows in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import final

import numpy as np

from latentia.moments import Moments, Rows, row_chunks
from latentia.typing import Array, Codes, Summary

__all__ = ["LocalRows", "compress"]

BLOCK_ROWS = 2**18


@final
@dataclass(frozen=True, slots=True)
class LocalRows:
    """A source over rows in memory, folded block by block."""

    rows: Rows
    block_rows: int = BLOCK_ROWS

    def fold(self, summary: Summary) -> Moments:
        step = self.block_rows
        starts = range(0, max(len(self.rows), 1), step)
        return reduce(add, (summary(self.rows[s : s + step]) for s in starts))


def compress(rows: Rows, states: Sequence[int]) -> Rows:
    """Equal rows once, with their weight, where the joint states are fewer than the rows."""
    cells = math.prod(m + 1 for m in states)  # one more for missing
    if cells * 2 > len(rows):
        return rows
    counts = np.zeros(cells)
    for part in row_chunks(len(rows), 16):
        joint: Codes = np.zeros(part.stop - part.start, dtype=np.int64)
        for codes, m in zip(rows.codes, states, strict=True):
            joint = joint * (m + 1) + codes[part] + 1
        weight: Array | None = None if rows.weight is None else rows.weight[part]
        counts += np.bincount(joint, weight, minlength=cells)
    found = np.flatnonzero(counts)
    cell = np.unravel_index(found, [m + 1 for m in states])
    small = [(c - 1).astype(old.dtype) for c, old in zip(cell, rows.codes, strict=True)]
    return Rows(tuple(small), counts[found])
