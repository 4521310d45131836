"""What is tied or known, brought into correspondence: states of latents, of columns, and units.

The closed form numbers the states of latents as it likes. Before its tables start an ascent with
known cells or ties, states are permuted, latent by latent, to where Σ (t − known)² is least.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import scipy

from latentia.data.columns.column import Column
from latentia.data.columns.continuous import ContinuousColumn, straightened
from latentia.data.columns.discrete import DiscreteColumn
from latentia.data.columns.values import sorted_states
from latentia.errors import DataError
from latentia.networks.knowledge import Knowledge
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Cell, Label

SWEEPS = 5


# --- states of latents ----------------------------------------------------------------------------


def matched(
    graph: LatentGraph, tables: Mapping[int, Array], knowledge: Knowledge
) -> dict[int, Array]:
    """Tables of the same model, states of latents numbered as known cells and ties want them."""
    found = dict(tables)
    if knowledge.empty:
        return found
    scopes = [(*above, v) for v, above in enumerate(graph.parents())]
    placed: set[int] = set(graph.observed)
    for _ in range(SWEEPS):
        moved = False
        for h in [v for v in _from_the_top(graph) if v in graph.latent]:
            moved |= _turn(h, scopes, found, knowledge, placed)
            placed.add(h)
        if not moved:
            break
    for group in knowledge.tied:
        mean = np.mean([found[v] for v in group], axis=0)
        for v in group:
            found[v] = mean
    return knowledge.held(found)


def _turn(
    h: int,
    scopes: Sequence[tuple[int, ...]],
    tables: dict[int, Array],
    knowledge: Knowledge,
    placed: set[int],
) -> bool:
    """Permute the states of one latent to where they fit best; did that change anything?"""
    cost: Array | None = None
    for v, scope in enumerate(scopes):
        wanted = _wanted(v, scopes, tables, knowledge, placed)
        if h not in scope or wanted is None or not set(scope) <= placed | {h}:
            continue
        axis = scope.index(h)
        own = np.moveaxis(tables[v], axis, 0).reshape(tables[v].shape[axis], 1, -1)
        other = np.moveaxis(wanted, axis, 0).reshape(1, wanted.shape[axis], -1)
        term = np.nansum((own - other) ** 2, axis=2)  # (state now, state it should be)
        cost = term if cost is None else cost + term
    if cost is None:
        return False
    now, then = scipy.optimize.linear_sum_assignment(cost)
    order = now[np.argsort(then)]
    if cost[order, np.arange(len(order))].sum() >= np.trace(cost) - 1e-12:
        return False
    for v, scope in enumerate(scopes):
        if h in scope:
            tables[v] = np.ascontiguousarray(tables[v].take(order, axis=scope.index(h)))
    return True


def _wanted(
    v: int,
    scopes: Sequence[tuple[int, ...]],
    tables: Mapping[int, Array],
    knowledge: Knowledge,
    placed: set[int],
) -> Array | None:
    """What a table should look like: its known cells, and the mean of those tied to it."""
    cells = knowledge.cells.get(v)
    group = next((g for g in knowledge.tied if v in g), ())
    others = [tables[u] for u in group if u != v and set(scopes[u]) <= placed]
    mean = np.mean(others, axis=0) if others else None
    if cells is None or mean is None:
        return mean if cells is None else cells
    return np.where(np.isnan(cells), mean, cells)


def _from_the_top(graph: LatentGraph) -> list[int]:
    """Parents before children."""
    parents, found = graph.parents(), list[int]()
    left = set(range(len(graph.names)))
    while left:
        ready = sorted(v for v in left if not left & set(parents[v]))
        found += ready
        left -= set(ready)
    return found


# --- columns --------------------------------------------------------------------------------------


def share_states(columns: Sequence[Column], tied: Sequence[Sequence[Label]] | None) -> list[Column]:
    """Tied discrete columns have the states of all of them, in one order; others go straight."""
    found = {c.name: c for c in columns}
    for names in tied if isinstance(tied, list | tuple) else ():
        if not isinstance(names, list | tuple):
            continue  # the learner says what is wrong with it
        group = [c for c in found.values() if c.name in names and not c.continuous]
        if len({c.labels for c in group}) > 1:
            states = _union(group)
            found |= {c.name: DiscreteColumn(c.name, states) for c in group}
        found |= {c.name: straightened(c) for c in columns if c.name in names and c.continuous}
    return [found[c.name] for c in columns]


def _union(columns: Sequence[Column]) -> tuple[Cell, ...]:
    """Sorted, if the states of each are; else in the order in which they are met."""
    met = tuple(dict.fromkeys(s for c in columns for s in c.labels))
    plain = all(c.labels == sorted_states(c.labels) for c in columns)
    return sorted_states(met) if plain else met


def common_scales(
    graph: LatentGraph,
    columns: Sequence[Column],
    scales: Mapping[int, tuple[float, float]],
    tied: Sequence[Sequence[int]],
) -> dict[int, tuple[float, float]]:
    """Means and deviations, in steps of the grids, that are the same in units for tied columns."""
    found, own = dict(scales), dict(zip(graph.observed, columns, strict=True))
    for group in tied:
        dense = [(v, c) for v in group if isinstance(c := own.get(v), ContinuousColumn)]
        if len(dense) < len(group):
            continue  # discrete; or some of each, which the learner refuses
        warped = [c.name for _, c in dense if c.curved]
        if warped:
            raise DataError(
                f"{warped[0]!r} has long tails and is scaled by a curve of its own, which columns "
                "that are tied would have to share. Take logs of all of them first, or do not tie "
                "them."
            )
        mean = math.fsum(c.centre for _, c in dense) / len(dense)
        spread = [(c.scale * c.spread) ** 2 + (c.centre - mean) ** 2 for _, c in dense]
        deviation = math.sqrt(math.fsum(spread) / len(dense))
        for v, c in dense:
            at = ((mean - c.centre) / c.scale - c.low) / c.step - 0.5
            found[v] = (at, deviation / (c.scale * c.step))
    return found
