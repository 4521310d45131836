"""Whole numbers and fixed decimals come back as they are: samples, filled cells, imputations."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import latentia as lt


def table(n: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    return pd.DataFrame(
        {
            "age": np.round(40 + 12 * x).astype(int),
            "cost": np.round(np.exp(4 + x), 2),
            "size": x + rng.normal(size=n),
            "state": np.where(x > 0, "up", "down"),
        }
    )


@pytest.fixture(scope="module")
def model() -> lt.LatentModel:
    return lt.LatentModel("class").fit(table())


def holes() -> pd.DataFrame:
    rows = table(8).astype({"age": "Int64"})
    rows.loc[[1, 4], "age"] = pd.NA
    rows.loc[[2, 4], "cost"] = np.nan
    return rows


def test_samples(model: lt.LatentModel) -> None:
    drawn = model.sample(500, random_state=0)
    assert drawn["age"].dtype == np.int64
    assert drawn["size"].dtype == float
    assert np.abs(drawn["cost"] * 100 - np.rint(drawn["cost"] * 100)).max() < 1e-6


@pytest.mark.parametrize("kind", [lambda f: f, pl.from_pandas, pa.Table.from_pandas])
def test_filled_cells(model: lt.LatentModel, kind: Any) -> None:
    found = model.predict(kind(holes()))
    names = found.column_names if isinstance(found, pa.Table) else found.columns
    cells = {c: np.asarray(found[c]) for c in names}
    assert cells["age"].dtype == np.int64
    here = holes()["age"].notna().to_numpy()
    np.testing.assert_array_equal(cells["age"][here], table(8)["age"][here])
    np.testing.assert_allclose(cells["cost"] * 100, np.rint(cells["cost"] * 100), atol=1e-6)
    mean = np.asarray(model.predict(holes(), "age"), dtype=float)  # an expectation is not rounded
    np.testing.assert_array_equal(cells["age"][~here], np.rint(mean[~here]))
    assert (mean != np.rint(mean)).any()


def test_holes_that_made_floats_of_whole_numbers_leave_floats(model: lt.LatentModel) -> None:
    found = model.predict(holes().astype({"age": float}))
    assert found["age"].dtype == float
    assert (found["age"] == found["age"].round()).all()


@pytest.mark.parametrize("strategy", ["best", "draw"])
def test_imputed_cells(strategy: str) -> None:
    imputer = lt.LatentImputer("class", strategy=strategy, random_state=0).fit(table())
    found = imputer.transform(holes())
    assert found["age"].dtype == np.int64
    assert np.abs(found["cost"] * 100 - (found["cost"] * 100).round()).max() < 1e-6


def test_no_negative_zeros() -> None:
    rng = np.random.default_rng(1)
    counts = {"a": rng.poisson(4.0, size=300) / 4.0, "b": rng.normal(size=300)}
    drawn = lt.LatentModel("class", kinds={"a": "continuous"}).fit(counts).sample(2000)
    assert not np.signbit(drawn["a"][drawn["a"] == 0]).any()
