"""Scales for Gaussian leaves: which are taken, and mixtures against scikit-learn."""

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from latentia.data.columns.bells import bell_column, fit_bells
from latentia.data.columns.discovering import discover
from latentia.data.columns.values import Values
from latentia.data.sources.sketch import sketch_column

N = 2000


def laid(x, bells):
    sketch = sketch_column(Values(x))
    return bell_column(discover("x", sketch, "continuous"), sketch.numbers, bells)


@pytest.mark.parametrize(("apart", "bells"), [(0.0, 1), (4.0, 2), (7.0, 2)])
def test_mixtures_equal_those_of_scikit_learn(apart, bells):
    rng = np.random.default_rng(0)
    x = np.sort(rng.normal(size=400) + apart * (rng.random(400) < 0.3))
    weight, mean, variance = fit_bells(x, np.full(400, 1 / 400), bells)
    other = GaussianMixture(bells, tol=1e-9, max_iter=1000, reg_covar=0, n_init=5, random_state=0)
    other.fit(x[:, None])
    found, expected = np.argsort(mean), np.argsort(other.means_[:, 0])
    np.testing.assert_allclose(weight[found], other.weights_[expected], atol=0.01)
    np.testing.assert_allclose(mean[found], other.means_[expected, 0], atol=0.05)
    np.testing.assert_allclose(variance[found], other.covariances_[expected, 0, 0], atol=0.1)


def test_plain_columns_stay_straight():
    rng = np.random.default_rng(1)
    h = rng.integers(2, size=N)
    assert not laid(rng.normal(3, 2, N), 2).curved
    assert not laid(rng.normal(100 + 12 * h, 3), 2).curved
    assert laid(rng.normal(100 + 12 * h, 3), 1).curved  # one bell cannot be two


def test_positive_columns_are_bells_of_their_logarithm():
    column = laid(np.random.default_rng(2).lognormal(0, 1, N), 2)
    assert column.warped
    assert column.centre == 0
    assert len(column.knots) == 2


def test_gaps_part_a_column():
    rng = np.random.default_rng(3)
    column = laid(rng.normal(size=N) + 1e4 * rng.integers(3, size=N), 2)
    assert len(column.cuts) == 2
    parts = np.searchsorted(column.cuts, column.scaled(np.array([-3.0, 3.0, 9997.0, 2e4])))
    assert parts.tolist() == [0, 0, 1, 2]


def test_few_rows_decide_nothing():
    assert len(laid(np.random.default_rng(4).exponential(size=15) + 5.0, 2).knots) <= 2


def test_equal_values_are_several_rows():
    """Counts with many ties: three hundred different values are still two thousand rows."""
    x = np.minimum(np.random.default_rng(5).poisson(600, N), 620).astype(float)
    assert laid(x, 1).curved
