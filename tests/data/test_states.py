"""States and codes against Python's own comparisons; labels of answers that never collide."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import latentia as lt
from latentia.data.columns.discovering import discover_from_values
from latentia.data.columns.discrete import DiscreteColumn, decode, encode, without_unknown
from latentia.data.columns.labels import answer_labels, joint_labels, printed_apart
from latentia.data.columns.values import Values
from latentia.data.sources.table import read_table
from latentia.errors import DataError, UnknownNameError

BIG = 2**53


def there_and_back(values):
    """Column, codes and the cells that the codes stand for; None where missing."""
    column = discover_from_values("a", values, "discrete")
    codes = column.place(values)
    states = column.answers(np.maximum(codes, 0)).tolist()
    return column, [None if c < 0 else s for c, s in zip(codes, states, strict=True)]


TABLES = {
    "numpy": lambda cells: {"a": np.array(cells, dtype=_numpy(cells))},
    "list": lambda cells: {"a": list(cells)},
    "objects": lambda cells: {"a": np.array(cells, dtype=object)},
    "pandas": lambda cells: pd.DataFrame({"a": pd.array(cells, dtype=_nullable(cells))}),
    "polars": lambda cells: pl.DataFrame({"a": pl.Series(cells, dtype=_polars(cells))}),
    "arrow": lambda cells: pa.table({"a": pa.array(cells, type=_arrow(cells))}),
}


def _unsigned(cells):
    return max(c for c in cells if c is not None) >= 2**63


def _numpy(cells):
    return np.uint64 if _unsigned(cells) else np.int64


def _nullable(cells):
    return "UInt64" if _unsigned(cells) else "Int64"


def _polars(cells):
    return pl.UInt64 if _unsigned(cells) else pl.Int64


def _arrow(cells):
    return pa.uint64() if _unsigned(cells) else pa.int64()


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    "cells",
    [
        [BIG, BIG + 1, BIG + 2, BIG],
        [BIG, BIG + 1, None, BIG + 1],
        [-BIG - 1, -BIG, 5],
        [2**62 + 1, 2**62, None],
        [2**64 - 1, 2**64 - 2, 0],
        [2**64 - 1, 2**64 - 2, None],
    ],
)
def test_large_integers_stay_apart(cells, table):
    if table == "numpy" and None in cells:
        pytest.skip("numpy has no missing integers")
    column, back = there_and_back(read_table(TABLES[table](cells)).column("a"))
    assert column.states == tuple(sorted({c for c in cells if c is not None}))
    assert back == cells


@pytest.mark.parametrize(
    "cells", [[2**70, 2**70 + 1, None], [2**63, -1, 5], [-(2**80), 1.5, 2**80], [10**400, 1]]
)
def test_integers_beyond_64_bits_are_states(cells):
    column, back = there_and_back(read_table({"a": cells}).column("a"))
    assert set(column.states) == {c for c in cells if c is not None}
    assert back == cells


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16])
def test_narrow_integers_do_not_wrap(kind):
    ends = np.iinfo(kind)
    low, high = max(ends.min, -(2**40)), min(ends.max, 2**40)
    for cells in ([low, high, 0], [low, low + 1], [high - 1, high], [low, *range(60, 64), high]):
        column, back = there_and_back(Values(np.array(cells, dtype=kind)))
        assert column.states == tuple(sorted(set(cells)))
        assert back == cells


@pytest.mark.parametrize("seed", range(40))
def test_codes_are_those_of_python(seed):
    """Any states, any type of cells: the code of a cell is the place of the equal state."""
    rng = np.random.default_rng(seed)
    pool = [0, 1, 2, 3, -1, -128, 127, 255, 2**15, -(2**15), 2**31, BIG, BIG + 1, 2**63 - 1]
    pool += [0.5, 1.5, -2.25, 2.0**53, 1e300, 2**63, 2**64 - 1]
    states = tuple(dict.fromkeys(pool[i] for i in rng.permutation(len(pool))[: rng.integers(1, 9)]))
    column = DiscreteColumn("a", states)
    for kind in (np.int8, np.uint8, np.int16, np.int64, np.uint64, np.float64, np.bool_, object):
        cells = [c for c in pool if _holds(kind, c)]
        values = Values(np.array(cells, dtype=kind))
        listed = values.cells.tolist()
        expected = [states.index(c) if c in states else None for c in listed]
        odd = without_unknown(column, values)[1]
        assert odd.tolist() == [e is None for e in expected]
        known = Values(values.cells, odd)
        assert encode(column, known).tolist() == [-1 if e is None else e for e in expected]
        if odd.any():
            with pytest.raises(UnknownNameError, match=rf"row {int(np.argmax(odd))}\)"):
                encode(column, values)


def _holds(kind, value):
    if kind is object:
        return True
    if kind is np.bool_:
        return value in (0, 1)
    if np.dtype(kind).kind == "f":
        return True
    return isinstance(value, int) and np.iinfo(kind).min <= value <= np.iinfo(kind).max


def test_minus_zero_is_zero():
    column, back = there_and_back(Values(np.array([-0.0, 0.0, 1.5])))
    assert str(column.states) == "(0.0, 1.5)"
    assert back == [0.0, 0.0, 1.5]


def test_decoded_integers_are_integers():
    column = DiscreteColumn("a", (-1, 2**63))
    assert decode(column, np.array([1, 0])).tolist() == [2**63, -1]


def test_one_and_one_as_text_are_two_states():
    for cells in ([1, "1", 2], np.array([1, "1", 2], dtype=object)):
        column, back = there_and_back(read_table({"a": cells}).column("a"))
        assert len(column.states) == 3
        assert [type(b) for b in back] == [int, str, int]


def test_true_and_one_in_one_column_are_refused():
    with pytest.raises(DataError, match="True and 1, which are equal"):
        there_and_back(read_table({"a": [True, 1, 2]}).column("a"))


def test_booleans_are_states_of_their_own():
    column, back = there_and_back(read_table({"a": [True, False, None]}).column("a"))
    assert str(column.states) == "(False, True)"
    assert back == [True, False, None]
    assert column.answer_type is bool


# --- labels ---------------------------------------------------------------------------------------


def test_labels_that_print_alike_are_written_as_python_does():
    assert answer_labels(DiscreteColumn("a", (1, "1", 2))) == ("1", "'1'", 2)
    assert answer_labels(DiscreteColumn("a", (1, 2))) == (1, 2)
    assert printed_apart(["x", "y"], "states") == ("x", "y")


def test_labels_of_a_whole_table_differ():
    columns = [DiscreteColumn("a", ("b=1", "c")), DiscreteColumn("a=b", (1, 2))]
    assert joint_labels(columns) == [("'a'='b=1'", "a=c"), ("'a=b'=1", "a=b=2")]


def test_labels_that_cannot_be_told_apart_are_refused():
    class Odd:
        def __repr__(self):
            return "odd"

    with pytest.raises(DataError, match="cannot be told apart"):
        printed_apart([Odd(), Odd()], "states")


@pytest.mark.parametrize("kind", [pd.DataFrame, dict])
def test_answers_have_a_column_for_every_state(kind):
    """predict_proba dropped columns whose labels were equal as text."""
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=400)
    states = np.array([1, "1", "x"], dtype=object)
    data = kind({name: states[(h + (rng.random(400) < 0.2)) % 3] for name in "abc"})
    model = lt.LatentModel("h -> a; h -> b; h -> c", {"h": 2}).fit(data)
    one = model.predict_proba(data, "a")
    assert len(list(one)) == 3
    np.testing.assert_allclose(sum(np.asarray(one[c]) for c in one), 1.0)
    assert len(list(model.predict_proba(data))) == 9
