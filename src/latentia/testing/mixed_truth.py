"""A latent tree with bimodal, skewed and discrete columns whose posteriors are known exactly.

H0 tells H1, H2, H3 (three states each); H1 tells x0 (bimodal) and x1 (skewed), H2 tells x2
(bimodal) and x3 (skewed), H3 tells d4 (four states) and x5 (bimodal). No column is near normal
given its latent, so that a learner that takes it for normal pays for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
import scipy
from numpy.typing import ArrayLike

from latentia.errors import EvidenceError, UnknownNameError
from latentia.typing import Array, CellArray, Codes

LATENT = 3  # states of every latent
COLUMNS = ("x0", "x1", "x2", "x3", "d4", "x5")
BRANCH = (0, 0, 1, 1, 2, 2)  # which of H1, H2, H3 tells the column
GRAPH = "H0->H1; H0->H2; H0->H3; H1->x0; H1->x1; H2->x2; H2->x3; H3->d4; H3->x5"


@final
@dataclass(frozen=True, slots=True)
class Bimodal:
    """w N(a, s²) + (1 − w) N(b, s²), one set per latent state."""

    share: Array
    low: Array
    high: Array
    spread: Array

    def density(self, x: Array) -> Array:
        """(latent states, n)."""
        s = self.spread[:, None]
        parts = [
            p[:, None] * np.exp(-0.5 * ((x - m[:, None]) / s) ** 2) / (s * math.sqrt(2 * math.pi))
            for p, m in ((self.share, self.low), (1.0 - self.share, self.high))
        ]
        return np.asarray(parts[0] + parts[1])

    def draw(self, h: Codes, rng: np.random.Generator) -> CellArray:
        centre = np.where(rng.random(len(h)) < self.share[h], self.low[h], self.high[h])
        return np.asarray(centre + self.spread[h] * rng.standard_normal(len(h)))


@final
@dataclass(frozen=True, slots=True)
class Skewed:
    """start + Gamma(shape, scale), one set per latent state."""

    shape: Array
    scale: Array
    start: Array

    def density(self, x: Array) -> Array:
        """(latent states, n)."""
        a, b = self.shape[:, None], self.scale[:, None]
        u = np.maximum((x - self.start[:, None]) / b, 1e-300)
        found = np.exp((a - 1) * np.log(u) - u - scipy.special.gammaln(a)) / b
        return np.where(x > self.start[:, None], found, 0.0)

    def draw(self, h: Codes, rng: np.random.Generator) -> CellArray:
        return np.asarray(self.start[h] + rng.gamma(self.shape[h], self.scale[h]))


@final
@dataclass(frozen=True, slots=True)
class States:
    """P(state | latent state): (latent states, states)."""

    table: Array

    def density(self, x: Array) -> Array:
        """(latent states, n): probabilities of states."""
        return np.asarray(self.table[:, np.asarray(x).astype(int)])

    def draw(self, h: Codes, rng: np.random.Generator) -> CellArray:
        return _categories(self.table[h], rng)


Leaf: TypeAlias = Bimodal | Skewed | States


@final
@dataclass(frozen=True, slots=True)
class MixedTree:
    """P(h0) Π P(h_j | h0) Π p(column | h_j); see `mixed_tree`."""

    prior: Array  # of H0
    ways: tuple[Array, ...]  # P(h_j | h0), (h0, h_j) each
    leaves: tuple[Leaf, ...]

    graph = GRAPH
    columns = COLUMNS

    @property
    def latents(self) -> dict[str, int]:
        return {f"H{j}": LATENT for j in range(4)}

    def sample(self, n: int, rng: np.random.Generator) -> dict[str, object]:
        """Rows as a dict of columns; d4 is whole numbers."""
        h0 = _categories(np.broadcast_to(self.prior, (n, LATENT)), rng)
        below = [_categories(way[h0], rng) for way in self.ways]
        return {
            name: leaf.draw(below[j], rng)
            for name, leaf, j in zip(COLUMNS, self.leaves, BRANCH, strict=True)
        }

    def posterior(self, column: str, evidence: Mapping[str, ArrayLike], x: ArrayLike) -> Array:
        """p(column = x | evidence): (len(x),), or (rows, len(x)) for evidence on many rows.

        Of d4 probabilities of the states x.
        """
        i = _place(column)
        if column in evidence:
            raise EvidenceError(f"{column!r} is asked for and observed at once.")
        up = self._upward(evidence)
        j = BRANCH[i]
        others = np.prod([up[k][1] for k in range(3) if k != j], axis=0)  # (h0, n)
        state = (self.ways[j].T @ (self.prior[:, None] * others)) * up[j][0]  # (h_j, n)
        total = state.sum(axis=0)
        if not (total > 0).all():
            raise EvidenceError("the evidence has density zero under this tree.")
        found = (state / total).T @ self.leaves[i].density(np.atleast_1d(np.asarray(x)))
        one = all(np.ndim(value) == 0 for value in evidence.values())
        return np.asarray(found[0] if one else found)

    def log_density(self, evidence: Mapping[str, ArrayLike]) -> Array:
        """log p(evidence) of each row; columns that are left out are summed out."""
        up = self._upward(evidence)
        total = self.prior @ np.prod([message for _, message in up], axis=0)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(total))

    def _upward(self, evidence: Mapping[str, ArrayLike]) -> Sequence[tuple[Array, Array]]:
        """For each branch p(its evidence | h_j) and p(its evidence | h0): (3, n) both."""
        n = max([1, *(np.size(value) for value in evidence.values())])
        below = [np.ones((LATENT, n)) for _ in range(3)]
        for name, value in evidence.items():
            i = _place(name)
            below[BRANCH[i]] = below[BRANCH[i]] * self.leaves[i].density(np.atleast_1d(value))
        return [(own, way @ own) for own, way in zip(below, self.ways, strict=True)]


def mixed_tree(seed: int) -> MixedTree:
    """A random tree of this shape; values lie between 0 and 100, or little beyond.

    >>> tree = mixed_tree(0)
    >>> rows = tree.sample(5, np.random.default_rng(0))
    >>> tree.posterior("d4", {"x5": rows["x5"], "x0": rows["x0"]}, range(4)).shape
    (5, 4)
    """
    rng = np.random.default_rng(seed)
    prior = rng.dirichlet(np.full(LATENT, 5.0))
    ways = tuple(
        0.75 * np.eye(LATENT)[rng.permutation(LATENT)]
        + 0.25 * rng.dirichlet(np.ones(LATENT), LATENT)
        for _ in range(3)
    )
    return MixedTree(prior, ways, tuple(_leaf(name, rng) for name in COLUMNS))


def _leaf(name: str, rng: np.random.Generator) -> Leaf:
    if name == "d4":
        return States(rng.dirichlet(np.full(4, 0.5), LATENT))
    if name in ("x1", "x3"):
        return Skewed(*(rng.uniform(a, b, LATENT) for a, b in ((1.5, 4), (3, 9), (0, 35))))
    ranges = ((0.3, 0.7), (10, 45), (55, 90), (2.5, 6))
    return Bimodal(*(rng.uniform(a, b, LATENT) for a, b in ranges))


def _categories(p: Array, rng: np.random.Generator) -> Codes:
    """One state per row of p (n, states)."""
    levels = np.cumsum(p, axis=1)
    u = rng.random(len(p)) * levels[:, -1]
    return np.asarray(np.minimum((levels <= u[:, None]).sum(axis=1), p.shape[1] - 1))


def _place(name: str) -> int:
    if name not in COLUMNS:
        raise UnknownNameError("column", name, COLUMNS)
    return COLUMNS.index(name)
