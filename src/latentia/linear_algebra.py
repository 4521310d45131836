"""Linear algebra with its trouble reported: decompositions that fail on finite numbers try again.

LAPACK's fast drivers (divide and conquer) can fail to converge; slower ones then do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING, final

import numpy as np

from latentia.errors import DataError
from latentia.typing import Array, CellArray, Foreign

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

ROOT_CUT = 1e-8  # directions of relative variance below this are none
SOUND = 1e-5  # pivots, as shares of the largest, down to which no direction is in doubt
CORRELATION_CUT = 1e-12
LATER = "scipy.linalg"
NARROW = 256  # states of all columns: a block is multiplied in hundredths of a second


@final
class _OneThread:
    """The first of several threads to come in sets the limit, the last to leave lifts it.

    The limit belongs to the process: if each thread put back what it found, the last one to leave
    could put back the limit of another, for good.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.inside = 0
        self.limit: Foreign = None

    def __enter__(self) -> None:
        with self.lock:
            if self.inside == 0:
                self.limit = _controller(LATER in sys.modules).limit(limits=1, user_api="blas")
            self.inside += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.inside -= 1
            if self.inside == 0:
                self.limit.restore_original_limits()
                self.limit = None


_ONE_THREAD = _OneThread()


def one_thread() -> AbstractContextManager[object]:
    """BLAS on one thread: thousands of small factorisations only wait for each other on more."""
    return _ONE_THREAD


def threads_of_products(cells: int) -> AbstractContextManager[object]:
    """BLAS on one thread where rows have few cells: blocks of rows are beside each other anyway.

    Products of a thousand rows by some dozens of states are over before a second thread has come:
    waiting for it took as much processor time as all the rest of a fit, and with continuous
    columns, on cores that others used as well, twenty times as much.
    """
    return one_thread() if cells <= NARROW else nullcontext()


@cache
def _controller(later: bool) -> ThreadpoolController:
    """Of the libraries that are loaded; `later`: scipy's own, which comes when needed, too."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@cache
def _linalg() -> ModuleType:
    """scipy's, loaded when it is needed first: a question to a small model does without."""
    return import_module(LATER)


# --- decompositions -------------------------------------------------------------------------------


def svd(X: Array) -> tuple[Array, Array, Array]:
    """U (p, k), falling singular values (k,), Vᵀ (k, q) of X (p, q), k = min(p, q)."""
    try:
        u, s, vt = np.linalg.svd(X, full_matrices=False)
    except np.linalg.LinAlgError:
        u, s, vt = _slow_svd(X)
    if not np.isfinite(s).all():
        raise _undecomposed("singular values", X)
    return u, s, vt


def _svd_of_row(X: Array) -> tuple[Array, Array, Array]:
    """The same of one row, (1, q), which is its own direction."""
    most = float(np.abs(X).max(initial=0.0))
    if not 1e-150 < most < 1e150:  # squares would be beyond all numbers; or there is no direction
        return svd(X)
    size = float(np.sqrt(X[0] @ X[0]))
    return np.ones((1, 1)), np.array([size]), X / size


def _slow_svd(X: Array) -> tuple[Array, Array, Array]:
    if not np.isfinite(X).all():
        raise _undecomposed("singular values", X)
    try:
        u, s, vt = _linalg().svd(X, full_matrices=False, lapack_driver="gesvd")
    except np.linalg.LinAlgError:
        raise _undecomposed("singular values", X) from None
    return np.asarray(u), np.asarray(s), np.asarray(vt)


def singular_values(X: Array) -> Array:
    """Of X (p, q), falling: (min(p, q),)."""
    try:
        s = np.linalg.svd(X, compute_uv=False)
    except np.linalg.LinAlgError:
        s = _slow_svd(X)[1]
    if not np.isfinite(s).all():
        raise _undecomposed("singular values", X)
    return np.asarray(s)


def rank_above_rounding(X: Array) -> int:
    """Singular values above rounding of the largest.

    >>> rank_above_rounding(np.array([[1.0, 2.0], [2.0, 4.0]]))
    1
    """
    values = singular_values(X)
    top = float(values.max(initial=0.0))
    return int((values > top * max(X.shape) * np.finfo(float).eps).sum())


def condition_number(X: Array) -> float:
    """The largest singular value over the smallest; inf of a matrix that has no inverse."""
    values = singular_values(X)
    return float(values.max() / values.min()) if values.min(initial=np.inf) > 0 else float(np.inf)


