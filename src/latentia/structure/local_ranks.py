"""Ranks from the surroundings of a separator alone, once for all separators that look alike.

Tables may be drawn so that far variables say nothing. So the generic rank of the graph is at least
that of the part of it on the ways from the separator to a few near leaves, and where this meets the
bound that numbers of states set, it is the rank. In a forest the ways are the only ones, and what
leaves tell of a separator is the same in the part and in the whole. Parts with the same edges and
states are one `Part`: a star or a chain of any length has a handful.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import final

import numpy as np

from latentia.structure.generic_rank import GenericModel, draw_generic
from latentia.structure.graph import LatentGraph
from latentia.structure.junction import JunctionTree, clique_tree, grow_leaves, split_branches
from latentia.structure.near_leaves import Ball, Surroundings, path_back
from latentia.structure.sides import Block, SideSearch
from latentia.structure.triangulate import Adjacency, eliminate, log_states, moralise

DRAWS = 2
LARGEST_PART = 64  # variables; a larger part seldom has a twin


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
        rank: int,
        balls: tuple[Ball, Ball],
        counts: tuple[int, int],
    ) -> Part | None:
        """The part with the first leaves of each ball; None if it is too large."""
        number = {v: k for k, v in enumerate(sorted(separator))}
        inner = 0
        leaves = []
        for ball, count in zip(balls, counts, strict=True):
            for k in range(count):
                for v in (
                    *reversed(path_back(self.around, ball, k)),
                    *self.columns[ball.leaves[k]],
                ):
                    number.setdefault(v, len(number))
            inner = inner or len(number)
            leaves.append(ball.leaves[:count])
        if len(number) > LARGEST_PART:
            return None
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
        )

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


@lru_cache(maxsize=4096)
def sides_of_part(part: Part) -> tuple[PartSide, PartSide] | None:
    """Both sides, searched in the part; None where the whole graph might say otherwise."""
    tree = _tree(part)
    graph = _graph(part)
    middle = len(tree.cliques) - 1
    below = [i for i, up in enumerate(tree.parent) if up == middle and i != middle]
    if len(below) != 2:
        return None
    models = [draw_generic(graph, tree, np.random.default_rng([2020, k])) for k in range(DRAWS)]
    ranks = [model.rank(below[0]) for model in models]
    if max(ranks) != part.rank:
        return None
    model = models[ranks.index(max(ranks))]
    found = []
    cliques = [i for i, held in enumerate(tree.holds) if held]  # inside, then outside
    split = len(part.inside)
    for one, leaves in ((0, range(split)), (1, range(split, len(cliques)))):
        side = _search(part, model, below[one], middle, cliques, list(leaves), part.complete[one])
        if side is None:
            return None
        found.append(replace(side, core=tuple(x - leaves.start for x in side.core)))
    return found[0], found[1]


def _search(
    part: Part,
    model: GenericModel,
    i: int,
    j: int,
    cliques: list[int],
    leaves: list[int],
    complete: bool,
) -> PartSide | None:
    """As over all leaves; None if more leaves are needed, or a rank falls short of its bound."""
    columns = (*part.inside, *part.outside)
    sizes = [math.prod(part.states[v] for v in held) for held in columns]
    short = False
    singles = 1

    def watch(blocks: Sequence[Block], found: int) -> None:
        nonlocal short, singles
        most = 1 + sum(math.prod(part.bounds[x] for x in block) - 1 for block in blocks)
        short = short or not (part.forest or found == min(part.rank, most))
        if all(len(block) == 1 for block in blocks):
            singles = max(singles, found)

    search = SideSearch(
        model, i, j, part.rank, lambda _: leaves, len(leaves), cliques, sizes, complete, watch
    )
    side = search.search(len(leaves))
    reached = side.core_rank >= part.rank and (complete or singles >= part.rank)
    return None if short or not reached else PartSide(side.core, side.core_rank, singles)


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
    near = moralise(graph, [own, *part.inside, *part.outside])
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
