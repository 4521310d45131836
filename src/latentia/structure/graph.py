"""LatentGraph: variables, which of them are latent, and how they are tied together.

Variables are numbered in input order; everything behind this border works with these numbers, so
that labels may be anything hashable and the same input gives the same tree on every platform.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeAlias, final

from latentia import doors
from latentia.errors import GraphError, UnknownNameError
from latentia.spelling import printable
from latentia.typing import Label

if TYPE_CHECKING:
    from latentia.draw.svg import Drawing

Latents: TypeAlias = Mapping[Any, int | None] | Iterable[Any] | None
GraphLike: TypeAlias = "str | LatentGraph | Mapping[Any, Any] | Iterable[Any]"
Edge: TypeAlias = tuple[Label, Label]


@final
@dataclass(frozen=True, slots=True)
class LatentGraph:
    """Variables 0..n-1 with names, states and edges; checks itself.

    >>> graph = as_graph("A->B; A->C", latents={"A": 3})
    >>> graph.names, graph.observed
    (('A', 'B', 'C'), (1, 2))
    """

    names: tuple[Label, ...]
    edges: tuple[tuple[int, int], ...]  # (parent, child); undirected: (smaller, larger)
    latent: frozenset[int]
    states: tuple[int | None, ...]  # None: not known yet
    directed: bool = True

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
        for a, b in self.edges:
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

    @property
    def observed(self) -> tuple[int, ...]:
        """The columns, in input order."""
        return tuple(v for v in range(len(self.names)) if v not in self.latent)

    def index(self, name: Label) -> int:
        """The number of the variable called `name`."""
        try:
            return self.names.index(name)
        except ValueError:
            raise UnknownNameError("variable", name, self.names) from None

    def parents(self) -> tuple[tuple[int, ...], ...]:
        """Parents of every variable, in input order (empty for undirected graphs)."""
        found: list[list[int]] = [[] for _ in self.names]
        if self.directed:
            for a, b in self.edges:
                found[b].append(a)
        return tuple(tuple(sorted(p)) for p in found)

    def with_states(self, states: Mapping[Label, int]) -> LatentGraph:
        """The same graph with the numbers of states of some variables filled in."""
        counts = list(self.states)
        for name, count in states.items():
            counts[self.index(name)] = count
        return replace(self, states=tuple(counts))

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


def as_graph(
    graph: GraphLike, latents: Latents = None, states: Mapping[Any, int] | None = None
) -> LatentGraph:
    """Read a graph: text, edge list, dict of parents, networkx (Di)Graph, or a ready LatentGraph.

    >>> str(as_graph([("H", "X"), ("H", "Y")], latents={"H": 2}))
    '(H[2])->X; (H[2])->Y'
    >>> str(as_graph({"X": ["H"], "Y": ["H"]}, latents=["H"]))
    '(H)->X; (H)->Y'
    >>> str(as_graph("a--b--c[3]"))
    'a--b; b--c[3]'
    """
    if isinstance(graph, LatentGraph):
        read = _Reading.of_graph(graph)
    elif isinstance(graph, str):
        read = _read_text(graph)
    elif hasattr(graph, "is_directed") and hasattr(graph, "edges") and hasattr(graph, "nodes"):
        read = _read_networkx(graph)
    elif isinstance(graph, Mapping):
        read = _read_parents(graph)
    elif isinstance(graph, Iterable):
        read = _read_edges(graph)
    else:
        raise GraphError(
            f"expected a graph as text, edges, dict of parents, networkx graph or LatentGraph, "
            f"got {type(graph).__name__}."
        )
    return read.finish(latents, states)


def relevant(graph: LatentGraph) -> LatentGraph:
    """The graph without latents that say nothing about any column.

    Directed: latents with no observable descendant. Undirected: latents cut off from every column.

    >>> str(relevant(as_graph("H->X; H->L", latents={"H": 2, "L": 2})))
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
    path = [min(stuck)]
    while parent[path[-1]] not in path:
        path.append(parent[path[-1]])
    cycle = path[path.index(parent[path[-1]]) :][::-1]
    start = cycle.index(min(cycle))
    return cycle[start:] + cycle[:start]


@dataclass
class _Reading:
    """What was read so far: names in order of appearance, edges by name, counts."""

    names: dict[Label, None]
    edges: list[Edge]
    directed: bool | None = None
    states: dict[Label, int | None] | None = None
    latents: dict[Label, int | None] | None = None

    @classmethod
    def of_graph(cls, graph: LatentGraph) -> _Reading:
        named = [(graph.names[a], graph.names[b]) for a, b in graph.edges]
        states = dict(zip(graph.names, graph.states, strict=True))
        latents = {graph.names[v]: graph.states[v] for v in sorted(graph.latent)}
        return cls(dict.fromkeys(graph.names), named, graph.directed, states, latents)

    def add_edge(self, a: Label, b: Label, directed: bool) -> None:
        if self.directed is not None and self.directed != directed:
            raise GraphError(
                f"edge {a!r}, {b!r} mixes directed (->) and undirected (--) edges. Use one kind."
            )
        self.directed = directed
        self.names.setdefault(_checked_label(a))
        self.names.setdefault(_checked_label(b))
        self.edges.append((a, b))

    def finish(self, latents: Latents, states: Mapping[Any, int] | None) -> LatentGraph:
        counts: dict[Label, int | None] = dict(self.states or {})
        hidden = dict(self.latents or {})
        for name, count in _pairs(latents):
            self._check_known(name, "latent")
            hidden[name] = count
        for name, count in [*hidden.items(), *_counts(states)]:
            self._check_known(name, "variable")
            counts[name] = _agreed(name, counts.get(name), count)
        names = tuple(self.names)
        number = {name: i for i, name in enumerate(names)}
        directed = self.directed is not False
        edges = {(number[a], number[b]) for a, b in self.edges}
        if not directed:
            edges = {(min(a, b), max(a, b)) for a, b in edges}
        return LatentGraph(
            names=names,
            edges=tuple(sorted(edges)),
            latent=frozenset(number[name] for name in hidden),
            states=tuple(counts.get(name) for name in names),
            directed=directed,
        )

    def _check_known(self, name: Label, what: str) -> None:
        if name not in self.names:
            raise UnknownNameError(what, name, self.names, "Is it spelt as in the graph?")


