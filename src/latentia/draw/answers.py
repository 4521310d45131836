"""A posterior as a picture: bars for one variable, a grid for two, a curve for a density."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from latentia.draw.svg import COLOURS, Canvas, Drawing, text_width
from latentia.errors import DataError
from latentia.inference.posterior import Posterior
from latentia.typing import Array

BAR = 300.0
ROW = 24.0
MOST_ROWS = 30
CELL = 46.0
CURVE = (420.0, 170.0)
COVERED = 0.9  # share of the mass that is shaded under a density


def plot_posterior(posterior: Posterior) -> Drawing:
    """Horizontal bars by state; two variables: a grid of shares; more: the most probable cells."""
    if posterior.table.ndim == 2 and max(posterior.table.shape) <= MOST_ROWS:
        return _grid(posterior)
    return _bars(posterior)


def _bars(posterior: Posterior) -> Drawing:
    told = posterior.intervals
    cells = [
        (_words(key), p, (p, p) if told is None else told[key])
        for key, p in posterior.probabilities.items()
    ]
    hidden = len(cells) - MOST_ROWS
    if hidden > 0:
        cells = sorted(cells, key=lambda cell: -cell[1])[:MOST_ROWS]
    names = max(text_width(name, 13) for name, _, _ in cells)
    top = max(p for _, p, _ in cells)
    canvas = Canvas()
    canvas.text((0, -26), posterior.title, 14, anchor="start", font_weight="bold")
    end = _axis(canvas, names + 10, ROW * len(cells))
    for i, (name, p, ends) in enumerate(cells):
        y = ROW * (i + 0.5)
        canvas.text((names, y), name, 13, anchor="end")
        fill = COLOURS["up"] if p == top else "#8cbfe0"
        size = max(BAR * p, 1.0)
        canvas.box((names + 10 + size / 2, y), size, ROW * 0.66, fill, COLOURS["up"], round=0)
        if told is not None:
            _whisker(canvas, names + 10, y, ends)
        right = max(size, BAR * ends[1] + 2)
        canvas.text((names + 16 + right, y), f"{p:.3f}", 12, COLOURS["ink"], "start")
    y = end + 20
    for line in (f"… and {hidden} less probable states" if hidden > 0 else "", posterior.footnote):
        if line:
            canvas.text((0, y), line, 11, COLOURS["soft"], "start")
            y += 16
    return canvas.finish(posterior.title)


def _whisker(canvas: Canvas, left: float, y: float, ends: tuple[float, float]) -> None:
    """An interval over its bar: a line with a stop at each end."""
    low, high = (left + BAR * end for end in ends)
    canvas.line([(low, y), (high, y)], COLOURS["ink"], 1.4)
    for x in (low, high):
        canvas.line([(x, y - ROW * 0.17), (x, y + ROW * 0.17)], COLOURS["ink"], 1.4)


def _axis(canvas: Canvas, left: float, height: float) -> float:
    """A scale of probabilities under the bars; returns its lower edge."""
    for k in range(5):
        x = left + BAR * k / 4
        canvas.line([(x, 0), (x, height)], COLOURS["pale"], 0.8 if k else 1.2)
        canvas.text((x, height + 11), f"{k / 4:g}", 11, COLOURS["soft"])
    canvas.text((left + BAR / 2, height + 27), "probability", 11, COLOURS["soft"])
    return height + 30


def _grid(posterior: Posterior) -> Drawing:
    """Rows are states of the first variable, columns of the second; darker is more probable."""
    rows, columns = ([str(s) for s in states] for states in posterior.states)
    table = posterior.table / max(float(posterior.table.max()), 1e-300)
    width = max(CELL, max(text_width(c, 12) for c in columns) + 10)
    left = max(text_width(r, 12) for r in rows) + 34
    canvas = Canvas()
    canvas.text((0, -52), posterior.title, 14, anchor="start", font_weight="bold")
    across = left + width * len(columns) / 2
    canvas.text((across, -28), str(posterior.variables[1]), 12, COLOURS["soft"])
    canvas.text((8, ROW * len(rows) / 2), str(posterior.variables[0]), 12, COLOURS["soft"])
    for j, name in enumerate(columns):
        canvas.text((left + width * (j + 0.5), -10), name, 12)
    for i, name in enumerate(rows):
        y = ROW * (i + 0.5)
        canvas.text((left - 8, y), name, 12, anchor="end")
        for j in range(len(columns)):
            at = (left + width * (j + 0.5), y)
            canvas.box(at, width, ROW, _shade(table[i, j]), "#ffffff", round=0)
            ink = COLOURS["paper"] if table[i, j] > 0.55 else COLOURS["ink"]
            canvas.text(at, f"{posterior.table[i, j]:.3f}", 11, ink)
    if posterior.footnote:
        canvas.text((0, ROW * len(rows) + 18), posterior.footnote, 11, COLOURS["soft"], "start")
    return canvas.finish(posterior.title)


def _shade(share: float) -> str:
    """From almost white to dark blue; lightness falls all the way, so grey print tells, too."""
    ends = np.array([[240, 246, 251], [0, 73, 120]])
    red, green, blue = (ends[0] + share * (ends[1] - ends[0])).round().astype(int).tolist()
    return f"#{red:02x}{green:02x}{blue:02x}"


def plot_density(
    grid: Array,
    density: Array,
    title: str,
    footnote: str = "",
    shown: Callable[[float], str] = "{:.4g}".format,
) -> Drawing:
    """A density over a grid, with the middle 90 % of its mass shaded."""
    x, p = np.asarray(grid, dtype=float), np.asarray(density, dtype=float)
    if x.ndim != 1 or x.shape != p.shape or len(x) < 2 or (np.diff(x) <= 0).any():
        raise DataError(f"expected a growing grid and as many densities, got {x.shape}, {p.shape}.")
    if not np.isfinite(p).all() or (p < 0).any() or not p.any():
        raise DataError("expected densities that are finite, not negative, and not all zero.")
    width, height = CURVE
    mass = np.concatenate([[0.0], np.cumsum((p[1:] + p[:-1]) / 2 * np.diff(x))])
    inside = (mass >= mass[-1] * (1 - COVERED) / 2) & (mass <= mass[-1] * (1 + COVERED) / 2)
    across = (x - x[0]) / (x[-1] - x[0]) * width
    down = height * (1 - p / p.max())
    canvas = Canvas()
    canvas.text((0, -26), title, 14, anchor="start", font_weight="bold")
    shaded = list(zip(across[inside].tolist(), down[inside].tolist(), strict=True))
    if shaded:
        floor = [(shaded[-1][0], height), (shaded[0][0], height)]
        canvas.area([*shaded, *floor], "#cfe5f5")
    curve = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, down, strict=True))
    canvas.parts.append(
        f'<polyline points="{curve}" fill="none" stroke="{COLOURS["up"]}" stroke-width="2"/>'
    )
    canvas.line([(0, height), (width, height)], COLOURS["line"], 1.2)
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        value = x[0] + share * (x[-1] - x[0])
        canvas.line([(share * width, height), (share * width, height + 5)], COLOURS["line"], 1.0)
        canvas.text((share * width, height + 15), shown(float(value)), 11, COLOURS["soft"])
    note = f"shaded: the middle {COVERED:.0%}" + (f"; {footnote}" if footnote else "")
    canvas.text((0, height + 36), note, 11, COLOURS["soft"], "start")
    return canvas.finish(title)


def _words(key: object) -> str:
    return ", ".join(map(str, key)) if isinstance(key, tuple) else str(key)
