"""Pieces of the graph's own tables that climb again without one group of rows each (design 13).

From the tables of all rows it is a few E-steps, and states stay what they are. What is found is the
jackknife itself: it sees the bias of the prior, too, which influence does not.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from latentia.assess.influence import MOST_PARAMETERS
from latentia.assess.jackknife import group_weights
from latentia.data.rows import Rows, Source
from latentia.data.sources.memory import LocalRows
from latentia.errors import DataError
from latentia.exact.pieces import Cut, Piece, cut_graph, with_ancestors
from latentia.networks.accelerate import Prior, Tables
from latentia.networks.em_problem import prior_of_tables
from latentia.networks.first_look import count_once
from latentia.networks.knowledge import (
    Knowledge,
    PseudoCounts,
    leans_by_itself,
    least_smoothing,
    read_smoothing,
)
from latentia.networks.leaning import leaning_problem
from latentia.networks.piece_climb import climb_piece
from latentia.networks.piece_problem import TableProblem, pose_piece
from latentia.structure.graph import LatentGraph
from latentia.typing import Array

CLOSELY = 1e-4  # gain per parameter still to come, where a piece climbs without a group …
AT_REST = 1e-5  # … and with all rows: how far they are apart tells the bias, many times over
MOST_WORK = 2_000_000  # numbers of an E-step up to which a piece climbs once for every group …
MOST_ROWS = 200_000  # … over no more rows than these
STILL_POSSIBLE = 1e-6  # share of the whole model's table: nothing becomes impossible


def pose_tables(
    graph: LatentGraph,
    source: Source,
    smoothing: PseudoCounts,
    knowledge: Knowledge,
    tables: Tables,
) -> TableProblem:
    """What tables were learned from, and the prior that they were learned with.

    Pseudo-counts that lean stay as they are for all rows: groups of rows hardly move them.
    """
    leans = leans_by_itself(smoothing)
    closed: tuple[int, ...] = ()
    if leans:
        telling = with_ancestors(graph.parents(), graph.observed)
        closed = cut_graph(graph, graph.latent & telling, telling, knowledge.tied).closed
    seen = count_once(graph, source, closed)
    least = read_smoothing(graph, least_smoothing(smoothing))
    prior = prior_of_tables(graph, seen.marginals, least, knowledge)
    flat = Prior({v: np.zeros(graph.states[v] or 1) for v in range(len(graph.names))})
    problem = TableProblem(graph, source, seen.weight, seen.holes, prior or flat, knowledge)
    if leans:
        cut = cut_as_learned(problem)
        counts = seen.counts_of(cut.closed)
        problem = replace(problem, prior=leaning_problem(problem, cut, counts, tables))
    return problem


def cut_as_learned(problem: TableProblem) -> Cut:
    """Pieces, and families that are counted."""
    graph = problem.graph
    telling = with_ancestors(graph.parents(), graph.observed)
    parental = {a for a, b in graph.edges if b in telling}
    unknown = (graph.latent & telling) | {v for v in problem.holes if v in parental}
    return cut_graph(graph, unknown, telling, problem.knowledge.tied)


def climbs_again(problem: TableProblem, piece: Piece, tables: Tables) -> bool:
    """Whether a piece climbs without every group; an error if nothing can be done."""
    cells = sum(tables[v].size for v in piece.families)
    if not isinstance(problem.source, LocalRows):
        if cells > MOST_PARAMETERS:
            raise DataError(
                f"error bars of tables that hang together with {cells:,} cells in all are made "
                f"from rows in memory only (elsewhere at most {MOST_PARAMETERS:,}). Give latents "
                "fewer states, or bring a sample of the rows into memory."
            )
        return False
    if cells > MOST_PARAMETERS:
        return True
    if len(problem.source.rows) > MOST_ROWS:
        return False
    posed = pose_piece(problem, piece)
    return posed.width * posed.rows <= MOST_WORK


def climbed_without(
    problem: TableProblem, piece: Piece, tables: Tables, groups: int, seed: int
) -> list[dict[int, Array]]:
    """Tables of a piece, by its own numbers: of all rows at rest, and of all but each group."""
    assert isinstance(problem.source, LocalRows)
    rows = problem.source.rows
    share = group_weights(rows, groups, seed)
    whole = climb_piece(problem, piece, tables, AT_REST)[0]
    start = {**tables, **piece.outside(whole)}
    found = [whole]
    for g in range(groups):
        left = rows.weights - share[:, g]
        some = Rows(rows.codes, left).where(left > 0)
        without = replace(problem, source=LocalRows(some, threads=1), weight=some.total)
        own = climb_piece(without, piece, start, CLOSELY)[0]
        found.append(
            {k: (1.0 - STILL_POSSIBLE) * t + STILL_POSSIBLE * whole[k] for k, t in own.items()}
        )
    return found
