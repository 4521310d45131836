"""The linear answer: x̂ = μ_x + Σ_xe Σ_ee⁻¹ (e − μ_e), a normal density on a column's grid.

Where columns hang together almost linearly, a kernel smooths what a line would tell. So the answer
of an embedding leans on that of the covariances, by a share that grows with the variance they
explain: where evidence tells nothing linearly, nothing changes (design 7).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from latentia.data.columns.column import Column, is_present
from latentia.data.columns.continuous import ContinuousColumn
from latentia.errors import LatentiaError
from latentia.linear_algebra import eigh
from latentia.typing import Array, Bools, Codes

MOST_COORDINATES = 256  # of all columns: with more, their covariances cost too much
RIDGE = 0.25  # coordinates over rows, as a share of the variances
LEAST_MASS, LEAST_OF_LINE = 1e-9, 1e-6  # of a cell: neither answer forbids what the other says
BORROWED = 0.02  # variance added in scores: this share of a class's own and of that of all
FARTHEST = 100.0  # nats by which a class is behind the best one at most
FEWEST_FREE = 3.0  # degrees of freedom of a predictive density, at least
POOLED_ROWS = 100.0  # R: with so many rows of a class, normal densities count half
LEAST_VARIANCE = 1e-9  # of coordinates, in scores
NARROWEST = 0.5  # standard deviation of an answer, in steps of the grid


@final
@dataclass(frozen=True, slots=True)
class Slot:
    """A column's coordinates: its position on the grid, or indicators of all states but one."""

    start: int
    size: int
    points: int = 0  # of the grid; 0: discrete
    atoms: tuple[float, ...] = ()  # where they lie on the grid

    def coordinates(self, cells: Array) -> Array:
        """(size, n) of codes or positions, missing ones not."""
        if not self.points:
            return np.asarray(cells == np.arange(1, self.size + 1)[:, None], dtype=float)
        found = np.array(cells, dtype=float)
        for k, place in enumerate(self.atoms):
            found[cells == self.points + k] = place
        return found[None]


@final
@dataclass(frozen=True, slots=True)
class Linear:
    """Means and covariances of all columns' coordinates, and how far answers lean on them."""

    slots: tuple[Slot, ...]  # by place of the column
    mean: Array
    covariance: Array
    weight: float  # N
    lean: float = 0.0

    def __post_init__(self) -> None:
        size = sum(slot.size for slot in self.slots)
        if self.mean.shape != (size,) or self.covariance.shape != (size, size):
            raise LatentiaError(f"expected covariances of {size} coordinates.")
        if not (np.isfinite(self.mean).all() and np.isfinite(self.covariance).all()):
            raise LatentiaError("covariances are not finite; the data are at fault.")
        self.mean.setflags(write=False)
        self.covariance.setflags(write=False)


def linear_slots(columns: Sequence[Column]) -> tuple[Slot, ...] | None:
    """Coordinates of all columns, or None where they are too many."""
    found, start = [], 0
    for c in columns:
        if isinstance(c, ContinuousColumn):
            z = c.scaled(np.asarray(c.atoms, dtype=float))
            places = np.clip((z - c.low) / c.step - 0.5, 0.0, c.points - 1.0)
            found.append(Slot(start, 1, c.points, tuple(places.tolist())))
        else:
            found.append(Slot(start, c.cells - 1))
        start += found[-1].size
    return tuple(found) if start <= MOST_COORDINATES else None


def sum_linear(
    slots: Sequence[Slot], codes: Sequence[Codes], weight: Array | None
) -> dict[str, Array]:
    """Σ w 1 1ᵀ, Σ w u 1ᵀ and Σ w u uᵀ, where 1 tells which coordinates u are there."""
    u, there = _points(slots, codes, len(codes[0]))
    here = there.astype(float)
    own = here if weight is None else here * weight
    return {"linear/count": own @ here.T, "linear/first": (u * own) @ here.T,
            "linear/second": (u * own) @ u.T}  # fmt: skip


