"""The exact E-step of wide latents by matrix products, states last (formulas: estep.py).

    up      P = ∏ P(x | u) ∏ m_child,    m = P Mᵀ
    down    belief = P ∘ (D M),          D_child = belief / m_child
    counts  M ∘ Dᵀ P of a clique,        φᵀ belief of its columns, φ one where a row has a code

Columns are looked up by joint codes, whose factors lie in a row of a table: copies, not gathers. In
single precision products are half as dear, and right to about 1e-6. Rows whose products come near
the smallest numbers are not counted but named: others take care of them.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np

from latentia.data.rows import Rows
from latentia.exact.wide_layout import AlikePacks, WideLayout
from latentia.typing import Array, Bools, CellArray, Codes, Floats, Foreign

BLOCK_CELLS = 2**17  # of one product of a block
BLOCK_ROWS = (256, 2048)  # least and most
SCALED_AFTER = 18.0  # Σ log codes of the columns in a product
NEAR_SMALLEST = {"f": 1e-25, "d": 1e-200}  # a product below: the row is left to others
MOST_VIEWS = 2**12  # of memory, that are kept at hand
SMALLEST = {"f": 1e-37, "d": 1e-300}  # cells below are none: numbers near the smallest are slow


@final
@dataclass(frozen=True, slots=True)
class WideSums:
    """Expected counts as the vector of tables, log P(row), and rows that need more care."""

    counts: Array  # (size,)
    logs: Array  # (n,), of lost rows nought
    lost: Codes  # their numbers


def wide_sums(layout: WideLayout, vector: Array, rows: Rows, single: bool) -> WideSums:
    """Sums over packed rows but those that are lost, and which these are."""
    return WidePasses(layout, single).sums(vector, rows)


class _Room(threading.local):
    """Memory of each thread, used again: fresh pages cost more than the numbers."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, int], CellArray] = {}
        self.views: dict[tuple[object, ...], CellArray] = {}

    def of(self, kind: np.dtype[Foreign], name: str, k: int, *shape: int) -> CellArray:
        """An array with anything in it; what was under this name is overwritten."""
        found = self.views.get((kind, name, k, shape))
        if found is None:
            size = math.prod(shape) * kind.itemsize
            if (name, k) not in self.held or len(self.held[name, k]) < size:
                self.held[name, k] = np.empty(size, np.uint8)
                self.views.clear()  # some are of the memory before
            if len(self.views) >= MOST_VIEWS:
                self.views.clear()
            found = self.held[name, k][:size].view(kind).reshape(shape)
            self.views[kind, name, k, shape] = found
        return found


_ROOM = _Room()


def _cells(vector: Floats, families: Sequence[Codes], sizes: tuple[int, int]) -> Floats:
    """M(s, u): the product of a clique's tables, (upper, lower)."""
    if not families:
        return np.ones(sizes, vector.dtype)
    return math.prod((vector.take(x) for x in families[1:]), start=vector.take(families[0]))


def _multiplied(tables: list[Floats]) -> Floats:
    """All products of codes, the last fastest: (packs, codes, states)."""
    found = tables[0]
    for more in tables[1:]:
        found = (found[:, :, None] * more[:, None]).reshape(len(more), -1, more.shape[2])
    return found


