"""Anything table-like, opened: in memory, a stream of blocks, or an engine's own frame.

Kinds are told by the module of their type, so that no library is imported that the user did not
bring; only paths of files need pyarrow.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.sources import handing_back as giving
from latentia.data.sources.engine import Engine, OneBlock
from latentia.data.sources.files import dataset_stream, open_files
from latentia.data.sources.progress import PassProgress, answer_progress
from latentia.data.sources.stream import BLOCK_ROWS, Blocks, OneShot, Stream
from latentia.data.sources.table import read_table
from latentia.errors import DataError, FileError, FrameError
from latentia.typing import Foreign, Label, TableLike

PILOT_ROWS = 2**17  # of a table that can be read once: enough for good projections


def open_engine(
    data: TableLike,
    graph_names: Sequence[Label] | None,
    progress: PassProgress,
    known: Sequence[Column] = (),
) -> Engine:
    """The engine that can fold this table; a table in memory is one block.

    The cells of text files are read as the states of columns that are `known` before.
    """
    root = _root(data)
    if root == "dask":
        from latentia.data.sources.dask import open_dask

        return open_dask(data, progress)
    if root == "pyspark":
        from latentia.data.sources.spark import open_spark

        return open_spark(data, progress)
    found = open_stream(data, graph_names, known)
    if found is None:
        return OneBlock(read_table(data, graph_names))
    stream, once = found
    stream = replace(stream, progress=progress)
    return OneShot(stream, PILOT_ROWS) if once else stream


def open_question(data: TableLike, columns: Sequence[Column]) -> Engine:
    """The same for rows to be asked about: no more is read than tells that they are there.

    The cells of text files are read as the states and numbers of the model's `columns`.
    """
    names = [c.name for c in columns]
    if _root(data) in ("dask", "pyspark"):
        return open_engine(data, names, answer_progress())
    found = open_stream(data, names, columns)
    if found is None:
        return OneBlock(read_table(data, names))
    return replace(found[0], once=found[1], progress=answer_progress())


def open_stream(
    data: object, graph_names: Sequence[Label] | None, known: Sequence[Column] = ()
) -> tuple[Stream, bool] | None:
    """A stream over the blocks of a table, and whether they can be read only once."""
    if isinstance(data, str | os.PathLike):
        return open_files([data], known), False
    if isinstance(data, list | tuple):
        if data and all(isinstance(x, str | os.PathLike) for x in data):
            return open_files(list(data), known), False
        return _frames(data, graph_names, giving.give_list) if _holds_frames(data) else None
    if isinstance(data, np.ndarray | Mapping) or hasattr(data, "__array__"):
        return None
    if hasattr(data, "toarray"):  # sparse: read_table tells what to do
        return None
    root, name = _root(data), type(data).__name__
    if root == "polars":
        return (_polars_lazy(data), False) if name == "LazyFrame" else None
    if root == "duckdb" and hasattr(data, "to_arrow_reader"):
        return _duckdb(data), False
    if root == "pyarrow":
        return _pyarrow(data)
    if hasattr(data, "to_pyarrow_batches"):  # ibis
        return _ibis(data), False
    if (
        root == "pandas"
        or hasattr(data, "__dataframe__")
        or hasattr(data, "__narwhals_dataframe__")
    ):
        return None
    if hasattr(data, "__arrow_c_stream__"):
        return _pyarrow(_reader_of(data))
    if callable(data):
        return _frames(data, graph_names, giving.give_generator)
    if isinstance(data, Iterable) and not isinstance(data, str | bytes | set | frozenset):
        return _frames(data, graph_names, giving.give_generator)
    return None


def _root(data: TableLike) -> str:
    return type(data).__module__.split(".")[0]


def _holds_frames(data: Sequence[TableLike]) -> bool:
    """A list of tables, and not a table as a list of rows?"""
    if not data:
        return False
    first = data[0]
    if isinstance(first, np.ndarray):
        return first.ndim == 2
    if isinstance(first, Mapping):
        cells = list(first.values())
        return bool(cells) and all(np.ndim(cell) == 1 for cell in cells)
    return hasattr(first, "columns") or hasattr(first, "__arrow_c_stream__")


# --- libraries ------------------------------------------------------------------------------------


def _polars_lazy(data: Foreign) -> Stream:
    names = tuple(data.collect_schema().names())

    def blocks(columns: Sequence[Label] | None) -> Iterator[TableLike]:
        wanted = data if columns is None else data.select(_texts(columns))
        if hasattr(data, "collect_batches"):
            yield from wanted.collect_batches(chunk_size=BLOCK_ROWS)
        else:  # older polars cannot hand out batches
            yield from wanted.collect().iter_slices(BLOCK_ROWS)

    return Stream(names, _readable(blocks), partial(giving.give_polars_lazy, data))


def _readable(blocks: Blocks) -> Blocks:
    """The same blocks; what the library says that cannot read them is said in our words."""

    def read(columns: Sequence[Label] | None) -> Iterator[TableLike]:
        try:
            yield from blocks(columns)
        except Exception as error:
            library = _root(error).lstrip("_")
            if library not in ("polars", "duckdb", "pyarrow", "ibis"):
                raise
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
            raise FileError(
                f"{library} cannot read these rows: {reason}. Mend what they are read from, or how."
            ) from error

    return read


def _texts(columns: Sequence[Label]) -> list[str]:
    """Names as text, as the library knows them."""
    texts = [str(c) for c in columns]
    twice = sorted({t for t in texts if texts.count(t) > 1})
    if twice:
        raise DataError(
            f"several columns of the graph are {twice[0]!r} as text, which is all that this kind "
            "of table tells apart. Give them names that differ as text."
        )
    return texts


def _duckdb(data: Foreign) -> Stream:
    def blocks(columns: Sequence[Label] | None) -> Iterator[TableLike]:
        quoted = ['"' + str(c).replace('"', '""') + '"' for c in columns or data.columns]
        yield from _tables_of(data.select(", ".join(quoted)).to_arrow_reader(BLOCK_ROWS))

    return Stream(tuple(data.columns), _readable(blocks), giving.give_duckdb, wraps=True)


def _ibis(data: Foreign) -> Stream:
    def blocks(columns: Sequence[Label] | None) -> Iterator[TableLike]:
        wanted = data if columns is None else data.select([str(c) for c in columns])
        yield from _tables_of(wanted.to_pyarrow_batches(chunk_size=BLOCK_ROWS))

    return Stream(tuple(data.columns), _readable(blocks), giving.give_reader)


def _pyarrow(data: Foreign) -> tuple[Stream, bool] | None:
    """A dataset can be read again, a reader once; tables are in memory."""
    if hasattr(data, "to_batches") and hasattr(data, "scanner"):
        return dataset_stream(data), False
    if hasattr(data, "read_next_batch"):
        names = tuple(data.schema.names)
        return Stream(names, _readable(lambda _: _tables_of(data)), giving.give_reader), True
    return None


def _reader_of(data: Foreign) -> Foreign:
    try:
        import pyarrow as pa
    except ImportError:
        raise FrameError(
            f"reading the Arrow stream of a {type(data).__name__} needs pyarrow. Install it."
        ) from None
    return pa.RecordBatchReader.from_stream(data)


def _tables_of(batches: Iterable[TableLike]) -> Iterator[TableLike]:
    import pyarrow as pa  # batches come from it

    for batch in batches:
        if batch.num_rows:
            yield pa.Table.from_batches([batch])


# --- iterables ------------------------------------------------------------------------------------


def _frames(
    data: TableLike, graph_names: Sequence[Label] | None, give: Callable[..., TableLike]
) -> tuple[Stream, bool]:
    """Frames from a list, an iterator, or a function that makes one."""
    start = iter(_opened(data))
    once = not callable(data) and iter(data) is data
    try:
        first = next(start)
    except StopIteration:
        raise DataError(
            "0 sample(s): expected at least one block of rows, got an iterable without any."
        ) from None
    names = read_table(_as_frame(first), graph_names).names
    again = itertools.chain([first], start)

    def blocks(_: Sequence[Label] | None) -> Iterator[TableLike]:
        return map(_as_frame, again if once else _opened(data))

    return Stream(names, blocks, give), once


def _opened(data: TableLike) -> Iterable[TableLike]:
    if not callable(data) or isinstance(data, list | tuple):
        return data  # type: ignore[no-any-return]
    made = data()
    if not isinstance(made, Iterable):
        raise FrameError(
            f"expected a function that makes tables one by one, it made a {type(made).__name__}."
        )
    return made


def _as_frame(block: TableLike) -> TableLike:
    """Record batches as tables; everything else as it is."""
    if _root(block) == "pyarrow" and hasattr(block, "num_rows") and not hasattr(block, "chunk"):
        return next(_tables_of([block]), block) if type(block).__name__ == "RecordBatch" else block
    return block
