"""Sums around a node by the states of near leaves, against the products of every row."""

import itertools

import numpy as np
import pytest

import latentia as lt
from latentia.closed_form import near_sums, sharpen
from latentia.closed_form.basis import canonical_basis
from latentia.closed_form.evaluating import evaluator, factor_value, neighbour_factors
from latentia.closed_form.pairs import pair_layout, sum_pairs
from latentia.closed_form.sharpen import few_enough, sum_neighbours, sums_around
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.structure.plan import make_plan
from latentia.testing.random_models import random_model

GRAPHS = {
    "loop": ("a->c; b->c; a,b->d; a->x; b->y; c->z; d->u", dict.fromkeys("abcd", 2), 4),
    "chain": (
        "H1->H2; H2->H3; H1->a; H2->b; H3->c,d; H1->e",
        dict.fromkeys(["H1", "H2", "H3"], 4),
        3,
    ),
}


def rows_of(kind, holes, weighted, n=400):
    text, latents, states = GRAPHS[kind]
    bare = lt.as_graph(text, latents)
    rng = np.random.default_rng(3)
    graph = bare.with_states({bare.names[v]: states for v in bare.observed})
    codes = random_model(graph, rng).sample(n, rng).astype(np.int8)
    if holes:
        codes[rng.random(codes.shape) < 0.15] = -1
    weight = rng.uniform(0.5, 2.0, n) if weighted else None
    return make_plan(graph), Rows(tuple(codes.T.copy()), weight)


def by_hand(plan, k, values, weight):
    """Σ w z zᵀ, row by row."""
    blocks = [np.ones((1, len(weight)))]
    for side in neighbour_factors(plan, k):
        factors = [factor_value(values, f) for f in side]
        blocks += factors
        for a, b in itertools.combinations(factors, 2):
            blocks.append(np.einsum("in,jn->ijn", a, b).reshape(-1, len(weight)))
    z = np.concatenate(blocks)
    return np.einsum("in,jn,n->ij", z, z, weight)


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize(("holes", "weighted"), [(False, False), (True, True)])
@pytest.mark.parametrize("most", [near_sums.MOST_GROUPS, 0])
def test_sums_by_leaves_are_the_sums_over_rows(kind, holes, weighted, most, monkeypatch):
    """In the first coordinates and after a round, of all nodes, leaves too."""
    monkeypatch.setattr(near_sums, "MOST_GROUPS", most)
    plan, rows = rows_of(kind, holes, weighted)
    layout = pair_layout(plan)
    source = LocalRows(rows, block_rows=150)
    basis = canonical_basis(layout, source.fold(lambda r: sum_pairs(layout, r)), regularize=True)
    for _ in range(2):
        nodes = few_enough(plan, basis)
        near = sums_around(plan, basis, nodes)
        assert any(own.leaves for own in near.values()) == bool(most)
        found = source.fold(lambda r, b=basis, n=near: sum_neighbours(layout, b, n, r))
        values = evaluator(layout, basis)(rows)
        for k in nodes:
            total = near[k].whole(found.sums[f"near/{k}"])
            right = by_hand(plan, k, values, rows.weights)
            # sums of 400 numbers in another order
            np.testing.assert_allclose(total, right, rtol=1e-10, atol=1e-10 * abs(right).max())
        basis = sharpen._next_round(plan, basis, near, found, regularize=True)


def test_columns_whose_coordinates_are_complete_are_not_turned():
    """A pass less wide: no sums of all products outside a leaf that tells its states already."""
    plan, rows = rows_of("chain", False, False)
    layout = pair_layout(plan)
    source = LocalRows(rows)
    first = canonical_basis(layout, source.fold(lambda r: sum_pairs(layout, r)), regularize=True)
    whole = [k for k in plan.leaves if len(first.correlations[k]) == first.features[k][0]]
    done = sharpen.sharpen(layout, first, source, regularize=True)
    assert all(not set(whole) & set(steps) for steps in done.rounds)
    asked = sharpen.sharpen(layout, first, source, regularize=True, leaves_too=True)
    assert set(asked.rounds[0]) > set(done.rounds[0])
