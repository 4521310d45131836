"""The tables of any model that has some, with its own labels or as files spell them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from latentia.errors import FormatError
from latentia.exact.tabular_model import TabularModel
from latentia.formats.plain_network import PlainNetwork, spelled
from latentia.model.latent_model import LatentModel
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Label


@final
@dataclass(frozen=True, slots=True)
class ModelTables:
    """A graph, its tables and the states of all its variables."""

    graph: LatentGraph
    tables: Mapping[tuple[int, ...], Array]  # axes (parents …, variable), or those of a potential
    states: tuple[tuple[Any, ...], ...]  # codes where states have no names

    @property
    def latents(self) -> tuple[Label, ...]:
        return tuple(self.graph.names[v] for v in sorted(self.graph.latent))


def model_tables(model: Any) -> ModelTables:
    """The tables of a TabularModel, or of a LatentModel whose learner has tables."""
    if isinstance(model, TabularModel):
        states = (
            model.state_names.get(name, range(count))
            for name, count in zip(model.names, model.states, strict=True)
        )
        return ModelTables(model.graph, model.tables, tuple(map(tuple, states)))
    if isinstance(model, LatentModel):
        return _learned_tables(model)
    raise FormatError(
        f"expected a model with tables, a TabularModel or a LatentModel, got "
        f"{type(model).__name__}. Build one by lt.TabularModel(graph, cpts)."
    )


def _learned_tables(model: LatentModel) -> ModelTables:
    cpts = model.cpts_  # says which learners have tables
    graph = model._graph
    labels = {column.name: column.labels for column in model.columns_}
    odd = [column.name for column in model.columns_ if column.continuous]
    if odd:
        raise FormatError(
            f"expected a table for every variable, got the continuous columns {odd[:20]!r}. Cut "
            "them into states before fitting."
        )
    if not graph.directed or set(cpts) != set(graph.names):
        raise FormatError(
            "expected a directed graph with a table for every variable, got "
            f"{len(cpts)} tables of {len(graph.names)} variables. Learn a directed graph."
        )
    above = graph.parents()
    tables = {(*above[v], v): cpts[name] for v, name in enumerate(graph.names)}
    states = (
        labels.get(name, range(tables[*above[v], v].shape[-1]))
        for v, name in enumerate(graph.names)
    )
    return ModelTables(graph, tables, tuple(map(tuple, states)))


def plain_network(model: Any) -> PlainNetwork:
    """The same with every name as it is written in files."""
    found = model_tables(model)
    names = spelled(found.graph.names, "variables")
    return PlainNetwork(
        states={
            name: spelled(states, f"states of {name!r}")
            for name, states in zip(names, found.states, strict=True)
        },
        tables={tuple(names[v] for v in scope): table for scope, table in found.tables.items()},
        latents=frozenset(names[v] for v in found.graph.latent),
        directed=found.graph.directed,
    )
