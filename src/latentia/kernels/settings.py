"""Settings of a kernel embedding (design 7): numbers that check themselves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from latentia.errors import DataError, UnknownNameError
from latentia.kernels.feature_maps import MAPS, MEDIAN, as_kernel
from latentia.typing import Given


@final
@dataclass(frozen=True, slots=True)
class KernelSettings:
    """Bandwidths in standard deviations of a column, ridges in units of 1/N."""

    bandwidth: float | str = 0.4  # of features, times √(continuous members); "median": by that rule
    evidence: float = 0.25  # at which evidence is read off a leaf
    own: float = 0.05  # of the density asked for
    rank: int = 30  # directions of a separator, at most
    most: int = 40  # … and of those to choose from
    ridge: tuple[float, float] = (0.3, 0.6)  # λ₁, λ₂
    floor: float = 0.1  # of P(e) / Π P(e_i), in scores
    mix: float = 0.02  # of independence, in answers
    lean: float = 0.6  # of answers on the linear one, times its (explained variance)²
    pool: float = 0.3  # share of normal densities in a classifier's scores, of few rows
    kernel: Given = "rbf"
    map: str = "nystroem"
    features: int = 150
    inside: int = 2  # leaves of α
    outside: int = 12  # leaves of β
    seed: int = 0
    landmarks: Given = None  # column -> values: rows to stand on, instead of a sample of the data

    def __post_init__(self) -> None:
        by_rule = self.bandwidth == MEDIAN
        if not by_rule and (isinstance(self.bandwidth, str) or not self.bandwidth > 0):
            raise _odd("bandwidth", f"a positive number or {MEDIAN!r}", self.bandwidth)
        for name in ("evidence", "own"):
            if not 0 <= getattr(self, name) < math.inf:
                raise _odd(name, "a bandwidth of zero or more", getattr(self, name))
        for name in ("rank", "most", "features", "inside", "outside"):
            if not getattr(self, name) >= 1:
                raise _odd(name, "a whole number of one or more", getattr(self, name))
        for name in ("floor", "mix", "lean", "pool"):
            if not 0 <= getattr(self, name) <= 1:
                raise _odd(name, "a share between 0 and 1", getattr(self, name))
        if len(tuple(self.ridge)) != 2 or not all(r > 0 for r in self.ridge):
            raise _odd("ridge", "two positive numbers (λ₁, λ₂), in units of 1/N", self.ridge)
        as_kernel(self.kernel)
        if self.map not in MAPS:
            raise UnknownNameError("feature map", self.map, MAPS)


def _odd(name: str, expected: str, got: object) -> DataError:
    return DataError(f"expected the kernel setting {name} to be {expected}, got {got!r}.")
