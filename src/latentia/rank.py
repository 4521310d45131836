"""Generic rank: how much of a separator's states the columns on either side can tell (design 3).

Draw random tables for the structure and pass, along every edge of the junction tree, a basis of the
span of {P(x behind the edge | s)} in R^{states of S}; never the full joint. Ranks found so hold for
almost every table of that structure. This is the one module of the structure that touches numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np

from latentia.errors import PlanError
from latentia.graph import LatentGraph
from latentia.junction import JunctionTree, leaf_counts, leaf_intervals
from latentia.typing import Array

__all__ = ["GenericModel", "draw_generic", "numerical_rank"]

TOLERANCE = 1e-9  # relative; rounding stays near 1e-15, generic values above 1e-6
LARGEST = 2**24  # joint states of a clique times the bases passed through it


def numerical_rank(matrix: Array, tolerance: float = TOLERANCE) -> int:
    """Singular values above `tolerance` times the largest."""
    if 0 in matrix.shape:
        return 0
    values = np.linalg.svd(matrix, compute_uv=False)
    return int((values > tolerance * max(values[0], 1e-300)).sum())


@final
@dataclass(frozen=True, slots=True)
class Leaves:
    """Which leaf cliques lie behind an edge, by their numbers from left to right."""

    parent: tuple[int, ...]
    number: Mapping[int, int]
    first: list[int]
    last: list[int]

    def behind(self, i: int, j: int, leaves: frozenset[int]) -> frozenset[int]:
        """Those of `leaves` on clique i's side of the edge between i and j."""
        below = i if self.parent[i] == j else j
        low, high = self.first[below], self.last[below]
        return frozenset(x for x in leaves if (low <= self.number[x] < high) == (below == i))


@final
@dataclass(frozen=True, slots=True)
class GenericModel:
    """A random distribution over the structure, held as P(clique) for every clique of the tree."""

    tree: JunctionTree
    states: tuple[int, ...]
    axes: tuple[tuple[int, ...], ...]  # variables of each clique, in order
    beliefs: tuple[Array, ...]  # P(clique)
    spans: Mapping[tuple[int, int], Array]  # (i, j): basis behind i, (states of S, rank)
    near: tuple[tuple[int, ...], ...]
    leaves: Leaves
    tables: dict[Any, Array] = field(default_factory=dict)  # memory of `table`

    def separator_prior(self, i: int, j: int) -> Array:
        """P(s), flat."""
        shared = self.tree.separator(i, j)
        gone = tuple(k for k, v in enumerate(self.axes[i]) if v not in shared)
        return np.asarray(self.beliefs[i].sum(axis=gone), dtype=float).ravel()

    def rank(self, i: int) -> int:
        """rank E[φ(In) φ(Out)ᵀ] at the edge above clique i."""
        j = self.tree.parent[i]
        prior = self.separator_prior(i, j)
        return numerical_rank(self.spans[i, j].T @ (prior[:, None] * self.spans[j, i]))

    def reach(self, i: int, j: int, groups: Sequence[frozenset[int]]) -> int:
        """rank E[θ φ(other side)ᵀ], θ the joint indicators of groups of leaves behind i."""
        if not groups:
            return 1
        features = np.concatenate([self.table(i, j, group) for group in groups], axis=1)
        features = features / np.maximum(np.linalg.norm(features, axis=0), 1e-300)
        prior = self.separator_prior(i, j)
        return numerical_rank(features.T @ (prior[:, None] * self.spans[j, i]))

    def table(self, i: int, j: int, group: frozenset[int]) -> Array:
        """P(x_group | s) for leaf cliques `group` behind i, seen from j: (states of S, states)."""
        todo = [(i, j, group)]
        while todo:  # depth first without recursion: paths may be long
            i, j, part = todo[-1]
            if (i, j, part) in self.tables:
                todo.pop()
                continue
            if self.tree.holds[i]:
                self.tables[i, j, part] = _identity(self.tree, self.states, i)
                continue
            parts = [(k, i, self.leaves.behind(k, i, part)) for k in self.near[i] if k != j]
            parts = [p for p in parts if p[2]]
            missing = [p for p in parts if p not in self.tables]
            if missing:
                todo.extend(missing)
                continue
            self.tables[i, j, part] = _push(
                self.tree, self.axes, self.beliefs, i, j, {p[0]: self.tables[p] for p in parts}
            )
        return self.tables[i, j, group]


