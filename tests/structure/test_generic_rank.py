"""Generic ranks, against Gaussian elimination on the full joint in exact arithmetic."""

import itertools
import math
from typing import Any

import networkx as nx
import numpy as np
import pytest

from latentia.errors import PlanError
from latentia.structure.generic_rank import GenericModel, draw_generic, numerical_rank
from latentia.structure.graph import LatentGraph, relevant
from latentia.structure.junction import JunctionTree, leaf_intervals
from latentia.structure.plan import make_plan
from latentia.structure.reading_graphs import as_graph
from latentia.structure.triangulate import moralise
from latentia.testing.random_models import KINDS, random_graph

SEEDS = range(14)  # for each kind of graph


def small(kind: str, seed: int) -> LatentGraph:
    rng = np.random.default_rng([seed, *kind.encode()])
    return relevant(random_graph(rng, kind, observed_limit=2000, joint_limit=60_000))


def drawn(graph: LatentGraph, seed: int = 0) -> GenericModel:
    return draw_generic(graph, make_plan(graph).tree, np.random.default_rng(seed))


def behind(tree: JunctionTree) -> dict[tuple[int, int], list[int]]:
    """(i, j) -> leaf cliques on the side of i, for the two directions of every edge."""
    number, first, last = leaf_intervals(tree)
    sides = {}
    for i, up in enumerate(tree.parent):
        if up != i:
            sides[i, up] = [x for x in number if first[i] <= number[x] < last[i]]
            sides[up, i] = [x for x in number if x not in sides[i, up]]
    return sides


def columns(tree: JunctionTree, leaves: Any) -> list[int]:
    return [v for x in leaves for v in tree.holds[x]]


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_of_edges_are_those_of_the_joint(kind: str, exact_ranks: Any) -> None:
    for seed in SEEDS:
        graph = small(kind, seed)
        model, exact = drawn(graph, seed), exact_ranks(graph, seed)
        sides = behind(model.tree)
        for i, up in enumerate(model.tree.parent):
            if up != i:
                inside, outside = (columns(model.tree, sides[e]) for e in ((i, up), (up, i)))
                assert model.rank(i) == exact.rank([inside], outside), (str(graph), inside)


@pytest.mark.parametrize("kind", KINDS)
def test_groups_of_leaves_reach_what_they_do_in_the_joint(kind: str, exact_ranks: Any) -> None:
    for seed in SEEDS:
        graph, rng = small(kind, seed), np.random.default_rng(seed)
        model, exact = drawn(graph, seed), exact_ranks(graph, seed)
        sides = behind(model.tree)
        for (i, j), leaves in sides.items():
            if not leaves:
                continue
            groups = [
                sorted(rng.choice(leaves, rng.integers(1, min(len(leaves), 3) + 1), replace=False))
                for _ in range(rng.integers(1, 4))
            ]
            found = model.reach(i, j, [frozenset(map(int, group)) for group in groups])
            blocks = [columns(model.tree, group) for group in groups]
            others = columns(model.tree, sides[j, i])
            assert found == exact.rank(blocks, others), (str(graph), blocks, others)


def vertex_cut(graph: LatentGraph, inside: set[int], outside: set[int]) -> int:
    """Fewest joint states of variables without which no path leads across, by trying them all."""
    moral = nx.from_dict_of_lists(dict(enumerate(moralise(graph))))
    cuts = []
    for size in range(len(graph.names) + 1):
        for cut in itertools.combinations(range(len(graph.names)), size):
            rest = moral.subgraph(set(moral) - set(cut))
            ends = itertools.product(inside - set(cut), outside - set(cut))
            if not any(nx.has_path(rest, a, b) for a, b in ends):
                cuts.append(math.prod(graph.states[v] or 1 for v in cut))
    return min(cuts)


def test_a_collider_has_less_rank_than_its_vertex_cut() -> None:
    """x and y are independent until z is seen: Σ_z P(x, y, z) = P(x) P(y) costs one rank."""
    graph = as_graph("A->x; A,B->C; B->y; C->z", dict.fromkeys("AC", 4) | {"B": 2})
    graph = graph.with_states({"x": 4, "y": 2, "z": 2})
    model = drawn(graph)
    sides = {i: columns(model.tree, leaves) for (i, _), leaves in behind(model.tree).items()}
    x, y, z = map(graph.index, "xyz")
    edge = next(
        i for i, up in enumerate(model.tree.parent) if i != up and sides[i] in ([x], [y, z])
    )
    assert vertex_cut(graph, {x}, {y, z}) == 4
    assert model.rank(edge) == 3


