"""The graph's own tables with continuous columns among them, none of which is a parent (design 13).

rows in coarse cells ─> tables, raced and climbed as of any columns
                            │ each coarse cell spread over its fine ones
rows in fine cells ────────>└─> Gaussians: counted, and climbed once where latents are parents
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.rows import Source
from latentia.networks.em_problem import count_columns
from latentia.networks.knowledge import least_smoothing
from latentia.networks.leaf_cells import (
    CellRows,
    CoarseCells,
    LeafCells,
    check_leaves,
    coarse_cells,
    leaf_cells,
    with_bells,
)
from latentia.networks.own_tables import LearnedTables, climb_tables, learn_tables
from latentia.networks.piece_learning import TableSettings
from latentia.networks.piece_reports import PieceReport
from latentia.structure.graph import LatentGraph

COARSE = 8  # cells of a continuous column that starts race on


def learn_mixed_tables(
    graph: LatentGraph,
    columns: Sequence[Column],
    source: Source,
    settings: TableSettings,
    rng: np.random.Generator,
) -> LearnedTables:
    """Tables of all variables; those of continuous columns are over the cells of their grids."""
    leaves = leaf_cells(graph, columns)
    check_leaves(graph, leaves, settings.known, settings.tied, least_smoothing(settings.smoothing))
    fine = CellRows(tuple(columns), {})
    rows = fine.source(source)
    coarse = _coarse(graph, leaves, rows)
    small = graph.with_states({graph.names[v]: own.count for v, own in coarse.items()})
    place = {v: i for i, v in enumerate(graph.observed)}
    cells = replace(fine, coarse={place[v]: own for v, own in coarse.items()})
    first = learn_tables(small, cells.source(source), settings, rng)
    start = {v: coarse[v].spread(t) if v in coarse else t for v, t in first.tables.items()}
    found = climb_tables(graph, rows, with_bells(start, leaves), settings, leaves=leaves)
    told = {report.families: report for report in first.pieces}
    reports = tuple(_both(told.get(last.families), last) for last in found.pieces)
    return replace(found, pieces=reports, notes=first.notes)


def _coarse(
    graph: LatentGraph, leaves: Mapping[int, LeafCells], rows: Source
) -> dict[int, CoarseCells]:
    """Cells of like many rows."""
    seen = rows.fold(partial(count_columns, graph)).sums
    return {v: coarse_cells(seen[f"column/{v}"], own, COARSE) for v, own in leaves.items()}


def _both(first: PieceReport | None, last: PieceReport) -> PieceReport:
    """How starts raced on coarse cells, and how the best climbed on fine ones."""
    if first is None:
        return last
    return replace(
        last,
        raced_rows=first.raced_rows,
        rounds=first.rounds,
        starts=first.starts,
        winner=first.winner,
        agreed=first.agreed,
        race_steps=first.race_steps + first.climb_steps,
    )
