"""Refinement: accelerated, monotone MAP-EM on a positive network (design 4.3, step 3).

Each E-step is one more fold. With u = √(n T), n the expected rows behind each table row, a step of
EM is a gradient step of unit length, δ = EM(u) - u, so that L-BFGS on u is EM with a memory: it
takes about half the E-steps of extrapolation (SQUAREM). A step that lowers the penalised likelihood
is replaced by EM's own, so that the path never falls. All tables lie one after the other in a
single array, so that small ones cost as little as they should.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, final

import numpy as np

from latentia.announcing import tell_climb
from latentia.typing import Array, Codes

Tables: TypeAlias = Mapping[int, Array]  # variable -> (parents …, itself)
EStepOf: TypeAlias = Callable[[Tables], tuple[Tables, float]]  # expected counts, log-likelihood

PSEUDO_COUNTS = 1.0  # more helps a little at 1,000 rows, and blurs sharp tables at 10,000
FIRST_CAP, LEAST_CAP = 4.0, 2.0  # length of a step, in steps of EM
MEMORY = 8  # steps
FLAT = 2e-3  # least bend of a step against EM's: flatter ones are hardly known
AT_REST = 1e-3  # of a small gain: so little needs no memory to tell that it is the last
REST = 10  # steps as small as the last that a climb may still need
KEEP = 0.3  # no root of a probability falls below this share of itself in one step
ENOUGH = 5e-3  # gain per free parameter still to come: far below what noise is worth
LEAST_ROOT = 1e-6
MOST_STEPS = 300
FLOOR = 1e-10


@final
@dataclass(frozen=True, slots=True)
class Prior:
    """Pseudo-counts towards the target's own marginal, for every row of every table."""

    counts: Mapping[int, Array]  # variable -> (states,), or of all rows (parents …, states)

    def log_density(self, tables: Tables) -> float:
        """Σ over table rows of Σ_x a_x log T(x | row), up to a constant."""
        total = 0.0
        for v, a in self.counts.items():
            total += float((np.log(np.maximum(tables[v], 1e-300)) * a).sum())
        return total


@final
@dataclass(frozen=True, slots=True)
class Refined:
    """Tables, whether the climb came to rest, and its path."""

    tables: dict[int, Array]
    converged: bool
    steps: int  # E-steps
    history: tuple[float, ...]  # penalised log-likelihood after each step
    log_likelihood: float


@final
class LaterTables(Mapping[int, Array]):
    """Tables in one array, cut out once somebody looks at them: of most starts nobody does."""

    def __init__(self, shapes: Mapping[int, tuple[int, ...]], x: Array) -> None:
        self.shapes, self.x = shapes, x

    @cached_property
    def _found(self) -> dict[int, Array]:
        return _cut(self.x, self.shapes)

    def __getitem__(self, v: int) -> Array:
        return self._found[v]

    def __iter__(self) -> Iterator[int]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)


def _cut(x: Array, shapes: Mapping[int, tuple[int, ...]]) -> dict[int, Array]:
    found, start = {}, 0
    for v, shape in shapes.items():
        stop = start + math.prod(shape)
        found[v] = x[start:stop].reshape(shape)
        start = stop
    return found


@final
@dataclass(frozen=True, slots=True)
class FlatTables:
    """Where the tables lie in one array, and the pseudo-counts there."""

    shapes: Mapping[int, tuple[int, ...]]  # variable -> shape of its table, in order
    starts: Codes  # where each row of a table starts
    lengths: Codes
    prior: Array

    def pack(self, tables: Tables) -> Array:
        if isinstance(tables, LaterTables) and [*tables.shapes] == [*self.shapes]:
            return tables.x
        return np.concatenate([tables[v].ravel() for v in self.shapes])

    def tables(self, x: Array) -> dict[int, Array]:
        return _cut(x, self.shapes)

    def rows(self, x: Array) -> Array:
        """Every row divided by its sum."""
        return np.asarray(x / np.add.reduceat(x, self.starts).repeat(self.lengths), dtype=float)

    def maximum(self, counts: Tables) -> Array:
        """The M-step."""
        return self.rows(self.pack(counts) + self.prior)

    def log_prior(self, x: Array) -> float:
        return float(self.prior @ np.log(np.maximum(x, 1e-300)))

    @property
    def parameters(self) -> int:
        return int(self.lengths.sum() - len(self.lengths))


