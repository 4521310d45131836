"""Many climbs at once: `accelerate` for a field of starts, one E-step for all of them (design 13).

Small pieces take their time in calls, not in numbers. The number of the start becomes a column that
every table is conditioned on, and rows are repeated for every start: one E-step then adds up the
counts of all. The climbs are those of accelerate.py, in lockstep: each goes its own way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np

from latentia.data.rows import Rows
from latentia.exact.estep import pack_rows, packed_counts
from latentia.exact.estep_wiring import EStep, compile_estep
from latentia.exact.pieces import Piece
from latentia.networks.accelerate import (
    AT_REST,
    FIRST_CAP,
    FLAT,
    LEAST_CAP,
    MEMORY,
    REST,
    Prior,
    Tables,
    flattened,
    stepped,
)
from latentia.networks.em_problem import counts_in
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Codes

# tables of some starts, (starts, cells), and which they are -> expected counts, log-likelihoods
EStepOfMany: TypeAlias = Callable[[Array, Codes], tuple[Array, Array]]


@final
@dataclass(frozen=True, slots=True)
class RepeatedRows:
    """A piece's rows once for every start, and the wiring that tells them apart."""

    estep: EStep
    packed: Rows  # those of the first start, of the second, …
    groups: Codes  # the start of each
    starts: int
    shapes: tuple[tuple[int, tuple[int, ...]], ...]  # own number, shape of the table

    def __call__(self, X: Array, live: Codes) -> tuple[Array, Array]:
        """Counts, (starts, cells), and log-likelihoods, (starts,), of those that are live."""
        tables, at = {}, 0
        for k, shape in self.shapes:
            size = int(np.prod(shape))
            own = np.empty((self.starts, size))
            own[: len(live)] = X[:, at : at + size]
            own[len(live) :] = 1.0 / shape[-1]  # nobody there
            tables[k + 1] = own.reshape(self.starts, *shape)
            at += size
        part = slice(0, len(live) * (len(self.groups) // self.starts))
        moments = packed_counts(self.estep, tables, self.packed[part], self.groups[part])
        counts = counts_in(moments)
        flat = [counts[k + 1][: len(live)].reshape(len(live), -1) for k, _ in self.shapes]
        return np.concatenate(flat, axis=1), moments.sums["log_likelihood"]


def repeat_rows(piece: Piece, rows: Rows, tables: Tables, starts: int) -> RepeatedRows:
    """One wiring for several starts; rows are those of the piece's columns."""
    graph = piece.graph
    own = sorted(tables)
    edges = [(0, k + 1) for k in own] + [(a + 1, b + 1) for a, b in graph.edges]  # start: axis 0
    wide = LatentGraph(
        names=(("start", len(graph.names)), *graph.names),
        edges=tuple(edges),
        latent=frozenset(k + 1 for k in graph.latent),
        states=(starts, *graph.states),
    )
    columns = zip(graph.observed, rows.codes, strict=True)
    holes = [k + 1 for k, codes in columns if codes.min(initial=0) < 0]
    estep = compile_estep(wide, holes, given=(0, *(k + 1 for k in piece.given)))
    groups = np.repeat(np.arange(starts), len(rows))
    codes = (groups.astype(np.int16), *(np.tile(c, starts) for c in rows.codes))
    weight = None if rows.weight is None else np.tile(rows.weight, starts)
    packed = pack_rows(estep, Rows(codes, weight))
    shapes = tuple((k, tables[k].shape) for k in own)
    return RepeatedRows(estep, packed, groups, starts, shapes)


@dataclass(slots=True)
class _Points:
    """Where all climbs stand: accelerate's point, one row each."""

    x: Array  # (starts, cells)
    after: Array
    level: Array  # (starts,)
    fit: Array
    u: Array
    slope: Array


class Lockstep:
    """A field of climbs that can be led on together, some of them left behind."""

    def __init__(
        self, starts: Sequence[Tables], prior: Prior, estep: EStepOfMany, enough: float
    ) -> None:
        self.flat = flattened(starts[0], prior)
        self.estep = estep
        self.small = enough * self.flat.parameters
        X = np.stack([self.flat.pack(tables) for tables in starts])
        count = len(X)
        self.steps = np.zeros(count, dtype=np.int64)
        self.rests = np.zeros(count, dtype=bool)
        self.cap = np.full(count, FIRST_CAP)
        self.quiet = np.zeros(count, dtype=np.int64)
        self.gain = np.full(count, np.inf)
        self.far = np.zeros(count, dtype=bool)  # is the trial a long step?
        self.short = np.zeros(count, dtype=bool)  # … cut by the cap?
        self.pairs = np.zeros(count, dtype=np.int64)  # remembered
        self.ratio = np.ones(count)  # of the last pair: sᵀy / yᵀy
        self.memory: list[tuple[Array, Array, Array]] = []  # s, y, sᵀy; 0: nothing to remember
        self.root: Array = np.zeros(X.shape)
        self.trial = X
        x, after, u, slope = np.zeros((4, *X.shape))
        level, fit = np.full((2, count), -np.inf)
        self.here = _Points(x, after, level, fit, u, slope)
        self._look(np.arange(count))

    def tables(self, k: int) -> dict[int, Array]:
        """Those of climb k, one step of EM ahead of where it stands."""
        return self.flat.tables(self.here.after[k])

    def advance(self, which: Sequence[int], steps: int) -> None:
        """Some climbs on to so many E-steps in all, or to rest."""
        while True:
            live = np.array(
                [k for k in which if not self.rests[k] and self.steps[k] + 1 <= steps], dtype=int
            )
            if not len(live):
                return
            self._look(live)

    def _look(self, live: Codes) -> None:
        """One E-step at the trial points; go there, or fall back to EM's own step."""
        flat, here, first = self.flat, self.here, not self.steps[live].any()
        x = self.trial[live]
        counts, fit = self.estep(x, live)
        self.steps[live] += 1
        total = counts + flat.prior
        sums = np.add.reduceat(total, flat.starts, axis=1)
        if first:
            self.root[live] = np.sqrt(sums).repeat(flat.lengths, axis=1)
        after = total / sums.repeat(flat.lengths, axis=1)
        level = fit + np.log(np.maximum(x, 1e-300)) @ flat.prior
        u = np.sqrt(x) * self.root[live]
        slope = np.sqrt(after) * self.root[live] - u
        good = np.ones(len(live), dtype=bool)
        if not first:
            self._remember(live, u - here.u[live], here.slope[live] - slope)
            better = np.isfinite(level) & (level >= here.level[live])
            good = better | ~self.far[live]
            longer = self.far[live] & better & self.short[live]
            shorter = self.far[live] & ~better
            cap = self.cap[live]
            self.cap[live] = np.where(
                longer, 2 * cap, np.where(shorter, np.maximum(LEAST_CAP, cap / 2), cap)
            )
            self.gain[live] = np.where(good, level - here.level[live], self.gain[live])
        gone = live[good]
        here.x[gone], here.after[gone] = x[good], after[good]
        here.level[gone], here.fit[gone] = level[good], fit[good]
        here.u[gone], here.slope[gone] = u[good], slope[good]
        back = live[~good]
        self.trial[back], self.far[back] = here.after[back], False
        if len(gone):
            self._choose(gone)

    def _remember(self, live: Codes, s: Array, y: Array) -> None:
        bent, square = (s * y).sum(axis=1), (s * s).sum(axis=1)
        told = bent > 0
        y = y + np.maximum(0.0, FLAT - bent / np.maximum(square, 1e-300))[:, None] * s
        bent = np.where(told, (s * y).sum(axis=1), 0.0)
        yy = (y * y).sum(axis=1)
        self.ratio[live] = np.where(told, bent / np.maximum(yy, 1e-300), self.ratio[live])
        self.pairs[live] += told
        whole = np.zeros((2, *self.trial.shape)), np.zeros(len(self.trial))
        whole[0][0][live], whole[0][1][live], whole[1][live] = s, y, bent
        self.memory = [*self.memory[1 - MEMORY :], (whole[0][0], whole[0][1], whole[1])]

    def _choose(self, live: Codes) -> None:
        """The next trial of climbs that have gone on, or rest."""
        here = self.here
        slope = here.slope[live]
        d = self._direction(live, slope)
        ahead = np.minimum(2 * (slope * d).sum(axis=1), REST * self.gain[live])
        told = (self.pairs[live] > 1) | (self.gain[live] < AT_REST * self.small)
        quiet = np.where((ahead < self.small) & told, self.quiet[live] + 1, 0)
        self.quiet[live] = quiet
        self.rests[live] = quiet >= 2
        long = self.pairs[live] > 0
        share = self.cap[live] * _norms(slope) / np.maximum(_norms(d), 1e-300)
        step = d * np.minimum(1.0, share)[:, None]
        y = stepped(here.x[live], here.u[live], step, self.root[live])
        sums = np.add.reduceat(y, self.flat.starts, axis=1).repeat(self.flat.lengths, axis=1)
        self.trial[live] = np.where(long[:, None], y / sums, here.after[live])
        self.far[live], self.short[live] = long, share < 1

    def _direction(self, live: Codes, slope: Array) -> Array:
        """Newton's step as far as it is known, one row each (L-BFGS)."""
        d, shares = slope.copy(), []
        pairs = [(s[live], y[live], b[live]) for s, y, b in self.memory]
        for s, y, bent in reversed(pairs):
            share = np.where(bent > 0, (s * d).sum(axis=1) / np.where(bent > 0, bent, 1.0), 0.0)
            shares.append(share)
            d -= share[:, None] * y
        d *= np.maximum(1.0, np.where(self.pairs[live] > 0, self.ratio[live], 1.0))[:, None]
        for s, y, bent in pairs:
            back = np.where(bent > 0, (y * d).sum(axis=1) / np.where(bent > 0, bent, 1.0), 0.0)
            d += s * (shares.pop() - back)[:, None]
        return d


def _norms(x: Array) -> Array:
    return np.asarray(np.sqrt((x * x).sum(axis=1)))
