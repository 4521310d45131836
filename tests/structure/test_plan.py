"""Plans: α and β reach the rank of every separator, for every graph that is not absurd."""

import itertools
import os
import subprocess
import sys
import time
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from latentia.errors import GraphError, PlanError, UnknownNameError
from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan, make_plan
from latentia.structure.reading_graphs import as_graph
from latentia.structure.sides import Side
from latentia.testing.random_models import KINDS, random_graph

CLIQUE4 = "a->b,c,d; b->c,d; c->d; a->A; b->B; c->C; d->D"


def hidden_markov(length: int, hidden: int, symbols: int) -> LatentGraph:
    latents = [f"h{k}" for k in range(length)]
    edges = [*itertools.pairwise(latents), *((f"h{k}", f"x{k}") for k in range(length))]
    columns = {f"x{k}": symbols for k in range(length)}
    return as_graph(edges, dict.fromkeys(latents, hidden), columns)


def star(children: int) -> LatentGraph:
    columns = [f"x{k}" for k in range(children)]
    return as_graph([("H", x) for x in columns], {"H": 3}, dict.fromkeys(columns, 2))


def dense(size: int, arrow: str, states: int) -> LatentGraph:
    pairs = [f"v{a}{arrow}v{b}" for b in range(size) for a in range(b)]
    return as_graph(pairs, states={f"v{k}": states for k in range(size)})


def columns(plan: Plan, leaves: Any) -> list[int]:
    return [v for x in leaves for v in plan.nodes[plan.leaves[x]].columns]


def sides(plan: Plan) -> list[tuple[int, Side, list[int]]]:
    """(rank wanted, a side, the columns across), for both sides of every separator."""
    found = []
    for node in plan.nodes:
        inside = range(node.first, node.last)
        outside = [x for x in range(len(plan.leaves)) if x not in inside]
        if node.separator:
            found.append((node.rank, node.inside, columns(plan, outside)))
            found.append((node.rank, node.outside, columns(plan, inside)))
    return found


# --- the rank condition ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_core_groups_and_features_reach_the_rank_and_no_core_is_too_large(
    kind: str, exact_ranks: Any
) -> None:
    for seed in range(8):
        rng = np.random.default_rng([seed, *kind.encode()])
        plan = make_plan(random_graph(rng, kind, observed_limit=2000, joint_limit=60_000))
        exact = exact_ranks(plan.graph, seed)

        def reached(blocks: Any, across: list[int], plan: Plan = plan, exact: Any = exact) -> int:
            return exact.rank([columns(plan, block) for block in blocks], across)

        for rank, side, across in sides(plan):
            assert side.core_rank == side.wide_rank == rank
            assert reached([side.core], across) == rank
            assert reached([*side.wide, ()], across) == rank  # the constant is always there
            for x in side.core:
                assert reached([[y for y in side.core if y != x]], across) < rank


@pytest.mark.parametrize("hidden", [4, 8])
def test_many_states_seen_through_two_symbols_take_joint_features(hidden: int) -> None:
    plan = make_plan(hidden_markov(10, hidden, 2))
    needed = max(plan.nodes, key=lambda node: min(node.rank, node.last - node.first))
    assert needed.rank == hidden
    for side in (needed.inside, needed.outside):
        assert 2 ** len(side.core) == hidden
        assert side.core in side.wide or len(side.wide) >= hidden - 1


def test_separators_of_two_latents_take_joint_features_whatever_the_columns() -> None:
    plan = make_plan(CLIQUE4, dict.fromkeys("abcd", 2), dict.fromkeys("ABCD", 9))
    node = next(node for node in plan.nodes if len(node.separator) == 2)
    assert node.rank == 4
    for side in (node.inside, node.outside):
        assert len(side.core) == 2
        assert side.core in side.wide


