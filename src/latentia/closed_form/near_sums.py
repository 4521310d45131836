"""Σ w z zᵀ around a node, z = [1, inside products, outside products], by the states of near leaves.

Where the leaves next to a node have the states g, their coordinates are constants and z = T_g v is
linear in v, the ones, coordinates and products of all other neighbours. So

    Σ w z zᵀ = Σ_g T_g (Σ over the rows of g of w v vᵀ) T_gᵀ:

in a chain of rank r sums of r² numbers a row, where z zᵀ itself has (states · r)².
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.closed_form.evaluating import (
    BlockMemory,
    Factor,
    FeatureValues,
    factor_value,
    neighbour_factors,
    products_with_one,
)
from latentia.structure.plan import Plan
from latentia.typing import Array, Codes

MOST_GROUPS = 64
MOST_NUMBERS = 2**18  # of all groups' sums


@final
@dataclass(frozen=True, slots=True)
class NearSums:
    """How Σ w z zᵀ of one node is found."""

    sides: tuple[tuple[Factor, ...], ...]  # what is not constant, inside and outside
    leaves: tuple[int, ...]  # by whose states rows are gathered
    states: tuple[int, ...]  # of each, one more for missing
    turn: Array  # T: (groups, 1 + features, length of v); of one group: none

    def gathered(
        self, values: FeatureValues, leaves: Sequence[Codes], root: Array | None, room: BlockMemory
    ) -> Array:
        """Σ w v vᵀ by group, of a block of rows: (groups, length of v, length of v)."""
        n = len(leaves[0])
        some = [[factor_value(values, f) for f in side] for side in self.sides]
        v = products_with_one(room, n, *some)
        if root is not None:
            v *= root
        if not self.leaves:
            return (v @ v.T)[None]  # an array with itself: half of the work
        joint = np.zeros(n, dtype=np.int16)  # short: sorted by counting
        for x, m in zip(self.leaves, self.states, strict=True):
            joint *= m
            joint += np.where(leaves[x] < 0, m - 1, leaves[x]).astype(np.int16)
        order = np.argsort(joint, kind="stable")
        v = np.take(v, order, axis=1, out=room.take("gathered", len(v), n), mode="clip")
        ends = np.cumsum(np.bincount(joint, minlength=len(self.turn))).tolist()
        found = np.empty((len(self.turn), len(v), len(v)))
        for own, (start, stop) in zip(found, itertools.pairwise([0, *ends]), strict=True):
            part = v[:, start:stop]
            np.matmul(part, part.T, out=own)
        return found

    def whole(self, found: Array) -> Array:
        """Σ w z zᵀ from the sums by group: (1 + features, 1 + features)."""
        if not self.leaves:
            return np.asarray(found[0])
        left = np.matmul(self.turn, found)  # (groups, 1 + features, length of v)
        size = left.shape[1]
        flat = left.transpose(1, 0, 2).reshape(size, -1)
        return np.asarray(flat @ self.turn.transpose(1, 0, 2).reshape(size, -1).T)


def near_sums(
    plan: Plan, k: int, sizes: Sequence[int], by_code: Mapping[Factor, Array]
) -> NearSums:
    """Of node k; `sizes` of all nodes' coordinates, `by_code` those of leaves, missing last."""
    sides = neighbour_factors(plan, k)
    lengths = {f: len(by_code[f]) if f in by_code else sizes[f[0]] for side in sides for f in side}
    near = sorted({f[0] for side in sides for f in side if f in by_code})
    states = [next(t.shape[1] for f, t in by_code.items() if f[0] == node) for node in near]
    free = [[f for f in side if f not in by_code] for side in sides]
    width = 1 + sum(sum(blocks([lengths[f] for f in side])) for side in free)
    if not near or math.prod(states) > MOST_GROUPS or math.prod(states) * width**2 > MOST_NUMBERS:
        return NearSums(sides, (), (), np.ones((1, 1, 1)))
    codes = dict(zip(near, np.indices(states).reshape(len(states), -1), strict=True))
    constant = {f: by_code[f][:, codes[f[0]]].T for f in lengths if f in by_code}  # (groups, size)
    turn = _turn(sides, free, lengths, constant, width)
    numbers = tuple(plan.nodes[node].first for node in near)
    return NearSums(tuple(map(tuple, free)), numbers, tuple(states), turn)


def _turn(
    sides: Sequence[Sequence[Factor]],
    free: Sequence[Sequence[Factor]],
    lengths: Mapping[Factor, int],
    constant: Mapping[Factor, Array],
    width: int,
) -> Array:
    """T of every group: (groups, 1 + features, width)."""
    groups = len(next(iter(constant.values())))
    eye = np.eye(width)
    place: dict[tuple[Factor, ...], Array] = {}  # factors and products within v
    start = 1
    for some in free:
        for chosen in (*((f,) for f in some), *itertools.combinations(some, 2)):
            stop = start + math.prod(lengths[f] for f in chosen)
            place[chosen] = np.broadcast_to(eye[start:stop], (groups, stop - start, width))
            start = stop
    one = np.broadcast_to(eye[:1], (groups, 1, width))
    found = [one]
    for side in sides:
        alone = {f: constant[f][:, :, None] * one if f in constant else place[f,] for f in side}
        found += alone.values()
        for a, b in itertools.combinations(side, 2):
            if (a, b) in place:
                found.append(place[a, b])
            elif a in constant:
                both = constant[a][:, :, None, None] * alone[b][:, None]
                found.append(both.reshape(groups, -1, width))
            else:
                both = alone[a][:, :, None] * constant[b][:, None, :, None]
                found.append(both.reshape(groups, -1, width))
    return np.concatenate(found, axis=1)


def blocks(factors: Sequence[int]) -> list[int]:
    """Sizes of the factors, and of their pairwise products."""
    return [*factors, *(math.prod(pair) for pair in itertools.combinations(factors, 2))]
