"""Leaves of continuous columns on their grids: hat functions, and smoothing by a bandwidth."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import scipy

from latentia.data.columns.column import Column, Places
from latentia.data.columns.continuous import ContinuousColumn
from latentia.inference.evidence import around
from latentia.inference.operators import Operators
from latentia.kernels.settings import KernelSettings
from latentia.structure.plan import Plan
from latentia.typing import Array

Blur: TypeAlias = Callable[[Column, float], Array | None]  # `smoothing`, or one that remembers


def on_grids(
    found: Operators,
    columns: Sequence[Column],
    settings: KernelSettings,
    scores_only: bool = False,
    blur: Blur | None = None,
) -> Operators:
    """Leaves smoothed: at one bandwidth for evidence, at another for answers."""
    plan, raw = found.plan, found.leaves
    leaves = tuple(
        possible(smooth_leaf(plan, columns, k, raw[x], settings.evidence, blur=blur), found.weight)
        for x, k in enumerate(plan.leaves)
    )
    place = {v: i for i, v in enumerate(plan.graph.observed)}
    targets = {
        v: possible(
            smooth_leaf(plan, columns, k, raw[x], settings.evidence, {v: settings.own}),
            found.weight,
        )
        for x, k in enumerate(plan.leaves)
        for v in plan.nodes[k].columns
        if columns[place[v]].continuous and not scores_only
    }
    return replace(
        found,
        leaves=leaves,
        marginals=tuple(np.ascontiguousarray(t[:, 0]) for t in leaves),
        mix=settings.mix,
        targets=targets,
        raw=raw,
        blur=(settings.evidence, settings.own),
        floor=settings.floor,
        linear=None if found.linear is None else replace(found.linear, lean=settings.lean),
        provenance=replace(found.provenance, settings=_shown(settings)),
    )


def _shown(settings: KernelSettings) -> dict[str, float]:
    """What diagnostics tell of the embedding."""
    return {
        **({} if isinstance(settings.bandwidth, str) else {"bandwidth": settings.bandwidth}),
        "evidence": settings.evidence,
        "own": settings.own,
        "rank": settings.rank,
        "ridge": settings.ridge[1],
        "lean": settings.lean,
    }


def smooth_again(found: Operators, columns: Sequence[Column]) -> Operators:
    """Operators with raw leaves, as a file keeps them, smoothed as they were."""
    evidence, own = found.blur
    lean = 0.0 if found.linear is None else found.linear.lean
    settings = KernelSettings(
        evidence=evidence, own=own, floor=found.floor, mix=found.mix, lean=lean
    )
    return on_grids(found, columns, settings)


# --- leaves on grids ------------------------------------------------------------------------------


def hats(
    plan: Plan, columns: Sequence[Column], leaf: int, codes: Sequence[Places]
) -> scipy.sparse.csr_array:
    """Weights of the cells of a leaf, (n, cells): rows sum to one, to zero where one is missing."""
    place = {v: i for i, v in enumerate(plan.graph.observed)}
    members = [place[v] for v in plan.nodes[leaf].columns]
    n = len(codes[0])
    index, share = np.zeros((1, n), dtype=np.int64), np.ones((1, n))
    for i in members:
        own, weight = around(codes[i], _cells(columns[i]), n)
        there = own < _cells(columns[i])  # beyond: missing
        index = (index[:, None] * _cells(columns[i]) + own * there).reshape(-1, n)
        share = (share[:, None] * (weight * there)).reshape(-1, n)
    shape = (n, math.prod(_cells(columns[i]) for i in members))
    ends = np.arange(0, index.size + 1, len(index))  # as many corners in every row
    return scipy.sparse.csr_array((share.T.ravel(), index.T.ravel(), ends), shape=shape)


def smoothing(column: Column, bandwidth: float) -> Array | None:
    """(cells, cells): a Gaussian of so many standard deviations around each cell, mass kept."""
    if not isinstance(column, ContinuousColumn) or bandwidth <= 0:
        return None
    z = column.grid / column.spread
    ends = (column.low, column.high)
    images = [2.0 * end / column.spread - z for end, w in zip(ends, column.walls, strict=True) if w]
    K = np.zeros((column.points, column.points))
    for at in (z, *images):  # what would leave over a wall comes back
        K += np.exp(-0.5 * ((z[:, None] - at) / bandwidth) ** 2)
    S = np.eye(column.cells)
    S[: column.points, : column.points] = K / K.sum(axis=0)
    return S


def smooth_leaf(
    plan: Plan,
    columns: Sequence[Column],
    leaf: int,
    raw: Array,
    bandwidth: float,
    own: Mapping[int, float] | None = None,
    blur: Blur | None = None,
) -> Array:
    """A leaf's table smoothed along every continuous axis, `own` by column: (cells, r)."""
    place = {v: i for i, v in enumerate(plan.graph.observed)}
    members = [columns[place[v]] for v in plan.nodes[leaf].columns]
    table = raw.reshape(*(_cells(c) for c in members), -1)
    for axis, (v, column) in enumerate(zip(plan.nodes[leaf].columns, members, strict=True)):
        S = (blur or smoothing)(column, (own or {}).get(v, bandwidth))
        if S is not None:
            table = np.moveaxis(np.tensordot(S, table, axes=(1, axis)), 0, axis)
    return np.ascontiguousarray(table.reshape(raw.shape))


def possible(table: Array, N: float) -> Array:
    """A leaf's table with half a row more, spread evenly: no value is impossible, far ones tell
    nothing about the others, and an unobserved leaf still sends e₁."""
    share = 0.5 / (N + 0.5)
    found = table * (1.0 - share)
    found[:, 0] += share / len(table)
    return found


def _cells(column: Column) -> int:
    return column.cells
