"""Rows of a latent class: one latent, and columns that know nothing of each other given it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import final

import numpy as np

from latentia.data.rows import Rows
from latentia.exact.estep_wiring import Scope
from latentia.exact.pieces import Piece
from latentia.native.loading import kernel
from latentia.networks.accelerate import Tables
from latentia.networks.shared_products import SharedProducts, share_products
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Codes

WHOLE = 4  # as in native/level.h


@final
@dataclass(frozen=True)
class SurveyRows:
    """Different rows of columns that hang on one latent alone."""

    latent: int
    columns: tuple[int, ...]
    states: Mapping[int, int]  # of all of them
    seen: Codes  # (rows, columns) int32: the code among those of all columns; -1: a hole
    weight: Array

    @property
    def classes(self) -> int:
        """States of the latent."""
        return self.states[self.latent]

    @property
    def padded(self) -> int:
        """The same, rounded up to what the kernel works on at once."""
        return -(-self.classes // WHOLE) * WHOLE

    @cached_property
    def codes(self) -> int:
        """States of all columns."""
        return sum(self.states[v] for v in self.columns)

    @cached_property
    def marks(self) -> Array:
        """1 where a row has a code, (rows, codes); nothing where it has a hole."""
        marks = np.zeros((len(self.seen), self.codes + 1))
        np.put_along_axis(marks, self.seen.astype(np.int64), 1.0, axis=1)  # holes, -1, come last
        return np.ascontiguousarray(marks[:, : self.codes])

    @cached_property
    def lengths(self) -> Codes:
        """States of each column."""
        return np.array([self.states[v] for v in self.columns])

    @cached_property
    def begin(self) -> Codes:
        """Where each column's codes begin among those of all."""
        return self.lengths.cumsum() - self.lengths

    @cached_property
    def column(self) -> Codes:
        """The column, by place, of every code."""
        return np.arange(len(self.columns)).repeat(self.lengths)

    @cached_property
    def pairs(self) -> Array:
        """Weight of rows that have two codes, (codes, codes)."""
        return (self.marks * self.weight[:, None]).T @ self.marks

    @cached_property
    def met_together(self) -> Array:
        """Weight of rows in which the columns of two codes are both there, (codes, codes)."""
        rows = np.add.reduceat(self.pairs, self.begin, axis=0)
        blocks = np.add.reduceat(rows, self.begin, axis=1)
        return np.asarray(blocks[self.column][:, self.column])

    @cached_property
    def shared(self) -> SharedProducts:
        """The same rows by products that many have in common; the kernel must be there."""
        own = kernel()
        assert own is not None
        return share_products(own, self.seen, [self.states[v] for v in self.columns])

    def some(self, rows: Codes) -> SurveyRows:
        """Some of the rows, by place."""
        return replace(self, seen=self.seen[rows], weight=self.weight[rows])

    @property
    def work(self) -> int:
        """Numbers that an E-step works out."""
        return int(self.seen.size) * self.padded

    def spoken_parameters(self, tables: Tables) -> int:
        """Free parameters of table rows with an expected count above one half."""
        logs = [np.log(tables[v].reshape(self.classes, -1) + 1e-300) for v in self.columns]
        every = np.concatenate([*logs, np.zeros((self.classes, 1))], axis=1)  # -1, a hole: 0
        score = every[:, self.seen].sum(axis=2) + np.log(tables[self.latent] + 1e-300).reshape(
            -1, 1
        )
        share = np.exp(score - score.max(axis=0))
        share *= self.weight / share.sum(axis=0)
        met = share @ (self.seen >= 0) > 0.5  # (classes, columns)
        free = [self.states[v] - 1 for v in self.columns]
        return max(self.classes - 1 + int(met.sum(axis=0) @ free), 1)

    def places(self, order: Sequence[int]) -> Codes:
        """Where P(class), then P(code | class) lie in tables, one after the other, int32."""
        own = tuple(self.states[v] for v in self.columns)
        return _places(self.latent, self.columns, self.classes, own, tuple(order))


@lru_cache(maxsize=64)
def _places(
    latent: int, columns: Scope, classes: int, states: tuple[int, ...], order: Scope
) -> Codes:
    sizes, start, begin = dict(zip(columns, states, strict=True)), 0, {}
    for v in order:
        begin[v] = start
        start += classes * sizes.get(v, 1)
    found = [begin[latent] + np.arange(classes)[None]]
    for v, count in sizes.items():
        found.append(begin[v] + np.arange(classes * count).reshape(classes, -1).T)
    return np.ascontiguousarray(np.concatenate(found), dtype=np.int32)


def class_rows(piece: Piece, rows: Rows) -> SurveyRows | None:
    """The rows of a piece that is one latent and its columns; None for all others."""
    graph = piece.graph
    if piece.given or len(piece.families) != len(graph.names):
        return None
    return survey_rows(graph, rows)


def is_latent_class(graph: LatentGraph) -> bool:
    """One latent above every column, and nothing else?"""
    if len(graph.latent) != 1 or not graph.directed:
        return False
    (h,) = graph.latent
    parents = graph.parents()
    return all(parents[v] == (() if v == h else (h,)) for v in range(len(graph.names)))


def survey_rows(graph: LatentGraph, rows: Rows) -> SurveyRows | None:
    """Rows of a graph that is one latent and its columns, by its own numbers; None for others."""
    if not is_latent_class(graph):
        return None
    (h,) = graph.latent
    states = {v: count or 1 for v, count in enumerate(graph.states)}
    if states[h] < 2 or not graph.observed:
        return None
    seen, first = np.empty((len(rows), len(rows.codes)), dtype=np.int32), 0
    for i, v in enumerate(graph.observed):
        own = rows.codes[i].astype(np.int32)  # codes of few states are small numbers: no sums there
        seen[:, i] = np.where(own >= 0, own + first, -1)
        first += states[v]
    weight = np.ascontiguousarray(rows.weights, dtype=np.float64)
    return SurveyRows(h, graph.observed, states, seen, weight)
