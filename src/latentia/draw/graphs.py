"""The graph as people draw it: latents as dashed circles, columns as filled boxes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from latentia.draw.folded import Fold, folds_of, lay_out_folded, unfolded
from latentia.draw.layered import Layout, lay_out
from latentia.draw.svg import COLOURS, Canvas, Drawing, Point, Sample, text_width
from latentia.errors import GraphError
from latentia.structure.graph import LatentGraph

LARGEST = 300  # variables: beyond, no one can read the picture
GAP = 22.0
STEP = 74.0  # from layer to layer
FANNED = 0.07  # of how far an edge reaches aside: so much further is its layer below …
WIDEST_STEP = 160.0  # … at most
SHALLOW = 2.5  # an edge that reaches so many times as far aside as down comes from above at last …
ABOVE = 40.0  # … from this far above the centre of its node, over its neighbours
BESIDE = 22.0  # half of the height along which a long edge goes straight past nodes of a layer
NARROWEST = 600.0  # a row of nodes that nothing ties, at least
LONG = 2.2  # layers per node of the widest layer from which on a graph is drawn sideways


@final
@dataclass(frozen=True, slots=True)
class Shape:
    """Width and height of a node."""

    width: float
    height: float


def draw_graph(graph: LatentGraph) -> Drawing:
    """The graph with its latents marked and the numbers of states where they are known."""
    canvas = graph_panel(graph)
    _legend(canvas, graph)
    return canvas.finish(f"Graph {graph}"[:300])


def graph_panel(
    graph: LatentGraph, marks: Mapping[int, str] | None = None, most: int = LARGEST
) -> Canvas:
    """Nodes and edges; `marks` names variables as "evidence" or "answer"."""
    if len(graph.names) > most:
        raise GraphError(
            f"a picture of {len(graph.names)} variables cannot be read; expected at most {most}. "
            "Draw a part of the graph, or print it."
        )
    shapes = [_shape(graph, v) for v in range(len(graph.names))]
    places, paths = _places(graph, shapes)
    canvas = Canvas()
    for (a, b), corners in paths.items():
        points = [places[a], *corners, places[b]]
        points[0] = _border(points[0], points[1], shapes[a], a in graph.latent)
        points[-1] = _border(points[-1], points[-2], shapes[b], b in graph.latent)
        if graph.directed:
            canvas.arrow(points, COLOURS["line"])
        else:
            canvas.line(points, COLOURS["line"])
    for v, at in enumerate(places):
        node_mark(canvas, graph, v, at, (marks or {}).get(v, ""))
    return canvas


def node_mark(canvas: Canvas, graph: LatentGraph, v: int, at: Point, mark: str = "") -> None:
    """One variable: its shape says whether it is latent, its small figure how many states."""
    shape = _shape(graph, v)
    count = "" if graph.states[v] is None else f"{graph.states[v]}"
    if v in graph.latent:
        canvas.oval(
            at,
            shape.width,
            shape.height,
            COLOURS["paper"],
            COLOURS["line"],
            stroke_width=1.5,
            stroke_dasharray="5 3",
        )
        canvas.text(at, str(graph.names[v]), 13, after=count, font_style="italic")
        return
    fill, edge, width = COLOURS["column"], COLOURS["column edge"], 1.5
    if mark == "evidence":
        fill, edge, width = COLOURS["evidence"], COLOURS["evidence edge"], 2.0
    if mark == "answer":
        fill, edge, width = COLOURS["paper"], COLOURS["answer"], 3.0
    canvas.box(at, shape.width, shape.height, fill, edge, stroke_width=width, round=5)
    canvas.text(at, str(graph.names[v]), 13, after=count)


def _shape(graph: LatentGraph, v: int) -> Shape:
    count = 0.0 if graph.states[v] is None else 2.0 + text_width(str(graph.states[v]), 9.4)
    width = text_width(str(graph.names[v]), 13) + count
    if v in graph.latent:  # ovals are narrower above and below the middle, and italics are wide
        return Shape(max(34.0, 1.15 * width + 20), 34.0)
    return Shape(max(34.0, width + 18), 34.0)


def _places(
    graph: LatentGraph, shapes: Sequence[Shape]
) -> tuple[list[Point], dict[tuple[int, int], list[Point]]]:
    """Centres of nodes, and the corners of edges; what no edge ties stands in rows below."""
    tied = sorted({v for edge in graph.edges for v in edge})
    if not tied or len(tied) == len(shapes):
        return _tied_places(graph, shapes)
    number = {v: i for i, v in enumerate(tied)}
    part = LatentGraph(
        tuple(graph.names[v] for v in tied),
        tuple((number[a], number[b]) for a, b in graph.edges),
        frozenset(number[v] for v in tied if v in graph.latent),
        tuple(graph.states[v] for v in tied),
        graph.directed,
    )
    own, paths = _tied_places(part, [shapes[v] for v in tied])
    found = dict(zip(tied, own, strict=True))
    left = min(x - shapes[v].width / 2 for v, (x, _) in found.items())
    right = max(x + shapes[v].width / 2 for v, (x, _) in found.items())
    x, y = left, max(y for _, y in own) + STEP
    for v in sorted(set(range(len(shapes))) - set(tied)):
        if x > left and x + shapes[v].width > max(right, left + NARROWEST):
            x, y = left, y + shapes[v].height + GAP
        found[v] = (x + shapes[v].width / 2, y)
        x += shapes[v].width + GAP
    told = {(tied[a], tied[b]): corners for (a, b), corners in paths.items()}
    return [found[v] for v in range(len(shapes))], told


def _tied_places(
    graph: LatentGraph, shapes: Sequence[Shape]
) -> tuple[list[Point], dict[tuple[int, int], list[Point]]]:
    """The same where every node is tied; long graphs run from left to right."""
    edges = list(graph.edges) if graph.directed else oriented(graph)
    layout = lay_out([s.width for s in shapes], edges, GAP)
    depth = max(layout.layer) + 1
    widest = max(sum(level == k for level in layout.layer) for k in range(depth))
    if depth <= LONG * widest or depth < 5:
        widths = [s.width for s in shapes]
        folds = folds_of(layout, edges, widths)
        return _folded(widths, edges, folds) if folds else _downwards(layout, edges)
    hung = _hung(graph, edges)
    left = [v for v in range(len(shapes)) if v not in hung]
    number = {v: i for i, v in enumerate(left)}
    inner = [(number[a], number[b]) for a, b in edges if b not in hung]
    sizes = [shapes[v].height + 2 * STEP * (v in hung.values()) for v in left]
    side = lay_out(sizes, inner, 14.0)
    step = max(s.width for s in shapes) + 38
    found = {v: (step * side.layer[i], side.across[i]) for v, i in number.items()}
    used: set[int] = set()
    for v, owner in hung.items():  # the first below its owner, the second above
        x, y = found[owner]
        found[v] = (x, y - STEP * 0.9 if owner in used else y + STEP * 0.9)
        used.add(owner)
    paths: dict[tuple[int, int], list[Point]] = {e: [] for e in edges}
    for (i, j), corners in side.corners.items():
        paths[left[i], left[j]] = [(step * k, y) for y, k in corners]
    return [found[v] for v in range(len(shapes))], paths


def _folded(
    widths: Sequence[float], edges: Sequence[tuple[int, int]], folds: Sequence[Fold]
) -> tuple[list[Point], dict[tuple[int, int], list[Point]]]:
    """Layer below layer, where wide ones are folded."""
    layout, alone = lay_out_folded(widths, edges, folds, GAP)
    below = [0.0] * (max(layout.layer) + 1)
    for k, fold in enumerate(folds):
        layer = layout.layer[len(alone) + k]
        below[layer] = max(below[layer], fold.depth)
    places, paths = _downwards(layout, list(layout.corners), below)
    found = {v: places[i] for i, v in enumerate(alone)}
    told = {(alone[a], alone[b]): corners for (a, b), corners in paths.items() if b < len(alone)}
    for k, fold in enumerate(folds):
        edge, at = (alone.index(fold.owner), len(alone) + k), places[len(alone) + k]
        way = paths[edge] if layout.corners[edge] else []
        own, ways = unfolded(fold, at, way, widths)
        found.update(own)
        told.update(ways)
    return [found[v] for v in range(len(widths))], told


def _downwards(
    layout: Layout, edges: Sequence[tuple[int, int]], deep: Sequence[float] = ()
) -> tuple[list[Point], dict[tuple[int, int], list[Point]]]:
    """Layer below layer, further where edges fan out; wide ones come to their node from above.

    `deep`: how far down each layer reaches, where it is folded.
    """
    reach = [0.0] * (max(layout.layer) + 1)
    for a, b in edges:
        aside = abs(layout.across[a] - layout.across[b])
        reach[layout.layer[b]] = max(reach[layout.layer[b]], aside)
    depth = [0.0]
    for k, aside in enumerate(reach[1:]):
        own = deep[k] if deep else 0.0
        depth.append(depth[-1] + own + min(STEP + FANNED * aside, WIDEST_STEP))
    places = [(x, depth[k]) for x, k in zip(layout.across, layout.layer, strict=True)]
    paths = {
        e: [(x, depth[k] + y) for x, k in c for y in (-BESIDE, BESIDE)]
        for e, c in layout.corners.items()
    }
    for (a, b), corners in paths.items():
        (x, y), (to, below) = places[a], places[b]
        if not corners and abs(to - x) > SHALLOW * (below - y) > 0:
            paths[a, b] = [(to, below - ABOVE)]
    return places, paths


def _hung(graph: LatentGraph, edges: Sequence[tuple[int, int]]) -> dict[int, int]:
    """Columns that can sit above and below the only variable they are tied to: column -> owner."""
    tied: dict[int, list[int]] = {v: [] for v in range(len(graph.names))}
    for a, b in edges:
        tied[a].append(b)
        tied[b].append(a)
    heads = {b for _, b in edges}
    alone = {v: tied[v][0] for v in graph.observed if len(tied[v]) == 1 and v in heads}
    owners = list(alone.values())
    return {v: owner for v, owner in alone.items() if owners.count(owner) <= 2}


def oriented(graph: LatentGraph) -> list[tuple[int, int]]:
    """An undirected graph's edges, each from the end that is nearer to the first variable."""
    near: list[list[int]] = [[] for _ in graph.names]
    for a, b in graph.edges:
        near[a].append(b)
        near[b].append(a)
    rank: dict[int, int] = {}
    for start in range(len(graph.names)):
        todo = [] if start in rank else [start]
        rank.setdefault(start, len(rank))
        for v in todo:
            for u in near[v]:
                if u not in rank:
                    rank[u] = len(rank)
                    todo.append(u)
    return [(a, b) if rank[a] < rank[b] else (b, a) for a, b in graph.edges]


def _border(at: Point, towards: Point, shape: Shape, oval: bool) -> Point:
    """Where a line from the centre to another point leaves the node."""
    dx, dy = towards[0] - at[0], towards[1] - at[1]
    if dx == dy == 0:
        return at
    a, b = shape.width / 2 + 2, shape.height / 2 + 2
    share = 1 / math.hypot(dx / a, dy / b) if oval else 1 / max(abs(dx) / a, abs(dy) / b)
    return at[0] + share * dx, at[1] + share * dy


def _legend(canvas: Canvas, graph: LatentGraph) -> None:
    def latent(at: Point) -> None:
        dashes = {"stroke_dasharray": "4 2.5"}
        canvas.oval((at[0] + 9, at[1]), 18, 14, COLOURS["paper"], COLOURS["line"], **dashes)

    def column(at: Point) -> None:
        fill, edge = COLOURS["column"], COLOURS["column edge"]
        canvas.box((at[0] + 9, at[1]), 18, 14, fill, edge, round=3)

    entries: list[tuple[Sample | None, str]] = [(latent, "latent")] if graph.latent else []
    entries.append((column, "column"))
    entries += [(None, "small figure: states")] if any(graph.states) else []
    canvas.legend(entries, beside=True)
