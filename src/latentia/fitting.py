"""Does the model fit? Figures from held-out rows, against the marginal and pair by pair.

Column by column the log loss of P̂(column | all others) against that of its marginal, and whether
probabilities come true. Pair by pair, counts against the model's own P̂(x_i, x_j):

    χ² = Σ (n_ab − n P̂_ab)² / (n P̂_ab (1 + n / N)),

where 1 + n / N stands for the sampling error of a model that was learned from N rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.stats import chi2

from latentia.batch import Asked, in_blocks
from latentia.density import interval_likelihood, quantiles
from latentia.features.continuous import Column, ContinuousColumn, place_cells, to_values
from latentia.frames.table import Table
from latentia.messages import Evidence, answer, around, read_evidence
from latentia.operators import Operators
from latentia.typing import Array, Codes, Label

__all__ = ["ColumnFit", "Fit", "PairFit", "measure_fit"]

BINS = 4  # of a continuous column, and at most …
MOST_BINS = 8  # … of a discrete one
LEVELS = 10  # of predicted probability, for calibration
COVERED = 0.9


@final
@dataclass(frozen=True, slots=True)
class ColumnFit:
    """How well one column is told by the others, on rows the model has not seen."""

    name: Label
    rows: int  # that have it
    loss: float  # mean −log P̂(x | all others)
    marginal: float  # mean −log P̂(x)
    error: float  # standard error of the difference
    calibration: float  # how far probabilities are off: mean |predicted − seen|; PIT for densities
    calibration_noise: float  # what it would be by chance
    outside: float  # share of values beyond those of training

    @property
    def gain(self) -> float:
        """What the other columns tell of it, in nats."""
        return self.marginal - self.loss


@final
@dataclass(frozen=True, slots=True)
class PairFit:
    """Counts of a pair of columns against the model."""

    names: tuple[Label, Label]
    chi2: float
    freedom: int
    gap: float  # ½ Σ |share seen − P̂|

    @property
    def log_p(self) -> float:
        """log of the chance of so large a χ² if the model were right."""
        return float(chi2.logsf(self.chi2, self.freedom))


@final
@dataclass(frozen=True, slots=True)
class Fit:
    """All figures; `report` turns them into words."""

    rows: int
    weight: float  # N of training
    columns: tuple[ColumnFit, ...]
    pairs: tuple[PairFit, ...]  # worst first
    clipped: float  # mean share of negative mass cut off
    repaired: float  # share of rows whose evidence had no positive probability


def measure_fit(operators: Operators, columns: Sequence[Column], table: Table) -> Fit:
    """Look at every row once, and at every pair of columns."""
    seen, clipped, repaired = _column_records(operators, columns, table)
    fits = tuple(_column_fit(operators, columns, i, seen[i], table) for i in range(len(columns)))
    pairs = _pair_fits(operators, columns, table)
    return Fit(table.length, operators.weight, fits, pairs, clipped, repaired)


# --- columns --------------------------------------------------------------------------------------


def _column_records(
    operators: Operators, columns: Sequence[Column], table: Table
) -> tuple[list[Array], float, float]:
    """Per column (4, n): P̂(x | others), top probability, whether the top came true, P̂(X ≤ x)."""
    records = [np.full((4, table.length), np.nan) for _ in columns]
    lost, none = np.zeros(table.length), np.zeros(table.length)
    there = set(table.names)
    cells = [place_cells(c, table.column(c.name)) if c.name in there else None for c in columns]

    def work(part: slice, evidence: Evidence) -> None:
        found = answer(operators, evidence)
        none[part] = found.repaired
        for i, v in enumerate(operators.plan.graph.observed):
            values = cells[i]
            if values is not None:
                p = found.probabilities[v]
                records[i][:, part] = _record(columns[i], p, values[part])
                lost[part] += found.clipped[v] / len(columns)

    in_blocks(operators, Asked(table.length, tuple(cells), None), work)
    return records, float(lost.mean()), float(none.mean())


def _record(column: Column, p: Array, values: Codes) -> Array:
    n = p.shape[1]
    own, share = around(values, len(p), n)
    wide = np.concatenate([p, np.full((1, n), np.nan)])
    at = sum(np.take_along_axis(wide, c[None], 0)[0] * s for c, s in zip(own, share, strict=True))
    if isinstance(column, ContinuousColumn):
        level = np.cumsum(p, axis=0)
        below = np.take_along_axis(level, np.minimum(own[:1], len(p) - 1), 0)[0] - at / 2
        return np.stack([at, np.zeros(n), np.zeros(n), np.where(np.isnan(at), np.nan, below)])
    top = p.max(axis=0)
    right = np.where(np.isnan(at), np.nan, p.argmax(axis=0) == values)
    return np.stack([at, np.where(np.isnan(at), np.nan, top), right, np.zeros(n)])


def _column_fit(
    operators: Operators, columns: Sequence[Column], i: int, record: Array, table: Table
) -> ColumnFit:
    column = columns[i]
    kept = ~np.isnan(record[0])
    n = int(kept.sum())
    if n == 0:
        return ColumnFit(column.name, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    cells = place_cells(column, table.column(column.name))[kept]
    marginal = _marginal(operators, i)
    own, share = around(cells, len(marginal), n)
    alone = sum(marginal[c] * s for c, s in zip(own, share, strict=True))
    loss, base = (-np.log(np.maximum(p, 1e-12)) for p in (record[0][kept], alone))
    error = float((base - loss).std() / np.sqrt(n))
    if isinstance(column, ContinuousColumn):
        inside = np.abs(record[3][kept] - 0.5) <= COVERED / 2
        off, noise = abs(float(inside.mean()) - COVERED), np.sqrt(COVERED * (1 - COVERED) / n)
        outside = float(column.outside(to_values(table.column(column.name)))[kept].mean())
    else:
        off, noise = _calibration(record[1][kept], record[2][kept])
        outside = 0.0
    return ColumnFit(
        column.name, n, float(loss.mean()), float(base.mean()), error, off, float(noise), outside
    )


def _calibration(top: Array, right: Array) -> tuple[float, float]:
    """Mean |predicted − seen| over levels of the top probability; and by chance."""
    level = np.minimum((top * LEVELS).astype(int), LEVELS - 1)
    off = noise = 0.0
    for k in np.unique(level):
        here = level == k
        n, p = int(here.sum()), float(top[here].mean())
        off += n * abs(p - float(right[here].mean()))
        noise += n * np.sqrt(2 / np.pi * p * (1 - p) / n)
    return off / len(top), float(noise / len(top))


def _marginal(operators: Operators, i: int) -> Array:
    plan = operators.plan
    v = plan.graph.observed[i]
    x = next(x for x, k in enumerate(plan.leaves) if v in plan.nodes[k].columns)
    members = plan.nodes[plan.leaves[x]].columns
    table = operators.targets[v][:, 0] if v in operators.targets else operators.marginals[x]
    shape = [plan.graph.states[u] or 1 for u in members]
    axes = tuple(a for a, u in enumerate(members) if u != v)
    mu = np.maximum(table.reshape(shape).sum(axis=axes), 0.0)
    return np.asarray(mu / mu.sum())


# --- pairs ----------------------------------------------------------------------------------------


def _pair_fits(
    operators: Operators, columns: Sequence[Column], table: Table
) -> tuple[PairFit, ...]:
    """Every pair from one batch of questions: P̂(x_j | bin of x_i), for all i and j."""
    there = set(table.names)
    places = [i for i, c in enumerate(columns) if c.name in there]
    marginals = {i: _marginal(operators, i) for i in places}
    bins = {i: _bins(columns[i], marginals[i]) for i in places}  # (bins, cells)
    tables = _predicted(operators, columns, bins, marginals)
    counts = {i: _binned(columns[i], bins[i], table) for i in places}
    found = []
    for a, i in enumerate(places):
        for j in places[a + 1 :]:
            both = counts[i].T @ counts[j]
            n = float(both.sum())
            if n < 1:
                continue
            P = np.maximum(tables[i, j], 1e-9)
            P = P / P.sum()
            spread = n * P * (1.0 + n / max(operators.weight, 1.0))
            solid = n * P >= 1.0  # cells with next to no rows say nothing
            statistic = float((((both - n * P) ** 2) / spread)[solid].sum())
            freedom = max(int(solid.sum()) - 1, 1)
            gap = 0.5 * float(np.abs(both / n - P).sum())
            found.append(PairFit((columns[i].name, columns[j].name), statistic, freedom, gap))
    return tuple(sorted(found, key=lambda pair: pair.log_p))


def _bins(column: Column, marginal: Array) -> Array:
    """Which cells belong together: (bins, cells), columns summing to one."""
    if isinstance(column, ContinuousColumn):
        inner = np.concatenate([marginal[: column.points], np.zeros(len(column.atoms))])
        scale = max(float(inner.sum()), 1e-300)
        plain = inner / scale
        cuts = quantiles_of(column, plain)
        ends = [-np.inf, *cuts, np.inf]
        low, high = column.unscaled(np.array([column.low, column.high]))
        rows = [
            interval_likelihood(column, max(a, float(low)), min(b, float(high)))
            for a, b in itertools.pairwise(ends)
        ]
        found = np.array(rows)
        found[:, column.points :] = 0.0
        atoms = np.zeros((len(column.atoms), column.cells))
        atoms[:, column.points :] = np.eye(len(column.atoms))
        return np.concatenate([found, atoms])
    states = len(marginal)
    if states <= MOST_BINS:
        return np.eye(states)
    found = np.zeros((MOST_BINS, states))  # the frequent ones alone, the rest together
    order = np.argsort(-marginal, kind="stable")
    for k, s in enumerate(order):
        found[min(k, MOST_BINS - 1), s] = 1.0
    return found


def quantiles_of(column: ContinuousColumn, masses: Array) -> list[float]:
    plain = ContinuousColumn(
        column.name,
        column.centre,
        column.scale,
        column.warped,
        column.low,
        column.high,
        column.spread,
        column.points,
    )
    levels = [(k + 1) / BINS for k in range(BINS - 1)]
    return [float(q) for q in quantiles(plain, masses[: column.points, None], levels)[:, 0]]


def _predicted(
    operators: Operators,
    columns: Sequence[Column],
    bins: dict[int, Array],
    marginals: dict[int, Array],
) -> dict[tuple[int, int], Array]:
    """P̂(bin of i, bin of j) for all pairs: (bins of i, bins of j)."""
    plan, found = operators.plan, {}
    for i, B in bins.items():
        none: list[Codes | None] = [None] * len(columns)
        evidence = read_evidence(plan, none, {i: np.ascontiguousarray(B.T)})
        told = answer(operators, evidence)
        own = B @ marginals[i]
        for j, other in bins.items():
            if j > i:
                p = told.probabilities[plan.graph.observed[j]]
                found[i, j] = own[:, None] * (other @ p).T
    return found


def _binned(column: Column, bins: Array, table: Table) -> Array:
    """Weights of the bins for every row, (n, bins); zero where missing."""
    cells = place_cells(column, table.column(column.name))
    own, share = around(cells, bins.shape[1], len(cells))
    wide = np.concatenate([bins, np.zeros((len(bins), 1))], axis=1)
    total = sum(wide[:, c] * s for c, s in zip(own, share, strict=True))
    return np.asarray(total).T
