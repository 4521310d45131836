"""Scales for Gaussian leaves: the plainest one on which a column is a sum of as many bells.

At most as many as its parents have states, times the components of each. Where so many bells, laid
as well as they can be, miss a quantile by more than the rows leave open, no latent can make up for
it, and a curve through quantiles makes one bell of what lies between two wide gaps.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import scipy

from latentia.data.columns import masses
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.columns.grids import (
    Measured,
    Scale,
    candidates,
    curve_through,
    effective_rows,
    lay_on,
    measured,
)
from latentia.data.sources.sketch import NumberSketch
from latentia.typing import Array

LEVELS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
OPEN = 2.0  # standard errors by which the best bells may miss a level …
MISSED = 2.8  # … and those that were learned …
CLOSE = 0.003  # … or so much, however many the rows
APART = 2.0  # deviations between two bells that can be told apart
MOST_BELLS = 8  # that are tried
MOST_POINTS = 500  # that stand for the rows
STEPS = 100  # of the ascent
NARROWEST = 1e-3  # variance of a bell, of that of the column


def bell_column(column: ContinuousColumn, numbers: NumberSketch, bells: int) -> ContinuousColumn:
    """The same column on a scale on which up to `bells` Gaussians can tell it.

    One bell, on whatever scale; or several that lie apart, as the states of a latent may make them:
    bells within each other would only be patches for a scale that is wrong. None: a curve.
    """
    own = measured(column.name, numbers)
    laid = [column.on(lay_on(column.name, own, scale)) for scale in candidates(own.x, own.w)]
    missed = [missed_by_bells(each, own, 1) for each in laid]
    if bells and min(missed) <= 1.0:
        return laid[int(np.argmax(np.array(missed) <= 1.0))]
    for each in laid:  # the plainest comes first
        for count in range(2, min(bells, MOST_BELLS) + 1):
            if missed_by_bells(each, own, count) <= 1.0:
                return each
    best = laid[int(np.argmin(missed))]
    scale = _bent(Scale(best.centre, best.scale, best.warped), own)
    return column.on(lay_on(column.name, own, scale))


def _bent(bare: Scale, own: Measured) -> Scale:
    knots, cuts = curve_through(bare.z(own.x), own.w)
    return replace(bare, knots=knots, cuts=cuts)


def missed_by_bells(column: ContinuousColumn, own: Measured, bells: int) -> float:
    """By how much the best bells miss a level of the rows; 1 is as much as may be.

    Infinite if two of them do not lie apart.
    """
    z, p = column.scaled(own.x), own.w / own.w.sum()
    weight, mean, variance = fit_bells(z, p, bells)
    order = np.argsort(mean)
    both = (variance[order][1:] + variance[order][:-1]) / 2.0
    if (np.diff(mean[order]) < APART * np.sqrt(both)).any():
        return math.inf
    sd = np.sqrt(variance + column.step**2 / 6.0)  # hats of the grid widen them
    share = np.cumsum(p)
    at = np.minimum(np.searchsorted(share, LEVELS), len(z) - 1)
    ends = column.scaled(own.x[at] + own.half)
    told = scipy.special.ndtr((ends[:, None] - mean) / sd) @ weight
    tied = 0.0 if own.half else 0.5 * p[at]  # ties lie on both sides of themselves
    return _missed(told + tied, share[at], own.w, OPEN)


def missed_by_masses(column: ContinuousColumn, numbers: NumberSketch, found: Array) -> float:
    """By how much masses of its cells miss a level of what is measured; 1: as much as may be."""
    own = measured(column.name, numbers)
    share = np.cumsum(own.w / own.w.sum())
    at = np.minimum(np.searchsorted(share, LEVELS), len(share) - 1)
    bare, inner = replace(column, atoms=()), found[: column.points]
    told = masses.cdf(bare, inner / inner.sum(), own.x[at])
    return _missed(told, share[at], own.w, MISSED)


def _missed(told: Array, share: Array, w: Array, errors: float) -> float:
    whole = bool((w == np.rint(w)).all())  # frequencies: equal values are several rows
    rows = float(w.sum()) if whole else effective_rows(w)
    error = np.sqrt(np.maximum(share * (1.0 - share), 0.01) / rows)
    return float((np.abs(told - share) / np.maximum(errors * error, CLOSE)).max())


def fit_bells(z: Array, p: Array, bells: int) -> tuple[Array, Array, Array]:
    """Weights, means and variances of a mixture of Gaussians of large likelihood.

    >>> w, mean, variance = fit_bells(np.array([-1.0, 1.0]), np.array([0.5, 0.5]), 1)
    >>> w.tolist(), mean.tolist(), variance.tolist()
    ([1.0], [0.0], [1.0])
    """
    z, p = _thinned(z, p)
    floor = NARROWEST * float((z - z @ p) ** 2 @ p)
    levels = np.cumsum(p) - 0.5 * p
    best: tuple[float, Array, Array, Array] | None = None
    for r in _starts(z, levels, bells):
        level = -math.inf
        for _ in range(STEPS):
            weight = np.maximum(r @ p, 1e-300)
            mean = (r @ (p * z)) / weight
            variance = ((z - mean[:, None]) ** 2 * r) @ p / weight
            variance = np.maximum(variance, max(floor, 1e-300))
            log = np.log(weight / np.sqrt(variance))[:, None]
            log = log - (z - mean[:, None]) ** 2 / (2.0 * variance[:, None])
            top = log.max(axis=0)
            r = np.exp(log - top)
            total = r.sum(axis=0)
            r /= total
            before, level = level, float((np.log(total) + top) @ p)
            if bells == 1 or level - before < 1e-7:
                break
        if best is None or level > best[0]:
            best = (level, weight, mean, variance)
    assert best is not None
    return best[1], best[2], best[3]


def _starts(z: Array, levels: Array, bells: int) -> list[Array]:
    """Memberships by equal shares of the rows, and by equal stretches of z: (bells, n)."""
    numbers = np.arange(bells)[:, None]
    shares = np.minimum((levels * bells).astype(int), bells - 1)
    stretch = np.minimum((z - z[0]) / (z[-1] - z[0]) * bells, bells - 1).astype(int)
    found = [np.where(shares == numbers, 1.0, 1e-3)]
    return found if bells == 1 else [*found, np.where(stretch == numbers, 1.0, 1e-3)]


def _thinned(z: Array, p: Array) -> tuple[Array, Array]:
    """Means of neighbours, where there are many: the ends of a column count one by one."""
    if len(z) <= MOST_POINTS:
        return z, p
    part = np.minimum(((np.cumsum(p) - 0.5 * p) * MOST_POINTS).astype(int), MOST_POINTS - 1)
    weight = np.bincount(part, p).astype(float)
    there = weight > 0
    return np.bincount(part, p * z)[there] / weight[there], weight[there]
