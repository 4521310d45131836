"""Graphs over mixed columns with any arrows: learned, asked, stored, and against others."""

import warnings

import numpy as np
import pandas as pd
import pytest

import latentia as lt
from latentia.errors import DataError, GraphError, LeftOutWarning, NotLearnedError, StoreError
from latentia.networks import arrow_errors
from latentia.store.arrow_record import read_arrows, write_arrows

ITEMS = [f"q{i}" for i in range(5)]
TOLD = "; ".join(f"class->{q}" for q in ITEMS)
WHOLE = f"age->class; {TOLD}; class->y; age->y; y->z; class->z; y->buy; class->buy; sex->y"


def survey(n=1500, seed=0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    age = rng.normal(40, 10, n)
    z = (rng.random(n) < 1 / (1 + np.exp(-(age - 42) / 8))).astype(int)
    frame = pd.DataFrame({"age": age, "sex": rng.choice(["f", "m"], n)})
    for q in ITEMS:
        frame[q] = np.where(rng.random(n) < np.where(z == 1, 0.85, 0.2), "yes", "no")
    frame["y"] = rng.normal(2.0 * z + 0.05 * age + 0.5 * (frame.sex == "m"), 1.0)
    frame["z"] = rng.normal(0.5 * frame.y + z, 0.7)
    odds = frame.y - 3.0 + z
    frame["buy"] = np.where(rng.random(n) < 1 / (1 + np.exp(-odds)), "yes", "no")
    return frame, z


@pytest.fixture(scope="module")
def whole() -> tuple[lt.LatentModel, pd.DataFrame, np.ndarray]:
    frame, z = survey()
    learner = lt.Tables(smoothing=0, random_state=0)
    model = lt.LatentModel(
        WHOLE, {"class": 2}, learner=learner, order_by="y", name_states={"class": ["lo", "hi"]}
    )
    return model.fit(frame), frame, z


def test_tables_that_every_row_has_whole_tell_nothing_of_coefficients(monkeypatch):
    """Their information is apart: errors are the same where they move with the rest."""
    frame, _ = survey(300)
    graph = f"age->class; {TOLD}; class->y; sex->y; sex->z; age->z"

    def errors():
        learner = lt.Tables(smoothing=1.0, random_state=0)
        model = lt.LatentModel(graph, {"class": 2}, learner=learner).fit(frame.drop(columns="buy"))
        return [model.coefficients(name).errors for name in ("class", "y", "z")]

    apart = errors()
    monkeypatch.setattr(arrow_errors, "_moving", lambda network, _: arrow_errors._spans(network))
    for one, other in zip(apart, errors(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_errors_of_too_many_parameters_are_not_told(monkeypatch):
    frame, _ = survey(300)
    learner = lt.Tables(smoothing=1.0, random_state=0)
    model = lt.LatentModel(f"age->class; {TOLD}; class->y", {"class": 2}, learner=learner)
    monkeypatch.setattr(arrow_errors, "MOST_MOVED", 3)
    with pytest.warns(LeftOutWarning, match="take tables as known.*Those of y are not told"):
        model.fit(frame[["age", "y", *ITEMS]])
    assert np.isfinite(model.coefficients("class").errors).all()
    with pytest.raises(NotLearnedError, match="too many coefficients"):
        model.coefficients("y")


def test_coefficients_are_near_those_that_made_the_rows(whole):
    model, _, _ = whole
    told = model.coefficients("class")
    assert told.classes == ("lo", "hi")
    assert told.covariates == ("(intercept)", "age")
    assert abs(told.values[1, 1] - 1 / 8) < 3 * told.errors[1, 1] < 0.1
    line = model.coefficients("z")
    assert line.given == ("class",)
    assert line.covariates == ("(intercept)", "y")
    truth = np.array([[0.0, 0.5], [1.0, 0.5]])
    assert (np.abs(line.values - truth) < 3.5 * line.errors).all()
    assert (np.abs(line.deviations - 0.7) < 3.5 * line.deviation_errors).all()
    buy = model.coefficients("buy", robust=True)
    assert set(buy.covariates) == {"(intercept)", "class=hi", "y"}
    assert (np.abs(buy.values[1] - [-3.0, *([1.0] * 2)]) < 3.5 * buy.errors[1]).all()
    assert "± error" in repr(line)
    assert len(line.to_frame()) == 6
    with pytest.raises(NotLearnedError, match="has a table"):
        model.coefficients("q0")
    with pytest.raises(NotLearnedError, match="taken as it is"):
        model.coefficients("age")


def test_latents_and_columns_are_asked_alike(whole):
    model, frame, z = whole
    assert set(model.query("class").states[0]) == {"lo", "hi"}
    assert np.mean(model.predict(frame, "class") == np.array(["lo", "hi"])[z]) > 0.93
    young = model.query("class", {"age": 20.0, "q0": "no"})["hi"]
    old = model.query("class", {"age": 60.0, "q0": "yes"})["hi"]
    assert young < 0.05 < 0.95 < old
    assert model.query("z", {"class": "hi", "y": 4.0}).mean == pytest.approx(3.0, abs=0.15)
    assert model.query("age", {"class": "hi"}).mean > model.query("age", {"class": "lo"}).mean + 5
    best = model.map_query(["class", "buy"], {"y": 6.0, "age": 50.0})
    assert best["class"] == "hi"
    assert best["buy"] == "yes"
    soft = model.query("buy", soft={"class": {"lo": 0.5, "hi": 0.5}})["yes"]
    assert soft == pytest.approx(model.query("buy")["yes"], abs=1e-9)
    seen = model.query("buy", {"y": (4.0, 6.0)})["yes"]  # an interval
    assert seen > model.query("buy")["yes"]
    drawn = model.sample(2000, random_state=0, latents=True)
    assert set(drawn) == {"class", *frame.columns}
    assert np.mean(drawn["y"]) == pytest.approx(frame.y.mean(), abs=0.15)
    profile = model.profile("class")
    assert {c.name for c in profile.columns} == set(frame.columns)
    assert "class" in str(profile)
    assert profile.plot() is not None
    some = frame.head(20).copy()
    some.loc[:9, ["z", "q0"]] = None
    filled = model.predict(some)
    assert not filled.isna().any().any()
    assert (filled.q1 == some.q1).all()
    assert set(model.marginals(some, latents=True)) == {"class", *frame.columns}
    assert list(model.get_feature_names_out()) == ["class=lo", "class=hi"]
    assert model.predict_quantiles(some, "z").shape == (20, 5)
    related = model.relate("class", frame.assign(pay=2.0 * z + 0.01 * frame.z), outcomes=["pay"])
    assert related["pay"].estimates.values[:, 0] == pytest.approx([0.0, 2.0], abs=0.05)
    for what in (model.check, model.align):
        with pytest.raises(NotLearnedError, match="not made for"):
            what(frame if what == model.check else model)


def test_scores_are_of_the_columns_own_units(whole):
    model, frame, _ = whole
    total = model.score(frame) * len(frame)
    assert total == pytest.approx(model.arrows_.log_likelihood, abs=1e-6)
    meters = frame.assign(y=frame.y * 100.0)
    other = lt.LatentModel(WHOLE, {"class": 2}, learner=lt.Tables(smoothing=0, random_state=0))
    gap = other.fit(meters).score(meters) - model.score(frame)
    assert gap == pytest.approx(-np.log(100.0), abs=1e-4)
    k = 1 + 10 + 2 + 4 * 3 + 2 * 3 + 3  # sex, items, class, lines of y and of z, buy
    assert model.bic(frame) == pytest.approx(k * np.log(len(frame)) - 2 * total)


def test_files_keep_arrows(whole, tmp_path):
    model, frame, _ = whole
    model.save(tmp_path / "m.latentia")
    again = lt.load(tmp_path / "m.latentia")
    some = frame.head(30)
    np.testing.assert_array_equal(
        again.predict_latent(some, "class"), model.predict_latent(some, "class")
    )
    assert again.query("class", {"age": 30.0})["lo"] == model.query("class", {"age": 30.0})["lo"]
    np.testing.assert_array_equal(
        again.coefficients("buy").errors, model.coefficients("buy").errors
    )
    record = write_arrows(model.arrows_)
    for field, wrong in (("arrows", []), ("sample", []), ("alone", 1), ("given", [99])):
        with pytest.raises(StoreError):
            read_arrows({**record, field: wrong})


def test_without_latents_it_is_plain_regression():
    statsmodels = pytest.importorskip("statsmodels.api")
    frame, _ = survey(800, 3)
    model = lt.LatentModel("age->y; y->buy; age->buy", learner="em").fit(frame[["age", "y", "buy"]])
    line, logit = model.coefficients("y"), model.coefficients("buy")
    ols = statsmodels.OLS(frame.y, statsmodels.add_constant(frame[["age"]])).fit()
    np.testing.assert_allclose(line.values[0], ols.params, rtol=1e-5)
    np.testing.assert_allclose(line.errors[0], ols.bse, rtol=2e-2)  # of N, not of N - 2
    X = statsmodels.add_constant(frame[list(logit.covariates[1:])])
    other = statsmodels.Logit((frame.buy == "yes").astype(float), X).fit(disp=0)
    np.testing.assert_allclose(logit.values[1], other.params, rtol=1e-4)
    np.testing.assert_allclose(logit.errors[1], other.bse, rtol=1e-3)


def test_gaussian_items_with_a_covariate_reach_stepmix():
    stepmix = pytest.importorskip("stepmix.stepmix")
    frame, _ = survey(500, 4)
    X = frame.assign(u=frame.y, w=frame.z)[["u", "w"]]
    model = lt.LatentModel(
        "age->class; class->u; class->w", {"class": 2}, learner=lt.EM(random_state=0)
    ).fit(X.assign(age=frame.age))
    age = ((frame.age - frame.age.mean()) / frame.age.std(ddof=0)).to_frame()
    rival = stepmix.StepMix(
        2, n_steps=1, measurement="gaussian_diag", structural="covariate", n_init=5, max_iter=5000,
        abs_tol=1e-9, rel_tol=0, random_state=0, progress_bar=0,
        structural_params={"method": "newton-raphson", "max_iter": 1},
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rival.fit(X, age)
        theirs = rival.score(X, age) * len(X)
    ours = model.score(X.assign(age=frame.age)) * len(X)
    assert ours >= theirs - 1e-3  # they stop a little below


@pytest.mark.parametrize(
    "graph",
    [
        f"age->class; {TOLD}; class->y",
        f"age->class; {TOLD}; age->q0",
        f"{TOLD}; class->y; class->buy; y->buy",
        "age->A; y->B; A->q0; A->q1; A->q2; B->q3; B->q4; B->buy",
        "age->A; A->B; A->q0; A->q1; A->q2; B->q3; B->q4; B->buy; y->B",
    ],
)
def test_no_graph_is_refused_for_its_arrows(graph):
    frame, _ = survey(300, 5)
    latents = {name: 2 for name in ("class", "A", "B") if f"{name}->" in graph}
    for learner in ("em", lt.Tables(random_state=0)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = lt.LatentModel(graph, latents, learner=learner).fit(frame)
            for name in latents:
                assert model.query(name).table.sum() == pytest.approx(1.0)
        assert np.isfinite(model.score(frame))


def test_the_default_tells_latents_of_mixed_columns_by_name():
    frame, z = survey(600, 6)
    small = frame[[*ITEMS, "y", "z"]]
    graph = f"{TOLD}; class->y; class->z; y->z"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = lt.LatentModel(graph, {"class": 2}).fit(small)
    found = np.asarray(model.predict(small, "class"))
    assert max(np.mean(found == z), np.mean(found != z)) > 0.9
    assert model.states_ == {"class": 2}
    assert "S" not in str(list(model.states_))
    assert set(model.sample(3, random_state=0, latents=True)) == {"class", *small.columns}


def test_the_default_counts_states_of_mixed_columns():
    frame, _z = survey(600, 7)
    small = frame[[*ITEMS, "y"]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = lt.LatentModel(f"{TOLD}; class->y", ["class"]).fit(small)
    assert list(model.states_) == ["class"]
    assert 2 <= model.states_["class"] <= 3
    assert model.query("class", {"q0": "yes"}).table.sum() == pytest.approx(1.0)
    assert len(model.map_query(["class", "q0"])) == 2


def test_what_cannot_be_learned_is_told():
    frame = survey(200, 8)[0][["age", *ITEMS, "y"]]
    holes = frame.assign(age=frame.age.mask(frame.age > 50))
    graph = f"age->class; {TOLD}; class->y"
    with pytest.raises(DataError, match="lack 'age'"):
        lt.LatentModel(graph, {"class": 2}, learner="em").fit(holes)
    with pytest.raises(DataError, match="error bars"):
        lt.LatentModel(graph, {"class": 2}, learner="em").fit(frame, error_bars=True)
    with pytest.raises(GraphError, match="has none"):
        lt.LatentModel(TOLD, {"class": 2}, learner="em", link={"class": "logit"}).fit(frame[ITEMS])
    with pytest.raises(DataError, match="smoothing"):
        lt.LatentModel(graph, {"class": 2}, learner=lt.Tables(smoothing={"y": 1.0})).fit(frame)


@pytest.mark.parametrize("graph", ["L--a; L--b; L--c", "a--L; b--L; L--M; M--a; M--c; L--c"])
def test_latents_of_undirected_graphs_over_mixed_columns_have_names(graph, tmp_path):
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=300)
    rows = {c: np.where(rng.random(300) < 0.8, h, 1 - h) for c in "bc"}
    rows["a"] = h + 0.5 * rng.normal(size=300)
    latents = [name for name in "LM" if name in graph]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = lt.LatentModel(graph, dict.fromkeys(latents, 2)).fit(rows)
        model.save(tmp_path / "model")
        again = lt.load(tmp_path / "model")
    for name in latents:
        found = model.query(name, {"b": 1}).table
        assert found.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(again.query(name, {"b": 1}).table, found)
        assert len(model.predict(rows, name)) == 300
        assert model.profile(name)
    assert np.isfinite(model.score_samples(rows)).all()
