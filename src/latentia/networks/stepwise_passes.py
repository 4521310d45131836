"""Passes of stepwise EM over rows in memory: batches in random order, an M-step after each.

    s ← (1 − γ_k) s + γ_k s(batch),  γ_k = (k + 2)^−a

s are expected counts per row; the M-step scales them to all rows, so that pseudo-counts weigh as
they do in EM (Liang and Klein 2009; design 9).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.data.row_colours import whole_weights
from latentia.data.rows import Rows, Source
from latentia.data.sources.memory import LocalRows
from latentia.data.sources.row_sample import keep_rows
from latentia.exact.estep_factors import Tables
from latentia.exact.gaussian_leaves import leaf_sums
from latentia.networks.em_climb import Climb, best_tables, level
from latentia.networks.em_problem import Counts, Posed, counts_in
from latentia.networks.stepwise_wide import WideTables, wide_steps
from latentia.typing import Array, Codes

STEPS = 2000  # M-steps of a start, at least: small tables get smaller batches
SMALLEST_BATCH = 20
RESTS = 1e-3  # a start rests if its last epoch gained less than this per row
MOST_DRAWN = 10**7  # rows of an epoch where weights are not whole numbers
MOST_KEPT = 2**18  # different rows that are brought into memory; of more, a sample of so many


def rows_to_shuffle(source: Source) -> tuple[LocalRows, tuple[str, ...]]:
    """The rows in memory, in one order for every kind of source; a remark if it is not all."""
    kept, whole = keep_rows(source, MOST_KEPT, np.random.default_rng(0))
    if whole:
        return LocalRows(kept), ()
    if isinstance(source, LocalRows):  # they are in memory: no need to leave any out
        return source, ()
    return LocalRows(kept), (
        f"stepwise EM shuffles rows in memory, and more than {MOST_KEPT:,} of them differ: it "
        f"learned from a random sample of {len(kept):,}. Use EM(), which adds up all of them where "
        "they are.",
    )


def batch_rows(wanted: int, rows: float) -> int:
    """Rows of a batch, given those of all epochs: as wanted, or fewer for the sake of more steps.

    >>> [batch_rows(500, 5 * n) for n in (1_000, 100_000, 10_000_000)]
    [20, 250, 500]
    """
    return min(wanted, max(SMALLEST_BATCH, math.ceil(rows / STEPS)))


def climb_stepwise(
    problem: Posed,
    start: Tables,
    exponent: float,
    batch: int,
    epochs: int,
    rng: np.random.Generator,
) -> Climb:
    """Stepwise EM from one start; levels are those of the start and after every epoch."""
    run = Run(dict(start), first_sums(problem, start), 0.0, ())
    path, k = [level(problem, start, problem.sum(start))], 0
    for _ in range(epochs):
        run, k = one_pass(problem, run, k, exponent, batch, rng)
        path.append(level(problem, run.tables, problem.sum(run.tables)))
    return Climb(run.tables, tuple(path), path[-1] - path[-2] < RESTS)


@final
@dataclass(frozen=True, slots=True)
class Run:
    """A start on its way: tables, s, and how well it foretold the rows before it learned them."""

    tables: dict[int, Array]
    sums: dict[int, Array]  # s: of one row
    foretold: float  # log-likelihood per row of each batch before its step, averaged like s
    path: tuple[float, ...]  # one level for every call of partial_fit


def one_pass(
    problem: Posed, run: Run, k: int, exponent: float, batch: int, rng: np.random.Generator
) -> tuple[Run, int]:
    """Every row once, in random order, with an M-step after each batch; k counts them."""
    assert isinstance(problem.source, LocalRows)
    rows, N = problem.source.rows, problem.weight
    wide = wide_steps(problem)
    steps: _Dictionaries | WideTables = (
        _Dictionaries(problem, run.tables, run.sums)
        if wide is None
        else WideTables(wide, run.tables, run.sums)
    )
    foretold, order = run.foretold, shuffled(rows, rng)
    for first in range(0, len(order), batch):
        chosen = order[first : first + batch]
        step = (k + 2.0) ** -exponent
        log = steps.go_on(Rows(tuple(c[chosen] for c in rows.codes)), step, N)
        own = log / len(chosen)
        foretold = own if k == 0 else (1.0 - step) * foretold + step * own
        k += 1
    tables, sums = steps.found()
    return Run(tables, sums, foretold, run.path), k


class _Dictionaries:
    """Tables and s, one by one."""

    def __init__(self, problem: Posed, tables: Tables, sums: Counts) -> None:
        self.problem, self.tables, self.sums = problem, dict(tables), dict(sums)

    def go_on(self, rows: Rows, step: float, weight: float) -> float:
        """A step with these rows; their log-likelihood before it."""
        moments = self.problem.block(self.tables, rows)
        self.sums = _mixed(self.sums, counts_in(moments), step, len(rows))
        self.tables = best_tables(self.problem, {v: weight * x for v, x in self.sums.items()})
        return float(moments.sums["log_likelihood"][0])

    def found(self) -> tuple[dict[int, Array], dict[int, Array]]:
        return self.tables, self.sums


def has_settled(path: Sequence[float]) -> bool:
    return len(path) > 1 and abs(path[-1] - path[-2]) < RESTS


def first_sums(problem: Posed, tables: Tables) -> dict[int, Array]:
    """Sums of one row that is in every state of the parents alike."""
    return {
        v: leaf_sums(table) * (math.prod(table.shape[-2:]) / table.size)
        if v in problem.scales
        else table * (table.shape[-1] / table.size)
        for v, table in tables.items()
    }


def _mixed(s: Counts, batch: Counts, step: float, rows: int) -> dict[int, Array]:
    return {v: (1.0 - step) * x + (step / rows) * batch[v] for v, x in s.items()}


def shuffled(rows: Rows, rng: np.random.Generator) -> Codes:
    """Every row as often as its weight says, in random order; drawn if weights are not whole."""
    if rows.weight is None:
        return rng.permutation(len(rows))
    times = whole_weights(rows.weight)
    if times is not None and rows.total <= MOST_DRAWN:
        return rng.permutation(np.repeat(np.arange(len(rows)), times))
    count = int(min(max(round(rows.total), len(rows)), MOST_DRAWN))
    return rng.choice(len(rows), count, p=rows.weight / rows.total)
