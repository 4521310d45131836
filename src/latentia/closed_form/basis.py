"""Basis: for every separator, coordinates θ of its inside and η of its outside (design 4.2).

θ = [1, Uᵀφ_α] and η = [1, Vᵀφ_β] with U, V the canonical directions of inside against outside,
from the pair counts of pass 1. Features are contrasts that are orthonormal under the columns' own
marginals, so the constant direction is exact and never estimated.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self, final

import numpy as np

from latentia.closed_form.pairs import PairLayout
from latentia.data.moments import Moments
from latentia.errors import DataError
from latentia.linear_algebra import canonical_whitened, whitener
from latentia.structure.sides import Block
from latentia.typing import Array, Codes

MOST_KEPT = 64  # sides that are kept for the next separators


@final
@dataclass(frozen=True, slots=True)
class Coordinates:
    """One side of a separator: the coordinates are Σ_b tables[b][x_b], missing blocks adding 0."""

    blocks: tuple[Block, ...]
    stacked: Array  # tables of all blocks, one below the other: (states, r - 1), centred
    starts: Codes  # where the states of each block begin, and the end

    @classmethod
    def of(cls, blocks: tuple[Block, ...], tables: Sequence[Array]) -> Self:
        """From the table of each block, (states of the block, r - 1)."""
        starts = np.cumsum([0, *map(len, tables)])
        return cls(blocks, np.concatenate(tables) if tables else np.zeros((0, 0)), starts)

    @property
    def tables(self) -> tuple[Array, ...]:
        """Of each block: (states of the block, r - 1)."""
        return tuple(self.stacked[a:b] for a, b in itertools.pairwise(self.starts.tolist()))

    @property
    def size(self) -> int:
        """r - 1."""
        return int(self.stacked.shape[1])


def state_places(side: Coordinates, begins: Codes) -> Codes:
    """Where each row of `stacked` lies if the states of each block begin there."""
    starts = side.starts
    shift = np.repeat(begins - starts[:-1], starts[1:] - starts[:-1])
    return np.asarray(shift + np.arange(len(side.stacked)))


@final
@dataclass(frozen=True, slots=True)
class Round:
    """New coordinates of a node: mapᵀ [1, F], F products of its neighbours' old coordinates."""

    inside: Array  # (1 + features, r - 1); at a leaf the features are its indicators
    outside: Array  # (1 + features, r - 1)


@final
@dataclass(frozen=True, slots=True)
class Basis:
    """θ and η of every node (None at roots), and how well they correlate."""

    inside: tuple[Coordinates | None, ...]
    outside: tuple[Coordinates | None, ...]
    correlations: tuple[Array, ...]  # d, without the constant's 1
    weights: tuple[float, ...]  # mean weight of the pairs behind d
    features: tuple[tuple[int, int], ...]  # p_α, p_β
    shares: tuple[float, ...]  # of the weight on rows where a leaf is present; 1 inside
    beyond: tuple[float, ...] = ()  # the largest correlation that each node left out
    rounds: tuple[Mapping[int, Round], ...] = ()  # of sharpening, by node

    def size(self, node: int) -> int:
        """Coordinates of the node, the constant included."""
        return 1 + len(self.correlations[node])

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        tables = [side.stacked for side in (*self.inside, *self.outside) if side]
        maps = [m for done in self.rounds for r in done.values() for m in (r.inside, r.outside)]
        if tables or maps:  # many small ones
            digest.update(np.concatenate([array.ravel() for array in (*tables, *maps)]).tobytes())
        return digest.hexdigest()[:16]


def contrasts(marginals: Sequence[Array], interactions: bool = False) -> Array:
    """Features of joint states, orthonormal under independence: (states, features).

    For one column all m - 1 contrasts; for several only the products of two or more.

    >>> H = contrasts([np.array([0.2, 0.3, 0.5])])
    >>> bool(np.allclose(H.T @ np.diag([0.2, 0.3, 0.5]) @ H, np.eye(2)))
    True
    """
    singles = [_contrast(mu) for mu in marginals]
    if not interactions:
        return singles[0]
    parts = []
    for size in range(2, len(singles) + 1):
        for chosen in itertools.combinations(range(len(singles)), size):
            part: Array = np.ones((1, 1))
            for x, H in enumerate(singles):
                part = np.asarray(np.kron(part, H if x in chosen else np.ones((len(H), 1))), float)
            parts.append(part)
    return np.concatenate(parts, axis=1)


