"""Pieces: what hangs together in a directed graph once some of its variables are known (design 13).

A *family* is a variable with its parents. Two variables that are not known are tied if one family
holds both; the classes of that relation are pieces. Given the known ones pieces are independent:

    P(row) = ∏ closed families T(x | pa) · ∏ pieces Σ_unknown ∏ families of the piece T

so that likelihood, expected counts and posteriors fall apart, each over the few columns around it.
Learning cuts at the columns without holes, answering at the evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeVar, final

from latentia.exact.estep_wiring import EStep, Scope, compile_estep
from latentia.structure.graph import LatentGraph

T = TypeVar("T")

KEPT_NAMES = 200  # variables of a graph whose cut is kept


@final
@dataclass(frozen=True)
class Piece:
    """Families that hang together, as a small graph whose variables have numbers of their own."""

    graph: LatentGraph  # in the order of the whole graph
    variables: Scope  # their numbers in the whole graph
    families: Scope  # whose tables belong to the piece, in the whole graph's numbers
    unknown: Scope  # … and what ties them together

    @cached_property
    def number(self) -> Mapping[int, int]:
        """Number in the whole graph -> number in the piece."""
        return {v: k for k, v in enumerate(self.variables)}

    @property
    def given(self) -> frozenset[int]:
        """Columns that the piece is conditioned on, by its own numbers."""
        own = set(self.families)
        return frozenset(k for k, v in enumerate(self.variables) if v not in own)

    @property
    def columns(self) -> Scope:
        """Its columns, in the whole graph's numbers and in the order of the small graph."""
        return tuple(self.variables[k] for k in self.graph.observed)

    def inside(self, values: Mapping[int, T]) -> dict[int, T]:
        """What is said of the piece's own families, by its own numbers."""
        number = self.number
        return {number[v]: values[v] for v in self.families if v in values}

    def outside(self, values: Mapping[int, T]) -> dict[int, T]:
        """The same by the numbers of the whole graph."""
        return {self.variables[k]: x for k, x in values.items()}

    def wire(
        self,
        holes: Iterable[int] = (),
        asked: Iterable[int] = (),
        continuous: Iterable[int] = (),
    ) -> EStep:
        """The E-step of the piece; columns by the whole graph's numbers."""
        own = self.number
        return compile_estep(
            self.graph,
            [own[v] for v in holes if v in own],
            [own[v] for v in asked if v in own],
            [own[v] for v in continuous if v in own],
            self.given,
        )


@final
@dataclass(frozen=True, slots=True)
class Cut:
    """A graph cut at what is known: pieces, and the families that are known as a whole."""

    pieces: tuple[Piece, ...]  # by their first unknown variable
    closed: Scope


def cut_graph(
    graph: LatentGraph,
    unknown: AbstractSet[int],
    kept: AbstractSet[int] | None = None,
    together: Iterable[Sequence[int]] = (),
    latent: AbstractSet[int] | None = None,
) -> Cut:
    """Cut at all that is not `unknown`; the last cuts are kept, for several fits of one graph.

    `kept`: these families only, which must hold all ancestors of each (what lies below them sums to
    one). `together`: families that must end up in one piece, as those that share a table must.
    `latent`: unknown variables that no row ever has; default: the graph's. The others are columns
    with holes. A piece that would be without columns has one all the same, with nothing but holes.
    """
    never = graph.latent if latent is None else latent
    alive = range(len(graph.names)) if kept is None else kept
    ties = tuple(tuple(group) for group in together)
    asked = (graph, frozenset(unknown), frozenset(alive), ties, frozenset(never))
    if len(graph.names) > KEPT_NAMES:
        return _cut(*asked)
    return _kept_cut(tuple(map(type, graph.names)), *asked)  # names 1 and True are equal


@lru_cache(maxsize=8)
def _kept_cut(
    kinds: tuple[type, ...],
    graph: LatentGraph,
    unknown: frozenset[int],
    kept: frozenset[int],
    together: tuple[Scope, ...],
    never: frozenset[int],
) -> Cut:
    return _cut(graph, unknown, kept, together, never)


def _cut(
    graph: LatentGraph,
    unknown: frozenset[int],
    kept: frozenset[int],
    together: tuple[Scope, ...],
    never: frozenset[int],
) -> Cut:
    parents, alive = graph.parents(), sorted(kept)
    ties = _Ties(len(graph.names))
    loose = {v: [u for u in (*parents[v], v) if u in unknown] for v in alive}
    for members in loose.values():
        ties.join(members)
    first = {v: members[0] for v, members in loose.items() if members}
    for group in together:
        held = [first[v] for v in group if v in first]
        if held:  # a closed family may share its table with one that is not
            ties.join(held)
            first |= {v: held[0] for v in group if v in loose}
    groups: dict[int, list[int]] = {}
    for v in alive:
        if v in first:
            groups.setdefault(ties.top(first[v]), []).append(v)
    closed = tuple(v for v in alive if v not in first)
    return Cut(
        tuple(_piece(graph, parents, unknown, never, groups[top]) for top in sorted(groups)), closed
    )


def _piece(
    graph: LatentGraph,
    parents: Sequence[Scope],
    unknown: AbstractSet[int],
    never: AbstractSet[int],
    families: list[int],
) -> Piece:
    variables = sorted({u for v in families for u in (*parents[v], v)})
    number = {v: k for k, v in enumerate(variables)}
    latent = [v for v in variables if v in never]
    if len(latent) == len(variables):
        latent = latent[1:]
    small = LatentGraph(
        names=tuple(graph.names[v] for v in variables),
        edges=tuple((number[u], number[v]) for v in families for u in parents[v]),
        latent=frozenset(number[v] for v in latent),
        states=tuple(graph.states[v] for v in variables),
    )
    return Piece(
        small, tuple(variables), tuple(families), tuple(v for v in variables if v in unknown)
    )


class _Ties:
    """Which variables are tied to each other: the smallest stands for all."""

    def __init__(self, count: int) -> None:
        self.above = list(range(count))

    def top(self, v: int) -> int:
        while self.above[v] != v:
            self.above[v] = self.above[self.above[v]]
            v = self.above[v]
        return v

    def join(self, members: Sequence[int]) -> None:
        for v in members[1:]:
            a, b = sorted((self.top(members[0]), self.top(v)))
            self.above[b] = a


def with_ancestors(parents: Sequence[Scope], variables: Iterable[int]) -> frozenset[int]:
    """The variables and all that lies above them; the rest is barren: it sums to one."""
    found = set(variables)
    ring = list(found)
    for v in ring:
        fresh = [u for u in parents[v] if u not in found]
        found.update(fresh)
        ring += fresh
    return frozenset(found)
