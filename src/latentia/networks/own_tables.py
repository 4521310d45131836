"""The graph's own tables, learned from sums over rows (design 13).

    rows ─> columns counted ─┬─> families without a latent: counted, once
                             └─> pieces: starts ─> race on a sample ─> climb on all rows

A graph without latents is counting and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias, final

import numpy as np

from latentia.data.rows import Source
from latentia.errors import DataError, PlanError
from latentia.exact.estep_wiring import check_graph
from latentia.exact.pieces import Piece, cut_graph, with_ancestors
from latentia.linear_algebra import one_thread
from latentia.networks.accelerate import Prior, Tables
from latentia.networks.counting import count_families, log_likelihood_of, tables_of_counts
from latentia.networks.em_problem import count_columns, prior_of_tables, with_unseen
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
    weight, marginals, holes = look_at_columns(graph, source)
    prior = _prior(graph, marginals, settings, knowledge)
    leans = leans_by_itself(settings.smoothing)
    problem = TableProblem(graph, source, weight, holes, prior, knowledge, leaves, leans)
    telling = with_ancestors(graph.parents(), graph.observed)
    barren = [v for v in sorted(graph.latent) if v not in telling]
    children = {a for a, b in graph.edges if b in telling}
    unknown = {v for v in graph.latent if v in telling} | {v for v in holes if v in children}
    cut = cut_graph(graph, unknown, telling, knowledge.tied)
    counts = count_families(graph, cut.closed, source)
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
    seen = {v: n for v, n in marginals.items() if v not in knowledge.cells}
    tables = with_unseen(tables, knowledge.pooled(seen))
    tables = renumbered(graph, tables, knowledge.orders(local_orders(graph, tables)))
    return LearnedTables(
        graph,
        {v: tables[v] for v in range(len(graph.names))},
        weight,
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


def look_at_columns(
    graph: LatentGraph, source: Source
) -> tuple[float, dict[int, Array], tuple[int, ...]]:
    """One pass over the rows: their weight, counts of states, and the columns with holes."""
    seen = source.fold(partial(count_columns, graph))
    if not seen.weight > 0:
        raise DataError("there are no rows to learn from, or their weights are all zero.")
    dense = [v for v in graph.observed if f"moments/{v}" in seen.sums]
    if dense:
        names = ", ".join(str(graph.names[v]) for v in dense[:8])
        raise PlanError(
            f"tables are of discrete columns, and {names} is continuous. Bin it "
            "(kinds={...: 'discrete'}), or use lt.EM or lt.PBP."
        )
    marginals = {v: seen.sums[f"column/{v}"] for v in graph.observed}
    for v, count in marginals.items():
        if not count.sum() > 0:
            raise DataError(
                f"no row has a value in {graph.names[v]}. Drop the column from the graph."
            )
    holes = tuple(v for v in graph.observed if seen.sums[f"holes/{v}"][0] > 0)
    return seen.weight, marginals, holes


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
