"""The graph's own tables, learned from sums over rows (design 13).

    rows ─> columns counted ─┬─> families without a latent: counted, once
                             └─> pieces: starts ─> race on a sample ─> climb on all rows

A graph without latents is counting and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, final

import numpy as np

from latentia.data.rows import Source
from latentia.exact.estep_wiring import check_graph
from latentia.exact.pieces import Piece, cut_graph, with_ancestors
from latentia.linear_algebra import one_thread
from latentia.networks.accelerate import Prior, Tables
from latentia.networks.counting import log_likelihood_of, tables_of_counts
from latentia.networks.em_problem import prior_of_tables, with_unseen
from latentia.networks.first_look import count_once
from latentia.networks.knowledge import (
    Knowledge,
    leans_by_itself,
    least_smoothing,
    read_knowledge,
    read_smoothing,
)
from latentia.networks.leaf_cells import LeafCells, with_bells
from latentia.networks.leaning import leaning_counts
from latentia.networks.piece_climb import climb_piece
from latentia.networks.piece_learning import TableSettings, learn_piece
from latentia.networks.piece_problem import TableProblem
from latentia.networks.piece_reports import PieceReport
from latentia.networks.state_order import local_orders
from latentia.networks.to_operators import renumbered
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Label


@final
@dataclass(frozen=True, slots=True)
class LearnedTables:
    """Tables of a graph under its own names, and how they were found."""

    graph: LatentGraph
    tables: Mapping[int, Array]  # variable -> (parents …, variable)
    weight: float  # Σ w
    log_likelihood: float  # of all rows
    counted: tuple[Label, ...]  # variables whose tables are counts
    pieces: tuple[PieceReport, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def cpts(self) -> dict[Label, Array]:
        """The tables by name."""
        return {self.graph.names[v]: table for v, table in self.tables.items()}


# the tables of a piece, by its own numbers
LearnPiece: TypeAlias = Callable[
    [TableProblem, Piece, np.random.Generator], tuple[dict[int, Array], PieceReport]
]


def learn_tables(
    graph: LatentGraph,
    source: Source,
    settings: TableSettings | None = None,
    rng: np.random.Generator | int | None = None,
) -> LearnedTables:
    """Count what rows know, climb the rest piece by piece.

    `rng` draws samples and starts; the same seed gives the same tables.
    """
    own = settings or TableSettings()

    def learn(
        problem: TableProblem, piece: Piece, seed: np.random.Generator
    ) -> tuple[dict[int, Array], PieceReport]:
        return learn_piece(problem, piece, own, seed)

    return _learn(graph, source, own, learn, np.random.default_rng(rng))


def climb_tables(
    graph: LatentGraph,
    source: Source,
    start: Tables,
    settings: TableSettings | None = None,
    patience: float = math.inf,
    leaves: Mapping[int, LeafCells] | None = None,
    rested: bool = True,
) -> LearnedTables:
    """The same from tables that are nearly right: one climb of each piece, and no race.

    After `patience` E-steps more and more is small enough. `leaves`: columns whose states are cells
    of a grid, and whose tables are Gaussians there. `rested`: only pseudo-counts are still to come.
    """
    own = settings or TableSettings()

    def learn(
        problem: TableProblem, piece: Piece, seed: np.random.Generator
    ) -> tuple[dict[int, Array], PieceReport]:
        return climb_piece(problem, piece, start, own.closely, patience, rested)

    return _learn(graph, source, own, learn, np.random.default_rng(0), leaves)


def _learn(
    graph: LatentGraph,
    source: Source,
    settings: TableSettings,
    learn: LearnPiece,
    rng: np.random.Generator,
    leaves: Mapping[int, LeafCells] | None = None,
) -> LearnedTables:
    check_graph(graph)
    knowledge = read_knowledge(graph, settings.known, settings.tied, settings.smoothing)
    with one_thread():
        return _learn_pieces(graph, source, settings, knowledge, learn, rng, leaves or {})


def _learn_pieces(
    graph: LatentGraph,
    source: Source,
    settings: TableSettings,
    knowledge: Knowledge,
    learn: LearnPiece,
    rng: np.random.Generator,
    leaves: Mapping[int, LeafCells],
) -> LearnedTables:
    telling = with_ancestors(graph.parents(), graph.observed)
    latent, tied = graph.latent & telling, knowledge.tied
    cut = cut_graph(graph, latent, telling, tied)
    seen = count_once(graph, source, cut.closed)
    prior = _prior(graph, seen.marginals, settings, knowledge)
    leans = leans_by_itself(settings.smoothing)
    problem = TableProblem(graph, source, seen.weight, seen.holes, prior, knowledge, leaves, leans)
    barren = [v for v in sorted(graph.latent) if v not in telling]
    if gaps := {a for a, b in graph.edges if b in telling}.intersection(seen.holes):
        cut = cut_graph(graph, latent | gaps, telling, tied)
    counts = seen.counts_of(cut.closed)
    own = leaning_counts(problem, counts) if leans else prior
    tables = with_bells(tables_of_counts(counts, own, knowledge), leaves)
    tables |= _told_by_prior(graph, barren, prior, knowledge)
    log_likelihood = log_likelihood_of(counts, tables)
    reports = []
    for piece, seed in zip(cut.pieces, rng.spawn(len(cut.pieces)), strict=True):
        found, report = learn(problem, piece, seed)
        tables |= piece.outside(found)
        log_likelihood += report.log_likelihood
        reports.append(report)
    told = {v: n for v, n in seen.marginals.items() if v not in knowledge.cells}
    tables = with_unseen(tables, knowledge.pooled(told))
    tables = renumbered(graph, tables, knowledge.orders(local_orders(graph, tables)))
    return LearnedTables(
        graph,
        {v: tables[v] for v in range(len(graph.names))},
        seen.weight,
        log_likelihood,
        tuple(graph.names[v] for v in cut.closed),
        tuple(reports),
        _notes(graph, barren),
    )


def _notes(graph: LatentGraph, barren: Sequence[int]) -> tuple[str, ...]:
    if not barren:
        return ()
    names = ", ".join(str(graph.names[v]) for v in barren[:8])
    return (f"nothing is known of {names}: no column lies below. Their tables are the prior's.",)


def _prior(
    graph: LatentGraph, marginals: Tables, settings: TableSettings, knowledge: Knowledge
) -> Prior:
    pseudo = read_smoothing(graph, least_smoothing(settings.smoothing))
    found = prior_of_tables(graph, marginals, pseudo, knowledge)
    if found is not None:
        return found
    return Prior({v: np.zeros(graph.states[v] or 1) for v in range(len(graph.names))})


def _told_by_prior(
    graph: LatentGraph, barren: Sequence[int], prior: Prior, knowledge: Knowledge
) -> dict[int, Array]:
    """Tables that no row speaks of: flat, but for what is known of them."""
    parents, states = graph.parents(), [n or 1 for n in graph.states]
    flat = {
        v: np.full([states[u] for u in (*parents[v], v)], 1.0 / states[v]) + prior.counts[v]
        for v in barren
    }
    tables = {v: x / x.sum(axis=-1, keepdims=True) for v, x in flat.items()}
    known = {v: cells for v, cells in knowledge.cells.items() if v in tables}
    return Knowledge(known).held(tables) if known else tables
