"""One road: every learner on every kind of table learns the same model and says the same words."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import latentia as lt
from latentia.data.sources import table_rows
from latentia.errors import LatentiaWarning

ROWS = 400


def discrete(seed: int = 0) -> pd.DataFrame:
    """Text, whole numbers and truth values that tell a hidden class."""
    rng = np.random.default_rng(seed)
    h = rng.integers(2, size=ROWS)
    codes = {c: np.where(rng.random(ROWS) < 0.8, h, 1 - h) for c in "abcd"}
    return pd.DataFrame(
        {
            "a": np.array(["no", "yes"])[codes["a"]],
            "b": codes["b"] + 10,
            "c": codes["c"].astype(bool),
            "d": np.array(["01", "1"])[codes["d"]],
        }
    )


def extreme(seed: int = 0) -> pd.DataFrame:
    """Integers at the ends of their types, and text that is nearly a number."""
    rng = np.random.default_rng(seed)
    h = rng.integers(3, size=ROWS)

    def told(*states: Any, kind: Any = object) -> Any:
        own = np.where(rng.random(ROWS) < 0.75, h, rng.integers(3, size=ROWS))
        return np.array(states, dtype=kind)[own]

    return pd.DataFrame(
        {
            "a": told(2**64 - 1, 2**64 - 3, 2**63, kind=np.uint64),
            "b": told(-(2**63), 1 - 2**63, 5, kind=np.int64),
            "c": told(-128, 127, 0, kind=np.int8),
            "d": told("007", "7", " 7"),
        }
    )


def mixed(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    h = rng.integers(2, size=ROWS)
    return pd.DataFrame(
        {
            "x": np.round(rng.normal(3.0 * h), 6),
            "y": np.round(np.exp(rng.normal(h)), 6),
            "k": np.array(["low", "high"])[np.where(rng.random(ROWS) < 0.8, h, 1 - h)],
        }
    )


def with_holes(frame: pd.DataFrame) -> pd.DataFrame:
    rng = np.random.default_rng(7)
    return frame.convert_dtypes().mask(rng.random(frame.shape) < 0.1)


def with_weights(frame: pd.DataFrame) -> pd.DataFrame:
    rng = np.random.default_rng(8)
    return frame.assign(weight=rng.integers(0, 4, size=ROWS))


CASES: dict[str, tuple[pd.DataFrame, str | None, Any, str | None]] = {
    "discrete": (discrete(), "H->a,b,c,d", {"H": 2}, None),
    "mixed": (mixed(), "H->x,y,k", {"H": 2}, None),
    "no graph": (discrete(1), None, None, None),
    "mixed, no graph": (mixed(1), None, None, None),
    "holes": (with_holes(discrete(2)), "H->a,b,c,d", {"H": 2}, None),
    "mixed, holes": (with_holes(mixed(2)), "H->x,y,k", {"H": 2}, None),
    "weights": (with_weights(discrete(3)), "H->a,b,c,d", {"H": 2}, "weight"),
    "mixed, weights": (with_weights(mixed(3)), "H->x,y,k", {"H": 2}, "weight"),
    "a column not named": (discrete(4).assign(extra=0), "H->a,b,c,d", {"H": 2}, None),
    "a constant column": (discrete(5).assign(b=10), "H->a,b,c,d", {"H": 2}, None),
    "states from the data": (discrete(6), "H->a,b,c,d", ["H"], None),
    "columns are parents": (extreme(7), "a->b; H->b; H->c; H->d", {"H": 2}, None),
}
LEARNERS: dict[str, Callable[[], Any]] = {
    "default": lambda: lt.PBP(random_state=0),
    "closed form": lambda: lt.PBP(refine=False),
    "refined": lambda: lt.PBP(refine=True, random_state=0),
    "paper": lambda: lt.PBP.paper(),
    "spectral": lambda: lt.Spectral(),
    "em": lambda: lt.EM(restarts=2, max_iter=20, random_state=0),
    "em from the closed form": lambda: lt.EM(init="pbp", max_iter=20, random_state=0),
    "stepwise": lambda: lt.StepwiseEM(restarts=2, epochs=2, random_state=0),
    "tables": lambda: lt.Tables(random_state=0),
}
DISCRETE_ONLY = {"paper", "spectral", "em from the closed form"}
MANY = 2  # tables of a case and a learner, in turn; all of them by LATENTIA_ALL_ROADS=1


def as_parquet(frame: pd.DataFrame, place: Path) -> Path:
    path = place / "rows.parquet"
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path, row_group_size=90)
    return path


def as_csv(frame: pd.DataFrame, place: Path) -> Path:
    path = place / "rows.csv"
    frame.to_csv(path, index=False)
    return path


def as_duckdb(frame: pd.DataFrame, place: Path) -> Any:
    return duckdb.sql(f"select * from '{as_parquet(frame, place)}'")


TABLES: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "polars": lambda frame, _: pl.from_pandas(frame),
    "dict": lambda frame, _: {c: frame[c].to_numpy() for c in frame},
    "list of frames": lambda frame, _: [frame[:150], frame[150:]],
    "parquet": as_parquet,
    "csv": as_csv,
    "duckdb": as_duckdb,
    "dask": lambda frame, _: dd.from_pandas(frame, npartitions=3),
}
IN_MEMORY: dict[tuple[str, str], tuple[lt.LatentModel, list[str]]] = {}


def learned(case: str, learner: str, table: Any) -> tuple[lt.LatentModel, list[str]]:
    """The model, and what was said while it was learned."""
    _, graph, latents, weight = CASES[case]
    model = lt.LatentModel(graph, latents, learner=LEARNERS[learner]())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", LatentiaWarning)
        model.fit(table, sample_weight=weight)
    ours = [w for w in told if issubclass(w.category, LatentiaWarning)]
    return model, sorted(f"{w.category.__name__}: {w.message}" for w in ours)


def kinds_of(case: str, learner: str) -> list[str]:
    """Which tables are tried: all, or so many in turn that every pair of two is met."""
    kinds = list(TABLES)
    if "LATENTIA_ALL_ROADS" in os.environ:
        return kinds
    first = 3 * list(CASES).index(case) + MANY * learners_of(case).index(learner)
    return [kinds[(first + k) % len(kinds)] for k in range(MANY)]


def learners_of(case: str) -> list[str]:
    return [name for name in LEARNERS if not (case.startswith("mixed") and name in DISCRETE_ONLY)]


def test_every_case_and_every_learner_meets_every_table() -> None:
    met = {(case, name): kinds_of(case, name) for case in CASES for name in learners_of(case)}
    for kind in TABLES:
        assert {case for (case, _), kinds in met.items() if kind in kinds} == set(CASES)
        assert {name for (_, name), kinds in met.items() if kind in kinds} == set(LEARNERS)


def in_memory(case: str, learner: str) -> tuple[lt.LatentModel, list[str]]:
    key = (case, learner)
    if key not in IN_MEMORY:
        IN_MEMORY[key] = learned(case, learner, CASES[case][0])
    return IN_MEMORY[key]


def shares(model: lt.LatentModel, column: Any, evidence: dict[str, Any]) -> np.ndarray:
    """The answer as numbers: probabilities, or levels of a density."""
    found = model.query(column.name, evidence)
    levels = (0.1, 0.5, 0.9)
    return np.array([found.quantile(q) for q in levels] if column.continuous else found)


@pytest.mark.usefixtures("quick_fits")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("learner", LEARNERS)
def test_every_table_gives_the_same_model(case: str, learner: str, tmp_path: Path) -> None:
    """All rows are in every sample, so that nothing but rounding may differ."""
    if learner not in learners_of(case):
        with pytest.raises(lt.errors.DataError, match=r"continuous|discrete columns"):
            learned(case, learner, CASES[case][0])
        return
    expected, words = in_memory(case, learner)
    frame = CASES[case][0]
    for kind in kinds_of(case, learner):
        found, said = learned(case, learner, TABLES[kind](frame, tmp_path))
        assert found.columns_ == expected.columns_, kind
        assert found.states_ == expected.states_, kind
        assert said == words, kind
        for name, table in getattr(expected, "cpts_", {}).items():
            if isinstance(table, np.ndarray):
                np.testing.assert_allclose(
                    found.cpts_[name], table, rtol=0, atol=1e-9, err_msg=f"{kind}: {name}"
                )
        row = frame.dropna().iloc[0]
        for i, column in enumerate(expected.columns_):
            others = [c.name for c in expected.columns_ if c.name != column.name]
            for given in ({}, {others[0]: row[others[0]]}, {c: row[c] for c in others}):
                np.testing.assert_allclose(
                    shares(found, found.columns_[i], given),
                    shares(expected, column, given),
                    rtol=1e-9,
                    atol=1e-9,
                    err_msg=f"{kind}: {column.name} given {given}",
                )


def test_rows_that_change_are_not_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer rows, more rows and other values between two passes are errors, not models.

    Small tables are read once; large ones again and again, which is forced here.
    """
    monkeypatch.setattr(table_rows, "KEPT_CELLS", 0)
    monkeypatch.setattr(table_rows, "KEPT_BYTES", 0)
    frame = discrete()
    later = {
        "fewer": frame[:200],
        "more": pd.concat([frame, frame]),
        "other values": frame.assign(b=21 - frame["b"]),
        "values in other places": frame.assign(b=frame["b"].to_numpy()[::-1]),
    }
    for change, other in later.items():
        calls: list[int] = []

        def rows(other: pd.DataFrame = other, calls: list[int] = calls) -> Any:
            calls.append(1)
            return iter([frame if len(calls) < 4 else other])

        with pytest.raises(lt.errors.DataError, match="changed while it was read"):
            lt.LatentModel("H->a,b,c,d", {"H": 2}, learner=lt.PBP(refine=False)).fit(rows)
        assert change in later


@pytest.mark.parametrize("keep", [False, True])
def test_rows_that_change_after_the_first_look(keep: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The look that finds columns counts rows, too: the passes after it may all agree."""
    monkeypatch.setattr(table_rows, "KEPT_CELLS", 0)
    if not keep:
        monkeypatch.setattr(table_rows, "KEPT_BYTES", 0)
    frame = discrete()
    for other in (frame[:-1], pd.concat([frame, frame[:1]])):
        calls: list[int] = []

        def rows(other: pd.DataFrame = other, calls: list[int] = calls) -> Any:
            calls.append(1)
            return iter([frame if len(calls) < 3 else other])

        with pytest.raises(lt.errors.DataError, match="changed while it was read: 400 rows"):
            lt.LatentModel("H->a,b,c,d", {"H": 2}, learner=lt.PBP(refine=False)).fit(rows)
