"""Expectation maximisation: tables P(variable | parents) of largest likelihood (design 9).

Exact E-step on the junction tree, over unique rows, each one fold; closed-form M-step; the best of
several random starts. Missing cells are marginalised: it is the likelihood of what was observed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import BaseEstimator

from latentia.cpts import in_fixed_order, operators_of
from latentia.errors import DataError, LatentiaError, UnknownNameError
from latentia.estep import Tables
from latentia.graph import LatentGraph
from latentia.operators import Ascent, Operators
from latentia.plan import Plan
from latentia.problem import (
    Counts,
    Problem,
    at_least,
    counts_in,
    level,
    maximise,
    pose,
    with_unseen,
)
from latentia.refined import start_of_graph
from latentia.solve import one_thread
from latentia.tables import read_tables
from latentia.typing import Array, Source

__all__ = [
    "Climb",
    "Counts",
    "EM",
    "Problem",
    "at_least",
    "best_of",
    "climb",
    "counts_in",
    "level",
    "make_starts",
    "maximise",
    "pose",
    "random_tables",
    "run_all",
    "spawn_seeds",
]

ROUNDING = 1e-9  # how much a level may fall, relative


class EM(BaseEstimator):
    """Expectation maximisation with random restarts.

    Parameters
    ----------
    restarts : int
        Random starts; the one with the largest training likelihood is kept.
    max_iter : int
        Iterations of each start.
    tol : float
        A start has converged when an iteration gains less than this in log-likelihood per row.
    smoothing : float
        Pseudo-counts for every row of every table, spread like the column's own marginal (uniformly
        for latents and variables without parents): maximum a posteriori instead of maximum
        likelihood. Levels and the choice among restarts then include the prior.
    init : "random", "pbp" or dict of variable -> table
        Random starts draw every row of every table from a flat Dirichlet. "pbp" is a single start
        from the closed form's statistics, which makes restarts unnecessary; it needs a separator of
        its own for every latent. Tables, with axes (parents in the graph's order, variable), give a
        single start from there.
    n_jobs : int, optional
        Processes over restarts, as in scikit-learn: -1 means one per core, None one, unless a
        joblib.parallel_config says otherwise. Answers do not depend on it.
    random_state : int, numpy Generator or RandomState, optional
        Seed of the starts.
    verbose : bool
        Print a line when a start has ended.
    """

    def __init__(
        self,
        restarts: int = 10,
        max_iter: int = 200,
        tol: float = 1e-6,
        smoothing: float = 0.0,
        init: Any = "random",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.restarts = restarts
        self.max_iter = max_iter
        self.tol = tol
        self.smoothing = smoothing
        self.init = init
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        if not isinstance(self.init, Mapping):
            return str(super().__repr__(N_CHAR_MAX))
        shown = {**self.get_params(deep=False), "init": f"tables of {len(self.init)} variables"}
        return repr(type(self)(**shown))

    def learn(self, plan: Plan, source: Source) -> Operators:
        """One pass over the rows for every iteration of every start."""
        at_least("max_iter", self.max_iter, 1, whole=True)
        at_least("tol", self.tol, 0)
        problem = pose(plan, source, self.smoothing)
        if isinstance(self.init, str) and self.init == "pbp":
            rng = np.random.default_rng(spawn_seeds(self.random_state or 0, 1)[0])
            first = start_of_graph(plan, source, rng)
            starts: list[Callable[[], dict[int, Array]]] = [lambda: dict(first)]
        else:
            starts = make_starts(plan.graph, self.init, self.restarts, self.random_state)
        alone = problem if self.n_jobs is None else problem.on(1)
        climbs = [partial(climb_from, alone, start, self.max_iter, self.tol) for start in starts]
        return best_of(plan, problem, run_all(climbs, self.n_jobs, self.verbose))


# --- starts ---------------------------------------------------------------------------------------


def make_starts(
    graph: LatentGraph, init: Any, restarts: int, random_state: Any
) -> list[Callable[[], dict[int, Array]]]:
    """One maker of tables per start; each has a seed of its own, whatever thread it runs on."""
    if isinstance(init, Mapping):
        _, tables = read_tables(graph, init)
        given = {scope[-1]: table for scope, table in tables.items()}
        return [partial(dict, given)]
    if init != "random":
        known = ["random", "pbp"]
        raise UnknownNameError("init", init, known, "Or pass a dict of variable -> table.")
    at_least("restarts", restarts, 1, whole=True)
    seeds = spawn_seeds(random_state, restarts)
    return [partial(random_tables, graph, seed) for seed in seeds]


def spawn_seeds(random_state: Any, count: int) -> list[np.random.SeedSequence]:
    if isinstance(random_state, np.random.RandomState):
        random_state = int(random_state.randint(2**31))
    if isinstance(random_state, np.random.Generator):
        random_state = int(random_state.integers(2**63))
    return np.random.SeedSequence(random_state).spawn(count)


def random_tables(graph: LatentGraph, seed: np.random.SeedSequence) -> dict[int, Array]:
    """Every row of every table from a flat Dirichlet."""
    rng = np.random.default_rng(seed)
    states = [count or 1 for count in graph.states]
    return {
        v: rng.dirichlet(np.ones(states[v]), size=[states[u] for u in above])
        for v, above in enumerate(graph.parents())
    }


# --- the climb ------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class Climb:
    """Where a start ended: its tables, the levels up to theirs, and whether it came to rest."""

    tables: dict[int, Array]
    path: tuple[float, ...]  # log-likelihood, with the prior, per row
    converged: bool


def climb_from(
    problem: Problem, start: Callable[[], dict[int, Array]], max_iter: int, tol: float
) -> Climb:
    """`climb`, from a start that is made where it is needed."""
    return climb(problem, start(), max_iter, tol)


def climb(problem: Problem, start: Tables, max_iter: int, tol: float) -> Climb:
    """EM from one start, until an iteration gains less than `tol` per row."""
    tables = dict(start)
    moments = problem.sum(tables)
    path = [level(problem, tables, moments)]
    for _ in range(max_iter):
        tables = maximise(counts_in(moments), problem.prior)
        moments = problem.sum(tables)
        path.append(level(problem, tables, moments))
        gain = path[-1] - path[-2]
        if gain < -ROUNDING * (1.0 + abs(path[-1])):
            raise LatentiaError(
                f"the likelihood fell by {-gain:.3g} per row in iteration {len(path) - 1}; EM "
                "never lowers it, so this is an error of ours. Please report it with your graph."
            )
        if gain < tol:
            return Climb(tables, tuple(path), True)
    return Climb(tables, tuple(path), False)


def best_of(plan: Plan, problem: Problem, climbs: Sequence[Climb]) -> Operators:
    """The start that ended highest, with its states in a fixed order, ready for questions."""
    best = int(np.argmax([c.path[-1] for c in climbs]))
    tables = in_fixed_order(plan.graph, climbs[best].tables)
    tables = with_unseen(tables, problem.marginals)
    ascent = Ascent(tuple(c.path for c in climbs), tuple(c.converged for c in climbs), best)
    return operators_of(plan, tables, problem.weight, ascent)


# --- running --------------------------------------------------------------------------------------


def run_all(
    climbs: Sequence[Callable[[], Climb]],
    n_jobs: int | None,
    verbose: bool,
    steps: str = "iterations",
) -> list[Climb]:
    """Every climb, in processes of their own if there is more than one job.

    Processes and not threads: single steps take microseconds, and threads would wait for each
    other between them.
    """
    jobs = min(effective_n_jobs(_checked_jobs(n_jobs)), len(climbs))
    found: list[Climb] = []
    if jobs > 1:
        results = Parallel(jobs, return_as="generator")(delayed(_on_one_thread)(c) for c in climbs)
    else:
        results = map(_on_one_thread, climbs)
    for climbed in results:
        found.append(climbed)
        if verbose:
            end = "converged" if climbed.converged else "not converged"
            print(
                f"start {len(found)}/{len(climbs)}: {climbed.path[-1]:.6f} per row after "
                f"{len(climbed.path) - 1} {steps}, {end}",
                flush=True,
            )
    return found


def _on_one_thread(call: Callable[[], Climb]) -> Climb:
    with one_thread():
        return call()


def _checked_jobs(n_jobs: int | None) -> int | None:
    if n_jobs is None or (isinstance(n_jobs, int) and n_jobs != 0):
        return n_jobs
    raise DataError(f"expected n_jobs to be a whole number other than 0, or None, got {n_jobs!r}.")
