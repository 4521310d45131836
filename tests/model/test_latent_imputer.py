"""LatentImputer: scikit-learn's checks, and what is filled in against the joint distribution."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import latentia as lt
from latentia.errors import DataError, UnknownNameError

BEST = lt.LatentImputer()
DRAWN = lt.LatentImputer("class", strategy="draw", random_state=0)


@pytest.mark.filterwarnings("ignore::UserWarning")  # of tables made to be odd
@pytest.mark.usefixtures("quick_fits")  # the checks ask nothing of which structure is found
@parametrize_with_checks([BEST, DRAWN])
def test_contract(estimator, check):
    check(estimator)


def survey(n=3000, seed=0):
    """Two hidden classes, four columns; x0 and x1 are missing together in every tenth row."""
    rng = np.random.default_rng(seed)
    member = rng.integers(2, size=n)
    frame = pd.DataFrame(
        {f"x{i}": np.where(rng.random(n) < 0.85, member, 1 - member) for i in range(4)}
    ).astype(float)
    holes = frame.copy()
    holes.loc[::10, ["x0", "x1"]] = np.nan
    return frame, holes


GRAPH = "; ".join(f"class->x{i}" for i in range(4))


def test_best_is_what_predict_fills():
    _, holes = survey()
    imputer = lt.LatentImputer(GRAPH, {"class": 2}, learner="tables").fit(holes)
    filled = imputer.transform(holes)
    expected = lt.LatentModel(GRAPH, {"class": 2}, learner="tables").fit(holes).predict(holes)
    pd.testing.assert_frame_equal(filled[list(expected)], expected, check_dtype=False)
    assert list(filled) == list(holes)
    assert not filled.isna().any().any()


def test_draws_have_the_joint_distribution():
    """Cells that are missing together agree as often as the model says, not as if independent."""
    _, holes = survey()
    imputer = lt.LatentImputer(GRAPH, {"class": 2}, learner="tables", random_state=1).fit(holes)
    model, gone = imputer.model_, holes["x0"].isna()
    known = holes.loc[gone, ["x2", "x3"]].drop_duplicates().to_dict("records")
    drawn = imputer.draws(holes, 30)
    for evidence in known:
        same = gone & (holes["x2"] == evidence["x2"]) & (holes["x3"] == evidence["x3"])
        joint = model.query(["x0", "x1"], evidence).table
        pairs = pd.concat([d.loc[same, ["x0", "x1"]] for d in drawn])
        shares = [
            [((pairs["x0"] == a) & (pairs["x1"] == b)).mean() for b in (0, 1)] for a in (0, 1)
        ]
        error = np.sqrt(joint * (1 - joint) / len(pairs))  # of independent draws
        assert np.all(np.abs(np.array(shares) - joint) < 4 * error + 1e-9)
    there = holes.notna()
    assert all(d[there].equals(holes[there]) for d in drawn)
    assert not drawn[0].equals(drawn[1])


@pytest.mark.filterwarnings("ignore::latentia.errors.LeftOutWarning")
def test_continuous_draws_have_mean_and_spread():
    rng = np.random.default_rng(0)
    x = rng.normal(size=4000)
    frame = pd.DataFrame({"a": x, "b": x + rng.normal(size=4000), "c": rng.normal(size=4000) - x})
    holes = frame.copy()
    holes.loc[::2, "b"] = np.nan
    imputer = lt.LatentImputer(random_state=0).fit(holes)
    drawn, best = imputer.draws(holes, 1)[0], imputer.transform(holes)
    gone = holes["b"].isna()
    residual = frame["b"][gone] - best["b"][gone]
    spread = drawn["b"][gone] - best["b"][gone]
    assert abs(spread.mean()) < 4 * residual.std() / np.sqrt(2000)
    assert 0.85 < spread.std() / residual.std() < 1.15  # the posterior is a mixture, not a bell


@pytest.mark.usefixtures("quick_fits")
def test_a_step_of_a_pipeline():
    frame, holes = survey()
    y = (frame.sum(axis=1) > 2).astype(int)
    model = make_pipeline(lt.LatentImputer(), LogisticRegression()).fit(holes, y)
    assert model.score(holes, y) > 0.9
    both = ColumnTransformer([("fill", lt.LatentImputer(), ["x0", "x1", "x2"])], remainder="drop")
    both.set_output(transform="pandas")
    found = both.fit_transform(holes)
    assert list(found) == ["fill__x0", "fill__x1", "fill__x2"]
    assert not found.isna().any().any()


def test_other_columns_pass_through():
    _, holes = survey(500)
    holes["note"] = "as it is"
    with pytest.warns(UserWarning, match="note"):
        filled = lt.LatentImputer(GRAPH, {"class": 2}).fit(holes).transform(holes)
    assert (filled["note"] == "as it is").all()


def test_errors_say_what_to_do(tmp_path):
    _, holes = survey(300)
    with pytest.raises(UnknownNameError, match="strategy"):
        lt.LatentImputer(strategy="mean").fit(holes)
    imputer = lt.LatentImputer(GRAPH, {"class": 2}).fit(holes)
    with pytest.raises(DataError, match="positive whole number"):
        imputer.draws(holes, 0)
    holes.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(DataError, match="tables in memory"):
        imputer.transform(str(tmp_path / "rows.parquet"))
