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
from typing import final

import numpy as np
import scipy

from latentia.data.columns.column import Column
from latentia.data.columns.continuous import ContinuousColumn, dense_columns
from latentia.data.columns.scales import Knots
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Label


@final
@dataclass(frozen=True, slots=True)
class GaussianTable:
    """P(x | parents) = Σ_k weights · N(means, deviations²): arrays (parents …, components).

    A value that stands alone, as zero does in a column with many zeros, is a component of deviation
    0. Where wide gaps part a column, each part has components of its own.

    Of a column with long tails, means and deviations are those of asinh((x − centre) / scale); with
    knots (y, z), those of a curve through them: z of y, where y is that asinh, or x itself.
    """

    weights: Array
    means: Array
    deviations: Array
    warped: tuple[float, float] | None = None  # centre and scale, of a column with long tails
    knots: Knots = ()  # data.columns.scales.bend tells z


def as_table(leaf: Array, column: ContinuousColumn) -> GaussianTable:
    """A leaf in steps of the column's grid, in the column's own units."""
    w, mean, variance = np.moveaxis(leaf, -1, 0)
    z, deviation = column.low + (mean + 0.5) * column.step, np.sqrt(variance) * column.step
    if column.atoms:
        count = len(column.atoms)
        z[..., -count:] = column.scaled(np.array(column.atoms))
        deviation[..., -count:] = 0.0
    if column.knots and not column.warped:  # in the column's own units
        at = tuple((y * column.scale + column.centre, z_k) for y, z_k in column.knots)
        return GaussianTable(w, z, deviation, None, at)
    if column.warped:
        return GaussianTable(w, z, deviation, (column.centre, column.scale), column.knots)
    return GaussianTable(w, column.unscaled(z), deviation * column.scale)


def gaussian_tables(
    graph: LatentGraph, leaves: Mapping[int, Array], columns: Sequence[Column]
) -> dict[Label, GaussianTable]:
    """The leaves of continuous columns by name, in their own units."""
    own = dense_columns(graph.observed, columns)
    return {graph.names[v]: as_table(leaf, own[v]) for v, leaf in leaves.items() if v in own}


LOG_2PI = math.log(2 * math.pi)
LEAST_WEIGHT = 1e-300  # of a component that no row is left to
MOST_SEEDED = 2000  # rows among which the centres of a start are drawn


def features(x: Array) -> Array:
    """(1, x, x²), (…, 3, n) of (…, n); zero where x is missing (NaN).

    >>> features(np.array([2.0, np.nan])).tolist()
    [[1.0, 0.0], [2.0, 0.0], [4.0, 0.0]]
    """
    there = ~np.isnan(x)
    value = np.where(there, x, 0.0)
    found = np.empty((*x.shape[:-1], 3, x.shape[-1]))
    found[..., 0, :], found[..., 1, :] = there, value
    np.multiply(value, value, out=found[..., 2, :])
    return found


def log_terms(leaves: Sequence[Array]) -> list[Array]:
    """a, b, c with log w N(x) = a + b x + c x² of every leaf: (states, components, 3)."""
    flat = [leaf.reshape(-1, *leaf.shape[-2:]) for leaf in leaves]
    if len({leaf.shape for leaf in flat}) == 1:  # all at once: many small leaves take their time
        return list(_coefficients(np.stack(flat)))
    return [_coefficients(leaf) for leaf in flat]


def leaf_log_likelihoods(terms: Sequence[Array], F: Array) -> Array:
    """Σ over leaves of log P(x | s), (states of the parents, n); 0 where x is missing.

    `F` are the features of each leaf's column, (leaves, 3, n).
    """
    if all(t.shape[1] == 1 for t in terms):
        return np.asarray(
            np.concatenate([t[:, 0] for t in terms], axis=1) @ F.reshape(-1, F.shape[-1])
        )
    total: Array | float = 0.0
    for t, own in zip(terms, F, strict=True):
        logs, top = _component_logs(t, own)
        part = np.log(np.exp(logs - top).sum(axis=1)) + top[:, 0]
        total = total + np.where(own[0] > 0, part, 0.0)
    return np.asarray(total)


def component_sums(terms: Sequence[Array], F: Array, share: Array) -> Array:
    """Σ r (1, x, x²) of every component, (leaves, states, components, 3).

    `share` are the beliefs of the parents' states, (states, n).
    """
    if all(t.shape[1] == 1 for t in terms):
        found = share @ F.reshape(-1, F.shape[-1]).T  # (states, leaves · 3)
        return np.asarray(found.reshape(len(share), len(terms), 1, 3).swapaxes(0, 1))
    sums = []
    for t, own in zip(terms, F, strict=True):
        logs, top = _component_logs(t, own)
        r = np.exp(logs - top)
        r *= (share / r.sum(axis=1))[:, None]
        sums.append(r @ own.T)
    return np.stack(sums)


def _coefficients(leaf: Array) -> Array:
    """a, b, c with log w N(x) = a + b x + c x², on the last axis."""
    w, mean, variance = leaf[..., 0], leaf[..., 1], leaf[..., 2]
    found = np.empty(leaf.shape)
    np.divide(mean, variance, out=found[..., 1])
    np.divide(-0.5, variance, out=found[..., 2])
    a = -0.5 * (LOG_2PI + np.log(variance) + mean * found[..., 1])
    found[..., 0] = a if w.shape[-1] == 1 else a + np.log(np.maximum(w, LEAST_WEIGHT))
    return found


def _component_logs(terms: Array, F: Array) -> tuple[Array, Array]:
    """log w N(x) of every component, (states, components, n), and its largest over components."""
    logs = terms @ F
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
    terms = _coefficients(leaf)
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


def grid_masses(leaf: Array, points: int) -> Array:
    """∫ P(x | s) hat_j(x) dx at x = 0 … points − 1, (parents …, points); beyond the ends, the ends.

    So that a density that is linear between the points is met exactly, and all sums to one.
    """
    w, mean, variance = np.moveaxis(leaf, -1, 0)
    sd = np.sqrt(variance)[..., None]
    u = (np.arange(points) - mean[..., None]) / sd  # (parents …, components, points)
    # G(x) = E[min(X, x)] up to a constant has the hats' masses as its second differences
    phi = np.exp(-0.5 * u * u) / math.sqrt(2 * math.pi)
    ramp = sd * (u * scipy.special.ndtr(u) + phi)  # E[max(x − X, 0)]
    rise = np.diff(ramp, axis=-1)  # from 0 to 1
    edges = np.concatenate([np.zeros_like(rise[..., :1]), rise, np.ones_like(rise[..., :1])], -1)
    masses = np.maximum(np.diff(edges, axis=-1), 0.0)
    return np.asarray((w[..., None] * masses).sum(axis=-2))
