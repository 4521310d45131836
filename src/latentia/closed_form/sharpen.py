"""Sharpening: better coordinates where separators needed joint blocks (design 4.2).

Each round is one more pass: CCA of θ_1 ⊗ θ_2 inside against θ_sibling ⊗ η_parent outside, for all
nodes at once and each from the previous round's coordinates.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from latentia.closed_form.basis import Basis, Round
from latentia.closed_form.evaluating import BlockMemory, evaluator, leaf_marks, leaf_tables
from latentia.closed_form.near_sums import NearSums, blocks, near_sums
from latentia.closed_form.pairs import PairLayout, leaf_codes
from latentia.data.moments import Moments, add_to
from latentia.data.rows import Rows, Source, row_chunks
from latentia.linear_algebra import canonical, one_thread, whitener
from latentia.structure.plan import Plan
from latentia.typing import Array

ROUNDS = 2
MOST_FEATURES = 600  # of one side; beyond it a node keeps its coordinates


def needs_sharpening(plan: Plan) -> bool:
    """Did any side need joint features of several leaves?"""
    sides = {id(s.wide): s.wide for n in plan.nodes for s in (n.inside, n.outside)}
    return any(len(b) > 1 for wide in sides.values() for b in wide)  # many share one


def sharpen(
    layout: PairLayout, basis: Basis, source: Source, regularize: bool, leaves_too: bool = False
) -> Basis:
    """Two more passes over the rows.

    The coordinates of a column that tell its states apart already would only be turned, which
    answers do not see: such leaves stay as they are, unless those who look at η of leaves ask.
    """
    plan = layout.plan
    for _ in range(ROUNDS):
        nodes = [k for k in few_enough(plan, basis) if leaves_too or not _is_whole(plan, basis, k)]
        near = sums_around(plan, basis, nodes)
        moments = source.fold(partial(sum_neighbours, layout, basis, near))
        with one_thread():
            basis = _next_round(plan, basis, near, moments, regularize)
    return basis


def _is_whole(plan: Plan, basis: Basis, k: int) -> bool:
    """Does the leaf have as many coordinates as its states have contrasts?"""
    return plan.nodes[k].is_leaf and len(basis.correlations[k]) == basis.features[k][0]


def sums_around(plan: Plan, basis: Basis, nodes: Sequence[int]) -> dict[int, NearSums]:
    """How the sums of some nodes are found."""
    tables = leaf_tables(plan, basis)[-1]
    by_code = {(k, "theta"): table[1:] for k, table in tables.items()}
    by_code |= {(k, "marks"): leaf_marks(plan, basis, k) for k in tables}
    sizes = [basis.size(k) - 1 for k in range(len(plan.nodes))]
    return {k: near_sums(plan, k, sizes, by_code) for k in nodes}


def sum_neighbours(
    layout: PairLayout, basis: Basis, near: Mapping[int, NearSums], rows: Rows
) -> Moments:
    """Σ w z zᵀ at every node, z = [1, inside products, outside products], by leaves."""
    plan = layout.plan
    sums: dict[str, Array] = {}
    width = max(map(layout.width, range(len(layout.spans)))) + MOST_FEATURES
    evaluate, room = evaluator(layout, basis), BlockMemory()
    for part in row_chunks(len(rows), width):
        block = rows[part]
        values = evaluate(block)
        root = None if block.weight is None else np.sqrt(block.weight)
        leaves = leaf_codes(plan, block)
        for k, own in near.items():
            add_to(sums, f"near/{k}", own.gathered(values, leaves, root, room))
    kind = f"neighbours in plan {plan.fingerprint}, basis {basis.fingerprint}"
    return Moments(kind, rows.total, len(rows), sums)


def neighbour_correlations(
    plan: Plan, basis: Basis, near: Mapping[int, NearSums], moments: Moments, most: int
) -> dict[int, tuple[Array, int, int]]:
    """Canonical correlations of the products inside against those outside: node -> (d, p, q)."""
    sizes = _sizes(plan, basis)
    found = {}
    for k, own in near.items():
        total = own.whole(moments.sums[f"near/{k}"]) / moments.weight
        S = total[1:, 1:] - np.outer(total[0, 1:], total[0, 1:])
        a = sum(sizes[k][0])
        d = canonical(S[:a, :a], S[:a, a:], S[a:, a:], most).d
        # indicators add up to one: count the directions, not the features
        found[k] = (d, whitener(S[:a, :a]).shape[1], whitener(S[a:, a:]).shape[1])
    return found


def few_enough(plan: Plan, basis: Basis) -> list[int]:
    """Nodes whose products are few enough; the others keep their coordinates."""
    sizes = _sizes(plan, basis)
    return [k for k in sizes if max(map(sum, sizes[k])) <= MOST_FEATURES]


def _sizes(plan: Plan, basis: Basis) -> dict[int, tuple[list[int], list[int]]]:
    """Features of each block {first, second, product} inside and outside every node."""

    found = {}
    for k, node in enumerate(plan.nodes):
        if node.parent != k:
            above = plan.nodes[node.parent]
            beside = [basis.size(c) - 1 for c in above.children if c != k]
            beside += [] if above.parent == node.parent else [basis.size(node.parent) - 1]
            inner = [basis.size(c) - 1 for c in node.children] or [plan.block_states((node.first,))]
            found[k] = (blocks(inner), blocks(beside))
    return found


def _next_round(
    plan: Plan, basis: Basis, near: Mapping[int, NearSums], moments: Moments, regularize: bool
) -> Basis:
    sizes = _sizes(plan, basis)
    steps: dict[int, Round] = {}
    correlations = list(basis.correlations)
    features = list(basis.features)
    for k, own in near.items():
        node = plan.nodes[k]
        total = own.whole(moments.sums[f"near/{k}"]) / moments.weight
        mean, S = total[0, 1:], total[1:, 1:] - np.outer(total[0, 1:], total[0, 1:])
        a = sum(sizes[k][0])
        cross = S[:a, a:]
        if regularize:
            cross = _shrunk(S, sizes[k], basis.weights[k])
        found = canonical(S[:a, :a], cross, S[a:, a:], node.rank - 1)
        if len(found.d) < len(correlations[k]):
            continue  # rank, once full, is kept
        steps[k] = Round(_centred(found.U, mean[:a]), _centred(found.V, mean[a:]))
        correlations[k] = found.d
        features[k] = (a, len(S) - a)
    return replace(
        basis,
        correlations=tuple(correlations),
        features=tuple(features),
        rounds=(*basis.rounds, steps),
    )


def _centred(U: Array, mean: Array) -> Array:
    """(1 + features, r - 1): coordinates Uᵀ(F - mean) as a map of [1, F]."""
    return np.concatenate([-(mean @ U)[None, :], U])


def _shrunk(S: Array, sizes: tuple[list[int], list[int]], N: float) -> Array:
    """Inside-outside covariance, each pair of blocks shrunk towards none (James-Stein)."""
    a = sum(sizes[0])
    starts = np.cumsum([0, *sizes[0], *sizes[1]])
    traces = [float(np.trace(S[i:j, i:j])) for i, j in itertools.pairwise(starts)]
    cross = S[:a, a:].copy()
    for x, (i, j) in enumerate(itertools.pairwise(starts[: len(sizes[0]) + 1])):
        for y, (p, q) in enumerate(itertools.pairwise(starts[len(sizes[0]) :] - a)):
            part = cross[i:j, p:q]
            size = float((part**2).sum())
            noise = traces[x] * traces[len(sizes[0]) + y] / N
            cross[i:j, p:q] = part * max(0.0, 1.0 - noise / max(size, 1e-300))
    return cross
