"""The learning algorithm as published, with the slips put right (paper, section 4; design 3, 4.1).

θ^S is the joint indicator of the minimal core group α(S), η^S that of the instruments β(S). With
ridge in stage 1 everything is counts; with any other regressor stage 1 reads rows.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from latentia.closed_form.pairs import leaf_codes
from latentia.closed_form.published.stages import (
    Predictions,
    Solver,
    cross_fitted,
    stage_1,
    stage_2,
)
from latentia.data.moments import Moments
from latentia.data.rows import Rows, Source, block_codes
from latentia.errors import DataError, PlanError
from latentia.inference.operators import Operators, smooth_unseen
from latentia.inference.provenance import Provenance, SeparatorReport
from latentia.linear_algebra import Ridge, Solution, Truncated, pseudo_inverse
from latentia.structure.plan import Plan
from latentia.structure.sides import Block
from latentia.typing import Array, Codes, Foreign

LARGEST_TABLE = 2**26


def learn_as_published(
    plan: Plan,
    source: Source,
    ridge: tuple[float, float] | None = None,
    stage1: Foreign = None,
    folds: int = 5,
    seed: int = 0,
) -> Operators:
    """Steps 3 to 6 of the paper. `ridge` is (λ₁, λ₂) for moments divided by N, default (1/N, 10/N).

    λ₂ = 0 is the pseudo-inverse truncated at the rank of the separator, and leaves answers as they
    come out (no independence mixed in).
    """
    check_cores(plan)
    tables = source.fold(partial(sum_tables, plan))
    rows = None if stage1 is None else _rows_of(source)
    return solve_tables(plan, tables, ridge, rows, stage1, folds, seed)


def solve_tables(
    plan: Plan,
    tables: Moments,
    ridge: tuple[float, float] | None = None,
    rows: Rows | None = None,
    stage1: Foreign = None,
    folds: int = 5,
    seed: int = 0,
) -> Operators:
    """Steps 4 to 6, from the counts; with rows, stage 1 by any regressor."""
    N = tables.weight
    if not N > 0:
        raise DataError("there are no rows to learn from, or their weights are all zero.")
    marginals = [leaf_marginal(plan, k, tables) for k in plan.leaves]
    first, second = (1.0 / N, 10.0 / N) if ridge is None else ridge
    tensors, reports = {}, {}
    for k in plan.inner:
        solver: Solver = Ridge(second) if second > 0 else Truncated(plan.nodes[k].rank)
        if rows is None:
            found = stage_2(_from_counts(plan, k, tables, first), solver)
        else:
            found = stage_2(_from_rows(plan, k, rows, stage1, folds, seed), solver)
        tensors[k] = found.value.reshape(_shape(plan, k))
        reports[k] = _report(plan, k, found)
    for k in plan.roots:
        tensors[k] = leaf_shares(tables.sums[f"root/{k}"]).reshape(_shape(plan, k))
    leaves = []
    for mu in marginals:
        Phi = np.eye(len(mu))  # its column a is θ at state a: step 1 of the inference
        leaves.append(pseudo_inverse(Phi).T)
    mix = N**-0.5 if second > 0 else 0.0
    marginals = [smooth_unseen(mu, N) if mix > 0 else mu for mu in marginals]
    return Operators(
        plan,
        tuple(leaves),
        tensors,
        tuple(marginals),
        N,
        mix,
        provenance=Provenance(reports, tables),
    )


def check_cores(plan: Plan) -> None:
    """Joint indicators of few columns must reach the rank of every separator above a clique."""
    for k in plan.inner:
        node = plan.nodes[k]
        reached = min(node.inside.core_rank, node.outside.core_rank)
        if reached < node.rank:
            names = ", ".join(str(plan.graph.names[v]) for v in sorted(node.separator))
            raise PlanError(
                f"no core group small enough to count reaches rank {node.rank} of separator "
                f"{{{names}}} (got {reached}). Use PBP(), or give the latents fewer states."
            )


def leaf_marginal(plan: Plan, k: int, tables: Moments) -> Array:
    """P̂(x) of the leaf at node k."""
    counts = tables.sums[f"leaf/{k}"]
    if not counts.sum() > 0:
        names = ", ".join(str(plan.graph.names[v]) for v in plan.nodes[k].columns)
        raise DataError(f"no row has a value in {names}. Drop the column from the graph.")
    return np.asarray(counts / counts.sum(), dtype=float)


def core_of(plan: Plan, k: int) -> Block:
    """α(S) of node k; at a leaf the leaf itself, else equation (2) does not type-check."""
    node = plan.nodes[k]
    return (node.first,) if node.is_leaf else node.inside.core


def sum_tables(plan: Plan, rows: Rows) -> Moments:
    """Joint counts of (α, β), (κ, β) at every inner node, of ⊗ α at roots, and of every leaf."""
    leaves = leaf_codes(plan, rows)
    sums: dict[str, Array] = {}
    for k in plan.inner:
        beta = plan.nodes[k].outside.core
        kappa = child_cores(plan, k)
        sums[f"alpha/{k}"] = count_blocks(plan, leaves, (core_of(plan, k), beta), rows.weight)
        sums[f"kappa/{k}"] = count_blocks(plan, leaves, (*kappa, beta), rows.weight)
    for k in plan.roots:
        sums[f"root/{k}"] = count_blocks(plan, leaves, child_cores(plan, k), rows.weight)
    for k in plan.leaves:
        sums[f"leaf/{k}"] = count_blocks(plan, leaves, ((plan.nodes[k].first,),), rows.weight)
    return Moments(f"tables of plan {plan.fingerprint}", rows.total, len(rows), sums)


def child_cores(plan: Plan, k: int) -> tuple[Block, ...]:
    """α of every child: the blocks whose joint indicator is κ."""
    return tuple(core_of(plan, c) for c in plan.nodes[k].children)


def count_blocks(
    plan: Plan, leaves: list[Codes], blocks: tuple[Block, ...], weight: Array | None
) -> Array:
    """Weighted counts of the joint states of blocks, over the rows that have all of them."""
    sizes = plan.leaf_states()
    joint = tuple(x for block in blocks for x in block)
    cells = math.prod(sizes[x] for x in joint)
    if cells > LARGEST_TABLE:
        raise PlanError(
            f"the algorithm as published would count {cells:.1e} joint states "
            f"(at most {LARGEST_TABLE:.1e}). Use PBP(), whose tables stay small."
        )
    if not joint:
        total = len(leaves[0]) if weight is None else weight.sum()
        return np.asarray([float(total)])
    codes = block_codes(leaves, sizes, joint)
    there = codes >= 0
    counts = np.bincount(codes[there], None if weight is None else weight[there], cells)
    return counts.astype(float)


def _shape(plan: Plan, k: int) -> tuple[int, ...]:
    sizes = [plan.block_states(b) for b in child_cores(plan, k)]
    return (
        tuple(sizes) if plan.nodes[k].parent == k else (*sizes, plan.block_states(core_of(plan, k)))
    )


def _from_counts(plan: Plan, k: int, tables: Moments, ridge: float) -> Predictions:
    """Stage 1A and 1B by ridge: one prediction per value of the instruments."""
    states = plan.block_states(plan.nodes[k].outside.core)
    alpha, kappa = (tables.sums[f"{name}/{k}"].reshape(-1, states) for name in ("alpha", "kappa"))
    return Predictions(stage_1(leaf_shares(alpha), ridge), stage_1(leaf_shares(kappa), ridge))


def leaf_shares(counts: Array) -> Array:
    """Counts divided by their sum; there must be some."""
    if not counts.sum() > 0:
        raise DataError(
            "no row has all the columns of a core group and its instruments. "
            "Use PBP(), which needs pairs only."
        )
    return np.asarray(counts / counts.sum(), dtype=float)


def _rows_of(source: Source) -> Rows:
    rows = getattr(source, "rows", None)
    if not isinstance(rows, Rows):
        raise DataError(
            "a stage-1 regressor reads rows: bring them into memory, or use ridge (stage1=None)."
        )
    return rows


def _from_rows(
    plan: Plan, k: int, rows: Rows, estimator: Foreign, folds: int, seed: int
) -> Predictions:
    """Stage 1A and 1B by any regressor or classifier, cross-fitted."""
    sizes = plan.leaf_states()
    leaves = leaf_codes(plan, rows)
    beta = plan.nodes[k].outside.core
    kappa = tuple(x for block in child_cores(plan, k) for x in block)
    alpha = core_of(plan, k)
    codes = {b: _codes(leaves, sizes, b) for b in (alpha, beta, kappa)}
    there = np.logical_and.reduce([c >= 0 for c in codes.values()])
    weight = rows.weights
    weight = weight[there]
    root = np.sqrt(weight / weight.sum())[:, None]
    bars = [
        cross_fitted(
            estimator,
            codes[beta][there],
            codes[target][there],
            (plan.block_states(beta), plan.block_states(target)),
            weight,
            folds,
            seed,
        )
        for target in (alpha, kappa)
    ]
    return Predictions((bars[0] * root).T, (bars[1] * root).T)


def _codes(leaves: list[Codes], sizes: tuple[int, ...], block: Block) -> Codes:
    return block_codes(leaves, sizes, block) if block else np.zeros(len(leaves[0]), dtype=np.int64)


def _report(plan: Plan, k: int, found: Solution) -> SeparatorReport:
    return SeparatorReport(found.rank, plan.nodes[k].rank, (), found.condition)
