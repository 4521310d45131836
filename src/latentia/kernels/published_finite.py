"""The published algorithm on finite kernel coordinates (design 7, uncentred).

θ^S and η^S are Nyström coordinates A of α(S) and B of β(S), as they are: no centring, no constant.

    J = (C_ββ + λ₁)⁻¹ C_βα,   Jᵀ C_ββ J = Q diag(e) Qᵀ,   f = Qᵀ A,
    η̃ = (e + λ₂)⁻¹ Qᵀ Jᵀ C_ββ (C_ββ + λ₁)⁻¹ B,   W = E[(f_a ⊗ f_b) η̃ᵀ];

a leaf has f = A and reads k(x, ·) by its regression on A. With every row a landmark this is the
Gram form in other coordinates; with few landmarks it is linear in rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.moments import Moments, add_to, outer_sum
from latentia.data.rows import Rows, Source, row_chunks
from latentia.errors import DataError
from latentia.inference.operators import Operators
from latentia.inference.provenance import Provenance, SeparatorReport
from latentia.kernels.embedding import present, state_directions
from latentia.kernels.feature_maps import BlockMap, coordinates, make_map
from latentia.kernels.gram import (
    PublishedKernel,
    in_published_units,
    kernel_table,
    seen_marginals,
    sides_of,
)
from latentia.linear_algebra import one_thread, ridge_solver, symmetric_inverse
from latentia.structure.plan import Plan
from latentia.structure.sides import Block
from latentia.typing import Array

CUT = 1e-12  # of eigenvalues of landmarks: a leaf has to tell the constant 1, too
SINGULAR = 1e-12  # directions below this share of the largest are none


@final
@dataclass(frozen=True, slots=True)
class _Maps:
    """Feature maps by block of columns, and which are a node's."""

    blocks: tuple[BlockMap, ...]
    inside: Mapping[int, int]  # node -> map; at a leaf its own columns
    outside: Mapping[int, int]  # inner nodes only


@final
@dataclass(frozen=True, slots=True)
class _States:
    """f = Q A and η̃ = V B by node; a leaf has f = A."""

    Q: Mapping[int, Array]  # (r, features)
    V: Mapping[int, Array]
    strengths: Mapping[int, Array]


def learn_uncentred(
    plan: Plan,
    columns: Sequence[Column],
    source: Source,
    sample: Rows,
    settings: PublishedKernel,
    ridge: tuple[float, float] | None = None,
) -> Operators:
    """Two passes over the rows. `ridge` is (λ₁, λ₂) for moments divided by N."""
    columns = in_published_units(columns, settings)
    with one_thread():
        maps = _make_maps(plan, columns, coordinates(columns, sample.codes), settings)
        pairs = source.fold(partial(_sum_sides, plan, columns, maps, settings))
        N = pairs.weight
        if not N > 0:
            raise DataError("there are no rows to learn from, or their weights are all zero.")
        ridges = (settings.ridge[0] / N, settings.ridge[1] / N) if ridge is None else ridge
        states = _find_states(plan, maps, pairs, ridges, settings.rank)
        products = source.fold(partial(_sum_products, plan, columns, maps, states))
    tensors = {}
    for k in sorted({*plan.inner, *plan.roots}):
        rows = float(products.sums[f"present/{k}"][0])
        if not rows > 0:
            raise DataError("no row has values in all columns of a clique; bring rows that have.")
        tensors[k] = products.sums[f"products/{k}"] / rows
    leaves = tuple(_leaf(pairs, k) for k in plan.leaves)
    mix = N**-0.5 if ridges[1] > 0 else 0.0
    shares = [_marginal(plan, pairs, k) for k in plan.leaves]
    marginals = seen_marginals(plan, columns, shares, N, mix)
    reports = {
        k: SeparatorReport(len(e), plan.nodes[k].rank, tuple(map(float, np.sqrt(e))))
        for k, e in states.strengths.items()
    }
    floor = settings.floor if any(c.continuous for c in columns) else 0.0
    return Operators(
        plan, leaves, tensors, marginals, N, mix, floor=floor, provenance=Provenance(reports)
    )


def _make_maps(
    plan: Plan, columns: Sequence[Column], sample: Array, settings: PublishedKernel
) -> _Maps:
    place = {v: i for i, v in enumerate(plan.graph.observed)}
    found: dict[Block, int] = {}
    maps: list[BlockMap] = []

    def map_of(leaves: Block) -> int:
        nodes = (plan.nodes[plan.leaves[x]] for x in leaves)
        block = tuple(sorted(place[v] for node in nodes for v in node.columns))
        if not block and block not in found:  # of rank one: the constant tells it all
            found[block] = len(maps)
            maps.append(BlockMap((), (), np.zeros((0, 1)), np.ones((1, 1)), 1.0, "rbf"))
        if block not in found:
            dim = sum(columns[i].continuous for i in block)
            found[block] = len(maps)
            sigma = settings.sigma / max(dim, 1) ** 0.5  # make_map widens it again
            maps.append(
                make_map(
                    columns,
                    block,
                    sample,
                    sigma,
                    settings.smooth,
                    features=settings.features,
                    unequal=0.0,
                    cut=CUT,
                )
            )
        return found[block]

    inside, outside = {}, {}
    for k, node in enumerate(plan.nodes):
        if node.parent == k:
            continue
        alpha, beta = sides_of(plan, k, settings)
        inside[k] = map_of(alpha)
        if not node.is_leaf:
            outside[k] = map_of(beta)
    return _Maps(tuple(maps), inside, outside)


