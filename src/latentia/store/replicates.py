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


def write_replicates(kept: Replicates, own: bool) -> tuple[dict[str, Any], list[Array]]:
    """Ranks, weights and mixes; arrays (1 + G, …): the model of all rows first.

    Tables are kept where they are the user's `own`: effects have intervals by them.
    """
    every = [kept.whole, *kept.without]
    if len(every) > MOST_GROUPS:
        raise StoreError(f"at most {MOST_GROUPS:,} groups of error bars are kept in a file.")
    record = {
        "ranks": node_ranks(kept.whole),
        "weights": [float(each.weight) for each in every],
        "mixes": [float(each.mix) for each in every],
    }
    tables = own and bool(kept.whole.tables)
    if tables:
        record["tables"] = True
    parts = (
        [
            *each.leaves,
            *each.marginals,
            *(each.tensors[k] for k in sorted(each.tensors)),
            *(each.tables[v] for v in sorted(each.tables) if tables),
        ]
        for each in every
    )
    return record, [np.stack(same) for same in zip(*parts, strict=True)]


def replicate_shapes(record: Any, plan: Plan) -> dict[Name, Shape]:
    """Of leaf tables, marginals, tensors and CPTs, each with one axis for the replicates."""
    ranks, weights, _, tables = _parts(record)
    count = len(items(weights))
    if not 3 <= count <= MOST_GROUPS:
        raise StoreError(f"expected 3 to {MOST_GROUPS:,} models of error bars, got {count:,}.")
    shapes = tree_shapes(plan, wholes(ranks, LARGEST_COUNT, lowest=1, length=len(plan.nodes)))
    found = {(f"replicate {kind}", k): (count, *shape) for (kind, k), shape in shapes.items()}
    if tables:
        if not plan.graph.directed:
            raise StoreError("expected no tables in the error bars of an undirected graph.")
        for v, above in enumerate(plan.graph.parents()):
            sizes = (plan.graph.states[u] or 1 for u in (*above, v))
            found["replicate table", v] = (count, *sizes)
    return found


def _parts(record: Any) -> tuple[Any, Any, Any, bool]:
    """Ranks, weights, mixes, and whether there are tables."""
    names = ["ranks", "weights", "mixes"]
    if not isinstance(record, dict) or "tables" not in record:
        return *fields(record, *names), False
    *found, tables = fields(record, *names, "tables")
    if tables is not True:
        raise StoreError(f"expected true for tables of error bars, got {tables!r:.80}.")
    return found[0], found[1], found[2], True


def read_replicates(record: Any, plan: Plan, arrays: Mapping[Name, Array]) -> Replicates:
    """What `write_replicates` wrote, checked number by number."""
    _, weights, mixes, _ = _parts(record)
    count = len(items(weights))
    leaves, marginals, tensors, tables = (
        of_kind(arrays, f"replicate {kind}") for kind in ("leaf", "marginal", "tensor", "table")
    )
    check_sizes([*leaves.values(), *marginals.values(), *tensors.values()], "error bars")
    check_shares(tables.values())
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
            own(tables, g),
        )
        for g, (weight, mix) in enumerate(
            zip(items(weights, count), items(mixes, count), strict=True)
        )
    )
    return Replicates(whole, tuple(without))
