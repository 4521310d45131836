"""Engines: tables that are not in memory. One verb, `fold`, and rows as a source made from it.

An engine cuts its table into blocks, hands each to a function where the block is, and adds up what
comes back, in the order of the blocks. Only sums travel. Encoding happens inside the fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar, final

import numpy as np

from latentia.data.columns.column import Column, place_cells
from latentia.data.rows import Additive, Rows
from latentia.data.sources.memory import LocalRows
from latentia.data.sources.row_sketch import RowSketch, sketch_rows
from latentia.data.sources.sketch import TableSketch, sketch_column
from latentia.data.sources.table import Table
from latentia.errors import DataError, UnknownNameError
from latentia.typing import Array, Label

Sum = TypeVar("Sum", bound=Additive)
Answer = Callable[[Table], Mapping[Any, np.ndarray[Any, Any]]]


class Engine(Protocol):
    """A table somewhere, in blocks."""

    @property
    def names(self) -> tuple[Label, ...]:
        """Names of its columns."""
        ...

    @property
    def once(self) -> bool:
        """Can it be read only once?"""
        ...

    def fold(self, work: Callable[[Table], Sum | None], columns: Sequence[Label]) -> Sum | None:
        """Σ over blocks, in their order, of `work(block)`; None stands for nothing."""
        ...

    def answer(self, work: Answer, kinds: Mapping[Any, type], columns: Sequence[Label]) -> Any:
        """The columns that `work` finds for each block, as a table of the engine's own kind.

        `kinds` tells their names and types: float, int, bool, str or object.
        """
        ...


@final
@dataclass(frozen=True, slots=True)
class EngineRows:
    """A source over the rows of an engine: blocks are encoded where they are read."""

    engine: Engine
    columns: tuple[Column, ...]
    weight: Label | None = None  # the column that holds the weights

    def fold(self, summary: Callable[[Rows], Sum]) -> Sum:
        names = [c.name for c in self.columns]
        wanted = names if self.weight is None else [*names, self.weight]
        found = self.engine.fold(partial(summarise, self.columns, self.weight, summary), wanted)
        if found is None:
            raise DataError("there are no rows to learn from, or their weights are all zero.")
        return found

    def sample(self, size: int, rng: np.random.Generator) -> Rows:
        """About `size` rows, drawn by weight; all of them with their weights if they are few."""
        seed = int(rng.integers(2**31))
        found: RowSketch = self.fold(partial(sketch_rows, size, seed))
        return found.draw()


def summarise(
    columns: Sequence[Column],
    weight: Label | None,
    summary: Callable[[Rows], Sum],
    table: Table,
) -> Sum | None:
    """`summary` of one block of a table; nothing if no row counts."""
    rows = encode_table(columns, weight, table)
    return LocalRows(rows, threads=1).fold(summary) if len(rows) else None


def encode_table(columns: Sequence[Column], weight: Label | None, table: Table) -> Rows:
    """Codes of one block, rows of weight zero left out."""
    own = row_weights(weight, table)
    codes = [place_cells(c, table.column(c.name)) for c in columns]
    if own is not None and not own.all():
        kept = own > 0
        codes, own = [c[kept] for c in codes], own[kept]
    return Rows(tuple(codes), own)


def row_weights(weight: Label | None, table: Table) -> Array | None:
    """The weights of one block: finite and not negative."""
    if weight is None:
        return None
    found = table.column(weight)
    cells = found.cells
    if found.missing is not None and found.missing.any():
        raise DataError(f"column {weight!r} holds the weights, but has missing cells. Fill them.")
    if cells.dtype.kind not in "iufb":
        raise DataError(f"column {weight!r} holds the weights, but is not of numbers.")
    own = cells.astype(float)
    if (own < 0).any():
        raise DataError("weights must be finite and not negative. Drop or mend such rows.")
    return own


def sketch_table(names: Sequence[Label], weight: Label | None, table: Table) -> TableSketch | None:
    """Pass 0: what the columns of one block hold."""
    if table.length == 0:
        return None
    for name in names:
        if name not in table.names:
            raise UnknownNameError("column", name, table.names, "Every block needs it.")
    own = row_weights(weight, table)
    count = table.length if own is None else int(np.count_nonzero(own))
    sketches = {name: sketch_column(table.column(name), own) for name in names}
    return TableSketch(count, float(count) if own is None else float(own.sum()), sketches)


def plus(a: Sum | None, b: Sum | None) -> Sum | None:
    """a + b, where None is nothing."""
    if a is None or b is None:
        return b if a is None else a
    return a + b


def add_up(parts: Iterable[Sum | None]) -> Sum | None:
    """From first to last."""
    total: Sum | None = None
    for part in parts:
        total = plus(total, part)
    return total
