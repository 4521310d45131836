"""Few rows: is nothing tied? Folds of all rows decide, not the dozen that were held out.

Where the plainest candidate ties no columns, the best that does is compared with it on every row,
each learned from four fifths of the others.
"""

from __future__ import annotations

import numpy as np

from latentia.data.rows import Rows
from latentia.data.sources.row_sample import deal_rows
from latentia.discovery.island_climb import IslandClimb, known_rows, likelihoods_of
from latentia.discovery.island_network import maximise_islands
from latentia.discovery.island_race import HARDLY, TWO_NATS, IslandCandidate, Search
from latentia.typing import Array

FEW_HELD_OUT = 60.0  # rows, above which these alone decide
FOLDS = 5
RIVALS = 3  # that tie columns, the best ones
ROUNDS = (4, 12)  # of a climb: a dozen rows tell badly when it should have stopped


def tied_after_all(search: Search, sample: Rows, chosen: IslandCandidate) -> IslandCandidate:
    """What was chosen; or, if that ties nothing, a candidate that does and tells rows better."""
    if ties(search, chosen) or search.held_out.total > FEW_HELD_OUT:
        return chosen
    rivals = [each for each in search.ranked() if ties(search, each)][:RIVALS]
    alone = _told_in_folds(search, sample, chosen)
    best, gain = chosen, 0.0
    for rival in rivals:
        lost = _told_in_folds(search, sample, rival) - alone
        error = float(np.sqrt(lost.var() * len(lost)))
        total = float(lost.sum())
        if total > max(HARDLY * error, TWO_NATS, gain):
            best, gain = rival, total
    return best


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
        phi = climb.layout.of_rows(train.codes)
        own = IslandClimb(climb.layout, train, (phi, phi), train, climb.pseudo_count, search.seed)
        own.advance(rounds, watched=False)
        tables = maximise_islands(climb.layout, own.counts, climb.pseudo_count)
        logs = likelihoods_of(climb.layout, tables, climb.layout.of_rows(watched.codes))
        found.append(logs * watched.weights)
    return np.concatenate(found)
