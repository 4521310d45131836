"""Explored: what a page shows of a model, and the tables that answer in it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.columns.continuous import ContinuousColumn
from latentia.errors import LatentiaError
from latentia.exact.reading_evidence import labels_of
from latentia.exact.tabular_model import TabularModel
from latentia.model.latent_model import LatentModel
from latentia.model.latent_questions import own_answers
from latentia.spelling import printable
from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan, make_plan
from latentia.typing import Array

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


@final
@dataclass(frozen=True, slots=True, eq=False)
class Explored:
    """A model as the explorer takes it."""

    title: str
    graph: LatentGraph  # as people drew it
    shown: tuple[Shown, ...]
    network: TableNetwork | None  # None: signed, so that only Python can answer
    plan: Plan | None
    model: Any

    @property
    def states(self) -> list[int]:
        """The number of states of every variable that is shown; 0 where nothing is known."""
        return [len(each.states) for each in self.shown]


def as_explored(model: Any, title: str | None = None) -> Explored:
    """A TabularModel or a fitted LatentModel, ready to be shown."""
    if isinstance(model, TabularModel):
        return _given(model, title or "Network")
    if isinstance(model, LatentModel):
        model._check_fitted()
        return _learned(model, title or "Model")
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
    own = own_answers(model.plan_, model.operators_, model.columns_)
    if own is not None:
        graph, above = own.graph, own.graph.parents()
        tables = {(*above[v], v): table for v, table in own.tables.items()}
        labels = [labels_of(own, v) for v in range(len(graph.names))]
        network = TableNetwork(graph, tables, tuple(range(len(graph.names))))
        same = {*model.plan_.graph.names} == {*graph.names}
        plan = model.plan_ if same else _plan_of(graph)
        return Explored(title, graph, _shown(graph, labels, {}), network, plan, model)
    graph = model._graph
    columns = dict(zip((graph.names[v] for v in graph.observed), model.columns_, strict=True))
    inner = _inner_network(model, graph)
    labels = []
    for v, name in enumerate(graph.names):
        known = v not in graph.latent or (inner is not None and inner.place[v] >= 0)
        count = graph.states[v] or 1
        labels.append(columns[name].labels if name in columns else tuple(range(count * known)))
    return Explored(title, graph, _shown(graph, labels, columns), inner, model.plan_, model)


def _inner_network(model: LatentModel, graph: LatentGraph) -> TableNetwork | None:
    """The tables that a learner found, though they be of other latents than the user's."""
    operators = model.operators_
    if not operators.valid or operators.linear is not None:
        return None
    inner = operators.model_graph
    above, found = inner.parents(), {name: v for v, name in enumerate(inner.names)}
    tables = {(*above[v], v): table for v, table in operators.model_tables.items()}
    return TableNetwork(inner, tables, tuple(found.get(name, -1) for name in graph.names))


def _shown(
    graph: LatentGraph,
    labels: Sequence[Sequence[Hashable]],
    columns: Mapping[Any, Column],
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
    return GridCells(tuple(map(float, column.labels)), tuple(widths))


def _plan_of(graph: LatentGraph) -> Plan | None:
    """How the graph would be learned; None where it cannot be, which is no harm here."""
    if not graph.latent or len(graph.names) > PLANNED:
        return None
    try:
        return make_plan(graph)
    except LatentiaError:
        return None
