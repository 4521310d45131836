"""LatentModel: the engine behind the contract that scikit-learn users know. No mathematics here."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

from latentia.answers import (
    ask_best,
    ask_everything,
    ask_marginals,
    ask_one,
    ask_scores,
    engine_of,
    mean_score,
)
from latentia.batch import every_column, in_precision, one_column, row_scores
from latentia.diagnostics import Diagnostics, diagnose
from latentia.em import EM
from latentia.errors import (
    ColumnWarning,
    DataError,
    EvidenceError,
    IdentifiabilityWarning,
    LatentiaWarning,
    NotLearnedError,
    UnknownNameError,
)
from latentia.estep import compile_estep, posteriors
from latentia.features.discrete import DiscreteColumn, Values, decode, discover_states, encode
from latentia.frames.engine import Engine
from latentia.frames.local import LocalRows, compress
from latentia.frames.opening import open_engine
from latentia.frames.progress import as_progress
from latentia.frames.table import Table, read_table
from latentia.gathering import (
    FrozenModel,
    Opened,
    freeze_learner,
    learn_from,
    open_rows,
    table_stream,
    weight_name,
    weights_by_name,
    weights_of,
    with_weights,
)
from latentia.graph import LatentGraph, as_graph
from latentia.joint import joint_posterior, most_probable
from latentia.learners import PBP, PublishedPBP, Spectral
from latentia.messages import Answers, Evidence, answer, read_evidence
from latentia.moments import Moments, Rows
from latentia.notices import (
    checked_weight,
    note_constant,
    note_flat,
    note_repaired,
    note_unfinished,
)
from latentia.operators import Ascent, Operators
from latentia.plan import Plan, make_plan
from latentia.posterior import Assignment, Posterior
from latentia.questions import column_place, named, one_row
from latentia.ranks import class_states
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
    latents : dict of name -> number of states
        The variables of the graph that are not columns.
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

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, progress: Any = None
    ) -> Self:
        """Learn from a table: in memory, in files, or of an engine (docs/scale.md tells which).

        `sample_weight` is one number per row or the name of a column. `progress`: True, or a
        function that is told of every pass over rows that are read block by block.
        """
        self._forget()
        fixed = self.graph is not None and not callable(self.graph)
        graph = as_graph(self.graph, self.latents) if fixed else None
        known = None if graph is None else _columns_of(graph)
        engine = open_engine(X, known, as_progress(progress))
        if engine is not None:
            return self._fit_engine(engine, graph, sample_weight)
        table = read_table(X, known)
        besides = weight_name(sample_weight, table.names)
        if graph is None:
            graph = self._graph_over(table, besides)
        names = _columns_of(graph)
        self._check_table(table, graph, names, besides)
        weight = weights_of(sample_weight, table)
        cells = [table.column(name) for name in names]
        if weight is not None and (weight == 0).any():  # as if these rows were not there
            cells, weight = [c.where(weight > 0) for c in cells], weight[weight > 0]
        columns = [self._discover(name, c) for name, c in zip(names, cells, strict=True)]
        codes = [encode(c, values) for c, values in zip(columns, cells, strict=True)]
        note_constant(columns, codes)
        gaps = {c.name: _share_missing(x, weight) for c, x in zip(columns, codes, strict=True)}
        rows = compress(Rows(tuple(codes), weight), [len(c.states) for c in columns])
        return self._learn(graph, Opened(tuple(columns), LocalRows(rows), None, gaps, ()))

    def _fit_engine(self, engine: Engine, graph: LatentGraph | None, weight: Any) -> Self:
        opened, graph = self._open_engine(engine, graph, weight)
        return self._learn(graph, opened)

    def _open_engine(
        self, engine: Engine, graph: LatentGraph | None, sample_weight: Any
    ) -> tuple[Opened, LatentGraph]:
        weight = weight_name(sample_weight, engine.names)
        if sample_weight is not None and weight is None:
            raise weights_by_name(sample_weight)
        if graph is None:
            graph = self._graph_over(engine, weight)
        names = _columns_of(graph)
        self._check_table(engine, graph, names, weight)
        opened = open_rows(engine, names, weight, self._discover)
        note_flat(opened.constant)
        return opened, graph

    def _learn(self, graph: LatentGraph, opened: Opened) -> Self:
        """From columns and a source to a fitted model."""
        learner = _as_learner(self.learner)
        plan = self._plan(graph, opened)
        operators = learn_from(learner, plan, opened.source, opened.pilot)
        note_unfinished(operators, learner)
        told = diagnose(operators, repr(learner), opened.missing)
        self._keep(plan, operators, opened.columns, told)
        return self

    def _plan(self, graph: LatentGraph, opened: Opened) -> Plan:
        names, sizes = _columns_of(graph), [len(c.states) for c in opened.columns]
        if self.graph is None:
            graph = latent_class(names, class_states(sizes, opened.pilot or opened.source))
        known = graph.with_states(dict(zip(names, sizes, strict=True)))
        groups = getattr(_as_learner(self.learner), "groups", None) or ()
        plan = make_plan(known, groups=groups)
        for note in plan.notes:
            warnings.warn(note, IdentifiabilityWarning, stacklevel=4)
        return plan

    frozen_: FrozenModel
    sums_: Moments

    # -- learning in parts ---------------------------------------------------------------------

    def freeze(self, X: Any, y: Any = None, sample_weight: Any = None) -> FrozenModel:
        """Fix columns, states, plan and basis from a pilot; sums can then be gathered anywhere.

        Name all states in `state_names`, unless the pilot shows them all.
        """
        fixed = self.graph is not None and not callable(self.graph)
        graph = as_graph(self.graph, self.latents) if fixed else None
        known = None if graph is None else _columns_of(graph)
        engine = open_engine(X, known, as_progress(None)) or table_stream(X, known)
        if not isinstance(sample_weight, str | None):
            engine, sample_weight = with_weights(X, known, sample_weight)
        opened, graph = self._open_engine(engine, graph, sample_weight)
        plan = self._plan(graph, opened)
        pilot = opened.pilot or opened.source
        frozen = freeze_learner(_as_learner(self.learner), plan, pilot)
        return FrozenModel(clone(self), plan, opened.columns, frozen)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Add the rows of a table to the sums; the first call fixes columns, states and basis.

        The projections are those of the first table, which should hold at least some thousands of
        rows; states that it does not show must be named in `state_names`.
        """
        if not hasattr(self, "frozen_"):
            if hasattr(self, "operators_"):
                warnings.warn(
                    "this model was learned by fit, whose sums cannot be added to: partial_fit "
                    "starts anew, without those rows.",
                    LatentiaWarning,
                    stacklevel=2,
                )
            frozen = self.freeze(X, sample_weight=sample_weight)
            sums = frozen.gather(X, sample_weight)
        else:
            frozen = self.frozen_
            sums = self.sums_ + frozen.gather(X, sample_weight)
        frozen.solve_into(self, sums)
        self.frozen_, self.sums_ = frozen, sums
        return self

    def _forget(self) -> None:
        """fit starts anew."""
        for name in ("frozen_", "sums_"):
            if hasattr(self, name):
                delattr(self, name)

    def _graph_over(self, table: Table | Engine, besides: Label | None = None) -> LatentGraph:
        """The graph that depends on the columns: a function of their names, or one latent class."""
        names = [name for name in table.names if besides is None or name != besides]
        if not names:
            raise DataError(
                f"0 feature(s) (shape=({getattr(table, 'length', 'n')}, 0)) while a minimum of 1 "
                "is required: the table has no column to learn from."
            )
        if callable(self.graph):
            return as_graph(self.graph(names), self.latents)
        if self.latents is not None:
            raise DataError("latents were given without a graph. Pass the graph that ties them.")
        return latent_class(names, 2)  # its number of states comes from the data

    def _check_table(
        self,
        table: Table | Engine,
        graph: LatentGraph,
        names: Sequence[Label],
        besides: Label | None = None,
    ) -> None:
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
        extra = [name for name in table.names if name not in (*names, besides)]
        if extra:
            shown = ", ".join(str(n) for n in extra[:10]) + (" …" if len(extra) > 10 else "")
            warnings.warn(
                f"{len(extra)} column(s) that the graph does not name are ignored: {shown}.",
                ColumnWarning,
                stacklevel=3,
            )
        if getattr(table, "length", None) == 0:
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

    def predict_proba(self, X: Any, target: Any = None, *, dtype: Any = None) -> Any:
        """P(target | all other present cells) of every row: (rows, states), as the frame came.

        Without a target: those of all columns side by side, named ``column=state``. With
        ``dtype="float32"`` messages are passed in single precision.
        """
        self._check_fitted()
        operators = in_precision(self.operators_, dtype)
        engine = engine_of(X, self.columns_)
        if engine is not None:
            if target is None:
                return ask_everything(engine, operators, self.columns_)
            return ask_one(engine, operators, self.columns_, self._place(target))
        if target is None:
            table = self._read(X)
            found = every_column(operators, self.columns_, table)
            return table.like(
                {
                    f"{c.name}={state}": found[i][k]
                    for i, c in enumerate(self.columns_)
                    for k, state in enumerate(c.states)
                }
            )
        place = self._place(target)
        table = self._read(X)
        each = one_column(operators, self.columns_, table, place)
        return table.like({state: each[k] for k, state in enumerate(self.columns_[place].states)})

    def predict(self, X: Any, target: Any = None) -> Any:
        """The most probable state of `target` given all other present cells of each row.

        Without a target: the table's columns with their missing cells filled in, each by its most
        probable state given the present cells of its row.
        """
        self._check_fitted()
        engine = engine_of(X, self.columns_)
        if engine is not None:
            if target is None:
                raise DataError("name a target: rows that are read in blocks are not filled in.")
            return ask_best(engine, self.operators_, self.columns_, self._place(target))
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

    def marginals(self, X: Any, *, dtype: Any = None) -> dict[Any, Any]:
        """P(column | all other present cells) for every column: name -> (rows, states)."""
        self._check_fitted()
        operators = in_precision(self.operators_, dtype)
        engine = engine_of(X, self.columns_)
        if engine is not None:
            return ask_marginals(engine, operators, self.columns_)
        table = self._read(X)
        out = every_column(operators, self.columns_, table)
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

    def score_samples(self, X: Any) -> Any:
        """log P(present cells) of each row: an array, or a column of the engine's own kind.

        The closed form is signed: its scores need not sum to one over all rows and are no
        likelihood; rows to which it gives no positive probability are scored as if their columns
        were independent, times N^-½, with a warning.
        """
        self._check_fitted()
        engine = engine_of(X, self.columns_)
        if engine is not None:
            return ask_scores(engine, self.operators_, self.columns_)
        out, none = row_scores(self.operators_, self.columns_, self._read(X))
        if none.any():
            note_repaired(int(none.sum()))
        return out

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean log P(present cells) per row."""
        self._check_fitted()
        engine = engine_of(X, self.columns_)
        if engine is not None:
            name = weight_name(sample_weight, engine.names)
            if sample_weight is not None and name is None:
                raise weights_by_name(sample_weight)
            return mean_score(engine, self.operators_, self.columns_, name)
        scores = self.score_samples(X)
        weight = checked_weight(sample_weight, len(scores))
        return float(np.average(scores, weights=weight))

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
