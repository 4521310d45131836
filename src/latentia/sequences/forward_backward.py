"""Forward and backward messages over packed sequences, scaled at every step (design 14).

States come first, steps last: (states, n). A long sequence is cut into pieces that run side by
side; a piece starts from a guess of the message of the piece before, and all run again from what
was found until nothing moves. Chains forget, so that two rounds are the rule; those that do not are
run in one piece. What is compared is every entry against itself, so that small ones count as much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.sequences.packing import Indices, Packing
from latentia.typing import Array, Bools

SAME = 1e-12  # relative: a message that moves less is at rest
MOST_ROUNDS = 6
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
    start = _first_messages(packing, p)
    chained = packing.previous >= 0
    guess = np.where(chained, 1.0 / len(start), start)
    for _ in range(MOST_ROUNDS):
        found = _forward_once(packing, p, guess)
        if not packing.cut:
            return found
        ends = found.alpha[:, packing.last[packing.previous[chained]]]
        told = _moved(ends, p.move, p.which[packing.first[chained]])
        if _same(told, guess[:, chained]):
            return found
        guess[:, chained] = told
    raise NotAtRestError


def _first_messages(packing: Packing, p: Potentials) -> Array:
    """P(z_1) of pieces that begin a sequence; anything for others."""
    which = np.where(packing.previous >= 0, 0, p.which[packing.first])
    return np.asarray(p.start[:, which])


def _forward_once(packing: Packing, p: Potentials, start: Array) -> Forward:
    found = _forward_run(packing, p, start, careful=False)
    if not found[1].min() > LEAST:  # rare, also where it is no number
        found = _forward_run(packing, p, start, careful=True)
    alpha, scale, shift, impossible = found
    log_scale = np.log(scale) + shift
    log_scale[impossible] = -np.inf
    return Forward(alpha, log_scale, impossible)


def _forward_run(
    packing: Packing, p: Potentials, start: Array, careful: bool
) -> tuple[Array, Array, Array, Bools]:
    """alpha, its sums before scaling, their shifts, and steps that cannot be."""
    alpha, scale = np.empty_like(p.emission), np.empty(p.emission.shape[1])
    shift, impossible = p.shift.copy(), np.zeros(len(p.shift), dtype=bool)
    one = np.ascontiguousarray(p.move[0].T) if len(p.move) == 1 else None
    lo, message = 0, start
    with np.errstate(divide="ignore", invalid="ignore"):
        for hi in packing.bounds[1:]:
            if lo:
                message = message[:, : hi - lo]
                message = (
                    one @ message if one is not None else _moved(message, p.move, p.which[lo:hi])
                )
            here = message * p.emission[:, lo:hi]
            total = np.add.reduce(here, axis=0)
            if careful:
                _mend(here, total, message, p, lo, shift, impossible)
            here /= total
            alpha[:, lo:hi], scale[lo:hi] = here, total
            lo, message = hi, here
    return alpha, scale, shift, impossible


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
    count = len(packing.first)
    chained = packing.following >= 0
    ends = np.full((len(p.emission), count), 1.0 / len(p.emission))
    for _ in range(MOST_ROUNDS):
        beta, carried, scale = _backward_once(packing, p, ends)
        if not packing.cut:
            break
        after = packing.first[packing.following[chained]]
        told = _moved_back(carried[:, after], p.move, p.which[after])
        told /= told.sum(axis=0)
        if _same(told, ends[:, chained]):
            break
        ends[:, chained] = told
    else:
        raise NotAtRestError
    return _joined(packing, p, forward, beta, carried, scale, told if packing.cut else None)


def _backward_once(packing: Packing, p: Potentials, ends: Array) -> tuple[Array, Array, Array]:
    found = _backward_run(packing, p, ends, careful=False)
    if not found[2].min() > LEAST:
        found = _backward_run(packing, p, ends, careful=True)
    return found


def _backward_run(
    packing: Packing, p: Potentials, ends: Array, careful: bool
) -> tuple[Array, Array, Array]:
    """beta, (states, steps), of sum one; emission · beta; and the sums of beta of the step before.

    The sum of the step before is stored at the step itself.
    """
    beta, carried = np.empty_like(p.emission), np.empty_like(p.emission)
    scale = np.ones(p.emission.shape[1])
    one = p.move[0] if len(p.move) == 1 else None
    bounds = packing.bounds
    message = ends[:, :0]
    with np.errstate(divide="ignore", invalid="ignore"):
        for t in range(len(bounds) - 2, -1, -1):
            lo, hi = bounds[t], bounds[t + 1]
            going = message.shape[1]
            if going < hi - lo:
                message = np.concatenate([message, ends[:, going : hi - lo]], axis=1)
            beta[:, lo:hi] = message
            product = message * p.emission[:, lo:hi]
            if careful:
                _mend_back(product, message, p, lo)
            carried[:, lo:hi] = product
            if t:
                message = (
                    one @ product
                    if one is not None
                    else _moved_back(product, p.move, p.which[lo:hi])
                )
                total = np.add.reduce(message, axis=0)
                message /= total
                scale[lo:hi] = total
    return beta, carried, scale


def _mend_back(product: Array, beta: Array, p: Potentials, lo: int) -> None:
    for j in np.flatnonzero(~(product.max(axis=0) > LEAST)):
        with np.errstate(divide="ignore"):
            own = np.log(p.emission[:, lo + j]) if p.logs is None else p.logs[:, lo + j]
            logs = np.log(beta[:, j]) + own
        product[:, j] = np.exp(logs - logs.max())


def _joined(
    packing: Packing,
    p: Potentials,
    forward: Forward,
    beta: Array,
    carried: Array,
    scale: Array,
    told: Array | None,
) -> Smoothed:
    """gamma = alpha · beta, and emission · beta in units of pairs."""
    if told is not None:  # the sums of beta at the ends of pieces, too
        after = packing.first[packing.following[packing.following >= 0]]
        scale = scale.copy()
        scale[after] = _moved_back(carried[:, after], p.move, p.which[after]).sum(axis=0)
    gamma = forward.alpha * beta
    total = gamma.sum(axis=0)
    gamma /= total
    later = packing.before >= 0
    units = np.where(later, scale * total[packing.before], 1.0)
    carried /= units
    return Smoothed(gamma, carried)
