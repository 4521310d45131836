"""Explored: what a page shows of a model, and the tables that answer in it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.assess.jackknife import jackknife_error
from latentia.data.columns.column import Column
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.columns.masses import cell_values
from latentia.errors import LatentiaError
from latentia.exact.reading_evidence import labels_of
from latentia.exact.tabular_model import TabularModel
from latentia.explore.arrow_tables import arrow_tables
from latentia.inference.operators import Operators
from latentia.model.arrow_learning import ArrowModel
from latentia.model.latent_model import LatentModel
from latentia.model.latent_questions import OwnTables, kept_tables_without
from latentia.spelling import printable
from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan, make_plan
from latentia.typing import Array, ByName, Given

Scope = tuple[int, ...]
LONGEST_NAME = 300  # characters that are shown
PLANNED = 60  # variables up to which a graph that was not planned is, to be shown


@final
@dataclass(frozen=True, slots=True)
class GridCells:
    """A continuous column: the value and the width of every cell; atoms come last."""

    values: tuple[float, ...]
    widths: tuple[float, ...]  # 0 for an atom


@final
@dataclass(frozen=True, slots=True)
class Shown:
    """One variable as it is shown; `key` is its name, made different from all others."""

    key: str
    latent: bool
    states: tuple[str, ...]  # none: the model has no table of it
    grid: GridCells | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class TableNetwork:
    """Tables that answer: P(x) ∝ ∏ tables. `place[v]` is shown variable v in here, or -1."""

    graph: LatentGraph  # with the number of states of every variable
    tables: Mapping[Scope, Array]
    place: tuple[int, ...]
    errors: Mapping[Scope, Array] | None = None  # standard errors of the tables, where known


@final
@dataclass(frozen=True, slots=True, eq=False)
class Explored:
    """A model as the explorer takes it.

    Latents are answered by the tables of the user's own graph. So are columns, unless the model
    predicts them by something else: another network, or the operators of the closed form. That is
    how `model.query` answers, too: columns that are asked for without any latent go that way.
    """

    title: str
    graph: LatentGraph  # as people drew it
    shown: tuple[Shown, ...]
    network: TableNetwork | None  # None: only the operators can answer
    plan: Plan | None
    model: Given
    predicting: TableNetwork | None = None  # answers for columns, where it is another one
    signed: bool = False  # operators without tables answer for columns

    @property
    def states(self) -> list[int]:
        """The number of states of every variable that is shown; 0 where nothing is known."""
        return [len(each.states) for each in self.shown]


def as_explored(model: Given, title: str | None = None) -> Explored:
    """A TabularModel or a fitted LatentModel, ready to be shown."""
    if isinstance(model, TabularModel):
        return _given(model, printable(title or "Network"))
    if isinstance(model, LatentModel):
        model._check_fitted()
        return _learned(model, printable(title or "Model"))
    raise LatentiaError(
        f"expected a LatentModel or a TabularModel to explore, got {type(model).__name__}. "
        "Of a file of tables, lt.read(path) makes one."
    )


def _given(model: TabularModel, title: str) -> Explored:
    graph = model.graph
    labels = [labels_of(model, v) for v in range(len(graph.names))]
    network = TableNetwork(graph, model.tables, tuple(range(len(graph.names))))
    return Explored(title, graph, _shown(graph, labels, {}), network, _plan_of(graph), model)


def _learned(model: LatentModel, title: str) -> Explored:
    if model._alone is not None:
        return _of_arrows(model, model._alone, title)
    own, operators = model._own_tables(), model.operators_
    known = operators.valid and operators.linear is None  # tables alone answer for columns
    if own is None:
        graph = _drawn_graph(model)
        columns = {column.name: column for column in model.columns_}
        labels = [columns[n].labels if n in columns else () for n in graph.names]
        inner = _inner_network(model, graph) if known else None
        shown = _shown(graph, labels, columns)
        return Explored(title, graph, shown, inner, model.plan_, model, signed=not known)
    graph, above = own.graph, own.graph.parents()
    tables = {(*above[v], v): table for v, table in own.answers.tables.items()}
    network = TableNetwork(graph, tables, tuple(range(len(graph.names))), _errors(model, tables))
    same = {*model.plan_.graph.names} == {*graph.names}
    plan = model.plan_ if same else _plan_of(graph)
    named = dict(zip(graph.names, own.variables, strict=True))
    shown = _shown(graph, [c.labels for c in own.variables], named)
    other = not _answers_alike(own, operators)
    predicting = _inner_network(model, graph) if other and known else None
    return Explored(
        title, graph, shown, network, plan, model, predicting, signed=other and not known
    )


def _of_arrows(model: LatentModel, arrows: ArrowModel, title: str) -> Explored:
    """Lines and logits, over the cells of grids."""
    graph, tables = arrow_tables(arrows.network)
    variables = model._arrow_variables()
    named = dict(zip(graph.names, variables, strict=True))
    shown = _shown(graph, [c.labels for c in variables], named)
    network = TableNetwork(graph, tables, tuple(range(len(graph.names))))
    return Explored(title, graph, shown, network, _plan_of(graph), model)


def _errors(model: LatentModel, tables: Mapping[Scope, Array]) -> dict[Scope, Array] | None:
    """Standard errors of all tables, by those without one group of rows each; None without."""
    if not hasattr(model, "error_bars_"):
        return None
    columns, names = model.columns_, model.name_states
    others = kept_tables_without(model.error_bars_, model.plan_, columns, names)
    if len(others) < 2:
        return None
    return {
        scope: jackknife_error([other.answers.tables[scope[-1]] for other in others])
        for scope in tables
    }


def _answers_alike(own: OwnTables, operators: Operators) -> bool:
    """Are columns answered by the very tables that latents are answered by?"""
    graph, tables = operators.model_graph, operators.model_tables
    return (
        operators.valid
        and (graph.names, graph.edges) == (own.graph.names, own.graph.edges)
        and all(np.array_equal(tables[v], t) for v, t in own.answers.tables.items())
    )


def _drawn_graph(model: LatentModel) -> LatentGraph:
    """The graph as its user drew it, though the model was learned with other latents."""
    graph, users = model._graph, model._wanted().read().graph
    if not isinstance(users, LatentGraph):
        return graph
    columns = {column.name for column in model.columns_}
    same = {users.names[v] for v in users.observed} == columns
    return users if same else graph


def _inner_network(model: LatentModel, graph: LatentGraph) -> TableNetwork:
    """The tables that predict columns, though they be of other latents than the user's."""
    inner = model.operators_.model_graph
    above, found = inner.parents(), {inner.names[v]: v for v in inner.observed}
    tables = {(*above[v], v): table for v, table in model.operators_.model_tables.items()}
    return TableNetwork(inner, tables, tuple(found.get(name, -1) for name in graph.names))


