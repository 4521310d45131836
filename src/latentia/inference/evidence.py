"""Evidence: what is known at each leaf, and where that lies in the leaf's table (design 5, 7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np

from latentia.errors import EvidenceError
from latentia.structure.plan import Plan
from latentia.typing import Array, Codes

Corners: TypeAlias = tuple[tuple[Codes, Array], ...]  # per column: (corners, n) both
Cells: TypeAlias = tuple[Codes, Array, bool]  # cells and weights, (corners, n); with sums?


@final
@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known at each leaf: a code per row (-1: nothing), or likelihoods of its states.

    A leaf with several or with continuous columns has *corners*: for each of its columns codes,
    with one more for "not observed", and their weights, since a point of a continuous column lies
    between two cells (hat functions, design 7).
    """

    rows: int
    codes: tuple[Codes | None, ...]  # per leaf: (n,)
    likelihoods: tuple[Array | None, ...]  # per leaf: (states, n), where codes cannot say it
    corners: tuple[Corners | None, ...] = ()  # per leaf
    cells: tuple[Cells | None, ...] = ()  # … and where its corners lie in the leaf's table


def read_evidence(
    plan: Plan,
    codes: Sequence[Codes | None],
    soft: Mapping[int, Array] | None = None,
) -> Evidence:
    """Evidence from one code array per column in graph order (None or -1: not observed).

    Continuous columns give positions on their grid (NaN: not observed). `soft` gives, by position
    of the column, likelihoods (states, n) or (states, 1) instead.
    """
    soft = soft or {}
    lengths = {len(c) for c in codes if c is not None} | {
        s.shape[1] for s in soft.values() if s.shape[1] > 1
    }
    if len(lengths) > 1:
        raise EvidenceError(f"evidence has columns of different lengths: {sorted(lengths)}.")
    n = lengths.pop() if lengths else 1
    place = {v: i for i, v in enumerate(plan.graph.observed)}
    hard: list[Codes | None] = []
    likelihoods: list[Array | None] = []
    corners: list[Corners | None] = []
    for k in plan.leaves:
        members = [place[v] for v in plan.nodes[k].columns]
        own = codes[members[0]]
        hard.append(None)
        likelihoods.append(None)
        corners.append(None)
        if all(codes[i] is None and i not in soft for i in members):
            continue
        sizes = [plan.graph.states[v] or 1 for v in plan.nodes[k].columns]
        if any(i in soft for i in members):
            parts = [
                _column_likelihood(codes[i], soft.get(i), size)
                for i, size in zip(members, sizes, strict=True)
            ]
            likelihoods[-1] = _joint_likelihood(parts, sizes)
        elif len(members) == 1 and own is not None and own.dtype.kind != "f":
            there = len(own) and own[0] >= 0  # of most columns, and spares a look at all rows
            hard[-1] = own if there or own.max(initial=-1) >= 0 else None
        else:
            corners[-1] = tuple(
                around(codes[i], size, n) for i, size in zip(members, sizes, strict=True)
            )
    cells = tuple(
        None if c is None else _joint_cells(c, leaf_sizes(plan, x)) for x, c in enumerate(corners)
    )
    return Evidence(n, tuple(hard), tuple(likelihoods), tuple(corners), cells)


def around(values: Codes | None, size: int, n: int) -> tuple[Codes, Array]:
    """The cells around each value and their weights; `size` where nothing was observed."""
    if values is None:
        return np.full((1, n), size), np.ones((1, n))
    if values.dtype.kind != "f":
        return np.where(values < 0, size, values).astype(np.int64)[None], np.ones((1, n))
    gone = np.isnan(values)
    low = np.floor(np.where(gone, 0.0, values)).astype(np.int64)
    part = np.where(gone, 0.0, values - low)
    two = np.stack([np.where(gone, size, low), np.minimum(low + 1, size - 1)])
    return two, np.stack([1.0 - part, part])


def _column_likelihood(codes: Codes | None, soft: Array | None, states: int) -> Array | None:
    if soft is not None:
        return soft
    if codes is None or np.isnan(codes).all() or not (codes >= 0).any():
        return None
    if codes.dtype.kind != "f":
        return np.where(codes < 0, 1.0, (codes == np.arange(states)[:, None]).astype(float))
    hat = np.maximum(1.0 - np.abs(codes - np.arange(states)[:, None]), 0.0)
    return np.where(np.isnan(codes), 1.0, hat)


