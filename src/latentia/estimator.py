"""LatentModel: the engine behind the contract that scikit-learn users know. No mathematics here."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if

from latentia.answers import (
    ask_best,
    ask_everything,
    ask_marginals,
    ask_one,
    ask_scores,
    best_value,
    engine_of,
    everything,
    in_units,
    mean_score,
    summary,
    summary_names,
    summary_of,
)
from latentia.batch import every_column, in_precision, latent_codes, one_column, row_scores
from latentia.checking import CheckReport, make_report
from latentia.density import draw, quantiles
from latentia.diagnostics import Diagnostics, diagnose
from latentia.em import EM
from latentia.errors import (
    ColumnWarning,
    DataError,
    EvidenceError,
    GraphError,
    IdentifiabilityWarning,
    LatentiaWarning,
    NotLearnedError,
    UnknownNameError,
)
from latentia.estep import compile_estep, posteriors
from latentia.features.continuous import (
    KINDS,
    Column,
    ContinuousColumn,
    discover,
    place_cells,
    to_values,
)
from latentia.features.discrete import DiscreteColumn, Values, decode
from latentia.fitting import measure_fit
from latentia.frames.engine import Engine
from latentia.frames.local import LocalRows, compress
from latentia.frames.opening import open_engine
from latentia.frames.progress import as_progress
from latentia.frames.table import Table, read_table
from latentia.gathering import (
    FrozenModel,
    Opened,
    engine_weight,
    freeze_learner,
    learn_from,
    learn_mixed_from,
    open_rows,
    table_stream,
    weight_name,
    weights_of,
    with_weights,
)
from latentia.gaussian import gaussian_tables
from latentia.graph import LatentGraph, as_graph, relevant
from latentia.joint import joint_posterior, most_probable
from latentia.learners import PBP, PublishedPBP, Spectral
from latentia.messages import Answers, Evidence, answer, read_evidence
from latentia.mixed import column_cells, has_continuous, prepare_mixed, state_labels
from latentia.moments import Moments, Rows
from latentia.notices import (
    checked_weight,
    note_constant,
    note_flat,
    note_independent,
    note_outside,
    note_repaired,
    note_states,
    note_unfinished,
)
from latentia.operators import Ascent, Operators
from latentia.plan import Plan, make_plan
from latentia.posterior import Assignment, Posterior
from latentia.posterior_density import Density
from latentia.questions import column_place, named, one_row
from latentia.ranks import binned, class_states, latent_states
from latentia.refine import free_parameters
from latentia.sampling import sample_rows
from latentia.stepwise import StepwiseEM
from latentia.templates import latent_class
from latentia.typing import Array, Codes, Label

if TYPE_CHECKING:
    from latentia.draw import Drawing

__all__ = ["LEARNERS", "LatentModel", "as_learner"]

LEARNERS: dict[str, Any] = {
    "pbp": PBP,
    "paper": PublishedPBP,
    "spectral": Spectral,
    "em": EM,
    "stepwise": StepwiseEM,
}

CLASS_SAMPLE = 20_000  # rows by which the states of a latent class are counted


def _goes_on(model: Any) -> bool:
    """Whether the learner has partial_fit."""
    learner = as_learner(model.learner)
    if not hasattr(learner, "partial_learn") and not hasattr(learner, "freeze"):
        raise NotLearnedError(
            f"{type(learner).__name__} learns from all rows at once and has no partial_fit. "
            "Use learner='pbp' or 'stepwise', or fit a table with all rows."
        )
    return True


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
    kinds : dict of column -> "discrete" or "continuous", optional
        Kinds of columns, where the rule is not wanted: decimals with more than 20 different values
        (more than 4 if they have more than three decimals) and integers with more than 40 are
        continuous, all others discrete.
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
    0.77
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
        for name in ("progress_", "frozen_", "sums_"):
            self.__dict__.pop(name, None)  # fit starts anew
        graph = self._graph_given()
        told = None if graph is None else _columns_of(graph)
        engine = open_engine(X, told, as_progress(progress))
        if engine is not None:
            return self._fit_engine(engine, graph, sample_weight)
        graph, cells, weight = self._training(X, sample_weight, graph)
        return self._fit_columns(graph, self._discover_all(graph, cells, weight), cells, weight)

    def _training(
        self, X: Any, sample_weight: Any, graph: LatentGraph | None
    ) -> tuple[LatentGraph, list[Values], Array | None]:
        """The graph, the cells of its columns and the weights of the rows."""
        table = read_table(X, None if graph is None else _columns_of(graph))
        besides = weight_name(sample_weight, table.names)
        if graph is None:
            graph = self._graph_over(table, besides)
        names = _columns_of(graph)
        self._check_table(table, graph, names, besides)
        weight = weights_of(sample_weight, table)
        cells = [table.column(name) for name in names]
        if weight is not None and (weight == 0).any():  # as if these rows were not there
            cells, weight = [c.where(weight > 0) for c in cells], weight[weight > 0]
        return graph, cells, weight

    def _discover_all(
        self, graph: LatentGraph, cells: Sequence[Values], weight: Array | None
    ) -> list[Column]:
        return [
            self._discover(name, c, weight)
            for name, c in zip(_columns_of(graph), cells, strict=True)
        ]

    def _fit_columns(
        self,
        graph: LatentGraph,
        columns: Sequence[Column],
        cells: Sequence[Values],
        weight: Array | None,
    ) -> Self:
        """Learn from cells whose columns are known, perhaps from more rows than these."""
        names = _columns_of(graph)
        learner = as_learner(self.learner)
        if has_continuous(columns):
            return self._fit_mixed(graph, columns, cells, weight, learner)
        codes = [place_cells(c, values) for c, values in zip(columns, cells, strict=True)]
        note_constant(columns, codes)
        rows = Rows(tuple(codes), weight)
        sizes = [column_cells(c) for c in columns]
        source = LocalRows(compress(rows, sizes))
        if self.graph is None:
            graph = latent_class(names, class_states(sizes, source))
        known = graph.with_states(dict(zip(names, sizes, strict=True)))
        known = latent_states(relevant(known), source)
        plan = make_plan(known, groups=getattr(learner, "groups", None) or ())
        for note in plan.notes:
            warnings.warn(note, IdentifiabilityWarning, stacklevel=3)
        operators = learner.learn(plan, source)
        note_unfinished(operators, learner)
        note_independent(operators)
        note_states(operators)
        gaps = {c.name: _share_missing(x, weight) for c, x in zip(columns, codes, strict=True)}
        self._keep(plan, operators, tuple(columns), diagnose(operators, repr(learner), gaps))
        return self

    def _graph_given(self) -> LatentGraph | None:
        """The graph, if it does not depend on the table."""
        fixed = self.graph is not None and not callable(self.graph)
        return as_graph(self.graph, self.latents) if fixed else None

    def _fit_engine(self, engine: Engine, graph: LatentGraph | None, sample_weight: Any) -> Self:
        """Rows that are not in memory: discovered, encoded and summed where they are."""
        opened, graph = self._open_engine(engine, graph, sample_weight)
        learner = as_learner(self.learner)
        if has_continuous(opened.columns):
            if self.graph is None and getattr(learner, "chooses_ranks", False):
                graph = latent_class(_columns_of(graph))
            plan, columns = prepare_mixed(graph, opened.columns, learner)
            self._note_plan(plan)
            operators = learn_mixed_from(learner, plan, columns, opened)
            plan = operators.plan
        else:
            plan, columns = self._plan_discrete(graph, opened), opened.columns
            operators = learn_from(learner, plan, opened)
        note_unfinished(operators, learner)
        self._keep(plan, operators, columns, diagnose(operators, repr(learner), opened.missing))
        return self

    def _open_engine(
        self, engine: Engine, graph: LatentGraph | None, sample_weight: Any
    ) -> tuple[Opened, LatentGraph]:
        weight = engine_weight(sample_weight, engine)
        if graph is None:
            graph = self._graph_over(engine, weight)
        names = _columns_of(graph)
        self._check_table(engine, graph, names, weight)
        given = dict.fromkeys(self.state_names or {}, "discrete")
        kinds = {**given, **(self.kinds or {})}
        opened = open_rows(engine, names, weight, self._discover, kinds)
        note_flat(opened.constant)
        return opened, graph

    def _plan_discrete(self, graph: LatentGraph, opened: Opened) -> Plan:
        names, sizes = _columns_of(graph), [column_cells(c) for c in opened.columns]
        if self.graph is None:
            graph = latent_class(names, class_states(sizes, opened.first(opened.columns)))
        known = graph.with_states(dict(zip(names, sizes, strict=True)))
        plan = make_plan(known, groups=getattr(as_learner(self.learner), "groups", None) or ())
        self._note_plan(plan)
        return plan

    def _note_plan(self, plan: Plan) -> None:
        for note in plan.notes:
            warnings.warn(note, IdentifiabilityWarning, stacklevel=5)

    frozen_: FrozenModel
    sums_: Moments

    def freeze(self, X: Any, y: Any = None, sample_weight: Any = None) -> FrozenModel:
        """Fix columns, states, plan and basis from a pilot; sums can then be gathered anywhere.

        Name all states in `state_names`, unless the pilot shows them all.
        """
        graph = self._graph_given()
        known = None if graph is None else _columns_of(graph)
        engine = open_engine(X, known, as_progress(None)) or table_stream(X, known)
        if sample_weight is not None and not isinstance(sample_weight, str):
            engine, sample_weight = with_weights(X, known, sample_weight)
        opened, graph = self._open_engine(engine, graph, sample_weight)
        if has_continuous(opened.columns):
            raise DataError(
                "sums are gathered for discrete columns only; some are continuous. Bin them, or "
                "name their kind: kinds={column: 'discrete'}."
            )
        plan = self._plan_discrete(graph, opened)
        frozen = freeze_learner(as_learner(self.learner), plan, opened.first(opened.columns))
        columns = tuple(c for c in opened.columns if isinstance(c, DiscreteColumn))
        return FrozenModel(clone(self), plan, columns, frozen)

    @available_if(_goes_on)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Go on learning from the rows of a table; the first call fixes columns and states.

        Learners from sums add to the sums: their basis is that of the first table, which should
        hold some thousands of rows. Stepwise EM takes further steps: ``partial_learn(plan, columns,
        source, previous) -> (operators, state)``, where `previous` is the state that the last call
        gave, the operators of a loaded model, or None. States that the first table does not show
        must be named in `state_names`.
        """
        learner, first = as_learner(self.learner), not hasattr(self, "operators_")
        if not hasattr(learner, "partial_learn"):
            return self._add_sums(X, sample_weight)
        if first:
            graph = self._graph_given()
            table = read_table(X, None if graph is None else _columns_of(graph))
            graph = self._graph_over(table) if graph is None else graph
        else:
            graph = self.plan_.graph
            table = read_table(X, _columns_of(graph))
        names = _columns_of(graph)
        self._check_table(table, graph, names)
        cells = [table.column(name) for name in names]
        plan, columns = (
            self._first_plan(graph, cells, learner) if first else (self.plan_, self.columns_)
        )
        codes = tuple(place_cells(c, values) for c, values in zip(columns, cells, strict=True))
        weight = checked_weight(sample_weight, table.length)
        source = LocalRows(Rows(codes, weight))
        last = getattr(self, "progress_", None) or (None if first else self.operators_)
        operators, self.progress_ = learner.partial_learn(plan, columns, source, last)
        gaps = {c.name: _share_missing(x, weight) for c, x in zip(columns, codes, strict=True)}
        self._keep(plan, operators, columns, diagnose(operators, repr(learner), gaps))
        return self

    def _add_sums(self, X: Any, sample_weight: Any) -> Self:
        if not hasattr(self, "frozen_"):
            if hasattr(self, "operators_"):
                warnings.warn(
                    "this model was learned by fit, whose sums cannot be added to: partial_fit "
                    "starts anew, without those rows.",
                    LatentiaWarning,
                    stacklevel=3,
                )
            frozen = self.freeze(X, sample_weight=sample_weight)
            sums = frozen.gather(X, sample_weight)
        else:
            frozen = self.frozen_
            sums = self.sums_ + frozen.gather(X, sample_weight)
        frozen.solve_into(self, sums)
        self.frozen_, self.sums_ = frozen, sums
        return self

    def _first_plan(
        self, graph: LatentGraph, cells: Sequence[Values], learner: Any
    ) -> tuple[Plan, tuple[Column, ...]]:
        """Columns, states and plan from the first of several tables."""
        names = _columns_of(graph)
        found = [self._discover(name, c) for name, c in zip(names, cells, strict=True)]
        if has_continuous(found):
            return prepare_mixed(graph, found, learner)
        sizes = [column_cells(c) for c in found]
        if self.graph is None:
            codes = tuple(place_cells(c, values) for c, values in zip(found, cells, strict=True))
            graph = latent_class(names, class_states(sizes, LocalRows(Rows(codes))))
        plan = make_plan(graph.with_states(dict(zip(names, sizes, strict=True))))
        return plan, tuple(found)

    def _fit_mixed(
        self,
        graph: LatentGraph,
        columns: Sequence[Column],
        cells: Sequence[Values],
        weight: Array | None,
        learner: Any,
    ) -> Self:
        """With continuous columns: positions on grids, and a learner that can read them."""
        if not hasattr(learner, "learn_mixed"):
            raise DataError(
                f"{type(learner).__name__} learns from discrete columns only; "
                f"{next(c.name for c in columns if isinstance(c, ContinuousColumn))!r} is "
                "continuous. Bin it, or use learner='pbp'."
            )
        plan, placed, codes = self._place_mixed(graph, columns, cells, weight, learner)
        note_constant(placed, codes)
        for note in plan.notes:
            warnings.warn(note, IdentifiabilityWarning, stacklevel=4)
        operators = learner.learn_mixed(plan, placed, LocalRows(Rows(codes, weight)))
        note_unfinished(operators, learner)
        gaps = {c.name: _share_missing(x, weight) for c, x in zip(placed, codes, strict=True)}
        self._keep(operators.plan, operators, placed, diagnose(operators, repr(learner), gaps))
        return self

    def _place_mixed(
        self,
        graph: LatentGraph,
        columns: Sequence[Column],
        cells: Sequence[Values],
        weight: Array | None,
        learner: Any,
    ) -> tuple[Plan, tuple[Column, ...], tuple[Codes, ...]]:
        """The plan, the columns on their grids, and the rows there."""
        if self.graph is None:
            free = getattr(learner, "chooses_ranks", False)  # no need to count states then
            count = None if free else _class_states(columns, cells, weight)
            graph = latent_class(_columns_of(graph), count)
        plan, placed = prepare_mixed(graph, columns, learner)
        codes = tuple(place_cells(c, values) for c, values in zip(placed, cells, strict=True))
        return plan, placed, codes

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

    def _discover(self, name: Label, values: Values, weight: Array | None = None) -> Column:
        kind = (self.kinds or {}).get(name)
        if kind not in (None, *KINDS):
            raise UnknownNameError(f"kind of column {name!r}", kind, KINDS)
        return discover(name, values, kind, (self.state_names or {}).get(name), weight)

    def _keep(
        self,
        plan: Plan,
        operators: Operators,
        columns: tuple[Column, ...],
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
    def cpts_(self) -> dict[Label, Any]:
        """Tables P(variable | parents) by name, axes (parents in the graph's order, itself).

        Of a continuous column with Gaussian leaves (learner='em') a `GaussianTable`.
        """
        self._check_fitted()
        graph = self.operators_.plan.graph
        found = {graph.names[v]: x for v, x in sorted(self._tables("cpts_").items())}
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
        soft: Mapping[Any, Any] | None = None,
    ) -> Posterior | Density:
        """P(variables | evidence): one variable, or several for their joint posterior.

        Evidence of a continuous column is a number, or an interval ``{"x": (0, 3)}``. `soft` gives
        likelihoods of states instead of one state, ``{"G": {0: .2, 1: .8}}``, or for a continuous
        column a function of its values. A continuous variable is answered by a `Density`.
        """
        self._check_fitted()
        names = named(variables, self.plan_.graph.names)
        codes, likelihoods = one_row(
            self.columns_, self.plan_.graph.names, names, evidence or {}, soft or {}
        )
        note_outside(self.columns_, evidence or {})
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
            table = flat.reshape([column_cells(self.columns_[i]) for i in places])
        shown = {
            **(evidence or {}),
            **{k: dict(v) if isinstance(v, Mapping) else "soft" for k, v in (soft or {}).items()},
        }
        log += self._density_factor(evidence or {})
        first = self.columns_[places[0]]
        if len(places) == 1 and isinstance(first, ContinuousColumn):
            return Density(first, np.array(table), log, clipped, shown, bool(found.repaired[0]))
        states = tuple(state_labels(self.columns_[i]) for i in places)
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
            name: state_labels(self.columns_[i])[c]
            for name, i, c in zip(names, places, found, strict=True)
        }
        return Assignment(values, log, exact)

    def predict_proba(self, X: Any, target: Any = None, *, dtype: Any = None) -> Any:
        """P(target | all other present cells) of every row: (rows, states), as the frame came.

        Without a target: those of all discrete columns side by side, named ``column=state``. With
        ``dtype="float32"`` messages are passed in single precision.
        """
        self._check_fitted()
        operators = in_precision(self.operators_, dtype)
        engine = engine_of(X, self.columns_)
        if target is None:
            if engine is not None:
                return ask_everything(engine, operators, self.columns_)
            table = self._read(X)
            return table.like(everything(operators, self.columns_, table))
        place = self._place(target)
        if isinstance(self.columns_[place], ContinuousColumn):
            raise EvidenceError(
                f"{target!r} is continuous and has no list of states. Use predict for its mean, "
                "predict_quantiles for its spread, or query for its density."
            )
        if engine is not None:
            return ask_one(engine, operators, self.columns_, place)
        table = self._read(X)
        return table.like(summary_of(operators, self.columns_, place, table))

    def predict(self, X: Any, target: Any = None) -> Any:
        """The most probable state of `target` given all other present cells of each row.

        Of a continuous target the posterior mean. Without a target: the table's columns with their
        missing cells filled in, each so, given the present cells of its row.
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
        best = one_column(self.operators_, self.columns_, table, place, best_value)[0]
        return table.like_column(in_units(self.columns_[place], best), self.columns_[place].name)

    def predict_quantiles(
        self, X: Any, target: Any, quantile: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.95)
    ) -> Any:
        """Quantiles of a continuous target given all other present cells: (rows, quantiles)."""
        self._check_fitted()
        place = self._place(target)
        column = self.columns_[place]
        if not isinstance(column, ContinuousColumn):
            raise EvidenceError(f"{target!r} is discrete; use predict_proba for its states.")
        levels = [float(q) for q in np.atleast_1d(np.asarray(quantile, dtype=float))]
        if not all(0 < q < 1 for q in levels):
            raise EvidenceError(f"quantiles are asked for between 0 and 1, got {quantile!r}.")
        table = self._read(X)
        found = one_column(
            self.operators_, self.columns_, table, place, lambda c, p: quantiles(column, p, levels)
        )
        return table.like({f"{q:g}": found[j] for j, q in enumerate(levels)})

    def _completed(self, table: Table) -> Any:
        found = every_column(self.operators_, self.columns_, table, best_value)
        filled = {}
        for i, c in enumerate(self.columns_):
            best = in_units(c, found[i][0])
            if c.name in table.names:
                values = table.column(c.name)
                if isinstance(c, ContinuousColumn):
                    x = to_values(values)
                    best = np.where(np.isnan(x), best, x)
                else:
                    codes = place_cells(c, values)
                    best = decode(c, np.where(codes < 0, found[i][0].astype(int), codes))
            filled[c.name] = best
        return table.like(filled)

    def marginals(self, X: Any, *, dtype: Any = None) -> dict[Any, Any]:
        """P(column | all other present cells) for every column: name -> (rows, states).

        Of a continuous column its mean and its quantiles 0.05, 0.5 and 0.95.
        """
        self._check_fitted()
        operators = in_precision(self.operators_, dtype)
        engine = engine_of(X, self.columns_)
        if engine is not None:
            return ask_marginals(engine, operators, self.columns_)
        table = self._read(X)
        out = every_column(operators, self.columns_, table, summary)
        return {
            c.name: table.like(dict(zip(summary_names(c), out[i], strict=True)))
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
        leaves, v = self.operators_.gaussians, latents[name]
        codes = latent_codes(graph, self.columns_, table, leaves)
        gaps = [u for u, c in zip(graph.observed, codes, strict=True) if (c < 0).any()]
        estep = compile_estep(graph, gaps, continuous=leaves)
        found = posteriors(estep, {**tables, **leaves}, Rows(codes), [v])[v]
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
            weight = engine_weight(sample_weight, engine)
            return mean_score(engine, self.operators_, self.columns_, weight)
        scores = self.score_samples(X)
        return float(np.average(scores, weights=weights_of(sample_weight, self._read(X))))

    def check(self, X: Any) -> CheckReport:
        """Does the model fit these rows? Best asked of rows that it was not learned from.

        Log loss of every column against its marginal, calibration, the worst-fitting pairs of
        columns, clipped mass and identifiability: in words, as a table, and as values.
        """
        self._check_fitted()
        table = self._read(X)
        if table.length < 2:
            raise DataError(f"a check needs two rows at least, got {table.length}.")
        fit = measure_fit(self.operators_, self.columns_, table)
        return make_report(fit, self.plan_.notes)

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
        return {
            c.name: draw(c, x, rng) if isinstance(c, ContinuousColumn) else decode(c, x)
            for c, x in zip(self.columns_, codes, strict=True)
        }

    # -- pictures ------------------------------------------------------------------------------

    def draw(self, evidence: Mapping[Any, Any] | None = None, target: Any = None) -> Drawing:
        """The graph and its junction tree; with evidence or a target: messages as they pass.

        `target` is a column, or several; default: every column that was not observed.
        """
        from latentia.draw import draw_messages, draw_plan

        self._check_fitted()
        plan = self.operators_.plan
        if evidence is None and target is None:
            return draw_plan(plan)
        asked = [] if target is None else named(target, plan.graph.names)
        codes, soft = one_row(self.columns_, plan.graph.names, asked, evidence or {}, {})
        known = {i for i, code in enumerate(codes) if code is not None} | {*soft}
        places = [self._place(name) for name in asked] or [
            i for i in range(len(codes)) if i not in known
        ]
        variables, columns = plan.graph.observed, self.columns_
        shown = {v: state_labels(c) for v, c in zip(variables, columns, strict=True)}
        seen = {variables[i]: str((evidence or {})[columns[i].name]) for i in sorted(known)}
        what = ", ".join(str(self.columns_[i].name) for i in places)
        given = ", ".join(f"{plan.graph.names[v]}={state}" for v, state in seen.items())
        title = f"Messages towards {what}" + (f", given {given}" if given else "")
        found = read_evidence(plan, codes, soft)
        return draw_messages(
            self.operators_, found, seen, [variables[i] for i in places], shown, title
        )

    def _repr_html_inner(self) -> str:
        """What notebooks show: scikit-learn's diagram, and once fitted, the picture."""
        plain = str(super()._repr_html_inner())
        if not hasattr(self, "operators_"):
            return plain
        try:
            return plain + self.draw()._repr_html_()
        except GraphError:  # too large for a picture
            return plain

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle = dict(super()._repr_mimebundle_(**kwargs))
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle

    # -- reading questions ---------------------------------------------------------------------

    def _place(self, name: Label) -> int:
        return column_place(name, self.columns_, self.plan_.graph.names)

    def _density_factor(self, evidence: Mapping[Any, Any]) -> float:
        """log of what turns masses at points into densities, over the continuous evidence."""
        total = 0.0
        for c in self.columns_:
            value = evidence.get(c.name)
            if isinstance(c, ContinuousColumn) and isinstance(value, int | float | np.number):
                total += float(c.log_density_factor(np.array([float(value)]))[0])
        return total

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


def _class_states(columns: Sequence[Column], cells: Sequence[Values], weight: Array | None) -> int:
    """States of a latent class, continuous columns counted in bins; two at least."""
    codes = tuple(place_cells(c, values) for c, values in zip(columns, cells, strict=True))
    some = LocalRows(Rows(codes, weight)).sample(CLASS_SAMPLE, np.random.default_rng(0))
    rows, sizes = binned(some, [column_cells(c) for c in columns])
    return max(class_states(sizes, LocalRows(rows)), 2)


def as_learner(learner: Any) -> Any:
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
    gone = np.isnan(codes) if codes.dtype.kind == "f" else codes < 0
    return float(np.average(gone, weights=weight))


def _generator(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    return np.random.default_rng(random_state)