def _points(slots: Sequence[Slot], codes: Sequence[Codes | None], n: int) -> tuple[Array, Bools]:
    """Coordinates, (D, n), zero where missing; and which are there."""
    size = sum(slot.size for slot in slots)
    u, there = np.zeros((size, n)), np.zeros((size, n), dtype=bool)
    for slot, cells in zip(slots, codes, strict=True):
        if cells is None or not slot.size:
            continue
        here = is_present(cells)
        part = slice(slot.start, slot.start + slot.size)
        there[part] = here
        u[part] = np.where(here, slot.coordinates(np.where(here, cells, 0)), 0.0)
    return u, there


def fit_linear(slots: tuple[Slot, ...], sums: Mapping[str, Array], N: float) -> Linear:
    """Covariances over the rows that have both columns; their eigenvalues never negative."""
    count = sums["linear/count"]
    some = np.maximum(count, 1e-300)
    first = sums["linear/first"] / some
    covariance = np.where(count > 0, sums["linear/second"] / some - first * first.T, 0.0)
    mean = np.diag(first).copy()
    if count.size and float(np.ptp(count)) > 1e-9 * N:  # of different rows: perhaps indefinite
        values, vectors = eigh((covariance + covariance.T) / 2)
        covariance = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return Linear(slots, mean, np.ascontiguousarray(covariance), float(N))


def linear_in_order(linear: Linear, order: Sequence[int], codes: Sequence[Codes | None]) -> Linear:
    """Columns in this order of their places; `codes`: what code each state had (None: the same).

    Indicators of all states but the first are a linear map of those of all but another one.
    """
    size, start = len(linear.mean), 0
    turn, shift, slots = np.zeros((size, size)), np.zeros(size), []
    for i, had in zip(order, codes, strict=True):
        slot = linear.slots[i]
        old = range(slot.size) if slot.points or had is None else had[1:] - 1
        for k, j in enumerate(old):
            row = turn[start + k, slot.start : slot.start + slot.size]
            if j >= 0:
                row[j] = 1.0
            else:  # it was the first state
                row[:], shift[start + k] = -1.0, 1.0
        slots.append(replace(slot, start=start))
        start += slot.size
    mean, found = turn @ linear.mean + shift, turn @ linear.covariance @ turn.T
    return replace(linear, slots=tuple(slots), mean=mean, covariance=(found + found.T) / 2)


def lean_on(linear: Linear, codes: Sequence[Codes | None], place: int, masses: Array) -> Array:
    """masses^(1 − s) · line^s, normalised; s = lean · (explained variance)²: (cells, n).

    The product is narrower than a mixture of the two would be, as it should where they agree.
    """
    found = linear_masses(linear, codes, place, masses.shape[1]) if linear.lean > 0 else None
    if found is None:
        return masses
    share, line = linear.lean * found[0] ** 2, found[1]
    log = (1.0 - share) * np.log(masses + LEAST_MASS) + share * np.log(line + LEAST_OF_LINE)
    pooled = np.exp(log - log.max(axis=0))
    return np.where(share > 0, pooled / pooled.sum(axis=0), masses)


def linear_masses(
    linear: Linear, codes: Sequence[Codes | None], place: int, n: int
) -> tuple[Array, Array] | None:
    """Explained share of the variance, (n,), and masses (cells, n), given the other columns.

    None for columns that have no line: discrete ones, or with values that stand alone.
    """
    slot = linear.slots[place]
    if not slot.points or slot.atoms or linear.covariance[slot.start, slot.start] <= 0:
        return None
    others = [None if i == place else c for i, c in enumerate(codes)]
    u, there = _points(linear.slots, others, n)
    explained, centre, spread = np.zeros(n), np.zeros(n), np.ones(n)
    for pattern, rows in _patterns(there):
        if pattern.any():
            explained[rows], weights, spread[rows] = _regression(linear, pattern, slot.start)
            shifted = u[pattern][:, rows] - linear.mean[pattern][:, None]
            centre[rows] = linear.mean[slot.start] + weights @ shifted
    grid = np.arange(slot.points)[:, None]
    log = -0.5 * ((grid - centre) / np.maximum(spread, NARROWEST)) ** 2
    line = np.exp(log - log.max(axis=0))
    return explained, line / line.sum(axis=0)


