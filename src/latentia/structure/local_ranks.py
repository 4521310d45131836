"""Ranks from the surroundings of a separator alone, once for all separators that look alike.

Take the part of a graph on the ways from a separator to a few near leaves. Tables may be drawn so
that all other variables say nothing: a rank is at least what it is in the part. And whatever they
say is a factor over those of the part that they touch: a rank is at most what it is in the part
with such a factor, nor is it more than numbers of states allow. Where the two meet, it is known. In
a forest there are no other ways, and the part tells the truth at once.

Parts with the same edges and states are equal: a star or a chain of any length has a handful.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import final

import numpy as np

from latentia.errors import PlanError
from latentia.structure.generic_rank import GenericModel, draw_generic
from latentia.structure.graph import LatentGraph
from latentia.structure.junction import JunctionTree, clique_tree, grow_leaves, split_branches
from latentia.structure.near_leaves import Ball, Surroundings, ways_to
from latentia.structure.sides import Block, SideSearch
from latentia.structure.triangulate import Adjacency, eliminate, log_states, moralise

DRAWS = 2
LARGEST_PART = 64  # variables; a larger part seldom has a twin
LARGEST_FACTOR = 2**10  # joint states of variables that others touch


@final
@dataclass(frozen=True, slots=True)
class Part:
    """A separator with the ways to near leaves on both sides; variables are numbered anew."""

    separator: int  # variables 0, …, separator - 1
    inner: int  # inside are those before this one
    states: tuple[int, ...]
    edges: tuple[tuple[int, int], ...]
    directed: bool
    inside: tuple[tuple[int, ...], ...]  # columns of leaves, nearest first
    outside: tuple[tuple[int, ...], ...]
    bounds: tuple[int, ...]  # what each leaf can tell at most: inside, then outside
    rank: int  # what the separator can have at most
    complete: tuple[bool, bool]  # are these all leaves that are to be looked at?
    forest: bool  # no other ways
    touched: tuple[tuple[int, ...], tuple[int, ...]]  # by variables beyond, inside and outside

    def weigh(self, variables: Sequence[int]) -> int:
        """Joint states."""
        return math.prod(self.states[v] for v in variables)


@final
@dataclass(frozen=True, slots=True)
class PartSide:
    """A `Side` by place among the leaves of a part; its single leaves are all that are near."""

    core: Block
    core_rank: int
    singles: int  # the rank that single leaves reach


@final
@dataclass(frozen=True, slots=True)
class PartMaker:
    """Cuts parts out of a graph."""

    graph: LatentGraph
    parents: Sequence[Sequence[int]]
    around: Surroundings
    columns: Sequence[tuple[int, ...]]  # of each leaf
    bounds: Sequence[int]  # of each leaf
    forest: bool

    def part(
        self,
        separator: frozenset[int],
        edge: int,
        rank: int,
        balls: tuple[Ball, Ball],
        counts: tuple[int, int],
    ) -> Part | None:
        """The part with the first leaves of each ball; None if it is too large.

        The separator lies above clique `edge`, and has at most this rank.
        """
        number = {v: k for k, v in enumerate(sorted(separator))}
        inner = 0
        leaves: list[list[int]] = []
        for ball, count in zip(balls, counts, strict=True):
            for v in ways_to(self.around, ball, count, self.columns):
                if v not in number:
                    number[v] = len(number)
                if not self.forest:
                    self._add_parents(number, v, edge, len(leaves) == 0)
            inner = inner or len(number)
            leaves.append(ball.leaves[:count])
        if len(number) > LARGEST_PART:
            return None
        touched = (
            ((), ())
            if self.forest
            else (
                self._touched(number, separator, edge, True),
                self._touched(number, separator, edge, False),
            )
        )
        return Part(
            separator=len(separator),
            inner=inner,
            states=tuple([self.graph.states[v] or 1 for v in number]),
            edges=self._edges(number),
            directed=self.graph.directed,
            inside=self._columns(number, leaves[0]),
            outside=self._columns(number, leaves[1]),
            bounds=tuple([self.bounds[x] for side in leaves for x in side]),
            rank=rank,
            complete=(counts[0] == len(balls[0].leaves), counts[1] == len(balls[1].leaves)),
            forest=self.forest,
            touched=touched,
        )

    def _add_parents(self, number: dict[int, int], v: int, edge: int, inside: bool) -> None:
        """The parents that have a say in a variable, on the same side."""
        for p in self.parents[v]:
            if p not in number and self._is_on(p, edge, inside):
                number[p] = len(number)

    def _is_on(self, v: int, edge: int, inside: bool) -> bool:
        """Is a variable, not of the separator, on this side of it?"""
        around = self.around
        return (around.enter[edge] <= around.place[v] < around.leave[edge]) == inside

    def _touched(
        self, number: dict[int, int], separator: frozenset[int], edge: int, inside: bool
    ) -> tuple[int, ...]:
        """Variables of the part that others on this side have a say in.

        Others that are told by the part, and tell nothing of it, can be left out.
        """
        here = [v for v in number if v in separator or self._is_on(v, edge, inside)]

        def beyond(u: int) -> bool:
            return u not in number and self._is_on(u, edge, inside)

        if self.graph.directed and not any(beyond(p) for v in here for p in self.parents[v]):
            return ()
        near, hubs = self.around.near, self.around.hubs
        return tuple([number[v] for v in here if v in hubs or any(map(beyond, near[v]))])

    def _columns(self, number: dict[int, int], leaves: list[int]) -> tuple[tuple[int, ...], ...]:
        return tuple([tuple([number[v] for v in self.columns[x]]) for x in leaves])

    def _edges(self, number: dict[int, int]) -> tuple[tuple[int, int], ...]:
        if self.graph.directed:
            parents = self.parents
            return tuple(
                [(number[p], k) for v, k in number.items() for p in parents[v] if p in number]
            )
        near = self.around.near
        return tuple(
            [
                (number[u], k)
                for v, k in number.items()
                for u in number
                if number[u] < k and u in near[v]
            ]
        )


@final
@dataclass(frozen=True)
class PartModel:
    """A part with its tree and random tables in which the separator has its full rank."""

    part: Part
    tree: JunctionTree
    lower: GenericModel
    sides: tuple[int, int]  # cliques next to the separator, inside and outside
    middle: int  # the separator's own clique

    @cached_property
    def upper(self) -> tuple[GenericModel, ...]:
        """With factors over what is touched; none if these would be large."""
        if max(map(self.part.weigh, self.part.touched)) > LARGEST_FACTOR:
            return ()
        touched = [t for t in self.part.touched if t]
        return tuple(_draw(self.part, self.tree, k, touched) for k in range(DRAWS))


@lru_cache(maxsize=4096)
def has_rank(part: Part) -> bool:
    """Does the separator's rank reach its bound in the part, and so in the whole graph?"""
    return _model(part) is not None


