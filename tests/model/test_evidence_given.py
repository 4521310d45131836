"""Evidence as people have it: dicts, rows of their table, cells that are missing; and no rows."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import latentia as lt
from latentia.errors import EvidenceError


@pytest.fixture(scope="module")
def frame():
    rng, n = np.random.default_rng(0), 400
    h = rng.integers(2, size=n)
    flip = rng.random((3, n)) < 0.15
    return pd.DataFrame(
        {
            "sick": np.array(["no", "yes"])[h ^ flip[0]],
            "count": h ^ flip[1],
            "old": (h ^ flip[2]).astype(bool),
            "height": 2.0 * h + rng.normal(size=n),
        }
    )


@pytest.fixture(scope="module", params=["pbp", "em", "tables"])
def model(request, frame):
    graph = "H -> sick, count, old, height"
    return lt.LatentModel(graph, {"H": 2}, learner=request.param).fit(frame)


@pytest.fixture(scope="module")
def said():
    return {"sick": "yes", "count": 1, "old": True}


def test_a_row_of_the_table(model, frame, said):
    wanted = np.asarray(model.query("H", said))
    row = pd.Series({**said, "height": np.nan, "remark": "of no model"})
    np.testing.assert_array_equal(model.query("H", row), wanted)
    one = frame.iloc[:1].assign(**said).drop(columns="height")
    np.testing.assert_array_equal(model.query("H", one), wanted)
    np.testing.assert_array_equal(model.query("H", pl.from_pandas(one)), wanted)
    first = frame.iloc[0]
    np.testing.assert_array_equal(model.query("H", first), model.query("H", first.to_dict()))
    assert model.map_query(["H"], row) == model.map_query(["H"], said)


@pytest.mark.parametrize("nothing", [None, np.nan, np.float32("nan"), pd.NA, pd.NaT])
def test_a_missing_cell_says_nothing(model, said, nothing):
    wanted = np.asarray(model.query("H", {"sick": "yes"}))
    found = model.query("H", {"sick": "yes", "count": nothing, "height": nothing})
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("odd", ["sick=yes", ["sick"], 3, {"sick"}])
def test_what_is_no_evidence_is_told_what_is(model, odd):
    with pytest.raises(EvidenceError, match=r"expected evidence as \{variable: state\}"):
        model.query("H", odd)


def test_likelihoods_among_states_are_shown_their_place(model):
    with pytest.raises(EvidenceError, match=r"pass soft=\{'sick': \{'no': 0.2, 'yes': 0.8\}\}"):
        model.query("H", {"sick": {"no": 0.2, "yes": 0.8}})


def test_several_rows_are_not_one(model, frame):
    with pytest.raises(EvidenceError, match="expected one row as evidence, got 3 rows"):
        model.query("H", frame.iloc[:3])


def test_no_rows_have_no_answers_and_no_error(model, frame):
    none = frame.iloc[:0]
    assert model.transform(none).shape == (0, 2)
    assert model.predict_latent(none, "H").shape == (0, 2)
    assert model.predict_proba(none, "H").shape == (0, 2)
    assert model.predict(none).shape == (0, 4)
    assert model.score_samples(none).shape == (0,)


def test_effects_and_sensitivities_take_rows_too():
    rng = np.random.default_rng(1)
    ill = rng.integers(2, size=500)
    drug = ill ^ (rng.random(500) < 0.3)
    well = drug ^ (rng.random(500) < 0.3)
    data = pd.DataFrame({"ill": ill, "drug": drug.astype(int), "well": well.astype(int)})
    model = lt.LatentModel("ill -> drug, well; drug -> well", learner="tables").fit(data)
    row = pd.Series({"ill": 1, "drug": None})
    told = model.effect("drug", "well", row).table
    np.testing.assert_array_equal(told, model.effect("drug", "well", {"ill": 1}).table)
    one, other = model.sensitivity("well", row), model.sensitivity("well", {"ill": 1})
    assert one == other
