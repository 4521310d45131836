"""Many climbs at once by the compiled kernel (native/climbing.h): lockstep.py, without its calls.

Of small pieces an E-step takes a fraction of a millisecond, and so do the sixty calls by which
numpy finds the next points; here that is one. Where E-steps are compiled as well, whole climbs are
(native/cells.c), but for E-steps that need care.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import final

import numpy as np

from latentia.announcing import tell_climb
from latentia.exact.compiled_many import CompiledManyRows
from latentia.exact.compiled_rows import check_codes
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
    LaterTables,
    Prior,
    Refined,
    Tables,
    flattened,
)
from latentia.networks.lockstep import EStepOfMany
from latentia.networks.many_starts import SumOfMany
from latentia.typing import Array, Codes

VECTORS = 6  # of a climb, beside its memory …
X, AFTER, TRIAL = 0, 1, 4  # … of which these are looked at here
_NUMBERS = (
    *("level", "fit", "cap", "gain", "ratio", "quiet", "far", "cut"),
    *("pairs", "slot", "steps", "rests", "lost", "moves"),
)
CALL_WORK = 2**28  # numbers that are worked out in one call
STEPPING = (FIRST_CAP, LEAST_CAP, FLAT, AT_REST, REST, KEEP, LEAST_ROOT)


class ClimbNumbers:
    """Where climbs stand, in the form in which C leads them on."""

    def __init__(self, starts: Sequence[Tables], prior: Prior, moves: int = 0) -> None:
        self.flat = flattened(starts[0], prior)
        self.cells = sum(t.size for t in starts[0].values())
        self.vectors = np.zeros((len(starts), VECTORS + 2 * MEMORY, self.cells))
        self.vectors[:, X] = [self.flat.pack(tables) for tables in starts]
        self.numbers = np.zeros((len(starts), len(_NUMBERS) + MEMORY))
        named: dict[str, Array] = dict(zip(_NUMBERS, self.numbers.T, strict=False))
        self.level, self.fit = named["level"], named["fit"]  # with the prior, and without
        self.steps, self.rests = named["steps"], named["rests"]  # E-steps; does it rest?
        self.gain = named["gain"]  # of the last step
        self.path = np.empty((len(starts), moves))  # the level after each move, so many of them
        self.moves = named["moves"]
        self.hopeless = named["lost"]  # has some row no probability?
        self.begin = np.append(self.flat.starts, self.cells)
        self.at = [ctypes.c_void_p(x.ctypes.data) for x in (self.vectors, self.numbers)]

    def tables(self, k: int) -> Tables:
        """Those of climb k, one step of EM ahead of where it stands."""
        return LaterTables(self.flat.shapes, self.vectors[k, AFTER].copy())

    def highest(self) -> Refined:
        """The climb that came highest."""
        k = int(self.level.argmax())
        rests, steps, fit = bool(self.rests[k]), int(self.steps[k]), float(self.fit[k])
        path = tuple(self.path[k, : int(self.moves[k])].tolist()) or (float(self.level[k]),)
        return Refined(dict(self.tables(k)), rests, steps, path, fit)

    def tell(self, which: Codes) -> None:
        """How far the highest of some climbs has come."""
        k = int(which[self.level[which].argmax()])
        gain = float(self.gain[k])
        if self.steps[k] > 1 and np.isfinite(gain):
            tell_climb(int(self.steps[k]), gain)


class _Climbing(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ("cells", "groups", "memory")),
        *((name, ctypes.c_void_p) for name in ("begin", "prior")),
        *((name, ctypes.c_double) for name in ("small", "first_cap", "least_cap", "flat")),
        *((name, ctypes.c_double) for name in ("at_rest", "rest", "keep", "least_root")),
        ("patience", ctypes.c_double),
        *((name, ctypes.c_void_p) for name in ("room", "path")),
        ("most", ctypes.c_int64),
    )


@final
class CompiledLockstep(ClimbNumbers):
    """A field of climbs that can be led on together, as `Lockstep` is."""

    def __init__(
        self,
        own: Kernel,
        starts: Sequence[Tables],
        prior: Prior,
        estep: EStepOfMany,
        enough: float,
        patience: float = math.inf,
        moves: int = 0,
    ) -> None:
        super().__init__(starts, prior, moves)
        self.estep, flat = estep, self.flat
        self.room = np.empty(4 * self.cells)  # what C points to lives as long as this
        self.call = _Climbing(
            *(self.cells, len(flat.starts), MEMORY),
            *(x.ctypes.data for x in (self.begin, flat.prior)),
            enough * flat.parameters,
            *STEPPING,
            patience,
            self.room.ctypes.data,
            self.path.ctypes.data if moves else None,
            moves,
        )
        self.step = own.function("climbs_step")
        self.climb = own.function("cells_climb")
        self.climb.restype = ctypes.c_int64
        self.rows = estep.whole if isinstance(estep, SumOfMany) else None
        self._go_on(np.arange(len(starts)), X)
        self.level[self.hopeless > 0] = -np.inf

    def advance(self, which: Sequence[int], steps: int) -> None:
        """Some climbs on to so many E-steps in all, or to rest."""
        left: Codes = np.array(list(which), dtype=np.int64)
        while True:
            left = left[(self.rests[left] + self.hopeless[left] == 0) & (self.steps[left] < steps)]
            if not len(left):
                return
            careful = left if self.rows is None else self._climb(self.rows, left, steps)
            if len(careful):
                self._go_on(careful, TRIAL)
            self.tell(left)

    def _climb(self, rows: CompiledManyRows, which: Codes, steps: int) -> Codes:
        """Some climbs on, not all the way where that takes long; who needs care in the next step.

        Between two calls an interrupt is heard.
        """
        stride = max(1, CALL_WORK // (rows.work * len(which)))
        goal = min(steps, int(self.steps[which].min()) + stride)
        done = int(
            self.climb(
                *(ctypes.byref(x) for x in (rows.told, self.call)),
                *self.at,
                ctypes.c_void_p(which.ctypes.data),
                ctypes.c_int64(len(which)),
                ctypes.c_int64(goal),
            )
        )
        check_codes(done)
        return which[done : done + 1]

    def _go_on(self, which: Codes, where: int) -> None:
        """One E-step of some climbs, and where they go from there."""
        counts, fits = self.estep(self.vectors[which, where])
        counts, fits = np.ascontiguousarray(counts), np.ascontiguousarray(fits)
        self.step(
            ctypes.byref(self.call),
            *self.at,
            ctypes.c_void_p(which.ctypes.data),
            ctypes.c_int64(len(which)),
            ctypes.c_void_p(counts.ctypes.data),
            ctypes.c_void_p(fits.ctypes.data),
        )


def compiled_climb(
    start: Tables,
    prior: Prior,
    estep: EStepOfMany | None,
    enough: float,
    most: int,
    patience: float = math.inf,
) -> Refined | None:
    """`accelerate` where E-steps are compiled; None where they are not, or a row has no chance."""
    own = kernel()
    if own is None or not isinstance(estep, SumOfMany) or estep.whole is None:
        return None
    climbs = CompiledLockstep(own, [start], prior, estep, enough, patience, most)
    if climbs.hopeless.any():
        return None
    climbs.advance([0], most)
    return climbs.highest()