def test_one_latent_with_rich_columns_takes_single_features_only() -> None:
    plan = make_plan(hidden_markov(6, 3, 4))
    assert all(len(block) == 1 for _, side, _ in sides(plan) for block in side.wide)
    assert all(len(side.core) == 1 for _, side, _ in sides(plan))


def test_a_column_may_help_only_together_with_a_later_one() -> None:
    """x and z are independent until y is seen, and x is tried before y."""
    states = {"x": 2, "y": 2, "z": 4}
    plan = make_plan("A->x; A,B->C; C->y; B->z", {"A": 4, "B": 4, "C": 4}, states)
    found = [(rank, side.core_rank, len(side.core)) for rank, side, _ in sides(plan)]
    assert (3, 3, 2) in found
    assert all(rank == core_rank for rank, core_rank, _ in found)


def test_the_search_widens_until_the_rank_is_reached() -> None:
    plan = make_plan(hidden_markov(10, 8, 2), width=1)
    assert all(side.core_rank == rank for rank, side, _ in sides(plan))


@pytest.mark.parametrize("width", [1, 3, 12])
def test_width_bounds_the_features_of_a_chain(width: int) -> None:
    plan = make_plan(hidden_markov(40, 3, 4), width=width)
    assert all(len(side.wide) <= width + 1 for _, side, _ in sides(plan))
    assert all(side.wide_rank == rank for rank, side, _ in sides(plan))


# --- every graph of the issue ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "latents", "leaves", "ranks"),
    [
        ("x", "", 1, {1}),
        ("x,y", "", 2, {1}),
        ("x->y", "", 2, {3}),
        ("x->y,z; y->z", "", 3, {3}),
        ("x--y,z; y--z", "", 3, {3}),
        ("x->y->z->u->v", "", 5, {3}),
        ("H->x", "H", 1, {1}),
        ("H->x; H->G", "GH", 1, {1}),
        ("H->x,y; G->u,v; w", "GH", 5, {1, 2}),
        ("x->H->y; x->y; z->H", "H", 3, {3}),
        ("H->x,y,z; x->y", "H", 3, {2, 3}),
        ("A->B,C; B,C->F; A->w; B->x; C->y; F->u,v", "ABCF", 5, {2, 4}),
        ("A--B--C--D--A; A--x; B--y; C--u; D--v", "ABCD", 4, {2, 4}),
        ("A->B,C,D; B->C,D; C->D; A->x; B->y; C->u; D->v", "ABCD", 4, {2, 4}),
    ],
)
def test_small_graphs_plan(graph: str, latents: str, leaves: int, ranks: set[int]) -> None:
    read = as_graph(graph, latents=dict.fromkeys(latents, 2))
    plan = make_plan(read.with_states({read.names[v]: 3 for v in read.observed}))
    assert len(plan.leaves) == leaves
    assert {node.rank for k, node in enumerate(plan.nodes) if node.parent != k or leaves == 1} == (
        ranks
    )


def test_a_star_with_fifty_children_stays_small() -> None:
    plan = make_plan(star(50))
    assert {node.rank for node in plan.nodes if not node.is_leaf} == {1, 3}
    assert max(len(plan.tensor_shape(k)) for k in range(len(plan.nodes))) == 3
    assert plan.cost <= 50 * 27


def test_a_chain_of_a_thousand_plans_within_seconds() -> None:
    start = time.process_time()
    plan = make_plan(hidden_markov(1000, 3, 4))
    assert len(plan.leaves) == 1000
    assert time.process_time() - start < 20  # 3 s on one quiet core


def test_variables_with_one_state_do_no_harm() -> None:
    plan = make_plan("H->x,y,z; G->x", {"H": 2, "G": 1}, {"x": 2, "y": 1, "z": 2})
    assert {plan.nodes[plan.leaves[0]].rank, plan.nodes[plan.leaves[1]].rank} == {1, 2}


# --- what is observed does not tell everything ----------------------------------------------------


