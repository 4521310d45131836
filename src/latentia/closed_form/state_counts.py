"""Numbers of states from the data: canonical correlations against their noise level."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from latentia.closed_form.basis import (
    Basis,
    Coordinates,
    PanelCovariance,
    canonical_basis,
    panel_covariance,
)
from latentia.closed_form.evaluating import evaluator
from latentia.closed_form.pairs import PairLayout, pair_layout, sum_pairs
from latentia.closed_form.sharpen import (
    few_enough,
    neighbour_correlations,
    sum_neighbours,
    sums_around,
)
from latentia.closed_form.solving import Statistics
from latentia.data.moments import Moments
from latentia.data.rows import Rows, Source, row_chunks
from latentia.linear_algebra import canonical, one_thread, symmetric_inverse
from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan, make_plan
from latentia.structure.sides import Block
from latentia.structure.templates import latent_class
from latentia.structure.triangulate import moralise
from latentia.typing import Array, Codes, Label

MOST = 10
BINS = 6  # of a continuous column, while states are counted
ABOVE_NOISE = 1.1
SURE = 1.5  # how far beyond its edge noise may reach: about 97 % of the law of Tracy and Widom
FEW = 4  # separators of a latent; with more of them it is not easily missed
FAR = 3.0  # times fewer states than stated, or times the noise left out
NOTABLE = 0.2  # correlation
FITTED = 1.5
LEAST_WEIGHT = 1000.0  # rows below which nothing is said of stated numbers


def class_states(sizes: list[int], source: Source) -> int:
    """States of one latent class that tells all columns: 1 + correlations above their noise.

    The columns are dealt to two hands, by what they tell and not as they come. Between hands of p
    and q features that have nothing to do with each other, N rows show canonical correlations up to
    (√p + √q) / √N.
    """
    if len(sizes) < 2:
        return 1
    columns = [str(i) for i in range(len(sizes))]
    plan = make_plan(latent_class(columns, 2), states=dict(zip(columns, sizes, strict=True)))
    layout = pair_layout(plan)
    moments = source.fold(partial(sum_pairs, layout))
    panel = panel_covariance(layout, 0, moments)
    singles = _as_they_tell(panel, [b for b in panel.places if len(b) == 1])
    a, b = panel.features(singles[::2]), panel.features(singles[1::2])
    d = _correlations(panel, a, b)
    noise = (np.sqrt(len(a)) + np.sqrt(len(b))) / np.sqrt(max(moments.weight, 1.0))
    return 1 + int((d > ABOVE_NOISE * noise).sum())


def _as_they_tell(panel: PanelCovariance, blocks: Sequence[Block]) -> list[Block]:
    """Those first that tell most of all others together, whatever they and their states are called.

    That is the sum of squared canonical correlations with one other block after the other.
    """
    S, places = panel.plain, [panel.features([b]) for b in blocks]
    given = np.zeros_like(S)
    for own in places:
        given[own] = symmetric_inverse(S[own][:, own]) @ S[own]
    both = (given * given.T).sum(axis=1)
    told = [round(float(both[own].sum()), 9) for own in places]
    return [blocks[i] for i in sorted(range(len(blocks)), key=lambda i: -told[i])]


def latent_states(graph: LatentGraph, source: Source) -> LatentGraph:
    """The graph with numbers of states for latents that have none: ranks of separators, from data.

    Between the sides of a separator S of one such latent, its number of states is 1 + the canonical
    correlations above their noise; the largest over its separators counts. Where S holds others as
    well, they share the rank: r^(1/k) for each of k. A latent without any takes a neighbour's.

    A state too few can cost many times the KL, one too many its parameters / 2N: latents of few
    separators have one more if products of neighbouring coordinates show it.
    """
    unknown = [v for v in sorted(graph.latent) if graph.states[v] is None]
    if not unknown:
        return graph
    plan = make_plan(graph.with_states({graph.names[v]: 2 for v in unknown}))
    names = frozenset(graph.names[v] for v in unknown)
    pairs, products = _ranks(plan, source, names)
    found = _shared(plan, names, pairs)
    for name, count in _shared(plan, names, products).items():
        found[name] = max(found[name], min(count, found[name] + 1))
    near = moralise(graph)
    for v in unknown:
        beside = [found[graph.names[u]] for u in near[v] if graph.names[u] in found]
        found.setdefault(graph.names[v], max(beside, default=2))
    return graph.with_states(found)


def _shared(plan: Plan, names: frozenset[Label], ranks: Mapping[int, int]) -> dict[Label, int]:
    """States of the latents `names` by the ranks of separators that hold them."""
    found: dict[Label, int] = {}
    for k, rank in ranks.items():
        inside = [plan.graph.names[v] for v in plan.nodes[k].separator]
        own = [name for name in inside if name in names]
        rest = [v for v in plan.nodes[k].separator if plan.graph.names[v] not in names]
        known = math.prod(plan.graph.states[v] or 1 for v in rest)
        for name in own:
            count = math.ceil(math.ceil(rank / known) ** (1 / len(own)) - 1e-9)
            found[name] = max(found.get(name, 1), count)
    return found


def _ranks(
    plan: Plan, source: Source, names: frozenset[Label]
) -> tuple[dict[int, int], dict[int, int]]:
    """1 + correlations above their noise at separators of `names`: of pairs, and of products.

    Products are asked where latents have few separators and are easily missed. Of many separators
    the largest rank counts, and rare states make noise that reaches far: there a correlation must
    stand above more of it.
    """
    layout = pair_layout(plan)
    moments = source.fold(partial(sum_pairs, layout))
    with one_thread():
        basis = canonical_basis(layout, moments, regularize=False, spare=MOST - 2)
    shown = {
        k: above_noise(basis.correlations[k], *basis.features[k], basis.weights[k])
        for k, node in enumerate(plan.nodes)
        if node.parent != k
    }
    separators = {k: plan.nodes[k].separator for k in shown}
    asked = [k for k, s in separators.items() if any(plan.graph.names[v] in names for v in s)]
    times = Counter(separators[k] for k in asked)
    top = {s: max(shown[k] for k in asked if separators[k] == s) for s in times}
    many = [k for k in asked if times[separators[k]] > FEW and shown[k] >= top[separators[k]] - 1]
    # where latents share a separator, one rank more would give all of them one state more
    few = [k for k in asked if times[separators[k]] <= FEW and len(separators[k]) == 1]
    if many:
        shown |= _sure(layout, _cut(basis, {k: shown[k] for k in many}), source)
    pairs = {k: 1 + shown[k] for k in asked}
    if not few:
        return pairs, {}
    basis = _cut(basis, {k: max(count, 1) for k, count in shown.items()})
    few = [k for k in few_enough(plan, basis) if k in few]
    near = sums_around(plan, basis, few)
    products = source.fold(partial(sum_neighbours, layout, basis, near))
    with one_thread():
        joint = neighbour_correlations(plan, basis, near, products, MOST - 1)
    return pairs, {k: 1 + above_noise(*joint[k], basis.weights[k]) for k in few}


def _cut(basis: Basis, counts: Mapping[int, int]) -> Basis:
    """The basis with so many directions of each node, none where no number is given."""

    def side(k: int, found: Coordinates | None) -> Coordinates | None:
        if found is None:
            return None
        return replace(found, stacked=found.stacked[:, : counts.get(k, 0)])

    return replace(
        basis,
        inside=tuple(side(k, x) for k, x in enumerate(basis.inside)),
        outside=tuple(side(k, x) for k, x in enumerate(basis.outside)),
        correlations=tuple(d[: counts.get(k, 0)] for k, d in enumerate(basis.correlations)),
    )


def _sure(layout: PairLayout, basis: Basis, source: Source) -> dict[int, int]:
    """How many correlations stand out where noise is √κ times as large, κ = E[(θη)²] - d².

    N d² of one given direction is κ on average if nothing is there, but weak true directions have a
    large κ as well: the middle between 1 and κ loses the fewest states and adds the fewest.
    """
    nodes = tuple(k for k, d in enumerate(basis.correlations) if len(d))
    squares = source.fold(partial(sum_squares, layout, basis, nodes))
    found = {}
    for k in nodes:
        d = basis.correlations[k]
        kappa = np.maximum(squares.sums[f"squares/{k}"] / squares.weight - d**2, 1.0)
        found[k] = above_noise(d / kappa**0.25, *basis.features[k], basis.weights[k])
    return found


def sum_squares(layout: PairLayout, basis: Basis, nodes: tuple[int, ...], rows: Rows) -> Moments:
    """Σ w (θη)² of every direction: N times the variance of its correlation, and a little more."""
    sums: dict[str, Array] = {f"squares/{k}": np.zeros(basis.size(k) - 1) for k in nodes}
    evaluate = evaluator(layout, basis, leaves_too=True)
    width = max(map(layout.width, range(len(layout.spans))))
    width += 2 * sum(basis.size(k) for k in range(len(layout.plan.nodes)))
    for part in row_chunks(len(rows), width):
        block = rows[part]
        values = evaluate(block)
        weight = block.weights
        for k in nodes:
            sums[f"squares/{k}"] += (values.theta[k][1:] * values.eta[k][1:]) ** 2 @ weight
    kind = f"squares of plan {layout.plan.fingerprint} in basis {basis.fingerprint}"
    return Moments(kind, rows.total, len(rows), sums)


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


def _correlations(panel: PanelCovariance, a: Codes, b: Codes) -> Array:
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
