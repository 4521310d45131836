"""Decimals of 32 bits: 0.1 there is another number than 0.1."""

from pathlib import Path

import numpy as np
import pytest

import latentia as lt
from latentia.errors import StoreError
from latentia.store.column_record import read_column, write_column


def table(single: bool) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(5, 1, 400), 1)
    x = x.astype(np.float32).astype(float) if single else x
    y = np.round(x + rng.normal(size=400), 2)
    return {"x": x, "y": y, "kind": np.where(y > 5, "high", "low")}


@pytest.mark.parametrize("single", [True, False])
def test_they_come_back_as_they_came(single: bool, tmp_path: Path) -> None:
    rows = table(single)
    model = lt.LatentModel().fit(rows)
    model.save(tmp_path / "m.latentia")
    for own in (model, lt.load(tmp_path / "m.latentia")):
        assert [c.single for c in own.columns_[:2]] == [single, False]
        holed = {**rows, "x": np.where(np.arange(400) % 9 == 0, np.nan, rows["x"])}
        found = [own.sample(200, random_state=0)["x"], own.predict(holed)["x"]]
        found += [own.predict_quantiles(rows, "x", [0.25])["0.25"], own.query("x").sample(50, 0)]
        for x in found:
            told = np.round(x, 1)
            told = told.astype(np.float32).astype(float) if single else told
            np.testing.assert_array_equal(x, told)


def test_a_record_says_so() -> None:
    column = lt.LatentModel().fit(table(True)).columns_[0]
    record = write_column(column)
    assert read_column(record, "x", column.cells) == column
    with pytest.raises(StoreError, match="single"):
        read_column({**record, "single": 1}, "x", column.cells)


def test_decimals_of_a_file_are_drawn_as_they_are_spelled() -> None:
    """Fifteen digits of a float of 32 bits are on the lattice, but for what was cut off."""
    rows = table(True)
    rows["x"] = np.array([float(f"{x:.14f}") for x in rows["x"]])
    drawn = lt.LatentModel().fit(rows).sample(400, random_state=0)["x"]
    assert np.isin(drawn, rows["x"]).mean() > 0.9  # .25 before: 3.1 for 3.09999990463257
