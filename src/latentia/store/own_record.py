"""The graph's own tables in a file: the graph, and one array per variable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from latentia.errors import LatentiaError, StoreError
from latentia.exact.own_network import OwnNetwork
from latentia.exact.table_answers import TableAnswers
from latentia.inference.operators import Operators
from latentia.inference.table_form import GraphTables
from latentia.store.array_table import Name, Shape, Written, numbered, of_kind
from latentia.store.plain import fields, items, number
from latentia.store.structure_record import read_graph, write_graph
from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan
from latentia.typing import Array

if TYPE_CHECKING:
    from latentia.exact.mixture_network import MixtureNetwork

OWN = "own"  # tables that answer …
BESIDE = "beside"  # … and tables that are kept for the sake of latents


def write_own_tables(network: GraphTables) -> Written:
    """The graph, and its tables in the order of its variables."""
    tables = [np.ascontiguousarray(network.tables[v]) for v in sorted(network.tables)]
    return write_graph(network.graph), tables


def write_members(network: MixtureNetwork) -> Written:
    """All members but the first, which is written as own tables are."""
    parts = [write_own_tables(each) for each in network.members[1:]]
    record = {"graphs": [graph for graph, _ in parts], "weights": network.weights.tolist()}
    return record, [table for _, tables in parts for table in tables]


def read_members(record: object, plan: Plan) -> tuple[tuple[LatentGraph, ...], Array]:
    """The graphs of all members but the first, and the weights of all."""
    graphs, weights = fields(record, "graphs", "weights")
    own = tuple(read_own_graph(graph, plan) for graph in items(graphs))
    return own, np.array([number(w) for w in items(weights, len(own) + 1)])


def member_shapes(graphs: Sequence[LatentGraph]) -> dict[Name, Shape]:
    return {
        name: shape
        for m, graph in enumerate(graphs)
        for name, shape in own_shapes(graph, f"{OWN}{m}").items()
    }


def with_members(
    operators: Operators,
    graphs: Sequence[LatentGraph],
    weights: Array,
    arrays: Mapping[Name, Array],
) -> Operators:
    """Operators whose tables are one member of several."""
    from latentia.exact.mixture_network import MixtureNetwork

    first = operators.network
    assert isinstance(first, OwnNetwork)
    others = [
        OwnNetwork(_answers(graph, arrays, f"{OWN}{m}"), first.leaves)
        for m, graph in enumerate(graphs)
    ]
    try:
        return replace(operators, network=MixtureNetwork((first, *others), weights))
    except LatentiaError as error:
        raise StoreError(f"the members of the mixture are not sound: {error}") from error


def read_own_graph(record: object, plan: Plan) -> LatentGraph:
    """The graph, whose columns must be those of the model."""
    graph = read_graph(record)
    if not graph.directed or any(count is None for count in graph.states):
        raise StoreError("expected a directed graph with all numbers of states.")
    columns = [(graph.names[v], graph.states[v]) for v in graph.observed]
    wanted = [(plan.graph.names[v], plan.graph.states[v]) for v in plan.graph.observed]
    if columns != wanted:
        raise StoreError("expected the graph of the tables to have the model's columns.")
    return graph


def own_shapes(graph: LatentGraph, kind: str = OWN) -> dict[Name, Shape]:
    """(parents …, variable) of every table."""
    states = [count or 1 for count in graph.states]
    shapes = [tuple(states[u] for u in (*above, v)) for v, above in enumerate(graph.parents())]
    return numbered(kind, shapes)


def with_own_tables(
    operators: Operators, graph: LatentGraph, arrays: Mapping[Name, Array]
) -> Operators:
    """Operators whose questions are answered by tables."""
    plan = operators.plan
    leaves = tuple(plan.nodes[k].columns[0] for k in plan.leaves)
    return replace(operators, network=OwnNetwork(_answers(graph, arrays, OWN), leaves))


def with_beside(
    operators: Operators, graph: LatentGraph, arrays: Mapping[Name, Array], kind: str = BESIDE
) -> Operators:
    """Operators with tables beside them, which tell latents."""
    return replace(operators, beside=_answers(graph, arrays, kind))


def _answers(graph: LatentGraph, arrays: Mapping[Name, Array], kind: str) -> TableAnswers:
    cpts = {graph.names[v]: table for v, table in of_kind(arrays, kind).items()}
    try:
        return TableAnswers(graph, cpts)
    except LatentiaError as error:
        raise StoreError(f"the tables of the graph are not sound: {error}") from error
