"""Rows as codes, and the contract of whatever holds them: `fold` adds up, `sample` draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar, final

import numpy as np

from latentia.typing import Array, Codes, Selection

CHUNK_CELLS = 2**22  # cells of an indicator matrix at a time


@final
@dataclass(frozen=True, slots=True)
class Rows:
    """A block of rows as codes: one array per column in graph order, -1 where missing."""

    codes: tuple[Codes, ...]
    weight: Array | None = None  # None: every row counts once

    def __len__(self) -> int:
        return len(self.codes[0])

    def __getitem__(self, part: slice) -> Rows:
        weight = None if self.weight is None else self.weight[part]
        return Rows(tuple(c[part] for c in self.codes), weight)

    def where(self, kept: Selection) -> Rows:
        """Some rows: a mask, or their numbers."""
        weight = None if self.weight is None else self.weight[kept]
        return Rows(tuple(c[kept] for c in self.codes), weight)

    @property
    def weights(self) -> Array:
        """w of every row, (n,)."""
        return np.ones(len(self)) if self.weight is None else self.weight

    @property
    def total(self) -> float:
        """Σ w."""
        return float(len(self)) if self.weight is None else float(self.weight.sum())


class Additive(Protocol):
    """A value of some rows; `+` makes that of two disjoint sets of rows."""

    def __add__(self, other: Self, /) -> Self: ...


Sum = TypeVar("Sum", bound=Additive)


class Source(Protocol):
    """Rows somewhere: in memory, on disk, on a cluster."""

    def fold(self, summary: Callable[[Rows], Sum]) -> Sum:
        """Σ over blocks of `summary(block)`."""
        ...

    def sample(self, size: int, rng: np.random.Generator) -> Rows:
        """About `size` rows, drawn by weight; all of them with their weights if they are few."""
        ...


def row_chunks(count: int, width: int) -> Iterator[slice]:
    """Slices of rows small enough for `width` features at a time."""
    step = max(512, CHUNK_CELLS // max(width, 1))
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def block_codes(
    codes: Sequence[Codes], sizes: Sequence[int] | Mapping[int, int], block: Sequence[int]
) -> Codes:
    """Joint code, the last member running fastest; -1 where a member is missing."""
    if len(block) == 1:
        return codes[block[0]]
    joint = codes[block[0]].astype(np.int64)
    for x in block[1:]:
        nxt = codes[x].astype(np.int64)
        joint = np.where((joint < 0) | (nxt < 0), -1, joint * sizes[x] + nxt)
    return joint
