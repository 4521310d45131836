"""Skeleton: what remains of a junction tree when only its branching matters (design 2.3, 2.5).

Cliques without columns behind them are pruned and cliques with one child contracted (their operator
would be the identity). What is left is a binary tree over the leaves, three branches at the root.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from latentia.errors import PlanError
from latentia.structure.junction import JunctionTree, leaf_counts


@final
@dataclass(frozen=True, slots=True)
class Branch:
    """A node of the skeleton; nodes are numbered parents first, leaves from left to right."""

    parent: int  # its own number at a root
    children: tuple[int, ...]
    clique: int  # in the junction tree
    edge: int  # the clique below the cheapest separator on the way to the parent
    columns: tuple[int, ...]  # of a leaf; none inside
    first: int  # the leaves below are first, …, last - 1
    last: int


@final
@dataclass(frozen=True, slots=True)
class Skeleton:
    """The rooted junction tree and its branches, parents before children."""

    tree: JunctionTree
    branches: tuple[Branch, ...]


def contract(tree: JunctionTree, weight: Sequence[float], root: int | None = None) -> Skeleton:
    """Root every component at its centre (or at inner clique number `root`) and contract it."""
    links = _useful_links(tree)
    roots = []
    for component in _components(tree.neighbours()):
        inner = [i for i in component if not tree.holds[i] and len(links[i]) > 2]
        leaves = [i for i in component if tree.holds[i]]
        if not leaves:
            raise PlanError("a part of the graph has no column; drop it first.")
        if not inner:  # one or two leaves: any clique will do
            roots.append(tree.parent[leaves[0]])
        elif root is None:
            roots.append(_centre(inner + leaves, links))
        else:
            roots.append(inner[root % len(inner)])
    rooted = tree.rooted_at(roots)
    return Skeleton(rooted, tuple(_branches(rooted, roots, weight)))


def trace(tree: JunctionTree, weight: Sequence[float]) -> Skeleton:
    """The skeleton of a tree that stands on its roots already, as `contract` left it."""
    components = _components(tree.neighbours())
    roots = [next(i for i in part if tree.parent[i] == i) for part in components]
    return Skeleton(tree, tuple(_branches(tree, roots, weight)))


def _useful_links(tree: JunctionTree) -> list[list[int]]:
    """Neighbours of each clique across edges with columns on both ends."""
    behind = leaf_counts(tree)
    links: list[list[int]] = [[] for _ in tree.cliques]
    for i, j in behind:
        if behind[i, j] and behind[j, i]:
            links[i].append(j)
    return [sorted(n) for n in links]


def _components(near: list[list[int]]) -> list[list[int]]:
    seen: set[int] = set()
    found = []
    for start in range(len(near)):
        if start not in seen:
            seen.add(start)
            todo = [start]
            for i in todo:
                new = [j for j in near[i] if j not in seen]
                seen.update(new)
                todo.extend(new)
            found.append(sorted(todo))
    return found


def _centre(nodes: list[int], links: list[list[int]]) -> int:
    """The middle of a longest path, counted in branching cliques."""
    ends = {i for i in nodes if len(links[i]) == 1}

    def farthest(start: int) -> list[int]:
        depth, came = {start: 0}, {start: start}
        for i in (todo := [start]):
            for j in links[i]:
                if j not in depth:
                    depth[j] = depth[i] + (len(links[j]) > 2)
                    came[j] = i
                    todo.append(j)
        end = min(ends, key=lambda i: (-depth[i], i))
        path = [end]
        while path[-1] != start:
            path.append(came[path[-1]])
        return path

    path = farthest(farthest(min(ends))[0])
    branching = [i for i in path if len(links[i]) > 2]
    return branching[len(branching) // 2]


def _branches(tree: JunctionTree, roots: list[int], weight: Sequence[float]) -> list[Branch]:
    below: list[list[int]] = [[] for _ in tree.cliques]
    for i, up in enumerate(tree.parent):
        if up != i:
            below[up].append(i)
    useful = [len(h) > 0 for h in tree.holds]
    for i in reversed(tree.order()):
        useful[tree.parent[i]] |= useful[i]
    parent: list[int] = []
    found: list[tuple[int, int]] = []  # (clique, edge)
    todo = [(root, root, -1) for root in reversed(roots)]
    while todo:  # depth first, so that the leaves below a branch are numbered in a row
        clique, edge, up = todo.pop()
        number = len(found)
        found.append((clique, edge))
        parent.append(number if up < 0 else up)
        down = [_slide(tree, below, useful, j, weight) for j in below[clique] if useful[j]]
        todo.extend((c, e, number) for c, e in reversed(down))
    return _assemble(tree, parent, found)


def _slide(
    tree: JunctionTree,
    below: list[list[int]],
    useful: list[bool],
    start: int,
    weight: Sequence[float],
) -> tuple[int, int]:
    """From `start` down to where it branches or ends; and the cheapest separator on the way."""

    def size(i: int) -> float:
        return round(math.fsum(weight[v] for v in tree.shared[i]), 9)

    edge = start
    while True:
        down = [j for j in below[start] if useful[j]]
        if tree.holds[start] or len(down) > 1:
            return start, edge
        start = down[0]
        if size(start) < size(edge):
            edge = start


def _assemble(tree: JunctionTree, parent: list[int], found: list[tuple[int, int]]) -> list[Branch]:
    count = len(found)
    children: list[list[int]] = [[] for _ in range(count)]
    for i, up in enumerate(parent):
        if up != i:
            children[up].append(i)
    first, last = [0] * count, [0] * count
    leaf = 0
    for i in range(count):  # preorder meets the leaves from left to right
        first[i] = leaf
        leaf += not children[i]
    for i in reversed(range(count)):
        last[i] = last[children[i][-1]] if children[i] else first[i] + 1
    return [
        Branch(
            parent=parent[i],
            children=tuple(children[i]),
            clique=clique,
            edge=edge,
            columns=tree.holds[clique],
            first=first[i],
            last=last[i],
        )
        for i, (clique, edge) in enumerate(found)
    ]
