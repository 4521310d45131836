"""Covariates of a latent class by a logit: against StepMix, enumeration and simulation."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import latentia as lt
from latentia.errors import DataError, EvidenceError, NotLearnedError, StoreError
from latentia.model import links
from latentia.networks.covariate_holes import draw_donors
from latentia.networks.logit import (
    LogitFit,
    answers_of,
    covariances_of,
    newton,
    row_memberships,
    shares_of,
)
from latentia.store.link_record import read_link, write_link

ITEMS = [f"q{i}" for i in range(7)]
GRAPH = "age->class; city->class; " + "; ".join(f"class->{q}" for q in ITEMS)
TRUTH = np.array([[0.0, 0.0, 0.0], [-2.0, 0.06, 0.8]])  # of the intercept, age and city=b
YES = np.array([[0.85, 0.2, 0.8, 0.15, 0.7, 0.3, 0.8], [0.2, 0.8, 0.3, 0.75, 0.2, 0.9, 0.3]])


def survey(seed=0, n=900, holes=0.0):
    rng = np.random.default_rng(seed)
    age, city = rng.normal(40, 10, n), rng.integers(2, size=n)
    X = np.column_stack([np.ones(n), age, city])
    member = (rng.random(n) < shares_of(TRUTH, X)[:, 1]).astype(int)
    frame = pd.DataFrame({q: (rng.random(n) < YES[member, i]) * 1.0 for i, q in enumerate(ITEMS)})
    frame = frame.mask(rng.random(frame.shape) < holes)
    return frame.assign(age=age, city=np.array(["a", "b"])[city])


def fitted(frame, smoothing=0.0, **more):
    learner = lt.Tables(smoothing=smoothing, random_state=0)
    return lt.LatentModel(GRAPH, {"class": 2}, learner=learner, **more).fit(frame)


@pytest.fixture(scope="module")
def model():
    return fitted(survey())


@pytest.mark.parametrize("holes", [0.0, 0.1], ids=["complete", "holes"])
def test_equals_stepmix(holes):
    """One step: coefficients and likelihood; theirs have no reference class."""
    stepmix = pytest.importorskip("stepmix", reason="needs the rival: pip install stepmix")
    frame = survey(1, 500, holes)
    ours = fitted(frame)
    X = np.column_stack([(frame["age"] - 40) / 10, frame["city"] == "b"]).astype(float)
    rival = stepmix.StepMix(
        2, measurement="binary_nan" if holes else "binary", structural="covariate", n_steps=1,
        n_init=3, abs_tol=1e-11, rel_tol=0, max_iter=3000, random_state=0, verbose=0,
        progress_bar=0, structural_params={"max_iter": 3},
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rival.fit(frame[ITEMS], X)
    level = float(rival.score(frame[ITEMS], X)) * len(frame)
    assert ours.log_likelihood_ == pytest.approx(level, abs=1e-3)
    assert ours.score(frame) * len(frame) == pytest.approx(level, abs=1e-3)
    b = np.asarray(rival.get_parameters()["structural"]["beta"])
    b = b[1] - b[0]
    theirs = np.array([b[0] - 4.0 * b[1], b[1] / 10, b[2]])  # in our units
    found = ours.coefficients("class").values[1]
    sign = 1 if np.sign(found[1]) == np.sign(theirs[1]) else -1
    np.testing.assert_allclose(found, sign * theirs, atol=2e-3)


def test_starts_raced_on_few_rows_end_where_those_on_all_rows_do(model, monkeypatch):
    monkeypatch.setattr(links, "RACED", 300)
    again = fitted(survey())
    assert again.log_likelihood_ == pytest.approx(model.log_likelihood_, abs=1e-6)


def test_the_default_has_a_logit_beside_what_answers_for_columns(tmp_path):
    frame = survey()
    default = lt.LatentModel(GRAPH, {"class": 2}).fit(frame)
    tables = fitted(frame, smoothing=1.0)
    one, other = default.coefficients("class"), tables.coefficients("class")
    near = 0.05 * other.errors[1]  # the same rows; priors differ a little
    assert (abs(one.values[1] - other.values[1]) < near).all()
    for column in ("q0", "q1"):  # they number the states the one and the other way round
        model = lt.LatentModel(GRAPH, {"class": 2}, order_by=column).fit(frame)
        second = np.asarray(model.predict_proba(frame, "class"))[:, 1]
        tie = np.corrcoef(second, frame["age"])[0, 1]
        assert abs(tie) > 0.2
        assert np.sign(tie) == np.sign(model.coefficients("class").values[1, 1])
    assert 20 < default.query("age", {"q0": 1.0}).mean < 60
    default.save(tmp_path / "m.latentia")
    again = lt.load(tmp_path / "m.latentia").coefficients("class")
    np.testing.assert_allclose(again.values, one.values)


def test_the_default_has_a_logit_where_rows_lack_covariates(tmp_path):
    """As tables have it, whatever the numbering of the default's own states."""
    frame = survey()
    frame["age"] = frame["age"].where(np.arange(len(frame)) % 7 > 0)
    tables = fitted(frame, smoothing=1.0).coefficients("class")
    signs = set()
    for column in ("q0", "q1"):  # they number the states the one and the other way round
        model = lt.LatentModel(GRAPH, {"class": 2}, order_by=column).fit(frame)
        found = model.coefficients("class").values[1]
        sign = np.sign(found[1] * tables.values[1, 1])
        signs.add(sign)
        assert (abs(sign * found - tables.values[1]) < 0.05 * tables.errors[1]).all()
        second = np.asarray(model.predict_proba(frame, "class"))[:, 1]
        there = frame["age"].notna()
        assert np.sign(np.corrcoef(second[there], frame["age"][there])[0, 1]) == np.sign(found[1])
    assert signs == {-1.0, 1.0}
    model.save(tmp_path / "m.latentia")
    again = lt.load(tmp_path / "m.latentia").coefficients("class", robust=True)
    np.testing.assert_allclose(again.errors, model.coefficients("class", robust=True).errors)


