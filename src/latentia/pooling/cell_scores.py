"""Columns as numbers on one scale: normal scores of continuous columns, indicators of states.

The score of a cell is Φ⁻¹ of the share of rows below its middle, so that every continuous column
is a standard normal one whatever its units, tails and atoms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy

from latentia.data.columns.column import Column, Places
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.columns.masses import cell_values
from latentia.data.rows import Rows
from latentia.typing import Array, Bools, Codes

FARTHEST = 4.0  # scores; beyond them there are too few rows to tell
ENDLESS = 100.0  # the score where the outermost cells end
FLAT = 0.5  # rows spread over the cells of a column, so that none is impossible
MOST_INDICATORS = 20  # of a column: its most frequent states
FEWEST = 3.0  # rows of a state that has an indicator


@final
@dataclass(frozen=True, slots=True)
class CellScores:
    """One column: scores of its cells, and where cells end; or the states with indicators."""

    middle: Array  # (cells,) of a continuous column; () else
    above: Array  # upper end of each cell, (cells,)
    below: Array  # lower end
    points: int  # of the grid; atoms follow
    states: tuple[int, ...]  # with indicators
    centre: Array  # (width,) by which indicators are centred …
    scale: Array  # … and scaled

    @property
    def width(self) -> int:
        return 1 if len(self.middle) else len(self.states)

    @property
    def order(self) -> Codes:
        """Cells of a continuous column by value: atoms lie between grid points."""
        return np.argsort(self.above, kind="stable")

    def of_places(self, places: Places) -> Array:
        """(n, width); NaN where missing."""
        if len(self.middle):
            return np.asarray((self._scores(places)[:, None] - self.centre) / self.scale)
        shown = np.asarray(places)[:, None] == np.asarray(self.states, dtype=int)
        return np.where(np.asarray(places)[:, None] < 0, np.nan, (shown - self.centre) / self.scale)

    def _scores(self, places: Array) -> Array:
        found = np.full(len(places), np.nan)
        there = ~np.isnan(places)
        own = places[there]
        scores = np.interp(own, np.arange(self.points), self.middle[: self.points])
        atom = own > self.points - 0.5
        scores[atom] = self.middle[np.rint(own[atom]).astype(int)]
        found[there] = scores
        return found

    def masses(self, mean: Array, spread: Array) -> Array:
        """Cells under a normal distribution of the standardised score, (cells, n)."""
        mean, spread = mean * self.scale[0] + self.centre[0], spread * self.scale[0]
        found = scipy.special.ndtr((self.above[:, None] - mean) / spread) - scipy.special.ndtr(
            (self.below[:, None] - mean) / spread
        )
        found = np.maximum(found, 1e-12)
        return np.asarray(found / found.sum(axis=0))


@final
@dataclass(frozen=True, slots=True)
class TableScores:
    """All columns, and which features are whose."""

    columns: tuple[CellScores, ...]

    @property
    def width(self) -> int:
        return sum(c.width for c in self.columns)

    @property
    def owner(self) -> Array:
        """The column of each feature, (width,)."""
        return np.repeat(np.arange(len(self.columns)), [c.width for c in self.columns])

    def own(self, place: int) -> Bools:
        """Which features are a column's."""
        return np.asarray(self.owner == place)

    def of_codes(self, codes: Sequence[Places], rows: int) -> Array:
        """(rows, width), NaN where missing; a column that was not given is."""
        parts = [
            np.full((rows, c.width), np.nan) if x is None else c.of_places(x)
            for c, x in zip(self.columns, codes, strict=True)
        ]
        return np.concatenate(parts, axis=1)


def score_columns(columns: Sequence[Column], rows: Rows) -> TableScores:
    """The scores of columns from rows."""
    found = []
    for column, x in zip(columns, rows.codes, strict=True):
        if isinstance(column, ContinuousColumn):
            found.append(_continuous(column, np.asarray(x, dtype=float), rows.weights))
        else:
            found.append(_discrete(column, np.asarray(x), rows.weights))
    return TableScores(tuple(found))


def _continuous(column: ContinuousColumn, places: Array, weight: Array) -> CellScores:
    cells, share = column.corners(places)
    mass = np.full(column.cells + 1, FLAT / column.cells)
    for own, part in zip(cells, share, strict=True):
        np.add.at(mass, own, part * weight)
    mass = mass[: column.cells]
    order = np.argsort(cell_values(column), kind="stable")
    level = np.cumsum(mass[order]) / mass.sum()
    above, below = np.empty(column.cells), np.empty(column.cells)
    above[order], below[order] = level, np.concatenate([[0.0], level[:-1]])
    middle = np.clip(scipy.special.ndtri((above + below) / 2), -FARTHEST, FARTHEST)
    above[order[-1]] = 1.0
    ends = [np.clip(scipy.special.ndtri(level), -ENDLESS, ENDLESS) for level in (above, below)]
    bare = CellScores(middle, ends[0], ends[1], column.points, (), np.zeros(1), np.ones(1))
    centre, scale = _moments(bare.of_places(places), weight)
    return CellScores(middle, bare.above, bare.below, column.points, (), centre, scale)


def _discrete(column: Column, codes: Codes, weight: Array) -> CellScores:
    there = codes >= 0
    count = np.bincount(codes[there], weight[there], column.cells)
    often = np.argsort(-count, kind="stable")[1 : MOST_INDICATORS + 1]  # the first is told by these
    states = tuple(int(s) for s in often if count[s] >= FEWEST)
    none = np.empty(0)
    wide = len(states)
    bare = CellScores(none, none, none, 0, states, np.zeros(wide), np.ones(wide))
    centre, scale = _moments(bare.of_places(codes), weight)
    return CellScores(none, none, none, 0, states, centre, scale)


def _moments(scores: Array, weight: Array) -> tuple[Array, Array]:
    there = ~np.isnan(scores)
    own = np.where(there, scores, 0.0)
    total = np.maximum(weight @ there, 1e-300)
    mean = weight @ own / total
    square = weight @ np.where(there, (scores - mean) ** 2, 0.0) / total
    return np.asarray(mean), np.sqrt(np.maximum(square, 1e-12))
