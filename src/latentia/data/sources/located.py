"""Where files of rows lie: paths, folders, patterns, pipes and addresses, as single files."""

from __future__ import annotations

import glob
import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, final

from latentia.data.columns.column import Column
from latentia.errors import DataError, FileError, FrameError
from latentia.typing import Foreign

ENDINGS = {
    ".parquet": "Parquet",
    ".pq": "Parquet",
    ".arrow": "Arrow",
    ".feather": "Arrow",
    ".ipc": "Arrow",
    ".csv": "CSV",
    ".tsv": "CSV",
    ".tab": "CSV",
    ".csv.gz": "CSV",
    ".tsv.gz": "CSV",
    ".tab.gz": "CSV",
}
STARTS = {b"PAR1": "Parquet", b"ARROW1": "Arrow"}
NO_TABLES = (  # sheets, pages, databases; records of JSON, SPSS and Stata
    *(b"PK\x03\x04", b"%PDF", b"\xd0\xcf\x11\xe0", b"SQLite"),
    *(b'{"', b"[{", b"$FL2@(#)", b"<stata_d"),
)


@final
@dataclass(frozen=True, slots=True)
class TableFile(os.PathLike[str]):
    """A path with what people call it, and the columns that its cells are to be read as."""

    path: str
    shown: str
    known: tuple[Column, ...] = ()
    kept: object = field(default=None, compare=False)  # lives as long as this: a temporary copy

    def __fspath__(self) -> str:
        return self.path


@final
@dataclass(frozen=True, slots=True)
class Located:
    """One file, and how it looked when it was found."""

    path: str
    shown: str
    stamp: tuple[int, ...]  # its size, and when it was last changed

    def open(self) -> IO[bytes]:
        """Its bytes."""
        if "://" not in self.path:
            return open(self.path, "rb")
        return self.open_native()  # type: ignore[no-any-return]

    def open_native(self) -> Foreign:
        """The same as a file of Arrow, which can be read without Python."""
        import pyarrow as pa

        if "://" not in self.path:
            return pa.OSFile(self.path, "rb")
        system, place = _file_system(self.path)
        return system.open_input_file(place)


def check_unchanged(file: Located) -> None:
    """Rows are read several times, and must be the same each time."""
    if _stamp(file.path) != file.stamp:
        raise DataError(
            f"{file.shown!r} was changed while it was read. Pass a file that nobody writes to."
        )


def locate(path: str | os.PathLike[str]) -> tuple[list[Located], object]:
    """The files of a path in the order of their names; and what must live as long as they do."""
    name = os.fspath(path)
    shown = path.shown if isinstance(path, TableFile) else name
    if "://" in name:
        return [_one(each, each) for each in _remote(name)], None
    if os.path.isdir(name):
        inside = _within(name)
        return [_one(each, each) for each in inside], None
    if os.path.exists(name):
        if stat.S_ISREG(os.stat(name).st_mode):
            return [_one(name, shown)], None
        with open(name, "rb") as pipe:
            copy = spool(pipe)
        return [_one(copy.name, shown)], copy
    found = sorted(each for each in glob.glob(name, recursive=True) if os.path.isfile(each))
    if not found:
        raise FrameError(
            f"expected a table or the path of a file, got str {name!r}: no such file, and no file "
            "matches it. Is the path right?"
        )
    return [_one(each, each) for each in found], None


@final
class TemporaryCopy:
    """A file that goes when nobody holds this, and at the end of the process."""

    def __init__(self, name: str) -> None:
        self.name = name
        weakref.finalize(self, _remove, name)


def _remove(name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name)


def spool(source: IO[bytes]) -> TemporaryCopy:
    """A copy of what can be read only once."""
    handle, name = tempfile.mkstemp(prefix="latentia-")
    copy = TemporaryCopy(name)
    with open(handle, "wb") as file:
        shutil.copyfileobj(source, file)
    return copy


def format_of(file: Located) -> str:
    """Parquet, Arrow or CSV: by how the file begins; by its name where that says nothing."""
    if not file.stamp[0]:
        raise FileError(
            f"{file.shown!r} is empty; expected a line of column names and rows below it, or a "
            "Parquet or Arrow file. Write it again, or leave it out."
        )
    with file.open() as opened:
        start = opened.read(8)
    for mark, kind in STARTS.items():
        if start.startswith(mark):
            return kind
    kind = named_format(file.shown) or "CSV"
    if kind == "Parquet":
        raise FileError(
            f"cannot read {file.shown!r}: it does not begin as a Parquet file does. Is it cut off, "
            "or another kind of file?"
        )
    if kind == "CSV" and start.startswith(NO_TABLES):
        raise FrameError(
            f"expected a file of CSV, Parquet or Arrow, got {file.shown!r}. Write it as one of "
            "these."
        )
    return kind


def named_format(name: str) -> str | None:
    """By the end of a name."""
    fitting = [end for end in ENDINGS if name.lower().endswith(end)]
    return ENDINGS[fitting[-1]] if fitting else None


def _within(folder: str) -> list[str]:
    """Files of a folder and its folders; those that are hidden or start with _ are no rows."""
    inside = sorted(
        os.path.join(place, file)
        for place, _, files in os.walk(folder)
        for file in files
        if not file.startswith((".", "_"))
    )
    return _all_tables(inside, folder)


def _all_tables(inside: Sequence[str], folder: str) -> list[str]:
    if not inside:
        raise FileError(f"{folder!r}: the folder has no files.")
    odd = next((name for name in inside if named_format(name) is None), None)
    if odd is not None:
        raise FileError(
            f"expected files ending in {', '.join(ENDINGS)} in {folder!r}, got {odd!r}. Pass a "
            f"pattern, such as {os.path.join(folder, '*.parquet')!r}."
        )
    return list(inside)


def _one(path: str, shown: str) -> Located:
    return Located(path, shown, _stamp(path))


def _stamp(path: str) -> tuple[int, ...]:
    if "://" in path:
        system, place = _file_system(path)
        info = system.get_file_info(place)
        return (int(info.size or 0), int(info.mtime_ns or 0))
    found = os.stat(path)
    return (found.st_size, found.st_mtime_ns, found.st_ino)


def _remote(address: str) -> list[str]:
    """An address as it is, or those of the files in a folder there."""
    import pyarrow.fs as fs

    system, place = _file_system(address)
    info = system.get_file_info(place)
    if info.type == fs.FileType.NotFound:
        raise FrameError(f"there is no file at {address!r}. Is the address right?")
    if info.type != fs.FileType.Directory:
        return [address]
    start = address[: len(address) - len(place)] if address.endswith(place) else address
    inside = system.get_file_info(fs.FileSelector(place, recursive=True))
    names = sorted(i.path for i in inside if i.is_file and not i.base_name.startswith((".", "_")))
    return _all_tables([start + name for name in names], address)


def _file_system(address: str) -> tuple[Foreign, str]:
    import pyarrow as pa
    import pyarrow.fs as fs

    try:
        system, place = fs.FileSystem.from_uri(address)
    except pa.ArrowInvalid as error:
        raise FrameError(f"cannot open {address!r}: {str(error).rstrip('.')}.") from error
    return system, place