def test_why_there_is_no_logit_is_told_from_a_file_too(tmp_path):
    """Here a second latent stands beside the class, and arrows know no holes of covariates."""
    frame = survey()
    frame = frame.drop(columns=["city", "q5", "q6"])
    frame["age"] = frame["age"].where(frame.index > 2)
    graph = "age->class; other->class; class->q0; class->q1; class->q2; other->q3; other->q4"
    model = lt.LatentModel(graph, {"class": 2, "other": 2}).fit(frame)
    model.save(tmp_path / "m.latentia")
    for each in (model, lt.load(tmp_path / "m.latentia")):
        with pytest.raises(NotLearnedError, match="3 rows lack 'age'"):
            each.coefficients("class")


def test_errors_are_of_the_observed_information(model):
    """Against second differences of the log-likelihood of all parameters, cell by cell."""
    frame = survey(2, 200)
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(200), (frame["age"] - 40) / 10])
    codes = [frame[q].to_numpy().astype(int) for q in ITEMS[:3]]
    rows = answers_of(codes, [2] * 3, X, rng.integers(1, 3, 200) * 1.0, 0.0)
    table = np.column_stack([np.column_stack([1 - p, p]) for p in YES[:, :3].T])
    fit = LogitFit(TRUTH[:, :2] * [0.3, 10], table, 0.0, True, 0)

    def level(theta):
        B = np.zeros((2, 2))
        B[1] = theta[:2]
        p = 1 / (1 + np.exp(-theta[2:].reshape(2, 3)))
        own = np.stack([1 - p, p], axis=-1).reshape(2, 6)
        return float(row_memberships(rows, LogitFit(B, own, 0.0, True, 0))[1] @ rows.weight)

    yes = table.reshape(2, 3, 2)[..., 1]
    theta = np.concatenate([fit.B[1], np.log(yes / (1 - yes)).ravel()])
    k, step = len(theta), 1e-3
    H = np.empty((k, k))
    for a in range(k):
        for b in range(k):
            da, db = np.eye(k)[a] * step, np.eye(k)[b] * step
            H[a, b] = level(theta + da + db) - level(theta + da - db)
            H[a, b] += level(theta - da - db) - level(theta - da + db)
    expected = np.linalg.inv(-H / (4 * step**2))[:2, :2]
    np.testing.assert_allclose(covariances_of(rows, fit)[0], expected, rtol=2e-3)


