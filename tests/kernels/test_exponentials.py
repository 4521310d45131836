"""exp(min(x, 0)) in the kernel, against numpy's."""

import numpy as np
import pytest

from latentia.kernels.exponentials import exp_negative


@pytest.mark.parametrize("count", [0, 1, 3, 4, 1001])
def test_it_is_the_exponential(count, kernel_level):
    rng = np.random.default_rng(count)
    x = -(10.0 ** rng.uniform(-20, 2.8, size=count))
    found = exp_negative(x.copy())
    # a few units of the last place: the reduced argument is rounded
    np.testing.assert_allclose(found, np.exp(x), rtol=1e-15)


def test_ends_of_its_range(kernel_level):
    x = np.array([0.0, -0.0, 1.0, 1e300, np.inf, -np.inf, -1e300, -800.0, np.nan])
    expected = [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, np.nan]
    np.testing.assert_array_equal(exp_negative(x.copy()), expected)
    near = np.array([-707.99, -708.01, -745.0])
    np.testing.assert_allclose(exp_negative(near.copy()), np.exp(near), rtol=1e-15, atol=1e-307)


def test_single_precision_and_other_orders_are_numpys(kernel_level):
    x = -np.random.default_rng(0).random((5, 7))
    assert exp_negative(x.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(exp_negative(np.asfortranarray(x)), np.exp(x), rtol=1e-15)
