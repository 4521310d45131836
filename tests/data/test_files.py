"""Files of rows: Parquet, Arrow, folders and what is wrong with them; CSV is in test_csv_files."""

import gzip
import os
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import latentia as lt
from latentia.data.columns.discrete import DiscreteColumn
from latentia.data.sources.files import dataset_stream, open_files
from latentia.data.sources.located import TableFile
from latentia.data.sources.stream import BLOCK_ROWS
from latentia.errors import DataError, FileError, FrameError


def write(path: Path, first: int, rows: int, dtype: type = np.int64) -> None:
    numbers = np.arange(first, first + rows)
    table = pa.table({"a": numbers.astype(dtype), "b": (numbers % 7).astype(dtype)})
    pq.write_table(table, path, row_group_size=BLOCK_ROWS)


def read(paths: list[Path], columns: list[str]) -> list[list[Any]]:
    blocks = list(open_files(paths).blocks(columns))
    assert all(block.column_names == columns for block in blocks)
    return [[cell for b in blocks for cell in b[c].to_pylist()] for c in columns]


# -- blocks ------------------------------------------------------------------------------------


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
    assert open_files(paths).rows == 150


@pytest.mark.parametrize("kind", ["file", "stream", "packed"])
def test_arrow_files(tmp_path: Path, kind: str) -> None:
    table, path = pa.table({"a": [1, None, 3], "b": ["x", "y", None]}), tmp_path / "t.arrow"
    if kind == "packed":
        feather.write_feather(table, path, compression="zstd")
    else:
        new = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
        with new(str(path), table.schema) as writer:
            writer.write_table(table)
    assert read([path], ["b", "a"]) == [["x", "y", None], [1, None, 3]]


def test_folders_patterns_and_other_names(tmp_path: Path) -> None:
    inside = tmp_path / "part" / "deep"
    inside.mkdir(parents=True)
    write(inside / "1.parquet", 0, 5)
    write(tmp_path / "part" / "2.pq", 5, 5)
    (tmp_path / "part" / "_SUCCESS").touch()
    (tmp_path / "part" / ".hidden").touch()
    # 2.pq comes before deep/1.parquet: names in order
    assert sorted(read([tmp_path / "part"], ["a"])[0]) == list(range(10))
    assert read([tmp_path / "part" / "**" / "*.p*"], ["a"]) == read([tmp_path / "part"], ["a"])
    assert read([f"file://{inside}/1.parquet"], ["a"]) == [[0, 1, 2, 3, 4]]  # type: ignore[list-item]
    os.rename(inside / "1.parquet", tmp_path / "no_ending")
    assert read([tmp_path / "no_ending"], ["a"]) == [[0, 1, 2, 3, 4]]  # by how it begins


# -- what is wrong with files ------------------------------------------------------------------