def test_newton_finds_what_a_logistic_regression_finds():
    from sklearn.linear_model import LogisticRegression

    frame = survey(3)
    X = np.column_stack([np.ones(len(frame)), (frame["age"] - 40) / 10])
    y = frame["q0"].to_numpy().astype(int) + frame["q1"].to_numpy().astype(int)
    rows = answers_of([y], [3], X, np.ones(len(frame)), 0.0)
    B = np.zeros((3, 2))
    for _ in range(10):
        B = newton(rows, np.eye(3)[y], B)
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(X[:, 1:], y)
    slope = theirs.coef_[:, 0] - theirs.coef_[0, 0]
    np.testing.assert_allclose(B[:, 1], slope, atol=1e-4)
    np.testing.assert_allclose(B[:, 0], theirs.intercept_ - theirs.intercept_[0], atol=1e-4)


def test_intervals_cover_the_truth(monkeypatch):
    """95 % intervals of the slope of age, over 60 samples, by both kinds of errors."""
    monkeypatch.setattr(links, "RANDOM_STARTS", 0)  # classes so clear are found from the first
    hits = {False: 0, True: 0}
    for seed in range(60):
        found = fitted(survey(100 + seed, 500))
        for robust in hits:
            told = found.coefficients("class", robust)
            value = told.values[1, 1]
            gap = abs(abs(value) - TRUTH[1, 1])
            hits[robust] += gap < 1.96 * told.errors[1, 1]
    assert all(52 <= count <= 60 for count in hits.values())  # 57 ± 2.5 errors of a binomial


def test_answers_equal_bayes(model):
    """P(class | x, answers) by hand, and columns given covariates."""
    frame = survey().head(20)
    told, cpts = model.coefficients("class"), model.cpts_
    X = np.column_stack([np.ones(20), frame["age"], frame["city"] == "b"]).astype(float)
    share = shares_of(told.values, X)
    joint = share.copy()
    for q in ITEMS:
        joint *= cpts[q][:, frame[q].astype(int)].T
    expected = joint / joint.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(
        np.asarray(model.predict_latent(frame, "class")), expected, atol=1e-9
    )
    np.testing.assert_allclose(np.asarray(model.transform(frame)), expected, atol=1e-9)
    np.testing.assert_array_equal(model.predict(frame, "class"), expected.argmax(axis=1))
    np.testing.assert_allclose(model.score_samples(frame), np.log(joint.sum(axis=1)), atol=1e-9)
    first = frame.iloc[0]
    given = {"age": float(first["age"]), "city": first["city"]}
    np.testing.assert_allclose(model.query("class", given).table, share[0], atol=1e-9)
    yes = (share[0] * cpts["q1"][:, 1]) @ cpts["q0"][:, 1] / (share[0] @ cpts["q1"][:, 1])
    assert model.query("q0", {**given, "q1": 1.0})[1.0] == pytest.approx(yes, abs=1e-9)
    rest = joint / cpts["q0"][:, frame["q0"].astype(int)].T
    rest /= rest.sum(axis=1, keepdims=True)
    found = np.asarray(model.predict_proba(frame, "q0"))
    np.testing.assert_allclose(found, rest @ cpts["q0"], atol=1e-9)


def test_the_class_alone_is_its_mean_share(model):
    frame = survey()
    told = model.coefficients("class")
    X = np.column_stack([np.ones(len(frame)), frame["age"], frame["city"] == "b"]).astype(float)
    share = shares_of(told.values, X).mean(axis=0)
    np.testing.assert_allclose(model.query("class").table, share, atol=1e-9)


def test_parameters_are_counted(model):
    frame = survey()
    k, log = 3 + 2 * len(ITEMS), model.score(frame) * len(frame)
    assert model.bic(frame) == pytest.approx(k * np.log(len(frame)) - 2 * log)


def test_smoothing_holds_separated_classes_back():
    """A covariate that tells classes for certain has no largest likelihood; pseudo-counts do."""
    frame = survey(5)
    frame["age"] = frame[ITEMS].dot([1, -1, 1, -1, 1, -1, 1]) + 0.01 * frame["age"]
    told = fitted(frame, smoothing=1.0).coefficients("class")
    assert np.isfinite(told.values).all()
    assert np.isfinite(told.errors).all()


