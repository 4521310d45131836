"""Is there anything between two columns that the model does not tell?

    G_ab = Σ_rows 1{x_i = b} (1{x_j = a} − P̂(x_j = a | all other cells)),

which is zero on average if the model is right, with variance Σ 1{x_i = b} P̂(1 − P̂): the score test
of one more edge between i and j. Sums over rows, so that blocks and parts of a table add up.
Columns with many states, and continuous ones, are taken in bins.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import scipy

from latentia.data.columns.column import Column
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.columns.masses import interval_likelihood, quantiles
from latentia.inference.evidence import around
from latentia.typing import Array, Codes, Label

BINS = 4  # of a continuous column, and at most …
MOST_BINS = 8  # … of a discrete one
SOLID = 1.0  # variance of a sum that is worth looking at


@final
@dataclass(frozen=True, slots=True)
class PairFit:
    """What two columns have to do with each other beyond what the model says, worse way round."""

    names: tuple[Label, Label]  # given the others, the first still tells of the second
    chi2: float
    freedom: float
    gap: float  # ½ Σ |G| / n: share of rows whose second column is told wrongly

    @property
    def log_p(self) -> float:
        """log of the chance of so large a χ² either way if the model were right."""
        return min(0.0, float(scipy.stats.chi2.logsf(self.chi2, self.freedom)) + math.log(2.0))


@final
@dataclass(frozen=True, slots=True)
class ResidualSums:
    """G and its variance over all bins of all columns, and rows that have both of a pair."""

    score: Array  # (bins of all i, bins of all j)
    variance: Array
    rows: Array  # (columns, columns)

    def __add__(self, other: ResidualSums) -> ResidualSums:
        return ResidualSums(
            self.score + other.score, self.variance + other.variance, self.rows + other.rows
        )


def sum_residuals(
    bins: Mapping[int, Array], cells: Mapping[int, Codes], answers: Mapping[int, Array]
) -> ResidualSums:
    """Sums over a block: cells by column, and P̂(column | all others), (states, n) each."""
    Z = {i: _binned(bins[i], cells[i]) for i in bins}  # (bins, n), nothing where missing
    there = {i: own.sum(axis=0) for i, own in Z.items()}
    P = {i: bins[i] @ answers[i] for i in bins}
    have = np.stack([there[i] for i in bins])
    R = np.concatenate([Z[i] - P[i] * there[i] for i in bins])
    V = np.concatenate([P[i] * (1.0 - P[i]) * there[i] for i in bins])
    whole = np.concatenate([Z[i] for i in bins])
    return ResidualSums(whole @ R.T, whole @ V.T, have @ have.T)


def pair_fits(
    columns: Sequence[Column], bins: Mapping[int, Array], sums: ResidualSums, weight: float
) -> tuple[PairFit, ...]:
    """Every pair, the worst first; 1 + n / N stands for what was learned from N rows only."""
    starts = dict(zip(bins, np.cumsum([0, *(len(B) for B in bins.values())]), strict=False))
    found = []
    for (a, i), (b, j) in itertools.combinations(enumerate(bins), 2):
        n = float(sums.rows[a, b])
        if n < 1:
            continue
        ways = []
        for u, v in ((i, j), (j, i)):
            part = np.ix_(
                range(starts[u], starts[u] + len(bins[u])),
                range(starts[v], starts[v] + len(bins[v])),
            )
            names = (columns[u].name, columns[v].name)
            ways.append(_way(names, sums.score[part], sums.variance[part], n, weight))
        found.append(min(ways, key=lambda way: (_rounded(way.log_p), -_rounded(way.chi2))))
    return tuple(sorted(found, key=lambda pair: (_rounded(pair.log_p), -_rounded(pair.gap))))


def _rounded(x: float) -> float:
    """Nine digits, so that the order in which blocks were added does not tell apart what is equal.

    >>> _rounded(-0.36600000000001) == _rounded(-0.366)
    True
    """
    return float(f"{x:.9g}")


def _way(
    names: tuple[Label, Label], score: Array, variance: Array, n: float, weight: float
) -> PairFit:
    spread = variance * (1.0 + n / max(weight, 1.0))
    solid = spread >= SOLID
    # the scores of a row's states sum to zero: of m of them, m − 1 are free
    states = np.maximum(solid.sum(axis=1, keepdims=True), 1)
    share = np.where(solid, (states - 1) / states, 0.0)
    statistic = float((share * score**2 / np.where(solid, spread, 1.0)).sum())
    freedom = max(float(share.sum()), 1.0)
    return PairFit(names, statistic, freedom, 0.5 * float(np.abs(score).sum()) / n)


def column_bins(column: Column, marginal: Array) -> Array:
    """Which cells belong together: (bins, cells), columns summing to one."""
    if isinstance(column, ContinuousColumn):
        return _intervals(column, marginal)
    states = len(marginal)
    if states <= MOST_BINS:
        return np.eye(states)
    found = np.zeros((MOST_BINS, states))  # the frequent ones alone, the rest together
    for k, s in enumerate(np.argsort(-marginal, kind="stable")):
        found[min(k, MOST_BINS - 1), s] = 1.0
    return found


def _intervals(column: ContinuousColumn, marginal: Array) -> Array:
    """Quarters of the values, and every atom."""
    inner = marginal[: column.points]
    plain = replace(column, atoms=(), lattice=(0, 1))
    levels = [(k + 1) / BINS for k in range(BINS - 1)]
    masses = (inner / max(float(inner.sum()), 1e-300))[:, None]
    cuts = [float(q) for q in quantiles(plain, masses, levels)[:, 0]]
    low, high = (float(end) for end in column.unscaled(np.array([column.low, column.high])))
    rows = [
        interval_likelihood(column, max(a, low), min(b, high))
        for a, b in itertools.pairwise([-np.inf, *cuts, np.inf])
    ]
    found = np.array(rows)
    found[:, column.points :] = 0.0
    atoms = np.zeros((len(column.atoms), column.cells))
    atoms[:, column.points :] = np.eye(len(column.atoms))
    return np.concatenate([found, atoms])


def _binned(bins: Array, cells: Codes) -> Array:
    """Weights of the bins for every row, (bins, n); zero where missing."""
    own, share = around(cells, bins.shape[1], len(cells))
    wide = np.concatenate([bins, np.zeros((len(bins), 1))], axis=1)
    total = sum(wide[:, c] * s for c, s in zip(own, share, strict=True))
    return np.asarray(total, dtype=float)
