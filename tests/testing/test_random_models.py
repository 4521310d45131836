"""The oracles against arithmetic by hand, and random graphs against what they promise."""

import itertools
import math

import numpy as np
import pytest

from latentia.errors import DataError, EvidenceError, PlanError, UnknownNameError
from latentia.exact.tabular_model import TabularModel
from latentia.structure.junction import clique_tree
from latentia.structure.reading_graphs import as_graph
from latentia.structure.triangulate import eliminate, log_states, moralise
from latentia.testing.random_models import (
    KINDS,
    all_rows,
    brute_force,
    brute_force_full,
    posterior_from_joint,
    random_graph,
    random_model,
)

DRAWS = 30


def draws(kind):
    rng = np.random.default_rng(list(KINDS).index(kind))
    return [random_graph(rng, kind) for _ in range(DRAWS)]


def separators(graph):
    tree = clique_tree(eliminate(moralise(graph), log_states(graph)))
    return [tree.separator(i, up) for i, up in enumerate(tree.parent) if up != i]


@pytest.mark.parametrize("kind", KINDS)
def test_random_graphs_can_be_enumerated(kind):
    for graph in draws(kind):
        assert None not in graph.states
        assert math.prod(graph.states[v] for v in graph.observed) <= 20_000
        assert math.prod(graph.states) <= 10**6


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_graph_and_model(kind):
    one, other = np.random.default_rng(5), np.random.default_rng(5)
    graph = random_graph(one, kind)
    assert graph == random_graph(other, kind)
    first, second = random_model(graph, one), random_model(graph, other)
    assert all(np.array_equal(table, second.cpts[key]) for key, table in first.cpts.items())


def test_kinds_are_what_they_say():
    assert all(
        len(s) == 1 for kind in ("tree", "chain") for g in draws(kind) for s in separators(g)
    )
    assert all(len(g.latent) == 1 for g in draws("latent_class"))
    diamond = draws("diamond")[0]
    assert [diamond.names[v] for v in diamond.observed] == ["D", "E", "G", "H"]
    sizes = {len(s & g.latent) for g in draws("loop") for s in separators(g)}
    assert {1, 2, 3} <= sizes
    assert all(any(len(g.latent & set(p)) >= 2 for p in g.parents()) for g in draws("loop"))
    assert {g.directed for g in draws("clique4")} == {True, False}
    assert not any(g.directed for g in draws("undirected"))
    assert any(not g.latent for g in draws("inside"))
    assert any(s - g.latent for g in draws("inside") if g.latent for s in separators(g))
    roots = [clique_tree(eliminate(moralise(g), log_states(g))) for g in draws("forest")]
    assert all(sum(up == i for i, up in enumerate(tree.parent)) > 1 for tree in roots)


@pytest.mark.parametrize("kind", KINDS)
def test_brute_force_is_the_sum_over_all_states(kind):
    rng = np.random.default_rng(7)
    graph = random_graph(rng, kind, observed_limit=700, joint_limit=60_000)
    model = random_model(graph, rng)
    slow = np.zeros(graph.states)
    for codes in itertools.product(*(range(count) for count in graph.states)):
        slow[codes] = math.prod(
            table[tuple(codes[v] for v in scope)] for scope, table in model.tables.items()
        )
    slow /= slow.sum()
    np.testing.assert_allclose(brute_force_full(model), slow, atol=1e-14)
    observed = slow.sum(axis=tuple(sorted(graph.latent)))
    np.testing.assert_allclose(brute_force(model), observed, atol=1e-14)
    codes, weights = all_rows(model)
    assert codes.shape == (observed.size, observed.ndim)
    np.testing.assert_allclose(weights, observed[tuple(codes.T)], atol=1e-14)
    np.testing.assert_allclose(
        np.exp(model.log_evidence(model.evidence(codes))), weights, atol=1e-12
    )


def test_potentials_sit_on_maximal_cliques():
    graph = as_graph("a--b--c--a; c--d; e", states=dict.fromkeys("abcde", 2))
    model = random_model(graph, np.random.default_rng(0))
    assert set(model.cpts) == {("a", "b", "c"), ("c", "d"), ("e",)}
    assert all((table > 0).all() for table in model.cpts.values())


def test_posterior_from_joint_by_hand():
    table = np.arange(1.0, 13).reshape(2, 3, 2) / 78
    np.testing.assert_allclose(posterior_from_joint(table, 0, {1: 0, 2: 1}), [2 / 10, 8 / 10])
    np.testing.assert_allclose(posterior_from_joint(table, 0, {0: 1}), [0, 1])
    soft = posterior_from_joint(table, 2, {0: [1, 0], 1: [0.5, 0, 0.5]})
    np.testing.assert_allclose(soft, [6 / 14, 8 / 14])
    both = posterior_from_joint(table, [2, 0], {1: 2})
    np.testing.assert_allclose(both, table[:, 2].T / table[:, 2].sum())


def test_refusals():
    rng = np.random.default_rng(0)
    with pytest.raises(UnknownNameError, match=r"'grid' is unknown.*'tree'"):
        random_graph(rng, "grid")
    with pytest.raises(PlanError, match="Raise the limits"):
        random_graph(rng, "diamond", observed_limit=10)
    with pytest.raises(DataError, match=r"none for .*with_states"):
        random_model(as_graph("H->X", latents={"H": 2}), rng)
    with pytest.raises(EvidenceError, match="probability 0"):
        posterior_from_joint(np.eye(2) / 2, 0, {0: 0, 1: 1})
    wide = TabularModel([(k,) for k in range(30)], {k: [0.5, 0.5] for k in range(30)})
    with pytest.raises(PlanError, match="1,073,741,824 cells"):
        brute_force(wide)
