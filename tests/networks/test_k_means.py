"""k-means of many clouds at once, against one cloud and one point at a time."""

from __future__ import annotations

import numpy as np
import pytest

from latentia.networks.k_means import LLOYD, _extreme_points, cluster_all, cluster_distances


def blobs(rng, count, dimensions, n, far=10.0):
    """Points around centres that lie far apart, and which centre each belongs to."""
    centres = rng.normal(size=(count, dimensions)) * far
    label = rng.integers(count, size=n)
    return (centres[label] + rng.normal(size=(n, dimensions))).T, label


def slow_distances(Z, weight, count):
    """The same, cloud by cloud and point by point; (dimensions, n) to (count, n)."""
    points = Z.T
    centres = [points[i] for i in _extreme_points(Z[None], count)[0]]
    for _ in range(LLOYD):
        nearest = [int(np.argmin([((x - c) ** 2).sum() for c in centres])) for x in points]
        for k in range(count):
            own = [i for i, where in enumerate(nearest) if where == k]
            if own:
                centres[k] = np.average(points[own], axis=0, weights=weight[own])
    return np.array([[((x - c) ** 2).sum() for x in points] for c in centres])


def test_many_clouds_as_one_by_one():
    rng = np.random.default_rng(0)
    clouds = [blobs(rng, 3, d, 60)[0] for d in (2, 4, 2, 3)]
    weight, counts = rng.random(60) + 0.5, [3, 2, 3, 3]
    for Z, count, found in zip(clouds, counts, cluster_all(clouds, weight, counts), strict=True):
        np.testing.assert_allclose(found, slow_distances(Z, weight, count), atol=1e-9)


@pytest.mark.parametrize("seed", [None, 0])
def test_blobs_are_found(seed):
    rng = None if seed is None else np.random.default_rng(seed)
    Z, label = blobs(np.random.default_rng(1), 4, 3, 3000, far=30.0)
    nearest = cluster_distances(Z[None], np.ones(3000), 4, rng)[0].argmin(axis=0)
    met = np.eye(4)[label].T @ np.eye(4)[nearest]
    assert (met.max(axis=1).sum(), (met > 0).sum()) == (3000, 4)


@pytest.mark.parametrize("seed", [None, 0])
def test_points_that_are_all_alike(seed):
    rng = None if seed is None else np.random.default_rng(seed)
    found = cluster_distances(np.ones((2, 3, 50)), np.ones(50), 4, rng)
    np.testing.assert_allclose(found, 0.0, atol=1e-12)
