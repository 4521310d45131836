"""The E-step of many starts at once: the same rows under several sets of tables (design 13).

Small pieces take their time in calls, not in numbers. Here every number comes once for each start,
(rows, starts, states), so that looking up a row copies the factors of all starts at once, and adding
up its counts adds those of all. What is looked up are numbers of a flat array per start, by place:
only the codes that rows have are ever made, however large a table is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
from scipy.sparse import csr_array

from latentia.data.rows import Rows
from latentia.exact.estep_passes import RESCALE, SMALLEST, TINY
from latentia.exact.estep_wiring import Clique, EStep, Pack, Placing, Witness
from latentia.typing import Array, Codes

Places: TypeAlias = Mapping[int, Codes]  # variable -> place of each cell of its table, (parents …, v)

BLOCK_CELLS = 2**16  # of one product of a block, for all starts: what a cache holds
LEAST_ROWS = 16
SMALL_SPREAD = 2**12  # cells of a 0/1 matrix that spreads axes or adds rows up as it is


@final
@dataclass(frozen=True, slots=True)
class _Look:
    """A witness, for the codes that rows have."""

    cells: Codes  # (its codes, states of the scope): places among the numbers of a start
    which: Codes | None  # its code in each joint code of the pack; None: they are the same
    sums: Any  # (its codes, joint codes): 1 where a joint code has it
    counted: bool  # its table is asked for


@final
@dataclass(frozen=True, slots=True)
class _PackLook:
    """A pack, for the joint codes that rows have."""

    looks: tuple[_Look, ...]
    weight: Array  # rows of each joint code

    def table(self, X: Array) -> Array:
        """Factors, (joint codes, starts, states of the scope)."""
        found: Any = None
        for look in self.looks:
            own = X.take(look.cells, axis=1).swapaxes(0, 1)  # (codes, starts, states)
            own = np.ascontiguousarray(own) if look.which is None else own.take(look.which, axis=0)
            found = own if found is None else np.multiply(found, own, out=found)
        return np.asarray(found)

    def count(self, total: Array, counts: Array) -> None:
        """Beliefs of the scope by joint code, (joint codes, starts, states), as counts of cells."""
        _, starts, states = total.shape
        for look in self.looks:
            if look.counted:
                own = total
                if look.sums is not None:
                    own = (look.sums @ total.reshape(len(total), -1)).reshape(-1, starts, states)
                counts[:, look.cells] = own.swapaxes(0, 1)


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
        return kept.transpose(0, *(k + 1 for k in at.back[:-1])).reshape(rows, starts, -1)


@final
@dataclass(frozen=True, slots=True)
class _Block:
    """Some rows: their codes and weights."""

    codes: tuple[Codes, ...]  # of each pack
    sums: tuple[Any, ...]  # (joint codes, rows): 1 where a row has it
    weight: Array


@final
@dataclass(frozen=True, slots=True)
class _Sums:
    """Totals of all blocks."""

    packs: tuple[Array, ...]  # (joint codes, starts, states of the scope)
    pairs: tuple[Array, ...]  # of each clique: (starts, shared, upper, lower)
    log_likelihood: Array  # (starts,)


@final
@dataclass(frozen=True, slots=True)
class ManyRows:
    """Rows and wiring: numbers of several starts -> their expected counts."""

    estep: EStep
    places: Places
    cells: int  # numbers of a start
    packs: tuple[_PackLook, ...]
    axes: tuple[tuple[_Axes, ...], ...]  # of the inputs of each clique
    blocks: tuple[_Block, ...]

    def __call__(self, X: Array) -> tuple[Array, Array] | None:
        """Counts, (starts, cells), and log-likelihoods, (starts,).

        None where a row came near the smallest numbers: that is done with care, start by start.
        """
        starts = len(X)
        wide = np.concatenate([X, np.ones((starts, 1)), np.zeros((starts, 1))], axis=1)
        tables = tuple(pack.table(wide) for pack in self.packs)
        psi = tuple(self._psi(clique, X) for clique in self.estep.cliques)
        maps = tuple(_map(clique, x) for clique, x in zip(self.estep.cliques, psi, strict=True))
        sums = _Sums(
            tuple(np.zeros(t.shape) for t in tables),
            tuple(np.zeros(M.shape) for M in maps),
            np.zeros(starts),
        )
        for block in self.blocks:
            if not self._add(block, tables, maps, sums):
                return None
        counts = np.zeros((starts, self.cells + 2))
        self._count_free(tables, sums)
        for pack, total in zip(self.packs, sums.packs, strict=True):
            pack.count(total, counts)
        for clique, x, pairs in zip(self.estep.cliques, psi, sums.pairs, strict=True):
            self._count_inside(clique, x, pairs, counts)
        return counts[:, : self.cells], sums.log_likelihood

    def _psi(self, clique: Clique, X: Array) -> Array:
        """Product of the tables at home in a clique: (starts, states …)."""
        psi = np.ones((len(X), *(self.estep.states[v] for v in clique.variables)))
        for f in clique.families:
            place = self.places[f.variable].transpose(f.order).reshape(f.spread)
            psi *= X.take(place, axis=1)
        return psi

    def _count_free(self, tables: Sequence[Array], sums: _Sums) -> None:
        """Packs that no unknown variable has to do with."""
        for p in self.estep.free:
            n = self.packs[p].weight
            with np.errstate(divide="ignore"):
                np.add(sums.log_likelihood, n @ np.log(tables[p][:, :, 0]), sums.log_likelihood)
            sums.packs[p][:] = n[:, None, None]

    def _count_inside(self, clique: Clique, psi: Array, pairs: Array, counts: Array) -> None:
        if not clique.families:
            return
        at = clique.sums
        order = (0, *(k + 1 for k in at.order[:-1]))
        spread = pairs.reshape(-1, *at.sizes).transpose(order).reshape(-1, *at.spread)
        whole = psi * spread
        for f in clique.families:
            own = whole.sum(axis=tuple(k + 1 for k in f.gone)) if f.gone else whole
            counts[:, self.places[f.variable]] = own.transpose(0, *(k + 1 for k in f.back))

    # --- one block --------------------------------------------------------------------------------

    def _add(
        self, block: _Block, tables: Sequence[Array], maps: Sequence[Array], sums: _Sums
    ) -> bool:
        """Up and down for some rows; False where numbers became too small."""
        cliques = self.estep.cliques
        products, messages = [np.zeros(0)] * len(cliques), [np.zeros(0)] * len(cliques)
        columns = [0] * len(cliques)
        logs: Any = 0.0
        for k in reversed(range(len(cliques))):
            P, columns[k], log = self._product(k, block, tables, messages, columns, len(maps[k]))
            logs = logs + log
            products[k], messages[k] = P, _times(maps[k], P)
        for k, clique in enumerate(cliques):
            if clique.parent == k:
                Z = messages[k][:, :, 0]
                if not Z.min(initial=1.0) > TINY:
                    return False
                logs = logs + np.log(Z)
        np.add(sums.log_likelihood, block.weight @ logs, sums.log_likelihood)
        self._down(block, maps, products, messages, sums)
        return True

    def _product(
        self,
        k: int,
        block: _Block,
        tables: Sequence[Array],
        messages: Sequence[Array],
        columns: Sequence[int],
        starts: int,
    ) -> tuple[Array, int, Any]:
        """All that comes into a clique: (rows, starts, states), its columns, logs taken out."""
        clique = self.estep.cliques[k]
        value: Any = None
        used, log = 0, 0.0
        for x, axes in zip(clique.inputs, self.axes[k], strict=True):
            if x.child >= 0:
                parts = [(messages[x.child], columns[x.child])]
            else:
                own = self.estep.packs
                parts = [
                    (tables[p].take(block.codes[p], axis=0), len(own[p].witnesses))
                    for p in x.packs
                ]
            factor: Any = None
            for part, more in parts:
                factor = part if factor is None else factor * part
                used += more
            factor = axes.spread(factor)
            value = factor if value is None else value * factor
            if used > RESCALE:
                top = np.maximum(value.max(axis=2, keepdims=True), SMALLEST)
                value = value / top
                log, used = log + np.log(top[:, :, 0]), 1
        if value is None:
            value = np.ones((len(block.weight), starts, clique.sizes[0] * clique.sizes[2]))
        return value, used, log

    def _down(
        self,
        block: _Block,
        maps: Sequence[Array],
        products: Sequence[Array],
        messages: Sequence[Array],
        sums: _Sums,
    ) -> None:
        above: dict[int, Array] = {}
        for k, clique in enumerate(self.estep.cliques):
            P, M = products[k], maps[k]
            if clique.parent == k:
                D = block.weight[:, None, None] / messages[k]
                belief = P * M.reshape(len(M), -1) * D
            else:
                D = above.pop(k)
                belief = _times(M.swapaxes(2, 3), D) * P
            if clique.families:
                np.add(sums.pairs[k], _pairs(clique, D, P), sums.pairs[k])
            for x, axes in zip(clique.inputs, self.axes[k], strict=True):
                own = axes.sum(belief)
                if x.child >= 0:
                    above[x.child] = own / np.maximum(messages[x.child], SMALLEST)
                    continue
                flat = own.reshape(len(own), -1)
                for p in x.packs:
                    total = sums.packs[p]
                    total += (block.sums[p] @ flat).reshape(total.shape)


def _map(clique: Clique, psi: Array) -> Array:
    """M: ψ summed over all but S and U, (starts, shared, upper, lower)."""
    left = psi.sum(axis=tuple(k + 1 for k in clique.sums.gone)) if clique.sums.gone else psi
    back = (0, *(k + 1 for k in clique.sums.back[:-1]))
    return np.ascontiguousarray(left.transpose(back)).reshape(len(psi), *clique.sizes)


def _times(M: Array, x: Array) -> Array:
    """Σ_b M(start, shared, a, b) x(row, start, (shared, b)): (rows, starts, (shared, a))."""
    starts, shared, a, b = M.shape
    rows = len(x)
    wide = x.reshape(rows, starts, shared, b)
    if b == 1:
        return (wide * M[:, :, :, 0]).reshape(rows, starts, -1)
    out = np.empty((rows, starts, shared, a))
    np.matmul(wide.transpose(1, 2, 0, 3), M.swapaxes(2, 3), out=out.transpose(1, 2, 0, 3))
    return out.reshape(rows, starts, -1)


def _pairs(clique: Clique, D: Array, P: Array) -> Array:
    """Σ_rows D(s) P(u): (starts, shared, upper, lower)."""
    shared, upper, lower = clique.sizes
    rows, starts, _ = P.shape
    above = D.reshape(rows, starts, shared, upper).transpose(1, 2, 3, 0)
    return np.matmul(above, P.reshape(rows, starts, shared, lower).transpose(1, 2, 0, 3))


# --- wiring ---------------------------------------------------------------------------------------


def wire_many(estep: EStep, rows: Rows, places: Places, cells: int, starts: int) -> ManyRows:
    """For rows that `pack_rows` has packed, and as many `starts` at most.

    `places`: where each cell of each table lies among the numbers of a start. Continuous columns
    are not for this.
    """
    assert not estep.dense
    packs, codes = [], []
    for pack, own in zip(estep.packs, rows.codes, strict=True):
        used, which = np.unique(own, return_inverse=True)
        weight = np.bincount(which.ravel(), rows.weight, len(used)).astype(float)
        packs.append(_PackLook(_looks(estep, pack, used, places, cells), weight))
        codes.append(which.ravel())
    sizes = [len(p.weight) for p in packs]
    step = max(LEAST_ROWS, BLOCK_CELLS // (starts * estep.widest))
    blocks = []
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        own = tuple(np.ascontiguousarray(c[part]) for c in codes)
        sums = tuple(_ones_at(c, n) for c, n in zip(own, sizes, strict=True))
        blocks.append(_Block(own, sums, rows.weights[part]))
    axes = tuple(tuple(_axes(x.placing) for x in c.inputs) for c in estep.cliques)
    return ManyRows(estep, places, cells, tuple(packs), axes, tuple(blocks))


def _looks(
    estep: EStep, pack: Pack, used: Codes, places: Places, cells: int
) -> tuple[_Look, ...]:
    sizes = tuple(w.codes for w in pack.witnesses)
    found = []
    for w, own in zip(pack.witnesses, np.unravel_index(used, sizes), strict=True):
        codes, which = np.unique(own, return_inverse=True)
        where = _witness_cells(estep.size(pack.scope), w, places, cells)[codes]
        alone = len(sizes) == 1
        sums = None if alone else _ones_at(which.ravel(), len(codes))
        found.append(_Look(where, None if alone else which.ravel(), sums, not w.seen))
    return tuple(found)


def _witness_cells(size: int, w: Witness, places: Places, cells: int) -> Codes:
    """(codes, states of the scope); a one lies at `cells`, a zero behind it."""
    if w.seen:
        told = np.where(np.eye(size, dtype=bool), cells, cells + 1)
    else:
        place = places[w.variable]
        told = (place.transpose(w.order) if w.order else place).reshape(size, -1).T
    if w.holes:
        told = np.concatenate([told, np.full((1, size), cells)])
    return np.ascontiguousarray(told)


def _ones_at(codes: Codes, count: int) -> Any:
    """(codes, rows): 1 where a row has the code."""
    n = len(codes)
    if count * n <= SMALL_SPREAD:
        return (codes == np.arange(count)[:, None]).astype(float)
    return csr_array((np.ones(n), (codes, np.arange(n))), shape=(count, n))


def _axes(at: Placing) -> _Axes:
    states, product = math.prod(at.sizes), math.prod(at.product)
    if at.same or states * product > SMALL_SPREAD:
        return _Axes(at, None, None)
    own = np.arange(states).reshape(at.sizes).transpose(at.order[:-1]).reshape(at.spread)
    which = np.broadcast_to(own, at.product).ravel()
    matrix = (np.arange(states)[:, None] == which).astype(float)
    return _Axes(at, matrix, np.ascontiguousarray(matrix.T))
