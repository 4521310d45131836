"""A latent class that leaves nothing to choose: its pairs of columns are told to within noise.

    seeds race ─> pairs as expected, above the marginals by what BIC asks ─> they agree, or the
    closed form's start climbs, too ─> climb on all rows

The closed form and the marginals are candidates because a class may not fit, or tell nothing. Both
can be seen: 174 fits to real surveys that fail here chose the closed form 27 times, and the
marginals 13 times; of 26 that pass, none. Where anything fails, candidates are compared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.closed_form.solving import gather_statistics
from latentia.data.rows import Rows, Source
from latentia.data.sources.memory import LocalRows
from latentia.inference.operators import Operators
from latentia.inference.provenance import Choice
from latentia.networks.accelerate import Tables
from latentia.networks.class_rows import is_latent_class, survey_rows
from latentia.networks.discrete_network import CLOSELY, plan_refinement, started
from latentia.networks.knowledge import AUTO, least_smoothing
from latentia.networks.own_tables import LearnedTables, climb_tables
from latentia.networks.pair_misfit import PairMisfit, pair_misfit
from latentia.networks.piece_learning import TableSettings
from latentia.networks.piece_starts import OF_PAIRS
from latentia.networks.race import agreement
from latentia.networks.small_classes import climb_class, race_class, small_class_rows
from latentia.networks.tables import doubts_of, told_pieces
from latentia.networks.tables_candidate import RACE_ROWS
from latentia.networks.to_operators import operators_of, planned_ranks
from latentia.structure.plan import Plan

NOISE = 1.0  # z² for each degree of freedom: fitted tables leave less, pairs that differ far more
SURPRISE = 4.0  # z² of one cell beyond the largest of so many by chance, 2 log(cells)
AGREED = 3  # starts that came to the best level
MOST_STATES = 5  # more may be many too many, which the closed form's statistics tell
MOST_MARKS = 2**23  # numbers by which pairs are counted
PATIENCE = 30.0  # E-steps after which more and more is small enough


@final
@dataclass(frozen=True, slots=True)
class RacedClass:
    """Tables of a latent class, and the model that they are, if nothing is left to choose."""

    tables: LearnedTables  # of all rows, where these are few; else of a sample
    settled: Operators | None


@final
@dataclass(frozen=True, slots=True)
class _Told:
    fit: PairMisfit
    gain: float  # log-likelihood above that of the marginals


def race_to_settle(
    plan: Plan, source: Source, pool: Rows, whole: bool, smoothing: float | str
) -> RacedClass | None:
    """A latent class learned by a race of its own; None of other graphs.

    `pool` is all of `source` where it is `whole`, else rows drawn from it.
    """
    if not _is_alone(plan):
        return None
    graph, rows = plan.graph, small_class_rows(plan.graph, source)
    raced = rows or LocalRows(pool, threads=1).sample(RACE_ROWS, np.random.default_rng(0))
    found = race_class(graph, raced, smoothing, precise=rows is not None)
    told = _told(plan, found, raced) if smoothing == AUTO and _few_states(plan) else None
    best = found
    if told is not None and not agreed(found):
        if rows is None:
            return RacedClass(found, None)
        found = best = higher_class(plan, rows, smoothing, found)
        told = _told(plan, best, pool)
    elif told is not None and rows is None:
        best = _climbed(found, LocalRows(pool))
        told = _told(plan, best, pool)
    if told is None:
        return RacedClass(found, None)
    best = best if whole else _climbed(best, source)
    made = operators_of(plan_refinement(plan)[1], best.tables, best.weight).told(
        reports=planned_ranks(plan),
        pieces=told_pieces(best),
        doubts=doubts_of(best),
        choice=_choice(told, pool),
    )
    return RacedClass(found, made)


def higher_class(
    plan: Plan,
    rows: Rows,
    smoothing: float | str,
    found: LearnedTables,
    start: Tables | None = None,
) -> LearnedTables:
    """The same, or where the closed form's `start` leads, if that is higher."""
    if start is None:
        source = LocalRows(rows)
        least, rng = least_smoothing(smoothing), np.random.default_rng(0)
        start = started(gather_statistics(plan, source), source, rng, least).tables
    other = climb_class(plan.graph, rows, smoothing, start)
    return max(found, other, key=lambda one: one.log_likelihood)


def agreed(found: LearnedTables) -> bool:
    """Have several starts come to the best level: half of all, or that of pairs among them?"""
    (piece,) = found.pieces
    if not piece.starts:
        return False
    best, near = piece.starts[0].level, agreement(piece.effective)
    told = any(s.kind == OF_PAIRS and best - s.level < near for s in piece.starts)
    return piece.agreed >= (AGREED if told else max(AGREED, len(piece.starts) / 2))


def _is_alone(plan: Plan) -> bool:
    """Is it a latent class, and does the plan's network have its tables?"""
    return is_latent_class(plan.graph) and plan_refinement(plan)[1].graph == plan.graph


def _few_states(plan: Plan) -> bool:
    (h,) = plan.graph.latent
    return (plan.graph.states[h] or 1) <= MOST_STATES


def _told(plan: Plan, found: LearnedTables, rows: Rows) -> _Told | None:
    """How the class tells these rows; None if it does not tell them well, or hardly anything."""
    graph = plan.graph
    surveyed = survey_rows(graph, rows)
    if surveyed is None or surveyed.codes * len(rows) > MOST_MARKS:
        return None
    fit = pair_misfit(surveyed, found.tables)
    if fit.per_freedom > NOISE or fit.worst > 2.0 * math.log(max(fit.cells, 1)) + SURPRISE:
        return None
    (piece,) = found.pieces
    gain = piece.log_likelihood - fit.apart
    more = piece.parameters - sum((graph.states[v] or 1) - 1 for v in graph.observed)
    if gain <= 0.5 * math.log(max(rows.total, 2.0)) * more:  # what BIC asks for
        return None
    return _Told(fit, gain)


def _climbed(found: LearnedTables, source: Source) -> LearnedTables:
    settings = TableSettings(smoothing=AUTO, closely=CLOSELY)
    return climb_tables(found.graph, source, found.tables, settings, PATIENCE, rested=False)


def _choice(told: _Told, rows: Rows) -> Choice:
    why = (
        f"pairs of columns are as it says (squared distance {told.fit.per_freedom:.2f} for each "
        f"degree of freedom), and rows {told.gain / rows.total:.3f} likelier than by the marginals"
    )
    return Choice("refined", {}, {}, 0, 0, {"closed": why, "marginal": why})
