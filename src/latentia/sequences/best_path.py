"""The most probable path of joint states (Viterbi), all sequences side by side.

Pieces of a long sequence start from a guess of the scores of the piece before, as forward messages
do; scores that differ by a constant only choose the same path, and paths soon meet. Where pieces
end, the best state is told by the piece behind: every piece tells where each of its last states
came from, and the last piece of a sequence decides.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from latentia.sequences.forward_backward import MOST_ROUNDS, NotAtRestError, Potentials
from latentia.sequences.packing import Indices, Packing
from latentia.typing import Array

Back: TypeAlias = np.ndarray[Any, np.dtype[np.int16]]
SAME = 1e-9  # of scores, in nats


def best_path(packing: Packing, p: Potentials) -> tuple[Indices, Array]:
    """Joint states of every step, packed, and max log P(path, cells), (pieces,).

    That of a sequence is the one of its last piece; -inf where no path explains the cells.
    """
    with np.errstate(divide="ignore"):
        start, move = np.log(p.start), np.log(p.move)
        emission = np.log(p.emission) + p.shift if p.logs is None else p.logs
    chained = packing.previous >= 0
    which = p.which[packing.first]
    guess = np.where(chained, 0.0, start[:, np.where(chained, 0, which)])
    for _ in range(MOST_ROUNDS):
        back, final = _scored(packing, p.which, move, emission, guess)
        if not packing.cut:
            break
        before = packing.previous[chained]
        told = _into(final[:, before], move, which[chained])
        if _alike(told, guess[:, chained]):
            break
        guess[:, chained] = told
    else:
        raise NotAtRestError
    return _chased(packing, p.which, move, back, final), final.max(axis=0)


def _alike(told: Array, guess: Array) -> bool:
    """Do the scores differ by a constant only?"""
    with np.errstate(invalid="ignore"):
        a, b = told - told.max(axis=0), guess - guess.max(axis=0)
    both = np.isneginf(a) & np.isneginf(b)
    with np.errstate(invalid="ignore"):
        return bool((both | (np.abs(a - b) <= SAME)).all())


def _scored(
    packing: Packing, which: Indices, move: Array, emission: Array, start: Array
) -> tuple[Back, Array]:
    """Where each state came from, (states, steps), and the last scores of pieces."""
    back = np.empty(emission.shape, dtype=np.int16)
    bounds = packing.bounds
    score = start + emission[:, : bounds[1]]
    final = score.copy()
    for lo, hi in pairwise(bounds[1:]):
        n = hi - lo
        final[:, n : score.shape[1]] = score[:, n:]
        score = _extended(score[:, :n], move, which[lo:hi], back[:, lo:hi])
        score += emission[:, lo:hi]
    final[:, : score.shape[1]] = score
    return back, final


def _extended(score: Array, move: Array, which: Indices, back: Back) -> Array:
    """max_i score_i + move_ij, and which i it was, to be found in `back`: (states, n)."""
    states, n = score.shape
    if n * states <= 512 and len(move) == 1:  # few: all at once
        total = score[:, None, :] + move[0][:, :, None]
        best = total.argmax(axis=0)
        back[...] = best
        return np.asarray(total.max(axis=0))
    found = np.empty_like(score)
    for j in range(states):
        into = move[0, :, j][:, None] if len(move) == 1 else move[which, :, j].T
        total = score + into
        best = total.argmax(axis=0)
        back[j] = best
        found[j] = total.max(axis=0)
    return found


def _into(score: Array, move: Array, which: Indices) -> Array:
    """max_i score_i + move_ij: (states, n)."""
    back = np.empty(score.shape, dtype=np.int16)
    return _extended(score, move, which, back)


def _chased(packing: Packing, which: Indices, move: Array, back: Back, final: Array) -> Indices:
    """From the best last state of each sequence back to its first step."""
    last = final.argmax(axis=0)
    if packing.cut:
        last = _joined_ends(packing, which, move, back, final)
    path = np.empty(back.shape[1], dtype=np.intp)
    bounds, state = packing.bounds, last[:0]
    for t in range(len(bounds) - 2, -1, -1):
        lo, hi = bounds[t], bounds[t + 1]
        state = np.concatenate([state, last[len(state) : hi - lo]])
        path[lo:hi] = state
        if t:
            state = back[state, np.arange(lo, hi)].astype(np.intp)
    return path


def _joined_ends(
    packing: Packing, which: Indices, move: Array, back: Back, final: Array
) -> Indices:
    """The best last state of every piece, as the pieces behind it decide."""
    bounds, states = packing.bounds, len(back)
    came = np.zeros((states, 0), dtype=np.intp)  # the first state of a piece, by its last
    for t in range(len(bounds) - 2, -1, -1):
        lo, hi = bounds[t], bounds[t + 1]
        fresh = np.broadcast_to(np.arange(states)[:, None], (states, hi - lo - came.shape[1]))
        came = np.concatenate([came, fresh], axis=1)
        if t:
            came = np.take_along_axis(back[:, lo:hi], came, axis=0).astype(np.intp)
    last: Indices = np.asarray(final.argmax(axis=0))
    chained = packing.previous >= 0
    entry = np.zeros((states, len(last)), dtype=np.int16)  # the last state of the piece before
    own = np.empty((states, int(chained.sum())), dtype=np.int16)
    _extended(final[:, packing.previous[chained]], move, which[packing.first[chained]], own)
    entry[:, chained] = own
    order = np.argsort(packing.order[packing.first])[::-1]  # from the end of sequences
    for piece in order[packing.previous[order] >= 0].tolist():
        last[packing.previous[piece]] = entry[came[last[piece], piece], piece]
    return last
