"""Logits on shared axes: against scikit-learn's at rest, and the loss told."""

import numpy as np
import pytest

from latentia.pooling import state_logits
from latentia.pooling.state_logits import fit_logits

FREEDOMS = (0.03, 1.0, 30.0)


def told_rows(states: int, n: int = 250, width: int = 8) -> tuple:
    """Features of unlike spread that lean on each other, and states that they tell."""
    rng = np.random.default_rng(states)
    features = rng.normal(size=(n, width)) @ (rng.normal(size=(width, width)) * 0.6 ** np.arange(8))
    told = features @ rng.normal(size=(width, states)) + rng.gumbel(size=(n, states))
    told[:, -1] += 1.0
    codes = np.unique(told.argmax(axis=1), return_inverse=True)[1]
    return features + 2.0, codes, rng.integers(1, 4, size=n).astype(float)


def chances(features, slopes, intercept):
    odds = features @ slopes.T + intercept
    odds = np.hstack([np.zeros_like(odds), odds]) if odds.shape[1] == 1 else odds
    p = np.exp(odds - odds.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("states", [2, 3, 6])
def test_logits_are_those_of_scikit_learn_at_rest(states, monkeypatch):
    from sklearn.linear_model import LogisticRegression

    monkeypatch.setattr(state_logits, "AT_REST", 1e-9)
    monkeypatch.setattr(state_logits, "STEPS", 2000)
    features, codes, weight = told_rows(states)
    for freedom, own in zip(FREEDOMS, fit_logits(features, codes, weight, FREEDOMS), strict=True):
        theirs = LogisticRegression(C=freedom, max_iter=20_000, tol=1e-10)
        theirs.fit(features, codes, sample_weight=weight)
        np.testing.assert_allclose(
            chances(features, own.slopes, own.intercept),
            chances(features, theirs.coef_, theirs.intercept_),
            atol=1e-4,
        )


def test_few_steps_are_near_the_least_loss(monkeypatch):
    features, codes, weight = told_rows(5)
    share = weight / weight.sum()

    def losses():
        found = fit_logits(features, codes, weight, FREEDOMS)
        p = [chances(features, own.slopes, own.intercept) for own in found]
        pulls = [(own.slopes**2).sum() / f / 2 for own, f in zip(found, FREEDOMS, strict=True)]
        told = [-share @ np.log(each[np.arange(len(codes)), codes]) for each in p]
        return np.add(told, np.divide(pulls, weight.sum()))

    early = losses()
    monkeypatch.setattr(state_logits, "AT_REST", 1e-9)
    monkeypatch.setattr(state_logits, "STEPS", 2000)
    np.testing.assert_array_less(early - losses(), 5e-4)


def test_equal_columns_and_columns_that_never_move_are_no_trouble():
    features, codes, weight = told_rows(3)
    wide = np.column_stack([features, features[:, 0], np.ones(len(features))])
    found = fit_logits(wide, codes, weight, FREEDOMS)
    assert all(np.isfinite(own.slopes).all() for own in found)