def test_a_link_by_name_and_by_itself():
    frame = survey(6, 400)
    graph = GRAPH.replace("age->class; ", "")
    by_name = lt.LatentModel(graph, {"class": 2}, learner="tables", link={"class": "logit"})
    told = by_name.fit(frame.drop(columns="age")).coefficients("class")
    assert told.covariates == ("(intercept)", "city=b")
    assert clone(by_name).link == {"class": "logit"}
    table = lt.LatentModel(graph, {"class": 2}, learner="tables").fit(frame.drop(columns="age"))
    assert table.cpts_["class"].shape == (2, 2)  # a discrete parent has a table unless asked
    assert "log odds" in repr(told)
    assert list(told.to_frame()["covariate"]) == ["(intercept)", "city=b"]


def test_rows_that_can_be_read_once_are_read_once():
    """A column above a latent makes nobody open a table twice."""
    frame = survey(7, 600)[[*ITEMS, "city"]]
    graph = GRAPH.replace("age->class; ", "")
    blocks = lambda: (frame[i : i + 200] for i in range(0, 600, 200))  # noqa: E731
    found = lt.LatentModel(graph, {"class": 2}, learner="tables").fit(blocks())
    whole = lt.LatentModel(graph, {"class": 2}, learner="tables").fit(frame)
    assert found.score(frame) == pytest.approx(whole.score(frame), abs=1e-6)


def test_files_keep_covariates(model, tmp_path):
    model.save(tmp_path / "m.latentia")
    again, frame = lt.load(tmp_path / "m.latentia"), survey().head(30)
    for robust in (False, True):
        ours, theirs = (m.coefficients("class", robust) for m in (model, again))
        np.testing.assert_array_equal(ours.values, theirs.values)
        np.testing.assert_array_equal(ours.covariance, theirs.covariance)
        assert ours.covariates == theirs.covariates
    expected = np.asarray(model.predict_latent(frame, "class"))
    np.testing.assert_array_equal(np.asarray(again.predict_latent(frame, "class")), expected)
    assert again.score(frame) == model.score(frame)
    assert again.log_likelihood_ == model.log_likelihood_


def test_a_record_that_is_none_is_refused(model):
    record = write_link(model.link_, -1.0)
    graph = model._graph
    assert read_link(record, graph)[0].names == ["age", "city"]
    for name, value in (
        ("latent", "q0"), ("values", [[0.0]]), ("share", [1.0, 0.0]), ("robust", "text"),
        ("values", [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]), ("covariance", [[float("nan")] * 3] * 3),
    ):  # fmt: skip
        with pytest.raises(StoreError):
            read_link({**record, name: value}, graph)


def test_a_graph_made_from_columns_may_be_linked():
    frame = survey(8, 300)
    made = lt.LatentModel(lambda names: GRAPH, {"class": 2}, learner="tables").fit(frame)
    assert made.coefficients("class").covariates == ("(intercept)", "age", "city=b")


def test_states_are_counted_where_none_are_stated():
    frame = survey(9, 600)
    found = lt.LatentModel(GRAPH, ["class"], learner="tables").fit(frame)
    assert found.states_["class"] in (2, 3)
    assert found.coefficients("class").values.shape == (found.states_["class"], 3)


# --- rows that lack covariates --------------------------------------------------------------------


def lacking(frame, share=0.2, seed=3):
    """The same survey where some rows lack age, city or both."""
    rng = np.random.default_rng(seed)
    gone = rng.random((len(frame), 2)) < share
    return frame.assign(age=frame["age"].mask(gone[:, 0]), city=frame["city"].mask(gone[:, 1]))


def test_what_a_row_lacks_is_summed_out():
    """Of states over what complete rows that agree have there, as often as they have it."""
    rng = np.random.default_rng(4)
    x = rng.integers(3, size=(200, 2)).astype(float)
    X = np.column_stack([np.ones(200), x])
    X[:30, 1], X[20:50, 2] = np.nan, np.nan
    codes, tables = (
        [rng.integers(2, size=200) for _ in range(3)],
        rng.dirichlet([1, 1], size=(2, 3)),
    )
    B = np.array([[0.0, 0.0, 0.0], [0.3, -1.0, 0.7]])
    fit = LogitFit(B, tables.reshape(2, 6), 0.0, True, 0)
    whole = X[50:]
    rows = answers_of(codes, [2] * 3, X, np.ones(200), 0.0, draw_donors(X, np.ones(200)))
    r, log = row_memberships(rows, fit)
    for i in range(200):
        there = ~np.isnan(X[i])
        like = whole[(whole[:, there] == X[i, there]).all(axis=1)].copy()
        like[:, there] = X[i, there]
        like = X[i : i + 1] if there.all() else like
        joint = shares_of(B, like).mean(axis=0)
        for k in range(3):
            joint = joint * tables[:, k, codes[k][i]]
        own = rows.copies.origin == i
        assert log[own].sum() == pytest.approx(np.log(joint.sum()), abs=1e-12)
        np.testing.assert_allclose(r[own].sum(axis=0), joint / joint.sum(), atol=1e-12)


