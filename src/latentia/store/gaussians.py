"""Gaussian leaves in records: which columns have them, and with how many components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from latentia.errors import StoreError
from latentia.inference.operators import Operators
from latentia.store.plain import items, whole
from latentia.structure.plan import Plan
from latentia.typing import Array

MOST_COMPONENTS = 2**10


def write_gaussians(operators: Operators) -> list[list[int]]:
    """[column, components] each; their arrays come in this order."""
    return [[v, leaf.shape[-2]] for v, leaf in sorted(operators.gaussians.items())]


def gaussian_shapes(record: Any, plan: Plan) -> list[tuple[int, ...]]:
    """(parents …, components, 3) of each column."""
    graph, parents = plan.graph, plan.graph.parents()
    shapes: list[tuple[int, ...]] = []
    for pair in items(record):
        v, components = items(pair, 2)
        column, count = whole(v, len(graph.names)), whole(components, MOST_COMPONENTS)
        if column in graph.latent or count < 1:
            raise StoreError(f"expected a column and its components, got {pair!r:.80}.")
        shapes.append((*(graph.states[u] or 1 for u in parents[column]), count, 3))
    return shapes


def read_gaussians(record: Any, arrays: Sequence[Array]) -> dict[int, Array]:
    """Leaves by column: weights that sum to one, means, positive variances."""
    found = {int(pair[0]): leaf for pair, leaf in zip(items(record), arrays, strict=True)}
    for leaf in found.values():
        w, variance = leaf[..., 0], leaf[..., 2]
        fine = w.min() >= 0 and np.allclose(w.sum(axis=-1), 1.0, rtol=0, atol=1e-6)
        if not fine or not variance.min() > 0:
            raise StoreError("expected Gaussians with positive variances and weights of sum 1.")
    return found
