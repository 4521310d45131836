"""Climbs of latent classes by the compiled kernel (native/classes.c): lockstep.py, without calls.

One latent whose columns know nothing of each other is what most people learn. There an E-step of a
small survey takes microseconds, so that what numpy needs to be called would be nearly all.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import final

import numpy as np

from latentia.announcing import tell_climb
from latentia.native.loading import Kernel, kernel
from latentia.networks.accelerate import (
    AT_REST,
    FIRST_CAP,
    FLAT,
    KEEP,
    LEAST_CAP,
    LEAST_ROOT,
    MEMORY,
    REST,
    FlatTables,
    Prior,
    Refined,
    Tables,
    flattened,
)
from latentia.networks.class_rows import SurveyRows
from latentia.typing import Array, Codes

VECTORS = 6  # of a climb, beside its memory: x and after are the first two
_NUMBERS = (
    *("level", "fit", "cap", "gain", "ratio", "quiet", "far", "cut"),
    *("pairs", "slot", "steps", "rests", "lost"),
)
MOST_STATES = 32  # as in classes.c: wider ones are for matrix products …
MOST_WORK = 2**24  # … and so are more numbers of one E-step
CALL_WORK = 2**28  # of one call: between two of them an interrupt is heard


class _Classes(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("rows", "columns", "states", "padded", "codes")),
        *((name, ctypes.c_int64) for name in ("cells", "groups", "memory")),
        *((name, ctypes.c_void_p) for name in ("seen", "place", "weight", "begin", "prior")),
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
class LaterTables(Mapping[int, Array]):
    """Tables in one array, cut out once somebody looks at them: of most starts nobody does."""

    def __init__(self, flat: FlatTables, x: Array) -> None:
        self.flat, self.x = flat, x

    @cached_property
    def _found(self) -> dict[int, Array]:
        return self.flat.tables(self.x)

    def __getitem__(self, v: int) -> Array:
        return self._found[v]

    def __iter__(self) -> Iterator[int]:
        return iter(self.flat.shapes)

    def __len__(self) -> int:
        return len(self.flat.shapes)


@final
class ClassClimbs:
    """A field of climbs that can be led on, as `Lockstep` is."""

    def __init__(
        self, own: Kernel, rows: SurveyRows, starts: Sequence[Tables], prior: Prior, enough: float
    ) -> None:
        self.rows, self.flat = rows, flattened(starts[0], prior)
        flat, classes = self.flat, rows.classes
        cells = sum(t.size for t in starts[0].values())
        self.vectors = np.zeros((len(starts), VECTORS + 2 * MEMORY, cells))
        self.vectors[:, 0] = [flat.pack(tables) for tables in starts]
        self.numbers = np.zeros((len(starts), len(_NUMBERS) + MEMORY))
        named: dict[str, Array] = dict(zip(_NUMBERS, self.numbers.T, strict=False))
        self.level, self.fit = named["level"], named["fit"]  # with the prior, and without
        self.steps, self.rests = named["steps"], named["rests"]  # E-steps; does it rest?
        self.gain, self.none = named["gain"], named["lost"]  # of the last step; a row has none
        place, codes = rows.places(starts[0]), sum(rows.states[v] for v in rows.columns)
        begin = np.append(flat.starts, cells)
        padded = rows.padded
        room = np.empty(2 * (1 + codes) * padded + 4 * cells)
        self.kept = (place, begin, room)  # what C points to lives as long as this
        self.call = _Classes(
            *(*rows.seen.shape, classes, padded, codes, cells, len(flat.starts), MEMORY),
            *(x.ctypes.data for x in (rows.seen, place, rows.weight, begin, flat.prior)),
            enough * flat.parameters,
            *(FIRST_CAP, LEAST_CAP, FLAT, AT_REST, REST, KEEP, LEAST_ROOT),
            room.ctypes.data,
        )
        self.climb = own.function("classes_climb")
        self.at = [ctypes.c_void_p(x.ctypes.data) for x in (self.vectors, self.numbers)]
        self.advance(range(len(starts)), 1)

    @property
    def lost(self) -> bool:
        """Did some row have no probability under some start?"""
        return bool(self.none.any())

    def tables(self, k: int) -> Tables:
        """Those of climb k, one step of EM ahead of where it stands."""
        return LaterTables(self.flat, self.vectors[k, 1].copy())

    def highest(self) -> Refined:
        """The climb that came highest."""
        k = int(self.level.argmax())
        level, fit = float(self.level[k]), float(self.fit[k])
        return Refined(dict(self.tables(k)), bool(self.rests[k]), int(self.steps[k]), (level,), fit)

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
            self._tell(places)
            if self.rests[places].all():
                return

    def _tell(self, which: Codes) -> None:
        """How far the highest of some climbs has come."""
        k = int(which[self.level[which].argmax()])
        gain = float(self.gain[k])
        if self.steps[k] > 1 and np.isfinite(gain):
            tell_climb(int(self.steps[k]), gain)
