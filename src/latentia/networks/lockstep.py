"""Many climbs at once: `accelerate` for a field of starts, one E-step for all of them (design 13).

The climbs are those of accelerate.py, in lockstep: each goes its own way, but all their numbers lie
in one array, so that small pieces do not take their time in calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TypeAlias, final

import numpy as np

from latentia.networks.accelerate import (
    AT_REST,
    FIRST_CAP,
    FLAT,
    LEAST_CAP,
    MEMORY,
    REST,
    EStepOf,
    Prior,
    Tables,
    flattened,
    stepped,
)
from latentia.typing import Array, Bools, Codes

# tables of some starts, (starts, cells) -> expected counts, (starts, cells), and log-likelihoods
EStepOfMany: TypeAlias = Callable[[Array], tuple[Array, Array]]


def in_turn(estep: EStepOf, shapes: Mapping[int, tuple[int, ...]]) -> EStepOfMany:
    """The E-step of one start after the other; `shapes` of the tables, in order."""
    ends = np.cumsum([math.prod(shape) for shape in shapes.values()])[:-1]

    def many(X: Array) -> tuple[Array, Array]:
        counts, fits = np.empty(X.shape), np.empty(len(X))
        for i, x in enumerate(X):
            cut = zip(shapes.items(), np.split(x, ends), strict=True)
            own, fits[i] = estep({k: part.reshape(shape) for (k, shape), part in cut})
            counts[i] = np.concatenate([own[k].ravel() for k in shapes])
        return counts, fits

    return many


@dataclass(slots=True)
class _Field:
    """Climbs that go on, a row each; accelerate's point, and what it keeps from step to step."""

    number: Codes  # of each climb among all
    x: Array  # (climbs, cells)
    after: Array
    u: Array
    slope: Array
    trial: Array
    root: Array  # √n
    level: Array  # (climbs,)
    cap: Array
    quiet: Codes
    gain: Array
    far: Bools  # is the trial a long step?
    short: Bools  # … cut by the cap?
    pairs: Codes  # remembered
    ratio: Array  # of the last pair: sᵀy / yᵀy
    s: Array  # steps in units of their length, (climbs, memory, cells); 0: nothing to remember
    y: Array  # changes of the slope
    sy: Array  # sᵀy, (climbs, memory, memory)
    yy: Array

    def kept(self, places: Codes) -> _Field:
        """Some of the climbs."""
        return _Field(*(getattr(self, f.name)[places] for f in fields(self)))


