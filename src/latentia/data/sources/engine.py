"""Engines: tables wherever they are. One verb, `fold`, and rows as a source made from it.

An engine cuts its table into blocks, hands each to a function where the block is, and adds up what
comes back, in the order of the blocks. Only sums travel. Encoding happens inside the fold. A table
in memory is an engine of one block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic, Literal, Protocol, TypeAlias, TypeVar, final

import numpy as np

from latentia.data.columns.column import Column, Places
from latentia.data.columns.values import are_numbers
from latentia.data.rows import Additive, Rows, Source
from latentia.data.sources.all_cores import by_column
from latentia.data.sources.memory import LocalRows
from latentia.data.sources.row_sketch import RowSketch, sketch_rows
from latentia.data.sources.sketch import TableSketch, sketch_column
from latentia.data.sources.table import Table
from latentia.errors import DataError, LatentiaError, UnknownNameError
from latentia.linear_algebra import one_thread
from latentia.typing import Array, ByName, CellArray, Label, TableLike

Sum = TypeVar("Sum", bound=Additive)
Answer: TypeAlias = Callable[[Table], ByName[CellArray]]
Form: TypeAlias = Literal["table", "column", "array"]  # of an answer; blocks: the last two alike
ODD = 0x9E3779B97F4A7C15  # 2⁶⁴ / golden ratio: multiples of it are spread evenly


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

    @property
    def local(self) -> bool:
        """Are its blocks read by this process? Else small tables are fetched from workers."""
        ...

    @property
    def wraps(self) -> bool:
        """Are errors that come up while a lazy answer is read wrapped into the engine's own?"""
        ...

    def fold(self, work: Callable[[Table], Sum | None], columns: Sequence[Label]) -> Sum | None:
        """Σ over blocks, in their order, of `work(block)`; None stands for nothing."""
        ...

    def answer(
        self,
        work: Answer,
        kinds: ByName[type],
        columns: Sequence[Label],
        form: Form = "table",
    ) -> TableLike:
        """The columns that `work` finds for each block, as a table of the engine's own kind.

        `kinds` tells their names and types: float, int, bool, str or object.
        """
        ...


@final
@dataclass(frozen=True, slots=True)
class OneBlock:
    """A table in memory. Its rows are shared out among threads where that pays, products are not:
    a block of them is over before BLAS has its threads together.
    """

    table: Table
    once: bool = False
    local: bool = True
    wraps: bool = False

    @property
    def names(self) -> tuple[Label, ...]:
        return self.table.names

    def fold(self, work: Callable[[Table], Sum | None], columns: Sequence[Label]) -> Sum | None:
        with one_thread():
            return work(self.table)

    def answer(
        self,
        work: Answer,
        kinds: ByName[type],
        columns: Sequence[Label],
        form: Form = "table",
    ) -> TableLike:
        with one_thread():
            found = work(self.table)
        if form == "table":
            return self.table.like(found)
        ((name, values),) = found.items()
        return values if form == "array" else self.table.like_column(values, name)


@final
@dataclass(frozen=True, slots=True)
class Marks:
    """What tells that two passes read the same rows: sums that every row changes."""

    rows: int
    weight: float
    sums: tuple[int, ...]  # per column: Σ code, cells that are not the first state; Σ of row hashes

    def __add__(self, other: Marks) -> Marks:
        sums = tuple((a + b) % 2**64 for a, b in zip(self.sums, other.sums, strict=True))
        return Marks(self.rows + other.rows, self.weight + other.weight, sums)

    def same(self, other: Marks) -> bool:
        """Weights may be rounded in another order."""
        close = abs(self.weight - other.weight) <= 1e-9 * max(self.weight, other.weight)
        return self.rows == other.rows and self.sums == other.sums and close


def mark_rows(rows: Rows) -> Marks:
    """The marks of one block; positions on grids count in thousandths.

    A hash of every row ties its cells: values that change places within a column are noticed, too.
    """
    sums: list[int] = []
    ties = np.zeros(len(rows), dtype=np.uint64)
    if rows.weight is not None:
        ties += np.asarray(rows.weight, dtype=np.float64).view(np.uint64)
    for k, codes in enumerate(rows.codes):
        if codes.dtype.kind == "f":
            codes = np.rint(1000.0 * np.nan_to_num(codes, nan=-1.0)).astype(np.int64)
        sums += [int(codes.sum(dtype=np.int64)) % 2**64, int(np.count_nonzero(codes))]
        factor = np.uint64((2 * k + 1) * ODD % 2**64)
        ties += codes.astype(np.int64, copy=False).view(np.uint64) * factor
    ties = (ties ^ (ties >> np.uint64(31))) * np.uint64(ODD)
    ties ^= ties >> np.uint64(29)
    return Marks(len(rows), rows.total, (*sums, int(ties.sum(dtype=np.uint64))))


@final
@dataclass(frozen=True, slots=True)
class Marked(Generic[Sum]):
    """A sum over rows, and the marks of these rows."""

    value: Sum
    marks: Marks

    def __add__(self, other: Marked[Sum]) -> Marked[Sum]:
        return Marked(self.value + other.value, self.marks + other.marks)


