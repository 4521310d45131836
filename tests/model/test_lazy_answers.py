"""Answers that are read block by block: one warning a question, and errors that are our own."""

from __future__ import annotations

import warnings

import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import latentia as lt
from latentia.data.sources import opening, stream
from latentia.errors import LatentiaWarning, UnknownNameError, UnknownStateWarning

ROWS = 300


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    for module in (opening, stream):
        monkeypatch.setattr(module, "BLOCK_ROWS", 70)


def frame():
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=ROWS)
    return pd.DataFrame(
        {c: np.array(["n", "y"])[np.where(rng.random(ROWS) < 0.8, h, 1 - h)] for c in "abc"}
    )


def odd_rows():
    found = frame()
    found.loc[5::40, "a"] = "odd"  # eight cells, in every block
    return found


MODEL = lt.LatentModel("H->a,b,c", {"H": 2}, lt.EM(2, random_state=0))
CLASSIFIER = lt.LatentClassifier("H->a,b", {"H": 2}, learner=lt.EM(2, random_state=0))


def parquet(data, place):
    pq.write_table(pa.Table.from_pandas(data, preserve_index=False), place / "rows.parquet")
    return place / "rows.parquet"


def relation(data, place):
    return duckdb.sql(f"select * from '{parquet(data, place)}'")


READ = {
    "frames": (lambda x, _: [x[:100], x[100:200], x[200:]], list),
    "function": (lambda x, _: lambda: iter([x[:100], x[100:200], x[200:]]), list),
    "Parquet": (parquet, lambda found: found.read_all()),
    "DuckDB": (relation, lambda found: found.fetchall()),
    "Dask": (
        lambda x, _: dd.from_pandas(x, npartitions=4),
        lambda found: found.compute(scheduler="threads"),
    ),
}
QUESTIONS = {
    "proba": lambda table, **how: MODEL.predict_proba(table, **how),
    "one column": lambda table, **how: MODEL.predict_proba(table, target="b", **how),
    "predict": lambda table, **how: MODEL.predict(table, target="b", **how),
    "fill": lambda table, **how: MODEL.predict(table, **how),
    "latent": lambda table, **how: MODEL.predict_latent(table, "H", **how),
    "scores": lambda table, **how: MODEL.score_samples(table, **how),
    "class": lambda table, **how: CLASSIFIER.predict_proba(table, **how),
    "label": lambda table, **how: CLASSIFIER.predict(table, **how),
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("name", READ)
def test_a_question_warns_once(name, question, tmp_path):
    make, read = READ[name]
    MODEL.fit(frame())
    CLASSIFIER.fit(frame()[["a", "b"]], frame()["c"])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        read(QUESTIONS[question](make(odd_rows(), tmp_path), unknown="warn"))
    own = [w for w in told if issubclass(w.category, LatentiaWarning)]
    assert [w.category for w in own] == [UnknownStateWarning]
    if name != "Dask":  # its parts are answered by whoever has time
        assert str(own[0].message).startswith("8 cell(s) of 'a'")


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("name", READ)
def test_errors_are_our_own(name, question, tmp_path):
    make, read = READ[name]
    MODEL.fit(frame())
    CLASSIFIER.fit(frame()[["a", "b"]], frame()["c"])
    with pytest.raises(UnknownNameError, match=r"^state of 'a' \(row .*\) 'odd' is unknown"):
        read(QUESTIONS[question](make(odd_rows(), tmp_path)))


def test_a_column_that_is_asked_for_may_hold_anything(tmp_path):
    MODEL.fit(frame())
    found = MODEL.predict_proba(relation(odd_rows(), tmp_path), target="a").fetchall()
    assert len(found) == ROWS
