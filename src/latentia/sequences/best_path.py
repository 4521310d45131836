"""The most probable path of joint states (Viterbi), all sequences side by side.

Pieces of a long sequence start from a guess of the scores of the piece before, and run again until
they meet the scores that they had, as forward messages do: scores that differ by a constant choose
the same path. The path is told from the end: a step's best state is the one that led to the state
behind it. Pieces guess their last state, and run again until they meet the path that they had.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.sequences.careful_passes import MOST_ROUNDS
from latentia.sequences.chain_messages import NotAtRestError
from latentia.sequences.chain_wiring import Wired
from latentia.sequences.hidden_states import Tables
from latentia.sequences.packing import Indices, Packing
from latentia.sequences.potentials import log_emissions, moves_of, starts_of
from latentia.sequences.quick_passes import EVERY, last_messages
from latentia.sequences.scratch import scratch
from latentia.sequences.step_blocks import step_views, to_blocks
from latentia.typing import Array

SAME = 1e-10  # of scores, in nats
AT_ONCE = 2**16  # sums of pairs of states
WIDE = 16  # states from which on each piece looks for its best state along a row


@final
@dataclass(frozen=True, slots=True)
class _Scores:
    """Logarithms: moves (configurations, from, to), and step blocks of emissions and scores."""

    packing: Packing
    which: Indices
    move: Array
    emission: list[Array]
    score: Array
    gain: Array  # (steps,) what was taken off the scores


def best_path(wired: Wired, tables: Tables) -> tuple[Indices, Array]:
    """Joint states of every step, packed, and parts of what the best paths score, (steps,).

    The sum over a sequence is max log P(path, cells); -inf where no path explains the cells.
    """
    packing, layout = wired.lockstep, wired.layout
    size = layout.width * packing.steps
    with np.errstate(divide="ignore"):
        start = np.log(starts_of(layout, tables))
        move = np.log(moves_of(layout, tables))
    emission = to_blocks(log_emissions(wired, tables), packing, scratch("emission blocks", size))
    score, gain = scratch("alpha", size), np.zeros(packing.steps)
    s = _Scores(packing, wired.which, move, step_views(emission, packing), score, gain)
    chained = packing.previous >= 0
    which = wired.which[: len(chained)]
    first = np.where(chained, 0.0, start[:, np.where(chained, 0, which)])
    with np.errstate(invalid="ignore"):
        _run_scores(s, first)
        if packing.cut:
            _settle(s, first)
        ends = last_messages(score, packing)
    gain[packing.last] += ends.max(axis=0)
    return _traced(s, ends), gain


def _settle(s: _Scores, first: Array) -> None:
    """Pieces start from what the pieces before them found."""
    chained = np.flatnonzero(s.packing.previous >= 0)
    for _ in range(MOST_ROUNDS):
        ends = last_messages(s.score, s.packing)[:, s.packing.previous[chained]]
        first[:, chained] = _best_into(_from_top(ends)[0], s.move, s.which[chained])
        if _run_scores(s, first, again=True):
            return
    raise NotAtRestError


def _from_top(score: Array) -> tuple[Array, Array]:
    """Scores, the best of each column nought, and what was taken off."""
    top = np.maximum.reduce(score, axis=0)
    return score - np.where(np.isneginf(top), 0.0, top), top


def _run_scores(s: _Scores, first: Array, again: bool = False) -> bool:
    """Scores of the best paths to every state; `again`: until they are those that were there."""
    bounds, here = s.packing.bounds, first
    for t, (e, a) in enumerate(zip(s.emission, step_views(s.score, s.packing), strict=True)):
        lo, hi = bounds[t], bounds[t + 1]
        if t:
            here = _best_into(here[:, : hi - lo], s.move, s.which[lo:hi])
        here = np.add(here, e, out=None if again and t % EVERY == 0 else a)
        if t % EVERY == 0:
            here, s.gain[lo:hi] = _from_top(here)
            if again and _alike(here, a):
                return True
            a[...] = here
    return False


def _alike(a: Array, b: Array) -> bool:
    return bool(((a == b) | (np.abs(a - b) <= SAME)).all())


def _best_into(score: Array, move: Array, which: Indices) -> Array:
    """max_i score_i + move_ij: (states, n)."""
    states, n = score.shape
    if len(move) > 1:
        return np.asarray((score.T[:, :, None] + move[which]).max(axis=1).T)
    if states * states * n <= AT_ONCE:
        pairs = scratch("pairs", states, states, n)
        np.add(score[:, None, :], move[0][:, :, None], out=pairs)
        return np.asarray(np.maximum.reduce(pairs, axis=0))
    best, other = score[0] + move[0][0][:, None], scratch("pairs", states, n)
    for i in range(1, states):
        np.add(score[i], move[0][i][:, None], out=other)
        np.maximum(best, other, out=best)
    return np.asarray(best)


def _traced(s: _Scores, last: Array) -> Indices:
    """From the best last state of each sequence back to its first step."""
    packing = s.packing
    path = np.full(packing.steps, -1, dtype=np.intp)
    ends = last.argmax(axis=0)
    chained = np.flatnonzero(packing.following >= 0)
    after = packing.following[chained]
    scores = step_views(s.score, packing)
    for again in range(len(ends) + 1):  # one round settles one piece more, at the least
        met = _trace_once(s, scores, ends, path, again > 0)
        if met or not packing.cut:
            break
        ends[chained] = _came_from(last[:, chained], s.move, s.which[after], path[after])
    return path


def _trace_once(s: _Scores, scores: list[Array], ends: Indices, path: Indices, again: bool) -> bool:
    bounds, state = s.packing.bounds, ends[:0]
    for t in range(len(bounds) - 2, -1, -1):
        lo, hi = bounds[t], bounds[t + 1]
        if len(state) < hi - lo:
            state = np.concatenate([state, ends[len(state) : hi - lo]])
        if again and t % EVERY == 0 and (path[lo:hi] == state).all():
            return True
        path[lo:hi] = state
        if t:
            state = _came_from(scores[t - 1][:, : hi - lo], s.move, s.which[lo:hi], state)
    return False


def _came_from(score: Array, move: Array, which: Indices, state: Indices) -> Indices:
    """The state i of the largest score_i + move_ij, j the state behind: (n,)."""
    if len(move) > 1:
        return np.asarray((score.T + move[which, :, state]).argmax(axis=1), dtype=np.intp)
    if len(score) < WIDE:
        into = move[0].take(state, axis=1)
        into += score
        return np.asarray(into.argmax(axis=0), dtype=np.intp)
    into = move[0].T[state]
    into += score.T
    return np.asarray(into.argmax(axis=1), dtype=np.intp)
