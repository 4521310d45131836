"""A tree of latents from distances alone: recursive grouping (Choi et al. 2011; design 15).

Φ_ijk = d_ik − d_jk does not depend on k exactly where i and j hang on one node. Nodes whose Φ are
even, as far as the errors of distances tell, become a family with a latent above it; distances to
the latent follow from

    d_ih = ½ (d_ij + Φ_ij),    d_hk = d_ik − d_ih

and what is left is grouped again, until one family is. A latent that lies where another one does is
the same. Columns are leaves: one that is itself the cause of others hangs on a latent beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.discovery.column_tree import Edge, rooted
from latentia.discovery.islands import Islands
from latentia.discovery.pair_distances import PairDistances
from latentia.typing import Array

NEAREST = 3  # nodes that are asked at least, however far they are


@final
@dataclass(frozen=True, slots=True)
class GroupedTree:
    """Columns of each latent, and edges between latents."""

    columns: tuple[tuple[int, ...], ...]
    edges: tuple[Edge, ...]


class _Nodes:
    """Nodes that have no parent yet, with their distances; columns first, then latents."""

    def __init__(self, distances: PairDistances) -> None:
        n = len(distances.between)
        self.between, self.errors = distances.between.copy(), distances.errors.copy()
        self.active = list(range(n))
        self.first_latent = n
        self.members: dict[int, list[int]] = {}  # latent -> columns and latents below

    def uneven(self) -> tuple[Array, Array]:
        """How uneven Φ_ij is, in standard errors, and its mean: (active, active) each."""
        own = np.ix_(self.active, self.active)
        d, e = self.between[own], self.errors[own]
        m = len(d)
        worst, mean = np.full((m, m), np.inf), np.zeros((m, m))
        asked = max(NEAREST, m // 2)
        for i in range(m):
            told, error = d[i] - d, np.hypot(e[i], e)  # of j and k, (m, m)
            np.fill_diagonal(error, np.inf)
            error[:, i] = np.inf
            weight = error**-2.0
            mean[i] = (weight * told).sum(axis=1) / np.maximum(weight.sum(axis=1), 1e-300)
            limit = np.partition(error, min(asked, m - 2) - 1, axis=1)[:, min(asked, m - 2) - 1]
            near = error <= np.minimum(limit, 1e300)[:, None]
            worst[i] = np.where(near, np.abs(told - mean[i][:, None]) / error, 0.0).max(axis=1)
        np.fill_diagonal(worst, np.inf)
        return worst, mean

    def join(self, names: Sequence[int], mean: Array, tolerance: float) -> None:
        """A latent above nodes, with means of their Φ (nodes, nodes)."""
        own, count = np.ix_(names, names), len(names)
        up = (self.between[own] + mean) / 2.0
        np.fill_diagonal(up, 0.0)
        height = np.maximum(up.sum(axis=1) / (count - 1), 0.0)  # d_ih
        near = self.errors[own] + np.where(np.eye(count), np.inf, 0.0)
        latent = len(self.between)
        weight = self.errors[list(names)] ** -2.0
        far = (weight * (self.between[list(names)] - height[:, None])).sum(axis=0) / weight.sum(
            axis=0
        )
        error = np.sqrt(1.0 / weight.mean(axis=0))
        self._add(np.maximum(far, 0.0), error)
        self.between[latent, list(names)] = self.between[list(names), latent] = height
        kept: list[int] = []
        for name, h, e in zip(names, height, near.min(axis=1), strict=True):
            same = name >= self.first_latent and h <= tolerance * e / 2.0
            kept += self.members.pop(name) if same else [name]
        self.members[latent] = kept
        self.active = [v for v in self.active if v not in names] + [latent]

    def _add(self, far: Array, error: Array) -> None:
        self.between = np.block([[self.between, far[:, None]], [far[None], np.zeros((1, 1))]])
        self.errors = np.block([[self.errors, error[:, None]], [error[None], np.ones((1, 1))]])


def group_recursively(distances: PairDistances, tolerance: float) -> GroupedTree:
    """Families of nodes whose Φ are even within `tolerance` standard errors, again and again."""
    n = len(distances.between)
    nodes = _Nodes(distances)
    while len(nodes.active) > 2:
        (worst, mean), whole = nodes.uneven(), nodes.active
        for family in _families(worst, tolerance):
            nodes.join([whole[i] for i in family], mean[np.ix_(family, family)], tolerance)
    if len(nodes.active) == 2:
        _tie_last(nodes)
    return _as_tree(n, nodes)


def _families(worst: Array, tolerance: float) -> list[list[int]]:
    """Sets of nodes that are all even with each other, the most even first; one at least."""
    above = np.argwhere(np.triu(np.isfinite(worst), 1))
    order = above[np.argsort(worst[tuple(above.T)], kind="stable")].tolist()
    limit = max(tolerance, float(worst.min()))
    home = {i: [i] for i in range(len(worst))}
    for i, j in order:
        one, other = home[i], home[j]
        if one is not other and worst[np.ix_(one, other)].max() <= limit:
            both = [*one, *other]
            home.update(dict.fromkeys(both, both))
    return [own for own in {id(own): own for own in home.values()}.values() if len(own) > 1]


def _tie_last(nodes: _Nodes) -> None:
    """Two nodes are left: an edge between latents, or a column that joins the other's family."""
    one, other = sorted(nodes.active)
    if one < nodes.first_latent <= other:
        nodes.members[other].append(one)
    elif other < nodes.first_latent:
        nodes.members[len(nodes.between)] = [one, other]
    else:
        nodes.members[other].append(one)


def _as_tree(n: int, nodes: _Nodes) -> GroupedTree:
    if not nodes.members:
        return GroupedTree(tuple((c,) for c in range(n)), ())
    place = {latent: i for i, latent in enumerate(nodes.members)}
    columns = tuple(tuple(sorted(v for v in own if v < n)) for own in nodes.members.values())
    edges = tuple(
        (place[latent], place[v]) for latent, own in nodes.members.items() for v in own if v >= n
    )
    return GroupedTree(columns, edges)


def grouped_islands(
    distances: PairDistances, parts: Sequence[Sequence[int]], tolerance: float
) -> Islands:
    """A tree of latents over each part of the columns; parts tell nothing of each other."""
    columns: list[tuple[int, ...]] = []
    edges: list[Edge] = []
    for part in parts:
        own = np.ix_(part, part)
        some = PairDistances(distances.between[own], distances.errors[own])
        tree = group_recursively(some, tolerance)
        edges += [(a + len(columns), b + len(columns)) for a, b in tree.edges]
        columns += [tuple(part[c] for c in held) for held in tree.columns]
    count = sum(map(len, parts))
    return Islands(tuple(columns), rooted(len(columns), edges), (-1,) * count)
