"""Products that rows share: multiplied out, they are the cells of every row."""

import numpy as np
import pytest

from latentia.native.loading import kernel
from latentia.networks.shared_products import TOGETHER, share_products

pytestmark = pytest.mark.skipif(kernel() is None, reason="no kernel was built")


def spread(shared, codes):
    """Every entry as the codes that it is made of."""
    found = [frozenset([code]) for code in range(codes)]
    for a, b in shared.parts:
        assert a < len(found)  # parts come before
        assert b < len(found)
        found.append(found[a] | found[b])
    return found


def survey(rng, rows, states, holes):
    first = np.cumsum(states) - states
    codes = (rng.random((rows, len(states))) * states).astype(int) + first
    return np.where(rng.random(codes.shape) < holes, -1, codes).astype(np.int32)


@pytest.mark.parametrize("holes", [0.0, 0.3])
@pytest.mark.parametrize("rows", [1, 7, 150, 900])
def test_entries_are_products_of_the_rows_own_codes(rows, holes):
    for seed in range(5):
        rng = np.random.default_rng([seed, rows])
        states = rng.integers(1, 5, size=int(rng.integers(1, 30)))
        seen = survey(rng, rows, states, holes)
        before = seen.copy()
        shared = share_products(kernel(), seen, states.tolist())
        np.testing.assert_array_equal(seen, before)
        found = spread(shared, int(states.sum()))
        assert shared.members.sum() == len(states)
        assert shared.members.max() <= TOGETHER
        for row, own in zip(seen, shared.seen, strict=True):
            entries = [found[e] for e in own if e >= 0]
            assert sum(map(len, entries)) == (row >= 0).sum()  # none comes twice
            assert frozenset().union(*entries) == frozenset(row[row >= 0].tolist())


def test_few_columns_are_left_of_many_that_go_together():
    rng = np.random.default_rng(0)
    shared = share_products(kernel(), survey(rng, 400, np.full(24, 2), 0.0), [2] * 24)
    assert shared.seen.shape == (400, 6)  # 16 joint states each; 256 of eight would be too many
    assert len(shared.parts) == 12 * 4 + 6 * 16


def test_columns_of_their_own_stay_as_they_are():
    seen = np.arange(300, dtype=np.int32).reshape(3, 100).T.copy()  # every row has its own codes
    shared = share_products(kernel(), seen, [100, 100, 100])
    np.testing.assert_array_equal(np.sort(shared.seen, axis=1), seen)
    assert not len(shared.parts)
