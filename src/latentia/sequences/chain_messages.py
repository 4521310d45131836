"""What messages along a chain are made of: potentials in, beliefs out, one step of all pieces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.sequences.packing import Indices
from latentia.typing import Array

FEW_MOVES = 16  # configurations whose products are all made, to choose among them


@final
@dataclass(frozen=True, slots=True)
class Potentials:
    """What the tables say of every step, in packed order.

    start[c], (states, configurations of first steps); move[c], (configurations, from, to);
    emission: P(cells | state) up to exp(shift), (states, steps).
    """

    start: Array
    move: Array
    which: Indices  # (steps,) configuration: of `start` at first steps, of `move` at later ones
    emission: Array
    shift: Array  # (steps,)
    logs: Array | None = None  # log P(cells | state), where that may be too small for emission


@final
@dataclass(frozen=True, slots=True)
class Filtered:
    """P(state | cells so far), (states, steps); log P(cells | cells before), (steps,).

    Cells that cannot be have -inf, and count as missing.
    """

    alpha: Array
    log_scale: Array


@final
@dataclass(frozen=True, slots=True)
class Smoothed:
    """P(state | all cells), (states, steps); log P(cells | cells before), (steps,)."""

    gamma: Array
    log_scale: Array


@final
@dataclass(frozen=True, slots=True)
class Expected:
    """P(state | all cells), (states, steps); Σ log P(sequence); expected moves.

    Moves are (configurations, from, to).
    """

    gamma: Array
    level: float
    moves: Array


class NotAtRestError(Exception):
    """Pieces that do not forget: run the sequences in one piece."""


def moved_on(message: Array, move: Array, which: Indices) -> Array:
    """Σ_i message_i move[c]_ij, (states, n)."""
    if len(move) == 1:
        return np.asarray(move[0].T @ message)
    return _chosen(move.transpose(0, 2, 1), message, which)


def moved_back(message: Array, move: Array, which: Indices) -> Array:
    """Σ_j move[c]_ij message_j, (states, n)."""
    if len(move) == 1:
        return np.asarray(move[0] @ message)
    return _chosen(move, message, which)


def _chosen(move: Array, message: Array, which: Indices) -> Array:
    """move[which] @ message, one product for each column."""
    if len(move) > FEW_MOVES:
        return np.asarray(np.matmul(move[which], message.T[:, :, None])[:, :, 0].T)
    every = move @ message  # (configurations, states, n)
    return np.asarray(np.take_along_axis(every, which[None, None, :], axis=0)[0])
