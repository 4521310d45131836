"""LatentModel: the engine behind the contract that scikit-learn users know. No mathematics here."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from latentia.batch import every_column, in_blocks, one_column
from latentia.diagnostics import Diagnostics, diagnose
from latentia.em import EM
from latentia.errors import (
    ColumnWarning,
    DataError,
    EvidenceError,
    IdentifiabilityWarning,
    NotLearnedError,
    UnknownNameError,
)
from latentia.estep import compile_estep, posteriors
from latentia.features.discrete import DiscreteColumn, Values, decode, discover_states, encode
from latentia.frames.local import LocalRows, compress
from latentia.frames.table import Table, read_table
from latentia.graph import LatentGraph, as_graph, relevant
from latentia.joint import joint_posterior, most_probable
from latentia.learners import PBP, PublishedPBP, Spectral
from latentia.messages import Answers, Evidence, answer, log_evidence, read_evidence
from latentia.moments import Rows
from latentia.notices import (
    checked_weight,
    note_constant,
    note_independent,
    note_repaired,
    note_states,
    note_unfinished,
)
from latentia.operators import Ascent, Operators
from latentia.plan import Plan, make_plan
from latentia.posterior import Assignment, Posterior
from latentia.questions import column_place, named, one_row
from latentia.ranks import class_states, latent_states
from latentia.refine import free_parameters
from latentia.sampling import sample_rows
from latentia.stepwise import StepwiseEM
from latentia.templates import latent_class
from latentia.typing import Array, Codes, Label

__all__ = ["LEARNERS", "LatentModel"]

LEARNERS: dict[str, Any] = {
    "pbp": PBP,
    "paper": PublishedPBP,
    "spectral": Spectral,
    "em": EM,
    "stepwise": StepwiseEM,
}


class LatentModel(BaseEstimator):
    """A latent-variable graphical model over the columns of a table.

    Parameters
    ----------
    graph : str, edges, dict of parents, networkx graph, LatentGraph or callable, optional
        How columns and latents are tied together; or a function that makes one of these from the
        list of column names. Default: one latent class tells every column, with as many states as
        the data show.
    latents : dict of name -> number of states, or list of names
        The variables of the graph that are not columns. A number that is left out, or None, is
        found from the data: see `states_`.
    learner : "pbp", "paper", "spectral", "em", "stepwise", or a learner such as ``EM(...)``
        How the model is learned.
    kinds : dict of column -> "discrete", optional
        Kinds of columns, where the rule by dtype is not wanted.
    state_names : dict of column -> list of states, optional
        States and their order; default: the sorted values seen in fit.

    Examples
    --------
    >>> import numpy as np, latentia as lt
    >>> rng = np.random.default_rng(0)
    >>> h = rng.integers(2, size=3000)
    >>> data = {c: np.where(rng.random(3000) < 0.8, h, 1 - h) for c in "xyz"}
    >>> model = lt.LatentModel("H->x; H->y; H->z", latents={"H": 2}).fit(data)
    >>> round(model.query("x", {"y": 1, "z": 1})[1], 2)
    0.76
    """

    def __init__(
        self,
        graph: Any = None,
        latents: Any = None,
        learner: Any = "pbp",
        kinds: Mapping[Any, str] | None = None,
        state_names: Mapping[Any, Sequence[Any]] | None = None,
    ) -> None:
        self.graph = graph
        self.latents = latents
        self.learner = learner
        self.kinds = kinds
        self.state_names = state_names

    # -- learning ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from a table: pandas, polars, Arrow, dict of arrays, or numpy (graph order)."""
        fixed = self.graph is not None and not callable(self.graph)
        graph = as_graph(self.graph, self.latents) if fixed else None
        table = read_table(X, None if graph is None else _columns_of(graph))
        if graph is None:
            graph = self._graph_over(table)
        names = _columns_of(graph)
        self._check_table(table, graph, names)
        weight = checked_weight(sample_weight, table.length)
        cells = [table.column(name) for name in names]
        if weight is not None and (weight == 0).any():  # as if these rows were not there
            cells, weight = [c.where(weight > 0) for c in cells], weight[weight > 0]
        columns = [self._discover(name, c) for name, c in zip(names, cells, strict=True)]
        codes = [encode(c, values) for c, values in zip(columns, cells, strict=True)]
        note_constant(columns, codes)
        learner = _as_learner(self.learner)
        rows = Rows(tuple(codes), weight)
        sizes = [len(c.states) for c in columns]
        source = LocalRows(compress(rows, sizes))
        if self.graph is None:
            graph = latent_class(names, class_states(sizes, source))
        known = graph.with_states(dict(zip(names, sizes, strict=True)))
        known = latent_states(relevant(known), source)
        plan = make_plan(known, groups=getattr(learner, "groups", None) or ())
        for note in plan.notes:
            warnings.warn(note, IdentifiabilityWarning, stacklevel=2)
        operators = learner.learn(plan, source)
        note_unfinished(operators, learner)
        note_independent(operators)
        note_states(operators)
        gaps = {c.name: _share_missing(x, weight) for c, x in zip(columns, codes, strict=True)}
        self._keep(plan, operators, tuple(columns), diagnose(operators, repr(learner), gaps))
        return self

    def _graph_over(self, table: Table) -> LatentGraph:
        """The graph that depends on the columns: a function of their names, or one latent class."""
        if not table.names:
            raise DataError(
                f"0 feature(s) (shape=({table.length}, 0)) while a minimum of 1 is required: "
                "the table has no column to learn from."
            )
        if callable(self.graph):
            return as_graph(self.graph(list(table.names)), self.latents)
        if self.latents is not None:
            raise DataError("latents were given without a graph. Pass the graph that ties them.")
        return latent_class(table.names, 2)  # its number of states comes from the data

    def _check_table(self, table: Table, graph: LatentGraph, names: Sequence[Label]) -> None:
        for v in sorted(graph.latent):
            if graph.names[v] in table.names:
                raise DataError(
                    f"{graph.names[v]!r} is latent in the graph but a column of the table. "
                    "Rename the latent, drop the column, or do not declare it latent."
                )
        for name in (*(self.state_names or {}), *(self.kinds or {})):
            if name not in names:
                raise UnknownNameError("column (in state_names or kinds)", name, names)
        missing = [name for name in names if name not in table.names]
        if missing:
            raise UnknownNameError(
                "column", missing[0], table.names, "The graph names it: add it or make it latent."
            )
        extra = [name for name in table.names if name not in names]
        if extra:
            shown = ", ".join(str(n) for n in extra[:10]) + (" …" if len(extra) > 10 else "")
            warnings.warn(
                f"{len(extra)} column(s) that the graph does not name are ignored: {shown}.",
                ColumnWarning,
                stacklevel=3,
            )
        if table.length == 0:
            raise DataError(
                f"0 sample(s) (shape=(0, {len(names)})) while a minimum of 1 is required: "
                "the table has no rows to learn from."
            )

    def _discover(self, name: Label, values: Values) -> DiscreteColumn:
        kind = (self.kinds or {}).get(name)
        if kind not in (None, "discrete"):
            raise UnknownNameError(
                f"kind of column {name!r}", kind, ["discrete"], "Continuous columns come later."
            )
        return discover_states(name, values, kind, (self.state_names or {}).get(name))

    def _keep(
        self,
        plan: Plan,
        operators: Operators,
        columns: tuple[DiscreteColumn, ...],
        diagnostics: Diagnostics,
    ) -> None:
        self.plan_ = plan
        self.operators_ = operators
        self.moments_ = operators.moments
        self.columns_ = columns
        self.diagnostics_ = diagnostics
        self.n_features_in_ = len(columns)
        self.feature_names_in_ = np.empty(len(columns), dtype=object)
        self.feature_names_in_[:] = [c.name for c in columns]

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
        graph = self.plan_.graph
        return {graph.names[v]: graph.states[v] or 1 for v in sorted(graph.latent)}

    @property
    def cpts_(self) -> dict[Label, Array]:
        """Tables P(variable | parents) by name, axes (parents in the graph's order, itself)."""
        self._check_fitted()
        names = self.operators_.plan.graph.names
        return {names[v]: table for v, table in sorted(self._tables("cpts_").items())}

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

    def _tables(self, wanted: str) -> Mapping[int, Array]:
        if not self.operators_.tables:
            raise NotLearnedError(_lacks(self, wanted, "tables"))
        return self.operators_.tables

    def _ascent(self, wanted: str) -> Ascent:
        self._check_fitted()
        if self.operators_.ascent is None:
            raise NotLearnedError(_lacks(self, wanted, "iterations"))
        return self.operators_.ascent

    def save(self, path: Any) -> None:
        """Write the fitted model to one file, at once or not at all; `latentia.load` reads it."""
        from latentia.store import save

        save(self, path)

    # -- questions -----------------------------------------------------------------------------

    def query(
        self,
        variables: Any,
        evidence: Mapping[Any, Any] | None = None,
        soft: Mapping[Any, Mapping[Any, float]] | None = None,
    ) -> Posterior:
        """P(variables | evidence): one variable, or several for their joint posterior.

        `soft` gives likelihoods of states instead of one state: ``{"G": {0: .2, 1: .8}}``.
        """
        self._check_fitted()
        names = named(variables, self.plan_.graph.names)
        codes, likelihoods = one_row(
            self.columns_, self.plan_.graph.names, names, evidence or {}, soft or {}
        )
        places = [self._place(name) for name in names]
        if len(places) == 1:
            found = self._answer(read_evidence(self.operators_.plan, codes, likelihoods), places)
            v = self.operators_.plan.graph.observed[places[0]]
            table, log = found.probabilities[v][:, 0], float(found.log_evidence[0])
            clipped = float(found.clipped[v][0])
            if found.repaired[0]:
                note_repaired(1)
        else:
            flat, log, clipped = joint_posterior(self.operators_, codes, likelihoods, places)
            table = flat.reshape([len(self.columns_[i].states) for i in places])
        states = tuple(self.columns_[i].states for i in places)
        shown = {**(evidence or {}), **{k: dict(v) for k, v in (soft or {}).items()}}
        return Posterior(tuple(names), states, np.array(table), log, clipped, shown)

    def map_query(
        self,
        variables: Any,
        evidence: Mapping[Any, Any] | None = None,
        soft: Mapping[Any, Mapping[Any, float]] | None = None,
        random_state: Any = 0,
    ) -> Assignment:
        """The most probable joint assignment of variables given evidence.

        Up to a million joint states are enumerated; beyond, a search answers with exact=False.
        """
        self._check_fitted()
        names = named(variables, self.plan_.graph.names)
        codes, likelihoods = one_row(
            self.columns_, self.plan_.graph.names, names, evidence or {}, soft or {}
        )
        places = [self._place(name) for name in names]
        found, log, exact = most_probable(
            self.operators_, codes, likelihoods, places, np.random.default_rng(random_state)
        )
        values = {
            name: self.columns_[i].states[c]
            for name, i, c in zip(names, places, found, strict=True)
        }
        return Assignment(values, log, exact)

    def predict_proba(self, X: Any, target: Any = None) -> Any:
        """P(target | all other present cells) of every row: (rows, states), as the frame came.

        Without a target: those of all columns side by side, named ``column=state``.
        """
        self._check_fitted()
        if target is None:
            table = self._read(X)
            found = every_column(self.operators_, self.columns_, table)
            return table.like(
                {
                    f"{c.name}={state}": found[i][k]
                    for i, c in enumerate(self.columns_)
                    for k, state in enumerate(c.states)
                }
            )
        place = self._place(target)
        table = self._read(X)
        each = one_column(self.operators_, self.columns_, table, place)
        return table.like({state: each[k] for k, state in enumerate(self.columns_[place].states)})

    def predict(self, X: Any, target: Any = None) -> Any:
        """The most probable state of `target` given all other present cells of each row.

        Without a target: the table's columns with their missing cells filled in, each by its most
        probable state given the present cells of its row.
        """
        self._check_fitted()
        if target is None:
            return self._completed(self._read(X))
        place = self._place(target)
        table = self._read(X)
        best = one_column(self.operators_, self.columns_, table, place).argmax(axis=0)
        return table.like_column(decode(self.columns_[place], best), self.columns_[place].name)

    def _completed(self, table: Table) -> Any:
        found = every_column(self.operators_, self.columns_, table)
        filled = {}
        for i, c in enumerate(self.columns_):
            best = found[i].argmax(axis=0)
            if c.name in table.names:
                codes = encode(c, table.column(c.name))
                best = np.where(codes < 0, best, codes)
            filled[c.name] = decode(c, best)
        return table.like(filled)

    def marginals(self, X: Any) -> dict[Any, Any]:
        """P(column | all other present cells) for every column: name -> (rows, states)."""
        self._check_fitted()
        table = self._read(X)
        out = every_column(self.operators_, self.columns_, table)
        return {
            c.name: table.like({state: out[i][k] for k, state in enumerate(c.states)})
            for i, c in enumerate(self.columns_)
        }

    def predict_latent(self, X: Any, name: Any) -> Any:
        """P(latent | all present cells) of every row: (rows, states), as the frame came.

        States are numbered as in `cpts_`. Only learners of tables (learner='em') tell latents.
        """
        self._check_fitted()
        tables, graph = self._tables("predict_latent"), self.operators_.plan.graph
        latents = {graph.names[v]: v for v in sorted(graph.latent)}
        if name in [c.name for c in self.columns_]:
            raise EvidenceError(f"{name!r} is a column, not a latent. Use predict_proba for it.")
        if name not in latents:
            raise UnknownNameError("latent", name, latents)
        table = self._read(X)
        absent = np.full(table.length, -1, dtype=np.int8)
        codes = tuple(
            encode(c, table.column(c.name)) if c.name in table.names else absent
            for c in self.columns_
        )
        gaps = [u for u, c in zip(graph.observed, codes, strict=True) if (c < 0).any()]
        v = latents[name]
        found = posteriors(compile_estep(graph, gaps), tables, Rows(codes), [v])[v]
        return table.like(dict(enumerate(found)))

    def score_samples(self, X: Any) -> Array:
        """log P(present cells) of each row.

        The closed form is signed: its scores need not sum to one over all rows and are no
        likelihood; rows to which it gives no positive probability are scored as if their columns
        were independent, times N^-½, with a warning.
        """
        self._check_fitted()
        table = self._read(X)
        out, none = np.empty(table.length), np.zeros(table.length, dtype=bool)

        def work(part: slice, evidence: Evidence) -> None:
            out[part], none[part] = log_evidence(self.operators_, evidence)

        in_blocks(self.operators_, self.columns_, table, work)
        if not np.isfinite(out).all():
            row = int(np.argmin(np.isfinite(out)))
            raise EvidenceError(
                f"row {row} has probability zero under the model (values never seen, or never seen "
                "together). Make one of its cells missing to marginalise it."
            )
        if none.any():
            note_repaired(int(none.sum()))
        return out

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log P(present cells) per row."""
        scores = self.score_samples(X)
        weight = checked_weight(sample_weight, len(scores))
        return float(np.average(scores, weights=weight))

    def bic(self, X: Any, sample_weight: Any = None) -> float:
        """k log N - 2 log P(rows), k free parameters and N the weight of the rows: less is better.

        Only for valid distributions: EM, stepwise EM, a refined network.
        """
        k, log, N = self._likelihood("bic", X, sample_weight)
        return k * float(np.log(N)) - 2.0 * log

    def aic(self, X: Any, sample_weight: Any = None) -> float:
        """2k - 2 log P(rows), k free parameters: less is better. For valid distributions only."""
        k, log, _ = self._likelihood("aic", X, sample_weight)
        return 2.0 * k - 2.0 * log

    def _likelihood(self, wanted: str, X: Any, sample_weight: Any) -> tuple[int, float, float]:
        """Free parameters, log-likelihood of the rows, and their weight."""
        self._check_fitted()
        choice = self.operators_.choice
        if choice is not None and choice.chosen == "marginal":
            k = sum(len(mu) - 1 for mu in self.operators_.marginals)
        elif self.operators_.tables:
            k = free_parameters(self.operators_.tables)
        else:
            raise NotLearnedError(
                f"{wanted} needs the likelihood of a valid distribution; this model was learned by "
                f"{self.diagnostics_.learner} and is signed. Use PBP(refine=True) or lt.EM(...)."
            )
        scores = self.score_samples(X)
        weight = checked_weight(sample_weight, len(scores))
        weight = np.ones(len(scores)) if weight is None else weight
        return k, float(scores @ weight), float(weight.sum())

    def sample(self, n_samples: int = 1, random_state: Any = None) -> dict[Any, Any]:
        """Rows drawn from the learned distribution: a dict of columns, ready for any data frame."""
        self._check_fitted()
        if n_samples < 1:
            raise DataError(f"expected a positive number of samples, got {n_samples}.")
        rng = _generator(random_state)
        codes = sample_rows(self.operators_, int(n_samples), rng)
        return {c.name: decode(c, x) for c, x in zip(self.columns_, codes, strict=True)}

    # -- reading questions ---------------------------------------------------------------------

    def _place(self, name: Label) -> int:
        return column_place(name, self.columns_, self.plan_.graph.names)

    def _read(self, X: Any) -> Table:
        self._check_fitted()
        table = read_table(X, [c.name for c in self.columns_])
        known = [c.name for c in self.columns_]
        if table.names and not set(known) & set(table.names):
            raise UnknownNameError(
                "column", table.names[0], known, "None of the model's columns is there."
            )
        return table

    def _answer(self, evidence: Evidence, places: Sequence[int]) -> Answers:
        observed = self.operators_.plan.graph.observed
        return answer(self.operators_, evidence, [observed[i] for i in places])

    def _check_fitted(self) -> None:
        if not hasattr(self, "operators_"):
            raise NotFittedError(
                f"this {type(self).__name__} instance is not fitted yet. Call fit(frame) first."
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def _columns_of(graph: LatentGraph) -> tuple[Label, ...]:
    return tuple(graph.names[v] for v in graph.observed)


def _as_learner(learner: Any) -> Any:
    if isinstance(learner, str):
        if learner not in LEARNERS:
            raise UnknownNameError("learner", learner, LEARNERS)
        return LEARNERS[learner]()
    if not hasattr(learner, "learn"):
        raise DataError(
            f"expected a learner such as 'pbp' or PBP(...), got {type(learner).__name__}."
        )
    return learner


def _lacks(model: LatentModel, wanted: str, what: str) -> str:
    return (
        f"{wanted} needs a learner with {what}, this model was learned by "
        f"{model.diagnostics_.learner}. Use learner='em' or lt.EM(...)."
    )


def _share_missing(codes: Codes, weight: Array | None) -> float:
    return float(np.average(codes < 0, weights=weight))


def _generator(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    return np.random.default_rng(random_state)
