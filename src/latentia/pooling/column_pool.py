"""What several models say of a column, mixed: w₀ P_joint + w₁ P_linear + w₂ P_forest (design 15).

The joint model is the one that scores and answers queries. The linear member is a Gaussian of
normal scores, of states a multinomial logit on them; the third is a forest. Rows that lack more
cells than rows of training did are answered by the joint model alone: it knows how little they
tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy

from latentia.data.columns.column import Places, is_present
from latentia.pooling.cell_scores import CellScores, TableScores
from latentia.pooling.gaussian_scores import GaussianScores
from latentia.pooling.leaf_forest import LeafForest
from latentia.pooling.row_chain import RowChain
from latentia.typing import Array, Bools, Codes

MEMBERS = ("joint", "linear", "forest")
FLOOR = 1e-3  # of a forest's or a logit's states together


@final
@dataclass(frozen=True, slots=True, eq=False)
class LogitMember:
    """P(state) ∝ exp(a + b · features) of the states that were seen."""

    states: tuple[int, ...]
    intercept: Array  # (states,)
    slopes: Array  # (states, features)

    def masses(self, features: Array, cells: int) -> Array:
        found = np.zeros((cells, len(features)))
        found[list(self.states)] = scipy.special.softmax(
            features @ self.slopes.T + self.intercept, axis=1
        ).T
        return found


@final
@dataclass(frozen=True, slots=True, eq=False)
class ColumnPool:
    """Weights of the members for one column, and those beside the joint model."""

    weights: tuple[float, float, float]
    spread: float = 1.0  # by which the Gaussian's standard deviations are widened
    logit: LogitMember | None = None  # of states
    forest: LeafForest | None = None
    sharpness: float = 1.0  # of the mixture of the members: see `sharpened` and `raised`

    def beside(self, member: int, cells: int, own: CellScores, told: ToldScores) -> Array:
        """P(cell | row) of a member beside the joint model, (cells, n)."""
        if member == 2:
            assert self.forest is not None
            found = self.forest.masses(told.features)
            return found if len(own.middle) else floored(found)
        if self.logit is not None:
            return floored(self.logit.masses(told.features[:, ~told.own], cells))
        return own.masses(
            told.features[:, told.own][:, 0],
            np.sqrt(told.variance[:, told.own][:, 0]) * self.spread,
        )


@final
@dataclass(frozen=True, slots=True, eq=False)
class ToldScores:
    """What rows tell of a column: scores with expected ones in place of holes and of the column."""

    features: Array  # (n, width)
    variance: Array  # (n, width)
    own: Bools  # features of the column itself, (width,)


def sharpened(masses: Array, order: Codes, sharpness: float) -> Array:
    """Masses of cells, (cells, n), whose levels F become I(F; a, a), a the sharpness.

    A mixture of well-spread members is too wide; the distribution function of a symmetric beta
    distribution narrows it and leaves its median where it is (Ranjan and Gneiting 2010). `order`:
    cells along the line.
    """
    if sharpness == 1.0:
        return masses
    levels = np.minimum(np.cumsum(masses[order], axis=0), 1.0)
    levels[-1] = 1.0
    found = np.empty_like(masses)
    found[order] = np.diff(scipy.special.betainc(sharpness, sharpness, levels), axis=0, prepend=0.0)
    return found


def raised(masses: Array, sharpness: float) -> Array:
    """P(state)^a over their sum, (states, n), a the sharpness: the same for states."""
    found = (masses / masses.max(axis=0)) ** sharpness
    return np.asarray(found / found.sum(axis=0))


def floored(masses: Array) -> Array:
    """No state is impossible."""
    return np.asarray((1.0 - FLOOR) * masses + FLOOR / len(masses))


@final
@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Pools of columns over one Gaussian of scores."""

    scores: TableScores
    gaussian: GaussianScores
    columns: tuple[ColumnPool, ...]
    most_missing: int  # cells that a row may lack besides
    chain: RowChain | None = None  # draws rows; None, of older files: the joint model does

    def weights_of(self, place: int) -> dict[str, float]:
        """Who answers for a column, by name."""
        return dict(zip(MEMBERS, self.columns[place].weights, strict=True))

    def mixed(self, place: int, codes: Sequence[Places], joint: Array) -> Array:
        """The joint model's P(cell | row), (cells, n), pooled with what others say."""
        pool = self.columns[place]
        if pool.weights[0] == 1.0 and pool.sharpness == 1.0:
            return joint
        rows = self._answered(place, codes, joint.shape[1])
        if not len(rows):
            return joint
        some = [None if x is None else x[rows] for x in codes]
        told = self._told(place, some, len(rows))
        found = joint.copy()
        found[:, rows] *= pool.weights[0]
        for member in (1, 2):
            if pool.weights[member] > 0:
                said = pool.beside(member, len(joint), self.scores.columns[place], told)
                found[:, rows] += pool.weights[member] * said
        if pool.sharpness != 1.0:
            own = self.scores.columns[place]
            found[:, rows] = (
                sharpened(found[:, rows], own.order, pool.sharpness)
                if len(own.middle)
                else raised(found[:, rows], pool.sharpness)
            )
        return found

    def _told(self, place: int, codes: Sequence[Places], rows: int) -> ToldScores:
        own = self.scores.own(place)
        filled = self.gaussian.filled(self.scores.of_codes(codes, rows), own)
        return ToldScores(*filled, own)

    def _answered(self, place: int, codes: Sequence[Places], rows: int) -> Codes:
        """Rows that lack few cells besides the column's own."""
        lacking = np.zeros(rows, dtype=int)
        for i, x in enumerate(codes):
            if i != place:
                lacking += 1 if x is None else ~is_present(np.asarray(x))
        return np.flatnonzero(lacking <= self.most_missing)