def _contrast(mu: Array) -> Array:
    """m - 1 functions of a column with mean 0 and covariance I; zero on states never seen."""
    if len(mu) == 2 and mu[0] > 0 and mu[1] > 0:  # most of all; the same in numbers
        odds = math.sqrt(mu[1] / mu[0])
        return np.array([[-odds], [1.0 / odds]])
    seen = np.flatnonzero(mu > 0)
    root = np.sqrt(mu[seen] / mu[seen].sum())
    H = np.zeros((len(mu), max(len(seen) - 1, 0)))
    if len(seen) > 1:
        mirror = root.copy()  # the reflection that takes root to -e_1: its other columns
        mirror[0] += 1.0
        Q = np.eye(len(seen))[:, 1:] - np.outer(mirror, mirror[1:] / mirror[0])
        H[seen] = Q / root[:, None]
    return H


def canonical_basis(
    layout: PairLayout, moments: Moments, regularize: bool, spare: int = 0
) -> Basis:
    """CCA of inside against outside at every separator, r(S) - 1 directions at most.

    `spare` keeps so many times as many again, for those who choose among them later.
    """
    panels = [panel_covariance(layout, p, moments) for p in range(len(layout.spans))]
    entries: list[tuple[object, ...]] = []
    kept: dict[tuple[int, tuple[Block, ...]], PanelSide] = {}

    def side(number: int, blocks: tuple[Block, ...]) -> PanelSide:
        """The separators of a hub have one outside in common: those met last are kept."""
        found = kept.pop((number, blocks), None)
        if found is None:
            found = panels[number].side(blocks)
            if len(kept) >= MOST_KEPT:
                del kept[next(iter(kept))]
        kept[number, blocks] = found
        return found

    for k, node in enumerate(layout.plan.nodes):
        if node.parent == k:
            entries.append((None, None, np.zeros(0), moments.weight, (0, 0), 1.0, 0.0))
            continue
        number = layout.panel_of[k]
        panel = panels[number]
        one, other = node.inside.wide, node.outside.wide
        a, b = side(number, one), side(number, other)
        cross = panel.shrunk if regularize else panel.plain
        found = canonical_whitened(
            a.white,
            cross[a.features[:, None], b.features],
            b.white,
            (node.rank - 1) * (1 + spare),
        )
        entries.append(
            (
                a.coordinates(found.U),
                b.coordinates(found.V),
                found.d,
                panel.mean_weight(one, other),
                (len(a.features), len(b.features)),
                panel.mean_weight(one, one) / moments.weight if node.is_leaf else 1.0,
                found.beyond,
            )
        )
    return Basis(*zip(*entries, strict=True))


@final
@dataclass(frozen=True, slots=True)
class PanelCovariance:
    """Covariances of the contrasts of a panel's blocks, each pair from the rows that have both."""

    places: Mapping[Block, int]  # of the blocks, in order
    spans: tuple[slice, ...]  # of the states of each block
    positions: tuple[Codes, ...]  # of the features of each block in the covariance
    contrasts: Array  # H_b of all blocks b, one after the other: (features, states)
    marginals: Array  # P̂(x_b) over the rows where b is present, block by block: (states,)
    members: Array  # which state belongs to which block, (states, blocks)
    weights: Array  # (blocks, blocks): Σ w over rows where both are present
    total: float  # Σ w over all rows
    complete: bool  # no row lacks a block
    plain: Array  # (features, features)
    shrunk: Array  # the same, pairs of distinct leaves shrunk towards independence

    def features(self, blocks: Sequence[Block]) -> Codes:
        """Positions of the features of `blocks` in the covariance."""
        empty = np.zeros(0, dtype=int)
        return np.concatenate([self.positions[self.places[b]] for b in blocks] or [empty])

    def side(self, blocks: tuple[Block, ...]) -> PanelSide:
        """What all separators need of these blocks."""
        places, features = [self.places[b] for b in blocks], self.features(blocks)
        spans = [self.spans[i] for i in places]
        every = np.arange(len(self.marginals))
        states = np.concatenate([every[s] for s in spans] or [every[:0]])
        scale = None if self.complete else self.total / np.diagonal(self.weights)[places]
        return PanelSide(
            blocks=blocks,
            features=features,
            white=whitener(self.plain[features[:, None], features]),
            contrasts=self.contrasts[features[:, None], states],
            marginals=self.marginals[states],
            starts=np.cumsum([0, *(s.stop - s.start for s in spans)]),
            scale=scale,
        )

    def mean_weight(self, one: Sequence[Block], other: Sequence[Block]) -> float:
        if not one or not other or self.complete:
            return self.total
        rows = [self.places[b] for b in one]
        columns = [self.places[b] for b in other]
        # no row may have both sides: then all is noise, but nothing is divided by zero
        return max(float(self.weights[np.ix_(rows, columns)].mean()), 1e-6)


