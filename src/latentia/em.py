"""Expectation maximisation: tables P(variable | parents) of largest likelihood (design 9).

Exact E-step on the junction tree, over unique rows, each one fold; closed-form M-step; the best of
several random starts. Missing cells are marginalised: it is the likelihood of what was observed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias, final

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import BaseEstimator

from latentia.cpts import check_operators, fixed_orders, operators_of, renumbered
from latentia.errors import DataError, LatentiaError, UnknownNameError
from latentia.estep import EStep, Tables, compile_estep, expected_counts, pack_rows, packed_counts
from latentia.frames.local import LocalRows, unique_rows
from latentia.gaussian import (
    MOST_SEEDED,
    draw_leaves,
    features,
    grid_masses,
    leaf_prior,
    maximise_leaf,
    rescaled,
)
from latentia.graph import LatentGraph
from latentia.moments import Moments, Rows
from latentia.operators import Ascent, Operators, smooth_unseen
from latentia.plan import Plan
from latentia.progress import Verbose, announcing
from latentia.refine import Prior
from latentia.solve import one_thread
from latentia.tables import read_tables
from latentia.typing import Array, Source
from latentia.wiring import check_graph

__all__ = [
    "Climb",
    "Counts",
    "EM",
    "Problem",
    "Seeding",
    "at_least",
    "best_of",
    "best_tables",
    "climb",
    "counts_in",
    "level",
    "make_starts",
    "maximise",
    "pose",
    "random_tables",
    "repr_of",
    "run_all",
    "seeding_of",
    "spawn_seeds",
]

Counts: TypeAlias = Mapping[int, Array]  # variable -> (parents …, variable)
Scale: TypeAlias = tuple[float, float]  # mean and standard deviation of a column

ROUNDING = 1e-9  # how much a level may fall, relative
LEAST_MASS = 1e-12  # of a continuous column, spread over its grid


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
        likelihood. Levels and the choice among restarts then include the prior. For a continuous
        column: so many rows with the column's own mean and variance.
    init : "random" or dict of variable -> table
        Random starts draw every row of every table from a flat Dirichlet. Tables, with axes
        (parents in the graph's order, variable), give a single start from there. Continuous
        columns start from rows that lie far from each other (the seeding of k-means++).
    mixture : int
        Gaussian components of a continuous column for each state of its parents.
    variance_floor : float
        No variance falls below this share of the column's own: a state with a single row would
        otherwise have infinite density.
    n_jobs : int, optional
        Processes over restarts, as in scikit-learn: -1 means one per core, None one, unless a
        joblib.parallel_config says otherwise. Answers do not depend on it.
    random_state : int, numpy Generator or RandomState, optional
        Seed of the starts.
    verbose : bool or function
        Print a line when a start has ended, below a progress bar where stdout is a terminal and
        rich is installed; a function gets the line instead.
    """

    def __init__(
        self,
        restarts: int = 10,
        max_iter: int = 200,
        tol: float = 1e-6,
        smoothing: float = 0.0,
        init: Any = "random",
        mixture: int = 1,
        variance_floor: float = 1e-3,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: Verbose = False,
    ) -> None:
        self.restarts = restarts
        self.max_iter = max_iter
        self.tol = tol
        self.smoothing = smoothing
        self.init = init
        self.mixture = mixture
        self.variance_floor = variance_floor
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        shown = self.get_params(deep=False)
        if isinstance(self.init, Mapping):
            shown["init"] = f"tables of {len(self.init)} variables"
        return repr_of(self, shown, N_CHAR_MAX)

    def learn(self, plan: Plan, source: Source) -> Operators:
        """One pass over the rows for every iteration of every start."""
        at_least("max_iter", self.max_iter, 1, whole=True)
        at_least("tol", self.tol, 0)
        at_least("variance_floor", self.variance_floor, 0)
        problem = pose(plan, source, self.smoothing, self.variance_floor)
        seeding = seeding_of(problem, self.mixture)
        starts = make_starts(plan.graph, self.init, self.restarts, self.random_state, seeding)
        alone = problem if self.n_jobs is None else problem.on(1)
        climbs = [partial(climb_from, alone, start, self.max_iter, self.tol) for start in starts]
        return best_of(plan, problem, run_all(climbs, self.n_jobs, self.verbose))


