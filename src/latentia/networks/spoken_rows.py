"""Rows of tables that data speak of: the climb moves these, and leaves the rest to the prior.

A family with many known parents has a table row for every joint state of them, and most are never
seen. Their expected counts are zero whatever the tables are; so they are told by the prior alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.data.rows import Rows
from latentia.exact.pieces import Piece
from latentia.networks.accelerate import LaterTables, Prior, Tables
from latentia.typing import Array, Codes


@final
@dataclass(frozen=True, slots=True)
class SpokenRows:
    """Which rows of each table are spoken of, by own number, and what the others hold."""

    rows: Mapping[int, Codes]  # of the table as (rows, states)
    shapes: Mapping[int, tuple[int, ...]]  # of whole tables …
    flat: Mapping[int, tuple[int, ...]]  # … as (rows, states)
    rest: Tables  # whole tables, told by the prior, where not all rows are spoken of

    def shrink(self, tables: Tables) -> Tables:
        """The rows that are spoken of: (rows, states)."""
        if isinstance(tables, LaterTables) and not self.rest:
            alike = [*self.flat] == [*tables]
            return LaterTables(self.flat if alike else {k: self.flat[k] for k in tables}, tables.x)
        found = {}
        for k, t in tables.items():
            flat = t if t.ndim == 2 else t.reshape(-1, t.shape[-1])
            found[k] = flat[self.rows[k]] if k in self.rest else flat
        return found

    def grow(self, tables: Tables) -> dict[int, Array]:
        """Whole tables, (parents …, states)."""
        found = {}
        for k, own in tables.items():
            whole = own
            if k in self.rest:
                whole = self.rest[k].reshape(-1, own.shape[-1]).copy()
                whole[self.rows[k]] = own
            found[k] = whole.reshape(self.shapes[k])
        return found

    def spread(self, counts: Tables) -> dict[int, Array]:
        """Counts of whole tables: none in rows that nothing is said of."""
        found = {}
        for k, own in counts.items():
            whole = own
            if k in self.rest:
                whole = np.zeros((math.prod(self.shapes[k][:-1]), own.shape[-1]))
                whole[self.rows[k]] = own
            found[k] = whole.reshape(self.shapes[k])
        return found

    def prior(self, whole: Prior) -> Prior:
        """Pseudo-counts of these rows."""
        return Prior(
            {
                k: a if a.ndim == 1 else a.reshape(-1, a.shape[-1])[self.rows[k]]
                for k, a in whole.counts.items()
            }
        )

    def places(self, tables: Tables) -> tuple[dict[int, Codes], int]:
        """Where each cell of a table lies among all that are spoken of; and how many these are.

        `tables` are those of the spoken rows, one after the other. Elsewhere the place is -1.
        """
        found, start = {}, 0
        for k, own in tables.items():
            place = np.full((math.prod(self.shapes[k][:-1]), own.shape[-1]), -1)
            place[self.rows[k]] = start + np.arange(own.size).reshape(own.shape)
            found[k] = place.reshape(self.shapes[k])
            start += own.size
        return found, start


def spoken_rows(piece: Piece, rows: Rows, prior: Prior) -> SpokenRows:
    """From the different rows of the piece's columns; columns with holes may have any state."""
    graph = piece.graph
    states, parents = [n or 1 for n in graph.states], graph.parents()
    column = dict(zip(graph.observed, rows.codes, strict=True))
    above = {u for some in parents for u in some}
    known = {v for v, codes in column.items() if v in above and codes.min(initial=0) >= 0}
    found: dict[int, Codes] = {}
    shapes: dict[int, tuple[int, ...]] = {}
    rest: dict[int, Array] = {}
    for k in sorted(piece.inside(dict.fromkeys(piece.families))):
        shape = [states[u] for u in parents[k]]
        shapes[k], count = (*shape, states[k]), math.prod(shape)
        told = [u for u in parents[k] if u in known]
        if not told:
            found[k] = np.arange(count)
            continue
        seen = np.zeros([states[u] for u in told], dtype=bool)
        seen[tuple(column[u] for u in told)] = True
        spread = seen.reshape([states[u] if u in known else 1 for u in parents[k]])
        found[k] = np.flatnonzero(np.broadcast_to(spread, shape))
        if len(found[k]) < count:
            share = np.broadcast_to(prior.counts[k] + 1e-10, shapes[k])
            rest[k] = share / share.sum(axis=-1, keepdims=True)
    flat = {k: (math.prod(shape[:-1]), shape[-1]) for k, shape in shapes.items()}
    return SpokenRows(found, shapes, flat, rest)
