"""Kernel features of blocks of columns: finite coordinates of an RKHS (design 7).

The kernel of a block is the product of one-dimensional ones, k((x − y) / bandwidth) for continuous
members and .3 + .7 [equal] for discrete ones. Nyström coordinates φ(x) = K_LL^-½ k(L, x) stand on a
few landmark rows; random Fourier features need none. A missing member counts by its mean factor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, final

import numpy as np
import scipy

from latentia.data.columns.column import Column, Places
from latentia.errors import DataError, UnknownNameError
from latentia.kernels.exponentials import exp_negative
from latentia.linear_algebra import eigh
from latentia.typing import Array, Foreign, Given

Kernel: TypeAlias = Callable[[Array, Array], Array]  # of scaled values, broadcast

MEDIAN = "median"
UNEQUAL = 0.3  # kernel between different states of a discrete column
ATOM_APART = 0.5  # factor between an atom and other values
MOST_MARKS = 256  # states of a block's members in one product
SOUND = 1e-3  # smallest share of the largest pivot of K_LL for its triangular root
FILL = 200  # rows for the mean factor of a missing cell
NOTHING = (np.zeros((0, 0)), np.zeros(0))
INDEFINITE = 1e-6  # share of the largest eigenvalue that a negative one may have by rounding
SMALLEST = 1e-6  # eigenvalues of K_LL below this share of the largest are dropped


def _rbf(x: Array, y: Array) -> Array:
    return np.asarray(np.exp(-0.5 * (x - y) ** 2))


def _laplace(x: Array, y: Array) -> Array:
    return np.asarray(np.exp(-np.abs(x - y)))


def _matern(x: Array, y: Array) -> Array:
    d = math.sqrt(3.0) * np.abs(x - y)
    return np.asarray((1.0 + d) * np.exp(-d))


KERNELS: dict[str, Kernel] = {"rbf": _rbf, "laplace": _laplace, "matern": _matern}


def as_kernel(kernel: object) -> Kernel:
    """A kernel by name, a scikit-learn kernel object, or a function k(x, y) of arrays.

    Kernels see values divided by their bandwidth, one column at a time; products make blocks.
    """
    if isinstance(kernel, str):
        if kernel not in KERNELS:
            raise UnknownNameError("kernel", kernel, KERNELS, "Or pass a function k(x, y).")
        return KERNELS[kernel]
    if hasattr(kernel, "diag") and hasattr(kernel, "is_stationary"):  # scikit-learn's
        return lambda x, y: _by_object(kernel, x, y)
    if callable(kernel):
        return lambda x, y: _by_function(kernel, x, y)
    raise DataError(
        f"expected a kernel by name ({', '.join(KERNELS)}), a scikit-learn kernel or a function "
        f"k(x, y), got {type(kernel).__name__}."
    )


def _by_function(kernel: Foreign, x: Array, y: Array) -> Array:
    """A user's function on arrays that broadcast; its answer has to have their shape."""
    found = np.asarray(kernel(x, y), dtype=float)
    shape = np.broadcast_shapes(np.shape(x), np.shape(y))
    if found.shape != shape:
        raise DataError(
            f"the kernel gave an array of shape {found.shape} for arguments that broadcast to "
            f"{shape}. It must work on arrays, value by value."
        )
    return found


def _by_object(kernel: Foreign, x: Array, y: Array) -> Array:
    """A scikit-learn kernel on (n,) or (m, 1) against (n,): all pairs."""
    return np.asarray(kernel(np.reshape(x, (-1, 1)), np.reshape(y, (-1, 1))), dtype=float)


def coordinates(columns: Sequence[Column], codes: Sequence[Places]) -> Array:
    """(columns, n): values in units of their standard deviation, or codes; NaN where missing."""
    out = np.empty((len(columns), len(codes[0])))
    for i, (column, cells) in enumerate(zip(columns, codes, strict=True)):
        out[i] = column.coordinates(cells)
    return out


