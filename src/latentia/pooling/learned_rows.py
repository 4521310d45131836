"""How near rows come to those that were learned from: Gower's distance to the nearest of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self, final

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.rows import Rows
from latentia.pooling.row_chain import value_at
from latentia.typing import Array, Codes

CHUNK = 2**21  # distances at a time
LEAST_RANGE = 1e-300


@final
@dataclass(frozen=True, slots=True, eq=False)
class LearnedRows:
    """Rows as values of numbers and codes of states, NaN where missing.

    The distance of two rows is the mean over columns that both have of |difference| over the range
    of a number, and of one for states that differ.
    """

    measures: tuple[Array, ...]
    ranges: tuple[float | None, ...]  # None: states

    @classmethod
    def of(cls, columns: Sequence[Column], rows: Rows) -> Self:
        measures, ranges = [], []
        for column, x in zip(columns, rows.codes, strict=True):
            if isinstance(column, ContinuousColumn):
                own = value_at(column, np.asarray(x, dtype=float))
                width: float | None = max(float(np.nanmax(own) - np.nanmin(own)), LEAST_RANGE)
            else:
                own = np.where(np.asarray(x) < 0, np.nan, np.asarray(x, dtype=float))
                width = None
            measures.append(own)
            ranges.append(width)
        return cls(tuple(measures), tuple(ranges))

    def between(self, some: Codes) -> Array:
        """Of some of these rows to the nearest other one."""
        return self._least([x[some] for x in self.measures], some)

    def nearest(self, asked: Sequence[Array]) -> Array:
        """Of other rows to the nearest of these."""
        return self._least(asked, None)

    def _least(self, asked: Sequence[Array], own: Codes | None) -> Array:
        many = len(self.measures[0])
        step = max(CHUNK // many, 1)
        found = []
        for start in range(0, len(asked[0]), step):
            part = slice(start, start + step)
            far = self._distances([x[part] for x in asked])
            if own is not None:
                far[np.arange(len(far)), own[part]] = np.inf
            found.append(far.min(axis=1))
        return np.concatenate(found)

    def _distances(self, asked: Sequence[Array]) -> Array:
        """(asked, rows); rows that share no column are infinitely far."""
        if not any(np.isnan(x).any() for x in (*asked, *self.measures)):
            return self._whole_distances(asked)
        total = np.zeros((len(asked[0]), len(self.measures[0])))
        count = np.zeros_like(total)
        for x, own, width in zip(asked, self.measures, self.ranges, strict=True):
            apart = x[:, None] - own
            there = ~np.isnan(apart)
            step = (apart != 0).astype(float) if width is None else np.abs(apart) / width
            total += np.where(there, step, 0.0)
            count += there
        return np.where(count > 0, total / np.maximum(count, 1.0), np.inf)

    def _whole_distances(self, asked: Sequence[Array]) -> Array:
        """The same where nothing is missing."""
        from scipy.spatial.distance import cdist

        total = np.zeros((len(asked[0]), len(self.measures[0])))
        numbers = [(x, y, w) for x, y, w in self._pairs(asked) if w is not None]
        states = [(x, y) for x, y, w in self._pairs(asked) if w is None]
        if numbers:
            both = (np.column_stack([(t[k] - t[1].min()) / t[2] for t in numbers]) for k in (0, 1))
            total += cdist(*both, "cityblock")
        if states:
            both = (np.column_stack([t[k] for t in states]) for k in (0, 1))
            total += len(states) * cdist(*both, "hamming")
        return np.asarray(total / len(self.measures))

    def _pairs(self, asked: Sequence[Array]) -> Iterator[tuple[Array, Array, float | None]]:
        return zip(asked, self.measures, self.ranges, strict=True)
