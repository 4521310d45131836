"""The structure that was found, learned again from other rows: for who holds rows out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

from latentia.data.rows import Rows
from latentia.discovery.column_bins import Bins, binned_rows
from latentia.discovery.content_order import ContentOrder
from latentia.discovery.island_climb import IslandClimb, Known, known_rows
from latentia.discovery.island_graph import NamedIslands, name_islands
from latentia.discovery.island_network import IslandLayout
from latentia.linear_algebra import one_thread
from latentia.structure.graph import LatentGraph
from latentia.time_left import FOREVER, Pace, TimeLeft
from latentia.typing import Array, Label


@final
@dataclass(frozen=True, slots=True, eq=False)
class Relearning:
    """All that a climb needs but the rows."""

    layout: IslandLayout
    bins: tuple[Bins | None, ...]  # of the table's columns
    order: ContentOrder  # in which the layout has them
    names: tuple[Label, ...]  # in that order
    pseudo_count: float
    rounds: int
    seed: int

    def tables_of(
        self, rows: Rows, left: TimeLeft = FOREVER
    ) -> tuple[LatentGraph, Mapping[int, Array]]:
        """The graph and its tables, on the columns' grids, from rows of positions."""
        known = known_rows(ordered_rows(self.bins, self.order, rows))
        with one_thread():
            nothing = Known(known.codes[:0])
            climb = IslandClimb(self.layout, known, nothing, self.pseudo_count, self.seed)
            pace = Pace(left)
            while pace.done < self.rounds and pace.goes_on():
                climb.advance(1, watched=False)
        named = name_islands(self.layout, climb.counts, self.pseudo_count, self.names)
        wide = self.order.restored(on_grids_again(named, self.order.of(self.bins)))
        return wide.graph, wide.tables


def ordered_rows(bins: Sequence[Bins | None], order: ContentOrder, rows: Rows) -> Rows:
    """Cells in place of positions, columns and states in the order of their contents."""
    return order.rows(binned_rows(bins, rows))


def on_grids_again(named: NamedIslands, bins: Sequence[Bins | None]) -> NamedIslands:
    """Tables of continuous columns on their grids."""
    graph, tables = named.graph, dict(named.tables)
    states = list(graph.states)
    for v, own in enumerate(bins):
        if own is not None:
            tables[v] = own.on_grid(tables[v])
            states[v] = own.points + own.atoms
    wide = LatentGraph(graph.names, graph.edges, graph.latent, tuple(states))
    return replace(named, graph=wide, tables=tables)
