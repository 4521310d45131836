"""On which scale a continuous column is a Gaussian for each state: its own, or its asinh.

Columns with long tails come on a bent scale. But states that lie far apart look like long tails as
well, and are bells on the straight scale. So both are tried: the scale on which a mixture of as
many bells as there are states explains the cells better, per unit of the column, is taken. Curves
that make the whole column one bell have no place here: it is a bell in each state only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.columns.continuous import ContinuousColumn, dense_columns
from latentia.sequences.step_data import Sequences, missing_cells
from latentia.typing import Array

MOST_BELLS = 8
ROUNDS = 40  # of EM
SAMPLE = 4000  # cells
WORTH = 0.02  # nats a cell that a bent scale must gain: its numbers are harder to read
FLOOR = 1e-3  # of the variance of all cells: as in learning


def standardised_steps(
    columns: Mapping[int, Column], sequences: Sequences, states: int
) -> tuple[dict[int, Column], Sequences, Array]:
    """Continuous columns on a scale of mean 0 and variance 1 of all their cells, or its asinh.

    Also by how much log dz/dx of every step grows, (steps,).
    """
    found, cells = dict(columns), dict(sequences.cells)
    grown = np.zeros(sequences.steps)
    for v, column in dense_columns(columns, columns.values()).items():
        there = ~missing_cells(cells[v])
        x = column.unscaled(cells[v][there])
        own = _straight(column, x)
        if column.warped:
            own = _better(own, _asinh(column, x), x, states)
        z = np.full(len(cells[v]), np.nan)
        z[there] = own.scaled(x)
        grown[there] += np.log(own.slope(x)) - np.log(column.slope(x))
        found[v], cells[v] = own, z
    return found, Sequences(cells, sequences.offsets), grown


def _straight(column: ContinuousColumn, x: Array) -> ContinuousColumn:
    """The same column in units of its deviation; its grid has the same ends."""
    if not len(x) or not float(np.std(x)) > 0:
        return column
    mean, sd = float(np.mean(x)), float(np.std(x))
    low, high = ((column.unscaled(np.array([column.low, column.high])) - mean) / sd).tolist()
    return replace(
        column, centre=mean, scale=sd, warped=False, knots=(), low=low, high=high, spread=1.0,
        cuts=(),
    )  # fmt: skip


def _asinh(column: ContinuousColumn, x: Array) -> ContinuousColumn:
    """The same column on its asinh scale, without a curve on top."""
    ends = column.unscaled(np.array([column.low, column.high]))
    plain = replace(column, knots=(), cuts=())
    low, high = plain.scaled(ends).tolist()
    return replace(plain, low=low, high=high, spread=max(float(np.std(plain.scaled(x))), 1e-9))


def _better(
    straight: ContinuousColumn, bent: ContinuousColumn, x: Array, states: int
) -> ContinuousColumn:
    """The bent scale where a mixture of bells is clearly likelier there."""
    x = _some(x)
    plain, curved = (
        bells_of_states(own.scaled(x), states).level + float(np.log(own.slope(x)).mean())
        for own in (straight, bent)
    )
    return bent if curved > plain + WORTH else straight


@final
@dataclass(frozen=True, slots=True)
class StateBells:
    """A mixture of bells: mean log-density of the cells, and the mean variance inside a bell."""

    level: float
    inside: float


def bells_of_states(z: Array, states: int) -> StateBells:
    """As many bells as states, but not too many, by EM from equal shares of the cells.

    >>> z = np.random.default_rng(0).normal(size=4000)
    >>> found = bells_of_states(z, 1)
    >>> bool(abs(found.level + 0.5 * (1 + np.log(2 * np.pi * z.var()))) < 1e-9)
    True
    >>> bool(0.9 < bells_of_states(np.concatenate([z, z + 20]), 2).inside < 1.1)
    True
    """
    z = _some(z)
    bells = min(max(states, 1), MOST_BELLS, len(z))
    parts = np.array_split(np.sort(z), bells)
    mean = np.array([float(p.mean()) for p in parts])
    whole = max(float(z.var()), 1e-300)
    variance, share = np.full(bells, whole / bells**2), np.full(bells, 1.0 / bells)
    level = -np.inf
    for _ in range(ROUNDS):
        logs: Array = np.log(share) - 0.5 * (
            np.log(2 * np.pi * variance) + (z[:, None] - mean) ** 2 / variance
        )
        top = logs.max(axis=1, keepdims=True)
        like = np.exp(logs - top)
        total = like.sum(axis=1, keepdims=True)
        level = float((top + np.log(total)).mean())
        like /= total
        n = like.sum(axis=0) + 1e-9
        mean = (like * z[:, None]).sum(axis=0) / n
        spread = (like * (z[:, None] - mean) ** 2).sum(axis=0) / n
        variance, share = np.maximum(spread, FLOOR * whole), n / n.sum()
    return StateBells(level, float(share @ variance))


def _some(x: Array) -> Array:
    return x[:: -(-len(x) // SAMPLE)] if len(x) > SAMPLE else x
