"""The bytes of a CSV file in pieces that end where rows end; quotes are checked on the way.

A quote opens a cell only at the cell's start, and closes it only before a delimiter or the end of
the line; within, two quotes stand for one. Other quotes are letters like any other. So a quote that
was never closed is found where it opens, and not as one cell that has swallowed all rows below it.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from latentia.errors import FileError
from latentia.typing import Bools

PIECE_BYTES = 2**23  # read at a time; also the longest row
SWALLOWED = 3  # lines within a cell that look like rows: more than chance
GZIP = b"\x1f\x8b"
QUOTE = ord('"')

Places: TypeAlias = NDArray[np.int64]


@final
@dataclass(frozen=True, slots=True)
class CsvPiece:
    """Whole rows."""

    content: bytes
    line: int  # of the file, where it begins, from 1
    quoted_lines: bool  # do cells hold ends of lines?


def first_row(content: bytes, delimiter: str, last: bool, shown: str, line: int) -> int:
    """Behind the end of the first row."""
    cells = quoted_cells(content, delimiter, last, shown, line)
    feed, place = b"\n" if b"\n" in content else b"\r", -1
    while True:
        place = content.find(feed, place + 1)
        end = len(content) if place < 0 else place
        if cells.unclosed is not None and cells.unclosed < end:
            raise _never_closed(content, cells.unclosed, shown, line)
        k = int(np.searchsorted(cells.opens, end)) - 1
        if place < 0 or k < 0 or cells.closes[k] < place:
            return len(content) if place < 0 else place + 1


def unpacked(file: IO[bytes]) -> IO[bytes]:
    """The bytes of a file, whether they are packed by gzip or not."""
    start = file.read(2)
    file.seek(0)
    return gzip.GzipFile(fileobj=file) if start == GZIP else file  # type: ignore[return-value]


def pieces(
    file: IO[bytes], delimiter: str, width: int, shown: str, line: int = 1
) -> Iterator[CsvPiece]:
    """Whole rows, some megabytes at a time; `width`: how many columns they have."""
    rest, last = b"", False
    while not last:
        more = read_bytes(file, PIECE_BYTES, shown)
        last = not more
        content = rest + more if rest else more
        if not content:
            return
        cells = quoted_cells(content, delimiter, last, shown, line)
        end = len(content) if last else _row_end(content, cells)
        if not end and len(content) > PIECE_BYTES:
            raise _too_long(cells, content, line, shown)
        rest = content[end:]
        if end:
            found = content[:end]
            lines = _lines_within(found, cells, delimiter, width, shown, line)
            yield CsvPiece(found, line, lines)
            line += count_lines(found)


def read_bytes(file: IO[bytes], size: int, shown: str) -> bytes:
    """The next bytes of a file."""
    try:
        return file.read(size)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        reason = str(error).rstrip(".")
        raise FileError(
            f"cannot read {shown!r}: its gzip is damaged or cut off ({reason}). Make it again."
        ) from error


@final
@dataclass(frozen=True, slots=True)
class QuotedCells:
    """Where quoted cells open and close; `unclosed`: where the last of them opens, if so."""

    opens: Places
    closes: Places
    unclosed: int | None


def quoted_cells(
    content: bytes, delimiter: str, last: bool, shown: str = "", line: int = 1
) -> QuotedCells:
    """The quoted cells of bytes that begin with a row; text behind a closing quote is an error.

    >>> found = quoted_cells(b'a,"b ""c"" d",e', ",", True)
    >>> found.opens.tolist(), found.closes.tolist(), found.unclosed
    ([2], [12], None)
    """
    if b'"' not in content:
        none: Places = np.empty(0, dtype=np.int64)
        return QuotedCells(none, none, None)
    letters = np.frombuffer(content, dtype=np.uint8)
    places: Places = np.flatnonzero(letters == QUOTE)
    edges = np.zeros(256, dtype=bool)
    edges[[ord(delimiter), ord("\n"), ord("\r")]] = True
    starts = (places == 0) | edges[letters[places - 1]]
    ends = edges[letters[np.minimum(places + 1, len(letters) - 1)]]
    ends[-1] = last if places[-1] == len(letters) - 1 else ends[-1]
    twin = np.diff(places) == 1  # a quote right behind another
    return _as_they_should(places, starts, ends, twin) or _one_by_one(
        places, starts, ends, content, shown, line
    )


def _as_they_should(places: Places, starts: Bools, ends: Bools, twin: Bools) -> QuotedCells | None:
    """Quotes open and close in turn; two in a row within a cell close and open it again.

    None if that does not hold for all of them.
    """
    behind = np.concatenate([[False], twin, [False]])  # right behind the quote before it?
    opening, closing = np.arange(0, len(places), 2), np.arange(1, len(places), 2)
    first = opening[~behind[opening]]  # the others are second halves of doubled quotes
    final = closing[~behind[closing + 1]]
    if not starts[first].all() or not ends[final].all():
        return None
    opens = places[first]
    if len(places) % 2:
        return QuotedCells(opens[:-1], places[final], int(opens[-1]))
    return QuotedCells(opens, places[final], None)


def _one_by_one(
    places: Places, starts: Bools, ends: Bools, content: bytes, shown: str, line: int
) -> QuotedCells:
    """The same quote by quote: some are letters, or wrong."""
    opens: list[int] = []
    closes: list[int] = []
    inside, k, where = False, 0, places.tolist()
    while k < len(where):
        if not inside:
            if starts[k]:
                opens.append(where[k])
                inside = True
        elif k + 1 < len(where) and where[k + 1] == where[k] + 1:
            k += 1  # a doubled quote
        elif ends[k]:
            closes.append(where[k])
            inside = False
        elif where[k] + 1 < len(content):
            raise FileError(
                f"cannot read {shown!r}, line {line + count_lines(content[: where[k]])}: text "
                "follows a closing quote. Close the cell that opens on line "
                f"{line + count_lines(content[: opens[-1]])}, or write a quote within it twice."
            )
        k += 1
    unclosed = opens.pop() if inside else None
    return QuotedCells(np.array(opens, np.int64), np.array(closes, np.int64), unclosed)


def count_lines(content: bytes) -> int:
    """Ends of lines; a file without line feeds has carriage returns."""
    return content.count(b"\n") or content.count(b"\r")


def _row_end(content: bytes, cells: QuotedCells) -> int:
    """Behind the last end of a line that is not within quotes; 0: there is none."""
    feed = b"\n" if b"\n" in content else b"\r"
    stop = len(content) if cells.unclosed is None else cells.unclosed
    if feed == b"\r" and stop == len(content):
        stop -= 1  # a line feed may follow
    while True:
        place = content.rfind(feed, 0, stop)
        k = int(np.searchsorted(cells.opens, place)) - 1
        if place < 0 or k < 0 or cells.closes[k] < place:
            return place + 1
        stop = int(cells.opens[k])


def _lines_within(
    content: bytes, cells: QuotedCells, delimiter: str, width: int, shown: str, line: int
) -> bool:
    """Do cells hold ends of lines? A cell with lines that look like rows is an error."""
    if cells.unclosed is not None and cells.unclosed < len(content):
        raise _never_closed(content, cells.unclosed, shown, line)
    if not len(cells.opens):
        return False
    feed = ord("\n") if b"\n" in content else ord("\r")
    feeds = np.flatnonzero(np.frombuffer(content, dtype=np.uint8) == feed)
    opens = cells.opens[cells.opens < len(content)]
    closes = cells.closes[: len(opens)]
    many = np.searchsorted(feeds, closes) - np.searchsorted(feeds, opens)
    for k in np.flatnonzero(many > SWALLOWED).tolist():
        within = content[opens[k] + 1 : closes[k]].split(bytes([feed]))[1:-1]
        if width > 1 and all(part.count(delimiter.encode()) == width - 1 for part in within):
            first = line + count_lines(content[: int(opens[k])])
            raise FileError(
                f"cannot read {shown!r}: the quote that opens on line {first} closes only on line "
                f"{first + int(many[k])}, and the lines between look like rows. Close it. If it "
                "is one cell after all, write the table as Parquet."
            )
    return bool(many.any())


def _never_closed(content: bytes, place: int, shown: str, line: int) -> FileError:
    return FileError(
        f"cannot read {shown!r}: a quote opens on line {line + count_lines(content[:place])} and "
        "is never closed. Close it, or put a cell with a quote within quotes, the quote twice."
    )


def _too_long(cells: QuotedCells, content: bytes, line: int, shown: str) -> FileError:
    if cells.unclosed is not None:
        return FileError(
            f"cannot read {shown!r}: the quote that opens on line "
            f"{line + count_lines(content[: cells.unclosed])} is not closed within "
            f"{PIECE_BYTES:,} bytes. Close it."
        )
    return FileError(
        f"cannot read {shown!r}: line {line} has more than {PIECE_BYTES:,} bytes. Is it CSV?"
    )
