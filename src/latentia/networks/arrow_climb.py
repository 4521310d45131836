"""EM over the arrows of mixed columns: exact sums over latents, tables by counts, lines by least
squares, logits by Newton steps; several starts, of which the best climb to the end.

All rows lie in memory: numbers are seldom alike. Cells may be missing, but not those of continuous
columns that are parents of others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np

from latentia.exact.arrows import (
    Arrow,
    ArrowNetwork,
    LineArrow,
    LogitArrow,
    TableArrow,
    family_values,
    feature_spans,
    scope_of,
)
from latentia.exact.buckets import Factor, beliefs
from latentia.networks.arrow_blocks import ArrowRows, Block, family_of
from latentia.networks.logit import RIDGE, LogitRows, newton
from latentia.typing import Array

MOST_STEPS = 3000
NEAR = 1e-10  # gain a row at which EM rests
LEAST_VARIANCE = 1e-3  # share of a column's own: a state with a single row would have none


@final
@dataclass(frozen=True, slots=True)
class Climbed:
    """A network, and the log-likelihood where it rests."""

    network: ArrowNetwork
    log_likelihood: float
    converged: bool
    steps: int
    level: float = -math.inf  # the log-likelihood with the prior


# --- the E-step -----------------------------------------------------------------------------------


def block_beliefs(network: ArrowNetwork, block: Block) -> tuple[dict[int, Array], Array]:
    """P(open members of the family | row) of every arrow, and log P(row)."""
    factors = []
    for v in block.relevant:
        own = family_of(network, v, block)
        factors.append(Factor(own.scope, own.log(network, v)))
    found, log = beliefs(factors, block.order, block.sizes)
    n = len(block.weight)
    told = {
        v: b if len(b) == n else np.broadcast_to(b, (n, *b.shape[1:]))
        for v, b in zip(block.relevant, found, strict=True)
    }
    return told, np.broadcast_to(log, (n,))


def total_log(network: ArrowNetwork, rows: ArrowRows) -> float:
    """Σ w log P(row)."""
    return sum(float(block.weight @ block_beliefs(network, block)[1]) for block in rows.blocks)


# --- the M-step -----------------------------------------------------------------------------------


@final
@dataclass(slots=True)
class _Sums:
    """What the beliefs of all blocks add up to."""

    tables: dict[int, Array] = field(default_factory=dict)
    grams: dict[int, Array] = field(default_factory=dict)
    logits: dict[int, list[tuple[Array, Array]]] = field(default_factory=dict)

    def add(self, network: ArrowNetwork, block: Block, told: Mapping[int, Array]) -> None:
        for v in block.relevant:
            arrow = network.arrows[v]
            share = told[v] * block.weight.reshape(-1, *(1 for _ in told[v].shape[1:]))
            if isinstance(arrow, TableArrow):
                own = _counts(network, v, block, share)
                self.tables[v] = self.tables.get(v, 0.0) + own
            elif isinstance(arrow, LineArrow):
                if v in block.seen:
                    gram = line_gram(network, v, block, share)
                    self.grams[v] = self.grams.get(v, 0.0) + gram
            else:
                self.logits.setdefault(v, []).append(logit_rows(network, v, block, share))


def _counts(network: ArrowNetwork, v: int, block: Block, share: Array) -> Array:
    shape = tuple(network.graph.states[u] or 1 for u in (*network.graph.parents()[v], v))
    own = family_of(network, v, block)
    if isinstance(own.seen_cells, int):  # all members are open
        return np.asarray(share.sum(axis=0).reshape(shape), dtype=float)
    cells = np.broadcast_to(own.cells, share.shape)
    counts = np.bincount(cells.ravel(), share.ravel(), math.prod(shape))
    return np.asarray(counts.reshape(shape), dtype=float)


def line_gram(network: ArrowNetwork, v: int, block: Block, share: Array) -> Array:
    """Σ share · (1, parents, itself)² for every state of the discrete parents."""
    lines = [u for u in network.graph.parents()[v] if u in network.dense]
    Z = np.stack([np.ones(len(share)), *(block.seen[u] for u in lines), block.seen[v]])
    weights = configuration_weights(network, v, block, share)
    return np.asarray((weights[:, None] * Z) @ Z.T)


def configuration_weights(network: ArrowNetwork, v: int, block: Block, share: Array) -> Array:
    """How much of every row is in each joint state of the discrete parents, (states, rows).

    Of the arrow of a continuous column that is seen.
    """
    own, n = family_of(network, v, block), len(share)
    if isinstance(own.seen_cells, int):  # open, or none
        return np.asarray(share.reshape(n, -1).T)
    kinds = [u for u in network.graph.parents()[v] if u not in network.dense]
    wide = math.prod(network.graph.states[u] or 1 for u in kinds)
    flat = own.cells * n + np.arange(n).reshape(-1, *(1 for _ in share.shape[1:]))
    found = np.bincount(flat.ravel(), share.ravel(), wide * n).reshape(wide, n)
    return np.asarray(found, dtype=float)


def logit_rows(network: ArrowNetwork, v: int, block: Block, share: Array) -> tuple[Array, Array]:
    """Features (rows · open parents, features), and shares of every state of the variable."""
    if v not in block.kept:
        block.kept[v] = logit_features(network, v, block)
    X = block.kept[v]
    k = network.graph.states[v] or 1
    if v not in block.seen:
        return X, share.reshape(-1, k)
    marks = (block.seen[v][:, None] == np.arange(k)).astype(float)
    flat = share.reshape(len(share), -1)
    return X, (flat[:, :, None] * marks[:, None, :]).reshape(-1, k)


def logit_features(network: ArrowNetwork, v: int, block: Block) -> Array:
    """(rows · states of open parents, features): 1, values, and marks of states but the first."""
    scope = [u for u in scope_of(network, v, block.seen) if u != v]
    seen = {**block.seen, v: np.zeros(len(block.weight), dtype=np.int64)}
    values = family_values(network, v, seen, scope)
    shape = (len(block.weight), *(len(network.axis(u)) for u in scope))
    parts = [np.ones((*shape, 1))]
    for u in feature_spans(network, v):
        own = np.broadcast_to(values[u], shape)[..., None]
        states = network.graph.states[u] or 1
        parts.append(own if u in network.dense else (own == np.arange(1, states)).astype(float))
    X = np.concatenate(parts, axis=-1)
    return X.reshape(-1, X.shape[-1])


def next_network(network: ArrowNetwork, rows: ArrowRows, sums: _Sums) -> ArrowNetwork:
    """Every arrow of the largest expected likelihood."""
    arrows: dict[int, Arrow] = dict(network.arrows)
    for v, arrow in network.arrows.items():
        if isinstance(arrow, TableArrow):
            counts = sums.tables.get(v, 0.0) + rows.pseudo[v]
            whole = np.asarray(counts.sum(axis=-1, keepdims=True))
            safe = np.where(whole > 0, whole, 1.0)
            arrows[v] = TableArrow(np.where(whole > 0, counts / safe, 1.0 / counts.shape[-1]))
        elif isinstance(arrow, LineArrow):
            if v in sums.grams:
                arrows[v] = fitted_lines(sums.grams[v], arrow, rows.smoothing)
        elif v in sums.logits:
            X = np.concatenate([x for x, _ in sums.logits[v]])
            own = np.concatenate([r for _, r in sums.logits[v]])
            arrows[v] = LogitArrow(newton(_posed(X, rows.smoothing), own, arrow.B))
    return replace(network, arrows=arrows)


def _posed(X: Array, smoothing: float) -> LogitRows:
    return LogitRows(np.zeros((0, 0)), (), X, np.zeros(0), (), RIDGE * smoothing)


def fitted_lines(gram: Array, before: LineArrow, smoothing: float) -> LineArrow:
    """Least squares in every state; pseudo-counts are rows of mean 0 and variance 1."""
    D = gram.shape[-1] - 1
    count, G, g = gram[:, 0, 0], gram[:, :D, :D], gram[:, :D, D]
    told = count + smoothing > 1e-9  # the others stay as they are
    ridge = np.where(told, smoothing + 1e-9 * np.maximum(count, 1.0), 1.0)
    b = np.linalg.solve(G + ridge[:, None, None] * np.eye(D), g[..., None])[..., 0]
    rest = gram[:, D, D] - 2 * (b * g).sum(axis=1) + (b * (G @ b[..., None])[..., 0]).sum(axis=1)
    rest = rest + smoothing * (1.0 + (b * b).sum(axis=1))
    variances = np.maximum(rest / np.where(told, count + smoothing, 1.0), LEAST_VARIANCE)
    lines = np.where(told[:, None], b, before.lines.reshape(-1, D))
    variances = np.where(told, variances, before.variances.reshape(-1))
    return LineArrow(lines.reshape(before.lines.shape), variances.reshape(before.variances.shape))


def log_prior(network: ArrowNetwork, rows: ArrowRows) -> float:
    """What pseudo-counts add to the level."""
    found = 0.0
    if not rows.smoothing:
        return found
    for v, arrow in network.arrows.items():
        if isinstance(arrow, TableArrow):
            found += float((np.log(np.maximum(arrow.table, 1e-300)) * rows.pseudo[v]).sum())
        elif isinstance(arrow, LogitArrow):
            found -= 0.5 * RIDGE * rows.smoothing * float((arrow.B[:, 1:] ** 2).sum())
        else:
            spread = (1.0 + (arrow.lines**2).sum(axis=-1)) / arrow.variances
            found -= 0.5 * rows.smoothing * float((np.log(arrow.variances) + spread).sum())
    return found


# --- the climb ------------------------------------------------------------------------------------


def climb_arrows(
    network: ArrowNetwork, rows: ArrowRows, most: int = MOST_STEPS, near: float = NEAR
) -> Climbed:
    """EM until a step gains less than `near` a row."""
    level, log = -math.inf, -math.inf
    for step in range(most):
        sums, log = _Sums(), 0.0
        for block in rows.blocks:
            told, own = block_beliefs(network, block)
            log += float(block.weight @ own)
            sums.add(network, block, told)
        above = log + log_prior(network, rows)
        if above - level < near * rows.total:
            return Climbed(network, log, True, step, above)
        level = above
        network = next_network(network, rows, sums)
    log = total_log(network, rows)
    return Climbed(network, log, False, most, log + log_prior(network, rows))


def from_memberships(
    network: ArrowNetwork, rows: ArrowRows, drawn: Sequence[Mapping[int, Array]]
) -> ArrowNetwork:
    """Arrows as if latents were known with these shares: one dict of (rows, states) for a block."""
    sums = _Sums()
    for block, shares in zip(rows.blocks, drawn, strict=True):
        told = {}
        for v in block.relevant:
            share = np.ones((len(block.weight),))
            for u in family_of(network, v, block).scope:
                size = len(network.axis(u))
                own = shares.get(u, np.full((len(block.weight), size), 1.0 / size))
                share = share[..., None] * own.reshape(
                    len(own), *(1 for _ in share.shape[1:]), size
                )
            told[v] = share
        sums.add(network, block, told)
    return next_network(network, rows, sums)
