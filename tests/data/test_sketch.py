"""Sketches of small whole numbers by their counts, against the road of all numbers."""

import numpy as np
import pytest

from latentia.data.columns.values import Values
from latentia.data.sources.sketch import sketch_column


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("high", [1, 2, 5, 120])
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.bool_])
def test_bytes_are_sketched_like_larger_numbers(kind, high, weighted):
    rng = np.random.default_rng(high)
    cells = rng.integers(high, size=5000)
    cells = cells > 0 if kind is np.bool_ else (cells - 3 * (kind is np.int8)).astype(kind)
    own = rng.random(5000) if weighted else None
    fast, slow = sketch_column(Values(cells), own), sketch_column(Values(cells.astype(int)), own)
    assert fast.values.dtype == kind
    assert fast.values.astype(int).tolist() == slow.values.tolist()
    assert (fast.low, fast.high, fast.weight) == (slow.low, slow.high, slow.weight)
    assert np.isclose(fast.total, slow.total)
    assert np.isclose(fast.squares, slow.squares)
    assert fast.sample.shape == slow.sample.shape
    spread = 4 * cells.std() / np.sqrt(fast.sample.shape[1])
    assert abs(fast.sample[1].mean() - cells.mean()) <= spread


def test_samples_add_up_in_either_order():
    rng = np.random.default_rng(0)
    a, b, c = (sketch_column(Values(rng.normal(size=9000))) for _ in range(3))
    d, e = (sketch_column(Values(rng.normal(size=9000))) for _ in range(2))
    one, two = a + b + c + d + e, e + (d + (c + (b + a)))
    assert one.sample.shape == (2, 8192)
    assert np.array_equal(one.cells("continuous").cells, two.cells("continuous").cells)
