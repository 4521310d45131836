"""Packing: sequences side by side, so that one step of all of them is one product.

Long sequences are cut into pieces; pieces are sorted by length, the longest first, and stored step
by step: the rows of step t are the pieces that are still going, so that finished ones cost nothing.
Pieces of one sequence wait for each other only at their ends (see quick_passes).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from latentia.typing import CellArray

Indices: TypeAlias = NDArray[np.intp]

WIDTH = 512  # pieces side by side that make a step worth its overhead
WORTH_CUTTING = 4  # times as long as a piece: pieces run twice
SHORTEST = 64  # steps of a piece: shorter ones have not forgotten how they began


@final
@dataclass(frozen=True, slots=True)
class StepRun:
    """Steps with equally many pieces: places lo … hi − 1."""

    lo: int
    hi: int
    steps: int
    pieces: int


@final
@dataclass(frozen=True)
class Packing:
    """Where each step of each sequence lies.

    `order` lists steps (numbered through all sequences) as they are stored; step t of all pieces is
    bounds[t]:bounds[t + 1].
    """

    order: Indices  # (steps,)
    bounds: tuple[int, ...]
    last: Indices  # (pieces,) places of last steps
    previous: Indices  # (pieces,) the piece before in its sequence, -1: none
    following: Indices  # (pieces,) the piece after, -1: none
    runs: tuple[StepRun, ...]

    @property
    def steps(self) -> int:
        return self.bounds[-1]

    @cached_property
    def cut(self) -> bool:
        """Is any sequence in several pieces?"""
        return bool((self.previous >= 0).any())

    @cached_property
    def heads(self) -> Indices:
        """Places of first steps of sequences; those of pieces come first of all."""
        return np.flatnonzero(self.previous < 0)

    @cached_property
    def before(self) -> Indices:
        """Place of the step before in its sequence, (steps,); -1: a first step."""
        pieces = len(self.last)
        found = np.arange(self.steps)
        sizes = np.diff(self.bounds)
        found[pieces:] -= np.repeat(sizes[:-1], sizes[1:])
        found[:pieces] = np.where(self.previous < 0, -1, self.last[self.previous])
        return found

    @cached_property
    def place(self) -> Indices:
        """Where each step lies, (steps,)."""
        found = np.empty_like(self.order)
        found[self.order] = np.arange(self.steps)
        return found


@final
@dataclass(frozen=True, slots=True)
class InRow:
    """Steps as they come, one sequence behind the other: the compiled kernel needs no packing."""

    offsets: Indices  # (sequences + 1,)

    @property
    def order(self) -> slice:
        return slice(None)

    @property
    def place(self) -> slice:
        return slice(None)

    @property
    def heads(self) -> Indices:
        """First steps of sequences."""
        return np.asarray(self.offsets[:-1][np.diff(self.offsets) > 0])

    @property
    def before(self) -> Indices:
        """The step before in its sequence, (steps,); -1: a first step."""
        found = np.arange(-1, int(self.offsets[-1]) - 1)
        found[self.heads] = -1
        return found


def pack_steps(offsets: Indices, longest: int | None = None) -> Packing:
    """Pieces of at most `longest` steps; None: chosen by the number of steps.

    >>> p = pack_steps(np.array([0, 2, 5]), longest=10)
    >>> p.order.tolist(), p.bounds, p.before.tolist()
    ([2, 0, 3, 1, 4], (0, 2, 4, 5), [-1, -1, 0, 1, 2])
    """
    lengths = np.diff(offsets)
    if longest is None:
        longest = max(SHORTEST, -(-int(lengths.sum()) // WIDTH))
        most = int(lengths.max(initial=1))
        longest = most if most <= WORTH_CUTTING * longest else longest
    starts, sizes, whose = _pieces(offsets, lengths, longest)
    rank = np.argsort(-sizes, kind="stable")
    starts, sizes, whose = starts[rank], sizes[rank], whose[rank]
    alive = np.bincount(sizes, minlength=1)[::-1].cumsum()[::-1]  # pieces of at least t steps
    alive = alive[1:]  # those that have a step t
    ends = (0, *np.cumsum(alive).tolist())
    runs = _runs(ends, alive)
    order = np.empty(ends[-1], dtype=np.intp)
    t = 0
    for run in runs:
        own = order[run.lo : run.hi].reshape(run.steps, run.pieces)
        np.add(starts[: run.pieces], np.arange(t, t + run.steps)[:, None], out=own)
        t += run.steps
    count = len(starts)
    by_start = np.argsort(starts)
    previous, following = np.full(count, -1), np.full(count, -1)
    joined = whose[by_start[1:]] == whose[by_start[:-1]]
    previous[by_start[1:][joined]] = by_start[:-1][joined]
    following[by_start[:-1][joined]] = by_start[1:][joined]
    last = np.asarray(ends)[sizes - 1] + np.arange(count)
    return Packing(order, ends, last, previous, following, runs)


def _runs(bounds: tuple[int, ...], alive: CellArray) -> tuple[StepRun, ...]:
    cuts = [0, *(np.flatnonzero(np.diff(alive)) + 1).tolist(), len(alive)]
    return tuple(
        StepRun(bounds[a], bounds[b], b - a, int(alive[a])) for a, b in pairwise(cuts) if b > a
    )


def _pieces(offsets: Indices, lengths: Indices, longest: int) -> tuple[Indices, Indices, Indices]:
    """Starts, lengths and sequences of pieces; sequences without a step have none."""
    counts = -(-lengths // longest)  # pieces of each sequence
    whose = np.repeat(np.arange(len(lengths)), counts)
    number = np.arange(len(whose)) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = offsets[whose] + number * longest
    sizes = np.minimum(longest, offsets[whose + 1] - starts)
    return starts, sizes, whose
