"""Parquet and Arrow files, whose columns have types: every file must have each column that is read.

Where files give a column different types, it gets one that holds all of their values exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import final

from latentia.data.sources.located import Located, check_unchanged
from latentia.data.sources.series_words import is_pool
from latentia.errors import DataError, FileError
from latentia.typing import Foreign, TableLike

EXACT = 2**53  # integers up to here are decimals, too


@final
@dataclass(frozen=True, slots=True)
class TypedFile:
    """One file and the types of its columns."""

    file: Located
    format: str
    schema: Foreign
    rows: int | None


def open_typed(file: Located, kind: str) -> TypedFile:
    """Its schema; a file that is cut off or damaged is an error."""
    with reading(file, kind):
        if kind == "Parquet":
            with parquet_file(file) as opened:
                return TypedFile(file, kind, opened.schema_arrow, opened.metadata.num_rows)
        with file.open_native() as source:
            return TypedFile(file, kind, _arrow_reader(source).schema, None)


@contextmanager
def reading(file: Located, kind: str) -> Iterator[None]:
    """Arrow's own errors as ours, with the path and a cure."""
    import pyarrow as pa

    try:
        yield
    except FileError:
        raise
    except (pa.ArrowException, OSError, EOFError) as error:
        if isinstance(error, OSError) and error.filename is not None:  # it was not let in
            raise
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise FileError(
            f"cannot read {file.shown!r} as a {kind} file: it is cut off or damaged ({reason}). "
            "Write or copy it again."
        ) from error


def typed_blocks(
    one: TypedFile, wanted: Sequence[str], schema: Foreign, rows: int
) -> Iterator[TableLike]:
    """Record batches of the wanted columns, of the types of `schema`."""
    check_unchanged(one.file)
    batches = (_parquet_batches if one.format == "Parquet" else _arrow_batches)(one, wanted, rows)
    with reading(one.file, one.format):
        for batch in batches:
            if batch.num_rows:
                yield batch if batch.schema.equals(schema) else batch.cast(schema)
    check_unchanged(one.file)


@contextmanager
def parquet_file(file: Located) -> Iterator[TableLike]:
    """Buffering ahead, Arrow would keep what it has read of a file until the file's end."""
    import pyarrow.parquet as pq

    with file.open_native() as source, pq.ParquetFile(source, pre_buffer=False) as opened:
        yield opened


def _parquet_batches(one: TypedFile, wanted: Sequence[str], rows: int) -> Iterator[TableLike]:
    with parquet_file(one.file) as opened:
        for batch in opened.iter_batches(batch_size=rows, columns=list(wanted)):
            yield batch.select(list(wanted))


def _arrow_batches(one: TypedFile, wanted: Sequence[str], rows: int) -> Iterator[TableLike]:
    with one.file.open_native() as source:
        reader = _arrow_reader(source)
        many = getattr(reader, "num_record_batches", None)
        batches = iter(reader) if many is None else map(reader.get_batch, range(many))
        for batch in batches:
            some = batch.select(list(wanted))
            for start in range(0, some.num_rows, rows):
                yield some.slice(start, rows)


def _arrow_reader(source: Foreign) -> Foreign:
    """Files and streams of Arrow's format alike."""
    import pyarrow as pa

    start = source.read(6)
    source.seek(0)
    return pa.ipc.open_file(source) if start == b"ARROW1" else pa.ipc.open_stream(source)


# -- one type for all files --------------------------------------------------------------------


def common_schema(files: Sequence[TypedFile], wanted: Sequence[str]) -> Foreign:
    """Types of the wanted columns, which every file must have."""
    import pyarrow as pa

    return pa.schema([(name, _common_type(files, name)) for name in wanted])


def _common_type(files: Sequence[TypedFile], name: str) -> Foreign:
    import pyarrow as pa

    kinds = [_declared_type(one.schema.field(name)) for one in files]
    if all(kind == kinds[0] for kind in kinds):
        return kinds[0]
    values = {_plain_type(kind) for kind in kinds}
    if all(pa.types.is_dictionary(kind) for kind in kinds) and len(values) == 1:
        return pa.dictionary(pa.int32(), values.pop())  # kept in other ways
    found = reduce(wider, [_plain_type(kind) for kind in kinds])
    if found is None or (_is_float(found) and not _all_exact(files, name)):
        first = files[0]
        other = next(
            one
            for one, kind in zip(files, kinds, strict=True)
            if _plain_type(kind) != _plain_type(kinds[0])
        )
        raise DataError(
            f"column {name!r} is of {kinds[0]} in {first.file.shown!r} but of "
            f"{other.schema.field(name).type} in {other.file.shown!r}, and no type holds both "
            "exactly. Write the files with one type."
        )
    return found


def _declared_type(field: Foreign) -> Foreign:
    """Its type; a pool of polars, which declares nothing, is text."""
    return field.type.value_type if is_pool(field) else field.type


def _plain_type(kind: Foreign) -> Foreign:
    """The type without what only tells how it is kept."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    texts = (pa.types.is_large_string, pa.types.is_string_view)
    return pa.string() if any(is_text(kind) for is_text in texts) else kind


def wider(a: Foreign, b: Foreign) -> Foreign:
    """A type that holds the values of both; None: there is none."""
    import pyarrow as pa

    if a is None or b is None or a == b:
        return None if a is None or b is None else a
    if pa.types.is_null(a) or pa.types.is_null(b):
        return b if pa.types.is_null(a) else a
    if pa.types.is_integer(a) and pa.types.is_integer(b):
        unsigned = [pa.types.is_unsigned_integer(t) for t in (a, b)]
        if all(unsigned):
            return pa.uint64()
        return None if pa.uint64() in (a, b) else pa.int64()
    if all(_is_float(t) or pa.types.is_integer(t) for t in (a, b)):
        return pa.float64()
    return None


def _is_float(kind: Foreign) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_floating(kind))


def _all_exact(files: Sequence[TypedFile], name: str) -> bool:
    """Can decimals hold all integers of a column? Small types and footers tell."""
    import pyarrow as pa

    for one in files:
        kind = _plain_type(one.schema.field(name).type)
        if pa.types.is_integer(kind) and kind.bit_width > 32 and not _stays_small(one, name):
            return False
    return True


def _stays_small(one: TypedFile, name: str) -> bool:
    """Does the footer of a Parquet file say that all integers are up to 2^53?"""
    if one.format != "Parquet":
        return False
    with parquet_file(one.file) as opened:
        told = opened.metadata
        places = [k for k in range(told.num_columns) if told.schema.column(k).path == name]
        for group in range(told.num_row_groups):
            found = told.row_group(group).column(places[0]).statistics if places else None
            if told.row_group(group).num_rows and (found is None or not _bounded(found)):
                return False
    return True


def _bounded(found: Foreign) -> bool:
    if not found.has_min_max:
        return bool(found.has_null_count and not found.num_values)  # nothing but missing cells
    return bool(found.min >= -EXACT and found.max <= EXACT)