def repr_of(learner: BaseEstimator, shown: dict[str, Any], most: int) -> str:
    """As scikit-learn has it, without a function that listens to progress."""
    if callable(shown["verbose"]):
        shown["verbose"] = False
    return str(BaseEstimator.__repr__(type(learner)(**shown), most))


# --- the problem ----------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class Problem:
    """Rows, the E-step that sums over them, and the prior of the M-step."""

    estep: EStep
    source: Source
    packed: bool  # the rows of the source are packed already
    weight: float  # N
    marginals: Mapping[int, Array]  # counts of the states of each discrete column
    prior: Prior | None  # None: maximum likelihood
    scales: Mapping[int, Scale] = field(default_factory=dict)  # of continuous columns
    smoothing: float = 0.0  # pseudo-counts of continuous columns
    floor: float = 0.0  # of their variances

    def sum(self, tables: Tables) -> Moments:
        """One E-step."""
        if self.packed:
            return self.source.fold(partial(packed_counts, self.estep, tables))
        return self.source.fold(partial(_counts_of, self.estep, tables, self.scales))

    def on(self, threads: int) -> Problem:
        """The same, each fold on so many threads."""
        if not isinstance(self.source, LocalRows):
            return self
        source = LocalRows(self.source.rows, self.source.block_rows, threads)
        return replace(self, source=source)


def pose(plan: Plan, source: Source, smoothing: float = 0.0, floor: float = 0.0) -> Problem:
    """Look at the rows once: columns with holes, marginals; in memory, unique rows are kept.

    Columns of decimals are continuous; they are standardised here.
    """
    at_least("smoothing", smoothing, 0)
    graph = plan.graph
    check_graph(graph)
    check_operators(plan)
    seen = source.fold(partial(_count_columns, graph))
    if not seen.weight > 0:
        raise DataError("there are no rows to learn from, or their weights are all zero.")
    moments = {v: x for v in graph.observed if (x := seen.sums.get(f"moments/{v}")) is not None}
    counts = {v: seen.sums[f"column/{v}"] for v in graph.observed if v not in moments}
    for v in graph.observed:
        if not (counts[v].sum() if v in counts else moments[v][0]) > 0:
            raise DataError(
                f"no row has a value in {graph.names[v]}. Drop the column from the graph."
            )
    holes = [v for v in graph.observed if seen.sums[f"holes/{v}"][0] > 0]
    scales = {v: _scale(sums) for v, sums in moments.items()}
    estep = compile_estep(graph, holes, continuous=scales)
    prior = _make_prior(graph, counts, smoothing) if smoothing > 0 else None
    rest = (seen.weight, counts, prior, scales, float(smoothing), float(floor))
    if not isinstance(source, LocalRows):
        return Problem(estep, source, False, *rest)
    rows = pack_rows(estep, standardised(graph, source.rows, scales))
    if not scales:
        rows = unique_rows(rows, [pack.codes for pack in estep.packs])
    return Problem(estep, LocalRows(rows, source.block_rows, source.threads), True, *rest)


def _scale(sums: Array) -> Scale:
    """Mean and standard deviation from Σ w, Σ w x, Σ w x²; a constant column has deviation 1."""
    mean = float(sums[1] / sums[0])
    deviation = math.sqrt(max(float(sums[2] / sums[0]) - mean * mean, 0.0))
    return mean, deviation if deviation > 1e-9 * (1 + abs(mean)) else 1.0


def standardised(graph: LatentGraph, rows: Rows, scales: Mapping[int, Scale]) -> Rows:
    """Continuous columns with mean 0 and variance 1."""
    if not scales:
        return rows
    codes: list[Any] = list(rows.codes)
    for i, v in enumerate(graph.observed):
        if v in scales:
            codes[i] = (codes[i] - scales[v][0]) / scales[v][1]
    return Rows(tuple(codes), rows.weight)


def _counts_of(estep: EStep, tables: Tables, scales: Mapping[int, Scale], rows: Rows) -> Moments:
    return expected_counts(estep, tables, standardised(estep.graph, rows, scales))


