"""Columns and states in an order that rows tell: chance then falls alike, whatever they are called.

Random tables are drawn column by column and state by state. In the order of their contents these
are the same draws for a table whose columns and states have other names or come in another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, final

import numpy as np

from latentia.data.row_colours import mixed_colours, row_colours
from latentia.data.rows import Rows
from latentia.discovery.island_graph import NamedIslands
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Codes

T = TypeVar("T")

MOST_CELLS = 2**17  # of larger tables chance moves less, and their rows are not copied


@final
@dataclass(frozen=True, slots=True, eq=False)
class ContentOrder:
    """Where each column comes from; and for every column the new code of each old one."""

    columns: tuple[int, ...]
    codes: tuple[Codes | None, ...]  # by new place; None: states stay where they are

    def of(self, items: Sequence[T]) -> tuple[T, ...]:
        """What belongs to the columns, in the new order."""
        return tuple(items[c] for c in self.columns)

    def rows(self, rows: Rows) -> Rows:
        """The same rows in new columns and codes; missing cells stay missing."""
        found = []
        for own, new in zip(self.of(rows.codes), self.codes, strict=True):
            found.append(own if new is None else np.append(new, -1)[own])
        return Rows(tuple(found), rows.weight)

    def pairs(self, found: Array) -> Array:
        """A matrix of pairs of columns as it was."""
        place = np.argsort(self.columns)
        return found[np.ix_(place, place)]

    def restored(self, named: NamedIslands) -> NamedIslands:
        """Graph and tables with columns and states as they were; latents come after the columns."""
        graph, n = named.graph, len(self.columns)
        latents = range(n, len(graph.names))
        old = [*self.columns, *latents]  # of a new number
        new = [*np.argsort(self.columns).tolist(), *latents]  # of an old one
        edges = tuple((old[a], old[b]) for a, b in graph.edges)
        names, states = ([own[v] for v in new] for own in (graph.names, graph.states))
        back = LatentGraph(tuple(names), edges, frozenset(latents), tuple(states))
        parents = graph.parents()
        tables = {}
        for v, table in named.tables.items():
            for axis, u in enumerate((*parents[v], v)):
                codes = self.codes[u] if u < n else None
                table = table if codes is None else np.take(table, codes, axis=axis)
            tables[old[v]] = table
        return replace(named, graph=back, tables={v: tables[v] for v in sorted(tables)})


def content_order(rows: Rows, sizes: Sequence[int], whole: float) -> ContentOrder:
    """By what a sample of the rows holds; cells of `whole` rows decide whether it is worth it.

    Columns have `sizes` states; 0 of columns whose cells have an order of their own.

    >>> a, b = np.array([0, 0, 1, 0, 0]), np.array([2, 0, 1, 1, 0])
    >>> one = content_order(Rows((a, b)), (2, 3), 5).rows(Rows((a, b)))
    >>> other = Rows((2 - b, 1 - a))
    >>> two = content_order(other, (3, 2), 5).rows(other)
    >>> [bool((x == y).all()) for x, y in zip(one.codes, two.codes, strict=True)]
    [True, True]
    """
    if whole * len(sizes) > MOST_CELLS:
        return ContentOrder(tuple(range(len(sizes))), (None,) * len(sizes))
    told = mixed_colours(row_colours(rows))
    colours, codes = [], []
    for own, size in zip(rows.codes, sizes, strict=True):
        there = own >= 0
        states = np.zeros(max(size, int(own.max(initial=-1)) + 1), dtype=np.uint64)
        np.add.at(states, own[there], told[there])
        states = mixed_colours(states)
        colours.append(int(states.sum(dtype=np.uint64)))
        codes.append(np.argsort(np.argsort(states, kind="stable")) if size else None)
    order = tuple(int(c) for c in np.argsort(np.array(colours, dtype=np.uint64), kind="stable"))
    return ContentOrder(order, tuple(codes[c] for c in order))
