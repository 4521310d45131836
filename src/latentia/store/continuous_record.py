"""What continuous columns add to a record: Gaussian leaves, smoothing, what answers lean on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.columns.continuous import ContinuousColumn
from latentia.errors import StoreError
from latentia.inference.linear_part import Linear, Slot
from latentia.inference.operators import Operators
from latentia.linear_algebra import eigh
from latentia.store.array_table import Name, Shape
from latentia.store.plain import items, number, whole
from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan
from latentia.typing import Array, Given

WIDEST_BLUR = 1e6
MOST_COMPONENTS = 2**10


# -- Gaussian leaves -------------------------------------------------------------------------------


def write_gaussians(operators: Operators) -> list[list[int]]:
    """[column, components] each; their arrays come in this order."""
    return [[v, leaf.shape[-2]] for v, leaf in sorted(operators.gaussians.items())]


def gaussian_shapes(record: object, plan: Plan) -> dict[Name, Shape]:
    """(parents …, components, 3) of each column."""
    graph, parents = plan.graph, plan.graph.parents()
    shapes: dict[Name, Shape] = {}
    for pair in items(record):
        v, components = items(pair, 2)
        column, count = whole(v, len(graph.names)), whole(components, MOST_COMPONENTS)
        if column in graph.latent or count < 1 or ("gaussian", column) in shapes:
            raise StoreError(f"expected another column and its components, got {pair!r:.80}.")
        above = (graph.states[u] or 1 for u in parents[column])
        shapes["gaussian", column] = (*above, count, 3)
    return shapes


def check_gaussians(
    leaves: Mapping[int, Array], graph: LatentGraph, columns: Sequence[Column]
) -> Mapping[int, Array]:
    """Leaves by column: weights that sum to one, means, positive variances.

    As many components for each part of a column, and one for each atom.
    """
    own = dict(zip(graph.observed, columns, strict=True))
    for v, leaf in leaves.items():
        column = own[v]
        if not isinstance(column, ContinuousColumn):
            raise StoreError(f"expected Gaussians of a continuous column, got {column.name!r:.80}.")
        inner, parts = leaf.shape[-2] - len(column.atoms), len(column.cuts) + 1
        if inner < parts or inner % parts:
            raise StoreError(
                f"expected components for {parts} parts and {len(column.atoms)} atoms of column "
                f"{column.name!r:.80}, got {leaf.shape[-2]}."
            )
        w, variance = leaf[..., 0], leaf[..., 2]
        fine = w.min() >= 0 and np.allclose(w.sum(axis=-1), 1.0, rtol=0, atol=1e-6)
        if not fine or not variance.min() > 0:
            raise StoreError("expected Gaussians with positive variances and weights of sum 1.")
    return leaves


# -- kernel embeddings -----------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class Smoothing:
    """Are leaves kept as they were before smoothing, by what are they smoothed, the floor, lean."""

    raw: bool = False
    blur: tuple[float, float] = (0.0, 0.0)
    floor: float = 0.0
    lean: float | None = None  # None: no covariances


def write_blur(operators: Operators) -> list[Given]:
    """[raw?, evidence, own, floor], and the lean where there is one (files of version 4)."""
    linear = operators.linear
    numbers = [*operators.blur, operators.floor] + ([] if linear is None else [linear.lean])
    return [bool(operators.raw), *map(float, numbers)]


def read_blur(record: object) -> Smoothing:
    if record is None:
        return Smoothing()
    raw, evidence, own, floor, *rest = items(record, 5 if len(items(record)) == 5 else 4)
    if type(raw) is not bool:
        raise StoreError(f"expected true or false for raw leaves, got {raw!r:.80}.")
    blur = (number(evidence, 0.0, WIDEST_BLUR), number(own, 0.0, WIDEST_BLUR))
    lean = number(rest[0], 0.0, 1.0) if rest else None
    return Smoothing(raw, blur, number(floor, 0.0, 1.0), lean)


def linear_shapes(slots: tuple[Slot, ...]) -> dict[Name, Shape]:
    """Of the means and covariances of all columns' coordinates."""
    size = sum(slot.size for slot in slots)
    return {("mean", 0): (size,), ("covariance", 0): (size, size)}


def read_linear(
    slots: tuple[Slot, ...], mean: Array, covariance: Array, weight: float, lean: float
) -> Linear:
    """Covariances that can be: symmetric, no eigenvalue clearly negative."""
    size = float(np.abs(covariance).max(initial=0.0))
    symmetric = np.abs(covariance - covariance.T).max(initial=0.0) <= 1e-9 * size
    if not symmetric or (eigh(covariance)[0] < -1e-6 * size).any():
        raise StoreError("expected covariances of columns, got a matrix that cannot be one.")
    return Linear(slots, mean, covariance, weight, lean)