@lru_cache(maxsize=4096)
def sides_of_part(part: Part) -> tuple[PartSide, PartSide] | None:
    """Both sides in the whole graph; None if the part does not tell."""
    model = _model(part)
    if model is None:
        return None
    inside = _search(model, 0)
    outside = None if inside is None else _search(model, 1)
    return None if inside is None or outside is None else (inside, outside)


@lru_cache(maxsize=64)
def _model(part: Part) -> PartModel | None:
    """None if no draw reaches the rank that numbers of states allow."""
    tree = _tree(part)
    middle = len(tree.cliques) - 1
    inside, outside = (i for i, up in enumerate(tree.parent) if up == middle != i)
    for k in range(DRAWS):
        try:
            lower = _draw(part, tree, k)
        except PlanError:  # the whole graph may have been triangulated into smaller cliques
            return None
        if lower.rank(inside) == part.rank:
            return PartModel(part, tree, lower, (inside, outside), middle)
    return None


def _draw(
    part: Part, tree: JunctionTree, seed: int, touched: Sequence[tuple[int, ...]] = ()
) -> GenericModel:
    return draw_generic(_graph(part), tree, np.random.default_rng([2020, seed]), touched)


def _search(model: PartModel, which: int) -> PartSide | None:
    """As over all leaves; None if more leaves are needed, or a rank is not known for sure."""
    part, i, j = model.part, model.sides[which], model.middle
    columns = (*part.inside, *part.outside)
    split = len(part.inside)
    leaves = list(range(split) if which == 0 else range(split, len(columns)))
    cliques = [k for k, held in enumerate(model.lower.tree.holds) if held]
    complete = part.complete[which]
    doubtful, singles = False, 1

    def watch(blocks: Sequence[Block], found: int) -> None:
        nonlocal doubtful, singles
        doubtful = doubtful or found < _most(model, i, blocks, found, cliques)
        if all(len(block) == 1 for block in blocks):
            singles = max(singles, found)

    search = SideSearch(
        model=model.lower,
        i=i,
        j=j,
        rank=part.rank,
        candidates=lambda _: leaves,
        most=len(leaves),
        cliques=cliques,
        sizes=[math.prod(part.states[v] for v in held) for held in columns],
        whole=complete,
        watch=watch,
    )
    side = search.search(len(leaves))
    if doubtful or side.core_rank < part.rank or not (complete or singles >= part.rank):
        return None
    return PartSide(tuple(x - leaves[0] for x in side.core), side.core_rank, singles)


