"""Elimination makes the moral graph chordal, with a clique around every family."""

import itertools
import math

import networkx as nx
import numpy as np
import pytest

from latentia.errors import UnknownNameError
from latentia.structure.graph import LatentGraph
from latentia.structure.reading_graphs import as_graph
from latentia.structure.triangulate import ORDERINGS, eliminate, log_states, moralise

GRAPHS = {
    "chain": nx.path_graph(9),
    "ring of 30": nx.cycle_graph(30),
    "grid": nx.grid_2d_graph(4, 5),
    "complete": nx.complete_graph(8),
    "bipartite": nx.complete_bipartite_graph(3, 5),
    "forest": nx.disjoint_union(nx.cycle_graph(5), nx.empty_graph(3)),
    "random": nx.gnp_random_graph(25, 0.2, seed=1),
}


def triangulated(graph: LatentGraph, order: str = "min_fill") -> tuple[nx.Graph, nx.Graph]:
    """The moral graph, and the same with the ties of the elimination."""
    near = moralise(graph)
    moral = nx.empty_graph(len(near))
    moral.add_edges_from((a, b) for a, around in enumerate(near) for b in around)
    filled = moral.copy()
    for _, clique in eliminate(near, log_states(graph), order):
        filled.add_edges_from(itertools.combinations(clique, 2))
    return moral, filled


@pytest.mark.parametrize("order", ORDERINGS)
@pytest.mark.parametrize("shape", GRAPHS)
def test_the_ties_make_the_graph_chordal(shape: str, order: str) -> None:
    moral, filled = triangulated(as_graph(GRAPHS[shape]), order)
    assert set(moral.edges) <= set(filled.edges)
    assert nx.is_chordal(filled)


@pytest.mark.parametrize("order", ORDERINGS)
@pytest.mark.parametrize("shape", GRAPHS)
def test_every_maximal_clique_is_met(shape: str, order: str) -> None:
    graph = as_graph(GRAPHS[shape])
    met = {clique for _, clique in eliminate(moralise(graph), log_states(graph), order)}
    _, filled = triangulated(graph, order)
    assert {frozenset(clique) for clique in nx.find_cliques(filled)} <= met


@pytest.mark.parametrize("order", ORDERINGS)
@pytest.mark.parametrize("shape", GRAPHS)
def test_every_step_takes_the_best_variable_left(shape: str, order: str) -> None:
    """Scores are updated only where they may have changed; here all are computed afresh."""
    graph = as_graph(GRAPHS[shape])
    near, weight, left = moralise(graph), log_states(graph), set(range(len(graph.names)))
    for v, clique in eliminate(near, weight, order):
        assert v == min(left, key=lambda u: (ORDERINGS[order](near, weight, u), u))
        assert clique == near[v] | {v}
        left.remove(v)
        for u in near[v]:
            near[u] = (near[u] | near[v]) - {u, v}


@pytest.mark.parametrize("seed", range(10))
def test_every_family_is_in_a_clique(seed: int) -> None:
    rng = np.random.default_rng(seed)
    edges = [(a, b) for b in range(10) for a in range(b) if rng.random() < 0.3]
    graph = as_graph([*edges, *((v,) for v in range(10))])
    cliques = [clique for _, clique in eliminate(moralise(graph), log_states(graph))]
    for child, above in enumerate(graph.parents()):
        assert any({*above, child} <= clique for clique in cliques)


def test_variables_meant_to_be_together_share_a_clique() -> None:
    graph = as_graph("a->b->c->d->e")
    cliques = [clique for _, clique in eliminate(moralise(graph, [(0, 2, 4)]), log_states(graph))]
    assert any({0, 2, 4} <= clique for clique in cliques)


def test_parents_are_married_and_undirected_neighbours_are_not() -> None:
    assert moralise(as_graph("a->c; b->c")) == [{1, 2}, {0, 2}, {0, 1}]
    assert moralise(as_graph("a--c; b--c")) == [{1}, {0, 2}, {1}]


@pytest.mark.parametrize(
    ("graph", "largest"),
    [
        (nx.path_graph(9), 2),
        (nx.cycle_graph(30), 3),
        (nx.complete_graph(8), 8),
        (nx.grid_2d_graph(4, 4), 5),
        (nx.star_graph(20), 2),
    ],
)
def test_cliques_are_no_larger_than_they_must_be(graph: nx.Graph, largest: int) -> None:
    read = as_graph(graph)
    assert max(len(c) for _, c in eliminate(moralise(read), log_states(read))) == largest


def test_a_chordal_graph_gets_no_ties() -> None:
    moral, filled = triangulated(as_graph("H1->H2->H3; H1->a; H2->b; H3->c"))
    assert moral.edges == filled.edges


@pytest.mark.parametrize("order", ORDERINGS)
def test_ties_go_by_input_order(order: str) -> None:
    graph = as_graph(nx.cycle_graph(6))
    assert [v for v, _ in eliminate(moralise(graph), log_states(graph), order)] == list(range(6))


@pytest.mark.parametrize(
    ("order", "score"),
    [
        ("min_fill", (2, math.log(120))),  # b--d and c--d are missing
        ("min_weight", (math.log(120),)),
        ("min_neighbours", (3, math.log(120))),
    ],
)
def test_each_order_has_its_score(order: str, score: tuple[float, ...]) -> None:
    graph = as_graph("a[2]--b[3],c[4],d[5]; b--c")
    assert ORDERINGS[order](moralise(graph), log_states(graph), 0) == pytest.approx(score)


def test_equal_fill_goes_to_the_fewest_states() -> None:
    graph = as_graph(nx.cycle_graph(5), states={0: 9, 1: 9, 2: 3, 3: 2, 4: 3})
    assert eliminate(moralise(graph), log_states(graph))[0] == (3, frozenset({2, 3, 4}))


def test_unknown_counts_stand_for_four_states() -> None:
    assert log_states(as_graph("a; b[1]; c[4]")) == [math.log(4), 0.0, math.log(4)]


def test_an_unknown_order_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError) as caught:
        eliminate([set()], [1.0], "max_fun")
    assert "elimination order 'max_fun'" in str(caught.value)
    assert all(repr(name) in str(caught.value) for name in ORDERINGS)
