"""Skeletons: only the branching of a junction tree, over the same leaves wherever the root is."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latentia.errors import PlanError
from latentia.structure.graph import LatentGraph, relevant
from latentia.structure.junction import JunctionTree, clique_tree, grow_leaves, split_branches
from latentia.structure.reading_graphs import as_graph
from latentia.structure.skeleton import Skeleton, contract
from latentia.structure.triangulate import eliminate, log_states, moralise

Columns = frozenset[int]


@st.composite
def graphs(draw: st.DrawFn) -> LatentGraph:
    """Up to ten variables, directed or not, connected or not; every latent is relevant."""
    n = draw(st.integers(1, 10))
    pairs = list(itertools.combinations(range(n), 2))
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    hidden = draw(st.sets(st.integers(0, n - 1), max_size=n - 1))
    arrow = draw(st.sampled_from(["->", "--"]))
    text = [*map(str, range(n)), *(f"{a}{arrow}{b}" for a, b in chosen)]
    return relevant(as_graph(text, latents=[str(v) for v in sorted(hidden)]))


def split(graph: LatentGraph) -> JunctionTree:
    weight, leaves = log_states(graph), [(v,) for v in graph.observed]
    cliques = clique_tree(eliminate(moralise(graph), weight))
    return split_branches(grow_leaves(cliques, leaves, weight), weight)


def skeleton_of(graph: LatentGraph, root: int | None = None) -> Skeleton:
    return contract(split(graph), log_states(graph), root)


def columns_below(skeleton: Skeleton) -> list[Columns]:
    below: list[set[int]] = [set(b.columns) for b in skeleton.branches]
    for k in reversed(range(len(below))):
        if skeleton.branches[k].parent != k:
            below[skeleton.branches[k].parent] |= below[k]
    return [frozenset(columns) for columns in below]


def depths(skeleton: Skeleton) -> list[int]:
    found: list[int] = []
    for k, b in enumerate(skeleton.branches):
        found.append(0 if b.parent == k else found[b.parent] + 1)
    return found


@given(graphs(), st.none() | st.integers(0, 9))
def test_parents_come_first_and_know_their_children(graph: LatentGraph, root: int | None) -> None:
    branches = skeleton_of(graph, root).branches
    for k, b in enumerate(branches):
        assert b.parent <= k
        assert list(b.children) == [c for c in range(len(branches)) if branches[c].parent == k != c]


@given(graphs(), st.none() | st.integers(0, 9))
def test_leaves_go_from_left_to_right(graph: LatentGraph, root: int | None) -> None:
    skeleton = skeleton_of(graph, root)
    leaves = [b.columns for b in skeleton.branches if not b.children]
    assert sorted(leaves) == [(v,) for v in graph.observed]  # each column in one leaf
    for b, below in zip(skeleton.branches, columns_below(skeleton), strict=True):
        assert {v for held in leaves[b.first : b.last] for v in held} == below


@given(graphs(), st.none() | st.integers(0, 9))
def test_inner_branches_have_two_children_and_roots_up_to_three(
    graph: LatentGraph, root: int | None
) -> None:
    for k, b in enumerate(skeleton_of(graph, root).branches):
        if b.parent != k:
            assert len(b.children) == (0 if b.columns else 2)
        else:
            assert len(b.children) == min(b.last - b.first, 3)


@pytest.mark.parametrize(
    ("graph", "shape"),
    [
        ("x", [1]),
        ("x->y", [2]),
        ("H->x", [1]),
        ("G->H->x; G->y", [2]),
        ("x; y", [1, 1]),
        ("H->x,y,z", [3]),
        ("G->g; H->h,i; x", [1, 1, 2]),
    ],
)
def test_small_components_have_one_root(graph: str, shape: list[int]) -> None:
    read = as_graph(graph, latents=[v for v in "GH" if v in graph])
    branches = skeleton_of(read).branches
    assert sorted(len(b.children) for k, b in enumerate(branches) if b.parent == k) == shape
    assert len(branches) == sum(shape) + len(shape)


@given(graphs(), st.integers(0, 9))
def test_moving_the_root_keeps_how_the_leaves_part(graph: LatentGraph, root: int) -> None:
    def partings(skeleton: Skeleton) -> set[frozenset[Columns]]:
        below, top = columns_below(skeleton), list(range(len(skeleton.branches)))
        for k, b in enumerate(skeleton.branches):
            top[k] = k if b.parent == k else top[b.parent]
        return {frozenset({below[k], below[top[k]] - below[k]}) for k in range(len(top))}

    assert partings(skeleton_of(graph, root)) == partings(skeleton_of(graph))


@given(graphs())
def test_edges_part_the_leaves_as_the_branches_do(graph: LatentGraph) -> None:
    skeleton = skeleton_of(graph)
    tree = skeleton.tree
    below = [set(held) for held in tree.holds]
    for i in reversed(tree.order()):
        if tree.parent[i] != i:
            below[tree.parent[i]] |= below[i]
    for b, columns in zip(skeleton.branches, columns_below(skeleton), strict=True):
        assert below[b.edge] == below[b.clique] == columns


def test_contraction_keeps_the_cheapest_separator_on_the_way() -> None:
    graph = as_graph(
        "A->B->C->D; A->a,b; D->d,e",
        latents={"A": 4, "B": 2, "C": 3, "D": 4},
        states=dict.fromkeys("abde", 5),
    )
    skeleton = skeleton_of(graph)
    ways = [b for k, b in enumerate(skeleton.branches) if b.children and b.parent != k]
    separators = [skeleton.tree.separator(b.edge, skeleton.tree.parent[b.edge]) for b in ways]
    assert separators == [{graph.index("B")}]


@pytest.mark.parametrize("count", [8, 30])
def test_the_centre_of_a_chain_halves_its_depth(count: int) -> None:
    edges = [(f"h{k}", f"h{k + 1}") for k in range(count - 1)]
    edges += [(f"h{k}", f"x{k}") for k in range(count)]
    graph = as_graph(edges, latents=[f"h{k}" for k in range(count)])
    assert max(depths(skeleton_of(graph))) <= count // 2 + 1
    assert max(depths(skeleton_of(graph, root=0))) >= count - 3


def test_a_star_with_fifty_children_is_shallow() -> None:
    graph = as_graph([("H", f"x{k}") for k in range(50)], latents=["H"])
    assert max(depths(skeleton_of(graph))) <= 8


def test_a_part_without_columns_is_refused() -> None:
    with pytest.raises(PlanError, match="no column; drop it first"):
        skeleton_of(as_graph("L; x", latents=["L"]))
