"""A piece climbed from tables that are nearly right: no starts, no race (design 13)."""

from __future__ import annotations

import math
from dataclasses import replace

from latentia.exact.pieces import Piece
from latentia.networks.accelerate import ENOUGH, Refined, Tables, accelerate, free_parameters
from latentia.networks.compiled_lockstep import compiled_climb
from latentia.networks.leaning import leaning_piece
from latentia.networks.piece_learning import MOST_STEPS
from latentia.networks.piece_problem import (
    PieceProblem,
    TableProblem,
    effective_parameters,
    pose_piece,
)
from latentia.networks.piece_reports import PieceReport, report_piece
from latentia.typing import Array

GIVEN = "tables that were given"


def climb_piece(
    problem: TableProblem,
    piece: Piece,
    start: Tables,
    closely: float,
    patience: float = math.inf,
    rested: bool = True,
) -> tuple[dict[int, Array], PieceReport]:
    """From tables of the whole graph to those of the piece, by its own numbers; how it went.

    Tables that are not at rest say little of how much they lean: a latent that has not found its
    states yet would lean on what all have. They climb without leaning first.
    """
    whole = pose_piece(problem, piece)
    first = whole.knowledge.imposed(piece.inside(start))
    if problem.leans:
        if not rested:
            first = _climbed(whole, first, ENOUGH, patience)[0]
        whole = leaning_piece(whole, first)
    tables, best, effective = _climbed(whole, first, closely, patience)
    report = report_piece(whole, (), best, effective)
    return tables, replace(report, winner=GIVEN, agreed=1)


def _climbed(
    whole: PieceProblem, first: Tables, closely: float, patience: float
) -> tuple[dict[int, Array], Refined, int]:
    """Tables, how they were climbed to, and parameters that rows speak of."""
    moving, prior = whole.shrink(first), whole.climbed_prior
    many = whole.repeated(moving, 1) if whole.hold is None else None
    effective = effective_parameters(whole.estep(first)[0], whole.knowledge, whole.leaves)
    enough = closely * effective / max(free_parameters(moving), 1)
    best = compiled_climb(moving, prior, many, enough, MOST_STEPS, patience) or accelerate(
        moving, prior, whole.climbed_estep, enough, MOST_STEPS, whole.hold, patience
    )
    return dict(whole.grow(best.tables)), best, effective
