"""A check as a picture: what columns tell of each other, what comes true, what is left untold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from latentia.assess.fit_figures import ColumnFit, Level
from latentia.assess.report import SURE, CheckReport, misfits
from latentia.assess.residuals import PairFit
from latentia.draw.svg import COLOURS, Canvas, Drawing, Point, Sample, stack, text_width
from latentia.errors import DataError
from latentia.typing import FilePath, Label

ROW = 21.0
BAR = 190.0
MOST_COLUMNS = 24
SQUARE = 190.0
CELL = 26.0
MOST_PAIRED = 16  # columns of the triangle
MOST_WORDS = 14  # lines of findings
NARROWEST = 640.0
DISCRETE, CONTINUOUS = "likeliest state (± 2 s.e.)", "middle share of a density"  # dots, boxes
CALM, MARKED = "#8cbfe0", COLOURS["evidence"]


def draw_check(report: CheckReport) -> Drawing:
    """Three panels under a headline, and the findings in words below."""
    title = f"Check on {report.fit.rows:,} rows: {report.verdict}"
    marked = {f.about[0] for f in report.findings if len(f.about) == 1}
    panels = [("What the other columns tell of each", _gains(report.columns, marked))]
    if report.fit.levels or report.fit.coverage:
        panels.append(
            ("Do probabilities come true?", _levels(report.fit.levels, report.fit.coverage))
        )
    if report.pairs:
        panels.append(("Left untold between pairs", _pairs(report)))
    whole = stack(panels, gap=52)
    page = Canvas()
    page.add(whole, -whole.left, -whole.top)
    right = max(page.right, NARROWEST)
    y = page.bottom + 26
    words = report.words()
    for line in words[:MOST_WORDS]:
        y = _paragraph(page, y, line, right)
    if len(words) > MOST_WORDS:
        y = _paragraph(page, y, "… and more: the report in words has all of it.", right)
    _paragraph(page, y, report.footnote, right, COLOURS["soft"])
    heading = Canvas()
    heading.add(page, 0, 36 - page.top)
    _paragraph(heading, 0, title, max(right, page.right), size=15, font_weight="bold")
    return heading.finish(title)


def save_check(report: CheckReport, path: FilePath) -> Path:
    """The picture alone."""
    where = Path(path)
    if where.suffix != ".svg":
        raise DataError(f"expected a path that ends in .svg or .html, got {str(where)!r}.")
    return draw_check(report).save(where)


# --- columns --------------------------------------------------------------------------------------


def _gains(columns: Sequence[ColumnFit], marked: set[Label]) -> Canvas:
    """Bars of marginal loss − loss in nats, with two standard errors; marked ones in orange."""
    shown = list(columns)
    if len(shown) > MOST_COLUMNS:
        shown = sorted(shown, key=lambda c: (c.name not in marked, c.gain))[:MOST_COLUMNS]
    canvas = Canvas()
    names = max(text_width(_mark(c, marked), 12) for c in shown)
    low = min(0.0, *(c.gain - 2 * c.error for c in shown))
    high = max(1e-3, *(c.gain + 2 * c.error for c in shown))
    scale = BAR / (high - low)
    zero = names + 12 - low * scale
    step = _step(high - low)
    for k in range(math.ceil(low / step), math.floor(high / step) + 1):
        x, strong = zero + k * step * scale, k == 0
        colour = COLOURS["line"] if strong else COLOURS["pale"]
        canvas.line([(x, 0), (x, ROW * len(shown))], colour, 1.2 if strong else 0.8)
        canvas.text((x, ROW * len(shown) + 11), f"{k * step:g}", 11, COLOURS["soft"])
    for i, c in enumerate(shown):
        y, odd = ROW * (i + 0.5), c.name in marked
        canvas.text((names, y), _mark(c, marked), 12, anchor="end")
        size = c.gain * scale
        canvas.box(
            (zero + size / 2, y),
            max(abs(size), 0.5),
            ROW * 0.62,
            MARKED if odd else CALM,
            COLOURS["evidence edge"] if odd else COLOURS["up"],
            round=0,
        )
        ends = [zero + (c.gain + s * 2 * c.error) * scale for s in (-1, 1)]
        canvas.line([(ends[0], y), (ends[1], y)], COLOURS["ink"], 1.2)
    below = ROW * len(shown) + 28
    middle = names + 12 + BAR / 2
    canvas.text((middle, below), "nats gained over the marginal (± 2 s.e.)", 11, COLOURS["soft"])
    if len(shown) < len(columns):
        rest = f"… and {len(columns) - len(shown)} more columns"
        canvas.text((middle, below + 16), rest, 11, COLOURS["soft"])
    return canvas


def _mark(c: ColumnFit, marked: set[Label]) -> str:
    return f"! {c.name}" if c.name in marked else str(c.name)


def _step(span: float) -> float:
    """A round distance between about four ticks.

    >>> _step(1.7), _step(0.09)
    (0.5, 0.05)
    """
    rough = span / 4
    power = 10.0 ** math.floor(math.log10(rough))
    return next(round(k * power, 12) for k in (1, 2, 5, 10) if k * power >= rough * 0.99)


# --- calibration ----------------------------------------------------------------------------------


def _levels(levels: Sequence[Level], coverage: Sequence[Level]) -> Canvas:
    """Dots on the diagonal are honest; their area tells the number of answers."""
    canvas = Canvas()
    for k in range(5):
        tick = SQUARE * k / 4
        canvas.line([(tick, 0), (tick, SQUARE)], COLOURS["pale"], 0.8)
        canvas.line([(0, tick), (SQUARE, tick)], COLOURS["pale"], 0.8)
        canvas.text((tick, SQUARE + 11), f"{k / 4:g}", 11, COLOURS["soft"])
        canvas.text((-6, SQUARE - tick), f"{k / 4:g}", 11, COLOURS["soft"], "end")
    dashes = {"stroke_dasharray": "5 4"}
    canvas.line([(0, SQUARE), (SQUARE, 0)], COLOURS["line"], 1.2, **dashes)
    most = max([level.rows for level in levels], default=1.0)
    for level in coverage:
        at = (SQUARE * level.stated, SQUARE * (1 - level.seen))
        _interval(canvas, at)
    for level in levels:
        at = (SQUARE * level.stated, SQUARE * (1 - level.seen))
        error = 2 * math.sqrt(level.stated * (1 - level.stated) / level.rows)
        ends = [SQUARE * (1 - min(max(level.seen + s * error, 0.0), 1.0)) for s in (-1, 1)]
        canvas.line([(at[0], ends[0]), (at[0], ends[1])], COLOURS["up"], 1.4)
        size = 5 + 9 * math.sqrt(level.rows / most)
        canvas.oval(at, size, size, CALM, COLOURS["up"])
    canvas.text((SQUARE / 2, SQUARE + 28), "probability stated", 11, COLOURS["soft"])
    canvas.text((-34, -17), "came true", 11, COLOURS["soft"], "start")
    entries: list[tuple[Sample | None, str]] = []
    if levels:
        dot = (10, 10, CALM, COLOURS["up"])
        entries.append((lambda at: canvas.oval((at[0] + 6, at[1]), *dot), DISCRETE))
    if coverage:
        entries.append((lambda at: _interval(canvas, (at[0] + 6, at[1])), CONTINUOUS))
    canvas.legend(entries, (0, SQUARE + 48), room=18)
    return canvas


def _interval(canvas: Canvas, at: Point) -> None:
    canvas.box(at, 7, 7, "#f7d9ae", COLOURS["evidence edge"], round=0)


# --- pairs ----------------------------------------------------------------------------------------


def _pairs(report: CheckReport) -> Canvas:
    """A triangle: darker is nearer to what chance does not explain; orange is beyond it."""
    bad = {frozenset(p.names) for p in misfits(report.fit)}
    shown = _paired(report)
    place = {name: k for k, name in enumerate(shown)}
    level = SURE - math.log(max(len(report.pairs), 1))
    canvas = Canvas()
    for pair in reversed(report.pairs):  # the worst on top
        if not set(pair.names) <= place.keys():
            continue
        j, i = sorted(place[name] for name in pair.names)
        _pair_cell(canvas, pair, i, j, frozenset(pair.names) in bad, level)
    for k, name in enumerate(shown):
        canvas.text((CELL * k + 2, CELL * (k + 0.5)), str(name), 12, anchor="start")
    y = CELL * len(shown) + 14
    canvas.text((0, y), "orange: more than chance, % of rows", 11, COLOURS["soft"], "start")
    hidden = len(report.columns) - len(shown)
    if hidden > 0:
        words = f"the {len(shown)} columns of the worst pairs"
        canvas.text((0, y + 16), words, 11, COLOURS["soft"], "start")
    return canvas


def _pair_cell(canvas: Canvas, pair: PairFit, i: int, j: int, beyond: bool, level: float) -> None:
    at = (CELL * (j + 0.5), CELL * (i + 0.5))
    if beyond:
        canvas.box(at, CELL, CELL, MARKED, COLOURS["evidence edge"], round=0)
        canvas.text(at, f"{100 * pair.gap:.0f}", 11, COLOURS["ink"])
        return
    share = min(max(pair.log_p / level, 0.0), 1.0)
    grey = [round(a + share * (b - a)) for a, b in ((243, 150), (247, 190), (250, 222))]
    canvas.box(at, CELL, CELL, "#" + "".join(f"{g:02x}" for g in grey), "#ffffff", round=0)


def _paired(report: CheckReport) -> list[Label]:
    """All columns, or those of the worst pairs, in the model's order."""
    names = [c.name for c in report.columns]
    if len(names) <= MOST_PAIRED:
        return names
    chosen: list[Label] = []
    for pair in report.pairs:
        chosen += [name for name in pair.names if name not in chosen]
        if len(chosen) >= MOST_PAIRED - 1:
            break
    return [name for name in names if name in chosen]


# --- words ----------------------------------------------------------------------------------------


def _paragraph(
    canvas: Canvas,
    y: float,
    words: str,
    right: float,
    fill: str = COLOURS["ink"],
    size: float = 12,
    **style: object,
) -> float:
    """Words broken into lines that fit; returns where the next may start."""
    line = ""
    for word in words.split():
        longer = f"{line} {word}" if line else word
        if line and text_width(longer, size) > right:
            canvas.text((0, y), line, size, fill, "start", **style)
            y, longer = y + 1.35 * size, f"   {word}"
        line = longer
    canvas.text((0, y), line, size, fill, "start", **style)
    return y + 1.6 * size
