"""The E-step of many starts at once: the same rows under several sets of tables (design 13).

Small pieces take their time in calls, not in numbers. Here every number comes once for each start,
(rows, starts, states), so that looking up a row copies the factors of all starts at once, and
adding up its counts adds those of all. A clique has rows of its own: those that differ in what lies
at it and below; only at a root are these all rows. (Where there is a kernel: compiled_many.py.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import final

import numpy as np

from latentia.data.rows import Rows
from latentia.exact.estep_passes import RESCALE, SMALLEST, TINY
from latentia.exact.estep_wiring import Clique, EStep, Placing
from latentia.exact.many_cells import SMALL_SPREAD, ManyCells, Places, many_cells, ones_at
from latentia.typing import Array, Codes, Foreign

BLOCK_CELLS = 2**15  # of one product of a block, for all starts: what a cache holds
LEAST_ROWS = 16


@final
@dataclass(frozen=True, slots=True)
class _Axes:
    """How a scope lies on the axes of a product: by a 0/1 matrix where that is small."""

    placing: Placing
    matrix: Array | None  # (states of the scope, states of the product)
    turned: Array | None

    def spread(self, x: Array) -> Array:
        """(rows, starts, states of the scope) -> (rows, starts, states of the product)."""
        if self.placing.same:
            return x
        rows, starts, states = x.shape
        if self.matrix is not None:
            return (x.reshape(-1, states) @ self.matrix).reshape(rows, starts, -1)
        at = self.placing
        axes = (0, *(k + 1 for k in at.order[:-1]))
        wide = x.reshape(-1, *at.sizes).transpose(axes).reshape(-1, *at.spread)
        whole = np.broadcast_to(wide, (rows * starts, *at.product))
        return whole.reshape(rows, starts, -1)

    def sum(self, x: Array) -> Array:
        """(rows, starts, states of the product) -> (rows, starts, states of the scope)."""
        if self.placing.same:
            return x
        rows, starts, states = x.shape
        if self.turned is not None:
            return (x.reshape(-1, states) @ self.turned).reshape(rows, starts, -1)
        at = self.placing
        kept = x.reshape(-1, *at.product).sum(axis=tuple(k + 1 for k in at.gone))
        order = (0, *(k + 1 for k in at.back[:-1]))
        return np.asarray(kept.transpose(order).reshape(rows, starts, -1))


@final
@dataclass(frozen=True, slots=True)
class _Entry:
    """What comes into a clique from one pack or child: which of its rows each row takes."""

    pack: int  # -1: from a child
    child: int
    which: Codes
    sums: Foreign  # (codes of the pack or rows of the child, rows): 1 where a row takes it


@final
@dataclass(frozen=True, slots=True)
class _Block:
    """Some of a clique's rows."""

    rows: slice
    entries: tuple[tuple[_Entry, ...], ...]  # of each input


@final
@dataclass(frozen=True, slots=True)
class _CliqueRows:
    """The rows of a clique: those that differ at it and below."""

    weight: Array
    blocks: tuple[_Block, ...]
    axes: tuple[_Axes, ...]  # of each input


@final
@dataclass(frozen=True, slots=True)
class _Passes:
    """What is worked out on the way: looked-up factors, messages, and totals."""

    tables: tuple[Array, ...]  # of each pack: (joint codes, starts, states of the scope)
    maps: tuple[Array, ...]  # of each clique: (starts, shared, upper, lower)
    messages: dict[int, Array]  # up: (rows, starts, states of the separator)
    logs: dict[int, Array | None]  # … what was taken out of them, (rows, starts), if anything
    columns: dict[int, int]  # … and how many they are of
    above: dict[int, Array]  # down: the sum of what rows above say
    packs: tuple[Array, ...]  # beliefs of the scope by joint code
    pairs: tuple[Array, ...]  # of each clique: (starts, shared, upper, lower)
    log_likelihood: Array  # (starts,)


