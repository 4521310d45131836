"""The exact E-step by the compiled kernel (native/rows.c): the wiring as a program for blocks.

All passes up come before the first pass down, so that a block whose numbers come too near the
smallest adds nothing, and can be done again with care.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from latentia.exact.estep_passes import RESCALE, Factors
from latentia.exact.estep_wiring import Clique, EStep, Input, Placing
from latentia.native.loading import Kernel
from latentia.typing import Array, CellArray, Codes

if TYPE_CHECKING:
    from latentia.data.columns.column import Places

WHOLE, BLOCK = 4, 64  # as in rows.c
MOST_MAP = 2**10  # cells of a clique's table: of larger ones, products by numpy are cheaper
MOST_SLOTS = 2**16  # numbers a row: a block of them takes about a hundred megabytes
CACHED_SLOTS = 2**12  # … and some: of wide latents, products by numpy are cheaper beyond
MOST_CODES = 2**15

_KINDS = (
    *("look", "load", "spread", "ones", "rescale", "map", "root"),
    *("belief", "pairs", "marginal", "divide", "count", "store"),
)
_FIELDS = ("kind", "out", "in", "other", "at", "shared", "upper", "lower", "times")


class _Program(ctypes.Structure):
    _fields_ = (
        ("ops", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("index", ctypes.c_void_p),
        ("tables", ctypes.c_void_p),
        ("maps", ctypes.c_void_p),
        ("codes", ctypes.c_void_p),
        ("sizes", ctypes.c_void_p),
        ("packs", ctypes.c_int64),
        ("dense", ctypes.c_void_p),
        ("beliefs", ctypes.c_void_p),
        ("weight", ctypes.c_void_p),
        ("work", ctypes.c_void_p),
        ("block_codes", ctypes.c_void_p),
        ("pairs", ctypes.c_void_p),
        ("counts", ctypes.c_void_p),
        ("logs", ctypes.c_void_p),
    )


@final
@dataclass(frozen=True, slots=True)
class RowProgram:
    """Operations of one pass up and down, and where tables and maps begin."""

    ops: Codes  # (operations, fields)
    index: Codes
    slots: int
    tables: tuple[int, ...]  # of each pack, and their end
    maps: tuple[int, ...]  # of each clique, and their end


def fits_kernel(estep: EStep, slots: int = MOST_SLOTS) -> bool:
    """Are tables small enough for rows as lanes?"""
    narrow = all(math.prod(c.sizes) <= MOST_MAP for c in estep.cliques)
    return narrow and estep.width < slots and all(p.codes < MOST_CODES for p in estep.packs)


def row_program(estep: EStep) -> RowProgram:
    """The program of an E-step, made once."""
    if "program" not in estep.kept:
        estep.kept["program"] = write_program(estep, [p.codes for p in estep.packs])
    found: RowProgram = estep.kept["program"]
    return found


def write_program(estep: EStep, codes: Sequence[int]) -> RowProgram:
    """The program where packs have so many codes."""
    return _Writer(estep, codes).write()


class _Writer:
    """Writes the program of an E-step."""

    def __init__(self, estep: EStep, codes: Sequence[int]) -> None:
        self.estep = estep
        self.ops: list[tuple[int, ...]] = []
        self.index: list[int] = []
        self.indexed: dict[Placing, int] = {}
        self.slots = 0
        cliques, packs = estep.cliques, estep.packs
        self.product = [self.reserve(c.sizes[0] * c.sizes[2]) for c in cliques]
        self.message = [self.reserve(c.sizes[0] * c.sizes[1]) for c in cliques]
        self.above = [self.reserve(c.sizes[0] * c.sizes[1]) for c in cliques]
        self.belief = self.reserve(max((c.sizes[0] * c.sizes[2] for c in cliques), default=1))
        scopes = [math.prod(x.placing.sizes) for c in cliques for x in c.inputs]
        self.part = self.reserve(max(scopes, default=1))
        scoped = zip(packs, codes, strict=True)
        tables = np.cumsum([0, *(estep.size(p.scope) * n for p, n in scoped)])
        maps = np.cumsum([0, *(math.prod(c.sizes) for c in cliques)])
        self.tables, self.maps = tuple(tables.tolist()), tuple(maps.tolist())
        self.columns = [0] * len(cliques)

    def reserve(self, count: int) -> int:
        self.slots += count
        return self.slots - count

    def add(self, kind: str, out: int, lower: int, **more: int) -> None:
        told = {"kind": _KINDS.index(kind), "out": out, "lower": lower, **more}
        self.ops.append(tuple(told.get(name.rstrip("_"), 0) for name in _FIELDS))

    def write(self) -> RowProgram:
        for k in reversed(range(len(self.estep.cliques))):
            self.up(k, self.estep.cliques[k])
        for k, clique in enumerate(self.estep.cliques):
            self.down(k, clique)
        ops = np.array(self.ops, dtype=np.int32).reshape(-1, len(_FIELDS))
        index = np.array(self.index or [0], dtype=np.int32)
        return RowProgram(ops, index, self.slots, self.tables, self.maps)

    def placed(self, at: Placing) -> int:
        """Where the index of a placing begins; -1: axes are the same."""
        if at.same:
            return -1
        if at not in self.indexed:
            own = np.arange(math.prod(at.sizes)).reshape(at.sizes).transpose(at.order[:-1])
            whole = np.broadcast_to(own.reshape(at.spread), at.product)
            self.indexed[at] = len(self.index)
            self.index += whole.ravel().tolist()
        return self.indexed[at]

    # --- up -----------------------------------------------------------------------------------

    def up(self, k: int, clique: Clique) -> None:
        shared, upper, lower = clique.sizes
        started, columns = False, 0
        for x in clique.inputs:
            columns = self.come_in(k, x, started, columns)
            started = True
        if not started:
            self.add("ones", self.product[k], shared * lower)
        self.columns[k] = columns
        self.add(
            "map",
            self.message[k],
            lower,
            **{"in": self.product[k], "at": self.maps[k], "shared": shared, "upper": upper},
        )
        if clique.parent == k:
            self.add("root", self.above[k], 1, **{"in": self.message[k]})

    def come_in(self, k: int, x: Input, started: bool, columns: int) -> int:
        """Multiply an input into the product of clique k; how many columns it now holds."""
        states, at = math.prod(x.placing.product), self.placed(x.placing)
        out, size = self.product[k], math.prod(x.placing.sizes)
        if x.child >= 0:
            more = {"in": self.message[x.child], "at": at, "times": int(started)}
            self.add("spread", out, states, **more)
            return self.rescaled(out, states, columns + self.columns[x.child])
        direct = at < 0
        to, taken = (out, columns) if direct else (self.part, 0)
        going = direct and started
        for p in x.packs:
            self.add("look", to, size, **{"in": p, "at": self.tables[p], "times": int(going)})
            going = True
            more_columns = len(self.estep.packs[p].witnesses)
            taken = self.rescaled(to, size, taken + more_columns)
        if x.dense >= 0:
            self.add("load", to, size, **{"in": x.dense, "times": int(going)})
            taken = self.rescaled(to, size, taken + 1)
        if direct:
            return taken
        self.add("spread", out, states, **{"in": self.part, "at": at, "times": int(started)})
        return self.rescaled(out, states, columns + taken)

    def rescaled(self, at: int, states: int, columns: int) -> int:
        if columns <= RESCALE:
            return columns
        self.add("rescale", at, states)
        return 1

    # --- down ---------------------------------------------------------------------------------

    def down(self, k: int, clique: Clique) -> None:
        shared, upper, lower = clique.sizes
        sizes = {"at": self.maps[k], "shared": shared, "upper": upper}
        both = {"in": self.above[k], "other": self.product[k]}
        if clique.families:
            self.add("pairs", 0, lower, **sizes, **both)
        if not clique.inputs:
            return
        self.add("belief", self.belief, lower, **sizes, **both)
        for x in clique.inputs:
            at, size, own = self.placed(x.placing), math.prod(x.placing.sizes), self.belief
            if at >= 0:
                own, states = self.part, shared * lower
                self.add("marginal", own, states, **{"in": self.belief, "at": at, "upper": size})
            for p in x.packs:
                self.add("count", own, size, **{"in": p, "at": self.tables[p]})
            if x.dense >= 0:
                self.add("store", own, size, **{"in": x.dense})
            if x.child >= 0:
                more = {"in": own, "other": self.message[x.child]}
                self.add("divide", self.above[x.child], size, **more)


@final
class LaidOutRows:
    """Rows in the form in which the kernel takes them, and room for it to work."""

    def __init__(
        self,
        kernel: Kernel,
        program: RowProgram,
        codes: Sequence[Places],
        sizes: Sequence[int],  # of each pack: its codes are below this
        weight: Array | None,
        n: int,
        dense: Sequence[Array] = (),
    ) -> None:
        self.n = n
        self.logs = np.empty(n)  # log P(row), filled by a run
        self.beliefs = [np.empty(x.shape) for x in dense]
        own = [np.ascontiguousarray(c, dtype=np.int16) for c in codes]
        given = [np.ascontiguousarray(x, dtype=float) for x in dense]
        share = None if weight is None else np.ascontiguousarray(weight, dtype=float)
        most = np.array(sizes or [0], dtype=np.int32)
        work = room_for(program.slots * BLOCK)
        block = np.empty(max(1, len(own)) * BLOCK, dtype=np.int32)
        lists = [_pointers(x) for x in (own, given, self.beliefs)]
        self._alive = (program, own, given, share, most, work, block, lists)  # while pointed at
        self._kernel = kernel
        self.told = _Program(
            ops=address(program.ops),
            count=len(program.ops),
            index=address(program.index),
            codes=lists[0],
            sizes=address(most),
            packs=len(own),
            dense=lists[1],
            beliefs=lists[2],
            weight=address(share),
            work=address(work),
            block_codes=address(block),
            logs=address(self.logs),
        )

    def run(self, tables: Array, maps: Array, pairs: Array, counts: Array) -> int:
        """Add to `pairs` and `counts`; rows done: up to the first block that needs care."""
        self.point(tables, maps, pairs, counts)
        return self._call("rows_estep", ctypes.c_int64(0), ctypes.c_int64(self.n))

    def point(self, tables: Array, maps: Array, pairs: Array, counts: Array) -> None:
        """To tables, and to where sums over rows go."""
        told = self.told
        told.tables, told.maps = tables.ctypes.data, maps.ctypes.data
        told.pairs, told.counts = pairs.ctypes.data, counts.ctypes.data

    def _call(self, name: str, *more: object) -> int:
        run = self._kernel.function(name)
        run.restype = ctypes.c_int64
        done = int(run(ctypes.byref(self.told), *more))
        check_codes(done)
        return done


@final
@dataclass(frozen=True, slots=True)
class CompiledSums:
    """What the kernel adds up: Σ D P of cliques, beliefs by code of packs, and logs of rows."""

    pairs: list[Array]  # (shared, upper, lower)
    packs: list[Array]  # (states of the scope, codes)
    logs: Array  # (n,)
    beliefs: list[Array]  # of the parents of each group of continuous columns, (states, n)
    done: int  # rows; those from here on come too near the smallest numbers


def compiled_sums(
    kernel: Kernel,
    estep: EStep,
    factors: Factors,
    codes: Sequence[Places],
    weight: Array | None,
    n: int,
    dense: Sequence[Array] = (),
) -> CompiledSums:
    """Sums over rows; up to the first block that needs care."""
    program = row_program(estep)
    sizes = [p.codes for p in estep.packs]
    rows = LaidOutRows(kernel, program, codes, sizes, weight, n, dense)
    tables = np.concatenate([t.T.ravel() for t in factors.packs] or [np.zeros(1)])
    maps = np.concatenate([m.ravel() for m in factors.maps] or [np.zeros(1)])
    pairs, counts = room_for(WHOLE * program.maps[-1], True), np.zeros(program.tables[-1])
    done = rows.run(tables, maps, pairs, counts)
    sums = pairs.reshape(-1, WHOLE).sum(axis=1)
    by_code = [
        counts[a : a + t.size].reshape(t.shape[::-1]).T
        for a, t in zip(program.tables, factors.packs, strict=False)
    ]
    by_clique = [
        sums[a : a + m.size].reshape(m.shape)
        for a, m in zip(program.maps, factors.maps, strict=False)
    ]
    return CompiledSums(by_clique, by_code, rows.logs, rows.beliefs, done)


def room_for(size: int, empty: bool = False) -> Array:
    """Numbers that begin where vectors may."""
    found = np.zeros(size + 8) if empty else np.empty(size + 8)
    start = (-found.ctypes.data % 64) // found.itemsize
    return found[start : start + size]


def check_codes(done: int) -> None:
    """Stop where the kernel met a code that there is not."""
    if done < 0:
        raise IndexError("a code of a packed row is out of bounds")


def address(x: CellArray | None) -> ctypes.c_void_p:
    """Where an array lies; nowhere, if there is none."""
    return ctypes.c_void_p(None if x is None else x.ctypes.data)


def _pointers(arrays: Sequence[CellArray]) -> ctypes.c_void_p:
    found = (ctypes.c_void_p * max(1, len(arrays)))(*(a.ctypes.data for a in arrays))
    return ctypes.cast(found, ctypes.c_void_p)
