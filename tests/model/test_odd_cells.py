"""One odd cell costs one cell with unknown="missing", whatever it is; with "error" it is named."""

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

import latentia as lt
from latentia.errors import DataError, LatentiaError, UnknownStateWarning

ROWS = 6
ODD = {  # cells that columns of these names cannot have
    "real": [np.inf, -np.inf, 10**400, Decimal("Infinity"), Decimal("1e400"), 1 + 2j, "3.5", True],
    "count": [np.inf, -np.inf, 10**400, "", [1], "many"],
    "few": [np.inf, -np.inf, 0.5, 10**400, "1", "x"],
    "flag": [np.inf, 2, "True", 0.5],
    "word": [np.inf, 1, "", b"a", "a\0", {"a": 1}],
}
INFINITE = {"real", "count", "few"}  # columns of floats


@pytest.fixture(scope="module")
def models():
    rng = np.random.default_rng(5)
    told = rng.integers(3, size=200)
    table = {
        "real": told + 0.5 * rng.normal(size=200),
        "count": rng.poisson(4 + 20 * told).astype(float),
        "few": np.where(rng.random(200) < 0.1, 2 - told, told).astype(float),
        "flag": rng.random(200) < 0.2 + 0.3 * told,
        "word": np.array(list("abc"), dtype=object)[told],
    }
    graph = "H->real; H->count; H->few; H->flag; H->word"
    found = [
        lt.LatentModel("class").fit(table),
        lt.LatentModel(graph, {"H": 3}, learner=lt.EM(restarts=1)).fit(table),
    ]
    return found, {name: cells[:ROWS].tolist() for name, cells in table.items()}


def answers(model, table, unknown):
    """All that is asked of rows, by row."""
    target = "word" if isinstance(table, dict) or "word" in list(table.columns) else "few"
    found = model.predict_proba(table, target, unknown=unknown)
    columns = [
        np.asarray(found[name], dtype=float)
        for name in (found if isinstance(found, dict) else found.columns)
    ]
    return np.column_stack([*columns, model.score_samples(table, unknown=unknown)])


@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
@pytest.mark.parametrize("name", ODD)
def test_an_odd_cell_is_a_hole(models, name):
    """Infinity, integers beyond floats and a complex number among reals cost the whole table."""
    found, rows = models
    for model in found:
        holed = {**rows, name: [*rows[name][:2], None, *rows[name][3:]]}
        if name != "word":
            holed[name] = np.array([np.nan if v is None else v for v in holed[name]], dtype=object)
        expected = answers(model, holed, "error")
        for odd in ODD[name]:
            cells = np.empty(ROWS, dtype=object)
            cells[:] = [*rows[name][:2], odd, *rows[name][3:]]
            for table in ({**rows, name: cells}, pd.DataFrame(rows).assign(**{name: cells})):
                with pytest.raises(LatentiaError, match=rf"{name}.*row 2") as told:
                    answers(model, table, "error")
                assert "unknown='missing'" in str(told.value)
                got = answers(model, table, "missing")
                np.testing.assert_allclose(got, expected, atol=1e-12, err_msg=repr(odd))
                with pytest.warns(UnknownStateWarning, match=f"1 cell.*{name}"):
                    answers(model, table, "warn")
                model.check(table, unknown="missing")


@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
@pytest.mark.parametrize("name", sorted(INFINITE))
def test_infinity_in_frames_and_files(models, name, tmp_path):
    """Columns of floats, where infinity was refused as soon as it was read."""
    (model, _), rows = models
    expected = answers(
        model, pd.DataFrame(rows).assign(**{name: _with(rows[name], np.nan)}), "error"
    )
    frame = pd.DataFrame(rows).assign(**{name: _with(rows[name], np.inf)})
    frame.to_parquet(tmp_path / "rows.parquet")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    tables = [frame, pl.from_pandas(frame), {c: frame[c].to_numpy() for c in frame.columns}]
    for table in tables:
        np.testing.assert_allclose(answers(model, table, "missing"), expected, atol=1e-12)
        with pytest.raises(DataError, match=rf"infinity in column '{name}' \(row 2\)"):
            answers(model, table, "error")
        with pytest.raises(DataError, match=rf"infinity in column '{name}'"):
            lt.LatentModel("class").fit(table)
    for path in ("rows.parquet", "rows.csv"):
        logs = model.score_samples(str(tmp_path / path), unknown="missing")
        (logs,) = logs.read_all().columns
        np.testing.assert_allclose(logs.to_numpy(), expected[:, -1], atol=1e-12)
        with pytest.raises(LatentiaError, match=name):
            model.score(str(tmp_path / path))


def _with(cells, odd):
    return np.array([*cells[:2], odd, *cells[3:]], dtype=float)


def test_text_with_a_zero_at_its_end_is_another_state():
    """numpy's arrays of text leave it out: "a" and "a\\0" in a list were one state."""
    cells = ["a", "a\0", "b", b"b"] * 10
    model = lt.LatentModel("class").fit({"x": cells, "y": [0, 1, 2, 3] * 10})
    assert {*model.columns_[0].labels} == {*cells}


@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
def test_weights_and_outcomes_are_finite():
    rng = np.random.default_rng(0)
    table = {"x": rng.integers(2, size=30), "y": rng.integers(2, size=30), "w": np.ones(30)}
    table["w"][3] = np.inf
    with pytest.raises(DataError, match="weights must be finite"):
        lt.LatentModel("class").fit(table, sample_weight="w")


def test_errors_tell_long_cells_by_their_ends(models):
    """A number of 400 digits, or a text of a page, filled the screen."""
    (model, _), rows = models
    for odd in (10**400, 10**5000, "long " * 1000):
        cells = np.empty(ROWS, dtype=object)
        cells[:] = [odd, *rows["word"][1:]]
        with pytest.raises(LatentiaError) as told:
            model.predict({**rows, "word": cells}, "few")
        assert len(str(told.value)) < 600
        with pytest.warns(UnknownStateWarning) as warned:
            model.predict({**rows, "word": cells}, "few", unknown="warn")
        assert len(str(warned[0].message)) < 600