@final
@dataclass(frozen=True, slots=True)
class ManyRows:
    """Rows and wiring: numbers of several starts -> their expected counts."""

    cells: ManyCells
    cliques: tuple[_CliqueRows, ...]

    @property
    def estep(self) -> EStep:
        return self.cells.estep

    def __call__(self, X: Array) -> tuple[Array, Array] | None:
        """Counts, (starts, cells), and log-likelihoods, (starts,).

        None where a row came near the smallest numbers: that is done with care, start by start.
        """
        cliques, factors = self.estep.cliques, self.cells.factors(X)
        packs = tuple(np.zeros(t.shape) for t in factors.tables)
        pairs = tuple(np.zeros(M.shape) for M in factors.maps)
        now = _Passes(factors.tables, factors.maps, {}, {}, {}, {}, packs, pairs, np.zeros(len(X)))
        for k in reversed(range(len(cliques))):
            if cliques[k].parent != k:
                self._up(k, now)
        if not all(self._down(k, now) for k in range(len(cliques))):
            return None
        _add(now.log_likelihood, self.cells.count_free(factors, packs))
        return self.cells.counts(factors, packs, pairs), now.log_likelihood

    # --- one clique -------------------------------------------------------------------------------

    def _up(self, k: int, now: _Passes) -> None:
        """The message of a clique to the one above."""
        own = self.cliques[k]
        shared, upper, _ = self.estep.cliques[k].sizes
        starts = len(now.log_likelihood)
        now.messages[k] = np.empty((len(own.weight), starts, shared * upper))
        logs: Array | None = None
        for block in own.blocks:
            P, now.columns[k], log = self._product(k, block, now)
            now.messages[k][block.rows] = _times(now.maps[k], P)
            if log is not None:
                if logs is None:
                    logs = np.zeros((len(own.weight), starts))
                logs[block.rows] = log
        now.logs[k] = logs

    def _product(self, k: int, block: _Block, now: _Passes) -> tuple[Array, int, Array | None]:
        """All that comes into a clique: (rows, starts, states), its columns, logs taken out."""
        clique, own = self.estep.cliques[k], self.cliques[k]
        value: Array | None = None
        used, log = 0, None
        for entries, axes in zip(block.entries, own.axes, strict=True):
            factor: Array | None = None
            for entry in entries:
                part, more, taken = self._entry(entry, now)
                factor = part if factor is None else np.multiply(factor, part, out=factor)
                used += more
                log = taken if log is None else log if taken is None else log + taken
            if factor is None:
                continue
            whole = axes.spread(factor)
            value = whole if value is None else value * whole
            if used > RESCALE:
                top = np.maximum(value.max(axis=2, keepdims=True), SMALLEST)
                value = value / top
                log, used = np.log(top[:, :, 0]) + (0.0 if log is None else log), 1
        if value is None:
            rows, starts = block.rows.stop - block.rows.start, len(now.log_likelihood)
            value = np.ones((rows, starts, clique.sizes[0] * clique.sizes[2]))
        return value, used, log

    def _entry(self, entry: _Entry, now: _Passes) -> tuple[Array, int, Array | None]:
        """What comes from one pack or child, its columns, and the logs taken out of it."""
        if entry.pack >= 0:
            columns = len(self.estep.packs[entry.pack].witnesses)
            return now.tables[entry.pack].take(entry.which, axis=0), columns, None
        child = entry.child
        log = now.logs[child]
        taken = None if log is None else log.take(entry.which, axis=0)
        return now.messages[child].take(entry.which, axis=0), now.columns[child], taken

    def _down(self, k: int, now: _Passes) -> bool:
        """Beliefs of a clique: counts, and what goes down; False where numbers are too small."""
        clique, own, M = self.estep.cliques[k], self.cliques[k], now.maps[k]
        root = clique.parent == k
        above = None if root else now.above.pop(k) / np.maximum(now.messages[k], SMALLEST)
        for block in own.blocks:
            P, _, log = self._product(k, block, now)
            if above is None:
                Z = _times(M, P)
                if not Z.min(initial=1.0) > TINY:
                    return False
                logs = np.log(Z[:, :, 0]) + (0.0 if log is None else log)
                _add(now.log_likelihood, own.weight[block.rows] @ logs)
                D = own.weight[block.rows, None, None] / Z
            else:
                D = above[block.rows]
            if clique.families:
                _add(now.pairs[k], _pairs(clique, D, P))
            belief = _times(M.swapaxes(2, 3), D)
            belief *= P
            for entries, axes in zip(block.entries, own.axes, strict=True):
                part = axes.sum(belief)
                flat = part.reshape(len(part), -1)
                for entry in entries:
                    total = self._total(entry, now)
                    total += (entry.sums @ flat).reshape(total.shape)
        return True

    def _total(self, entry: _Entry, now: _Passes) -> Array:
        """Where beliefs of an entry are added up."""
        if entry.pack >= 0:
            return now.packs[entry.pack]
        return now.above.setdefault(entry.child, np.zeros(now.messages[entry.child].shape))


def _add(total: Array, more: Array | float) -> None:
    total += more


