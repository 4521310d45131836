"""Memberships as features; outcomes by three steps, against StepMix and simulation."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import latentia as lt
from latentia.errors import DataError, UnknownNameError

GRAPH = "; ".join(f"class->x{i}" for i in range(6))


def survey(n=800, seed=0, sharp=0.75):
    """Three classes told by six questions, not clearly; a number, and a vote, differ by class."""
    rng = np.random.default_rng(seed)
    member = rng.integers(3, size=n)
    yes = np.where(
        np.array([[1, 1, 0, 0, 1, 0], [0, 1, 1, 0, 0, 1], [0, 0, 0, 1, 1, 1]]), sharp, 1 - sharp
    )
    frame = pd.DataFrame({f"x{i}": (rng.random(n) < yes[member, i]).astype(int) for i in range(6)})
    frame["income"] = rng.normal(
        np.array([1.0, 2.0, 4.0])[member], np.array([1.0, 0.5, 1.5])[member]
    )
    frame["vote"] = np.array(["no", "yes"])[(rng.random(n) < np.array([0.2, 0.5, 0.9])[member]) * 1]
    return frame, member


@pytest.fixture(scope="module")
def fitted():
    frame, _ = survey()
    X = frame.drop(columns=["income", "vote"])
    return lt.LatentModel(GRAPH, {"class": 3}, learner=lt.Tables(smoothing=0)).fit(X), frame


# --- memberships ----------------------------------------------------------------------------------


class ClassOver:
    """A graph for any columns: scikit-learn's checks bring tables of many widths."""

    def __call__(self, names):
        return lt.templates.latent_class(names, 2)

    def __repr__(self):
        return "class"


@parametrize_with_checks([lt.LatentModel(ClassOver(), learner=lt.EM(restarts=2, random_state=0))])
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lt.errors.LatentiaWarning)
        check(estimator)


def test_memberships_are_those_of_predict_latent(fitted):
    model, frame = fitted
    found = model.transform(frame)
    expected = np.asarray(model.predict_latent(frame, "class"))
    np.testing.assert_array_equal(np.asarray(found), expected)
    assert list(model.get_feature_names_out()) == ["class=0", "class=1", "class=2"]


def test_a_step_of_a_pipeline():
    frame, _ = survey()
    X, y = frame.drop(columns=["income", "vote"]), frame["vote"]
    model = lt.LatentModel(GRAPH, {"class": 3}, learner="tables")
    pipeline = make_pipeline(model, LogisticRegression()).fit(X, y)
    assert pipeline.score(X, y) > 0.6
    both = ColumnTransformer([("classes", model, list(X)), ("rest", "passthrough", ["income"])])
    both.set_output(transform="pandas")
    found = both.fit_transform(frame)
    assert list(found) == [f"classes__class={k}" for k in range(3)] + ["rest__income"]
    np.testing.assert_allclose(found.iloc[:, :3].sum(axis=1), 1.0)


def test_who_has_no_tables_does_not_transform():
    assert not hasattr(lt.LatentModel(learner="spectral"), "transform")
    assert hasattr(lt.LatentModel(learner="tables"), "transform")


# --- outcomes -------------------------------------------------------------------------------------


