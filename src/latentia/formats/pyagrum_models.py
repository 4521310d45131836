"""from_pyagrum and to_pyagrum: Bayesian networks and Markov random fields of pyAgrum.

pyAgrum knows no latents: a property `latents` of the network names them, as JSON.
"""

from __future__ import annotations

import json
from importlib import import_module

from latentia.errors import DataError, FormatError
from latentia.exact.tabular_model import TabularModel
from latentia.formats.foreign_tables import ForeignTable, assemble, library_missing, refuse
from latentia.formats.model_tables import ModelTables, model_tables
from latentia.formats.plain_network import spelled
from latentia.structure.reading_graphs import Latents, as_graph
from latentia.typing import Foreign, Given

PROPERTY = "latents"


def from_pyagrum(network: Foreign, latents: Latents = None) -> TabularModel:
    """The model of a BayesNet or MarkovRandomField of pyAgrum.

    Latent are those named in `latents` and in the network's property of this name.
    """
    if type(network).__module__.split(".")[0] != "pyagrum":
        refuse("a network of pyAgrum", network, "Graphs alone are read by lt.as_graph.")
    graph = as_graph(network)
    kinds = {kind.__name__ for kind in type(network).__mro__}
    if not kinds & {"BayesNet", "MarkovRandomField", "MarkovNet"}:
        refuse("a BayesNet or MarkovRandomField", network, "Graphs are read by lt.as_graph.")
    states = {name: tuple(network.variable(name).labels()) for name in graph.names}
    factors = (
        [network.cpt(name) for name in graph.names]
        if graph.directed
        else [network.factor(scope) for scope in network.factors()]
    )
    # the axes of an array are those of the tensor's names, backwards
    tables = [ForeignTable(tuple(f.names)[::-1], f.toarray(), {}) for f in factors]
    return assemble(as_graph(graph, _told(network)), tables, states, latents)


def _told(network: Foreign) -> list[str] | None:
    if not network.existsProperty(PROPERTY):
        return None
    try:
        found = json.loads(network.property(PROPERTY))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise DataError(
            f"expected a JSON list of names in the property {PROPERTY!r}, got "
            f"{network.property(PROPERTY)!r:.80}. Set it anew, or erase it."
        )
    return found or None


def to_pyagrum(model: Given) -> Foreign:
    """A BayesNet (or MarkovRandomField) of pyAgrum, from any model with tables.

    Names and states become strings. Latents are named in the property `latents`.
    """
    found = model_tables(model)
    try:
        gum: Given = import_module("pyagrum")  # its types change from version to version
    except ImportError:
        raise library_missing("to_pyagrum", "pyagrum") from None
    names = spelled(found.graph.names, "variables")
    network = gum.BayesNet() if found.graph.directed else gum.MarkovRandomField()
    for name, states in zip(names, found.states, strict=True):
        listed = spelled(states, f"states of {name!r}")
        network.add(gum.LabelizedVariable(name, name, list(listed)))
    if found.graph.directed:
        _fill_cpts(network, found, names)
    else:
        _add_factors(network, found, names)
    if found.latents:
        told = [names[v] for v in sorted(found.graph.latent)]
        network.setProperty(PROPERTY, json.dumps(told, ensure_ascii=False))
    return network


def _fill_cpts(network: Foreign, found: ModelTables, names: tuple[str, ...]) -> None:
    for *above, child in found.tables:
        for parent in reversed(above):  # so that the axes of arrays go as ours
            network.addArc(names[parent], names[child])
    for scope, table in found.tables.items():
        _set(network.cpt(names[scope[-1]]), [names[v] for v in scope], table)


def _add_factors(network: Foreign, found: ModelTables, names: tuple[str, ...]) -> None:
    seen: set[frozenset[int]] = set()
    for scope, table in found.tables.items():
        if frozenset(scope) in seen:
            raise FormatError(
                f"pyAgrum holds one potential for {[names[v] for v in scope]}, got two. Multiply "
                "them."
            )
        seen.add(frozenset(scope))
        factor = network.addFactor([names[v] for v in reversed(scope)])
        _set(factor, [names[v] for v in scope], table)


def _set(tensor: Foreign, axes: list[str], table: Given) -> None:
    own = list(tensor.names)[::-1]
    tensor[:] = table.transpose([axes.index(name) for name in own])
