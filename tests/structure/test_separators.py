"""Ranks and sides from the surroundings of a separator, against the tables of the whole graph."""

import itertools
import math
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pytest

from latentia.structure import local_ranks, near_leaves, separators
from latentia.structure.graph import LatentGraph
from latentia.structure.near_leaves import Surroundings, nearest, path_back, surround
from latentia.structure.plan import Plan, make_plan
from latentia.structure.reading_graphs import as_graph
from latentia.structure.separators import Budget
from latentia.structure.templates import factorial_markov, grid, hidden_markov, latent_class
from latentia.structure.triangulate import moralise
from latentia.testing.random_models import KINDS, random_graph


def counted(graph: LatentGraph, states: int = 3) -> LatentGraph:
    return replace(graph, states=tuple(count or states for count in graph.states))


def random_tree(size: int) -> LatentGraph:
    rng = np.random.default_rng(size)
    above = [int(rng.integers(v)) for v in range(1, size)]
    edges = [(f"v{a}", f"v{v + 1}") for v, a in enumerate(above)]
    return counted(as_graph(edges, {f"v{a}": 2 for a in above}))


def two_levels(size: int) -> LatentGraph:
    """A hub whose neighbours are latents with two columns each."""
    edges = [("g", f"h{k}") for k in range(size)]
    edges += [(f"h{k}", f"x{k}_{i}") for k in range(size) for i in range(2)]
    return counted(as_graph(edges, {"g": 2, **{f"h{k}": 2 for k in range(size)}}))