@final
@dataclass(frozen=True, slots=True)
class BlockMap:
    """φ of a block of columns: (features, n) from coordinates."""

    members: tuple[int, ...]  # columns by place
    discrete: tuple[int, ...]  # states of each member, 0: continuous
    landmarks: Array  # (d, m)
    mixing: Array  # (features, m)
    bandwidth: float
    kernel: Given
    seen: tuple[Array, Array] = NOTHING  # (d, n) a few rows, (n,) their weights: for missing cells
    waves: tuple[Array, Array, Array] | None = None  # of random Fourier features
    unequal: float = UNEQUAL  # kernel between different states of a discrete member
    cut: float = SMALLEST
    single: bool = False  # features in single precision

    def __call__(self, z: Array) -> Array:
        """φ for coordinates of all columns, (columns, n)."""
        own = z[list(self.members)]
        if self.waves is not None:
            return _wave(self, own)
        if self.shows_states:
            return np.asarray(own[0] == np.arange(self.discrete[0])[:, None], dtype=float)
        factors = self.factors(own)
        return np.asarray(self.mixing.astype(factors.dtype) @ factors)

    @property
    def mixes_last(self) -> bool:
        """May sums over rows be mixed, instead of rows? In single precision too much would go."""
        return not (self.single or self.waves is not None or self.shows_states)

    @property
    def shows_states(self) -> bool:
        """Is it one discrete column, whose features are its states?"""
        return len(self.members) == 1 and self.discrete[0] > 0

    def unmixed(self, z: Array) -> Array:
        """φ, or k(landmarks, ·) where that is `mixing` times it."""
        return self.factors(z[list(self.members)]) if self.mixes_last else self(z)

    def project(self, matrix: Array, unmixed: Array) -> Array:
        """matrix @ φ of what `unmixed` gave, small matrices multiplied first: (its rows, n)."""
        if self.mixes_last:
            matrix = matrix @ self.mixing
        return np.asarray(matrix.astype(unmixed.dtype, copy=False) @ unmixed)

    def factors(self, own: Array) -> Array:
        """k(landmark, x): (m, n)."""
        if self.kernel == "rbf" and self.unequal > 0 and sum(self.discrete) <= MOST_MARKS:
            return _at_once(self, own)
        k = as_kernel(self.kernel)
        total = np.ones((self.landmarks.shape[1], own.shape[1]))
        for i, states in enumerate(self.discrete):
            a, x = self.landmarks[i][:, None], own[i]
            gone = np.isnan(x)
            if states:
                part = np.where(a == x, 1.0, self.unequal)
            else:
                part = k(a / self.bandwidth, np.where(gone, 0.0, x) / self.bandwidth)
            if gone.any():
                part = np.where(gone, _mean_factor(self, i)[:, None], part)
            total *= part
        return total


def _at_once(block: BlockMap, own: Array) -> Array:
    """Π over members of exp(−(a − x)²/2), unequal^[a ≠ x] or a mean factor: one matrix product.

    The logarithm is a sum of products of what landmarks and rows are: ax − a²/2 − x²/2, and
    log(unequal) (1 − Σ over states s of [a = s][x = s]), where x is there; else the mean's.
    """
    states = np.array(block.discrete)
    smooth, marked = states == 0, np.repeat(np.arange(len(states)), states)
    here, log_unequal = ~np.isnan(own), math.log(block.unequal)
    whole = np.asarray(here.all(axis=1))
    marks = np.concatenate([np.arange(s) for s in states])[:, None]
    a, x = (block.landmarks[smooth] / block.bandwidth, own[smooth] / block.bandwidth)
    x = x if whole[smooth].all() else np.where(here[smooth], x, 0.0)
    same = np.full(block.landmarks.shape, log_unequal)
    same[smooth] = -0.5 * a**2
    left = [a, -log_unequal * (block.landmarks[marked] == marks), same[whole].sum(axis=0)[None]]
    right = [x, own[marked] == marks, np.ones((1, own.shape[1]))]
    for i in np.flatnonzero(~whole):
        left += [same[i][None], np.log(np.maximum(_mean_factor(block, int(i)), 1e-300))[None]]
        right += [here[i][None], ~here[i][None]]
    left.append(np.ones((1, block.landmarks.shape[1])))
    right.append(-0.5 * (x**2).sum(axis=0)[None])
    kind = np.float32 if block.single else np.float64
    return exp_negative(np.concatenate(left, dtype=kind).T @ np.concatenate(right, dtype=kind))


