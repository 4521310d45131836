"""CSV: what cells mean, where rows end, and what is wrong with a file, told by line.

The oracle is the obvious slow way: Python's csv module, and rules written out cell by cell.
"""

import csv
import gzip
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import latentia as lt
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.columns.discrete import DiscreteColumn
from latentia.data.columns.values import Words
from latentia.data.sources import csv_files, csv_rows
from latentia.data.sources.cell_spelling import MISSING, find_state
from latentia.data.sources.csv_rows import quoted_cells
from latentia.data.sources.files import open_files
from latentia.errors import DataError, EvidenceError, FileError


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a few rows, so that every border is crossed."""
    monkeypatch.setattr(csv_rows, "PIECE_BYTES", 64)
    csv_files.survey.cache_clear()


def cells(path: Path, content: str | bytes, known: Any = ()) -> dict[Any, list[Any]]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    stream = open_files([path], known)
    found: dict[Any, list[Any]] = {name: [] for name in stream.names}
    for block in stream.blocks(None):
        for name in stream.names:
            column = block[name]
            if isinstance(column, Words):
                column = column.taken(column.values, None)
            found[name] += (
                column.to_pylist() if isinstance(column, pa.ChunkedArray) else list(column)
            )
    assert stream.rows == len(next(iter(found.values())))
    return found


def column(path: Path, texts: list[str], known: Any = ()) -> list[Any]:
    return cells(path, "x,y\n" + "".join(f"{t},1\n" for t in texts), known)["x"]


# -- what cells mean ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1", "2", "-3", "0"], [1, 2, -3, 0]),
        (["1", "", "NA"], [1, None, None]),
        (["01", "1"], ["01", "1"]),
        (["007", "012"], ["007", "012"]),
        (["+5", "5"], ["+5", "5"]),
        (["00", "0"], ["00", "0"]),
        (["1", "1.0", "1e0"], [1.0, 1.0, 1.0]),
        (["1e5", "100000"], [1e5, 1e5]),
        (["-0", "0"], [0.0, 0.0]),
        (["01", "1.5"], ["01", "1.5"]),
        (["01.50", "+1.5", ".5", "5."], [1.5, 1.5, 0.5, 5.0]),
        ([str(2**63 - 1), str(-(2**63))], [2**63 - 1, -(2**63)]),
        ([str(2**63), "1"], [2**63, 1]),
        ([str(2**64 - 1), "", "0"], [2**64 - 1, None, 0]),
        ([str(2**63), "-1"], [str(2**63), "-1"]),
        ([str(2**64), "1"], [str(2**64), "1"]),
        ([str(-(2**63) - 1), "1"], [str(-(2**63) - 1), "1"]),
        ([str(2**53 + 1), str(2**53), "1"], [2**53 + 1, 2**53, 1]),
        ([str(2**53 + 1), "0.5"], [str(2**53 + 1), "0.5"]),
        ([str(2**54), "0.5"], [2.0**54, 0.5]),
        (["9" * 400, "0.5"], ["9" * 400, "0.5"]),
        (["true", "False", "TRUE"], [True, False, True]),
        (["true", "1"], ["true", "1"]),
        (["tRUE", "false"], ["tRUE", "false"]),
        (["2020-01-02", "2020-01-03"], ["2020-01-02", "2020-01-03"]),
        (["12:30", "NA"], ["12:30", None]),
        ([" 1", "2 ", " "], [1, 2, None]),
        ([" 1.5", " NA "], [1.5, None]),
        ([" low", "low"], [" low", "low"]),
        (["1_000", "2"], ["1_000", "2"]),
        (["0x10", "2"], ["0x10", "2"]),
        (["١", "2"], ["١", "2"]),
        (["", "NA"], [None, None]),
        (["None", "x"], ["None", "x"]),
    ],
)
def test_all_cells_tell_the_type(tmp_path: Path, texts: list[str], expected: list[Any]) -> None:
    found = column(tmp_path / "x.csv", texts)
    assert found == expected
    assert [type(cell) for cell in found] == [type(cell) for cell in expected]


def test_infinity_is_a_number_that_the_model_refuses(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("x,y\n1.5,1\n-inf,2\n")
    with pytest.raises(DataError, match="infinity in column 'x'"):
        lt.LatentModel("x->y").fit(tmp_path / "x.csv")


@pytest.mark.parametrize("late", ["x", "01", "0.5", "true", str(2**63), str(2**64), " 3"])
def test_types_do_not_depend_on_the_first_rows(tmp_path: Path, small: None, late: str) -> None:
    """The cell that decides comes last, in another piece, or in another file."""
    path = tmp_path / "x.csv"
    many = ["1", "2"] * 100
    expected = column(tmp_path / "y.csv", [late, *many])
    found = column(path, [*many, late])
    assert found == [*expected[1:], expected[0]]
    (tmp_path / "1.csv").write_text("x,y\n" + "1,1\n2,1\n" * 100)
    (tmp_path / "2.csv").write_text(f"y,x\n1,{late}\n")
    blocks = open_files([tmp_path / "1.csv", tmp_path / "2.csv"]).blocks(["x"])
    assert pa.concat_tables(blocks)["x"].to_pylist() == found


def test_every_word_of_the_list_is_missing(tmp_path: Path) -> None:
    for others, value in ((["1"], 1), (["0.5"], 0.5), (["true"], True), (["low"], "low")):
        assert column(tmp_path / "x.csv", [*MISSING, *others]) == [None] * len(MISSING) + [value]


@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
def test_a_fit_of_a_csv_has_the_states_of_its_cells(tmp_path: Path) -> None:
    """01 and 1 are two states; integers beyond 2^53 do not fall together."""
    rows = [f"{a},{b},{c}" for a in ("01", "1") for b in (2**53, 2**53 + 1) for c in (2**63, 5)]
    (tmp_path / "x.csv").write_text("a,b,c\n" + "\n".join(rows * 30) + "\n")
    stream = open_files([tmp_path / "x.csv"])
    (table,) = stream.tables(stream.names)
    assert set(table.column("a").cells) == {"01", "1"}
    assert set(table.column("b").cells.tolist()) == {2**53, 2**53 + 1}
    assert set(table.column("c").cells.tolist()) == {2**63, 5}
    model = lt.LatentModel("H->a; H->c", {"H": 2}).fit(tmp_path / "x.csv")
    assert [c.states for c in model.columns_] == [("01", "1"), (5, 2**63)]
    assert model.predict(tmp_path / "x.csv", "c").read_all()["c"].type == pa.uint64()


def test_cells_are_read_as_a_models_states(tmp_path: Path) -> None:
    known = [
        DiscreteColumn("x", (1, 2)),
        DiscreteColumn("y", ("1", "NA", "low")),
        DiscreteColumn("z", (False, True)),
        DiscreteColumn("w", (2**53, 2**53 + 1, 2**70)),
        ContinuousColumn("v", 0.0, 1.0, False, -3.0, 3.0, 1.0),
    ]
    text = (
        "x,y,z,w,v,other\n"
        f"1,1,true,{2**53},01,7\n"
        f"2.0,NA,FALSE,{2**53 + 1},2.5,\n"
        f",,NA,{2**70}, ,8\n"
        "3,low, true,,inf,9\n"
    )
    found = cells(tmp_path / "x.csv", text, known)
    gone = np.ma.masked
    assert found["x"] == [1, 2, gone, 3]  # 3 is no state: the model says so
    assert found["y"] == ["1", "NA", None, "low"]
    assert found["z"] == [True, False, gone, True]
    assert found["w"] == [2**53, 2**53 + 1, 2**70, None]
    assert [type(w) for w in found["w"][:3]] == [int] * 3
    assert [str(v) for v in found["v"]] == ["1.0", "2.5", "nan", "inf"]
    assert found["other"] == [7, gone, 8, 9]
    odd = cells(tmp_path / "x.csv", "v\n1.5\nred\n\n2\n", known)["v"]
    assert odd == [1.5, "red", None, 2.0]


def test_a_model_reads_files_as_its_states(tmp_path: Path) -> None:
    """States of text that look like numbers; a path is asked as the frame is."""
    data = {"x": ["1", "2", "NA"] * 40, "y": [1, 2, 2] * 40}
    model = lt.LatentModel("H->x; H->y", {"H": 2}).fit(data)
    (tmp_path / "x.csv").write_text("x,y\n1,2\nNA,1\n,2.0\n")
    asked = {"x": ["1", "NA", None], "y": [2, 1, 2]}
    found = model.score_samples(tmp_path / "x.csv").read_all().column(0).to_pylist()
    assert found == model.score_samples(asked).tolist()


def test_codes_are_no_numbers() -> None:
    numbers = DiscreteColumn("x", (1, 5, 10))
    assert [find_state(numbers, t) for t in ("1", "1.0", " 5", "1e1")] == [1, 1, 5, 10]
    assert [find_state(numbers, t) for t in ("01", "+5", "1_0")] == ["01", "+5", "1_0"]
    with pytest.raises(EvidenceError, match="could be"):
        find_state(DiscreteColumn("x", (1, "1")), "1")


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_a_file_answers_as_a_frame_does(tmp_path: Path, ending: str) -> None:
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=400)
    data = {c: np.where(rng.random(400) < 0.8, h, 1 - h) for c in "xyz"}
    text = "x;y;z\n" + "".join(f"{a};{b};{c}\n" for a, b, c in zip(*data.values(), strict=True))
    path = tmp_path / f"rows.{ending}"
    path.write_bytes(gzip.compress(text.encode()) if ending == "csv.gz" else text.encode())
    model = lt.LatentModel("H->x; H->y; H->z", {"H": 2}).fit(path)
    own = lt.LatentModel("H->x; H->y; H->z", {"H": 2}).fit(data)
    # sums of counts are exact; only the order of further sums differs
    np.testing.assert_allclose(
        model.query("x", {"y": 1}).table, own.query("x", {"y": 1}).table, atol=1e-12
    )
    assert model.score(path) == pytest.approx(own.score(data), abs=1e-12)


# -- where rows end ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_pieces_are_what_the_csv_module_reads(tmp_path: Path, small: None, seed: int) -> None:
    rng = np.random.default_rng(seed)
    mark, end = rng.choice([",", ";", "\t"]), rng.choice(["\n", "\r\n"])
    quoting = [csv.QUOTE_MINIMAL, csv.QUOTE_ALL][rng.integers(2)]
    width = int(rng.integers(2, 5))
    # a carriage return within a cell is left without quotes by older versions of the module
    letters = [*'ab1"",;\t\n ', "é", "", "\r" if quoting == csv.QUOTE_ALL else " "]
    rows = [
        ["".join(rng.choice(letters, rng.integers(0, 6))) + "z" for _ in range(width)]
        for _ in range(rng.integers(1, 40))
    ]
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=mark, lineterminator=end, quoting=quoting)
    writer.writerow([f"c{k}" for k in range(width)])
    writer.writerows(rows)
    text = file.getvalue()
    if rng.random() < 0.3:
        text = text.rstrip("\r\n")
    found = cells(tmp_path / "x.csv", text)
    read = list(csv.reader(io.StringIO(text, newline=""), delimiter=mark))
    assert read[1:] == rows
    assert [list(row) for row in zip(*found.values(), strict=True)] == rows


@pytest.mark.parametrize("seed", range(200))
def test_quotes_all_at_once_are_quotes_one_by_one(seed: int) -> None:
    """The fast way and the slow way agree wherever the fast one answers."""
    rng = np.random.default_rng(seed)
    content = "".join(rng.choice(list('"",\na'), rng.integers(1, 12))).encode()
    letters = np.frombuffer(content, dtype=np.uint8)
    places = np.flatnonzero(letters == ord('"'))
    if not len(places):
        return
    edge = [c in b",\n\r" for c in content]
    starts = np.array([p == 0 or edge[p - 1] for p in places])
    ends = np.array([p + 1 == len(content) or edge[p + 1] for p in places])
    fast = csv_rows._as_they_should(places, starts, ends, np.diff(places) == 1)
    if fast is None:
        return
    slow = csv_rows._one_by_one(places, starts, ends, content, "x", 1)
    for name in ("opens", "closes"):
        assert getattr(fast, name).tolist() == getattr(slow, name).tolist()
    assert fast.unclosed == slow.unclosed


PARTS = ['"', '""', ",", "\n", "x", "y", '",', '\n"', ',"', *["x,y\n", '"x","y"\r\n'] * 4]


def test_odd_files_are_read_as_by_the_csv_module_or_refused(tmp_path: Path, small: None) -> None:
    """Never other rows, never an error that is not ours."""
    rng, read = np.random.default_rng(0), 0
    for _ in range(600):
        text = "a,b\n" + "".join(rng.choice(PARTS, rng.integers(1, 8)))
        try:
            found = cells(tmp_path / "x.csv", text)
        except DataError:
            continue
        rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row][1:]
        # cells of blanks only are missing
        expected = [[cell if cell.strip() else None for cell in row] for row in rows]
        assert [list(row) for row in zip(*found.values(), strict=True)] == expected
        read += len(rows) > 0
    assert read > 100  # enough of them were files


def test_quotes_within_unquoted_cells_are_letters(tmp_path: Path, small: None) -> None:
    found = cells(tmp_path / "x.csv", 'a,b\n5" pipe,"x"\n' * 1 + '6",y""\n' * 30)
    assert found == {"a": ['5" pipe'] + ['6"'] * 30, "b": ["x"] + ['y""'] * 30}
    assert quoted_cells(b'5" x,"a"', ",", True).opens.tolist() == [5]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\xef\xbb\xbfa,b\n1,2\n", {"a": [1], "b": [2]}),
        (b"a,b\r\n1,2\r\n3,4\r\n", {"a": [1, 3], "b": [2, 4]}),
        (b"a,b\r1,2\r3,4", {"a": [1, 3], "b": [2, 4]}),
        (b"\n \n\na,b\n\n1,2\n\n3,4\n\n", {"a": [1, 3], "b": [2, 4]}),
        (b"a\n1\n\n2\n", {"a": [1, None, 2]}),
        (b"\na\n1\n\n2", {"a": [1, None, 2]}),
        (b"a,b\n", {"a": [], "b": []}),
        (b"a,b", {"a": [], "b": []}),
        (b'"a, b",c\n"1\n2",3\n', {"a, b": ["1\n2"], "c": [3]}),
        (b'"a\nb",c\n1,2\n', {"a\nb": [1], "c": [2]}),
        (b'"a,b";c\n1;2\n', {"a,b": [1], "c": [2]}),
        (b"0,1\n5,6\n", {"0": [5], "1": [6]}),  # numbers may be names
        (b",a\n0,5\n", {"": [0], "a": [5]}),  # as pandas writes an index
    ],
)
def test_files_as_people_write_them(
    tmp_path: Path, content: bytes, expected: dict[str, list[Any]]
) -> None:
    assert cells(tmp_path / "x.csv", content) == expected


def test_the_name_tells_of_tabs(tmp_path: Path) -> None:
    text = "a,x\tb\n1\t2\n"
    assert cells(tmp_path / "t.tsv", text) == {"a,x": [1], "b": [2]}
    assert cells(tmp_path / "t.tsv.gz", gzip.compress(text.encode())) == {"a,x": [1], "b": [2]}


def test_blocks_are_small_and_so_is_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of many pieces is never held as a whole."""
    monkeypatch.setattr(csv_rows, "PIECE_BYTES", 2**16)
    path = tmp_path / "x.csv"
    path.write_text("a,b\n" + "1,2\n" * 10**6)
    before = pa.total_allocated_bytes()
    stream = open_files([path])
    most = count = 0
    for block in stream.blocks(["a", "b"]):
        most, count = max(most, pa.total_allocated_bytes() - before), count + len(block)
    assert count == stream.rows == 10**6
    assert most < 10**6  # of 16 million bytes of numbers


