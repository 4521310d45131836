"""Every engine brings the same sequences: DuckDB, Dask, Spark, readers, sorted Parquet files."""

from __future__ import annotations

import warnings

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from tests.model.test_every_table import spark  # noqa: F401 (a fixture)
from tests.sequences.test_long_rows import TEXT, frame_of, same

import latentia as lt
from latentia.errors import DataError, LatentiaWarning, UnknownNameError


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return frame_of(3, (50, 30, 80, 1, 44))


@pytest.fixture(scope="module")
def model(frame: pd.DataFrame) -> lt.SequenceModel:
    return lt.SequenceModel(TEXT, {"z": 2}).fit(frame, sequence="id", time="t")


@pytest.fixture(scope="module")
def folder(frame: pd.DataFrame, tmp_path_factory):
    """Row groups that end within sequences."""
    place = tmp_path_factory.mktemp("sequences")
    pq.write_table(pa.Table.from_pandas(frame), place / "rows.parquet", row_group_size=17)
    frame.to_csv(place / "rows.csv", index=False)
    return place


ENGINES = {
    "polars lazy": lambda f, frame: pl.from_pandas(frame).lazy(),
    "polars scan": lambda f, frame: pl.scan_parquet(f / "rows.parquet"),
    "arrow": lambda f, frame: pa.Table.from_pandas(frame),
    "dataset": lambda f, frame: ds.dataset(str(f / "rows.parquet")),
    "parquet": lambda f, frame: str(f / "rows.parquet"),
    "csv": lambda f, frame: str(f / "rows.csv"),
    "duckdb": lambda f, frame: duckdb.sql(f"select * from '{f}/rows.parquet'"),
}


def answers_alike(model: lt.SequenceModel, other: lt.SequenceModel, table, frame) -> None:
    same(model, other)
    np.testing.assert_allclose(other.score_samples(table), model.score_samples(frame), atol=1e-9)
    np.testing.assert_array_equal(np.asarray(other.decode(table)), model.decode(frame))
    found = other.forecast(table, 2)
    expected = model.forecast(frame, 2)
    assert list(np.asarray(found["id"])) == list(expected["id"])
    np.testing.assert_allclose(np.asarray(found["word=a"]), expected["word=a"], atol=1e-9)


@pytest.mark.parametrize("kind", ENGINES)
def test_engines_give_the_same_answers(kind: str, model, frame, folder) -> None:
    def table():
        return ENGINES[kind](folder, frame)

    other = lt.SequenceModel(TEXT, {"z": 2}).fit(table(), sequence="id", time="t")
    answers_alike(model, other, table(), frame)


def test_dask_by_partition(model, frame) -> None:
    dd = pytest.importorskip("dask.dataframe")
    table = dd.from_pandas(frame, npartitions=4)  # partitions end within sequences
    other = lt.SequenceModel(TEXT, {"z": 2}).fit(table, sequence="id", time="t")
    same(model, other)
    np.testing.assert_allclose(other.score(table), model.score(frame), atol=1e-9)
    by_id = table.set_index("id", drop=False)
    with warnings.catch_warnings():  # a shuffle may leave rows of one id in any order
        warnings.simplefilter("ignore", LatentiaWarning)
        other = lt.SequenceModel(TEXT, {"z": 2}).fit(by_id, sequence="id", time="t")
    same(model, other)


@pytest.mark.filterwarnings("ignore:PySpark does not yet:FutureWarning")
def test_spark_by_partition(model, frame, spark) -> None:  # noqa: F811
    table = spark.createDataFrame(pa.Table.from_pandas(frame)).repartition(3, "id")
    with warnings.catch_warnings():  # partitions come in any order
        warnings.simplefilter("ignore", LatentiaWarning)
        other = lt.SequenceModel(TEXT, {"z": 2}).fit(table, sequence="id", time="t")
    assert other.score(frame) == pytest.approx(model.score(frame), abs=1e-4)
    assert other.states_ == model.states_


def test_bad_rows_are_told_by_every_engine(model, frame, folder, tmp_path) -> None:
    twice = pd.concat([frame, frame.iloc[[3]]])
    twice.to_parquet(tmp_path / "twice.parquet")
    with pytest.raises(DataError, match="two rows at time"):
        model.filter(str(tmp_path / "twice.parquet"))
    with pytest.raises(UnknownNameError, match="'id'"):
        model.filter(duckdb.sql(f"select t, word, pitch from '{folder}/rows.parquet'"))
    hole = frame.assign(id=frame["id"].where(frame.index != 20))
    with pytest.raises(DataError, match="sequence ids, but row"):
        model.filter(pl.from_pandas(hole))
    with pytest.raises(DataError, match="lengths add up"):
        model.filter(frame, lengths=[1, 2])
    with pytest.raises(DataError, match="not both"):
        lt.SequenceModel(TEXT, {"z": 2}).fit(frame.drop(columns="t"), sequence="id", lengths=[205])
    with pytest.raises(LookupError, match="'x'"):
        model.decode(str(_with_word(frame, tmp_path)))
    no_rows = frame.iloc[:0]
    with pytest.raises(DataError, match="0 sample"):
        model.filter(no_rows)


def _with_word(frame: pd.DataFrame, place):
    path = place / "word.parquet"
    frame.assign(word="x").to_parquet(path)
    return path
