"""A profile as a picture: sizes, a line for every state across columns, and all shares as heat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from latentia.draw.svg import COLOURS, Canvas, Drawing, stack, text_width
from latentia.model.profile import DEVIATION, ColumnProfile, Link, Profile
from latentia.spelling import printable
from latentia.typing import Array

# After Okabe and Ito; further states take the same colours again, with dashes.
STATES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5c00", "#4d4d4d")
DASHES = ("", "6 3", "2 3")
BAR = 170.0
ROW = 22.0
STEP = 58.0  # between columns of the profile
HEIGHT = 180.0
CELL = 58.0
MOST_LINES = 14  # columns of the profile
MOST_HEAT = 30  # rows of the heat map
MOST_LABELS = 6  # rows of one column
LONGEST = 28  # letters of a name
SHORT = 7  # letters of names that need not be tilted
HEAT = np.array([[243, 247, 251], [146, 190, 222], [8, 70, 120]])  # no, half, all


def draw_profile(profile: Profile) -> Drawing:
    """Panels under a headline."""
    tops = [("How large the states are", _sizes(profile))]
    if profile.columns:
        tops.append(("Where each state lies, column by column", _lines(profile)))
    parts = [("", stack(tops, gap=44))]
    if profile.links:
        parts.append(("From state to state", stack([_link(x) for x in profile.links], gap=40)))
    if profile.columns:
        parts.append(("Each column in each state", _heat(profile)))
    page = Canvas()
    page.text((0, 0), profile.title, 15, anchor="start", font_weight="bold")
    y = 30.0
    for heading, part in parts:
        if heading:
            page.text((0, y), heading, 13, anchor="start", font_weight="bold")
            y += 20
        page.add(part, -part.left, y - part.top)
        y += part.bottom - part.top + 30
    for note in profile.notes[:4]:
        page.text((0, y), f"! {note}", 11, COLOURS["evidence edge"], "start")
        y += 16
    return page.finish(profile.title)


def _short(words: object, longest: int = LONGEST) -> str:
    """A name that fits.

    >>> _short("income"), _short("a very long name of a column", 12)
    ('income', 'a very long…')
    """
    text = printable(words)
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def _colour(k: int) -> str:
    return STATES[k % len(STATES)]


def _dash(k: int) -> dict[str, str]:
    dash = DASHES[(k // len(STATES)) % len(DASHES)]
    return {"stroke_dasharray": dash} if dash else {}


# --- sizes ----------------------------------------------------------------------------------------


def _sizes(profile: Profile) -> Canvas:
    """Bars in the colours of the states: the legend of the lines beside them."""
    canvas = Canvas()
    names = [_short(state) for state in profile.states]
    left = max(text_width(name, 12) for name in names) + 10
    for k, name in enumerate(names):
        y, share = ROW * (k + 0.5), float(profile.shares[k])
        canvas.text((left - 8, y), name, 12, _colour(k), "end", font_weight="bold")
        size = max(BAR * share, 1.0)
        canvas.box((left + size / 2, y), size, ROW * 0.62, _colour(k), _colour(k), round=2)
        told, right = f"{share:.1%}", size
        if profile.errors is not None:
            error = float(profile.errors[k])
            _whisker(canvas, left, y, share, error)
            right = BAR * min(share + 2 * error, 1.0)
            told += f" ± {error:.1%}"
        canvas.text((left + right + 8, y), told, 12, anchor="start")
    if profile.errors is not None:
        y = ROW * len(names) + 12
        canvas.text((0, y), "lines: two standard errors either way", 11, COLOURS["soft"], "start")
    return canvas


def _whisker(canvas: Canvas, left: float, y: float, share: float, error: float) -> None:
    ends = [left + BAR * min(max(share + s * 2 * error, 0.0), 1.0) for s in (-1, 1)]
    canvas.line([(ends[0], y), (ends[1], y)], COLOURS["ink"], 1.4)
    for x in ends:
        canvas.line([(x, y - 4), (x, y + 4)], COLOURS["ink"], 1.4)


# --- lines ----------------------------------------------------------------------------------------


def _lines(profile: Profile) -> Canvas:
    """A line for each state; columns from the most telling to the least."""
    shown = profile.columns[:MOST_LINES]
    canvas = Canvas()
    width = STEP * max(len(shown) - 1, 1)
    for k in range(5):
        y = HEIGHT * (1 - k / 4)
        canvas.line([(-12, y), (width + 12, y)], COLOURS["pale"], 0.8)
        canvas.text((-18, y), f"{k / 4:g}", 11, COLOURS["soft"], "end")
    names = [_axis_name(c) for c in shown]
    for i, name in enumerate(names):
        x = STEP * i
        canvas.line([(x, 0), (x, HEIGHT)], COLOURS["pale"], 0.8)
        if all(len(each) <= SHORT for each in names):
            canvas.text((x, HEIGHT + 14), name, 11.5)
        else:
            _tilted(canvas, (x + 4, HEIGHT + 14), name)
    order = np.argsort(profile.shares, kind="stable")  # the largest on top
    for k in order.tolist():
        points = [
            (STEP * i, HEIGHT * (1.0 - _height(c, k)))
            for i, c in enumerate(shown)
            if c.places is not None
        ]
        _polyline(canvas, points, _colour(k), 1.4 + 3.2 * math.sqrt(float(profile.shares[k])), k)
        for at in points:
            canvas.oval(at, 7, 7, _colour(k), COLOURS["paper"])
    rest = len(profile.columns) - len(shown)
    for line in _scale(shown):
        canvas.text((-18, canvas.bottom + 14), line, 11, COLOURS["soft"], "start")
    if rest > 0:
        more = f"the {len(shown)} most telling of {len(profile.columns)} columns"
        canvas.text((-18, canvas.bottom + 12), more, 11, COLOURS["soft"], "start")
    return canvas


def _unordered(c: ColumnProfile) -> bool:
    """More than two words that nobody has put in order: they come by spelling."""
    words = [x for x in c.labels if isinstance(x, str)]
    told = not c.continuous and len(c.labels) > 2 and len(words) == len(c.labels)
    return told and words == sorted(words) and not all(x[:1].isdigit() for x in words)


def _telling(c: ColumnProfile) -> int:
    """The word whose share differs most between the states."""
    return int(np.ptp(c.table, axis=0).argmax())


def _axis_name(c: ColumnProfile) -> str:
    if not _unordered(c):
        return _short(c.name)
    return f"{_short(c.name)} = {_short(c.labels[_telling(c)])}"


def _height(c: ColumnProfile, k: int) -> float:
    """Between 0 and 1: where state k lies."""
    if _unordered(c):
        return float(c.table[k, _telling(c)])
    return 0.5 if c.places is None else float(c.places[k])


def _scale(shown: Sequence[ColumnProfile]) -> list[str]:
    """What 0 and 1 mean, in lines."""
    states = [c.labels for c in shown if not c.continuous and not _unordered(c)]
    same = len(set(states)) == 1 and len(states[0]) > 1
    words = []
    if same and len(states[0]) == 2:
        words.append(f"share of {_short(states[0][1])}")
    elif same:
        words.append(
            f"mean, from all {_short(states[0][0])} (0) to all {_short(states[0][-1])} (1)"
        )
    elif states and all(len(own) == 2 for own in states):
        words.append("share of the second of two states, as named in the table below")
    elif states:
        words.append("mean between the first state (0) and the last (1)")
    if any(c.continuous for c in shown):
        words.append("of numbers: share of values below")
    if any(map(_unordered, shown)):
        words.append("of words without an order: share of the one named")
    return words if len(words) > 2 else ["; ".join(words)]


def _polyline(
    canvas: Canvas, points: list[tuple[float, float]], colour: str, width: float, k: int
) -> None:
    """Straight from point to point: a curve would tell of values between columns."""
    for a, b in pairwise(points):
        canvas.line([a, b], colour, width, stroke_linecap="round", **_dash(k))


def _tilted(canvas: Canvas, at: tuple[float, float], words: str) -> None:
    """A name that runs down to the left, so that many fit."""
    x, y = at
    turned = f"rotate(-35 {x:.1f} {y:.1f})"
    inner = Canvas()
    inner.text(at, words, 11.5, anchor="end", transform=turned)
    canvas.parts += inner.parts
    long = text_width(words, 11.5)
    canvas._cover(x - long * 0.82, y + long * 0.58 + 4)


# --- heat -----------------------------------------------------------------------------------------


def _heat(profile: Profile) -> Canvas:
    """Rows are states of columns, dark is frequent; bars tell how much a column tells."""
    canvas = Canvas()
    rows, hidden = _heat_rows(profile)
    labels = [_short(c.labels[j]) if not c.continuous else "mean ± deviation" for c, j, _ in rows]
    names = [_short(c.name) if first else "" for c, _, first in rows]
    middle = max(text_width(name, 12) for name in names) + 14
    left = middle + max(text_width(label, 11.5) for label in labels) + 12
    states = [_short(state, 14) for state in profile.states]
    cell = max(CELL, *(text_width(state, 12) + 12 for state in states))
    told = [
        _mean_and_spread(c, x) for c, _, _ in rows if c.continuous for x in (c.overall, *c.table)
    ]
    cell = max([cell, *(text_width(words, 11) + 12 for words in told)])
    for k, state in enumerate(states):
        at = left + cell * (k + 0.5)
        canvas.text((at, -24), state, 12, _colour(k), font_weight="bold")
        canvas.text((at, -9), f"{profile.shares[k]:.0%}", 11, COLOURS["soft"])
    end = left + cell * len(states) + 14
    canvas.text((end + cell / 2, -24), "all", 12, COLOURS["soft"], font_weight="bold")
    bars = end + cell + 18
    canvas.text((bars, -24), "tells", 12, COLOURS["soft"], "start", font_weight="bold")
    canvas.text((bars, -9), "bits", 11, COLOURS["soft"], "start")
    top = max((c.bits for c in profile.columns), default=1.0) or 1.0
    for i, (c, j, first) in enumerate(rows):
        y = ROW * (i + 0.5)
        if first:
            if i:
                canvas.line([(0, y - ROW / 2), (bars + 70, y - ROW / 2)], COLOURS["pale"], 0.8)
            canvas.text((0, y), names[i], 12, anchor="start", font_weight="bold")
            size = max(60 * c.bits / top, 0.5)
            canvas.box((bars + size / 2, y), size, ROW * 0.5, "#b9b9b9", "#b9b9b9", round=1)
            canvas.text((bars + size + 6, y), f"{c.bits:.2f}", 11, COLOURS["soft"], "start")
        canvas.text((middle, y), labels[i], 11.5, COLOURS["ink"], "start")
        for k in range(len(states)):
            _heat_cell(canvas, c, (left + cell * (k + 0.5), y), cell, c.table[k], j, _warm(c, k, j))
        _heat_cell(canvas, c, (end + cell / 2, y), cell, c.overall, j, None)
    words = []
    if any(not c.continuous and len(c.labels) > MOST_LABELS for c, _, first in rows if first):
        words.append(f"of columns with more states, the {MOST_LABELS} most frequent")
    if hidden:
        words.append(
            f"… and {hidden} columns that tell less: print the profile, or take .to_frame()"
        )
    for i, line in enumerate(words):
        canvas.text((0, ROW * (len(rows) + i) + 14), line, 11, COLOURS["soft"], "start")
    return canvas


def _heat_rows(profile: Profile) -> tuple[list[tuple[ColumnProfile, int, bool]], int]:
    """Column, label and whether it is the column's first; and how many columns found no room.

    Of two labels the second says it all; of many the most frequent are shown.
    """
    rows: list[tuple[ColumnProfile, int, bool]] = []
    for done, c in enumerate(profile.columns):
        if c.continuous:
            labels = [0]
        elif len(c.labels) == 2:
            labels = [1]
        else:
            labels = sorted(np.argsort(-c.overall, kind="stable")[:MOST_LABELS].tolist())
        if rows and len(rows) + len(labels) > MOST_HEAT:
            return rows, len(profile.columns) - done
        rows += [(c, j, n == 0) for n, j in enumerate(labels)]
    return rows, 0


def _warm(c: ColumnProfile, k: int, j: int) -> float:
    """How dark a cell is, from 0 to 1: its share, or the place of a mean."""
    if c.continuous:
        return 0.5 if c.places is None else float(c.places[k])
    return float(c.table[k, j])


def _heat_cell(
    canvas: Canvas,
    c: ColumnProfile,
    at: tuple[float, float],
    width: float,
    numbers: Array,
    j: int,
    warm: float | None,
) -> None:
    fill = COLOURS["paper"] if warm is None else _shade(warm)
    canvas.box(at, width - 2, ROW - 2, fill, fill if warm is not None else COLOURS["pale"], round=2)
    ink = COLOURS["paper"] if warm is not None and warm > 0.62 else COLOURS["ink"]
    words = _mean_and_spread(c, numbers) if c.continuous else f"{numbers[j]:.0%}"
    canvas.text(at, words, 11, COLOURS["soft"] if warm is None else ink)


def _mean_and_spread(c: ColumnProfile, numbers: Array) -> str:
    return f"{c.shown(0, float(numbers[0]), 3)} ± {c.shown(DEVIATION, float(numbers[1]), 2)}"


def _shade(share: float) -> str:
    """From almost white over light to dark blue: lightness falls evenly."""
    x = min(max(share, 0.0), 1.0) * 2
    low = min(int(x), 1)
    mixed = HEAT[low] + (x - low) * (HEAT[low + 1] - HEAT[low])
    return "#" + "".join(f"{round(part):02x}" for part in mixed.tolist())


# --- links ----------------------------------------------------------------------------------------


def _link(link: Link) -> tuple[str, Canvas]:
    """P(below | above): a row for every state above."""
    canvas = Canvas()
    rows, columns = [_short(s, 14) for s in link.rows], [_short(s, 14) for s in link.columns]
    above, below = _short(link.above, 14), _short(link.below, 14)
    left = max(text_width(f"{above} = {row}", 11.5) for row in rows) + 10
    cell = max(CELL, *(text_width(name, 11.5) + 12 for name in columns))
    canvas.text((left + cell * len(columns) / 2, -28), f"{below} =", 11.5, COLOURS["soft"])
    for j, name in enumerate(columns):
        canvas.text((left + cell * (j + 0.5), -10), name, 11.5)
    for i, name in enumerate(rows):
        y = ROW * (i + 0.5)
        canvas.text((left - 8, y), f"{above} = {name}", 11.5, anchor="end")
        for j in range(len(columns)):
            at, share = (left + cell * (j + 0.5), y), float(link.table[i, j])
            canvas.box(at, cell - 2, ROW - 2, _shade(share), _shade(share), round=2)
            ink = COLOURS["paper"] if share > 0.62 else COLOURS["ink"]
            canvas.text(at, f"{share:.0%}", 11, ink)
    return f"P({below} | {above})", canvas
