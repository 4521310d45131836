"""Refinement: accelerated, monotone MAP-EM on a positive network (design 4.3, step 3).

Each E-step is one more fold. Tables are extrapolated on their square roots (SQUAREM); a long step
that lowers the penalised likelihood is taken back, so that the path never falls. All tables lie one
after the other in a single array, so that small ones cost as little as they should.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np

from latentia.typing import Array, Codes

__all__ = ["Prior", "Refined", "accelerate", "free_parameters", "make_prior", "normalised"]

Tables: TypeAlias = Mapping[int, Array]  # variable -> (parents …, itself)
EStepOf: TypeAlias = Callable[[Tables], tuple[Tables, float]]  # expected counts, log-likelihood

PSEUDO_COUNTS = 1.0  # more helps a little at 1,000 rows, and blurs sharp tables at 10,000
FIRST_CAP = 4.0
ENOUGH = 1e-2  # gain per free parameter, over two cycles: far below what noise is worth
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
    history: tuple[float, ...]  # penalised log-likelihood after each cycle
    log_likelihood: float


@final
@dataclass(frozen=True, slots=True)
class _Flat:
    """Where the tables lie in one array, and the pseudo-counts there."""

    shapes: Mapping[int, tuple[int, ...]]  # variable -> shape of its table, in order
    starts: Codes  # where each row of a table starts
    lengths: Codes
    prior: Array

    def pack(self, tables: Tables) -> Array:
        return np.concatenate([tables[v].ravel() for v in self.shapes])

    def tables(self, x: Array) -> dict[int, Array]:
        found, start = {}, 0
        for v, shape in self.shapes.items():
            stop = start + math.prod(shape)
            found[v] = x[start:stop].reshape(shape)
            start = stop
        return found

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


def _flat(tables: Tables, prior: Prior) -> _Flat:
    shapes = {v: table.shape for v, table in tables.items()}
    lengths = np.concatenate([np.full(t.size // t.shape[-1], t.shape[-1]) for t in tables.values()])
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    counts = [np.broadcast_to(prior.counts[v], t.shape).ravel() for v, t in tables.items()]
    return _Flat(shapes, starts, lengths, np.concatenate(counts) + FLOOR)


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
    at = _flat(counts, prior)
    return at.tables(at.maximum(counts))


def free_parameters(tables: Tables) -> int:
    """Σ over table rows of states - 1."""
    return sum(t.size - t.size // t.shape[-1] for t in tables.values())


def accelerate(
    start: Tables,
    prior: Prior,
    estep: EStepOf,
    enough: float = ENOUGH,
    most: int = MOST_STEPS,
    hold: Callable[[Tables], Tables] | None = None,
) -> Refined:
    """SQUAREM with a step cap that doubles when hit and quarters on rejection.

    `hold` puts known cells back into tables.
    """
    at, used = _flat(start, prior), 0

    def kept(x: Array) -> Array:
        return x if hold is None else at.pack(hold(at.tables(x)))

    def climb(x: Array) -> tuple[Array, float, float]:
        nonlocal used
        used += 1
        counts, fit = estep(at.tables(x))
        return kept(at.maximum(counts)), fit + at.log_prior(x), fit

    current = at.pack(start)
    history: list[float] = []
    cap, quiet, fit = FIRST_CAP, 0, -math.inf
    while used + 3 <= most:
        one, _, _ = climb(current)
        two, before, fit_one = climb(one)
        far, length = _extrapolated(at, current, one, two, cap)
        after, value, fit_far = climb(kept(far))
        cap = 2 * cap if length >= cap else cap
        if value >= before and np.isfinite(value):
            current, level, fit = after, value, fit_far
        else:
            current, level, fit, cap = two, before, fit_one, max(FIRST_CAP, cap / 4)
        gain = level - history[-1] if history else math.inf
        history.append(level)
        quiet = quiet + 1 if gain < enough * at.parameters / 2 else 0
        if quiet >= 2:
            break
    return Refined(at.tables(current), quiet >= 2, used, tuple(history), fit)


def _extrapolated(at: _Flat, a: Array, b: Array, c: Array, cap: float) -> tuple[Array, float]:
    """√a + 2α r + α² v on square roots, back to tables; and the α that was used."""
    root_a, root_b = np.sqrt(a), np.sqrt(b)
    r = root_b - root_a
    v = np.sqrt(c) - root_b - r
    size, bend = math.sqrt(float(r @ r)), math.sqrt(float(v @ v))
    alpha = max(1.0, min(size / max(bend, 1e-12), cap))
    root = root_a + 2 * alpha * r + alpha**2 * v
    return at.rows(np.maximum(root, 1e-5) ** 2), alpha
