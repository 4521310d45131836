"""Cells that are missing for a reason that is named: indicator columns, on every table."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

import latentia as lt
from latentia.errors import DataError, GraphError, HolesWarning, NotLearnedError, UnknownNameError

GRAPH = "h->income; h->a; h->b; h->c"
LEARNER = lt.EM(restarts=2, random_state=0)
STATES = {"income": [0, 1, 2], "a": [0, 1, 2], "b": [0, 1, 2], "c": [0, 1, 2]}


@pytest.fixture(scope="module")
def world():
    """Income, and three columns of the same class; high incomes are not told."""
    rng = np.random.default_rng(0)
    n = 8000
    h = rng.integers(3, size=n)

    def told():
        return np.where(rng.random(n) < 0.85, h, rng.integers(3, size=n)).astype(float)

    table = pd.DataFrame({name: told() for name in STATES})
    income = table["income"].to_numpy().copy()
    table.loc[rng.random(n) < np.where(income == 2, 0.6, 0.05), "income"] = np.nan
    return income, table


@pytest.fixture(scope="module")
def model(world):
    own = {"income": ["income"]}
    return lt.LatentModel(GRAPH, {"h": 3}, learner=LEARNER, state_names=STATES, mechanism=own).fit(
        world[1]
    )


def test_it_is_the_model_with_the_column_written_out(world, model):
    _, table = world
    words = np.where(table["income"].isna(), "missing", "present")
    by_hand = lt.LatentModel(
        f"{GRAPH}; income->R_income",
        {"h": 3},
        learner=LEARNER,
        state_names={**STATES, "R_income": ["missing", "present"]},
    )
    with warnings.catch_warnings():  # of holes that its column explains by construction
        warnings.simplefilter("ignore", HolesWarning)
        by_hand.fit(table.assign(R_income=words))
    for name in ("income", "R_income"):
        np.testing.assert_allclose(model.cpts_[name], by_hand.cpts_[name], atol=1e-12)
    np.testing.assert_allclose(
        model.predict_proba(table.head(200), "income"),
        by_hand.predict_proba(table.assign(R_income=words).head(200), "income"),
        atol=1e-12,
    )
    assert model.score(table) == pytest.approx(by_hand.score(table.assign(R_income=words)))


def test_what_is_hidden_is_found_again(world, model):
    income, table = world
    truth = np.bincount(income.astype(int)) / len(income)
    with pytest.warns(HolesWarning, match="holes in income depend on"):
        plain = lt.LatentModel(GRAPH, {"h": 3}, learner=LEARNER, state_names=STATES).fit(table)
    found = np.asarray(model.query("income"))
    assert abs(found - truth).max() < 0.03  # about three errors: a third of the rows tell state 2
    assert abs(np.asarray(plain.query("income")) - truth).max() > 0.05
    hidden = table["income"].isna().to_numpy()
    for each, most in ((model, 0.03), (plain, np.inf)):
        share = each.predict_proba(table[hidden], "income").to_numpy().mean(axis=0)
        off = abs(share - np.bincount(income[hidden].astype(int)) / hidden.sum()).max()
        assert off < most
    assert off > 0.1  # without it


def test_answers_by_name(model):
    told = model.query("R_income", {"income": 2})["missing"]
    assert told == pytest.approx(0.6, abs=0.06)
    shares = [model.query("income", {"a": 1, "R_income": s})[2] for s in ("missing", "present")]
    assert shares[0] > shares[1]


def test_every_table_has_its_indicators(world, model, tmp_path):
    _, table = world
    some = table.head(300)
    expected = np.asarray(model.predict_proba(some, "income"))
    other = pl.from_pandas(some)
    other.write_parquet(tmp_path / "rows.parquet")
    np.testing.assert_allclose(model.predict_proba(other, "income").to_numpy(), expected)
    lazy = model.predict_proba(other.lazy(), "income")
    np.testing.assert_allclose(lazy.collect().to_numpy(), expected)
    np.testing.assert_allclose(np.asarray(model.predict_proba(some.to_numpy(), "income")), expected)
    missing = model.predict_proba(some.drop(columns="income"), "income")
    blank = model.predict_proba(some.assign(income=np.nan), "income")
    np.testing.assert_allclose(missing, blank)
    table.to_parquet(tmp_path / "all.parquet")
    again = clone(model).fit(str(tmp_path / "all.parquet"))
    np.testing.assert_allclose(again.cpts_["R_income"], model.cpts_["R_income"], atol=1e-9)


def test_it_is_kept_in_files_pickles_and_clones(world, model, tmp_path):
    some = world[1].head(20)
    expected = model.predict_proba(some, "income")
    model.save(tmp_path / "m.latentia")
    for again in (lt.load(tmp_path / "m.latentia"), pickle.loads(pickle.dumps(model))):
        assert again.mechanism == {"income": ["income"]}
        pd.testing.assert_frame_equal(again.predict_proba(some, "income"), expected)
    assert clone(model).mechanism == {"income": ["income"]}


def test_columns_and_latents_may_be_parents(world):
    table = world[1]
    told = {"income": ["a", "h"]}
    with warnings.catch_warnings():
        warnings.simplefilter("error", HolesWarning)  # they are explained
        found = lt.LatentModel(
            GRAPH, {"h": 3}, learner=LEARNER, state_names=STATES, mechanism=told
        ).fit(table, error_bars=5)
    assert found.cpts_["R_income"].shape == (3, 3, 2)
    bars = found.query("income", {"a": 1}, confidence=0.9)
    assert (bars.lower <= bars.table).all()


def test_errors(world):
    table = world[1]

    def fit(mechanism, graph=GRAPH, rows=table):
        return lt.LatentModel(graph, {"h": 3}, learner=LEARNER, mechanism=mechanism).fit(rows)

    with pytest.raises(UnknownNameError, match="in mechanism"):
        fit({"wage": ["a"]})
    with pytest.raises(UnknownNameError, match="age"):
        fit({"income": ["age"]})
    with pytest.raises(GraphError, match="a list of what the holes"):
        fit({"income": "a"})
    with pytest.raises(GraphError, match="expected mechanism as"):
        fit(["income"])
    with pytest.raises(GraphError, match="directed"):
        fit({"income": ["a"]}, "h--income; h--a; h--b; h--c")
    with pytest.raises(DataError, match="R_income"):
        fit({"income": ["a"]}, rows=table.assign(R_income=1))
    with pytest.raises(GraphError, match="written down"):
        lt.LatentModel(learner=LEARNER, mechanism={"a": []}).fit(table)
    with pytest.raises(NotLearnedError, match="mechanism"):
        lt.LatentModel(GRAPH, {"h": 3}, mechanism={"income": ["a"]}).partial_fit(table)