def _shown(
    graph: LatentGraph,
    labels: Sequence[Sequence[Hashable]],
    columns: ByName[Column],
) -> tuple[Shown, ...]:
    keys = differing(graph.names)
    found = []
    for v, name in enumerate(graph.names):
        column = columns.get(name)
        grid = _grid(column) if isinstance(column, ContinuousColumn) else None
        texts = [f"{x:.6g}" for x in grid.values] if grid is not None else labels[v]
        found.append(Shown(keys[v], v in graph.latent, tuple(differing(texts)), grid))
    return tuple(found)


def differing(labels: Iterable[Hashable]) -> list[str]:
    """Labels as text, in which those that look the same get a number; very long ones are cut.

    >>> differing([1, "1", "a", ""])
    ['1', '1 (2)', 'a', ' ']
    """
    found: dict[str, None] = {}
    for label in labels:
        text = printable(label) or " "
        text = text if len(text) <= LONGEST_NAME else f"{text[:LONGEST_NAME]}…"
        count, different = 1, text
        while different in found:
            count += 1
            different = f"{text} ({count})"
        found[different] = None
    return list(found)


def _grid(column: ContinuousColumn) -> GridCells:
    ends = column.unscaled(np.linspace(column.low, column.high, column.points + 1))
    widths = [*np.diff(ends).tolist(), *(0.0 for _ in column.atoms)]
    return GridCells(tuple(cell_values(column).tolist()), tuple(widths))


def _plan_of(graph: LatentGraph) -> Plan | None:
    """How the graph would be learned; None where it cannot be, which is no harm here."""
    if not graph.latent or len(graph.names) > PLANNED:
        return None
    try:
        return make_plan(graph)
    except LatentiaError:
        return None
