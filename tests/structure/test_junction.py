"""Junction trees: running intersection, the right separators, and splits that lose nothing."""

import itertools
import math
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latentia.errors import StructureError
from latentia.structure.graph import LatentGraph
from latentia.structure.junction import (
    JunctionTree,
    clique_tree,
    grow_leaves,
    leaf_counts,
    leaf_intervals,
    split_branches,
)
from latentia.structure.reading_graphs import as_graph
from latentia.structure.triangulate import ORDERINGS, eliminate, log_states, moralise


@st.composite
def graphs(draw: st.DrawFn) -> LatentGraph:
    """Directed or not, connected or not, latent or not: up to ten variables in random order."""
    n = draw(st.integers(1, 10))
    pairs = list(itertools.combinations(draw(st.permutations(range(n))), 2))
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    hidden = draw(st.sets(st.integers(0, n - 1), max_size=n - 1))
    arrow = draw(st.sampled_from(["->", "--"]))
    return as_graph(
        [*map(str, range(n)), *(f"{a}{arrow}{b}" for a, b in chosen)],
        latents=[str(v) for v in sorted(hidden)],
        states={str(v): draw(st.integers(1, 4)) for v in range(n)},
    )


def bare(graph: LatentGraph, order: str = "min_fill") -> JunctionTree:
    return clique_tree(eliminate(moralise(graph), log_states(graph), order))


def leafy(graph: LatentGraph) -> JunctionTree:
    return grow_leaves(bare(graph), [(v,) for v in graph.observed], log_states(graph))


def split(graph: LatentGraph) -> JunctionTree:
    return split_branches(leafy(graph), log_states(graph))


def as_networkx(tree: JunctionTree) -> nx.Graph:
    linked = nx.empty_graph(len(tree.cliques))
    linked.add_edges_from((i, up) for i, up in enumerate(tree.parent) if up != i)
    return linked


def has_running_intersection(tree: JunctionTree) -> bool:
    """The definition: a forest in which the homes of every variable are tied together."""
    linked = as_networkx(tree)
    homes = [
        [i for i, clique in enumerate(tree.cliques) if v in clique]
        for v in frozenset().union(*tree.cliques)
    ]
    return nx.is_forest(linked) and all(nx.is_connected(linked.subgraph(h)) for h in homes)


def useful_branches(tree: JunctionTree) -> list[int]:
    behind = leaf_counts(tree)
    return [sum(behind[i, j] > 0 for j in near) for i, near in enumerate(tree.neighbours())]


# --- the value ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cliques", "parent", "holds", "message"),
    [
        # 0 is at both ends of a path, but not in its middle
        ([{0, 1}, {1, 2}, {0, 2}], (1, 1, 1), None, "variable 0 is in 2 cliques tied .* by 0 tree"),
        ([{0, 1}, {1, 2}], (0, 1), None, "variable 1 is in 2 cliques tied .* by 0 tree"),
        ([{0, 1}, {0, 1}], (1, 0), None, "variable 0 is in 2 cliques tied .* by 2 tree"),
        ([{0}, {1}], (1, 0), None, "run in a circle"),
        ([{0}, {1}, {2}, {3}], (0, 2, 3, 1), None, "run in a circle"),
        ([{0}], (1,), None, "must be numbers of cliques"),
        ([{0}, {1}], (0, -1), None, "must be numbers of cliques"),
        ([{0}], (0, 0), None, "equally many"),
        ([{0, 1}, {1}], (0, 0), ((), (0,)), "the columns that it holds"),
    ],
)
def test_the_value_refuses_what_is_no_junction_tree(
    cliques: list[set[int]], parent: tuple[int, ...], holds: Any, message: str
) -> None:
    with pytest.raises(StructureError, match=message):
        JunctionTree(tuple(map(frozenset, cliques)), parent, holds or ((),) * len(cliques))


def test_a_root_for_every_component_is_needed() -> None:
    tree = split(as_graph("a->b; c->d"))
    with pytest.raises(StructureError, match="1 roots do not reach every clique"):
        tree.rooted_at([0])


