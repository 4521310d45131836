"""Joint states of families of columns, counted by the kernel (native/families.c) or by numpy.

A column is read for every family that it is in. The kernel does it block by block, so that it is
still in the cache; numpy makes a number of eight bytes for every row of every family first.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Sequence

import numpy as np

from latentia.exact.compiled_rows import check_codes
from latentia.native.loading import Kernel, kernel
from latentia.typing import Array, CellArray, Codes

MOST_CELLS = 2**31 - 2  # of a family that the kernel counts
CODES = (np.int8, np.int16, np.int32)  # that it reads


class _Families(ctypes.Structure):
    """`Families` of families.c."""

    _fields_ = (
        ("families", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("begin", "members", "at", "codes", "bytes")),
        *((name, ctypes.c_void_p) for name in ("sizes", "weight", "counts", "holed")),
    )


def count_joint_states(
    columns: Sequence[Codes],
    sizes: Sequence[int],
    families: Sequence[Sequence[int]],
    weight: Array | None = None,
) -> list[Array]:
    """Σ w by the joint states of each family of columns (by place); rows with a hole are left out.

    >>> a, b = np.array([0, 1, 1, -1]), np.array([2, 0, 0, 1])
    >>> count_joint_states([a, b], [2, 3], [(0, 1), (0,)])
    [array([[0., 0., 1.],
           [2., 0., 0.]]), array([1., 2.])]
    """
    return joint_states_and_holes(columns, sizes, families, weight)[0]


def joint_states_and_holes(
    columns: Sequence[Codes],
    sizes: Sequence[int],
    families: Sequence[Sequence[int]],
    weight: Array | None = None,
) -> tuple[list[Array], frozenset[int]]:
    """The same, and the members (by place) that some row lacks, whatever its weight."""
    shapes = [[sizes[i] for i in family] for family in families]
    own = kernel()
    if own is None or max(map(math.prod, shapes), default=1) > MOST_CELLS:
        found = [_counted(columns, sizes, family, weight) for family in families]
        used = {i for family in families for i in family}
        holed = frozenset(i for i in used if columns[i].min(initial=0) < 0)
    else:
        found, holed = _compiled(own, columns, sizes, families, weight)
    return [n.reshape(shape) for n, shape in zip(found, shapes, strict=True)], holed


def _compiled(
    own: Kernel,
    columns: Sequence[Codes],
    sizes: Sequence[int],
    families: Sequence[Sequence[int]],
    weight: Array | None,
) -> tuple[list[Array], frozenset[int]]:
    used = sorted({i for family in families for i in family})
    place = {i: k for k, i in enumerate(used)}
    mine = [np.ascontiguousarray(columns[i], _kind(columns[i])) for i in used]
    cells = [math.prod([sizes[i] for i in family]) + 1 for family in families]
    at = [0, *itertools.accumulate(cells)]
    counts, lacking = np.zeros(at[-1]), np.zeros(len(used), dtype=np.uint8)
    share = None if weight is None else np.ascontiguousarray(weight, dtype=float)
    told: tuple[CellArray, ...] = (  # what C points to lives as long as this
        np.array([0, *itertools.accumulate(map(len, families))], dtype=np.int64),
        np.array([place[i] for family in families for i in family], dtype=np.int32),
        np.array(at, dtype=np.int64),
        np.array([c.ctypes.data for c in mine], dtype=np.uintp),
        np.array([c.itemsize for c in mine], dtype=np.int32),
        np.array([sizes[i] for i in used], dtype=np.int32),
    )
    given = None if share is None else share.ctypes.data
    into = counts.ctypes.data, lacking.ctypes.data
    call = _Families(len(families), *(x.ctypes.data for x in told), given, *into)
    run = own.function("count_families")
    run.restype = ctypes.c_int64
    check_codes(run(ctypes.byref(call), ctypes.c_int64(len(columns[0]))))
    holed = frozenset(used[k] for k in lacking.nonzero()[0])
    return [counts[a : b - 1] for a, b in itertools.pairwise(at)], holed


def _kind(codes: Codes) -> type[np.signedinteger]:
    return codes.dtype.type if codes.dtype in CODES else np.int32


def _counted(
    columns: Sequence[Codes], sizes: Sequence[int], family: Sequence[int], weight: Array | None
) -> Array:
    """One family, by numpy."""
    flat = columns[family[0]].astype(np.intp)
    for i in family[1:]:
        flat *= sizes[i]
        flat += columns[i]
    holed = [columns[i] for i in family if columns[i].min(initial=0) < 0]
    if holed:
        whole = np.logical_and.reduce([codes >= 0 for codes in holed])
        flat = flat[whole]
        weight = None if weight is None else weight[whole]
    return np.bincount(flat, weight, math.prod([sizes[i] for i in family])).astype(float)