def make_map(
    columns: Sequence[Column],
    members: Sequence[int],
    sample: Array,
    bandwidth: float | str,
    kernel: object = "rbf",
    kind: str = "nystroem",
    features: int = 150,
    seed: int = 0,
    unequal: float = UNEQUAL,
    cut: float = SMALLEST,
    weight: Array | None = None,
) -> BlockMap:
    """The map of a block. `sample` holds coordinates of a few rows, (columns, n)."""
    if kind not in MAPS:
        raise UnknownNameError("feature map", kind, MAPS)
    members = tuple(members)
    states = tuple(0 if columns[i].continuous else columns[i].cells for i in members)
    own = sample[list(members)]
    smooth = [i for i, s in enumerate(states) if s == 0]
    if isinstance(bandwidth, str):
        wide = _median_distance(own[smooth])
    else:
        wide = bandwidth * math.sqrt(max(len(smooth), 1))
    whole = ~np.isnan(own).any(axis=0)
    if not whole.any() and not (len(members) == 1 and states[0]):
        own = np.where(np.isnan(own), _present_means(own), own)
        whole = np.ones(own.shape[1], dtype=bool)
    complete = own[:, whole]
    weight = np.ones(complete.shape[1]) if weight is None else weight[whole]
    empty = np.zeros((len(members), 0))
    none = np.zeros((0, 0))
    seen = (complete[:, :FILL], weight[:FILL])
    blank = BlockMap(members, states, empty, none, wide, kernel, seen, None, unequal, cut)
    return MAPS[kind](blank, complete, features, seed)


def _median_distance(own: Array) -> float:
    """Median of ‖x − y‖ over pairs of a few rows, the median rule; 1 where there is none."""
    from scipy.spatial.distance import pdist  # seconds to load, and seldom asked for

    rows = own[:, ~np.isnan(own).any(axis=0)][:, :FILL]
    apart = pdist(rows.T) if rows.shape[1] > 1 and len(rows) else np.zeros(0)
    apart = apart[apart > 0]
    return float(np.median(apart)) if len(apart) else 1.0


def _present_means(own: Array) -> Array:
    """Mean of each column over the cells that are there, 0 where there are none: (d, 1)."""
    there = ~np.isnan(own)
    total = np.where(there, own, 0.0).sum(axis=1, keepdims=True)
    return np.asarray(total / np.maximum(there.sum(axis=1, keepdims=True), 1))


def _nystroem(block: BlockMap, sample: Array, features: int, seed: int) -> BlockMap:
    """Landmarks are rows of the sample; K_LL^-½ on the eigenvalues that matter."""
    if block.shows_states:
        return block
    bare = replace(block, landmarks=_landmarks(sample, features))
    K = bare.factors(bare.landmarks)
    if isinstance(block.kernel, str) and block.cut >= SMALLEST:  # known to be sound
        return _on_pivots(bare, K)
    if not np.isfinite(K).all() or not np.allclose(K, K.T, rtol=1e-6, atol=1e-9):
        raise DataError("the kernel gives values that are not finite, or k(x, y) ≠ k(y, x).")
    values, vectors = eigh((K + K.T) / 2)
    if values[0] < -INDEFINITE * max(values[-1], 1e-300):
        raise DataError(
            f"the kernel is not positive definite: an eigenvalue of its matrix is {values[0]:.3g}. "
            f"Take one of {', '.join(KERNELS)}, or a kernel of scikit-learn."
        )
    kept = values > block.cut * values[-1]
    mixing = np.ascontiguousarray((vectors[:, kept] / np.sqrt(values[kept])).T)
    return replace(bare, mixing=mixing)


