"""The most probable path of joint states (Viterbi), all sequences side by side.

Pieces of a long sequence start from a guess of the scores of the piece before, and run again until
they meet the scores that they had, as forward messages do: scores that differ by a constant choose
the same path. The path is told from the end: a step's best state is the one that led to the state
behind it. Pieces guess their last state, and run again until they meet the path that they had.
"""

from __future__ import annotations

import numpy as np

from latentia.sequences.careful_passes import MOST_ROUNDS
from latentia.sequences.chain_messages import NotAtRestError, Potentials
from latentia.sequences.packing import Indices, Packing
from latentia.typing import Array

SAME = 1e-10  # of scores, in nats
AT_ONCE = 2**16  # sums of pairs of states


def best_path(packing: Packing, p: Potentials) -> tuple[Indices, Array]:
    """Joint states of every step, packed, and what the best path gains at every step, (steps,).

    The sum over a sequence is max log P(path, cells); -inf where no path explains the cells.
    """
    with np.errstate(divide="ignore"):
        start, move = np.log(p.start), np.log(p.move)
        emission = np.log(p.emission) + p.shift if p.logs is None else p.logs
    chained = packing.previous >= 0
    which = p.which[packing.first]
    guess = np.where(chained, 0.0, start[:, np.where(chained, 0, which)])
    score, gain = np.empty_like(emission), np.empty(emission.shape[1])
    met = False
    for again in range(MOST_ROUNDS):
        met = _run_scores(packing, p.which, move, emission, guess, score, gain, again > 0)
        if met or not packing.cut:
            break
        ends = score[:, packing.last[packing.previous[chained]]]
        guess[:, chained] = _best_into(ends, move, which[chained])
    if packing.cut and not met:
        raise NotAtRestError
    return _traced(packing, p.which, move, score), gain


def _run_scores(
    packing: Packing,
    which: Indices,
    move: Array,
    emission: Array,
    start: Array,
    score: Array,
    gain: Array,
    again: bool,
) -> bool:
    """Scores of the best paths to every state, the best of them zero; see `_ForwardRun.go`."""
    lo, here = 0, start
    with np.errstate(invalid="ignore"):
        for hi in packing.bounds[1:]:
            if lo:
                here = _best_into(here[:, : hi - lo], move, which[lo:hi])
            here = here + emission[:, lo:hi]
            top = np.maximum.reduce(here, axis=0)
            here -= np.where(np.isneginf(top), 0.0, top)
            gain[lo:hi] = top
            if again and _alike(here, score[:, lo:hi]):
                return True
            score[:, lo:hi] = here
            lo = hi
    return False


def _alike(a: Array, b: Array) -> bool:
    return bool(((a == b) | (np.abs(a - b) <= SAME)).all())


def _best_into(score: Array, move: Array, which: Indices) -> Array:
    """max_i score_i + move_ij: (states, n)."""
    states, n = score.shape
    if len(move) > 1:
        return np.asarray((score.T[:, :, None] + move[which]).max(axis=1).T)
    if states * states * n <= AT_ONCE:
        return np.asarray(np.maximum.reduce(score[:, None, :] + move[0][:, :, None], axis=0))
    best = score[0] + move[0][0][:, None]
    for i in range(1, states):
        np.maximum(best, score[i] + move[0][i][:, None], out=best)
    return np.asarray(best)


def _traced(packing: Packing, which: Indices, move: Array, score: Array) -> Indices:
    """From the best last state of each sequence back to its first step."""
    path = np.full(score.shape[1], -1, dtype=np.intp)
    ends = score[:, packing.last].argmax(axis=0)
    chained = packing.following >= 0
    after = packing.first[packing.following[chained]]
    own = packing.last[chained]
    for again in range(len(ends) + 1):  # one round settles one piece more, at the least
        met = _trace_once(packing, which, move, score, ends, path, again > 0)
        if met or not packing.cut:
            break
        ends[chained] = _came_from(score[:, own], move, which[after], path[after])
    return path


def _trace_once(
    packing: Packing,
    which: Indices,
    move: Array,
    score: Array,
    ends: Indices,
    path: Indices,
    again: bool,
) -> bool:
    bounds, state = packing.bounds, ends[:0]
    for t in range(len(bounds) - 2, -1, -1):
        lo, hi = bounds[t], bounds[t + 1]
        if len(state) < hi - lo:
            state = np.concatenate([state, ends[len(state) : hi - lo]])
        if again and (path[lo:hi] == state).all():
            return True
        path[lo:hi] = state
        if t:
            before = bounds[t - 1]
            own = score[:, before : before + hi - lo]
            state = _came_from(own, move, which[lo:hi], state)
    return False


def _came_from(score: Array, move: Array, which: Indices, state: Indices) -> Indices:
    """The state i of the largest score_i + move_ij, j the state behind: (n,)."""
    into = move[0].T[state].T if len(move) == 1 else move[which, :, state].T
    return np.asarray((score + into).argmax(axis=0), dtype=np.intp)
