"""Pairs of columns, the tree over them, and its islands, against slow obvious ways."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.discovery.column_tree import column_tree, rooted
from latentia.discovery.islands import cut_islands
from latentia.discovery.pair_information import pair_information
from latentia.errors import DataError, GraphError


def drawn(sizes: tuple[int, ...], n: int, holes: float, seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    base = rng.integers(max(sizes), size=n)
    codes = []
    for m in sizes:
        own = np.where(rng.random(n) < 0.6, base % m, rng.integers(m, size=n))
        codes.append(np.where(rng.random(n) < holes, -1, own).astype(np.int16))
    return Rows(tuple(codes), rng.integers(1, 4, size=n).astype(float))


def slow_information(x: np.ndarray, y: np.ndarray, weight: np.ndarray) -> float:
    both = (x >= 0) & (y >= 0)
    n = weight[both].sum()
    total = 0.0
    for a, b in itertools.product(set(x[both]), set(y[both])):
        p = weight[both & (x == a) & (y == b)].sum() / n
        if p > 0:
            pa, pb = weight[both & (x == a)].sum() / n, weight[both & (y == b)].sum() / n
            total += p * math.log(p / (pa * pb))
    seen = [len(set(c[c >= 0])) for c in (x, y)]
    return max(total - (seen[0] - 1) * (seen[1] - 1) / (2 * n), 0.0)


@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_information_of_pairs_is_that_of_counting_each(holes: float) -> None:
    sizes = (2, 3, 4, 2)
    rows = drawn(sizes, 400, holes, 1)
    found = pair_information(sizes, LocalRows(rows, block_rows=37))
    for i, j in itertools.combinations(range(4), 2):
        slow = slow_information(rows.codes[i], rows.codes[j], rows.weights)
        assert found[i, j] == pytest.approx(slow, abs=1e-10)
        assert found[j, i] == found[i, j]
    assert (found.diagonal() == 0).all()


def test_too_many_states_for_pairs() -> None:
    with pytest.raises(DataError, match="pairs of them are counted"):
        pair_information([60_000, 60_000], LocalRows(drawn((2, 2), 5, 0, 0)))


@pytest.mark.parametrize("cells", [1, 50, 80])
def test_panels_count_what_all_at_once_do(cells: int) -> None:
    sizes = (2, 3, 4, 2)
    rows = LocalRows(drawn(sizes, 300, 0.2, 2))
    np.testing.assert_allclose(
        pair_information(sizes, rows, cells), pair_information(sizes, rows), rtol=0, atol=1e-12
    )


def test_the_tree_is_the_best_of_all_trees() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        n = 5
        weight = np.triu(rng.random((n, n)), 1)
        weight += weight.T
        pairs = list(itertools.combinations(range(n), 2))
        best = max(
            (sum(weight[e] for e in edges), edges)
            for edges in itertools.combinations(pairs, n - 1)
            if connected(n, edges)
        )
        assert column_tree(weight) == best[1]


def connected(n: int, edges: tuple[tuple[int, int], ...]) -> bool:
    reached, grew = {0}, True
    while grew:
        grew = False
        for a, b in edges:
            if (a in reached) != (b in reached):
                reached |= {a, b}
                grew = True
    return len(reached) == n


def test_required_and_forbidden_edges() -> None:
    weight = np.ones((4, 4)) - np.eye(4)
    weight[0, 1] = weight[1, 0] = 5.0
    assert (0, 1) in column_tree(weight)
    assert (0, 1) not in column_tree(weight, forbid=[(1, 0)])
    weight[2, 3] = weight[3, 2] = 0.0
    assert (2, 3) in column_tree(weight, require=[(3, 2)])
    apart = column_tree(weight, forbid=[(0, 2), (1, 2), (3, 2)])
    assert all(2 not in edge for edge in apart)
    assert len(apart) == 2
    with pytest.raises(GraphError, match="both required and forbidden"):
        column_tree(weight, [(0, 1)], [(1, 0)])
    with pytest.raises(GraphError, match="cycle"):
        column_tree(weight, [(0, 1), (1, 2), (0, 2)])


@pytest.mark.parametrize("smallest", [1, 2, 3, 5, 40])
@pytest.mark.parametrize("inner", [False, True])
def test_islands_are_connected_parts_that_cover_all_columns(smallest: int, inner: bool) -> None:
    rng = np.random.default_rng(smallest)
    for n in (1, 2, 7, 40):
        edges = tuple((int(rng.integers(v)), v) for v in range(1, n))
        found = cut_islands(n, edges, smallest, inner, childless={0})
        assert sorted(c for own in found.columns for c in own) == list(range(n))
        assert len(found.columns) == 1 or min(map(len, found.columns)) >= min(smallest, 2) // 2
        for own in found.columns:
            inside = [e for e in edges if set(e) <= set(own)]
            assert len(inside) == len(own) - 1  # a connected part of a tree
        tied = [i for i, above in enumerate(found.tree.above) if above >= 0]
        assert len(tied) == len(found.columns) - 1
        for c, p in enumerate(found.column_parent):
            if p >= 0:
                assert inner
                assert p != 0
                assert found.home[p] == found.home[c]
                assert (min(c, p), max(c, p)) in edges


def test_most_states_are_the_joint_states_below() -> None:
    found = cut_islands(4, ((0, 1), (1, 2), (2, 3)), 2, False)
    states = found.most_states([2, 2, 3, 3], 100)
    root = next(i for i, above in enumerate(found.tree.above) if above < 0)
    assert states[root] == 36
    assert states[1 - root] == math.prod([2, 2, 3, 3][c] for c in found.columns[1 - root])
    assert max(found.most_states([2, 2, 3, 3], 5)) == 5


def test_trees_hang_from_their_middle() -> None:
    tree = rooted(5, [(0, 1), (1, 2), (2, 3), (3, 4)])
    assert tree.above == (1, 2, -1, 2, 3)
    assert tree.order[0] == 2
    assert sorted(tree.below[2]) == [1, 3]
