"""What a user says of a model before any row: graph, latents, kinds and states of columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import final

from latentia.data.columns.discovering import stated_column
from latentia.data.columns.discrete import DiscreteColumn
from latentia.data.sources.engine import OneBlock
from latentia.data.sources.table_rows import TableRows
from latentia.discovery.finding import Structure
from latentia.discovery.structure_search import METHODS
from latentia.errors import DataError, UnknownNameError
from latentia.model.notices import note_ignored
from latentia.structure.graph import LatentGraph
from latentia.structure.reading_graphs import GraphLike, Latents, as_graph
from latentia.structure.templates import latent_class
from latentia.typing import ByName, Cell, Given, Label

LATENT_CLASS = "class"  # one latent tells every column
SOUGHT = METHODS  # words instead of a graph


@final
@dataclass(frozen=True, slots=True)
class Specification:
    """The parameters of a `LatentModel`, as they were given."""

    graph: GraphLike | None = None
    latents: Latents = None
    kinds: ByName[str] | None = None
    state_names: ByName[Sequence[Cell]] | None = None
    indicators: Mapping[Label, Label] = field(default_factory=dict)  # of missing cells

    def read(self) -> Specification:
        """The same with its graph read, if that does not depend on the table."""
        if self.graph is None or callable(self.graph) or self.wish is not None:
            return self
        if isinstance(self.graph, str) and self.graph == LATENT_CLASS:
            return replace(self, graph=None if self.latents is None else _one_class(self.latents))
        return replace(self, graph=as_graph(self.graph, self.latents), latents=None)

    @property
    def wish(self) -> Structure | None:
        """How to find the graph, if that is what the user wants."""
        if isinstance(self.graph, Structure):
            return self.graph
        if isinstance(self.graph, str) and self.graph in METHODS and self.graph != LATENT_CLASS:
            return Structure(self.graph)
        return None

    @property
    def columns(self) -> tuple[Label, ...] | None:
        """Names of the graph's columns in the table; None if they depend on it."""
        if not isinstance(self.graph, LatentGraph):
            return None
        return tuple(name for name in columns_of(self.graph) if name not in self.indicators)

    @property
    def stated(self) -> tuple[DiscreteColumn, ...]:
        """The columns whose states were given."""
        given = (self.state_names or {}).items()
        return tuple(stated_column(name, states) for name, states in given)

    def over(self, rows: TableRows) -> LatentGraph:
        """The graph over the columns of a table: as read, made from them, or one latent class."""
        if isinstance(self.graph, LatentGraph):
            return self.graph
        names = list(rows.names)
        if not names:
            count = rows.engine.table.length if isinstance(rows.engine, OneBlock) else "n"
            raise DataError(
                f"0 feature(s) (shape=({count}, 0)) while a minimum of 1 is required: the table "
                "has no column to learn from."
            )
        if callable(self.graph):
            return as_graph(self.graph(names), self.latents)
        if self.latents is not None:
            raise DataError(
                "latents were given without a graph. Pass the graph that ties them, or "
                "graph='class' for one latent that tells all columns."
            )
        return latent_class(names, 2)  # its number of states comes from the data

    def check(self, graph: LatentGraph, rows: TableRows) -> tuple[Label, ...]:
        """Do names of graph, table and settings fit together? The columns that take no part."""
        names = columns_of(graph)
        offered, known, held = set(rows.names), set(names), set(rows.engine.names)
        for v in sorted(graph.latent):
            if graph.names[v] in offered:
                raise DataError(
                    f"{graph.names[v]!r} is latent in the graph but a column of the table. "
                    "Rename the latent, drop the column, or do not declare it latent."
                )
        for name in (*(self.state_names or {}), *(self.kinds or {})):
            if name not in known:
                raise UnknownNameError("column (in state_names or kinds)", name, names)
        missing = [name for name in names if name not in held]
        if missing:
            raise UnknownNameError(
                "column", missing[0], rows.names, "The graph names it: add it or make it latent."
            )
        extra = tuple(name for name in rows.names if name not in known)
        note_ignored(extra)
        return extra


def columns_of(graph: LatentGraph) -> tuple[Label, ...]:
    return tuple(graph.names[v] for v in graph.observed)


def _one_class(latents: Given) -> Callable[[Sequence[Label]], list[tuple[Label, Label]]]:
    """The graph of a latent class of the user's name, over whatever columns there are."""
    names = [latents] if isinstance(latents, str) else list(latents)
    if len(names) != 1:
        raise DataError(
            f"a latent class is one latent, got {len(names)}: "
            f"{', '.join(map(str, names)) or 'none'}. Name one, or pass the graph that ties them."
        )
    return lambda columns: [(names[0], column) for column in columns if column != names[0]]
