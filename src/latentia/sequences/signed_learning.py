"""The closed form of a chain: moments of windows at all positions, summed (design 14).

A past p, a symbol x and a future f⁺ behind it make a window. First pass: pairs, from which come
canonical coordinates ψ(p), φ(f) of f = (x, …). Second pass: E[φ(f⁺) 1_x ψ(p)ᵀ], whose product with
E[φ(f) ψ(p)ᵀ]⁻¹ are the operators: two-stage regression with all separators of the chain tied.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import final

import numpy as np
from scipy.sparse import hstack

from latentia.data.moments import Moments
from latentia.errors import DataError, GraphError
from latentia.linear_algebra import canonical, one_thread
from latentia.sequences.hidden_states import ChainLayout
from latentia.sequences.packing import Indices
from latentia.sequences.signed_chain import SignedChain
from latentia.sequences.step_data import Sequences
from latentia.sequences.window_moments import PAIRS_UP_TO, RIDGE, STEPS, indicators
from latentia.typing import Array, Foreign

MOST_SYMBOLS = 512  # joint states of the columns of a step
MOST_STATES = 128  # coordinates
CHUNK = 2**14  # windows at a time
ENOUGH = 20  # windows for each coordinate, or windows get shorter


@final
@dataclass(frozen=True, slots=True, eq=False)
class SymbolWindows:
    """Symbols of some windows, (windows, 2 w + 1), how much each counts, and how many there are."""

    symbols: Indices
    weight: Array
    count: int

    @property
    def width(self) -> int:
        return int(self.symbols.shape[1]) // 2

    @property
    def here(self) -> Indices:
        return np.asarray(self.symbols[:, self.width])

    def past(self) -> Foreign:
        """Features of the steps before, the nearest first: sparse (windows, features)."""
        return _features(self.symbols[:, self.width - 1 :: -1], self.count)

    def future(self, behind: int) -> Foreign:
        """Of this step and the next, or of those behind it."""
        at = self.width + behind
        return _features(self.symbols[:, at : at + self.width], self.count)


def _features(symbols: Indices, count: int) -> Foreign:
    """Indicators of every step, and of pairs of the two nearest where they are few."""
    parts = [indicators(x, count) for x in symbols.T]
    if symbols.shape[1] > 1 and count <= PAIRS_UP_TO:
        parts.append(indicators(symbols[:, 0] * count + symbols[:, 1], count**2))
    return hstack(parts, format="csr")


def learn_signed(layout: ChainLayout, sequences: Sequences, regularize: bool) -> SignedChain:
    """From all windows without a hole."""
    sizes = tuple(layout.sizes[v] for v in layout.slice.columns)
    _check(layout, sizes)
    states = state_bound(layout)
    cells = np.stack([sequences.cells[v] for v in layout.slice.columns], axis=1).astype(np.intp)
    whole = (cells >= 0).all(axis=1)
    symbols = np.where(whole, np.ravel_multi_index(tuple(np.maximum(cells, 0).T), sizes), -1)
    for width in range(STEPS, 0, -1):
        at = window_positions(symbols, sequences, width)
        if len(at) >= ENOUGH * states:
            break
    if len(at) < 2:
        raise DataError(
            f"the closed form needs sequences of at least 3 steps without missing cells, and "
            f"found {len(at)} window(s) of them. Fit with learner=None."
        )
    firsts = _first_windows(symbols, sequences, width)
    chunks = _Chunks(symbols, at, width, math.prod(sizes))
    return solve_windows(chunks, sizes, states, regularize, firsts)


def _check(layout: ChainLayout, sizes: tuple[int, ...]) -> None:
    names = layout.slice.names
    instead = "Fit with learner=None, which can."
    if layout.slice.given:
        name = names[min(layout.slice.given)]
        raise GraphError(f"the closed form of a chain has no inputs, such as {name!r}. {instead}")
    for v in layout.slice.columns:
        if not layout.sizes[v]:
            raise DataError(
                f"the closed form of a chain is for discrete columns, and {names[v]!r} is "
                f'continuous. Cut it into states (kinds={{{names[v]!r}: "discrete"}} if it has few '
                f"values), or leave it out. {instead}"
            )
    if math.prod(sizes) > MOST_SYMBOLS:
        raise DataError(
            f"the closed form of a chain takes columns of at most {MOST_SYMBOLS} joint states a "
            f"step, and these have {math.prod(sizes):,}. {instead}"
        )
    if state_bound(layout) > MOST_STATES:
        raise DataError(
            f"the closed form of a chain takes at most {MOST_STATES} joint states of what is "
            f"remembered from step to step, and there are {state_bound(layout):,}. {instead}"
        )


def state_bound(layout: ChainLayout) -> int:
    """How many numbers the past can tell of the future: states of what stands between them.

    Either all that tells the next step, or the latents of the next step and what tells its columns.
    """
    slice_, sizes = layout.slice, layout.sizes
    tells = {u for above in slice_.parents for u, lag in above if lag}
    shown = {u for v in slice_.columns for u, lag in slice_.parents[v] if lag}
    between = (
        math.prod(sizes[u] for u in tells),
        math.prod(sizes[u] for u in slice_.latent) * math.prod(sizes[u] for u in shown),
    )
    return max(1, min(between))


def window_positions(symbols: Indices, sequences: Sequences, width: int) -> Indices:
    """Steps with so many whole ones before and behind them."""
    lengths = np.diff(sequences.offsets)
    at = np.arange(len(symbols)) - np.repeat(sequences.offsets[:-1], lengths)
    room = (at >= width) & (np.repeat(lengths, lengths) - at > width)
    holes = np.concatenate([[0], np.cumsum(symbols < 0)])
    steps = np.flatnonzero(room)
    return np.asarray(steps[holes[steps + width + 1] == holes[steps - width]])


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Chunks:
    """SymbolWindows around some steps, a chunk at a time, as often as they are asked for."""

    symbols: Indices
    at: Indices
    width: int
    count: int

    def __iter__(self) -> Iterator[SymbolWindows]:
        lags = np.arange(-self.width, self.width + 1)
        for start in range(0, len(self.at), CHUNK):
            at = self.at[start : start + CHUNK]
            yield SymbolWindows(self.symbols[at[:, None] + lags], np.ones(len(at)), self.count)


def _first_windows(symbols: Indices, sequences: Sequences, width: int) -> Indices:
    """The first steps of sequences that have so many, none missing: (sequences, width)."""
    long = np.diff(sequences.offsets) >= width
    found = symbols[sequences.offsets[:-1][long][:, None] + np.arange(width)]
    return np.asarray(found[(found >= 0).all(axis=1)])


# --- two passes ----------------------------------------------------------------------------------


def sum_window_pairs(windows: SymbolWindows) -> Moments:
    """Pass 1: Σ of past, future, and all their pairs."""
    past, future, weight = windows.past(), windows.future(0), windows.weight
    weighed = future.T.multiply(weight).tocsr()
    sums = {
        "p": np.asarray(past.T @ weight),
        "f": np.asarray(future.T @ weight),
        "pp": (past.T.multiply(weight) @ past).toarray(),
        "ff": (weighed @ future).toarray(),
        "fp": (weighed @ past).toarray(),
    }
    return Moments("pairs of windows", float(weight.sum()), len(weight), sums)


@final
@dataclass(frozen=True, slots=True, eq=False)
class StepBasis:
    """Coordinates of pasts and futures: 1, and Uᵀ of centred features; gains are of regression."""

    past: Array  # (features, K − 1)
    future: Array
    past_mean: Array  # (K − 1,) in coordinates
    future_mean: Array
    gains: Array  # (K,) what stands for 1 / correlation; 1 of the constant

    def of_past(self, features: Foreign) -> Array:
        """ψ(p): (windows, K)."""
        return _with_one(features @ self.past - self.past_mean)

    def of_future(self, features: Foreign) -> Array:
        """φ(f): (windows, K)."""
        return _with_one(features @ self.future - self.future_mean)


def _with_one(x: Array) -> Array:
    return np.concatenate([np.ones((len(x), 1)), x], axis=1)


def step_basis(pairs: Moments, states: int, regularize: bool) -> StepBasis:
    """Canonical coordinates of centred features, at most K − 1 of them beside the constant."""
    n = pairs.weight
    p, f = pairs.sums["p"] / n, pairs.sums["f"] / n
    S_pp, S_ff, S_fp = (
        pairs.sums[name] / n - np.outer(a, b)
        for name, a, b in (("pp", p, p), ("ff", f, f), ("fp", f, p))
    )
    ridge = RIDGE / np.sqrt(n) if regularize else 0.0
    with one_thread():
        found = canonical(
            S_ff + ridge * np.eye(len(f)), S_fp, S_pp + ridge * np.eye(len(p)), states - 1
        )
    d = found.d
    noise = (np.sqrt(len(p)) + np.sqrt(len(f))) / np.sqrt(n) if regularize else 0.0
    gains = np.concatenate([[1.0], d / (d**2 + noise**2 / 2.0)])
    return StepBasis(found.V, found.U, p @ found.V, f @ found.U, gains)


def sum_window_products(basis: StepBasis, windows: SymbolWindows) -> Moments:
    """Pass 2: Σ φ(f⁺) 1_x ψ(p)ᵀ, (symbols, K, K)."""
    behind, past = basis.of_future(windows.future(1)), basis.of_past(windows.past())
    outer = (behind * windows.weight[:, None])[:, :, None] * past[:, None, :]
    pick = indicators(windows.here, windows.count)
    total = np.asarray(pick.T @ outer.reshape(len(past), -1))
    sums = {"fxp": total.reshape(windows.count, behind.shape[1], past.shape[1])}
    return Moments("products of windows", float(windows.weight.sum()), len(past), sums)


def solve_windows(
    parts: Iterable[SymbolWindows],
    sizes: tuple[int, ...],
    states: int,
    regularize: bool,
    firsts: Indices | None = None,
) -> SignedChain:
    """Operators from windows, read twice; `firsts` are the first symbols of sequences."""
    pairs = reduce(add, (sum_window_pairs(part) for part in parts))
    basis = step_basis(pairs, states, regularize)
    products = reduce(add, (sum_window_products(basis, part) for part in parts))
    n = products.weight
    M = products.sums["fxp"] / n
    if regularize:
        noise = _noise(M[:, 0, 0], n)
        kept = M**2 / (M**2 + noise)
        kept[:, 0, 0] = 1.0
        M = M * kept
    futures = [basis.of_future(part.future(0)) for part in parts]
    low = np.min([f.min(axis=0) for f in futures], axis=0)
    high = np.max([f.max(axis=0) for f in futures], axis=0)
    start = np.eye(len(basis.gains))[0]
    if firsts is not None and len(firsts):
        begun = basis.of_future(_features(firsts, math.prod(sizes))).mean(axis=0)
        start[1:] = shrunk_start(begun[1:], len(firsts))
    mix = float(n**-0.5) if regularize else 0.0
    return SignedChain(M * basis.gains, start, low, high, sizes, mix)


def _noise(share: Array, n: float) -> Array:
    """Variance of an entry of E[φ 1_x ψ]: at most that of 1_x, as coordinates have variance 1."""
    return 2.0 * np.maximum(share, 1.0 / n)[:, None, None] / n


def shrunk_start(mean: Array, sequences: int) -> Array:
    """Mean coordinates of first futures, the less of them the fewer there are (James-Stein)."""
    size = float(mean @ mean)
    return mean * max(0.0, 1.0 - len(mean) / (sequences * size)) if size > 0 else mean
