"""A tree of latents over islands of columns: likelihoods, expected counts, M-step (design 15).

Upwards, latent by latent, in single precision and with messages that are scaled as they go:

    β_i(h) ∝ exp(φ_i W_i)(h) ∏_{children c} u_c(h),    u_i(h_above) = Σ_h P(h | h_above) β_i(h)

Downwards q_i(h) = P(h | row): q_i = β_i ∘ ((q_above / u_i) P), and the counts φ_iᵀ q_i.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.discovery.cell_bells import CellLine
from latentia.discovery.island_features import (
    LEAST,
    IslandFeatures,
    Single,
    island_features,
    joined_logs,
    spread_counts,
)
from latentia.discovery.islands import Islands
from latentia.discovery.joined_islands import JoinedIslands, join_islands
from latentia.typing import Array, Codes

TINY = np.float32(1e-30)
SCALED_EVERY = 3  # messages multiplied before they are scaled
SPREAD = 0.2  # of the Dirichlet that links latents at the start: states that tell each other apart


@final
@dataclass(frozen=True, slots=True)
class IslandLayout:
    """Islands of a table with features: all that does not change while tables are learned."""

    islands: Islands
    features: tuple[IslandFeatures, ...]
    sizes: tuple[int, ...]  # states of the columns
    states: tuple[int, ...]  # of the latents
    joined: tuple[JoinedIslands, ...]  # the same islands, those of equally many states together

    @property
    def parameters(self) -> int:
        """Free cells of all tables."""
        total = 0
        for i, own in enumerate(self.features):
            above = self.islands.tree.above[i]
            total += (self.states[i] - 1) * (1 if above < 0 else self.states[above])
            for group in own.groups:
                rows = self.states[i] * max(group.parent_states, 1)
                total += len(group.columns) * rows * (group.states - 1)
        return total

    def of_rows(self, codes: Codes) -> tuple[Single, ...]:
        """φ of every island, (n, features) each; codes (n, columns)."""
        return tuple(own.of_rows(codes) for own in self.features)


@final
@dataclass(frozen=True, slots=True)
class IslandTables:
    """What is learned: P(h | h above) or P(h), and the logarithms of the columns' tables as W."""

    links: tuple[Single, ...]  # (k above, k), or (1, k) at a root
    weights: tuple[Single, ...]  # (features, k)


@final
@dataclass(frozen=True, slots=True)
class IslandCounts:
    """Expected counts of rows; they add up."""

    links: tuple[Single, ...]
    features: tuple[Single, ...]

    def __add__(self, other: IslandCounts) -> IslandCounts:
        return self.mixed(np.float32(1.0), other, np.float32(1.0))

    def mixed(self, own: np.float32, other: IslandCounts, share: np.float32) -> IslandCounts:
        """own · these + share · others."""
        return IslandCounts(
            tuple(own * a + share * b for a, b in zip(self.links, other.links, strict=True)),
            tuple(own * a + share * b for a, b in zip(self.features, other.features, strict=True)),
        )


def island_layout(
    islands: Islands,
    sizes: Sequence[int],
    most_states: int,
    holes: Sequence[int] = (),
    lines: Mapping[int, CellLine] | None = None,
) -> IslandLayout:
    """`lines`: those of columns whose states are cells along one."""
    features = tuple(
        island_features(columns, islands.column_parent, sizes, frozenset(holes), lines or {})
        for columns in islands.columns
    )
    states = islands.most_states(sizes, most_states)
    joined = join_islands(features, states)
    return IslandLayout(islands, features, tuple(sizes), states, joined)


