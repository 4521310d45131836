"""The parents of a variable stay in the order given, however the graph comes: axes of its table."""

import itertools
from typing import Any

import networkx as nx
import numpy as np
import pytest

import latentia as lt
from latentia.structure.graph import LatentGraph, relevant
from latentia.structure.plan import make_plan
from latentia.structure.reading_graphs import as_graph
from latentia.structure.templates import grid

PARENTS = {"A": [], "B": [], "C": ["B", "A"], "D": ["C", "A", "B"]}
EDGES = [(above, child) for child, parents in PARENTS.items() for above in parents]


def as_networkx(kind: Any = nx.DiGraph) -> Any:
    graph = kind()
    graph.add_nodes_from(PARENTS)
    graph.add_edges_from(EDGES)
    return graph


READERS = {
    "dict": PARENTS,
    "dict of tuples": {child: tuple(above) for child, above in PARENTS.items()},
    "edges": [("A",), ("B",), *EDGES],
    "text": "A; B; B, A -> C; C, A, B -> D",
    "text turned round": "A; B; C <- B, A; D <- C, A, B",
    "texts": ["A", "B", "B->C", ("A", "C"), "C->D", "A->D", "B->D"],
    "networkx": as_networkx(),
    "networkx of many": as_networkx(nx.MultiDiGraph),
    "ready": as_graph(PARENTS),
    "numbers": LatentGraph(
        ("A", "B", "C", "D"),
        ((1, 2), (0, 2), (2, 3), (0, 3), (1, 3)),
        frozenset(),
        (None,) * 4,
    ),
}


def by_name(graph: LatentGraph) -> dict[Any, list[Any]]:
    return {
        graph.names[v]: [graph.names[u] for u in above] for v, above in enumerate(graph.parents())
    }


@pytest.mark.parametrize("given", READERS.values(), ids=READERS)
def test_every_reader_keeps_the_order_of_parents(given: Any) -> None:
    assert by_name(as_graph(given)) == PARENTS
    assert as_graph(given) == as_graph(PARENTS)
    assert by_name(as_graph(as_graph(given), latents=["A"], states={"B": 2})) == PARENTS


def test_graphs_with_other_orders_differ_and_order_among_children_is_no_matter() -> None:
    turned = as_graph({**PARENTS, "C": ["A", "B"]})
    assert turned != as_graph(PARENTS)
    edges = [("C", "D"), ("B", "C"), ("A", "D"), ("A", "C"), ("B", "D")]
    assert as_graph([("A",), ("B",), ("C",), *edges]) == as_graph(PARENTS)


def test_ascending_parents_leave_edges_sorted() -> None:
    """As in every file of before: numbers, fingerprints and plans of old models stay valid."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(2, 9))
        pairs = [p for p in itertools.combinations(range(n), 2) if rng.random() < 0.5]
        by_child = tuple(sorted(pairs, key=lambda edge: (edge[1], edge[0])))
        graph = LatentGraph(tuple(range(n)), by_child, frozenset(), (2,) * n)
        assert graph.edges == tuple(sorted(pairs))


def test_the_plan_does_not_depend_on_the_order() -> None:
    """The sums of rows have no axes of parents, so they add up with those of before."""
    states = {"A": 2, "B": 3, "C": 2, "D": 3}
    one = make_plan(as_graph(PARENTS, states=states))
    two = make_plan(as_graph({k: sorted(v) for k, v in PARENTS.items()}, states=states))
    assert (one.tree, one.nodes, one.leaves) == (two.tree, two.nodes, two.leaves)
    assert one.fingerprint == two.fingerprint


def test_irrelevant_latents_go_and_the_order_stays() -> None:
    graph = as_graph({**PARENTS, "L": ["D", "A"]}, latents=["L", "B"])
    assert by_name(relevant(graph)) == PARENTS


def test_cells_of_a_grid_have_the_upper_neighbour_first() -> None:
    found = by_name(grid(3, 3, 2))
    for i, j in itertools.product(range(1, 3), range(1, 3)):
        assert found[f"H{i}_{j}"] == [f"H{i - 1}_{j}", f"H{i}_{j - 1}"]


@pytest.mark.parametrize("given", READERS.values(), ids=READERS)
def test_tables_have_their_axes_in_the_order_given(given: Any) -> None:
    """All variables are binary: a wrong order would fit, and be wrong."""
    rng = np.random.default_rng(3)
    cpts = {
        child: rng.dirichlet([1.0, 1.0], size=[2] * len(above)) for child, above in PARENTS.items()
    }
    model = lt.TabularModel(given, cpts)
    joint = np.einsum("a,b,bac,cabd->abcd", *(cpts[v] for v in "ABCD"))
    np.testing.assert_allclose(lt.testing.brute_force_full(model), joint, rtol=1e-12)
    np.testing.assert_allclose(model.joint_table(["A", "B", "C", "D"]), joint, rtol=1e-12)
    codes = np.array(list(itertools.product(range(2), repeat=4)) * 8)  # many: the E-step's road
    np.testing.assert_allclose(model.log_evidence(codes)[:16], np.log(joint.ravel()), rtol=1e-12)
    assert all(np.array_equal(model.cpts[v], cpts[v]) for v in PARENTS)
