"""Rows that lie far from each other: where classes begin."""

from __future__ import annotations

import numpy as np

from latentia.typing import Array, Codes


def draw_far_rows(
    marks: Array, most: int, weight: Array, count: int, starts: int, rng: np.random.Generator
) -> Codes:
    """Of every start so many rows, each drawn by its weight and how far it is from those before.

    `marks` are 1 where a row has a state, (n, states); a row shares `most` with itself: (starts,
    count).
    """
    chosen = np.empty((starts, count), dtype=np.int64)
    chance: Array = np.broadcast_to(weight, (starts, len(weight)))
    far = np.full(chance.shape, np.inf)
    for k in range(count):
        reached = chance.cumsum(axis=1)
        drawn = rng.random((starts, 1)) * reached[:, -1:]
        chosen[:, k] = np.minimum((reached <= drawn).sum(axis=1), len(weight) - 1)
        far = np.minimum(far, most - marks[chosen[:, k]] @ marks.T)
        chance = (far + 1e-9) * weight
    return chosen
