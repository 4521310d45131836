"""Rows drawn column by column, P(x₁) P(x₂ | x₁) ⋯ P(x_k | x₁ … x_{k−1}), by trees (design 15).

The joint model of a mixed table has latents between its columns, which blur near-linear ties and
exact ones. A chain draws a column given all those before it: from the rows of a node of a tree, or
as a line of them plus what was left over in such rows. It is a joint distribution of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.data.columns import masses
from latentia.data.columns.column import Column, Places
from latentia.data.columns.continuous import ContinuousColumn
from latentia.pooling.cell_scores import CellScores, TableScores
from latentia.pooling.node_rows import NodeRows
from latentia.typing import Array, CellArray, Codes

NOISE = 1e-9  # of the largest value
OFF_LATTICE = 0.01  # of a step


@final
@dataclass(frozen=True, slots=True, eq=False)
class Heaps:
    """Values that come again, the stretch of numbers next to each of them, and how others end."""

    values: Array  # rising, (k,)
    low: Array  # where the stretch of a value begins, rising, (k,)
    high: Array  # where it ends, (k,)
    chance: Array  # share of the rows of a stretch that have the value, (k,)
    step: float = 0.0  # of which many of the other values are multiples; 0: of none
    share: float = 0.0  # so many of them

    def settled(self, x: Array, rng: np.random.Generator) -> Array:
        """As many of x at values that come again as rows are, others as round as other values."""
        other = self.as_round(x, rng)
        if not len(self.values):
            return other
        at = np.maximum(np.searchsorted(self.low, x, side="right") - 1, 0)
        inside = (x >= self.low[at]) & (x <= self.high[at])
        again = inside & (rng.random(len(x)) < self.chance[at])
        return np.where(again, self.values[at], other)

    def as_round(self, x: Array, rng: np.random.Generator) -> Array:
        """As many of x rounded as values are that do not come again."""
        if not self.step > 0:
            return x
        return np.where(rng.random(len(x)) < self.share, rounded(x, self.step), x)

    def found(self, x: Array, room: float) -> Array:
        """The values that come again within `room` of x; NaN where none is."""
        if not len(self.values):
            return np.full(len(x), np.nan)
        near = nearest_of(self.values, x)
        return np.where(np.abs(near - x) <= room, near, np.nan)


def nearest_of(values: Array, x: Array) -> Array:
    """The nearest of rising values to each x."""
    at = np.clip(np.searchsorted(values, x), 1, max(len(values) - 1, 1))
    after, before = values[np.minimum(at, len(values) - 1)], values[at - 1]
    return np.where(np.abs(after - x) < np.abs(before - x), after, before)


def rounded(x: Array, step: float) -> Array:
    """The nearest multiples of a power of ten, as they are written.

    >>> rounded(np.array([0.34, 17.0]), 0.1), rounded(np.array([17.0]), 10.0)
    (array([ 0.3, 17. ]), array([20.]))
    """
    if step < 1.0:
        per = np.rint(1.0 / step)
        return np.asarray(np.rint(x * per) / per + 0.0)
    return np.asarray(np.rint(x / step) * step + 0.0)


def mirrored(z: Array, low: float, high: float) -> Array:
    """What lies beyond an end as far inside it (an end itself would be a heap of rows).

    >>> mirrored(np.array([-0.25, 0.5, 1.5, 9.0]), 0.0, 1.0)
    array([0.25, 0.5 , 0.5 , 0.  ])
    """
    inside = np.where(z < low, 2.0 * low - z, np.where(z > high, 2.0 * high - z, z))
    return np.asarray(np.clip(inside, low, high))


@final
@dataclass(frozen=True, slots=True, eq=False)
class ChainLink:
    """One column given those before it."""

    forest: NodeRows  # of states: codes; of numbers: places, or what a line leaves over
    least: int  # rows of a node that is drawn from
    line: Array | None  # slopes, and the intercept at the end; None: values themselves

    def draw(
        self,
        column: Column,
        heaps: Heaps,
        features: Array,
        tree: Codes,
        least: int,
        rng: np.random.Generator,
    ) -> Array:
        """Codes of states; values of numbers, (n,)."""
        found = self.forest.draw(features, tree, max(self.least, least), rng)
        if not isinstance(column, ContinuousColumn):
            return found.astype(np.int64)
        if self.line is None:
            exact = value_at(column, found)
            again = heaps.found(exact, noise_of(column))
            near = heaps.as_round(masses.draw(column, column.nearest(found), rng), rng)
            near = np.where(found >= column.points, exact, near)  # atoms
            return np.where(np.isnan(again), near, again)
        told = features @ self.line[:-1] + self.line[-1]
        z = (told + found) * column.spread
        x = column.unscaled(mirrored(z, column.low, column.high))
        return heaps.settled(masses.on_lattice(column, x), rng)


@final
@dataclass(frozen=True, slots=True, eq=False)
class RowChain:
    """Links of all columns, in their order; none where the joint model draws rows."""

    heaps: tuple[Heaps, ...]  # of every column
    links: tuple[ChainLink, ...]
    least: int  # rows of a node that any link draws from

    def draw(
        self, columns: Sequence[Column], scores: TableScores, n: int, rng: np.random.Generator
    ) -> list[CellArray]:
        """n rows, column by column, as `Column.draw` gives them."""
        found: list[CellArray] = []
        for column, drawn in zip(columns, self.measures(columns, scores, n, rng), strict=True):
            if isinstance(column, ContinuousColumn):
                whole = column.whole and column.answer_type is float
                found.append(column.spelled(drawn.astype(np.int64) if whole else drawn))
            else:
                found.append(column.draw(drawn.astype(np.int64), rng))
        return found

    def measures(
        self, columns: Sequence[Column], scores: TableScores, n: int, rng: np.random.Generator
    ) -> list[Array]:
        """Of n rows: values of numbers, codes of states."""
        features, found = np.zeros((n, 1)), []
        every = zip(columns, scores.columns, self.links, self.heaps, strict=True)
        for column, own, link, heaps in every:
            tree = rng.integers(link.forest.trees, size=n)
            drawn = link.draw(column, heaps, features, tree, self.least, rng)
            places = column.positions(drawn) if isinstance(column, ContinuousColumn) else drawn
            features = np.column_stack([features, chain_features(column, own, places)])
            found.append(drawn)
        return found

    def settled(
        self, columns: Sequence[Column], drawn: Sequence[CellArray], rng: np.random.Generator
    ) -> list[CellArray]:
        """Rows that the joint model drew, with numbers as round as the table's."""
        found = []
        for column, heaps, x in zip(columns, self.heaps, drawn, strict=True):
            if isinstance(column, ContinuousColumn) and column.answer_type is float:
                own = heaps.settled(np.asarray(x, dtype=float), rng)
                x = np.where(np.isin(x, column.atoms), x, own)
                x = x.astype(np.int64) if column.whole else x
            found.append(x)
        return found


