"""from_pgmpy and to_pgmpy: Bayesian and Markov networks of pgmpy, with states and latents."""

from __future__ import annotations

import numpy as np

from latentia.errors import DataError
from latentia.exact.tabular_model import TabularModel
from latentia.formats.foreign_tables import ForeignTable, assemble, library_missing, refuse
from latentia.formats.model_tables import ModelTables, model_tables
from latentia.structure.reading_graphs import Latents, as_graph
from latentia.typing import Cell, Foreign, Given


def from_pgmpy(network: Foreign, latents: Latents = None) -> TabularModel:
    """The model of a DiscreteBayesianNetwork or DiscreteMarkovNetwork of pgmpy.

    Its latents stay latent, besides those named in `latents`.
    """
    if type(network).__module__.split(".")[0] != "pgmpy":
        refuse("a network of pgmpy", network, "Graphs alone are read by lt.as_graph.")
    graph = as_graph(network)
    if graph.directed:
        tables = [_cpd_table(network, name) for name in graph.names]
        states = {table.axes[-1]: table.states[table.axes[-1]] for table in tables}
    else:
        tables = [
            ForeignTable(tuple(f.variables), f.values, f.state_names) for f in network.factors
        ]
        states = {}
        for table in tables:
            for name in table.axes:
                states.setdefault(name, table.states[name])
        lonely = [name for name in graph.names if name not in states]
        if lonely:
            raise DataError(f"expected a factor with {lonely[0]!r}, got none. Add one.")
        hidden = set(getattr(network, "latents", None) or ())
        graph = as_graph(graph, [name for name in graph.names if name in hidden])
    return assemble(graph, tables, states, latents)


def _cpd_table(network: Foreign, name: object) -> ForeignTable:
    find = getattr(network, "get_cpds", None)
    cpd = None if find is None else find(name)
    if cpd is None or not hasattr(cpd, "state_names") or not hasattr(cpd, "values"):
        raise DataError(
            f"expected a TabularCPD for {name!r}, got {type(cpd).__name__}. Add it by add_cpds, or "
            "read the graph alone by lt.as_graph."
        )
    child, *above = cpd.variables
    if set(above) != set(network.predecessors(name)):
        raise DataError(f"the table of {name!r} has other parents than the graph. Correct one.")
    return ForeignTable((*above, child), np.moveaxis(cpd.values, 0, -1), cpd.state_names)


def to_pgmpy(model: Given) -> Foreign:
    """A DiscreteBayesianNetwork (or DiscreteMarkovNetwork) of pgmpy, from any model with tables."""
    found = model_tables(model)
    try:
        from pgmpy.models import DiscreteBayesianNetwork, DiscreteMarkovNetwork
    except ImportError:
        raise library_missing("to_pgmpy", "pgmpy") from None
    kind = DiscreteBayesianNetwork if found.graph.directed else DiscreteMarkovNetwork
    network = kind()
    names = found.graph.names
    network.add_nodes_from(names)
    network.add_edges_from([(names[a], names[b]) for a, b in found.graph.edges])
    if found.graph.directed:
        network.add_cpds(*(cpd_of(found, scope) for scope in found.tables))
    else:
        network.add_factors(*_factors(found))
    network.latents = set(found.latents)
    return network


def cpd_of(found: ModelTables, scope: tuple[int, ...]) -> Foreign:
    """One of the tables as a TabularCPD."""
    from pgmpy.factors.discrete import TabularCPD

    *above, child = scope
    names, table = found.graph.names, found.tables[scope]
    rows = np.moveaxis(table, -1, 0).reshape(table.shape[-1], -1)
    return TabularCPD(
        names[child],
        table.shape[-1],
        rows,
        evidence=[names[v] for v in above] or None,
        evidence_card=list(table.shape[:-1]) or None,
        state_names={names[v]: list(found.states[v]) for v in scope},
    )


def _factors(found: ModelTables) -> list[Cell]:
    """Potentials; a variable in none of them gets a flat one, for pgmpy wants its states."""
    from pgmpy.factors.discrete import DiscreteFactor

    names = found.graph.names
    alone = set(range(len(names))) - {v for scope in found.tables for v in scope}
    flat = {(v,): np.ones(len(found.states[v])) for v in sorted(alone)}
    return [
        DiscreteFactor(
            [names[v] for v in scope],
            list(table.shape),
            np.array(table),
            state_names={names[v]: list(found.states[v]) for v in scope},
        )
        for scope, table in (dict(found.tables) | flat).items()
    ]
