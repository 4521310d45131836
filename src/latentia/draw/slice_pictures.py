"""A slice as people draw it: one step beside the next, or several steps in a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from latentia.draw.svg import COLOURS, Canvas, Drawing, Point, text_width
from latentia.errors import GraphError
from latentia.sequences.slices import Parent, Slice

ROW = 66.0  # from row to row
GAP = 18.0  # between nodes of a row
BETWEEN = 64.0  # between steps
STAGGER = 60.0  # rows above each other are shifted, so that arrows pass
HEIGHT = 34.0
MOST = 200  # nodes


@final
@dataclass(frozen=True, slots=True)
class _Places:
    """Where the variables of a step lie, and how wide a step is."""

    at: tuple[Point, ...]
    width: float


def draw_slice(slice_: Slice, steps: int = 2) -> Drawing:
    """So many steps side by side, with all arrows; two of them show the slice itself."""
    if steps < 2 or steps * len(slice_.names) > MOST:
        raise GraphError(
            f"expected at least 2 steps and at most {MOST} variables in all, got {steps} steps of "
            f"{len(slice_.names)} variables."
        )
    canvas, places = Canvas(), _places(slice_)
    for t in range(steps):
        for v, above in enumerate(slice_.parents):
            for parent in above:
                if t >= parent[1]:
                    _arrow(canvas, slice_, places, parent, v, t)
    for t in range(steps):
        for v in range(len(slice_.names)):
            _node(canvas, slice_, v, _at(places, v, t))
        heading = ("this step", "the next")[t] if steps == 2 else f"step {t}"
        canvas.text((_left(places, t) + places.width / 2, -HEIGHT), heading, 12, COLOURS["soft"])
    if steps > 2:
        end = _left(places, steps) - BETWEEN / 2
        canvas.text((end, (canvas.top + canvas.bottom) / 2), "…", 18, COLOURS["soft"])
    _legend(canvas, slice_)
    return canvas.finish(f"Slice {slice_}"[:300])


def _rows(slice_: Slice) -> list[list[int]]:
    """Inputs, latents, columns; those that are tied to the next step have a row of their own."""
    tied = {v for v, above in enumerate(slice_.parents) if any(lag for _, lag in above)}
    tied |= {u for above in slice_.parents for u, lag in above if lag}
    rows: list[list[int]] = []
    for group in (sorted(slice_.given), sorted(slice_.latent), slice_.columns):
        alone = [v for v in group if v in tied]
        rows += [[v] for v in alone]
        others = [v for v in group if v not in tied]
        rows += [others] if others else []
    return rows


def _width(slice_: Slice, v: int) -> float:
    room = 24 if v in slice_.latent else 18
    return max(34.0, text_width(str(slice_.names[v]), 13) + room + (8 if slice_.states[v] else 0))


def _places(slice_: Slice) -> _Places:
    rows = _rows(slice_)
    widths = [sum(_width(slice_, v) for v in row) + GAP * (len(row) - 1) for row in rows]
    whole = max(widths) + (STAGGER if len(rows) > 2 else 0.0)
    at: list[Point] = [(0.0, 0.0)] * len(slice_.names)
    for k, (row, width) in enumerate(zip(rows, widths, strict=True)):
        shift = STAGGER / 2 * (1 if k % 2 else -1) if len(rows) > 2 else 0.0
        x = max(0.0, min(whole - width, (whole - width) / 2 + shift))
        for v in row:
            own = _width(slice_, v)
            at[v] = (x + own / 2, k * ROW)
            x += own + GAP
    return _Places(tuple(at), whole)


def _left(places: _Places, t: int) -> float:
    return t * (places.width + BETWEEN)


def _at(places: _Places, v: int, t: int) -> Point:
    x, y = places.at[v]
    return x + _left(places, t), y


def _arrow(canvas: Canvas, slice_: Slice, places: _Places, parent: Parent, v: int, t: int) -> None:
    u, lag = parent
    a, b = _at(places, u, t - lag), _at(places, v, t)
    rows = round((b[1] - a[1]) / ROW)
    bend: list[Point] = []
    if lag == 0 and abs(rows) > 1:  # around the row between, on the side where it is not
        right = round((a[1] + min(ROW, b[1] - a[1])) / ROW) % 2
        x = min(a[0], b[0]) - STAGGER / 2 if right else max(a[0], b[0]) + STAGGER / 2
        bend = [(x, (a[1] + b[1]) / 2)]
    start = _border(slice_, u, a, bend[0] if bend else b)
    end = _border(slice_, v, b, bend[0] if bend else a)
    if lag == 0 and rows == 1:  # from above, past the other boxes of its row
        end = (b[0], b[1] - HEIGHT / 2 - 2)
        start = _border(slice_, u, a, end)
    canvas.arrow([start, *bend, end], COLOURS["up"] if lag else COLOURS["line"])


def _border(slice_: Slice, v: int, at: Point, towards: Point) -> Point:
    """Where a line from the middle of a node leaves it."""
    dx, dy = towards[0] - at[0], towards[1] - at[1]
    w, h = _width(slice_, v) / 2 + 2, HEIGHT / 2 + 2
    if v in slice_.latent:
        share = 1.0 / max(((dx / w) ** 2 + (dy / h) ** 2) ** 0.5, 1e-9)
    else:
        share = 1.0 / max(abs(dx) / w, abs(dy) / h, 1e-9)
    return at[0] + dx * share, at[1] + dy * share


def _node(canvas: Canvas, slice_: Slice, v: int, at: Point) -> None:
    name, count = str(slice_.names[v]), "" if slice_.states[v] is None else f"{slice_.states[v]}"
    width = _width(slice_, v)
    if v in slice_.latent:
        dashed = {"stroke_width": 1.5, "stroke_dasharray": "5 3"}
        canvas.oval(at, width, HEIGHT, COLOURS["paper"], COLOURS["line"], **dashed)
        canvas.text(at, name, 13, after=count, font_style="italic")
        return
    told = ("evidence", "evidence edge") if v in slice_.given else ("column", "column edge")
    fill, edge = (COLOURS[key] for key in told)
    canvas.box(at, width, HEIGHT, fill, edge, stroke_width=1.5, round=5)
    canvas.text(at, name, 13)


def _legend(canvas: Canvas, slice_: Slice) -> None:
    def latent(at: Point) -> None:
        dashed = {"stroke_width": 1.2, "stroke_dasharray": "4 2"}
        canvas.oval((at[0] + 9, at[1]), 18, 12, COLOURS["paper"], COLOURS["line"], **dashed)

    def column(at: Point) -> None:
        canvas.box((at[0] + 9, at[1]), 18, 12, COLOURS["column"], COLOURS["column edge"], round=3)

    def given(at: Point) -> None:
        fill, edge = COLOURS["evidence"], COLOURS["evidence edge"]
        canvas.box((at[0] + 9, at[1]), 18, 12, fill, edge, round=3)

    def ahead(at: Point) -> None:
        canvas.arrow([at, (at[0] + 18, at[1])], COLOURS["up"])

    entries = [(latent, "latent, and its states")] if slice_.latent else []
    entries.append((column, "column"))
    if slice_.given:
        entries.append((given, "input: told, not modelled"))
    if any(lag for above in slice_.parents for _, lag in above):
        entries.append((ahead, "tells the next step"))
    canvas.legend(entries, beside=True)
