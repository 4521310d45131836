"""Colours of rows: the partition that slow refinement finds, whatever things are called."""

import numpy as np
import pytest
from tests.blocks import FoldOnly

from latentia.data.row_colours import by_colour, row_colours
from latentia.data.rows import Rows
from latentia.data.sources.row_sample import deal_rows, keep_rows, split_rows


def table(rng, n, columns=5, states=3, weight=None, holes=0.1, decimals=0):
    codes = [rng.integers(states, size=n).astype(np.int8) for _ in range(columns)]
    codes = [np.where(rng.random(n) < holes, -1, c).astype(np.int8) for c in codes]
    codes += [np.where(rng.random(n) < holes, np.nan, rng.normal(size=n)) for _ in range(decimals)]
    given = {"whole": rng.integers(1, 4, n).astype(float), "broken": rng.random(n) + 0.1}
    return Rows(tuple(codes), given.get(weight))


def renamed(rng, rows, columns=True):
    """Other states, rows and columns in another order; and which row is which."""
    order = rng.permutation(len(rows))
    codes = []
    for c in rows.codes:
        if c.dtype.kind == "f":
            codes.append(c[order])
            continue
        names = rng.permutation(int(c.max(initial=0)) + 4)  # some that no row has
        names = np.append(names[: int(c.max(initial=0)) + 1], -1)  # -1 stays where it is
        codes.append(names[c][order].astype(c.dtype))
    if columns:
        codes = [codes[i] for i in rng.permutation(len(codes))]
    return Rows(tuple(codes), None if rows.weight is None else rows.weight[order]), order


def slow_partition(rows):
    """Refinement with tuples instead of hashes, until nothing changes: classes of rows."""
    n, weights = len(rows), rows.weights.tolist()
    colour = [()] * n
    for _ in range(n + 2):
        cells = [[] for _ in range(n)]
        for codes in rows.codes:
            shown = {
                s: (
                    s == -1,
                    tuple(sorted((colour[i], weights[i]) for i in range(n) if codes[i] == s)),
                )
                for s in set(codes.tolist())
            }
            column = tuple(sorted(shown.values()))
            for i in range(n):
                cells[i].append((shown[int(codes[i])], column))
        found = [(colour[i], tuple(sorted(cells[i])), weights[i]) for i in range(n)]
        names = {x: k for k, x in enumerate(sorted(set(found)))}
        colour = [(names[x],) for x in found]
    return np.array([c[0] for c in colour])


@pytest.mark.parametrize("weight", [None, "whole"])
@pytest.mark.parametrize("n", [3, 6, 12])
def test_rows_share_a_colour_where_slow_refinement_cannot_tell_them_apart(n, weight):
    for seed in range(8):
        rows = table(np.random.default_rng(seed), n, columns=3, states=4, weight=weight)
        fast, slow = row_colours(rows), slow_partition(rows)
        assert ((fast[:, None] == fast) == (slow[:, None] == slow)).all()


@pytest.mark.parametrize("weight", [None, "whole", "broken"])
@pytest.mark.parametrize("decimals", [0, 2])
@pytest.mark.parametrize("n", [1, 30, 400])
def test_names_and_orders_do_not_matter(n, decimals, weight):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        rows = table(rng, n, weight=weight, decimals=decimals)
        other, order = renamed(rng, rows)
        np.testing.assert_array_equal(row_colours(other), row_colours(rows)[order])


def test_equal_rows_in_many_columns_at_a_time():
    """More columns than are looked at together."""
    rng = np.random.default_rng(0)
    rows = table(rng, 3000, columns=60)
    other, order = renamed(rng, rows)
    np.testing.assert_array_equal(row_colours(other), row_colours(rows)[order])
    assert len(np.unique(row_colours(rows))) == 3000


def test_units_of_decimals_do_not_matter():
    x = np.random.default_rng(0).normal(size=(2, 50))
    np.testing.assert_array_equal(
        row_colours(Rows(tuple(x))), row_colours(Rows(tuple(1e6 + 1e3 * x)))
    )


def canonical(rows):
    """The rows as a set: colours with weights."""
    return sorted(zip(row_colours(rows).tolist(), rows.weights.tolist(), strict=True))


