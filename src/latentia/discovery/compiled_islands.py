"""Mini-batch EM of islands by the compiled kernel (native/islands.c): an epoch is one call.

Batches of small tables are over in microseconds, so that what numpy needs to be called would be
nearly all; and rows have few features that are one, whose weights are added where numpy multiplies
with all. Links between latents are BLAS's products in both.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import final

import numpy as np
from numpy.typing import NDArray

from latentia.discovery.island_features import IslandFeatures, Single
from latentia.discovery.island_network import IslandCounts, IslandLayout, IslandTables
from latentia.native.loading import Kernel
from latentia.typing import Array, CellArray, Codes

EIGHT = 8  # to a multiple of which states are padded
CHUNK = 128  # rows whose messages stay in the processor's cache
NEVER = np.float32(-1e30)  # weight of states that only pad

Numbers = NDArray[np.int64]


def in_eights(states: int) -> int:
    """States with those that pad them."""
    return -(-states // EIGHT) * EIGHT


class _Islands(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("islands", "columns", "size", "chunk", "wide")),
        *((name, ctypes.c_void_p) for name in ("island", "column", "order", "children", "bells")),
        *((name, ctypes.c_void_p) for name in ("codes", "weight", "multiply")),
        ("pseudo_count", ctypes.c_float),
        *((name, ctypes.c_void_p) for name in ("messages", "counts", "cells", "active")),
        *((name, ctypes.c_void_p) for name in ("seen", "logs")),
    )


@final
class PaddedIslands:
    """Where tables, counts and messages of a layout lie: as the kernel has them."""

    def __init__(self, layout: IslandLayout) -> None:
        self.layout, tree = layout, layout.islands.tree
        padded = [in_eights(k) for k in layout.states]
        above = [1 if a < 0 else padded[a] for a in tree.above]
        self.padded, self.above = padded, above
        self.weights_at, self.links_at = [], []
        self.size = room = 0
        columns, bells, kids, rows = list[list[int]](), [0.0], list[int](), []
        for i, own in enumerate(layout.features):
            n, m, a = padded[i], above[i], tree.above[i]
            first, first_kid = len(columns), len(kids)
            columns += _column_numbers(layout, own, bells)
            kids += tree.below[i]
            self.weights_at.append(self.size)
            self.links_at.append(self.size + own.width * n)
            states = (layout.states[i], n, m, 1 if a < 0 else layout.states[a], a)
            told = (room, room + CHUNK * n, room + 2 * CHUNK * n)  # beliefs, posteriors, messages
            at = (self.weights_at[i], self.links_at[i], told[0], told[2], told[1])
            rows.append((*states, own.width, first, len(columns), *at, first_kid, len(kids)))
            self.size += (own.width + m) * n
            room += CHUNK * (2 * n + m)
            room += -room % EIGHT
        self.room = room
        self.islands: Numbers = np.array(rows, dtype=np.int64)
        self.columns: Numbers = np.array(columns, dtype=np.int64).reshape(-1, 10)
        self.children: Numbers = np.array([*kids, 0], dtype=np.int64)
        self.order: Numbers = np.array(tree.order, dtype=np.int64)
        self.bells = np.array(bells, dtype=np.float32)
        widest = max(len(own) for own in layout.islands.columns)
        self.most_active = 1 + 2 * widest
        cells = self.columns[:, 1] * (self.columns[:, 4] + 1)  # of a column, and once more
        self.cells = int(cells.max(initial=1)) * max(padded)

    def packed(self, tables: IslandTables) -> Single:
        """Tables as one vector."""
        found = np.zeros(self.size, np.float32)
        for i, (weights, links) in enumerate(zip(tables.weights, tables.links, strict=True)):
            k = self.layout.states[i]
            self._features(found, i)[:, :k] = weights
            self._features(found, i)[0, k:] = NEVER
            self._links(found, i)[: len(links), :k] = links
        return found

    def counts(self, packed: Single) -> IslandCounts:
        """Counts from one vector; copies."""
        links, features = [], []
        for i, k in enumerate(self.layout.states):
            a = self.layout.islands.tree.above[i]
            rows = 1 if a < 0 else self.layout.states[a]
            links.append(self._links(packed, i)[:rows, :k].copy())
            features.append(self._features(packed, i)[:, :k].copy())
        return IslandCounts(tuple(links), tuple(features))

    def _features(self, packed: Single, i: int) -> Single:
        return packed[self.weights_at[i] : self.links_at[i]].reshape(-1, self.padded[i])

    def _links(self, packed: Single, i: int) -> Single:
        start, shape = self.links_at[i], (self.above[i], self.padded[i])
        return packed[start : start + shape[0] * shape[1]].reshape(shape)


def _column_numbers(
    layout: IslandLayout, own: IslandFeatures, bells: list[float]
) -> list[list[int]]:
    """What native/islands.c wants to know of each column; what its line is goes to the bells."""
    single: dict[int, int] = {}
    pair: dict[int, int] = {}
    for place, (c, p) in enumerate(zip(own.column.tolist(), own.parent.tolist(), strict=True)):
        (single if p < 0 else pair).setdefault(c, place + 1)
    found = []
    for group in own.groups:
        for place, c in enumerate(group.columns):
            p, cells, told = layout.islands.column_parent[c], 0, len(bells)
            if group.line is not None:
                line, cells = group.line, group.line.cells
                parts = (line.ends[place], line.moments[place, 1:], line.share[place])
                for x in (*parts, line.apart[place]):
                    bells += x.ravel().tolist()
            parents = (p, max(group.parent_states, 1), single.get(p, 0), pair.get(c, 0))
            found.append(
                [c, group.states, single.get(c, 0), *parents, int(group.whole), cells, told]
            )
    return found


@final
class CompiledSteps:
    """Steps of one climb (island_steps.py), by the kernel."""

    def __init__(
        self,
        own: Kernel,
        layout: IslandLayout,
        codes: Codes,
        weight: Array | None,
        watched: Codes,
        pseudo_count: float,
    ) -> None:
        self._own, self._layout = own, PaddedIslands(layout)
        self._codes = _checked(codes, layout.sizes)
        self._watched = _checked(watched, layout.sizes)
        self._weight = None if weight is None else np.ascontiguousarray(weight, np.float32)
        self._pseudo_count = pseudo_count
        places = self._layout
        self._tables = np.zeros(places.size, np.float32)
        self._counts = np.zeros(places.size, np.float32)
        self._room = tuple(
            np.zeros(max(size, 1), kind)
            for size, kind in (
                (places.room, np.float32),
                (places.size, np.float32),
                (places.cells, np.float32),
                (len(layout.states) * CHUNK * places.most_active, np.int32),
                (CHUNK * len(layout.sizes), np.int32),
                (CHUNK, np.float64),
            )
        )
        self._learning = self._call(self._codes, self._weight)
        self._watching = self._call(self._watched, None)

    def start(self, tables: IslandTables) -> None:
        self._tables = self._layout.packed(tables)

    @property
    def counts(self) -> IslandCounts:
        return self._layout.counts(self._counts)

    def count_all(self) -> None:
        self._expect(self._learning, len(self._codes), None)
        self._counts[:] = self._room[1]
        self._own.function("islands_maximise")(
            ctypes.byref(self._learning), _at(self._counts), _at(self._tables)
        )

    def batches(
        self, parts: Sequence[Codes], own: Sequence[np.float32], share: Sequence[np.float32]
    ) -> None:
        rows = np.ascontiguousarray(np.concatenate(parts), dtype=np.int64)
        ends = np.cumsum([len(some) for some in parts], dtype=np.int64)
        kept, added = np.array(own, np.float32), np.array(share, np.float32)
        self._own.function("islands_batches")(
            ctypes.byref(self._learning),
            *(_at(rows), _at(ends), ctypes.c_int64(len(parts)), _at(kept), _at(added)),
            *(_at(self._counts), _at(self._tables)),
        )

    def likelihoods(self) -> Array:
        found = np.empty(len(self._watched))
        self._expect(self._watching, len(found), found)
        return found

    def _expect(self, call: _Islands, many: int, logs: Array | None) -> None:
        """Counts of all rows into the room, or their likelihoods."""
        rows = np.arange(many, dtype=np.int64)
        self._own.function("islands_expect")(
            ctypes.byref(call),
            *(_at(self._tables), _at(rows), ctypes.c_int64(many)),
            *(ctypes.c_int64(logs is None), None if logs is None else _at(logs)),
        )

    def _call(self, codes: Codes, weight: Single | None) -> _Islands:
        own = self._layout
        return _Islands(
            *(len(own.islands), codes.shape[1], own.size, CHUNK, own.most_active),
            *(x.ctypes.data for x in (own.islands, own.columns, own.order, own.children)),
            *(own.bells.ctypes.data, codes.ctypes.data),
            None if weight is None else weight.ctypes.data,
            _multiply(),
            self._pseudo_count,
            *(x.ctypes.data for x in self._room),
        )


def _checked(codes: Codes, sizes: Sequence[int]) -> NDArray[np.int32]:
    """Codes that the kernel may look up in bare memory."""
    if len(codes) and (codes.max(axis=0) >= np.asarray(sizes)).any():
        raise IndexError(f"codes of columns with {tuple(sizes)} states are below these numbers.")
    return np.ascontiguousarray(codes, dtype=np.int32)


def _at(x: CellArray) -> ctypes.c_void_p:
    return ctypes.c_void_p(x.ctypes.data)


@cache
def _multiply() -> int:
    """Where scipy's BLAS has its product of matrices in single precision (sgemm of Fortran)."""
    from scipy.linalg import cython_blas

    capsule = cython_blas.__pyx_capi__["sgemm"]
    api = ctypes.pythonapi
    name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", api)
    )
    return int(pointer(capsule, name(capsule)))
