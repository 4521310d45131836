"""Where the refinement starts: soft separator states of a few thousand rows (design 4.3, step 2).

The canonical variates of a separator, inside and outside, are two noisy views of its state; their
shared part z is clustered, and each row belongs to the clusters by exp(-distance² / 2s²). Products
of these memberships, summed over rows, are the first tables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from latentia.basis import Basis, Values
from latentia.moments import Rows
from latentia.positive import PositiveNetwork
from latentia.typing import Array

__all__ = ["cluster_distances", "first_counts", "memberships", "shared_parts"]

LLOYD = 5
CLUSTERED = 1000  # points that find the centres


def first_counts(
    network: PositiveNetwork, soft: Mapping[int, Array], rows: Rows
) -> dict[int, Array]:
    """Σ w ⊗ memberships for every family of the network: variable -> (parents …, itself)."""
    graph = network.graph
    columns = {graph.names[v]: i for i, v in enumerate(graph.observed)}
    marks: dict[int, Array] = {}
    for v, name in enumerate(graph.names):
        if v in graph.latent:
            marks[v] = soft[v]
        else:
            codes = rows.codes[columns[name]]
            marks[v] = (codes == np.arange(graph.states[v] or 1)[:, None]).astype(float)
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    return {
        v: _joint([marks[u] for u in (*above, v)], weight)
        for v, above in enumerate(graph.parents())
    }


def _joint(marks: list[Array], weight: Array) -> Array:
    """Σ_n w_n a_n ⊗ b_n ⊗ …: (states of a, states of b, …)."""
    left = marks[0] * weight
    for m in marks[1:-1]:
        left = (left[:, None, :] * m[None, :, :]).reshape(-1, m.shape[1])
    shape = [len(m) for m in marks]
    total = left @ marks[-1].T if len(marks) > 1 else left.sum(axis=1)
    return np.asarray(total, dtype=float).reshape(shape)


def shared_parts(basis: Basis, network: PositiveNetwork, values: Values) -> dict[int, Array]:
    """What inside and outside tell alike of each latent's state, row by row: (n, r - 1)."""
    found = {}
    for name, k in network.node_of.items():
        v = network.graph.index(name)
        p_a, p_b = basis.features[k]
        noise = (math.sqrt(p_a) + math.sqrt(p_b)) ** 2 / basis.weights[k]
        d = np.minimum(basis.correlations[k], 0.999)
        d = np.sqrt(np.maximum(d**2 - noise / 2, 1e-4))
        shared = (values.theta[k][1:] + values.eta[k][1:]) * (np.sqrt(d) / (1 + d))[:, None]
        found[v] = shared.T
    return found


def memberships(
    network: PositiveNetwork,
    parts: Mapping[int, Array],
    rows: Rows,
    rng: np.random.Generator | None = None,
) -> dict[int, Array]:
    """Soft states of every latent of the network: (states, n), columns summing to one.

    Clusters grow from the most extreme rows; with `rng`, from random ones that lie far apart.
    """
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    states = network.graph.states
    return {v: _soft_clusters(Z, weight, states[v] or 1, rng) for v, Z in parts.items()}


def _soft_clusters(Z: Array, weight: Array, states: int, rng: np.random.Generator | None) -> Array:
    """Memberships of points (n, dimensions) in `states` clusters: (states, n)."""
    if states == 1 or Z.shape[1] == 0:
        return np.full((states, len(Z)), 1.0 / states)
    distance = cluster_distances(Z, weight, states, rng)
    nearest = distance.min(axis=1, keepdims=True)
    spread = float((weight @ nearest[:, 0]) / weight.sum()) / Z.shape[1] + 1e-9
    soft = np.exp(-(distance - nearest) / (2 * spread))
    return np.asarray((soft / soft.sum(axis=1, keepdims=True)).T, dtype=float)


def cluster_distances(
    Z: Array, weight: Array, count: int, rng: np.random.Generator | None = None
) -> Array:
    """Squared distances of points (n, dimensions) from the centres that k-means finds: (n, count).

    A part of the points is enough to find them.
    """
    step = max(1, len(Z) // CLUSTERED)
    some, own_weight = Z[::step], weight[::step]
    seeds = (
        _extreme_points(some, count) if rng is None else _far_points(some, own_weight, count, rng)
    )
    centres = some[seeds]
    for _ in range(LLOYD):
        own = np.eye(count)[_distances(some, centres).argmin(axis=1)] * own_weight[:, None]
        size = own.sum(axis=0)
        moved = (own.T @ some) / np.maximum(size, 1e-9)[:, None]
        moved[size == 0] = centres[size == 0]
        centres = moved
    return _distances(Z, centres)


def _extreme_points(Z: Array, count: int) -> list[int]:
    """Successive projection: rows of [1, Z] that stand out most, one after the other."""
    scale = float(np.median(np.linalg.norm(Z, axis=1)))
    R = np.column_stack([np.full(len(Z), scale), Z])
    chosen: list[int] = []
    for _ in range(count):
        i = int((R**2).sum(axis=1).argmax())
        chosen.append(i)
        direction = R[i] / max(float(np.linalg.norm(R[i])), 1e-12)
        R = R - np.outer(R @ direction, direction)
    return chosen


def _far_points(Z: Array, weight: Array, count: int, rng: np.random.Generator) -> list[int]:
    """Random points, each drawn by its squared distance from those before (k-means++)."""
    chosen = [int(rng.choice(len(Z), p=weight / weight.sum()))]
    for _ in range(count - 1):
        far = weight * np.maximum(_distances(Z, Z[chosen]).min(axis=1), 0)
        p = far / far.sum() if far.sum() > 0 else weight / weight.sum()
        chosen.append(int(rng.choice(len(Z), p=p)))
    return chosen


def _distances(Z: Array, centres: Array) -> Array:
    """Squared distances: (n, centres)."""
    cross = Z @ centres.T
    squares = (Z**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1)
    return np.asarray(squares - 2 * cross, dtype=float)
