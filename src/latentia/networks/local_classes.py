"""Latent classes of a few columns: first guesses at the states of a latent among what it touches.

P(row) = Σ_s P(s) ∏_columns P(x | s), climbed from several starts at once: seeds are rows that lie
far from each other. It is wrong where columns are tied otherwise, and so small that this is cheap.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from latentia.data.rows import Rows
from latentia.data.sources.memory import unique_rows
from latentia.networks.far_rows import draw_far_rows
from latentia.typing import Array, Codes

STEPS = 15
PSEUDO_COUNT = 0.5
SAMPLE = 1500  # different rows that are looked at


def class_memberships(
    codes: Sequence[Codes],
    sizes: Sequence[int],
    weight: Array,
    states: int,
    count: int,
    rng: np.random.Generator,
) -> list[Array]:
    """P(state | row), (states, n), of the `count` best of twice as many starts; holes are -1."""
    n = len(weight)
    shifted = Rows(tuple(np.asarray(c, dtype=np.int64) + 1 for c in codes), weight)
    some = unique_rows(shifted, [m + 1 for m in sizes])
    if len(some) > SAMPLE:
        share = some.weights / some.total
        drawn = np.sort(rng.choice(len(some), SAMPLE, replace=False, p=share, shuffle=False))
        some = Rows(tuple(c[drawn] for c in some.codes), some.weights[drawn])
    marks = _marks(some.codes, sizes)
    starts = max(6, 2 * count)
    share = _seeded(marks, len(sizes), some.weights, states, starts, rng)
    tables, level = _climbed(share, marks, some.weights, sizes)
    order = np.argsort(-level, kind="stable")[:count]
    everything = _marks(shifted.codes, sizes)
    found = []
    for k in order:
        logs = tables[k] @ everything.T  # (states, n)
        shares = np.exp(logs - logs.max(axis=0))
        found.append(np.asarray(shares / shares.sum(axis=0)))
    assert all(x.shape == (states, n) for x in found)
    return found


def _marks(codes: Sequence[Codes], sizes: Sequence[int]) -> Array:
    """Ones, and the indicators of every column, which begin at 1: (n, 1 + Σ states)."""
    marks = [np.ones((len(codes[0]), 1))]
    marks += [c[:, None] == np.arange(1, m + 1) for c, m in zip(codes, sizes, strict=True)]
    return np.concatenate(marks, axis=1).astype(float)


def _seeded(
    marks: Array, columns: int, weight: Array, states: int, starts: int, rng: np.random.Generator
) -> Array:
    """Rows far from each other, and how alike all rows are to each: (starts, states, n)."""
    chosen = draw_far_rows(marks, columns + 1, weight, states, starts, rng)
    alike = marks[chosen] @ marks.T
    share = np.exp(alike - alike.max(axis=1, keepdims=True))
    return np.asarray(share / share.sum(axis=1, keepdims=True))


def _climbed(
    share: Array, marks: Array, weight: Array, sizes: Sequence[int]
) -> tuple[Array, Array]:
    """Log tables, (starts, states, 1 + Σ states), and how high each start came."""
    starts, states, n = share.shape
    ends = np.cumsum([1, *sizes])
    counted = marks * weight[:, None]
    flat = share.reshape(-1, n)
    level: Array = np.zeros(starts)
    logs: Array = np.zeros(0)
    for _ in range(STEPS):
        met = flat @ counted + PSEUDO_COUNT  # (starts · states, 1 + Σ states)
        logs = np.log(met)
        for a, b in itertools.pairwise(ends):
            logs[:, a:b] -= np.log(met[:, a:b].sum(axis=1, keepdims=True))
        whole = (logs @ marks.T).reshape(starts, states, n)
        top = whole.max(axis=1, keepdims=True)
        flat = np.exp(whole - top)
        total = flat.sum(axis=1, keepdims=True)
        flat = (flat / total).reshape(-1, n)
        level = np.asarray((top + np.log(total))[:, 0] @ weight)
    return logs.reshape(starts, states, -1), level
