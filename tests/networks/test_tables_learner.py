"""LatentModel(learner="tables"): the graph's own tables through every question, against oracles."""

import numpy as np
import pytest

import latentia as lt
from latentia.errors import ImpossibleRowWarning, NotLearnedError, PlanError

GRAPH = "H->a,b,c; a->d; b->d; d->e"
LATENTS = {"H": 2}


def rows(n: int = 2000, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    h = rng.integers(2, size=n)
    data = {c: np.where(rng.random(n) < 0.85, h, 1 - h) for c in "abc"}
    data["d"] = np.where(rng.random(n) < 0.8, data["a"] + data["b"], rng.integers(3, size=n))
    e = np.where(rng.random(n) < 0.9, data["d"] > 0, rng.random(n) < 0.5)
    return {**data, "e": np.array(["no", "yes"])[e.astype(int)]}


@pytest.fixture(scope="module")
def model() -> lt.LatentModel:
    return lt.LatentModel(GRAPH, LATENTS, learner="tables").fit(rows())


@pytest.fixture(scope="module")
def oracle(model: lt.LatentModel) -> lt.TabularModel:
    return lt.TabularModel(model.operators_.model_graph, model.cpts_)


def test_answers_are_those_of_its_tables(model, oracle):
    for name, evidence, codes in [
        ("a", {}, {}),
        ("a", {"e": "yes"}, {"e": 1}),
        ("d", {"a": 1, "c": 0, "e": "no"}, {"a": 1, "c": 0, "e": 0}),
    ]:
        found = model.query(name, evidence)
        np.testing.assert_allclose(np.asarray(found), np.asarray(oracle.query(name, codes)))
        assert found.log_evidence == pytest.approx(float(oracle.log_evidence(codes)[0]))
    both = model.query(["d", "a"], {"e": "yes"})
    np.testing.assert_allclose(np.asarray(both), np.asarray(oracle.query(["d", "a"], {"e": 1})))
    soft = model.query("a", soft={"d": {0: 0.2, 1: 0.5, 2: 1.0}})
    told = np.asarray(oracle.query("a", soft={"d": [0.2, 0.5, 1.0]}))
    np.testing.assert_allclose(np.asarray(soft), told)
    best = model.map_query(["a", "d"], {"e": "no"})
    table = np.asarray(oracle.query(["a", "d"], {"e": 0}))
    assert tuple(best.values()) == np.unravel_index(table.argmax(), table.shape)


def test_questions_about_rows(model, oracle, tmp_path):
    table = rows(50, seed=1)
    table["b"] = np.where(np.arange(50) % 7 == 0, np.nan, table["b"])
    found = model.predict_proba(table, "d")
    np.testing.assert_allclose(sum(found.values()), 1.0)
    codes = oracle.evidence(
        np.stack(
            [
                np.nan_to_num(table["a"]),
                np.where(np.isnan(table["b"]), -1, table["b"]),
                table["c"],
                np.full(50, -1),
                (table["e"] == "yes"),
            ],
            axis=1,
        ).astype(int)
    )
    expected = oracle.posteriors(codes, ["d"])["d"]
    np.testing.assert_allclose(np.stack(list(found.values()), axis=1), expected)
    latent = model.predict_latent(table, "H")
    full = codes.copy()
    full[:, oracle.names.index("d")] = table["d"]
    np.testing.assert_allclose(
        np.stack(list(latent.values()), axis=1), oracle.posteriors(full, ["H"])["H"]
    )
    np.testing.assert_allclose(model.score_samples(table), oracle.log_evidence(full))
    assert not np.isnan(model.predict(table)["b"].astype(float)).any()
    assert np.isfinite(model.bic(table))
    assert model.check(table).fit.rows == 50
    assert {*model.sample(5, random_state=0)} == {*"abcde"}
    assert "<svg" in model.draw().svg
    assert "counted 2 of 6 tables" in repr(model.diagnostics_)
    assert "piece of H: 4 tables, " in repr(model.diagnostics_)
    model.save(tmp_path / "m")
    again = lt.load(tmp_path / "m")
    np.testing.assert_array_equal(again.score_samples(table), model.score_samples(table))
    assert again.states_ == {"H": 2}


def test_without_latents_it_is_counting():
    data = rows()
    found = lt.LatentModel("a->b; b->c", learner=lt.Tables(smoothing=0)).fit(
        {c: data[c] for c in "abc"}
    )
    for x in (0, 1):
        share = (data["b"][data["a"] == x] == 1).mean()
        assert found.cpts_["b"][x, 1] == pytest.approx(share)


def test_a_network_that_no_plan_can_hold():
    """Thirty columns of three states above one: a clique of 3^12 cells, and answers in no time."""
    rng = np.random.default_rng(0)
    names = [f"x{i}" for i in range(12)]
    data = {x: rng.integers(3, size=500) for x in names}
    data["y"] = (sum(data[x] for x in names[:4]) % 3).astype(int)
    edges = "; ".join(f"{x}->y" for x in names[:4]) + "; H->" + ",".join(names[4:])
    model = lt.LatentModel(edges, {"H": 2}, learner="tables").fit(data)
    truth = {x: int(data[x][0]) for x in names}
    assert model.query("y", truth)[int(data["y"][0])] > 0.5


def test_an_impossible_row_costs_one_row():
    data = {"a": [0, 0, 1, 1] * 20, "b": [0, 0, 1, 1] * 20, "c": [0, 1] * 40}
    model = lt.LatentModel("a->b; b->c", learner=lt.Tables(smoothing=0)).fit(data)
    with pytest.warns(ImpossibleRowWarning, match="1 row"):
        found = model.score_samples({"a": [0, 0], "b": [0, 1], "c": [0, 0]})
    assert np.isfinite(found[0])
    assert np.isneginf(found[1])


def test_what_it_cannot_do():
    with pytest.raises(PlanError, match="directed"):
        lt.LatentModel("a--b; b--c", learner="tables").fit({c: rows()[c] for c in "abc"})
    with pytest.raises(NotLearnedError, match="messages"):
        lt.LatentModel("a->b", learner="tables").fit({c: rows()[c] for c in "ab"}).draw({"a": 1})


def test_a_continuous_child_of_a_column():
    a = rows()["a"]
    x = 3.0 * a + np.random.default_rng(0).normal(size=len(a))
    model = lt.LatentModel("a->x", learner="tables").fit({"a": a, "x": x})
    for state in np.unique(a):
        # the mean of some hundred cells of spread one
        assert model.query("x", {"a": state}).mean == pytest.approx(3.0 * state, abs=0.3)


@pytest.mark.parametrize("learner", ["tables", lt.EM(2, random_state=0)])
def test_latents_are_asked_for_by_name(learner):
    data = rows()
    model = lt.LatentModel(GRAPH, LATENTS, learner=learner).fit(data)
    oracle = lt.TabularModel(model.operators_.model_graph, model.cpts_)
    found = model.query("H", {"a": 1, "e": "yes"})
    np.testing.assert_allclose(np.asarray(found), np.asarray(oracle.query("H", {"a": 1, "e": 1})))
    both = model.query(["H", "d"], {"e": "no"})
    np.testing.assert_allclose(np.asarray(both), np.asarray(oracle.query(["H", "d"], {"e": 0})))
    assert both.states[1] == (0, 1, 2)
    given = model.query("e", {"H": 1})
    assert given["yes"] == pytest.approx(np.asarray(oracle.query("e", {"H": 1}))[1])
    best = model.map_query(["H", "d"], {"e": "no"})
    assert tuple(best.values()) == np.unravel_index(np.asarray(both).argmax(), (2, 3))
    shares = model.predict_proba(data, "H")
    for k, own in model.predict_latent(data, "H").items():
        np.testing.assert_array_equal(shares[k], own)
    codes = model.predict(data, "H")
    np.testing.assert_array_equal(codes, np.stack(list(shares.values())).argmax(axis=0))
    with pytest.raises(lt.errors.EvidenceError, match="asked for and observed"):
        model.query("H", {"H": 1})


def test_a_model_of_predictions_knows_no_latents():
    model = lt.LatentModel("H->a,b,c", LATENTS, learner=lt.PBP(refine=False))
    model.fit({c: rows()[c] for c in "abc"})
    with pytest.raises(lt.errors.EvidenceError, match="'H' is latent"):
        model.query("H", {"a": 1})
