"""A fit in the order of what rows hold: chance and ties fall alike, however a table is written.

Columns, states, edges and rows come in some order, which says nothing. Ties of plans, random tables
and held-out rows go by it all the same, and few rows are then answered otherwise. So the problem is
put into the order of its contents, learned, and what was learned is numbered as the user does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.columns.discrete import DiscreteColumn
from latentia.data.row_colours import Colours, row_colours
from latentia.data.rows import Rows, Source
from latentia.data.sources.changed_rows import change_rows
from latentia.data.sources.memory import LocalRows
from latentia.discovery.content_order import MOST_CELLS, ContentOrder, graph_order
from latentia.inference.operators import Operators
from latentia.kernels.smooth_leaves import smooth_again
from latentia.networks.learner import Abilities
from latentia.networks.numbered_back import Numbering, operators_back
from latentia.structure.graph import LatentGraph, relevant
from latentia.structure.renumbering import reordered
from latentia.typing import Codes, Label

MOST_ROWS = 4096  # of more, what chance moves is small


@final
@dataclass(frozen=True, slots=True, eq=False)
class Turned:
    """Graph and columns in the order of their contents, and how they were given."""

    given: LatentGraph
    columns: tuple[Column, ...]  # as given
    graph: LatentGraph
    order: ContentOrder
    encoded: Source  # the rows on the columns as given …
    told: Colours  # … and what each tells: they are learned from in this order

    def own_columns(self, given: Sequence[Column]) -> tuple[Column, ...]:
        """The columns in order, and their states."""
        pairs = zip(self.order.of(given), self.order.codes, strict=True)
        return tuple(_with_states(c, codes) for c, codes in pairs)

    def given_columns(self, own: Sequence[Column]) -> tuple[Column, ...]:
        """The columns as given, numbers on the scales that they have in order."""
        by_name = {c.name: c for c in own}
        return tuple(by_name[c.name] if c.continuous else c for c in self.columns)

    def source(self, given: Source, beside: int = 0) -> Source:
        """The rows of the columns as given, in order; so many columns `beside` stay last."""
        more = range(len(self.columns), len(self.columns) + beside)
        order = ContentOrder((*self.order.columns, *more), (*self.order.codes, *[None] * beside))
        found = change_rows(given, order.rows)
        if not isinstance(found, LocalRows):
            return found
        same = len(self.told) == len(found.rows)
        return replace(found, rows=_sorted(found.rows, self.told if same else None))

    def back(self, operators: Operators, columns: Sequence[Column]) -> Operators:
        """What was learned, as the user numbers it; `columns` are as given."""
        found, plan = operators_back(operators, self._numbering), operators.plan
        if not found.raw or all(len(plan.nodes[k].columns) == 1 for k in plan.leaves):
            return found
        shares = tuple(leaf[:, 0] for leaf in found.raw)
        bare = replace(found, leaves=found.raw, marginals=shares, raw=(), targets={})
        return smooth_again(bare, columns)  # to the last digit as files tell it

    @property
    def _numbering(self) -> Numbering:
        names = [c.name for c in self.order.of(self.columns)]
        pairs = zip(names, self.order.codes, strict=True)
        codes: Mapping[Label, Codes] = {name: c for name, c in pairs if c is not None}
        return Numbering(self.given, codes)


def turn(
    graph: LatentGraph,
    columns: Sequence[Column],
    first: Source,
    count: float,
    able: Abilities,
) -> Turned | None:
    """The problem of so many rows in the order of their contents; None of large tables.

    Tables of which something is known, or that are tied, keep the order of their axes.
    """
    if count > MOST_ROWS or count * len(columns) > MOST_CELLS:
        return None
    given, rows = relevant(graph), _all_rows(first)
    kept = _families(given, _told_of(able))
    fixed = {given.names[v] for v in kept}
    sizes = [0 if c.continuous or c.name in fixed else c.cells for c in columns]
    old, order, told = graph_order(rows, sizes, given)
    return Turned(given, tuple(columns), reordered(given, old, kept), order, first, told)


def _all_rows(source: Source) -> Rows:
    """Few rows, wherever they are."""
    if isinstance(source, LocalRows):
        return source.rows
    return source.sample(MOST_CELLS, np.random.default_rng(0))


def _told_of(able: Abilities) -> set[Label]:
    """Variables of whose tables something was said."""
    tied = able.tied if isinstance(able.tied, list | tuple) else ()
    found = {name for group in tied if isinstance(group, list | tuple) for name in group}
    for given in (able.known, able.smoothing, able.started):
        found |= {*given} if isinstance(given, Mapping) else set()
    return found


def _families(graph: LatentGraph, names: Collection[Label]) -> set[int]:
    """The variables of these tables, and their parents."""
    parents = graph.parents()
    own = [v for v, name in enumerate(graph.names) if name in names]
    return {u for v in own for u in (*parents[v], v)}


def _with_states(column: Column, codes: Codes | None) -> Column:
    if codes is None or not isinstance(column, DiscreteColumn):
        return column
    return DiscreteColumn(column.name, tuple(column.states[k] for k in np.argsort(codes)))


def _sorted(rows: Rows, told: Colours | None) -> Rows:
    """Rows by what they tell, those that tell the same by their cells."""
    own = row_colours(rows) if told is None else told
    keys = [own, *rows.codes, *([] if rows.weight is None else [rows.weight])]
    return rows.where(np.lexsort(keys[::-1]))
