"""Climbs of latent classes by the compiled kernel (native/classes.c): lockstep.py, without calls.

One latent whose columns know nothing of each other is what most people learn. There an E-step of a
small survey takes microseconds, so that what numpy needs to be called would be nearly all.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import final

import numpy as np

from latentia.native.loading import Kernel, kernel
from latentia.networks.accelerate import MEMORY, Prior, Tables
from latentia.networks.class_rows import SurveyRows
from latentia.networks.compiled_lockstep import CALL_WORK, STEPPING, ClimbNumbers
from latentia.typing import Codes

MOST_STATES = 32  # as in classes.c: wider ones are for matrix products …
MOST_WORK = 2**24  # … and so are more numbers of one E-step


class _Classes(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("rows", "columns", "states", "padded", "codes")),
        *((name, ctypes.c_int64) for name in ("shared", "cells", "groups", "memory")),
        *((name, ctypes.c_void_p) for name in ("seen", "members", "parts")),
        *((name, ctypes.c_void_p) for name in ("place", "weight", "begin", "prior")),
        *((name, ctypes.c_double) for name in ("small", "first_cap", "least_cap", "flat")),
        *((name, ctypes.c_double) for name in ("at_rest", "rest", "keep", "least_root")),
        ("room", ctypes.c_void_p),
    )


def compiled_climbs(
    rows: SurveyRows | None, starts: Sequence[Tables], prior: Prior, enough: float
) -> ClassClimbs | None:
    """The climbs of some starts; None where there is no kernel, or a row has no probability."""
    own = kernel()
    if own is None or rows is None or rows.classes > MOST_STATES or rows.work > MOST_WORK:
        return None
    found = ClassClimbs(own, rows, starts, prior, enough)
    return None if found.lost else found


@final
class ClassClimbs(ClimbNumbers):
    """A field of climbs that can be led on, as `Lockstep` is."""

    def __init__(
        self, own: Kernel, rows: SurveyRows, starts: Sequence[Tables], prior: Prior, enough: float
    ) -> None:
        super().__init__(starts, prior)
        self.rows, flat = rows, self.flat
        place, codes, shared = rows.places(tuple(flat.shapes)), rows.codes, rows.shared
        seen, members, parts = shared.seen, shared.members, shared.parts
        room = np.empty(2 * (1 + codes + len(parts)) * rows.padded + 4 * self.cells)
        self.kept = (place, room, shared)  # what C points to lives as long as this
        self.call = _Classes(
            *(*seen.shape, rows.classes, rows.padded, codes),
            *(len(parts), self.cells, len(flat.starts), MEMORY),
            *(x.ctypes.data for x in (seen, members, parts)),
            *(x.ctypes.data for x in (place, rows.weight, self.begin, flat.prior)),
            enough * flat.parameters,
            *STEPPING,
            room.ctypes.data,
        )
        self.climb = own.function("classes_climb")
        self.advance(range(len(starts)), 1)

    @property
    def lost(self) -> bool:
        """Did some row have no probability under some start?"""
        return bool(self.hopeless.any())

    def advance(self, which: Sequence[int], steps: int) -> None:
        """Some climbs on to so many E-steps in all, or to rest."""
        places: Codes = np.array(list(which), dtype=np.int64)
        if not len(places):
            return
        stride = max(1, CALL_WORK // (self.rows.work * len(places) + 1))
        first = int(self.steps[places].min())
        for goal in (*range(first + stride, steps, stride), steps):
            self.climb(
                ctypes.byref(self.call),
                *self.at,
                ctypes.c_void_p(places.ctypes.data),
                ctypes.c_int64(len(places)),
                ctypes.c_int64(goal),
            )
            self.tell(places)
            if self.rests[places].all():
                return
