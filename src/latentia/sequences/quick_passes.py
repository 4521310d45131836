"""Messages over step blocks, scaled now and then: one product and one multiplication a step.

alpha_t = emission_t ∘ (moveᵀ alpha_{t−1}), divided by its sum at every EVERY-th step only. beta goes
back through the same divisors, so that Σ alpha beta = 1 at every step without another sum. Pieces
of a long sequence start from a guess; then they run again from what the piece before found until
they meet the messages that they had. Chains forget, so that this takes few steps; for one that
does not, products of whole pieces tell where each of them starts (`piece_products`). What floats
cannot hold is noticed, and left to `careful_passes`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.sequences.careful_passes import MOST_ROUNDS, first_messages, pair_sums, same_messages
from latentia.sequences.chain_messages import (
    Filtered,
    NotAtRestError,
    Potentials,
    Smoothed,
    moved,
    moved_back,
)
from latentia.sequences.packing import Packing
from latentia.sequences.piece_products import MOST_STATES, PieceProducts, piece_products
from latentia.sequences.step_blocks import (
    from_blocks,
    run_views,
    state_sums,
    step_views,
    to_blocks,
)
from latentia.typing import Array

EVERY = 8  # steps between two divisions, and between two looks whether messages have met
LEAST = 1e-200  # of sums between two divisions: below, small states may be lost
AT_ONCE = 2**20  # cells of pairs of states, of many steps
NEAR_ONE = 1e-6  # Σ alpha beta: more, and floats could not hold some message


@final
@dataclass(frozen=True, slots=True)
class _Blocks:
    """One pass: step blocks of emissions and messages, and the divisors of steps."""

    packing: Packing
    p: Potentials
    emission: Array
    alpha: Array
    scale: Array  # (steps,) one where nothing was divided

    @property
    def cut_scale(self) -> list[Array]:
        """Divisors of every EVERY-th step."""
        bounds = self.packing.bounds
        return [self.scale[bounds[t] : bounds[t + 1]] for t in range(0, len(bounds) - 1, EVERY)]


@final
@dataclass(frozen=True, slots=True)
class QuickForward:
    """Messages forward; see `_Blocks`."""

    blocks: _Blocks
    sums: Array  # (steps,) Σ alpha as it lies there
    products: PieceProducts | None  # where pieces did not forget

    def log_scale(self) -> Array:
        """log P(cells | cells before), (steps,)."""
        packing, sums = self.blocks.packing, self.sums
        found = np.where(self.blocks.scale == 1.0, sums, self.blocks.scale)
        inner = packing.bounds[1]  # first steps of pieces start from messages of sum one
        found[inner:] /= sums.take(packing.before[inner:])
        np.log(found, out=found)
        return np.asarray(found + self.blocks.p.shift)

    def filtered(self) -> Filtered:
        alpha = from_blocks(self.blocks.alpha, self.blocks.packing)
        alpha /= self.sums
        return Filtered(alpha, self.log_scale())


def quick_forward(packing: Packing, p: Potentials) -> QuickForward | None:
    """Messages forward; None where floats cannot hold them."""
    emission = to_blocks(p.emission, packing)
    blocks = _Blocks(packing, p, emission, np.empty_like(emission), np.ones(packing.steps))
    start = first_messages(packing, p)
    with np.errstate(all="ignore"):  # what comes of it is looked at below
        _forward(blocks, start)
        products = _settle_forward(blocks, start) if packing.cut else None
        sums = state_sums(blocks.alpha, packing)
    least = min(float(blocks.scale.min()), float(sums.min()))
    return QuickForward(blocks, sums, products) if least > LEAST else None


def _forward(blocks: _Blocks, start: Array) -> None:
    """Every step, from messages of the first one, (states, pieces)."""
    p, bounds, previous = blocks.p, blocks.packing.bounds, start
    one = np.ascontiguousarray(p.move[0].T) if len(p.move) == 1 else None
    scales = iter(blocks.cut_scale)
    emissions, alphas = (step_views(x, blocks.packing) for x in (blocks.emission, blocks.alpha))
    for t, (e, a) in enumerate(zip(emissions, alphas, strict=True)):
        if t == 0:
            np.multiply(previous, e, out=a)
        else:
            pieces = a.shape[1]
            if previous.shape[1] != pieces:
                previous = previous[:, :pieces]
            if one is None:
                a[...] = moved(previous, p.move, p.which[bounds[t] : bounds[t + 1]])
            else:
                np.matmul(one, previous, out=a)
            np.multiply(a, e, out=a)
        if t % EVERY == 0:
            total = np.add.reduce(a, axis=0, out=next(scales))
            np.divide(a, total, out=a)
        previous = a


def _forward_again(blocks: _Blocks, start: Array) -> bool:
    """The same until all messages are those that were there, if ever."""
    p, bounds, here = blocks.p, blocks.packing.bounds, start
    scales = iter(blocks.cut_scale)
    emissions, alphas = (step_views(x, blocks.packing) for x in (blocks.emission, blocks.alpha))
    for t, (e, a) in enumerate(zip(emissions, alphas, strict=True)):
        if t:
            here = moved(here[:, : a.shape[1]], p.move, p.which[bounds[t] : bounds[t + 1]])
        here = here * e
        if t % EVERY == 0:
            total = np.add.reduce(here, axis=0)
            here /= total
            next(scales)[...] = total  # also where they meet: the steps before it are new
            if same_messages(here, a):
                return True
        a[...] = here
    return False


def _settle_forward(blocks: _Blocks, start: Array) -> PieceProducts | None:
    """Pieces start from what the pieces before them found."""
    packing, p = blocks.packing, blocks.p
    chained = np.flatnonzero(packing.previous >= 0)
    wide = len(p.start) > MOST_STATES
    for _ in range(MOST_ROUNDS if wide else 1):
        ends = last_messages(blocks.alpha, packing)[:, packing.previous[chained]]
        ends /= ends.sum(axis=0)
        start[:, chained] = moved(ends, p.move, p.which[chained])
        if _forward_again(blocks, start):
            return None
    if wide:
        raise NotAtRestError
    products = piece_products(packing, p, step_views(blocks.emission, packing))
    _forward(blocks, products.starts(start))
    return products


def last_messages(messages: Array, packing: Packing) -> Array:
    """Messages at the last step of every piece, (states, pieces)."""
    views = run_views(messages, packing)
    pieces = [run.pieces for run in packing.runs]
    parts = [v[-1][:, n:] for v, n in zip(views, [*pieces[1:], 0], strict=True)]
    return np.concatenate(parts[::-1], axis=1)  # the longest pieces come first


# --- back -----------------------------------------------------------------------------------------


def quick_smooth(forward: QuickForward, exact: bool = True) -> Smoothed | None:
    """Beliefs and expected moves; None where floats cannot hold the messages.

    `exact`: beliefs of every step sum to one to the last digit.
    """
    blocks, packing = forward.blocks, forward.blocks.packing
    beta = np.empty_like(blocks.alpha)
    with np.errstate(all="ignore"):  # what comes of it is looked at below
        last = last_messages(blocks.alpha, packing)
        ends = np.ones_like(last) / last.sum(axis=0)
        if forward.products is not None:
            ends = forward.products.ends(last)
        _backward(blocks, beta, ends)
        if packing.cut and forward.products is None:
            _settle_backward(blocks, beta, ends, last)
        carried = _carried(blocks, beta)
        moves = _moves(blocks, carried, last)
        gamma = from_blocks(np.multiply(beta, blocks.alpha, out=beta), packing)
        expected = packing.steps - int((packing.before < 0).sum())
        held = abs(float(moves.sum()) - expected) <= NEAR_ONE * max(1, expected)
        if exact:
            total = np.add.reduce(gamma, axis=0)
            held = held and float(np.abs(total - 1.0).max()) <= NEAR_ONE
            gamma /= total
    return Smoothed(gamma, forward.log_scale(), moves) if held else None


def _backward(blocks: _Blocks, beta: Array, ends: Array) -> None:
    """Every step from the last one; `ends` are messages of last steps, (states, pieces)."""
    p, bounds = blocks.p, blocks.packing.bounds
    one = p.move[0] if len(p.move) == 1 else None
    scales = blocks.cut_scale
    emissions, betas = (step_views(x, blocks.packing) for x in (blocks.emission, beta))
    after: Array | None = None  # emission · beta of the step behind
    buffer = np.empty_like(betas[0])
    for t in range(len(betas) - 1, -1, -1):
        b = betas[t]
        going = 0 if after is None else after.shape[1]
        if going < b.shape[1]:
            b[:, going:] = ends[:, going : b.shape[1]]
        if after is not None:
            out = b if going == b.shape[1] else b[:, :going]
            if one is None:
                out[...] = moved_back(after, p.move, p.which[bounds[t + 1] : bounds[t + 2]])
            else:
                np.matmul(one, after, out=out)
        if t:
            if buffer.shape[1] != b.shape[1]:
                buffer = np.empty_like(b)
            after = np.multiply(b, emissions[t], out=buffer)
            if t % EVERY == 0:
                np.divide(after, scales[t // EVERY], out=after)


def _backward_again(blocks: _Blocks, beta: Array, ends: Array) -> bool:
    """The same until all messages are those that were there, if ever."""
    p, bounds = blocks.p, blocks.packing.bounds
    scales = blocks.cut_scale
    emissions, betas = (step_views(x, blocks.packing) for x in (blocks.emission, beta))
    here = ends[:, :0]
    for t in range(len(betas) - 1, -1, -1):
        b = betas[t]
        going = here.shape[1]
        if going < b.shape[1]:
            here = np.concatenate([here, ends[:, going : b.shape[1]]], axis=1)
        if t % EVERY == 0 and same_messages(here, b):
            return True
        b[...] = here
        if t:
            here = here * emissions[t]
            if t % EVERY == 0:
                here /= scales[t // EVERY]
            here = moved_back(here, p.move, p.which[bounds[t] : bounds[t + 1]])
    return False


def _settle_backward(blocks: _Blocks, beta: Array, ends: Array, last: Array) -> None:
    """Pieces end with what the pieces behind them found."""
    packing, p = blocks.packing, blocks.p
    chained = np.flatnonzero(packing.following >= 0)
    after = packing.following[chained]
    first, emission = (run_views(x, packing)[0][0] for x in (beta, blocks.emission))
    for _ in range(MOST_ROUNDS):
        told = first[:, after] * emission[:, after] / blocks.scale[after]
        told = moved_back(told, p.move, p.which[after])
        ends[:, chained] = told / last[:, chained].sum(axis=0)
        if _backward_again(blocks, beta, ends):
            return
    raise NotAtRestError


def _carried(blocks: _Blocks, beta: Array) -> Array:
    """emission · beta / divisor of every step, in place of the emissions."""
    found = np.multiply(blocks.emission, beta, out=blocks.emission)
    for own, scale in zip(
        step_views(found, blocks.packing)[::EVERY], blocks.cut_scale, strict=True
    ):
        own /= scale
    return found


def _moves(blocks: _Blocks, carried: Array, last: Array) -> Array:
    """Σ over later steps of α_i(t − 1) move_ij carried_j(t): (configurations, from, to)."""
    packing, p = blocks.packing, blocks.p
    chained = np.flatnonzero(packing.previous >= 0)
    before = packing.previous[chained]
    if len(p.move) > 1:
        alpha = from_blocks(blocks.alpha, packing)
        alpha[:, packing.last[before]] /= last[:, before].sum(axis=0)
        return pair_sums(packing, p, alpha, from_blocks(carried, packing))
    alphas, carries = (run_views(x, packing) for x in (blocks.alpha, carried))
    found = (last[:, before] / last[:, before].sum(axis=0)) @ carries[0][0][:, chained].T
    at_once = max(1, AT_ONCE // len(found) ** 2)
    for k, (a, c) in enumerate(zip(alphas, carries, strict=True)):
        if k:
            found += alphas[k - 1][-1][:, : c.shape[2]] @ c[0].T
        for t in range(0, len(a) - 1, at_once):
            stop = min(t + at_once, len(a) - 1)
            found += np.matmul(a[t:stop], c[t + 1 : stop + 1].transpose(0, 2, 1)).sum(axis=0)
    return np.asarray(p.move * found)
