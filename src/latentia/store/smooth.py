"""Continuous columns in records: their grids, and what operators keep for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields as fields_of
from typing import Any, TypeAlias

import numpy as np

from latentia.errors import StoreError
from latentia.features.continuous import Column, ContinuousColumn
from latentia.features.discrete import DiscreteColumn
from latentia.operators import Operators
from latentia.plan import Plan
from latentia.store.plain import fields, items, number, pack, unpack, whole, wholes
from latentia.typing import Array

__all__ = [
    "read_column",
    "read_smooth",
    "smooth_arrays",
    "smooth_shapes",
    "write_column",
    "write_smooth",
]

Shape: TypeAlias = tuple[int, ...]

LARGEST_NUMBER = 1e100
MOST_POINTS = 2**20
MOST_COMPONENTS = 2**10
GRID = tuple(f.name for f in fields_of(ContinuousColumn) if f.name != "name")


def write_column(column: Column) -> Any:
    """States as a list; a grid as an object."""
    if isinstance(column, DiscreteColumn):
        what = f"a state of column {column.name!r}"
        return [pack(state, what) for state in column.states]
    values = {name: getattr(column, name) for name in GRID}
    return {**values, "atoms": [float(a) for a in column.atoms]}


def read_column(name: Any, record: Any, count: int | None) -> Column:
    """The column called `name`, which has `count` states or cells."""
    column: Column
    if isinstance(record, dict):
        given = dict(zip(GRID, fields(record, *GRID), strict=True))
        if type(given["warped"]) is not bool:
            raise StoreError(f"expected true or false for warped, got {given['warped']!r:.80}.")
        atoms = tuple(number(a, -LARGEST_NUMBER, LARGEST_NUMBER) for a in items(given["atoms"]))
        plain = ("centre", "scale", "low", "high", "spread")
        column = ContinuousColumn(
            name=name,
            warped=given["warped"],
            points=whole(given["points"], MOST_POINTS),
            atoms=atoms,
            **{k: number(given[k], -LARGEST_NUMBER, LARGEST_NUMBER) for k in plain},
        )
        found = column.cells
    else:
        column = DiscreteColumn(name, tuple(unpack(state) for state in items(record)))
        found = len(column.states)
    if found != count:
        raise StoreError(f"expected {count} states of column {name!r:.80}, got {found}.")
    return column


def write_smooth(operators: Operators) -> dict[str, Any]:
    """Fields that only continuous columns need, in files of version 4."""
    if not operators.targets and not operators.gaussians and operators.blur == (0.0, 0.0):
        return {}
    return {
        "smooth": {
            "blur": [float(b) for b in operators.blur],
            "floor": float(operators.floor),
            "targets": sorted(operators.targets),
            "gaussians": [[v, x.shape[-2]] for v, x in sorted(operators.gaussians.items())],
        }
    }


def smooth_arrays(operators: Operators) -> list[Array]:
    """In the order in which `smooth_shapes` has their shapes."""
    return [
        *(operators.targets[v] for v in sorted(operators.targets)),
        *(operators.gaussians[v] for v in sorted(operators.gaussians)),
    ]


def smooth_shapes(record: Any, plan: Plan, leaves: Sequence[Shape]) -> list[Shape]:
    """Of the targets, each like its leaf, and of the Gaussian leaves."""
    _, _, targets, gaussians = fields(record, "blur", "floor", "targets", "gaussians")
    graph, count = plan.graph, len(plan.graph.names)
    home = {v: x for x, k in enumerate(plan.leaves) for v in plan.nodes[k].columns}
    shapes: list[Shape] = []
    for v in wholes(targets, count):
        if v not in home:
            raise StoreError(f"expected the number of a column, got {v}.")
        shapes.append(leaves[home[v]])
    parents = graph.parents()
    for pair in items(gaussians):
        v, components = items(pair, 2)
        above = parents[whole(v, count)]
        size = whole(components, MOST_COMPONENTS)
        if v not in home or size < 1:
            raise StoreError(f"expected a column and its components, got {pair!r:.80}.")
        shapes.append((*(graph.states[u] or 1 for u in above), size, 3))
    return shapes


def read_smooth(record: Any, arrays: Sequence[Array]) -> dict[str, Any]:
    """Fields of `Operators`, given the arrays of `smooth_shapes`."""
    blur, floor, targets, gaussians = fields(record, "blur", "floor", "targets", "gaussians")
    count = len(items(targets))
    leaves = {pair[0]: x for pair, x in zip(gaussians, arrays[count:], strict=True)}
    for leaf in leaves.values():
        w = leaf[..., 0]
        if (
            w.min() < 0
            or not np.allclose(w.sum(axis=-1), 1.0, atol=1e-6)
            or leaf[..., 2].min() <= 0
        ):
            raise StoreError("expected Gaussians with positive variances and weights of sum 1.")
    return {
        "blur": tuple(number(b, 0.0, LARGEST_NUMBER) for b in items(blur, 2)),
        "floor": number(floor, 0.0, 1.0),
        "targets": dict(zip(targets, arrays[:count], strict=True)),
        "gaussians": leaves,
    }
