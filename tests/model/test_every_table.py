"""One road for every kind of table: the same sums, operators and answers as from memory."""

import os
import subprocess
import sys
from typing import ClassVar

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import latentia as lt
from latentia.data.sources import table_rows
from latentia.errors import IndependenceWarning

GRAPH = "H1->H2; H2->H3; H1->a; H1->b; H2->c; H2->d; H3->e; H3->f"
LATENTS = {"H1": 2, "H2": 2, "H3": 2}
NAMES = list("abcdef")
STATES = {
    "a": [0, 1, 2],
    "b": ["low", "mid", "top"],
    "c": [False, True],
    "d": [10, 20, 30],
    "e": [0, 1],
    "f": [0.5, 1.5],
}


def make_frame(rows: int, seed: int = 0, holes: float = 0.15) -> pd.DataFrame:
    """A chain of latents seen through columns of every type, with holes and a weight."""
    rng = np.random.default_rng(seed)
    h = [rng.integers(2, size=rows)]
    for _ in range(2):
        h.append(np.where(rng.random(rows) < 0.8, h[-1], 1 - h[-1]))
    found = {}
    for i, name in enumerate(NAMES):
        m = len(STATES[name])
        own = np.where(rng.random(rows) < 0.7, h[i // 2] * (m - 1), rng.integers(m, size=rows))
        cells = pd.Series([STATES[name][k] for k in own], dtype=object)
        cells[rng.random(rows) < holes] = None
        found[name] = cells
    frame = pd.DataFrame(found)
    frame = frame.astype({"a": "Int64", "b": "string", "c": "boolean", "d": "Int64", "e": "Int64"})
    frame["f"] = frame["f"].astype(float)
    frame["w"] = rng.integers(0, 4, size=rows)
    return frame


FRAME = make_frame(3000)
PARTS = [FRAME[:1000], FRAME[1000:1000], FRAME[1000:1400], FRAME[1400:]]  # one is empty
SHUFFLED = FRAME.sample(frac=1.0, random_state=3)
ARROW = pa.Table.from_pandas(FRAME, preserve_index=False)


class Streamed:
    """Something that speaks Arrow's C stream protocol and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Rows in Parquet, CSV and Arrow files, several each, one of them empty."""
    place = tmp_path_factory.mktemp("rows")
    for i, part in enumerate(PARTS):
        table = pa.Table.from_pandas(part, schema=ARROW.schema, preserve_index=False)
        pq.write_table(table, place / f"part{i}.parquet", row_group_size=300)
        with pa.ipc.new_file(str(place / f"part{i}.arrow"), ARROW.schema) as writer:
            writer.write_table(table)
    FRAME[:1700].to_csv(place / "part0.csv", index=False)
    FRAME[1700:].to_csv(place / "part1.csv", index=False)
    return place


QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # Java that need not become fast


@pytest.fixture(scope="session")
def spark():
    pyspark = pytest.importorskip("pyspark")
    try:
        subprocess.run(["java", "-version"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("Spark needs Java, and there is none on this machine")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        pyspark.sql.SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "3")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", QUICK_JAVA)
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "400")
        .getOrCreate()
    )
    yield session
    session.stop()


def spark_frame(session, table: pa.Table, parts: int):
    """Rows in so many partitions; one more of them is empty."""
    frame = session.createDataFrame(table)
    empty = session.createDataFrame(table[:0], schema=frame.schema)
    return frame.repartition(parts).union(empty)


def dask_frame(frame: pd.DataFrame):
    import dask.dataframe as dd

    whole = dd.from_pandas(frame.reset_index(drop=True), npartitions=3)
    return dd.concat([whole, whole[whole["a"] > 99]])  # the second half is empty


ENGINES = {
    "dict": lambda _: {c: FRAME[c].to_numpy() for c in FRAME},
    "arrow table": lambda _: ARROW,
    "polars": lambda _: pl.from_arrow(ARROW),
    "polars lazy": lambda _: pl.from_arrow(ARROW).lazy(),
    "polars scan": lambda f: pl.scan_parquet(f / "*.parquet"),
    "dataset": lambda f: ds.dataset(sorted(str(p) for p in f.glob("*.parquet"))),
    "reader": lambda _: ARROW.to_reader(400),
    "stream": lambda _: Streamed(ARROW),
    "duckdb": lambda f: duckdb.sql(f"select * from '{f}/*.parquet'"),
    "parquet": lambda f: f / "*.parquet",
    "paths": lambda f: [str(p) for p in sorted(f.glob("*.arrow"))],
    "csv": lambda f: str(f / "*.csv"),
    "list of frames": lambda _: PARTS,
    "list of dicts": lambda _: [{c: p[c].to_numpy() for c in p} for p in PARTS],
    "function": lambda _: lambda: (pl.from_pandas(part) for part in PARTS),
    "generator": lambda _: (part for part in PARTS),
    "batches": lambda _: iter(ARROW.to_batches(500)),
    "shuffled frames": lambda _: [SHUFFLED[2000:], SHUFFLED[:100], SHUFFLED[100:2000]],
    "dask": lambda _: dask_frame(FRAME),
    "shuffled dask": lambda _: dask_frame(SHUFFLED),
}


def make_engine(kind, folder, request):
    if kind == "spark":
        return spark_frame(request.getfixturevalue("spark"), ARROW, 3)
    return ENGINES[kind](folder)


def new_model(learner=None):
    return lt.LatentModel(GRAPH, LATENTS, learner=learner or lt.PBP(refine=False))


def assert_same(found, expected, probe=FRAME):
    """Counts exactly, operators to 1e-10, posteriors to 1e-9."""
    assert found.columns_ == expected.columns_
    if expected.moments_ is not None:
        assert found.moments_.weight == expected.moments_.weight
        for name, total in expected.moments_.sums.items():
            np.testing.assert_array_equal(found.moments_.sums[name], total)
    for k, tensor in expected.operators_.tensors.items():
        np.testing.assert_allclose(found.operators_.tensors[k], tensor, rtol=0, atol=1e-10)
    for mine, other in zip(found.operators_.leaves, expected.operators_.leaves, strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-10)
    for name in NAMES:
        np.testing.assert_allclose(
            found.predict_proba(probe[:200], target=name).to_numpy(),
            expected.predict_proba(probe[:200], target=name).to_numpy(),
            rtol=0,
            atol=1e-9,
        )
    for name, share in expected.diagnostics_.missing.items():
        assert found.diagnostics_.missing[name] == pytest.approx(share, abs=1e-12)


IGNORED = "ignore:1 column.s. that the graph does not name:latentia.errors.ColumnWarning"
pytestmark = [
    pytest.mark.filterwarnings(IGNORED),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]
BRIEF_EM = {"restarts": 2, "max_iter": 5, "random_state": 0}
LEARNERS = {
    "pbp": lambda: lt.PBP(refine=False),
    "auto": lambda: lt.PBP(),
    "exact": lambda: lt.PBP(regularize=False),
    "refined": lambda: lt.PBP(refine=True),
    "paper": lambda: lt.PBP.paper(),
    "spectral": lambda: lt.Spectral(),
    "em": lambda: lt.EM(**BRIEF_EM),
}
IN_MEMORY: dict[tuple[str, bool], lt.LatentModel] = {}


def in_memory(learner: str, weighted: bool) -> lt.LatentModel:
    key = (learner, weighted)
    if key not in IN_MEMORY:
        weight = FRAME["w"].to_numpy() if weighted else None
        IN_MEMORY[key] = new_model(LEARNERS[learner]()).fit(FRAME, sample_weight=weight)
    return IN_MEMORY[key]


@pytest.mark.filterwarnings("ignore::latentia.errors.ConvergenceWarning")
class TestSameModel:
    """Every engine, two or more partitions, empty and shuffled ones: the model of the table."""

    @pytest.fixture(autouse=True)
    def stay(self, monkeypatch):
        """Small tables would be fetched from workers; here they stay where they are."""
        monkeypatch.setattr(table_rows, "FETCHED_BYTES", 0)

    @pytest.mark.parametrize("kind", [*ENGINES, "spark"])
    def test_closed_form(self, kind, folder, request):
        found = new_model().fit(make_engine(kind, folder, request))
        assert_same(found, in_memory("pbp", False))

    @pytest.mark.parametrize("kind", ["polars lazy", "parquet", "list of frames", "dask", "spark"])
    def test_weights_by_name(self, kind, folder, request):
        found = new_model().fit(make_engine(kind, folder, request), sample_weight="w")
        assert_same(found, in_memory("pbp", True))

    def test_weights_by_name_in_memory(self):
        assert_same(new_model().fit(FRAME, sample_weight="w"), in_memory("pbp", True))

    @pytest.mark.parametrize("learner", [name for name in LEARNERS if name != "pbp"])
    @pytest.mark.parametrize("kind", ["parquet", "shuffled dask", "spark"])
    def test_learners(self, kind, learner, folder, request):
        if kind == "spark" and learner in ("auto", "refined", "em"):
            pytest.skip("a fold on Spark takes a second; see test_em_on_spark")
        found = new_model(LEARNERS[learner]()).fit(make_engine(kind, folder, request))
        assert_same(found, in_memory(learner, False))

    def test_small_tables_are_fetched_from_spark(self, spark, monkeypatch):
        """Their codes come to the driver, so that the tables climb along the same path."""
        monkeypatch.setattr(table_rows, "FETCHED_BYTES", 2**20)
        learner = lt.Tables(random_state=0)
        expected = new_model(learner).fit(FRAME)
        found = new_model(learner).fit(spark_frame(spark, ARROW, 2))
        for v, table in expected.operators_.tables.items():
            np.testing.assert_allclose(found.operators_.tables[v], table, rtol=0, atol=1e-9)

    def test_em_on_spark(self, spark):
        learner = lt.EM(restarts=1, max_iter=2, random_state=0)
        expected = new_model(learner).fit(FRAME)
        assert_same(new_model(learner).fit(spark_frame(spark, ARROW, 2)), expected)

    def test_many_partitions_on_spark(self, spark, monkeypatch):
        monkeypatch.setattr("latentia.data.sources.spark.BRANCHES", 2)  # sums added on the workers
        assert_same(new_model().fit(spark_frame(spark, ARROW, 5)), in_memory("pbp", False))

    @pytest.mark.parametrize("kind", ["parquet", "generator", "dask", "spark"])
    def test_numbers_of_states_from_the_data(self, kind, folder, request):
        learner = lt.PBP(refine=False)
        expected = lt.LatentModel(GRAPH, list(LATENTS), learner=learner).fit(FRAME)
        found = lt.LatentModel(GRAPH, list(LATENTS), learner=learner)
        found.fit(make_engine(kind, folder, request))
        assert found.states_ == expected.states_
        assert_same(found, expected)

    def test_columns_that_tell_nothing(self):
        rng = np.random.default_rng(6)
        frame = pd.DataFrame({name: rng.integers(3, size=2000) for name in NAMES})
        model = lt.LatentModel(GRAPH, LATENTS)
        with pytest.warns(IndependenceWarning, match="tell nothing of each other") as seen:
            model.fit([frame[:1000], frame[1000:]])
        assert seen[0].filename == __file__

    @pytest.mark.parametrize("kind", ["parquet", "generator", "dask"])
    def test_latent_class_by_default(self, kind, folder, request):
        frame = make_engine(kind, folder, request)
        found = lt.LatentModel("class").fit(frame, sample_weight="w")
        expected = lt.LatentModel("class").fit(FRAME, sample_weight="w")
        assert found.plan_ == expected.plan_
        assert_same(found, expected)


class TestAnswers:
    """Answers come back as the kind of table that the questions came in."""

    KINDS: ClassVar = {
        "polars lazy": pl.LazyFrame,
        "polars scan": pl.LazyFrame,
        "dataset": pa.RecordBatchReader,
        "reader": pa.RecordBatchReader,
        "duckdb": duckdb.DuckDBPyRelation,
        "parquet": pa.RecordBatchReader,
        "csv": pa.RecordBatchReader,
        "list of frames": list,
        "dask": None,
        "spark": None,
    }

    @staticmethod
    def collect(found) -> pd.DataFrame:
        """As one pandas frame."""
        if isinstance(found, pl.LazyFrame):
            return found.collect().to_pandas()
        if isinstance(found, pa.RecordBatchReader):
            return found.read_all().to_pandas()
        if isinstance(found, duckdb.DuckDBPyRelation):
            return found.df()
        if isinstance(found, list):
            return pd.concat(found, ignore_index=True)
        if hasattr(found, "compute"):
            return pd.DataFrame(found.compute())
        return pd.DataFrame([row.asDict() for row in found.collect()], columns=found.columns)

    @pytest.mark.parametrize("kind", KINDS)
    def test_all_questions(self, kind, folder, request):
        model = in_memory("pbp", False)

        def ask(question, **more):
            found = question(make_engine(kind, folder, request), **more)
            assert self.KINDS[kind] is None or isinstance(found, self.KINDS[kind])
            return self.collect(found)

        def agree(found, expected):
            mine, other = np.asarray(found), np.asarray(expected)
            if kind == "spark":  # its rows come in another order
                mine, other = (x[np.lexsort(x.T)] for x in (mine, other))
            np.testing.assert_allclose(mine, other, rtol=0, atol=1e-9)

        found = ask(model.predict_proba, target="b")
        assert list(found.columns) == STATES["b"]
        agree(found, model.predict_proba(FRAME, target="b"))
        found = ask(model.predict_proba)
        assert "d=20" in found.columns
        agree(found, model.predict_proba(FRAME))
        agree(ask(model.score_samples), model.score_samples(FRAME)[:, None])
        found = ask(model.predict, target="d")
        agree(found, np.asarray(model.predict(FRAME, target="d"))[:, None])
        assert model.score(make_engine(kind, folder, request)) == pytest.approx(
            model.score(FRAME), abs=1e-12
        )

    @pytest.mark.parametrize("kind", ["polars lazy", "duckdb", "dask", "list of frames"])
    def test_marginals(self, kind, folder, request):
        model = in_memory("pbp", False)
        found = model.marginals(make_engine(kind, folder, request))
        expected = model.marginals(FRAME)
        assert found.keys() == expected.keys()
        mine = self.collect(found["c"]).to_numpy(float)
        np.testing.assert_allclose(mine, expected["c"].to_numpy(), rtol=0, atol=1e-9)

    def test_marginals_of_a_reader(self):
        with pytest.raises(lt.errors.DataError, match="only once"):
            in_memory("pbp", False).marginals(ARROW.to_reader())

    def test_generators_give_generators(self):
        model = in_memory("pbp", False)
        found = model.predict_proba((part for part in PARTS), target="b")
        first = next(found)
        assert isinstance(first, pd.DataFrame)
        assert len(first) == 1000

    def test_weighted_score(self, folder):
        model = in_memory("pbp", False)
        expected = model.score(FRAME, sample_weight=FRAME["w"].to_numpy())
        found = model.score(folder / "*.parquet", sample_weight="w")
        assert found == pytest.approx(expected, abs=1e-12)


class TestContinuous:
    """Columns of numbers: a grid from a sample of the cells, the same learning on every engine."""

    GRAPH = "H->x; H->y; H->z; H->k"

    @staticmethod
    def rows(n, seed=0):
        rng = np.random.default_rng(seed)
        h = rng.integers(2, size=n)
        frame = pd.DataFrame({c: rng.normal(2.0 * h - 1.0) for c in "xyz"})
        frame["k"] = np.where(rng.random(n) < 0.8, h, 1 - h)
        return frame.mask(rng.random(frame.shape) < 0.05)

    def test_small_tables_agree(self, tmp_path):
        """All cells are in the sample: the very grid of the table in memory."""
        frame = self.rows(600)
        parts = [frame[:250], frame[250:]]
        learner = lt.PBP(random_state=0)
        one = lt.LatentModel(self.GRAPH, {"H": 2}, learner=learner).fit(parts)
        two = lt.LatentModel(self.GRAPH, {"H": 2}, learner=learner).fit(frame)
        for mine, other in zip(one.columns_, two.columns_, strict=True):
            assert type(mine) is type(other)
        np.testing.assert_allclose(one.columns_[0].low, two.columns_[0].low, atol=1e-9)
        assert one.score(frame) == pytest.approx(two.score(frame), abs=0.05)
        means = pd.concat(one.predict(parts, target="x"), ignore_index=True)["x"]
        assert np.abs(means - two.predict(frame, target="x")).mean() < 0.1
        spread = one.marginals(parts)["x"]
        assert list(spread[0].columns) == ["mean", "0.05", "0.5", "0.95"]

    @pytest.mark.parametrize("learner", ["pbp", "em"])
    def test_large_tables_come_close(self, learner, tmp_path):
        frame = self.rows(30_000)
        frame.to_parquet(tmp_path / "rows.parquet", row_group_size=4000)
        how = lt.EM(restarts=1, max_iter=20, random_state=0) if learner == "em" else lt.PBP()
        one, two = (
            lt.LatentModel(self.GRAPH, {"H": 2}, learner=how).fit(rows)
            for rows in (tmp_path / "rows.parquet", frame)
        )
        assert one.diagnostics_.weight == 30_000
        probe = self.rows(2000, seed=1)
        assert one.score(probe) == pytest.approx(two.score(probe), abs=0.03)
        assert one.score(probe) == pytest.approx(one.score([probe]), abs=1e-9)

    def test_named_kinds(self):
        frame = self.rows(500).round(1)
        named = lt.LatentModel(self.GRAPH, {"H": 2}, kinds=dict.fromkeys("xyz", "discrete"))
        one, two = named.fit([frame[:300], frame[300:]]).columns_, named.fit(frame).columns_
        assert one == two

    def test_what_cannot_be(self):
        model = lt.LatentModel(self.GRAPH, {"H": 2})
        with pytest.raises(lt.errors.DataError, match="discrete columns only"):
            model.partial_fit(self.rows(300))
