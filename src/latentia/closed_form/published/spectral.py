"""The spectral algorithm for latent junction trees (Parikh et al. 2012; design 9).

The observable representation, just identified: W = C_κη (Uᵀ C_θη)⁺ with U the leading left singular
vectors of C_θη, ranks as given, no ridge. Several outside columns are stacked in one least squares.
It is one setting of the algebra of `two_stage_tables`: the same core groups, counts and messages.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from latentia.closed_form.pairs import leaf_codes
from latentia.closed_form.published.two_stage_tables import (
    check_cores,
    child_cores,
    core_of,
    count_blocks,
    leaf_marginal,
    leaf_shares,
)
from latentia.data.moments import Moments
from latentia.data.rows import Rows, Source
from latentia.errors import DataError
from latentia.inference.operators import Operators, smooth_unseen
from latentia.inference.provenance import Provenance, SeparatorReport
from latentia.linear_algebra import Truncated, svd
from latentia.structure.plan import Plan
from latentia.structure.sides import Block
from latentia.typing import Array


def learn_spectral(plan: Plan, source: Source, repair: bool = True) -> Operators:
    """Operators in the coordinates Uᵀθ; `repair` mixes in independence as other learners do."""
    check_cores(plan)
    return solve_stacked(plan, source.fold(partial(sum_stacked, plan)), repair)


def solve_stacked(plan: Plan, tables: Moments, repair: bool = True) -> Operators:
    """Operators from the counts."""
    N = tables.weight
    if not N > 0:
        raise DataError("there are no rows to learn from, or their weights are all zero.")
    marginals = [leaf_marginal(plan, k, tables) for k in plan.leaves]
    U = {
        k: _leading(_stacked(plan, tables, "alpha", k), node.rank)
        for k, node in enumerate(plan.nodes)
        if node.parent != k
    }
    tensors, reports = {}, {}
    for k in plan.inner:
        below = _projected(plan, k, _stacked(plan, tables, "kappa", k), U)  # (r_1 r_2, η)
        found = Truncated(cut=1e-14)(U[k].T @ _stacked(plan, tables, "alpha", k), below)
        shape = [U[c].shape[1] for c in plan.nodes[k].children]
        tensors[k] = found.value.reshape([*shape, U[k].shape[1]])
        reports[k] = SeparatorReport(found.rank, plan.nodes[k].rank, (), found.condition)
    for k in plan.roots:
        joint = leaf_shares(tables.sums[f"root/{k}"])[:, None]
        shape = [U[c].shape[1] for c in plan.nodes[k].children]
        tensors[k] = _projected(plan, k, joint, U).reshape(shape)
    leaves = tuple(U[k].copy() for k in plan.leaves)  # P(x | Ω) = U[x] Uᵀ E[φ | Ω]
    mix = N**-0.5 if repair else 0.0
    marginals = [smooth_unseen(mu, N) if repair else mu for mu in marginals]
    return Operators(
        plan, leaves, tensors, tuple(marginals), N, mix, provenance=Provenance(reports, tables)
    )


def sum_stacked(plan: Plan, rows: Rows) -> Moments:
    """Joint counts of α and of κ with every outside block, of the root's cores, of every leaf."""
    leaves = leaf_codes(plan, rows)
    sums: dict[str, Array] = {}
    for k, node in enumerate(plan.nodes):
        if node.parent == k:
            sums[f"root/{k}"] = count_blocks(plan, leaves, child_cores(plan, k), rows.weight)
            continue
        for i, outside in enumerate(_outside(plan, k)):
            alpha = (core_of(plan, k), outside)
            sums[f"alpha/{k}/{i}"] = count_blocks(plan, leaves, alpha, rows.weight)
            if node.children:
                kappa = (*child_cores(plan, k), outside)
                sums[f"kappa/{k}/{i}"] = count_blocks(plan, leaves, kappa, rows.weight)
    for k in plan.leaves:
        own = ((plan.nodes[k].first,),)
        sums[f"leaf/{k}"] = count_blocks(plan, leaves, own, rows.weight)
    return Moments(f"stacked tables of plan {plan.fingerprint}", rows.total, len(rows), sums)


def _outside(plan: Plan, k: int) -> tuple[Block, ...]:
    """The minimal instruments, and every other near column on its own."""
    side = plan.nodes[k].outside
    return (side.core, *(b for b in side.wide if len(b) == 1 and b != side.core))


def _stacked(plan: Plan, tables: Moments, name: str, k: int) -> Array:
    """P̂(t, η) for all outside blocks side by side: (states of t, states of all η)."""
    parts = []
    for i, outside in enumerate(_outside(plan, k)):
        counts = tables.sums[f"{name}/{k}/{i}"].reshape(-1, plan.block_states(outside))
        parts.append(counts / max(float(counts.sum()), 1e-300))
    return np.concatenate(parts, axis=1)


def _leading(C: Array, rank: int) -> Array:
    """The `rank` leading left singular vectors, all of them however small (ranks are given)."""
    u, _, _ = svd(C)
    return np.asarray(u[:, :rank], dtype=float)


def _projected(plan: Plan, k: int, table: Array, U: dict[int, Array]) -> Array:
    """(U_1 ⊗ U_2 ⊗ …)ᵀ applied to the first axis of a table over κ."""
    big: Array = np.ones((1, 1))
    for c in plan.nodes[k].children:
        big = np.asarray(np.kron(big, U[c]), dtype=float)
    return big.T @ table
