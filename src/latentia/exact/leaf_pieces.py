"""Gaussian leaves of columns that are more than one bell: atoms, and parts between wide gaps.

Every value tells by itself which atom or part it belongs to. So an E-step sees such a column as
several: a discrete one, the piece, and for each part a Gaussian that is missing outside of it:

    P(x | s) = P(piece of x | s) · N(x | s, piece)        of an atom only the first factor

A joined leaf has the components of all parts and then one for each atom, with the atom's place on
the grid as its mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import final

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.columns.continuous import ContinuousColumn, dense_columns
from latentia.data.rows import Rows
from latentia.exact.gaussian_leaves import (
    features,
    grid_masses,
    leaf_log_likelihoods,
    log_terms,
)
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Bools, CellArray

Tables = Mapping[int, Array]
Scale = tuple[float, float]  # mean and deviation, in steps of the grid


@final
@dataclass(frozen=True, slots=True)
class Pieces:
    """One column in pieces: variables of the wide graph, and where the pieces are."""

    kind: int  # which piece: parts in order, then atoms
    parts: tuple[int, ...]  # the column itself first
    points: int  # of its grid; atoms lie behind
    cuts: tuple[float, ...]  # between parts, in steps of the grid
    atoms: int
    middles: tuple[float, ...]  # of the parts

    @property
    def states(self) -> int:
        return len(self.parts) + self.atoms

    def split(self, places: Array) -> tuple[Bools, list[Array]]:
        """The piece of each cell, -1 where missing, and its place in each part or NaN."""
        there = np.where(np.isnan(places), 0.0, places)
        part = np.searchsorted(np.array(self.cuts), there)
        atom = len(self.parts) + there.astype(np.int64) - self.points
        kind = np.where(there >= self.points, atom, part)
        kind = np.where(np.isnan(places), -1, kind).astype(np.int16)
        return kind, [np.where(kind == k, places, np.nan) for k in range(len(self.parts))]

    def joined(self, kind: Array, parts: Sequence[Array]) -> Array:
        """One leaf: (parents …, components, 3)."""
        found = []
        for k, leaf in enumerate(parts):
            share = kind[..., k, None] * leaf[..., 0]
            found.append(np.concatenate([share[..., None], leaf[..., 1:]], axis=-1))
        alone = np.ones((*kind.shape[:-1], self.atoms, 3))
        alone[..., 0] = kind[..., len(parts) :]
        alone[..., 1] = self.points + np.arange(self.atoms)
        return np.concatenate([*found, alone], axis=-2)

    def apart(self, leaf: Array) -> tuple[Array, list[Array]]:
        """P(piece | s) and the leaf of each part: the inverse of `joined`."""
        count = (leaf.shape[-2] - self.atoms) // len(self.parts)
        kinds, parts = [], []
        for k in range(len(self.parts)):
            own = leaf[..., k * count : (k + 1) * count, :]
            share = own[..., 0].sum(axis=-1, keepdims=True)
            weight = np.where(share > 0, own[..., 0] / np.where(share > 0, share, 1.0), 1 / count)
            kinds.append(share)
            parts.append(np.concatenate([weight[..., None], own[..., 1:]], axis=-1))
        alone = leaf[..., leaf.shape[-2] - self.atoms :, 0]
        return np.concatenate([*kinds, alone], axis=-1), parts


@final
@dataclass(frozen=True, slots=True)
class WideGraph:
    """A graph, and the same with its columns in pieces: what an E-step works on."""

    graph: LatentGraph
    wide: LatentGraph
    pieces: Mapping[int, Pieces]

    def rows(self, rows: Rows) -> Rows:
        """Rows of the wide graph."""
        if not self.pieces:
            return rows
        codes: dict[int, CellArray] = dict(zip(self.graph.observed, rows.codes, strict=True))
        for v, own in self.pieces.items():
            codes[own.kind], parts = own.split(np.asarray(codes[v], dtype=float))
            codes |= zip(own.parts, parts, strict=True)
        return Rows(tuple(codes[v] for v in self.wide.observed), rows.weight)

    def scales(self, scales: Mapping[int, Scale]) -> dict[int, Scale]:
        """Means and deviations of parts, too."""
        found = dict(scales)
        for v, own in self.pieces.items():
            found |= {u: (m, scales[v][1]) for u, m in zip(own.parts, own.middles, strict=True)}
        return found

    def joined(self, tables: Tables) -> dict[int, Array]:
        """Tables of the graph: the pieces of a column as one leaf."""
        found = {v: table for v, table in tables.items() if v < len(self.graph.names)}
        for v, own in self.pieces.items():
            found[v] = own.joined(tables[own.kind], [tables[u] for u in own.parts])
        return found

    def apart(self, tables: Tables) -> dict[int, Array]:
        """Tables of the wide graph."""
        found = dict(tables)
        for v, own in self.pieces.items():
            found[own.kind], parts = own.apart(tables[v])
            found |= zip(own.parts, parts, strict=True)
        return found

    def owner(self, v: int) -> int:
        """The variable of the graph that a variable of the wide graph is a piece of."""
        return next((u for u, p in self.pieces.items() if v in (p.kind, *p.parts)), v)


def pieces_of(column: ContinuousColumn, kind: int, parts: tuple[int, ...]) -> Pieces:
    """The pieces of a column, as these variables of a wide graph."""
    ends = (column.low, *column.cuts, column.high)
    steps = [(end - column.low) / column.step - 0.5 for end in ends]
    middles = tuple((a + b) / 2.0 for a, b in pairwise(steps))
    return Pieces(kind, parts, column.points, tuple(steps[1:-1]), len(column.atoms), middles)


def leaf_log_density(column: ContinuousColumn, leaf: Array, position: float) -> Array:
    """log p(x | parents) at a position of the grid, per step of it; at an atom, log P: (parents …).

    By the piece that the position belongs to.
    """
    own = pieces_of(column, 0, tuple(range(len(column.cuts) + 1)))
    kind, parts = own.apart(leaf)
    k = int(own.split(np.array([position]))[0][0])
    with np.errstate(divide="ignore"):
        share = np.log(kind[..., k])
    if k >= len(parts):
        return np.asarray(share)
    found = leaf_log_likelihoods(log_terms([parts[k]]), features(np.array([[position]])))
    return np.asarray(share + found[:, 0].reshape(share.shape))


def widened(graph: LatentGraph, columns: Sequence[Column]) -> WideGraph:
    """The columns that have atoms or gaps in pieces; new variables come last."""
    names, edges, states = list(graph.names), list(graph.edges), list(graph.states)
    parents, pieces = graph.parents(), {}
    own = dense_columns(graph.observed, columns) if len(columns) > 0 else {}
    for v, c in own.items():
        if not (c.atoms or c.cuts):
            continue
        first, count = len(names), len(c.cuts) + 1
        pieces[v] = pieces_of(c, first, (v, *range(first + 1, first + count)))
        names += [(_MARK, c.name, k) for k in range(count)]
        states += [count + len(c.atoms), *[c.points] * (count - 1)]
        edges += [(u, first + k) for k in range(count) for u in parents[v]]
    if not pieces:
        return WideGraph(graph, graph, {})
    wide = replace(graph, names=tuple(names), edges=tuple(edges), states=tuple(states))
    return WideGraph(graph, wide, pieces)


_MARK = "piece of"  # names of new variables are triples that begin so


def cell_masses(leaf: Array, pieces: Pieces | None, cells: int) -> Array:
    """Masses at the points of a grid and at atoms, (parents …, cells)."""
    if pieces is None or not pieces.atoms:
        return grid_masses(leaf, cells)
    inner, alone = leaf[..., : -pieces.atoms, :], leaf[..., -pieces.atoms :, 0]
    return np.concatenate([grid_masses(inner, pieces.points), alone], axis=-1)
