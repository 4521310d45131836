"""Which part of a graph a question needs, given which cells rows have: wired once per pattern.

What lies below neither evidence nor question sums to one. The rest is cut at what all rows know;
pieces that the question does not meet are dropped. Rows with like evidence are wired together as
long as that costs less than several wirings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np

from latentia.errors import PlanError
from latentia.exact.active_tree import TooWideError
from latentia.exact.estep_wiring import EStep, Scope
from latentia.exact.patterns import group_patterns, patterns_of
from latentia.exact.pieces import Piece, cut_graph, with_ancestors
from latentia.structure.graph import LatentGraph
from latentia.typing import Bools, Codes

EASY_WIDTH = 2**13  # numbers a row: patterns of evidence are wired together up to this …
EASY_CELLS = 2**18  # … or numbers in all: what another wiring would cost
WIRINGS = 512  # that are kept


@final
@dataclass(frozen=True, slots=True)
class _Question:
    """What decides the wiring: which variables are seen, always or in some rows, and asked for."""

    always: frozenset[int]
    sometimes: frozenset[int]
    asked: frozenset[int]
    touched: frozenset[int] | None  # leave out what meets none of these; None: leave out nothing


@final
@dataclass(frozen=True, slots=True)
class WiredPiece:
    """A piece and its E-step."""

    piece: Piece
    estep: EStep
    asked: Scope  # variables of the piece, in the whole graph's numbers


@final
@dataclass(frozen=True, slots=True)
class AnswerWiring:
    """The pieces that a question meets, and the families that rows know as a whole."""

    parts: tuple[WiredPiece, ...]
    closed: Scope  # families whose members are all seen

    @property
    def width(self) -> int:
        return sum(part.estep.width for part in self.parts)


def wired_patterns(
    graph: LatentGraph, codes: Codes, asked: frozenset[int], touched: frozenset[int] | None
) -> Iterator[tuple[Codes, AnswerWiring]]:
    """Rows that are answered together, and how."""
    patterns, which, counts = patterns_of(codes >= 0)

    def question(seen: Bools) -> _Question:
        some, always = seen.any(axis=0), seen.all(axis=0)
        return _Question(
            frozenset(np.flatnonzero(always).tolist()),
            frozenset(np.flatnonzero(some & ~always).tolist()),
            asked,
            touched,
        )

    def fits(seen: Bools, rows: int) -> bool:
        try:
            width = _wire(graph, question(seen)).width
            return width <= EASY_WIDTH or width * rows <= EASY_CELLS
        except PlanError:
            return False

    for group in group_patterns(patterns, counts, fits):
        wiring = _wire(graph, question(patterns[group]))
        yield np.flatnonzero(np.isin(which, group)), wiring


@lru_cache(maxsize=WIRINGS)
def _wire(graph: LatentGraph, question: _Question) -> AnswerWiring:
    """Cut, drop what the question does not meet, wire the rest."""
    parents = graph.parents()
    seen = question.always | question.sometimes
    kept = with_ancestors(parents, seen | question.asked)
    unknown = kept - question.always
    cut = cut_graph(graph, unknown, kept, latent=unknown - question.sometimes)
    parts = []
    for piece in cut.pieces:
        if question.touched is None or question.touched.intersection(piece.variables):
            asked = tuple(v for v in piece.unknown if v in question.asked)
            parts.append(WiredPiece(piece, _estep(piece, unknown, asked), asked))
    closed = cut.closed
    if question.touched is not None:
        closed = tuple(v for v in closed if question.touched.intersection((*parents[v], v)))
    return AnswerWiring(tuple(parts), closed)


def _estep(piece: Piece, unknown: frozenset[int], asked: Scope) -> EStep:
    try:
        return piece.wire(unknown.intersection(piece.columns), asked)
    except TooWideError as error:
        raise PlanError(
            f"an exact answer needs {error.width}. Give evidence on some of them, ask for fewer "
            "variables together, or pass approximate=True (TableAnswers.sampled), which draws."
        ) from error
