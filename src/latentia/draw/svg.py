"""Drawing: a picture as SVG text; Canvas: the few marks that all pictures are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias, final

from latentia.errors import DataError
from latentia.spelling import printable
from latentia.typing import FilePath

Point: TypeAlias = tuple[float, float]
Sample: TypeAlias = Callable[[Point], None]

# After Okabe and Ito: told apart by the colour-blind, and by their lightness in grey print.
COLOURS = {
    "ink": "#1a1a1a",
    "soft": "#6b6b6b",
    "line": "#4d4d4d",
    "pale": "#c9c9c9",
    "paper": "#ffffff",
    "column": "#cfe5f5",
    "column edge": "#0072b2",
    "separator": "#fdf3c7",
    "separator edge": "#8a6d00",
    "evidence": "#f3b55e",
    "evidence edge": "#a85b00",
    "answer": "#0a7f5f",
    "up": "#0072b2",
    "down": "#c34a00",
}
SMALL = 11.0  # type size of legends
FONT = "Helvetica, Arial, 'DejaVu Sans', sans-serif"
HANGING = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")  # some readers of SVG misplace a tspan
NARROW, WIDE = "iljtfrI.,:;|'!()[] ·", "mwMW@%→×"
BROADEST, BOLDEST = 1.1, 1.2  # fonts of some readers are wider than we reckon: words have room


@final
@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture: `.svg` is its text, `.save(path)` writes it, notebooks show it."""

    svg: str
    width: float
    height: float

    def __post_init__(self) -> None:
        if not self.svg.startswith("<svg"):
            raise DataError("a drawing is SVG text that begins with <svg.")

    def save(self, path: FilePath) -> Path:
        """Write the picture to a file that ends in .svg, or .html for a page of its own."""
        where = Path(path)
        if where.suffix not in (".svg", ".html"):
            raise DataError(f"expected a path that ends in .svg or .html, got {str(where)!r}.")
        page = f"<!doctype html><meta charset='utf-8'>{self.svg}"
        where.write_text(self.svg if where.suffix == ".svg" else page, encoding="utf-8")
        return where

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return f"<div style='overflow-x:auto'>{self.svg}</div>"

    def __repr__(self) -> str:
        return f"Drawing of {self.width:.0f} × {self.height:.0f} points; .save('name.svg') keeps it"


