"""Stepwise EM table by table: goes on where it stopped, answers after every call."""

import numpy as np
import pytest

import latentia as lt
from latentia.errors import DataError, NotLearnedError, UnknownNameError
from latentia.networks import stepwise_passes
from latentia.networks.starts import random_tables, spawn_seeds

GRAPH = lt.as_graph("H->x,y,z,w", {"H": 2})


def rows(rng, n, sure=0.85):
    h = rng.integers(2, size=n)
    data = {c: np.where(rng.random(n) < sure, h, 1 - h) for c in "xyz"}
    return {**data, "w": np.where(rng.random(n) < sure, 2 * h, rng.integers(3, size=n))}


def model(**settings):
    learner = lt.StepwiseEM(**{"restarts": 3, "random_state": 0, **settings})
    return lt.LatentModel(GRAPH, learner=learner, state_names={"w": [0, 1, 2]})


def test_comes_close_to_fit():
    rng = np.random.default_rng(0)
    tables = [rows(rng, 1000) for _ in range(8)]
    test = rows(rng, 4000)
    online = model()
    scores = []
    for table in tables:
        online.partial_fit(table)
        scores.append(online.score(test))  # can be asked after each call
    whole = lt.LatentModel(GRAPH, learner=lt.EM(3, random_state=0)).fit(
        {c: np.concatenate([t[c] for t in tables]) for c in "xyzw"}
    )
    assert scores[-1] > whole.score(test) - 0.01
    assert online.n_iter_ == 7  # calls after the first
    assert [len(path) for path in online.history_] == [8] * 3
    assert online.operators_.weight == 8000
    assert online.progress_.steps >= 8
    np.testing.assert_allclose(sum(online.predict_latent(test, "H").values()), 1.0)


def test_one_call_is_the_published_update(monkeypatch):
    """One batch per call: s and tables by hand."""
    monkeypatch.setattr(stepwise_passes, "SMALLEST_BATCH", 40)
    rng = np.random.default_rng(1)
    online = model(restarts=1, batch_size=40)
    theta, s = {}, {}
    for k in range(3):
        table = rows(rng, 40)
        online.partial_fit(table)
        graph = online.plan_.graph
        if not theta:
            theta = random_tables(graph, spawn_seeds(0, 1)[0])
            s = {v: t * (t.shape[-1] / t.size) for v, t in theta.items()}
        codes = {v: table[graph.names[v]] for v in graph.observed}
        joint = theta[0][:, None] * np.prod([theta[v][:, c] for v, c in codes.items()], axis=0)
        post = joint / joint.sum(axis=0)
        batch = {v: post @ np.eye(graph.states[v])[c] for v, c in codes.items()}
        batch[0] = post.sum(axis=1)
        step = (k + 2.0) ** -0.6
        s = {v: (1 - step) * x + step / 40 * batch[v] for v, x in s.items()}
        theta = {v: x / x.sum(axis=-1, keepdims=True) for v, x in s.items()}
        assert online.progress_.steps == k + 1
        for v, found in online.progress_.runs[0].tables.items():
            np.testing.assert_allclose(found, theta[v], atol=1e-12)


def test_goes_on_after_a_file(tmp_path):
    rng = np.random.default_rng(2)
    online = model().partial_fit(rows(rng, 2000))
    test = rows(rng, 2000)
    before = online.score(test)
    online.save(tmp_path / "m")
    loaded = lt.load(tmp_path / "m")
    assert loaded.score(test) == before
    loaded.partial_fit(rows(rng, 2000))
    assert loaded.operators_.weight == 4000
    assert loaded.score(test) > before - 0.01
    assert len(loaded.history_) == 1


def test_same_seed_same_answers():
    tables = [rows(np.random.default_rng(i), 300) for i in range(3)]
    found = []
    for _ in range(2):
        online = model()
        for table in tables:
            online.partial_fit(table)
        found.append(online.cpts_)
    for name, table in found[0].items():
        np.testing.assert_array_equal(found[1][name], table)


def test_holes_weights_and_columns_that_come_later():
    rng = np.random.default_rng(3)
    first, later = rows(rng, 500), rows(rng, 500)
    later["x"] = np.where(rng.random(500) < 0.5, np.nan, later["x"])
    online = model().partial_fit(first).partial_fit(later, sample_weight=np.full(500, 2.0))
    assert online.operators_.weight == 1500
    online.fit(first)  # starts anew
    assert online.operators_.weight == 500
    assert not hasattr(online, "progress_")


def test_errors():
    rng = np.random.default_rng(4)
    online = model().partial_fit(rows(rng, 100))
    strange = {**rows(rng, 5), "x": [0, 1, 7, 0, 1]}
    with pytest.raises(UnknownNameError, match=r"state of 'x' \(row 2\) 7 is unknown"):
        online.partial_fit(strange)
    assert online.operators_.weight == 100  # as before the call
    with pytest.raises(UnknownNameError, match="column 'y'"):
        online.partial_fit({"x": [0, 1], "z": [0, 1], "w": [0, 1]})
    with pytest.raises(DataError, match="no rows to learn from"):
        online.partial_fit({c: [] for c in "xyzw"})
    other = lt.LatentModel(GRAPH, learner="em")
    assert not hasattr(other, "partial_fit")
    with pytest.raises((NotLearnedError, AttributeError), match="partial_fit"):
        other.partial_fit(rows(rng, 10))


def test_continuous_columns():
    rng = np.random.default_rng(5)

    def some(n):
        h = rng.integers(2, size=n)
        return {
            "x": 10.0 * h + rng.normal(size=n),
            "y": -5.0 * h + rng.normal(size=n),
            "z": np.where(rng.random(n) < 0.9, h, 1 - h),
        }

    learner = lt.StepwiseEM(restarts=3, random_state=0)
    online = lt.LatentModel("H->x,y,z", {"H": 2}, learner=learner)
    for _ in range(6):
        online.partial_fit(some(800))
    np.testing.assert_allclose(online.cpts_["x"].means[:, 0], [0, 10], atol=0.3)
    np.testing.assert_allclose(online.cpts_["y"].deviations[:, 0], 1.0, atol=0.15)
    test = some(2000)
    path = online.history_[online.operators_.provenance.ascent.best]
    assert path[-1] == pytest.approx(online.score(test), abs=0.15)


def test_without_a_graph():
    rng = np.random.default_rng(6)
    online = lt.LatentModel(learner=lt.StepwiseEM(restarts=2, random_state=0))
    online.partial_fit(rows(rng, 2000)).partial_fit(rows(rng, 500))
    assert len(online.plan_.graph.latent) == 1


def test_first_sums_add_up_to_one_row():
    online = model().partial_fit(rows(np.random.default_rng(7), 200))
    for run in online.progress_.runs:
        for s in run.sums.values():
            assert s.sum() == pytest.approx(1.0)
