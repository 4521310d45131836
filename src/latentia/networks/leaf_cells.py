"""Continuous columns of tables: cells of a grid as states, rows of Gaussians (design 13).

A column without children is seen in the nearest cell of its grid, and its table holds the masses of
a Gaussian there, one for each state of its parents. Sums over rows are then counts, as of any other
column; the M-step takes means and variances from these counts. Where wide gaps part a column, each
part has a Gaussian of its own; values that stand alone have cells behind the grid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.columns.continuous import dense_columns
from latentia.data.rows import Rows, Source
from latentia.data.sources.changed_rows import change_rows
from latentia.errors import DataError, GraphError
from latentia.exact.gaussian_leaves import grid_masses
from latentia.networks.accelerate import Tables
from latentia.networks.knowledge import (
    Knowledge,
    PseudoCounts,
    check_kinds,
    read_knowledge,
    read_smoothing,
)
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, ByName, Cell, Codes, Label

LEAST_MASS = 1e-12  # of a part, spread over its cells: rows may lie far out
LEAST_VARIANCE = 1e-3  # share of a column's own: a state with a single row would have none
NARROWEST = 1e-2  # variance in steps, which cells cannot tell from any smaller one
HAT = 1.0 / 6.0  # variance that hat functions add to the masses of a Gaussian, in steps


@final
@dataclass(frozen=True, slots=True)
class LeafCells:
    """The cells of one column: where its parts begin and end, and how narrow a Gaussian may be."""

    parts: tuple[tuple[int, int], ...]  # first cell, and the one behind the last
    cells: int  # atoms lie behind the last part
    least: float  # variance, in steps of the grid

    @property
    def parameters(self) -> int:
        """Of one row: mean and variance of each part, shares of parts and atoms."""
        points = self.parts[-1][1]
        return 2 * len(self.parts) + len(self.parts) + self.cells - points - 1

    def masses(self, counts: Array) -> Array:
        """Rows of Gaussians with the means and variances of counts, (…, cells) both."""
        found = np.empty(counts.shape)
        whole = counts.sum(axis=-1, keepdims=True)
        pooled = counts.reshape(-1, self.cells).sum(axis=0)
        told = np.where(whole > 0, counts, pooled)
        told = told / told.sum(axis=-1, keepdims=True)
        for first, end in self.parts:
            own = told[..., first:end]
            share = own.sum(axis=-1, keepdims=True)
            own = np.where(share > 0, own, pooled[first:end] + LEAST_MASS)
            found[..., first:end] = share * self._bell(own / own.sum(axis=-1, keepdims=True))
        points = self.parts[-1][1]
        found[..., points:] = told[..., points:]
        return (1.0 - LEAST_MASS) * found + LEAST_MASS / self.cells

    def _bell(self, share: Array) -> Array:
        """The Gaussian with the moments of shares of neighbouring cells, cut off at their ends."""
        x = np.arange(share.shape[-1])
        mean = share @ x
        variance = np.maximum(share @ (x * x) - mean * mean - HAT, self.least)
        leaf = np.stack([np.ones_like(mean), mean, variance], axis=-1)[..., None, :]
        return grid_masses(leaf, share.shape[-1])


def leaf_cells(
    graph: LatentGraph, columns: Sequence[Column], floor: float = LEAST_VARIANCE
) -> dict[int, LeafCells]:
    """The continuous columns of a graph, by variable; no variance falls below a share of theirs."""
    found = {}
    for v, column in dense_columns(graph.observed, columns).items():
        inner = [round((cut - column.low) / column.step) for cut in column.cuts]
        ends = sorted({0, *np.clip(inner, 1, column.points - 1).tolist(), column.points})
        least = max(floor * (column.spread / column.step) ** 2, NARROWEST)
        found[v] = LeafCells(tuple(pairwise(ends)), column.cells, least)
    return found


def with_bells(tables: Tables, leaves: Mapping[int, LeafCells]) -> dict[int, Array]:
    """The same tables; those of continuous columns are masses of Gaussians."""
    return {v: leaves[v].masses(t) if v in leaves else t for v, t in tables.items()}


def check_leaves(
    graph: LatentGraph,
    leaves: Mapping[int, LeafCells],
    known: ByName[Cell] | None,
    tied: Sequence[Sequence[Label]] | None,
    smoothing: PseudoCounts,
) -> None:
    """Errors for what continuous columns of tables cannot be."""
    for a, b in graph.edges:
        if a in leaves:
            raise GraphError(
                f"tables need continuous columns without children, got {graph.names[a]!r} -> "
                f"{graph.names[b]!r}. Turn the edge round, or bin {graph.names[a]!r} "
                f"(kinds={{{graph.names[a]!r}: 'discrete'}})."
            )
    named = {graph.index(name): np.zeros(0) for name in known or () if name in graph.names}
    check_kinds(graph, Knowledge(named), leaves)
    knowledge = read_knowledge(graph, known, tied)
    check_kinds(graph, knowledge, leaves)
    shared = [v for group in knowledge.tied for v in group if v in leaves]
    if shared:
        raise DataError(
            f"the continuous column {graph.names[shared[0]]!r} is tied, which tables of a wide "
            "graph do not know. Leave it out of tied."
        )
    for v, given in read_smoothing(graph, smoothing).items():
        if v in leaves and isinstance(given, np.ndarray):
            raise DataError(
                f"expected one number as smoothing of the continuous column {graph.names[v]!r}, "
                "rows with its own mean and variance, got a table."
            )


# --- coarser cells ----------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class CoarseCells:
    """Cells of like many rows, for starts to race on: few states, and any distribution."""

    coarse: Codes  # of every fine cell
    share: Array  # of every fine cell within its coarse one

    @property
    def count(self) -> int:
        return int(self.coarse[-1]) + 1

    def spread(self, table: Array) -> Array:
        """P(coarse cell | …) -> P(fine cell | …), along the last axis."""
        return np.asarray(table[..., self.coarse] * self.share)


def coarse_cells(mass: Array, parts: LeafCells, most: int) -> CoarseCells:
    """Of the rows in every fine cell; an atom keeps its cell."""
    points = parts.parts[-1][1]
    inner = mass[:points]
    middle = (np.cumsum(inner) - inner / 2) / max(float(inner.sum()), 1e-300)
    rank = np.minimum((most * middle).astype(np.int64), most - 1)
    rank = np.cumsum(np.diff(rank, prepend=rank[0]) > 0)  # without empty ones
    coarse = np.concatenate([rank, rank[-1] + 1 + np.arange(len(mass) - points)])
    own = mass + 1e-3 * max(float(mass.sum()), 1.0) / len(mass)
    return CoarseCells(coarse, own / np.bincount(coarse, own)[coarse])


@final
@dataclass(frozen=True, slots=True)
class CellRows:
    """Rows in cells: positions of continuous columns rounded, then perhaps made coarser."""

    columns: tuple[Column, ...]
    coarse: Mapping[int, CoarseCells]  # by place of the column

    def of(self, rows: Rows) -> Rows:
        codes = []
        for i, (column, values) in enumerate(zip(self.columns, rows.codes, strict=True)):
            own = column.nearest(values)
            if i in self.coarse:
                place = self.coarse[i].coarse.astype(np.int16)
                own = np.where(own < 0, np.int16(-1), place[np.maximum(own, 0)])
            codes.append(own)
        return Rows(tuple(codes), rows.weight)

    def source(self, source: Source) -> Source:
        """The same rows where they are."""
        return change_rows(source, self.of)
