"""A Gaussian of all scores, learned from rows with holes by EM (Little and Rubin 2002).

Of a row with cells M missing, P the precision:

    E[z_M | z_O] = m_M − P_MM⁻¹ P_MO (z_O − m_O),    Cov[z_M | z_O] = P_MM⁻¹

so that only matrices as large as what is missing are inverted, all rows that miss as much at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.typing import Array, Bools, Codes

STEPS = 12
PRIOR = 3.0  # rows of independent scores that are added
CHUNK = 2000


@final
@dataclass(frozen=True, slots=True, eq=False)
class GaussianScores:
    """Mean and precision of standardised scores."""

    mean: Array  # (width,)
    precision: Array  # (width, width)

    def filled(self, scores: Array, without: Bools | None = None) -> tuple[Array, Array]:
        """Scores with expected ones where cells are missing, or left out; and their variances.

        (n, width) each; the variance of what is known is 0.
        """
        there = ~np.isnan(scores)
        if without is not None:
            there = there & ~without
        found = np.where(there, scores, 0.0)
        variance = np.zeros(scores.shape)
        for rows, gone, inverse in _patterns(self.precision, there):
            found[rows[:, None], gone] = _expected(self, scores, there, rows, gone, inverse)
            variance[rows[:, None], gone] = np.diagonal(inverse, axis1=1, axis2=2)
        return found, variance


def drawn_scores(own: GaussianScores, scores: Array, rng: np.random.Generator) -> Array:
    """Scores with draws given all that is known of a row where cells are missing, (n, width)."""
    there = ~np.isnan(scores)
    found = np.where(there, scores, 0.0)
    for rows, gone, inverse in _patterns(own.precision, there):
        noise = np.einsum("nij,nj->ni", np.linalg.cholesky(inverse), rng.normal(size=gone.shape))
        found[rows[:, None], gone] = noise + _expected(own, scores, there, rows, gone, inverse)
    return found


def _patterns(precision: Array, there: Bools) -> list[tuple[Codes, Codes, Array]]:
    """Rows that miss equally many: their numbers, what they miss (n, k), P_MM⁻¹ (n, k, k)."""
    count = (~there).sum(axis=1)
    found = []
    for k in np.unique(count[count > 0]):
        every = np.flatnonzero(count == k)
        for start in range(0, len(every), CHUNK):
            rows = every[start : start + CHUNK]
            gone = np.nonzero(~there[rows])[1].reshape(len(rows), k)
            inverse = np.linalg.inv(precision[gone[:, :, None], gone[:, None, :]])
            found.append((rows, gone, np.asarray(inverse, dtype=float)))
    return found


def _expected(
    own: GaussianScores, scores: Array, there: Bools, rows: Codes, gone: Codes, inverse: Array
) -> Array:
    known = np.where(there[rows], scores[rows] - own.mean, 0.0)
    pull = np.take_along_axis(known @ own.precision, gone, axis=1)  # (P_MO (z − m)_O)
    return np.asarray(own.mean[gone] - np.einsum("nij,nj->ni", inverse, pull))


def fit_gaussian(scores: Array, weight: Array, steps: int = STEPS) -> GaussianScores:
    """EM from independent scores; `PRIOR` rows keep it away from the singular."""
    width = scores.shape[1]
    there = ~np.isnan(scores)
    found = GaussianScores(np.zeros(width), np.eye(width))
    total = float(weight.sum())
    for _ in range(steps):
        full, spread = np.where(there, scores, 0.0), np.zeros((width, width))
        for rows, gone, inverse in _patterns(found.precision, there):
            full[rows[:, None], gone] = _expected(found, scores, there, rows, gone, inverse)
            at = (gone[:, :, None] * width + gone[:, None, :]).ravel()
            part = (inverse * weight[rows][:, None, None]).ravel()
            spread += np.bincount(at, part, width * width).reshape(width, width)
        mean = weight @ full / total
        apart = full - mean
        cross = (apart * weight[:, None]).T @ apart + spread
        covariance = (cross + PRIOR * np.eye(width)) / (total + PRIOR)
        precision = np.linalg.inv((covariance + covariance.T) / 2)
        found = GaussianScores(mean, np.asarray(precision, dtype=float))
    return found