def flattened(tables: Tables, prior: Prior) -> FlatTables:
    """Where tables lie in one array, one after the other."""
    shapes = {v: table.shape for v, table in tables.items()}
    last = [shape[-1] for shape in shapes.values()]
    rows = [t.size // t.shape[-1] for t in tables.values()]
    lengths = np.repeat(last, rows)
    counts = [_of_all_rows(prior.counts[v], shape) for v, shape in shapes.items()]
    return FlatTables(shapes, np.cumsum(lengths) - lengths, lengths, np.concatenate(counts) + FLOOR)


def _of_all_rows(counts: Array, shape: tuple[int, ...]) -> Array:
    """Pseudo-counts of one row, or of all, for every cell of a table."""
    if counts.ndim == 1:
        return counts[None].repeat(math.prod(shape[:-1]), axis=0).ravel()
    return np.broadcast_to(counts, shape).ravel()


def make_prior(counts: Tables, strength: float = PSEUDO_COUNTS) -> Prior:
    """From the first counts; fixed from then on, so that the objective is one function."""
    found = {}
    for v, table in counts.items():
        marginal = table.reshape(-1, table.shape[-1]).sum(axis=0)
        if table.ndim == 1 or not marginal.any():
            marginal = np.ones(len(marginal))
        found[v] = strength * marginal / marginal.sum()
    return Prior(found)


def normalised(counts: Tables, prior: Prior) -> dict[int, Array]:
    """The M-step: every row of every table from its counts and pseudo-counts."""
    at = flattened(counts, prior)
    return at.tables(at.maximum(counts))


def free_parameters(tables: Tables) -> int:
    """Σ over table rows of states - 1."""
    return sum(t.size - t.size // t.shape[-1] for t in tables.values())


@final
@dataclass(frozen=True, slots=True)
class _Point:
    """Where the climb stands, and what one E-step tells of it."""

    x: Array  # the tables
    after: Array  # those of a step of EM
    level: float  # penalised log-likelihood
    fit: float  # without the prior
    u: Array  # √(n x)
    slope: Array  # EM(u) - u


@final
@dataclass(slots=True)
class _Memory:
    """Steps s and changes of slope y of the last points: an inverse Hessian (L-BFGS)."""

    pairs: list[tuple[Array, Array, float]]  # s, y, sᵀy

    def note(self, old: _Point, new: _Point) -> None:
        s, y = new.u - old.u, old.slope - new.slope
        bent, square = float(s @ y), float(s @ s)
        if bent > 0:
            y = y + max(0.0, FLAT - bent / square) * s
            self.pairs = [*self.pairs[1 - MEMORY :], (s, y, float(s @ y))]

    def direction(self, slope: Array) -> Array:
        """Newton's step as far as it is known; EM's own without a memory."""
        if not self.pairs:
            return slope
        d, shares = slope.copy(), []
        for s, y, bent in reversed(self.pairs):
            shares.append(float(s @ d) / bent)
            d -= shares[-1] * y
        _, y, bent = self.pairs[-1]
        d *= max(1.0, bent / float(y @ y))  # EM's steps are never too long
        for s, y, bent in self.pairs:
            d += s * (shares.pop() - float(y @ d) / bent)
        return d


def accelerate(
    start: Tables,
    prior: Prior,
    estep: EStepOf,
    enough: float = ENOUGH,
    most: int = MOST_STEPS,
    hold: Callable[[Tables], Tables] | None = None,
    patience: float = math.inf,
) -> Refined:
    """L-BFGS in units of EM, until the gain it foretells is small twice in a row.

    `hold` puts known cells back into tables. After `patience` E-steps more is small: (steps /
    patience)² times as much.
    """
    at, used = flattened(start, prior), 0
    root: Array | None = None  # √n

    def kept(x: Array) -> Array:
        return x if hold is None else at.pack(hold(at.tables(x)))

    def look(x: Array) -> _Point:
        nonlocal used, root
        used += 1
        counts, fit = estep(at.tables(x))
        total = at.pack(counts) + at.prior
        if root is None:
            root = np.sqrt(np.add.reduceat(total, at.starts)).repeat(at.lengths)
        after, u = kept(at.rows(total)), np.sqrt(x) * root
        return _Point(x, after, fit + at.log_prior(x), fit, u, np.sqrt(after) * root - u)

    here = look(at.pack(start))
    assert root is not None
    history = [here.level]
    memory, cap, quiet, gain = _Memory([]), FIRST_CAP, 0, math.inf
    while used + 2 <= most:
        d = memory.direction(here.slope)
        ahead = min(2 * float(here.slope @ d), REST * gain)
        small = enough * at.parameters * max(1.0, used / patience) ** 2
        told = len(memory.pairs) > 1 or gain < AT_REST * small
        quiet = quiet + 1 if ahead < small and told else 0
        if quiet >= 2:
            break
        there = None
        if memory.pairs:
            share = cap * _norm(here.slope) / max(_norm(d), 1e-300)
            far = look(kept(at.rows(stepped(here.x, here.u, d * min(1.0, share), root))))
            memory.note(here, far)
            if np.isfinite(far.level) and far.level >= here.level:
                there, cap = far, 2 * cap if share < 1 else cap
            else:
                cap = max(LEAST_CAP, cap / 2)
        if there is None:
            there = look(here.after)
            memory.note(here, there)
        gain, here = there.level - here.level, there
        history.append(here.level)
        tell_climb(used, gain)
    return Refined(at.tables(here.after), quiet >= 2, used, tuple(history), here.fit)


def stepped(x: Array, u: Array, d: Array, root: Array) -> Array:
    """Squares of u + d, in units of the tables x, none of them too small."""
    least = np.maximum(KEEP * np.sqrt(x), LEAST_ROOT)
    return np.asarray(np.maximum((u + d) / root, least) ** 2, dtype=float)


def _norm(x: Array) -> float:
    return math.sqrt(float(x @ x))
