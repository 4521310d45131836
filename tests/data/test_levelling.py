"""Scales that make up for bells that do not hold: the levels of a column are met all the same."""

import numpy as np
import pytest
from scipy.special import ndtr

import latentia as lt
from latentia.data.columns import masses
from latentia.data.columns.bells import LEVELS
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.columns.levelling import count_steps, ladder_of, levelled
from latentia.data.rows import Rows
from latentia.data.sources.sketch import sketch_numbers
from latentia.typing import Array


def column_of(x: Array) -> tuple[ContinuousColumn, Array]:
    """A straight column, and the masses of the one bell that has its mean and deviation."""
    low, high, mean, sd = x.min() - 1.0, x.max() + 1.0, x.mean(), x.std()
    column = ContinuousColumn("x", 0.0, 1.0, False, float(low), float(high), float(sd))
    edges = np.linspace(low, high, column.points + 1)
    bell = np.diff(ndtr((edges - mean) / sd))
    return column, bell / bell.sum()


@pytest.mark.parametrize("weighted", [False, True])
def test_a_curve_meets_the_levels_of_all_rows(weighted: bool) -> None:
    rng = np.random.default_rng(0)
    x = rng.exponential(size=20_000)  # more than the sketch keeps
    w = rng.integers(1, 4, size=len(x)).astype(float) if weighted else np.ones(len(x))
    column, bell = column_of(x)
    ladder = ladder_of(column, sketch_numbers(x, w if weighted else None))
    places = column.positions(x)
    steps = count_steps({0: ladder}, Rows((places,), w)).sums["0"]
    found = levelled(ladder, steps, bell)
    order = np.argsort(x)
    at = x[order][np.searchsorted(np.cumsum(w[order]) / w.sum(), LEVELS)]
    share = np.array([w[x <= one].sum() for one in at]) / w.sum()
    assert np.abs(masses.cdf(column, bell, at) - share).max() > 0.05  # a bell is no exponential
    # between the steps of the ladder a smooth curve leaves less open than 20,000 rows do (0.0035)
    assert np.abs(masses.cdf(found, bell, at) - share).max() < 0.002
    assert levelled(ladder_of(found, sketch_numbers(x)), steps, bell).knots == found.knots


def test_a_bell_that_holds_stays_straight() -> None:
    x = np.random.default_rng(1).normal(size=4000)
    column, bell = column_of(x)
    ladder = ladder_of(column, sketch_numbers(x))
    rows = Rows((np.append(column.positions(x), [np.nan, column.points]),), None)
    steps = count_steps({0: ladder}, rows).sums["0"]
    assert steps.sum() == len(x)  # without the hole and the atom
    assert levelled(ladder, steps, bell) == column


def test_em_meets_the_levels_of_many_rows() -> None:
    """Two states cannot tell a threshold of a lognormal column by bells: 4 errors off before."""
    rng, n = np.random.default_rng(2), 20_000
    x = rng.lognormal(0.0, 3.0, n)
    above = x > np.median(x)
    table = {"x": x} | {f"b{k}": np.where(rng.random(n) < 0.8, above, ~above) for k in range(3)}
    model = lt.LatentModel("h->x; h->b0; h->b1; h->b2", {"h": 2}, lt.EM(1, random_state=0))
    found = model.fit(table).query("x")
    for level in (0.05, 0.25, 0.5, 0.75, 0.95):
        at = np.quantile(x, level, method="inverted_cdf")
        share = (x <= at).mean()
        assert abs(float(found.cdf(at)) - share) < 3.0 * np.sqrt(share * (1 - share) / n)
    assert found.cdf(0.0) < 1e-3


def test_kernels_meet_the_levels_of_their_rows() -> None:
    """Smoothing along a steep end of a shifted lognormal column moved its 5 % point: 6 errors."""
    rng, n = np.random.default_rng([8000, 7]), 8000
    x = 100.0 + np.exp(1.3 * rng.normal(size=n))
    rank = np.argsort(np.argsort(x)) / n
    table = {"x": x} | {c: rank + 0.3 * rng.normal(size=n) > 0.5 for c in "uvw"}
    model = lt.LatentModel(
        "H->x; H->u; H->v; H->w", latents={"H": 3}, learner=lt.PBP(refine=False)
    ).fit(table)
    found = model.query("x")
    for q in (0.05, 0.25, 0.5, 0.75, 0.95):
        at, error = np.quantile(x, q), np.sqrt(q * (1 - q) / n)
        assert found.cdf(at) == pytest.approx((x <= at).mean(), abs=3 * error + 1 / n)