@pytest.mark.parametrize("weight", [None, "whole", "broken"])
@pytest.mark.parametrize("n", [40, 300])
def test_hands_do_not_depend_on_names(n, weight):
    """Which rows each hand holds, in terms of the rows of the first table."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        rows = table(rng, n, columns=12, states=4, weight=weight)
        other, order = renamed(rng, rows)
        assert len(np.unique(row_colours(rows))) == n  # no two rows are equal, or mirror each other

        def hands(which, numbers):
            deals = [split_rows(which, 0.2, np.random.default_rng(1))]
            deals += deal_rows(which, 5, np.random.default_rng(1))
            places = {tuple(c[i] for c in which.codes): numbers[i] for i in range(n)}
            return [
                [
                    sorted(
                        (places[tuple(c[i] for c in h.codes)], w) for i, w in enumerate(h.weights)
                    )
                    for h in deal
                ]
                for deal in deals
            ]

        assert hands(rows, np.arange(n)) == hands(other, order)


def test_rows_that_mirror_each_other_share_a_hand_unless_they_are_many():
    rng = np.random.default_rng(0)
    few = table(rng, 60, columns=4)
    pair = [np.concatenate([c, [3, 4]]) for c in few.codes]  # two rows of states all their own
    for seed in range(20):
        _, small = split_rows(Rows(tuple(pair)), 0.2, np.random.default_rng(seed))
        assert (small.codes[0] == 3).sum() == (small.codes[0] == 4).sum()
    alone = Rows((np.arange(100), np.arange(100)))
    large, small = split_rows(alone, 0.2, rng)
    assert 5 < len(small) < 40
    assert len(large) + len(small) == 100


@pytest.mark.parametrize("weight", [None, "whole", "broken"])
@pytest.mark.parametrize("decimals", [0, 1])
def test_rows_kept_are_the_same_from_any_blocks(decimals, weight):
    """While they are few: all of them, once, with their weight; in one order."""
    rng = np.random.default_rng(0)
    rows = table(rng, 500, columns=3, weight=weight, decimals=decimals, holes=0.3)
    other, _ = renamed(rng, rows, columns=False)
    kept, whole = keep_rows(FoldOnly.of(rows, 1), 600, rng)
    assert whole
    assert kept.total == pytest.approx(rows.total)
    for count in (3, 7):
        again, whole = keep_rows(FoldOnly.of(rows, count), 600, rng)
        assert whole
        for a, b in zip(kept.codes, again.codes, strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(kept.weights, again.weights, rtol=1e-12)  # sums in other orders
    named, _ = keep_rows(FoldOnly.of(other, 4), 600, rng)
    np.testing.assert_array_equal(row_colours(named), row_colours(kept))


def test_equal_rows_are_counted_once_however_many_blocks_there_are():
    """Blocks are put together before equal rows are looked for; the limit is on different rows."""
    rng = np.random.default_rng(0)
    rows = Rows((rng.integers(4, size=5000), rng.integers(5, size=5000)))
    kept, whole = keep_rows(FoldOnly.of(rows, 50), 20, rng)
    assert whole
    assert len(kept) == 20
    assert kept.total == 5000
    _, whole = keep_rows(FoldOnly.of(rows, 50), 19, rng)
    assert not whole


def test_a_sample_of_many_rows_does_not_depend_on_names():
    rng = np.random.default_rng(0)
    rows = table(rng, 2000, columns=20, states=4, holes=0.0)
    other, order = renamed(rng, rows)
    one, two = (FoldOnly([x]).sample(300, np.random.default_rng(5)) for x in (rows, other))
    at = {tuple(x): i for i, x in enumerate(zip(*rows.codes, strict=True))}
    there = {tuple(x): order[i] for i, x in enumerate(zip(*other.codes, strict=True))}
    assert len(at) == 2000
    first = [at[tuple(x)] for x in zip(*one.codes, strict=True)]
    assert first == [there[tuple(x)] for x in zip(*two.codes, strict=True)]
    assert len(first) == 300


def test_in_the_order_of_colours():
    rows = table(np.random.default_rng(0), 100, weight="whole")
    found = by_colour(rows)
    assert (np.diff(row_colours(found).astype(float)) >= 0).all()
    assert canonical(found) == canonical(rows)


def test_equal_rows_fall_to_both_hands() -> None:
    """Equal rows have one colour, but each its own chance: nobody is held out with all his like."""
    rng = np.random.default_rng(0)
    codes = tuple(rng.integers(2, size=2000) for _ in range(5))  # 32 kinds of rows
    large, small = split_rows(Rows(codes), 0.2, np.random.default_rng(1))
    assert len(small) == len(large) == 32
    # a fifth of some 62 rows of each kind, five standard errors of .05
    np.testing.assert_allclose(small.weights / (small.weights + large.weights), 0.2, atol=0.25)
    assert large.total + small.total == 2000
    for rest, fold in deal_rows(Rows(codes), 5, np.random.default_rng(1)):
        assert len(fold) >= 30
        assert rest.total + fold.total == 2000