@final
@dataclass(frozen=True, slots=True)
class EngineRows:
    """A source over the rows of an engine: blocks are encoded where they are read.

    Every pass must read the rows that the first one read, as many as were looked at before.
    """

    engine: Engine
    columns: tuple[Column, ...]
    weight: Label | None = None  # the column that holds the weights
    only: tuple[int, int] | None = None  # rows whose column of that place, left out, has that code
    looked: tuple[int, float] | None = None  # rows and weight of the pass before
    first: list[Marks] = field(default_factory=list, compare=False)  # of the first pass

    def fold(self, summary: Callable[[Rows], Sum]) -> Sum:
        names = [c.name for c in self.columns]
        wanted = names if self.weight is None else [*names, self.weight]
        work = partial(summarise, self.columns, self.weight, self.only, summary)
        found: Marked[Sum] | None = self.engine.fold(work, wanted)
        if found is None:
            raise DataError("there are no rows to learn from, or their weights are all zero.")
        if not self.first:
            if self.looked is not None:
                check_same(Marks(*self.looked, found.marks.sums), found.marks)
            self.first.append(found.marks)
        check_same(self.first[0], found.marks)
        return found.value

    def sample(self, size: int, rng: np.random.Generator) -> Rows:
        """About `size` rows, drawn by weight; all of them with their weights if they are few."""
        seed = int(rng.integers(2**31))
        found: RowSketch = self.fold(partial(sketch_rows, size, seed))
        return found.draw()


def check_same(first: Marks, now: Marks) -> None:
    """An error if a later pass read other rows than the first."""
    if first.same(now):
        return
    if first.rows != now.rows:
        change = f"{first.rows:,} rows at first, {now.rows:,} now"
    else:
        change = "as many rows as before, but with other values or weights"
    raise DataError(
        f"the table changed while it was read: {change}. Learning reads it several times and must "
        "find the same rows each time. Fix the seed of what makes them, wait until nobody writes "
        "to the files any more, or write the rows to a Parquet file and pass its path."
    )


def summarise(
    columns: Sequence[Column],
    weight: Label | None,
    only: tuple[int, int] | None,
    summary: Callable[[Rows], Sum],
    table: Table,
) -> Marked[Sum] | None:
    """`summary` of one block of a table; nothing if no row counts."""
    rows = encode_table(columns, weight, table)
    rows = rows if only is None else rows_with(rows, *only)
    if not len(rows):
        return None
    return Marked(LocalRows(rows, threads=1).fold(summary), mark_rows(rows))


def rows_with(rows: Rows, place: int, code: int) -> Rows:
    """The rows whose column at `place` has this code, without that column."""
    found = rows.where(rows.codes[place] == code)
    return Rows(found.codes[:place] + found.codes[place + 1 :], found.weight)


def restrict(source: Source, place: int, code: int) -> Source:
    """The same of a source."""
    if isinstance(source, EngineRows):
        return replace(source, only=(place, code), looked=None, first=[])
    if isinstance(source, LocalRows):
        return replace(source, rows=rows_with(source.rows, place, code))
    raise LatentiaError(f"a {type(source).__name__} cannot be restricted to some of its rows.")


def encode_table(columns: Sequence[Column], weight: Label | None, table: Table) -> Rows:
    """Codes of one block, rows of weight zero left out."""
    own = row_weights(weight, table)
    kept = None if own is None or own.all() else own > 0  # others are as if they were not there

    def codes(column: Column) -> Places:
        values = table.column(column.name)
        return column.place(values if kept is None else values.where(kept))

    found = by_column(codes, columns, table.length)
    return Rows(tuple(found), own if own is None or kept is None else own[kept])


def row_weights(weight: Label | None, table: Table) -> Array | None:
    """The weights of one block: finite and not negative."""
    if weight is None:
        return None
    found = table.column(weight)
    if found.missing is not None and found.missing.any():
        raise DataError(f"column {weight!r} holds the weights, but has missing cells. Fill them.")
    if found.kind not in "iufb" and not are_numbers(found).all():
        raise DataError(f"column {weight!r} holds the weights, but is not of numbers.")
    own = found.cells.astype(float)
    if not np.isfinite(own).all() or (own < 0).any():
        raise DataError("weights must be finite and not negative. Drop or mend such rows.")
    return own


def check_cells(engine: Engine, columns: Sequence[Column], wanted: Sequence[Label]) -> None:
    """A look at the cells before a lazy answer, where its errors would come as somebody else's."""
    if engine.wraps and not engine.once:
        asked = tuple(c for c in columns if c.name in wanted)
        engine.fold(partial(_place_all, asked), wanted)


def _place_all(columns: Sequence[Column], table: Table) -> None:
    for column in columns:
        column.place(table.column(column.name))


def sketch_table(names: Sequence[Label], weight: Label | None, table: Table) -> TableSketch | None:
    """Pass 0: what the columns of one block hold."""
    if table.length == 0:
        return None
    known = set(table.names)
    for name in names:
        if name not in known:
            raise UnknownNameError("column", name, table.names, "Every block needs it.")
    own = row_weights(weight, table)
    count = table.length if own is None else int(np.count_nonzero(own))
    found = by_column(
        lambda name: sketch_column(table.column(name), own, name), names, table.length
    )
    sketches = dict(zip(names, found, strict=True))
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
