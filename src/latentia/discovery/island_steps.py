"""Steps of a climb on islands: by the compiled kernel, or by numpy where there is none.

Both hold tables and expected counts, and give the same numbers to rounding of single precision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, final

import numpy as np

from latentia.discovery.compiled_islands import CompiledSteps
from latentia.discovery.island_features import Single
from latentia.discovery.island_network import (
    IslandCounts,
    IslandLayout,
    IslandRoom,
    IslandTables,
    island_counts,
    maximise_islands,
    row_likelihoods,
)
from latentia.native.loading import kernel
from latentia.typing import Array, Codes

CHUNK = 1000  # rows at a time
Phi: TypeAlias = tuple[tuple[Single, ...], tuple[Single, ...]]  # of rows to learn from, and watched


class IslandSteps(Protocol):
    """Tables that get better batch by batch."""

    def start(self, tables: IslandTables) -> None:
        """Begin with these tables."""

    @property
    def counts(self) -> IslandCounts:
        """Expected counts behind the tables."""

    def count_all(self) -> None:
        """Counts of all rows, and the M-step."""

    def batches(
        self, parts: Sequence[Codes], own: Sequence[np.float32], share: Sequence[np.float32]
    ) -> None:
        """After each part of the rows: counts ← own · counts + share · its counts; the M-step."""

    def likelihoods(self) -> Array:
        """log P(row) of rows that are watched."""


def island_steps(
    layout: IslandLayout,
    codes: Codes,
    weight: Array | None,
    watched: Codes,
    pseudo_count: float,
    phi: Callable[[IslandLayout], Phi] | None = None,
) -> IslandSteps:
    """`phi` may give features of rows that are known already; only numpy asks for them."""
    own = kernel()
    if own is not None:
        return CompiledSteps(own, layout, codes, weight, watched, pseudo_count)
    found = (layout.of_rows(codes), layout.of_rows(watched)) if phi is None else phi(layout)
    return PlainSteps(layout, found, weight, pseudo_count)


def counts_of_codes(
    layout: IslandLayout, tables: IslandTables, codes: Codes, weight: Array | None
) -> IslandCounts:
    """The E-step of all rows."""
    steps = island_steps(layout, codes, weight, codes[:0], 1.0)
    steps.start(tables)
    steps.count_all()
    return steps.counts


@final
class PlainSteps:
    """Steps by numpy."""

    def __init__(
        self, layout: IslandLayout, phi: Phi, weight: Array | None, pseudo_count: float
    ) -> None:
        self._layout, self._pseudo_count = layout, pseudo_count
        self._phi, self._watched = phi
        self._weight = None if weight is None else weight.astype(np.float32)
        self._room = IslandRoom()
        self._tables: IslandTables
        self._counts: IslandCounts

    def start(self, tables: IslandTables) -> None:
        self._tables = tables

    @property
    def counts(self) -> IslandCounts:
        return self._counts

    def count_all(self) -> None:
        found: IslandCounts | None = None
        for start in range(0, len(self._phi[0]), CHUNK):
            part = slice(start, start + CHUNK)
            counts = self._expected([own[part] for own in self._phi], part)
            found = counts if found is None else found + counts
        assert found is not None
        self._maximise(found)

    def batches(
        self, parts: Sequence[Codes], own: Sequence[np.float32], share: Sequence[np.float32]
    ) -> None:
        for some, kept, added in zip(parts, own, share, strict=True):
            phi = [self._room.taken(i, each, some) for i, each in enumerate(self._phi)]
            self._maximise(self._counts.mixed(kept, self._expected(phi, some), added))

    def likelihoods(self) -> Array:
        return likelihoods_of(self._layout, self._tables, self._watched)

    def _expected(self, phi: Sequence[Single], rows: slice | Codes) -> IslandCounts:
        weight = None if self._weight is None else self._weight[rows]
        return island_counts(self._layout, self._tables, phi, weight, self._room)[0]

    def _maximise(self, counts: IslandCounts) -> None:
        self._counts = counts
        self._tables = maximise_islands(self._layout, counts, self._pseudo_count)


def likelihoods_of(layout: IslandLayout, tables: IslandTables, phi: Sequence[Single]) -> Array:
    """log P(row), (n,), some rows at a time."""
    n, room = len(phi[0]), IslandRoom()
    parts = [
        row_likelihoods(layout, tables, [own[start : start + CHUNK] for own in phi], room)
        for start in range(0, n, CHUNK)
    ]
    return np.concatenate(parts) if parts else np.empty(0)
