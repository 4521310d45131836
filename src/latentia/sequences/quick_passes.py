"""Messages over step blocks, scaled now and then: one product and one multiplication a step.

alpha_t = emission_t ∘ (moveᵀ alpha_{t−1}), divided by its sum at each EVERY-th step. beta goes
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
    Expected,
    Filtered,
    NotAtRestError,
    Potentials,
    Smoothed,
    moved_back,
    moved_on,
)
from latentia.sequences.packing import Packing
from latentia.sequences.piece_products import MOST_STATES, PieceProducts, piece_products
from latentia.sequences.scratch import scratch
from latentia.sequences.step_blocks import (
    from_blocks,
    run_views,
    state_sums,
    step_views,
    to_blocks,
)
from latentia.typing import Array

FEW_ROUNDS = 2  # before products of pieces are made
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
    last: Array  # messages at the last step of every piece, (states, pieces)
    products: PieceProducts | None  # where pieces did not forget

    def level(self) -> float:
        """log P(all cells): all divisors, and what is left at the ends of pieces."""
        divisors = np.concatenate([*self.blocks.cut_scale, self.last.sum(axis=0)])
        return float(np.log(divisors).sum() + self.blocks.p.shift.sum())

    def log_scale(self, sums: Array | None = None) -> Array:
        """log P(cells | cells before), (steps,); `sums` of alpha, if they are known."""
        packing, scale = self.blocks.packing, self.blocks.scale
        sums = state_sums(self.blocks.alpha, packing) if sums is None else sums
        found = np.where(scale == 1.0, sums, scale)
        inner = packing.bounds[1]  # first steps of pieces start from messages of sum one
        found[inner:] /= sums.take(packing.before[inner:])
        np.log(found, out=found)
        found += self.blocks.p.shift
        return found

    def filtered(self) -> Filtered:
        """Beliefs, in place of the emissions of the potentials."""
        blocks = self.blocks
        sums = state_sums(blocks.alpha, blocks.packing)
        alpha = from_blocks(blocks.alpha, blocks.packing, blocks.p.emission)
        alpha /= sums
        return Filtered(alpha, self.log_scale(sums))


def quick_forward(packing: Packing, p: Potentials) -> QuickForward | None:
    """Messages forward; None where floats cannot hold them."""
    size = p.emission.size
    emission = to_blocks(p.emission, packing, scratch("emission blocks", size))
    scale = scratch("scale", packing.steps)
    scale[:] = 1.0
    blocks = _Blocks(packing, p, emission, scratch("alpha", size), scale)
    start = first_messages(packing, p)
    with np.errstate(all="ignore"):  # what comes of it is looked at below
        _forward(blocks, start)
        products = _settle_forward(blocks, start) if packing.cut else None
        last = last_messages(blocks.alpha, packing)
        # emissions are at most one: between two divisions sums only fall
        least = min(float(blocks.scale.min()), float(last.sum(axis=0).min()))
    return QuickForward(blocks, last, products) if least > LEAST else None


def _forward(blocks: _Blocks, start: Array, again: bool = False) -> bool:
    """Every step, from messages of the first one, (states, pieces).

    `again`: until all messages are those that were there, if ever.
    """
    p, bounds, previous = blocks.p, blocks.packing.bounds, start
    one = np.ascontiguousarray(p.move[0].T) if len(p.move) == 1 else None
    scales = iter(blocks.cut_scale)
    emissions, alphas = (step_views(x, blocks.packing) for x in (blocks.emission, blocks.alpha))
    for t, (e, a) in enumerate(zip(emissions, alphas, strict=True)):
        divide = t % EVERY == 0
        out = np.empty_like(a) if again and divide else a
        if t == 0:
            np.multiply(previous, e, out=out)
        else:
            if previous.shape[1] != a.shape[1]:
                previous = previous[:, : a.shape[1]]
            if one is None:
                out[...] = moved_on(previous, p.move, p.which[bounds[t] : bounds[t + 1]])
            else:
                np.matmul(one, previous, out=out)
            np.multiply(out, e, out=out)
        if divide:
            total = np.add.reduce(out, axis=0, out=next(scales))
            np.divide(out, total, out=out)
            if again:  # the divisor is new also where they meet: the steps before it are
                if same_messages(out, a):
                    return True
                a[...] = out
        previous = a
    return False


def _settle_forward(blocks: _Blocks, start: Array) -> PieceProducts | None:
    """Pieces start from what the pieces before them found."""
    packing, p = blocks.packing, blocks.p
    chained = np.flatnonzero(packing.previous >= 0)
    wide = len(p.start) > MOST_STATES
    for _ in range(MOST_ROUNDS if wide else FEW_ROUNDS):
        ends = last_messages(blocks.alpha, packing)[:, packing.previous[chained]]
        ends /= ends.sum(axis=0)
        start[:, chained] = moved_on(ends, p.move, p.which[chained])
        if _forward(blocks, start, again=True):
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


def quick_smooth(forward: QuickForward) -> Smoothed | None:
    """Beliefs; None where floats cannot hold the messages.

    They lie in place of the emissions of the potentials.
    """
    blocks = forward.blocks
    with np.errstate(all="ignore"):  # what comes of it is looked at below
        beta = _settled_backward(forward)
        gamma = _beliefs(blocks, beta)
        total = np.add.reduce(gamma, axis=0)
        held = bool((np.abs(total - 1.0) <= NEAR_ONE).all())  # not, where it is no number
        gamma /= total
    return Smoothed(gamma, forward.log_scale()) if held else None


def quick_expect(forward: QuickForward) -> Expected | None:
    """Beliefs and expected moves; see `quick_smooth`."""
    blocks, packing = forward.blocks, forward.blocks.packing
    expected = packing.steps - len(packing.heads)
    with np.errstate(all="ignore"):
        beta = _settled_backward(forward)
        moves = _moves(blocks, _carried(blocks, beta), forward.last)
        gamma = _beliefs(blocks, beta)
        held = abs(float(moves.sum()) - expected) <= NEAR_ONE * expected
        held = held and bool(np.isfinite(gamma.sum()))
    return Expected(gamma, forward.level(), moves) if held else None


def _beliefs(blocks: _Blocks, beta: Array) -> Array:
    """alpha · beta of every step, (states, steps)."""
    np.multiply(beta, blocks.alpha, out=beta)
    return from_blocks(beta, blocks.packing, blocks.p.emission)


def _settled_backward(forward: QuickForward) -> Array:
    """Messages back, beta, as step blocks."""
    blocks, last = forward.blocks, forward.last
    beta = scratch("beta", len(blocks.alpha))
    ends = np.ones_like(last) / last.sum(axis=0)
    if forward.products is not None:
        ends = forward.products.ends(last)
    _backward(blocks, beta, ends)
    if blocks.packing.cut and forward.products is None:
        _settle_backward(blocks, beta, ends, last)
    return beta


def _backward(blocks: _Blocks, beta: Array, ends: Array, again: bool = False) -> bool:
    """Every step from the last one; `ends` are messages of last steps, (states, pieces).

    `again`: until all messages are those that were there, if ever.
    """
    p, bounds, scales = blocks.p, blocks.packing.bounds, blocks.cut_scale
    one = p.move[0] if len(p.move) == 1 else None
    emissions, betas = (step_views(x, blocks.packing) for x in (blocks.emission, beta))
    after: Array | None = None  # emission · beta of the step behind
    for t in range(len(betas) - 1, -1, -1):
        b = betas[t]
        look = again and t % EVERY == 0
        out = np.empty_like(b) if look else b
        going = 0 if after is None else after.shape[1]
        if going < b.shape[1]:
            out[:, going:] = ends[:, going : b.shape[1]]
        if after is not None:
            front = out if going == b.shape[1] else out[:, :going]
            if one is None:
                front[...] = moved_back(after, p.move, p.which[bounds[t + 1] : bounds[t + 2]])
            else:
                np.matmul(one, after, out=front)
        if look:
            if same_messages(out, b):
                return True
            b[...] = out
        if t:
            if after is None or going != b.shape[1]:
                after = np.empty_like(b)
            np.multiply(b, emissions[t], out=after)
            if t % EVERY == 0:
                np.divide(after, scales[t // EVERY], out=after)
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
        if _backward(blocks, beta, ends, again=True):
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
        shape = p.emission.shape
        alpha = from_blocks(blocks.alpha, packing, scratch("plain alpha", *shape))
        alpha[:, packing.last[before]] /= last[:, before].sum(axis=0)
        flat = from_blocks(carried, packing, scratch("plain carried", *shape))
        return pair_sums(packing, p, alpha, flat)
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
