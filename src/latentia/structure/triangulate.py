"""Moralise a graph and eliminate its variables one by one (design 2.1).

Eliminating v ties its remaining neighbours together; {v} with those neighbours is a clique. The
order decides how large the cliques get: `ORDERINGS` lists the rules.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from latentia.errors import UnknownNameError
from latentia.structure.graph import LatentGraph

Adjacency: TypeAlias = list[set[int]]
Score: TypeAlias = Callable[[Adjacency, Sequence[float], int], tuple[float, ...]]

SCALE = 2**80  # weights times this are whole
UNKNOWN_STATES = 4  # stands for a number of states that only the data will tell


def moralise(graph: LatentGraph, together: Iterable[Iterable[int]] = ()) -> Adjacency:
    """Neighbours in the moral graph: edges without direction, parents of a child married.

    `together` ties further groups of variables, so that some clique holds each of them.
    """
    near: Adjacency = [set() for _ in graph.names]
    families: list[Iterable[int]] = [*graph.edges, *together]
    if graph.directed:
        families += [(*above, child) for child, above in enumerate(graph.parents())]
    for family in families:
        for a, b in itertools.combinations(family, 2):
            near[a].add(b)
            near[b].add(a)
    return near


def log_states(graph: LatentGraph) -> list[float]:
    """log of the number of states of every variable."""
    return [math.log(max(count or UNKNOWN_STATES, 1)) for count in graph.states]


def min_fill(near: Adjacency, weight: Sequence[float], v: int) -> tuple[float, ...]:
    """Fewest new ties, then fewest joint states of the clique."""
    around = near[v]
    tied = sum(len(near[a] & around) for a in around) // 2
    fill = len(around) * (len(around) - 1) // 2 - tied
    return float(fill), _clique_weight(near, weight, v)


def min_weight(near: Adjacency, weight: Sequence[float], v: int) -> tuple[float, ...]:
    """Fewest joint states of the clique."""
    return (_clique_weight(near, weight, v),)


def min_neighbours(near: Adjacency, weight: Sequence[float], v: int) -> tuple[float, ...]:
    """Fewest neighbours, then fewest joint states of the clique."""
    return float(len(near[v])), _clique_weight(near, weight, v)


def _clique_weight(near: Adjacency, weight: Sequence[float], v: int) -> float:
    # rounded: the sum must not depend on the order in which a set is walked
    return round(weight[v] + math.fsum(weight[u] for u in near[v]), 9)


ORDERINGS: dict[str, Score] = {
    "min_fill": min_fill,
    "min_weight": min_weight,
    "min_neighbours": min_neighbours,
}


def eliminate(
    near: Adjacency,
    weight: Sequence[float],
    order: str = "min_fill",
    check: Callable[[frozenset[int]], None] | None = None,
) -> list[tuple[int, frozenset[int]]]:
    """(variable, its clique) in order of elimination; ties go by input order.

    `check` may refuse a clique that is too large, before more work goes into it.

    >>> [sorted(c) for v, c in eliminate([{1, 3}, {0, 2}, {1, 3}, {0, 2}], [1, 1, 1, 1])]
    [[0, 1, 3], [1, 2, 3], [2, 3], [3]]
    """
    if order not in ORDERINGS:
        raise UnknownNameError("elimination order", order, ORDERINGS)
    tally = _Tally([set(s) for s in near], weight, order)
    current = [tally.score(v) for v in range(len(near))]
    heap = [(current[v], v) for v in range(len(near))]
    heapq.heapify(heap)
    done: set[int] = set()
    cliques: list[tuple[int, frozenset[int]]] = []
    while heap:
        rank, v = heapq.heappop(heap)
        if v in done or rank != current[v]:
            continue  # an entry that was overtaken by a newer score
        done.add(v)
        clique = frozenset(tally.near[v] | {v})
        if check is not None:
            check(clique)
        cliques.append((v, clique))
        for u in sorted(tally.take(v) - done):
            current[u] = tally.score(u)
            heapq.heappush(heap, (current[u], u))
    return cliques


class _Tally:
    """What the scores are made of, kept up to date: a hub is not looked through at every step."""

    def __init__(self, near: Adjacency, weight: Sequence[float], order: str) -> None:
        self.near = near
        self.order = order
        self.weight = [int(w * SCALE) for w in weight]  # whole numbers add up in any order
        self.total = [self.weight[v] + sum(self.weight[u] for u in s) for v, s in enumerate(near)]
        fills = order == "min_fill"
        self.fill = [int(min_fill(near, weight, v)[0]) if fills else 0 for v in range(len(near))]

    def score(self, v: int) -> tuple[float, ...]:
        """As `ORDERINGS` has it."""
        size = round(self.total[v] / SCALE, 9)
        if self.order == "min_weight":
            return (size,)
        count = self.fill[v] if self.order == "min_fill" else len(self.near[v])
        return float(count), size

    def take(self, v: int) -> set[int]:
        """Tie the neighbours of v together and drop it: whose scores changed."""
        near, around = self.near, self.near[v]
        touched = set(around)
        for a, b in itertools.combinations(sorted(around), 2):
            if b not in near[a]:
                both = near[a] & near[b]
                touched |= both
                for u in both:
                    self.fill[u] -= 1
                self.fill[a] += len(near[a]) - len(both)
                self.fill[b] += len(near[b]) - len(both)
                self.total[a] += self.weight[b]
                self.total[b] += self.weight[a]
                near[a].add(b)
                near[b].add(a)
        for u in around:  # all of them are tied by now
            self.fill[u] -= len(near[u]) - len(around)
            self.total[u] -= self.weight[v]
            near[u].discard(v)
        return touched


def degeneracy(near: Adjacency) -> int:
    """The largest d such that some part of the graph has d neighbours for each of its variables.

    Whatever the order of elimination, some clique has more than d variables.

    >>> degeneracy([{1, 2}, {0, 2}, {0, 1, 3}, {2}])
    2
    """
    left = [len(around) for around in near]
    heap = [(count, v) for v, count in enumerate(left)]
    heapq.heapify(heap)
    gone = [False] * len(near)
    most = 0
    while heap:
        count, v = heapq.heappop(heap)
        if gone[v] or count != left[v]:
            continue
        gone[v] = True
        most = max(most, count)
        for u in near[v]:
            if not gone[u]:
                left[u] -= 1
                heapq.heappush(heap, (left[u], u))
    return most


def maximal_cliques(inside: Iterable[int], tied: Adjacency) -> list[frozenset[int]]:
    """Maximal cliques of the graph restricted to `inside` (Bron-Kerbosch)."""
    found: list[frozenset[int]] = []
    todo: list[tuple[frozenset[int], set[int], set[int]]] = [(frozenset(), set(inside), set())]
    while todo:
        clique, open_, closed = todo.pop()
        if not open_ and not closed:
            found.append(clique)
            continue
        pivot = max(sorted(open_ | closed), key=lambda u: len(open_ & tied[u]))
        for v in sorted(open_ - tied[pivot]):
            todo.append((clique | {v}, open_ & tied[v], closed & tied[v]))
            open_ = open_ - {v}
            closed = closed | {v}
    return found
