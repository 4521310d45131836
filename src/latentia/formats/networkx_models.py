"""from_networkx and to_networkx: tables, states and latents as attributes of nodes.

A node has `states` (a list of names, or their number), `latent`, and, with tables, `cpt`, whose
axes are `parents` and itself. An undirected graph has `potentials`, {nodes: array}.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from numbers import Integral
from typing import Literal, overload

import numpy as np

from latentia.errors import DataError
from latentia.exact.tabular_model import TabularModel
from latentia.formats.foreign_tables import ForeignTable, assemble, library_missing, refuse
from latentia.formats.model_tables import model_tables
from latentia.structure.graph import LatentGraph
from latentia.structure.reading_graphs import Latents, as_graph
from latentia.typing import Foreign, Given, Label


@overload
def from_networkx(
    network: Foreign, latents: Latents = None, *, graph_only: Literal[False] = False
) -> TabularModel: ...


@overload
def from_networkx(
    network: Foreign, latents: Latents = None, *, graph_only: Literal[True]
) -> LatentGraph: ...


def from_networkx(
    network: Foreign, latents: Latents = None, *, graph_only: bool = False
) -> TabularModel | LatentGraph:
    """The model, or the graph alone, of a networkx graph with attributes as `to_networkx` has them.

    Where a node does not tell its `parents`, they go in the order in which edges were added.
    """
    if not all(hasattr(network, name) for name in ("is_directed", "adj", "nodes", "edges")):
        refuse("a graph of networkx", network, "Other graphs are read by lt.as_graph.")
    nodes = {name: dict(network.nodes[name]) for name in network.nodes}
    plain = as_graph(_ordered(network, nodes))
    states = {name: listed for name, told in nodes.items() if (listed := _states(name, told))}
    hidden = [name for name, told in nodes.items() if _is_latent(name, told)]
    counts = {name: len(listed) for name, listed in states.items()}
    graph = as_graph(plain, hidden or None, counts)
    if graph_only:
        return as_graph(graph, latents)
    tables = _tables(network, nodes, graph)
    for table in tables:
        for name, size in zip(table.axes, table.cells.shape, strict=True):
            states.setdefault(name, tuple(range(size)))
    return assemble(graph, tables, states, latents)


def _ordered(network: Foreign, nodes: Mapping[Label, Mapping[str, Foreign]]) -> Foreign:
    """{node: parents} by what the nodes tell; an undirected graph as it is."""
    if not network.is_directed():
        return network
    as_graph(network)  # refuses what is no graph of variables
    found = {}
    for name, told in nodes.items():
        above = list(network.predecessors(name))
        listed = list(told.get("parents", above))
        if len(listed) != len(above) or set(listed) != set(above):
            raise DataError(
                f"the parents of {name!r} are {above!r:.80} in the graph and {listed!r:.80} in its "
                "attribute. Correct one."
            )
        found[name] = listed
    return found


def _states(name: Label, told: Mapping[str, Foreign]) -> tuple[Hashable, ...]:
    given = told.get("states")
    if given is None:
        return ()
    if isinstance(given, Integral) and not isinstance(given, bool) and int(given) > 0:
        return tuple(range(int(given)))
    if isinstance(given, list | tuple) and given:
        return tuple(given)
    raise DataError(f"expected states of {name!r} as a list or a number, got {given!r:.80}.")


def _is_latent(name: Label, told: Mapping[str, Foreign]) -> bool:
    given = told.get("latent", False)
    if not isinstance(given, bool | np.bool_):
        raise DataError(f"expected latent=True or False of {name!r}, got {given!r:.80}.")
    return bool(given)


def _tables(
    network: Foreign, nodes: Mapping[Label, Mapping[str, Foreign]], graph: LatentGraph
) -> list[ForeignTable]:
    if not graph.directed:
        potentials = network.graph.get("potentials")
        if not isinstance(potentials, Mapping):
            raise DataError(
                "expected graph.graph['potentials'] as {nodes: array}, got none. The graph alone "
                "is read with graph_only=True."
            )
        return [ForeignTable(tuple(axes), np.asarray(x), {}) for axes, x in potentials.items()]
    lacking = [name for name, told in nodes.items() if "cpt" not in told]
    if lacking:
        raise DataError(
            f"expected a table, the attribute 'cpt', of every node, got none of {lacking[:20]!r}. "
            "The graph alone is read with graph_only=True."
        )
    above, found = graph.parents(), []
    for v, name in enumerate(graph.names):
        axes = (*(graph.names[p] for p in above[v]), name)
        cells = np.asarray(nodes[name]["cpt"])
        if cells.ndim != len(axes):
            raise DataError(
                f"expected {len(axes)} axes in the table of {name!r}, got {cells.ndim}."
            )
        found.append(ForeignTable(axes, cells, {}))
    return found


def to_networkx(model: Given) -> Foreign:
    """A DiGraph (or Graph) with tables, states and latents as attributes; a LatentGraph too."""
    try:
        import networkx as nx
    except ImportError:
        raise library_missing("to_networkx", "networkx") from None
    graph, tables, states = model, {}, getattr(model, "states", ())
    if not isinstance(model, LatentGraph):
        found = model_tables(model)
        graph, tables, states = found.graph, dict(found.tables), [list(s) for s in found.states]
    network = nx.DiGraph() if graph.directed else nx.Graph()
    for v, name in enumerate(graph.names):
        told = {} if states[v] is None else {"states": states[v]}
        network.add_node(name, latent=v in graph.latent, **told)
    network.add_edges_from([(graph.names[a], graph.names[b]) for a, b in graph.edges])
    if graph.directed:
        for v, above in enumerate(graph.parents()):
            network.nodes[graph.names[v]]["parents"] = [graph.names[p] for p in above]
        for scope, table in tables.items():
            network.nodes[graph.names[scope[-1]]]["cpt"] = np.array(table)
    elif tables:
        network.graph["potentials"] = {
            tuple(graph.names[v] for v in scope): np.array(table) for scope, table in tables.items()
        }
    return network
