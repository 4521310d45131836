"""The whole road in closed form: two passes over the rows, four on loops (design 4.2).

    pairs ─> canonical basis (─> sharpened, where separators need it) ─> products ─> operators

`regularize=False` switches every shrinkage off: then exact moments give exact answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np

from latentia.closed_form.basis import Basis, canonical_basis
from latentia.closed_form.evaluating import evaluator, leaf_coordinates
from latentia.closed_form.pairs import PairLayout, pair_layout, sum_pairs
from latentia.closed_form.sharpen import needs_sharpening, sharpen
from latentia.closed_form.windows import product_windows, window_products, window_sums
from latentia.data.moments import Moments, outer_sum
from latentia.data.rows import Rows, Source, row_chunks
from latentia.errors import DataError
from latentia.inference.operators import Operators, smooth_unseen
from latentia.inference.provenance import Provenance, SeparatorReport
from latentia.linear_algebra import one_thread
from latentia.structure.plan import Plan
from latentia.typing import Array


@final
@dataclass(frozen=True, slots=True)
class Statistics:
    """What the first passes tell: pair counts, and the coordinates found from them."""

    layout: PairLayout
    pairs: Moments
    basis: Basis


def learn_closed_form(plan: Plan, source: Source, regularize: bool = True) -> Operators:
    """Learn operators from a source that can be read several times."""
    return finish_closed_form(gather_statistics(plan, source, regularize), source, regularize)


def gather_statistics(plan: Plan, source: Source, regularize: bool = True) -> Statistics:
    """All passes but the last."""
    layout = pair_layout(plan)
    pairs = source.fold(partial(sum_pairs, layout))  # pass 1
    if not pairs.weight > 0:
        raise DataError("there are no rows to learn from, or their weights are all zero.")
    with one_thread():
        basis = canonical_basis(layout, pairs, regularize)
    if needs_sharpening(plan):
        basis = sharpen(layout, basis, source, regularize)
    return Statistics(layout, pairs, basis)


def finish_closed_form(found: Statistics, source: Source, regularize: bool = True) -> Operators:
    """The last pass, and operators from it."""
    layout, basis = found.layout, found.basis
    if basis.rounds:
        products = source.fold(partial(sum_products, layout, basis))
    else:
        windows = product_windows(layout, basis)
        products = window_products(windows, source.fold(partial(window_sums, windows)))
    return solve_operators(layout, basis, found.pairs, products, regularize)


def sum_products(layout: PairLayout, basis: Basis, rows: Rows) -> Moments:
    """Pass 2: Σ w θ_1 ⊗ θ_2 ⊗ η at every inner node, Σ w ⊗ θ at roots; through any rounds."""
    plan = layout.plan
    nodes = sorted({*plan.inner, *plan.roots})
    sums: dict[str, Array] = {}
    width = max(map(layout.width, range(len(layout.spans)))) + 2 * sum(
        basis.size(k) for k in range(len(plan.nodes))
    )
    evaluate = evaluator(layout, basis)
    for part in row_chunks(len(rows), width):
        block = rows[part]
        values = evaluate(block)
        for k in nodes:
            factors = [values.theta[c] for c in plan.nodes[k].children]
            factors += [values.eta[k]] if plan.nodes[k].parent != k else []
            total = outer_sum(factors, block.weight)
            sums[f"products/{k}"] = sums.get(f"products/{k}", 0.0) + total
    kind = f"products of plan {plan.fingerprint} in basis {basis.fingerprint}"
    return Moments(kind, rows.total, len(rows), sums)


def solve_operators(
    layout: PairLayout, basis: Basis, pairs: Moments, products: Moments, regularize: bool
) -> Operators:
    """W = E[θ_1 ⊗ θ_2 ⊗ η] · g, with g ≈ 1/d tempered by its noise."""
    plan, N = layout.plan, pairs.weight
    tensors, reports = {}, {}
    for k in sorted({*plan.inner, *plan.roots}):
        M = constant_exact(products.sums[f"products/{k}"] / N)
        if regularize:
            M = shrink_products(M, N)
        if plan.nodes[k].parent != k:
            M = M * _gain(basis, k, regularize)
        tensors[k] = M
    marginals = []
    leaves = []
    for k, mu in zip(plan.leaves, leaf_marginals(layout, pairs), strict=True):
        mu = smooth_unseen(mu, N) if regularize else mu
        coordinates = leaf_coordinates(plan, basis, k)
        leaves.append(mu[:, None] * np.column_stack([np.ones(len(mu)), coordinates]))
        marginals.append(mu)
    for k, node in enumerate(plan.nodes):
        if node.parent != k:
            d = basis.correlations[k]
            condition = float(1.0 / d[-1]) if len(d) else 1.0
            reports[k] = SeparatorReport(1 + len(d), node.rank, tuple(map(float, d)), condition)
    mix = N**-0.5 if regularize else 0.0
    return Operators(
        plan,
        tuple(leaves),
        tensors,
        tuple(marginals),
        N,
        mix,
        provenance=Provenance(reports, pairs),
    )


def _own(layout: PairLayout, leaf: int) -> tuple[slice, slice]:
    node = layout.plan.nodes[leaf]
    span = layout.span(layout.panel_of[leaf], (node.first,))
    return span, span


def leaf_marginals(layout: PairLayout, pairs: Moments) -> list[Array]:
    """P̂(x) of every leaf, over the rows where it is present: (states,) each."""
    found = []
    for k in layout.plan.leaves:
        counts = np.diagonal(pairs.sums[f"pairs/{layout.panel_of[k]}"][_own(layout, k)])
        found.append(np.asarray(counts / counts.sum(), dtype=float))
    return found


def constant_exact(M: Array) -> Array:
    """Entries with at most one coordinate beside the constant are means: 1 and 0, exactly."""
    M = M.copy()
    for axis in range(M.ndim):
        index: list[int | slice] = [0] * M.ndim
        index[axis] = slice(None)
        M[tuple(index)] = 0.0
    M[(0,) * M.ndim] = 1.0
    return M


def shrink_products(M: Array, N: float) -> Array:
    """Every entry but the constant one: M ← M · M² / (M² + 2/N)."""
    shrunk = M * M**2 / (M**2 + 2.0 / N)
    shrunk[(0,) * M.ndim] = M[(0,) * M.ndim]
    return shrunk


def _gain(basis: Basis, k: int, regularize: bool) -> Array:
    """g = d / (d² + ν²/2), ν = (√p_α + √p_β) / √N; 1 for the constant."""
    d = basis.correlations[k]
    if not regularize:
        return np.concatenate([[1.0], 1.0 / d])
    p_a, p_b = basis.features[k]
    noise = (np.sqrt(p_a) + np.sqrt(p_b)) ** 2 / basis.weights[k]
    return np.concatenate([[1.0], d / (d**2 + noise / 2)])
