"""Basis: for every separator, coordinates θ of its inside and η of its outside (design 4.2).

θ = [1, Uᵀφ_α] and η = [1, Vᵀφ_β] with U, V the canonical directions of inside against outside,
from the pair counts of pass 1. Features are contrasts that are orthonormal under the columns' own
marginals, so the constant direction is exact and never estimated.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from latentia.closed_form.pairs import PairLayout, leaf_codes, one_hot
from latentia.data.moments import Moments
from latentia.data.rows import Rows
from latentia.errors import DataError
from latentia.linear_algebra import canonical
from latentia.structure.plan import Plan
from latentia.structure.sides import Block
from latentia.typing import Array

GROUPED = 32  # coordinates of one product


@final
@dataclass(frozen=True, slots=True)
class Coordinates:
    """One side of a separator: the coordinates are Σ_b tables[b][x_b], missing blocks adding 0."""

    blocks: tuple[Block, ...]
    tables: tuple[Array, ...]  # (states of the block, r - 1), centred

    @property
    def size(self) -> int:
        """r - 1."""
        return self.tables[0].shape[1] if self.tables else 0


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
        tables = [t for side in (*self.inside, *self.outside) if side for t in side.tables]
        maps = [m for done in self.rounds for r in done.values() for m in (r.inside, r.outside)]
        for array in (*tables, *maps):
            digest.update(np.ascontiguousarray(array).tobytes())
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
    entries: list[tuple[Any, ...]] = []
    for k, node in enumerate(layout.plan.nodes):
        if node.parent == k:
            entries.append((None, None, np.zeros(0), moments.weight, (0, 0), 1.0, 0.0))
            continue
        panel = panels[layout.panel_of[k]]
        one, other = node.inside.wide, node.outside.wide
        a, b = panel.features(one), panel.features(other)
        cross = panel.shrunk if regularize else panel.plain
        found = canonical(
            panel.plain[a][:, a],
            cross[a][:, b],
            panel.plain[b][:, b],
            (node.rank - 1) * (1 + spare),
        )
        entries.append(
            (
                panel.coordinates(one, found.U),
                panel.coordinates(other, found.V),
                found.d,
                panel.mean_weight(one, other),
                (len(a), len(b)),
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
    positions: tuple[Array, ...]  # of the features of each block in the covariance
    contrasts: Array  # H_b of all blocks b, one after the other: (features, states)
    marginals: Array  # P̂(x_b) over the rows where b is present, block by block: (states,)
    members: Array  # which state belongs to which block, (states, blocks)
    weights: Array  # (blocks, blocks): Σ w over rows where both are present
    total: float  # Σ w over all rows
    complete: bool  # no row lacks a block
    plain: Array  # (features, features)
    shrunk: Array  # the same, pairs of distinct leaves shrunk towards independence

    def features(self, blocks: Sequence[Block]) -> Array:
        """Positions of the features of `blocks` in the covariance."""
        empty = np.zeros(0, dtype=int)
        return np.concatenate([self.positions[self.places[b]] for b in blocks] or [empty])

    def coordinates(self, blocks: tuple[Block, ...], U: Array) -> Coordinates:
        """Per block the table of its states' coordinates, centred and divided by its presence."""
        tables = U.T @ self.contrasts[self.features(blocks)]  # of all states: (r - 1, states)
        tables -= ((tables * self.marginals) @ self.members) @ self.members.T
        if not self.complete:
            tables *= self.members @ (self.total / np.diagonal(self.weights))
        return Coordinates(blocks, tuple(tables[:, self.spans[self.places[b]]].T for b in blocks))

    def mean_weight(self, one: Sequence[Block], other: Sequence[Block]) -> float:
        if not one or not other or self.complete:
            return self.total
        rows = [self.places[b] for b in one]
        columns = [self.places[b] for b in other]
        # no row may have both sides: then all is noise, but nothing is divided by zero
        return max(float(self.weights[np.ix_(rows, columns)].mean()), 1e-6)


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


@final
@dataclass(frozen=True, slots=True)
class FeatureValues:
    """Coordinates of a block of rows by node, (r, n) with ones first; indicators of leaves."""

    theta: dict[int, Array]
    eta: dict[int, Array]  # of nodes with children
    marks: dict[int, Array]  # leaf: (states, n), divided by its presence


def evaluator(
    layout: PairLayout, basis: Basis, leaves_too: bool = False
) -> Callable[[Rows], FeatureValues]:
    """A function that finds θ and η of a block of rows, through all rounds.

    Operators need η only above cliques with children; `leaves_too` asks for all of them. What it
    finds is overwritten by its next call: new memory for every block costs as much as the sums.
    """
    plan = layout.plan
    panels = range(len(layout.spans))
    wanted = [_wanted(layout, basis, p, leaves_too) for p in panels]
    stacked = [_stack(layout, p, [side for _, _, side in wanted[p]]) for p in panels]
    grouped = [_group(tables) for tables in stacked]
    starts = [np.cumsum([0, *(1 + side.size for _, _, side in wanted[p])]) for p in panels]
    looked_up = {
        k: _lookup(side)
        for k, side in enumerate(basis.inside)
        if side is not None and plan.nodes[k].is_leaf
    }
    kept: dict[tuple[int, int], tuple[Array, Array]] = {}
    own = [
        [
            (k, layout.span(p, (plan.nodes[k].first,)))
            for k in plan.leaves
            if layout.panel_of[k] == p
        ]
        for p in panels
    ]

    def evaluate(rows: Rows) -> FeatureValues:
        leaves = leaf_codes(plan, rows)
        values = FeatureValues({}, {}, {})
        for k, table in looked_up.items():
            values.theta[k] = table.take(leaves[plan.nodes[k].first], axis=1)
        for p in panels:
            if (p, len(rows)) not in kept:
                width, height = layout.width(p), len(stacked[p])
                kept[p, len(rows)] = np.empty((width, len(rows))), np.empty((height, len(rows)))
            marks, found = kept[p, len(rows)]
            one_hot(layout, p, leaves, out=marks)  # (states, n)
            for some, span, tables in grouped[p]:
                np.matmul(tables, marks[span], out=found[some])  # (coordinates, n)
            found[starts[p][:-1]] = 1.0
            for (node, store, _), (start, stop) in zip(
                wanted[p], itertools.pairwise(starts[p].tolist()), strict=True
            ):
                target = values.theta if store == "theta" else values.eta
                target[node] = found[start:stop]
            for k, span in own[p]:
                share = basis.shares[k]
                values.marks[k] = marks[span] if share == 1 else marks[span] / share
        for done in basis.rounds:
            values = _advance(plan, done, values)
        return values

    return evaluate