def _sum_sides(
    plan: Plan, columns: Sequence[Column], maps: _Maps, settings: PublishedKernel, rows: Rows
) -> Moments:
    """Pass 1: Σ w B Bᵀ; Σ w A Bᵀ over rows that have α; at leaves Σ w A Aᵀ and Σ w k(·, x) Aᵀ."""
    sums: dict[str, Array] = {}
    for part in row_chunks(len(rows), 2000):
        block = rows[part]
        z = coordinates(columns, block.codes)
        phi = [m(z) for m in maps.blocks]
        here = [present(m, z) for m in maps.blocks]
        w = block.weights
        for m in sorted({*maps.outside.values()}):
            add_to(sums, f"outside/{m}", (phi[m] * w) @ phi[m].T)
        for k, b in maps.outside.items():
            a = maps.inside[k]
            add_to(sums, f"across/{k}", (phi[a] * w * here[a]) @ phi[b].T)
            add_to(sums, f"weight/{k}", np.array([(w * here[a]).sum()]))
        for k in plan.leaves:
            a = maps.inside[k]
            A = phi[a] * here[a]
            K = kernel_table(plan, columns, k, block.codes, settings)
            add_to(sums, f"own/{k}", (A * w) @ A.T)
            add_to(sums, f"read/{k}", (K * w) @ A.T)
            add_to(sums, f"marginal/{k}", K @ w)
    return Moments("published sides", rows.total, len(rows), sums)


def _find_states(
    plan: Plan, maps: _Maps, pairs: Moments, ridges: tuple[float, float], most: int | None
) -> _States:
    """Stages 1A and 2's eigenproblem for every inner separator."""
    Q, V, strengths = {}, {}, {}
    for k, b in maps.outside.items():
        C = pairs.sums[f"outside/{b}"] / pairs.weight
        weight = float(pairs.sums[f"weight/{k}"][0])
        if not weight > 0:
            raise DataError("no row has values in all columns of a group; bring rows that have.")
        D = pairs.sums[f"across/{k}"].T / weight  # (b, a)
        solve = ridge_solver(C, ridges[0], SINGULAR)
        J, e, vectors = state_directions(C, D, solve)
        limit = plan.nodes[k].rank if ridges[1] == 0 else len(e)
        keep = min(limit, len(e) if most is None else most)
        good = (e > SINGULAR * e[-1]) & (np.arange(len(e)) >= len(e) - keep)
        e, vectors = e[good], vectors[:, good]
        Q[k] = np.ascontiguousarray(vectors.T)
        V[k] = np.ascontiguousarray((solve(C @ (J @ vectors)) / (e + ridges[1])).T)
        strengths[k] = e
    return _States(Q, V, strengths)


def _sum_products(
    plan: Plan, columns: Sequence[Column], maps: _Maps, states: _States, rows: Rows
) -> Moments:
    """Pass 2: Σ w f_a ⊗ f_b ⊗ η̃ over rows that have all of both."""
    sums: dict[str, Array] = {}
    widest = max(
        int(np.prod([_size(maps, states, c) for c in plan.nodes[k].children]))
        for k in {*plan.inner, *plan.roots}
    )
    for part in row_chunks(len(rows), widest):
        block = rows[part]
        z = coordinates(columns, block.codes)
        phi = [m(z) for m in maps.blocks]
        here = [present(m, z) for m in maps.blocks]
        w = block.weights
        for k in sorted({*plan.inner, *plan.roots}):
            children = plan.nodes[k].children
            there = w * np.prod([here[maps.inside[c]] for c in children], axis=0)
            f = [_state(maps, states, phi, c) for c in children]
            if k in states.V:
                f.append(states.V[k] @ phi[maps.outside[k]])
            add_to(sums, f"products/{k}", outer_sum(f, there))
            add_to(sums, f"present/{k}", np.array([there.sum()]))
    return Moments("published products", rows.total, len(rows), sums)


def _state(maps: _Maps, states: _States, phi: Sequence[Array], k: int) -> Array:
    A = phi[maps.inside[k]]
    return states.Q[k] @ A if k in states.Q else A


def _size(maps: _Maps, states: _States, k: int) -> int:
    return len(states.Q[k]) if k in states.Q else 2 * len(maps.blocks[maps.inside[k]].mixing)


def _leaf(pairs: Moments, k: int) -> Array:
    """Coefficients of k(x, ·) in A by least squares, (cells, features)."""
    C, R = pairs.sums[f"own/{k}"], pairs.sums[f"read/{k}"]
    return np.ascontiguousarray(R @ symmetric_inverse(C, SINGULAR))


def _marginal(plan: Plan, pairs: Moments, k: int) -> Array:
    found = pairs.sums[f"marginal/{k}"]
    if not found.sum() > 0:
        names = ", ".join(str(plan.graph.names[v]) for v in plan.nodes[k].columns)
        raise DataError(f"no row has a value in {names}. Drop the column from the graph.")
    return np.asarray(found / found.sum())