_ARROW = re.compile(r"(->|<-|--)")
_COUNTED = re.compile(r"^(.*?)\s*\[\s*(\d+)\s*\]$")


def _read_text(text: str) -> _Reading:
    """`A->B; A->C,D; c[3]`: chains of ->, <- or --, commas for several, [k] for a state count."""
    read = _Reading({}, [], states={})
    _read_statements(text, read)
    return read


def _read_statements(text: str, read: _Reading) -> None:
    for statement in re.split(r"[;\n]", text):
        if statement.strip():
            _read_statement(statement.strip(), read)


def _read_statement(statement: str, read: _Reading) -> None:
    pieces = _ARROW.split(statement)
    groups = [[_read_name(word, statement, read) for word in p.split(",")] for p in pieces[::2]]
    for arrow, left, right in zip(pieces[1::2], groups, groups[1:], strict=False):
        for a in left:
            for b in right:
                edge = (b, a) if arrow == "<-" else (a, b)
                read.add_edge(*edge, directed=arrow != "--")


def _read_name(word: str, statement: str, read: _Reading) -> str:
    word = word.strip()
    counted = _COUNTED.match(word)
    name = counted.group(1).strip() if counted else word
    if not name or re.search(r"[\[\]<>]|^-|-$", name):
        raise GraphError(
            f"cannot read {statement!r}: expected names joined by ->, <- or --, "
            f"such as 'A->B; B--C; C[3]', got {word!r}."
        )
    read.names.setdefault(name)
    if counted:
        states = read.states or {}
        states[name] = _agreed(name, states.get(name), int(counted.group(2)))
        read.states = states
    return name


def _read_networkx(graph: Any) -> _Reading:
    read = _Reading(dict.fromkeys(_checked_label(v) for v in graph.nodes), [])
    read.directed = bool(graph.is_directed())
    for edge in graph.edges:
        read.add_edge(edge[0], edge[1], directed=read.directed)
    return read


def _read_parents(parents: Mapping[Any, Any]) -> _Reading:
    read = _Reading(dict.fromkeys(_checked_label(v) for v in parents), [], directed=True)
    for child, above in parents.items():
        for parent in _sequence(above):
            read.add_edge(parent, child, directed=True)
    return read


def _read_edges(edges: Iterable[Any]) -> _Reading:
    read = _Reading({}, [], states={})
    for edge in _sequence(edges):
        if isinstance(edge, str):
            _read_statements(edge, read)
        elif isinstance(edge, Sequence) and len(edge) == 2:
            read.add_edge(edge[0], edge[1], directed=True)
        elif isinstance(edge, Sequence) and len(edge) == 1:
            read.names.setdefault(_checked_label(edge[0]))
        else:
            raise GraphError(f"expected an edge (parent, child), got {edge!r}.")
    return read


def _sequence(items: Any) -> list[Any]:
    """A list in a fixed order: sets have none of their own, so they go by what they print."""
    if items is None:
        return []
    if isinstance(items, str):
        return [items]
    if isinstance(items, AbstractSet):
        return sorted(items, key=spell)
    if not isinstance(items, Iterable):
        raise GraphError(f"expected a list of names, got {items!r}.")
    return list(items)


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


def _pairs(latents: Latents) -> list[tuple[Label, int | None]]:
    if isinstance(latents, Mapping):
        return list(latents.items())
    return [(_checked_label(name), None) for name in _sequence(latents)]


def _counts(states: Mapping[Any, int] | None) -> list[tuple[Label, int]]:
    try:
        return [] if states is None else list(dict(states).items())
    except (TypeError, ValueError):
        raise GraphError(f"expected states as {{name: how many}}, got {states!r}.") from None


def _agreed(name: Label, before: int | None, count: int | None) -> int | None:
    if before is not None and count is not None and before != count:
        raise GraphError(f"{name!r} was given {before} states and {count} states. Keep one.")
    return count if count is not None else before


def _whole(name: Label, count: Any) -> int | None:
    if count is None:
        return None
    if isinstance(count, bool) or not isinstance(count, Integral):
        raise GraphError(f"the number of states of {name!r} must be a whole number, got {count!r}.")
    if count < 1:
        raise GraphError(f"{name!r} needs at least one state, got {count}.")
    return int(count)


def _checked_label(name: Any) -> Label:
    try:
        hash(name)
    except TypeError:
        raise GraphError(
            f"variable names must be hashable, got {name!r}. Use a string, a number or a tuple."
        ) from None
    if name is None or name != name:
        raise GraphError(f"{name!r} cannot name a variable. Use a string, a number or a tuple.")
    return name  # type: ignore[no-any-return]


def _listing(names: Iterable[Label]) -> str:
    return ", ".join(str(name) for name in names)