def neighbour_products(
    plan: Plan, k: int, values: FeatureValues
) -> tuple[list[Array], list[Array]]:
    """What the next round builds θ and η of node k from: blocks {first, second, product}.

    Inside: the children's θ (a leaf: its indicators). Outside: the siblings' θ, the parent's η.
    """
    node = plan.nodes[k]
    above = plan.nodes[node.parent]
    beside = [values.theta[c][1:] for c in above.children if c != k]
    beside += [] if above.parent == node.parent else [values.eta[node.parent][1:]]
    inner = [values.theta[c][1:] for c in node.children] or [values.marks[k]]
    return _product_blocks(inner), _product_blocks(beside)


def _product_blocks(factors: list[Array]) -> list[Array]:
    """Coordinates and their pairwise products: blocks of (features, n)."""
    products = [
        (a[:, None, :] * b[None, :, :]).reshape(-1, a.shape[1])
        for a, b in itertools.combinations(factors, 2)
    ]
    return factors + products


def _advance(plan: Plan, done: Mapping[int, Round], values: FeatureValues) -> FeatureValues:
    """One round for all nodes at once, each from the previous round's coordinates."""
    theta, eta = dict(values.theta), dict(values.eta)
    for k, step in done.items():
        inner, outer = neighbour_products(plan, k, values)
        ones = np.ones((1, inner[0].shape[1]))
        theta[k] = _with_ones(step.inside.T @ np.concatenate([ones, *inner]))
        if k in eta:  # a column that is a part by itself has nothing outside
            eta[k] = _with_ones(step.outside.T @ np.concatenate([ones, *outer]))
    return FeatureValues(theta, eta, values.marks)


def leaf_coordinates(plan: Plan, basis: Basis, leaf: int) -> Array:
    """θ without its one at every state of a leaf that is present: (states, r - 1)."""
    steps = [done[leaf] for done in basis.rounds if leaf in done]
    if steps:
        return np.asarray(steps[-1].inside[0] + steps[-1].inside[1:], dtype=float)
    side = basis.inside[leaf]
    assert side is not None
    return side.tables[0] * basis.shares[leaf]


def _with_ones(values: Array) -> Array:
    return np.concatenate([np.ones((1, values.shape[1])), values])


def _lookup(side: Coordinates) -> Array:
    """θ of a leaf by its code, that of a missing one (-1) last: (r, states + 1)."""
    (table,) = side.tables
    return _with_ones(np.concatenate([table, np.zeros((1, table.shape[1]))]).T)


def _group(stacked: Array) -> list[tuple[slice, slice, Array]]:
    """Rows that lie together and are zero outside a span of states: (rows, span, their part).

    The near columns of a node are few of a wide panel; most of one large product would be zeros.
    """
    found: list[tuple[slice, slice, Array]] = []
    for start in range(0, len(stacked), GROUPED):
        rows = slice(start, min(start + GROUPED, len(stacked)))
        used = np.flatnonzero(np.any(stacked[rows], axis=0))
        span = slice(int(used[0]), int(used[-1]) + 1) if len(used) else slice(0, 1)
        found.append((rows, span, np.ascontiguousarray(stacked[rows, span])))
    return found


def _wanted(
    layout: PairLayout, basis: Basis, panel: int, leaves_too: bool
) -> list[tuple[int, str, Coordinates]]:
    found = []
    for k, node in enumerate(layout.plan.nodes):
        inside, outside = basis.inside[k], basis.outside[k]
        if layout.panel_of[k] == panel and inside is not None and outside is not None:
            if not node.is_leaf:
                found.append((k, "theta", inside))
            if node.children or leaves_too:
                found.append((k, "eta", outside))
    # those that need the same states lie together
    return sorted(found, key=lambda x: (_reach(layout, panel, x[2]), x[0], x[1]))


def _reach(layout: PairLayout, panel: int, side: Coordinates) -> tuple[int, int]:
    spans = [layout.span(panel, block) for block in side.blocks]
    return min((s.start for s in spans), default=0), max((s.stop for s in spans), default=0)


def _stack(layout: PairLayout, panel: int, sides: Sequence[Coordinates]) -> Array:
    """All coordinate tables of a panel in one matrix: (coordinates, states of its blocks).

    Each side has an empty row first, for its ones.
    """
    stacked = np.zeros((sum(1 + side.size for side in sides), layout.width(panel)))
    start = 0
    for side in sides:
        start += 1
        stop = start + side.size
        for block, table in zip(side.blocks, side.tables, strict=True):
            stacked[start:stop, layout.span(panel, block)] = table.T
        start = stop
    return stacked