def draw_generic(graph: LatentGraph, tree: JunctionTree, rng: np.random.Generator) -> GenericModel:
    """Random normalised tables (or positive potentials), calibrated, with their spans."""
    states = tuple(count or 1 for count in graph.states)
    axes = tuple(tuple(sorted(clique)) for clique in tree.cliques)
    for ax in axes:
        _check_size(math.prod(states[v] for v in ax), graph, ax)
    potentials = [np.ones([states[v] for v in ax]) for ax in axes]
    homes = _homes(tree)
    for family, factor in _random_factors(graph, tree, states, rng):
        i = _home(family, homes, tree)
        shape = [states[v] if v in family else 1 for v in axes[i]]
        aligned = np.transpose(factor, np.argsort(family)).reshape(shape)
        potentials[i] = potentials[i] * aligned
    beliefs = _calibrate(tree, axes, potentials)
    near = tuple(tuple(n) for n in tree.neighbours())
    leaves = Leaves(tree.parent, *leaf_intervals(tree))
    model = GenericModel(tree, states, axes, tuple(beliefs), {}, near, leaves)
    return replace(model, spans=_spans(model, graph))


def _random_factors(
    graph: LatentGraph, tree: JunctionTree, states: tuple[int, ...], rng: np.random.Generator
) -> list[tuple[tuple[int, ...], Array]]:
    """(variables, table) for every family; undirected: for every maximal clique of the graph."""
    factors = []
    if graph.directed:
        for child, above in enumerate(graph.parents()):
            rows = [states[p] for p in above]
            table = rng.dirichlet(np.full(states[child], 0.4), size=tuple(rows))
            factors.append(((*above, child), np.asarray(table + 1e-6, dtype=float)))
        return factors
    tied: list[set[int]] = [set() for _ in graph.names]
    for a, b in graph.edges:
        tied[a].add(b)
        tied[b].add(a)
    found = sorted({tuple(sorted(c)) for clique in tree.cliques for c in _maximal(clique, tied)})
    for family in found:
        factors.append((family, rng.exponential(size=[states[v] for v in family]) + 1e-3))
    return factors


def _maximal(inside: frozenset[int], tied: list[set[int]]) -> list[frozenset[int]]:
    """Maximal cliques of the graph restricted to `inside` (Bron-Kerbosch)."""
    found: list[frozenset[int]] = []
    todo: list[tuple[frozenset[int], set[int], set[int]]] = [(frozenset(), set(inside), set())]
    while todo:
        clique, open_, closed = todo.pop()
        if not open_ and not closed:
            found.append(clique)
        for v in sorted(open_):
            todo.append((clique | {v}, open_ & tied[v], closed & tied[v]))
            open_ = open_ - {v}
            closed = closed | {v}
    return found


def _homes(tree: JunctionTree) -> dict[int, list[int]]:
    homes: dict[int, list[int]] = {}
    for i, clique in enumerate(tree.cliques):
        for v in clique:
            homes.setdefault(v, []).append(i)
    return homes


def _home(family: Sequence[int], homes: Mapping[int, list[int]], tree: JunctionTree) -> int:
    members = frozenset(family)
    scarce = min(family, key=lambda v: len(homes[v]))
    return next(i for i in homes[scarce] if members <= tree.cliques[i])


