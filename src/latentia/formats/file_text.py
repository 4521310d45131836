"""Files of other tools: read whole within bounds, and complaints that say the line."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn, final

import numpy as np

from latentia.errors import FormatError
from latentia.typing import Array

MOST_BYTES = 1 << 27  # of a file, and of what a packed file holds
NUMBERS = re.compile(  # linear: nothing is tried twice
    r"\s*+(?:[-+]?+(?:\d++\.?+\d*+|\.\d++)(?:[eE][-+]?+\d{1,9}+)?+(?:\s++|\Z))*+", re.ASCII
)


@final
@dataclass(frozen=True, slots=True)
class FileText:
    """What a file holds, and where complaints about it point."""

    path: str
    text: str

    def fail(self, line: int | None, message: str) -> NoReturn:
        """Raise the error of this file: `message` says what was expected, what came, the cure."""
        raise complaint(self.path, line, message)

    def line_at(self, place: int, text: str | None = None, first: int = 1) -> int:
        """The line of a character of the file, or of a piece of it that starts in line `first`."""
        return first + (self.text if text is None else text).count("\n", 0, place)


def complaint(path: str, line: int | None, message: str) -> FormatError:
    """The error of a file, at a line if one is known; names in it may be of any length."""
    if len(message) > 1000:
        message = f"{message[:600]} … {message[-300:]}"
    return FormatError(f"{path}{'' if line is None else f', line {line}'}: {message}")


def file_bytes(path: str | os.PathLike[str]) -> bytes:
    """The whole file, unpacked if its name ends with .gz; not more than `MOST_BYTES`."""
    place = Path(path)
    try:
        if place.suffix.lower() == ".gz":
            with gzip.open(place, "rb") as packed:
                data = _at_most(packed)
        else:
            with place.open("rb") as file:
                data = _at_most(file)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise complaint(
            str(path), None, f"the packed file is damaged or cut off ({error}). Fetch it again."
        ) from None
    if len(data) > MOST_BYTES:
        raise complaint(
            str(path),
            None,
            f"expected at most {MOST_BYTES:,} bytes, got more. Networks of this size are not read; "
            "split it, or build the model from arrays by lt.TabularModel.",
        )
    return data


def _at_most(file: IO[bytes] | gzip.GzipFile) -> bytes:
    """`MOST_BYTES` and one more; `read(n)` would set aside n bytes for the smallest file."""
    blocks, left = [], MOST_BYTES + 1
    while left > 0 and (block := file.read(min(left, 1 << 20))):
        blocks.append(block)
        left -= len(block)
    return b"".join(blocks)


def file_text(path: str, data: bytes, encoding: str | None) -> FileText:
    """The text of a file, in UTF-8 unless another encoding is named."""
    named = encoding or "utf-8-sig"
    try:
        text = data.decode(named)
    except LookupError:
        raise complaint(path, None, f"encoding {encoding!r} is unknown. Try 'latin-1'.") from None
    except UnicodeDecodeError as error:
        line = 1 + data.count(b"\n", 0, error.start)
        raise complaint(
            path,
            line,
            f"expected text in {encoding or 'UTF-8'}, got the byte {data[error.start]:#04x}. Pass "
            "encoding=, such as 'latin-1' or 'utf-16', or save the file as UTF-8.",
        ) from None
    found = FileText(path, text.replace("\r\n", "\n").replace("\r", "\n"))
    if "\0" in found.text:
        line = found.line_at(found.text.index("\0"))
        found.fail(line, "expected text, got a zero byte. Is this a text file, in this encoding?")
    return found


def without_comments(source: FileText, comments: str) -> FileText:
    """The same text with blanks for comments, lines kept; what stands in quotes stays.

    `comments` is a regular expression, such as ``//[^\\n]*+``.
    """
    pattern = re.compile(rf'"[^"]*+"|(?P<comment>{comments})')

    def blank(found: re.Match[str]) -> str:
        if found["comment"] is None:
            return found[0]
        return "\n" * found[0].count("\n") or " "

    return FileText(source.path, pattern.sub(blank, source.text))


def read_numbers(source: FileText, text: str, line: int) -> Array:
    """Numbers with spaces between, (numbers,); `line` is where the text begins."""
    found = NUMBERS.match(text)
    end = 0 if found is None else found.end()
    if end < len(text):
        word = text[end:].split(None, 1)[0]
        source.fail(
            source.line_at(end, text, line), f"expected a number, got {word[:40]!r}. Correct it."
        )
    return np.fromstring(text, sep=" ") if text.strip() else np.zeros(0)
