"""Tables in memory: the cells and the columns that were meant."""

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest

import latentia as lt
from latentia.data.columns.values import to_values
from latentia.data.sources.sketch import sketch_column
from latentia.data.sources.table import _series_values, read_table
from latentia.errors import DataError


def test_columns_0_and_0_as_text_are_two():
    table = read_table(pd.DataFrame([[1, 2.5, "x"], [3, 4.5, "y"]], columns=[0, "0", 1]))
    assert table.column(0).cells.tolist() == [1, 3]
    assert table.column("0").cells.tolist() == [2.5, 4.5]
    assert table.column(1).cells.tolist() == ["x", "y"]


def test_a_model_learns_from_columns_0_and_0_as_text():
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=500)
    cells = {0: h, "0": 1 - h, "c": (h + (rng.random(500) < 0.1)) % 2}
    graph = [("h", 0), ("h", "0"), ("h", "c")]
    model = lt.LatentModel(graph, {"h": 2}).fit(pd.DataFrame(cells))
    assert model.query("0", {0: 0})[1] > 0.9  # they are opposites
    assert model.query("c", {0: 0})[0] > 0.8


def test_names_that_are_one_as_text_do_not_overwrite_each_other():
    table = read_table(pl.DataFrame({"a": [1, 2]}))
    with pytest.raises(DataError, match="1 and '1', which are one as text"):
        table.like({1: np.zeros(2), "1": np.ones(2)})


def test_numbers_among_text_stay_numbers():
    """numpy makes text of all, so that 1 and "1" became one."""
    assert read_table({"a": [1, "1"]}).column("a").cells.tolist() == [1, "1"]
    rows = read_table([[1, "x", 2.5], [2, "y", 3.5]])
    assert rows.column("x0").cells.tolist() == [1, 2]
    assert rows.column("x2").cells.tolist() == [2.5, 3.5]
    assert read_table([["1", "x"], ["2", "y"]]).column("x0").cells.tolist() == ["1", "2"]


def test_large_integers_beside_others_are_not_rounded():
    assert read_table({"a": [2**63, -1]}).column("a").cells.tolist() == [2**63, -1]
    assert read_table({"a": [2**53 + 1, 0.5]}).column("a").cells.tolist() == [2**53 + 1, 0.5]
    rows = read_table([[2**53 + 1, 0.5], [2**53, 1.5]])
    assert rows.column("x0").cells.tolist() == [2**53 + 1, 2**53]


def test_lists_of_numbers_are_arrays_of_numbers():
    assert read_table({"a": [1, 2.5]}).column("a").cells.dtype == float
    assert read_table({"a": [1, 2]}).column("a").cells.dtype.kind == "i"
    assert read_table({"a": [True, False]}).column("a").cells.dtype == bool
    assert read_table([[1, 2.5], [3, 4.5]]).column("x1").cells.dtype == float


def test_columns_of_a_frame_are_looked_up_by_name_whatever_their_order():
    frame = pl.DataFrame({"b": [1, 2], "a": [3, 4]})
    assert read_table(frame).column("a").cells.tolist() == [3, 4]


@pytest.mark.parametrize("alike", [False, True])  # one by one, or the frame as a matrix
@pytest.mark.parametrize("kind", ["int8", "uint16", "int64", "bool", "float32", "float64"])
def test_numbers_of_pandas_are_read_as_any_frame_reads_them(kind, alike):
    """The short way for numpy's columns finds what the way of all frames finds."""
    cells = np.array([1, 0, 1, 1, 0])
    frame = pd.DataFrame({name: cells.astype(kind) for name in ("a", "b")})
    if "float" in kind:
        frame.iloc[2, 0] = np.nan
    frame = frame if alike else frame.assign(c=list("uvuvu"))
    table = read_table(frame)
    assert (table.matrix is not None) == alike
    for name in ("a", "b"):
        found, slow = table.column(name), _series_values(nw.from_native(frame)[name], name)
        assert found.cells.dtype == slow.cells.dtype
        np.testing.assert_array_equal(found.cells, slow.cells)
        np.testing.assert_array_equal(found.missing is None, slow.missing is None)
        if slow.missing is not None:
            np.testing.assert_array_equal(found.missing, slow.missing)
        assert table.column(name) is found  # short: read once


def test_a_column_of_pandas_with_infinity_is_refused_only_where_it_is_measured():
    table = read_table(pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, np.inf]}))
    assert table.column("a").cells.tolist() == [1.0, 2.0]
    with pytest.raises(DataError, match=r"infinity in column 'b' \(row 1\)"):
        sketch_column(table.column("b"), name="b")
    with pytest.raises(DataError, match=r"infinity in column 'b' \(row 1\)"):
        to_values(table.column("b"), "b")