def eigh(S: Array, largest: int | None = None) -> tuple[Array, Array]:
    """Rising eigenvalues (k,) and eigenvectors (p, k) of a symmetric S; the `largest` k, or all."""
    count = len(S) if largest is None else min(max(largest, 0), len(S))
    if not np.isfinite(S).all():  # its drivers would not always tell
        raise _undecomposed("eigenvalues", S)
    if not count:
        return np.zeros(0), np.zeros((len(S), 0))
    try:
        if count == len(S):
            values, vectors = np.linalg.eigh(S)
        else:
            span = [len(S) - count, len(S) - 1]
            values, vectors = _linalg().eigh(S, subset_by_index=span, driver="evr")
    except np.linalg.LinAlgError:
        values, vectors = _slow_eigh(S)
        values, vectors = values[len(S) - count :], vectors[:, len(S) - count :]
    return np.asarray(values), np.asarray(vectors)


def eig(A: Array) -> tuple[CellArray, CellArray]:
    """Eigenvalues (k,) and right eigenvectors (k, k) of a square matrix, complex where need be."""
    if not np.isfinite(A).all():
        raise _undecomposed("eigenvalues", A)
    try:
        values, vectors = np.linalg.eig(A)
    except np.linalg.LinAlgError:
        raise _undecomposed("eigenvalues", A) from None
    return values, vectors


def _slow_eigh(S: Array) -> tuple[Array, Array]:
    """By QR steps; then by bisection, which hardly anything upsets."""
    for driver in ("ev", "evx"):
        try:
            values, vectors = _linalg().eigh(S, driver=driver)
        except np.linalg.LinAlgError:
            continue
        return np.asarray(values), np.asarray(vectors)
    raise _undecomposed("eigenvalues", S)


def pseudo_inverse(X: Array, cut: float = 1e-15) -> Array:
    """X⁺ (q, p) over the directions above `cut` times the largest."""
    if not X.size:
        return np.zeros(X.shape[::-1])
    u, s, vt = svd(X)
    keep = s > cut * s[0]
    return np.asarray((vt[keep].T / s[keep]) @ u[:, keep].T)


def symmetric_inverse(S: Array, cut: float = 1e-15) -> Array:
    """S⁺ of a symmetric S over the directions above `cut` times the largest, by size."""
    values, Q = eigh(S)
    keep = np.abs(values) > cut * np.abs(values).max(initial=0.0)
    return np.asarray((Q[:, keep] / values[keep]) @ Q[:, keep].T)


def ridge_solver(C: Array, ridge: float, cut: float = 1e-15) -> Callable[[Array], Array]:
    """x ↦ (C + ridge)⁻¹ x of a C without negative eigenvalues; without a ridge C⁺ x."""
    if ridge > 0:
        factor, trouble = _linalg().lapack.dpotrf(C + ridge * np.eye(len(C)), lower=1)
        if not trouble:
            return lambda x: np.asarray(_linalg().cho_solve((factor, True), x, check_finite=False))
        values, Q = eigh(C)  # a ridge below the rounding of C: eigenvalues may seem negative
        shares = 1.0 / (np.maximum(values, 0.0) + ridge)
        return lambda x: np.asarray((Q * shares) @ (Q.T @ x))
    inverse = symmetric_inverse(C, cut)
    return lambda x: np.asarray(inverse @ x)


def _undecomposed(what: str, X: Array) -> DataError:
    size = "×".join(map(str, X.shape))
    odd = int((~np.isfinite(X)).sum())
    if odd:
        return DataError(
            f"expected finite numbers in a matrix of {size}, got {odd} that are not, so it has no "
            f"{what}. Look for infinite or huge values, or weights, in the rows."
        )
    return DataError(
        f"the {what} of a matrix of {size} do not converge by any method; its numbers go up to "
        f"{np.abs(X).max(initial=0.0):.3g}. Scale the columns, or drop states that are very rare."
    )


# --- regressions ----------------------------------------------------------------------------------


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
        u, s, vt = svd(X)
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
        u, s, vt = svd(X)
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
    L, trouble = _linalg().lapack.dpotrf(
        S, lower=1
    )  # any root will do, and this one is several times as fast
    pivots = np.diagonal(L) ** 2
    if not trouble and pivots.min() > max(cut, SOUND) * pivots.max():
        return np.asarray(_linalg().lapack.dtrtri(L, lower=1)[0].T, dtype=float)
    values, Q = eigh(S)
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
    return canonical_whitened(whitener(S_aa), S_ab, whitener(S_bb), most)


def canonical_whitened(R_a: Array, S_ab: Array, R_b: Array, most: int) -> Canonical:
    """The same from whiteners: those of a side that many look at are found once."""
    if most <= 0 or R_a.shape[1] == 0 or R_b.shape[1] == 0:
        return Canonical(np.zeros((len(R_a), 0)), np.zeros((len(R_b), 0)), np.zeros(0))
    across = R_a.T @ S_ab @ R_b
    u, d, vt = _svd_of_row(across) if len(across) == 1 else svd(across)
    keep = min(most, int((d > CORRELATION_CUT).sum()))
    beyond = float(d[keep]) if keep < len(d) else 0.0
    return Canonical(R_a @ u[:, :keep], R_b @ vt[:keep].T, np.minimum(d[:keep], 1.0), beyond)
