"""Rows that are changed where they are: cells in place of positions, fewer columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar, final

import numpy as np

from latentia.data.rows import Additive, Rows, Source
from latentia.data.sources.memory import LocalRows

Sum = TypeVar("Sum", bound=Additive)


@final
@dataclass(frozen=True, slots=True)
class ChangedRows:
    """A source each of whose blocks is changed before it is summed; `change` travels to workers."""

    source: Source
    change: Callable[[Rows], Rows]

    def fold(self, summary: Callable[[Rows], Sum]) -> Sum:
        return self.source.fold(partial(_after, self.change, summary))

    def sample(self, size: int, rng: np.random.Generator) -> Rows:
        return self.change(self.source.sample(size, rng))


def _after(change: Callable[[Rows], Rows], summary: Callable[[Rows], Sum], rows: Rows) -> Sum:
    return summary(change(rows))


def change_rows(source: Source, change: Callable[[Rows], Rows]) -> Source:
    """Rows in memory are changed once; others in every pass."""
    if isinstance(source, LocalRows):
        return LocalRows(change(source.rows), source.block_rows, source.threads)
    return ChangedRows(source, change)