def chain_features(column: Column, scores: CellScores, places: Places) -> Array:
    """What a column tells those after it: z of numbers, indicators of states; NaN where missing."""
    if column.continuous:
        return column.coordinates(places)[:, None]
    return scores.of_places(places)


def value_at(column: ContinuousColumn, places: Array) -> Array:
    """The values at places, but for the noise of scaling and back where they have no lattice."""
    x = column.unscaled(column.at(places))
    half = 0.5 * column.lattice[0] / column.lattice[1]
    low, high = column.unscaled(np.array([column.low, column.high])).tolist()
    if column.walls[0]:  # the lowest value lies below the lowest place
        x = np.where(places == 0, low + half, x)
    if column.walls[1]:
        x = np.where(places == column.points - 1, high - half, x)
    x = masses.on_lattice(column, x)
    for k, atom in enumerate(column.atoms):
        x = np.where(places == column.points + k, atom, x)
    return np.asarray(x)


def noise_of(column: ContinuousColumn) -> float:
    """Differences of values that scaling and back may make; of a lattice, what it was read within.

    A file may spell 3.1 as 3.09999990463257, which is what is drawn then.
    """
    low, high = column.unscaled(np.array([column.low, column.high])).tolist()
    step, per = column.lattice
    return float(max(NOISE * max(abs(low), abs(high)), OFF_LATTICE * step / per))
