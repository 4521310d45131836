"""Wide layers are folded into lists: nothing overlaps, every edge comes to its column."""

from __future__ import annotations

import re
from itertools import combinations

import pytest

from latentia.draw import folded
from latentia.draw.graphs import _places, _shape, draw_graph
from latentia.structure.graph import LatentGraph
from latentia.structure.reading_graphs import as_graph
from latentia.structure.templates import latent_class


def two_levels() -> LatentGraph:
    edges = [(f"h{k}", f"column {k} {j}") for k in range(4) for j in range(20)]
    edges += [("h0", f"h{k}") for k in range(1, 4)]
    edges += [("column 2 3", "column 2 4"), ("column 2 4", "deep")]
    return as_graph(edges, {f"h{k}": 4 for k in range(4)})


GRAPHS = {
    "class": latent_class([f"question {i}" for i in range(60)], 5),
    "two levels": two_levels(),
    "undirected": LatentGraph(
        ("h", *(f"c{i}" for i in range(50))),
        tuple((0, i) for i in range(1, 51)),
        frozenset({0}),
        (3, *[None] * 50),
        False,
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_lists_are_narrow_and_nothing_overlaps(name: str) -> None:
    graph = GRAPHS[name]
    shapes = [_shape(graph, v) for v in range(len(graph.names))]
    places, paths = _places(graph, shapes)
    across = [x for x, _ in places]
    assert max(across) - min(across) < 1.2 * folded.WIDEST
    for a, b in combinations(range(len(places)), 2):
        dx, dy = (abs(places[a][k] - places[b][k]) for k in (0, 1))
        beside = dx >= (shapes[a].width + shapes[b].width) / 2
        assert beside or dy >= (shapes[a].height + shapes[b].height) / 2, (a, b)
    assert {frozenset(e) for e in paths} == {frozenset(e) for e in graph.edges}
    for corners in paths.values():  # no corner lies in a box
        for x, y in corners:
            for (u, v), shape in zip(places, shapes, strict=True):
                assert abs(x - u) >= shape.width / 2 or abs(y - v) >= shape.height / 2


def test_a_class_of_sixty_columns_fits_a_page() -> None:
    svg = draw_graph(GRAPHS["class"])._repr_svg_()
    found = re.search(r'viewBox="[-\d.]+ [-\d.]+ ([\d.]+) ([\d.]+)"', svg)
    assert found is not None
    width, height = map(float, found.groups())
    assert width < 1300  # 60 boxes beside each other: over 6,000
    assert height < 700


def test_narrow_graphs_are_not_folded() -> None:
    graph = latent_class([f"q{i}" for i in range(12)], 3)
    places, _ = _places(graph, [_shape(graph, v) for v in range(13)])
    assert len({y for _, y in places}) == 2
