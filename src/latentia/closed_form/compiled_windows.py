"""Windows by the compiled kernel (native/products.c): row by row, whatever the number of windows.

Coordinates are sums of what near leaves tell, each by its code, so that a row of a table is added
for each leaf; and the product of a node one of whose children is a leaf is summed by that leaf's
code. Both take no matrix product, no indicators, and one call for each block of rows.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np

from latentia.native.loading import Kernel
from latentia.typing import Array, CellArray, Codes

WHOLE = 4  # numbers to which vectors are rounded up, as in level.h
BLOCK = 16  # rows at a time, as in products.c
MOST_CODES = 2**15
MOST_RANK = 8  # of larger ones, matrix products are faster
MOST_VALUES = 512  # coordinates of all nodes of a program: those of a block fit into a cache
MOST_NUMBERS = 2**23  # of all tables
JOINT_CODES = 32  # of leaves whose tables are joined into one

Want: TypeAlias = tuple[int, str]  # node, "theta" or "eta"
Own: TypeAlias = Mapping[int, tuple[int, Array]]  # node -> leaf, its coordinates by code

_FIELDS = ("leaf", "a", "b", "c", "b_leaf", "c_leaf", "na", "nb", "nc", "at")


class _Sums(ctypes.Structure):
    """`Sums` of products.c."""

    _fields_ = (
        ("leaves", ctypes.c_int64),
        ("codes", ctypes.c_void_p),
        ("states", ctypes.c_void_p),
        ("groups", ctypes.c_int64),
        ("members", ctypes.c_void_p),
        ("tables", ctypes.c_void_p),
        ("tables_at", ctypes.c_void_p),
        ("widths", ctypes.c_void_p),
        ("runs_at", ctypes.c_void_p),
        ("runs", ctypes.c_void_p),
        ("width", ctypes.c_int64),
        ("base", ctypes.c_void_p),
        ("own", ctypes.c_void_p),
        ("own_at", ctypes.c_void_p),
        ("own_width", ctypes.c_void_p),
        ("products", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("weight", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
        ("block_codes", ctypes.c_void_p),
        ("sums", ctypes.c_void_p),
    )


@final
@dataclass(frozen=True, slots=True)
class _Product:
    """Σ of one node: which factors lie along its axes, and how the sums become its tensor."""

    node: int
    order: tuple[int, ...]  # factors, the one that is summed by code first
    sizes: tuple[int, ...]  # of all factors
    at: int
    shape: tuple[int, int, int]
    table: Array | None  # (coordinates, codes) of the factor that is summed by code

    def tensor(self, sums: Array) -> Array:
        """Its sums with axes in the order of the factors."""
        found = sums[self.at : self.at + int(np.prod(self.shape))].reshape(self.shape)
        if self.table is not None:
            found = np.tensordot(self.table, found, axes=1)
        sizes = [self.sizes[i] for i in self.order] + [1] * (3 - len(self.order))
        found = found[: sizes[0], : sizes[1], : sizes[2]]
        found = found.reshape(sizes[: len(self.order)])
        return np.ascontiguousarray(found.transpose(np.argsort(self.order)))


@final
@dataclass(frozen=True, slots=True)
class WindowProgram:
    """Tables and products of a window as the kernel reads them."""

    leaves: tuple[int, ...]
    arrays: Mapping[str, CellArray]
    products: tuple[_Product, ...]
    size: int  # numbers of all sums

    def sums(self, own: Kernel, codes: Sequence[Codes], weight: Array | None) -> Array:
        """Σ w of the products of every node over these rows; codes of all leaves."""
        n, width = len(codes[0]), len(self.arrays["base"])
        mine = [np.ascontiguousarray(codes[x], dtype=np.int16) for x in self.leaves]
        share = None if weight is None else np.ascontiguousarray(weight, dtype=float)
        pointers = (ctypes.c_void_p * max(1, len(mine)))(*(c.ctypes.data for c in mine))
        work, sums = np.empty((BLOCK, width)), np.zeros(max(1, self.size))
        row = np.empty((max(1, len(mine)), BLOCK), dtype=np.int32)
        told = _Sums(
            leaves=len(mine),
            codes=ctypes.cast(pointers, ctypes.c_void_p),
            groups=len(self.arrays["members"]),
            width=width,
            count=len(self.products),
            weight=None if share is None else share.ctypes.data,
            values=work.ctypes.data,
            block_codes=row.ctypes.data,
            sums=sums.ctypes.data,
            **{name: x.ctypes.data for name, x in self.arrays.items()},
        )
        run = own.function("product_sums")
        run.restype = ctypes.c_int
        if not run(ctypes.byref(told), ctypes.c_int64(n)):
            raise IndexError("a code of a row is out of bounds")
        return sums

    def tensors(self, sums: Array) -> dict[str, Array]:
        """The tensor of every node, by name."""
        return {f"products/{p.node}": p.tensor(sums) for p in self.products}


def window_programs(
    factors: Sequence[tuple[int, tuple[Want, ...]]],
    sides: Mapping[Want, Mapping[int, Array]],
    sizes: Sequence[int],
    own: Own,
) -> tuple[WindowProgram, ...] | None:
    """Programs of some nodes each; None where ranks or states are beyond what pays."""
    lengths = {w: length_of(w, sides, own) for _, wants in factors for w in wants}
    if max(lengths.values(), default=1) > MOST_RANK or max(sizes, default=1) >= MOST_CODES:
        return None
    told = sum(len(sides[w]) * _whole(n) for w, n in lengths.items() if w in sides)
    if any(len(wants) > 3 for _, wants in factors) or told * JOINT_CODES > MOST_NUMBERS:
        return None
    found, values = [list[tuple[int, tuple[Want, ...]]]()], 0
    for node, wants in factors:
        more = sum(_whole(lengths[w]) for w in wants if w in sides)
        if found[-1] and values + more > MOST_VALUES:
            found.append([])
            values = 0
        found[-1].append((node, wants))
        values += more
    return tuple(_program(some, sides, sizes, own) for some in found)


def _program(
    factors: Sequence[tuple[int, tuple[Want, ...]]],
    sides: Mapping[Want, Mapping[int, Array]],
    sizes: Sequence[int],
    own: Own,
) -> WindowProgram:
    wanted = {w: sides[w] for _, wants in factors for w in wants if w in sides}
    near = {own[w[0]][0] for _, wants in factors for w in wants if w not in sides}
    writer = _Writer(wanted, sizes, own, near)
    for node, wants in factors:
        writer.add(node, wants)
    return writer.written()


def length_of(want: Want, sides: Mapping[Want, Mapping[int, Array]], own: Own) -> int:
    """Coordinates, the constant included."""
    if want in sides:
        return 1 + next((t.shape[1] for t in sides[want].values()), 0)
    return len(own[want[0]][1])


class _Writer:
    """Lays out coordinates one after the other, and the products over them."""

    def __init__(
        self,
        sides: Mapping[Want, Mapping[int, Array]],
        sizes: Sequence[int],
        own: Own,
        near: set[int],
    ) -> None:
        self.sides, self.sizes, self.own = sides, sizes, own
        self.leaves = tuple(sorted(near | {x for tables in sides.values() for x in tables}))
        self.number = {x: i for i, x in enumerate(self.leaves)}
        self.start: dict[Want, int] = {}
        self.width = WHOLE  # first one alone: the factor of products of fewer than three
        for want in sorted(sides, key=lambda w: (w[1], min(sides[w], default=0), w)):
            self.start[want] = self.width  # what one leaf tells of lies in long runs
            self.width += _whole(self.length(want))
        self.products: list[_Product] = []
        self.rows: list[tuple[int, ...]] = []
        self.size = 0

    def length(self, want: Want) -> int:
        return length_of(want, self.sides, self.own)

    def add(self, node: int, wants: tuple[Want, ...]) -> None:
        """The product of a node; summed by the code of a child that is a leaf, if there is one."""
        leaf = [None if w in self.sides else self.own[w[0]][0] for w in wants]
        first = next((i for i, x in enumerate(leaf) if x is not None), 0)
        order = (first, *(i for i in range(len(wants)) if i != first))
        lengths = tuple(map(self.length, wants))
        by_code = leaf[first]
        na = lengths[first] if by_code is None else self.sizes[by_code] + 1
        places = [self._place(wants[i]) for i in order[1:]]
        places += [(0, -1, 1)] * (2 - len(places))
        (b, b_leaf, nb), (c, c_leaf, nc) = places
        shape = (na, nb, _whole(nc))
        told = {"a": self.start.get(wants[first], 0), "b": b, "c": c, "b_leaf": b_leaf}
        told |= {"leaf": -1 if by_code is None else self.number[by_code], "c_leaf": c_leaf}
        told |= {"na": na, "nb": nb, "nc": shape[2], "at": self.size}
        self.rows.append(tuple(told[name] for name in _FIELDS))
        table = None if by_code is None else self.own[wants[first][0]][1]
        self.products.append(_Product(node, order, lengths, self.size, shape, table))
        self.size += int(np.prod(shape))

    def _place(self, want: Want) -> tuple[int, int, int]:
        """Where a factor begins, its leaf if it is one's own, and how many it has."""
        if want in self.sides:
            return self.start[want], -1, self.length(want)
        return 0, self.number[self.own[want[0]][0]], self.length(want)

    def written(self) -> WindowProgram:
        base = np.zeros(self.width)
        base[[0, *self.start.values()]] = 1.0
        groups = self._groups()
        told = [self._told(some) for some in groups]
        tables, runs = [table for table, _ in told], [some for _, some in told]
        by_leaf = dict(self.own.values())
        own = [_rounded(by_leaf[x].T) if x in by_leaf else np.zeros((0, 0)) for x in self.leaves]
        arrays = {
            "states": _integers([self.sizes[x] for x in self.leaves]),
            "members": np.array([len(some) for some in groups], dtype=np.int32),
            "tables": _joined(tables),
            "tables_at": _begin(tables),
            "widths": _integers([t.shape[1] for t in tables]),
            "runs_at": _integers(np.cumsum([0, *map(len, runs)])),
            "runs": _integers([end for some in runs for run in some for end in run]),
            "base": base,
            "own": _joined(own),
            "own_at": _begin(own),
            "own_width": _integers([t.shape[1] for t in own]),
            "products": _integers(self.rows),
        }
        return WindowProgram(self.leaves, arrays, tuple(self.products), self.size)

    def _groups(self) -> list[list[int]]:
        """Neighbouring leaves whose joint codes are few: they tell what they tell together."""
        found: list[list[int]] = []
        for x in self.leaves:
            codes = [self.sizes[y] + 1 for y in ([*found[-1], x] if found else [x])]
            if found and math.prod(codes) <= JOINT_CODES:
                found[-1].append(x)
            else:
                found.append([x])
        return found

    def _told(self, leaves: Sequence[int]) -> tuple[Array, list[tuple[int, int]]]:
        """What some leaves tell together of all coordinates, (codes, numbers); where these lie."""
        codes = [self.sizes[x] + 1 for x in leaves]
        joint = np.indices(codes).reshape(len(codes), -1)
        parts, runs = [np.zeros((math.prod(codes), 0))], list[tuple[int, int]]()
        for want, start in self.start.items():
            side = [(i, self.sides[want][x]) for i, x in enumerate(leaves) if x in self.sides[want]]
            if not side:
                continue
            length = self.length(want)
            part = np.zeros((math.prod(codes), _whole(length)))
            for i, table in side:
                missing = np.zeros((1, length - 1))
                part[:, 1:length] += np.concatenate([table, missing])[joint[i]]
            parts.append(part)
            joins = bool(runs) and runs[-1][1] == start
            runs.append((runs.pop()[0] if joins else start, start + _whole(length)))
        return np.concatenate(parts, axis=1), runs


def _integers(numbers: Sequence[int] | Sequence[tuple[int, ...]] | Codes) -> Codes:
    return np.array(numbers if len(numbers) else [0], dtype=np.int32)


def _whole(count: int) -> int:
    return -(-count // WHOLE) * WHOLE


def _rounded(table: Array) -> Array:
    """(codes, coordinates), these rounded up with zeros."""
    return np.pad(table, ((0, 0), (0, _whole(table.shape[1]) - table.shape[1])))


def _joined(tables: Sequence[Array]) -> Array:
    return np.concatenate([np.zeros(0), *(t.ravel() for t in tables), np.zeros(1)])


def _begin(tables: Sequence[Array]) -> Codes:
    return np.cumsum([0, *(t.size for t in tables)]).astype(np.int64)
