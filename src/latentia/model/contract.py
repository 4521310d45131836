"""What every estimator here has, and what a fitted model keeps, under scikit-learn's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from latentia import doors
from latentia.data.columns.column import Column
from latentia.errors import NotLearnedError
from latentia.inference.operators import Operators
from latentia.inference.provenance import Ascent
from latentia.parameters import Parameters
from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan
from latentia.typing import Array, Cell, FilePath, Foreign, Label

if TYPE_CHECKING:
    from latentia.assess.diagnostics import Diagnostics
    from latentia.pooling.column_pool import Pool


class Estimator(Parameters):
    """The part of scikit-learn's contract that models and classifiers share."""

    _learned: ClassVar[str]  # the attribute that a fit leaves behind
    _call: ClassVar[str] = "fit(frame)"

    def save(self, path: FilePath) -> None:
        """Write what was fitted to one file, at once or not at all; `latentia.load` reads it."""
        doors.save(self, path)

    def _check_fitted(self) -> None:
        if not hasattr(self, self._learned):
            from sklearn.exceptions import NotFittedError

            name = type(self).__name__
            raise NotFittedError(
                f"this {name} instance is not fitted yet. Call {self._call} first."
            )

    def __sklearn_tags__(self) -> Foreign:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


class Learned(Estimator):
    """Attributes of a fitted model: plan, operators and columns, and what they tell."""

    _learned = "operators_"

    def _keep(
        self,
        plan: Plan,
        operators: Operators,
        columns: tuple[Column, ...],
        diagnostics: Diagnostics,
    ) -> None:
        for name in ("error_bars_", "pool_"):
            self.__dict__.pop(name, None)  # of what was learned before
        self.plan_ = plan
        self.operators_ = operators
        self.moments_ = operators.provenance.moments
        self.columns_ = columns
        self.diagnostics_ = diagnostics
        self.n_features_in_ = len(columns)
        self.feature_names_in_ = np.empty(len(columns), dtype=object)
        self.feature_names_in_[:] = [c.name for c in columns]

    pool_: Pool  # what other models say of single columns

    def _keep_pool(self, pool: Pool) -> None:
        """Answers for single columns are mixed from now on, and diagnostics say so."""
        self.pool_ = pool
        told = {c.name: pool.weights_of(i) for i, c in enumerate(self.columns_)}
        chained = pool.chain is not None and bool(pool.chain.links)
        drawn_by = "chain" if chained else "joint"
        self.diagnostics_ = replace(self.diagnostics_, pooled=told, drawn_by=drawn_by)

    @property
    def ranks_(self) -> dict[tuple[Label, ...], int]:
        """Rank of every separator, by the columns below it."""
        self._check_fitted()
        plan = self.plan_
        columns = [plan.nodes[k].columns for k in plan.leaves]
        return {
            tuple(plan.graph.names[v] for x in range(n.first, n.last) for v in columns[x]): n.rank
            for k, n in enumerate(plan.nodes)
            if n.parent != k
        }

    @property
    def states_(self) -> dict[Label, int]:
        """Number of states of every latent that says something: as stated, or from the data."""
        self._check_fitted()
        graph = self._graph
        return {graph.names[v]: graph.states[v] or 1 for v in sorted(graph.latent)}

    @property
    def cpts_(self) -> dict[Label, Cell]:
        """Tables P(variable | parents) by name, axes (parents in the order given, itself).

        Of a continuous column with Gaussian leaves (learner='em') a `GaussianTable`.
        """
        from latentia.exact.gaussian_leaves import gaussian_tables

        self._check_fitted()
        graph, tables = self._tables("cpts_")
        found = {graph.names[v]: x for v, x in sorted(tables.items())}
        return found | gaussian_tables(graph, self.operators_.gaussians, self.columns_)

    @property
    def converged_(self) -> bool:
        """Whether the start that was kept came to rest within its iterations."""
        ascent = self._ascent("converged_")
        return ascent.converged[ascent.best]

    @property
    def n_iter_(self) -> int:
        """Iterations (of stepwise EM: epochs) of the start that was kept."""
        ascent = self._ascent("n_iter_")
        return len(ascent.paths[ascent.best]) - 1

    @property
    def history_(self) -> list[list[float]]:
        """Log-likelihood per row before the first and after every iteration, for each start."""
        return [list(path) for path in self._ascent("history_").paths]

    def _tables(self, wanted: str) -> tuple[LatentGraph, Mapping[int, Array]]:
        """The user's own graph and its tables, or an error that says why there are none."""
        own = self.operators_.own_tables(self._graph)
        if own is None:
            raise NotLearnedError(self._lacks(wanted, "tables"))
        return own

    @property
    def _graph(self) -> LatentGraph:
        """The user's own graph, with latents and numbers of states."""
        network = self.operators_.network
        return self.plan_.graph if network is None else network.graph

    def _ascent(self, wanted: str) -> Ascent:
        self._check_fitted()
        if self.operators_.provenance.ascent is None:
            raise NotLearnedError(self._lacks(wanted, "iterations"))
        return self.operators_.provenance.ascent

    def _lacks(self, wanted: str, what: str) -> str:
        why = self.operators_.provenance.nameless if what == "tables" else ""
        return (
            f"{wanted} needs a learner with {what}, this model was learned by "
            f"{self.diagnostics_.learner}" + (f", and {why} " if why else ". ") + WAYS[what]
        )


WAYS = {
    "tables": "Use learner='tables', learner='em', or the default on rows that can be read again.",
    "iterations": "Use learner='em' or lt.EM(...).",
}
