"""Why an answer is what it is: steps from the prior to it; and what an intervention changes."""

from __future__ import annotations

import math

from latentia.draw.svg import COLOURS, Canvas, Drawing, Point, text_width
from latentia.errors import DataError
from latentia.model.effects import Effect
from latentia.model.explaining import Explanation
from latentia.spelling import printable

WIDTH = 360.0
ROW = 26.0
BAR = 15.0
MOST_ROWS = 30
MARKS = (0.0001, 0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999)
EDGE = 9.3  # log-odds beyond which a picture does not go: .9999
LEAST = 1.0  # room on both sides
SEEN = "#8cbfe0"


def plot_explanation(explanation: Explanation) -> Drawing:
    """A step for each piece of evidence, in log-odds; the marks below are probabilities."""
    rows = explanation.pieces[:MOST_ROWS]
    hidden = len(explanation.pieces) - len(rows)
    ends = [explanation.prior, explanation.probability]
    places = [_shown(p) for piece in rows for p in (piece.before, piece.after)]
    places += [_shown(p) for p in ends]
    low, high = min(places) - LEAST, max(places) + LEAST
    names = [f"{printable(p.name)} = {printable(p.value)}" for p in rows]
    left = max(text_width(name, 13) for name in (*names, "before", "after")) + 10

    def at(p: float) -> float:
        return left + (_shown(p) - low) / (high - low) * WIDTH

    canvas = Canvas()
    canvas.text((0, -26), explanation.title, 14, anchor="start", font_weight="bold")
    height = ROW * (len(rows) + 2)
    _scale(canvas, low, high, left, height)
    _point(canvas, (at(explanation.prior), ROW * 0.5), left, "before", explanation.prior)
    for k, (piece, name) in enumerate(zip(rows, names, strict=True), start=1):
        y = ROW * (k + 0.5)
        canvas.text((left - 10, y), name, 13, anchor="end")
        start, stop = at(piece.before), at(piece.after)
        colour = COLOURS["up"] if piece.in_order >= 0 else COLOURS["down"]
        canvas.line([(start, y - ROW), (start, y)], COLOURS["pale"], 1.0)
        size = max(abs(stop - start), 1.5)
        canvas.box(((start + stop) / 2, y), size, BAR, colour, colour, round=0)
        canvas.text(
            (left + WIDTH + 12, y), _step(piece.in_order), 12, colour, "start", font_weight="bold"
        )
        canvas.text((left + WIDTH + 72, y), _step(piece.left_out), 12, COLOURS["soft"], "start")
    y = ROW * (len(rows) + 1.5)
    _point(canvas, (at(explanation.probability), y), left, "after", explanation.probability)
    canvas.text((left + WIDTH + 12, -8), "in order", 11, COLOURS["soft"], "start")
    canvas.text((left + WIDTH + 72, -8), "left out", 11, COLOURS["soft"], "start")
    note = f"; … and {hidden} more pieces of evidence" if hidden > 0 else ""
    legend = f"steps are log-odds: blue speaks for it, orange against{note}"
    canvas.text((0, height + 42), legend, 11, COLOURS["soft"], "start")
    return canvas.finish(explanation.title)


def _shown(p: float) -> float:
    """Log-odds of a probability, as far as a picture goes."""
    if p <= 0 or p >= 1:
        return EDGE if p >= 1 else -EDGE
    return min(max(math.log(p) - math.log1p(-p), -EDGE), EDGE)


def _step(moved: float) -> str:
    if math.isinf(moved):
        return "certain" if moved > 0 else "never"
    return f"{moved:+.2f}".replace("-", "−")


def _scale(canvas: Canvas, low: float, high: float, left: float, height: float) -> None:
    """Probabilities at their log-odds, as many as there is room for."""
    last = -math.inf
    for mark in MARKS:
        where = _shown(mark)
        x = left + (where - low) / (high - low) * WIDTH
        if not low <= where <= high:
            continue
        canvas.line([(x, 0), (x, height)], COLOURS["pale"], 0.8)
        if x - last > 34:
            canvas.text((x, height + 11), f"{mark:g}", 11, COLOURS["soft"])
            last = x
    canvas.text((left + WIDTH / 2, height + 26), "probability", 11, COLOURS["soft"])


def _point(canvas: Canvas, at: Point, left: float, name: str, p: float) -> None:
    canvas.text((left - 10, at[1]), name, 13, COLOURS["soft"], "end")
    canvas.oval(at, 11, 11, COLOURS["ink"], COLOURS["ink"])
    canvas.text((at[0] + 11, at[1]), f"{p:.3f}", 12, COLOURS["ink"], "start")


def plot_effect(effect: Effect) -> Drawing:
    """For each state of the outcome a bar by each state that the treatment is set to."""
    states, outcomes = effect.treatment_states, effect.outcome_states
    if len(states) * len(outcomes) > 2 * MOST_ROWS:
        raise DataError(
            f"a picture of {len(states)} × {len(outcomes)} probabilities would tell nothing. Use "
            "frame()."
        )
    canvas, ends = Canvas(), effect.intervals
    names = [f"do({printable(effect.treatment)} = {printable(s)})" for s in states]
    left = max(text_width(n, 12) for n in names) + 10
    canvas.text((0, -26), effect.title, 14, anchor="start", font_weight="bold")
    y = 6.0
    for j, outcome in enumerate(outcomes):
        head = f"{printable(effect.outcome)} = {printable(outcome)}"
        canvas.text((0, y), head, 12, anchor="start", font_weight="bold")
        y += ROW * 0.8
        for i, name in enumerate(names):
            p = float(effect.table[i, j])
            canvas.text((left - 8, y), name, 12, anchor="end")
            size = max(WIDTH * p, 1.0)
            canvas.box((left + size / 2, y), size, BAR, SEEN, COLOURS["up"], round=0)
            right = size
            if ends is not None:
                low, high = (left + WIDTH * float(end[i, j]) for end in ends)
                canvas.line([(low, y), (high, y)], COLOURS["ink"], 1.4)
                right = max(right, high - left)
            if effect.seen is not None:
                x = left + WIDTH * float(effect.seen[i, j])
                canvas.line([(x, y - 10), (x, y + 10)], COLOURS["down"], 2.4)
                right = max(right, x - left)
            canvas.text((left + right + 8, y), f"{p:.3f}", 12, anchor="start")
            y += ROW * 0.8
        y += 8
    for k in range(5):
        x = left + WIDTH * k / 4
        canvas.text((x, y + 2), f"{k / 4:g}", 11, COLOURS["soft"])
    seen = "" if effect.seen is None else "; orange: as it was seen, without setting it"
    canvas.text((0, y + 22), f"bars: set by hand{seen}", 11, COLOURS["soft"], "start")
    canvas.text((0, y + 38), effect.identification.words, 11, COLOURS["soft"], "start")
    return canvas.finish(effect.title)
