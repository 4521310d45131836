"""Replicates of a jackknife in a model file: arrays of all of them, one upon the other."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from latentia.assess.jackknife import Replicates, node_ranks
from latentia.errors import StoreError
from latentia.inference.operators import Operators
from latentia.store.array_table import (
    LARGEST_NUMBER,
    Name,
    Shape,
    Written,
    check_shares,
    check_sizes,
    of_kind,
    tree_shapes,
)
from latentia.store.own_record import OWN, own_shapes, with_beside, with_own_tables
from latentia.store.plain import LARGEST_COUNT, fields, items, number, wholes
from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan
from latentia.typing import Array

MOST_GROUPS = 10_000
KINDS = ("tables", "network", "beside")  # where operators keep tables of the graph


def write_replicates(kept: Replicates) -> Written:
    """Ranks, weights and mixes; arrays (1 + G, …): the model of all rows first."""
    every = [kept.whole, *kept.without]
    if len(every) > MOST_GROUPS:
        raise StoreError(f"at most {MOST_GROUPS:,} groups of error bars are kept in a file.")
    record = {
        "ranks": node_ranks(kept.whole),
        "weights": [float(each.weight) for each in every],
        "mixes": [float(each.mix) for each in every],
    }
    tables = [_own(each) for each in every]
    if all(tables):
        record["own"] = _kind(kept.whole)
    parts = (
        [
            *each.leaves,
            *each.marginals,
            *(each.tensors[k] for k in sorted(each.tensors)),
            *(own[v] for v in sorted(own) if "own" in record),
        ]
        for each, own in zip(every, tables, strict=True)
    )
    return record, [np.stack(same) for same in zip(*parts, strict=True)]


def _kind(operators: Operators) -> str:
    """Where the tables of the graph are kept."""
    if operators.network is not None:
        return "network"
    return "tables" if operators.beside is None else "beside"


def _own(operators: Operators) -> Mapping[int, Array]:
    """Tables of the graph, by which latents are told; perhaps none."""
    kept = operators.network or operators.beside
    return operators.tables if kept is None else kept.tables


def _fields(record: object) -> tuple[object, object, object, str | None]:
    """Ranks, weights, mixes, and what kind of tables there are, in newer files."""
    more = ["own"] if isinstance(record, dict) and "own" in record else []
    ranks, weights, mixes, *kind = fields(record, "ranks", "weights", "mixes", *more)
    if kind and kind[0] not in KINDS:
        raise StoreError(f"expected tables of a kind among {list(KINDS)}, got {kind[0]!r:.80}.")
    return ranks, weights, mixes, kind[0] if kind else None


def replicate_shapes(record: object, plan: Plan, graph: LatentGraph) -> dict[Name, Shape]:
    """Of leaf tables, marginals, tensors and tables, each with one axis for the replicates."""
    ranks, weights, _, kind = _fields(record)
    count = len(items(weights))
    if not 3 <= count <= MOST_GROUPS:
        raise StoreError(f"expected 3 to {MOST_GROUPS:,} models of error bars, got {count:,}.")
    shapes = tree_shapes(plan, wholes(ranks, LARGEST_COUNT, lowest=1, length=len(plan.nodes)))
    if kind is not None:
        shapes = {**shapes, **own_shapes(graph)}
    return {(f"replicate {name}", k): (count, *shape) for (name, k), shape in shapes.items()}


def read_replicates(
    record: object, plan: Plan, graph: LatentGraph, arrays: Mapping[Name, Array]
) -> Replicates:
    """What `write_replicates` wrote, checked number by number; `graph`: that of its tables."""
    _, weights, mixes, kind = _fields(record)
    count = len(items(weights))
    leaves, marginals, tensors = (
        of_kind(arrays, f"replicate {kind}") for kind in ("leaf", "marginal", "tensor")
    )
    check_sizes([*leaves.values(), *marginals.values(), *tensors.values()], "error bars")
    check_shares(marginals.values())

    def own(stacked: Mapping[int, Array], g: int) -> dict[int, Array]:
        return {k: np.ascontiguousarray(array[g]) for k, array in stacked.items()}

    tables = of_kind(arrays, f"replicate {OWN}")
    whole, *without = (
        _with_tables(
            Operators(
                plan,
                tuple(own(leaves, g).values()),
                own(tensors, g),
                tuple(own(marginals, g).values()),
                number(weight, 0.0, LARGEST_NUMBER),
                number(mix, 0.0, 1.0),
                tables=own(tables, g) if kind == "tables" else {},
            ),
            kind,
            graph,
            {(OWN, v): table for v, table in own(tables, g).items()},
        )
        for g, (weight, mix) in enumerate(
            zip(items(weights, count), items(mixes, count), strict=True)
        )
    )
    return Replicates(whole, tuple(without))


def _with_tables(
    operators: Operators, kind: str | None, graph: LatentGraph, arrays: Mapping[Name, Array]
) -> Operators:
    if kind == "network":
        return with_own_tables(operators, graph, arrays)
    return with_beside(operators, graph, arrays, OWN) if kind == "beside" else operators
