"""A table is opened, looked at once, and known by its columns: what every fit begins with."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, final

from latentia.data.columns.column import Column
from latentia.data.rows import Source
from latentia.data.sources.indicators import with_indicators
from latentia.data.sources.table_rows import Look, TableRows, discover_columns, open_rows
from latentia.discovery.finding import Structure
from latentia.discovery.id_columns import id_columns, names_without
from latentia.errors import DataError
from latentia.model.by_content import Turned
from latentia.model.specification import Specification, columns_of
from latentia.networks.tied import share_states
from latentia.structure.graph import LatentGraph
from latentia.structure.reading_graphs import as_graph
from latentia.structure.templates import latent_class
from latentia.time_left import FOREVER, TimeLeft
from latentia.typing import Label, TableLike, WeightLike

if TYPE_CHECKING:
    from latentia.data.sources.progress import ProgressLike

SAME_WEIGHT = 1e-6  # relative, of the same rows


@final
@dataclass(frozen=True, slots=True)
class Opened:
    """A table whose columns are known."""

    graph: LatentGraph
    counted: bool  # no graph was given: the states of its latent class are counted
    columns: tuple[Column, ...]
    rows: TableRows
    seen: Look  # of the graph's columns, and of what was asked for besides
    ignored: tuple[Label, ...]  # columns that the graph does not name
    wish: Structure | None = None  # the graph is to be found
    indicators: Mapping[Label, Label] = field(default_factory=dict)  # of missing cells
    left_out: Mapping[Label, str] = field(default_factory=dict)  # ids, where a graph is sought
    began: float = field(default_factory=time.perf_counter)  # when it was opened
    found: bool = False  # the graph was found, and with it its tables
    turned: Turned | None = None  # graph and columns are in the order of their contents

    @property
    def left(self) -> TimeLeft:
        """Until when all must be learned, if a time budget was given."""
        return FOREVER if self.wish is None else TimeLeft.of(self.wish.time_budget, self.began)

    @property
    def counted_rows(self) -> float:
        """How many there are, where a weight of three is three rows."""
        return max(self.seen.rows, self.seen.weight)

    def source(self, columns: Sequence[Column]) -> Source:
        """All rows."""
        if self.turned is None:
            return self.as_given(columns)
        return self.turned.source(self.as_given(self.turned.given_columns(columns)))

    def as_given(self, columns: Sequence[Column]) -> Source:
        """All rows on columns as the user has them, also where these are turned."""
        if self.turned is not None and tuple(columns) == self.turned.columns:
            return self.turned.encoded
        return self.rows.source(columns, self.seen)

    def first(self, columns: Sequence[Column]) -> Source:
        """Rows that can be read again and again: all of them, or a pilot."""
        return self.rows.pilot(columns) if self.rows.once else self.source(columns)


def open_training(
    wanted: Specification,
    X: TableLike,
    sample_weight: WeightLike | None = None,
    progress: ProgressLike = None,
    tied: Sequence[Sequence[Label]] | None = None,
    sought: Structure | None = None,
) -> Opened:
    """Open a table, look at it once, and tell what its columns are; `sought`: without ids."""
    began, wanted = time.perf_counter(), wanted.read()
    rows = open_rows(X, wanted.columns, sample_weight, progress, wanted.stated)
    rows = replace(rows, engine=with_indicators(rows.engine, wanted.indicators))
    return replace(look_at(wanted, rows, tied, sought), began=began)


def look_at(
    wanted: Specification,
    rows: TableRows,
    tied: Sequence[Sequence[Label]] | None = None,
    sought: Structure | None = None,
) -> Opened:
    """Pass 0: graph and columns; a column of labels is looked at, too."""
    wanted = wanted.read()
    graph = wanted.over(rows)
    ignored = wanted.check(graph, rows)
    names = columns_of(graph)
    seen = rows.look(names if rows.label is None else (*names, rows.label))
    ids: Mapping[Label, str] = {}
    if sought is not None and not rows.once:
        asked = sought.named(wanted.state_names)
        ids = id_columns(seen.columns, names, wanted.kinds or {}, asked)
    if ids:
        names = names_without(names, ids)
        made = wanted.graph(list(names)) if callable(wanted.graph) else None
        graph = latent_class(names, 2) if made is None else as_graph(made, wanted.latents)
    columns = discover_columns(seen, names, wanted.kinds, wanted.state_names)
    columns = tuple(share_states(columns, tied))
    counted, told = wanted.graph is None, wanted.indicators
    return Opened(graph, counted, columns, rows, seen, (*ignored, *ids), wanted.wish, told, ids)


def rows_again(
    columns: Sequence[Column],
    weight: float,
    X: TableLike,
    sample_weight: WeightLike | None,
    indicators: Mapping[Label, Label],
) -> Source:
    """The rows of a table as a fitted model reads them; they must weigh what it was fitted on."""
    names = [c.name for c in columns]
    own = [c for c in columns if c.name not in indicators]
    rows = open_rows(X, [c.name for c in own], sample_weight, known=own)
    rows = replace(rows, engine=with_indicators(rows.engine, indicators))
    if rows.once:
        raise DataError(
            "error bars take another pass, but these rows can be read only once. Pass a function "
            "that opens them anew, or write them to a Parquet file."
        )
    seen = rows.look(names)
    if not abs(seen.weight - weight) <= SAME_WEIGHT * weight:
        raise DataError(
            f"expected the rows that the model was learned from, of weight {weight:g}, got rows "
            f"of weight {seen.weight:g}. Pass the same table and sample_weight as to fit."
        )
    return rows.source(columns, seen)
