"""Moments of windows: what the past of a step tells of its future, in closed form.

Every position of every sequence gives a past p and a future f of a few steps each. Canonical
coordinates of the two, of rank K, are a predictive state; E[f⁺ ⊗ 1_x ⊗ p] in these coordinates are
the operators of a predictive-state model, whose eigenvectors are P(x | state).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import scipy

from latentia.linear_algebra import Canonical, canonical
from latentia.sequences.hidden_states import ChainLayout
from latentia.sequences.packing import Indices
from latentia.sequences.step_data import Sequences
from latentia.typing import Array, Foreign

STEPS = 3  # of a window, each side
MOST_FEATURES = 64  # of a column at one step: rare states share the last
CELLS = 8  # of a continuous column, of equal weight
PAIRS_UP_TO = 16  # features of a step, for pairs of steps to be features as well
RIDGE = 0.1  # over √positions


@final
@dataclass(frozen=True, slots=True)
class StepWindows:
    """Symbols of every step, positions with whole windows, and their canonical coordinates."""

    symbols: tuple[Indices, ...]  # of each column, (steps,), -1 where missing
    counts: tuple[int, ...]
    positions: Indices  # t: the past ends at t − 1, the future begins at t
    past: Foreign  # sparse (positions, features)
    future: Foreign
    found: Canonical  # U of futures, V of pasts

    def states(self) -> Array:
        """What the past tells of the future at each position: (positions, K)."""
        return np.asarray(self.past @ self.found.V) * self.found.d

    def both(self) -> Array:
        """What past and future tell: (positions, 2 K)."""
        U, V, d = self.found.U, self.found.V, self.found.d
        return np.hstack([(self.past @ V) * d, (self.future @ U) * d])


def symbols_of(
    layout: ChainLayout, sequences: Sequences
) -> tuple[tuple[Indices, ...], tuple[int, ...]]:
    """Discrete columns as they are, rare states together; continuous ones in cells."""
    found, counts = [], []
    for v in layout.slice.columns:
        x = sequences.cells[v]
        if layout.sizes[v]:
            code, count = _common(np.asarray(x, dtype=np.intp), layout.sizes[v])
        else:
            there = x[~np.isnan(x)]
            cuts = np.quantile(there, np.arange(1, CELLS) / CELLS) if len(there) else np.zeros(0)
            cuts = np.unique(cuts)
            count = len(cuts) + 1
            code = np.where(np.isnan(x), -1, np.searchsorted(cuts, x))
        found.append(code)
        counts.append(count)
    return tuple(found), tuple(counts)


def _common(x: Indices, states: int) -> tuple[Indices, int]:
    if states <= MOST_FEATURES:
        return x, states
    often = np.argsort(-np.bincount(x[x >= 0], minlength=states), kind="stable")
    number = np.full(states, MOST_FEATURES - 1)
    number[often[: MOST_FEATURES - 1]] = np.arange(MOST_FEATURES - 1)
    return np.where(x < 0, -1, number[x]), MOST_FEATURES


def look_through_windows(
    layout: ChainLayout, sequences: Sequences, rank: int
) -> StepWindows | None:
    """Coordinates of rank K − 1 and a constant; None where sequences are too short."""
    symbols, counts = symbols_of(layout, sequences)
    for width in range(STEPS, 0, -1):
        positions = _positions(sequences, width)
        if len(positions) >= 20 * rank:
            break
    else:
        return None
    past = _features(symbols, counts, positions, range(-1, -width - 1, -1))
    future = _features(symbols, counts, positions, range(width))
    n = len(positions)
    ridge = RIDGE / np.sqrt(n)
    S_ff, S_pp, S_fp = (
        _moment(a, b, n) for a, b in ((future, future), (past, past), (future, past))
    )
    found = canonical(_ridged(S_ff, ridge), S_fp, _ridged(S_pp, ridge), rank)
    return (
        None if not len(found.d) else StepWindows(symbols, counts, positions, past, future, found)
    )


def _moment(a: Foreign, b: Foreign, n: int) -> Array:
    return np.asarray((a.T @ b).toarray()) / n


def _ridged(S: Array, ridge: float) -> Array:
    return S + ridge * np.eye(len(S))


def _positions(sequences: Sequences, width: int) -> Indices:
    """Steps with so many before them, and so many from them on."""
    spans = [np.arange(s.start + width, s.stop - width + 1) for s in sequences]
    return np.concatenate([*spans, np.zeros(0, dtype=np.intp)]).astype(np.intp)


def _features(
    symbols: tuple[Indices, ...], counts: tuple[int, ...], positions: Indices, lags: range
) -> Foreign:
    """Indicators of the symbols at some lags: sparse (positions, features)."""
    parts = [
        indicators(x[positions + lag], m)
        for lag in lags
        for x, m in zip(symbols, counts, strict=True)
    ]
    if len(lags) > 1 and sum(counts) <= PAIRS_UP_TO:
        for x, m in zip(symbols, counts, strict=True):
            a, b = x[positions + lags[0]], x[positions + lags[1]]
            parts.append(indicators(np.where((a < 0) | (b < 0), -1, a * m + b), m * m))
    return scipy.sparse.hstack(parts, format="csr")


def indicators(codes: Indices, count: int) -> Foreign:
    """A one in each row at its code, none where it is missing: sparse (n, count)."""
    there = codes >= 0
    ends = np.concatenate([[0], np.cumsum(there)])
    return scipy.sparse.csr_matrix(
        (np.ones(ends[-1]), codes[there], ends), shape=(len(codes), count)
    )