@final
class Lockstep:
    """A field of climbs that can be led on together; who is left behind stays there."""

    def __init__(
        self, starts: Sequence[Tables], prior: Prior, estep: EStepOfMany, enough: float
    ) -> None:
        self.flat = flattened(starts[0], prior)
        self.estep = estep
        self.small = enough * self.flat.parameters
        X = np.stack([self.flat.pack(tables) for tables in starts])
        count, cells = X.shape
        self.steps = np.zeros(count, dtype=np.int64)
        self.rests = np.zeros(count, dtype=bool)
        self.level = np.full(count, -np.inf)
        self.after: Array = np.zeros(X.shape)
        self.slot = 0  # of the memory, where the next pair goes
        self.field = _Field(
            number=np.arange(count),
            x=X,
            after=np.zeros(X.shape),
            u=np.zeros(X.shape),
            slope=np.zeros(X.shape),
            trial=X,
            root=np.zeros(X.shape),
            level=np.full(count, -np.inf),
            cap=np.full(count, FIRST_CAP),
            quiet=np.zeros(count, dtype=np.int64),
            gain=np.full(count, np.inf),
            far=np.zeros(count, dtype=bool),
            short=np.zeros(count, dtype=bool),
            pairs=np.zeros(count, dtype=np.int64),
            ratio=np.ones(count),
            s=np.zeros((count, MEMORY, cells)),
            y=np.zeros((count, MEMORY, cells)),
            sy=np.zeros((count, MEMORY, MEMORY)),
            yy=np.zeros((count, MEMORY, MEMORY)),
        )
        self._begin()

    def tables(self, k: int) -> dict[int, Array]:
        """Those of climb k, one step of EM ahead of where it stands."""
        return self.flat.tables(self.after[k])

    def advance(self, which: Sequence[int], steps: int) -> None:
        """Some climbs on to so many E-steps in all, or to rest; the others are left behind."""
        self._keep(np.isin(self.field.number, list(which)))
        while len(self.field.number) and self.steps[self.field.number[0]] < steps:
            self._go_on()
            self._keep(~self.rests[self.field.number])

    def _keep(self, going: Bools) -> None:
        """Go on with these; how far they all came is noted."""
        field = self.field
        self.level[field.number], self.after[field.number] = field.level, field.after
        if not going.all():
            self.field = field.kept(np.flatnonzero(going))

    def _begin(self) -> None:
        field, flat = self.field, self.flat
        counts, fit = self._look()
        sums = np.add.reduceat(counts, flat.starts, axis=1)
        field.root = np.sqrt(sums).repeat(flat.lengths, axis=1)
        field.level = fit
        field.after = counts / sums.repeat(flat.lengths, axis=1)
        field.u = np.sqrt(field.x) * field.root
        field.slope = np.sqrt(field.after) * field.root - field.u
        self._choose(np.arange(len(field.number)))
        self._keep(np.ones(len(field.number), dtype=bool))

    def _look(self) -> tuple[Array, Array]:
        """Counts with the prior's, and the penalised level, at the trial points."""
        field, flat = self.field, self.flat
        self.steps[field.number] += 1
        counts, fit = self.estep(field.trial)
        return counts + flat.prior, fit + np.log(np.maximum(field.trial, 1e-300)) @ flat.prior

    def _go_on(self) -> None:
        """One E-step at the trial points; go there, or fall back to EM's own step."""
        field, flat = self.field, self.flat
        counts, level = self._look()
        after = counts / np.add.reduceat(counts, flat.starts, axis=1).repeat(flat.lengths, axis=1)
        u = np.sqrt(field.trial)
        u *= field.root
        slope = np.sqrt(after)
        slope *= field.root
        slope -= u
        self._remember(u - field.u, field.slope - slope)
        better = np.isfinite(level) & (level >= field.level)
        good = better | ~field.far
        longer, shorter = field.far & better & field.short, field.far & ~better
        cap = np.where(longer, 2 * field.cap, field.cap)
        field.cap = np.where(shorter, np.maximum(LEAST_CAP, field.cap / 2), cap)
        field.gain = np.where(good, level - field.level, field.gain)
        if good.all():
            field.x, field.after, field.level = field.trial, after, level
            field.u, field.slope = u, slope
        else:
            gone = np.flatnonzero(good)
            field.x = np.where(good[:, None], field.trial, field.x)
            field.after[gone], field.level[gone] = after[gone], level[gone]
            field.u[gone], field.slope[gone] = u[gone], slope[gone]
        self._choose(np.flatnonzero(good))

    def _remember(self, s: Array, y: Array) -> None:
        """A pair for each climb, in units of the step's length; zeros where it tells nothing."""
        field, slot = self.field, self.slot
        bent, square = np.einsum("ic,ic->i", s, y), np.einsum("ic,ic->i", s, s)
        told = bent > 0
        square = np.where(told, square, 1.0)
        scale = np.where(told, 1 / np.sqrt(square), 0.0)
        s *= scale[:, None]
        y *= scale[:, None]
        y += np.where(told, np.maximum(0.0, FLAT - bent / square), 0.0)[:, None] * s
        field.s[:, slot], field.y[:, slot] = s, y
        field.sy[:, :, slot] = (field.s @ y[:, :, None])[:, :, 0]
        field.yy[:, :, slot] = field.yy[:, slot, :] = (field.y @ y[:, :, None])[:, :, 0]
        straight = np.maximum(field.yy[:, slot, slot], 1e-300)
        field.ratio = np.where(told, field.sy[:, slot, slot] / straight, field.ratio)
        field.pairs = field.pairs + told
        self.slot = (slot + 1) % MEMORY

    def _choose(self, gone: Codes) -> None:
        """The next trials: of climbs that have gone on, a long step; of the others, EM's own."""
        field = self.field
        slope = field.slope
        d = self._direction(slope)
        ahead = np.minimum(2 * np.einsum("ic,ic->i", slope, d), REST * field.gain)
        told = (field.pairs > 1) | (field.gain < AT_REST * self.small)
        quiet = np.where((ahead < self.small) & told, field.quiet + 1, 0)
        moved = np.zeros(len(slope), dtype=bool)
        moved[gone] = True
        field.quiet = np.where(moved, quiet, field.quiet)
        self.rests[field.number] = moved & (field.quiet >= 2)
        long = moved & (field.pairs > 0)
        share = field.cap * _norms(slope) / np.maximum(_norms(d), 1e-300)
        d *= np.minimum(1.0, share)[:, None]
        y = stepped(field.x, field.u, d, field.root)
        y /= np.add.reduceat(y, self.flat.starts, axis=1).repeat(self.flat.lengths, axis=1)
        field.trial = y if long.all() else np.where(long[:, None], y, field.after)
        field.far, field.short = long, share < 1

    def _direction(self, slope: Array) -> Array:
        """Newton's step as far as it is known, one row each (L-BFGS in compact form).

        With R the upper part of SᵀY, in the order of the steps, and D its diagonal:
        H g = γ g + S R⁻ᵀ (D v + γ (YᵀY v - Yᵀg)) - γ Y v, where R v = Sᵀg.
        """
        field = self.field
        if not field.pairs.any():
            return slope.copy()
        known = slice(0, min(int(self.steps.max()) - 1, MEMORY))
        s, y = field.s[:, known], field.y[:, known]
        count = s.shape[1]
        gamma = np.maximum(1.0, np.where(field.pairs > 0, field.ratio, 1.0))[:, None]
        age = (np.arange(count) - self.slot) % MEMORY
        bent = np.einsum("imm->im", field.sy[:, known, known])
        R = np.where(age[:, None] <= age, field.sy[:, known, known], 0.0)
        R[:, np.arange(count), np.arange(count)] += bent <= 0
        p, q = (s @ slope[:, :, None])[:, :, 0], (y @ slope[:, :, None])[:, :, 0]
        v = np.linalg.solve(R, p[:, :, None])[:, :, 0]
        inner = bent * v + gamma * ((field.yy[:, known, known] @ v[:, :, None])[:, :, 0] - q)
        w = np.linalg.solve(R.swapaxes(1, 2), inner[:, :, None])[:, None, :, 0]
        d = gamma * slope
        d += (w @ s)[:, 0]
        d -= ((gamma * v)[:, None, :] @ y)[:, 0]
        return d


def _norms(x: Array) -> Array:
    return np.asarray(np.sqrt(np.einsum("ic,ic->i", x, x)))
