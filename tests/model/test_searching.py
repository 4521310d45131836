"""LatentModel inside scikit-learn: searches over latents and graphs, clones, pickles."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline

import latentia as lt


@pytest.fixture(scope="module")
def rows():
    """Two classes told by four columns."""
    rng = np.random.default_rng(3)
    h = rng.integers(3, size=1500)
    shares = rng.dirichlet([0.4] * 3, size=(5, 3))
    draws = {f"c{k}": [rng.choice(3, p=shares[k, i]) for i in h] for k in range(5)}
    return pd.DataFrame(draws)


GRAPH = "h->c0; h->c1; h->c2; h->c3; h->c4"
STATES = {f"c{k}": [0, 1, 2] for k in range(5)}


def test_a_search_over_numbers_of_states(rows):
    model = lt.LatentModel(GRAPH, learner=lt.EM(restarts=2, random_state=0), state_names=STATES)
    grid = {"latents": [{"h": 1}, {"h": 3}]}
    search = GridSearchCV(model, grid, cv=3).fit(rows)
    assert search.best_params_ == {"latents": {"h": 3}}
    assert search.best_estimator_.cpts_["h"].shape == (3,)
    by_hand = cross_val_score(clone(model).set_params(latents={"h": 3}), rows, cv=3).mean()
    assert search.best_score_ == pytest.approx(by_hand)
    assert search.predict(rows.head(3)).shape == (3, 5)


def test_a_search_over_graphs_and_settings_of_learners(rows):
    chain = "h->c0; h->c1; g->c2; g->c3; g->c4; h->g"
    model = lt.LatentModel(learner=lt.EM(restarts=1, random_state=0), state_names=STATES)
    grid = [
        {"graph": [GRAPH], "latents": [{"h": 3}], "learner__smoothing": [0.0, 5.0]},
        {"graph": [chain], "latents": [{"h": 2, "g": 2}]},
    ]
    search = GridSearchCV(model, grid, cv=2, refit=False).fit(rows)
    assert len(search.cv_results_["mean_test_score"]) == 3
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_clones_and_pickles_answer_alike(rows):
    model = lt.LatentModel(GRAPH, {"h": 3}, learner=lt.EM(restarts=1, random_state=0)).fit(rows)
    again = pickle.loads(pickle.dumps(model))
    pd.testing.assert_frame_equal(
        again.predict_proba(rows.head(), "c0"), model.predict_proba(rows.head(), "c0")
    )
    fresh = clone(model)
    assert not hasattr(fresh, "operators_")
    assert fresh.get_params()["latents"] == {"h": 3}
    piped = Pipeline([("model", clone(model))]).fit(rows)
    assert piped.score(rows) == pytest.approx(model.score(rows))
