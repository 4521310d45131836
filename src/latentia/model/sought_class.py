"""A latent class of mixed columns, sought on rows held out, where the marginals would be kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from latentia.data.columns.column import Column
from latentia.data.rows import Source
from latentia.discovery.finding import Structure, find_structure
from latentia.inference.operators import Operators
from latentia.networks.own_tables import LearnedTables
from latentia.networks.tables import as_operators
from latentia.structure.plan import Plan

FEWEST = 30  # rows that a class is sought in


def sought_class(
    plan: Plan, columns: Sequence[Column], source: Source, weight: float
) -> Operators | None:
    """Tables of the class under its own name, of as many states as it has at most.

    None where the graph is no class, or no class tells rows held out better than marginals do.
    """
    graph = plan.graph
    if len(graph.latent) != 1 or weight < FEWEST:
        return None
    (v,) = graph.latent
    if set(graph.edges) != {(v, column) for column in graph.observed}:
        return None
    found = find_structure(columns, source, weight, Structure("class", graph.states[v]))
    if len(found.graph.latent) != 1 or set(found.columns) != {c.name for c in columns}:
        return None
    names = list(found.graph.names)
    (h,) = found.graph.latent
    names[h] = graph.names[v]
    own = replace(found.graph, names=tuple(names))
    return as_operators(LearnedTables(own, found.tables, weight, 0.0, ()))
