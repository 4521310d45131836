"""What kernel embeddings add to a record: how leaves are smoothed, and what answers lean on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from latentia.errors import StoreError
from latentia.inference.linear_part import Linear, Slot
from latentia.inference.operators import Operators
from latentia.linear_algebra import eigh
from latentia.store.plain import items, number
from latentia.typing import Array

WIDEST_BLUR = 1e6


@final
@dataclass(frozen=True, slots=True)
class Smoothing:
    """Are leaves kept as they were before smoothing, by what are they smoothed, the floor, lean."""

    raw: bool = False
    blur: tuple[float, float] = (0.0, 0.0)
    floor: float = 0.0
    lean: float | None = None  # None: no covariances


def write_smoothing(operators: Operators) -> list[Any]:
    """[raw?, evidence, own, floor], and the lean where there is one (files of version 4)."""
    linear = operators.linear
    numbers = [*operators.blur, operators.floor] + ([] if linear is None else [linear.lean])
    return [bool(operators.raw), *map(float, numbers)]


def read_blur(record: Any) -> Smoothing:
    if record is None:
        return Smoothing()
    raw, evidence, own, floor, *rest = items(record, 5 if len(items(record)) == 5 else 4)
    if type(raw) is not bool:
        raise StoreError(f"expected true or false for raw leaves, got {raw!r:.80}.")
    blur = (number(evidence, 0.0, WIDEST_BLUR), number(own, 0.0, WIDEST_BLUR))
    lean = number(rest[0], 0.0, 1.0) if rest else None
    return Smoothing(raw, blur, number(floor, 0.0, 1.0), lean)


def read_linear(
    slots: tuple[Slot, ...] | None, arrays: Sequence[Array], weight: float, lean: float | None
) -> Linear | None:
    """Covariances that can be: symmetric, no eigenvalue clearly negative."""
    if slots is None or lean is None:
        return None
    mean, covariance = arrays
    size = float(np.abs(covariance).max(initial=0.0))
    symmetric = np.abs(covariance - covariance.T).max(initial=0.0) <= 1e-9 * size
    if not symmetric or (eigh(covariance)[0] < -1e-6 * size).any():
        raise StoreError("expected covariances of columns, got a matrix that cannot be one.")
    return Linear(slots, mean, covariance, weight, lean)