def _joint_likelihood(parts: Sequence[Array | None], sizes: Sequence[int]) -> Array:
    """Product of the columns' likelihoods over their joint states: (states, n)."""
    joint = np.ones((1, 1))
    for part, size in zip(parts, sizes, strict=True):
        part = np.ones((size, 1)) if part is None else part
        joint = (joint[:, None, :] * part[None, :, :]).reshape(len(joint) * size, -1)
    return joint


def points_of(plan: Plan, evidence: Evidence) -> list[Codes | None] | None:
    """Codes and positions of all columns, as they were read; None if some evidence is soft."""
    if any(soft is not None for soft in evidence.likelihoods):
        return None
    found: dict[int, Codes | None] = {}
    for x, k in enumerate(plan.leaves):
        columns, corners = plan.nodes[k].columns, evidence.corners[x]
        found.update(dict.fromkeys(columns, evidence.codes[x]))
        for v, pair in zip(columns, corners or (), strict=corners is not None):
            own, share = pair
            gone = own[0] == plan.graph.states[v]
            found[v] = np.where(gone, np.nan, (own * share).sum(axis=0))
    return [found[v] for v in plan.graph.observed]


def leaf_sizes(plan: Plan, x: int) -> list[int]:
    """States of the columns of leaf x."""
    return [plan.graph.states[v] or 1 for v in plan.nodes[plan.leaves[x]].columns]


def _with_sums(table: Array, sizes: Sequence[int]) -> Array:
    """The table with its sum as one more state on every axis of the leaf: (cells, …)."""
    rest = table.shape[1:]
    found = table.reshape(*sizes, *rest)
    for axis in range(len(sizes)):
        found = np.concatenate([found, found.sum(axis=axis, keepdims=True)], axis=axis)
    return found.reshape(-1, *rest)


def _joint_cells(corners: Corners, sizes: Sequence[int]) -> Cells:
    """Corners of all columns of a leaf together; "not observed" needs the table with its sums."""
    n = corners[0][0].shape[1]
    sums = any((own[0] == size).any() for (own, _), size in zip(corners, sizes, strict=True))
    index, share = corners[0]
    for (own, weight), size in zip(corners[1:], sizes[1:], strict=True):
        index = (index[:, None] * (size + sums) + own).reshape(-1, n)
        share = (share[:, None] * weight).reshape(-1, n)
    return index, share, sums


def gathered(table: Array, cells: Cells, sizes: Sequence[int]) -> Array:
    """Σ over corners of their weight times the table's row there: (r, n)."""
    index, share, sums = cells
    table = _with_sums(table, sizes) if sums else table
    share = share.astype(table.dtype, copy=False)
    if table.shape[1] == 1:
        return np.asarray((table[:, 0].take(index) * share).sum(axis=0)[None])
    total = table.take(index[0], axis=0) * share[0][:, None]  # rows of the table are contiguous
    for i, w in zip(index[1:], share[1:], strict=True):
        total += table.take(i, axis=0) * w[:, None]
    return np.ascontiguousarray(total.T)


def at_others(joint: Array, corners: Corners, sizes: Sequence[int], place: int) -> Array:
    """(states …, n) -> (states of the column at `place`, n), at the evidence of the others."""
    found = np.moveaxis(joint.reshape(*sizes, -1), place, 0)
    rest = [pair for axis, pair in enumerate(corners) if axis != place]
    n = max(found.shape[-1], rest[0][0].shape[1])
    found = np.broadcast_to(found, (*found.shape[:-1], n))
    for own, weight in reversed(rest):  # the last axis before the rows first
        found = np.concatenate([found, found.sum(axis=-2, keepdims=True)], axis=-2)
        shape = (1,) * (found.ndim - 2)
        picked = [
            np.take_along_axis(
                found, np.broadcast_to(o.reshape(*shape, 1, n), (*found.shape[:-2], 1, n)), axis=-2
            )[..., 0, :]
            * w
            for o, w in zip(own, weight, strict=True)
        ]
        found = np.sum(picked, axis=0)
    return np.asarray(found)