def _times(M: Array, x: Array) -> Array:
    """Σ_b M(start, shared, a, b) x(row, start, (shared, b)): (rows, starts, (shared, a))."""
    starts, shared, a, b = M.shape
    rows = len(x)
    if a == 1 and b * shared**2 <= SMALL_SPREAD:
        whole = x * M.reshape(starts, -1)
        return (whole.reshape(-1, shared * b) @ _folded(shared, b)).reshape(rows, starts, -1)
    if b == 1 and a * shared**2 <= SMALL_SPREAD:
        wide = (x.reshape(-1, shared) @ _folded(shared, a).T).reshape(rows, starts, -1)
        return np.multiply(wide, M.reshape(starts, -1), out=wide)
    out = np.empty((rows, starts, shared, a))
    cut = x.reshape(rows, starts, shared, b).transpose(1, 2, 0, 3)
    np.matmul(cut, M.swapaxes(2, 3), out=out.transpose(1, 2, 0, 3))
    return out.reshape(rows, starts, -1)


@cache
def _folded(shared: int, inner: int) -> Array:
    """1 where a joint state has a state of what is shared: ((shared, inner), shared)."""
    return np.asarray(np.kron(np.eye(shared), np.ones((inner, 1))), dtype=float)


def _pairs(clique: Clique, D: Array, P: Array) -> Array:
    """Σ_rows D(s) P(u): (starts, shared, upper, lower)."""
    shared, upper, lower = clique.sizes
    rows, starts, _ = P.shape
    above = D.reshape(rows, starts, shared, upper).transpose(1, 2, 3, 0)
    return np.asarray(
        np.matmul(above, P.reshape(rows, starts, shared, lower).transpose(1, 2, 0, 3))
    )


# --- wiring ---------------------------------------------------------------------------------------


def wire_many(estep: EStep, rows: Rows, places: Places, cells: int, starts: int) -> ManyRows:
    """For rows that `pack_rows` has packed, and as many `starts` at most.

    `places`: where each cell of each table lies among the numbers of a start. Continuous columns
    are not for this.
    """
    assert not estep.dense
    own, codes = many_cells(estep, rows, places, cells)
    step = max(LEAST_ROWS, BLOCK_CELLS // (starts * estep.widest))
    sizes = [len(p.weight) for p in own.packs]
    return ManyRows(own, _clique_rows(estep, rows, codes, sizes, step))


def _clique_rows(
    estep: EStep, rows: Rows, codes: Sequence[Codes], sizes: Sequence[int], step: int
) -> tuple[_CliqueRows, ...]:
    """From the leaves up: the rows of a clique differ in a code, or in the row of a child."""
    below: dict[int, Codes] = {}  # clique -> which of its rows each row is
    found: dict[int, _CliqueRows] = {}
    for k in reversed(range(len(estep.cliques))):
        inputs = estep.cliques[k].inputs
        taken = [
            [(p, -1, codes[p], sizes[p]) for p in x.packs]
            if x.child < 0
            else [(-1, x.child, below[x.child], len(found[x.child].weight))]
            for x in inputs
        ]
        joint = np.zeros(len(rows), dtype=np.int64)
        for _, _, which, size in (entry for entries in taken for entry in entries):
            joint = np.unique(joint * size + which, return_inverse=True)[1].ravel()
        count = int(joint.max(initial=-1)) + 1
        first = np.empty(count, dtype=np.intp)
        first[joint[::-1]] = np.arange(len(rows))[::-1]
        below[k] = joint
        found[k] = _CliqueRows(
            np.bincount(joint, rows.weight, count).astype(float),
            tuple(
                _Block(
                    slice(start, min(start + step, count)),
                    tuple(
                        tuple(_entry(*entry, first[start : start + step]) for entry in entries)
                        for entries in taken
                    ),
                )
                for start in range(0, count, step)
            ),
            tuple(_axes(x.placing) for x in inputs),
        )
    return tuple(found[k] for k in range(len(found)))


def _entry(pack: int, child: int, which: Codes, size: int, rows: Codes) -> _Entry:
    own = np.ascontiguousarray(which[rows])
    return _Entry(pack, child, own, ones_at(own, size))


def _axes(at: Placing) -> _Axes:
    states, product = math.prod(at.sizes), math.prod(at.product)
    if at.same or states * product > SMALL_SPREAD:
        return _Axes(at, None, None)
    own = np.arange(states).reshape(at.sizes).transpose(at.order[:-1]).reshape(at.spread)
    which = np.broadcast_to(own, at.product).ravel()
    matrix = (np.arange(states)[:, None] == which).astype(float)
    return _Axes(at, matrix, np.ascontiguousarray(matrix.T))