# -- what is wrong -----------------------------------------------------------------------------


def test_an_unclosed_quote_is_no_table_of_one_row(tmp_path: Path) -> None:
    lines = ["a,b", *(f"{k},x" for k in range(51))]
    lines[7] = '6,"x'
    path = tmp_path / "x.csv"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(FileError, match=r"x\.csv': a quote opens on line 8 and is never closed"):
        lt.LatentModel("a->b").fit(path)


@pytest.mark.parametrize("rows", [10, 100, 5000])
@pytest.mark.parametrize(
    ("at", "words"),
    [
        ({3: 'x,"y'}, r"opens on line 4 (and is never closed|is not closed within)"),
        ({3: 'x,"y', 9: 'x,y"'}, r"opens on line 4 closes only on line 10.*look like rows"),
        ({3: 'x,"y', 5: '"x",y'}, r"line 6: text follows a closing quote.*opens on line 4"),
        ({3: 'x,"y', 5: 'x,"y"'}, r"line 6: text follows a closing quote.*opens on line 4"),
        ({3: 'x,"y"z'}, r"line 4: text follows a closing quote"),
        ({3: 'x,"y \\" z"'}, r"line 4: text follows a closing quote"),
        ({0: 'a,"b'}, r"opens on line 1 and is never closed"),
    ],
)
def test_quotes_gone_wrong(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rows: int,
    at: dict[int, str],
    words: str,
) -> None:
    monkeypatch.setattr(csv_rows, "PIECE_BYTES", 2**12)
    lines = ["a,b", *["x,y"] * rows]
    for k, line in at.items():
        lines[k] = line
    path = tmp_path / "x.csv"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(FileError, match=words):
        list(open_files([path]).blocks(["a"]))


