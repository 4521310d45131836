"""Declared states: categories, enums and dictionaries give the same states on every road."""

from __future__ import annotations

import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import latentia as lt

STATES = ("zz", "b", "a", "q")  # in no order of letters; the last is never seen
ROWS = 300


def frame():
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=ROWS)
    cells = np.where(rng.random(ROWS) < 0.8, np.where(h, "b", "a"), "zz").astype(object)
    cells[::11] = None
    others = {c: np.where(rng.random(ROWS) < 0.8, h, 1 - h) for c in "uv"}
    return pd.DataFrame({"c": pd.Categorical(cells, categories=STATES), **others})


def arrow():
    return pa.Table.from_pandas(frame(), preserve_index=False)


def enums():
    plain = pl.from_pandas(frame().assign(c=frame()["c"].astype(object)))
    return plain.with_columns(pl.col("c").cast(pl.Enum(STATES)))


def parquet(place):
    pq.write_table(arrow(), place / "rows.parquet", row_group_size=70)
    return place / "rows.parquet"


def files(place):
    """Their dictionaries are kept in different ways."""
    wide = pa.dictionary(pa.int16(), pa.large_string())
    rest = arrow()[100:]
    pq.write_table(arrow()[:100], place / "1.parquet")
    pq.write_table(rest.set_column(0, "c", rest["c"].cast(wide)), place / "2.parquet")
    return [place / "1.parquet", place / "2.parquet"]


def arrow_file(place):
    with pa.ipc.new_file(place / "rows.arrow", arrow().schema) as writer:
        writer.write_table(arrow(), 50)
    return place / "rows.arrow"


def enum_file(place):
    enums().write_parquet(place / "rows.parquet")
    return place / "rows.parquet"


def enum_of_duckdb(_):
    connection = duckdb.connect()
    connection.register("given", arrow())
    connection.execute(f"create type kind as enum {STATES}")
    connection.execute("create table rows as select c::varchar::kind as c, u, v from given")
    return connection.table("rows")


def frame_of_arrow(_):
    own = pd.Series(pd.arrays.ArrowExtensionArray(arrow()["c"]))
    return frame().assign(c=own)


TABLES = {
    "Arrow": lambda _: arrow(),
    "Arrow, of polars": lambda _: enums().to_arrow(),
    "Parquet": parquet,
    "several files": files,
    "Arrow file": arrow_file,
    "dataset": lambda place: ds.dataset(parquet(place)),
    "reader, again and again": lambda _: lambda: iter(arrow().to_batches(40)),
    "polars": lambda _: enums(),
    "lazy polars": lambda _: enums().lazy(),
    "Parquet of polars": enum_file,
    "DuckDB": enum_of_duckdb,
    "Dask": lambda _: dd.from_pandas(frame(), npartitions=3),
    "list of frames": lambda _: [frame()[:100], frame()[100:]],
    "pandas with Arrow's types": frame_of_arrow,
}


def fitted(table):
    return lt.LatentModel("H->c,u,v", {"H": 2}, lt.EM(2, random_state=0)).fit(table)


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_the_declared_states(name, tmp_path):
    expected = fitted(frame())
    assert expected.columns_[0].states == STATES
    model = fitted(TABLES[name](tmp_path))
    assert model.columns_ == expected.columns_
    np.testing.assert_allclose(model.cpts_["c"], expected.cpts_["c"], atol=1e-9)
    assert model.query("c")["q"] > 0


@pytest.mark.parametrize("road", ["frame", "Arrow", "Parquet"])
def test_a_pool_of_polars_declares_nothing(road, tmp_path):
    """Its order is that in which words were met, by whichever frame came first."""
    pool = enums().with_columns(pl.col("c").cast(pl.Categorical))
    pool.write_parquet(tmp_path / "rows.parquet")
    table = {"frame": pool, "Arrow": pool.to_arrow(), "Parquet": tmp_path / "rows.parquet"}[road]
    assert fitted(table).columns_[0].states == ("a", "b", "zz")


def test_a_missing_word_is_no_state():
    words = pa.DictionaryArray.from_arrays([0, 1, 2, 0, None], ["b", None, "a"])
    table = pa.table({"c": words, "u": [0, 1, 0, 1, 1], "v": [0, 1, 0, 1, 1]})
    model = lt.LatentModel("c; u; v", learner="em").fit(table)
    assert model.columns_[0].states == ("b", "a")
    assert model.query("c")["b"] == pytest.approx(2 / 3)
