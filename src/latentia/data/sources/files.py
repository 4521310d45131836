"""Files of rows: CSV, Parquet and Arrow files by path, folder or pattern, read block by block.

The one way to read a file, from Python and from the command line. Needs pyarrow.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from operator import add
from typing import TypeAlias

from latentia.data.columns.column import Column
from latentia.data.sources import handing_back as giving
from latentia.data.sources.csv_files import array_cells, csv_blocks, known_blocks, survey
from latentia.data.sources.located import Located, TableFile, format_of, locate
from latentia.data.sources.stream import BLOCK_ROWS, Stream
from latentia.data.sources.typed_files import common_schema, open_typed, typed_blocks
from latentia.errors import DataError, FileError, FrameError
from latentia.typing import ByName, Cell, Foreign, Label, TableLike

# names, blocks with some of them, and the number of rows
Opened: TypeAlias = tuple[list[str], Callable[[Sequence[str]], Iterator[TableLike]], int | None]


def open_files(paths: Sequence[str | os.PathLike[str]], known: Sequence[Column] = ()) -> Stream:
    """A stream over the rows of files, in the order of their names.

    `known` are the columns of a model whose rows these are to be: the cells of CSV files are then
    read as its states and numbers, and columns go by its labels.
    """
    try:
        import pyarrow as pa  # noqa: F401 (the readers need it)
    except ImportError:
        raise FrameError("reading files needs pyarrow. Install it, or pass a table.") from None
    told = [c for p in paths if isinstance(p, TableFile) for c in p.known]
    columns = _by_text(known or told)
    placed = [locate(path) for path in paths]
    files = [file for found, _ in placed for file in found]
    kept = [copy for _, copy in placed if copy is not None]  # temporary copies of pipes
    kinds = {format_of(file): file for file in files}
    if len(kinds) > 1:
        examples = ", ".join(f"{kind} ({kinds[kind].shown!r})" for kind in sorted(kinds))
        raise FrameError(f"expected files of one kind, got {examples}. Pass them kind by kind.")
    kind = next(iter(kinds))
    names, blocks, rows = (
        _csv_rows(files, columns) if kind == "CSV" else _typed_rows(files, kind, columns)
    )

    def labelled(wanted: Sequence[Label] | None, kept: object = kept) -> Iterator[TableLike]:
        texts = names if wanted is None else [str(label) for label in wanted]
        return blocks(texts)

    labels = tuple(columns[name].name if name in columns else name for name in names)
    return Stream(labels, labelled, giving.give_reader, rows)


def _by_text(known: Sequence[Column]) -> dict[str, Column]:
    """Columns by what their names spell: all that a file can tell apart."""
    found: dict[str, Column] = {}
    for column in known:
        if found.setdefault(str(column.name), column) is not column:
            raise DataError(
                f"several columns of the model are {str(column.name)!r} as text, which is all that "
                "a file tells apart. Give them names that differ as text."
            )
    return found


def _csv_rows(files: Sequence[Located], known: Mapping[str, Column]) -> Opened:
    surveys = [survey(file) for file in files]
    names = list(dict.fromkeys(name for each in surveys for name in each.head.names))
    looks = {
        name: reduce(add, [each.looks[name] for each in surveys if name in each.looks])
        for name in names
    }

    def blocks(wanted: Sequence[str]) -> Iterator[TableLike]:
        _check_all_have([(f, s.head.names) for f, s in zip(files, surveys, strict=True)], wanted)
        for file, found in zip(files, surveys, strict=True):
            if known:
                for cells in known_blocks(file, found, looks, wanted, known):
                    yield from _cut_dict(cells)
            else:
                for table in csv_blocks(file, found, looks, wanted):
                    yield from _cut(table)

    return names, blocks, sum(each.rows for each in surveys)


def _typed_rows(files: Sequence[Located], kind: str, known: Mapping[str, Column]) -> Opened:
    import pyarrow as pa

    opened = [open_typed(file, kind) for file in files]
    names = list(dict.fromkeys(name for one in opened for name in one.schema.names))
    counts = [one.rows for one in opened]

    def blocks(wanted: Sequence[str]) -> Iterator[TableLike]:
        _check_all_have([(one.file, one.schema.names) for one in opened], wanted)
        schema = common_schema(opened, wanted)
        labels = {name: known[name].name if name in known else name for name in wanted}
        for one in opened:
            for batch in typed_blocks(one, wanted, schema, BLOCK_ROWS):
                table = pa.Table.from_batches([batch])
                if all(isinstance(label, str) for label in labels.values()):
                    yield table
                else:  # Arrow's names are text
                    yield {labels[name]: array_cells(table.column(name)) for name in wanted}

    return names, blocks, None if None in counts else sum(filter(None, counts))


def _check_all_have(files: Sequence[tuple[Located, Sequence[str]]], wanted: Sequence[str]) -> None:
    """A file that lacks a column which others have is refused: its cells are no holes."""
    for file, names in files:
        for name in wanted:
            if name not in names:
                other = next((f.shown for f, others in files if name in others), None)
                raise DataError(
                    f"{file.shown!r} has no column {name!r}, but {other!r} has. Write it into "
                    "every file, empty where it is not known, or leave that file out."
                )
            if names.count(name) > 1:
                raise DataError(f"two columns of {file.shown!r} are called {name!r}. Rename one.")


def _cut(table: Foreign) -> Iterator[TableLike]:
    for start in range(0, len(table), BLOCK_ROWS):
        yield table.slice(start, BLOCK_ROWS)


def _cut_dict(cells: ByName[Cell]) -> Iterator[TableLike]:
    for start in range(0, len(next(iter(cells.values()))), BLOCK_ROWS):
        yield {name: values[start : start + BLOCK_ROWS] for name, values in cells.items()}


# -- datasets of Arrow -------------------------------------------------------------------------


def dataset_stream(data: Foreign) -> Stream:
    """A stream over an Arrow dataset that the user has opened."""
    import pyarrow as pa

    def blocks(columns: Sequence[Label] | None) -> Iterator[TableLike]:
        wanted = data.schema.names if columns is None else [str(c) for c in columns]
        _check_fragments(data, wanted)
        try:
            for batch in _scanned(data, wanted):
                if batch.num_rows:
                    yield pa.Table.from_batches([batch])
        except (pa.ArrowException, OSError) as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise FileError(
                f"the files of the dataset cannot be read to their end: {reason}. Mend them, or "
                "pass their paths instead of the dataset."
            ) from error

    return Stream(tuple(data.schema.names), blocks, giving.give_reader, _known_rows(data))


def _scanned(data: Foreign, columns: list[str]) -> Iterator[TableLike]:
    import pyarrow.dataset as ds

    # buffering ahead, Arrow keeps what it has read of a Parquet file until the file's end
    options = ds.ParquetFragmentScanOptions(pre_buffer=False) if _is_parquet(data) else None
    batches: Iterator[TableLike] = data.to_batches(
        columns=columns,
        batch_size=BLOCK_ROWS,
        batch_readahead=4,
        fragment_readahead=2,
        fragment_scan_options=options,
    )
    return batches


def _check_fragments(data: Foreign, wanted: Sequence[str]) -> None:
    """Arrow would fill a column that a file lacks with nothing."""
    import pyarrow.dataset as ds

    for fragment in data.get_fragments():
        told = ds.get_partition_keys(fragment.partition_expression)  # by the names of folders
        for name in wanted:
            if name not in fragment.physical_schema.names and name not in told:
                where = getattr(fragment, "path", "a part of the dataset")
                raise DataError(
                    f"{where!r} has no column {name!r}, which the dataset has. Write it into every "
                    "file, empty where it is not known, or leave that file out."
                )


def _known_rows(data: Foreign) -> int | None:
    """Rows of a dataset, where its files tell them."""
    return int(data.count_rows()) if _is_parquet(data) else None


def _is_parquet(data: Foreign) -> bool:
    return type(getattr(data, "format", None)).__name__ == "ParquetFileFormat"