@final
@dataclass(frozen=True, slots=True)
class PanelSide:
    """Some blocks of a panel, as one side of a separator."""

    blocks: tuple[Block, ...]
    features: Codes  # their positions in the covariance
    white: Array  # the whitener of their covariance
    contrasts: Array  # (features, states of these blocks)
    marginals: Array  # (states,)
    starts: Codes  # where the states of each block begin, and the end
    scale: Array | None  # by block: all rows over those that have it; None: 1

    def coordinates(self, U: Array) -> Coordinates:
        """Per block the table of its states' coordinates, centred and divided by its presence."""
        tables = U.T @ self.contrasts  # (r - 1, states)
        if not self.blocks:
            return Coordinates.of((), ())
        counts = self.starts[1:] - self.starts[:-1]
        means = np.add.reduceat(tables * self.marginals, self.starts[:-1], axis=1)
        tables -= np.repeat(means, counts, axis=1)
        if self.scale is not None:
            tables *= np.repeat(self.scale, counts)
        return Coordinates(self.blocks, tables.T, self.starts)


def panel_covariance(layout: PairLayout, panel: int, moments: Moments) -> PanelCovariance:
    """From counts of pairs to covariances of contrasts, for all blocks of a panel at once."""
    C = moments.sums[f"pairs/{panel}"]  # (states, states)
    blocks, spans = zip(*layout.spans[panel].items(), strict=True)
    E = np.zeros((len(C), len(blocks)))  # which state belongs to which block
    for i, span in enumerate(spans):
        E[span, i] = 1.0
    weights = E.T @ C @ E
    marginals = [
        _marginal(layout, b, np.diagonal(C)[s]) for b, s in zip(blocks, spans, strict=True)
    ]
    by_leaf = {b[0]: mu for b, mu in zip(blocks, marginals, strict=True) if len(b) == 1}
    H = [
        contrasts([mu]) if len(b) == 1 else contrasts([by_leaf[x] for x in b], interactions=True)
        for b, mu in zip(blocks, marginals, strict=True)
    ]
    P = C / np.maximum(E @ weights @ E.T, 1e-300)
    R = (P @ E) @ E.T  # [s, t]: P̂(s) over the rows where t's block is present too
    independent = R * R.T
    D = P - independent
    keep = _james_stein(D, independent, E, weights, [len(b) == 1 for b in blocks])
    big = _side_by_side(H, spans)
    ends = np.cumsum([0, *(h.shape[1] for h in H)]).tolist()
    return PanelCovariance(
        places={b: i for i, b in enumerate(blocks)},
        spans=spans,
        positions=tuple(np.arange(a, b) for a, b in itertools.pairwise(ends)),
        contrasts=np.ascontiguousarray(big.T),
        marginals=np.concatenate(marginals),
        members=E,
        weights=weights,
        total=moments.weight,
        complete=bool((weights == moments.weight).all()),
        plain=big.T @ D @ big,
        shrunk=big.T @ (D * (E @ keep @ E.T)) @ big,
    )


def _side_by_side(H: Sequence[Array], spans: Sequence[slice]) -> Array:
    """The contrasts of all blocks: (states of all blocks, features of all blocks)."""
    ends = np.cumsum([h.shape[1] for h in H])
    big = np.zeros((sum(len(h) for h in H), int(ends[-1]) if len(H) else 0))
    for h, span, end in zip(H, spans, ends, strict=True):
        big[span, end - h.shape[1] : end] = h
    return big


def _james_stein(
    D: Array, independent: Array, E: Array, weights: Array, single: Sequence[bool]
) -> Array:
    """How much of the departure D from independence to keep, per pair of blocks (design 4.2)."""
    chi = E.T @ (D**2 / np.where(independent > 0, independent, np.inf)) @ E
    seen = E.T @ (np.diagonal(independent) > 0) - 1  # m - 1, states never seen left out
    keep = 1.0 - np.outer(seen, seen) / np.maximum(weights * chi, 1e-300)
    free = np.outer(single, single) & ~np.eye(len(single), dtype=bool)
    return np.where(free, np.clip(keep, 0.0, 1.0), 1.0)


def _marginal(layout: PairLayout, block: Block, counts: Array) -> Array:
    if not counts.sum() > 0:
        plan = layout.plan
        names = [
            str(plan.graph.names[v]) for x in block for v in plan.nodes[plan.leaves[x]].columns
        ]
        raise DataError(
            f"no row has a value in {' and '.join(names)}. "
            "Drop the column from the graph, or bring rows that have it."
        )
    return np.asarray(counts / counts.sum(), dtype=float)
