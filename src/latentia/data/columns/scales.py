"""Scales of continuous columns: curves from values to z, on which a column looks like a bell.

A curve is a monotone rational quadratic spline through knots (y, z): smooth, with an inverse in
closed form; straight beyond its ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np

from latentia.typing import Array

Knots: TypeAlias = tuple[tuple[float, float], ...]
Pieces: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.intp]]


def bend(knots: Knots, y: Array) -> Array:
    """z of y.

    >>> knots = ((0.0, 0.0), (1.0, 3.0), (2.0, 4.0))
    >>> z = bend(knots, np.array([-1.0, 0.5, 1.0, 9.0]))
    >>> z[[0, 2, 3]].tolist()
    [-3.0, 3.0, 11.0]
    >>> np.allclose(straighten(knots, z), [-1.0, 0.5, 1.0, 9.0])
    True
    """
    curve = _curve(knots)
    k, s, d0, d1, rise, t = _along(curve, y)
    both = t * (1.0 - t)
    inner = curve.z[k] + rise * (s * t * t + d0 * both) / (s + (d1 + d0 - 2.0 * s) * both)
    below = curve.z[0] + curve.slope[0] * (y - curve.y[0])
    above = curve.z[-1] + curve.slope[-1] * (y - curve.y[-1])
    return np.asarray(np.where(y < curve.y[0], below, np.where(y > curve.y[-1], above, inner)))


def straighten(knots: Knots, z: Array) -> Array:
    """y of z, the inverse of `bend`."""
    curve = _curve(knots)
    k = _piece(curve.z, z)
    width, rise = curve.y[k + 1] - curve.y[k], curve.z[k + 1] - curve.z[k]
    s, d0, d1 = rise / width, curve.slope[k], curve.slope[k + 1]
    part = np.clip(z - curve.z[k], 0.0, rise)
    curl = part * (d1 + d0 - 2.0 * s)
    a, b, c = rise * (s - d0) + curl, rise * d0 - curl, -s * part
    root = np.sqrt(np.maximum(b * b - 4.0 * a * c, 0.0))
    inner = curve.y[k] + width * np.clip(2.0 * c / (-b - root), 0.0, 1.0)
    below = curve.y[0] + (z - curve.z[0]) / curve.slope[0]
    above = curve.y[-1] + (z - curve.z[-1]) / curve.slope[-1]
    return np.asarray(np.where(z < curve.z[0], below, np.where(z > curve.z[-1], above, inner)))


def steepness(knots: Knots, y: Array) -> Array:
    """dz/dy of `bend`."""
    curve = _curve(knots)
    _, s, d0, d1, _, t = _along(curve, y)
    both = t * (1.0 - t)
    top = s * s * (d1 * t * t + 2.0 * s * both + d0 * (1.0 - t) ** 2)
    inner = top / (s + (d1 + d0 - 2.0 * s) * both) ** 2
    beyond = np.where(y < curve.y[0], curve.slope[0], curve.slope[-1])
    return np.asarray(np.where((y < curve.y[0]) | (y > curve.y[-1]), beyond, inner), dtype=float)


@final
@dataclass(frozen=True, slots=True)
class Curve:
    """Knots, and dz/dy there: harmonic means of the slopes on either side."""

    y: Array
    z: Array
    slope: Array


def _curve(knots: Knots) -> Curve:
    y, z = np.array(knots, dtype=float).T
    s = np.diff(z) / np.diff(y)
    return Curve(y, z, np.concatenate([s[:1], 2.0 / (1.0 / s[:-1] + 1.0 / s[1:]), s[-1:]]))


def _along(curve: Curve, y: Array) -> tuple[Pieces, Array, Array, Array, Array, Array]:
    """The piece of each y, its mean slope, the slopes at its ends, its rise, and the way along."""
    k = _piece(curve.y, y)
    width, rise = curve.y[k + 1] - curve.y[k], curve.z[k + 1] - curve.z[k]
    t = np.clip((y - curve.y[k]) / width, 0.0, 1.0)
    return k, rise / width, curve.slope[k], curve.slope[k + 1], rise, t


def _piece(at: Array, y: Array) -> Pieces:
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
