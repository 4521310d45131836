"""What goes out as rows: CSV or Parquet files, CSV in a pipe, a short table in a terminal."""

from __future__ import annotations

import csv
import gzip
import io
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

import numpy as np
import typer

from latentia.cli.screen import Screen
from latentia.cli.views import rows_view
from latentia.errors import DataError
from latentia.whole_file import whole_file

PARQUET = (".parquet", ".pq")
ENDINGS = (".csv", ".csv.gz", *PARQUET)


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


def give_rows(screen: Screen, columns: Mapping[Any, Any], out: str | None) -> None:
    """Columns of equal length, to a file or to stdout."""
    cells = {str(name): _plain(values) for name, values in columns.items()}
    if out is None and screen.terminal:
        screen.show(*rows_view(cells, screen.fits))
    elif out is None or out == "-":
        _write_csv(cells, sys.stdout)
    else:
        with _opened(out) as file, screen.working(f"writing {out}"):
            _write_file(cells, file, out)


def give_numbers(screen: Screen, name: str, numbers: Any) -> None:
    """One number per line."""
    if screen.terminal:
        screen.show(*rows_view({name: _plain(numbers)}, screen.fits))
    else:
        sys.stdout.writelines(f"{number!r}\n" for number in _plain(numbers))


def _write_file(cells: Mapping[str, list[Any]], file: IO[bytes], out: str) -> None:
    if out.endswith(PARQUET):
        _write_parquet(cells, file)
    elif out.endswith(".gz"):
        with gzip.open(file, "wt", encoding="utf-8", newline="") as packed:
            _write_csv(cells, packed)
    else:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        _write_csv(cells, text)
        text.detach()  # flushed; the file is closed by who opened it


def _write_csv(cells: Mapping[str, list[Any]], file: IO[str]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(cells)
    writer.writerows(zip(*(_truths_as_text(column) for column in cells.values()), strict=True))


def _write_parquet(cells: Mapping[str, list[Any]], file: IO[bytes]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pa.table({name: pa.array(column) for name, column in cells.items()})
    except pa.ArrowException as error:
        raise DataError(
            f"Parquet cannot hold states of several types: {error}. Write CSV."
        ) from None
    pq.write_table(table, file)


def _truths_as_text(column: list[Any]) -> list[Any]:
    """true and false, as other tools read them."""
    if not any(isinstance(cell, bool) for cell in column):
        return column
    return [str(cell).lower() if isinstance(cell, bool) else cell for cell in column]


def _plain(values: Any) -> list[Any]:
    cells: list[Any] = np.asarray(values).tolist()
    return cells


def _is_device(path: str) -> bool:
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    """The file at `path`, which appears whole or not at all; a device is written to as it is."""
    with open(path, "wb") if _is_device(path) else whole_file(path) as file:
        yield file
