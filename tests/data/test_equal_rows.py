"""Equal rows once: however they are found, they are the same rows with the same weights."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from latentia.data.row_colours import rising, row_colours
from latentia.data.rows import Rows
from latentia.data.sources.memory import compress
from latentia.data.sources.row_sketch import distinct_rows, every_row, sketch_rows

SIZES = [3, 2, 5]


def drawn(n: int, holes: float, weight: str, seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    codes = [rng.integers(m, size=n).astype(np.int8) for m in SIZES]
    for c in codes:
        c[rng.random(n) < holes] = -1
    own = {"none": None, "whole": rng.integers(1, 5, n).astype(float), "any": rng.random(n)}
    return Rows(tuple(codes), own[weight])


def weights_of(rows: Rows) -> dict[tuple[int, ...], float]:
    """The slow obvious way: a dictionary of rows."""
    found: Counter[tuple[int, ...]] = Counter()
    for *row, w in zip(*(c.tolist() for c in rows.codes), rows.weights, strict=True):
        found[tuple(row)] += w
    return dict(found)


@pytest.mark.parametrize("weight", ["none", "whole", "any"])
@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_equal_rows_are_one_of_their_weight(holes: float, weight: str) -> None:
    rows = drawn(500, holes, weight)
    for found in (distinct_rows(rows, 500), compress(rows, SIZES)):
        assert found is not None
        assert len(found) < 150
        assert weights_of(found) == pytest.approx(weights_of(rows), rel=1e-12)
        assert len(weights_of(found)) == len(found)


@pytest.mark.parametrize("weight", ["none", "whole", "any"])
def test_their_order_is_that_of_the_columns(weight: str) -> None:
    rows = drawn(500, 0.2, weight)
    turned = np.random.default_rng(1).permutation(len(rows))
    again = Rows(
        tuple(c[turned] for c in rows.codes), None if weight == "none" else rows.weights[turned]
    )
    first, second = distinct_rows(rows, 500), distinct_rows(again, 500)
    assert first is not None
    assert second is not None
    cells = np.stack(first.codes, axis=1).tolist()
    assert cells == sorted(cells)
    assert all((a == b).all() for a, b in zip(first.codes, second.codes, strict=True))
    assert (first.weights == second.weights).all()


def test_numbers_too_large_to_join_are_sorted_column_by_column() -> None:
    rng = np.random.default_rng(0)
    wide = tuple(rng.integers(2, size=200) * (2**20 - 1) for _ in range(4))
    found = distinct_rows(Rows(wide), 200)
    assert found is not None
    assert weights_of(found) == weights_of(Rows(wide))
    assert distinct_rows(Rows(wide), 15) is None


def test_few_joint_states_are_counted_and_many_are_left_alone() -> None:
    rows = drawn(40, 0.0, "none")
    assert len(compress(rows, SIZES)) < 30  # 30 joint states: no cell is missing
    holed = drawn(40, 0.2, "none")
    assert compress(holed, SIZES) is holed  # 72, with those of missing cells


def test_blocks_are_sketched_by_their_different_rows() -> None:
    """A row that comes often has one key and its weight; sums over samples stay unbiased."""
    some, other = drawn(3000, 0.1, "none"), drawn(1000, 0.1, "none")
    other = Rows(tuple(c + 10 for c in other.codes))
    few = sketch_rows(100, 0, some)
    assert weights_of(few.rows) == weights_of(some)
    shares = []
    for seed in range(200):
        both = sketch_rows(100, seed, some) + sketch_rows(100, seed, other)
        assert both.whole() is None  # 144 differ
        sample = both.draw()
        assert len(sample) == 100
        shares.append(sample.weights[sample.codes[0] > 8].sum() / sample.total)
    spread = np.std(shares) / np.sqrt(len(shares))
    assert abs(np.mean(shares) - 0.25) < 4 * spread + 0.002  # of a ratio: biased by 1/100 of itself


def test_colours_rise_and_those_alike_stay_as_they_come() -> None:
    colours = np.array([5, 2, 5, 9, 2], dtype=np.uint64)
    assert rising(colours).tolist() == [1, 4, 0, 2, 3]
    apart = row_colours(drawn(300, 0.0, "any"))
    assert (np.diff(apart[rising(apart)].astype(float)) >= 0).all()


@pytest.mark.parametrize("weight", ["none", "whole", "any"])
@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_few_rows_are_what_their_sketch_gives(holes: float, weight: str) -> None:
    rows = drawn(300, holes, weight)
    found, sketch = every_row(rows, 300), sketch_rows(300, 0, rows)
    assert found is not None
    for other in (sketch.whole(), sketch.draw()):
        assert other is not None
        np.testing.assert_array_equal(found.weights, other.weights)
        for a, b in zip(found.codes, other.codes, strict=True):
            np.testing.assert_array_equal(a, b)
    assert every_row(rows, 299) is None  # of more only a sketch knows
    assert every_row(rows[:0], 299) is None
