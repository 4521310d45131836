"""The E-step of many starts by the compiled kernel (native/cells.c): one call for all of them.

Rows, codes and room to work are laid out once. Tables lie one after the other in one array per
start; factors are products of numbers there, counts go back to the same places.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import final

import numpy as np

from latentia.data.rows import Rows
from latentia.exact.compiled_rows import (
    MOST_CODES,
    MOST_MAP,
    MOST_SLOTS,
    WHOLE,
    LaidOutRows,
    address,
    check_codes,
    room_for,
    row_program,
    write_program,
)
from latentia.exact.estep_wiring import Clique, EStep, Pack
from latentia.exact.many_cells import Places, witness_cells
from latentia.native.loading import Kernel
from latentia.typing import Array, Codes

FEW_CODES = 2**10  # of a pack: all of them are laid out; of larger ones, those that rows have


class _Cells(ctypes.Structure):
    _fields_ = (
        ("program", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("rows", "cells", "packs", "groups")),
        *((name, ctypes.c_void_p) for name in ("sizes", "width", "places", "map_at", "alone")),
        *((name, ctypes.c_int64) for name in ("tables", "inside", "maps")),
        *((name, ctypes.c_void_p) for name in ("numbers", "table", "psi", "map", "count", "pair")),
    )


@final
class CompiledManyRows:
    """Rows and program: numbers of several starts -> their expected counts."""

    def __init__(
        self, kernel: Kernel, estep: EStep, rows: Rows, places: Places, cells: int
    ) -> None:
        packs = [
            _pack_places(estep, pack, codes, places, cells)
            for pack, codes in zip(estep.packs, rows.codes, strict=True)
        ]
        scopes = [estep.size(pack.scope) for pack in estep.packs]
        sizes = [own.shape[1] // n for (own, _), n in zip(packs, scopes, strict=True)]
        plain = sizes == [p.codes for p in estep.packs]
        program = row_program(estep) if plain else write_program(estep, sizes)
        codes = [codes for _, codes in packs]
        self.laid_out = LaidOutRows(kernel, program, codes, sizes, rows.weight, len(rows))
        cliques = [_clique_places(estep, clique, places, cells) for clique in estep.cliques]
        groups = [own for own, _ in packs] + cliques
        tables, maps = program.tables[-1], program.maps[-1]
        inside = sum(own.shape[1] for own in cliques)
        alone = np.zeros(tables)
        for p in estep.free:
            weight = np.bincount(codes[p], rows.weight, sizes[p])
            alone[program.tables[p] : program.tables[p + 1]] = weight
        starts = program.maps
        kept = (
            np.array([own.shape[1] for own in groups], dtype=np.int64),
            np.array([own.shape[0] for own in groups], dtype=np.int64),
            _joined([own.ravel() for own in groups]),
            _joined([a + _map_places(c) for a, c in zip(starts, estep.cliques, strict=False)]),
            alone,
        )
        room = (np.empty(cells + 2), *(np.empty(max(1, n)) for n in (tables, inside, maps)))
        sums = (np.empty(max(1, tables)), room_for(max(1, maps) * WHOLE))
        self.laid_out.point(room[1], room[3], sums[1], sums[0])
        self.cells, self.work = cells, max(1, len(rows) * estep.width)
        self._alive = (kept, room, sums)  # while pointed at
        self.told = _Cells(
            ctypes.addressof(self.laid_out.told),
            *(len(rows), cells, len(packs), len(groups)),
            *(address(x) for x in kept),
            *(tables, inside, maps),
            *(address(x) for x in (*room, *sums)),
        )
        self._run = kernel.function("cells_estep")
        self._run.restype = ctypes.c_int64

    def __call__(self, X: Array) -> tuple[Array, Array] | None:
        """Counts, (starts, cells), and log-likelihoods, (starts,).

        None where a row came near the smallest numbers: that is done with care, start by start.
        """
        X = np.ascontiguousarray(X)
        counts, fits = np.empty(X.shape), np.empty(len(X))
        done = self._run(
            ctypes.byref(self.told),
            address(X),
            ctypes.c_int64(len(X)),
            address(counts),
            address(fits),
        )
        check_codes(int(done))
        return (counts, fits) if done else None


def _joined(parts: Sequence[Codes]) -> Codes:
    return np.concatenate([*parts, np.zeros(1, dtype=np.int32)]).astype(np.int32)


def _pack_places(
    estep: EStep, pack: Pack, codes: Codes, places: Places, cells: int
) -> tuple[Codes, Codes]:
    """Of each witness the places of its numbers, (witnesses, joint codes × states of the scope).

    And the codes of rows among these joint codes.
    """
    if pack.codes <= FEW_CODES:
        used = np.arange(pack.codes)
    else:
        used, codes = np.unique(codes, return_inverse=True)
    split = np.unravel_index(used, tuple(w.codes for w in pack.witnesses))
    size = estep.size(pack.scope)
    found = [
        witness_cells(size, w, places, cells)[own].ravel()
        for w, own in zip(pack.witnesses, split, strict=True)
    ]
    return _inside(np.stack(found), cells), codes.ravel()


def _inside(places: Codes, cells: int) -> Codes:
    """Places that no row speaks of, -1, hold the zero behind all numbers."""
    return np.where(places < 0, cells + 1, places)


def _clique_places(estep: EStep, clique: Clique, places: Places, cells: int) -> Codes:
    """Of each table at home in a clique, places on all its axes: (tables, states of the clique)."""
    shape = [estep.states[v] for v in clique.variables]
    found = np.empty((len(clique.families), math.prod(shape)), dtype=np.int64)
    for own, f in zip(found, clique.families, strict=True):
        place = places[f.variable].transpose(f.order).reshape(f.spread)
        own[:] = np.broadcast_to(place, shape).ravel()
    return _inside(found, cells)


def _map_places(clique: Clique) -> Codes:
    """Where each cell of a clique's table is summed: among (shared, upper, lower)."""
    at = clique.sums
    own = np.arange(math.prod(clique.sizes)).reshape(at.sizes).transpose(at.order[:-1])
    return np.broadcast_to(own.reshape(at.spread), at.product).ravel()


def compiled_many(
    kernel: Kernel, estep: EStep, rows: Rows, places: Places, cells: int
) -> CompiledManyRows | None:
    """For rows that `pack_rows` has packed; None where tables are too large for rows as lanes."""
    if estep.width >= MOST_SLOTS or any(math.prod(c.sizes) > MOST_MAP for c in estep.cliques):
        return None
    if any(p.codes >= MOST_CODES for p in estep.packs) and len(rows) >= MOST_CODES:
        return None
    return CompiledManyRows(kernel, estep, rows, places, cells)