@given(graphs(), st.integers(0, 100))
def test_rooting_elsewhere_keeps_the_edges(graph: LatentGraph, pick: int) -> None:
    tree = split(graph)
    parts = [sorted(part) for part in nx.connected_components(as_networkx(tree))]
    roots = [part[pick % len(part)] for part in parts]
    moved = tree.rooted_at(roots)
    assert sorted(i for i, up in enumerate(moved.parent) if up == i) == sorted(roots)
    assert nx.utils.edges_equal(as_networkx(moved).edges, as_networkx(tree).edges)


@given(graphs())
def test_order_puts_parents_first(graph: LatentGraph) -> None:
    tree = split(graph)
    place = {i: k for k, i in enumerate(tree.order())}
    assert sorted(place) == list(range(len(tree.cliques)))
    assert all(place[up] <= place[i] for i, up in enumerate(tree.parent))


# --- cliques and separators -----------------------------------------------------------------------


@given(graphs(), st.sampled_from(sorted(ORDERINGS)))
def test_maximal_cliques_with_running_intersection(graph: LatentGraph, order: str) -> None:
    met = {clique for _, clique in eliminate(moralise(graph), log_states(graph), order)}
    tree = bare(graph, order)
    assert sorted(map(sorted, tree.cliques)) == sorted(
        sorted(c) for c in met if not any(c < other for other in met)
    )
    assert has_running_intersection(tree)


@given(graphs())
def test_separators_are_those_of_a_maximum_spanning_tree(graph: LatentGraph) -> None:
    tree = bare(graph)
    shared = nx.Graph()
    for i, j in itertools.combinations(range(len(tree.cliques)), 2):
        shared.add_edge(i, j, weight=len(tree.separator(i, j)))
    best = nx.maximum_spanning_tree(shared).size("weight")
    assert sum(len(tree.separator(i, up)) for i, up in enumerate(tree.parent) if i != up) == best


@pytest.mark.parametrize(
    ("graph", "cliques", "parent"),
    [
        ("a", [{0}], (0,)),
        ("a; b", [{0}, {1}], (0, 1)),
        ("a->b", [{0, 1}], (0,)),
        ("a->c; b->c", [{0, 1, 2}], (0,)),
        ("a--b--c--d--a", [{0, 1, 3}, {1, 2, 3}], (1, 1)),
    ],
)
def test_small_trees(graph: str, cliques: list[set[int]], parent: tuple[int, ...]) -> None:
    tree = bare(as_graph(graph))
    assert (list(tree.cliques), tree.parent) == (cliques, parent)


# --- leaves ---------------------------------------------------------------------------------------


@given(graphs())
def test_every_column_gets_a_leaf_on_a_smallest_clique(graph: LatentGraph) -> None:
    weight, tree = log_states(graph), leafy(graph)
    inner = [c for c, held in zip(tree.cliques, tree.holds, strict=True) if not held]

    def size(clique: frozenset[int]) -> float:
        return math.fsum(weight[v] for v in clique)

    assert [held for held in tree.holds if held] == [(v,) for v in graph.observed]
    for i, held in enumerate(tree.holds):
        if held:
            home = tree.cliques[tree.parent[i]]
            assert size(home) == pytest.approx(min(size(c) for c in inner if set(held) <= c))


def test_a_group_of_columns_shares_a_leaf() -> None:
    graph = as_graph("H->x,y,z", latents={"H": 2})
    groups = [(1, 3), (2,)]
    elimination = eliminate(moralise(graph, groups), log_states(graph))
    tree = grow_leaves(clique_tree(elimination), groups, log_states(graph))
    assert [(set(c), h) for c, h in zip(tree.cliques, tree.holds, strict=True) if h] == [
        ({1, 3}, (1, 3)),
        ({2}, (2,)),
    ]


@given(graphs())
def test_leaves_are_counted_behind_every_edge(graph: LatentGraph) -> None:
    tree = split(graph)
    linked = as_networkx(tree)
    for (i, j), count in leaf_counts(tree).items():
        cut = linked.copy()
        cut.remove_edge(i, j)
        assert count == sum(bool(tree.holds[k]) for k in nx.node_connected_component(cut, j))


@given(graphs())
def test_the_leaves_below_a_clique_are_an_interval(graph: LatentGraph) -> None:
    tree = split(graph)
    number, first, last = leaf_intervals(tree)
    below: list[set[int]] = [{number[i]} if tree.holds[i] else set() for i in range(len(first))]
    for i in reversed(tree.order()):
        if tree.parent[i] != i:
            below[tree.parent[i]] |= below[i]
    assert below == [set(range(a, b)) for a, b in zip(first, last, strict=True)]


