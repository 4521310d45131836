"""Columns as few states while structure is sought: continuous ones in cells of like many rows.

Back on the column's grid, a cell's probability is spread as all its rows are: what is learned is
P(cell | latent), and within a cell columns are as they are in the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar, final

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.rows import Additive, Rows
from latentia.kernels.smooth_leaves import smoothing
from latentia.typing import Array, Codes

Sum = TypeVar("Sum", bound=Additive)

FEWEST_CELLS, MOST_CELLS = 4, 24  # of a column
ALL_CELLS = 8_000  # of all columns together: pairs of cells are counted
ROWS_A_CELL = 40.0
RULE_OF_THUMB = 0.9  # bandwidth in standard deviations of one row (Silverman 1986) …
PARTS = (1.0, 0.5, 0.25, 0.125)  # … or part of it, where a column is lumpy or long-tailed
CLEARLY = 2.0  # nats by which a narrower one must tell rows left out better
EVEN = 0.01  # share of a cell that is spread evenly: no grid point is impossible


@final
@dataclass(frozen=True, slots=True)
class Bins:
    """Grid points first, first + 1, … of a continuous column make a cell each; atoms follow."""

    first: tuple[int, ...]  # of each cell; the first one begins at 0
    points: int  # of the grid
    atoms: int
    spread: Array  # share of each grid point in its cell, (points,)

    @property
    def cells(self) -> int:
        return len(self.first) + self.atoms

    @property
    def cell_of(self) -> Codes:
        """The cell of each grid point and atom, (points + atoms,)."""
        own = np.searchsorted(self.first, np.arange(self.points), side="right") - 1
        return np.concatenate([own, len(self.first) + np.arange(self.atoms)])

    def codes(self, places: Array) -> Codes:
        """Cells of positions, -1 where missing."""
        gone = np.isnan(places)
        near = np.rint(np.where(gone, 0.0, places)).astype(np.intp)
        return np.where(gone, -1, self.cell_of[near])

    def on_grid(self, table: Array) -> Array:
        """P(cell | …) -> P(grid point | …), along the last axis."""
        share = np.concatenate([self.spread, np.ones(self.atoms)])
        return np.asarray(table[..., self.cell_of] * share)


def binned_rows(bins: Sequence[Bins | None], rows: Rows) -> Rows:
    """Cells in place of positions."""
    codes = [
        np.asarray(x) if own is None else own.codes(np.asarray(x, dtype=float))
        for own, x in zip(bins, rows.codes, strict=True)
    ]
    return Rows(tuple(codes), rows.weight)


def choose_bins(
    columns: Sequence[Column], sample: Rows, all_cells: float = ALL_CELLS
) -> tuple[Bins | None, ...]:
    """Cells of like many rows for every continuous column; fewer where columns are many."""
    most = int(np.clip(all_cells // max(len(columns), 1), FEWEST_CELLS, MOST_CELLS))
    return tuple(
        _bins(column, np.asarray(x, dtype=float), sample.weights, most)
        if isinstance(column, ContinuousColumn)
        else None
        for column, x in zip(columns, sample.codes, strict=True)
    )


def _bins(column: ContinuousColumn, places: Array, weight: Array, most: int) -> Bins:
    inside = places < column.points - 0.5  # neither missing nor an atom
    near = np.rint(places[inside]).astype(np.intp)
    mass = np.asarray(np.bincount(near, weight[inside], column.points), dtype=float)
    count = int(np.clip(mass.sum() / ROWS_A_CELL, 2, most))
    before = np.cumsum(mass) - mass  # rows left of each point
    rank = np.minimum((before * count / max(float(mass.sum()), 1e-300)).astype(np.intp), count - 1)
    first = np.flatnonzero(np.diff(rank, prepend=-1) > 0)
    cell = np.searchsorted(first, np.arange(column.points), side="right") - 1
    return Bins(
        tuple(map(int, first)), column.points, len(column.atoms), _spread(column, mass, cell)
    )


def _spread(column: ContinuousColumn, mass: Array, cell: Codes) -> Array:
    """How a cell's rows lie on its grid points: smoothed as wide as tells rows left out best."""
    smooth = _smoothed(column, mass)
    within = np.bincount(cell, smooth)
    even = np.bincount(cell)
    share = np.where(within[cell] > 0, smooth / np.maximum(within[cell], 1e-300), 1.0 / even[cell])
    return np.asarray((1.0 - EVEN) * share + EVEN / even[cell])


def _smoothed(column: ContinuousColumn, mass: Array) -> Array:
    """Rows at grid points, smoothed by the rule of thumb for so many rows, or by part of it."""
    total = max(float(mass.sum()), 1.0)
    best, level = mass, -np.inf
    for part in PARTS:
        blur = smoothing(column, part * RULE_OF_THUMB * total**-0.2)
        if blur is None:
            return mass
        own = blur[: column.points, : column.points]
        smooth = own @ mass
        rest = np.maximum(smooth - np.minimum(mass, 1.0) * np.diagonal(own), 0.0) / total
        told = float(mass @ np.log((1.0 - EVEN) * rest + EVEN / column.points))
        if told > level + CLEARLY:
            best, level = smooth, told
    return best
