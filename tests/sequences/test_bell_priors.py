"""The prior of Gaussians: its M-step is a maximum, and it leaves far-apart states narrow."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import latentia as lt
from latentia.sequences.bell_priors import BellPrior, bell_prior


def test_the_m_step_is_the_maximum_of_likelihood_and_prior() -> None:
    x = np.random.default_rng(0).normal(2.0, 0.7, size=9)
    sums = np.array([[[len(x), x.sum(), (x**2).sum()]]])
    prior = BellPrior(rows=1.5, variance=0.4)

    def loss(at: np.ndarray) -> float:
        mean, variance = at[0], np.exp(at[1])
        fit = -0.5 * (np.log(2 * np.pi * variance) + (x - mean) ** 2 / variance).sum()
        return -fit - prior.log_density(np.array([[[1.0, mean, variance]]]))

    best = minimize(loss, np.zeros(2), method="BFGS", options={"gtol": 1e-9}).x
    found = prior.maximise(sums)[0, 0]
    assert found[1:] == pytest.approx([best[0], np.exp(best[1])], rel=1e-5)


def test_states_without_rows_are_like_the_column() -> None:
    found = BellPrior(1.0, 0.1).maximise(np.zeros((3, 1, 3)))
    assert found[:, 0].tolist() == [[1.0, 0.0, 1.0]] * 3


def test_far_apart_states_stay_narrow() -> None:
    """A pseudo-row of the column's own variance made 1.6 of 1.0 here."""
    rng = np.random.default_rng(4)
    z = np.repeat(rng.choice([0, 1, 1, 2], size=60), 10)
    model = lt.SequenceModel("z -> z', z -> x", {"z": 3}).fit(
        {"x": 10.0 * z + rng.normal(size=600)}
    )
    assert np.abs(model.cpts_["x"].deviations - 1.0).max() < 0.2
    assert bell_prior(10.0 * z - 10.0 + rng.normal(size=600), 1.0, 3).variance < 2.0
