"""Forward and backward messages over packed sequences, scaled at every step (docs/sequences.md).

States come first, steps last: (states, n). A long sequence is cut into pieces that run side by
side; a piece starts from a guess of the message of the piece before, and runs again from what that
one found, until it meets the messages that it had. Chains forget, so that this takes few steps; the
sequences of one that does not are run in one piece. What is compared is every entry against itself,
so that small ones count as much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.errors import DataError
from latentia.sequences.packing import Indices, Packing
from latentia.typing import Array, Bools

SAME = 1e-12  # relative: a message that moves less is at rest
MOST_ROUNDS = 6
LOOK = 4  # steps between two looks whether messages have met
WIDEST_SPREAD = 600.0  # nats between states at one step that a chain with zeros may have
LEAST = 1e-280  # smaller sums are computed again from logarithms


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
class Forward:
    """P(state | cells so far), (states, steps), and log P(cells | cells before), (steps,)."""

    alpha: Array
    log_scale: Array
    impossible: Bools  # (steps,) cells that cannot be; they count as missing


class NotAtRestError(Exception):
    """Pieces that do not forget: run the sequences in one piece."""


def forward_pass(packing: Packing, p: Potentials) -> Forward:
    """P(z_t | x_1 … x_t) of every step."""
    _check_reach(p)
    chained = packing.previous >= 0
    start = np.where(chained, 1.0 / len(p.start), _first_messages(packing, p))
    run = _ForwardRun.of(p, careful=False)
    run.go(packing, start)
    if not run.scale.min() > LEAST:  # rare, also where it is no number
        run = _ForwardRun.of(p, careful=True)
        run.go(packing, start)
    met = not packing.cut
    for _ in range(MOST_ROUNDS):
        if met:
            break
        ends = run.alpha[:, packing.last[packing.previous[chained]]]
        start[:, chained] = _moved(ends, p.move, p.which[packing.first[chained]])
        met = run.go(packing, start, again=True)
    if not met or not run.scale.min() > LEAST:
        raise NotAtRestError
    log_scale = np.log(run.scale) + run.shift
    log_scale[run.impossible] = -np.inf
    return Forward(run.alpha, log_scale, run.impossible)


def _check_reach(p: Potentials) -> None:
    """States that a far cell makes too small for a float must be reached again from the others."""
    if p.logs is None:
        return
    ties = np.asarray((p.move > 0).any(axis=0))
    if (ties @ ties).all():
        return
    spread = p.logs.max(axis=0) - np.where(np.isneginf(p.logs), np.inf, p.logs).min(axis=0)
    if spread.max() > WIDEST_SPREAD:
        raise DataError(
            "some cells are so far from some states (a likelihood below 1e-260 of another state's) "
            "that the path cannot be told in floats, since some moves have probability zero. Cap "
            "such cells, make them missing, or give these moves a little probability."
        )


def _first_messages(packing: Packing, p: Potentials) -> Array:
    """P(z_1) of pieces that begin a sequence; anything for others."""
    which = np.where(packing.previous >= 0, 0, p.which[packing.first])
    return np.asarray(p.start[:, which])


@final
@dataclass(frozen=True, slots=True)
class _ForwardRun:
    """alpha, its sums before scaling, their shifts, and steps that cannot be: filled by `go`."""

    p: Potentials
    careful: bool  # look after sums that are too small
    alpha: Array
    scale: Array
    shift: Array
    impossible: Bools

    @classmethod
    def of(cls, p: Potentials, careful: bool) -> _ForwardRun:
        steps = p.emission.shape[1]
        nothing = np.zeros(steps, dtype=bool)
        return cls(p, careful, np.empty_like(p.emission), np.empty(steps), p.shift.copy(), nothing)

    def go(self, packing: Packing, start: Array, again: bool = False) -> bool:
        """Every step; `again`: until all messages are those that were there, if ever."""
        p, lo, message = self.p, 0, start
        one = np.ascontiguousarray(p.move[0].T) if len(p.move) == 1 else None
        with np.errstate(divide="ignore", invalid="ignore"):
            for t, hi in enumerate(packing.bounds[1:]):
                if lo:
                    message = message[:, : hi - lo]
                    message = (
                        _moved(message, p.move, p.which[lo:hi]) if one is None else one @ message
                    )
                here = message * p.emission[:, lo:hi]
                total = np.add.reduce(here, axis=0)
                if self.careful:
                    self.shift[lo:hi] = p.shift[lo:hi]
                    _mend(here, total, message, p, lo, self.shift, self.impossible)
                here /= total
                if again and t % LOOK == 0 and _same(here, self.alpha[:, lo:hi]):
                    return True
                self.alpha[:, lo:hi], self.scale[lo:hi] = here, total
                lo, message = hi, here
        return False


def _mend(
    here: Array,
    total: Array,
    message: Array,
    p: Potentials,
    lo: int,
    shift: Array,
    impossible: Bools,
) -> None:
    """Sums that are too small, from logarithms; what cannot be counts as missing from here on."""
    for j in np.flatnonzero(~(total > LEAST)):
        with np.errstate(divide="ignore"):
            own = np.log(p.emission[:, lo + j]) if p.logs is None else p.logs[:, lo + j]
            logs = np.log(message[:, j]) + own
        top = logs.max()
        if np.isneginf(top):
            impossible[lo + j] = True
            p.emission[:, lo + j] = 1.0
            if p.logs is not None:
                p.logs[:, lo + j] = 0.0
            here[:, j], total[j] = message[:, j], message[:, j].sum()
        else:
            here[:, j] = np.exp(logs - top)
            total[j] = here[:, j].sum()
            shift[lo + j] = top + (p.shift[lo + j] if p.logs is None else 0.0)


def _moved(message: Array, move: Array, which: Indices) -> Array:
    """Σ_i message_i move[c]_ij, (states, n)."""
    if len(move) == 1:
        return np.asarray(move[0].T @ message)
    return np.asarray(np.matmul(message.T[:, None, :], move[which])[:, 0].T)


def _moved_back(message: Array, move: Array, which: Indices) -> Array:
    """Σ_j move[c]_ij message_j, (states, n)."""
    if len(move) == 1:
        return np.asarray(move[0] @ message)
    return np.asarray(np.matmul(move[which], message.T[:, :, None])[:, :, 0].T)


def _same(told: Array, guess: Array) -> bool:
    return bool((np.abs(told - guess) <= SAME * told).all())


@final
@dataclass(frozen=True, slots=True)
class Smoothed:
    """P(state | all cells), (states, steps), and what pairs of states need.

    P(z_{t−1} = i, z_t = j | all) = α_i(t − 1) move_ij weighted_j(t).
    """

    gamma: Array
    weighted: Array


def backward_pass(packing: Packing, p: Potentials, forward: Forward) -> Smoothed:
    """P(z_t | x_1 … x_T) of every step."""
    chained = packing.following >= 0
    ends = np.full((len(p.emission), len(packing.first)), 1.0 / len(p.emission))
    run = _BackwardRun.of(p, careful=False)
    run.go(packing, ends)
    if not run.scale.min() > LEAST:
        run = _BackwardRun.of(p, careful=True)
        run.go(packing, ends)
    met = not packing.cut
    after = packing.first[packing.following[chained]]
    for _ in range(MOST_ROUNDS):
        told = _moved_back(run.carried[:, after], p.move, p.which[after])
        run.scale[after] = told.sum(axis=0)
        if met:
            break
        ends[:, chained] = told / run.scale[after]
        met = run.go(packing, ends, again=True)
    if not met or not run.scale.min() > LEAST:
        raise NotAtRestError
    return _joined(packing, forward, run)


@final
@dataclass(frozen=True, slots=True)
class _BackwardRun:
    """beta, of sum one; emission · beta; and the sum of the step before's beta: filled by `go`."""

    p: Potentials
    careful: bool
    beta: Array
    carried: Array
    scale: Array

    @classmethod
    def of(cls, p: Potentials, careful: bool) -> _BackwardRun:
        empty, steps = np.empty_like(p.emission), p.emission.shape[1]
        return cls(p, careful, empty, np.empty_like(empty), np.ones(steps))

    def go(self, packing: Packing, ends: Array, again: bool = False) -> bool:
        """Every step from the last; `again`: until all messages are those that were there."""
        p, bounds, message = self.p, packing.bounds, ends[:, :0]
        one = p.move[0] if len(p.move) == 1 else None
        with np.errstate(divide="ignore", invalid="ignore"):
            for t in range(len(bounds) - 2, -1, -1):
                lo, hi = bounds[t], bounds[t + 1]
                going = message.shape[1]
                if going < hi - lo:
                    message = np.concatenate([message, ends[:, going : hi - lo]], axis=1)
                if again and t % LOOK == 0 and _same(message, self.beta[:, lo:hi]):
                    return True
                self.beta[:, lo:hi] = message
                product = message * p.emission[:, lo:hi]
                if self.careful:
                    _mend_back(product, message, p, lo)
                self.carried[:, lo:hi] = product
                if t:
                    message = (
                        _moved_back(product, p.move, p.which[lo:hi])
                        if one is None
                        else one @ product
                    )
                    total = np.add.reduce(message, axis=0)
                    message /= total
                    self.scale[lo:hi] = total
        return False


def _mend_back(product: Array, beta: Array, p: Potentials, lo: int) -> None:
    for j in np.flatnonzero(~(product.max(axis=0) > LEAST)):
        with np.errstate(divide="ignore"):
            own = np.log(p.emission[:, lo + j]) if p.logs is None else p.logs[:, lo + j]
            logs = np.log(beta[:, j]) + own
        product[:, j] = np.exp(logs - logs.max())


def _joined(packing: Packing, forward: Forward, run: _BackwardRun) -> Smoothed:
    """gamma = alpha · beta, and emission · beta in units of pairs."""
    gamma = np.multiply(forward.alpha, run.beta, out=run.beta)
    total = np.add.reduce(gamma, axis=0)
    gamma /= total
    units = np.where(packing.before >= 0, run.scale * total[packing.before], 1.0)
    carried = np.divide(run.carried, units, out=run.carried)
    return Smoothed(gamma, carried)
