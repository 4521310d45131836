"""Messages scaled at every step, from logarithms where floats are too small: slow, but sure.

States come first, steps last: (states, n). What `quick_passes` cannot tell is told here: cells that
cannot be, and cells so far from all states that were likely that sums vanish. Pieces of a long
sequence start from a guess, and run again from what the piece before found until they meet the
messages that they had. What is compared is every entry against itself, so that small ones count as
much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.errors import DataError
from latentia.sequences.chain_messages import (
    Expected,
    Filtered,
    NotAtRestError,
    Potentials,
    Smoothed,
    moved_back,
    moved_on,
)
from latentia.sequences.packing import Packing
from latentia.typing import Array, Bools

SAME = 1e-12  # relative: a message that moves less is at rest
MOST_ROUNDS = 6
LOOK = 4  # steps between two looks whether messages have met
WIDEST_SPREAD = 600.0  # nats between states at one step that a chain with zeros may have
LEAST = 1e-280  # smaller sums are computed again from logarithms


def check_reach(p: Potentials) -> None:
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


def first_messages(packing: Packing, p: Potentials) -> Array:
    """P(z_1) of pieces that begin a sequence; of others all states alike: (states, pieces)."""
    chained = packing.previous >= 0
    which = np.where(chained, 0, p.which[: len(chained)])
    return np.where(chained, 1.0 / len(p.start), p.start[:, which])


def careful_filter(packing: Packing, p: Potentials) -> Filtered:
    """P(z_t | x_1 … x_t) of every step. Cells that cannot be are made holes in p."""
    chained = packing.previous >= 0
    start = first_messages(packing, p)
    run = _ForwardRun.of(p)
    run.go(packing, start)
    met = not packing.cut
    for _ in range(MOST_ROUNDS):
        if met:
            break
        ends = run.alpha[:, packing.last[packing.previous[chained]]]
        start[:, chained] = moved_on(ends, p.move, p.which[: len(chained)][chained])
        met = run.go(packing, start, again=True)
    if not met or not run.scale.min() > LEAST:
        raise NotAtRestError
    log_scale = np.log(run.scale) + run.shift
    log_scale[run.impossible] = -np.inf
    return Filtered(run.alpha, log_scale)


@final
@dataclass(frozen=True, slots=True)
class _ForwardRun:
    """alpha, its sums before scaling, their shifts, and steps that cannot be: filled by `go`."""

    p: Potentials
    alpha: Array
    scale: Array
    shift: Array
    impossible: Bools

    @classmethod
    def of(cls, p: Potentials) -> _ForwardRun:
        steps = p.emission.shape[1]
        nothing = np.zeros(steps, dtype=bool)
        return cls(p, np.empty_like(p.emission), np.empty(steps), p.shift.copy(), nothing)

    def go(self, packing: Packing, start: Array, again: bool = False) -> bool:
        """Every step; `again`: until all messages are those that were there, if ever."""
        p, lo, message = self.p, 0, start
        with np.errstate(divide="ignore", invalid="ignore"):
            for t, hi in enumerate(packing.bounds[1:]):
                if lo:
                    message = moved_on(message[:, : hi - lo], p.move, p.which[lo:hi])
                here = message * p.emission[:, lo:hi]
                total = np.add.reduce(here, axis=0)
                self.shift[lo:hi] = p.shift[lo:hi]
                self._mend(here, total, message, lo)
                here /= total
                if again and t % LOOK == 0 and same_messages(here, self.alpha[:, lo:hi]):
                    return True
                self.alpha[:, lo:hi], self.scale[lo:hi] = here, total
                lo, message = hi, here
        return False

    def _mend(self, here: Array, total: Array, message: Array, lo: int) -> None:
        """Sums that are too small, from logarithms; what cannot be counts as missing from here."""
        p = self.p
        for j in np.flatnonzero(~(total > LEAST)).tolist():
            logs = np.log(message[:, j]) + _log_emission(p, lo + j)
            top = logs.max()
            if np.isneginf(top):
                self.impossible[lo + j] = True
                p.emission[:, lo + j] = 1.0
                if p.logs is not None:
                    p.logs[:, lo + j] = 0.0
                here[:, j], total[j] = message[:, j], message[:, j].sum()
            else:
                here[:, j] = np.exp(logs - top)
                total[j] = here[:, j].sum()
                self.shift[lo + j] = top + (p.shift[lo + j] if p.logs is None else 0.0)


def _log_emission(p: Potentials, at: int) -> Array:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(p.emission[:, at]) if p.logs is None else p.logs[:, at])


def same_messages(told: Array, guess: Array) -> bool:
    """Are all entries alike, each against its own size?"""
    return bool((np.abs(told - guess) <= SAME * told).all())


def careful_smooth(packing: Packing, p: Potentials) -> Smoothed:
    """P(z_t | x_1 … x_T) of every step."""
    forward = careful_filter(packing, p)
    gamma, _ = _joined(packing, forward, _settled_backward(packing, p))
    return Smoothed(gamma, forward.log_scale)


def careful_expect(packing: Packing, p: Potentials) -> Expected:
    """The same, and expected moves."""
    forward = careful_filter(packing, p)
    gamma, carried = _joined(packing, forward, _settled_backward(packing, p))
    moves = pair_sums(packing, p, forward.alpha, carried)
    return Expected(gamma, float(forward.log_scale.sum()), moves)


def _settled_backward(packing: Packing, p: Potentials) -> _BackwardRun:
    chained = packing.following >= 0
    ends = np.full((len(p.emission), len(packing.last)), 1.0 / len(p.emission))
    run = _BackwardRun.of(p)
    run.go(packing, ends)
    met = not packing.cut
    after = packing.following[chained]
    for _ in range(MOST_ROUNDS):
        told = moved_back(run.carried[:, after], p.move, p.which[after])
        run.scale[after] = told.sum(axis=0)
        if met:
            break
        ends[:, chained] = told / run.scale[after]
        met = run.go(packing, ends, again=True)
    if not met or not run.scale.min() > LEAST:
        raise NotAtRestError
    return run


@final
@dataclass(frozen=True, slots=True)
class _BackwardRun:
    """beta, of sum one; emission · beta; and the sum of the step before's beta: filled by `go`."""

    p: Potentials
    beta: Array
    carried: Array
    scale: Array

    @classmethod
    def of(cls, p: Potentials) -> _BackwardRun:
        empty, steps = np.empty_like(p.emission), p.emission.shape[1]
        return cls(p, empty, np.empty_like(empty), np.ones(steps))

    def go(self, packing: Packing, ends: Array, again: bool = False) -> bool:
        """Every step from the last; `again`: until all messages are those that were there."""
        p, bounds, message = self.p, packing.bounds, ends[:, :0]
        with np.errstate(divide="ignore", invalid="ignore"):
            for t in range(len(bounds) - 2, -1, -1):
                lo, hi = bounds[t], bounds[t + 1]
                going = message.shape[1]
                if going < hi - lo:
                    message = np.concatenate([message, ends[:, going : hi - lo]], axis=1)
                if again and t % LOOK == 0 and same_messages(message, self.beta[:, lo:hi]):
                    return True
                self.beta[:, lo:hi] = message
                product = message * p.emission[:, lo:hi]
                for j in np.flatnonzero(~(product.max(axis=0) > LEAST)).tolist():
                    logs = np.log(message[:, j]) + _log_emission(p, lo + j)
                    product[:, j] = np.exp(logs - logs.max())
                self.carried[:, lo:hi] = product
                if t:
                    message = moved_back(product, p.move, p.which[lo:hi])
                    total = np.add.reduce(message, axis=0)
                    message /= total
                    self.scale[lo:hi] = total
        return False


def _joined(packing: Packing, forward: Filtered, run: _BackwardRun) -> tuple[Array, Array]:
    """gamma = alpha · beta, of sum one, and emission · beta in units of `pair_sums`."""
    gamma = np.multiply(forward.alpha, run.beta, out=run.beta)
    total = np.add.reduce(gamma, axis=0)
    gamma /= total
    units = np.where(packing.before >= 0, run.scale * total[packing.before], 1.0)
    carried = np.divide(run.carried, units, out=run.carried)
    return gamma, carried


def pair_sums(packing: Packing, p: Potentials, alpha: Array, carried: Array) -> Array:
    """Σ over later steps of α_i(t − 1) move_ij carried_j(t): (configurations, from, to)."""
    later = np.flatnonzero(packing.before >= 0)
    which = p.which[later]
    found = np.empty_like(p.move)
    for c in range(len(p.move)):
        own = later if len(p.move) == 1 else later[which == c]
        before = alpha.take(packing.before[own], axis=1)
        found[c] = p.move[c] * (before @ carried.take(own, axis=1).T)
    return found
