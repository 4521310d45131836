"""Columns and states in an order that rows tell: chance then falls alike, whatever they are called.

Random tables are drawn column by column and state by state. In the order of their contents these
are the same draws for a table whose columns and states have other names or come in another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, final

import numpy as np

from latentia.data.row_colours import Colours, mixed_colours, row_colours
from latentia.data.rows import Rows
from latentia.discovery.island_graph import NamedIslands
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, CellArray, Codes

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

    Columns have `sizes` states; 0 of columns whose cells have an order of their own, and of
    numbers, which go by their ranks.

    >>> a, b = np.array([0, 0, 1, 0, 0]), np.array([2, 0, 1, 1, 0])
    >>> one = content_order(Rows((a, b)), (2, 3), 5).rows(Rows((a, b)))
    >>> other = Rows((2 - b, 1 - a))
    >>> two = content_order(other, (3, 2), 5).rows(other)
    >>> [bool((x == y).all()) for x, y in zip(one.codes, two.codes, strict=True)]
    [True, True]
    """
    if whole * len(sizes) > MOST_CELLS:
        return ContentOrder(tuple(range(len(sizes))), (None,) * len(sizes))
    placed = tuple(_ranks(own) if own.dtype.kind == "f" else np.asarray(own) for own in rows.codes)
    states = _state_colours(placed, sizes, mixed_colours(row_colours(rows)))
    order = _rising(states, rows)
    codes = [np.argsort(np.argsort(own, kind="stable")) for own in states]
    return ContentOrder(order, tuple(codes[c] if sizes[c] else None for c in order))


def _state_colours(rows: Sequence[Codes], sizes: Sequence[int], told: Colours) -> list[Colours]:
    """Of the states of every column, by the colours of the rows that have them."""
    found = []
    for own, size in zip(rows, sizes, strict=True):
        there = own >= 0
        states = np.zeros(max(size, int(own.max(initial=-1)) + 1), dtype=np.uint64)
        np.add.at(states, own[there], told[there])
        found.append(mixed_colours(states))
    return found


def _rising(states: Sequence[Colours], rows: Rows) -> tuple[int, ...]:
    """Columns by their states; those of one colour by the sizes of their numbers, if any."""

    def place(c: int) -> tuple[int, float]:
        numbers = rows.codes[c]
        size = float(np.nansum(np.abs(numbers))) if numbers.dtype.kind == "f" else 0.0
        return int(states[c].sum(dtype=np.uint64)), float(f"{size:.9g}")

    return tuple(sorted(range(len(states)), key=place))


def _ranks(positions: CellArray) -> Codes:
    """Of numbers that are there, equal ones alike; -1 of those that are not."""
    values, rank = np.unique(positions, return_inverse=True)
    there = ~np.isnan(np.asarray(positions, dtype=float))
    return np.where(there, np.minimum(rank, len(values) - 1), -1)
