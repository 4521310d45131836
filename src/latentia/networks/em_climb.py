"""The climb of EM: E-step, M-step, the best of several starts, and what becomes of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import final

import numpy as np

from latentia.announcing import announcing, tell_climb
from latentia.data.columns.column import Column
from latentia.data.moments import Moments
from latentia.data.rows import Source
from latentia.errors import DataError, LatentiaError
from latentia.exact.estep_factors import Tables
from latentia.exact.gaussian_leaves import leaf_prior, maximise_leaf, rescaled
from latentia.exact.leaf_pieces import Pieces, cell_masses
from latentia.inference.operators import Operators
from latentia.inference.provenance import Ascent
from latentia.linear_algebra import one_thread
from latentia.networks.accelerate import Prior
from latentia.networks.em_pieces import PiecesProblem
from latentia.networks.em_problem import (
    Counts,
    Posed,
    Problem,
    Scale,
    counts_in,
    maximise,
    sum_log_units,
    with_unseen,
)
from latentia.networks.leaf_cells import with_bells
from latentia.networks.own_tables import LearnedTables
from latentia.networks.state_order import local_orders
from latentia.networks.tables import as_operators
from latentia.networks.to_operators import fixed_orders, operators_of, renumbered
from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan
from latentia.typing import Array

ROUNDING = 1e-9  # how much a level may fall, relative
COARSE_GAIN = 1e-4  # per row, of an iteration in single precision, whose levels are right to 1e-6
LEAST_MASS = 1e-12  # of a continuous column, spread over its grid


@final
@dataclass(frozen=True, slots=True)
class Climb:
    """Where a start ended: its tables, the levels up to theirs, and whether it came to rest."""

    tables: dict[int, Array]
    path: tuple[float, ...]  # log-likelihood, with the prior, per row
    converged: bool


def climb_from(
    problem: Posed, start: Callable[[], dict[int, Array]], max_iter: int, tol: float
) -> Climb:
    """`climb`, from a start that is made where it is needed."""
    return climb(problem, problem.knowledge.imposed(start()), max_iter, tol)


def climb(problem: Posed, start: Tables, max_iter: int, tol: float) -> Climb:
    """EM from one start, until an iteration gains less than `tol` per row.

    Wide latents are summed in single precision while iterations gain more than that can blur.
    """
    tables, single = dict(start), problem.coarse
    moments = problem.sum(tables, single)
    path = [level(problem, tables, moments)]
    for _ in range(max_iter):
        tables = best_tables(problem, counts_in(moments))
        moments = problem.sum(tables, single)
        path.append(level(problem, tables, moments))
        gain = path[-1] - path[-2]
        tell_climb(len(path) - 1, gain * problem.weight)
        if single and gain < COARSE_GAIN:
            single, moments = False, problem.sum(tables)
            path[-1] = level(problem, tables, moments)
            continue
        if gain < -ROUNDING * (1.0 + abs(path[-1])) and not problem.leaves:  # cells round
            raise LatentiaError(
                f"the likelihood fell by {-gain:.3g} per row in iteration {len(path) - 1}; EM "
                "never lowers it, so this is an error of ours. Please report it with your graph."
            )
        if gain < tol:
            return Climb(tables, tuple(path), True)
    if single:  # what is told is right to the last digit
        path[-1] = level(problem, tables, problem.sum(tables))
    return Climb(tables, tuple(path), False)


def level(problem: Posed, tables: Tables, moments: Moments) -> float:
    """Log-likelihood, plus the log of the prior, per row; densities of standardised columns."""
    prior = 0.0 if problem.prior is None else problem.prior.log_density(tables)
    for v, pseudo in problem.smoothing.items():
        prior += leaf_prior(tables[v], pseudo) * problem.knowledge.share(v)
    return (float(moments.sums["log_likelihood"][0]) + prior) / problem.weight


def best_tables(problem: Posed, counts: Counts) -> dict[int, Array]:
    """The M-step of all tables and Gaussians."""
    knowledge, prior = problem.knowledge, problem.prior
    counts = knowledge.pooled(counts)
    if knowledge.tied and prior is not None:
        prior = Prior(knowledge.pooled(prior.counts))
    tables = maximise({v: x for v, x in counts.items() if v not in problem.scales}, prior)
    alike: dict[
        tuple[tuple[int, ...], float], list[int]
    ] = {}  # one by one, many small leaves take their time
    for v, pseudo in problem.smoothing.items():
        alike.setdefault((counts[v].shape, pseudo), []).append(v)
    for (_, pseudo), columns in alike.items():
        sums = np.stack([counts[v] for v in columns])
        tables |= zip(columns, maximise_leaf(sums, problem.floor, pseudo), strict=True)
    tables = with_bells(tables, problem.leaves)
    return knowledge.held(tables) if knowledge.cells else tables


def best_of(
    plan: Plan, problem: Problem, climbs: Sequence[Climb], best: int | None = None
) -> Operators:
    """The start that ended highest, with its states in a fixed order, ready for questions."""
    if best is None:
        best = int(np.argmax([c.path[-1] for c in climbs]))
    found, wide = dict(climbs[best].tables), problem.wide
    found |= {v: rescaled(found[v], *scale) for v, scale in problem.scales.items()}
    if wide.pieces:
        kinds = {p.kind: problem.marginals[p.kind] for p in wide.pieces.values()}
        found = wide.joined(with_unseen(found, kinds))
    leaves = {v: found[v] for v in problem.scales if v in found}
    found |= {
        v: leaf_masses(leaf, plan.graph.states[v] or 1, wide.pieces.get(v))
        for v, leaf in leaves.items()
    }
    orders = problem.knowledge.orders(fixed_orders(plan.graph, found))
    tables = renumbered(plan.graph, found, orders)
    leaves = renumbered(plan.graph, leaves, orders)
    tables = with_unseen(
        tables, {v: x for v, x in problem.learned_marginals.items() if v in tables}
    )
    ascent = Ascent(tuple(c.path for c in climbs), tuple(c.converged for c in climbs), best)
    return operators_of(plan, tables, problem.weight, ascent, leaves)


def best_of_pieces(
    problem: PiecesProblem, climbs: Sequence[Climb], best: int | None = None
) -> Operators:
    """The same for tables that answer by themselves."""
    if best is None:
        best = int(np.argmax([c.path[-1] for c in climbs]))
    graph = problem.graph
    found = with_unseen(climbs[best].tables, problem.learned_marginals)
    tables = renumbered(graph, found, problem.knowledge.orders(local_orders(graph, found)))
    ascent = Ascent(tuple(c.path for c in climbs), tuple(c.converged for c in climbs), best)
    log = float(problem.sum(climbs[best].tables).sums["log_likelihood"][0])
    counted = tuple(graph.names[v] for v in sorted(problem.counted))
    learned = LearnedTables(graph, tables, problem.weight, log, counted)
    return as_operators(learned).told(ascent=ascent, pieces=problem.told())


def in_column_units(
    operators: Operators,
    columns: Sequence[Column],
    source: Source,
    scales: Mapping[int, Scale],
) -> Operators:
    """Levels of the ascent as log densities in the units of the columns."""
    ascent = operators.provenance.ascent
    assert ascent is not None
    shift = log_units(operators.plan.graph, columns, source, scales)
    paths = tuple(tuple(x + shift for x in path) for path in ascent.paths)
    return operators.told(ascent=replace(ascent, paths=paths))


def log_units(
    graph: LatentGraph,
    columns: Sequence[Column],
    source: Source,
    scales: Mapping[int, Scale],
) -> float:
    """What turns a log density per row of standardised columns into one in their own units."""
    found = source.fold(partial(sum_log_units, graph, columns))
    shift = float(found.sums["log_units"][0])
    for v in graph.observed:
        total = found.sums.get(f"moments/{v}")
        if total is not None and total[0] > 0:
            shift -= math.log(scales[v][1]) * float(total[0])
    return shift / found.weight


def leaf_masses(leaf: Array, cells: int, pieces: Pieces | None = None) -> Array:
    """Masses at the cells of a grid, none of them quite zero: rows may lie far out."""
    return (1.0 - LEAST_MASS) * cell_masses(leaf, pieces, cells) + LEAST_MASS / cells


# --- running --------------------------------------------------------------------------------------


def run_all(
    climbs: Sequence[Callable[[], Climb]],
    n_jobs: int | None,
    verbose: object,
    steps: str = "iterations",
) -> list[Climb]:
    """Every climb, in processes of their own if there is more than one job.

    Processes and not threads: single steps take microseconds, and threads would wait for each
    other between them.
    """
    from joblib import Parallel, delayed, effective_n_jobs

    jobs = min(effective_n_jobs(_checked_jobs(n_jobs)), len(climbs))
    found: list[Climb] = []
    if jobs > 1:
        results = Parallel(jobs, return_as="generator")(delayed(_on_one_thread)(c) for c in climbs)
    else:
        results = map(_on_one_thread, climbs)
    with announcing(verbose, len(climbs), "starts") as say:
        for climbed in results:
            found.append(climbed)
            end = "converged" if climbed.converged else "not converged"
            say(
                f"start {len(found)}/{len(climbs)}: {climbed.path[-1]:.6f} per row after "
                f"{len(climbed.path) - 1} {steps}, {end}"
            )
    return found


def _on_one_thread(call: Callable[[], Climb]) -> Climb:
    with one_thread():
        return call()


def _checked_jobs(n_jobs: int | None) -> int | None:
    if n_jobs is None or (isinstance(n_jobs, int) and n_jobs != 0):
        return n_jobs
    raise DataError(f"expected n_jobs to be a whole number other than 0, or None, got {n_jobs!r}.")
