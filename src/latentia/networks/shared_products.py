"""Products of cells that many rows have in common, found by the kernel (native/sharing.c).

A row of a latent class is a product of one cell from each column, which climbs work out again at
every E-step. Columns of few joint states share most of them: 186 rows of 24 binary columns are
products of six entries each instead of 24, and as few additions bring the counts back.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.native.loading import Kernel
from latentia.typing import Codes

TOGETHER = 8  # cells of one product: their smallest numbers may still be multiplied
MOST_ENTRIES = 2048  # of one column of products: they stay in the cache
SHARE = 3  # rows that a product stands for at least, on average


@final
@dataclass(frozen=True, slots=True, eq=False)
class SharedProducts:
    """Rows by fewer columns; entries that are products of two before them come behind all codes."""

    seen: Codes  # (rows, columns) int32: which entry; -1: a hole
    members: Codes  # (columns) int32: cells that each stands for
    parts: Codes  # (new entries, 2) int32


class _Sharing(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("rows", "columns", "entries", "most", "together")),
        *((name, ctypes.c_void_p) for name in ("seen", "different", "members", "parts", "slots")),
        ("slot_count", ctypes.c_int64),
    )


def share_products(own: Kernel, seen: Codes, states: Sequence[int]) -> SharedProducts:
    """Of codes among those of all columns, (rows, columns) int32, and how many each has."""
    rows, columns = seen.shape
    turned = seen.T.copy(order="C")  # is changed
    different = np.array(states, dtype=np.int32)
    members = np.ones(columns, dtype=np.int32)
    most = min(MOST_ENTRIES, rows // SHARE)
    parts = np.empty((columns * most, 2), dtype=np.int32)
    slots = np.empty(1 << (2 * rows).bit_length(), dtype=np.int32)
    room = np.empty(columns + rows, dtype=np.int32)
    call = _Sharing(
        *(rows, columns, int(different.sum()), most, TOGETHER),
        *(x.ctypes.data for x in (turned, different, members, parts, slots)),
        len(slots),
    )
    share = own.function("rows_share")
    share.restype = ctypes.c_int64
    order, spare = (ctypes.c_void_p(x.ctypes.data) for x in (room, room[columns:]))
    made = int(share(ctypes.byref(call), order, spare))
    left = members > 0
    return SharedProducts(np.ascontiguousarray(turned[left].T), members[left], parts[:made].copy())
