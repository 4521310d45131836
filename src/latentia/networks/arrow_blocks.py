"""Rows of mixed columns laid out for arrows: blocks of the same holes, and what they look up.

Where a row looks into the table of a discrete variable, or among the lines of a continuous one,
does not change while these are learned: it is told once (`family_of`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

import numpy as np

from latentia.exact.arrows import (
    ArrowNetwork,
    TableArrow,
    family_values,
    log_of_values,
    relevant_to,
    scope_of,
)
from latentia.exact.buckets import elimination_order
from latentia.typing import Array, CellArray, Codes

BLOCK = 2_000_000  # cells of the widest bucket, over all rows of a block


@final
@dataclass(frozen=True, slots=True)
class LaidFamily:
    """Members of a family, shaped to broadcast: (rows, one axis for each that is open).

    Cells number the joint states of all discrete members, but of the variable itself only if it
    has a table: a part by what is seen, along the rows, and a part by what is open.
    """

    scope: tuple[int, ...]  # open members, in the family's order
    values: Mapping[int, CellArray]
    seen_cells: Codes | int  # 0 if no discrete member is seen
    open_cells: Codes | int

    @property
    def cells(self) -> Codes | int:
        return self.seen_cells + self.open_cells

    def log(self, network: ArrowNetwork, v: int) -> Array:
        """log P(v | parents), (rows or 1, open members)."""
        arrow = network.arrows[v]
        if not isinstance(arrow, TableArrow):
            return log_of_values(network, v, self.scope, self.values)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(arrow.table).ravel()[self.cells])


@final
@dataclass(frozen=True, slots=True)
class Block:
    """Rows that lack the same cells."""

    seen: Mapping[int, CellArray]  # variable -> codes, or standardised values
    weight: Array
    relevant: tuple[int, ...]  # variables whose arrows say something of what is seen
    order: tuple[int, ...]  # in which open ones are summed out
    sizes: Mapping[int, int]  # states, or points of grids
    families: dict[int, LaidFamily] = field(default_factory=dict)  # made once, as are …
    kept: dict[int, Array] = field(default_factory=dict)  # … features of logits


@final
@dataclass(frozen=True, slots=True)
class ArrowRows:
    """What is learned from: blocks of rows, and what regularises."""

    blocks: tuple[Block, ...]
    smoothing: float
    pseudo: Mapping[int, Array]  # discrete variable -> pseudo-counts of its states

    @property
    def total(self) -> float:
        return float(sum(block.weight.sum() for block in self.blocks))


def pose_rows(network: ArrowNetwork, cells: Array, weight: Array, smoothing: float) -> ArrowRows:
    """Rows (n, variables), NaN where missing, in blocks of the same holes."""
    graph = network.graph
    sizes = {v: len(network.axis(v)) for v in range(len(graph.names))}
    holes, which = np.unique(np.isnan(cells), axis=0, return_inverse=True)
    blocks = []
    for k, hole in enumerate(holes):
        rows = cells[which.ravel() == k]
        own = weight[which.ravel() == k]
        there = [v for v in range(len(graph.names)) if not hole[v]]
        relevant = relevant_to(network, there)
        scopes = [[u for u in (*graph.parents()[v], v) if u not in there] for v in relevant]
        order, widest = elimination_order(scopes, sizes)
        step = max(int(BLOCK // widest), 1)
        for at in range(0, len(rows), step):
            part = rows[at : at + step]
            seen = {
                v: part[:, v] if v in network.dense else part[:, v].astype(np.int64) for v in there
            }
            blocks.append(Block(seen, own[at : at + step], relevant, tuple(order), sizes))
    pseudo = {}
    for v in network.arrows:
        if v not in network.dense:
            pseudo[v] = smoothing * _marginal(graph.states[v] or 1, cells[:, v], weight)
    return ArrowRows(tuple(blocks), smoothing, pseudo)


def _marginal(states: int, codes: Array, weight: Array) -> Array:
    there = ~np.isnan(codes)
    if not there.any():
        return np.full(states, 1.0 / states)
    counts = np.bincount(codes[there].astype(np.int64), weight[there], states)
    return np.asarray(counts / counts.sum(), dtype=float)


def family_of(network: ArrowNetwork, v: int, block: Block) -> LaidFamily:
    """Of the arrow of a variable and the rows of a block; the same for all arrows of its shape."""
    if v not in block.families:
        scope = tuple(scope_of(network, v, block.seen))
        values = family_values(network, v, block.seen, scope)
        discrete = [u for u in network.graph.parents()[v] if u not in network.dense]
        if isinstance(network.arrows[v], TableArrow):
            discrete.append(v)
        seen: Codes | int = 0
        opened = np.zeros((1,) * (1 + len(scope)), dtype=np.int64)
        for k, u in enumerate(discrete):
            rest = discrete[k + 1 :]
            part = values[u] * math.prod(network.graph.states[w] or 1 for w in rest)
            if u in scope:
                opened = opened + part
            else:
                seen = seen + part
        block.families[v] = LaidFamily(scope, values, seen, opened)
    return block.families[v]
