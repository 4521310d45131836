"""The junction tree of a plan: cliques, separators with their ranks, core groups, instruments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import final

from latentia.draw.graphs import graph_panel
from latentia.draw.svg import COLOURS, Canvas, Drawing, stack, text_width
from latentia.errors import GraphError
from latentia.structure.plan import Plan

LARGEST = 120  # leaves: beyond, no one can read the picture
GAP = 18.0
NARROW = 10.5  # type size of separators
LINE = 14.0
CLIQUE = 30.0  # height of a clique
EXPLAINED = (
    "Round: cliques; blue ones are leaves and hold columns. Square: separators S.",
    "α(S): columns below that stand for S; β(S): its instruments above.",
)


@final
@dataclass(frozen=True, slots=True)
class Tree:
    """Where each node of a plan is: x of it and of the separator above it, y of its upper edge."""

    x: tuple[float, ...]
    y: tuple[float, ...]
    separator_height: float
    widths: tuple[float, ...]


def draw_plan(plan: Plan) -> Drawing:
    """The graph, and beside it the junction tree over which messages pass."""
    panels = [("Graph", graph_panel(plan.graph)), ("Junction tree", tree_panel(plan))]
    wide = sum(p.right - p.left for _, p in panels) > 1500
    return stack(panels, beside=not wide).finish(f"Plan of {plan.graph}"[:300])


def tree_panel(plan: Plan) -> Canvas:
    """Cliques as boxes; on every edge its separator with r(S), α(S) and β(S)."""
    words = [_separator_words(plan, k) for k in range(len(plan.nodes))]
    own = [text_width(clique_names(plan, k), 12) + 20 for k in range(len(plan.nodes))]
    rooms = [max(text_width(w, NARROW) for w in lines) + 16 for lines in words]
    tree = place_tree(plan, own, rooms, [CLIQUE] * len(own), 3 * LINE + 8)
    canvas = Canvas()
    draw_edges(canvas, plan, tree, lambda k, points: canvas.line(points, COLOURS["line"]))
    for k, node in enumerate(plan.nodes):
        if node.parent == k:
            continue
        y = tree.y[k] - 16 - tree.separator_height / 2
        canvas.box(
            (tree.x[k], y),
            rooms[k] - 4,
            tree.separator_height,
            COLOURS["separator"],
            COLOURS["separator edge"],
            round=0,
        )
        for i, line in enumerate(words[k]):
            weight = {"font_weight": "bold"} if i == 0 else {}
            canvas.text((tree.x[k], y + (i - 1) * LINE), line, NARROW, **weight)
    for k, node in enumerate(plan.nodes):
        leaf, inner = ("column", "column edge"), ("paper", "line")
        fill, edge = leaf if node.is_leaf else inner
        draw_clique(canvas, plan, tree, k, (COLOURS[fill], COLOURS[edge]))
    canvas.legend((None, line) for line in EXPLAINED)
    return canvas


def place_tree(
    plan: Plan,
    own: Sequence[float],
    rooms: Sequence[float],
    heights: Sequence[float],
    separator: float,
) -> Tree:
    """Parents centred over their children; `rooms` are the widths of the separators above nodes."""
    if len(plan.leaves) > LARGEST:
        raise GraphError(
            f"a junction tree of {len(plan.leaves)} leaves cannot be read; expected at most "
            f"{LARGEST}. Print the plan instead."
        )
    count = len(plan.nodes)
    widths = [max(own[k], 0 if n.parent == k else rooms[k]) for k, n in enumerate(plan.nodes)]
    spans = [0.0] * count
    for k in reversed(range(count)):
        below = plan.nodes[k].children
        spans[k] = max(widths[k], sum(spans[c] for c in below) + GAP * max(len(below) - 1, 0))
    x, y, left = [0.0] * count, [0.0] * count, [0.0] * count
    edge = 0.0
    for k, node in enumerate(plan.nodes):
        if node.parent == k:
            left[k], edge = edge, edge + spans[k] + 2 * GAP
        else:
            y[k] = y[node.parent] + heights[node.parent] + separator + 58
        below = node.children
        start = left[k] + (spans[k] - sum(spans[c] for c in below) - GAP * (len(below) - 1)) / 2
        for c in below:
            left[c], start = start, start + spans[c] + GAP
    for k in reversed(range(count)):
        below = plan.nodes[k].children
        middle = left[k] + spans[k] / 2
        x[k] = (x[below[0]] + x[below[-1]]) / 2 if below else middle
        x[k] = min(max(x[k], left[k] + widths[k] / 2), left[k] + spans[k] - widths[k] / 2)
    return Tree(tuple(x), tuple(y), separator, tuple(own))


def draw_edges(
    canvas: Canvas, plan: Plan, tree: Tree, draw: Callable[[int, list[tuple[float, float]]], None]
) -> None:
    """From every parent to the separator above each child, and on to the child."""
    for k, node in enumerate(plan.nodes):
        if node.parent == k:
            continue
        top = tree.y[k] - 16 - tree.separator_height
        siblings = plan.nodes[node.parent].children
        room = min(tree.widths[node.parent] - CLIQUE, 30.0 * len(siblings)) / len(siblings)
        shift = (siblings.index(k) - (len(siblings) - 1) / 2) * max(room, 6.0)
        start = (tree.x[node.parent] + shift, tree.y[node.parent] + CLIQUE)
        draw(k, [start, (tree.x[k], top)])
        draw(k, [(tree.x[k], tree.y[k] - 16), (tree.x[k], tree.y[k])])


def clique_names(plan: Plan, k: int) -> str:
    """Variables of a clique: its columns, or those of the separators around it."""
    node = plan.nodes[k]
    around = [plan.nodes[c].separator for c in node.children]
    return _listing(plan, {*node.columns, *node.separator, *(v for s in around for v in s)}, 8)


def separator_names(plan: Plan, k: int) -> str:
    return "{" + _listing(plan, plan.nodes[k].separator, 6) + "}"


def _separator_words(plan: Plan, k: int) -> list[str]:
    node = plan.nodes[k]
    if node.parent == k:
        return [""]
    sides = [("α", node.inside.core), ("β", node.outside.core)]
    told = [f"{letter} = {_group(plan, core)}" for letter, core in sides]
    return [f"{separator_names(plan, k)}  rank {node.rank}", *told]


def _group(plan: Plan, core: Iterable[int]) -> str:
    columns = [v for x in core for v in plan.nodes[plan.leaves[x]].columns]
    shown = " × ".join(str(plan.graph.names[v]) for v in columns[:4])
    return (shown + (" × …" if len(columns) > 4 else "")) or "–"


def _listing(plan: Plan, variables: Iterable[int], most: int) -> str:
    names = [str(plan.graph.names[v]) for v in sorted(variables)]
    return ", ".join(names[:most]) + (f", … ({len(names)})" if len(names) > most else "")


def draw_clique(
    canvas: Canvas, plan: Plan, tree: Tree, k: int, colours: tuple[str, str], line: float = 1.5
) -> None:
    """A round box, filled and edged, with the names of its variables; roots are called so."""
    at, width = (tree.x[k], tree.y[k] + CLIQUE / 2), tree.widths[k]
    canvas.box(at, width, CLIQUE, *colours, round=CLIQUE / 2, stroke_width=line)
    canvas.text(at, clique_names(plan, k) or "∅", 12)
    if plan.nodes[k].parent == k:
        canvas.text((at[0] + width / 2 + 6, at[1]), "root", 11, COLOURS["soft"], "start")
