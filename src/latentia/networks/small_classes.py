"""Latent classes of few rows: raced in full wherever a model needs their tables.

One start would do for predictions. But likelihoods are flat near their maximum, and a climb that
rests early has other classes with another seed; to the maximum itself it is not far.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from latentia.data.rows import Rows, Source
from latentia.data.sources.memory import LocalRows
from latentia.networks.accelerate import Tables
from latentia.networks.own_tables import LearnedTables, learn_tables
from latentia.networks.piece_learning import TableSettings
from latentia.networks.tables_candidate import as_met
from latentia.networks.to_operators import renumbered
from latentia.structure.graph import LatentGraph

SMALL = 2**17  # numbers of an E-step
FEW_SEEDS = 3  # starts of the first round beside tables that are given, times two


def small_class_rows(graph: LatentGraph, source: Source) -> Rows | None:
    """All rows of a latent that tells all columns, if they are in memory and few; else None."""
    if len(graph.latent) != 1 or not graph.directed or not isinstance(source, LocalRows):
        return None
    (h,) = graph.latent
    if any(graph.parents()[v] != (() if v == h else (h,)) for v in range(len(graph.names))):
        return None
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
    found = learn_tables(graph, LocalRows(some), settings, np.random.default_rng(0))
    back = {v: np.argsort(order) for v, order in met.items()}
    return replace(found, tables=renumbered(graph, found.tables, back))