class WidePasses:
    """Passes over blocks of rows, and what they have added up; one thread at a time."""

    def __init__(self, layout: WideLayout, single: bool) -> None:
        self.layout, self.kind = layout, np.dtype(np.float32 if single else float)
        self.near, self.smallest = NEAR_SMALLEST[self.kind.char], SMALLEST[self.kind.char]
        self.of = partial(_ROOM.of, self.kind)
        self.marks = layout.single_marks if single else layout.marks
        self.looked_up: dict[int, Floats] = {}  # (joint codes, states) of each pack
        self.maps: list[Floats] = []
        self.cells = np.zeros(len(layout.every))  # sums, in the order of the places
        self.pairs, self.columns = list[Array](), list[Array]()  # views of them
        start = 0
        for clique in layout.cliques:
            size = math.prod(clique.sizes)
            self.pairs.append(self.cells[start : start + (size if clique.families else 0)])
            start += size * len(clique.families)
        for pack, marks in zip(layout.estep.packs, self.marks, strict=True):
            shape = marks.shape[1], layout.estep.size(pack.scope)
            self.columns.append(self.cells[start : start + math.prod(shape)].reshape(shape))
            start += math.prod(shape)
        self.codes = np.array([len(m) for m in self.marks])

    def sums(self, vector: Array, rows: Rows) -> WideSums:
        """The E-step with these tables."""
        self.load(vector)
        widest = max(max(c.sizes) for c in self.layout.cliques)
        step = int(np.clip(BLOCK_CELLS // widest, *BLOCK_ROWS))
        logs, lost = np.zeros(len(rows)), [np.zeros(0, dtype=np.intp)]
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            logs[part], bad = self.add(rows[part])
            lost.append(start + np.flatnonzero(bad))
        return WideSums(self.counts(), logs, np.concatenate(lost))

    def load(self, vector: Array) -> None:
        """Factors of these tables; nothing is added up yet."""
        self.cells.fill(0.0)
        own = vector.astype(self.kind)
        own[own < self.smallest] = 0
        self.maps = [_cells(own, c.families, c.sizes) for c in self.layout.cliques]
        for group in self.layout.alike:
            self.looked_up |= zip(group.packs, self.joint(group, own), strict=True)

    def joint(self, group: AlikePacks, vector: Floats) -> Floats:
        """P(x | u) of all columns of packs by their joint code: (packs, codes, states).

        Two halves are multiplied out, and then put together row by row, which copies.
        """
        half = group.half
        first = _multiplied([vector[x] for x in group.places[:half]])
        if half == len(group.places):
            return first
        last = _multiplied([vector[x] for x in group.places[half:]])
        size, states = len(group.high), first.shape[2]
        table, other = (self.of(f"{x} {group.packs[0]}", 0, size, states) for x in ("one", "two"))
        first.reshape(-1, states).take(group.high, axis=0, out=table, mode="clip")
        last.reshape(-1, states).take(group.low, axis=0, out=other, mode="clip")
        table *= other
        return table.reshape(len(group.packs), -1, states)

    def add(self, rows: Rows) -> tuple[Array, Bools]:
        """Add a block of rows; log P(row), and which rows are left out."""
        log, bad = np.zeros(len(rows)), np.zeros(len(rows), dtype=bool)
        codes = np.array(rows.codes, dtype=np.intp)  # (packs, n)
        if codes.min() < 0 or (codes.max(axis=1) >= self.codes).any():
            raise IndexError("a code of a packed row is out of bounds")
        products, messages = self.up(codes, log, bad)
        share = np.where(bad, 0.0, rows.weights).astype(self.kind)
        self.down(codes, products, messages, share)
        return np.where(bad, 0.0, log), bad

    def up(self, codes: Codes, log: Array, bad: Bools) -> tuple[list[Floats], list[Floats]]:
        """P, (n, lower), and m, (n, upper), of every clique; at a root 1 / m."""
        n, cliques = len(log), self.layout.cliques
        products: list[Floats] = [np.empty(0)] * len(cliques)
        messages, depth = list(products), [0.0] * len(cliques)
        for k in reversed(range(len(cliques))):
            clique = cliques[k]
            upper, lower = clique.sizes
            P = products[k] = self.of("product", k, n, lower)
            if not clique.packs:
                P.fill(1.0)
            for at, p in enumerate(clique.packs):
                table, to = self.looked_up[p], P if at == 0 else self.of("looked up", 0, n, lower)
                table.take(codes[p], axis=0, out=to, mode="clip")  # that they fit is known
                if at:
                    P *= to
                depth[k] += clique.depths[at]
                if depth[k] > SCALED_AFTER:
                    depth[k] = self.scale(P, log, bad)
            for c in clique.children:
                P *= messages[c]
                depth[k] += depth[c]
                if depth[k] > SCALED_AFTER:
                    depth[k] = self.scale(P, log, bad)
            m = messages[k] = self.of("message", k, n, upper)
            np.matmul(P, self.maps[k].T, out=m)
            if clique.parent == k:
                m[:, 0] = self.inverse(m[:, 0], log, bad)
            else:
                m += self.smallest
        return products, messages

    def down(
        self, codes: Codes, products: list[Floats], messages: list[Floats], share: Floats
    ) -> None:
        """Beliefs from the roots on; what they add to counts."""
        for k, clique in enumerate(self.layout.cliques):
            P, D = products[k], messages[k]
            if clique.parent == k:
                D *= share[:, None]
            if clique.families:
                self.pairs[k] += (D.T @ P).ravel()
            belief = self.of("belief", 0, *P.shape)
            if clique.sizes[0] == 1:
                np.multiply(D, self.maps[k], out=belief)
            else:
                np.matmul(D, self.maps[k], out=belief)
            belief *= P
            for p in clique.packs:
                phi = self.of("phi", 0, len(P), self.marks[p].shape[1])
                self.marks[p].take(codes[p], axis=0, out=phi, mode="clip")
                self.columns[p] += phi.T @ belief
            for c in clique.children:
                np.divide(belief, messages[c], out=messages[c])

    def scale(self, P: Floats, log: Array, bad: Bools) -> float:
        """Divide a product that holds many columns by its sum; none of them is left in it."""
        P *= self.inverse(P.sum(axis=1), log, bad)[:, None]
        return 0.0

    def inverse(self, total: Floats, log: Array, bad: Bools) -> Floats:
        """1 / total, whose log is kept; rows where it is too small are bad."""
        bad |= ~(total > self.near)
        total = np.where(bad, 1, total)
        log += np.log(total)
        return 1 / total

    def counts(self) -> Array:
        """The vector of counts; what fell on its one and nought is left out."""
        start = 0
        for clique, M, pairs in zip(self.layout.cliques, self.maps, self.pairs, strict=True):
            if clique.families:
                pairs *= M.ravel()
            for _ in clique.families:
                self.cells[start : start + pairs.size] = pairs
                start += pairs.size
        found = np.bincount(self.layout.every, self.cells, self.layout.size + 2)
        return np.asarray(found[:-2], dtype=float)
