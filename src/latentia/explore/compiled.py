"""Compiled: a junction tree as the page takes it, each table in one of its cliques."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

from latentia.errors import PlanError
from latentia.explore.explored import Scope, TableNetwork
from latentia.structure.graph import LatentGraph
from latentia.structure.junction import JunctionTree, clique_tree, leaf_intervals
from latentia.structure.plan import Node, Plan
from latentia.structure.triangulate import ORDERINGS, eliminate, log_states, moralise

MOST_CELLS = 2**23  # of all cliques together: what a browser works through in a second
DEARER = 3  # how many times as large the tree of the plan may be as the best one


@final
@dataclass(frozen=True, slots=True)
class Compiled:
    """A rooted tree of cliques with ascending variables, and the home of every table."""

    states: tuple[int, ...]  # of every variable
    cliques: tuple[Scope, ...]
    parent: tuple[int, ...]  # a root points at itself
    order: tuple[int, ...]  # parents before children
    scopes: tuple[Scope, ...]  # axes of the tables
    homes: tuple[int, ...]  # the clique of each table
    planned: bool  # is this the tree of the plan?

    @property
    def cells(self) -> int:
        return sum(math.prod(self.states[v] for v in clique) for clique in self.cliques)


def compile_tree(network: TableNetwork | None, plan: Plan | None) -> Compiled | None:
    """A small junction tree, that of the plan if it is not much larger; None if none is small."""
    if network is None:
        return None
    trees = [(_best_tree(network.graph), False)]
    if plan is not None:
        own = _planned_tree(plan, network.graph)
        trees += [] if own is None else [(own, True)]
    sizes = [_size(network.graph, tree) for tree, _ in trees]
    use = len(trees) - 1 if sizes[-1] <= DEARER * sizes[0] else 0
    if sizes[use] > MOST_CELLS:
        return None
    return _wired(network, *trees[use])


def _wired(network: TableNetwork, tree: JunctionTree, planned: bool) -> Compiled:
    states = tuple(count or 1 for count in network.graph.states)
    scopes = tuple(network.tables)
    sizes = [math.prod(states[v] for v in clique) for clique in tree.cliques]
    by_size = sorted(range(len(sizes)), key=lambda i: (sizes[i], i))
    homes = tuple(_home(tree, by_size, scope) for scope in scopes)
    cliques = tuple(tuple(sorted(clique)) for clique in tree.cliques)
    return Compiled(states, cliques, tree.parent, tuple(tree.order()), scopes, homes, planned)


def _home(tree: JunctionTree, by_size: Iterable[int], scope: Scope) -> int:
    inside = frozenset(scope)
    for i in by_size:
        if inside <= tree.cliques[i]:
            return i
    raise PlanError(f"no clique holds the variables {sorted(scope)} of a table.")


def _best_tree(graph: LatentGraph) -> JunctionTree:
    near, weight = moralise(graph), log_states(graph)
    trees = [clique_tree(eliminate(near, weight, order)) for order in ORDERINGS]
    return _centred(min(trees, key=lambda tree: _size(graph, tree)))


def _centred(tree: JunctionTree) -> JunctionTree:
    """The same tree, each piece of it hung up in its middle: what is shown is not so deep."""
    near = tree.neighbours()
    roots = []
    for root in [i for i, up in enumerate(tree.parent) if up == i]:
        way = _farthest(near, _farthest(near, root)[-1])
        roots.append(way[len(way) // 2])
    return tree.rooted_at(roots)


def _farthest(near: Sequence[Sequence[int]], start: int) -> list[int]:
    """The way from a clique to one that is farthest from it."""
    came, todo = {start: start}, [start]
    for i in todo:
        for j in near[i]:
            if j not in came:
                came[j] = i
                todo.append(j)
    way = [todo[-1]]
    while way[-1] != start:
        way.append(came[way[-1]])
    return way[::-1]


def _planned_tree(plan: Plan, graph: LatentGraph) -> JunctionTree | None:
    """The plan's own tree in the numbers of the graph, if it is a tree of all its variables."""
    number = {name: v for v, name in enumerate(graph.names)}
    if {*plan.graph.names} != {*number}:
        return None
    place = [number[name] for name in plan.graph.names]
    if {frozenset((place[a], place[b])) for a, b in plan.graph.edges} != {
        frozenset(edge) for edge in graph.edges
    }:
        return None
    cliques = tuple(frozenset(place[v] for v in clique) for clique in plan.tree.cliques)
    holds = tuple(tuple(place[v] for v in held) for held in plan.tree.holds)
    return JunctionTree(cliques, plan.tree.parent, holds)


def _size(graph: LatentGraph, tree: JunctionTree) -> int:
    return sum(math.prod(graph.states[v] or 1 for v in clique) for clique in tree.cliques)


def node_of_clique(plan: Plan) -> dict[int, Node]:
    """Clique of the plan's tree -> the node whose separator lies above it."""
    _, first, last = leaf_intervals(plan.tree)
    nodes = {
        (node.first, node.last, node.separator): node
        for k, node in enumerate(plan.nodes)
        if node.parent != k
    }
    found = {}
    for i, up in enumerate(plan.tree.parent):
        key = (first[i], last[i], plan.tree.shared[i])
        if up != i and key in nodes:
            found[i] = nodes[key]
    return found


def leaf_columns(plan: Plan, leaves: Sequence[int]) -> list[int]:
    """The columns of some leaves, by number in the plan's graph."""
    return [v for x in leaves for v in plan.nodes[plan.leaves[x]].columns]
