"""Generic rank: how much of a separator's states the columns on either side can tell (design 3).

Draw random tables for the structure and pass, along every edge of the junction tree, a basis of the
span of {P(x behind the edge | s)} in R^{states of S}; never the full joint. Ranks found so hold for
almost every table of that structure. This is the one module of the structure that touches numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np

from latentia.errors import PlanError
from latentia.linear_algebra import singular_values, svd
from latentia.structure.calibrating import calibrated, summed
from latentia.structure.graph import LatentGraph
from latentia.structure.junction import JunctionTree, leaf_counts, leaf_intervals
from latentia.structure.triangulate import Adjacency, degeneracy, maximal_cliques
from latentia.typing import Array, Foreign

TOLERANCE = 1e-9  # relative; rounding stays near 1e-15, generic values above 1e-6
LARGEST = 2**24  # joint states of a clique times the bases passed through it
LARGEST_SUM = 2**26  # joint states of all cliques together
MANY_TIES = 40_000  # to eliminate the variables of a dense graph with so many takes long
MOST_AXES = 30  # numpy's arrays have few more, and a clique with more is absurd


def numerical_rank(matrix: Array, tolerance: float = TOLERANCE) -> int:
    """Singular values above `tolerance` times the largest."""
    if 0 in matrix.shape:
        return 0
    values = singular_values(matrix)
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
    parts: dict[object, Array] = field(default_factory=dict)  # memory of `span`
    ranks: dict[int, int] = field(default_factory=dict)  # and of `rank`

    def separator_prior(self, i: int, j: int) -> Array:
        """P(s), flat."""
        shared = self.tree.separator(i, j)
        gone = tuple(k for k, v in enumerate(self.axes[i]) if v not in shared)
        return np.asarray(self.beliefs[i].sum(axis=gone), dtype=float).ravel()

    def rank(self, i: int) -> int:
        """rank E[φ(In) φ(Out)ᵀ] at the edge above clique i."""
        if i not in self.ranks:
            j = self.tree.parent[i]
            prior = self.separator_prior(i, j)
            told = self.spans[i, j].T @ (prior[:, None] * self.spans[j, i])
            self.ranks[i] = numerical_rank(told)
        return self.ranks[i]

    def reach(self, i: int, j: int, groups: Sequence[frozenset[int]]) -> int:
        """rank E[θ φ(other side)ᵀ], θ the joint indicators of groups of leaves behind i."""
        if not groups:
            return 1
        features = np.concatenate([self.span(i, j, group) for group in groups], axis=1)
        prior = self.separator_prior(i, j)
        return numerical_rank(features.T @ (prior[:, None] * self.spans[j, i]))

    def dimension(self, i: int, j: int, groups: Sequence[frozenset[int]]) -> int:
        """Of what groups of leaves behind i tell of the separator, whoever looks at it."""
        return numerical_rank(np.concatenate([self.span(i, j, g) for g in groups], axis=1))

    def span(self, i: int, j: int, group: frozenset[int]) -> Array:
        """Basis of the span of {P(x_group | s)}, leaf cliques `group` behind i, seen from j."""
        todo = [(i, j, group)]
        while todo:  # depth first without recursion: paths may be long
            i, j, part = todo[-1]
            if (i, j, part) in self.parts:
                todo.pop()
                continue
            if self.tree.holds[i]:
                self.parts[i, j, part] = _identity(self.tree, self.states, i)
                continue
            inputs = [(k, i, self.leaves.behind(k, i, part)) for k in self.near[i] if k != j]
            inputs = [p for p in inputs if p[2]]
            missing = [p for p in inputs if p not in self.parts]
            if missing:
                todo.extend(missing)
                continue
            known = {p[0]: self.parts[p] for p in inputs}
            pushed = push(self.tree, self.axes, self.beliefs, i, j, known)
            self.parts[i, j, part] = _basis(pushed)
        return self.parts[i, j, group]


def check_families(graph: LatentGraph) -> None:
    """Refuse a variable with too many parents, before they are all tied to each other."""
    families = [frozenset((*above, child)) for child, above in enumerate(graph.parents())]
    check_clique(graph, max(families, key=lambda family: _cells(graph, family)))
    check_clique(graph, max(families, key=len))


def check_width(graph: LatentGraph, near: Adjacency) -> None:
    """Refuse a large graph that no order of elimination can keep from large cliques."""
    if sum(map(len, near)) < MANY_TIES:
        return  # to eliminate takes no time, and names a clique
    least = degeneracy(near) + 1
    if least > MOST_AXES:
        raise PlanError(
            f"the graph of {len(graph.names)} variables is too dense: whatever the order of "
            f"elimination, a clique of at least {least} variables is left, whose table has "
            f"{_size(2**least)} even with two states each (at most {LARGEST:.1e} cells and "
            f"{MOST_AXES} variables). Drop edges; or tie the columns through a few latents."
        )


def check_clique(graph: LatentGraph, clique: frozenset[int]) -> None:
    """Refuse a clique whose table would not fit."""
    _check_size(_cells(graph, clique), graph, clique)


def check_cliques(graph: LatentGraph, tree: JunctionTree) -> None:
    """Refuse cliques whose tables would not fit, before anything is made of them."""
    total = 0
    for clique, held in zip(tree.cliques, tree.holds, strict=True):
        cells = _cells(graph, clique)
        _check_size(cells**2 if held else cells, graph, clique)  # a leaf has its indicators
        total += cells
    if total > LARGEST_SUM:
        raise PlanError(
            f"the {len(tree.cliques)} cliques need tables of {total:.1e} cells together "
            f"(at most {LARGEST_SUM:.1e}). Use fewer states, or drop edges."
        )


def draw_generic(
    graph: LatentGraph,
    tree: JunctionTree,
    rng: np.random.Generator,
    further: Sequence[tuple[int, ...]] = (),
) -> GenericModel:
    """Random normalised tables (or positive potentials), calibrated, with their spans.

    `further` are variables, together in a clique, that have one more potential in common.
    """
    check_cliques(graph, tree)
    base_bounds(graph, tree)
    states = tuple(count or 1 for count in graph.states)
    factors = _random_factors(graph, tree, states, rng)
    factors += [(vs, rng.exponential(size=[states[v] for v in vs]) + 1e-3) for vs in further]
    axes, beliefs = calibrated(tree, states, factors)
    near = tuple(tuple(n) for n in tree.neighbours())
    leaves = Leaves(tree.parent, *leaf_intervals(tree))
    model = GenericModel(tree, states, axes, tuple(beliefs), {}, near, leaves)
    return replace(model, spans=_spans(model))


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
    met = {c for clique in tree.cliques for c in maximal_cliques(clique, tied)}
    found = sorted(tuple(sorted(c)) for c in met)
    for family in found:
        factors.append((family, rng.exponential(size=[states[v] for v in family]) + 1e-3))
    return factors


def _marginal(table: Array, axes: Sequence[int], keep: frozenset[int]) -> Array:
    gone = tuple([k for k, v in enumerate(axes) if v not in keep])
    return summed(table, gone)


def _spread(table: Array, variables: frozenset[int], axes: Sequence[int]) -> Array:
    """Give a table over `variables` the axes of a clique, for broadcasting."""
    shape = iter(table.shape)
    return table.reshape([next(shape) if v in variables else 1 for v in axes])


def _both_ways(tree: JunctionTree) -> list[tuple[int, int]]:
    """Directed edges, from the leaves inwards and then outwards."""
    upward = [(i, tree.parent[i]) for i in reversed(tree.order()) if tree.parent[i] != i]
    return upward + [(j, i) for i, j in reversed(upward)]


def base_bounds(graph: LatentGraph, tree: JunctionTree) -> dict[tuple[int, int], int]:
    """At most so many columns has the basis behind each directed edge.

    No more than its separator has states, nor than its inputs together have columns or states of
    what they depend on. Refuses what `_spans`
    could not hold, before any number is drawn.
    """
    near, behind = tree.neighbours(), leaf_counts(tree)
    states = [count or 1 for count in graph.states]

    def cells(variables: Iterable[int]) -> int:
        return math.prod([states[v] for v in variables])

    whole = [cells(clique) for clique in tree.cliques]
    shared = [
        clique & tree.cliques[up] for clique, up in zip(tree.cliques, tree.parent, strict=True)
    ]
    between = [cells(separator) for separator in shared]  # at the edge above each clique
    most: dict[tuple[int, int], int] = {}
    parent, holds, cliques = tree.parent, tree.holds, tree.cliques
    for i, j in _both_ways(tree):
        bound = between[i if parent[i] == j else j]
        if not holds[i]:
            others = [k for k in near[i] if k != j and behind[i, k]]
            inputs = math.prod([most[k, i] for k in others])
            if whole[i] * inputs > LARGEST or len(cliques[i]) > MOST_AXES:
                _check_size(whole[i] * inputs, graph, cliques[i])
            bound = min(bound, inputs)
            above = [k if parent[k] == i else i for k in others]
            if bound > max([between[k] for k in above], default=1):
                # they are functions of what they share with the clique
                bound = min(bound, cells(frozenset().union(*[shared[k] for k in above])))
        most[i, j] = bound
    return most


def _spans(model: GenericModel) -> dict[tuple[int, int], Array]:
    """A basis for each directed edge."""
    tree, near, behind = model.tree, model.near, leaf_counts(model.tree)
    spans: dict[tuple[int, int], Array] = {}
    for i, j in _both_ways(tree):
        if tree.holds[i]:
            spans[i, j] = _identity(tree, model.states, i)
            continue
        inputs = {k: spans[k, i] for k in near[i] if k != j and behind[i, k]}
        spans[i, j] = _basis(push(tree, model.axes, model.beliefs, i, j, inputs))
    return spans


def _basis(functions: Array) -> Array:
    """Orthonormal columns with the same span, so that nothing fades on a long way."""
    u, values, _ = svd(functions)
    return np.asarray(u[:, values > TOLERANCE * values[0]], dtype=float)


def push(
    tree: JunctionTree,
    axes: Sequence[tuple[int, ...]],
    beliefs: Sequence[Array],
    i: int,
    j: int | None,
    inputs: Mapping[int, Array],
) -> Array:
    """Σ_{C∖S} P(C | S) Π_k f_k(s_k): functions of s at the edge from clique i to j.

    Inputs are (states of the separator, functions) by neighbour; without j, S is empty.
    """
    shared = frozenset() if j is None else tree.separator(i, j)
    local = {v: k for k, v in enumerate(axes[i])}
    prior = _marginal(beliefs[i], axes[i], shared)
    conditional = beliefs[i] / np.maximum(_spread(prior, shared, axes[i]), 1e-300)
    operands: list[Foreign] = [conditional, list(local.values())]
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


def _cells(graph: LatentGraph, variables: Iterable[int]) -> int:
    return math.prod(graph.states[v] or 1 for v in variables)


def _check_size(cells: int, graph: LatentGraph, clique: frozenset[int]) -> None:
    if cells > LARGEST or len(clique) > MOST_AXES:
        names = [str(graph.names[v]) for v in sorted(clique)]
        shown = ", ".join(names[:8]) + (f", … ({len(names)} in all)" if len(names) > 8 else "")
        raise PlanError(
            f"the clique {{{shown}}} needs a table of {_size(cells)} in {len(clique)} dimensions "
            f"(at most {LARGEST:.1e} cells in {MOST_AXES}). Give its variables fewer states, drop "
            "edges, or try another elimination order."
        )


def _size(cells: int) -> str:
    """Cells, and the memory that they would take."""
    if cells >= 10**300:
        return "countless cells"
    gigabytes = cells * 8 / 2**30
    return f"{cells:.1e} cells ({gigabytes:.2g} GB)"