def test_ranks_weigh_the_states_of_a_separator() -> None:
    """x tells a and y tells b: with equal weights on (a, b) they would be independent."""
    graph = as_graph("x<-a->b->y", {"a": 2, "b": 2}, {"x": 2, "y": 2})
    x, a, b, y = range(4)
    cliques = tuple(map(frozenset, [{a, b}, {a, b}, {a, x}, {x}, {b, y}, {y}]))
    tree = JunctionTree(cliques, (0, 0, 0, 2, 1, 4), ((), (), (), (x,), (), (y,)))
    model = draw_generic(graph, tree, np.random.default_rng(0))
    assert model.tree.separator(0, 1) == {a, b}
    assert model.rank(1) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_beliefs_agree_where_cliques_meet(kind: str) -> None:
    model = drawn(small(kind, 0))
    for i, up in enumerate(model.tree.parent):
        assert model.beliefs[i].sum() == pytest.approx(1)
        here, there = model.separator_prior(i, up), model.separator_prior(up, i)
        np.testing.assert_allclose(here, there, rtol=1e-9, atol=1e-12)


def test_rank_does_not_fade_on_a_long_way() -> None:
    """200 blind latents leave nothing of P(a, b) in floating point, but its rank is three."""
    hidden = [f"h{k}" for k in range(200)]
    edges = [*itertools.pairwise(hidden), ("h0", "a"), ("h199", "b")]
    graph = as_graph(edges, dict.fromkeys(hidden, 3), {"a": 3, "b": 3})
    model = drawn(graph)
    (a, up), *_ = (e for e, leaves in behind(model.tree).items() if model.tree.holds[e[0]])
    assert model.rank(a) == 3
    assert model.reach(a, up, [frozenset({a})]) == 3


def test_large_separators_are_reached() -> None:
    """Joint features of five binary columns span what the thirty-two states of a grid's rows do."""
    names = [f"{i}{j}" for i in range(5) for j in range(5)]
    edges = [f"h{i}{j}--h{i + 1}{j}" for i in range(4) for j in range(5)]
    edges += [f"h{i}{j}--h{i}{j + 1}" for i in range(5) for j in range(4)]
    edges += [f"h{k}--x{k}" for k in names]
    plan = make_plan(edges, {f"h{k}": 2 for k in names}, {f"x{k}": 2 for k in names})
    assert max(node.rank for node in plan.nodes) == 32
    assert all(
        side.core_rank == side.wide_rank == node.rank
        for node in plan.nodes
        for side in (node.inside, node.outside)
    )


@pytest.mark.parametrize(
    ("matrix", "rank"),
    [
        (np.zeros((3, 2)), 0),
        (np.zeros((0, 2)), 0),
        (np.eye(3), 3),
        (np.diag([1.0, 1e-8, 1e-10]), 2),
        (np.outer([1.0, 2.0], [3.0, 4.0]), 1),
    ],
)
def test_numerical_rank(matrix: np.ndarray, rank: int) -> None:
    assert numerical_rank(matrix) == rank


def test_no_features_reach_the_constant_only() -> None:
    model = drawn(as_graph("H->x,y,z", {"H": 2}, dict.fromkeys("xyz", 2)))
    assert model.reach(1, model.tree.parent[1], []) == 1


@pytest.mark.parametrize("states", [5000, 10**6])
def test_a_leaf_too_large_for_its_indicators_is_refused(states: int) -> None:
    with pytest.raises(PlanError, match=r"clique \{x\} needs a table .* fewer states"):
        make_plan("H->x,y,z", {"H": 2}, {"x": states, "y": 2, "z": 2})


def test_undirected_cliques_take_no_time_to_find() -> None:
    """A clique of twenty-eight has 2²⁸ subsets, and is one potential."""
    pairs = [f"v{a}--v{b}" for b in range(28) for a in range(b)]
    graph = as_graph(pairs, dict.fromkeys((f"v{k}" for k in range(24)), 1))
    model = drawn(graph.with_states({f"v{k}": 2 for k in range(24, 28)}))
    assert model.rank(next(i for i, held in enumerate(model.tree.holds) if held)) == 2
