"""Answers that are drawn, asked of a model, against exact ones."""

import numpy as np
import pandas as pd
import pytest

import latentia as lt
from latentia.errors import EvidenceError, PlanError
from latentia.exact import active_tree, answer_wiring, estep_wiring, sampled_answers

GRID = "a->b; b->c; d->e; e->f; g->h; h->i; a->d; b->e; c->f; d->g; e->h; f->i; e->x; L->a; L->i"


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({x: rng.integers(0, 3, 800) for x in "abcdefghix"})
    frame["i"] = np.where(rng.random(800) < 0.6, frame["e"], frame["i"])
    frame["c"] = np.where(rng.random(800) < 0.6, frame["a"], frame["c"])
    return frame


@pytest.fixture
def model(rows):
    return lt.LatentModel(GRID, latents={"L": 2}, learner=lt.Tables(random_state=0)).fit(rows)


@pytest.fixture
def narrow_only(monkeypatch):
    def refuse():
        monkeypatch.setattr(active_tree, "LARGEST_CLIQUE", 3**3)
        monkeypatch.setattr(sampled_answers, "NARROW", 3**2)
        _clear()

    yield refuse
    _clear()


def _clear():
    estep_wiring._compiled.cache_clear()
    answer_wiring._wire.cache_clear()


def test_queries_have_a_standard_error(model, narrow_only):
    exact = model.query("i", {"x": 1})
    pair = model.query(["L", "i"], {"x": 1})
    same = model.query("i", {"x": 1}, approximate=True)
    np.testing.assert_allclose(same.table, exact.table, atol=1e-12)
    assert not same.standard_error.any()
    assert exact.standard_error is None
    narrow_only()
    with pytest.raises(PlanError, match="approximate=True"):
        model.query("i", {"x": 1})
    drawn = model.query("i", {"x": 1}, approximate=True)
    assert (drawn.standard_error > 0).all()
    assert (np.abs(drawn.table - exact.table) < 5 * drawn.standard_error).all()
    both = model.query(["L", "i"], {"x": 1}, approximate=True)
    assert (np.abs(both.table - pair.table) < 5 * both.standard_error + 1e-12).all()
    # the mean of 512 weights, none of which is far from the others
    assert drawn.log_evidence == pytest.approx(exact.log_evidence, abs=0.5)


def test_rows_have_standard_errors_as_the_frame_came(model, rows, narrow_only):
    some = rows.iloc[:5].astype("Float64")
    some.loc[:, list("bcdefgh")] = pd.NA
    exact = model.predict_proba(some, "i")
    latent = model.predict_proba(some, "L")
    narrow_only()
    proba, error = model.predict_proba(some, "i", approximate=True)
    assert list(proba.columns) == list(exact.columns)
    assert (np.abs(proba - exact) <= 5 * error + 1e-12).all(axis=None)
    proba, error = model.predict_proba(some, "L", approximate=True)
    assert (np.abs(proba - latent) <= 5 * error + 1e-12).all(axis=None)


def test_models_without_tables_say_so(rows):
    closed = lt.LatentModel("L->a; L->b; L->c", latents={"L": 2}, learner=lt.PBP(refine=False))
    closed.fit(rows[list("abc")])
    with pytest.raises(EvidenceError, match="own tables"):
        closed.query("a", approximate=True)


def test_one_target_at_a_time(model, rows):
    with pytest.raises(EvidenceError, match="Name the target"):
        model.predict_proba(rows[:2], approximate=True)


def test_drawn_answers_stand_alone(model, rows):
    for other in ({"do": {"x": 1}}, {"confidence": 0.9}):
        with pytest.raises(EvidenceError, match="two questions"):
            model.query("i", approximate=True, **other)
        with pytest.raises(EvidenceError, match="two questions"):
            model.predict_proba(rows[:2], "i", approximate=True, **other)
