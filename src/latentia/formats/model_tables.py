"""The tables of any model that has some, with its own labels or as files spell them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from latentia.errors import FormatError
from latentia.exact.reading_evidence import labels_of
from latentia.exact.tabular_model import TabularModel
from latentia.formats.plain_network import PlainNetwork, spelled
from latentia.model.latent_model import LatentModel
from latentia.model.latent_questions import own_tables
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Cell, Given, Label


@final
@dataclass(frozen=True, slots=True)
class ModelTables:
    """A graph, its tables and the states of all its variables."""

    graph: LatentGraph
    tables: Mapping[tuple[int, ...], Array]  # axes (parents …, variable), or those of a potential
    states: tuple[tuple[Cell, ...], ...]  # codes where states have no names

    @property
    def latents(self) -> tuple[Label, ...]:
        return tuple(self.graph.names[v] for v in sorted(self.graph.latent))


def model_tables(model: Given) -> ModelTables:
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
    odd = [column.name for column in model.columns_ if column.continuous]
    if odd:
        raise FormatError(
            f"expected a table for every variable, got the continuous columns {odd[:20]!r}. Cut "
            "them into states before fitting."
        )
    own = own_tables(model.plan_, model.operators_, model.columns_, model.name_states)
    if own is None:
        raise FormatError(
            "expected a model with a table for every variable of its graph, got one learned by "
            f"{model.diagnostics_.learner}, which has none. Use learner='tables' or 'em', and a "
            "directed graph."
        )
    answers = own.answers
    above = answers.graph.parents()
    tables = {(*above[v], v): table for v, table in sorted(answers.tables.items())}
    states = tuple(labels_of(answers, v) for v in range(len(answers.names)))
    return ModelTables(answers.graph, tables, states)


def plain_network(model: Given) -> PlainNetwork:
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
