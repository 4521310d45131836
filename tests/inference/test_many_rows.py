"""Batches of questions: equal rows asked once, single precision; the same answers."""

import numpy as np
import pandas as pd
import pytest

import latentia as lt
from latentia.data.sources.table import read_table
from latentia.inference import many_rows as batch

GRAPH, LATENTS = "H1->H2; H1->a; H1->b; H2->c; H2->d", {"H1": 2, "H2": 3}


def make_frame(n, seed=0, states=4, holes=0.1):
    rng = np.random.default_rng(seed)
    h = rng.integers(2, size=n)
    cells = {c: np.where(rng.random(n) < 0.7, h, rng.integers(states, size=n)) for c in "abcd"}
    return pd.DataFrame(cells).astype("Int64").mask(rng.random((n, 4)) < holes)


FRAME = make_frame(5000)
MODEL = lt.LatentModel(GRAPH, LATENTS).fit(FRAME)
LONG = lt.templates.hidden_markov(24, 3, [f"x{i}" for i in range(24)])


def one_by_one(monkeypatch):
    monkeypatch.setattr(batch, "distinct", lambda *_: None)


@pytest.mark.parametrize("rows", [1, 2, 100, 1500, 5000])
def test_equal_rows_are_asked_once(rows, monkeypatch):
    """From a table of kinds (many rows) or by sorting (fewer): as if each were asked."""
    probe = FRAME[:rows]
    quick = (
        MODEL.predict_proba(probe).to_numpy(),
        MODEL.predict_proba(probe, target="c").to_numpy(),
        MODEL.score_samples(probe),
    )
    one_by_one(monkeypatch)
    slow = (
        MODEL.predict_proba(probe).to_numpy(),
        MODEL.predict_proba(probe, target="c").to_numpy(),
        MODEL.score_samples(probe),
    )
    for mine, other in zip(quick, slow, strict=True):
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-13)


def test_it_does_so_where_it_pays():
    asked = batch.read_asked(MODEL.columns_, read_table(FRAME))
    assert asked.rows == len(FRAME.drop_duplicates())
    different = pd.DataFrame({c: np.arange(4000) % 4 for c in "abcd"})
    assert batch.read_asked(MODEL.columns_, read_table(different)).rows == 4
    wide = make_frame(300, states=4, holes=0)
    assert batch.read_asked(MODEL.columns_, read_table(wide[:20])).rows <= 20


def test_sorting_where_kinds_are_many():
    codes = [np.repeat(np.arange(50, dtype=np.int8), 20) for _ in range(5)]
    first, place = batch.distinct(codes, [100] * 5, 1000)
    assert len(first) == 50
    np.testing.assert_array_equal(codes[0][first][place], codes[0])
    rng = np.random.default_rng(0)
    codes = [rng.integers(100, size=1000).astype(np.int8) for _ in range(5)]
    assert batch.distinct(codes, [101] * 5, 1000) is None


def test_no_column_is_observed():
    found = MODEL.predict_proba(FRAME[["a"]], target="a").to_numpy()
    np.testing.assert_allclose(found, np.broadcast_to(found[0], found.shape))


def test_single_precision():
    probe = make_frame(3000, seed=1)
    exact = MODEL.predict_proba(probe, target="a").to_numpy()
    found = MODEL.predict_proba(probe, target="a", dtype="float32")
    assert (found.dtypes == np.float32).all()
    assert np.abs(found.to_numpy() - exact).max() < 1e-5
    each = MODEL.marginals(probe, dtype=np.float32)["b"].to_numpy()
    assert np.abs(each - MODEL.marginals(probe)["b"].to_numpy()).max() < 1e-5


def test_single_precision_of_a_long_chain():
    """Messages are rescaled, so that many columns do not underflow in single precision."""
    rng = np.random.default_rng(0)
    h = (rng.random((2000, 24)) < 0.1).cumsum(axis=1) % 3
    cells = np.where(rng.random(h.shape) < 0.8, h, rng.integers(3, size=h.shape))
    frame = pd.DataFrame(cells, columns=[f"x{i}" for i in range(24)])
    model = lt.LatentModel(LONG).fit(frame)
    exact = model.predict_proba(frame, target="x12").to_numpy()
    found = model.predict_proba(frame, target="x12", dtype="float32").to_numpy()
    assert np.abs(found - exact).max() < 1e-4


def test_single_precision_on_engines(tmp_path):
    FRAME.to_parquet(tmp_path / "rows.parquet")
    reader = MODEL.predict_proba(tmp_path / "rows.parquet", "a", dtype="float32")
    gap = reader.read_all().to_pandas().to_numpy() - MODEL.predict_proba(FRAME, "a").to_numpy()
    assert np.abs(gap).max() < 1e-5
    exact = pd.concat(MODEL.predict_proba([FRAME[:700], FRAME[700:900]], target="a"))
    found = pd.concat(MODEL.predict_proba([FRAME[:700], FRAME[700:900]], "a", dtype="float32"))
    assert np.abs(found.to_numpy() - exact.to_numpy()).max() < 1e-5


def test_other_precisions_are_refused():
    with pytest.raises(lt.errors.DataError, match="float64 or float32"):
        MODEL.predict_proba(FRAME, target="a", dtype="int8")
