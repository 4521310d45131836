"""LatentGraph: variables, which of them are latent, and how they are tied together.

Variables are numbered in input order; everything behind this border works with these numbers, so
that labels may be anything hashable and the same input gives the same tree on every platform.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import TYPE_CHECKING, final

from latentia import doors
from latentia.errors import GraphError, UnknownNameError
from latentia.spelling import printable
from latentia.typing import Label

if TYPE_CHECKING:
    from latentia.draw.svg import Drawing


@final
@dataclass(frozen=True, slots=True)
class LatentGraph:
    """Variables 0..n-1 with names, states and edges; checks itself.

    Edges are sorted, except that the parents of a variable stay in the order in which they were
    given: it is the order of the axes of its table. Undirected edges are (smaller, larger).

    >>> graph = LatentGraph(("A", "B", "C"), ((0, 1), (0, 2)), frozenset({0}), (3, None, None))
    >>> str(graph), graph.observed
    ('(A[3])->B; (A[3])->C', (1, 2))
    """

    names: tuple[Label, ...]
    edges: tuple[tuple[int, int], ...]  # (parent, child), parents in the order given; see below
    latent: frozenset[int]
    states: tuple[int | None, ...]  # None: not known yet
    directed: bool = True
    observed: tuple[int, ...] = field(init=False, repr=False, compare=False)  # columns, in order
    _parents: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)
    _children: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        n = len(self.names)
        if n == 0:
            raise GraphError("the graph has no variables. Name at least one column.")
        if len(set(self.names)) != n:
            raise GraphError(f"variable names must differ, got {list(self.names)}.")
        if len(self.states) != n or not self.latent <= set(range(n)):
            raise GraphError("states and latents must match the variables.")
        counts = tuple(map(_whole, self.names, self.states))
        object.__setattr__(self, "states", counts)  # numpy's integers become Python's
        self._check_edges()
        object.__setattr__(self, "edges", _sorted_edges(self.edges, self.directed))
        observed = tuple(v for v in range(n) if v not in self.latent)
        object.__setattr__(self, "observed", observed)  # both are asked for again and again
        arrows = self.edges if self.directed else ()
        object.__setattr__(self, "_parents", _parents(arrows, n))
        object.__setattr__(self, "_children", _parents([(b, a) for a, b in arrows], n))
        if len(self.latent) == n:
            raise GraphError(
                f"every variable is latent ({_listing(self.names)}); at least one must be a column."
            )

    def _check_edges(self) -> None:
        seen = set(self.edges)
        inside = range(len(self.names))
        if len(seen) < len(self.edges) or not all(a in inside and b in inside for a, b in seen):
            raise GraphError(
                f"edges must differ and join variables of the graph, got {self.edges}."
            )
        for a, b in sorted(seen):  # the same complaint in whatever order they come
            if a == b:
                raise GraphError(f"{self.names[a]!r} is tied to itself. Remove the self-loop.")
            if (b, a) in seen:
                raise GraphError(
                    f"contradictory edges {self.names[a]!r} -> {self.names[b]!r} and "
                    f"{self.names[b]!r} -> {self.names[a]!r}. Keep one direction."
                )
            if not self.directed and a > b:
                raise GraphError(f"undirected edges run from smaller to larger, got {(a, b)}.")
        if self.directed:
            cycle = find_cycle(len(self.names), self.edges)
            if cycle:
                path = " -> ".join(str(self.names[v]) for v in (*cycle, cycle[0]))
                raise GraphError(
                    f"the directed graph has a cycle: {path}. Reverse or drop an edge."
                )

    def index(self, name: Label) -> int:
        """The number of the variable called `name`."""
        try:
            return self.names.index(name)
        except ValueError:
            raise UnknownNameError("variable", name, self.names) from None

    def parents(self) -> tuple[tuple[int, ...], ...]:
        """Parents of every variable, in the order given (empty for undirected graphs)."""
        return self._parents

    def children(self) -> tuple[tuple[int, ...], ...]:
        """Children of every variable (empty for undirected graphs)."""
        return self._children

    def without_states(self, names: Collection[Label]) -> LatentGraph:
        """The same graph with unknown numbers of states of some variables."""
        states = zip(self.names, self.states, strict=True)
        return replace(self, states=tuple(None if n in names else k for n, k in states))

    def with_states(self, states: Mapping[Label, int]) -> LatentGraph:
        """The same graph with the numbers of states of some variables filled in."""
        counts = list(self.states)
        number = {name: v for v, name in enumerate(self.names)}
        for name, count in states.items():
            counts[number[name] if name in number else self.index(name)] = count
        known = tuple(counts)
        return self if known == self.states else replace(self, states=known)

    def draw(self) -> Drawing:
        """A picture of the graph, its latents marked: `.svg`, `.save(path)`, or in a notebook."""
        return doors.draw_graph(self)

    def __str__(self) -> str:
        def show(v: int) -> str:
            count = "" if self.states[v] is None else f"[{self.states[v]}]"
            shown = f"{printable(self.names[v])}{count}"
            return f"({shown})" if v in self.latent else shown

        arrow = "->" if self.directed else "--"
        tied = {v for edge in self.edges for v in edge}
        parts = [f"{show(a)}{arrow}{show(b)}" for a, b in self.edges]
        return "; ".join(parts + [show(v) for v in range(len(self.names)) if v not in tied])


def silent_latents(graph: LatentGraph) -> tuple[Label, ...]:
    """Names of the latents that say nothing about any column."""
    left = set(relevant(graph).names)
    return tuple(name for name in graph.names if name not in left)


def relevant(graph: LatentGraph) -> LatentGraph:
    """The graph without latents that say nothing about any column.

    Directed: latents with no observable descendant. Undirected: latents cut off from every column.

    >>> names, edges = ("H", "X", "L"), ((0, 1), (0, 2))
    >>> str(relevant(LatentGraph(names, edges, frozenset({0, 2}), (2, None, 2))))
    '(H[2])->X'
    """
    reached = set(graph.observed)
    back: list[list[int]] = [[] for _ in graph.names]
    for a, b in graph.edges:
        back[b].append(a)
        if not graph.directed:
            back[a].append(b)
    todo = list(reached)
    while todo:
        for p in back[todo.pop()]:
            if p not in reached:
                reached.add(p)
                todo.append(p)
    if len(reached) == len(graph.names):
        return graph
    keep = sorted(reached)
    number = {v: i for i, v in enumerate(keep)}
    return LatentGraph(
        names=tuple(graph.names[v] for v in keep),
        edges=tuple(
            (number[a], number[b]) for a, b in graph.edges if a in reached and b in reached
        ),
        latent=frozenset(number[v] for v in graph.latent if v in reached),
        states=tuple(graph.states[v] for v in keep),
        directed=graph.directed,
    )


def _parents(edges: Sequence[tuple[int, int]], count: int) -> tuple[tuple[int, ...], ...]:
    found: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        found[b].append(a)
    return tuple(map(tuple, found))


def _sorted_edges(edges: Iterable[tuple[int, int]], directed: bool) -> tuple[tuple[int, int], ...]:
    """The smallest edge first, among those that are next in line at their child.

    So that graphs with the same parents in the same orders are equal, whatever order their edges
    were given in otherwise.
    """
    if not directed:
        return tuple(sorted(edges))
    waiting: dict[int, list[int]] = {}  # child -> parents still to come, the next one last
    for a, b in edges:
        waiting.setdefault(b, []).append(a)
    for above in waiting.values():
        above.reverse()
    ready = [(above.pop(), b) for b, above in waiting.items()]
    heapq.heapify(ready)
    found = []
    while ready:
        a, b = heapq.heappop(ready)
        found.append((a, b))
        if waiting[b]:
            heapq.heappush(ready, (waiting[b].pop(), b))
    return tuple(found)


def find_cycle(n: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """A directed cycle from its smallest variable on, or the empty list."""
    children: list[list[int]] = [[] for _ in range(n)]
    waiting = [0] * n
    for a, b in edges:
        children[a].append(b)
        waiting[b] += 1
    free = [v for v in range(n) if waiting[v] == 0]
    while free:
        for b in children[free.pop()]:
            waiting[b] -= 1
            if waiting[b] == 0:
                free.append(b)
    stuck = {v for v in range(n) if waiting[v] > 0}
    if not stuck:
        return []
    # every stuck variable has a stuck parent: walk backwards until one repeats
    parent = {b: a for a, b in edges if a in stuck and b in stuck}
    path, seen = [min(stuck)], {min(stuck)}
    while parent[path[-1]] not in seen:
        path.append(parent[path[-1]])
        seen.add(path[-1])
    cycle = path[path.index(parent[path[-1]]) :][::-1]
    start = cycle.index(min(cycle))
    return cycle[start:] + cycle[:start]


def spell(label: Label) -> str:
    """What a label prints, the same on every run: the members of sets are sorted.

    >>> spell(("t", frozenset({2, 1, 10})))
    "('t', {1, 10, 2})"
    """
    if isinstance(label, AbstractSet):
        return "{" + ", ".join(sorted(map(spell, label))) + "}"
    if isinstance(label, tuple):
        return "(" + ", ".join(map(spell, label)) + ")"
    return repr(label)


def _whole(name: Label, count: object) -> int | None:
    if count is None:
        return None
    if isinstance(count, bool) or not isinstance(count, Integral):
        raise GraphError(f"the number of states of {name!r} must be a whole number, got {count!r}.")
    if count < 1:
        raise GraphError(f"{name!r} needs at least one state, got {count}.")
    return int(count)


def _listing(names: Iterable[Label]) -> str:
    return ", ".join(str(name) for name in names)
