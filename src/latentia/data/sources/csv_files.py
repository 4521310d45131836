"""CSV files: one pass tells what their columns hold, then rows come in blocks of these types.

The delimiter is a comma; a semicolon or a tab where the line of names has no comma. What cells mean
is told by `cell_spelling`, from all cells of a column and not from the first of them.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.sources.cell_spelling import (
    CellLook,
    Cells,
    as_known,
    as_number,
    look_at_cells,
    plain_cells,
    typed,
)
from latentia.data.sources.csv_rows import (
    PIECE_BYTES,
    CsvPiece,
    count_lines,
    first_row,
    pieces,
    read_bytes,
    unpacked,
)
from latentia.data.sources.located import Located, check_unchanged
from latentia.data.sources.series_words import MET, arrow_words
from latentia.errors import DataError, FileError
from latentia.typing import CellArray, Foreign, Label, TableLike

DELIMITERS = (",", ";", "\t")
MARK = b"\xef\xbb\xbf"  # of UTF-8
OTHER_MARKS = (b"\xff\xfe", b"\xfe\xff")  # of UTF-16
KEPT_SURVEYS = 256  # files whose columns are remembered


@final
@dataclass(frozen=True, slots=True)
class Head:
    """The line of names, and where the rows begin."""

    names: tuple[str, ...]
    delimiter: str
    bytes: int
    line: int  # of the first row


@final
@dataclass(frozen=True, slots=True)
class Survey:
    """What one pass over a file tells."""

    head: Head
    rows: int
    looks: Mapping[str, CellLook]


@lru_cache(maxsize=KEPT_SURVEYS)
def survey(file: Located) -> Survey:
    """Names, number of rows, and what the cells of each column may be."""
    head = read_head(file)
    looks: dict[str, CellLook | None] = dict.fromkeys(head.names)
    rows = 0
    for table in _text_tables(file, head, head.names):
        rows += len(table)
        for name, before in looks.items():
            looks[name] = look_at_cells(table.column(name), before)
    check_unchanged(file)
    return Survey(head, rows, {name: look or CellLook() for name, look in looks.items()})


def csv_blocks(
    file: Located,
    found: Survey,
    looks: Mapping[str, CellLook],
    wanted: Sequence[str],
) -> Iterator[TableLike]:
    """Arrow tables with the wanted columns, of the types that `looks` allow."""
    import pyarrow as pa

    check_unchanged(file)
    for texts in _text_tables(file, found.head, wanted):
        cells = [typed(texts.column(name), looks[name]) for name in wanted]
        fields = [
            pa.field(name, own.type, metadata={MET: ""})
            for name, own in zip(wanted, cells, strict=True)
        ]
        yield pa.table(cells, schema=pa.schema(fields))
    check_unchanged(file)


def known_blocks(
    file: Located,
    found: Survey,
    looks: Mapping[str, CellLook],
    wanted: Sequence[str],
    known: Mapping[str, Column],
) -> Iterator[dict[Label, Cells]]:
    """Dicts of columns; the cells of known columns are read as what these hold."""
    check_unchanged(file)
    for texts in _text_tables(file, found.head, wanted):
        cells: dict[Label, Cells] = {}
        for name in wanted:
            column, look, text = known.get(name), looks[name], texts.column(name)
            numeric = look.kind in ("integers", "unsigned", "decimals")
            numbers = column is not None and column.continuous and numeric
            if column is None or numbers:
                cells[name if column is None else column.name] = array_cells(typed(text, look))
            else:
                cells[column.name] = as_known(column, text.combine_chunks().dictionary_encode())
        yield cells
    check_unchanged(file)


def array_cells(column: Foreign) -> Cells:
    """An Arrow column as an array, masked where integers are missing; text as words."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_floating(kind):
        return np.asarray(column.to_numpy())
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        if not column.null_count:
            return np.asarray(column.to_numpy())
        whole = column.fill_null(False if pa.types.is_boolean(kind) else 0)
        masked: CellArray = np.ma.array(whole.to_numpy(), mask=column.is_null().to_numpy())
        return masked
    words = arrow_words(column)
    return plain_cells(column.to_pylist(), np.arange(len(column))) if words is None else words


# -- names -------------------------------------------------------------------------------------


