"""How well the states of each latent are told apart: by correlations, or by what they say.

A closed form has the weakest canonical correlation of the latent's separator. Tables have the two
states most alike: min over pairs of states of max over columns of ½ Σ_x |P(x | s) − P(x | t)|.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import final

import numpy as np

from latentia.exact.table_answers import TableAnswers
from latentia.inference.operators import Operators
from latentia.structure.plan import Plan
from latentia.typing import Array, Label

MOST_LATENTS = 300  # beyond, no one reads the list, and it takes its time


@final
@dataclass(frozen=True, slots=True)
class LatentFit:
    """One latent: its states, directions kept of those wanted, and how clearly they are told."""

    name: Label
    states: int | None
    rank: int | None  # of its separator
    wanted: int | None
    weakest: float | None  # canonical correlation that was kept
    closest: float | None  # distance of the two states most alike, from 0 to 1


def tell_latents(plan: Plan, operators: Operators) -> tuple[LatentFit, ...]:
    """Every latent of the graph; closed forms by their separators, tables by their states."""
    found = operators.own_tables(plan.graph)
    if found is not None and found[0].directed and len(found[0].latent) <= MOST_LATENTS:
        own, tables = found
        model = TableAnswers(own, {name: tables[v] for v, name in enumerate(own.names)})
        return tuple(
            LatentFit(own.names[h], own.states[h], None, None, None, _closest(model, h))
            for h in sorted(own.latent)
        )
    graph = plan.graph
    return tuple(_by_separator(plan, operators, h) for h in sorted(graph.latent)[:MOST_LATENTS])


def _closest(model: TableAnswers, h: int) -> float | None:
    """Of states with some probability; None for a latent with one."""
    graph = model.graph
    states = graph.states[h] or 1
    evidence = np.full((states, len(graph.names)), -1)
    evidence[:, h] = np.arange(states)
    alive = np.flatnonzero(np.isfinite(model.log_evidence(evidence)))
    if len(alive) < 2:
        return None if states < 2 else 0.0
    told = model.posteriors(evidence[alive], [graph.names[x] for x in graph.observed])
    return min(_distance(list(told.values()), s, t) for s, t in combinations(range(len(alive)), 2))


def _distance(told: Sequence[Array], s: int, t: int) -> float:
    return max(0.5 * float(np.abs(p[s] - p[t]).sum()) for p in told)


def _by_separator(plan: Plan, operators: Operators, h: int) -> LatentFit:
    """The smallest separator with the latent in it, the best told of several."""
    reports = operators.provenance.reports if operators.plan.nodes == plan.nodes else {}
    near = [(k, report) for k, report in reports.items() if h in plan.nodes[k].separator]
    name, states = plan.graph.names[h], plan.graph.states[h]
    if not near:
        return LatentFit(name, states, None, None, None, None)
    least = min(len(plan.nodes[k].separator) for k, _ in near)
    some = [r for k, r in near if len(plan.nodes[k].separator) == least]
    best = max(some, key=lambda r: (r.rank, min(r.correlations, default=0.0)))
    weakest = min(best.correlations) if best.correlations else None
    return LatentFit(name, states, best.rank, best.wanted, weakest, None)