def _count_columns(graph: LatentGraph, rows: Rows) -> Moments:
    """Counts of the states of every column, and of its missing cells; of decimals, moments."""
    sums: dict[str, Array] = {}
    for v, codes in zip(graph.observed, rows.codes, strict=True):
        if codes.dtype.kind == "f":
            F = features(np.asarray(codes, dtype=float))
            sums[f"moments/{v}"] = F.sum(axis=1) if rows.weight is None else F @ rows.weight
            sums[f"holes/{v}"] = np.array([(F[0] == 0).sum()])
            continue
        found = np.bincount(codes + 1, rows.weight, (graph.states[v] or 1) + 1).astype(float)
        sums[f"column/{v}"], sums[f"holes/{v}"] = found[1:], np.array([(codes < 0).sum()])
    return Moments("columns", rows.total, len(rows), sums)


def _make_prior(graph: LatentGraph, counts: Counts, smoothing: float) -> Prior:
    found = {}
    for v, above in enumerate(graph.parents()):
        if v not in graph.latent and v not in counts:
            continue  # continuous
        size = graph.states[v] or 1
        share = np.full(size, 1.0 / size)
        if above and v in counts:
            share = smooth_unseen(counts[v] / counts[v].sum(), float(counts[v].sum()))
        found[v] = smoothing * share
    return Prior(found)


# --- starts ---------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class Seeding:
    """Rows among which starts of continuous columns are drawn, by columns with the same parents."""

    groups: tuple[tuple[tuple[int, ...], Array], ...]  # columns, and (columns, rows)
    mixture: int


def seeding_of(problem: Problem, mixture: int) -> Seeding | None:
    """A sample of the standardised rows; None without continuous columns."""
    at_least("mixture", mixture, 1, whole=True)
    dense = problem.estep.dense
    if not dense:
        return None
    rng = np.random.default_rng(0)  # the same sample for all starts, which draw from it
    if not isinstance(problem.source, LocalRows):  # rows that can only be added up
        drawn = [(g.variables, rng.normal(size=(len(g.variables), 200))) for g in dense]
        return Seeding(tuple(drawn), mixture)
    columns = iter(problem.source.sample(MOST_SEEDED, rng).codes[len(problem.estep.packs) :])
    found = [(g.variables, np.array([next(columns) for _ in g.variables], float)) for g in dense]
    return Seeding(tuple(found), mixture)


def make_starts(
    graph: LatentGraph,
    init: Any,
    restarts: int,
    random_state: Any,
    seeding: Seeding | None = None,
) -> list[Callable[[], dict[int, Array]]]:
    """One maker of tables per start; each has a seed of its own, whatever thread it runs on."""
    if isinstance(init, Mapping) and seeding is not None:
        raise DataError(
            "init takes tables of discrete columns only, and some of these are continuous. "
            "Use init='random', with random_state to repeat it."
        )
    if isinstance(init, Mapping):
        _, tables = read_tables(graph, init)
        given = {scope[-1]: table for scope, table in tables.items()}
        return [partial(dict, given)]
    if init != "random":
        raise UnknownNameError("init", init, ["random"], "Or pass a dict of variable -> table.")
    at_least("restarts", restarts, 1, whole=True)
    seeds = spawn_seeds(random_state, restarts)
    return [partial(random_tables, graph, seed, seeding) for seed in seeds]


def spawn_seeds(random_state: Any, count: int) -> list[np.random.SeedSequence]:
    if isinstance(random_state, np.random.RandomState):
        random_state = int(random_state.randint(2**31))
    if isinstance(random_state, np.random.Generator):
        random_state = int(random_state.integers(2**63))
    return np.random.SeedSequence(random_state).spawn(count)