def test_states_that_cannot_be_told_apart_are_noted() -> None:
    (note,) = make_plan("H->x,y", {"H": 3}, {"x": 2, "y": 2}).notes
    assert "the 3 states of latent 'H' cannot be told apart" in note
    assert "separator {H} wants rank 3, at most 2 is to be had" in note
    assert "fewer states, or columns with more states" in note


@pytest.mark.parametrize(
    ("graph", "noted"),
    [
        (star(5), set()),
        (hidden_markov(6, 3, 4), set()),
        (hidden_markov(10, 3, 2), {"h0", "h9"}),  # one binary column at either end
        (hidden_markov(10, 8, 2), {"h0", "h1", "h8", "h9"}),
        (as_graph(CLIQUE4, dict.fromkeys("abcd", 2), dict.fromkeys("ABCD", 2)), set()),
        (as_graph("H->x[2],y[2]; G->H; G->u[3],v[3]", {"H": 3, "G": 3}), set()),
    ],
)
def test_only_latents_in_trouble_are_noted(graph: LatentGraph, noted: set[str]) -> None:
    notes = make_plan(graph).notes
    assert len(notes) == len(noted)
    assert all(any(f"latent {name!r} cannot" in note for note in notes) for name in noted)


def test_joint_features_beyond_bounds_are_noted() -> None:
    plan = make_plan("A->B,C; B,C->D; B->b; C->c; D->d; A->a", _all("ABCD", 3), _all("abcd", 200))
    assert "the features inside separator {B, C} reach rank 5 of 9" in plan.notes[0]
    assert "Give these columns fewer states" in plan.notes[0]


def _all(names: str, states: int) -> dict[str, int]:
    return dict.fromkeys(names, states)


# --- what it prints -------------------------------------------------------------------------------


def test_a_plan_prints_as_a_table() -> None:
    head, rule, *rows, cost = str(make_plan("H->x,y,z", {"H": 2}, _all("xyz", 3))).splitlines()
    assert head.split("  ")[0] == "separator"
    assert all(word in head for word in ("inside", "rank", "α core", "β core", "tensor"))
    assert set(rule) == {"─", " "}
    assert rows[0].split() == ["(root)", "2×2×2"]
    assert rows[1].split() == ["{H}", "x", "2", "x", "y", "x", "y,z", "leaf"]
    assert cost == "3 leaves, 1 root(s); 8 multiplications per row upwards."


def test_the_table_shows_joint_features_and_notes() -> None:
    text = str(make_plan(CLIQUE4, _all("abcd", 2), _all("ABCD", 2)))
    assert "C,D + C×D" in text
    assert str(make_plan("H->x,y", {"H": 3}, _all("xy", 2))).splitlines()[-1].startswith("! the 3 ")


def test_long_lists_are_cut_short() -> None:
    assert all(len(line) < 200 for line in str(make_plan(star(50))).splitlines())


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("states", [1, 2, 9])
@pytest.mark.parametrize("arrow", ["->", "--"])
def test_absurd_sizes_are_refused_quickly_and_in_little_memory(arrow: str, states: int) -> None:
    graph = dense(60, arrow, states)
    start = time.process_time()
    tracemalloc.start()
    with pytest.raises(PlanError) as caught:
        make_plan(graph)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "the clique {v0, v1, v2, v3, v4, v5, v6, v7, … (60 in all)}" in str(caught.value)
    assert "drop edges" in str(caught.value)
    assert peak < 50e6
    assert time.process_time() - start < 20  # 0.2 s on one quiet core, without tracing


@pytest.mark.parametrize("size", [16, 24])
def test_a_large_grid_is_refused_before_numbers_are_drawn(size: int) -> None:
    cells = list(itertools.product(range(size), repeat=2))
    edges = [f"h{i}.{j}--h{i + 1}.{j}" for i, j in cells if i + 1 < size]
    edges += [f"h{i}.{j}--h{i}.{j + 1}" for i, j in cells if j + 1 < size]
    edges += [f"h{i}.{j}--x{i}.{j}" for i, j in cells]
    latents = {f"h{i}.{j}": 2 for i, j in cells}
    tracemalloc.start()
    with pytest.raises(PlanError, match="needs a table"):
        make_plan(edges, latents, {f"x{i}.{j}": 2 for i, j in cells})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50e6