# --- splitting ------------------------------------------------------------------------------------


@given(graphs())
def test_splitting_bounds_the_branches_and_keeps_the_rest(graph: LatentGraph) -> None:
    before, after = leafy(graph), split(graph)
    count = len(before.cliques)
    assert max(useful_branches(after)) <= 3
    assert has_running_intersection(after)
    assert (after.cliques[:count], after.holds[:count]) == (before.cliques, before.holds)
    assert all(any(new <= old for old in before.cliques) for new in after.cliques[count:])


@given(graphs())
def test_a_split_cuts_the_branches_apart(graph: LatentGraph) -> None:
    """Without the separator no path in the moral graph leads across: no independence is forced."""
    tree = split(graph)
    moral = nx.from_dict_of_lists(dict(enumerate(moralise(graph))))
    linked = as_networkx(tree)
    for i, j in list(linked.edges):
        cut = linked.copy()
        cut.remove_edge(i, j)
        sides = [
            frozenset().union(*(tree.cliques[k] for k in nx.node_connected_component(cut, end)))
            for end in (i, j)
        ]
        rest = moral.subgraph(set(moral) - tree.separator(i, j))
        apart = [sides[0] & set(rest), sides[1] & set(rest)]
        assert not any(nx.has_path(rest, a, b) for a in apart[0] for b in apart[1])


@pytest.mark.parametrize("arrow", ["->", "--"])
def test_a_clique_of_four_with_one_child_each_is_split_at_a_union(arrow: str) -> None:
    """What {a}, {b} and {c}, {d} share is nothing; the clique ties them together nevertheless."""
    text = f"a{arrow}b,c,d; b{arrow}c,d; c{arrow}d; a{arrow}A; b{arrow}B; c{arrow}C; d{arrow}D"
    tree = split(as_graph(text, latents=dict.fromkeys("abcd", 2), states=dict.fromkeys("ABCD", 2)))
    hub = tree.cliques.index(frozenset(range(4)))
    assert sorted(len(tree.separator(hub, j)) for j in tree.neighbours()[hub]) == [1, 1, 2]


def test_small_unions_are_split_off_first() -> None:
    graph = as_graph(
        "a--b,c,d; b--c,d; c--d; a--A; b--B; c--C; d--D",
        latents={"a": 8, "b": 7, "c": 2, "d": 3},
        states=dict.fromkeys("ABCD", 2),
    )
    tree = split(graph)
    hub = tree.cliques.index(frozenset(range(4)))
    assert {2, 3} in [tree.separator(hub, j) for j in tree.neighbours()[hub]]


def test_neighbouring_cliques_may_both_be_split() -> None:
    """The second split moves a clique that the first one made."""
    names = [f"x{k}" for k in range(7)]
    graph = as_graph(
        [(a, b) for a, b in itertools.combinations(names, 2) if (a, b) != ("x0", "x6")],
        states=dict.fromkeys(names, 2),
    )
    tree = split(graph)
    assert sum(len(c) == 6 for c in tree.cliques) == 2
    assert max(useful_branches(tree)) <= 3


@pytest.mark.parametrize("count", [4, 50, 200])
def test_a_star_becomes_a_balanced_tree(count: int) -> None:
    columns = [f"x{k}" for k in range(count)]
    graph = as_graph([("H", x) for x in columns], {"H": 3}, dict.fromkeys(columns, 2))
    tree = split(graph)
    linked = as_networkx(tree)
    assert max(useful_branches(tree)) <= 3
    assert all(tree.separator(i, j) <= {0} for i, j in linked.edges if not _leaf(tree, i, j))
    assert nx.radius(linked) <= math.log2(count) + 3


def _leaf(tree: JunctionTree, i: int, j: int) -> bool:
    return bool(tree.holds[i] or tree.holds[j])


def test_two_runs_give_the_same_tree() -> None:
    rng = np.random.default_rng(0)
    edges = [(a, b) for b in range(40) for a in range(b) if rng.random() < 0.06]
    assert split(as_graph(edges)) == split(as_graph(edges))
