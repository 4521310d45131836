"""Scales that make up for bells: curves on which masses of cells meet the levels of the rows.

Only where values lie on z changes; bells and their shares stay as they were learned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import scipy

from latentia.data.columns import masses
from latentia.data.columns.bells import LEVELS, MISSED
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.columns.grids import effective_rows, measured
from latentia.data.columns.scales import spread_out
from latentia.data.moments import Moments
from latentia.data.rows import Rows
from latentia.data.sources.sketch import NumberSketch
from latentia.typing import Array

LADDER = np.union1d(LEVELS, scipy.special.ndtr(np.arange(-2.6, 2.61, 0.2)))  # that a curve meets
CLOSE = 0.001  # what may be missed, however many the rows
FINE = 8  # points of z for each of the grid


@final
@dataclass(frozen=True, slots=True)
class Ladder:
    """Values at levels of a column, and how sure the rows are of their shares."""

    column: ContinuousColumn
    x: Array
    half: float  # what stands for a value of a lattice, on either side of it
    tied: Array  # half of the rows that have the very value
    rows: float  # as many as weights are worth; infinite: all that are counted

    @property
    def places(self) -> Array:
        """Positions up to which rows are counted."""
        return replace(self.column, atoms=()).positions(self.x + self.half)


def ladder_of(column: ContinuousColumn, numbers: NumberSketch) -> Ladder:
    """About what lies at the levels; how many rows lie below is counted."""
    own = measured(column.name, numbers)
    p = own.w / own.w.sum()
    at = np.unique(np.minimum(np.searchsorted(np.cumsum(p), LADDER), len(p) - 1))
    tied = np.zeros(len(at)) if own.half else 0.5 * p[at]
    whole = bool((numbers.weights == np.rint(numbers.weights)).all())
    return Ladder(column, own.x[at], own.half, tied, math.inf if whole else effective_rows(own.w))


def count_steps(ladders: Mapping[int, Ladder], rows: Rows) -> Moments:
    """Rows between the values of ladders, by place of the column; atoms and holes are left out."""
    sums = {}
    for i, ladder in ladders.items():
        places = rows.codes[i]
        there = places <= ladder.column.points - 1  # NaN is not
        step = np.searchsorted(ladder.places, places[there])
        counts = np.bincount(step, rows.weights[there], len(ladder.x) + 1)
        sums[str(i)] = counts.astype(float)
    return Moments("steps", float(rows.weights.sum()), len(rows), sums)


def levelled(
    ladder: Ladder, steps: Array, found: Array, judged: tuple[float, float] = (0.0, 1.0)
) -> ContinuousColumn:
    """The column on a curve on which `found` masses meet its levels; as it is, if they do.

    By those between two levels that are `judged`.
    """
    column, rows = ladder.column, float(steps.sum())
    share = np.cumsum(steps)[:-1] / rows - ladder.tied
    inner = found[: column.points] / found[: column.points].sum()
    told = masses.cdf(replace(column, atoms=()), inner, ladder.x)
    error = np.sqrt(np.maximum(share * (1.0 - share), 0.01) / min(rows, ladder.rows))
    inside = (share >= judged[0]) & (share <= judged[1])
    if (np.abs(told - share) <= np.maximum(MISSED * error, CLOSE))[inside].all():
        return column
    plain = replace(column, centre=0.0, scale=1.0, warped=False, knots=(), atoms=(), lattice=(0, 1))
    z = np.linspace(column.low, column.high, FINE * column.points + 1)
    there = np.interp(share, masses.cdf(plain, inner, z), z)
    ends = column.unscaled(np.array([column.low, column.high]))
    x = np.concatenate([ends[:1], ladder.x + ladder.half, ends[1:]])
    y = replace(column, knots=()).scaled(x)
    pairs = zip(y.tolist(), [column.low, *there.tolist(), column.high], strict=True)
    return replace(column, knots=spread_out(sorted(pairs)))
