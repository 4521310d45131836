"""Graphs of other libraries: names, edges and latents out of networkx, pgmpy and pyAgrum.

No library is imported: an object is known by its class. What is not known is refused, for nearly
everything can be iterated, and what comes out of that is seldom its edges.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral
from typing import final

from latentia.errors import DataError, GraphError
from latentia.typing import Foreign, Label


@final
@dataclass(frozen=True, slots=True)
class ForeignGraph:
    """What a graph of another library says; parents in the order of a table's axes."""

    names: tuple[Label, ...]
    edges: tuple[tuple[Label, Label], ...]
    directed: bool
    latents: Mapping[Label, int | None] = field(default_factory=dict)


def read_foreign(graph: object) -> ForeignGraph | None:
    """The graph in an object of a library that is known; None if it is of none of these."""
    library = type(graph).__module__.split(".")[0].lower()
    if library == "pyagrum":
        return _read_pyagrum(graph)
    if library == "pgmpy":
        return _read_pgmpy(graph)
    if all(hasattr(graph, name) for name in ("is_directed", "edges", "nodes", "adj")):
        return _read_networkx(graph)
    return None


# --- networkx -------------------------------------------------------------------------------------


def _read_networkx(graph: Foreign) -> ForeignGraph:
    """Latents by the attribute `latent` of their nodes, and their `states`, as `to_networkx`."""
    names = tuple(graph.nodes)
    told = {name: graph.nodes[name] for name in names}
    latents = {n: _states_of_node(a.get("states")) for n, a in told.items() if _is_hidden(n, a)}
    if not graph.is_directed():
        ties = tuple((edge[0], edge[1]) for edge in graph.edges)
        return ForeignGraph(names, ties, False, latents)
    # `predecessors` has the order in which edges were added; `edges` goes by nodes
    edges = tuple((a, b) for b in names for a in graph.predecessors(b))
    return ForeignGraph(names, edges, True, latents)


def _is_hidden(name: Label, attributes: Mapping[str, object]) -> bool:
    given = attributes.get("latent", False)
    if given in (True, False):
        return bool(given)
    raise DataError(f"expected latent=True or False of {name!r}, got {given!r:.80}.")


def _states_of_node(states: object) -> int | None:
    if isinstance(states, list | tuple):
        return len(states)
    return int(states) if isinstance(states, Integral) and not isinstance(states, bool) else None


# --- pgmpy ----------------------------------------------------------------------------------------


def _read_pgmpy(graph: object) -> ForeignGraph:
    """Directed and undirected networks; not those whose nodes are no variables."""
    kinds = _kinds(graph)
    if "DAG" in kinds and "DynamicBayesianNetwork" not in kinds:
        return _read_pgmpy_network(graph)
    if kinds & {"DiscreteMarkovNetwork", "MarkovNetwork"} or type(graph).__name__ == (
        "UndirectedGraph"
    ):
        return _read_networkx(graph)
    raise _not_read(graph, "pgmpy", "its Bayesian networks, DAGs and Markov networks are")


def _read_pgmpy_network(graph: Foreign) -> ForeignGraph:
    plain = _read_networkx(graph)
    find = getattr(graph, "get_cpds", None)
    cpds = {name: find(name) for name in plain.names} if find is not None else {}
    edges: list[tuple[Label, Label]] = []
    for child in plain.names:
        parents = list(graph.predecessors(child))
        # a table that is there has the parents in an order of its own
        told = list(getattr(cpds.get(child), "variables", ()))[1:]
        edges += [(a, child) for a in (told if set(told) == set(parents) else parents)]
    hidden = set(getattr(graph, "latents", None) or ())
    latents = {name: _states_of_cpd(cpds.get(name)) for name in plain.names if name in hidden}
    return ForeignGraph(plain.names, tuple(edges), True, latents)


def _states_of_cpd(cpd: object) -> int | None:
    count = getattr(cpd, "variable_card", None)
    return None if count is None else int(count)


# --- pyAgrum --------------------------------------------------------------------------------------


def _read_pyagrum(graph: Foreign) -> ForeignGraph:
    """Networks by the names of their variables, plain graphs by the numbers of their nodes.

    The parents of a variable go as the axes of `bn.cpt(variable).toarray()`, which is its table.
    """
    kinds, own = _kinds(graph), type(graph).__name__
    numbers = sorted(graph.nodes()) if hasattr(graph, "nodes") else []
    if "BayesNet" in kinds:
        names = {k: graph.variable(k).name() for k in numbers}
        edges = [(a, names[k]) for k in numbers for a in tuple(graph.cpt(k).names)[:0:-1]]
        return ForeignGraph(tuple(names.values()), tuple(edges), True, _latents_of(graph, names))
    if kinds & {"MarkovRandomField", "MarkovNet"}:
        names = {k: graph.variable(k).name() for k in numbers}
        ties = sorted(graph.edges())
        return ForeignGraph(
            tuple(names.values()), tuple((names[a], names[b]) for a, b in ties), False
        )
    if own in ("DAG", "DiGraph"):
        return ForeignGraph(tuple(numbers), tuple(sorted(graph.arcs())), True)
    if own == "UndiGraph":
        return ForeignGraph(tuple(numbers), tuple(sorted(graph.edges())), False)
    raise _not_read(graph, "pyAgrum", "BayesNet, MarkovRandomField, DAG, DiGraph and UndiGraph are")


def _latents_of(graph: Foreign, names: Mapping[int, str]) -> dict[Label, int | None]:
    """Those that `to_pyagrum` has noted in the property `latents`, with their numbers of states."""
    if not graph.existsProperty("latents"):
        return {}
    try:
        told = json.loads(graph.property("latents"))
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, list) or not all(name in names.values() for name in told):
        raise DataError(
            "expected a JSON list of names in the property 'latents', got "
            f"{graph.property('latents')!r:.80}. Set it anew, or erase it."
        )
    return {name: int(graph.variable(name).domainSize()) for name in told}


# --- refusals -------------------------------------------------------------------------------------


def _kinds(graph: object) -> set[str]:
    return {kind.__name__ for kind in type(graph).__mro__}


def _not_read(graph: object, library: str, known: str) -> GraphError:
    return GraphError(
        f"a {type(graph).__name__} of {library} cannot be read as a graph of variables; {known}. "
        "Pass its edges, [(parent, child), …]."
    )
