"""Answers where exact ones are too wide: some variables are drawn, the rest is summed exactly.

With the right few variables known — a *cutset* — the rest is narrow:

    P(asked | evidence) = E over cutset | evidence of P(asked | cutset, evidence)

Chains draw one variable of the cutset after the other, given the others, evidence, and exact sums
over everything else (Gibbs sampling). They start from weighted draws of the whole network and are
independent of each other, so that their spread tells the standard error, slow mixing and all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np

from latentia.errors import EvidenceError, PlanError
from latentia.exact.pieces import with_ancestors
from latentia.structure.graph import LatentGraph
from latentia.structure.triangulate import eliminate, log_states
from latentia.typing import Array, Codes

CHAINS = 16
BURN_IN, SWEEPS = 10, 30
PARTICLES = 512  # weighted draws of each row, among which chains start
NARROW = 2**14  # joint states of a clique, once the cutset is known

# codes (rows, variables) -> P(…), (rows, cells)
Ask: TypeAlias = Callable[[Codes], Array]
AskOne: TypeAlias = Callable[[Codes, int], Array]


@final
@dataclass(frozen=True, slots=True)
class SampledTable:
    """Probabilities and their standard errors, (rows, …) each; zero where the answer is exact."""

    table: Array
    error: Array
    cutset: int  # variables that were drawn, at most


def find_cutset(
    graph: LatentGraph, seen: AbstractSet[int], asked: AbstractSet[int], narrow: int | None = None
) -> list[int]:
    """Variables that are not seen or asked for, such that without them no clique is wide."""
    parents = graph.parents()
    kept = with_ancestors(parents, seen | asked)
    weight, most = log_states(graph), math.log(narrow or NARROW) + 1e-9
    cut: list[int] = []
    while True:
        known = seen | set(cut)
        left = sorted(kept - known)
        number = {v: k for k, v in enumerate(left)}
        near: list[set[int]] = [set() for _ in left]
        for v in sorted(kept):
            family = [number[u] for u in (*parents[v], v) if u in number]
            for a in family:
                near[a].update(b for b in family if b != a)
        cliques = [c for _, c in eliminate(near, [weight[v] for v in left], "min_fill")]
        wide = [c for c in cliques if sum(weight[left[k]] for k in c) > most]
        if not wide:
            return cut
        times: dict[int, int] = {}
        for k in (k for c in wide for k in c if left[k] not in asked):
            times[left[k]] = times.get(left[k], 0) + 1
        if not times:
            raise PlanError(
                "the variables asked for are too many to be told together. Ask for fewer."
            )
        cut.append(max(times, key=lambda v: (times[v], weight[v], -v)))


def sample_answers(
    graph: LatentGraph,
    tables: Mapping[int, Array],
    codes: Codes,
    cut: Sequence[int],
    ask: Ask,
    ask_one: AskOne,
    rng: np.random.Generator,
) -> SampledTable:
    """Rows with the same evidence, by chains over a cutset."""
    rows = len(codes)
    state = started_chains(graph, tables, codes, cut, rng)  # (rows · chains, variables)
    total: Array | None = None
    for sweep in range(BURN_IN + SWEEPS):
        for v in cut:
            state[:, v] = -1
            state[:, v] = _drawn(ask_one(state, v), rng)
        if sweep >= BURN_IN:
            own = ask(state)
            total = own if total is None else total + own
    assert total is not None
    chains = (total / SWEEPS).reshape(rows, CHAINS, *total.shape[1:])
    error = chains.std(axis=1, ddof=1) / math.sqrt(CHAINS)
    return SampledTable(chains.mean(axis=1), error, len(cut))


def started_chains(
    graph: LatentGraph,
    tables: Mapping[int, Array],
    codes: Codes,
    cut: Sequence[int],
    rng: np.random.Generator,
) -> Codes:
    """Evidence with the cutset filled in, by draws that agree with it: each row CHAINS times."""
    found = np.repeat(codes, CHAINS, axis=0)
    for i, row in enumerate(codes):
        drawn, log = _weighted_draws(graph, tables, row, rng)
        if not np.isfinite(log).any():
            raise EvidenceError(
                f"no draw of {PARTICLES} agrees with the evidence of row {i}: it is impossible, or "
                "too unlikely to be found by chance. Give evidence on fewer variables."
            )
        share = np.exp(log - log.max())
        chosen = rng.choice(PARTICLES, CHAINS, p=share / share.sum())
        found[i * CHAINS : (i + 1) * CHAINS, cut] = drawn[chosen][:, cut]
    return found


def estimated_logs(
    graph: LatentGraph, tables: Mapping[int, Array], codes: Codes, rng: np.random.Generator
) -> Array:
    """log of the mean weight of draws that agree with each row: P(evidence) is met on average."""
    found = np.empty(len(codes))
    for i, row in enumerate(codes):
        log = _weighted_draws(graph, tables, row, rng)[1]
        top = log.max()
        found[i] = top + np.log(np.exp(log - top).mean()) if np.isfinite(top) else -np.inf
    return found


def _weighted_draws(
    graph: LatentGraph, tables: Mapping[int, Array], row: Codes, rng: np.random.Generator
) -> tuple[Codes, Array]:
    """Each variable given its parents, but for what is seen, whose probability is the weight."""
    parents = graph.parents()
    drawn = np.zeros((PARTICLES, len(row)), dtype=np.int64)
    log = np.zeros(PARTICLES)
    done: set[int] = set()
    left = list(range(len(row)))
    while left:
        ready = [v for v in left if done.issuperset(parents[v])]
        for v in ready:
            share = tables[v][tuple(drawn[:, u] for u in parents[v])]
            share = np.broadcast_to(share, (PARTICLES, tables[v].shape[-1]))
            if row[v] >= 0:
                drawn[:, v] = row[v]
                with np.errstate(divide="ignore"):
                    log += np.log(share[:, row[v]])
            else:
                drawn[:, v] = _drawn(share, rng)
        done.update(ready)
        left = [v for v in left if v not in done]
    return drawn, log


def _drawn(shares: Array, rng: np.random.Generator) -> Codes:
    """A state of each row of (rows, states)."""
    ends = np.cumsum(shares, axis=1)
    ends /= ends[:, -1:]
    return np.asarray((rng.random(len(shares))[:, None] >= ends).sum(axis=1))
