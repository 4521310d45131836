"""How the graph's own tables would be learned: what is counted, what is climbed, at what cost."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from latentia.exact.active_tree import TooWideError
from latentia.exact.pieces import Piece, cut_graph, with_ancestors
from latentia.spelling import printable
from latentia.structure.graph import LatentGraph
from latentia.typing import Label


@final
@dataclass(frozen=True, slots=True)
class PiecePlan:
    """Latents whose tables are climbed together."""

    latents: tuple[Label, ...]
    tables: tuple[Label, ...]  # the variables that they are of
    columns: tuple[Label, ...]  # whose different rows an E-step goes through
    cells: int  # of the tables
    cost: int | None  # numbers that an E-step works out for a row; None: too many


@final
@dataclass(frozen=True, slots=True)
class TablePlan:
    """Tables of a directed graph over complete rows; print it for a table."""

    counted: tuple[Label, ...]  # variables whose tables are counts
    counted_cells: int
    pieces: tuple[PiecePlan, ...]

    def __str__(self) -> str:
        rows = [("tables", "latents", "of", "columns", "cells", "numbers a row")]
        if self.counted:
            count = f"{self.counted_cells:,}"
            rows.append(("counted", "", _listing(self.counted), "", count, ""))
        for k, p in enumerate(self.pieces):
            cost = "too many" if p.cost is None else f"{p.cost:,}"
            shown = (_listing(p.latents), _listing(p.tables), _listing(p.columns))
            rows.append((f"piece {k + 1}", *shown, f"{p.cells:,}", cost))
        widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
        lines = [
            "  ".join(x.ljust(w) for x, w in zip(row, widths, strict=True)).rstrip() for row in rows
        ]
        lines.insert(1, "  ".join("─" * w for w in widths))
        return "\n".join([*lines, self.words])

    @property
    def words(self) -> str:
        """The same in a sentence."""
        several = "piece" if len(self.pieces) == 1 else "pieces"
        climbed = f"{len(self.pieces)} {several} climbed" if self.pieces else "nothing to climb"
        what = "table" if len(self.counted) == 1 else "tables"
        return f"{len(self.counted)} {what} counted, {climbed}; tables answer, no messages pass."


def plan_tables(graph: LatentGraph) -> TablePlan:
    """Cut at the columns, as learning does where no cell is missing."""
    telling = with_ancestors(graph.parents(), graph.observed)
    cut = cut_graph(graph, graph.latent & telling, telling)
    sizes = [
        math.prod(graph.states[u] or 1 for u in (*above, v))
        for v, above in enumerate(graph.parents())
    ]
    return TablePlan(
        tuple(graph.names[v] for v in cut.closed),
        sum(sizes[v] for v in cut.closed),
        tuple(
            _planned(graph, piece, sum(sizes[v] for v in piece.families)) for piece in cut.pieces
        ),
    )


def width_with_holes(graph: LatentGraph, holes: Iterable[int]) -> int | None:
    """The most numbers that an E-step works out for a row which lacks all of these columns.

    None: too many for any machine.
    """
    gone = frozenset(holes)
    telling = with_ancestors(graph.parents(), graph.observed)
    parental = {a for a, b in graph.edges if b in telling}
    cut = cut_graph(graph, (graph.latent & telling) | (gone & parental), telling)
    try:
        esteps = [piece.wire(gone) for piece in cut.pieces]
    except TooWideError:
        return None
    return max((e.width + sum(e.size(p.scope) for p in e.packs) for e in esteps), default=0)


def _planned(graph: LatentGraph, piece: Piece, cells: int) -> PiecePlan:
    try:
        estep = piece.wire()
        cost = estep.width + sum(estep.size(p.scope) for p in estep.packs)
    except TooWideError:
        cost = None
    return PiecePlan(
        tuple(graph.names[v] for v in piece.unknown),
        tuple(graph.names[v] for v in piece.families),
        tuple(graph.names[v] for v in piece.columns),
        cells,
        cost,
    )


def _listing(names: Iterable[Label], most: int = 4) -> str:
    shown = [printable(name) for name in names]
    return ",".join(shown[:most]) + (f",… ({len(shown)})" if len(shown) > most else "")
