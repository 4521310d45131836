"""Latent classes of few rows: raced in full wherever a model needs their tables.

One start would do for predictions. But likelihoods are flat near their maximum, and a climb that
rests early has other classes with another seed; to the maximum itself it is not far.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from latentia.data.rows import Rows, Source
from latentia.data.sources.memory import LocalRows
from latentia.networks.accelerate import ENOUGH, Tables
from latentia.networks.class_rows import is_latent_class
from latentia.networks.own_tables import LearnedTables, climb_tables, learn_tables
from latentia.networks.piece_learning import PRECISELY, TableSettings
from latentia.networks.tables_candidate import as_met
from latentia.networks.to_operators import renumbered
from latentia.structure.graph import LatentGraph
from latentia.typing import Codes

SMALL = 2**17  # numbers of an E-step
FEW_SEEDS = 3  # starts of the first round beside tables that are given, times two


def small_class_rows(graph: LatentGraph, source: Source) -> Rows | None:
    """All rows of a latent that tells all columns, if they are in memory and few; else None."""
    if not is_latent_class(graph) or not isinstance(source, LocalRows):
        return None
    (h,) = graph.latent
    work = len(source.rows) * len(graph.observed) * (graph.states[h] or 1)
    return source.rows if work <= SMALL else None


def race_small_class(
    graph: LatentGraph, rows: Rows, smoothing: float | str, start: Tables | None
) -> LearnedTables:
    """Its tables; `start` races along.

    What is drawn is the same whatever the model's seed, and whatever states are called.
    """
    some, met = as_met(graph, rows)
    given = () if start is None else (renumbered(graph, start, met),)
    settings = TableSettings(smoothing=smoothing, given=given, precise=True)
    if given:  # if most others come to the same maximum, they end there
        settings = replace(settings, closed_form=0, local=FEW_SEEDS, random=0)
    return _raced(graph, some, met, settings)


def race_class(
    graph: LatentGraph, rows: Rows, smoothing: float | str, precise: bool
) -> LearnedTables:
    """Its tables by seeds, and by the start that pairs of columns tell.

    To the very maximum; or by one round, as a start for other rows.
    """
    some, met = as_met(graph, rows)
    settings = TableSettings(
        smoothing=smoothing,
        closed_form=0,
        local=FEW_SEEDS,
        random=0,
        rounds=1,  # more of them came to other optima no nearer the truth
        precise=precise,
        seeded=True,
        pairs=True,
    )
    if not precise:
        settings = replace(settings, closely=ENOUGH)
    return _raced(graph, some, met, settings)


def climb_class(
    graph: LatentGraph, rows: Rows, smoothing: float | str, start: Tables
) -> LearnedTables:
    """Its tables to the very maximum, from one start."""
    settings = TableSettings(smoothing=smoothing, closely=PRECISELY)
    return climb_tables(graph, LocalRows(rows), start, settings, rested=False)


def _raced(
    graph: LatentGraph, some: Rows, met: Mapping[int, Codes], settings: TableSettings
) -> LearnedTables:
    found = learn_tables(graph, LocalRows(some), settings, np.random.default_rng(0))
    back = {v: np.argsort(order) for v, order in met.items()}
    return replace(found, tables=renumbered(graph, found.tables, back))