def random_tables(
    graph: LatentGraph, seed: np.random.SeedSequence, seeding: Seeding | None = None
) -> dict[int, Array]:
    """Every row of every table from a flat Dirichlet; Gaussians around rows far apart."""
    rng = np.random.default_rng(seed)
    states, parents = [count or 1 for count in graph.states], graph.parents()
    leaves: dict[int, Array] = {}
    if seeding is not None:
        for columns, X in seeding.groups:
            shape = [states[u] for u in parents[columns[0]]]
            leaves |= zip(columns, draw_leaves(X, shape, seeding.mixture, rng), strict=True)
    return {
        v: leaves[v]
        if v in leaves
        else rng.dirichlet(np.ones(states[v]), size=[states[u] for u in above])
        for v, above in enumerate(parents)
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
        tables = best_tables(problem, counts_in(moments))
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


def level(problem: Problem, tables: Tables, moments: Moments) -> float:
    """Log-likelihood, plus the log of the prior, per row; densities of standardised columns."""
    prior = 0.0 if problem.prior is None else problem.prior.log_density(tables)
    prior += sum(leaf_prior(tables[v], problem.smoothing) for v in problem.scales)
    return (float(moments.sums["log_likelihood"][0]) + prior) / problem.weight


def counts_in(moments: Moments) -> dict[int, Array]:
    return {
        int(name.removeprefix("counts/")): total
        for name, total in moments.sums.items()
        if name.startswith("counts/")
    }


def best_tables(problem: Problem, counts: Counts) -> dict[int, Array]:
    """The M-step of all tables and Gaussians."""
    discrete = {v: x for v, x in counts.items() if v not in problem.scales}
    leaves = {v: maximise_leaf(counts[v], problem.floor, problem.smoothing) for v in problem.scales}
    return {**maximise(discrete, problem.prior), **leaves}


def maximise(counts: Counts, prior: Prior | None) -> dict[int, Array]:
    """The M-step: counts and pseudo-counts, every row divided by its sum.

    A row that no data speak of takes the shares of all rows together.
    """
    tables = {}
    for v, count in counts.items():
        rows = count if prior is None else count + prior.counts[v]
        total = rows.sum(axis=-1, keepdims=True)
        if not total.min() > 0:
            pooled = count.reshape(-1, count.shape[-1]).sum(axis=0)
            rows = np.where(total > 0, rows, pooled)
            total = rows.sum(axis=-1, keepdims=True)
        tables[v] = rows / total
    return tables


def best_of(plan: Plan, problem: Problem, climbs: Sequence[Climb]) -> Operators:
    """The start that ended highest, with its states in a fixed order, ready for questions."""
    best = int(np.argmax([c.path[-1] for c in climbs]))
    found = dict(climbs[best].tables)
    leaves = {v: rescaled(found[v], *scale) for v, scale in problem.scales.items()}
    found |= {v: leaf_masses(leaf, plan.graph.states[v] or 1) for v, leaf in leaves.items()}
    orders = fixed_orders(plan.graph, found)
    tables = renumbered(plan.graph, found, orders)
    leaves = renumbered(plan.graph, leaves, orders)
    tables = with_unseen(tables, problem.marginals)
    ascent = Ascent(tuple(c.path for c in climbs), tuple(c.converged for c in climbs), best)
    return operators_of(plan, tables, problem.weight, ascent, leaves)


def leaf_masses(leaf: Array, points: int) -> Array:
    """Masses at the points of a grid, none of them quite zero: rows may lie far out."""
    return (1.0 - LEAST_MASS) * grid_masses(leaf, points) + LEAST_MASS / points


def with_unseen(tables: Tables, marginals: Counts) -> dict[int, Array]:
    """States that were declared but never seen count as half a row, alike for all parents.

    So that they say nothing as evidence, rather than contradict the model.
    """
    found = dict(tables)
    for v, count in marginals.items():
        unseen = count == 0
        if unseen.any() and not tables[v][..., unseen].any():
            N = float(count.sum())
            share = smooth_unseen(count / N, N) * unseen
            found[v] = tables[v] * (1.0 - share.sum()) + share
    return found


# --- running --------------------------------------------------------------------------------------


def run_all(
    climbs: Sequence[Callable[[], Climb]],
    n_jobs: int | None,
    verbose: Any,
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


def at_least(name: str, value: Any, lowest: float, whole: bool = False) -> None:
    """A number of at least so much, or an error that says so."""
    kinds = (int, np.integer) if whole else (int, float, np.number)
    if not isinstance(value, kinds) or not lowest <= value < math.inf:
        what = "a whole number" if whole else "a number"
        raise DataError(f"expected {name} to be {what} of at least {lowest}, got {value!r}.")