def test_long_texts_in_cells_are_no_rows(tmp_path: Path) -> None:
    letter = "Dear Sir,\nwe came, saw, and won.\nYours\n\nNobody, as ever\n"
    text = f'a,b\n"{letter}",1\n"{letter}",2\n'
    assert cells(tmp_path / "x.csv", text) == {"a": [letter] * 2, "b": [1, 2]}


# without the time of day, which would be in the names of the tests
CUT_LATE = gzip.compress(b"a,b\n" + b"1,2\n" * 1000, mtime=0)[:-20]
CUT_EARLY = gzip.compress(b"a,b\n1,2\n", mtime=0)[:12]


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        (b"", FileError, "is empty"),
        (b"\n \n", FileError, "expected a line of column names, got none"),
        (b"a,b\n1,2\n\n3\n", FileError, r"line 4: Expected 2 columns, got 1"),
        (b'a,b\n"1\n\n",2\n3,4,5\n', FileError, r"line 5: Expected 2 columns, got 3"),
        (b"a,b\r\n1,2\r\n3,4,5\r\n", FileError, r"line 3: Expected 2 columns, got 3"),
        (b"a,b\n1,2\nx\ry,4\n", FileError, r"line 3: a line ends within a cell"),
        (b"a,b,a\n1,2,3\n", DataError, "2 columns are called 'a'"),
        (b"0,1,0\n1,0,1\n", DataError, "2 columns are called '0'.*Is the line of names missing"),
        (b"0.5,1.5\n1.5,2.5\n", DataError, r"line of column names.*got the row 0\.5, 1\.5"),
        ("a,b\nx,1\nlöw,2\n".encode("latin-1"), FileError, r"line 3: .*UTF-8"),
        ("ä,b\n1,2\n".encode("latin-1"), FileError, r"line 1: .*UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), FileError, "UTF-8"),
        ("a,b\n1,2\n".encode("utf-16-le"), FileError, "UTF-8"),
        (CUT_LATE, FileError, "gzip is damaged or cut off"),
        (CUT_EARLY, FileError, "gzip is damaged or cut off"),
        (b"\x1f\x8b" + bytes(20), FileError, "gzip is damaged or cut off"),
    ],
)
def test_files_that_cannot_be_read(
    tmp_path: Path, content: bytes, error: type[Exception], words: str
) -> None:
    (tmp_path / "x.csv").write_bytes(content)
    with pytest.raises(error, match=words) as caught:
        list(open_files([tmp_path / "x.csv"]).blocks(None))
    assert re.search(r"x\.csv", str(caught.value))


