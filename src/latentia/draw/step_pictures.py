"""Steps as pictures: moves as a heat map, decoded states as bands of colour, forecasts as a fan."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar, final

import numpy as np

from latentia.draw.svg import COLOURS, SMALL, Canvas, Drawing, Point, stack, text_width
from latentia.errors import DataError
from latentia.typing import Array, Floats, Label

CELL, LINE = 44.0, 24.0
WIDE, TALL = 640.0, 84.0  # of a strip
DOTS = 15.0  # between the states of a discrete column
MOST_STATES = 20  # of a column that are told apart
MOST_STEPS = 2000
BANDS = ("#8cc5e3", "#f0b878", "#8fcfb4", "#e6a5c4", "#f2e28a", "#b5b5e8", "#d6a07c", "#bcbcbc")
FAN = ("#cfe5f5", "#8cbfe0")


@final
@dataclass(frozen=True, slots=True)
class Strip:
    """One column of one sequence: numbers, or the places of its states (NaN: missing)."""

    name: Label
    values: Array
    states: tuple[Hashable, ...] = ()  # none: continuous

    @property
    def height(self) -> float:
        return DOTS * min(len(self.states), MOST_STATES) + 8 if self.states else TALL


@final
@dataclass(frozen=True, slots=True)
class StepFan:
    """Quantiles 0.05, 0.5 and 0.95 of steps ahead, (3, ahead); or shares of states."""

    name: Label
    past: Array
    quantiles: Array | None = None
    shares: Array | None = None  # (states, ahead)
    states: tuple[Hashable, ...] = ()


def draw_moves(
    name: Label, tables: Sequence[tuple[str, Array]], states: Sequence[Hashable]
) -> Drawing:
    """P(next state | state): rows are states, columns the next; darker is more probable."""
    panels = [(title, _heat(str(name), table, [str(s) for s in states])) for title, table in tables]
    return stack(panels).finish(f"Moves of {name}")


def _heat(name: str, table: Array, states: list[str]) -> Canvas:
    wide = max(CELL, max(text_width(s, 12) for s in states) + 10)
    left = max(text_width(s, 12) for s in states) + text_width(name, 12) + 24
    canvas = Canvas()
    canvas.text((left + wide * len(states) / 2, -30), f"next {name}", 12, COLOURS["soft"])
    canvas.text((0, LINE * len(states) / 2), name, 12, COLOURS["soft"], "start")
    for j, state in enumerate(states):
        canvas.text((left + wide * (j + 0.5), -10), state, 12)
    for i, state in enumerate(states):
        y = LINE * (i + 0.5)
        canvas.text((left - 8, y), state, 12, anchor="end")
        for j in range(len(states)):
            p, at = float(table[i, j]), (left + wide * (j + 0.5), y)
            canvas.box(at, wide, LINE, _shade(p), COLOURS["paper"], round=0)
            shown = "0" if p == 0 else f"{p:.3f}" if p >= 0.0005 else "<.001"
            canvas.text(at, shown, 11, COLOURS["paper"] if p > 0.55 else COLOURS["ink"])
    return canvas


def _shade(share: float) -> str:
    ends = np.array([[240, 246, 251], [0, 73, 120]])
    red, green, blue = (ends[0] + share * (ends[1] - ends[0])).round().astype(int).tolist()
    return f"#{red:02x}{green:02x}{blue:02x}"


def draw_decoded(
    title: str,
    paths: Mapping[Label, tuple[Array, Sequence[Hashable]]],
    strips: Sequence[Strip],
) -> Drawing:
    """One sequence: a band of colours for the path of every latent, its columns below."""
    steps = len(next(iter(paths.values()))[0])
    if not 1 <= steps <= MOST_STEPS:
        raise DataError(
            f"a picture of {steps:,} steps cannot be read; expected at most {MOST_STEPS:,}. Pass a "
            "part of the sequence."
        )
    canvas = Canvas()
    left = max(text_width(str(n), 12) for n in (*paths, *(s.name for s in strips))) + 12
    left += max((_label_room(s) for s in strips), default=0.0)
    canvas.text((0, -24), title, 14, anchor="start", font_weight="bold")
    y = 0.0
    first = next(iter(paths.values()))[0]
    for name, (path, _) in paths.items():
        canvas.text((0, y + 13), str(name), 12, anchor="start", font_style="italic")
        _bands(canvas, path, left, y, 26.0)
        y += 34
    for strip in strips:
        _bands(canvas, first, left, y, strip.height, faint=True)
        _strip(canvas, strip, left, y)
        y += strip.height + 10
    _steps_axis(canvas, steps, left, y)
    for name, (path, states) in paths.items():
        seen = sorted(set(path.astype(int).tolist()))
        entries = [(_swatch(canvas, k), f"{name} = {states[k]}") for k in seen]
        canvas.legend(entries, (left, canvas.bottom + 20), beside=True)
    return canvas.finish(title)


def _colour(k: int) -> str:
    return BANDS[k % len(BANDS)]


def _swatch(canvas: Canvas, k: int) -> Callable[[Point], None]:
    def paint(at: Point) -> None:
        canvas.box((at[0] + 8, at[1]), 16, 11, _colour(k), COLOURS["line"], round=1)

    return paint


def _bands(
    canvas: Canvas, path: Array, left: float, top: float, height: float, faint: bool = False
) -> None:
    """Stretches of one state as boxes."""
    cuts = [0, *(np.flatnonzero(np.diff(path)) + 1).tolist(), len(path)]
    unit = WIDE / len(path)
    for a, b in pairwise(cuts):
        centre = (left + unit * (a + b) / 2, top + height / 2)
        style = {"round": 0, "stroke_width": 0, "opacity": 0.35 if faint else 1.0}
        fill = _colour(int(path[a]))
        canvas.box(centre, unit * (b - a), height, fill, fill, **style)


def _label_room(strip: Strip) -> float:
    if not strip.states:
        return 46.0
    return max(text_width(str(s), SMALL) for s in strip.states[:MOST_STATES]) + 10


def _strip(canvas: Canvas, strip: Strip, left: float, top: float) -> None:
    canvas.text((0, top + strip.height / 2), str(strip.name), 12, anchor="start")
    unit = WIDE / len(strip.values)
    if strip.states:
        for k, state in enumerate(strip.states[:MOST_STATES]):
            y = top + 4 + DOTS * (k + 0.5)
            canvas.text((left - 6, y), str(state), SMALL, COLOURS["soft"], "end")
        for t, k in enumerate(strip.values.tolist()):
            if k == k and 0 <= k < MOST_STATES:
                at = (left + unit * (t + 0.5), top + 4 + DOTS * (k + 0.5))
                canvas.box(at, max(1.2, min(6.0, unit)), 9, COLOURS["ink"], "none", round=0)
        return
    there = strip.values[~np.isnan(strip.values)]
    low, high = _range(there)
    for value in (low, high):
        at_height = _height(value, low, high, top + 6, strip.height - 12)
        canvas.text((left - 6, at_height), f"{value:.3g}", SMALL, COLOURS["soft"], "end")
    x = left + unit * (np.arange(len(strip.values)) + 0.5)
    line = _height(strip.values, low, high, top + 6, strip.height - 12)
    _polyline(canvas, x, line, COLOURS["ink"], 1.2)


def _range(values: Array) -> tuple[float, float]:
    if not len(values):
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    return (low - 0.5, high + 0.5) if low == high else (low, high)


Number = TypeVar("Number", float, Array)


def _height(value: Number, low: float, high: float, top: float, height: float) -> Number:
    return top + height * (1.0 - (value - low) / (high - low))


def _polyline(canvas: Canvas, x: Floats, y: Floats, colour: str, width: float) -> None:
    """A line through points, broken where they are missing."""
    gone = np.flatnonzero(np.isnan(y))
    for part in np.split(np.arange(len(x)), gone):
        own = part[~np.isnan(y[part])]
        if len(own) == 1:
            canvas.box((float(x[own[0]]), float(y[own[0]])), 2.4, 2.4, colour, "none", round=1)
        elif len(own):
            points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x[own], y[own], strict=True))
            canvas.parts.append(
                f'<polyline points="{points}" fill="none" stroke="{colour}" '
                f'stroke-width="{width:g}"/>'
            )


def _steps_axis(canvas: Canvas, steps: int, left: float, y: float) -> None:
    canvas.line([(left, y), (left + WIDE, y)], COLOURS["line"], 1.0)
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        at = round(share * (steps - 1))
        x = left + WIDE * (at + 0.5) / steps
        canvas.line([(x, y), (x, y + 5)], COLOURS["line"], 1.0)
        canvas.text((x, y + 14), str(at), SMALL, COLOURS["soft"])
    canvas.text((left + WIDE / 2, y + 30), "step", SMALL, COLOURS["soft"])


def draw_forecast(title: str, fans: Sequence[StepFan]) -> Drawing:
    """The last steps of a sequence, and behind them what may come: quantiles, or shares."""
    canvas = Canvas()
    canvas.text((0, -24), title, 14, anchor="start", font_weight="bold")
    left = max(text_width(str(fan.name), 12) for fan in fans) + 60
    y = 0.0
    for fan in fans:
        y += (_shares_fan if fan.quantiles is None else _quantile_fan)(canvas, fan, left, y) + 24
    canvas.legend([(None, "shaded: 90 % of what may come; line: the median")], (0, y + 2))
    return canvas.finish(title)


def _ahead(fan: StepFan) -> int:
    found = fan.shares if fan.quantiles is None else fan.quantiles
    assert found is not None
    return int(found.shape[1])


def _frame(canvas: Canvas, fan: StepFan, left: float, top: float, height: float) -> float:
    """Name, a line at now, steps below; returns the width of a step."""
    unit = WIDE / (len(fan.past) + _ahead(fan))
    now = left + unit * len(fan.past)
    canvas.text((0, top + height / 2), str(fan.name), 12, anchor="start")
    canvas.line([(now, top), (now, top + height)], COLOURS["line"], 1.0, stroke_dasharray="3 3")
    canvas.text((now, top + height + 10), "now", SMALL, COLOURS["soft"])
    canvas.text((left + WIDE, top + height + 10), f"+{_ahead(fan)}", SMALL, COLOURS["soft"], "end")
    return unit


def _quantile_fan(canvas: Canvas, fan: StepFan, left: float, top: float) -> float:
    assert fan.quantiles is not None
    height = TALL * 1.5
    told = np.concatenate([fan.past[~np.isnan(fan.past)], fan.quantiles.ravel()])
    low, high = _range(told)
    unit = _frame(canvas, fan, left, top, height)
    count = len(fan.past)
    x = left + unit * (count + np.arange(_ahead(fan)) + 0.5)
    below, middle, above = _height(fan.quantiles, low, high, top + 4, height - 8)
    edge = list(zip(x.tolist(), above.tolist(), strict=True))
    edge += list(zip(x[::-1].tolist(), below[::-1].tolist(), strict=True))
    canvas.area(edge, FAN[0])
    _polyline(canvas, x, middle, COLOURS["up"], 2.0)
    past = left + unit * (np.arange(count) + 0.5)
    _polyline(canvas, past, _height(fan.past, low, high, top + 4, height - 8), COLOURS["ink"], 1.2)
    for value in (low, high):
        y = _height(value, low, high, top + 4, height - 8)
        canvas.text((left - 6, y), f"{value:.3g}", SMALL, COLOURS["soft"], "end")
    return height


def _shares_fan(canvas: Canvas, fan: StepFan, left: float, top: float) -> float:
    """Rows of states: marks where they were, darker the more probable they are."""
    assert fan.shares is not None
    shown = min(len(fan.states), MOST_STATES)
    height = DOTS * shown + 8
    unit = _frame(canvas, fan, left, top, height)
    count = len(fan.past)
    for k, state in enumerate(fan.states[:shown]):
        y = top + 4 + DOTS * (k + 0.5)
        canvas.text((left - 6, y), str(state), SMALL, COLOURS["soft"], "end")
        for t, p in enumerate(fan.shares[k].tolist()):
            at = (left + unit * (count + t + 0.5), y)
            canvas.box(at, unit, DOTS, _shade(p), COLOURS["paper"], round=0, stroke_width=0.5)
            if unit > 30:
                ink = COLOURS["paper"] if p > 0.55 else COLOURS["ink"]
                canvas.text(at, f"{p:.2f}", 9, ink)
    for t, k in enumerate(fan.past.tolist()):
        if k == k and 0 <= k < shown:
            at = (left + unit * (t + 0.5), top + 4 + DOTS * (k + 0.5))
            canvas.box(at, max(1.2, min(6.0, unit)), 9, COLOURS["ink"], "none", round=0)
    return height
