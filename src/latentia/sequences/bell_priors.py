"""What is believed of Gaussians before any row: pseudo-rows as wide as a state is expected to be.

States that lie far apart are much narrower than the column. So pseudo-rows have not the column's
own variance, but the one inside the bells of a mixture of as many as there are states; and they lie
around the mean of their state, wherever that is: log p(v) = −n/2 (log 2π v + w/v), which is fixed
before learning, so that EM still climbs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.sequences.column_scales import bells_of_states
from latentia.typing import Array

VARIANCE_FLOOR = 1e-3  # of the column's own
CENTRED = 0.05  # of a pseudo-row draws the mean of a state to that of the column


@final
@dataclass(frozen=True, slots=True)
class BellPrior:
    """So many pseudo-rows for every state, of this variance around its mean."""

    rows: float
    variance: float

    def maximise(self, sums: Array) -> Array:
        """Means and variances from sums of 1, x, x²: (…, 1, 3). Without a row: of the column."""
        n, first, second = np.moveaxis(sums, -1, 0)
        some = n > 0
        centred = CENTRED * self.rows
        mean = np.where(some, first / np.where(some, n + centred, 1.0), 0.0)
        inside = np.maximum(second - first * mean, 0.0) + self.rows * self.variance
        variance = np.where(some, inside / np.where(some, n + self.rows, 1.0), 1.0)
        return np.stack([np.ones_like(n), mean, np.maximum(variance, VARIANCE_FLOOR)], axis=-1)

    def log_density(self, leaf: Array) -> float:
        """Of a table of Gaussians, (…, 1, 3)."""
        variance = leaf[..., 2]
        inside = self.variance + CENTRED * leaf[..., 1] ** 2
        terms = np.log(2 * np.pi * variance) + inside / variance
        return float(-0.5 * self.rows * terms.sum())


def bell_prior(cells: Array, rows: float, states: int) -> BellPrior:
    """The prior of a column with these cells (NaN: missing), told by so many states."""
    there = cells[~np.isnan(cells)]
    if rows == 0 or not len(there):
        return BellPrior(rows, 1.0)
    return BellPrior(rows, max(bells_of_states(there, states).inside, VARIANCE_FLOOR))
