"""Products of whole pieces: where each piece starts and ends, however long a chain remembers.

The message from every state at the start of a piece to its end, (states, states), all pieces at
once: as many times the work of a pass as there are states. Then messages go from piece to piece.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.sequences.chain_messages import Potentials, moved_back, moved_on
from latentia.sequences.packing import Packing
from latentia.typing import Array

MOST_STATES = 32  # more, and one piece after the other is cheaper
EVERY = 8  # steps between two divisions


@final
@dataclass(frozen=True, slots=True)
class PieceProducts:
    """rows[:, i, k]: the message at the end of piece k from state i at its start, of sum one.

    log_scale[i, k] is the logarithm of the sum that it had.
    """

    packing: Packing
    p: Potentials
    rows: Array  # (states, states at the start, pieces)
    log_scale: Array  # (states at the start, pieces)

    def starts(self, start: Array) -> Array:
        """First messages of all pieces, from those of the pieces that begin sequences."""
        found, p = start.copy(), self.p
        now = np.flatnonzero(self.packing.previous < 0)
        while len(now := now[self.packing.following[now] >= 0]):
            with np.errstate(divide="ignore"):
                logs = np.log(found[:, now]) + self.log_scale[:, now]
            ends = np.einsum("jin,in->jn", self.rows[:, :, now], _from_top(logs))
            now = self.packing.following[now]
            found[:, now] = moved_on(ends / ends.sum(axis=0), p.move, p.which[now])
        return found

    def ends(self, last: Array) -> Array:
        """Messages back at the last steps of all pieces, such that Σ last · ends = 1."""
        found, p = np.ones_like(last), self.p
        now = np.flatnonzero(self.packing.following < 0)
        while len(now := now[self.packing.previous[now] >= 0]):
            into = np.einsum("jin,jn->in", self.rows[:, :, now], found[:, now])
            into *= _from_top(self.log_scale[:, now])
            told = moved_back(into, p.move, p.which[now])
            now = self.packing.previous[now]
            found[:, now] = told / told.sum(axis=0)
        return np.asarray(found / (found * last).sum(axis=0))


def _from_top(logs: Array) -> Array:
    """exp of logarithms, the largest of each column one."""
    top = logs.max(axis=0)
    return np.exp(logs - np.where(np.isneginf(top), 0.0, top))


def piece_products(packing: Packing, p: Potentials, emission: list[Array]) -> PieceProducts:
    """Products of all pieces; `emission` of every step, (states, pieces)."""
    states, pieces, bounds = len(p.start), emission[0].shape[1], packing.bounds
    rows, log_scale = np.empty((states, states, pieces)), np.zeros((states, pieces))
    here = np.eye(states)[:, :, None] * emission[0][:, None]
    for t in range(len(emission)):
        if t:
            going = emission[t].shape[1]
            rows[:, :, going : here.shape[2]] = here[:, :, going:]
            which = np.tile(p.which[bounds[t] : bounds[t + 1]], states)
            here = moved_on(here[:, :, :going].reshape(states, -1), p.move, which)
            here = here.reshape(states, states, going) * emission[t][:, None]
        if t % EVERY == 0:
            _divide(here, log_scale)
    rows[:, :, : here.shape[2]] = here
    _divide(rows, log_scale)
    return PieceProducts(packing, p, rows, log_scale)


def _divide(here: Array, log_scale: Array) -> None:
    """Every message by its sum; those that cannot be stay nought."""
    total = here.sum(axis=0)
    with np.errstate(divide="ignore"):
        log_scale[:, : here.shape[2]] += np.log(total)
    here /= np.where(total > 0, total, 1.0)
