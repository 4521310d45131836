"""The E-step of many starts over rows that are wired in different ways."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.data.rows import Rows
from latentia.exact.compiled_many import CompiledManyRows, compiled_many
from latentia.exact.estep_many import ManyRows
from latentia.exact.estep_wiring import EStep
from latentia.native.loading import kernel
from latentia.networks.accelerate import EStepOf, Tables
from latentia.networks.lockstep import EStepOfMany, in_turn
from latentia.typing import Array, Codes

MOST_LAID_OUT = 2**16  # rows that differ: of more, E-steps are folds, block by block


@final
@dataclass(frozen=True, slots=True)
class SumOfMany:
    """The E-step of many starts, over rows that are wired in different ways."""

    parts: tuple[ManyRows | CompiledManyRows, ...]
    in_turn: EStepOfMany  # one start after the other, with care

    def __call__(self, X: Array) -> tuple[Array, Array]:
        counts, fits = np.zeros(X.shape), np.zeros(len(X))
        for part in self.parts:
            found = part(X)
            if found is None:
                return self.in_turn(X)
            counts += found[0]
            fits += found[1]
        return counts, fits

    @property
    def whole(self) -> CompiledManyRows | None:
        """All rows, where they are wired as one and compiled: then whole climbs are."""
        part = self.parts[0]
        return part if len(self.parts) == 1 and isinstance(part, CompiledManyRows) else None


def compiled_starts(estep: EStep, rows: Rows, tables: Tables, alone: EStepOf) -> SumOfMany | None:
    """The E-step of starts whose tables are like these, all of which are climbed.

    `alone`: that of one start, with care. None where there is no kernel for it.
    """
    own = kernel()
    if own is None or len(rows) > MOST_LAID_OUT:
        return None
    places: dict[int, Codes] = {}
    start = 0
    for v, table in tables.items():
        places[v] = start + np.arange(table.size).reshape(table.shape)
        start += table.size
    found = compiled_many(own, estep, rows, places, start)
    if found is None:
        return None
    return SumOfMany((found,), in_turn(alone, {v: t.shape for v, t in tables.items()}))