@final
class IslandRoom:
    """Memory for messages, used again: fresh pages cost more time than the numbers."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, int], Single] = {}

    def of(self, name: str, island: int, states: int, rows: int) -> Single:
        """(states, rows), with anything in it; overwritten when asked for again."""
        held = self._held.get((name, island))
        if held is None or held.size < states * rows:
            held = self._held[name, island] = np.empty(states * rows, np.float32)
        return held[: states * rows].reshape(states, rows)

    def taken(self, island: int, phi: Single, rows: Codes) -> Single:
        """Some rows of φ, (rows, features)."""
        found = self.of("phi", island, len(rows), phi.shape[1])
        return np.take(phi, rows, axis=0, out=found, mode="clip")


def upwards(
    layout: IslandLayout, tables: IslandTables, phi: Sequence[Single], room: IslandRoom
) -> tuple[list[Single], list[Single], Array]:
    """β of every latent, u of every latent but roots, and log P(row), (n,).

    Rows come last, (k, n): what is done state by state runs along them.
    """
    tree, n = layout.islands.tree, len(phi[0])
    below = tree.below
    beliefs: list[Single] = [np.empty(0, np.float32)] * len(phi)
    sent: list[Single] = list(beliefs)
    log = np.zeros(n)
    for i in reversed(tree.order):
        belief = room.of("belief", i, layout.states[i], n)
        np.matmul(tables.weights[i].T, phi[i].T, out=belief)
        top = belief.max(axis=0)
        belief -= top
        np.exp(belief, out=belief)
        log += top
        for count, c in enumerate(below[i], start=1):
            belief *= sent[c]
            if count % SCALED_EVERY == 0:
                log += _scale(belief)
        log += _scale(belief)
        beliefs[i] = belief
        link = tables.links[i]
        sent[i] = np.matmul(link, belief, out=room.of("sent", i, len(link), n))
        if tree.above[i] < 0:
            log += np.log(sent[i][0])
    return beliefs, sent, log


def _scale(belief: Single) -> Single:
    total = np.maximum(np.add.reduce(belief, axis=0), TINY)
    belief *= np.float32(1.0) / total
    return np.asarray(np.log(total), dtype=np.float32)


def row_likelihoods(
    layout: IslandLayout,
    tables: IslandTables,
    phi: Sequence[Single],
    room: IslandRoom | None = None,
) -> Array:
    """log P(row), (n,)."""
    return upwards(layout, tables, phi, room or IslandRoom())[2]


def island_counts(
    layout: IslandLayout,
    tables: IslandTables,
    phi: Sequence[Single],
    weight: Single | None = None,
    room: IslandRoom | None = None,
) -> tuple[IslandCounts, Array]:
    """The E-step: counts of all rows, and log P(row), (n,)."""
    tree, room = layout.islands.tree, room or IslandRoom()
    beliefs, sent, log = upwards(layout, tables, phi, room)
    told: list[Single] = list(beliefs)
    links: list[Single] = list(beliefs)
    counts: list[Single] = list(beliefs)
    ones = np.ones((1, len(log)), np.float32) if weight is None else weight[None]
    for i in tree.order:
        above = ones if tree.above[i] < 0 else told[tree.above[i]]
        ratio = np.add(sent[i], TINY, out=sent[i])  # never nought
        np.divide(above, ratio, out=ratio)
        links[i] = np.asarray(tables.links[i] * (ratio @ beliefs[i].T), dtype=np.float32)
        told[i] = room.of("told", i, layout.states[i], len(log))
        np.matmul(tables.links[i].T, ratio, out=told[i])
        told[i] *= beliefs[i]
        counts[i] = (told[i] @ phi[i]).T
    return IslandCounts(tuple(links), tuple(counts)), log


def maximise_islands(
    layout: IslandLayout, counts: IslandCounts, pseudo_count: float
) -> IslandTables:
    """The M-step; `pseudo_count` rows of the pooled distribution are added to each."""
    weights: dict[int, Single] = {}
    for own in layout.joined:
        sums = own.stacked(counts.features)
        logs = []
        for group in own.groups:
            table = probabilities(spread_counts(sums, group), pseudo_count, group.line)
            logs.append(np.log(table, out=table))
        weights |= own.parted(joined_logs(own.groups, logs, sums.shape))
    links = tuple(linked(own, pseudo_count) for own in counts.links)
    return IslandTables(links, tuple(weights[i] for i in range(len(links))))


def linked(counts: Single, pseudo_count: float) -> Single:
    """P(h | h above) from counts (k above, k)."""
    pooled = counts.sum(axis=0)
    pooled = pooled / max(float(pooled.sum()), 1e-30)
    raised = counts + np.float32(pseudo_count) * pooled + np.float32(1e-6)
    return np.asarray(raised / raised.sum(axis=1, keepdims=True), dtype=np.float32)


def column_tables(features: IslandFeatures, counts: Single, pseudo_count: float) -> list[Single]:
    """P(x | …, h) of each group of columns."""
    return [
        probabilities(table, pseudo_count, group.line)
        for group, table in zip(features.groups, features.tables(counts), strict=True)
    ]


def probabilities(counts: Single, pseudo_count: float, line: CellLine | None = None) -> Single:
    """P(x | …, h) from counts (…, states, k), drawn to what all states of the latent have.

    Where states are cells along a line, to the state's own normal distribution instead.
    """
    if line is not None:
        towards = line.masses(counts)
    else:
        pooled = counts.sum(axis=-1, keepdims=True)
        states = counts.shape[-2]
        towards = (pooled + LEAST) / (pooled.sum(axis=-2, keepdims=True) + states * LEAST)
    found = counts + np.float32(pseudo_count) * towards + TINY
    found /= found.sum(axis=-2, keepdims=True)
    return np.maximum(found, LEAST, out=found)


def random_islands(
    layout: IslandLayout, marginals: Sequence[Array], rng: np.random.Generator
) -> IslandTables:
    """A start: columns near their own marginals, latents loosely linked."""
    links, weights = [], []
    for i, features in enumerate(layout.features):
        k, above = layout.states[i], layout.islands.tree.above[i]
        if above < 0:
            links.append(rng.dirichlet(np.full(k, 5.0), size=1).astype(np.float32))
        else:
            links.append(_loose(rng, k, layout.states[above]))
        logs = []
        for group in features.groups:
            near = np.stack([marginals[c] for c in group.columns])  # (c, d)
            drawn = _near(rng, near, k)  # (c, d, k)
            if group.parent_states:
                drawn = np.repeat(drawn[:, None], group.parent_states, axis=1)
            logs.append(np.log(drawn))
        weights.append(features.weights(logs, k))
    return IslandTables(tuple(links), tuple(weights))


def _loose(rng: np.random.Generator, states: int, above: int) -> Single:
    drawn = rng.dirichlet(np.full(states, SPREAD), size=above) + 1e-6
    return np.asarray(drawn / drawn.sum(axis=1, keepdims=True), dtype=np.float32)


def _near(rng: np.random.Generator, marginals: Array, states: int) -> Single:
    """Distributions near those of columns (c, d): (c, d, states)."""
    shape = 2.0 * marginals[..., None] + 0.2
    drawn = rng.gamma(np.broadcast_to(shape, (*marginals.shape, states))) + 1e-9
    drawn = np.clip(drawn / drawn.sum(axis=1, keepdims=True), 0.01, 0.99)
    return np.asarray(drawn / drawn.sum(axis=1, keepdims=True), dtype=np.float32)
