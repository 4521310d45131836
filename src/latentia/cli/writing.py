"""What goes out as rows: CSV or Parquet files, CSV in a pipe, a short table in a terminal."""

from __future__ import annotations

import csv
import gzip
import io
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import IO, TypeAlias

import numpy as np
import typer

from latentia.cli.answer_views import (
    rows_view,
)
from latentia.cli.screen import Screen
from latentia.errors import DataError
from latentia.typing import Cell
from latentia.whole_file import whole_file

PARQUET = (".parquet", ".pq")
ENDINGS = (".csv", ".csv.gz", *PARQUET)

Lists: TypeAlias = Mapping[str, list[Cell]]  # columns of one block


def check_out(path: str | None) -> None:
    """Complain before the work, not after it."""
    if path is None or path == "-":
        return
    if not path.endswith(ENDINGS) and not _is_device(path):
        raise typer.BadParameter(
            f"expected a file called …{', …'.join(ENDINGS)}, got {path!r}.", param_hint="--out"
        )
    check_folder(path)


def check_folder(path: str) -> None:
    """The folder of a file that is to be written must be there."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise FileNotFoundError(2, "there is no such folder", folder)
    if os.path.isdir(path):
        raise IsADirectoryError(21, "it is a folder, expected a file name", path)
    if not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise PermissionError(13, "writing is not permitted", path)


def give_rows(
    screen: Screen, names: Sequence[str], blocks: Iterable[Mapping[str, object]], out: str | None
) -> None:
    """Blocks of columns of equal length, to a file or to stdout, one block at a time."""
    lists = ({name: _plain(block[name]) for name in names} for block in blocks)
    if out is None and screen.terminal:
        screen.show(*rows_view(_joined(names, lists), screen.fits))
    elif out is None or out == "-":
        _write_csv(names, lists, sys.stdout)
    else:
        with _opened(out) as file, screen.working(f"writing {out}"):
            _write_file(names, lists, file, out)


def give_numbers(screen: Screen, name: str, blocks: Iterable[Cell]) -> None:
    """One number per line."""
    lists = ({name: _plain(numbers)} for numbers in blocks)
    if screen.terminal:
        screen.show(*rows_view(_joined([name], lists), screen.fits))
    else:
        for cells in lists:
            sys.stdout.writelines(f"{number!r}\n" for number in cells[name])


def _joined(names: Sequence[str], lists: Iterable[Lists]) -> dict[str, list[Cell]]:
    """All blocks as one."""
    whole: dict[str, list[Cell]] = {name: [] for name in names}
    for cells in lists:
        for name in names:
            whole[name] += cells[name]
    return whole


def _write_file(names: Sequence[str], lists: Iterable[Lists], file: IO[bytes], out: str) -> None:
    if out.endswith(PARQUET):
        _write_parquet(names, lists, file)
    elif out.endswith(".gz"):
        with gzip.open(file, "wt", encoding="utf-8", newline="") as packed:
            _write_csv(names, lists, packed)
    else:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        _write_csv(names, lists, text)
        text.detach()  # flushed; the file is closed by who opened it


def _write_csv(names: Sequence[str], lists: Iterable[Lists], file: IO[str]) -> None:
    writer, blocks = csv.writer(file, lineterminator="\n"), iter(lists)
    first = next(blocks, None)  # what is wrong with its rows is said before anything is written
    writer.writerow(names)
    for cells in chain([] if first is None else [first], blocks):
        writer.writerows(zip(*(_truths_as_text(cells[name]) for name in names), strict=True))


def _write_parquet(names: Sequence[str], lists: Iterable[Lists], file: IO[bytes]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    try:
        for cells in lists:
            table = pa.table({name: pa.array(cells[name]) for name in names})
            writer = writer or pq.ParquetWriter(file, table.schema)
            writer.write_table(table)
        if writer is None:  # no rows
            pq.write_table(pa.table({name: pa.array([]) for name in names}), file)
    except pa.ArrowException as error:
        raise DataError(
            f"Parquet cannot hold states of several types: {error}. Write CSV."
        ) from None
    finally:
        if writer is not None:
            writer.close()


def _truths_as_text(column: list[Cell]) -> list[Cell]:
    """true and false, as other tools read them."""
    if not any(isinstance(cell, bool) for cell in column):
        return column
    return [str(cell).lower() if isinstance(cell, bool) else cell for cell in column]


def _plain(values: object) -> list[Cell]:
    cells: list[Cell] = np.asarray(values).tolist()
    return cells


def _is_device(path: str) -> bool:
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    """The file at `path`, which appears whole or not at all; a device is written to as it is."""
    with open(path, "wb") if _is_device(path) else whole_file(path) as file:
        yield file
