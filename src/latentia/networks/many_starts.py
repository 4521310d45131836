"""The E-step of many starts over rows that are wired in different ways."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.exact.compiled_many import CompiledManyRows
from latentia.exact.estep_many import ManyRows
from latentia.networks.lockstep import EStepOfMany
from latentia.typing import Array


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