SHAPES = {
    "star": lambda n: counted(latent_class(n, 2)),
    "chain": lambda n: counted(hidden_markov(n, 2)),
    "binary chain": lambda n: counted(hidden_markov(n, 4), 2),
    "tree": random_tree,
    "two levels": two_levels,
    "ladder": lambda n: counted(grid(2, n // 2, 2)),
    "two chains": lambda n: counted(factorial_markov(n, 2, 2)),
}


def only_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask parts, whatever it takes, before the whole."""
    monkeypatch.setattr(separators, "FEW", 0)
    monkeypatch.setattr(Budget, "pays", lambda self, part: True)


# --- the same plans -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_parts_tell_what_the_whole_tells(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(6):
        rng = np.random.default_rng([seed, *kind.encode(), 3])
        graph = random_graph(rng, kind, observed_limit=2000, joint_limit=60_000)
        whole = make_plan(graph)
        with monkeypatch.context() as patch:
            only_parts(patch)
            assert make_plan(graph) == whole, str(graph)


@pytest.mark.parametrize("shape", SHAPES)
def test_parts_of_long_graphs_tell_what_the_whole_tells(
    shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = SHAPES[shape](30)
    with monkeypatch.context() as patch:
        patch.setattr(separators, "FEW", 10**9)
        whole = make_plan(graph)
    only_parts(monkeypatch)
    assert make_plan(graph) == whole


# --- how much is looked at ------------------------------------------------------------------------


def work(graph: LatentGraph, monkeypatch: pytest.MonkeyPatch) -> tuple[Plan, int, int, float]:
    """Plan, models drawn, variables of parts, and variables passed for each separator."""
    drawn: list[int] = []
    passed: list[int] = []
    parts: list[int] = []

    def draw(graph: LatentGraph, *others: Any) -> Any:
        drawn.append(len(graph.names))
        return draw_generic(graph, *others)

    def search(*arguments: Any) -> Any:
        ball = nearest(*arguments)
        passed.append(len(ball.level) + len(ball.leaves))
        return ball

    draw_generic = local_ranks.draw_generic
    for cached in (local_ranks.sides_of_part, local_ranks.has_rank, local_ranks._model):
        cached.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(local_ranks, "draw_generic", draw)
        patch.setattr(separators, "draw_generic", draw)
        patch.setattr(separators, "nearest", search)
        plan = make_plan(graph)
    parts = [size for size in drawn if size <= local_ranks.LARGEST_PART]
    assert parts == drawn  # the whole was never drawn
    return plan, len(drawn), sum(parts), sum(passed) / len(plan.nodes)


@pytest.mark.parametrize("shape", ["star", "chain", "tree", "ladder", "two chains"])
def test_work_for_each_separator_does_not_grow(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = (work(SHAPES[shape](n), monkeypatch) for n in (400, 800))
    assert len(large[0].nodes) > 1.8 * len(small[0].nodes)
    assert large[1] <= 1.3 * small[1] + 4  # factorisations belong to models: as many as of half
    assert large[2] <= 1.3 * small[2] + 40
    assert large[3] <= 1.2 * small[3]


def test_parts_that_do_not_repeat_are_left_to_the_whole() -> None:
    part = local_ranks.Part(
        separator=1,
        inner=2,
        states=(2, 3, 3),
        edges=((0, 1), (0, 2)),
        directed=True,
        inside=((1,),),
        outside=((2,),),
        bounds=(2, 2),
        rank=2,
        complete=(True, True),
        forest=True,
        touched=((), ()),
    )
    budget = Budget(4)
    assert budget.pays(part)
    assert budget.pays(part)  # once is enough
    assert not budget.pays(replace(part, rank=1))
    assert budget.left == 1


# --- near leaves ----------------------------------------------------------------------------------


def slow_nearest(
    plan: Plan, start: frozenset[int], inside: range, within: bool, width: int
) -> list[int]:
    """Leaves by distance from `start`, then by column, walking the whole moral graph."""
    moral = nx.from_dict_of_lists(dict(enumerate(moralise(plan.graph))))
    far = nx.multi_source_dijkstra_path_length(moral, start)
    home = {v: x for x, k in enumerate(plan.leaves) for v in plan.nodes[k].columns}
    order = sorted((far[v], v) for v in home if v in far and (home[v] in inside) == within)
    met = list(dict.fromkeys(home[v] for _, v in order))
    reach = max(far[v] for _, v in order[:width]) if len(met) >= width else math.inf
    tied = list(dict.fromkeys(home[v] for distance, v in order if distance <= reach))
    return tied[: max(width, near_leaves.MOST_TIED)]


def surroundings(plan: Plan) -> Surroundings:
    leaves = [plan.tree.holds.index(plan.nodes[k].columns) for k in plan.leaves]
    return surround(plan.tree, moralise(plan.graph), leaves)


def edge_above(plan: Plan, around: Surroundings, node: Any) -> int:
    """A clique whose separator and leaves below are the node's."""
    leaves = set(range(node.first, node.last))
    for i, up in enumerate(plan.tree.parent):
        low, high = around.enter[i], around.leave[i]
        below = {x for x, at in enumerate(around.leaf_places) if low <= at < high}
        if up != i and below == leaves and plan.tree.separator(i, up) == node.separator:
            return i
    raise AssertionError("no such edge")


@pytest.mark.parametrize("shape", [s for s in SHAPES if s != "two chains"])
@pytest.mark.parametrize("width", [3, 12])
@pytest.mark.parametrize("hub", [8, 128])
def test_leaves_by_distance(
    shape: str, width: int, hub: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(near_leaves, "HUB", hub)
    monkeypatch.setattr(near_leaves, "MOST_TIED", 6)
    plan = make_plan(SHAPES[shape](40))
    around = surroundings(plan)
    for node in plan.nodes[1::5]:
        inside = range(node.first, node.last)
        edge = edge_above(plan, around, node)
        for within, most in ((True, len(inside)), (False, len(plan.leaves) - len(inside))):
            count = min(width, most)
            ball = nearest(around, node.separator, edge, within, count)
            assert ball.leaves == slow_nearest(plan, node.separator, inside, within, count)
            for k in range(len(ball.leaves)):
                path = path_back(around, ball, k)
                assert path[0] == ball.columns[k]
                assert path[-1] in node.separator
                assert len(path) == ball.distance[k] + 1
                assert all(b in around.near[a] for a, b in itertools.pairwise(path))
