"""Layered layout: parents above children, few crossings, straight long edges.

Layers by longest path; orders by barycentres, the best of many sweeps kept; coordinates by
least squares towards the neighbours' mean, under the order and the room that nodes need.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import final

SWEEPS = 24
SETTLING = 40


@final
@dataclass(frozen=True, slots=True)
class Layout:
    """Where nodes are, across and along the layers, and the corners of each edge."""

    across: tuple[float, ...]
    layer: tuple[int, ...]
    corners: Mapping[tuple[int, int], tuple[tuple[float, int], ...]]  # of edges over many layers


def lay_out(
    sizes: Sequence[float],
    edges: Sequence[tuple[int, int]],
    gap: float,
    level: Collection[int] = (),
) -> Layout:
    """Positions for a DAG whose node v takes up `sizes[v]` across its layer.

    Nodes that are `level` have no children, and all stand in the lowest layer of any of them.
    """
    n = len(sizes)
    layer = _layers(n, edges)
    lowest = max((layer[v] for v in level), default=0)
    layer = [lowest if v in level else own for v, own in enumerate(layer)]
    widths, levels, links, dummies = list(sizes), list(layer), [], {}
    for a, b in edges:
        chain = [a]
        for between in range(layer[a] + 1, layer[b]):
            chain.append(len(widths))
            widths.append(8.0)
            levels.append(between)
        chain.append(b)
        dummies[a, b] = chain[1:-1]
        links += list(pairwise(chain))
    up: list[list[int]] = [[] for _ in widths]
    down: list[list[int]] = [[] for _ in widths]
    for a, b in links:
        down[a].append(b)
        up[b].append(a)
    rows = _ordered(levels, up, down)
    x = _settled(rows, widths, up, down, gap)
    corners = {e: tuple((x[d], levels[d]) for d in chain) for e, chain in dummies.items()}
    return Layout(tuple(x[:n]), tuple(layer), corners)


def _layers(n: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Longest path from a source; then sources move down to just above their children."""
    children: list[list[int]] = [[] for _ in range(n)]
    waiting = [0] * n
    for a, b in edges:
        children[a].append(b)
        waiting[b] += 1
    sources = [v for v in range(n) if waiting[v] == 0]
    layer, free = [0] * n, list(sources)
    while free:
        a = free.pop()
        for b in children[a]:
            layer[b] = max(layer[b], layer[a] + 1)
            waiting[b] -= 1
            if waiting[b] == 0:
                free.append(b)
    for v in sources:
        if children[v]:
            layer[v] = min(layer[b] for b in children[v]) - 1
    return layer


def _ordered(
    levels: Sequence[int], up: Sequence[Sequence[int]], down: Sequence[Sequence[int]]
) -> list[list[int]]:
    """An order of every layer with few crossings."""
    depth = max(levels) + 1
    rows: list[list[int]] = [[] for _ in range(depth)]
    seen: set[int] = set()
    todo = [v for v in reversed(range(len(levels))) if not up[v]]
    while todo:  # depth first, so that what belongs together starts together
        v = todo.pop()
        if v not in seen:
            seen.add(v)
            rows[levels[v]].append(v)
            todo += [c for c in reversed(down[v]) if c not in seen]
    best, fewest = [list(row) for row in rows], count_crossings(rows, down)
    for sweep in range(SWEEPS):
        if fewest == 0:
            break
        downwards = sweep % 2 == 0
        for k in range(1, depth) if downwards else range(depth - 2, -1, -1):
            fixed = rows[k - 1] if downwards else rows[k + 1]
            _by_barycentre(rows[k], fixed, up if downwards else down, turn=sweep % 4 > 1)
        crossings = count_crossings(rows, down)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    return best


def _by_barycentre(
    row: list[int], fixed: Sequence[int], tied: Sequence[Sequence[int]], turn: bool
) -> None:
    """Sort a layer by the mean place of its neighbours; ties are turned round now and then."""
    place = {v: i for i, v in enumerate(fixed)}
    own = {v: i for i, v in enumerate(row)}

    def key(v: int) -> tuple[float, int]:
        near = [place[u] for u in tied[v] if u in place]
        mean = sum(near) / len(near) if near else own[v] * len(fixed) / max(len(row), 1)
        return mean, -own[v] if turn else own[v]

    row.sort(key=key)


def count_crossings(rows: Sequence[Sequence[int]], down: Sequence[Sequence[int]]) -> int:
    """Pairs of edges between neighbouring layers that cross.

    >>> count_crossings([[0, 1], [2, 3]], [[3], [2], [], []])
    1
    """
    total = 0
    for row, below in pairwise(rows):
        place = {v: i for i, v in enumerate(below)}
        ends: list[int] = []
        for v in row:
            targets = sorted(place[c] for c in down[v] if c in place)
            total += sum(len(ends) - bisect_right(ends, t) for t in targets)
            for t in targets:
                insort(ends, t)
    return total


def _settled(
    rows: Sequence[Sequence[int]],
    widths: Sequence[float],
    up: Sequence[Sequence[int]],
    down: Sequence[Sequence[int]],
    gap: float,
) -> list[float]:
    """Coordinates across: everyone wants to be at the mean of its neighbours."""
    x = [0.0] * len(widths)
    for row in rows:
        at = 0.0
        for v in row:
            x[v] = at + widths[v] / 2
            at += widths[v] + gap
        for v in row:
            x[v] -= at / 2
    for turn in range(SETTLING):
        last = turn >= SETTLING - 4
        for row in rows if turn % 2 == 0 else reversed(rows):
            wanted = []
            for v in row:
                near = [*up[v], *down[v]] if last else (up[v] if turn % 2 == 0 else down[v])
                wanted.append(sum(x[u] for u in near) / len(near) if near else x[v])
            for v, place in zip(row, spread(wanted, [widths[v] for v in row], gap), strict=True):
                x[v] = place
    return x


def spread(wanted: Sequence[float], widths: Sequence[float], gap: float) -> list[float]:
    """argmin Σ (x_i − wanted_i)² with x in order and room for every width: isotonic regression.

    >>> spread([0, 0, 10], [2, 2, 2], 0)
    [-1.0, 1.0, 10.0]
    """
    offsets = [0.0]
    for a, b in pairwise(widths):
        offsets.append(offsets[-1] + (a + b) / 2 + gap)
    blocks: list[tuple[float, int]] = []  # sum and size of values that became equal
    for w, o in zip(wanted, offsets, strict=False):
        total, count = w - o, 1
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / count:
            more = blocks.pop()
            total, count = total + more[0], count + more[1]
        blocks.append((total, count))
    level = [total / count for total, count in blocks for _ in range(count)]
    return [float(a + o) for a, o in zip(level, offsets, strict=False)]
