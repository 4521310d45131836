"""Cells along a line, and a normal distribution of each latent state over them (design 15).

Scores make the column a standard normal one: cell j reaches from z_j to z_{j+1}, with Φ(z_j) the
share of rows before it. Of a state with expected counts n_j the moments of cells give

    μ = Σ n_j E[z | j] / (1 + Σ n_j),    σ² = (1 + Σ n_j E[z² | j]) / (1 + Σ n_j) − μ²,

drawn to the standard normal by one row; the mass of cell j is Φ((z_{j+1} − μ)/σ) − Φ((z_j − μ)/σ).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from latentia.typing import Array

OUTERMOST = 5.0  # a score
LEAST_VARIANCE = 0.01


@final
@dataclass(frozen=True, slots=True, eq=False)
class CellLine:
    """Columns of one shape, c of them: d cells along a line each, then cells apart (atoms)."""

    ends: Array  # scores between cells, (c, d - 1, 1)
    moments: Array  # 1, E[z | cell], E[z² | cell]: (c, 3, d)
    share: Array  # of all rows that lie on the line, (c, 1, 1)
    apart: Array  # shares of the cells apart, (c, cells apart, 1)

    @property
    def cells(self) -> int:
        return int(self.moments.shape[-1])

    def masses(self, counts: NDArray[np.float32]) -> NDArray[np.float32]:
        """Masses of all cells per state, (c, …, cells, k), from expected counts of that shape."""
        wide = (slice(None), *(None,) * (counts.ndim - 3))  # columns below a parent have its states
        own = counts[..., : self.cells, :]
        sums = self.moments[wide] @ own  # (c, …, 3, k)
        total, first, second = sums[..., :1, :], sums[..., 1:2, :], sums[..., 2:, :]
        mean = first / (total + 1.0)
        spread = np.sqrt(np.maximum((second + 1.0) / (total + 1.0) - mean * mean, LEAST_VARIANCE))
        below = np.empty((*own.shape[:-2], self.cells + 1, own.shape[-1]))
        below[..., 0, :], below[..., -1, :] = 0.0, 1.0
        below[..., 1:-1, :] = ndtr((self.ends[wide] - mean) / spread)
        found = np.empty(counts.shape, np.float32)
        found[..., : self.cells, :] = (below[..., 1:, :] - below[..., :-1, :]) * self.share[wide]
        found[..., self.cells :, :] = self.apart[wide]
        return found


def cell_line(shares: Array, cells: int) -> CellLine:
    """Of one column whose first `cells` states lie along a line; `shares` of rows, (states,)."""
    line = shares[:cells] / max(float(shares[:cells].sum()), 1e-300)
    level = np.concatenate([[0.0], np.cumsum(line)])
    z = np.clip(ndtri(np.clip(level, 1e-6, 1 - 1e-6)), -OUTERMOST, OUTERMOST)
    bell = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    mass, edge = np.maximum(line, 1e-9), z * bell
    moments = np.stack(
        [np.ones(cells), (bell[:-1] - bell[1:]) / mass, 1.0 + (edge[:-1] - edge[1:]) / mass]
    )
    return CellLine(
        z[None, 1:-1, None],
        moments[None],
        np.full((1, 1, 1), shares[:cells].sum()),
        np.asarray(shares[None, cells:, None]),
    )


def joined_lines(lines: Sequence[CellLine]) -> CellLine:
    """Columns of one shape together."""
    parts = ((each.ends, each.moments, each.share, each.apart) for each in lines)
    return CellLine(*(np.concatenate(own) for own in zip(*parts, strict=True)))
