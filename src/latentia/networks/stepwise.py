"""Stepwise EM: an M-step after every small batch of rows (Liang and Klein 2009; design 9).

How far a start gets depends on the number of M-steps more than on anything else (measured on
chains, diamonds and latent classes, 10³ to 10⁴ rows: 2,000 of them with a = 0.6 come close to 200
iterations of EM), so that batches shrink where the table has few rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import final

import numpy as np

from latentia.announcing import Verbose
from latentia.data.columns.column import Column
from latentia.data.rows import Source
from latentia.errors import DataError
from latentia.exact.estep_factors import Tables
from latentia.exact.gaussian_leaves import leaf_sums, rescaled
from latentia.exact.leaf_pieces import WideGraph, widened
from latentia.exact.tabular_model import TabularModel
from latentia.inference.operators import Operators
from latentia.networks.em import repr_of
from latentia.networks.em_cells import cell_starts, check_wishes
from latentia.networks.em_climb import (
    Climb,
    best_of,
    best_of_pieces,
    in_column_units,
    level,
    log_units,
    run_all,
)
from latentia.networks.em_pieces import pose_pieces
from latentia.networks.em_problem import Posed, Problem, Scale, Seen, at_least, grid_scales, pose
from latentia.networks.knowledge import PseudoCounts, read_knowledge
from latentia.networks.leaf_cells import CellRows, check_leaves, leaf_cells
from latentia.networks.learner import Abilities
from latentia.networks.starts import Seeding, random_tables, seeding_of, spawn_seeds
from latentia.networks.stepwise_passes import (
    Run,
    batch_rows,
    climb_stepwise,
    first_sums,
    has_settled,
    one_pass,
    rows_to_shuffle,
)
from latentia.parameters import Parameters
from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan
from latentia.typing import Array, ByName, Cell, Label, Seed


class StepwiseEM(Parameters):
    """Stepwise (online) expectation maximisation with random restarts.

    Parameters
    ----------
    exponent : float
        a of the step size (k + 2)^-a, above 0.5 and at most 1: larger forgets more slowly.
    batch_size : int
        Rows between two M-steps, at most; fewer (but at least 20) where all epochs together would
        have fewer than 2,000 M-steps.
    epochs : int
        Passes over the rows, each in a new order.
    restarts : int
        Random starts; the one with the largest training likelihood is kept.
    smoothing, known, tied
        Pseudo-counts, known cells and tied tables, as in `EM`.
    n_jobs, random_state, verbose
        As in `EM`.
    mixture, variance_floor
        Of continuous columns, as in `EM`.
    """

    def __init__(
        self,
        exponent: float = 0.6,
        batch_size: int = 500,
        epochs: int = 5,
        restarts: int = 10,
        smoothing: PseudoCounts = 0.0,
        mixture: int = 1,
        variance_floor: float = 1e-3,
        n_jobs: int | None = None,
        random_state: Seed = None,
        verbose: Verbose = False,
        known: ByName[Cell] | None = None,
        tied: Sequence[Sequence[Label]] | None = None,
    ) -> None:
        self.exponent = exponent
        self.batch_size = batch_size
        self.epochs = epochs
        self.restarts = restarts
        self.smoothing = smoothing
        self.known = known
        self.tied = tied
        self.mixture = mixture
        self.variance_floor = variance_floor
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return repr_of(self, self.get_params(deep=False), N_CHAR_MAX)

    @property
    def abilities(self) -> Abilities:
        """What the road from a table to a model must know."""
        return Abilities(
            mixed=True,
            frozen=False,
            partial=True,
            gaussian=True,
            pieces=True,
            mixed_pieces=True,
            mixture=self.mixture,
            known=self.known,
            tied=self.tied,
            smoothing=self.smoothing,
            random_state=self.random_state,
        )

    def learn_mixed(self, plan: Plan, columns: Sequence[Column], source: Source) -> Operators:
        """With continuous columns; levels are log densities per row in their own units."""
        if plan.tables_of is not None:
            return self._learn_cells(plan, plan.tables_of, columns, source)
        scales = self._scales(plan, columns)
        found = self.learn(plan, source, scales, widened(plan.graph, columns))
        return in_column_units(found, columns, source, scales)

    def learn(
        self,
        plan: Plan,
        source: Source,
        scales: Mapping[int, Scale] | None = None,
        wide: WideGraph | None = None,
    ) -> Operators:
        """Two passes over the rows for every epoch of every start: one learns, one looks.

        Rows are shuffled, so they come into memory: all of them, or, of sources beyond it, those
        that differ, up to 2¹⁸; of more, a random sample of so many.
        """
        self._check()
        at_least("variance_floor", self.variance_floor, 0)
        kept, remarks = rows_to_shuffle(source)
        problem = self._pose(plan, kept, None, scales, wide)
        seeding = seeding_of(problem, kept, self.mixture)
        size = batch_rows(self.batch_size, problem.weight * self.epochs)
        alone = problem if self.n_jobs is None else problem.on(1)
        climbs = [
            partial(_climb_from, alone, seed, self.exponent, size, self.epochs, seeding)
            for seed in spawn_seeds(self.random_state, self.restarts)
        ]
        found = best_of(plan, problem, run_all(climbs, self.n_jobs, self.verbose, "epochs"))
        return found.told(remarks=remarks)

    def learn_graph(self, graph: LatentGraph, source: Source) -> Operators:
        """The same piece by piece: no junction tree of the whole graph is made, nor a plan."""
        self._check()
        kept, remarks = rows_to_shuffle(source)
        knowledge = read_knowledge(graph, self.known, self.tied, self.smoothing)
        problem = pose_pieces(graph, kept, self.smoothing, knowledge, blocks=True)
        size = batch_rows(self.batch_size, problem.weight * self.epochs)
        alone = problem if self.n_jobs is None else problem.on(1)
        climbs = [
            partial(_climb_from, alone, seed, self.exponent, size, self.epochs, None)
            for seed in spawn_seeds(self.random_state, self.restarts)
        ]
        found = best_of_pieces(problem, run_all(climbs, self.n_jobs, self.verbose, "epochs"))
        return found.told(remarks=remarks)

    def _learn_cells(
        self, plan: Plan, graph: LatentGraph, columns: Sequence[Column], source: Source
    ) -> Operators:
        """Piece by piece with continuous columns, as Gaussians on cells."""
        self._check()
        at_least("variance_floor", self.variance_floor, 0)
        leaves = leaf_cells(graph, columns, self.variance_floor)
        check_leaves(graph, leaves, self.known, self.tied, self.smoothing)
        check_wishes(graph, leaves, "random", self.mixture)
        kept, remarks = rows_to_shuffle(CellRows(tuple(columns), {}).source(source))
        knowledge = read_knowledge(graph, self.known, self.tied, self.smoothing)
        posed = pose_pieces(graph, kept, self.smoothing, knowledge, blocks=True)
        problem = replace(posed, leaves=leaves)
        size = batch_rows(self.batch_size, problem.weight * self.epochs)
        alone = problem if self.n_jobs is None else problem.on(1)
        seeds = spawn_seeds(self.random_state, self.restarts)
        starts = cell_starts(problem, self.restarts, self.random_state)
        climbs = [
            partial(_climb_cells, alone, start, seed, self.exponent, size, self.epochs)
            for start, seed in zip(starts, seeds, strict=True)
        ]
        found = best_of_pieces(problem, run_all(climbs, self.n_jobs, self.verbose, "epochs"))
        units = dict.fromkeys(plan.graph.observed, (0.0, 1.0))
        return in_column_units(found.told(remarks=remarks), columns, source, units)

    def partial_learn(
        self,
        plan: Plan,
        columns: Sequence[Column],
        source: Source,
        previous: StepwiseState | Operators | None,
    ) -> tuple[Operators, StepwiseState]:
        """One pass over new rows, going on from `previous`; all starts are kept going.

        The start that answers is the one that foretold the rows best before it learned them. After
        a model file, `previous` are its operators: a single start from their tables.
        """
        self._check()
        at_least("variance_floor", self.variance_floor, 0)
        wide = widened(plan.graph, columns)
        before = _seen(plan, previous, wide)
        kept, remarks = rows_to_shuffle(source)
        problem = self._pose(plan, kept, before, self._scales(plan, columns), wide)
        now = _resumed(self, problem, kept, previous)
        rows = kept.rows.total
        size, k = batch_rows(self.batch_size, rows), now.steps
        shift = log_units(plan.graph, columns, source, problem.scales)
        runs = []
        for i, run in enumerate(now.runs):
            rng = np.random.default_rng([now.calls, i])
            run, k = one_pass(problem, run, now.steps, self.exponent, size, rng)
            found = problem.sum(run.tables)
            total = level(problem, run.tables, found) * problem.weight / rows + shift
            runs.append(replace(run, path=(*run.path, total)))
        progress = StepwiseState(
            tuple(runs), k, now.calls + 1, Seen(problem.weight, problem.marginals)
        )
        climbs = [Climb(run.tables, run.path, has_settled(run.path)) for run in runs]
        best = int(np.argmax([run.foretold for run in runs]))
        return best_of(plan, problem, climbs, best).told(remarks=remarks), progress

    def _pose(
        self,
        plan: Plan,
        source: Source,
        before: Seen | None,
        scales: Mapping[int, Scale] | None,
        wide: WideGraph | None,
    ) -> Problem:
        knowledge = read_knowledge(plan.graph, self.known, self.tied, self.smoothing)
        rest = (before, scales, knowledge, wide)
        return pose(plan, source, self.smoothing, self.variance_floor, *rest)

    def _scales(self, plan: Plan, columns: Sequence[Column]) -> dict[int, Scale]:
        tied = read_knowledge(plan.graph, None, self.tied).tied
        return grid_scales(plan.graph, columns, tied)

    def _check(self) -> None:
        if not isinstance(self.exponent, int | float) or not 0.5 < self.exponent <= 1.0:
            raise DataError(
                f"expected exponent to be above 0.5 and at most 1, got {self.exponent!r}: smaller "
                "steps never settle, larger ones stop too early."
            )
        for name in ("batch_size", "epochs", "restarts"):
            at_least(name, getattr(self, name), 1, whole=True)


def _climb_from(
    problem: Posed,
    seed: np.random.SeedSequence,
    exponent: float,
    batch: int,
    epochs: int,
    seeding: Seeding | None,
) -> Climb:
    """A random start, and the order of the rows, from one seed."""
    rng = np.random.default_rng(seed.spawn(1)[0])
    start = problem.knowledge.imposed(random_tables(problem.graph, seed, seeding))
    return climb_stepwise(problem, start, exponent, batch, epochs, rng)


def _climb_cells(
    problem: Posed,
    start: Callable[[], dict[int, Array]],
    seed: np.random.SeedSequence,
    exponent: float,
    batch: int,
    epochs: int,
) -> Climb:
    """From a start whose continuous columns are Gaussians on cells."""
    rng = np.random.default_rng(seed.spawn(1)[0])
    tables = problem.knowledge.imposed(start())
    return climb_stepwise(problem, tables, exponent, batch, epochs, rng)


@final
@dataclass(frozen=True, slots=True)
class StepwiseState:
    """Where stepwise EM stands between two calls of partial_fit."""

    runs: tuple[Run, ...]
    steps: int  # k
    calls: int
    seen: Seen


def _seen(plan: Plan, previous: StepwiseState | Operators | None, wide: WideGraph) -> Seen:
    if isinstance(previous, StepwiseState):
        return previous.seen
    if previous is None:
        return Seen()
    graph, N = plan.graph, previous.weight
    places = {v: x for x, k in enumerate(plan.leaves) for v in plan.nodes[k].columns}
    discrete = [v for v in graph.observed if v not in previous.gaussians]
    counts = {v: N * previous.marginals[places[v]] for v in discrete}
    for v, own in wide.pieces.items():
        cells = N * previous.marginals[places[v]]
        kind, _ = own.split(np.arange(len(cells), dtype=float))
        counts[own.kind] = np.bincount(kind, cells, own.states).astype(float)
    return Seen(N, counts)


def _resumed(
    learner: StepwiseEM,
    problem: Problem,
    source: Source,
    previous: StepwiseState | Operators | None,
) -> StepwiseState:
    """Random starts; or where the last call, or a model file, left off."""
    if isinstance(previous, StepwiseState):
        return previous
    if previous is None:
        seeds = spawn_seeds(learner.random_state, learner.restarts)
        seeding = seeding_of(problem, source, learner.mixture)
        drawn = [random_tables(problem.estep.graph, seed, seeding) for seed in seeds]
        starts = [problem.knowledge.imposed(tables) for tables in drawn]
        runs = [Run(t, first_sums(problem, t), 0.0, ()) for t in starts]
        return StepwiseState(tuple(runs), 0, 0, Seen())
    tables = problem.wide.apart({**previous.tables, **previous.gaussians})
    for v, (mean, deviation) in problem.scales.items():
        tables[v] = rescaled(tables[v], -mean / deviation, 1.0 / deviation)
    path = (
        previous.provenance.ascent.paths[previous.provenance.ascent.best]
        if previous.provenance.ascent
        else ()
    )
    run = Run(tables, expected_sums(problem, previous.tables, tables), 0.0, path)
    steps = math.ceil(previous.weight / learner.batch_size)
    return StepwiseState((run,), steps, len(path), Seen())


def expected_sums(problem: Problem, masses: Tables, tables: Tables) -> dict[int, Array]:
    """Sums of one row drawn from the model itself: P(parents, variable)."""
    graph, parents = problem.wide.graph, problem.estep.parents
    model = TabularModel(graph, {name: masses[v] for v, name in enumerate(graph.names)})
    found = {}
    for v, table in tables.items():
        above = parents[v]
        share = model.joint_table([graph.names[u] for u in above]) if above else np.ones(())
        own = leaf_sums(table) if v in problem.scales else table
        found[v] = own * share.reshape(*share.shape, *[1] * (own.ndim - share.ndim))
    return found
