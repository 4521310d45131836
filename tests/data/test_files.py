"""Files of rows: read block by block, in their order, whatever their columns' types."""

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from latentia.data.sources.files import open_files
from latentia.data.sources.stream import BLOCK_ROWS


def write(path: Path, first: int, rows: int, dtype: type = np.int64) -> None:
    numbers = np.arange(first, first + rows)
    table = pa.table({"a": numbers.astype(dtype), "b": (numbers % 7).astype(dtype)})
    pq.write_table(table, path, row_group_size=BLOCK_ROWS)


def read(paths: list[Path], columns: list[str]) -> list[list[int]]:
    blocks = list(open_files(paths).blocks(columns))
    assert all(block.column_names == columns for block in blocks)
    return [np.concatenate([b[c].to_numpy() for b in blocks]).tolist() for c in columns]


def test_a_slow_reader_is_not_overtaken(tmp_path: Path) -> None:
    """Arrow's scanner reads up to a gigabyte ahead: memory would grow with the rows."""
    rows = 30 * BLOCK_ROWS
    write(tmp_path / "rows.parquet", 0, rows)
    before = pa.total_allocated_bytes()
    blocks = open_files([tmp_path / "rows.parquet"]).blocks(["a", "b"])
    next(blocks)
    time.sleep(0.5)  # long enough to read all of it
    assert pa.total_allocated_bytes() - before < 16 * rows / 3
    assert 1 + sum(1 for _ in blocks) >= 30


def test_files_come_in_order_and_columns_as_asked(tmp_path: Path) -> None:
    paths = [tmp_path / "1.parquet", tmp_path / "2.parquet"]
    write(paths[0], 0, 100)
    write(paths[1], 100, 50)
    assert read(paths, ["b", "a"]) == [[k % 7 for k in range(150)], list(range(150))]


def test_files_of_different_types_are_brought_together(tmp_path: Path) -> None:
    paths = [tmp_path / "1.parquet", tmp_path / "2.parquet"]
    write(paths[0], 0, 100)
    write(paths[1], 100, 27, np.int8)
    assert sorted(read(paths, ["a"])[0]) == list(range(127))
