"""Linear algebra with its trouble reported: ridge, truncated inverse, canonical correlations."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any, final

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri
from threadpoolctl import ThreadpoolController

from latentia.typing import Array

ROOT_CUT = 1e-8  # directions of relative variance below this are none
SOUND = 1e-5  # pivots, as shares of the largest, down to which no direction is in doubt
CORRELATION_CUT = 1e-12


@final
class _OneThread:
    """The first of several threads to come in sets the limit, the last to leave lifts it.

    The limit belongs to the process: if each thread put back what it found, the last one to leave
    could put back the limit of another, for good.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.inside = 0
        self.limit: Any = None

    def __enter__(self) -> None:
        with self.lock:
            if self.inside == 0:
                self.limit = _controller().limit(limits=1, user_api="blas")
            self.inside += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0:
                self.limit.restore_original_limits()
                self.limit = None


_ONE_THREAD = _OneThread()


def one_thread() -> AbstractContextManager[Any]:
    """BLAS on one thread: thousands of small factorisations only wait for each other on more."""
    return _ONE_THREAD


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@final
@dataclass(frozen=True, slots=True)
class Solution:
    """W with W X ≈ Y, the rank used, and the condition of what was inverted."""

    value: Array
    rank: int
    condition: float


@final
@dataclass(frozen=True, slots=True)
class Ridge:
    """Y Xᵀ (X Xᵀ + λI)⁻¹, through the SVD of X so that its condition is not squared."""

    strength: float

    def __call__(self, X: Array, Y: Array) -> Solution:
        u, s, vt = np.linalg.svd(X, full_matrices=False)
        gain = s / (s**2 + self.strength)
        condition = float(np.sqrt((s[0] ** 2 + self.strength) / (s[-1] ** 2 + self.strength)))
        return Solution(((Y @ vt.T) * gain) @ u.T, len(s), condition)


@final
@dataclass(frozen=True, slots=True)
class Truncated:
    """Y X⁺ over at most `rank` leading directions of X, those above `cut` times the largest."""

    rank: int | None = None
    cut: float = 1e-12

    def __call__(self, X: Array, Y: Array) -> Solution:
        u, s, vt = np.linalg.svd(X, full_matrices=False)
        keep = int((s > self.cut * max(float(s[0]), 1e-300)).sum())
        keep = keep if self.rank is None else min(keep, self.rank)
        if keep == 0:
            return Solution(np.zeros((len(Y), len(X))), 0, np.inf)
        u, s, vt = u[:, :keep], s[:keep], vt[:keep]
        return Solution(((Y @ vt.T) / s) @ u.T, keep, float(s[0] / s[-1]))


def whitener(S: Array, cut: float = ROOT_CUT) -> Array:
    """R (p, k) with Rᵀ S R = I over the k directions of S that carry variance."""
    if not S.size:
        return np.zeros((len(S), 0))
    L, trouble = dpotrf(S, lower=1)  # any root will do, and this one is several times as fast
    pivots = np.diagonal(L) ** 2
    if not trouble and pivots.min() > max(cut, SOUND) * pivots.max():
        return np.asarray(dtrtri(L, lower=1)[0].T, dtype=float)
    values, Q = np.linalg.eigh(S)
    keep = values > cut * max(float(values[-1]), 1e-300)
    return np.asarray(Q[:, keep] / np.sqrt(values[keep]), dtype=float)


@final
@dataclass(frozen=True, slots=True)
class Canonical:
    """Un-whitened directions: Uᵀ S_aa U = I, Vᵀ S_bb V = I, Uᵀ S_ab V = diag(d), 0 < d ≤ 1."""

    U: Array  # (p, k)
    V: Array  # (q, k)
    d: Array  # (k,), falling
    beyond: float = 0.0  # the largest correlation that was left out


def canonical(S_aa: Array, S_ab: Array, S_bb: Array, most: int) -> Canonical:
    """At most `most` pairs of canonical directions between a and b."""
    R_a, R_b = whitener(S_aa), whitener(S_bb)
    if most <= 0 or R_a.shape[1] == 0 or R_b.shape[1] == 0:
        return Canonical(np.zeros((len(S_aa), 0)), np.zeros((len(S_bb), 0)), np.zeros(0))
    u, d, vt = np.linalg.svd(R_a.T @ S_ab @ R_b, full_matrices=False)
    keep = min(most, int((d > CORRELATION_CUT).sum()))
    beyond = float(d[keep]) if keep < len(d) else 0.0
    return Canonical(R_a @ u[:, :keep], R_b @ vt[:keep].T, np.minimum(d[:keep], 1.0), beyond)