def test_files_that_are_cut_off_or_empty(tmp_path: Path) -> None:
    write(tmp_path / "whole.parquet", 0, 5000)
    whole = (tmp_path / "whole.parquet").read_bytes()
    feather.write_feather(pa.table({"a": list(range(5000))}), tmp_path / "whole.feather")
    arrow = (tmp_path / "whole.feather").read_bytes()
    for name, content in (("x.parquet", whole), ("x.feather", arrow)):
        path = tmp_path / name
        for length in (1, 3, 4, 7, 8, 100, len(content) // 2, len(content) - 1):
            path.write_bytes(content[:length])
            with pytest.raises(FileError, match=rf"x\.{name[2:]}.*(again|cut off)"):
                list(open_files([path]).blocks(["a"]))
        path.write_bytes(b"")
        with pytest.raises(FileError, match=r"is empty.*Write it again"):
            open_files([path])
    (tmp_path / "text.parquet").write_text("a,b\n1,2\n")
    with pytest.raises(FileError, match="does not begin as a Parquet file"):
        open_files([tmp_path / "text.parquet"])


def test_a_damaged_page_is_told(tmp_path: Path) -> None:
    write(tmp_path / "x.parquet", 0, 5000)
    content = bytearray((tmp_path / "x.parquet").read_bytes())
    content[10:400] = bytes(390)
    (tmp_path / "x.parquet").write_bytes(content)
    with pytest.raises(FileError, match=r"x\.parquet.*damaged"):
        list(open_files([tmp_path / "x.parquet"]).blocks(["a", "b"]))


@pytest.mark.filterwarnings("ignore::latentia.errors.IgnoredColumnWarning")
def test_a_file_that_lacks_a_column_is_refused(tmp_path: Path) -> None:
    paths = [tmp_path / "1.parquet", tmp_path / "2.parquet"]
    pq.write_table(pa.table({"a": [0, 1] * 50, "b": [0, 1] * 50, "c": [0] * 100}), paths[0])
    pq.write_table(pa.table({"b": [1, 0] * 50, "d": [1] * 100}), paths[1])
    for order in (paths, paths[::-1]):
        with pytest.raises(
            DataError, match=r"2\.parquet' has no column 'a', but .*1\.parquet' has"
        ):
            lt.LatentModel("H->a; H->b", {"H": 2}).fit(order)
        assert read(order, ["b"])[0].count(1) == 100  # what nobody asks for may be missing
    (tmp_path / "1.csv").write_text("a,b\n1,2\n")
    (tmp_path / "2.csv").write_text("b,c\n3,4\n")
    with pytest.raises(DataError, match=r"2\.csv' has no column 'a', but .*1\.csv' has"):
        read([tmp_path / "*.csv"], ["a", "b"])
    assert read([tmp_path / "*.csv"], ["b"]) == [[2, 3]]
    data = ds.dataset([str(p) for p in paths], schema=pq.read_schema(paths[0]))
    with pytest.raises(DataError, match=r"2\.parquet' has no column 'a'"):
        list(dataset_stream(data).blocks(["a"]))


def test_columns_named_by_folders_are_no_holes(tmp_path: Path) -> None:
    ds.write_dataset(
        pa.table({"a": [1, 2, 3], "year": [1, 1, 2]}),
        tmp_path,
        format="parquet",
        partitioning=ds.partitioning(pa.schema([("year", pa.int64())]), flavor="hive"),
    )
    data = ds.dataset(tmp_path, partitioning="hive")
    blocks = list(dataset_stream(data).blocks(["a", "year"]))
    assert sorted(pa.concat_tables(blocks)["year"].to_pylist()) == [1, 1, 2]


LARGE = 2**53 + 1


@pytest.mark.parametrize(
    ("one", "other", "cells"),
    [
        (pa.array([1], pa.int64()), pa.array([2], pa.int8()), [1, 2]),
        (pa.array([1], pa.uint8()), pa.array([2**64 - 1], pa.uint64()), [1, 2**64 - 1]),
        (pa.array([LARGE], pa.int64()), pa.array([2], pa.uint32()), [LARGE, 2]),
        (pa.array([2**53], pa.int64()), pa.array([0.5]), [2.0**53, 0.5]),
        (pa.array([None, 3], pa.int64()), pa.array([0.5], pa.float32()), [None, 3, 0.5]),
        (pa.array([None, None], pa.int64()), pa.array([0.5]), [None, None, 0.5]),
        (pa.array([None]), pa.array(["x"]), [None, "x"]),
        (pa.array(["x"]), pa.array(["y"], pa.large_string()), ["x", "y"]),
        (pa.array(["x"]).dictionary_encode(), pa.array(["y"]), ["x", "y"]),
        (pa.array([LARGE], pa.int64()), pa.array([0.5]), None),
        (pa.array([-LARGE], pa.int64()), pa.array([0.5]), None),
        (pa.array([1]), pa.array(["1"]), None),
        (pa.array([1]), pa.array([True]), None),
        (pa.array([-1]), pa.array([2**64 - 1], pa.uint64()), None),
    ],
)
def test_files_of_different_types(tmp_path: Path, one: Any, other: Any, cells: Any) -> None:
    """One type that holds all values exactly, or an error; int64 as decimals would merge states."""
    paths = [tmp_path / "1.parquet", tmp_path / "2.parquet"]
    for path, column in zip(paths, (one, other), strict=True):
        pq.write_table(pa.table({"a": column, "b": column}), path)
    if cells is not None:
        assert read(paths, ["a"]) == [cells]
        return
    with pytest.raises(DataError, match=r"'a' is of .* in .*1\.parquet' but of .*2\.parquet"):
        read(paths, ["a"])


def test_integers_without_bounds_in_the_footer_are_not_trusted(tmp_path: Path) -> None:
    paths = [tmp_path / "1.parquet", tmp_path / "2.parquet"]
    pq.write_table(pa.table({"a": [1]}), paths[0], write_statistics=False)
    pq.write_table(pa.table({"a": [0.5]}), paths[1])
    with pytest.raises(DataError, match="no type holds both"):
        read(paths, ["a"])


def test_folders_without_or_with_too_many_kinds(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no files"):
        open_files([tmp_path])
    write(tmp_path / "1.parquet", 0, 5)
    (tmp_path / "2.csv").write_text("a,b\n1,2\n")
    with pytest.raises(FrameError, match=r"one kind, got CSV .*2\.csv.*Parquet .*1\.parquet"):
        open_files([tmp_path])
    (tmp_path / "2.csv").rename(tmp_path / "notes.md")
    with pytest.raises(FileError, match=r"got .*notes\.md.*pattern"):
        open_files([tmp_path])
    with pytest.raises(FrameError, match="no such file"):
        open_files([tmp_path / "none*.csv"])
    (tmp_path / "sheet.xlsx").write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(FrameError, match=r"sheet\.xlsx"):
        open_files([tmp_path / "sheet.xlsx"])
    for name, begin in (
        ("r.jsonl", b'{"a": 1}'),
        ("r.json", b'[{"a": 1}]'),
        ("r.sav", b"$FL2@(#)"),
    ):
        (tmp_path / name).write_bytes(begin + b"\n" * 100)
        with pytest.raises(FrameError, match=rf"expected a file of CSV, .*{name}.*Write it as one"):
            open_files([tmp_path / name])


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_file_that_changes_between_passes(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x.{ending}"
    content = {}
    for rows in (5, 6):
        write(path, 0, rows)
        if ending == "csv":
            path.write_text("a,b\n" + "1,2\n" * rows)
        content[rows] = path.read_bytes()
    path.write_bytes(content[5])
    stream = open_files([path])
    assert sum(len(b) for b in stream.blocks(["a"])) == 5
    path.write_bytes(content[6])
    with pytest.raises(DataError, match="was changed while it was read"):
        list(stream.blocks(["a"]))
    assert sum(len(b) for b in open_files([path]).blocks(["a"])) == 6  # nothing old is remembered


# -- pipes and labels --------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
def test_pipes_can_be_read_several_times(tmp_path: Path, ending: str) -> None:
    text = b"a,b\n" + b"1,x\n2,y\n" * 300
    if ending == "parquet":
        pq.write_table(pa.table({"a": [1, 2] * 300, "b": ["x", "y"] * 300}), tmp_path / "t")
        text = (tmp_path / "t").read_bytes()
    pipe = tmp_path / f"pipe.{ending}"
    os.mkfifo(pipe)
    content = gzip.compress(text) if ending == "csv.gz" else text
    writer = threading.Thread(target=pipe.write_bytes, args=(content,))
    writer.start()
    stream = open_files([pipe])
    writer.join()
    for _ in range(2):
        cells = pa.concat_tables(stream.blocks(None)).to_pydict()
        assert cells == {"a": [1, 2] * 300, "b": ["x", "y"] * 300}


def test_a_copy_of_a_pipe_goes_with_its_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    os.mkfifo(tmp_path / "pipe.csv")
    writer = threading.Thread(target=(tmp_path / "pipe.csv").write_text, args=("a\n1\n",))
    writer.start()
    stream = open_files([tmp_path / "pipe.csv"])
    writer.join()
    assert len(list(tmp_path.glob("latentia-*"))) == 1
    del stream
    assert not list(tmp_path.glob("latentia-*"))


def test_columns_go_by_the_models_labels(tmp_path: Path) -> None:
    known = [DiscreteColumn(0, ("x", "y")), DiscreteColumn("b", (1, 2))]
    pq.write_table(pa.table({"0": ["x", None], "b": [2, None]}), tmp_path / "1.parquet")
    (tmp_path / "1.csv").write_text("0,b\nx,2\n,\n")
    for ending in ("parquet", "csv"):
        for stream in (
            open_files([tmp_path / f"1.{ending}"], known),
            open_files([TableFile(str(tmp_path / f"1.{ending}"), "rows", tuple(known))]),
        ):
            assert stream.names == (0, "b")
            (table,) = stream.tables([0, "b"])
            assert table.column(0).cells.tolist() == ["x", None]
            values = table.column("b")
            assert (values.cells.tolist()[0], list(values.missing)) == (2, [False, True])
    twins = [DiscreteColumn(0, (1,)), DiscreteColumn("0", (1,))]
    with pytest.raises(DataError, match="'0' as text"):
        open_files([tmp_path / "1.csv"], twins)
