"""Text and categories: each different value is looked at once, however many rows hold it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import latentia.data.columns.discrete
import latentia.data.columns.values
import latentia.data.sources.cell_spelling
import latentia.data.sources.series_words
import latentia.data.sources.sketch
from latentia import LatentModel
from latentia.data.columns.discrete import DiscreteColumn, encode
from latentia.data.columns.values import Values, Words, find_words, is_number, plain
from latentia.data.sources.series_words import series_words
from latentia.data.sources.sketch import sketch_column, without_clock
from latentia.data.sources.table import read_table
from latentia.errors import DataError, UnknownNameError

RNG = np.random.default_rng(7)
STATES = ("blue", "green", "a longer word", "red")
GRAPH = "H -> x; H -> y; H -> z"


def drawn(rows: int, missing: float = 0.1) -> dict[str, list[Any]]:
    """Three columns that hang together, with holes."""
    hidden = RNG.integers(len(STATES), size=rows)
    out: dict[str, list[Any]] = {}
    for name in "xyz":
        code = np.where(RNG.random(rows) < 0.7, hidden, RNG.integers(len(STATES), size=rows))
        gone = RNG.random(rows) < missing
        out[name] = [None if g else STATES[c] for c, g in zip(code, gone, strict=True)]
    return out


def pandas_of(kind: Any) -> Callable[[dict[str, list[Any]]], Any]:
    return lambda data: pd.DataFrame({k: pd.Series(v, dtype=kind) for k, v in data.items()})


def arrow_dictionaries(data: dict[str, list[Any]]) -> Any:
    """Chunks with dictionaries of their own, with words that nobody holds."""
    columns = {}
    for name, cells in data.items():
        half = len(cells) // 2
        parts = [
            pa.array([*part, "nobody"]).dictionary_encode() for part in (cells[:half], cells[half:])
        ]
        columns[name] = pa.chunked_array([part[:-1] for part in parts])
    return pa.table(columns)


CARRIERS: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "pandas object": pandas_of(object),
    "pandas str": pandas_of("str"),
    "pandas string": pandas_of("string[python]"),
    "pandas Arrow": pandas_of(pd.ArrowDtype(pa.string())),
    "pandas category": pandas_of("category"),
    "polars": pl.DataFrame,
    "polars Categorical": lambda data: pl.DataFrame(data).cast(pl.Categorical),
    "polars Enum": lambda data: pl.DataFrame(data).cast(pl.Enum(sorted(STATES))),
    "Arrow": pa.table,
    "Arrow dictionary": arrow_dictionaries,
}


@pytest.mark.parametrize("carrier", CARRIERS)
def test_no_cell_of_text_becomes_an_object(carrier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python sees O(states) words per column and block, in learning and in asking."""
    data = drawn(3000)
    frame = CARRIERS[carrier](data)
    calls = [0]

    def counted(inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def outer(value: Any) -> Any:
            calls[0] += 1
            return inner(value)

        return outer

    for module, name in (
        (latentia.data.columns.values, "plain"),
        (latentia.data.columns.values, "is_missing"),
        (latentia.data.columns.discrete, "plain"),
        (latentia.data.sources.sketch, "_is_finite"),
    ):
        monkeypatch.setattr(module, name, counted(getattr(module, name)))

    def refuse(*_: Any) -> Any:
        raise AssertionError("the cells were listed one by one")

    monkeypatch.setattr(Values, "cells", property(refuse))
    monkeypatch.setattr(nw.Series, "to_list", refuse)
    model = LatentModel(GRAPH, latents={"H": 4}).fit(frame)
    found = model.predict_proba(frame)
    assert calls[0] <= 100 * len(STATES)  # 3 columns, a few looks; a look at each cell: 9000
    monkeypatch.undo()
    declared = {*STATES, "nobody"} if carrier == "Arrow dictionary" else set(STATES)
    assert {c.name: set(c.states) for c in model.columns_} == dict.fromkeys("xyz", declared)
    expected = model.predict_proba(pd.DataFrame(data, dtype=object))
    own = nw.from_native(found, eager_only=True)
    for name in own.columns:
        np.testing.assert_array_equal(own[name].to_numpy(), expected[name].to_numpy())


@pytest.mark.parametrize("carrier", CARRIERS)
def test_codes_are_those_of_a_look_at_each_cell(carrier: str) -> None:
    data = drawn(501)
    table = read_table(CARRIERS[carrier](data))
    column = DiscreteColumn("x", STATES)
    values = table.column("x")
    assert values.words is not None
    expected = [-1 if cell is None else STATES.index(cell) for cell in data["x"]]
    assert encode(column, values).tolist() == expected
    assert values.cells.tolist() == data["x"]
    kept = np.arange(501) % 3 == 0
    assert encode(column, values.where(kept)).tolist() == np.array(expected)[kept].tolist()
    fewer = DiscreteColumn("x", STATES[:-1])
    row = data["x"].index("red")
    with pytest.raises(UnknownNameError, match=rf"row {row}.*'red'"):
        encode(fewer, values)


def test_files_of_text_are_read_by_their_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = drawn(2000)
    pd.DataFrame(data).to_csv(tmp_path / "rows.csv", index=False)
    expected = LatentModel(GRAPH, latents={"H": 4}).fit(data)
    answers = expected.predict_proba(data)

    def refuse(*_: Any) -> Any:
        raise AssertionError("the cells were listed one by one")

    monkeypatch.setattr(Values, "cells", property(refuse))
    meant = latentia.data.sources.cell_spelling._meant
    looked: list[str] = []
    monkeypatch.setattr(
        latentia.data.sources.cell_spelling,
        "_meant",
        lambda column, text: looked.append(text) or meant(column, text),
    )
    model = LatentModel(GRAPH, latents={"H": 4}).fit(str(tmp_path / "rows.csv"))
    assert model.columns_ == expected.columns_
    found = model.predict_proba(str(tmp_path / "rows.csv")).read_all()
    assert len(looked) == 3 * (len(STATES) + 1)  # and nothing at all
    for name, p in answers.items():
        np.testing.assert_allclose(found[str(name)].to_numpy(), p, atol=1e-12)  # sums by blocks


def test_the_words_of_a_table_are_found_once() -> None:
    table = read_table(pa.table(drawn(50)))
    assert table.column("x") is table.column("x")
    beside = table.beside("x2", np.arange(50))
    assert beside.column("x2").cells.tolist() == list(range(50))


# -- objects -----------------------------------------------------------------------------------

POOL = (
    *("1", "b", b"b", True, False, 1, 1.0, -0.0, 0, 2**53 + 1, 2**70, 0.5, math.inf),
    *(np.float32(0.5), np.int64(3), np.str_("b"), np.True_, (1,), pd.Timestamp("2020-01-01")),
    *(None, math.nan, float("nan"), pd.NaT, pd.NA, np.float64("nan")),
)


def objects(cells: list[Any]) -> np.ndarray[Any, Any]:
    out = np.empty(len(cells), dtype=object)
    out[:] = cells
    return out


@pytest.mark.parametrize("seed", range(30))
def test_objects_keep_their_types(seed: int) -> None:
    """Every cell is met again: equal, and of its own type; missing ones are told."""
    rng = np.random.default_rng(seed)
    pool = [POOL[i] for i in rng.choice(len(POOL), size=rng.integers(1, 8))]
    cells = [pool[i] for i in rng.integers(len(pool), size=40)]
    found = read_table({"x": objects(cells)}).column("x")
    gone = [c is None or c is pd.NA or bool(c != c) for c in cells]
    told = [False] * len(cells) if found.missing is None else found.missing.tolist()
    assert told == gone
    for cell, own, away in zip(cells, found.cells.tolist(), gone, strict=True):
        assert away or (plain(cell) == plain(own) and is_same_kind(cell, own))


def is_same_kind(a: Any, b: Any) -> bool:
    return type(plain(a)) is type(plain(b))


@pytest.mark.parametrize("seed", range(30))
def test_the_sketch_is_that_of_a_look_at_each_cell(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    small = [cell for cell in POOL if not (type(cell) is int and cell > 2**53)]
    pool = [small[i] for i in rng.choice(len(small), size=rng.integers(1, 8))]
    cells = [pool[i] for i in rng.integers(len(pool), size=40)]
    weight = rng.integers(0, 3, size=40).astype(float)
    found = sketch_column(read_table({"x": objects(cells)}).column("x"), weight)
    found = without_clock(found)  # where all are dates
    counts: dict[float, float] = {}
    others: list[Any] = []
    odd, total = None, 0.0
    for row, (cell, w) in enumerate(zip(cells, weight.tolist(), strict=True)):
        if cell is None or cell is pd.NA or cell != cell or w == 0:
            continue
        total += w
        if is_number(cell) and abs(cell) != math.inf:
            counts[float(cell)] = counts.get(float(cell), 0.0) + w
        else:
            odd = odd or (row, cell)
            others.append(plain(cell))
    assert found.weight == total
    assert found.missing == weight.sum() - total
    assert set(found.others) == set(others)
    seen = (
        {}
        if found.numbers is None
        else dict(
            zip(
                found.numbers.seen.astype(float).tolist(),
                found.numbers.weights.tolist(),
                strict=True,
            )
        )
    )
    assert seen == counts
    assert (found.odd is None) == (odd is None)
    if odd is not None and found.odd is not None:
        assert found.odd[0] == odd[0]
        assert plain(found.odd[1]) == plain(odd[1])


def test_truth_and_one_are_not_one_word() -> None:
    frame = pd.DataFrame({"x": pd.Series(["1", 1, True, "1"] * 5, dtype=object)})
    words = read_table(frame).column("x").words
    assert words is not None
    assert [(type(v), v) for v in words.values] == [(str, "1"), (int, 1), (bool, True)]


def test_what_cannot_be_hashed_is_no_word() -> None:
    cells = objects([[1], "a", None])
    assert find_words(cells) is None
    values = read_table({"x": cells}).column("x")
    assert values.missing is not None
    assert values.missing.tolist() == [False, False, True]
    with pytest.raises(DataError, match="cannot be states"):
        sketch_column(values)
    with pytest.raises(UnknownNameError, match="row 0"):
        encode(DiscreteColumn("x", ("a",)), values)


# -- dictionaries of Arrow ---------------------------------------------------------------------


@pytest.mark.parametrize("index", [pa.int8(), pa.uint8(), pa.int32(), pa.uint64()])
def test_a_dictionary_may_be_large_or_hold_nothing(index: Any) -> None:
    """Nulls among the words, one word twice, and more words than rows."""
    words = pa.array(["q", None, "q", *(f"w{k}" for k in range(50))])
    codes = pa.array([0, 1, 2, None, 40, 0], index)
    column = pa.DictionaryArray.from_arrays(codes, words)
    values = read_table(pa.table({"x": column})).column("x")
    assert values.cells.tolist() == ["q", None, "q", None, "w37", "q"]
    assert values.words is not None
    assert len(values.words.values) <= len(column)
    assert sketch_column(values).others == ("q", "w37")


def test_words_that_come_late_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """polars: the first cells tell the words, unless others come after them."""
    monkeypatch.setattr(latentia.data.sources.series_words, "FIRST_CELLS", 4)
    for cells in (["b", None, "a", "b", "a"], ["b", "b", None, "b", "a", "", None], [None] * 6):
        series = nw.from_native(pl.Series(cells, dtype=pl.String), series_only=True)
        words = series_words(series)
        assert words is not None
        found = [None if code < 0 else words.values[code] for code in words.codes.tolist()]
        assert found == cells


def test_declared_states_stay_and_others_do_not() -> None:
    cells = pd.Categorical(["b", None, "b"], categories=["c", "b", "a"], ordered=True)
    values = read_table(pd.DataFrame({"x": cells})).column("x")
    assert values.categories == ("c", "b", "a")
    assert sketch_column(values).others == ("b",)
    pool = pl.Series("x", ["b", "u", "v"], dtype=pl.Categorical)[:1]
    kept = read_table(pool.to_frame()).column("x")
    assert kept.categories is None
    assert kept.words is not None
    assert kept.words.values.tolist() == ["b"]


def test_words_tell_which_are_met() -> None:
    words = Words(objects(["a", "b", "c"]), np.array([2, -1, 0], dtype=np.int8))
    assert words.met.tolist() == [True, False, True]
    assert words.taken(np.array([5, 6, 7]), -9).tolist() == [7, -9, 5]
    assert words[1:].codes.tolist() == [-1, 0]
