"""The products of pass 2 window by window, against all coordinates at once."""

import pickle

import numpy as np
import pytest

from latentia import make_plan
from latentia.closed_form.basis import canonical_basis, contrasts
from latentia.closed_form.pairs import pair_layout, sum_pairs
from latentia.closed_form.solving import sum_products
from latentia.closed_form.windows import _cheapest_cuts, product_windows, sum_windows
from latentia.data.rows import Rows
from latentia.structure.templates import hidden_markov, latent_class, latent_tree

PLANS = {
    "chain": (hidden_markov(60, 3), 4),
    "star": (latent_class(30, 3), 3),
    "tree": (latent_tree([["a", "b", "c"], [["d", "e"], ["f", "g"]], "h"], 3), 3),
    "pair": ("H[2]->a; H->b", 2),
    "one": ("H[2]->a", 3),
    "forest": ("H[2]->a; H->b; H->c; G[3]->d; G->e; G->f", 3),
    "single states": ("H[2]->a; H->b; H->c", 1),
}


def some_rows(plan, n, holes, weighted, seed=0):
    """Any codes do: sums of products must agree whatever the rows are."""
    rng = np.random.default_rng(seed)
    states = [plan.graph.states[v] for v in plan.graph.observed]
    hidden = rng.random(n)
    codes = [
        np.floor(np.clip(hidden + rng.normal(0, 0.3, n), 0, 0.999) * m).astype(np.int8)
        for m in states
    ]
    if holes:
        codes = [np.where(rng.random(n) < 0.2, -1, c).astype(np.int8) for c in codes]
    return Rows(tuple(codes), rng.random(n) + 0.5 if weighted else None)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("kind", PLANS)
@pytest.mark.parametrize("n", [300, 900, 5000])  # looked up, by products, by the kernel
def test_windows_find_what_all_coordinates_at_once_find(n, kind, holes, weighted):
    graph, states = PLANS[kind]
    known = make_graph(graph, states)
    plan = make_plan(known)
    layout = pair_layout(plan)
    rows = some_rows(plan, n, holes, weighted)
    basis = canonical_basis(layout, sum_pairs(layout, rows), True)
    slow = sum_products(layout, basis, rows)
    fast = sum_windows(product_windows(layout, basis), rows)
    assert fast.kind == slow.kind
    assert (fast.rows, fast.weight) == (slow.rows, slow.weight)
    assert fast.sums.keys() == slow.sums.keys()
    for name, total in slow.sums.items():
        np.testing.assert_allclose(fast.sums[name], total, rtol=1e-11, atol=1e-8)


@pytest.mark.parametrize("share", [0.5, 0.02, 1e-9])
def test_the_contrast_of_two_states_is_that_of_many(share):
    """A third state that is never seen leaves the others as they are."""
    two, three = (
        contrasts([np.array([share, 1 - share])]),
        contrasts([np.array([share, 1 - share, 0.0])]),
    )
    np.testing.assert_allclose(two, three[:2], rtol=1e-6)  # 1 less a share of 1e-9 is rounded
    np.testing.assert_allclose(np.array([share, 1 - share]) @ two**2, 1.0)


def make_graph(graph, states):
    from latentia.structure.reading_graphs import as_graph

    found = as_graph(graph)
    return found.with_states({found.names[v]: states for v in found.observed})


def test_a_long_chain_has_several_windows_and_they_travel():
    plan = make_plan(make_graph(*PLANS["chain"]))
    layout = pair_layout(plan)
    rows = some_rows(plan, 3000, False, False)
    basis = canonical_basis(layout, sum_pairs(layout, rows), True)
    windows = product_windows(layout, basis)
    assert len(windows.windows) > 1
    again = pickle.loads(pickle.dumps(windows))
    one, two = sum_windows(windows, rows), sum_windows(again, rows)
    assert all((one.sums[name] == two.sums[name]).all() for name in one.sums)
    # nothing missing: the last states are left out; a hole in the second block must not matter
    parts = rows[:1500], some_rows(plan, 3000, True, False)[1500:]
    both = sum_windows(windows, parts[0]) + sum_windows(windows, parts[1])
    slow = sum_products(layout, basis, parts[0]) + sum_products(layout, basis, parts[1])
    for name, total in slow.sums.items():
        np.testing.assert_allclose(both.sums[name], total, rtol=1e-11, atol=1e-8)


def test_cuts_put_together_what_reaches_the_same_columns():
    near = [(0, 40), (0, 40), (0, 40), (100, 140), (100, 140), (100, 140)]
    assert _cheapest_cuts(near, 3) == [(0, 3), (3, 6)]
    assert _cheapest_cuts([(0, 1)], 2) == [(0, 1)]
    assert _cheapest_cuts([], 2) == []


@pytest.mark.parametrize("kind", [*PLANS, "loop"])
def test_counts_without_the_last_states_are_the_counts(kind):
    graph, states = PLANS.get(kind, ("A[2]->B[2]; A->C[2]; B->d; C->d; B->e; C->f; A->g", 3))
    plan = make_plan(make_graph(graph, states))
    layout = pair_layout(plan)
    rows = some_rows(plan, 4000, False, False)
    lean = sum_pairs(layout, rows)
    whole = sum_pairs(layout, Rows(rows.codes, np.ones(len(rows))))  # weights take the long way
    for name, total in whole.sums.items():
        assert (lean.sums[name] == total).all()
