"""Rows drawn from tables: each variable given its parents, or clique by clique down a tree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from latentia.exact.reading_evidence import StateCodes
from latentia.exact.shafer_shenoy import (
    FactorNetwork,
    Scope,
    axes_without,
    collect_evidence,
    shares,
)
from latentia.structure.graph import LatentGraph
from latentia.typing import Array


def draw_rows(
    graph: LatentGraph, tables: Mapping[int, Array], n: int, rng: np.random.Generator
) -> StateCodes:
    """Each variable given its parents, parents first: (n, variables)."""
    codes = np.zeros((n, len(graph.names)), dtype=np.int64)
    states = [count or 1 for count in graph.states]
    parents = graph.parents()
    waiting = [len(above) for above in parents]
    below: list[list[int]] = [[] for _ in graph.names]
    for a, b in graph.edges:
        below[a].append(b)
    ready = [v for v, count in enumerate(waiting) if count == 0]
    for v in ready:
        given = _flat(codes, parents[v], states)
        codes[:, v] = _draw(tables[v].reshape(-1, states[v]), given, rng)
        for child in below[v]:
            waiting[child] -= 1
            if waiting[child] == 0:
                ready.append(child)
    return codes


def sample_tree(
    network: FactorNetwork, states: Sequence[int], n: int, rng: np.random.Generator
) -> StateCodes:
    """Each clique given what it shares with its parent, from the roots down."""
    codes = np.zeros((n, len(states)), dtype=np.int64)
    inbox, _ = collect_evidence(network, {})
    for i in network.order:
        clique, up = network.cliques[i], network.parent[i]
        shared = tuple(v for v in clique if up != i and v in network.cliques[up])
        fresh = tuple(v for v in clique if v not in shared)
        inside = sum(inbox[i].values(), network.psi[i])  # (states …, 1)
        table = shares(inside, axes_without(clique, shared))[..., 0]
        ordered = table.transpose([clique.index(v) for v in (*shared, *fresh)])
        sizes = [states[v] for v in fresh]
        drawn = _draw(ordered.reshape(-1, math.prod(sizes)), _flat(codes, shared, states), rng)
        for v, column in zip(fresh, np.unravel_index(drawn, sizes), strict=True):
            codes[:, v] = column
    return codes


def _flat(codes: StateCodes, scope: Scope, states: Sequence[int]) -> StateCodes:
    """The joint state of some columns as one number: (rows,)."""
    flat = np.zeros(len(codes), dtype=np.int64)
    for v in scope:
        flat = flat * states[v] + codes[:, v]
    return flat


def _draw(table: Array, given: StateCodes, rng: np.random.Generator) -> StateCodes:
    """A state from row `given` of a table of P(state | row), for each: all in one search."""
    bounds = np.cumsum(table, axis=1)
    last = bounds[:, -1:]
    bounds = bounds / np.where(last > 0, last, 1.0) + np.arange(len(table))[:, None]
    wanted = np.minimum(given + rng.random(len(given)), np.nextafter(given + 1.0, 0.0))
    found = np.searchsorted(bounds.ravel(), wanted, side="right")
    return np.asarray(found - given * table.shape[1], dtype=np.int64)
