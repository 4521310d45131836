"""Where the refinement starts: soft separator states of a few thousand rows (design 4.3, step 2).

The canonical variates of a separator, inside and outside, are two noisy views of its state; their
shared part z is clustered, and each row belongs to the clusters by exp(-distance² / 2s²). Products
of these memberships, summed over rows, are the first tables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from latentia.closed_form.basis import Basis
from latentia.closed_form.evaluating import FeatureValues
from latentia.data.rows import Rows
from latentia.networks.k_means import cluster_all
from latentia.structure.state_network import PositiveNetwork
from latentia.typing import Array


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
    weight = rows.weights
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


def shared_parts(basis: Basis, network: PositiveNetwork, values: FeatureValues) -> dict[int, Array]:
    """What inside and outside tell alike of each latent's state, row by row: (r - 1, n)."""
    found = {}
    for name, k in network.node_of.items():
        v = network.graph.index(name)
        p_a, p_b = basis.features[k]
        noise = (math.sqrt(p_a) + math.sqrt(p_b)) ** 2 / basis.weights[k]
        d = np.minimum(basis.correlations[k], 0.999)
        d = np.sqrt(np.maximum(d**2 - noise / 2, 1e-4))
        found[v] = (values.theta[k][1:] + values.eta[k][1:]) * (np.sqrt(d) / (1 + d))[:, None]
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
    weight = rows.weights
    states = {v: network.graph.states[v] or 1 for v in parts}
    told = [v for v, Z in parts.items() if len(Z) > 0 and states[v] > 1]
    clouds, counts = [parts[v] for v in told], [states[v] for v in told]
    distances = dict(zip(told, cluster_all(clouds, weight, counts, rng), strict=True))
    return {
        v: _softened(distances[v], weight, len(parts[v]))
        if v in distances
        else np.full((states[v], len(rows)), 1.0 / states[v])
        for v in parts
    }


def _softened(distance: Array, weight: Array, dimensions: int) -> Array:
    """Shares of clusters from squared distances: (clusters, n)."""
    nearest = distance.min(axis=0)
    spread = float((weight @ nearest) / weight.sum()) / dimensions + 1e-9
    soft = np.exp((nearest - distance) / (2 * spread))
    return np.asarray(soft / soft.sum(axis=0), dtype=float)
