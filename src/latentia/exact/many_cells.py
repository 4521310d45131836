"""Tables of many starts as flat numbers: factors are looked up among them, counts put back there.

What is looked up are numbers of a flat array per start, by place: only the codes that rows have are
ever made, however large a table is. Two numbers lie behind those of a start: a one and a zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
import scipy

from latentia.data.rows import Rows
from latentia.exact.estep_wiring import Clique, EStep, Pack, Witness
from latentia.typing import Array, Codes, Foreign

# variable -> place of each cell of its table, (parents …, variable)
Places: TypeAlias = Mapping[int, Codes]

SMALL_SPREAD = 2**12  # cells of a 0/1 matrix that spreads axes or adds rows up as it is


@final
@dataclass(frozen=True, slots=True)
class _Look:
    """A witness, for the codes that rows have."""

    cells: Codes  # (its codes, states of the scope): places among the numbers of a start
    which: Codes | None  # its code in each joint code of the pack; None: they are the same
    sums: Foreign  # (its codes, joint codes): 1 where a joint code has it
    counted: bool  # its table is asked for


@final
@dataclass(frozen=True, slots=True)
class PackLook:
    """A pack, for the joint codes that rows have."""

    looks: tuple[_Look, ...]
    weight: Array  # rows of each joint code
    states: int  # of the scope

    def table(self, X: Array) -> Array:
        """Factors, (joint codes, starts, states of the scope)."""
        found: Array | None = None
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
class ManyFactors:
    """Factors of all starts."""

    tables: tuple[Array, ...]  # of each pack: (joint codes, starts, states of the scope)
    psi: tuple[Array, ...]  # of each clique: (starts, states …)
    maps: tuple[Array, ...]  # … summed over all but S and U: (starts, shared, upper, lower)


@final
@dataclass(frozen=True, slots=True)
class ManyCells:
    """How tables and their counts lie among the numbers of a start."""

    estep: EStep
    places: Places
    count: int  # numbers of a start
    packs: tuple[PackLook, ...]

    def factors(self, X: Array) -> ManyFactors:
        """X: (starts, numbers)."""
        starts, cliques = len(X), self.estep.cliques
        wide = np.concatenate([X, np.ones((starts, 1)), np.zeros((starts, 1))], axis=1)
        psi = tuple(self._psi(clique, X) for clique in cliques)
        maps = tuple(_map(clique, x) for clique, x in zip(cliques, psi, strict=True))
        return ManyFactors(tuple(pack.table(wide) for pack in self.packs), psi, maps)

    def counts(
        self, factors: ManyFactors, packs: tuple[Array, ...], pairs: tuple[Array, ...]
    ) -> Array:
        """(starts, numbers), from beliefs by joint code and Σ D(s) P(u) of the cliques."""
        starts = len(factors.psi[0]) if factors.psi else factors.tables[0].shape[1]
        counts = np.zeros((starts, self.count + 2))
        for pack, total in zip(self.packs, packs, strict=True):
            pack.count(total, counts)
        for clique, psi, own in zip(self.estep.cliques, factors.psi, pairs, strict=True):
            self._count_inside(clique, psi, own, counts)
        return counts[:, : self.count]

    def count_free(self, factors: ManyFactors, packs: tuple[Array, ...]) -> Array | float:
        """Packs that no unknown variable has to do with; their log-likelihood, (starts,)."""
        found: Array | float = 0.0
        for p in self.estep.free:
            n = self.packs[p].weight
            with np.errstate(divide="ignore"):
                found = found + n @ np.log(factors.tables[p][:, :, 0])
            packs[p][:] = n[:, None, None]
        return found

    def _psi(self, clique: Clique, X: Array) -> Array:
        """Product of the tables at home in a clique: (starts, states …)."""
        psi = np.ones((len(X), *(self.estep.states[v] for v in clique.variables)))
        for f in clique.families:
            place = self.places[f.variable].transpose(f.order).reshape(f.spread)
            psi *= X.take(place, axis=1)
        return psi

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


def _map(clique: Clique, psi: Array) -> Array:
    """M: ψ summed over all but S and U, (starts, shared, upper, lower)."""
    left = psi.sum(axis=tuple(k + 1 for k in clique.sums.gone)) if clique.sums.gone else psi
    back = (0, *(k + 1 for k in clique.sums.back[:-1]))
    return np.ascontiguousarray(left.transpose(back)).reshape(len(psi), *clique.sizes)


def many_cells(
    estep: EStep, rows: Rows, places: Places, count: int
) -> tuple[ManyCells, tuple[Codes, ...]]:
    """For rows that `pack_rows` has packed; and the codes of rows among those that they have."""
    packs, codes = [], []
    for pack, own in zip(estep.packs, rows.codes, strict=True):
        used, which = np.unique(own, return_inverse=True)
        weight = np.bincount(which.ravel(), rows.weight, len(used)).astype(float)
        looks = _looks(estep, pack, used, places, count)
        packs.append(PackLook(looks, weight, estep.size(pack.scope)))
        codes.append(which.ravel())
    return ManyCells(estep, places, count, tuple(packs)), tuple(codes)


def _looks(estep: EStep, pack: Pack, used: Codes, places: Places, count: int) -> tuple[_Look, ...]:
    sizes = tuple(w.codes for w in pack.witnesses)
    found = []
    for w, own in zip(pack.witnesses, np.unravel_index(used, sizes), strict=True):
        codes, which = np.unique(own, return_inverse=True)
        where = witness_cells(estep.size(pack.scope), w, places, count)[codes]
        alone = len(sizes) == 1
        sums = None if alone else ones_at(which.ravel(), len(codes))
        found.append(_Look(where, None if alone else which.ravel(), sums, not w.seen))
    return tuple(found)


def witness_cells(size: int, w: Witness, places: Places, count: int) -> Codes:
    """(codes, states of the scope); a one lies at `count`, a zero behind it."""
    if w.seen:
        told = np.where(np.eye(size, dtype=bool), count, count + 1)
    else:
        place = places[w.variable]
        told = (place.transpose(w.order) if w.order else place).reshape(size, -1).T
    if w.holes:
        told = np.concatenate([told, np.full((1, size), count)])
    return np.ascontiguousarray(told)


def ones_at(codes: Codes, count: int) -> Foreign:
    """(codes, rows): 1 where a row has the code."""
    n = len(codes)
    if count * n <= SMALL_SPREAD:
        return (codes == np.arange(count)[:, None]).astype(float)
    return scipy.sparse.csr_array((np.ones(n), (codes, np.arange(n))), shape=(count, n))
