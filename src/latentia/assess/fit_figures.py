"""Does the model fit? Figures from held-out rows, against the marginal and pair by pair.

Column by column the log loss of P̂(column | all others) against that of its marginal, and whether
probabilities come true; pair by pair what the model leaves untold (`residuals`); latent by latent
how clearly its states are told (`telling`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import final

import numpy as np

from latentia.assess.latents import LatentFit, tell_latents
from latentia.assess.residuals import PairFit, ResidualSums, column_bins, pair_fits, sum_residuals
from latentia.data.columns.column import Bools, Column, is_present, place_cells
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.columns.discrete import DiscreteColumn, without_unknown
from latentia.data.columns.values import to_values
from latentia.data.sources.table import Table
from latentia.inference.many_rows import Asked, in_blocks
from latentia.inference.messages import Evidence, answer, around
from latentia.inference.operators import Operators
from latentia.structure.plan import Plan
from latentia.typing import Array, Codes, Label

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
class Level:
    """Answers that were given with about the same probability, and the share that came true."""

    stated: float
    seen: float
    rows: float  # answers of which it tells


@final
@dataclass(frozen=True, slots=True)
class Fit:
    """All figures; `checking` turns them into words, `draw` into a picture."""

    rows: int
    weight: float  # N of training
    columns: tuple[ColumnFit, ...]
    pairs: tuple[PairFit, ...]  # worst first
    latents: tuple[LatentFit, ...]
    levels: tuple[Level, ...]  # of the most probable states of discrete columns
    coverage: tuple[Level, ...]  # of the middle shares of densities
    clipped: float  # mean share of negative mass cut off
    repaired: float  # share of rows whose evidence had no positive probability
    outside: float  # share of cells beyond the values of training


@final
@dataclass(frozen=True, slots=True)
class _Cells:
    """A column of the rows: codes or positions, and which of its values training never saw."""

    codes: Codes
    outside: Bools


def measure_fit(plan: Plan, operators: Operators, columns: Sequence[Column], table: Table) -> Fit:
    """Look at every row once, and at every pair of columns."""
    there = set(table.names)
    cells = [_read(c, table) if c.name in there else None for c in columns]
    marginals = {i: _marginal(operators, i) for i, own in enumerate(cells) if own is not None}
    bins = {i: column_bins(columns[i], mu) for i, mu in marginals.items()}
    seen = _look(operators, columns, cells, bins, table.length)
    fits = tuple(
        _column_fit(columns[i], own, marginals.get(i), seen.records[i])
        for i, own in enumerate(cells)
    )
    present = [own for own in cells if own is not None]
    values = sum(int(is_present(own.codes).sum() + own.outside.sum()) for own in present)
    return Fit(
        table.length,
        operators.weight,
        fits,
        pair_fits(columns, bins, seen.residuals, operators.weight),
        tell_latents(plan, operators),
        _levels([r for c, r in zip(columns, seen.records, strict=True) if not c.continuous]),
        _coverage([r for c, r in zip(columns, seen.records, strict=True) if c.continuous]),
        seen.clipped,
        seen.repaired,
        sum(int(own.outside.sum()) for own in present) / max(values, 1),
    )


def _read(column: Column, table: Table) -> _Cells:
    """States that training never saw are as good as missing, and counted."""
    values = table.column(column.name)
    if isinstance(column, ContinuousColumn):
        codes = place_cells(column, values)
        return _Cells(codes, column.outside(to_values(values)) & is_present(codes))
    assert isinstance(column, DiscreteColumn)
    known, odd = without_unknown(column, values)
    return _Cells(place_cells(column, known), odd)


# --- columns --------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class _Seen:
    """What one look at the rows left: records of each column, and sums."""

    records: list[Array]  # (4, n): P̂(x | others), top, whether the top came true, P̂(X ≤ x)
    residuals: ResidualSums
    clipped: float
    repaired: float


def _look(
    operators: Operators,
    columns: Sequence[Column],
    cells: Sequence[_Cells | None],
    bins: dict[int, Array],
    rows: int,
) -> _Seen:
    records = [np.full((4, rows), np.nan) for _ in columns]
    lost, none = np.zeros(rows), np.zeros(rows)
    sums: dict[int, ResidualSums] = {}
    observed = operators.plan.graph.observed
    codes = {i: own.codes for i, own in enumerate(cells) if own is not None}

    def work(part: slice, evidence: Evidence) -> None:
        found = answer(operators, evidence)
        none[part] = found.repaired
        answers = {i: found.probabilities[observed[i]] for i in codes}
        for i, values in codes.items():
            records[i][:, part] = _record(columns[i], answers[i], values[part])
            lost[part] += found.clipped[observed[i]] / len(columns)
        block = {i: values[part] for i, values in codes.items()}
        sums[part.start] = sum_residuals(bins, block, answers)

    asked = tuple(codes.get(i) for i in range(len(columns)))
    in_blocks(operators, Asked(rows, asked, None), work)
    total = reduce(add, (sums[k] for k in sorted(sums)))  # in order: the same on any machine
    return _Seen(records, total, float(lost.mean()), float(none.mean()))


def _record(column: Column, p: Array, values: Codes) -> Array:
    n = p.shape[1]
    own, share = around(values, len(p), n)
    wide = np.concatenate([p, np.full((1, n), np.nan)])
    at = sum(np.take_along_axis(wide, c[None], 0)[0] * s for c, s in zip(own, share, strict=True))
    if column.continuous:
        level = np.cumsum(p, axis=0)
        below = np.take_along_axis(level, np.minimum(own[:1], len(p) - 1), 0)[0] - at / 2
        return np.stack([at, np.zeros(n), np.zeros(n), np.where(np.isnan(at), np.nan, below)])
    top = p.max(axis=0)
    right = np.where(np.isnan(at), np.nan, p.argmax(axis=0) == values)
    return np.stack([at, np.where(np.isnan(at), np.nan, top), right, np.zeros(n)])


def _column_fit(
    column: Column, cells: _Cells | None, marginal: Array | None, record: Array
) -> ColumnFit:
    kept = ~np.isnan(record[0])
    n = int(kept.sum())
    if cells is None or marginal is None:
        return ColumnFit(column.name, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    present = is_present(cells.codes) | cells.outside
    outside = float(cells.outside.sum() / max(int(present.sum()), 1))
    if n == 0:
        return ColumnFit(column.name, 0, 0.0, 0.0, 0.0, 0.0, 0.0, outside)
    own, share = around(cells.codes[kept], len(marginal), n)
    alone = sum(marginal[c] * s for c, s in zip(own, share, strict=True))
    loss, base = (-np.log(np.maximum(p, 1e-12)) for p in (record[0][kept], alone))
    error = float((base - loss).std() / np.sqrt(n))
    if column.continuous:
        inside = np.abs(record[3][kept] - 0.5) <= COVERED / 2
        off, noise = abs(float(inside.mean()) - COVERED), np.sqrt(COVERED * (1 - COVERED) / n)
    else:
        off, noise = _calibration(record[1][kept], record[2][kept])
    return ColumnFit(
        column.name, n, float(loss.mean()), float(base.mean()), error, off, float(noise), outside
    )


def _levels(records: Sequence[Array]) -> tuple[Level, ...]:
    """The probability of the likeliest state, all columns together, against how often it came."""
    if not records:
        return ()
    top, right = np.concatenate([r[1:3][:, ~np.isnan(r[0])] for r in records], axis=1)
    level = np.minimum((top * LEVELS).astype(int), LEVELS - 1)
    some = [level == k for k in np.unique(level)]
    return tuple(Level(float(top[s].mean()), float(right[s].mean()), float(s.sum())) for s in some)


def _coverage(records: Sequence[Array]) -> tuple[Level, ...]:
    """Middle shares of densities against how many values lay there."""
    below = [r[3][~np.isnan(r[0])] for r in records]
    far = 2.0 * np.abs(np.concatenate(below) - 0.5) if below else np.empty(0)
    if not len(far):
        return ()
    shares = [k / LEVELS for k in range(1, LEVELS)]
    return tuple(Level(p, float((far <= p).mean()), float(len(far))) for p in shares)


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
