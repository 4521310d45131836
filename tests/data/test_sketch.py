"""Sketches of columns: sums over blocks, against all cells at once and against numpy."""

import numpy as np
import pytest

from latentia.data.columns.discovering import discover, discover_from_values
from latentia.data.columns.values import Values
from latentia.data.sources import sketch
from latentia.data.sources.sketch import sketch_column


def in_blocks(cells, weight, sizes):
    """The sum over blocks of these sizes, the last one taking the rest."""
    total, start = None, 0
    for size in [*sizes, len(cells)]:
        part = slice(start, start + size)
        if len(cells[part]):
            own = sketch_column(Values(cells[part]), None if weight is None else weight[part])
            total = own if total is None else total + own
        start += size
    return total


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("high", [1, 2, 5, 120])
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16, np.float32, np.float64])
def test_numbers_are_counted_as_numpy_counts_them(kind, high, weighted):
    rng = np.random.default_rng(high)
    cells = (rng.integers(high, size=5000) - 3 * (np.dtype(kind).kind != "u")).astype(kind)
    own = rng.random(5000) if weighted else None
    found = sketch_column(Values(cells), own).numbers
    seen, place = np.unique(cells, return_inverse=True)
    assert found.whole
    assert found.seen.tolist() == seen.tolist()
    np.testing.assert_allclose(found.weights, np.bincount(place, own), rtol=1e-12)
    assert (found.low[0][0], found.high[0][0]) == (seen[0], seen[-1])


CELLS = {
    "decimals": lambda rng, n: rng.normal(size=n),
    "skewed": lambda rng, n: rng.lognormal(0, 2, n),
    "zeros": lambda rng, n: np.where(rng.random(n) < 0.3, 0.0, rng.lognormal(size=n)),
    "ties": lambda rng, n: rng.normal(size=n).round(2),
    "integers": lambda rng, n: rng.poisson(300, n),
    "states": lambda rng, n: rng.integers(0, 12, n),
    "large": lambda rng, n: 2**53 + rng.integers(0, 30, n),
    "text": lambda rng, n: rng.choice(np.array(["b", "a", "c"], dtype=object), n),
}


@pytest.mark.parametrize("n", [3000, 30_000])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", CELLS)
def test_blocks_give_the_column_of_the_whole(name, weighted, n):
    """More different numbers than are kept, too: those with the smallest hashes are the same."""
    rng = np.random.default_rng(len(name))
    cells = CELLS[name](rng, n)
    weight = rng.random(n) * 3 if weighted else None
    whole = discover_from_values("x", Values(cells), weight=weight)
    for sizes in ([n // 2], [1, 10, 100, 1000], [n // 7] * 6):
        assert discover("x", in_blocks(cells, weight, sizes)) == whole
    order = rng.permutation(n)
    moved = Values(cells[order])
    assert discover_from_values("x", moved, weight=weight[order] if weighted else None) == whole


def test_weights_are_frequencies():
    rng = np.random.default_rng(3)
    cells, counts = rng.lognormal(size=400).round(2), rng.integers(0, 5, 400)
    weighted = discover_from_values("x", Values(cells), weight=counts.astype(float))
    assert weighted == discover_from_values("x", Values(cells.repeat(counts)))


def test_the_unit_of_weights_is_no_matter_to_the_scale():
    rng = np.random.default_rng(4)
    cells, weight = rng.normal(size=500), rng.random(500)
    one = discover_from_values("x", Values(cells), weight=weight)
    small = discover_from_values("x", Values(cells), weight=1e-6 * weight)
    assert (small.centre, small.scale) == pytest.approx((one.centre, one.scale), rel=1e-6)


def test_a_sample_of_many_numbers_is_like_all_of_them():
    """Hashes know nothing of size: each kept number is one of all at random."""
    cells = np.random.default_rng(5).normal(size=100_000)
    found = sketch_column(Values(cells)).numbers
    assert not found.whole
    assert len(found.seen) == sketch.SAMPLE
    assert found.weights.sum() == sketch.SAMPLE
    error = 4 / np.sqrt(sketch.SAMPLE)  # four standard errors of a mean
    assert abs(found.seen.mean() - cells.mean()) < error
    assert (found.low[0][0], found.high[0][0]) == (cells.min(), cells.max())
    assert found.low[1][0] == np.sort(cells)[1]


def test_frequent_numbers_are_found_among_many():
    rng = np.random.default_rng(6)
    cells = rng.normal(size=60_000)
    cells[rng.random(60_000) < 0.03] = 1.25
    expected = {1.25: float((cells == 1.25).sum())}
    assert sketch_column(Values(cells)).numbers.frequent == expected
    assert in_blocks(cells, None, [9000] * 6).numbers.frequent == expected
    apart = np.sort(cells)  # all of them in one block
    assert in_blocks(apart, None, [9000] * 6).numbers.frequent == expected


def test_blocks_of_several_types_keep_every_number():
    """2⁵³ + 1 is no float: a block of floats beside one of integers must not round it."""
    a, b = np.array([2**53 + 1, 3]), np.array([1.0, 2.0**53])
    found = (sketch_column(Values(a)) + sketch_column(Values(b))).numbers
    assert found.seen.tolist() == [1, 3, 2**53, 2**53 + 1]
    signed, unsigned = np.array([-1, 5]), np.array([2**64 - 1, 5], dtype=np.uint64)
    found = (sketch_column(Values(signed)) + sketch_column(Values(unsigned))).numbers
    assert found.seen.tolist() == [-1, 5, 2**64 - 1]
    assert found.weights.tolist() == [1, 2, 1]


def test_hashes_of_equal_numbers_are_equal():
    whole = np.array([0, 1, -7, 2**53, -(2**53), 2**60, 2**62])
    assert (sketch._hashes(whole) == sketch._hashes(whole.astype(float))).all()
    assert (sketch._hashes(whole[3:4]) == sketch._hashes(whole[3:4].astype(np.uint64))).all()
    near = 2**60 + np.arange(1000)
    assert len(np.unique(sketch._hashes(near))) == 1000
    assert sketch._hashes(np.array([-0.0])) == sketch._hashes(np.array([0.0]))


def test_rows_of_weight_zero_are_as_if_they_were_not_there():
    cells = np.array([1.5, 7.0, 2.5])
    found = sketch_column(Values(cells), np.array([1.0, 0.0, 2.0]))
    assert found.numbers.seen.tolist() == [1.5, 2.5]
    assert (found.weight, found.missing, found.rows) == (3.0, 0.0, 3)


def test_the_first_odd_cell_is_told_by_its_row():
    numbers = sketch_column(Values(np.arange(10.0)))
    cells = np.array([1.0, None, "n/a", "?"], dtype=object)
    mixed = sketch_column(Values(cells, np.array([False, True, False, False])))
    assert mixed.odd == (2, "n/a")
    assert (numbers + mixed).odd == (12, "n/a")
    assert (numbers + mixed).weight == 13
