"""Files of rows: Parquet, CSV and Arrow files by path, folder or glob, read through pyarrow."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from typing import Any

from latentia.data.sources import handing_back as giving
from latentia.data.sources.stream import BLOCK_ROWS, Stream
from latentia.errors import DataError, FrameError
from latentia.typing import Label

FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".tsv": "tsv",
    ".arrow": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
}
CSV_BYTES = 2**24  # of a block; the types of columns are told from the first


def open_files(paths: Sequence[str | os.PathLike[str]]) -> Stream:
    """A stream over the rows of files, in the order of their names."""
    found = [name for path in paths for name in _matching(os.fspath(path))]
    try:
        import pyarrow.dataset as ds
    except ImportError:
        raise FrameError("reading files needs pyarrow. Install it, or pass a table.") from None
    kinds = {_format(name) for name in found}
    if len(kinds) > 1:
        raise FrameError(f"expected files of one kind, got {', '.join(sorted(kinds))}.")
    whole = ds.dataset(found if len(found) > 1 else found[0], format=_arrow_format(kinds.pop()))
    return dataset_stream(whole, _plain_parquet(whole))


def dataset_stream(data: Any, plain_parquet: bool = False) -> Stream:
    """A stream over an Arrow dataset.

    Arrow's own scanner reads up to a gigabyte ahead; plain Parquet files are read block by block.
    """
    import pyarrow as pa

    def blocks(columns: Sequence[Label] | None) -> Iterator[Any]:
        wanted = data.schema.names if columns is None else [str(c) for c in columns]
        batches = _parquet_batches(data, wanted) if plain_parquet else _scanned(data, wanted)
        try:
            for batch in batches:
                if batch.num_rows:
                    yield pa.Table.from_batches([batch])
        except pa.ArrowInvalid as error:
            raise DataError(
                f"the files cannot be read to their end: {error}. In CSV files the first "
                "megabytes tell the types of columns; write Parquet, or mend the file."
            ) from error

    return Stream(tuple(data.schema.names), blocks, giving.give_reader, _known_rows(data))


def _scanned(data: Any, columns: list[str]) -> Iterator[Any]:
    import pyarrow.dataset as ds

    # buffering ahead, Arrow keeps what it has read of a Parquet file until the file's end
    options = ds.ParquetFragmentScanOptions(pre_buffer=False) if _is_parquet(data) else None
    batches: Iterator[Any] = data.to_batches(
        columns=columns,
        batch_size=BLOCK_ROWS,
        batch_readahead=4,
        fragment_readahead=2,
        fragment_scan_options=options,
    )
    return batches


def _parquet_batches(data: Any, columns: list[str]) -> Iterator[Any]:
    import pyarrow.parquet as pq

    for fragment in data.get_fragments():
        with fragment.open() as source:
            file = pq.ParquetFile(source, pre_buffer=False)
            for batch in file.iter_batches(batch_size=BLOCK_ROWS, columns=columns):
                yield batch.select(columns)


def _plain_parquet(data: Any) -> bool:
    """Files that all have the columns of the dataset: none comes from the names of folders."""
    return _is_parquet(data) and all(f.physical_schema == data.schema for f in data.get_fragments())


def _known_rows(data: Any) -> int | None:
    """Rows of a dataset, where its files tell them."""
    return int(data.count_rows()) if _is_parquet(data) else None


def _is_parquet(data: Any) -> bool:
    return type(getattr(data, "format", None)).__name__ == "ParquetFileFormat"


def _matching(path: str) -> list[str]:
    if "://" in path or os.path.exists(path):
        return [path]
    found = sorted(glob.glob(path, recursive=True))
    if not found:
        raise FrameError(
            f"expected a table or the path of a file, got str {path!r}: no such file, and no file "
            "matches it. Is the path right?"
        )
    return found


def _format(name: str) -> str:
    if os.path.isdir(name):
        inside = sorted(
            os.path.join(folder, file)
            for folder, _, files in os.walk(name)
            for file in files
            if not file.startswith((".", "_"))
        )
        if not inside:
            raise DataError(f"{name!r}: the folder has no files.")
        return _format(inside[0])
    for end, kind in FORMATS.items():
        if name.lower().endswith(end):
            return kind
    raise FrameError(f"expected a file ending in {', '.join(FORMATS)}, got {name!r}.")


def _arrow_format(kind: str) -> Any:
    if kind not in ("csv", "tsv"):
        return kind
    import pyarrow.csv as csv
    import pyarrow.dataset as ds

    return ds.CsvFileFormat(
        parse_options=csv.ParseOptions(delimiter="\t" if kind == "tsv" else ","),
        read_options=csv.ReadOptions(block_size=CSV_BYTES),
        convert_options=csv.ConvertOptions(strings_can_be_null=True),
    )