def _most(
    model: PartModel, i: int, blocks: Sequence[Block], found: int, cliques: Sequence[int]
) -> int:
    """The rank that blocks of leaves can have in the whole graph."""
    part = model.part
    if part.forest:
        return found
    most = 1 + sum(math.prod(part.bounds[x] for x in block) - 1 for block in blocks)
    most = min(part.rank, most)
    if found >= most or not model.upper:
        return most
    groups = [frozenset(cliques[x] for x in block) for block in blocks]
    return min(most, max(m.dimension(i, model.middle, groups) for m in model.upper))


def _graph(part: Part) -> LatentGraph:
    return LatentGraph(
        names=tuple(range(len(part.states))),
        edges=part.edges,
        latent=frozenset(),
        states=part.states,
        directed=part.directed,
    )


def _tree(part: Part) -> JunctionTree:
    """A tree of the inside and one of the outside, both hung on the separator, which comes last."""
    graph = _graph(part)
    own = range(part.separator)
    tied = [t for t in part.touched if part.weigh(t) <= LARGEST_FACTOR]
    near = moralise(graph, [own, *part.inside, *part.outside, *tied])
    weight = log_states(graph)
    sides = [
        (range(part.inner), part.inside),
        ([*own, *range(part.inner, len(part.states))], part.outside),
    ]
    cliques: list[frozenset[int]] = []
    parent: list[int] = []
    holds: list[tuple[int, ...]] = []
    tops = []
    for members, leaves in sides:
        tree = _side_tree(near, list(members), leaves, weight, frozenset(own))
        top = next(i for i, up in enumerate(tree.parent) if up == i and tree.cliques[i] >= set(own))
        tops.append(top + len(cliques))
        parent += [up + len(cliques) for up in tree.parent]
        cliques += tree.cliques
        holds += tree.holds
    for top in tops:
        parent[top] = len(cliques)
    parent.append(len(cliques))
    return JunctionTree((*cliques, frozenset(own)), tuple(parent), (*holds, ()))


def _side_tree(
    near: Adjacency,
    members: list[int],
    leaves: Sequence[tuple[int, ...]],
    weight: Sequence[float],
    separator: frozenset[int],
) -> JunctionTree:
    """Over `members` only, a clique with all of the separator on top."""
    number = {v: k for k, v in enumerate(members)}
    inner = [{number[u] for u in near[v] if u in number} for v in members]
    light = [weight[v] for v in members]
    tree = clique_tree(eliminate(inner, light))
    tree = grow_leaves(tree, [tuple(number[v] for v in held) for held in leaves], light)
    tree = split_branches(tree, light)  # products of all branches of a hub would be large
    whole = frozenset(number[v] for v in separator)
    top = next(i for i, c in enumerate(tree.cliques) if whole <= c and not tree.holds[i])
    roots = [top]
    reached = _component(tree, top)
    roots += [i for i, up in enumerate(tree.parent) if up == i and i not in reached]
    tree = tree.rooted_at(roots)
    return JunctionTree(
        tuple(frozenset(members[k] for k in c) for c in tree.cliques),
        tree.parent,
        tuple(tuple(members[k] for k in held) for held in tree.holds),
    )


def _component(tree: JunctionTree, start: int) -> set[int]:
    near = tree.neighbours()
    found, todo = {start}, [start]
    for i in todo:
        new = [j for j in near[i] if j not in found]
        found.update(new)
        todo += new
    return found
