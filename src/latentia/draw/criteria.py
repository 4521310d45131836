"""A comparison as a picture: criteria of all candidates, and what they lose on held-out rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from latentia.assess.comparison import CRITERIA, SPELLED, Candidate, Comparison
from latentia.draw.svg import COLOURS, Canvas, Drawing, stack, text_width

WIDTH, HEIGHT = 300.0, 190.0
TICKS = 4
NARROWEST, MOST_NAMES = 26.0, 12  # room of a candidate; names that are written out
LINES = {"aic": COLOURS["down"], "bic": COLOURS["up"], "adjusted_bic": COLOURS["answer"]}


def draw_criteria(comparison: Comparison) -> Drawing:
    """Information criteria above their least on the left, held-out loss on the right."""
    candidates, best = comparison.candidates, comparison.best
    panels = [
        ("Criteria above their least: lower is better", _criteria(candidates, best)),
        ("Loss on held-out rows, ± one error", _losses(candidates, best)),
    ]
    whole = stack(panels, gap=56)
    first, _, rest = comparison.why.partition(". ")
    page = Canvas()
    page.text((0, 0), f"{first}.", 15, anchor="start", font_weight="bold")
    y = 22.0
    for line in _wrapped(rest, max(whole.right - whole.left, 560.0)):
        page.text((0, y), line, 12, anchor="start")
        y += 16
    page.add(whole, -whole.left, y + 18 - whole.top)
    return page.finish(comparison.why)


def _criteria(candidates: Sequence[Candidate], best: Candidate) -> Canvas:
    curves = {}
    for name in CRITERIA:
        values = [float(getattr(c, name)) for c in candidates]
        curves[name] = [x - min(values) for x in values]
    # what lies far above the least hides where they differ: the scale ends there
    top = max(1.0, *(sorted(v)[min(len(v) - 1, (2 * len(v)) // 3)] for v in curves.values()))
    canvas = _frame(candidates, best, 0.0, top)
    for name, values in curves.items():
        points = [
            (_across(k, candidates), HEIGHT * (1 - min(x / top, 1.06)))
            for k, x in enumerate(values)
        ]
        for a, b in pairwise(points):
            canvas.line([a, b], LINES[name], 1.8)
        for k, point in enumerate(points):
            if values[k] / top <= 1.06:
                least = values[k] == 0
                fill = LINES[name] if least else COLOURS["paper"]
                canvas.oval(point, 8 if least else 6, 8 if least else 6, fill, LINES[name])
    x = 0.0
    for name, colour in LINES.items():
        canvas.line([(x, HEIGHT + 46), (x + 16, HEIGHT + 46)], colour, 2.4)
        canvas.text((x + 21, HEIGHT + 46), SPELLED[name], 11, COLOURS["ink"], "start")
        x += 34 + text_width(SPELLED[name], 11)
    return canvas


def _losses(candidates: Sequence[Candidate], best: Candidate) -> Canvas:
    """Dots with the error of being behind the best, row by row."""
    low = min(c.held_out - c.behind_error for c in candidates)
    tops = sorted(c.held_out + c.behind_error for c in candidates)
    high = tops[min(len(tops) - 1, (2 * len(tops)) // 3)]
    room = 0.08 * max(high - low, 1e-9)
    low, high = low - room, high + room
    canvas = _frame(candidates, best, low, high)

    def height(x: float) -> float:
        return HEIGHT * (1 - (x - low) / (high - low))

    for k, c in enumerate(candidates):
        x = _across(k, candidates)
        if c.held_out + c.behind_error > high:
            canvas.text((x, -9), f"↑ {c.held_out:.4g}", 10, COLOURS["soft"])
            continue
        ends = [(x, height(c.held_out - c.behind_error)), (x, height(c.held_out + c.behind_error))]
        canvas.line(ends, COLOURS["line"], 1.4)
        fill = COLOURS["up"] if c is best else COLOURS["paper"]
        canvas.oval((x, height(c.held_out)), 9, 9, fill, COLOURS["up"])
    canvas.text(
        (0, HEIGHT + 46), "errors are of the difference to the best", 11, COLOURS["soft"], "start"
    )
    return canvas


def _frame(candidates: Sequence[Candidate], best: Candidate, low: float, high: float) -> Canvas:
    """Axes, a band under the candidate to take, and names below."""
    canvas, wide = Canvas(), _wide(candidates)
    step = wide / len(candidates)
    k = next(i for i, c in enumerate(candidates) if c is best)
    band = (_across(k, candidates), HEIGHT / 2)
    canvas.box(band, step, HEIGHT, COLOURS["separator"], COLOURS["separator"], round=0)
    canvas.line([(0, HEIGHT), (wide, HEIGHT)], COLOURS["pale"], 1.2)
    for value in _ticks(low, high):
        y = HEIGHT * (1 - (value - low) / (high - low))
        canvas.line([(0, y), (wide, y)], COLOURS["pale"], 0.8)
        canvas.text((-6, y), f"{value:.6g}", 11, COLOURS["soft"], "end")
    every = -(-len(candidates) // MOST_NAMES)
    for i, c in enumerate(candidates):
        if i % every == 0 or c is best:
            canvas.text((_across(i, candidates), HEIGHT + 12), c.name, 11)
    names = " × ".join(map(str, candidates[0].states))
    canvas.text((wide / 2, HEIGHT + 28), f"states of {names}", 11, COLOURS["soft"])
    return canvas


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between both, about as many as TICKS.

    >>> _ticks(0.0, 99.0), _ticks(2.303, 2.415)
    ([0.0, 20.0, 40.0, 60.0, 80.0], [2.32, 2.34, 2.36, 2.38, 2.4])
    """
    rough = (high - low) / TICKS
    size = 10.0 ** math.floor(math.log10(rough))
    step = min((m * size for m in (1, 2, 5, 10)), key=lambda s: abs(s - rough))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


def _wide(candidates: Sequence[Candidate]) -> float:
    names = max(text_width(c.name, 11) for c in candidates) + 8
    return max(WIDTH, len(candidates) * max(NARROWEST, min(names, 70.0)))


def _across(k: int, candidates: Sequence[Candidate]) -> float:
    return _wide(candidates) * (k + 0.5) / len(candidates)


def _wrapped(words: str, width: float) -> list[str]:
    lines, line = [], ""
    for word in words.split():
        longer = f"{line} {word}".strip()
        if line and text_width(longer, 12) > width:
            lines.append(line)
            longer = word
        line = longer
    return [*lines, line]
