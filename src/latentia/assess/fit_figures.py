"""Does the model fit? Figures from held-out rows, against the marginal and pair by pair.

Column by column the log loss of P̂(column | all others) against that of its marginal, and whether
probabilities come true; pair by pair what the model leaves untold (`residuals`); latent by latent
how clearly its states are told (`latents`). All figures come from sums over rows, so that
they can be had of any table, block by block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import add
from typing import final

import numpy as np

from latentia.assess.latents import LatentFit, tell_latents
from latentia.assess.residuals import PairFit, ResidualSums, column_bins, pair_fits, sum_residuals
from latentia.data.columns.column import Column, is_present
from latentia.data.sources.engine import Engine
from latentia.data.sources.table import Table
from latentia.errors import DataError
from latentia.inference.answering import answer
from latentia.inference.evidence import Evidence, around
from latentia.inference.many_rows import Asked, in_blocks
from latentia.inference.operators import Operators
from latentia.inference.row_answers import Noted, check_unknown
from latentia.structure.plan import Plan
from latentia.typing import Array, Codes, Label

LEVELS = 10  # of predicted probability, for calibration
COVERED = 9  # of ten parts of a density, the middle ones
LEAST = 1e-12  # probability that counts as none


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
    """All figures; `report` turns them into words, `draw` into a picture."""

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
class FitSums:
    """Σ over rows: all that the figures need; `+` joins two disjoint sets of rows."""

    rows: int
    losses: Array  # (columns, 4): cells, Σ loss, Σ marginal loss, Σ of their squared difference
    seen: Array  # (columns, 2): cells that are there, those of them that training never saw
    levels: Array  # (columns, LEVELS, 3): answers, Σ of their top probability, Σ right
    covered: Array  # (columns, LEVELS): values within the middle k + 1 tenths of their density
    residuals: ResidualSums
    clipped: float  # Σ of the mean share clipped
    repaired: float  # rows without positive probability
    noted: Noted = field(default_factory=Noted)  # cells that hold no state

    def __add__(self, other: FitSums) -> FitSums:
        return FitSums(
            self.rows + other.rows,
            self.losses + other.losses,
            self.seen + other.seen,
            self.levels + other.levels,
            self.covered + other.covered,
            self.residuals + other.residuals,
            self.clipped + other.clipped,
            self.repaired + other.repaired,
            self.noted + other.noted,
        )


def measure_fit(
    plan: Plan,
    operators: Operators,
    columns: Sequence[Column],
    engine: Engine,
    unknown: str = "missing",
) -> Fit:
    """One pass over the rows of a table, and a look at every pair of columns."""
    check_unknown(unknown)
    there = [i for i, c in enumerate(columns) if c.name in engine.names]
    marginals = {i: _marginal(operators, i) for i in there}
    bins = {i: column_bins(columns[i], mu) for i, mu in marginals.items()}
    work = partial(sum_fit, operators, tuple(columns), marginals, bins, unknown)
    sums: FitSums | None = engine.fold(work, [columns[i].name for i in there])
    if sums is None or sums.rows < 2:
        raise DataError(f"a check needs two rows at least, got {0 if sums is None else sums.rows}.")
    if unknown == "warn":
        sums.noted.tell()
    dense = [c.continuous for c in columns]
    return Fit(
        sums.rows,
        operators.weight,
        tuple(_column_fit(c, sums, i, dense[i]) for i, c in enumerate(columns)),
        pair_fits(columns, bins, sums.residuals, operators.weight),
        tell_latents(plan, operators),
        _levels(sums.levels[[not d for d in dense]]),
        _coverage(sums.covered[dense], sums.losses[dense, 0]),
        sums.clipped / sums.rows,
        sums.repaired / sums.rows,
        float(sums.seen[:, 1].sum() / max(sums.seen[:, 0].sum(), 1.0)),
    )


def sum_fit(
    operators: Operators,
    columns: Sequence[Column],
    marginals: Mapping[int, Array],
    bins: Mapping[int, Array],
    unknown: str,
    table: Table,
) -> FitSums | None:
    """The sums of one block; what training never saw is an error, or as good as missing."""
    if table.length == 0:
        return None
    codes: dict[int, Codes] = {}
    seen, strange = np.zeros((len(columns), 2)), []
    for i in marginals:
        column, values = columns[i], table.column(columns[i].name)
        odd = np.zeros(len(values), dtype=bool)
        if unknown != "error":
            values, odd = column.known(given := values)
            if odd.any():
                strange.append((column.name, int(odd.sum()), given.cell(int(np.argmax(odd)))))
        codes[i] = column.place(values)
        present = is_present(codes[i])
        odd = odd | column.beyond(values)
        seen[i] = float((present | odd).sum()), float(odd.sum())
    parts: dict[int, FitSums] = {}

    def work(part: slice, evidence: Evidence) -> None:
        block = {i: c[part] for i, c in codes.items()}
        parts[part.start] = _sum_block(operators, columns, marginals, bins, block, evidence)

    asked = tuple(codes.get(i) for i in range(len(columns)))
    in_blocks(operators, Asked(table.length, asked, None), work)
    total = reduce(add, (parts[k] for k in sorted(parts)))  # in order: the same on any machine
    return replace(total, seen=seen, noted=Noted(tuple(strange)))


def _sum_block(
    operators: Operators,
    columns: Sequence[Column],
    marginals: Mapping[int, Array],
    bins: Mapping[int, Array],
    codes: Mapping[int, Codes],
    evidence: Evidence,
) -> FitSums:
    found = answer(operators, evidence, strict=False)
    observed = operators.plan.graph.observed
    answers = {i: found.probabilities[observed[i]] for i in codes}
    losses, seen = np.zeros((len(columns), 4)), np.zeros((len(columns), 2))
    levels, covered = np.zeros((len(columns), LEVELS, 3)), np.zeros((len(columns), LEVELS))
    for i, values in codes.items():
        kept = is_present(values)
        p, own = answers[i][:, kept], values[kept]
        at, first = _at(p, own)
        alone = _at(np.broadcast_to(marginals[i][:, None], p.shape), own)[0]
        loss, base = (-np.log(np.maximum(x, LEAST)) for x in (at, alone))
        losses[i] = len(own), loss.sum(), base.sum(), ((base - loss) ** 2).sum()
        if columns[i].continuous:
            covered[i] = _sum_coverage(p, at, first)
        else:
            levels[i] = _sum_levels(p, own)
    lost = sum(found.clipped[observed[i]].sum() for i in codes) / len(columns)
    residuals = sum_residuals(bins, codes, answers)
    none = float(found.repaired.sum())
    return FitSums(evidence.rows, losses, seen, levels, covered, residuals, float(lost), none)


def _at(p: Array, values: Codes) -> tuple[Array, Codes]:
    """p at the values, between two cells where they lie between; and the first of these cells."""
    own, share = around(values, len(p), p.shape[1])
    wide = np.concatenate([p, np.zeros((1, p.shape[1]))])
    at = sum(np.take_along_axis(wide, c[None], 0)[0] * s for c, s in zip(own, share, strict=True))
    return np.asarray(at, dtype=float), own[0]


def _sum_levels(p: Array, values: Codes) -> Array:
    """(LEVELS, 3) by the probability of the likeliest state."""
    top, right = p.max(axis=0), (p.argmax(axis=0) == values).astype(float)
    level = np.minimum((top * LEVELS).astype(int), LEVELS - 1)
    weights = (np.ones(len(top)), top, right)
    return np.stack([np.bincount(level, w, LEVELS) for w in weights], axis=1)


def _sum_coverage(p: Array, at: Array, first: Codes) -> Array:
    """(LEVELS,): how many values lie within the middle tenths of their density."""
    level = np.cumsum(p, axis=0)
    below = np.take_along_axis(level, np.minimum(first, len(p) - 1)[None], 0)[0] - at / 2
    far = 2.0 * np.abs(below - 0.5)
    return np.array([float((far <= (k + 1) / LEVELS).sum()) for k in range(LEVELS)])


# --- figures --------------------------------------------------------------------------------------


def _column_fit(column: Column, sums: FitSums, i: int, dense: bool) -> ColumnFit:
    n, loss, base, squares = sums.losses[i]
    there, outside = sums.seen[i]
    beyond = float(outside / max(there, 1.0))
    if n == 0:
        return ColumnFit(column.name, 0, 0.0, 0.0, 0.0, 0.0, 0.0, beyond)
    spread = max(squares / n - ((base - loss) / n) ** 2, 0.0)
    if dense:
        inside, wanted = sums.covered[i, COVERED - 1] / n, COVERED / LEVELS
        off, noise = abs(inside - wanted), np.sqrt(wanted * (1 - wanted) / n)
    else:
        off, noise = _calibration(sums.levels[i])
    error = float(np.sqrt(spread / n))
    figures = (float(loss / n), float(base / n), error, float(off), float(noise), beyond)
    return ColumnFit(column.name, int(n), *figures)


def _levels(levels: Array) -> tuple[Level, ...]:
    """The probability of the likeliest state, all columns together, against how often it came."""
    total = levels.sum(axis=0)
    return tuple(Level(float(t / n), float(r / n), float(n)) for n, t, r in total if n > 0)


def _coverage(covered: Array, counts: Array) -> tuple[Level, ...]:
    """Middle shares of densities against how many values lay there."""
    count = float(counts.sum())
    if not count:
        return ()
    seen = covered.sum(axis=0) / count
    return tuple(Level((k + 1) / LEVELS, float(seen[k]), count) for k in range(LEVELS - 1))


def _calibration(levels: Array) -> tuple[float, float]:
    """Mean |predicted − seen| over levels of the top probability; and by chance."""
    n, top, right = levels[levels[:, 0] > 0].T
    p = top / n
    noise = n * np.sqrt(2 / np.pi * p * (1 - p) / n)
    return float(np.abs(top - right).sum() / n.sum()), float(noise.sum() / n.sum())


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