def _patterns(there: Bools) -> list[tuple[Bools, slice | Codes]]:
    """Which coordinates are there together, and in which rows."""
    if not there.shape[1]:
        return []
    if (there == there[:, :1]).all():
        return [(there[:, 0], slice(None))]
    kinds, which = np.unique(there, axis=1, return_inverse=True)
    return [(kinds[:, k], np.flatnonzero(which.ravel() == k)) for k in range(kinds.shape[1])]


def _regression(linear: Linear, pattern: Bools, target: int) -> tuple[float, Array, float]:
    """Adjusted R², weights and residual deviation of one coordinate on others."""
    used = int(pattern.sum())
    left = linear.weight - used - 1.0
    if left < 1.0:  # as many coordinates as rows
        return 0.0, np.zeros(used), 1.0
    C = linear.covariance[np.ix_(pattern, pattern)]
    ridge = RIDGE * len(linear.mean) / linear.weight + 1e-9
    own_block = _blocks(linear.slots)[0][np.ix_(pattern, pattern)]  # all of it, as in scores
    C = C + ridge * np.where(own_block, C, 0.0) + 1e-9 * np.eye(len(C))
    across, own = linear.covariance[pattern, target], float(linear.covariance[target, target])
    from scipy.linalg import cho_factor, cho_solve  # loaded when there is a linear part

    weights = cho_solve(cho_factor(C, lower=True, check_finite=False), across, check_finite=False)
    residual = max(own - float(across @ weights), 0.0) * (linear.weight - 1.0) / left
    return max(1.0 - residual / own, 0.0), weights, float(np.sqrt(residual))


def linear_scores(classes: Sequence[Linear], codes: Sequence[Codes | None], n: int) -> Array:
    """log t(present cells; μ_c, Σ_c, N_c − d) of every class, (classes, n), up to a constant.

    What a normal density predicts whose covariances are known from N_c rows only. Each class
    borrows a little of the variances of all, so that none is without; of a column with several
    coordinates their covariances, too: so it does not matter which state is left out.
    """
    from scipy.linalg import solve_triangular

    u, there = _points(classes[0].slots, codes, n)
    total = sum(c.weight for c in classes)
    own_block, least = _blocks(classes[0].slots)
    shared = np.sum([c.weight / total * c.covariance for c in classes], axis=0) * own_block
    found = np.zeros((len(classes), n))
    for pattern, rows in _patterns(there):
        for own, scores in zip(classes, found, strict=True):
            C = own.covariance + BORROWED * (own.covariance * own_block + shared) + least
            L = np.linalg.cholesky(C[np.ix_(pattern, pattern)])
            apart = solve_triangular(
                L, u[pattern][:, rows] - own.mean[pattern][:, None], lower=True, check_finite=False
            )
            d = len(L)
            free = max(own.weight - d, FEWEST_FREE)
            tail = 0.5 * (free + d) * np.log1p((apart**2).sum(axis=0) / free)
            scores[rows] = -tail - np.log(np.diag(L)).sum()
    return found


def _blocks(slots: Sequence[Slot]) -> tuple[Bools, Array]:
    """Which coordinates are of one column; a little variance, of states that come alike."""
    home = np.repeat(np.arange(len(slots)), [slot.size for slot in slots])
    own_block = np.asarray(home[:, None] == home)
    share = np.array([1.0 if slot.points else 1.0 / (slot.size + 1) for slot in slots])[home]
    dense = np.array([slot.points > 0 for slot in slots])[home]
    least = np.diag(share) - own_block * np.where(dense, 0.0, share**2)
    return own_block, LEAST_VARIANCE * least


def pool_scores(
    scores: Array, classes: Sequence[Linear], codes: Sequence[Codes | None], share: float
) -> Array:
    """(1 − s) scores + s · those of normal densities: (classes, n).

    The two err differently where rows are few: s = share · R / (R + rows of a class).
    """
    if share <= 0 or len(classes) < len(scores):  # some class has no covariances
        return scores
    rows = sum(c.weight for c in classes) / len(classes)
    share *= POOLED_ROWS / (POOLED_ROWS + rows)
    line = linear_scores(classes, codes, scores.shape[1])
    line = np.maximum(line, line.max(axis=0) - FARTHEST)
    return np.asarray((1.0 - share) * scores + share * line)
