"""Columns of an island as features in which log P(x | h) is linear (design 15).

    log P(x_island | h) = φ(x)ᵀ W[:, h]

so that the likelihoods of all rows, φ W, and the expected counts, φᵀ q, are one matrix product an
island each. φ holds a one, indicators of states, and indicators of pairs of states for a column
with a parent in its island. The first state of a column without holes is told by the others, which
halves the features of binary columns; a column with holes has all its states, and none when it is
missing.

Columns of like shape are handled together: an M-step is a few operations on whole arrays.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from latentia.discovery.cell_bells import CellLine, joined_lines
from latentia.typing import Codes

Single: TypeAlias = NDArray[np.float32]
Places: TypeAlias = NDArray[np.intp]

LEAST = np.float32(1e-6)  # a probability


@final
@dataclass(frozen=True, slots=True)
class Alike:
    """Columns of one shape; c of them, with d states, and p states of a parent column if any."""

    columns: tuple[int, ...]
    whole: bool  # no holes
    own: Places  # features of their states, (c, d - 1), or (c, d) with holes; empty below a parent
    parent: Places  # those of their parents, (c, p - 1); empty without
    pair: Places  # of pairs: (c, p - 1, d - 1), or (c, p, d) with holes; empty without
    states: int
    parent_states: int  # 0: no parent
    one: Places  # the feature that is one in their island, (c,); columns of one stand together
    head: Places  # the first column of each island, of several joined ones
    line: CellLine | None = None  # along which their first states are cells


@final
@dataclass(frozen=True, slots=True)
class IslandFeatures:
    """The layout of one island; feature 0 is one."""

    column: Places  # of each feature but the first
    state: Places
    parent: Places  # its parent column, where the feature is of a pair, or -1
    parent_state: Places
    groups: tuple[Alike, ...]

    @property
    def width(self) -> int:
        return len(self.column) + 1

    def of_rows(self, codes: Codes) -> Single:
        """φ of rows, (n, features); codes (n, columns of the table)."""
        found = np.zeros((len(codes), self.width), dtype=np.float32)
        found[:, 0] = 1.0
        rows = np.arange(len(codes))
        for c, p in {*zip(self.column.tolist(), self.parent.tolist(), strict=True)}:
            own = np.flatnonzero((self.column == c) & (self.parent == p))
            above, state = self.parent_state[own] + 1, self.state[own] + 1  # 0: none, or missing
            place = np.zeros((above.max() + 1, state.max() + 1), dtype=np.intp)
            place[above, state] = own + 1  # others are at the feature that is one anyway
            at = codes[:, p] + 1 if p >= 0 else np.zeros(len(codes), dtype=np.intp)
            found[rows, place[at, codes[:, c] + 1]] = 1.0
        return found

    def tables(self, counts: Single) -> list[Single]:
        """Expected counts (features, k) as tables of each group: (c, d, k) or (c, p, d, k)."""
        return [spread_counts(counts, group) for group in self.groups]

    def weights(self, logs: Sequence[Single], states: int) -> Single:
        """W from logarithms of the tables of each group, (features, k)."""
        return joined_logs(self.groups, logs, (self.width, states))


def island_features(
    columns: Sequence[int],
    column_parent: Sequence[int],
    sizes: Sequence[int],
    holes: Collection[int] = (),
    lines: Mapping[int, CellLine] = MappingProxyType({}),
) -> IslandFeatures:
    """Number the features of an island, and put columns of like shape together."""
    cells: list[tuple[int, int, int, int]] = []
    single: dict[tuple[int, int], int] = {}
    paired: dict[tuple[int, int, int], int] = {}
    for c in columns:
        p = column_parent[c]
        first = 0 if c in holes else 1
        if p < 0 or first:
            for s in range(first, sizes[c]):
                cells.append((c, s, -1, -1))
                single[c, s] = len(cells)
        if p >= 0:
            for t in range(first, sizes[p]):
                for s in range(first, sizes[c]):
                    cells.append((c, s, p, t))
                    paired[c, t, s] = len(cells)
    shapes: dict[tuple[int, int, bool, int], list[int]] = {}
    for c in columns:
        p, cells_along = column_parent[c], lines[c].cells if c in lines else 0
        shape = (sizes[c], 0 if p < 0 else sizes[p], c not in holes, cells_along)
        shapes.setdefault(shape, []).append(c)
    groups = tuple(
        replace(
            _alike(members, d, m, whole, column_parent, single, paired),
            line=joined_lines([lines[c] for c in members]) if along else None,
        )
        for (d, m, whole, along), members in shapes.items()
    )
    table = np.array(cells, dtype=np.intp).reshape(-1, 4)
    column, state, parent, parent_state = (np.ascontiguousarray(x) for x in table.T)
    return IslandFeatures(column, state, parent, parent_state, groups)


def _alike(
    members: Sequence[int],
    d: int,
    m: int,
    whole: bool,
    column_parent: Sequence[int],
    single: dict[tuple[int, int], int],
    paired: dict[tuple[int, int, int], int],
) -> Alike:
    first, none = int(whole), np.empty((len(members), 0), dtype=np.intp)
    own = parent = none
    pair = np.empty((len(members), 0, 0), dtype=np.intp)
    if whole or not m:
        own = np.array([[single[c, s] for s in range(first, d)] for c in members], dtype=np.intp)
    if m:
        if whole:
            above = [column_parent[c] for c in members]
            parent = np.array([[single[p, t] for t in range(1, m)] for p in above], dtype=np.intp)
        cells = [
            [[paired[c, t, s] for s in range(first, d)] for t in range(first, m)] for c in members
        ]
        pair = np.array(cells, dtype=np.intp)
    one = np.zeros(len(members), np.intp)
    return Alike(tuple(members), whole, own, parent, pair, d, m, one, one[:1])


def spread_counts(counts: Single, group: Alike) -> Single:
    """Counts of all cells; those that others tell by subtraction."""
    d, m, k = group.states, group.parent_states, counts.shape[1]
    if not group.whole:
        return counts[group.pair if m else group.own]
    total = counts[group.one]
    single = _with_first(counts[group.own], total)  # (c, d, k)
    if not m:
        return single
    found = np.empty((len(group.columns), m, d, k), dtype=np.float32)
    parent = _with_first(counts[group.parent], total)  # (c, p, k)
    found[:, 1:, 1:] = counts[group.pair]
    found[:, 0, 1:] = single[:, 1:] - found[:, 1:, 1:].sum(axis=1)
    found[:, :, 0] = parent - found[:, :, 1:].sum(axis=2)
    return np.maximum(found, 0.0, out=found)


def _with_first(rest: Single, total: Single) -> Single:
    """The first state from all rows less the others."""
    first = np.maximum(total - rest.sum(axis=1), 0.0)
    return np.concatenate([first[:, None], rest], axis=1)


def joined_logs(groups: Sequence[Alike], logs: Sequence[Single], shape: tuple[int, int]) -> Single:
    """W, (features, k), from logarithms of the tables of each group."""
    found = np.zeros(shape, dtype=np.float32)
    for group, log in zip(groups, logs, strict=True):
        _gather(found, group, log)
    return found


def _gather(weights: Single, group: Alike, log: Single) -> None:
    """Add to the weights what the columns of a group say."""
    if not group.whole:
        weights[group.pair if group.parent_states else group.own] = log
        return
    if not group.parent_states:
        _add_ones(weights, group, log[:, 0])
        weights[group.own] += log[:, 1:] - log[:, :1]
        return
    corner, along, above = log[:, 0, 0], log[:, 0, 1:], log[:, 1:, 0]
    _add_ones(weights, group, corner)
    weights[group.own] += along - corner[:, None]
    np.add.at(weights, group.parent, above - corner[:, None])  # parents may have several children
    weights[group.pair] = (
        log[:, 1:, 1:] - above[:, :, None] - along[:, None] + corner[:, None, None]
    )


def _add_ones(weights: Single, group: Alike, part: Single) -> None:
    """What columns add to the feature that is one of their island."""
    weights[group.one[group.head]] += np.add.reduceat(part, group.head, axis=0)
