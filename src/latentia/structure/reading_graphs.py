"""as_graph: text, edges, dicts of parents and graphs of other libraries, read as a LatentGraph."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TypeAlias

from latentia.errors import GraphError, UnknownNameError
from latentia.structure.foreign_graphs import read_foreign
from latentia.structure.graph import LatentGraph, spell
from latentia.typing import ByName, Cell, Foreign, Given, Label

Latents: TypeAlias = ByName[int | None] | Iterable[object] | None
GraphLike: TypeAlias = "str | LatentGraph | ByName[Cell] | Iterable[object] | Foreign"
Edge: TypeAlias = tuple[Label, Label]


def as_graph(
    graph: GraphLike, latents: Latents = None, states: ByName[int] | None = None
) -> LatentGraph:
    """Read a graph: text, edges, dict of parents, a graph of networkx, pgmpy or pyAgrum, or ready.

    The parents of a variable stay in the order given, which is that of the axes of its table: the
    order in a dict or in text, of edges in a list, in which edges were added to a networkx graph.
    Networks that hold tables have the order of these. A set has none: it goes by spelling.

    >>> str(as_graph([("H", "X"), ("H", "Y")], latents={"H": 2}))
    '(H[2])->X; (H[2])->Y'
    >>> str(as_graph({"X": ["H"], "Y": ["H"]}, latents=["H"]))
    '(H)->X; (H)->Y'
    >>> str(as_graph("a--b--c[3]"))
    'a--b; b--c[3]'
    """
    if isinstance(graph, LatentGraph) and latents is None and states is None:
        return graph
    found = getattr(graph, "graph", None)  # of a FoundStructure
    if isinstance(graph, LatentGraph):
        read = _Reading.of_graph(graph)
    elif isinstance(found, LatentGraph):
        read = _Reading.of_graph(found)
    elif isinstance(graph, str | os.PathLike):
        read = _read_text(graph)
    elif isinstance(graph, Mapping) and not isinstance(graph, AbstractSet):
        read = _read_parents(graph)
    elif _is_listing(graph):
        read = _read_edges(graph)
    else:
        read = _read_other(graph)
    return read.finish(latents, states)


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

    def finish(self, latents: Latents, states: ByName[int] | None) -> LatentGraph:
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
        edges = dict.fromkeys((number[a], number[b]) for a, b in self.edges)  # in order, once each
        if not directed:
            edges = dict.fromkeys((min(a, b), max(a, b)) for a, b in edges)
        return LatentGraph(
            names=names,
            edges=tuple(edges),
            latent=frozenset(number[name] for name in hidden),
            states=tuple(counts.get(name) for name in names),
            directed=directed,
        )

    def _check_known(self, name: Label, what: str) -> None:
        if name not in self.names:
            raise UnknownNameError(what, name, self.names, "Is it spelt as in the graph?")


_ARROW = re.compile(r"(->|<-|--)")
_COUNTED = re.compile(r"^(.*?)\s*\[\s*(\d+)\s*\]$")
_FILE = re.compile(
    r"\.(bif|bifxml|xbif|xmlbif|xml|net|hugin|dsl|xdsl|dne|neta|uai|dot|gv|gml|graphml|json|jsonl"
    r"|ya?ml|o3prm|gum|txt|text|csv|tsv|parquet|graph|latentia|pkl|pickle|rda|rds|zip|gz|bz2|xz)$",
    re.IGNORECASE,
)
_NO_NAME = re.compile(r"[\[\]<>{}→←↔⟶⟵⇒⇐]|^-|-$")


def _read_text(text: str | os.PathLike[str]) -> _Reading:
    """`A->B; A->C,D; c[3]`: chains of ->, <- or --, commas for several, [k] for a state count."""
    if not isinstance(text, str) or _looks_like_a_path(text):
        raise GraphError(
            f"expected a graph such as 'A->B; A->C', got {str(text)!r}, which looks like the path "
            "of a file. Read networks by lt.read(path, graph_only=True), or with the library that "
            "wrote them, and pass the graph. A column of this name alone is [(name,)]."
        )
    read = _Reading({}, [], states={})
    _read_statements(text, read)
    return read


def _looks_like_a_path(text: str) -> bool:
    """One name, with the suffix of a file or of a file that is there."""
    name = text.strip()
    if not name or _ARROW.search(name) or re.search(r"[;,\n\[\]]", name):
        return False
    if _FILE.search(name):
        return True
    try:
        return bool(re.search(r"[/\\]|\.\w+$", name)) and os.path.exists(name)
    except ValueError:  # a name that no file can have
        return False


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
    if not name or _NO_NAME.search(name):
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


def _read_other(graph: object) -> _Reading:
    """An object of another library, a model with a graph, or none that can be read."""
    own = getattr(graph, "graph", None)
    if isinstance(own, LatentGraph):
        return _Reading.of_graph(own)
    found = read_foreign(graph)
    if found is None:
        raise GraphError(
            f"expected a graph as text, edges, dict of parents, networkx graph or LatentGraph, or "
            f"a network of pgmpy or pyAgrum, got {type(graph).__name__}. Pass its edges, "
            "[(parent, child), …]."
        )
    read = _Reading(dict.fromkeys(map(_checked_label, found.names)), [], found.directed)
    for a, b in found.edges:
        read.add_edge(a, b, directed=found.directed)
    read.latents = dict(found.latents)
    return read


def _read_parents(parents: ByName[Cell]) -> _Reading:
    read = _Reading(dict.fromkeys(_checked_label(v) for v in parents), [], directed=True)
    for child, above in parents.items():
        if isinstance(above, Mapping):
            raise GraphError(
                f"expected a list of the parents of {child!r}, got a dict, {above!r:.80}. Whether "
                "it holds parents or children is not said; pass {child: [parent, …]}."
            )
        for parent in _sequence(above):
            read.add_edge(parent, child, directed=True)
    return read


def _read_edges(edges: Iterable[object]) -> _Reading:
    read = _Reading({}, [], states={})
    for edge in _sequence(edges):
        if isinstance(edge, str):
            _read_statements(edge, read)
        elif isinstance(edge, list | tuple) and len(edge) == 2:
            read.add_edge(edge[0], edge[1], directed=True)
        elif isinstance(edge, list | tuple) and len(edge) == 1:
            read.names.setdefault(_checked_label(edge[0]))
        else:
            raise GraphError(f"expected an edge (parent, child), got {edge!r}.")
    return read


def _sequence(items: Given) -> list[Label]:
    """A list in a fixed order: sets have none of their own, so they go by what they print."""
    if items is None:
        return []
    if isinstance(items, str):
        return [items]
    if isinstance(items, AbstractSet):
        return sorted(items, key=spell)
    if not _is_listing(items):
        raise GraphError(f"expected a list of names, got {items!r:.80}.")
    return list(items)


def _is_listing(items: object) -> bool:
    """Lists, tuples, sets, iterators, one-dimensional arrays; not all that can be iterated.

    A network or a table gives its nodes or columns, or pairs of something else than edges.
    """
    if isinstance(items, Sequence | AbstractSet | ValuesView | Iterator):
        return not isinstance(items, str | bytes)
    return len(getattr(items, "shape", ())) == 1


def _pairs(latents: Latents) -> list[tuple[Label, int | None]]:
    if isinstance(latents, Mapping):
        return list(latents.items())
    return [(_checked_label(name), None) for name in _sequence(latents)]


def _counts(states: ByName[int] | None) -> list[tuple[Label, int]]:
    try:
        return [] if states is None else list(dict(states).items())
    except (TypeError, ValueError):
        raise GraphError(f"expected states as {{name: how many}}, got {states!r}.") from None


def _agreed(name: Label, before: int | None, count: int | None) -> int | None:
    if before is not None and count is not None and before != count:
        raise GraphError(f"{name!r} was given {before} states and {count} states. Keep one.")
    return count if count is not None else before


def _checked_label(name: object) -> Label:
    try:
        hash(name)
    except TypeError:
        raise GraphError(
            f"variable names must be hashable, got {name!r}. Use a string, a number or a tuple."
        ) from None
    if name is None or name != name:
        raise GraphError(f"{name!r} cannot name a variable. Use a string, a number or a tuple.")
    return name
