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
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from latentia.data.rows import Rows
from latentia.exact.wide_layout import AlikePacks, WideLayout
from latentia.typing import Array, Codes

BLOCK_CELLS = 2**17  # of one product of a block
BLOCK_ROWS = (256, 2048)  # least and most
SCALED_AFTER = 18.0  # Σ log codes of the columns in a product
NEAR_SMALLEST = {"f": 1e-25, "d": 1e-200}  # a product below: the row is left to others
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
    passes = _Passes(layout, vector.astype(np.float32 if single else float))
    widest = max(max(c.sizes) for c in layout.cliques)
    step = int(np.clip(BLOCK_CELLS // widest, *BLOCK_ROWS))
    logs, lost = np.zeros(len(rows)), [np.zeros(0, dtype=np.intp)]
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        logs[part], bad = passes.add(rows[part])
        lost.append(start + np.flatnonzero(bad))
    return WideSums(passes.counts(), logs, np.concatenate(lost))


_held = threading.local()


def _room() -> dict[tuple[str, int], Any]:
    """Memory of this thread, whatever E-step it is for."""
    if not hasattr(_held, "room"):
        _held.room = {}
    found: dict[tuple[str, int], Any] = _held.room
    return found


class _Passes:
    """Passes over blocks of rows, and what they have added up."""

    def __init__(self, layout: WideLayout, vector: Any) -> None:
        self.layout, self.kind = layout, vector.dtype
        self.near, self.smallest = NEAR_SMALLEST[self.kind.char], SMALLEST[self.kind.char]
        vector[vector < self.smallest] = 0
        self.room = _room()
        self.maps = [
            math.prod((vector[x] for x in c.families), start=np.ones(c.sizes, self.kind))
            for c in layout.cliques
        ]
        self.looked_up: dict[int, Any] = {}  # (joint codes, states) of each pack
        for group in layout.alike:
            self.looked_up |= zip(group.packs, self.joint(group, vector), strict=True)
        self.marks = layout.marks if self.kind.char == "d" else layout.single_marks
        self.pairs = [np.zeros(c.sizes) for c in layout.cliques]
        self.columns = {
            p: np.zeros((self.marks[p].shape[1], table.shape[1]))
            for p, table in sorted(self.looked_up.items())
        }

    def of(self, name: str, k: int, *shape: int) -> Any:
        """Anything in memory that is used again: fresh pages cost more than the numbers."""
        size = math.prod(shape) * self.kind.itemsize
        held = self.room.get((name, k))
        if held is None or len(held) < size:
            held = self.room[name, k] = np.empty(size, np.uint8)
        return held[:size].view(self.kind).reshape(shape)

    def joint(self, group: AlikePacks, vector: Any) -> Any:
        """P(x | u) of all columns of packs by their joint code: (packs, codes, states)."""
        table = vector[group.places[0]]
        for w, places in enumerate(group.places[1:], start=1):
            more = vector[places]
            packs, codes, states = more.shape
            made = self.of(f"joint {group.packs[0]}", w, packs, table.shape[1], codes, states)
            np.multiply(table[:, :, None], more[:, None], out=made)
            table = made.reshape(packs, -1, states)
        return table

    def add(self, rows: Rows) -> tuple[Array, Any]:
        """Add a block of rows; log P(row), and which rows are left out."""
        log, bad = np.zeros(len(rows)), np.zeros(len(rows), dtype=bool)
        codes = [c.astype(np.intp) for c in rows.codes]
        for p, table in self.looked_up.items():
            if codes[p].min(initial=0) < 0 or codes[p].max(initial=0) >= len(table):
                raise IndexError("a code of a packed row is out of bounds")
        products, messages = self.up(codes, log, bad)
        share = np.where(bad, 0.0, rows.weights).astype(self.kind)
        self.down(codes, products, messages, share)
        return np.where(bad, 0.0, log), bad

    def up(self, codes: list[Any], log: Array, bad: Any) -> tuple[list[Any], list[Any]]:
        """P, (n, lower), and m, (n, upper), of every clique; at a root 1 / m."""
        n, cliques = len(log), self.layout.cliques
        products: list[Any] = [None] * len(cliques)
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
                depth[k] = self.scaled(P, depth[k] + math.log(len(table)), log, bad)
            for c in clique.children:
                P *= messages[c]
                depth[k] = self.scaled(P, depth[k] + depth[c], log, bad)
            m = messages[k] = self.of("message", k, n, upper)
            np.matmul(P, self.maps[k].T, out=m)
            if clique.parent == k:
                m[:, 0] = self.inverse(m[:, 0], log, bad)
            else:
                m += self.smallest
        return products, messages

    def down(self, codes: list[Any], products: list[Any], messages: list[Any], share: Any) -> None:
        """Beliefs from the roots on; what they add to counts."""
        for k, clique in enumerate(self.layout.cliques):
            P, D = products[k], messages[k]
            if clique.parent == k:
                D *= share[:, None]
            self.pairs[k] += D.T @ P
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

    def scaled(self, P: Any, depth: float, log: Array, bad: Any) -> float:
        """Divide a product that holds many columns by its sum; how many it then holds."""
        if depth <= SCALED_AFTER:
            return depth
        P *= self.inverse(P @ np.ones(P.shape[1], self.kind), log, bad)[:, None]
        return 0.0

    def inverse(self, total: Any, log: Array, bad: Any) -> Any:
        """1 / total, whose log is kept; rows where it is too small are bad."""
        bad |= ~(total > self.near)
        total = np.where(bad, 1, total)
        log += np.log(total)
        return 1 / total

    def counts(self) -> Array:
        """The vector of counts; what fell on its one and nought is left out."""
        cells = []
        for clique, M, pairs in zip(self.layout.cliques, self.maps, self.pairs, strict=True):
            cells += [(M * pairs).ravel()] * len(clique.families)
        cells += [x.ravel() for x in self.columns.values()]
        found: Any = np.bincount(self.layout.every, np.concatenate(cells), self.layout.size + 2)
        return np.asarray(found[:-2], dtype=float)
