"""How far columns are apart in a tree of latents, from sums over rows (design 15).

    d(x, y) = −Σ_{s=2..k} log σ_s(P_x^{−1/2} P_xy P_y^{−1/2})

σ: singular values, the first of which is 1; P_x, P_y, P_xy: shares of rows. Where latents have k
states, and columns at least as many, these distances add up along the paths of the tree (of columns
with k states d = −log |det P_xy| + ½ log det P_x det P_y; Lake 1994, Choi et al. 2011).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np

from latentia.data.moments import Moments
from latentia.data.rows import Source
from latentia.discovery.pair_information import sum_pairs_of_states
from latentia.linear_algebra import singular_values
from latentia.typing import Array

WIDEST = 5  # cells of a line, about: more of them find correlations in noise


@final
@dataclass(frozen=True, slots=True, eq=False)
class PairDistances:
    """Distances of columns, (columns, columns), and their standard errors, about."""

    between: Array
    errors: Array


def pair_distances(
    sizes: Sequence[int], ordered: Sequence[int], source: Source, rank: int
) -> PairDistances:
    """Distances of all pairs of columns from one sum over rows.

    The first `ordered` cells of a column lie along a line, and neighbours of them are put together.
    """
    moments = source.fold(partial(sum_pairs_of_states, tuple(sizes), slice(0, len(sizes))))
    return distances_of(sizes, ordered, moments, rank)


def distances_of(
    sizes: Sequence[int], ordered: Sequence[int], moments: Moments, rank: int
) -> PairDistances:
    """From counts of pairs of states."""
    ends = np.cumsum([0, *sizes])
    pairs, n = moments.sums["pairs"], len(sizes)
    cells = [_wide_cells(m, line) for m, line in zip(sizes, ordered or [0] * n, strict=True)]
    between, errors = np.zeros((n, n)), np.ones((n, n))
    for a in range(n):
        for b in range(a + 1, n):
            block = pairs[ends[a] : ends[a + 1], ends[b] : ends[b + 1]]
            block = np.add.reduceat(np.add.reduceat(block, cells[a], axis=0), cells[b], axis=1)
            found = _distance(block, rank)
            between[a, b], errors[a, b] = between[b, a], errors[b, a] = found
    return PairDistances(between, errors)


def _wide_cells(states: int, line: int) -> list[int]:
    """First cells of what is put together."""
    step = max(1, -(-line // WIDEST))
    return [*range(0, line, step), *range(line, states)]


def _distance(counts: Array, rank: int) -> tuple[float, float]:
    """Distance and its standard error, about: that of log σ_k where (1 − σ²) / √n is that of σ.

    Correlations below their own error are taken as that.
    """
    rows, columns = counts.sum(axis=1), counts.sum(axis=0)
    total = float(rows.sum())
    if not total > 0:
        return 50.0, 50.0
    shares = counts[rows > 0][:, columns > 0]
    shares = shares / np.sqrt(np.outer(rows[rows > 0], columns[columns > 0]))
    values = singular_values(shares)[1:rank]
    least = 1.0 / np.sqrt(total)
    values = np.concatenate([values, np.zeros(max(0, rank - 1 - len(values)))])
    values = np.clip(values, least, 1.0)
    error = np.sqrt(np.sum(((1.0 - values**2) ** 2 + 1.0 / total) / (total * values**2)))
    return float(-np.log(values).sum()), float(error)
