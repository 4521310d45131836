"""Rows that have a column, weighed as rows that lack it would be."""

import numpy as np
import pytest

import latentia as lt
from latentia.pooling.hole_odds import LEAST, MOST, hole_odds


@pytest.mark.parametrize("seed", range(3))
def test_the_odds_are_those_of_the_truth(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(4000, 2))
    missing = rng.random(4000) < 1.0 / (1.0 + np.exp(1.5 - x[:, 0]))
    asked = x[~missing]
    found = hole_odds(x, missing, np.ones(4000), asked, np.ones(len(asked)))
    assert found is not None
    truth = np.exp(asked[:, 0])
    truth = np.clip(truth / truth.mean(), LEAST, MOST)
    np.testing.assert_allclose(found, truth / truth.mean(), rtol=0.25)
    assert np.average(found) == pytest.approx(1.0)
    # weighed, rows with the cell are like those without it, but for odds that are cut
    own, theirs = np.average(asked[:, 0], weights=found), x[missing, 0].mean()
    assert asked[:, 0].mean() < 0.0 < 0.7 * theirs < own < theirs + 0.05


def test_weights_are_repeats_and_few_rows_tell_nothing() -> None:
    rng = np.random.default_rng(0)
    x, missing = rng.normal(size=(200, 2)), rng.random(200) < 0.3
    count = rng.integers(0, 4, size=200)
    asked = rng.normal(size=(20, 2))
    again = np.repeat(np.arange(200), count)
    weighed = hole_odds(x, missing, count.astype(float), asked, np.ones(20))
    repeated = hole_odds(x[again], missing[again], np.ones(len(again)), asked, np.ones(20))
    assert weighed is not None
    assert repeated is not None
    np.testing.assert_allclose(weighed, repeated, rtol=1e-3)
    assert hole_odds(x[:60], missing[:60], np.ones(60), asked, np.ones(20)) is None


@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
def test_intervals_hold_where_holes_are() -> None:
    """Half of the rows spread ten times as wide, and these lack the number: .83 before."""
    covered = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        wide = rng.random(600) < 0.5
        y = rng.normal(size=600) * np.where(wide, 10.0, 1.0)
        hidden = wide & (rng.random(600) < 0.6)
        rows = {"wide": np.where(wide, "yes", "no"), "x": rng.normal(size=600)}
        model = lt.LatentModel().fit({**rows, "y": np.where(hidden, np.nan, y)})
        asked = {name: column[hidden] for name, column in rows.items()}
        ends = model.predict_quantiles(
            {**asked, "y": np.full(hidden.sum(), np.nan)}, "y", (0.05, 0.95)
        )
        covered.append(((ends["0.05"] <= y[hidden]) & (y[hidden] <= ends["0.95"])).mean())
    assert np.mean(covered) > 0.85, covered
