"""Learning: from a table of any kind to what a model keeps. `LatentModel` adds the questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if

from latentia.assess.diagnostics import diagnose
from latentia.assess.error_bars import (
    check_all_discrete,
    group_count,
    replicate,
    replicate_once,
    rows_again,
)
from latentia.assess.jackknife import Replicates
from latentia.closed_form.state_counts import binned, class_states, latent_states
from latentia.data.columns.continuous import (
    KINDS,
    Column,
    ContinuousColumn,
    place_cells,
)
from latentia.data.columns.discovering import discover
from latentia.data.columns.discrete import DiscreteColumn
from latentia.data.columns.values import Values
from latentia.data.moments import Moments
from latentia.data.rows import Rows
from latentia.data.sources.engine import Engine
from latentia.data.sources.memory import LocalRows, compress
from latentia.data.sources.opening import open_engine
from latentia.data.sources.progress import as_progress
from latentia.data.sources.sketch import ColumnSketch, sketch_column
from latentia.data.sources.table import Table, read_table
from latentia.errors import (
    DataError,
    NotLearnedError,
    UnknownNameError,
)
from latentia.model.fitted import Learned
from latentia.model.frozen_model import (
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
from latentia.model.learners import PBP, PublishedPBP, Spectral
from latentia.model.mixed_plans import column_cells, has_continuous, prepare_mixed
from latentia.model.notices import (
    checked_weight,
    note_constant,
    note_flat,
    note_ignored,
    note_independent,
    note_plan,
    note_restart,
    note_states,
    note_unfinished,
)
from latentia.networks.em import EM
from latentia.networks.stepwise import StepwiseEM
from latentia.networks.tied import share_states
from latentia.structure.graph import LatentGraph, as_graph, relevant
from latentia.structure.plan import Plan, make_plan
from latentia.structure.templates import latent_class
from latentia.typing import Array, Codes, Label

LEARNERS: dict[str, Any] = {
    "pbp": PBP,
    "paper": PublishedPBP,
    "spectral": Spectral,
    "em": EM,
    "stepwise": StepwiseEM,
}

KEPT_NAMES = 500  # variables of a graph whose plan is kept
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


class Learning(Learned):
    """Parameters, and every way to learn from rows: at once, in parts, where they are."""

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

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        progress: Any = None,
        error_bars: bool | int = False,
    ) -> Self:
        """Learn from a table: in memory, in files, or of an engine (docs/scale.md tells which).

        `sample_weight` is one number per row or the name of a column. `progress`: True, or a
        function that is told of every pass over rows that are read block by block. With
        `error_bars` (True, or a number of groups of rows) questions can be asked with a confidence.
        """
        groups = 0 if error_bars is False else group_count(error_bars)
        for name in ("progress_", "frozen_", "sums_"):
            self.__dict__.pop(name, None)  # fit starts anew
        graph = self._graph_given()
        told = None if graph is None else _columns_of(graph)
        engine = open_engine(X, told, as_progress(progress))
        if engine is not None:
            return self._fit_engine(engine, graph, sample_weight, groups)
        graph, cells, weight = self._training(X, sample_weight, graph)
        columns = self._discover_all(graph, cells, weight)
        return self._fit_columns(graph, columns, cells, weight, groups)

    error_bars_: Replicates

    def with_error_bars(self, X: Any, sample_weight: Any = None, groups: bool | int = True) -> Self:
        """One more look at the rows that the model was learned from, for answers with intervals.

        Rows fall into groups at random (20, unless told otherwise); kept are the models without one
        group each. `query` and `predict_proba` then take a confidence.
        """
        self._check_fitted()
        count = group_count(groups)
        check_all_discrete(self.columns_)
        source = rows_again(self, X, sample_weight)
        frozen = self.frozen_.frozen if hasattr(self, "frozen_") else None
        learner = as_learner(self.learner)
        self.error_bars_ = replicate(learner, self.operators_, source, count, frozen=frozen)
        return self

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
        found = [
            self._discover(name, sketch_column(c, weight))
            for name, c in zip(_columns_of(graph), cells, strict=True)
        ]
        return share_states(found, getattr(as_learner(self.learner), "tied", None))

    def _fit_columns(
        self,
        graph: LatentGraph,
        columns: Sequence[Column],
        cells: Sequence[Values],
        weight: Array | None,
        groups: int = 0,
    ) -> Self:
        """Learn from cells whose columns are known, perhaps from more rows than these."""
        names = _columns_of(graph)
        learner = as_learner(self.learner)
        if groups:
            check_all_discrete(columns)
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
        plan = _plan_again(known, getattr(learner, "groups", None) or ())
        note_plan(plan.notes)
        operators = learner.learn(plan, source)
        note_unfinished(operators, learner)
        note_independent(operators)
        note_states(operators)
        gaps = {c.name: _share_missing(x, weight) for c, x in zip(columns, codes, strict=True)}
        self._keep(plan, operators, tuple(columns), diagnose(operators, repr(learner), gaps))
        if groups:
            self.error_bars_ = replicate(learner, operators, source, groups)
        return self

    def _graph_given(self) -> LatentGraph | None:
        """The graph, if it does not depend on the table."""
        fixed = self.graph is not None and not callable(self.graph)
        return as_graph(self.graph, self.latents) if fixed else None

    def _fit_engine(
        self, engine: Engine, graph: LatentGraph | None, sample_weight: Any, groups: int
    ) -> Self:
        """Rows that are not in memory: discovered, encoded and summed where they are."""
        opened, graph = self._open_engine(engine, graph, sample_weight)
        learner = as_learner(self.learner)
        if groups:
            check_all_discrete(opened.columns)
        replicates: Replicates | None = None
        if has_continuous(opened.columns):
            if self.graph is None and getattr(learner, "chooses_ranks", False):
                graph = latent_class(_columns_of(graph))
            plan, columns = prepare_mixed(graph, opened.columns, learner)
            self._note_plan(plan)
            operators = learn_mixed_from(learner, plan, columns, opened)
            plan = operators.plan
        else:
            plan, columns = self._plan_discrete(graph, opened), opened.columns
            if groups and opened.once:  # one pass for both
                replicates = replicate_once(learner, plan, opened, groups)
                operators = replicates.whole
            else:
                operators = learn_from(learner, plan, opened)
        note_unfinished(operators, learner)
        note_independent(operators)
        note_states(operators)
        self._keep(plan, operators, columns, diagnose(operators, repr(learner), opened.missing))
        if groups:
            source = opened.source(columns)
            self.error_bars_ = replicates or replicate(learner, operators, source, groups)
        return self

    def _open_engine(
        self, engine: Engine, graph: LatentGraph | None, sample_weight: Any
    ) -> tuple[Opened, LatentGraph]:
        weight = engine_weight(sample_weight, engine)
        if graph is None:
            graph = self._graph_over(engine, weight)
        names = _columns_of(graph)
        self._check_table(engine, graph, names, weight)
        opened = open_rows(engine, names, weight, self._discover)
        shared = share_states(opened.columns, getattr(as_learner(self.learner), "tied", None))
        opened = replace(opened, columns=tuple(shared))
        note_flat(opened.constant)
        return opened, graph

    def _plan_discrete(self, graph: LatentGraph, opened: Opened) -> Plan:
        names, sizes = _columns_of(graph), [column_cells(c) for c in opened.columns]
        first = opened.first(opened.columns)
        if self.graph is None:
            graph = latent_class(names, class_states(sizes, first))
        known = graph.with_states(dict(zip(names, sizes, strict=True)))
        known = latent_states(relevant(known), first)
        plan = make_plan(known, groups=getattr(as_learner(self.learner), "groups", None) or ())
        self._note_plan(plan)
        return plan

    def _note_plan(self, plan: Plan) -> None:
        note_plan(plan.notes, stacklevel=6)

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
                note_restart(self.operators_.weight)
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
        found = self._discover_all(graph, cells, None)
        if has_continuous(found):
            return prepare_mixed(graph, found, learner)
        sizes = [column_cells(c) for c in found]
        codes = tuple(place_cells(c, values) for c, values in zip(found, cells, strict=True))
        source = LocalRows(Rows(codes))
        if self.graph is None:
            graph = latent_class(names, class_states(sizes, source))
        known = graph.with_states(dict(zip(names, sizes, strict=True)))
        return make_plan(latent_states(relevant(known), source)), tuple(found)

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
        note_plan(plan.notes, stacklevel=5)
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
        note_ignored(extra)
        if getattr(table, "length", None) == 0:
            raise DataError(
                f"0 sample(s) (shape=(0, {len(names)})) while a minimum of 1 is required: "
                "the table has no rows to learn from."
            )

    def _discover(self, name: Label, sketch: ColumnSketch) -> Column:
        kind = (self.kinds or {}).get(name)
        if kind not in (None, *KINDS):
            raise UnknownNameError(f"kind of column {name!r}", kind, KINDS)
        return discover(name, sketch, kind, (self.state_names or {}).get(name))


def _plan_again(graph: LatentGraph, groups: Any) -> Plan:
    """`make_plan`; the last ones are kept, for the classes, folds and forms of a classifier.

    Names that are equal but of different types (1, True) have plans of their own; large plans, and
    those with groups, are made anew.
    """
    if len(graph.names) > KEPT_NAMES or groups:
        return make_plan(graph, groups=groups)
    return _kept_plan(graph, tuple(map(type, graph.names)))


@lru_cache(maxsize=8)
def _kept_plan(graph: LatentGraph, kinds: tuple[type, ...]) -> Plan:
    return make_plan(graph)


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


def _share_missing(codes: Codes, weight: Array | None) -> float:
    gone = np.isnan(codes) if codes.dtype.kind == "f" else codes < 0
    return float(np.average(gone, weights=weight))
