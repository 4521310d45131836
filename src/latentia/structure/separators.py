"""Ranks and sides of separators: from their surroundings where these tell, else from the whole.

Random tables of the whole graph are drawn only for separators whose surroundings leave a doubt.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from latentia.structure.generic_rank import GenericModel, base_bounds, draw_generic
from latentia.structure.graph import LatentGraph
from latentia.structure.junction import JunctionTree
from latentia.structure.local_ranks import DRAWS, PartMaker, PartSide, sides_of_part
from latentia.structure.near_leaves import Ball, Surroundings, nearest, surround
from latentia.structure.sides import MOST_TIED, Side, SideSearch
from latentia.structure.skeleton import Skeleton
from latentia.structure.triangulate import Adjacency


@final
@dataclass(frozen=True)
class Separators:
    """What is asked of the separators of a rooted tree."""

    graph: LatentGraph
    skeleton: Skeleton
    near: Adjacency
    width: int

    @property
    def tree(self) -> JunctionTree:
        return self.skeleton.tree

    @cached_property
    def cliques(self) -> list[int]:
        """Of the leaves, from left to right."""
        return [b.clique for b in self.skeleton.branches if b.columns]

    @cached_property
    def sizes(self) -> list[int]:
        """States of the leaves."""
        states = self.graph.states
        return [math.prod(states[v] or 1 for v in self.tree.holds[i]) for i in self.cliques]

    @cached_property
    def bounds(self) -> list[int]:
        """At most this is the rank at the edge above each clique; 1 at roots."""
        most = base_bounds(self.graph, self.tree)
        return [
            1 if up == i else min(most[i, up], most[up, i]) for i, up in enumerate(self.tree.parent)
        ]

    @cached_property
    def surroundings(self) -> Surroundings:
        home = [-1] * len(self.graph.names)
        for number, i in enumerate(self.cliques):
            for v in self.tree.holds[i]:
                home[v] = number
        return surround(self.tree, self.near, home)

    @cached_property
    def parts(self) -> PartMaker:
        tree = self.tree
        return PartMaker(
            self.graph,
            self.graph.parents(),
            self.surroundings,
            [tree.holds[i] for i in self.cliques],
            [self.bounds[i] for i in self.cliques],
            _is_forest(self.near),
        )

    @cached_property
    def models(self) -> tuple[GenericModel, ...]:
        """Tables of the whole graph, drawn at random."""
        return tuple(
            draw_generic(self.graph, self.tree, np.random.default_rng([2020, draw]))
            for draw in range(DRAWS)
        )

    @cached_property
    def single(self) -> list[tuple[int]]:
        return [(x,) for x in range(len(self.cliques))]

    def rank_in_whole(self, i: int) -> int:
        """At the edge above clique i, from the tables of the whole graph."""
        return max(model.rank(i) for model in self.models)

    def sides(self, i: int, below: range) -> tuple[int, Side, Side]:
        """Rank, inside and outside of the separator above clique i; inside are leaves `below`."""
        separator = self.tree.separator(i, self.tree.parent[i])
        counts = len(below), len(self.cliques) - len(below)
        balls = (
            self._nearest(separator, i, below, True, min(self.width, counts[0])),
            self._nearest(separator, i, below, False, min(self.width, counts[1])),
        )
        rank, count = self.bounds[i], 1
        while True:
            these = min(count, len(balls[0].leaves)), min(count, len(balls[1].leaves))
            part = self.parts.part(separator, rank, balls, these)
            if part is None:
                break
            found = sides_of_part(part)
            if found is not None:
                return (
                    rank,
                    self._side(balls[0], found[0], rank),
                    self._side(balls[1], found[1], rank),
                )
            if max(map(len, (balls[0].leaves, balls[1].leaves))) <= count:
                break
            count *= 2
        return self._sides_in_whole(i, separator, below, counts)

    def _nearest(
        self, separator: frozenset[int], i: int, below: range, inside: bool, width: int
    ) -> Ball:
        return nearest(self.surroundings, separator, i, below, inside, width)

    def _side(self, ball: Ball, found: PartSide, rank: int) -> Side:
        core = tuple(sorted([ball.leaves[k] for k in found.core]))
        wide = tuple([self.single[x] for x in ball.leaves[:MOST_TIED]])
        if found.singles < rank and len(core) > 1:
            return Side(core, found.core_rank, (*wide, core), max(found.singles, found.core_rank))
        return Side(core, found.core_rank, wide, found.singles)

    def _sides_in_whole(
        self, i: int, separator: frozenset[int], below: range, counts: Sequence[int]
    ) -> tuple[int, Side, Side]:
        ranks = [model.rank(i) for model in self.models]
        rank = max(ranks)
        model = self.models[ranks.index(rank)]
        j = self.tree.parent[i]
        sides = []
        for one, two, inside, most in ((i, j, True, counts[0]), (j, i, False, counts[1])):

            def candidates(width: int, inside: bool = inside) -> list[int]:
                return self._nearest(separator, i, below, inside, width).leaves

            search = SideSearch(model, one, two, rank, candidates, most, self.cliques, self.sizes)
            sides.append(search.search(self.width))
        return rank, sides[0], sides[1]


def _is_forest(near: Adjacency) -> bool:
    """Is there at most one way between any two variables?"""
    edges = sum(map(len, near)) // 2
    seen = [False] * len(near)
    components = 0
    for start in range(len(near)):
        if not seen[start]:
            components += 1
            seen[start] = True
            todo = [start]
            while todo:
                for u in near[todo.pop()]:
                    if not seen[u]:
                        seen[u] = True
                        todo.append(u)
    return edges == len(near) - components
