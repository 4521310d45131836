"""Gaussian leaves: P(x | s) = Σ_k w_sk N(x; μ_sk, σ²_sk), learned from Σ r, Σ r x and Σ r x².

A leaf is one array (parents …, components, 3) of weights, means and variances; its sums over rows
have the same shape. log N is a + b x + c x², so that with features (1, x, x²), all of them zero
where x is missing, both the likelihoods and the sums of a block of rows are matrix products.
Values are standardised before (mean 0, variance 1 of the column), so that squares lose no digits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.special import ndtr

from latentia.features.continuous import Column, ContinuousColumn
from latentia.graph import LatentGraph
from latentia.typing import Array, Label

__all__ = [
    "GaussianTable",
    "MOST_SEEDED",
    "as_table",
    "component_sums",
    "draw_leaves",
    "expected_value",
    "features",
    "gaussian_tables",
    "grid_masses",
    "leaf_prior",
    "leaf_sums",
    "log_likelihoods",
    "maximise_leaf",
    "rescaled",
    "spread_of",
]


@final
@dataclass(frozen=True, slots=True)
class GaussianTable:
    """P(x | parents) = Σ_k weights · N(means, deviations²): arrays (parents …, components).

    Of a column with long tails, means and deviations are those of asinh((x − centre) / scale).
    """

    weights: Array
    means: Array
    deviations: Array
    warped: tuple[float, float] | None = None  # centre and scale, of a column with long tails


def as_table(leaf: Array, column: ContinuousColumn) -> GaussianTable:
    """A leaf in steps of the column's grid, in the column's own units."""
    w, mean, variance = np.moveaxis(leaf, -1, 0)
    z, deviation = column.low + (mean + 0.5) * column.step, np.sqrt(variance) * column.step
    if column.warped:
        return GaussianTable(w, z, deviation, (column.centre, column.scale))
    return GaussianTable(w, column.unscaled(z), deviation * column.scale)


def gaussian_tables(
    graph: LatentGraph, leaves: Mapping[int, Array], columns: Sequence[Column]
) -> dict[Label, GaussianTable]:
    """The leaves of continuous columns by name, in their own units."""
    own = dict(zip(graph.observed, columns, strict=True))
    return {
        graph.names[v]: as_table(leaf, column)
        for v, leaf in leaves.items()
        if isinstance(column := own[v], ContinuousColumn)
    }


LOG_2PI = math.log(2 * math.pi)
MOST_SEEDED = 2000  # rows among which the centres of a start are drawn


def features(x: Array) -> Array:
    """(1, x, x²), (3, n); zero where x is missing (NaN).

    >>> features(np.array([2.0, np.nan])).tolist()
    [[1.0, 0.0], [2.0, 0.0], [4.0, 0.0]]
    """
    there = ~np.isnan(x)
    value = np.where(there, x, 0.0)
    return np.stack([there.astype(float), value, value * value])


def log_likelihoods(leaves: Sequence[Array], F: Sequence[Array]) -> Array:
    """Σ over leaves of log P(x | s), (states of the parents, n); 0 where x is missing."""
    simple = [k for k, leaf in enumerate(leaves) if leaf.shape[-2] == 1]
    total: Any = 0.0
    if simple:
        terms = np.concatenate([_coefficients(leaves[k])[:, 0] for k in simple], axis=1)
        total = terms @ np.concatenate([F[k] for k in simple])
    for k, leaf in enumerate(leaves):
        if leaf.shape[-2] > 1:
            logs, top = _component_logs(leaf, F[k])
            total = total + np.log(np.exp(logs - top).sum(axis=1)) + top[:, 0]
    return np.asarray(total)


def component_sums(leaf: Array, F: Array, share: Array) -> Array:
    """Σ r (1, x, x²) of every component, (states, components, 3); `share` is (states, n)."""
    if leaf.shape[-2] == 1:
        return np.asarray(share @ F.T)[:, None]
    logs, top = _component_logs(leaf, F)
    r = np.exp(logs - top)
    r *= (share / r.sum(axis=1))[:, None]
    return np.asarray(r @ F.T)


def _coefficients(leaf: Array) -> Array:
    """a, b, c with log w N(x) = a + b x + c x²: (states, components, 3)."""
    w, mean, variance = np.moveaxis(leaf.reshape(-1, *leaf.shape[-2:]), -1, 0)
    with np.errstate(divide="ignore"):
        a = np.log(w) - 0.5 * (LOG_2PI + np.log(variance) + mean * mean / variance)
    return np.stack([np.maximum(a, -1e300), mean / variance, -0.5 / variance], axis=-1)


def _component_logs(leaf: Array, F: Array) -> tuple[Array, Array]:
    """log w N(x) of every component, (states, components, n), log w where missing; and its max."""
    terms = _coefficients(leaf)
    logs = terms @ F
    if not F[0].all():
        w = leaf.reshape(-1, *leaf.shape[-2:])[..., 0]
        with np.errstate(divide="ignore"):
            gone = np.maximum(np.log(w), -1e300)
        logs = np.where(F[0] > 0, logs, gone[..., None])
    return logs, logs.max(axis=1, keepdims=True)


# --- the M-step -----------------------------------------------------------------------------------


def maximise_leaf(sums: Array, floor: float, pseudo: float = 0.0) -> Array:
    """Weights, means and variances of largest likelihood, no variance below `floor`.

    `pseudo` rows with the column's own mean and variance (0 and 1) are added to every row of the
    table. A component that no data speak of takes mean 0 and variance 1.
    """
    total = sums + (pseudo / sums.shape[-2]) * np.array([1.0, 0.0, 1.0])
    n = total[..., 0]
    some = n > 0
    count = np.where(some, n, 1.0)
    mean = np.where(some, total[..., 1] / count, 0.0)
    variance = np.where(some, total[..., 2] / count - mean * mean, 1.0)
    whole = n.sum(axis=-1, keepdims=True)
    weight = np.where(whole > 0, n / np.where(whole > 0, whole, 1.0), 1.0 / n.shape[-1])
    return np.stack([weight, mean, np.maximum(variance, max(floor, 1e-300))], axis=-1)


def leaf_prior(leaf: Array, pseudo: float) -> float:
    """Expected log-likelihood of the pseudo-rows that `maximise_leaf` adds."""
    if pseudo == 0:
        return 0.0
    terms = np.maximum(_coefficients(leaf), -1e15)  # a weight of 0 is not minus infinity
    return float((pseudo / leaf.shape[-2]) * (terms @ np.array([1.0, 0.0, 1.0])).sum())


def leaf_sums(leaf: Array) -> Array:
    """E[1, x, x²] of every component, of one row that is in each state of the parents."""
    w, mean, variance = np.moveaxis(leaf, -1, 0)
    return np.stack([w, w * mean, w * (variance + mean * mean)], axis=-1)


# --- starts ---------------------------------------------------------------------------------------


def draw_leaves(X: Array, shape: Sequence[int], mixture: int, rng: np.random.Generator) -> Array:
    """Leaves of columns with the same parents: centres by k-means++ seeding (D² sampling).

    `X` is (columns, rows) of standardised values; the answer (columns, parents …, mixture, 3). Rows
    drawn far from each other are the means; variances are those around the nearest centre.
    """
    wanted = math.prod(shape) * mixture
    points = np.nan_to_num(X[:, rng.permutation(X.shape[1])[:MOST_SEEDED]].T)  # (rows, columns)
    centres = points[[rng.integers(len(points))]]
    nearest = ((points - centres[0]) ** 2).sum(axis=1)
    for _ in range(wanted - 1):
        total = nearest.sum()
        p = nearest / total if total > 0 else None
        new = points[rng.choice(len(points), p=p)]
        centres = np.concatenate([centres, new[None]])
        nearest = np.minimum(nearest, ((points - new) ** 2).sum(axis=1))
    centres = centres[rng.permutation(wanted)]
    spread = float(np.clip(nearest.mean() / len(X), 0.01, 1.0))
    leaves = np.empty((len(X), wanted, 3))
    leaves[..., 0], leaves[..., 1], leaves[..., 2] = 1.0 / mixture, centres.T, spread
    return leaves.reshape(len(X), *shape, mixture, 3)


# --- units and grids ------------------------------------------------------------------------------


def rescaled(leaf: Array, mean: float, scale: float) -> Array:
    """The leaf of mean + scale · x."""
    w, mu, variance = np.moveaxis(leaf, -1, 0)
    return np.stack([w, mean + scale * mu, scale**2 * variance], axis=-1)


def expected_value(leaf: Array) -> Array:
    """E[x | s]: (parents …)."""
    return np.asarray((leaf[..., 0] * leaf[..., 1]).sum(axis=-1))


def spread_of(leaf: Array) -> tuple[float, float]:
    """Mean and standard deviation over all states of the parents alike."""
    sums = leaf_sums(leaf).reshape(-1, 3).sum(axis=0)
    mean = float(sums[1] / sums[0])
    return mean, math.sqrt(max(float(sums[2] / sums[0]) - mean * mean, 1e-300))


def grid_masses(leaf: Array, points: int) -> Array:
    """∫ P(x | s) hat_j(x) dx at x = 0 … points − 1, (parents …, points); beyond the ends, the ends.

    So that a density that is linear between the points is met exactly, and all sums to one.
    """
    w, mean, variance = np.moveaxis(leaf, -1, 0)
    sd = np.sqrt(variance)[..., None]
    u = (np.arange(points) - mean[..., None]) / sd  # (parents …, components, points)
    # G(x) = E[min(X, x)] up to a constant has the hats' masses as its second differences
    phi = np.exp(-0.5 * u * u) / math.sqrt(2 * math.pi)
    ramp = sd * (u * ndtr(u) + phi)  # E[max(x − X, 0)]
    rise = np.diff(ramp, axis=-1)  # from 0 to 1
    edges = np.concatenate([np.zeros_like(rise[..., :1]), rise, np.ones_like(rise[..., :1])], -1)
    masses = np.maximum(np.diff(edges, axis=-1), 0.0)
    return np.asarray((w[..., None] * masses).sum(axis=-2))