def stepmix_of(X, Y, structural, correction, assignment, classes=3):
    stepmix = pytest.importorskip("stepmix", reason="needs the rival: pip install stepmix")
    rival = stepmix.StepMix(
        classes, measurement="binary", structural=structural, n_steps=3, correction=correction,
        assignment=assignment, n_init=2, abs_tol=1e-12, rel_tol=0, max_iter=5000, random_state=0,
        verbose=0, progress_bar=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return rival.fit(X, Y)


def order(model, rival):
    """Classes of the rival in the order of ours, by what they say of the questions."""
    pis = np.asarray(rival.get_parameters()["measurement"]["pis"])
    ours = np.column_stack([model.cpts_[f"x{i}"][:, 1] for i in range(6)])
    found = np.array([np.abs(pis - row).sum(axis=1).argmin() for row in ours])
    assert sorted(found) == [0, 1, 2]
    return found


@pytest.mark.parametrize("assignment", ["modal", "proportional"])
@pytest.mark.parametrize("correction", ["BCH", "ML", None])
def test_means_equal_stepmix(fitted, correction, assignment):
    """Both rest at the same classes; 2e-3 is what is left of the climbs of both."""
    model, frame = fitted
    soft = "soft" if assignment == "proportional" else "modal"
    X = frame.drop(columns=["income", "vote"])
    # with weights below zero its variances may be, too, and it gives up: means are all we ask for
    shape = "gaussian_unit" if correction == "BCH" else "gaussian_diag"
    rival = stepmix_of(X, frame[["income"]], shape, correction, soft)
    theirs = np.asarray(rival.get_parameters()["structural"]["means"])[order(model, rival), 0]
    found = model.relate("class", frame, ["income"], correction, assignment)["income"]
    np.testing.assert_allclose(found.estimates.values[:, 0], theirs, atol=2e-3)


@pytest.mark.parametrize("correction", ["BCH", "ML"])
def test_shares_equal_stepmix(fitted, correction):
    model, frame = fitted
    X, Y = frame.drop(columns=["income", "vote"]), (frame[["vote"]] == "yes").astype(int)
    rival = stepmix_of(X, Y, "binary", correction, "modal")
    theirs = np.asarray(rival.get_parameters()["structural"]["pis"])[order(model, rival), 0]
    found = model.relate("class", frame, ["vote"], correction)["vote"]
    assert found.states == ("no", "yes")
    np.testing.assert_allclose(found.estimates.values[:, 1], theirs, atol=2e-3)


def test_shares_below_zero_are_told(fitted):
    """What follows the assignment itself is sharper than any class: BCH takes away too much."""
    model, frame = fitted
    first = np.where(np.asarray(model.predict(frame, "class")) == 0, "first", "other")
    found = {c: model.relate("class", frame.assign(o=first), ["o"], c) for c in ("BCH", "ML")}
    assert found["BCH"]["o"].estimates.values.min() < 0
    assert "shares below 0" in repr(found["BCH"])
    assert found["ML"]["o"].estimates.values.min() >= 0
    assert "shares below 0" not in repr(found["ML"])


@pytest.mark.parametrize("correction", ["BCH", "ML"])
def test_corrections_undo_the_blur_and_errors_are_right(correction):
    """Over 40 samples: the mean estimate is the truth, its spread what the errors say."""
    truth, found, errors, plain = np.array([1.0, 2.0, 4.0]), [], [], []
    for seed in range(40):
        frame, _ = survey(600, seed)
        X = frame.drop(columns=["income", "vote"])
        model = lt.LatentModel(GRAPH, {"class": 3}, learner=lt.Tables(random_state=0)).fit(X)
        told = model.relate("class", frame, ["income"], correction)["income"].estimates
        by = np.argsort(told.values[:, 0])
        found.append(told.values[by, 0])
        errors.append(told.errors[by, 0])
        raw = model.relate("class", frame, ["income"], None)["income"].estimates
        plain.append(np.sort(raw.values[:, 0]))
    spread = np.std(found, axis=0) / np.sqrt(40)
    assert np.all(np.abs(np.mean(found, axis=0) - truth) < 4 * spread + 0.1)
    assert np.abs(np.mean(plain, axis=0) - truth).max() > 0.25
    ratio = np.mean(errors, axis=0) / np.std(found, axis=0)
    assert np.all((ratio > 0.4) & (ratio < 1.6))  # the error of the first step is not in them


def test_the_test_tells_differences(fitted):
    model, frame = fitted
    rng = np.random.default_rng(0)
    both = frame.assign(noise=rng.normal(size=len(frame)))
    for correction in ("BCH", "ML"):
        found = model.relate("class", both, ["income", "vote", "noise"], correction)
        assert found["income"].p_value < 1e-6
        assert found["vote"].p_value < 1e-6
        assert found["noise"].p_value > 0.01
        assert found["income"].freedom == 2
    assert "income: mean" in repr(found)
    assert len(found.to_frame()) == 3 * (1 + 2 + 1)


def test_certain_classes_are_group_means():
    """Without errors of assignment all corrections are plain group means, errors those of these."""
    rng = np.random.default_rng(0)
    member = rng.integers(2, size=300)
    X = pd.DataFrame({f"x{i}": member for i in range(4)})
    frame = X.assign(y=rng.normal(2.0 * member))
    graph = "; ".join(f"class->{c}" for c in X)
    model = lt.LatentModel(graph, {"class": 2}, learner=lt.EM(random_state=0)).fit(X)
    state = int(np.asarray(model.predict(X.iloc[[int(member.argmax())]], "class"))[0])
    for correction in ("BCH", "ML", None):
        found = model.relate("class", frame, ["y"], correction)["y"].estimates
        for c, group in ((state, frame["y"][member == 1]), (1 - state, frame["y"][member == 0])):
            assert found.values[c, 0] == pytest.approx(group.mean(), abs=1e-6)
            error = group.std(ddof=0) / np.sqrt(len(group))
            assert found.errors[c, 0] == pytest.approx(error, rel=1e-3)


def test_missing_outcomes_are_left_out(fitted):
    model, frame = fitted
    holes = frame.copy()
    holes.loc[::4, "income"] = np.nan
    found = model.relate("class", holes, ["income"])["income"]
    assert found.rows == int(holes["income"].notna().sum())
    assert np.isfinite(found.estimates.values).all()


def test_errors_say_what_to_do(fitted):
    model, frame = fitted
    with pytest.raises(DataError, match="column of the model"):
        model.relate("class", frame, ["x0"])
    with pytest.raises(UnknownNameError, match="correction"):
        model.relate("class", frame, ["income"], "bch")
    with pytest.raises(UnknownNameError, match="column"):
        model.relate("class", frame, ["height"])


@pytest.mark.parametrize("wanted", ["pandas", "polars"])
@pytest.mark.parametrize("given", ["pandas", "polars", "array", "dict"])
def test_set_output_rules_whatever_comes(wanted, given):
    pl = pytest.importorskip("polars")
    frame = pd.DataFrame({c: np.random.default_rng(ord(c)).integers(2, size=50) for c in "abc"})
    table = {
        "pandas": frame,
        "polars": pl.from_pandas(frame),
        "array": frame.to_numpy(),
        "dict": {c: frame[c].to_numpy() for c in frame},
    }[given]
    model = lt.LatentModel("H->a,b,c", {"H": 2}, learner="tables").fit(frame)
    plain = model.transform(frame)
    found = model.set_output(transform=wanted).transform(table)
    assert type(found) is {"pandas": pd.DataFrame, "polars": pl.DataFrame}[wanted]
    assert list(found.columns) == ["H=0", "H=1"]
    assert np.allclose(np.asarray(found), np.asarray(plain))