def test_tables_that_are_too_large_together_are_refused() -> None:
    with pytest.raises(PlanError, match=r"2999 cliques need tables of 9.1e\+07 cells together"):
        make_plan(hidden_markov(1000, 300, 4))


def test_operators_that_are_too_large_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latentia.structure.plan.LARGEST_TENSOR", 7)
    with pytest.raises(PlanError, match=r"2×2×2 = 8.0e\+00 cells .* fewer latent states"):
        make_plan("H->x,y,z", {"H": 2}, _all("xyz", 2))


@pytest.mark.parametrize(
    ("latents", "states", "message"),
    [
        (["H"], {"x": 2, "y": 2}, "states of latent 'H' is not known. Pass latents={'H': …}"),
        ({"H": 2}, {"x": 2}, "states of column 'y' is not known. Pass states={'y': …}"),
    ],
)
def test_unknown_numbers_of_states_are_asked_for(latents: Any, states: Any, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        make_plan("H->x,y", latents, states)
    assert message in str(caught.value)


def test_an_unknown_order_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="'min_fill'"):
        make_plan(star(3), order="alphabetical")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"leaves": (1, 2)}, "every column must be in one leaf"),
        ({"leaves": (1, 2, 3, 3)}, "every column must be in one leaf"),
        ({"nodes": (0, 3, 2, 1)}, "parents first"),
        ({"nodes": (0, 1, 2, "bare")}, "leaves, and leaves only"),
    ],
)
def test_the_value_checks_itself(change: dict[str, Any], message: str) -> None:
    plan = make_plan(star(3))
    if "nodes" in change:
        bare = replace(plan.nodes[3], columns=())
        late = replace(plan.nodes[3], parent=3, children=(2,))
        picks = {0: plan.nodes[0], 1: plan.nodes[1], 2: plan.nodes[2], 3: late, "bare": bare}
        change = {"nodes": tuple(picks[k] for k in change["nodes"])}
    with pytest.raises(PlanError, match=message):
        replace(plan, **change)


# --- columns that share a leaf --------------------------------------------------------------------


def test_a_group_is_one_leaf() -> None:
    plan = make_plan("H->x,y,z,u", {"H": 3}, _all("xyzu", 2), groups=[["z", "x"]])
    held = [{plan.graph.names[v] for v in plan.nodes[k].columns} for k in plan.leaves]
    assert sorted(map(sorted, held)) == [["u"], ["x", "z"], ["y"]]
    assert sorted(plan.leaf_states()) == [2, 2, 4]


def test_a_group_may_join_two_components() -> None:
    plan = make_plan("G->x,y; H->u,v", {"G": 2, "H": 2}, _all("xyuv", 2), groups=[["y", "u"]])
    assert len(plan.roots) == 1


def test_a_group_lifts_the_rank_of_its_leaf() -> None:
    for groups, ranks in (([], [2, 2, 2, 2]), ([("x", "y"), ("z", "u")], [4, 4])):
        plan = make_plan("H->x,y,z,u", {"H": 4}, _all("xyzu", 2), groups=groups)
        assert [plan.nodes[k].rank for k in plan.leaves] == ranks


