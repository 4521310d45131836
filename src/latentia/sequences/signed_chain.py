"""A chain in closed form: a predictive state and an operator for every symbol (design 14).

b = E[φ(future) | past], φ = (1, canonical coordinates); P(x | past) is the first entry of B_x b,
and B_x b divided by it is the state behind x. The numbers are signed: what comes out below zero
is cut off and mixed with a little of the marginal before anybody sees it (design 6).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.sequences.packing import Indices, pack_steps
from latentia.typing import Array, Codes

LEAST = 1e-3  # of the marginal: a symbol less probable than that tells nothing of the state


@final
@dataclass(frozen=True, slots=True, eq=False)
class SignedChain:
    """Operators of joint symbols in K coordinates, the first of which is the constant."""

    operators: Array  # (symbols, K, K)
    start: Array  # (K,) the state before the first step of a sequence
    low: Array  # (K,) coordinates of futures that were seen: expectations lie between them
    high: Array
    sizes: tuple[int, ...]  # states of the columns; symbols are their joint states
    mix: float  # share of the marginal mixed into predictions; 0: none

    def __post_init__(self) -> None:
        m, k, same = self.operators.shape
        if k != same or m != int(np.prod(self.sizes)) or self.start.shape != (k,):
            raise ValueError("operators, state and symbols of a signed chain do not fit.")

    @property
    def rest(self) -> Array:
        """The state of a chain of which nothing is known: (K,)."""
        return np.asarray(np.eye(self.operators.shape[1])[0])

    @property
    def marginal(self) -> Array:
        """P(x) in the long run, (symbols,)."""
        found = np.maximum(self.operators[:, 0, 0], 0.0)
        return np.asarray(found / found.sum())


def predicted(chain: SignedChain, b: Array) -> Array:
    """P(x | past) of states (K, n): max(signed, 0) + mix · marginal, normalised: (symbols, n)."""
    signed = np.maximum(chain.operators[:, 0] @ b, 0.0) + chain.mix * chain.marginal[:, None]
    total = signed.sum(axis=0)
    sound = total > 0
    return np.where(sound, signed / np.where(sound, total, 1.0), chain.marginal[:, None])


def step_behind(chain: SignedChain, operators: Array, b: Array) -> tuple[Array, Array]:
    """States behind a step, (K, n), and how probable it was, signed; an operator for each state.

    Where the step is as good as impossible, the state is that of a chain at rest behind it.
    """
    behind = np.matmul(operators, b.T[:, :, None])[:, :, 0].T  # (K, n)
    likely, usual = behind[0], operators[:, 0, 0]
    good = likely > (LEAST * np.maximum(usual, 0.0) if chain.mix else 0.0)
    if not good.all():
        at_rest = np.where(usual > 0, operators[:, :, 0].T, chain.rest[:, None])
        behind = np.where(good, behind, at_rest)
    found = behind / behind[0]
    if chain.mix:
        found = np.clip(found, chain.low[:, None], chain.high[:, None])
    return found, likely


@final
@dataclass(frozen=True, slots=True, eq=False)
class SignedSteps:
    """What is told at every step: which symbols can be. Most steps tell a single one."""

    which: Indices  # (steps,) number of the operator
    operators: Array  # (kinds, K, K): of symbols, then of partly missing steps
    symbols: Array  # (kinds, symbols) which of them each can be


def told_steps(chain: SignedChain, cells: Array) -> SignedSteps:
    """Of codes (steps, columns), -1 where missing: sums over what they may be."""
    whole = (cells >= 0).all(axis=1)
    which = np.zeros(len(cells), dtype=np.intp)
    m = len(chain.operators)
    if whole.any():
        which[whole] = np.ravel_multi_index(tuple(cells[whole].T), chain.sizes)
    rows, number = np.unique(cells[~whole], axis=0, return_inverse=True)
    which[~whole] = m + np.ravel(number)
    states = np.stack(np.unravel_index(np.arange(m), chain.sizes), axis=1)  # (symbols, columns)
    can = ((rows[:, None] < 0) | (rows[:, None] == states)).all(axis=2).astype(float)
    sums = np.tensordot(can, chain.operators, 1)
    return SignedSteps(
        which, np.concatenate([chain.operators, sums]), np.concatenate([np.eye(m), can])
    )


Heard = Callable[[Codes, Array], None]  # steps (numbers), and the states before them, (K, n)


def run_forward(
    chain: SignedChain, cells: Array, offsets: Indices, before: Heard | None = None
) -> tuple[Array, Array]:
    """log P(step | steps before), (steps,), and the states behind every sequence: (K, sequences).

    `before` hears the states before every step, one step of all sequences after the other.
    """
    told = told_steps(chain, cells)
    lengths = np.diff(offsets)
    level = np.zeros(len(cells))
    ends = np.repeat(chain.start[:, None], len(lengths), axis=1)
    if not len(cells):
        return level, ends
    packing = pack_steps(offsets, int(lengths.max()))
    whose = np.searchsorted(offsets, packing.order[: packing.bounds[1]], side="right") - 1
    b = ends[:, whose]
    for t in range(len(packing.bounds) - 1):
        here = packing.order[packing.bounds[t] : packing.bounds[t + 1]]
        if len(here) < b.shape[1]:
            ends[:, whose[len(here) : b.shape[1]]] = b[:, len(here) :]
            b = b[:, : len(here)]
        if before is not None:
            before(here, b)
        which = told.which[here]
        p = (told.symbols[which].T * predicted(chain, b)).sum(axis=0)
        with np.errstate(divide="ignore"):
            level[here] = np.log(p)
        b, _ = step_behind(chain, told.operators[which], b)
    ends[:, whose[: b.shape[1]]] = b
    return level, ends
