"""A link of a chain knows of a number: a line of columns before it, and values that come again.

A line is ridge regression; what it leaves over of a row is what it would leave had it not seen the
row, e_i / (1 − h_i), h the diagonal of the hat matrix, so that no draw is too near the line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import bdtrc

from latentia.linear_algebra import eigh
from latentia.pooling.row_chain import Heaps, nearest_of, rounded
from latentia.typing import Array

PULLS = (0.01, 0.1, 1.0, 10.0, 100.0)  # rows of no slope that are tried
AGAIN = 3  # rows that have a value which comes again
ROUNDINGS = 10.0 ** np.arange(6, -7, -1)  # that are looked at
OFTEN = 0.5  # of the values that do not come again: so many are that round …
CHANCE = 0.03  # … which chance would hardly have made


@final
@dataclass(frozen=True, slots=True, eq=False)
class FittedLine:
    """Slopes, with the intercept at the end, and what is left over of each row."""

    slopes: Array  # (width + 1,)
    left: Array  # (n,)


def fit_line(x: Array, z: Array) -> FittedLine:
    """The line of least squares left over of rows that it has not seen, over `PULLS`."""
    centre, middle = x.mean(axis=0), float(z.mean())
    apart, above = x - centre, z - middle
    values, vectors = eigh(apart.T @ apart)
    scores = apart @ vectors  # (n, width)
    told = scores.T @ above
    best, least = None, np.inf
    for pull in PULLS:
        inverse = 1.0 / (np.maximum(values, 0.0) + pull)
        hat = np.minimum(scores**2 @ inverse + 1.0 / len(z), 1.0 - 1e-6)
        left = (above - scores @ (inverse * told)) / (1.0 - hat)
        level = float(left @ left)
        if level < least:
            least, slopes = level, vectors @ (inverse * told)
            best = FittedLine(np.append(slopes, middle - centre @ slopes), left)
    assert best is not None
    return best


def find_heaps(x: Array) -> Heaps:
    """Values that come again, each with what is nearer to it than to others of them."""
    values, count = np.unique(x, return_counts=True)
    again = count >= AGAIN
    own, rest = values[again], values[~again]
    step, share = _roundness(rest, values)
    middle = (own[1:] + own[:-1]) / 2
    first = 2.0 * own[:1] - (middle if len(middle) else own)[:1]
    last = 2.0 * own[-1:] - (middle if len(middle) else own)[-1:]
    low, high = np.concatenate([first, middle]), np.concatenate([middle, last])
    low, high = (low, high) if len(own) else (own, own)
    below = np.concatenate([[0], np.cumsum(count)])
    ends = [below[np.searchsorted(values, low)], below[np.searchsorted(values, high, side="right")]]
    return Heaps(own, low, high, count[again] / np.maximum(ends[1] - ends[0], 1), step, share)


def _roundness(rest: Array, values: Array) -> tuple[float, float]:
    """The largest power of ten of which many of the rest are multiples, and how many; 0: none.

    A tenth of them are multiples of the next larger one anyway: that they are is no chance, or all
    values are.
    """
    if not len(rest):
        return 0.0, 0.0
    for step in ROUNDINGS:
        many = int((rounded(rest, step) == rest).sum())
        if many < OFTEN * len(rest):
            continue
        if bdtrc(many - 1, len(rest), 0.1) < CHANCE or (rounded(values, step) == values).all():
            return float(step), many / len(rest)
    return 0.0, 0.0


def as_seen(x: Array, seen: Array, room: float) -> Array:
    """x, or the value that was seen within `room` of it; `seen` rises."""
    if not len(seen):
        return x
    near = nearest_of(seen, x)
    return np.where(np.abs(near - x) <= room, near, x)