@pytest.mark.parametrize(
    ("groups", "kind", "message"),
    [
        ([["H", "x"]], GraphError, "'H' is latent; leaves hold columns only"),
        ([["x", "y"], ["y", "z"]], GraphError, "column 'y' is in two groups; keep one"),
        ([["x", "w"]], UnknownNameError, "variable 'w' is unknown; expected one of: 'H', 'x'"),
        (["xy"], GraphError, "expected groups as lists of columns, got 'xy'"),
        ([3], GraphError, "expected groups as lists of columns, got 3"),
    ],
)
def test_wrong_groups_are_explained(groups: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        make_plan("H->x,y,z", {"H": 2}, _all("xyz", 2), groups=groups)
    assert message in str(caught.value)


# --- the same plan on every run -------------------------------------------------------------------

PRINT_PLANS = """
from latentia.structure.reading_graphs import as_graph
from latentia.structure.plan import make_plan

names = [f"name {k}" for k in range(12)]
parents = {name: set(names[max(0, k - 2):k]) for k, name in enumerate(names)}
edges = {(frozenset(a), frozenset(b)) for a, b in [("uv", "wx"), ("uv", "yz"), ("uv", "st")]}
hidden = set(names[:4])
states = {name: 2 + k % 3 for k, name in enumerate(names)}
plans = [
    make_plan(parents, hidden, states),
    make_plan(edges, {frozenset("uv"): 2}, {frozenset(x): 3 for x in ["wx", "yz", "st"]}),
    make_plan({"A->B", "A->C", "B->D", "C->D", "D->E"}, {"A", "D"}, dict.fromkeys("ABCDE", 2)),
]
print(*(plan.fingerprint for plan in plans))
print(plans[0], plans[2])
"""


def test_plans_do_not_depend_on_the_order_of_sets() -> None:
    printed = set()
    for seed in ("0", "1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = subprocess.run(
            [sys.executable, "-c", PRINT_PLANS], capture_output=True, text=True, env=environment
        )
        assert run.returncode == 0, run.stderr
        printed.add(run.stdout)
    assert len(printed) == 1


def test_equal_plans_have_equal_fingerprints() -> None:
    graph = "A->x1,x2,x3,x4,x5,x6,x7; B->x1"  # 0 and 8 print in the order in which they came
    states = {f"x{k}": 2 for k in range(1, 8)}
    one, two = (make_plan(graph, dict.fromkeys(latents, 2), states) for latents in ("AB", "BA"))
    assert repr(one.graph.latent) != repr(two.graph.latent)
    assert one == two
    assert one.fingerprint == two.fingerprint


CHANGES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a name": {"graph": "H->x,y,z,w", "states": _all("xyzw", 3)},
    "the order of columns": {"graph": "H->y,x,z,u"},
    "an edge": {"graph": "H->x,y,z,u; x->y"},
    "directions": {"graph": "H--x,y,z,u"},
    "states of a latent": {"latents": {"H": 3}},
    "states of a column": {"states": {**_all("xyz", 3), "u": 4}},
    "what is latent": {"latents": {}, "states": {**_all("xyzu", 3), "H": 2}},
    "groups": {"groups": [["x", "y"]]},
    "the root": {"root": 1},
    "width": {"width": 1, "graph": "H->x; H->y->z; u<-H"},
}


def test_fingerprints_differ_when_anything_that_matters_differs() -> None:
    base: dict[str, Any] = {"graph": "H->x,y,z,u", "latents": {"H": 2}, "states": _all("xyzu", 3)}
    prints = {what: make_plan(**{**base, **change}).fingerprint for what, change in CHANGES.items()}
    assert len(set(prints.values())) == len(prints), prints


@pytest.mark.parametrize(
    ("field", "value"),
    [("rank", 9), ("inside", Side((), 1, (), 1)), ("outside", Side((), 1, (), 1))],
)
def test_fingerprints_tell_separators_apart(field: str, value: Any) -> None:
    plan = make_plan(star(4))
    *others, last = plan.nodes
    assert replace(plan, nodes=(*others, replace(last, **{field: value}))).fingerprint != (
        plan.fingerprint
    )


def test_the_root_may_be_any_inner_clique() -> None:
    graph = hidden_markov(6, 3, 4)
    plans = [make_plan(graph, root=k) for k in range(4)]
    assert len({plan.fingerprint for plan in plans}) == 4
    assert len({tuple(sorted(node.rank for node in plan.nodes)) for plan in plans}) == 1
