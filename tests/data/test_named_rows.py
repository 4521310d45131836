"""Rows that name their cells give the model that their columns give."""

import numpy as np
import pytest

import latentia as lt
from latentia.data.sources.sketch import sketch_column
from latentia.data.sources.table import read_table
from latentia.errors import DataError


def columns(n=300):
    rng = np.random.default_rng(1)
    h = rng.integers(2, size=n)
    told = {x: np.where(rng.random(n) < 0.8, h, rng.integers(3, size=n)) for x in "abc"}
    return {**told, "d": np.array(["no", "yes"])[h], "e": h + rng.normal(size=n)}


def test_the_same_model_from_rows_with_names():
    table = columns()
    kinds = [(x, c.dtype) for x, c in table.items()]
    dicts = [dict(zip(table, cells, strict=True)) for cells in zip(*table.values(), strict=True)]
    plain = [
        dict(zip(table, row, strict=True))
        for row in zip(*(c.tolist() for c in table.values()), strict=True)
    ]
    array = np.array(list(zip(*table.values(), strict=True)), dtype=kinds)
    graph = "H->a; H->b; H->c; H->d; H->e"
    model = lt.LatentModel(graph, {"H": 2}).fit(table)
    there = np.asarray(model.query("d", {"a": 1, "e": 0.3}))
    for rows in (dicts, plain, tuple(plain), array, array.view(np.recarray)):
        found = lt.LatentModel(graph, {"H": 2}).fit(rows)
        assert [c.labels for c in found.columns_[:4]] == [c.labels for c in model.columns_[:4]]
        np.testing.assert_allclose(np.asarray(found.query("d", {"a": 1, "e": 0.3})), there)
        mine = [np.asarray(p) for p in found.predict_proba(rows[:5], "d").values()]
        theirs = model.predict_proba({x: c[:5] for x, c in table.items()}, "d").values()
        np.testing.assert_allclose(mine, [np.asarray(p) for p in theirs])


def test_cells_that_a_row_does_not_name_are_missing():
    table = read_table([{"a": 1, "b": "x"}, {"b": "y"}, {"a": 3, "c": None}])
    assert table.names == ("a", "b", "c")
    column = sketch_column(table.column("a"), name="a")
    assert (column.weight, column.missing) == (2, 1)


def test_errors_say_what_to_pass():
    with pytest.raises(DataError, match=r"structured array of one dimension.*ravel"):
        read_table(np.zeros((2, 2), dtype=[("a", int)]))
    with pytest.raises(DataError, match="a list of dicts, one for each row"):
        read_table({"a": 1})
