"""Replicates of a jackknife in a model file: arrays of all of them, one upon the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from latentia.assess.jackknife import Replicates, node_ranks
from latentia.errors import StoreError
from latentia.inference.operators import Operators
from latentia.store.plain import LARGEST_COUNT, fields, items, number, wholes
from latentia.structure.plan import Plan
from latentia.typing import Array

MOST_GROUPS = 10_000
LARGEST_NUMBER = 1e100


def write_replicates(kept: Replicates) -> tuple[dict[str, Any], list[Array]]:
    """Ranks, weights and mixes; arrays (1 + G, …): the model of all rows first."""
    every = [kept.whole, *kept.without]
    if len(every) > MOST_GROUPS:
        raise StoreError(f"at most {MOST_GROUPS:,} groups of error bars are kept in a file.")
    plan = kept.whole.plan
    record = {
        "ranks": node_ranks(kept.whole),
        "weights": [float(each.weight) for each in every],
        "mixes": [float(each.mix) for each in every],
    }
    leaves = [np.stack([each.leaves[x] for each in every]) for x in range(len(plan.leaves))]
    shares = [np.stack([each.marginals[x] for each in every]) for x in range(len(plan.leaves))]
    nodes = sorted({*plan.inner, *plan.roots})
    tensors = [np.stack([each.tensors[k] for each in every]) for k in nodes]
    return record, [*leaves, *shares, *tensors]


def replicate_shapes(record: Any, plan: Plan) -> list[tuple[int, ...]]:
    """Of leaf tables, marginals and tensors, each with one axis for the replicates."""
    ranks, weights, _ = fields(record, "ranks", "weights", "mixes")
    count, states = len(items(weights)), plan.leaf_states()
    if not 3 <= count <= MOST_GROUPS:
        raise StoreError(f"expected 3 to {MOST_GROUPS:,} models of error bars, got {count:,}.")
    sizes = wholes(ranks, LARGEST_COUNT, lowest=1, length=len(plan.nodes))
    shapes = [(count, states[x], sizes[k]) for x, k in enumerate(plan.leaves)]
    found: list[tuple[int, ...]] = [*shapes, *((count, each) for each in states)]
    for k in sorted({*plan.inner, *plan.roots}):
        below = tuple(sizes[c] for c in plan.nodes[k].children)
        found.append((count, *below) if plan.nodes[k].parent == k else (count, *below, sizes[k]))
    return found


def read_replicates(record: Any, plan: Plan, arrays: Sequence[Array]) -> Replicates:
    """What `write_replicates` wrote, checked number by number."""
    _, weights, mixes = fields(record, "ranks", "weights", "mixes")
    count, n = len(items(weights)), len(plan.leaves)
    for array in arrays:
        if not (array.min() >= -LARGEST_NUMBER and array.max() <= LARGEST_NUMBER):
            raise StoreError(f"expected finite numbers up to {LARGEST_NUMBER:g} in error bars.")
    for mu in arrays[n : 2 * n]:
        if mu.min() < 0 or not np.allclose(mu.sum(axis=1), 1.0, rtol=0, atol=1e-6):
            raise StoreError("expected the probabilities of a column to be positive with sum 1.")
    nodes = sorted({*plan.inner, *plan.roots})
    whole, *without = (
        Operators(
            plan,
            tuple(np.ascontiguousarray(t[g]) for t in arrays[:n]),
            {k: np.ascontiguousarray(t[g]) for k, t in zip(nodes, arrays[2 * n :], strict=True)},
            tuple(np.ascontiguousarray(mu[g]) for mu in arrays[n : 2 * n]),
            number(weight, 0.0, LARGEST_NUMBER),
            number(mix, 0.0, 1.0),
        )
        for g, (weight, mix) in enumerate(
            zip(items(weights, count), items(mixes, count), strict=True)
        )
    )
    return Replicates(whole, tuple(without))
