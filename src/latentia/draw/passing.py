"""Messages as they pass for given evidence: up from what is observed, down to what is asked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.draw.svg import COLOURS, Canvas, Drawing, Point, Sample, text_width
from latentia.draw.trees import (
    CLIQUE,
    Tree,
    clique_names,
    draw_clique,
    draw_edges,
    place_tree,
    separator_names,
)
from latentia.inference.answering import answer
from latentia.inference.evidence import Evidence
from latentia.inference.messages import Message, leaf_message, pass_down, pass_up
from latentia.inference.operators import Operators
from latentia.structure.plan import Plan
from latentia.typing import Array

BAR = 64.0  # width of a bar of probability one
ROW = 14.0
MOST_STATES = 8
MOST_COORDINATES = 12
GLYPH = 34.0  # height of a message's bars


@final
@dataclass(frozen=True, slots=True)
class Card:
    """What a leaf shows: states with their shares, and why."""

    kind: str  # "evidence", "answer", or "" for columns that are neither
    rows: tuple[tuple[str, float], ...]


def draw_messages(
    operators: Operators,
    evidence: Evidence,
    observed: Mapping[int, str],
    targets: Sequence[int],
    states: Mapping[int, Sequence[object]],
    title: str,
) -> Drawing:
    """The tree with its messages; `observed` maps columns to what is known of them."""
    plan = operators.plan
    up, down = pass_all(operators, evidence)
    found = answer(operators, evidence, targets)
    answers = {v: found.probabilities[v][:, 0] for v in targets}
    cards = {k: _card(plan, k, observed, answers, states) for k in plan.leaves}
    own = [_width(plan, k, cards.get(k)) for k in range(len(plan.nodes))]
    rooms = [_room(plan, k, up, down) for k in range(len(plan.nodes))]
    heights = [
        CLIQUE + (ROW * len(cards[k].rows) + 8 if k in cards and cards[k].rows else 0)
        for k in range(len(plan.nodes))
    ]
    tree = place_tree(plan, own, rooms, heights, GLYPH + 22)
    asked = _above(plan, targets)
    told = _above(plan, observed)
    canvas = Canvas()
    _lanes(canvas, plan, tree, told, asked)
    for k, node in enumerate(plan.nodes):
        if node.parent != k:
            _separator(canvas, plan, tree, k, up[k], down[k] if k in asked else None, rooms[k])
    for k in range(len(plan.nodes)):
        _node(canvas, plan, tree, k, cards.get(k))
    _legend(canvas, bool(observed))
    canvas.text((canvas.left, canvas.top - 18), title, 13, anchor="start", font_weight="bold")
    return canvas.finish(title)


def pass_all(
    operators: Operators, evidence: Evidence
) -> tuple[dict[int, Message], dict[int, Message]]:
    """All messages up and down, by the node below the separator that they cross."""
    plan = operators.plan
    up: dict[int, Message] = {}
    down: dict[int, Message] = {}
    for x, k in enumerate(plan.leaves):
        up[k] = leaf_message(operators, evidence, x)
    for k in reversed(plan.inner):
        up[k] = pass_up(operators, k, up)
    for k, node in enumerate(plan.nodes):
        if node.parent != k:
            down[k] = pass_down(operators, k, up, down)
    return up, down


def _above(plan: Plan, columns: Mapping[int, object] | Sequence[int]) -> set[int]:
    """Nodes on the way from the leaves of some columns to their roots."""
    found = {k for k in plan.leaves if set(plan.nodes[k].columns) & set(columns)}
    for k in reversed(range(len(plan.nodes))):
        if k in found:
            found.add(plan.nodes[k].parent)
    return found


def _card(
    plan: Plan,
    k: int,
    observed: Mapping[int, str],
    answers: Mapping[int, Array],
    states: Mapping[int, Sequence[object]],
) -> Card:
    columns = plan.nodes[k].columns
    rows: list[tuple[str, float]] = []
    kinds = set()
    for v in columns:
        prefix = f"{plan.graph.names[v]}="
        if v in observed:
            kinds.add("evidence")
            rows.append((prefix + observed[v], 1.0))
        elif v in answers:
            kinds.add("answer")
            rows += [(prefix + name, p) for name, p in _few(states[v], answers[v])]
    kind = "answer" if "answer" in kinds else "evidence" if kinds else ""
    return Card(kind, tuple(rows))


def _few(states: Sequence[object], shares: Array) -> list[tuple[str, float]]:
    """All states; of many the most probable; of a continuous column its grid in a few pieces."""
    if len(states) <= MOST_STATES:
        return [(str(s), p) for s, p in zip(states, shares.tolist(), strict=True)]
    if not all(isinstance(s, float) for s in states):
        best = np.argsort(-shares, kind="stable")[:MOST_STATES]
        return [(str(states[i]), float(shares[i])) for i in best]
    order = np.argsort(np.asarray(states, dtype=float), kind="stable")
    pieces = np.array_split(order, MOST_STATES)
    return [(f"{states[p[0]]:.3g}…{states[p[-1]]:.3g}", float(shares[p].sum())) for p in pieces]


def _width(plan: Plan, k: int, card: Card | None) -> float:
    width = text_width(clique_names(plan, k), 12) + 20
    if card is None or not card.rows:
        return max(width, 34.0)
    return max(width, _names_width(card) + BAR + 44)


def _names_width(card: Card) -> float:
    return max(text_width(name, 11) for name, _ in card.rows)


def _room(plan: Plan, k: int, up: Mapping[int, Message], down: Mapping[int, Message]) -> float:
    if plan.nodes[k].parent == k:
        return 0.0
    bars = 2 * _glyph_width(len(up[k].value)) + 26
    return max(bars, text_width(separator_names(plan, k), 11) + 14)


def _glyph_width(coordinates: int) -> float:
    return 5.0 * min(coordinates, MOST_COORDINATES) + 4


def _lanes(canvas: Canvas, plan: Plan, tree: Tree, told: set[int], asked: set[int]) -> None:
    """On the left of each edge the message up, on the right the message down."""

    def lane(k: int, points: list[Point]) -> None:
        (x0, y0), (x1, y1) = points
        full = k in told
        length = math.hypot(x1 - x0, y1 - y0)
        dx, dy = 5 * (y1 - y0) / length, -5 * (x1 - x0) / length  # to the right of the edge
        left = [(x1 - dx, y1 - dy / 2), (x0 - dx, y0 - dy / 2)]
        canvas.arrow(left, COLOURS["up" if full else "pale"], 2.0 if full else 1.1)
        if k in asked:
            right = [(x0 + dx, y0 + dy / 2), (x1 + dx, y1 + dy / 2)]
            canvas.arrow(right, COLOURS["down"], 2.0, stroke_dasharray="5 3")

    draw_edges(canvas, plan, tree, lane)


def _separator(
    canvas: Canvas, plan: Plan, tree: Tree, k: int, up: Message, down: Message | None, room: float
) -> None:
    """The separator with the coordinates of both messages as small bars around zero."""
    height = tree.separator_height
    y = tree.y[k] - 16 - height / 2
    fill, edge = COLOURS["separator"], COLOURS["separator edge"]
    canvas.box((tree.x[k], y), room, height, fill, edge, round=0)
    canvas.text((tree.x[k], y - height / 2 + 10), separator_names(plan, k), 11)
    middle = y + 9
    quarter = room / 4
    _bars(canvas, (tree.x[k] - quarter, middle), up.value[:, 0], COLOURS["up"])
    if down is not None:
        _bars(canvas, (tree.x[k] + quarter, middle), down.value[:, 0], COLOURS["down"])


def _bars(canvas: Canvas, at: Point, value: Array, colour: str) -> None:
    """Coordinates relative to the largest: above the line positive, below it negative."""
    shown = value[:MOST_COORDINATES]
    largest = float(np.abs(shown).max()) or 1.0
    width = 5.0 * len(shown)
    left = at[0] - width / 2
    half = GLYPH / 2 - 3
    for i, v in enumerate((shown / largest).tolist()):
        size = max(abs(v) * half, 0.6)
        centre = at[1] - size / 2 if v >= 0 else at[1] + size / 2
        fill = colour if v >= 0 else COLOURS["paper"]
        canvas.box((left + 5 * i + 2.5, centre), 3.4, size, fill, colour, round=0, stroke_width=0.8)
    canvas.line([(left - 2, at[1]), (left + width + 2, at[1])], COLOURS["line"], 0.8)


def _node(canvas: Canvas, plan: Plan, tree: Tree, k: int, card: Card | None) -> None:
    kind = card.kind if card is not None else "clique"
    colours = {
        "clique": (COLOURS["paper"], COLOURS["line"]),
        "": (COLOURS["column"], COLOURS["column edge"]),
        "evidence": (COLOURS["evidence"], COLOURS["evidence edge"]),
        "answer": (COLOURS["paper"], COLOURS["answer"]),
    }[kind]
    draw_clique(canvas, plan, tree, k, colours, 3.0 if kind == "answer" else 1.5)
    if card is None or not card.rows:
        return
    names = _names_width(card)
    left = tree.x[k] - (names + BAR + 40) / 2
    colour = COLOURS["evidence edge" if kind == "evidence" else "answer"]
    for i, (name, p) in enumerate(card.rows):
        y = tree.y[k] + CLIQUE + 8 + ROW * (i + 0.5)
        canvas.text((left + names, y), name, 11, anchor="end")
        size = max(BAR * p, 0.8)
        canvas.box((left + names + 6 + size / 2, y), size, 9, colour, colour, round=0)
        words = "seen" if kind == "evidence" else f"{p:.2f}"
        canvas.text((left + names + 10 + size, y), words, 10, COLOURS["soft"], "start")


def _legend(canvas: Canvas, any_evidence: bool) -> None:
    def arrow(colour: str, **style: str) -> Sample:
        return lambda at: canvas.arrow([at, (at[0] + 30, at[1])], COLOURS[colour], 1.8, **style)

    entries: list[tuple[Sample | None, str]] = [
        (arrow("up"), "message up: what the evidence below says")
    ]
    if any_evidence:
        entries.append((arrow("pale"), "message up where nothing was observed"))
    down = arrow("down", stroke_dasharray="5 3")
    entries.append((down, "message down: E[θ | evidence outside]"))
    entries.append((None, "Small bars: coordinates of the message; hollow ones are negative."))
    canvas.legend(entries, room=38)