def _on_pivots(bare: BlockMap, K: Array) -> BlockMap:
    """A triangular root on the landmarks that tell all others: K_LL = C Cᵀ, mixing C_pp⁻¹.

    Any root will do, this one is many times as fast as that by eigenvalues, and where few columns
    need few landmarks, features are few from the start.
    """
    C, trouble = scipy.linalg.lapack.dpotrf(K, lower=1)
    pivots = np.diagonal(C) ** 2
    if not trouble and pivots.min() > SOUND * pivots.max():  # all of them are needed
        return replace(bare, mixing=np.ascontiguousarray(scipy.linalg.lapack.dtrtri(C, lower=1)[0]))
    C, order, rank, _ = scipy.linalg.lapack.dpstrf(K, lower=1, tol=bare.cut * float(K.max()))
    mixing, _ = scipy.linalg.lapack.dtrtri(C[:rank, :rank], lower=1)
    chosen = np.ascontiguousarray(bare.landmarks[:, order[:rank] - 1])
    return replace(bare, landmarks=chosen, mixing=np.ascontiguousarray(np.tril(mixing)))


def _landmarks(sample: Array, features: int) -> Array:
    """Rows of the sample, each once, as with weights: all if they are few, or the first ones."""
    first = sample[:, :features]
    if any(len(np.unique(x)) == features for x in first):  # no two are equal
        return np.ascontiguousarray(first)
    for part in (sample[:, : 2 * features], sample):  # a part tells as a rule that there are many
        L = _once(part)
        if L.shape[1] > features:
            return _once(sample[:, :features])
    return L


def _once(points: Array) -> Array:
    """Equal points once, in the order in which they are met: names of states do not matter."""
    rows = np.ascontiguousarray(points.T + 0.0)  # no negative zeros
    keys = rows.view(f"V{rows.itemsize * rows.shape[1]}").ravel().tolist()
    first = dict(zip(reversed(keys), reversed(range(len(keys))), strict=True))
    return np.asarray(points[:, sorted(first.values())])


def _mean_factor(block: BlockMap, i: int) -> Array:
    """Mean over a few rows of member i's factor: (m,)."""
    values, weight = block.seen[0][i], block.seen[1]
    landmarks = block.landmarks[i][:, None]
    if block.discrete[i]:
        factors = np.where(landmarks == values, 1.0, block.unequal)
    else:
        k = as_kernel(block.kernel)
        factors = k(landmarks / block.bandwidth, values / block.bandwidth)
    return np.asarray(np.average(factors, axis=1, weights=weight))


def _fourier(block: BlockMap, sample: Array, features: int, seed: int) -> BlockMap:
    """√2 cos(ωᵀx + b) Π signs: E over ω, b and signs is the kernel."""
    rng = np.random.default_rng([seed, *block.members])
    shape = (features, len(block.members))
    if block.kernel == "rbf":
        omega = rng.standard_normal(shape)
    elif block.kernel == "laplace":
        omega = rng.standard_cauchy(shape)
    elif block.kernel == "matern":
        omega = rng.standard_t(3, shape)
    else:
        raise DataError(
            f"random Fourier features know the kernels {', '.join(KERNELS)}, got "
            f"{block.kernel!r}. Use the map 'nystroem' for others."
        )
    most = max(max(block.discrete), 1)
    signs = rng.choice([-1.0, 1.0], (features, len(block.members), most))
    signs[rng.random(shape) < block.unequal] = 1.0
    phase = rng.uniform(0, 2 * np.pi, features)
    omega = omega / block.bandwidth * (np.asarray(block.discrete) == 0)
    return replace(block, waves=(omega, phase, signs))


def _wave(block: BlockMap, own: Array) -> Array:
    assert block.waves is not None
    omega, phase, signs = block.waves
    x = np.where(np.isnan(own), 0.0, own)
    out = math.sqrt(2.0 / len(omega)) * np.cos(omega @ x + phase[:, None])
    for i, states in enumerate(block.discrete):
        if states:
            out *= np.where(np.isnan(own[i]), 1.0, signs[:, i, x[i].astype(int)])
    return np.asarray(out)


MAPS: dict[str, Callable[[BlockMap, Array, int, int], BlockMap]] = {
    "nystroem": _nystroem,
    "fourier": _fourier,
}
