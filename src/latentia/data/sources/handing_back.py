"""Answers as the kind of table that the questions came in, block by block and lazily."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, final

import numpy as np

from latentia.announcing import Notes
from latentia.data.sources.engine import Answer
from latentia.data.sources.progress import show_progress
from latentia.data.sources.table import Table, part_of_table
from latentia.typing import ByName, CellArray, Foreign, Label, TableLike

if TYPE_CHECKING:
    from latentia.data.sources.stream import Stream

Kinds = ByName[type]


def answered(
    stream: Stream, work: Answer, columns: Sequence[Label]
) -> Iterator[tuple[Table, ByName[CellArray]]]:
    """Blocks and what was found for them; at the end, or where it breaks off, warnings once."""
    notes = Notes()
    stream.progress.begin(stream.rows)
    try:
        for table in stream.tables(columns):
            with notes.taking(), show_progress(False):  # told here, for all blocks together
                found = work(table)
            stream.progress.advance(table.length)
            yield table, found
        stream.progress.end()
    finally:
        notes.tell()


@final
class ToldOnce:
    """Work on parts of a question, in any order and anywhere: the same warning once a process."""

    def __init__(self, work: Answer) -> None:
        self.work = work
        self.notes = Notes()

    def __call__(self, table: Table) -> ByName[CellArray]:
        with self.notes.taking():
            found = self.work(table)
        self.notes.tell()
        return found

    def __reduce__(self) -> tuple[type[ToldOnce], tuple[Answer]]:
        return ToldOnce, (self.work,)


def give_generator(stream: Stream, work: Answer, kinds: Kinds, columns: Sequence[Label]) -> Foreign:
    """Blocks in, blocks of the same kind out."""
    for table, found in answered(stream, work, columns):
        yield table.like(found)


def give_list(stream: Stream, work: Answer, kinds: Kinds, columns: Sequence[Label]) -> Foreign:
    """A list of frames in, a list of frames out."""
    return list(give_generator(stream, work, kinds, columns))


def give_reader(stream: Stream, work: Answer, kinds: Kinds, columns: Sequence[Label]) -> Foreign:
    """A record-batch reader that computes a block when it is asked for one."""
    import pyarrow as pa  # the blocks are Arrow's

    schema = arrow_schema(kinds)

    def batches() -> Iterator[TableLike]:
        for _, found in answered(stream, work, columns):
            yield arrow_batch(found, schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def give_duckdb(stream: Stream, work: Answer, kinds: Kinds, columns: Sequence[Label]) -> Foreign:
    """A relation over such a reader; it can be read once."""
    import duckdb  # the relation is one of its

    # a connection of its own: the rows are read while the answer is
    return duckdb.cursor().from_arrow(give_reader(stream, work, kinds, columns))


def give_polars_lazy(
    data: Foreign, stream: Stream, work: Answer, kinds: Kinds, columns: Sequence[Label]
) -> Foreign:
    """A lazy frame whose last step asks the model."""
    import polars as pl  # the frame is one of its

    types: dict[type, Foreign] = {
        float: pl.Float64,
        int: pl.Int64,
        np.uint64: pl.UInt64,
        bool: pl.Boolean,
        date: pl.Date,
        datetime: pl.Datetime("us"),
    }
    schema = {str(name): types.get(kind, pl.String) for name, kind in kinds.items()}
    once = ToldOnce(work)

    def one_block(frame: TableLike) -> Foreign:
        found = once(part_of_table(frame))
        return pl.DataFrame({str(k): _plain(v) for k, v in found.items()}, schema=schema)

    wanted = data.select([str(c) for c in columns])
    return wanted.map_batches(one_block, schema=schema, streamable=True)


def arrow_schema(kinds: Kinds) -> Foreign:
    """Names and Arrow types of the columns of an answer."""
    import pyarrow as pa

    types: dict[type, Foreign] = {
        float: pa.float64(),
        int: pa.int64(),
        np.uint64: pa.uint64(),
        bool: pa.bool_(),
        date: pa.date32(),
        datetime: pa.timestamp("us"),
    }
    return pa.schema([(str(name), types.get(kind, pa.string())) for name, kind in kinds.items()])


def arrow_batch(found: ByName[CellArray], schema: Foreign) -> Foreign:
    """One block of an answer as a record batch."""
    import pyarrow as pa

    arrays = [
        pa.array([_text(v) for v in values], field.type)
        if values.dtype == object and field.type == pa.string()
        else pa.array(values).cast(field.type)
        for values, field in zip(found.values(), schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _plain(values: CellArray) -> Foreign:
    return [_text(v) for v in values] if values.dtype == object else values


def _text(value: object) -> str:
    return value if isinstance(value, str) else str(value)
