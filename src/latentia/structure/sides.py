"""Core groups and instruments: which columns stand for each side of a separator (design 3, 4.2).

α(S) must reach, from inside, the generic rank of S, and β(S) from outside. The *minimal* group does
so with the joint indicators of few columns; the *wide* features are all near columns one by one,
with the interactions of the minimal group only where the single columns miss the rank.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, final

if TYPE_CHECKING:
    from latentia.structure.generic_rank import GenericModel

Block: TypeAlias = tuple[int, ...]  # leaves, by number, whose joint states are one feature map

LARGEST_GROUP = 2**14  # joint states of a core group
MOST_TIED = 64  # leaves at equal distance are all taken, up to this many


@final
@dataclass(frozen=True, slots=True)
class Side:
    """One side of a separator: the leaves that stand for it and the rank that they reach."""

    core: Block  # minimal group, joint indicators
    core_rank: int
    wide: tuple[Block, ...]  # single leaves, and the core group where interactions are needed
    wide_rank: int


@final
@dataclass(frozen=True, slots=True)
class SideSearch:
    """Looks for the columns that stand for the side behind clique i, seen from clique j."""

    model: GenericModel
    i: int
    j: int
    rank: int  # to be reached
    candidates: Callable[[int], list[int]]  # leaves of the side by distance, at least so many
    most: int  # leaves of the side
    cliques: Sequence[int]  # of all leaves, in the tree
    sizes: Sequence[int]  # … and their states
    whole: bool = True  # False: leaves are left that `candidates` does not tell
    watch: Callable[[Sequence[Block], int], None] | None = None  # is told every rank found

    def search(self, width: int) -> Side:
        """Look at ever more leaves until the rank is reached or the side is used up."""
        while True:
            side = self._choose(self.candidates(min(width, self.most)))
            if max(side.core_rank, side.wide_rank) >= self.rank or width >= self.most:
                return side
            width *= 2

    def _reach(self, blocks: Sequence[Block]) -> int:
        groups = [frozenset(self.cliques[x] for x in block) for block in blocks]
        found = self.model.reach(self.i, self.j, groups)
        if self.watch is not None:
            self.watch(blocks, found)
        return found

    def _choose(self, candidates: Sequence[int]) -> Side:
        """The minimal group and the wide features among these leaves."""
        wide = [(x,) for x in candidates[:MOST_TIED]]
        wide_rank = self._singles_reach(wide)
        core, core_rank = self._core_group(candidates)
        if wide_rank < self.rank and len(core) > 1:
            return Side(core, core_rank, (*wide, core), max(wide_rank, core_rank))
        return Side(core, core_rank, tuple(wide), wide_rank)

    def _singles_reach(self, wide: Sequence[Block]) -> int:
        """The rank of single leaves; it never falls, so try few before many."""
        found = 1
        for count in _doubling(len(wide)):
            found = self._reach(wide[:count])
            if found >= self.rank:
                break
        return found

    def _core_group(self, candidates: Sequence[int]) -> tuple[Block, int]:
        """Add near leaves that raise the rank until it suffices, then drop what is not needed."""
        group: list[int] = []
        found = 1
        # a leaf may help only together with a later one
        for picky in (True, False) if self.whole else (True,):
            for x in candidates:
                if found >= self.rank:
                    break
                trial = [*group, x]
                if x in group or math.prod(self.sizes[k] for k in trial) > LARGEST_GROUP:
                    continue
                raised = self._reach([tuple(trial)])
                if raised > found or not picky:
                    group, found = trial, max(found, raised)
        for x in reversed(group):
            fewer = [k for k in group if k != x]
            if (self._reach([tuple(fewer)]) if fewer else 1) >= found:
                group = fewer
        return tuple(sorted(group)), found


def _doubling(count: int) -> list[int]:
    steps = [1]
    while steps[-1] < count:
        steps.append(min(2 * steps[-1], count))
    return steps if count else []
