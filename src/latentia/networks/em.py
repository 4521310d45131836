"""Expectation maximisation: tables P(variable | parents) of largest likelihood (design 9).

Exact E-step on the junction tree, over unique rows, each one fold; closed-form M-step; the best of
several random starts. Missing cells are marginalised: it is the likelihood of what was observed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from latentia.announcing import Verbose
from latentia.data.columns.column import Column
from latentia.data.rows import Source
from latentia.errors import DataError
from latentia.exact.leaf_pieces import WideGraph, widened
from latentia.inference.operators import Operators
from latentia.networks.discrete_network import start_of_graph
from latentia.networks.em_cells import cell_starts, check_wishes
from latentia.networks.em_climb import best_of, best_of_pieces, climb_from, in_column_units, run_all
from latentia.networks.em_pieces import pose_pieces
from latentia.networks.em_problem import (
    Problem,
    Scale,
    at_least,
    grid_scales,
    pose,
)
from latentia.networks.knowledge import PseudoCounts, read_knowledge, short_tables
from latentia.networks.leaf_cells import CellRows, check_leaves, leaf_cells
from latentia.networks.learner import Abilities
from latentia.networks.starts import make_starts, seeding_of, spawn_seeds
from latentia.networks.tied import matched
from latentia.parameters import Parameters, shown_with
from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan, make_plan
from latentia.typing import Array, ByName, Cell, Label, Seed


class EM(Parameters):
    """Expectation maximisation with random restarts.

    Parameters
    ----------
    restarts : int
        Random starts; the one with the largest training likelihood is kept.
    max_iter : int
        Iterations of each start.
    tol : float
        A start has converged when an iteration gains less than this in log-likelihood per row.
    smoothing : float or dict of variable -> float or table
        Pseudo-counts for every row of every table, spread like the column's own marginal (uniformly
        for latents and variables without parents): maximum a posteriori instead of maximum
        likelihood. Levels and the choice among restarts then include the prior. For a continuous
        column: so many rows with the column's own mean and variance. A dict tells them variable by
        variable (none for those it leaves out), perhaps as a table of pseudo-counts.
    init : "random", "pbp" or dict of variable -> table
        Random starts draw every row of every table from a flat Dirichlet. "pbp" is a single start
        from the closed form's statistics, which makes restarts unnecessary; it needs a separator of
        its own for every latent, and discrete columns. Tables, with axes (parents in the order
        given, variable), give a single start from there. Continuous columns start from rows that
        lie far from each other (the seeding of k-means++).
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
    known : dict of variable -> table, optional
        Cells of tables that are known and held fixed, NaN where they are to be learned; a zero
        stays a zero. Axes (parents in the order given, variable), states in order.
    tied : list of lists of variables, optional
        Variables of a group share one table, which is learned from the counts of all of them.
    """

    def __init__(
        self,
        restarts: int = 10,
        max_iter: int = 200,
        tol: float = 1e-6,
        smoothing: PseudoCounts = 0.0,
        init: object = "random",
        mixture: int = 1,
        variance_floor: float = 1e-3,
        n_jobs: int | None = None,
        random_state: Seed = None,
        verbose: Verbose = False,
        known: ByName[Cell] | None = None,
        tied: Sequence[Sequence[Label]] | None = None,
    ) -> None:
        self.restarts = restarts
        self.max_iter = max_iter
        self.tol = tol
        self.smoothing = smoothing
        self.known = known
        self.tied = tied
        self.init = init
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
            partial=False,
            gaussian=True,
            pieces=True,
            mixed_pieces=True,
            mixture=self.mixture,
            known=self.known,
            tied=self.tied,
            smoothing=self.smoothing,
            started=self.init if isinstance(self.init, Mapping) else None,
            random_state=self.random_state,
        )

    def learn_mixed(self, plan: Plan, columns: Sequence[Column], source: Source) -> Operators:
        """With continuous columns; levels are log densities per row in their own units."""
        if plan.tables_of is not None:
            return self._learn_cells(plan, plan.tables_of, columns, source)
        tied = read_knowledge(plan.graph, None, self.tied).tied
        scales = grid_scales(plan.graph, columns, tied)
        found = self.learn(plan, source, scales, widened(plan.graph, columns))
        return in_column_units(found, columns, source, scales)

    def learn(
        self,
        plan: Plan,
        source: Source,
        scales: Mapping[int, Scale] | None = None,
        wide: WideGraph | None = None,
    ) -> Operators:
        """One pass over the rows for every iteration of every start.

        `scales` are mean and deviation by which continuous columns are standardised; default:
        those of the rows. `wide` tells which of them come in pieces; default: none.
        """
        at_least("max_iter", self.max_iter, 1, whole=True)
        at_least("tol", self.tol, 0)
        at_least("variance_floor", self.variance_floor, 0)
        knowledge = read_knowledge(plan.graph, self.known, self.tied, self.smoothing)
        problem = pose(
            *(plan, source, self.smoothing, self.variance_floor),
            scales=scales,
            knowledge=knowledge,
            wide=wide,
        )
        seeding = seeding_of(problem, source, self.mixture)
        if isinstance(self.init, str) and self.init == "pbp":
            first = self._closed_form_start(plan, source, problem)
            starts: list[Callable[[], dict[int, Array]]] = [partial(dict, first)]
        else:
            graph = problem.estep.graph
            starts = make_starts(graph, self.init, self.restarts, self.random_state, seeding)
        alone = problem if self.n_jobs is None else problem.on(1)
        climbs = [partial(climb_from, alone, start, self.max_iter, self.tol) for start in starts]
        return best_of(plan, problem, run_all(climbs, self.n_jobs, self.verbose))

    def learn_graph(self, graph: LatentGraph, source: Source) -> Operators:
        """The same piece by piece: no junction tree of the whole graph is made, nor a plan.

        Every start takes the same path; discrete columns only.
        """
        at_least("max_iter", self.max_iter, 1, whole=True)
        at_least("tol", self.tol, 0)
        knowledge = read_knowledge(graph, self.known, self.tied, self.smoothing)
        problem = pose_pieces(graph, source, self.smoothing, knowledge)
        if isinstance(self.init, str) and self.init == "pbp":
            plan = make_plan(graph)
            rng = np.random.default_rng(spawn_seeds(self.random_state or 0, 1)[0])
            first = matched(graph, start_of_graph(plan, source, rng), knowledge)
            starts: list[Callable[[], dict[int, Array]]] = [partial(dict, first)]
        else:
            starts = make_starts(graph, self.init, self.restarts, self.random_state)
        alone = problem if self.n_jobs is None else problem.on(1)
        climbs = [partial(climb_from, alone, start, self.max_iter, self.tol) for start in starts]
        return best_of_pieces(problem, run_all(climbs, self.n_jobs, self.verbose))

    def _learn_cells(
        self, plan: Plan, graph: LatentGraph, columns: Sequence[Column], source: Source
    ) -> Operators:
        """Piece by piece with continuous columns, as Gaussians on cells."""
        at_least("max_iter", self.max_iter, 1, whole=True)
        at_least("tol", self.tol, 0)
        at_least("variance_floor", self.variance_floor, 0)
        leaves = leaf_cells(graph, columns, self.variance_floor)
        check_leaves(graph, leaves, self.known, self.tied, self.smoothing)
        check_wishes(graph, leaves, self.init, self.mixture)
        knowledge = read_knowledge(graph, self.known, self.tied, self.smoothing)
        rows = CellRows(tuple(columns), {}).source(source)
        problem = replace(pose_pieces(graph, rows, self.smoothing, knowledge), leaves=leaves)
        alone = problem if self.n_jobs is None else problem.on(1)
        starts = cell_starts(problem, self.restarts, self.random_state)
        climbs = [partial(climb_from, alone, start, self.max_iter, self.tol) for start in starts]
        found = best_of_pieces(problem, run_all(climbs, self.n_jobs, self.verbose))
        return in_column_units(
            found, columns, source, dict.fromkeys(plan.graph.observed, (0.0, 1.0))
        )

    def _closed_form_start(self, plan: Plan, source: Source, problem: Problem) -> dict[int, Array]:
        """Tables from the closed form's statistics; discrete columns only."""
        if problem.scales:
            names = ", ".join(str(plan.graph.names[v]) for v in sorted(problem.scales)[:10])
            raise DataError(
                f"init='pbp' is for discrete columns, and {names} is not. Use init='random'."
            )
        rng = np.random.default_rng(spawn_seeds(self.random_state or 0, 1)[0])
        return matched(plan.graph, start_of_graph(plan, source, rng), problem.knowledge)


def repr_of(learner: Parameters, shown: dict[str, object], most: int) -> str:
    """As scikit-learn has it, without a function that listens to progress, and tables in short."""
    shown = {name: short_tables(value) for name, value in shown.items()}
    if callable(shown["verbose"]):
        shown["verbose"] = False
    return shown_with(learner, shown, most)
