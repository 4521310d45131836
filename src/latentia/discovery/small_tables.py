"""Few rows: is anything tied? Folds of all rows decide, not the dozen that were held out.

A dozen rows miss clear ties; and among many candidates some tell them well by chance. So the best
that tie columns are compared with the one that ties none on every row, each by models learned from
other rows.
"""

from __future__ import annotations

import numpy as np

from latentia.data.rows import Rows
from latentia.data.sources.row_sample import deal_rows
from latentia.discovery.island_climb import IslandClimb, known_rows
from latentia.discovery.island_race import TWO_NATS, IslandCandidate, Search
from latentia.typing import Array

FEW_HELD_OUT = 60.0  # rows, above which these alone decide
FOLDS = 5
CLEARLY = 1.0  # standard errors by which ties must tell rows better than none: several are tried
PLAIN, BEST = 2, 2  # candidates that tie columns: of fewest parameters, and best so far
ROUNDS = (4, 12)  # of a climb: a dozen rows tell badly when it should have stopped


def judged_in_folds(search: Search, sample: Rows, chosen: IslandCandidate) -> IslandCandidate:
    """What was chosen, if it tells rows better than no ties do; else another that does, or none."""
    alone = next((each for each in search.ranked() if not ties(search, each)), None)
    if alone is None or search.held_out.total > FEW_HELD_OUT:
        return chosen
    tied = [each for each in search.ranked() if ties(search, each)]
    plain = sorted(tied, key=lambda each: search.climbs[each].layout.parameters)
    first = [chosen] if ties(search, chosen) else []
    base = _told_in_folds(search, sample, alone)
    for rival in list(dict.fromkeys([*first, *plain[:PLAIN], *tied[:BEST]])):
        gained = _told_in_folds(search, sample, rival) - base
        error = float(np.sqrt(gained.var() * len(gained)))
        if float(gained.sum()) > max(CLEARLY * error, TWO_NATS):
            return rival
    return alone


def ties(search: Search, candidate: IslandCandidate) -> bool:
    """Has it any edge?"""
    layout = search.climbs[candidate].layout
    return any(k > 1 for k in layout.states) or any(p >= 0 for p in layout.islands.column_parent)


def _told_in_folds(search: Search, sample: Rows, candidate: IslandCandidate) -> Array:
    """Σ weight · log P(row) of rows that were not learned from, (rows,), fold by fold."""
    climb, found = search.climbs[candidate], []
    rounds = int(np.clip(climb.best_round, *ROUNDS))
    for large, small in deal_rows(sample, FOLDS, np.random.default_rng(search.seed)):
        train, watched = known_rows(large), known_rows(small)
        own = IslandClimb(climb.layout, train, watched, climb.pseudo_count, search.seed)
        own.advance(rounds, watched=False)
        found.append(own.likelihoods() * watched.weights)
    return np.concatenate(found)
