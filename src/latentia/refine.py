"""Refinement: accelerated, monotone MAP-EM on a positive network (design 4.3, step 3).

Each E-step is one more fold. Tables are extrapolated on their square roots (SQUAREM); a long step
that lowers the penalised likelihood is taken back, so that the path never falls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np

from latentia.typing import Array

__all__ = ["Prior", "Refined", "accelerate", "free_parameters", "make_prior", "normalised"]

Tables: TypeAlias = Mapping[int, Array]  # variable -> (parents …, itself)
EStepOf: TypeAlias = Callable[[Tables], tuple[Tables, float]]  # expected counts, log-likelihood

PSEUDO_COUNTS = 2.0  # 1 to 5 differ little; more blurs near-deterministic tables
FIRST_CAP = 4.0
ENOUGH = 5e-3  # gain per free parameter, over two cycles: far below what noise is worth
MOST_STEPS = 300
FLOOR = 1e-10


@final
@dataclass(frozen=True, slots=True)
class Prior:
    """Pseudo-counts towards the target's own marginal, for every row of every table."""

    counts: Mapping[int, Array]  # variable -> (states,)

    def log_density(self, tables: Tables) -> float:
        """Σ over table rows of Σ_x a_x log T(x | row), up to a constant."""
        total = 0.0
        for v, a in self.counts.items():
            flat = tables[v].reshape(-1, len(a))
            total += float((np.log(np.maximum(flat, 1e-300)) @ a).sum())
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


def make_prior(counts: Tables, strength: float = PSEUDO_COUNTS) -> Prior:
    """From the first counts; fixed from then on, so that the objective is one function."""
    found = {}
    for v, table in counts.items():
        marginal = table.reshape(-1, table.shape[-1]).sum(axis=0)
        marginal = marginal + 1.0 / len(marginal)
        if table.ndim == 1:
            marginal = np.ones(len(marginal))
        found[v] = strength * marginal / marginal.sum()
    return Prior(found)


def normalised(counts: Tables, prior: Prior) -> dict[int, Array]:
    """The M-step: every row of every table from its counts and pseudo-counts."""
    found = {}
    for v, table in counts.items():
        flat = table.reshape(-1, table.shape[-1]) + prior.counts[v] + FLOOR
        found[v] = (flat / flat.sum(axis=1, keepdims=True)).reshape(table.shape)
    return found


def free_parameters(tables: Tables) -> int:
    """Σ over table rows of states - 1."""
    return sum(t.size - t.size // t.shape[-1] for t in tables.values())


def accelerate(
    start: Tables, prior: Prior, estep: EStepOf, enough: float = ENOUGH, most: int = MOST_STEPS
) -> Refined:
    """SQUAREM with a step cap that doubles when hit and quarters on rejection."""
    used = 0

    def climb(tables: Tables) -> tuple[dict[int, Array], float, float]:
        nonlocal used
        used += 1
        counts, fit = estep(tables)
        return normalised(counts, prior), fit + prior.log_density(tables), fit

    current: dict[int, Array] = dict(start)
    history: list[float] = []
    cap, quiet, fit = FIRST_CAP, 0, -math.inf
    while used + 3 <= most:
        one, _, _ = climb(current)
        two, before, fit_one = climb(one)
        far, length = _extrapolated(current, one, two, cap)
        after, value, fit_far = climb(far)
        cap = 2 * cap if length >= cap else cap
        if value >= before and np.isfinite(value):
            current, level, fit = after, value, fit_far
        else:
            current, level, fit, cap = two, before, fit_one, max(FIRST_CAP, cap / 4)
        gain = level - history[-1] if history else math.inf
        history.append(level)
        quiet = quiet + 1 if gain < enough * free_parameters(current) / 2 else 0
        if quiet >= 2:
            break
    return Refined(current, quiet >= 2, used, tuple(history), fit)


def _extrapolated(a: Tables, b: Tables, c: Tables, cap: float) -> tuple[dict[int, Array], float]:
    """√a + 2α r + α² v on square roots, back to tables; and the α that was used."""
    r = {v: np.sqrt(b[v]) - np.sqrt(a[v]) for v in a}
    w = {v: np.sqrt(c[v]) - np.sqrt(b[v]) - r[v] for v in a}
    size = math.sqrt(sum(float((x**2).sum()) for x in r.values()))
    bend = math.sqrt(sum(float((x**2).sum()) for x in w.values()))
    alpha = max(1.0, min(size / max(bend, 1e-12), cap))
    found = {}
    for v in a:
        root = np.sqrt(a[v]) + 2 * alpha * r[v] + alpha**2 * w[v]
        table = np.maximum(root, 1e-5) ** 2
        found[v] = table / table.sum(axis=-1, keepdims=True)
    return found, alpha
