"""Ranks and sides of separators: from their surroundings where these tell, else from the whole.

Random tables of the whole graph are drawn only for separators whose surroundings leave a doubt.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import final

import numpy as np

from latentia.structure.generic_rank import GenericModel, base_bounds, draw_generic
from latentia.structure.graph import LatentGraph
from latentia.structure.junction import JunctionTree
from latentia.structure.local_ranks import (
    DRAWS,
    Part,
    PartMaker,
    PartSide,
    has_rank,
    sides_of_part,
)
from latentia.structure.near_leaves import Ball, Surroundings, nearest, surround
from latentia.structure.sides import MOST_TIED, Block, Side, SideSearch
from latentia.structure.skeleton import Skeleton
from latentia.structure.triangulate import Adjacency

FEW = 100  # separators; for so few, tables of the whole graph take no time


@final
@dataclass(slots=True)
class Budget:
    """Parts are worth their while if they repeat: their variables, each part once, are limited."""

    left: int
    paid: set[Part] = field(default_factory=set)

    def pays(self, part: Part) -> bool:
        """Was the part paid for, or can it be?"""
        if part not in self.paid:
            if len(part.states) > self.left:
                return False
            self.left -= len(part.states)
            self.paid.add(part)
        return True


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
        return surround(self.tree, self.near, self.cliques)

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
    def budget(self) -> Budget:
        count = len(self.skeleton.branches)
        return Budget(count if count > FEW else 0)

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

    @cached_property
    def wides(self) -> dict[tuple[int, ...], tuple[Block, ...]]:
        return {}

    def wide(self, ball: Ball) -> tuple[Block, ...]:
        """The nearest leaves, one by one; the separators of a hub share theirs."""
        first = tuple(ball.leaves[:MOST_TIED])
        if first not in self.wides:
            self.wides[first] = tuple([self.single[x] for x in first])
        return self.wides[first]

    def rank(self, i: int) -> int:
        """At the edge above clique i."""
        for part in self._parts(i, self._balls(i)):
            if has_rank(part):
                return part.rank
        return max(model.rank(i) for model in self.models)

    def sides(self, i: int) -> tuple[int, Side, Side]:
        """Rank, inside and outside of the separator above clique i."""
        balls = self._balls(i)
        if self.bounds[i] == 1:  # nothing to tell: any leaves will do
            ones = [self.wide(ball) for ball in balls]
            return 1, Side((), 1, ones[0], 1), Side((), 1, ones[1], 1)
        for part in self._parts(i, balls):
            found = sides_of_part(part)
            if found is not None:
                rank, (inside, outside) = part.rank, found
                return rank, self._side(balls[0], inside, rank), self._side(balls[1], outside, rank)
        return self._sides_in_whole(i)

    def _counts(self, i: int) -> tuple[int, int]:
        """Leaves inside and outside the edge above clique i."""
        around = self.surroundings
        places = around.sorted_leaf_places
        inside = bisect_left(places, around.leave[i]) - bisect_left(places, around.enter[i])
        return inside, len(places) - inside

    def _balls(self, i: int) -> tuple[Ball, Ball]:
        inside, outside = self._counts(i)
        return self._nearest(i, True, inside), self._nearest(i, False, outside)

    def _nearest(self, i: int, inside: bool, most: int, width: int | None = None) -> Ball:
        separator = self.tree.shared[i]
        return nearest(self.surroundings, separator, i, inside, min(width or self.width, most))

    def _parts(self, i: int, balls: tuple[Ball, Ball]) -> Iterator[Part]:
        """With ever more leaves, until these are all or the part is too large."""
        separator = self.tree.shared[i]
        inside, outside = len(balls[0].leaves), len(balls[1].leaves)
        count = 1
        while self.budget.left:
            these = min(count, inside), min(count, outside)
            part = self.parts.part(separator, i, self.bounds[i], balls, these)
            if part is None or not self.budget.pays(part):
                return
            yield part
            if count >= max(inside, outside):
                return
            count *= 2

    def _side(self, ball: Ball, found: PartSide, rank: int) -> Side:
        core = tuple(sorted([ball.leaves[k] for k in found.core]))
        wide = self.wide(ball)
        if found.singles < rank and len(core) > 1:
            return Side(core, found.core_rank, (*wide, core), max(found.singles, found.core_rank))
        return Side(core, found.core_rank, wide, found.singles)

    def _sides_in_whole(self, i: int) -> tuple[int, Side, Side]:
        ranks = [model.rank(i) for model in self.models]
        rank = max(ranks)
        model = self.models[ranks.index(rank)]
        j, (inside, outside) = self.tree.parent[i], self._counts(i)
        sides = []
        for one, two, within, most in ((i, j, True, inside), (j, i, False, outside)):

            def candidates(width: int, within: bool = within, most: int = most) -> list[int]:
                return self._nearest(i, within, most, width).leaves

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