def test_lines_are_counted_across_pieces(tmp_path: Path, small: None) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n" + '1,"2\n"\n' * 100 + "3\n" + "1,2\n" * 50)
    with pytest.raises(FileError, match=r"line 202: Expected 2 columns, got 1"):
        open_files([path])
    path.write_bytes(b"a,b\n" + b"1,2\n" * 100 + b"\xff,2\n")
    with pytest.raises(FileError, match=r"line 102: .*UTF-8"):
        open_files([path])


def test_a_line_that_never_ends(tmp_path: Path, small: None) -> None:
    (tmp_path / "x.csv").write_text("a,b\n" + "1" * 500)
    with pytest.raises(FileError, match="line 2 has more than 64 bytes"):
        open_files([tmp_path / "x.csv"])


def test_arrow_reads_its_own_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes of Python were at times given back by Arrow's threads while the process ended."""
    import pyarrow.csv as arrow_csv

    given: list[Any] = []
    original = arrow_csv.read_csv

    def watched(source: Any, *rest: Any) -> Any:
        given.append(source)
        return original(source, *rest)

    monkeypatch.setattr(arrow_csv, "read_csv", watched)
    assert cells(tmp_path / "rows.csv", "a,b\n1,x\n2,y\n") == {"a": [1, 2], "b": ["x", "y"]}
    assert given
    assert all(isinstance(source, pa.Buffer) and source.is_mutable for source in given)
