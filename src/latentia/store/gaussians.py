"""Gaussian leaves as JSON values and arrays: (parents …, components, 3) of a continuous column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from latentia.errors import StoreError
from latentia.features.continuous import Column, ContinuousColumn
from latentia.plan import Plan
from latentia.store.plain import items, whole
from latentia.typing import Array

__all__ = ["check_gaussian", "read_gaussians", "write_gaussians"]

MOST_COMPONENTS = 4096
FARTHEST = 1e9  # means, in steps of the grid
VARIANCES = (1e-18, 1e18)


def write_gaussians(leaves: Mapping[int, Array]) -> list[Any]:
    """[variable, components] of every leaf, by variable."""
    return [[v, int(leaves[v].shape[-2])] for v in sorted(leaves)]


def read_gaussians(
    record: Any, plan: Plan, columns: Sequence[Column]
) -> dict[int, tuple[int, ...]]:
    """The shape of every leaf, by variable."""
    graph, found = plan.graph, {}
    own = dict(zip(graph.observed, columns, strict=True))
    above = graph.parents()
    for entry in items(record):
        variable, count = items(entry, 2)
        v = whole(variable, len(graph.names))
        if v in found or not isinstance(own.get(v), ContinuousColumn):
            raise StoreError(f"expected a Gaussian leaf per continuous column, got {entry!r:.80}.")
        states = tuple(graph.states[u] or 1 for u in above[v])
        found[v] = (*states, whole(count, MOST_COMPONENTS, lowest=1), 3)
    if list(found) != sorted(found):
        raise StoreError("expected Gaussian leaves in the order of their variables.")
    return found


def check_gaussian(leaf: Array) -> Array:
    """Weights are probabilities, means and variances such that nothing overflows."""
    weights, means, variances = np.moveaxis(leaf, -1, 0)
    if weights.min() < 0 or np.abs(weights.sum(axis=-1) - 1).max() > 1e-6:
        raise StoreError("expected the weights of Gaussian components to be positive with sum 1.")
    inside = VARIANCES[0] <= variances.min() and variances.max() <= VARIANCES[1]
    if np.abs(means).max() > FARTHEST or not inside:
        raise StoreError("expected means and variances of Gaussian leaves on their grid.")
    return leaf
