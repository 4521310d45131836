"""Wide layers folded: columns that hang on one variable alone stand in lists, not in one long row.

A list has a rail on its left, from which an edge goes to each of its columns:

      latent
     /      \\
    |→ a     |→ c
    |→ b     |→ d
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from latentia.draw.layered import Layout, lay_out
from latentia.draw.svg import Point

WIDEST = 1200.0  # a layer; beyond, it is folded
MOST_LISTED = 14  # columns below each other
FEWEST = 3  # columns of one variable that make a list
RAIL = 22.0  # from the rail of a list to its columns
GAP = 22.0  # between lists
LINE = 46.0  # from column to column in a list
START = 30.0  # of a rail, above the first column's centre
BEND = 10.0  # of an edge, before and after a corner

Edge = tuple[int, int]


@final
@dataclass(frozen=True, slots=True)
class Fold:
    """What hangs on one variable, in lists."""

    owner: int
    lists: tuple[tuple[int, ...], ...]
    widths: tuple[float, ...]  # of the lists, rails with them

    @property
    def width(self) -> float:
        return sum(self.widths) + GAP * (len(self.lists) - 1)

    @property
    def depth(self) -> float:
        """How far its last column is below the first."""
        return LINE * (max(map(len, self.lists)) - 1)


def folds_of(layout: Layout, edges: Sequence[Edge], widths: Sequence[float]) -> list[Fold]:
    """Lists for a layout whose layers are too wide: as short as makes them narrow enough."""
    if _widest(layout, widths) <= WIDEST:
        return []
    hanging = _hanging(len(widths), edges)
    found: list[Fold] = []
    for listed in range(2, MOST_LISTED + 1):
        found = [_fold(owner, own, widths, listed) for owner, own in hanging.items()]
        inside = {v for fold in found for own in fold.lists for v in own}
        rest = max(
            (sum(widths[v] + GAP for v in layer if v not in inside) for layer in _rows(layout)),
            default=0.0,
        )
        if max(rest, sum(fold.width + GAP for fold in found)) <= WIDEST:
            break
    return found


def lay_out_folded(
    widths: Sequence[float], edges: Sequence[Edge], folds: Sequence[Fold], gap: float
) -> tuple[Layout, list[int]]:
    """The layout with each fold as one node: those that stand alone first, as they are listed."""
    inside = {v for fold in folds for own in fold.lists for v in own}
    alone = [v for v in range(len(widths)) if v not in inside]
    number = {v: i for i, v in enumerate(alone)}
    kept = [(number[a], number[b]) for a, b in edges if b not in inside]
    kept += [(number[fold.owner], len(alone) + k) for k, fold in enumerate(folds)]
    sizes = [*(widths[v] for v in alone), *(fold.width for fold in folds)]
    return lay_out(sizes, kept, gap, range(len(alone), len(sizes))), alone


def unfolded(
    fold: Fold, at: Point, way: Sequence[Point], widths: Sequence[float]
) -> tuple[dict[int, Point], dict[Edge, list[Point]]]:
    """Centres of the columns of a fold whose middle above is `at`, and corners of their edges.

    `way`: corners on the way to it.
    """
    places: dict[int, Point] = {}
    paths: dict[Edge, list[Point]] = {}
    left = at[0] - fold.width / 2
    for own, width in zip(fold.lists, fold.widths, strict=True):
        for k, v in enumerate(own):
            y = at[1] + LINE * k
            places[v] = (left + RAIL + widths[v] / 2, y)
            ends = (at[1] - START, at[1] - START + BEND, y - BEND, y)
            paths[fold.owner, v] = [*way, *((left, end) for end in ends)]
        left += width + GAP
    return places, paths


def _hanging(count: int, edges: Sequence[Edge]) -> dict[int, list[int]]:
    """Variables below one other and above none, by that one, where they are several."""
    above: list[list[int]] = [[] for _ in range(count)]
    parents = {a for a, _ in edges}
    for a, b in edges:
        above[b].append(a)
    found: dict[int, list[int]] = {}
    for v in range(count):
        if len(above[v]) == 1 and v not in parents:
            found.setdefault(above[v][0], []).append(v)
    return {owner: own for owner, own in found.items() if len(own) >= FEWEST}


def _fold(owner: int, own: Sequence[int], widths: Sequence[float], listed: int) -> Fold:
    """Lists of like length, at most `listed`."""
    many = -(-len(own) // listed)
    size, more = divmod(len(own), many)
    lists, start = [], 0
    for k in range(many):
        end = start + size + (k < more)
        lists.append(tuple(own[start:end]))
        start = end
    rooms = tuple(RAIL + max(widths[v] for v in part) for part in lists)
    return Fold(owner, tuple(lists), rooms)


def _rows(layout: Layout) -> list[list[int]]:
    rows: list[list[int]] = [[] for _ in range(max(layout.layer) + 1)]
    for v, k in enumerate(layout.layer):
        rows[k].append(v)
    return rows


def _widest(layout: Layout, widths: Sequence[float]) -> float:
    return max(sum(widths[v] + GAP for v in row) for row in _rows(layout))
