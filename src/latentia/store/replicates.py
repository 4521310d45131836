"""Replicates of a jackknife in a model file: arrays of all of them, one upon the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from latentia.assess.jackknife import Replicates, node_ranks
from latentia.errors import StoreError
from latentia.inference.operators import Operators
from latentia.store.array_table import (
    LARGEST_NUMBER,
    Name,
    Shape,
    check_shares,
    check_sizes,
    of_kind,
    tree_shapes,
)
from latentia.store.plain import LARGEST_COUNT, fields, items, number, wholes
from latentia.structure.plan import Plan
from latentia.typing import Array

MOST_GROUPS = 10_000


def write_replicates(kept: Replicates) -> tuple[dict[str, Any], list[Array]]:
    """Ranks, weights and mixes; arrays (1 + G, …): the model of all rows first."""
    every = [kept.whole, *kept.without]
    if len(every) > MOST_GROUPS:
        raise StoreError(f"at most {MOST_GROUPS:,} groups of error bars are kept in a file.")
    record = {
        "ranks": node_ranks(kept.whole),
        "weights": [float(each.weight) for each in every],
        "mixes": [float(each.mix) for each in every],
    }
    parts = (
        [*each.leaves, *each.marginals, *(each.tensors[k] for k in sorted(each.tensors))]
        for each in every
    )
    return record, [np.stack(same) for same in zip(*parts, strict=True)]


def replicate_shapes(record: Any, plan: Plan) -> dict[Name, Shape]:
    """Of leaf tables, marginals and tensors, each with one axis for the replicates."""
    ranks, weights, _ = fields(record, "ranks", "weights", "mixes")
    count = len(items(weights))
    if not 3 <= count <= MOST_GROUPS:
        raise StoreError(f"expected 3 to {MOST_GROUPS:,} models of error bars, got {count:,}.")
    shapes = tree_shapes(plan, wholes(ranks, LARGEST_COUNT, lowest=1, length=len(plan.nodes)))
    return {(f"replicate {kind}", k): (count, *shape) for (kind, k), shape in shapes.items()}


def read_replicates(record: Any, plan: Plan, arrays: Mapping[Name, Array]) -> Replicates:
    """What `write_replicates` wrote, checked number by number."""
    _, weights, mixes = fields(record, "ranks", "weights", "mixes")
    count = len(items(weights))
    leaves, marginals, tensors = (
        of_kind(arrays, f"replicate {kind}") for kind in ("leaf", "marginal", "tensor")
    )
    check_sizes([*leaves.values(), *marginals.values(), *tensors.values()], "error bars")
    check_shares(marginals.values())

    def own(stacked: Mapping[int, Array], g: int) -> dict[int, Array]:
        return {k: np.ascontiguousarray(array[g]) for k, array in stacked.items()}

    whole, *without = (
        Operators(
            plan,
            tuple(own(leaves, g).values()),
            own(tensors, g),
            tuple(own(marginals, g).values()),
            number(weight, 0.0, LARGEST_NUMBER),
            number(mix, 0.0, 1.0),
        )
        for g, (weight, mix) in enumerate(
            zip(items(weights, count), items(mixes, count), strict=True)
        )
    )
    return Replicates(whole, tuple(without))
