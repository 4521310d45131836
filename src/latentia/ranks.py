"""Numbers of states from the data: canonical correlations against their noise level."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from latentia.basis import PanelCovariance, panel_covariance
from latentia.graph import LatentGraph
from latentia.learn import Statistics
from latentia.moments import Rows, pair_layout, sum_pairs
from latentia.plan import Plan, make_plan
from latentia.solve import canonical, one_thread
from latentia.templates import latent_class
from latentia.triangulate import moralise
from latentia.typing import Array, Codes, Label, Source

__all__ = ["binned", "class_states", "latent_states", "state_notes"]

MOST = 10
BINS = 6  # of a continuous column, while states are counted
ABOVE_NOISE = 1.1
SURE = 1.5  # how far beyond its edge noise may reach: about 97 % of the law of Tracy and Widom
FAR = 3.0  # times fewer states than stated, or times the noise left out
NOTABLE = 0.2  # correlation
FITTED = 1.5
LEAST_WEIGHT = 1000.0  # rows below which nothing is said of stated numbers


def class_states(sizes: list[int], source: Source) -> int:
    """States of one latent class that tells all columns: 1 + correlations above their noise.

    The columns are dealt to two hands; between hands of p and q features that have nothing to do
    with each other, N rows show canonical correlations up to (√p + √q) / √N.
    """
    if len(sizes) < 2:
        return 1
    columns = [str(i) for i in range(len(sizes))]
    plan = make_plan(latent_class(columns, 2), states=dict(zip(columns, sizes, strict=True)))
    layout = pair_layout(plan)
    moments = source.fold(partial(sum_pairs, layout))
    panel = panel_covariance(layout, 0, moments)
    singles = [b for b in panel.places if len(b) == 1]
    a, b = panel.features(singles[::2]), panel.features(singles[1::2])
    d = _correlations(panel, a, b)
    noise = (np.sqrt(len(a)) + np.sqrt(len(b))) / np.sqrt(max(moments.weight, 1.0))
    return 1 + int((d > ABOVE_NOISE * noise).sum())


def latent_states(graph: LatentGraph, source: Source) -> LatentGraph:
    """The graph with numbers of states for latents that have none: ranks of separators, from data.

    Between the sides of a separator S of one such latent, its number of states is 1 + the canonical
    correlations above their noise; the largest over its separators counts. Where S holds others as
    well, they share the rank: r^(1/k) for each of k. A latent without any takes a neighbour's.
    """
    unknown = [v for v in sorted(graph.latent) if graph.states[v] is None]
    if not unknown:
        return graph
    plan = make_plan(graph.with_states({graph.names[v]: 2 for v in unknown}))
    names = {graph.names[v] for v in unknown}
    found: dict[Label, int] = {}
    for k, rank in _ranks(plan, source).items():
        inside = [plan.graph.names[v] for v in plan.nodes[k].separator]
        own = [name for name in inside if name in names]
        rest = [v for v in plan.nodes[k].separator if plan.graph.names[v] not in names]
        known = math.prod(plan.graph.states[v] or 1 for v in rest)
        for name in own:
            count = math.ceil(math.ceil(rank / known) ** (1 / len(own)) - 1e-9)
            found[name] = max(found.get(name, 1), count)
    near = moralise(graph)
    for v in unknown:
        beside = [found[graph.names[u]] for u in near[v] if graph.names[u] in found]
        found.setdefault(graph.names[v], max(beside, default=2))
    return graph.with_states(found)


def _ranks(plan: Plan, source: Source) -> dict[int, int]:
    """1 + correlations above their noise, of every separator."""
    layout = pair_layout(plan)
    moments = source.fold(partial(sum_pairs, layout))
    found = {}
    with one_thread():
        panels = [panel_covariance(layout, p, moments) for p in range(len(layout.spans))]
        for k, node in enumerate(plan.nodes):
            if node.parent == k:
                continue
            panel = panels[layout.panel_of[k]]
            a, b = panel.features(node.inside.wide), panel.features(node.outside.wide)
            N = panel.mean_weight(node.inside.wide, node.outside.wide)
            found[k] = 1 + above_noise(_correlations(panel, a, b), len(a), len(b), N)
    return found


def above_noise(d: Array, p: int, q: int, N: float) -> int:
    """How many falling correlations stand out: each against the noise of what is left after it.

    N d² of pure noise has its edge at (√p + √q)², and some way to go beyond it.
    """
    count = 0
    for k, x in enumerate(d):
        a, b = math.sqrt(max(p - k, 1)), math.sqrt(max(q - k, 1))
        edge = (a + b) ** 2 + SURE * (a + b) * (1 / a + 1 / b) ** (1 / 3)
        if N * x**2 <= edge:
            break
        count += 1
    return count


def _correlations(panel: PanelCovariance, a: Array, b: Array) -> Array:
    S = panel.plain
    return canonical(S[a][:, a], S[a][:, b], S[b][:, b], MOST - 1).d


def state_notes(found: Statistics) -> tuple[str, ...]:
    """Stated numbers of states that the data speak against clearly, each with its figure."""
    plan, basis = found.layout.plan, found.basis
    if found.pairs.weight < LEAST_WEIGHT:
        return ()
    notes = []
    for v in sorted(plan.graph.latent):
        stated = plan.graph.states[v] or 1
        name = plan.graph.names[v]
        nodes = [k for k, n in enumerate(plan.nodes) if n.separator == {v}]
        shown, missed, noise = 1, 0.0, 0.0
        for k in nodes:
            p, q = basis.features[k]
            N = basis.weights[k]
            # rounds of sharpening fit their features to the rows: ask for more than an edge
            clear = basis.correlations[k] / (FITTED if basis.rounds else 1.0)
            shown = max(shown, 1 + above_noise(clear, p, q, N))
            edge = (math.sqrt(p) + math.sqrt(q)) / math.sqrt(N)
            full = plan.nodes[k].rank == stated and not basis.rounds
            if full and basis.beyond and basis.beyond[k] > missed:
                missed, noise = basis.beyond[k], edge
        if missed > max(FAR * noise, NOTABLE):
            notes.append(
                f"latent {name!r} has {stated} states, but a canonical correlation of {missed:.2f} "
                f"is left over (noise reaches {noise:.2f}). Give it more states, or let the data "
                "tell them: leave the number out."
            )
        elif nodes and shown > 1 and FAR * shown <= stated:
            notes.append(
                f"latent {name!r} has {stated} states, the data show {shown}: no more canonical "
                "correlations stand above their noise. Give it fewer states, or leave the number "
                "out."
            )
    return tuple(notes)


def binned(rows: Rows, sizes: list[int]) -> tuple[Rows, list[int]]:
    """Positions of continuous columns cut into bins of equal weight; codes as they are."""
    codes: list[Codes] = []
    counts = []
    for values, size in zip(rows.codes, sizes, strict=True):
        if values.dtype.kind != "f":
            codes.append(values)
            counts.append(size)
            continue
        there = ~np.isnan(values)
        seen, place = np.unique(values[there], return_inverse=True)
        weight = None if rows.weight is None else rows.weight[there]
        mass = np.bincount(place, weight, minlength=len(seen))
        middle = (np.cumsum(mass) - mass / 2) / max(float(mass.sum()), 1e-300)
        bins = np.minimum((BINS * middle).astype(np.int8), BINS - 1)
        found = np.full(len(values), -1, dtype=np.int8)
        found[there] = bins[place]
        codes.append(found)
        counts.append(BINS)
    return Rows(tuple(codes), rows.weight), counts
