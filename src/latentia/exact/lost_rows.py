"""Rows whose probability was lost: those without any, and those too small for plain numbers.

A state that is 1e-310 times as likely as another is lost, even where every factor is rescaled; if
evidence that comes later rules the other out, nothing is left. Whether a row is possible at all is
told by tables of zeros and ones, where nothing is lost; what is possible is done again in logs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from latentia.data.rows import Rows
from latentia.exact.estep_wiring import EStep, Scope
from latentia.exact.pieces import Piece
from latentia.exact.row_posteriors import row_answers
from latentia.exact.shafer_shenoy import infer, log, wire
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Codes


def possible_rows(estep: EStep, tables: Mapping[int, Array], rows: Rows) -> Codes:
    """Which rows have a joint state that no table rules out."""
    allowed = {v: (table > 0).astype(float) for v, table in tables.items()}
    logs, _ = row_answers(estep, allowed, rows, (), careful=True)
    return np.flatnonzero(logs > -np.inf)


def row_in_logs(
    piece: Piece, tables: Mapping[int, Array], row: Sequence[int], asked: Sequence[int]
) -> tuple[float, list[Array]]:
    """log P(row), and P(v | row) of variables that the row lacks, by the piece's own numbers.

    Every table is cut down to what the row knows of it, so that only the unknown are left.
    """
    graph = piece.graph
    known = {v: int(c) for v, c in zip(graph.observed, row, strict=True) if c >= 0}
    parents = graph.parents()
    open_ = [v for v in range(len(graph.names)) if v not in known]
    number = {v: k for k, v in enumerate(open_)}
    factors: dict[Scope, Array] = {}
    alone: dict[int, Array] = {}  # log of what is said of a variable by itself, (states, 1)
    constant = 0.0
    for v in sorted(tables):
        family = (*parents[v], v)
        table = np.asarray(tables[v][tuple(known.get(u, slice(None)) for u in family)])
        scope = tuple(number[u] for u in family if u not in known)
        if not scope:
            constant += float(log(table))
        elif len(scope) == 1:  # may be many
            alone[scope[0]] = alone.get(scope[0], 0.0) + log(table)[:, None]
        else:
            factors[scope] = factors[scope] * table if scope in factors else table
    if not open_:
        return constant, []
    ties = {tuple(sorted((a, b))) for scope in factors for a in scope for b in scope if a != b}
    small = LatentGraph(
        names=tuple(graph.names[v] for v in open_),
        edges=tuple(sorted((min(tie), max(tie)) for tie in ties)),
        latent=frozenset(),
        states=tuple(graph.states[v] for v in open_),
        directed=False,
    )
    total, answers = infer(wire(small, factors), alone, [(number[v],) for v in asked])
    return constant + float(total[0]), [x[:, 0] for x in answers]