def _calibrate(
    tree: JunctionTree, axes: Sequence[tuple[int, ...]], potentials: list[Array]
) -> list[Array]:
    """P(clique) for every clique: collect to the roots, then distribute."""
    order = tree.order()
    beliefs = list(potentials)
    sent: dict[int, Array] = {}
    for i in reversed(order):
        up = tree.parent[i]
        if up != i:
            message = _marginal(beliefs[i], axes[i], tree.separator(i, up))
            sent[i] = message / message.sum()
            beliefs[up] = beliefs[up] * _spread(sent[i], tree.separator(i, up), axes[up])
    for i in order:
        up = tree.parent[i]
        if up != i:
            shared = tree.separator(i, up)
            now = _marginal(beliefs[up], axes[up], shared) / np.maximum(sent[i], 1e-300)
            beliefs[i] = beliefs[i] * _spread(now, shared, axes[i])
        beliefs[i] = beliefs[i] / beliefs[i].sum()
    return beliefs


def _marginal(table: Array, axes: Sequence[int], keep: frozenset[int]) -> Array:
    gone = tuple(k for k, v in enumerate(axes) if v not in keep)
    return np.asarray(table.sum(axis=gone), dtype=float)


def _spread(table: Array, variables: frozenset[int], axes: Sequence[int]) -> Array:
    """Give a table over `variables` the axes of a clique, for broadcasting."""
    shape = iter(table.shape)
    return table.reshape([next(shape) if v in variables else 1 for v in axes])


def _spans(model: GenericModel, graph: LatentGraph) -> dict[tuple[int, int], Array]:
    """A basis for each directed edge, from the leaves inwards and then outwards."""
    tree, near, behind = model.tree, model.near, leaf_counts(model.tree)
    order = tree.order()
    spans: dict[tuple[int, int], Array] = {}
    upward = [(i, tree.parent[i]) for i in reversed(order) if tree.parent[i] != i]
    downward = [(j, i) for i, j in reversed(upward)]
    for i, j in upward + downward:
        if tree.holds[i]:
            spans[i, j] = _identity(tree, model.states, i)
            continue
        inputs = {k: spans[k, i] for k in near[i] if k != j and behind[i, k]}
        cells = model.beliefs[i].size * math.prod(b.shape[1] for b in inputs.values())
        _check_size(cells, graph, model.axes[i])
        pushed = _push(tree, model.axes, model.beliefs, i, j, inputs)
        u, values, _ = np.linalg.svd(pushed, full_matrices=False)
        spans[i, j] = u[:, values > TOLERANCE * values[0]]
    return spans


def _push(
    tree: JunctionTree,
    axes: Sequence[tuple[int, ...]],
    beliefs: Sequence[Array],
    i: int,
    j: int,
    inputs: Mapping[int, Array],
) -> Array:
    """Σ_{C∖S} P(C | S) Π_k f_k(s_k): functions of s at the edge from clique i to j."""
    shared = tree.separator(i, j)
    local = {v: k for k, v in enumerate(axes[i])}
    prior = _marginal(beliefs[i], axes[i], shared)
    conditional = beliefs[i] / np.maximum(_spread(prior, shared, axes[i]), 1e-300)
    operands: list[Any] = [conditional, list(local.values())]
    out = [local[v] for v in axes[i] if v in shared]
    for k, function in inputs.items():
        part = sorted(tree.separator(i, k))
        new = len(local) + len(operands)
        operands += [
            function.reshape([*(conditional.shape[local[v]] for v in part), -1]),
            [*(local[v] for v in part), new],
        ]
        out.append(new)
    pushed = np.einsum(*operands, out, optimize=conditional.size > 512)
    return np.asarray(pushed, dtype=float).reshape(prior.size, -1)


def _identity(tree: JunctionTree, states: tuple[int, ...], leaf: int) -> Array:
    """The indicators of a leaf's own columns, which are also its separator."""
    return np.eye(math.prod(states[v] for v in tree.cliques[leaf]))


def _check_size(cells: int, graph: LatentGraph, variables: Sequence[int]) -> None:
    if cells > LARGEST:
        names = ", ".join(str(graph.names[v]) for v in variables)
        raise PlanError(
            f"the clique {{{names}}} needs a table of {cells:.1e} cells (at most {LARGEST:.1e}). "
            "Give its variables fewer states, drop edges, or try another elimination order."
        )
