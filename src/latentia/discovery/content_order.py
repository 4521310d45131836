"""Columns and states in an order that rows tell: chance then falls alike, whatever they are called.

Random tables are drawn column by column and state by state. In the order of their contents these
are the same draws for a table whose columns and states have other names or come in another order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, final

import numpy as np

from latentia.data.row_colours import Colours, colours_told, mixed_colours, row_units
from latentia.data.rows import Rows
from latentia.discovery.island_graph import NamedIslands
from latentia.discovery.variable_order import variable_colours, variable_order
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
    states = _state_colours(_placed(rows), sizes, colours_told(rows))
    return _ordered(_rising(states, rows), states, sizes)


def graph_order(
    rows: Rows, sizes: Sequence[int], graph: LatentGraph
) -> tuple[list[int], ContentOrder, Colours]:
    """Variables of a graph over the columns by number, in order; its columns; what rows tell."""
    placed, told = _placed(rows), colours_told(rows)
    states = _state_colours(placed, sizes, told)
    colours = variable_colours(graph, _column_colours(states, rows))
    if any(_some_alike(own) for own in states):  # the graph may tell their columns apart
        own = colours[list(graph.observed)]
        units = row_units(rows)
        told = _told_by_graph(placed, states, own) * units
        states = _state_colours(placed, sizes, told)
        colours = variable_colours(graph, _column_colours(states, rows))
    order = variable_order(graph, colours)
    place = {v: c for c, v in enumerate(graph.observed)}
    return order, _ordered([place[v] for v in order if v in place], states, sizes), told


def _ordered(order: Sequence[int], states: Sequence[Colours], sizes: Sequence[int]) -> ContentOrder:
    codes = [np.argsort(np.argsort(own, kind="stable")) for own in states]
    return ContentOrder(tuple(order), tuple(codes[c] if sizes[c] else None for c in order))


def _placed(rows: Rows) -> tuple[Codes, ...]:
    """Cells as states: numbers by their ranks."""
    return tuple(_ranks(own) if own.dtype.kind == "f" else np.asarray(own) for own in rows.codes)


def _state_colours(rows: Sequence[Codes], sizes: Sequence[int], told: Colours) -> list[Colours]:
    """Of the states of every column, by what the rows that have them tell."""
    found = []
    for own, size in zip(rows, sizes, strict=True):
        there = own >= 0
        states = np.zeros(max(size, int(own.max(initial=-1)) + 1), dtype=np.uint64)
        np.add.at(states, own[there], told[there])
        found.append(np.asarray(mixed_colours(states)))
    return found


def _some_alike(states: Colours) -> bool:
    return len(np.unique(states)) < len(states)


def _told_by_graph(rows: Sequence[Codes], states: Sequence[Colours], columns: Colours) -> Colours:
    """Colours of rows by their cells, those of columns that the graph tells apart being apart."""
    found = np.zeros(len(rows[0]), dtype=np.uint64)
    for own, colours, column in zip(rows, states, columns, strict=True):
        cells = np.append(mixed_colours(colours ^ column), mixed_colours(column))
        found += cells[own]  # the last one where missing
    return np.asarray(mixed_colours(found))


def _rising(states: Sequence[Colours], rows: Rows) -> tuple[int, ...]:
    """Columns by their states; those of one colour by the sizes of their numbers, if any."""
    sizes = [_size(numbers, rows) for numbers in rows.codes]
    sums = [int(own.sum(dtype=np.uint64)) for own in states]
    return tuple(sorted(range(len(states)), key=lambda c: (sums[c], sizes[c])))


def _column_colours(states: Sequence[Colours], rows: Rows) -> Colours:
    """Of columns, by their states; numbers of one colour by the order of their sizes, too."""
    sums = np.array([own.sum(dtype=np.uint64) for own in states], dtype=np.uint64)
    before = np.zeros(len(states), dtype=np.uint64)  # numbers of the same colour that are smaller
    met: dict[int, int] = {}
    for c in _rising(states, rows):
        if rows.codes[c].dtype.kind == "f":
            before[c] = met.get(int(sums[c]), 0)
            met[int(sums[c])] = met.get(int(sums[c]), 0) + 1
    return np.asarray(sums + mixed_colours(before))


def _size(cells: CellArray, rows: Rows) -> float:
    """Of numbers, whatever their signs; 0 of states."""
    if cells.dtype.kind != "f":
        return 0.0
    there = ~np.isnan(np.asarray(cells, dtype=float))
    some = rows.weights[there]
    size = float(np.abs(cells[there]) @ some / max(float(some.sum()), 1e-300))
    return float(f"{size:.9g}")


def _ranks(positions: CellArray) -> Codes:
    """Of numbers that are there, equal ones alike; -1 of those that are not."""
    values, rank = np.unique(positions, return_inverse=True)
    there = ~np.isnan(np.asarray(positions, dtype=float))
    return np.where(there, np.minimum(rank, len(values) - 1), -1)
