"""The tree of columns that keeps most of what pairs tell (Chow and Liu 1968; design 15)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy

from latentia.errors import GraphError
from latentia.typing import Array

Edge = tuple[int, int]


@final
@dataclass(frozen=True, slots=True)
class RootedTree:
    """A tree, or several: the node above each, and an order in which nodes come after theirs."""

    above: tuple[int, ...]  # -1: a root
    order: tuple[int, ...]

    @property
    def below(self) -> tuple[tuple[int, ...], ...]:
        found: list[list[int]] = [[] for _ in self.above]
        for v in self.order:
            if self.above[v] >= 0:
                found[self.above[v]].append(v)
        return tuple(map(tuple, found))


def column_tree(
    information: Array, require: Iterable[Edge] = (), forbid: Iterable[Edge] = ()
) -> tuple[Edge, ...]:
    """Edges of the tree of largest information, with those required and without those forbidden.

    Columns that tell nothing of any other hang on none: there may be several trees.
    """
    required, forbidden = _pairs(require), _pairs(forbid)
    if required & forbidden:
        a, b = min(required & forbidden)
        raise GraphError(f"the edge of columns {a} and {b} is both required and forbidden.")
    n = len(information)
    cost = information.max(initial=0.0) - information + 1.0  # positive: zeros would be no edges
    for a, b in forbidden:
        cost[a, b] = cost[b, a] = 0.0
    for a, b in required:
        cost[a, b] = cost[b, a] = 1e-9
    np.fill_diagonal(cost, 0.0)
    found = scipy.sparse.csgraph.minimum_spanning_tree(
        scipy.sparse.csr_array(np.triu(cost))
    ).tocoo()
    edges = {(int(min(a, b)), int(max(a, b))) for a, b in zip(found.row, found.col, strict=True)}
    edges = {(a, b) for a, b in edges if information[a, b] > 0 or (a, b) in required}
    if not required <= edges:
        a, b = min(required - edges)
        raise GraphError(
            f"the required edges have a cycle through columns {a} and {b}, and a tree has none. "
            "Require fewer of them."
        )
    assert len(edges) < n
    return tuple(sorted(edges))


def rooted(n: int, edges: Sequence[Edge], roots: Sequence[int] = ()) -> RootedTree:
    """The tree hung up at a middle of each part, or at those given."""
    ties = scipy.sparse.csr_array(
        (np.ones(len(edges)), (np.array([a for a, _ in edges], int), [b for _, b in edges])),
        shape=(n, n),
    )
    above, order = [-1] * n, list[int]()
    seen = np.zeros(n, dtype=bool)
    for v in (*roots, *range(n)):
        if not seen[v]:
            if v not in roots:
                v = _middle(ties, v)
            part, before = scipy.sparse.csgraph.breadth_first_order(ties, v, directed=False)
            for u in part:
                above[u] = int(before[u]) if before[u] >= 0 else -1
            seen[part] = True
            order += map(int, part)
    return RootedTree(tuple(above), tuple(order))


def connected_parts(n: int, edges: Sequence[Edge]) -> list[list[int]]:
    """Columns that hang together, in order."""
    tree = rooted(n, edges)
    found: dict[int, list[int]] = {}
    root: dict[int, int] = {}
    for v in tree.order:
        root[v] = v if tree.above[v] < 0 else root[tree.above[v]]
        found.setdefault(root[v], []).append(v)
    return [sorted(part) for part in found.values()]


def _middle(ties: scipy.sparse.csr_array, v: int) -> int:
    """A middle of the longest path through the part of `v`: shallow trees pass rows best."""
    part, _ = scipy.sparse.csgraph.breadth_first_order(ties, v, directed=False)
    one = int(part[-1])
    other, before = scipy.sparse.csgraph.breadth_first_order(ties, one, directed=False)
    path = [int(other[-1])]
    while before[path[-1]] >= 0:
        path.append(int(before[path[-1]]))
    return path[len(path) // 2]


def _pairs(edges: Iterable[Edge]) -> set[Edge]:
    return {(min(a, b), max(a, b)) for a, b in edges}
