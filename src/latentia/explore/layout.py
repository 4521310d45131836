"""Where the cards of a graph lie and how its arrows run between them.

Layers as in draw.layered; leaves with the same parents are stacked, and the graph may run from left
to right, whichever shows it largest on a screen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

from latentia.draw.graphs import oriented
from latentia.draw.layered import lay_out
from latentia.draw.svg import text_width
from latentia.explore.explored import Shown
from latentia.structure.graph import LatentGraph

Point: TypeAlias = tuple[float, float]

LISTED = 10  # states up to which a card has a line for each; beyond: a small chart
HEAD, LINE, FOOT, CHART = 34.0, 21.0, 8.0, 66.0  # heights
NARROW, WIDE = 132.0, 230.0  # of a card
GAP, STEP = 26.0, 58.0  # between cards of a layer, between layers
PILE = 10.0  # between the cards of a stack
HEIGHTS = (1, 2, 3, 4, 6, 9, 14, 22)  # of stacks that are tried
SCREEN = 1.55  # width by height


@final
@dataclass(frozen=True, slots=True)
class Box:
    """A card: its left upper corner and its size."""

    x: float
    y: float
    width: float
    height: float


@final
@dataclass(frozen=True, slots=True)
class Placed:
    """Cards, and for each arrow (from, to) its points."""

    boxes: tuple[Box, ...]
    paths: tuple[tuple[int, int, tuple[Point, ...]], ...]
    sideways: bool  # layers run from left to right

    @property
    def extent(self) -> tuple[float, float]:
        wide = max(b.x + b.width for b in self.boxes) - min(b.x for b in self.boxes)
        high = max(b.y + b.height for b in self.boxes) - min(b.y for b in self.boxes)
        return wide, high


def card_size(shown: Shown) -> tuple[float, float]:
    """Width and height of a card."""
    title = text_width(shown.key, 14) + 44
    if not shown.states:
        return min(max(title, NARROW), WIDE), HEAD + FOOT
    if shown.grid is not None or len(shown.states) > LISTED:
        return max(min(title, WIDE), 180.0), HEAD + CHART + FOOT
    names = max(text_width(state, 12) for state in shown.states)
    width = max(title, names + 106)
    return min(max(width, NARROW), WIDE), HEAD + LINE * len(shown.states) + FOOT


def place_cards(graph: LatentGraph, shown: Sequence[Shown]) -> Placed:
    """The arrangement that can be shown largest."""
    sizes = [card_size(each) for each in shown]
    edges = list(graph.edges) if graph.directed else oriented(graph)
    groups = _alike(len(sizes), edges)
    most = max(map(len, groups), default=1)
    tried = [h for h in HEIGHTS if h == 1 or h <= most]
    found = [_flow(sizes, edges, groups, h, False) for h in tried]
    found.append(_flow(sizes, edges, groups, 1, True))
    return min(found, key=lambda p: max(p.extent[0] / SCREEN, p.extent[1]))


def _alike(n: int, edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Variables without children, by their parents: those that can be stacked."""
    above: list[list[int]] = [[] for _ in range(n)]
    inner = {a for a, _ in edges}
    for a, b in edges:
        above[b].append(a)
    groups = defaultdict(list)
    for v in range(n):
        if v not in inner:
            groups[tuple(sorted(above[v]))].append(v)
    return [group for group in groups.values() if len(group) > 3]


def _flow(
    sizes: Sequence[tuple[float, float]],
    edges: Sequence[tuple[int, int]],
    groups: Sequence[Sequence[int]],
    height: int,
    sideways: bool,
) -> Placed:
    """Layers from top to bottom, or from left to right."""
    piles = [list(g[i : i + height]) for g in groups for i in range(0, len(g), height)]
    piled = {v for pile in piles for v in pile} if height > 1 else set()
    piles = piles if height > 1 else []
    units = [[v] for v in range(len(sizes)) if v not in piled] + piles
    unit = {v: k for k, members in enumerate(units) for v in members}
    across, along = (1, 0) if sideways else (0, 1)
    spans = [max(sizes[v][across] for v in members) + 22 * (len(members) > 1) for members in units]
    depths = [sum(sizes[v][along] + PILE for v in members) - PILE for members in units]
    links = list(dict.fromkeys((unit[a], unit[b]) for a, b in edges))
    layout = lay_out(spans, links, GAP)
    tops = _layer_tops(layout.layer, depths)
    boxes: list[Box] = [Box(0, 0, 0, 0)] * len(sizes)
    for k, members in enumerate(units):
        low, high = tops[layout.layer[k]]
        at = low + ((high - low) - depths[k]) / 2 if sideways else low
        for v in members:
            width, tall = sizes[v]
            centre = layout.across[k] + 11 * (len(members) > 1)
            x, y = (at, centre - tall / 2) if sideways else (centre - width / 2, at)
            boxes[v] = Box(x, y, width, tall)
            at += sizes[v][along] + PILE
    paths = []
    for a, b in edges:
        k = unit[b]
        corners = layout.corners.get((unit[a], k), ())
        inner = [(x, end) for x, level in corners for end in tops[level]]
        start, low = layout.across[unit[a]], tops[layout.layer[unit[a]]][1]
        if boxes[a].y + boxes[a].height < low and not sideways:
            inner = [(start, low), *inner]  # out of its layer first, between taller ones
        turned = [(y, x) if sideways else (x, y) for x, y in inner]
        spine = None
        if len(units[k]) > 1:
            spine = (layout.across[k] - spans[k] / 2, tops[layout.layer[k]][0] - 12)
        paths.append((a, b, _path(boxes[a], boxes[b], turned, sideways, spine)))
    return Placed(tuple(boxes), tuple(paths), sideways)


def _layer_tops(layer: Sequence[int], depths: Sequence[float]) -> list[tuple[float, float]]:
    """Where each layer begins and ends."""
    found, at = [], 0.0
    for level in range(max(layer) + 1):
        deep = max((d for d, k in zip(depths, layer, strict=True) if k == level), default=0.0)
        found.append((at, at + deep))
        at += deep + STEP
    return found


def _path(
    start: Box, end: Box, corners: list[Point], sideways: bool, spine: Point | None
) -> tuple[Point, ...]:
    """From the edge of a card to that of another; into a stack along its spine."""
    if sideways:
        first = (start.x + start.width, start.y + start.height / 2)
        return (first, *corners, (end.x, end.y + end.height / 2))
    first = (start.x + start.width / 2, start.y + start.height)
    if spine is None:
        return (first, *corners, (end.x + end.width / 2, end.y))
    middle = end.y + min(end.height / 2, HEAD / 2)
    return (first, *corners, spine, (spine[0], middle), (end.x, middle))
