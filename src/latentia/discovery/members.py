"""Several structures together: a mixture whose members are picked by rows held out (design 15).

    P(row) = Σ_m w_m P_m(row)

Members come from the race, and from trees of columns of rows drawn again. Forward: the member that
raises the rows held out most, its weight by EM on them; until nothing is gained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from latentia.discovery.island_race import IslandCandidate, Search
from latentia.typing import Array

MOST_LOOKED_AT = 60  # candidates
SHARES = (0.05, 0.1, 0.2, 0.35, 0.5)  # weights at which a new member is tried
LEAST_GAIN = 1e-5  # of the log-likelihood
LEAST_WEIGHT = 0.005
WEIGHT_STEPS = 100
RESAMPLED_ROUNDS = 60


@final
@dataclass(frozen=True, slots=True)
class Members:
    """Who is in the mixture, and with what weight."""

    candidates: tuple[IslandCandidate, ...]
    weights: Array  # (members,)
    level: float  # mean log-likelihood of the rows held out


def mixture_weights(logs: Array, weight: Array, steps: int = WEIGHT_STEPS) -> Array:
    """Weights of most likelihood, (members,), by EM; logs (members, rows)."""
    found = np.full(len(logs), 1.0 / len(logs))
    shares = np.exp(logs - logs.max(axis=0))
    for _ in range(steps):
        told = shares * found[:, None]
        told /= told.sum(axis=0)
        found = told @ weight / weight.sum()
    return found


def mixed_rows(logs: Array, weights: Array) -> Array:
    """log Σ w P, (rows,)."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.logaddexp.reduce(logs + np.log(weights)[:, None], axis=0))


def pick_members(search: Search, most: int) -> Members:
    """Forward selection among the best candidates."""
    ranked = search.ranked()[:MOST_LOOKED_AT]
    logs = np.array([search.climbs[each].best_rows for each in ranked])
    weight = search.held_out.weights / search.held_out.total
    chosen, own = [0], np.ones(1)
    while len(chosen) < min(most, len(ranked)):
        now = mixed_rows(logs[chosen], own)
        ratio = np.exp(np.clip(logs - now, -50.0, 50.0))
        gains = np.max([np.log1p(s * (ratio - 1.0)) @ weight for s in SHARES], axis=0)
        gains[chosen] = -np.inf
        best = int(gains.argmax())
        if gains[best] < LEAST_GAIN * abs(float(now @ weight)):
            break
        chosen.append(best)
        own = mixture_weights(logs[chosen], weight)
    kept = own >= LEAST_WEIGHT
    chosen = [c for c, there in zip(chosen, kept, strict=True) if there]
    own = mixture_weights(logs[chosen], weight)
    level = float(mixed_rows(logs[chosen], own) @ weight)
    return Members(tuple(ranked[c] for c in chosen), own, level)


def grow_members(search: Search, most: int, budget: float) -> Members:
    """Spend the rest of the budget on members with trees of rows drawn again."""
    found, drawn = pick_members(search, most), 0
    while search.spent < budget:
        heavy = _heaviest(found)
        drawn += 1
        parent = heavy[(drawn - 1) % len(heavy)]
        moved = search.run(replace(parent, resampled=drawn), RESAMPLED_ROUNDS)
        if drawn % 6 == 0:
            found = pick_members(search, most)
        if not moved:  # nothing could be run
            break
    return pick_members(search, most)


def _heaviest(members: Members) -> Sequence[IslandCandidate]:
    order = np.argsort(-members.weights)
    return [members.candidates[i] for i in order if members.candidates[i].states > 1] or [
        members.candidates[0]
    ]
