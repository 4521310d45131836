"""Scales of continuous columns: curves from values to z, on which a column looks like a bell.

A curve is a monotone rational quadratic spline through knots (y, z): smooth, with an inverse in
closed form; straight beyond its ends.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from latentia.typing import Array

Knots = tuple[tuple[float, float], ...]


def bend(knots: Knots, y: Array) -> Array:
    """z of y.

    >>> knots = ((0.0, 0.0), (1.0, 3.0), (2.0, 4.0))
    >>> z = bend(knots, np.array([-1.0, 0.5, 1.0, 9.0]))
    >>> z[[0, 2, 3]].tolist()
    [-3.0, 3.0, 11.0]
    >>> np.allclose(straighten(knots, z), [-1.0, 0.5, 1.0, 9.0])
    True
    """
    at, heights, slopes = _curve(knots)
    k = _piece(at, y)
    width, rise = at[k + 1] - at[k], heights[k + 1] - heights[k]
    s, d0, d1 = rise / width, slopes[k], slopes[k + 1]
    t = np.clip((y - at[k]) / width, 0.0, 1.0)
    both = t * (1.0 - t)
    inner = heights[k] + rise * (s * t * t + d0 * both) / (s + (d1 + d0 - 2.0 * s) * both)
    below = heights[0] + slopes[0] * (y - at[0])
    above = heights[-1] + slopes[-1] * (y - at[-1])
    return np.asarray(np.where(y < at[0], below, np.where(y > at[-1], above, inner)))


def straighten(knots: Knots, z: Array) -> Array:
    """y of z, the inverse of `bend`."""
    at, heights, slopes = _curve(knots)
    k = _piece(heights, z)
    width, rise = at[k + 1] - at[k], heights[k + 1] - heights[k]
    s, d0, d1 = rise / width, slopes[k], slopes[k + 1]
    part = np.clip(z - heights[k], 0.0, rise)
    curl = part * (d1 + d0 - 2.0 * s)
    a, b, c = rise * (s - d0) + curl, rise * d0 - curl, -s * part
    root = np.sqrt(np.maximum(b * b - 4.0 * a * c, 0.0))
    inner = at[k] + width * np.clip(2.0 * c / (-b - root), 0.0, 1.0)
    below = at[0] + (z - heights[0]) / slopes[0]
    above = at[-1] + (z - heights[-1]) / slopes[-1]
    return np.asarray(np.where(z < heights[0], below, np.where(z > heights[-1], above, inner)))


def steepness(knots: Knots, y: Array) -> Array:
    """dz/dy of `bend`."""
    at, heights, slopes = _curve(knots)
    k = _piece(at, y)
    width, rise = at[k + 1] - at[k], heights[k + 1] - heights[k]
    s, d0, d1 = rise / width, slopes[k], slopes[k + 1]
    t = np.clip((y - at[k]) / width, 0.0, 1.0)
    both = t * (1.0 - t)
    top = s * s * (d1 * t * t + 2.0 * s * both + d0 * (1.0 - t) ** 2)
    inner = top / (s + (d1 + d0 - 2.0 * s) * both) ** 2
    return np.asarray(
        np.where(y < at[0], slopes[0], np.where(y > at[-1], slopes[-1], inner)), dtype=float
    )


def _curve(knots: Knots) -> tuple[Array, Array, Array]:
    """y, z and dz/dy at the knots: harmonic means of the slopes on either side."""
    at, heights = np.array(knots, dtype=float).T
    s = np.diff(heights) / np.diff(at)
    slopes = np.concatenate([s[:1], 2.0 / (1.0 / s[:-1] + 1.0 / s[1:]), s[-1:]])
    return at, heights, slopes


def _piece(at: Array, y: Array) -> np.ndarray[tuple[int, ...], np.dtype[np.intp]]:
    """Between which two knots; NaN lies in the last piece, and stays NaN."""
    return np.clip(np.searchsorted(at, y, side="right") - 1, 0, len(at) - 2)


def spread_out(pairs: Sequence[tuple[float, float]]) -> Knots:
    """Knots that rise in both ways by more than rounding; the ends stay."""
    kept = [pairs[0]]
    least = 1e-7 * (pairs[-1][0] - pairs[0][0]), 1e-7 * (pairs[-1][1] - pairs[0][1])
    for y, z in pairs[1:-1]:
        if y - kept[-1][0] > least[0] and z - kept[-1][1] > least[1]:
            kept.append((y, z))
    last = pairs[-1]
    while len(kept) > 1 and not (
        last[0] - kept[-1][0] > least[0] and last[1] - kept[-1][1] > least[1]
    ):
        kept.pop()
    return (*kept, last)
