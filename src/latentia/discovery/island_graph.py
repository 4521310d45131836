"""Islands as a graph with names and tables of its own, which the library asks as any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.discovery.island_features import Single
from latentia.discovery.island_network import IslandCounts, IslandLayout, column_tables, linked
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Label

NAMED_BY = 3  # columns


@final
@dataclass(frozen=True, slots=True)
class NamedIslands:
    """The graph, its tables by variable, (parents …, variable), and what latents tell."""

    graph: LatentGraph
    tables: Mapping[int, Array]
    telling: Mapping[Label, Mapping[Label, float]]  # latent -> column -> mutual information, nats


def name_islands(
    layout: IslandLayout, counts: IslandCounts, pseudo_count: float, columns: Sequence[Label]
) -> NamedIslands:
    """Latents of one state fall away; the others are named by the columns that they tell most."""
    islands, n = layout.islands, len(columns)
    shares = latent_shares(layout, counts)
    own = _column_tables(layout, counts, pseudo_count)
    told = {
        i: {c: _information(own[c], shares[i]) for c in islands.columns[i]}
        or _told_further(layout, counts, shares, own, i)
        for i, k in enumerate(layout.states)
        if k > 1
    }
    names = _latent_names(told, columns)
    number = {i: n + place for place, i in enumerate(told)}
    edges, tables = [], {}
    for i, own_columns in enumerate(islands.columns):
        for c in own_columns:
            p, table = islands.column_parent[c], own[c]
            if i in number:
                edges.append((number[i], c))
            else:
                table = table[0]
            if p >= 0:
                edges.append((p, c))
            tables[c] = table
    for i, v in number.items():
        above = islands.tree.above[i]
        table = _exact(linked(counts.links[i], pseudo_count))
        if above in number:
            edges.append((number[above], v))
            tables[v] = table
        else:
            tables[v] = table[0]
    graph = LatentGraph(
        (*columns, *(names[i] for i in told)),
        tuple(edges),
        frozenset(number.values()),
        (*layout.sizes, *(layout.states[i] for i in told)),
    )
    telling: dict[Label, Mapping[Label, float]] = {
        names[i]: {columns[c]: x for c, x in each.items()} for i, each in told.items()
    }
    return NamedIslands(graph, {v: tables[v] for v in range(len(graph.names))}, telling)


def _told_further(
    layout: IslandLayout,
    counts: IslandCounts,
    shares: Sequence[Array],
    own: Mapping[int, Array],
    latent: int,
) -> dict[int, float]:
    """What a latent without columns tells of those of the nearest latents that have some."""
    above, below = layout.islands.tree.above, layout.islands.tree.below
    near = {latent: np.diag(shares[latent])}  # P(latent, other), by other
    seen = {latent}
    while near and not any(layout.islands.columns[j] for j in near):
        further = {}
        for j, joint in near.items():
            for other in {above[j], *below[j]} - seen - {-1}:
                link = np.asarray(counts.links[other if above[other] == j else j], dtype=float)
                pair = link if above[other] == j else link.T  # (j, other)
                told = pair / np.maximum(pair.sum(axis=1, keepdims=True), 1e-300)
                further[other] = joint @ told
        seen |= further.keys()
        near = further
    found = {}
    for j, joint in near.items():
        given = joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
        for c in layout.islands.columns[j]:
            found[c] = _information(given @ own[c], shares[latent])
    return found


def latent_shares(layout: IslandLayout, counts: IslandCounts) -> list[Array]:
    """P(h) of every latent, as the rows have it."""
    return [np.asarray(own[0] / own[0].sum(), dtype=float) for own in counts.features]


def _column_tables(
    layout: IslandLayout, counts: IslandCounts, pseudo_count: float
) -> dict[int, Array]:
    """P(x | h) as (k, states), or P(x | h, parent column) as (k, states of it, states)."""
    found = {}
    for features, own in zip(layout.features, counts.features, strict=True):
        for group, chances in zip(
            features.groups, column_tables(features, own, pseudo_count), strict=True
        ):
            for c, each in zip(group.columns, chances, strict=True):
                found[c] = _exact(np.moveaxis(each, -1, 0))
    return found


def _exact(table: Single) -> Array:
    """In double precision; rows sum to one."""
    wide = np.asarray(table, dtype=float)
    return np.asarray(wide / wide.sum(axis=-1, keepdims=True))


def _information(table: Array, share: Array) -> float:
    """I(latent; column) in nats; a parent column is taken as even."""
    flat = table.reshape(len(share), -1, table.shape[-1]).mean(axis=1)  # (k, states)
    mixed = share @ flat
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(flat > 0, flat * np.log(flat / mixed), 0.0)
    return max(float(share @ ratio.sum(axis=1)), 0.0)


def _latent_names(
    told: Mapping[int, Mapping[int, float]], columns: Sequence[Label]
) -> dict[int, str]:
    """latent(a, b, c): by what it tells most; no two alike, and none a column's."""
    taken, found = {str(c) for c in columns}, {}
    for i, own in told.items():
        most = sorted(own, key=lambda c: (-own[c], c))[:NAMED_BY]
        more = ", …" if len(own) > NAMED_BY else ""
        name = base = f"latent({', '.join(str(columns[c]) for c in most)}{more})"
        count = 1
        while name in taken:
            count += 1
            name = f"{base} {count}"
        taken.add(name)
        found[i] = name
    return found
