"""Models of StepMix, read by their parameters: scores and memberships are theirs."""

import numpy as np
import pandas as pd
import pytest

import latentia as lt
from latentia.errors import DataError, GraphError

stepmix = pytest.importorskip("stepmix.stepmix", reason="needs stepmix")
pytestmark = pytest.mark.filterwarnings("ignore")
QUIET = {"progress_bar": 0, "verbose": 0, "random_state": 0}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=400)
    table = {c: np.where(rng.random(400) < 0.8, h, 1 - h) for c in "ab"}
    return pd.DataFrame({**table, "c": (h + rng.integers(2, size=400)) % 3})


def check_same(mixture, rows, model):
    # rows that are learned from are scored alike but for 1e-15 in columns with fewer outcomes
    assert model.log_evidence(rows).mean() == pytest.approx(mixture.score(rows), abs=1e-9)
    found = model.posteriors(rows, ["class"])["class"]
    np.testing.assert_allclose(found, mixture.predict_proba(rows), atol=1e-9)


def test_binary(rows):
    table = rows[["a", "b"]].assign(d=rows["c"] > 0).astype(int)
    mixture = stepmix.StepMix(n_components=2, measurement="binary", **QUIET).fit(table)
    model = lt.from_stepmix(mixture)
    check_same(mixture, table, model)
    assert str(model.graph) == "(class[2])->a[2]; (class[2])->b[2]; (class[2])->d[2]"


@pytest.mark.parametrize("kind", ["categorical", "categorical_nan"])
def test_categorical_with_different_numbers_of_states(rows, kind):
    mixture = stepmix.StepMix(n_components=3, measurement=kind, **QUIET).fit(rows)
    model = lt.from_stepmix(mixture)
    check_same(mixture, rows, model)
    assert model.states == (3, 2, 2, 3)


def test_a_mixture_of_kinds_and_a_structural_part(rows):
    kinds = {
        "one": {"model": "binary", "n_columns": 2},
        "two": {"model": "categorical", "n_columns": 1},
    }
    mixture = stepmix.StepMix(n_components=2, measurement=kinds, **QUIET).fit(rows)
    check_same(mixture, rows, lt.from_stepmix(mixture))
    outcome = rows[["c"]]
    both = stepmix.StepMix(
        n_components=2, measurement="binary", structural="categorical", n_steps=1, **QUIET
    ).fit(rows[["a", "b"]], outcome)
    found = lt.from_stepmix(both, latent="kind")
    score = both.score(rows[["a", "b"]], outcome)
    assert found.log_evidence(rows).mean() == pytest.approx(score, abs=1e-9)


def test_what_has_no_tables_is_refused(rows):
    mixture = stepmix.StepMix(n_components=2, measurement="continuous", **QUIET).fit(rows)
    with pytest.raises(DataError, match="binary or categorical"):
        lt.from_stepmix(mixture)
    with pytest.raises(DataError, match="fitted"):
        lt.from_stepmix(stepmix.StepMix(n_components=2))
    with pytest.raises(GraphError, match="StepMix"):
        lt.from_stepmix({"weights": [1.0]})
    fitted = stepmix.StepMix(n_components=2, measurement="categorical", **QUIET).fit(rows)
    with pytest.raises(GraphError, match="latent="):
        lt.from_stepmix(fitted, latent="a")