def test_rows_that_lack_covariates_still_tell():
    frame = survey(5, 1500)
    found = fitted(lacking(frame)).coefficients("class")
    error = np.sqrt(np.diag(found.covariance)).reshape(1, 3)
    # the truth is an answer of other rows: four errors, as three are looked at
    order = 0 if found.values[1, 1] > 0 else 1
    truth = TRUTH if order == 0 else -TRUTH
    assert (np.abs(found.values[1] - truth[1]) < 4 * error[0]).all()
    complete = fitted(frame).coefficients("class")
    less = np.sqrt(np.diag(complete.covariance))
    assert (error[0] > 0.95 * less).all()  # holes do not make us surer
    assert (error[0] < 1.6 * less).all()  # a fifth of the cells, not all rows that lack one


def test_rows_that_lack_covariates_are_asked_about(tmp_path):
    frame = survey(6, 900)
    model = fitted(frame)
    some = lacking(frame.head(40), 0.5)
    found = np.asarray(pd.DataFrame(model.predict_proba(some, "class")))
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    full = ~some[["age", "city"]].isna().any(axis=1).to_numpy()
    exact = np.asarray(pd.DataFrame(model.predict_proba(frame.head(40), "class")))
    np.testing.assert_allclose(found[full], exact[full])
    bare = frame.head(5).assign(age=np.nan, city=None)
    # 300 rows stand for all: a share of them is right to three in a hundred
    np.testing.assert_allclose(
        np.asarray(pd.DataFrame(model.predict_proba(bare, "class"))),
        np.asarray(pd.DataFrame(model._own_tables().answers.posteriors(
            [{q: int(x) for q, x in row.items()} for row in bare[ITEMS].to_dict("records")],
            ["class"])["class"])),
        atol=0.03,
    )  # fmt: skip
    model.save(tmp_path / "m.latentia")
    again = lt.load(tmp_path / "m.latentia").predict_proba(some, "class")
    np.testing.assert_array_equal(found, np.asarray(pd.DataFrame(again)))


def test_questions_with_some_covariates_are_those_of_rows_that_lack_the_others(model):
    frame = survey()
    city = frame["city"].iloc[0]
    q = ITEMS[0]
    for given in ({"age": 40.0}, {"city": city}, {"age": 31.0, "city": city, q: 1}):
        bare = frame.head(1).assign(age=np.nan, city=None, **dict.fromkeys(ITEMS, np.nan))
        row = bare.assign(**given)
        told = np.asarray(pd.DataFrame(model.predict_proba(row, "class")))[0]
        np.testing.assert_allclose(np.asarray(model.query("class", given)), told, atol=1e-12)
        best = model.map_query(["class"], given)
        assert best["class"] == told.argmax()
        assert best.probability == pytest.approx(told.max())
    missing = model.query("class", {"age": 40.0, "city": None})
    np.testing.assert_array_equal(missing, model.query("class", {"age": 40.0}))


def test_errors_say_what_to_do(model):
    frame = survey()
    with pytest.raises(DataError, match="two states or more"):
        lt.LatentModel(GRAPH, {"class": 1}, learner="tables").fit(frame)
    with pytest.raises(DataError, match="lack the covariate"):
        fitted(frame.assign(age=frame["age"].where(frame.index < 12)))
    with pytest.raises(DataError, match="constant, or told by the others"):
        lt.LatentModel(
            "age->class; old->class; " + GRAPH.split("; ", 2)[2], {"class": 2}, learner="tables"
        ).fit(frame.drop(columns="city").assign(old=2 * frame["age"]))
    with pytest.raises(NotLearnedError, match="has no filled yet"):
        model.predict(frame)
    with pytest.raises(EvidenceError, match="soft evidence beside its covariates"):
        model.query("q0", {"age": 40.0}, soft={"class": {0: 0.5, 1: 0.5}})
    with pytest.raises(NotLearnedError, match="not told by covariates"):
        lt.LatentModel("class").fit(frame[ITEMS]).coefficients("H")
