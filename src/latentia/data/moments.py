"""Moments: weighted sums over rows, the only thing that crosses from data to model.

Arrays are laid out (features, rows): sums over rows are then plain matrix products. Every feature
of a block of columns is zero where one of them is missing, and the indicators of a block add up to
its presence; so the sums carry, entry by entry, the weight of the rows they rest on (design 8).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np

from latentia import doors
from latentia.data.rows import Rows
from latentia.errors import MomentsError
from latentia.typing import Array, FilePath


@final
@dataclass(frozen=True, slots=True)
class Moments:
    """Sums over rows by name; `+` joins two disjoint sets of rows.

    `kind` tells what was summed, for which plan and in which basis: only like is added to like.
    """

    kind: str
    weight: float  # Σ w: the N of every formula
    rows: int
    sums: Mapping[str, Array]

    def __add__(self, other: Moments) -> Moments:
        if not isinstance(other, Moments):
            return NotImplemented
        if self.kind != other.kind or self.sums.keys() != other.sums.keys():
            raise MomentsError(
                f"these moments do not belong together: {self.kind!r} and {other.kind!r}. "
                "Moments add only if they were gathered for the same plan, in the same basis."
            )
        sums = {name: total + other.sums[name] for name, total in self.sums.items()}
        return Moments(self.kind, self.weight + other.weight, self.rows + other.rows, sums)

    def save(self, path: FilePath) -> None:
        """Write to one file, at once or not at all; `latentia.load` reads it."""
        doors.save(self, path)


def outer_sum(factors: Sequence[Array], weight: Array | None) -> Array:
    """Σ_n w_n a_n ⊗ b_n ⊗ …, factors of shape (r, n)."""
    shape = tuple(len(f) for f in factors)
    last = factors[-1] if weight is None else factors[-1] * weight
    if len(factors) == 1:
        return np.asarray(last.sum(axis=1), dtype=float)
    left = factors[0]
    for f in factors[1:-1]:
        left = (left[:, None, :] * f[None, :, :]).reshape(-1, f.shape[1])
    return np.asarray(left @ last.T, dtype=float).reshape(shape)


def add_to(sums: dict[str, Array], name: str, total: Array) -> None:
    """Add to a sum, or begin it."""
    sums[name] = sums[name] + total if name in sums else total


Summary: TypeAlias = Callable[[Rows], Moments]
