"""Cells of databases' own types: decimals, fine times, numbers that are text for one odd cell."""

from __future__ import annotations

import datetime
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import latentia as lt
from latentia.errors import DataError, WeightWarning

ROWS = 200
RNG = np.random.default_rng(11)
HIDDEN = RNG.integers(2, size=ROWS)
MEASURED = np.round(RNG.normal(3 * HIDDEN), 2)
PRICES = np.array([1.1, 2.25, 3.0])[RNG.integers(3, size=ROWS)]
KINDS = np.where(RNG.random(ROWS) < 0.8, HIDDEN, 1 - HIDDEN)


def learned(table: Any, **more: Any) -> lt.LatentModel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lt.LatentModel("H->x,k", {"H": 2}, lt.PBP(refine=False)).fit(table, **more)


def frame(x: Any) -> pd.DataFrame:
    return pd.DataFrame({"x": x, "k": KINDS})


def decimals(x: Any) -> list[Decimal]:
    return [Decimal(f"{value:.2f}") for value in x]


@pytest.mark.parametrize("x", [MEASURED, PRICES], ids=["measured", "states"])
def test_decimals_are_the_numbers_they_are(x: Any, tmp_path: Path) -> None:
    """A NUMERIC column had hundreds of states, and its model could not be kept in a file."""
    plain = learned(frame(x))
    own = frame(decimals(x))
    tables = {
        "pandas": own,
        "category": own.assign(x=pd.Series(decimals(x)).astype("category")),
        "dict": {"x": decimals(x), "k": KINDS},
        "polars": pl.DataFrame({"x": pl.Series(x).cast(pl.Decimal(10, 2)), "k": KINDS}),
        "arrow": pa.table({"x": pa.array(decimals(x)), "k": KINDS}),
        "duckdb": duckdb.sql("select cast(x as decimal(10, 2)) as x, k from own"),
        "blocks": [own[:90], own[90:]],
    }
    for kind, table in tables.items():
        if kind == "category" and plain.columns_[0].continuous:
            continue  # categories are states
        found = learned(table)
        assert found.columns_ == plain.columns_, kind
        assert found.score(frame(x)) == pytest.approx(plain.score(frame(x)), abs=1e-12), kind
        assert plain.score(table) == pytest.approx(plain.score(frame(x)), abs=1e-12), kind
        found.save(tmp_path / "m.latentia")
        assert lt.load(tmp_path / "m.latentia").columns_ == found.columns_


def test_decimals_beyond_floats_are_not_merged() -> None:
    twin = [Decimal("0.1000000000000000000001"), Decimal("0.1000000000000000000002")]
    with pytest.raises(DataError, match="one number as floats"):
        learned(frame([twin[i] for i in KINDS]))
    whole = [Decimal(2**53 + 1), Decimal(2**53 + 2)]
    model = learned(frame([whole[i] for i in KINDS]))
    assert model.columns_[0].labels == (2**53 + 1, 2**53 + 2)


@pytest.mark.parametrize("told", [1.25, np.float32(1.25), Decimal("1.25"), "1.25", np.array(1.25)])
def test_a_number_told_in_any_type_has_one_density(told: Any) -> None:
    """Only Python's and numpy's own numbers were told as densities; the rest as masses."""
    model = learned(frame(MEASURED))
    rows = pd.DataFrame({"x": [1.25]})
    assert model.query("k", {"x": told}).log_evidence == pytest.approx(model.score(rows), abs=1e-12)


def test_weights_may_be_decimals() -> None:
    rows = frame(KINDS[::-1])
    plain = learned(rows, sample_weight=np.full(ROWS, 1.5))
    found = learned(rows.assign(w=[Decimal("1.5")] * ROWS), sample_weight="w")
    assert found.score(rows) == plain.score(rows)
    with pytest.raises(DataError, match="not of numbers"):
        learned(rows.assign(w=["1.5"] * ROWS), sample_weight="w")


@pytest.mark.parametrize("share", [0.1, 1e-9])
def test_weights_that_sum_to_less_than_a_row_are_told(share: float) -> None:
    """They gave plain marginals without a word."""
    with pytest.warns(WeightWarning, match="look relative"):
        lt.LatentModel("H->x,k", {"H": 2}).fit(
            frame(KINDS[::-1]), sample_weight=np.full(ROWS, share / ROWS)
        )


@pytest.mark.parametrize(
    "x",
    [
        pl.Series(KINDS).cast(pl.Datetime("ns")),
        pl.Series(KINDS).cast(pl.Duration("ns")),
        pl.Series(KINDS).cast(pl.Time),
        pa.array(KINDS).cast(pa.time64("ns")),
        KINDS.astype("datetime64[ns]"),
        KINDS.astype("timedelta64[ps]"),
    ],
    ids=["datetime", "duration", "time", "arrow time", "numpy", "numpy duration"],
)
def test_times_finer_than_pythons_are_not_merged(x: Any) -> None:
    """0 and 1 nanosecond were one state."""
    make = (
        pl.DataFrame if isinstance(x, pl.Series) else pa.table if isinstance(x, pa.Array) else dict
    )
    with pytest.raises(DataError, match="column 'x' holds times finer than microseconds"):
        learned(make({"x": x, "k": KINDS}))


def test_times_of_numpy_are_times() -> None:
    """Those of nanoseconds were whole numbers, and beyond 40 of them measured."""
    days = np.array(["2020-01-01", "1969-12-31"], "datetime64[ns]")[KINDS]
    found = learned({"x": days, "k": KINDS})
    assert found.columns_ == learned(frame(days)).columns_
    assert found.columns_[0].labels[0] == datetime.datetime(1969, 12, 31)


@pytest.mark.parametrize("odd", ["?", "abc", "-", "01"])
@pytest.mark.parametrize("x", [MEASURED, np.arange(ROWS)], ids=["decimals", "whole"])
def test_one_odd_cell_does_not_make_states_of_numbers(odd: str, x: Any, tmp_path: Path) -> None:
    """A file of text had a state for every number."""
    texts = [str(value) for value in x]
    texts[7] = odd
    path = tmp_path / "rows.csv"
    frame(texts).to_csv(path, index=False)
    for table in (path, frame(texts), frame(texts).astype({"x": object}), {"x": texts, "k": KINDS}):
        with pytest.raises(
            DataError, match=f"column 'x' holds numbers, but some cell has '[{odd}]"
        ):
            learned(table)


def test_codes_and_words_among_few_numbers_are_states(tmp_path: Path) -> None:
    codes = np.array([f"{i:03d}" for i in range(60)])[RNG.integers(60, size=ROWS)]
    grades = np.array(["1.0", "1.3", "1.7", "2.0", "absent"])[RNG.integers(5, size=ROWS)]
    for texts in (codes, grades):
        path = tmp_path / "rows.csv"
        frame(texts).to_csv(path, index=False)
        assert set(learned(path).columns_[0].labels) == set(texts.tolist())


def test_cells_that_cannot_be_states_name_their_column() -> None:
    with pytest.raises(DataError, match="column 'x' holds values that cannot be states"):
        learned(pa.table({"x": [[1]] * ROWS, "k": KINDS}))
