"""Ids are left out of a structure, with a notice, on every engine; what is measured stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import latentia as lt
from latentia.data.columns.values import Values
from latentia.data.sources.sketch import sketch_column
from latentia.discovery.id_columns import id_columns
from latentia.errors import DataError, IgnoredColumnWarning


def left_out(values: Any, weight: Any = None, blocks: int = 1, **said: str) -> bool:
    cells = np.asarray(values)
    parts = np.array_split(np.arange(len(cells)), blocks)
    sketches = [
        sketch_column(Values(cells[p]), None if weight is None else np.asarray(weight)[p])
        for p in parts
    ]
    whole = sum(sketches[1:], sketches[0])
    flat = sketch_column(Values(np.zeros(3)))
    return "x" in id_columns({"x": whole, "flat": flat}, ["x", "flat"], said)


RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    "values",
    [
        np.arange(50),
        np.arange(1, 401),
        RNG.permutation(20_000),  # more than a sketch keeps
        np.arange(100_000, 100_300) * 10,
        RNG.choice(10**6, 6000, replace=False),  # eighteen pairs would be equal by chance
        np.arange(400.0),
        2**60 + np.arange(200),
        [*range(300), *range(5)],  # a few came twice
    ],
)
def test_numbers_that_are_ids(values: Any) -> None:
    assert left_out(values)
    assert left_out(values, blocks=7)
    assert left_out(values, RNG.uniform(0.5, 20.0, len(values)))
    assert not left_out(values, x="continuous")


@pytest.mark.parametrize(
    "values",
    [
        np.arange(49),  # too few to tell
        np.arange(1700, 2009),  # years
        RNG.choice(80_000, 100, replace=False) + 20_000,  # incomes, all different
        RNG.integers(0, 1000, 400),  # counts, as chance has them
        RNG.normal(size=300),
        np.arange(300) / 10,
        np.repeat(np.arange(100), 4),  # persons with four rows each
        RNG.choice(10**9, 2000, replace=False),  # codes or amounts: nobody can tell
    ],
)
def test_numbers_that_may_measure_something(values: Any) -> None:
    assert not left_out(values)
    assert not left_out(values, blocks=7)


def test_rows_without_weight_are_not_there() -> None:
    ids = np.concatenate([np.arange(200), np.arange(200)])
    assert not left_out(ids)
    assert left_out(ids, np.repeat([1.0, 0.0], 200))


def test_words_and_dates() -> None:
    words = np.array([f"p{i}" for i in range(3000)], dtype=object)
    assert left_out(words)  # more than a sketch counts
    assert left_out(words[:60])
    assert not left_out(words[:40])
    assert not left_out(np.repeat(words[:100], 5))
    with pytest.raises(DataError, match="decimal commas"):
        left_out(np.array([f"{i},5" for i in range(3000)], dtype=object))


def tied(n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    h = rng.integers(2, size=n)
    return pd.DataFrame({c: np.where(rng.random(n) < 0.9, h, 1 - h) for c in "abc"})


@pytest.mark.usefixtures("short_search")
def test_every_engine_leaves_the_same_out(tmp_path: Path) -> None:
    frame = tied().assign(row=np.random.default_rng(2).permutation(300))
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet")
    parts = [frame.iloc[i : i + 70] for i in range(0, 300, 70)]
    for table in (
        frame,
        pl.from_pandas(frame),
        str(tmp_path / "rows.csv"),
        str(tmp_path / "rows.parquet"),
        lambda: iter(parts),
    ):
        with pytest.warns(IgnoredColumnWarning, match=r"structure: row .*kinds="):
            found = lt.learn_structure(table, "tree", max_states=2)
        assert list(found.left_out) == ["row"]


@pytest.mark.usefixtures("short_search")
def test_models_answer_without_ids_and_keep_what_is_asked_for() -> None:
    frame = tied().assign(row=np.arange(300))
    with pytest.warns(IgnoredColumnWarning, match="left out of the structure: row"):
        model = lt.LatentModel().fit(frame)
    assert [c.name for c in model.columns_] == ["a", "b", "c"]
    assert np.isfinite(model.score(frame))
    kept = lt.LatentModel(kinds={"row": "continuous"}).fit(frame)
    assert "row" in [c.name for c in kept.columns_]
    asked = lt.learn_structure(frame, require=[("row", "a")])
    assert "row" in asked.columns
    words = tied(1500).assign(name=[f"p{i}" for i in range(1500)])
    with pytest.warns(IgnoredColumnWarning, match="more than 1000 different values"):
        model = lt.LatentModel().fit(words)
    assert "name" not in model.sample(3)


def test_numbers_with_holes_are_no_ids_and_holes_are_filled() -> None:
    """An imputer left the holes of a number that was all different, and predicting it failed."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"id": np.arange(300.0), "x": rng.normal(size=300)})
    frame["y"] = frame["x"] + rng.normal(size=300)
    assert left_out(frame["id"])
    frame.loc[rng.random(300) < 0.1, "id"] = np.nan
    filled = lt.LatentImputer().fit_transform(frame)
    assert filled.notna().all(axis=None)
    model = lt.LatentModel().fit(frame)
    assert model.predict(frame, "id").notna().all()