def read_head(file: Located) -> Head:
    """The names of the columns: the first line that is not blank."""
    with file.open() as raw:
        source = unpacked(raw)
        content = read_bytes(source, PIECE_BYTES, file.shown)
        last = len(content) < PIECE_BYTES
    if content.startswith(OTHER_MARKS) or b"\0" in content[:1000]:
        raise not_text(file.shown)
    start = len(MARK) if content.startswith(MARK) else 0
    blank = re.match(rb"[ \t]*(?:[\r\n][ \t\r\n]*)?", content[start:])
    blank_end = start + (len(blank[0].rstrip(b" \t")) if blank else 0)
    if not content[blank_end:].strip():
        raise FileError(f"cannot read {file.shown!r}: expected a line of column names, got none.")
    line = 1 + count_lines(content[:blank_end])
    rest = content[blank_end:]
    mark = _delimiter(rest, file)
    end = first_row(rest, mark, last, file.shown, line)
    try:
        text = rest[:end].decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise not_text(file.shown, line) from None
    names = tuple(next(csv.reader([text], delimiter=mark)))
    _check_names(names, file.shown)
    return Head(names, mark, blank_end + end, line + max(count_lines(rest[:end]), 1))


def _delimiter(content: bytes, file: Located) -> str:
    """A comma, unless the line of names has none; a tab in files called so."""
    line = re.sub(rb'"[^"]*"', b"", re.split(rb"[\r\n]", content, maxsplit=1)[0])
    name = file.shown.lower().removesuffix(".gz")
    marks = ("\t", *DELIMITERS) if name.endswith((".tsv", ".tab")) else DELIMITERS
    return next((mark for mark in marks if mark.encode() in line), ",")


def _check_names(names: Sequence[str], shown: str) -> None:
    often, times = Counter(names).most_common(1)[0]
    numbers = [as_number(name) for name in names]
    hint = " Is the line of names missing?" if None not in numbers else ""
    if times > 1:
        raise DataError(
            f"{times} columns are called {often!r}; give each a name of its own in {shown!r}.{hint}"
        )
    if hint and any(not isinstance(number, int) or number < 0 for number in numbers):
        raise DataError(
            f"expected a line of column names in {shown!r}, got the row {', '.join(names[:5])}"
            f"{', …' if len(names) > 5 else ''}. Write the names above it."
        )


# -- rows --------------------------------------------------------------------------------------


def _text_tables(file: Located, head: Head, wanted: Sequence[str]) -> Iterator[TableLike]:
    """The wanted columns as text, piece by piece."""
    with file.open() as raw:
        source = unpacked(raw)
        read_bytes(source, head.bytes, file.shown)
        for piece in pieces(source, head.delimiter, len(head.names), file.shown, head.line):
            table = _parsed(piece, head, wanted, file.shown)
            if table is not None and len(table):
                yield table


def _parsed(piece: CsvPiece, head: Head, wanted: Sequence[str], shown: str) -> Foreign:
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    alone = len(head.names) == 1  # there empty lines are missing cells
    if not alone and not piece.content.strip():
        return None
    try:
        return arrow_csv.read_csv(
            _arrows_own(piece.content),
            arrow_csv.ReadOptions(column_names=list(head.names), block_size=len(piece.content) + 1),
            arrow_csv.ParseOptions(
                delimiter=head.delimiter,
                newlines_in_values=piece.quoted_lines,
                ignore_empty_lines=not alone,
            ),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(head.names, pa.string()),
                strings_can_be_null=False,
                include_columns=list(wanted),
            ),
        )
    except pa.ArrowInvalid as error:
        raise _explained(error, piece, head, shown) from error


def _arrows_own(content: bytes) -> Foreign:
    """The bytes in Arrow's memory.

    Bytes of Python may be given back by one of Arrow's threads after the rows have come, and in a
    process that ends meanwhile that aborts it.
    """
    import pyarrow as pa

    found = pa.allocate_buffer(len(content))
    memoryview(found).cast("B")[:] = content
    return found


def _explained(error: Exception, piece: CsvPiece, head: Head, shown: str) -> FileError:
    """Where a piece cannot be parsed, by a slow look at it."""
    try:
        text = piece.content.decode()
    except UnicodeDecodeError as wrong:
        return not_text(shown, piece.line + count_lines(piece.content[: wrong.start]))
    lines = re.split(r"(?<=\n)", text) if "\n" in text else re.split(r"(?<=\r)", text)
    reader, first = csv.reader(lines, delimiter=head.delimiter), 0
    reason = str(error).splitlines()[0].rstrip(".")
    try:
        for row in reader:
            if row and len(row) != len(head.names):
                reason = (
                    f"Expected {len(head.names)} columns, got {len(row)}. Mend the line, or put "
                    f"cells that hold {head.delimiter!r} within quotes"
                )
                break
            first = reader.line_num
    except csv.Error:
        reason = "a line ends within a cell. Put the cell within quotes, or mend the line"
    return FileError(f"cannot read {shown!r}, line {piece.line + first}: {reason}.")


def not_text(shown: str, line: int | None = None) -> FileError:
    """For bytes that are no UTF-8."""
    where = "" if line is None else f", line {line}"
    return FileError(
        f"cannot read {shown!r}{where}: the file must be text in UTF-8, or Parquet or Arrow."
    )