@dataclass
class Canvas:
    """Marks in the order they are painted; `finish` fits the picture around them."""

    parts: list[str] = field(default_factory=list)
    left: float = math.inf
    top: float = math.inf
    right: float = -math.inf
    bottom: float = -math.inf

    def _cover(self, x: float, y: float) -> None:
        self.left, self.right = min(self.left, x), max(self.right, x)
        self.top, self.bottom = min(self.top, y), max(self.bottom, y)

    def box(
        self, centre: Point, width: float, height: float, fill: str, edge: str, **style: object
    ) -> None:
        """A rectangle around its centre; `round` is the radius of its corners."""
        x, y = centre[0] - width / 2, centre[1] - height / 2
        radius = style.pop("round", 4)
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'rx="{radius:g}" fill="{fill}" stroke="{edge}"{_attributes(style)}/>'
        )
        self._cover(x, y)
        self._cover(x + width, y + height)

    def oval(
        self, centre: Point, width: float, height: float, fill: str, edge: str, **s: object
    ) -> None:
        """An ellipse around its centre."""
        x, y = centre
        self.parts.append(
            f'<ellipse cx="{x:.1f}" cy="{y:.1f}" rx="{width / 2:.1f}" ry="{height / 2:.1f}" '
            f'fill="{fill}" stroke="{edge}"{_attributes(s)}/>'
        )
        self._cover(x - width / 2, y - height / 2)
        self._cover(x + width / 2, y + height / 2)

    def text(
        self,
        at: Point,
        words: str,
        size: float = 12,
        fill: str = COLOURS["ink"],
        anchor: str = "middle",
        **style: object,
    ) -> None:
        """One line of text whose middle height is at the point."""
        x, y = at
        words, small = printable(words), printable(style.pop("after", ""))
        width = text_width(words, size) * (BOLDEST if style.get("font_weight") else BROADEST)
        start = {"start": x, "middle": x - width / 2, "end": x - width}[anchor]
        extra = escape(small.translate(HANGING))  # behind it: a number of states
        self.parts.append(
            f'<text x="{x:.1f}" y="{y + size * 0.35:.1f}" font-size="{size:g}" fill="{fill}" '
            f'text-anchor="{anchor}"{_attributes(style)}>{escape(words)}{extra}</text>'
        )
        self._cover(start, y - size / 2)
        self._cover(start + width, y + size / 2)

    def line(
        self, points: Sequence[Point], colour: str, width: float = 1.4, **style: object
    ) -> None:
        """A line through points, smooth where there are more than two."""
        self.parts.append(
            f'<path d="{_path(points)}" fill="none" stroke="{colour}" '
            f'stroke-width="{width:g}"{_attributes(style)}/>'
        )
        for x, y in points:
            self._cover(x, y)

    def area(self, points: Sequence[Point], fill: str, **style: object) -> None:
        """A filled polygon."""
        shape = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(f'<polygon points="{shape}" fill="{fill}"{_attributes(style)}/>')
        for x, y in points:
            self._cover(x, y)

    def arrow(
        self, points: Sequence[Point], colour: str, width: float = 1.4, **style: object
    ) -> None:
        """A line with a head at its end. The head is a polygon: markers need names that clash."""
        size = 4 + 2.5 * width
        (x0, y0), (x1, y1) = points[-2], points[-1]
        length = math.hypot(x1 - x0, y1 - y0) or 1.0
        ux, uy = (x1 - x0) / length, (y1 - y0) / length
        neck = (x1 - 0.8 * size * ux, y1 - 0.8 * size * uy)
        self.line([*points[:-1], neck], colour, width, **style)
        foot = (x1 - size * ux, y1 - size * uy)
        side = (-0.42 * size * uy, 0.42 * size * ux)
        wings = ((foot[0] + s * side[0], foot[1] + s * side[1]) for s in (1, -1))
        self.area([points[-1], *wings], colour)

    def legend(
        self,
        entries: Iterable[tuple[Sample | None, str]],
        at: Point | None = None,
        room: float = 24.0,
        beside: bool = False,
    ) -> None:
        """Samples of marks with words, one below the other or side by side; below all by default.

        A sample is painted from the point at the middle of its left edge, and has some room.
        """
        x, y = at or (self.left, self.bottom + 28)
        for sample, words in entries:
            start = x
            if sample is not None:
                sample((x, y))
                start += room
            self.text((start, y), words, SMALL, COLOURS["soft"], "start")
            if beside:
                x = start + text_width(words, SMALL) + 16
            else:
                y += 16

    def finish(self, title: str, margin: float = 12) -> Drawing:
        """The picture, with room around it, on white: dark notebooks would hide black lines."""
        x, y = self.left - margin, self.top - margin
        width, height = self.right - self.left + 2 * margin, self.bottom - self.top + 2 * margin
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="{x:.1f} {y:.1f} {width:.1f} {height:.1f}" font-family="{FONT}" role="img">'
            f"<title>{escape(printable(title))}</title>"
        )
        paper = (
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'fill="{COLOURS["paper"]}"/>'
        )
        return Drawing("\n".join([head, paper, *self.parts, "</svg>"]), width, height)

    def add(self, other: Canvas, dx: float, dy: float) -> None:
        """All marks of another canvas, moved."""
        self.parts.append(f'<g transform="translate({dx:.1f} {dy:.1f})">')
        self.parts += [*other.parts, "</g>"]
        self._cover(other.left + dx, other.top + dy)
        self._cover(other.right + dx, other.bottom + dy)


def stack(panels: Iterable[tuple[str, Canvas]], gap: float = 46, beside: bool = True) -> Canvas:
    """Panels under their headings, side by side or one below the other."""
    whole = Canvas()
    edge = 0.0
    for heading, panel in panels:
        if beside:
            whole.text((edge, -16), heading, 13, anchor="start", font_weight="bold")
            whole.add(panel, edge - panel.left, 6 - panel.top)
            edge += panel.right - panel.left + gap
        else:
            whole.text((0, edge), heading, 13, anchor="start", font_weight="bold")
            whole.add(panel, -panel.left, edge + 22 - panel.top)
            edge += panel.bottom - panel.top + 22 + gap
    return whole


def text_width(words: str, size: float = 12) -> float:
    """About how wide a line is; the fonts of readers differ.

    >>> round(text_width("rank", 10)), round(text_width("WWWW", 10))
    (21, 36)
    """
    per = (0.3 if c in NARROW else 0.9 if c in WIDE else 0.6 for c in printable(words))
    return size * sum(per)


def _attributes(style: dict[str, object]) -> str:
    return "".join(f' {key.replace("_", "-")}="{value}"' for key, value in style.items())


def _path(points: Sequence[Point]) -> str:
    """M, then L; with corners: quadratic curves from middle to middle of the segments."""
    start = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    middle = ""
    for (x, y), (nx, ny) in pairwise(points[1:]):
        end = (nx, ny) if (nx, ny) == points[-1] else ((x + nx) / 2, (y + ny) / 2)
        middle += f" Q{x:.1f} {y:.1f} {end[0]:.1f} {end[1]:.1f}"
    if middle:
        return start + middle
    return f"{start} L{points[-1][0]:.1f} {points[-1][1]:.1f}"
