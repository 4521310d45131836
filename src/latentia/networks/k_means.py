"""k-means of many small clouds of points at once: rows last, so that every step is one product."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from latentia.typing import Array, Codes

LLOYD = 5
CLUSTERED = 1000  # points that find the centres
CELLS = 2**18  # distances at a time
ROUNDING = 1e-9  # distances that differ by less, relative, are equal: names of states move that


def cluster_all(
    clouds: Sequence[Array],
    weight: Array,
    counts: Sequence[int],
    rng: np.random.Generator | None = None,
) -> list[Array]:
    """`cluster_distances` of clouds (dimensions, n) of any shapes: (count, n) each."""
    found: list[Array] = [np.zeros(0)] * len(clouds)
    alike: dict[tuple[int, int], list[int]] = {}
    for i, (Z, count) in enumerate(zip(clouds, counts, strict=True)):
        alike.setdefault((len(Z), count), []).append(i)
    for (_, count), places in alike.items():
        step = max(1, CELLS // (count * max(len(weight), 1)))
        for start in range(0, len(places), step):
            some = places[start : start + step]
            distances = cluster_distances(np.stack([clouds[i] for i in some]), weight, count, rng)
            for i, own in zip(some, distances, strict=True):
                found[i] = own
    return found


def cluster_distances(
    Z: Array, weight: Array, count: int, rng: np.random.Generator | None = None
) -> Array:
    """Squared distances from the centres: of clouds (clouds, dimensions, n), (clouds, count, n).

    Clusters grow from the most extreme points; with `rng`, from random ones that lie far apart. A
    part of the points is enough to find the centres.
    """
    step = max(1, Z.shape[2] // CLUSTERED)
    some, own_weight = np.ascontiguousarray(Z[:, :, ::step]), weight[::step]
    seeds = (
        _extreme_points(some, count) if rng is None else _far_points(some, own_weight, count, rng)
    )
    centres = np.take_along_axis(some, seeds[:, None, :], axis=2).swapaxes(1, 2)
    turned = some.swapaxes(1, 2) * own_weight[:, None]
    for _ in range(LLOYD):
        score = centres @ some - (centres**2).sum(axis=2, keepdims=True) / 2  # (clouds, count, n)
        best = score.max(axis=1, keepdims=True)
        own = (score >= best - ROUNDING * np.abs(best)).astype(float)  # the nearest centre
        size = own @ own_weight
        moved = (own @ turned) / np.maximum(size, 1e-9)[:, :, None]
        centres = np.where(size[:, :, None] > 0, moved, centres)
    return _distances(Z, centres)


def _extreme_points(Z: Array, count: int) -> Codes:
    """Successive projection: points of [1, Z] that stand out most, one after the other.

    Where these are more than there are dimensions, the rest lie far from those before.
    """
    scale = np.median(np.sqrt((Z**2).sum(axis=1)), axis=1)
    R = np.concatenate([np.broadcast_to(scale[:, None, None], (len(Z), 1, Z.shape[2])), Z], axis=1)
    chosen = np.zeros((len(Z), count), dtype=int)
    least = ROUNDING * (R**2).sum(axis=1).max(axis=1, keepdims=True)
    nearest = np.zeros((len(Z), Z.shape[2]))
    for k in range(count):
        length = (R**2).sum(axis=1)
        most = length.max(axis=1, keepdims=True)
        length = np.where(most > least, length, nearest)  # no direction may be left
        most = length.max(axis=1, keepdims=True)
        chosen[:, k] = (length >= most - ROUNDING * most).argmax(axis=1)  # the first of equal ones
        centre = np.take_along_axis(Z, chosen[:, k, None, None], axis=2)
        distance = ((Z - centre) ** 2).sum(axis=1)
        nearest = np.minimum(nearest, distance) if k else distance
        far = np.take_along_axis(R, chosen[:, k, None, None], axis=2)  # (clouds, 1 + dimensions, 1)
        direction = far / np.maximum(np.sqrt((far**2).sum(axis=1, keepdims=True)), 1e-12)
        R = R - direction * (direction.swapaxes(1, 2) @ R)
    return chosen


def _far_points(Z: Array, weight: Array, count: int, rng: np.random.Generator) -> Codes:
    """Random points, each drawn by its squared distance from those before (k-means++)."""
    chosen = np.zeros((len(Z), count), dtype=int)
    chance = np.broadcast_to(weight, (len(Z), len(weight)))
    nearest = np.full(chance.shape, np.inf)
    for k in range(count):
        reached = np.cumsum(chance, axis=1)
        drawn = rng.random((len(Z), 1)) * reached[:, -1:]
        chosen[:, k] = np.minimum((reached <= drawn).sum(axis=1), len(weight) - 1)
        centre = np.take_along_axis(Z, chosen[:, k, None, None], axis=2)
        nearest = np.minimum(nearest, ((Z - centre) ** 2).sum(axis=1))
        far = weight * nearest
        chance = np.where(far.sum(axis=1, keepdims=True) > 0, far, weight)
    return chosen


def _distances(Z: Array, centres: Array) -> Array:
    """Squared distances: (clouds, centres, n)."""
    found = centres @ Z
    found *= -2.0
    found += (Z**2).sum(axis=1)[:, None, :]
    found += (centres**2).sum(axis=2, keepdims=True)
    return np.asarray(found, dtype=float)
