"""The leaves nearest to a separator on either side of it, found without walking the whole graph.

A separator cuts the moral graph, so a search from it stays on the side that it looks at. Neighbours
of a hub are kept in the order of the tree as well: those on one side of an edge are then a slice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.structure.junction import JunctionTree
from latentia.structure.triangulate import Adjacency
from latentia.typing import Codes

MOST_TIED = 64  # leaves at equal distance are all taken, up to this many
HUB = 128  # a variable with more neighbours is never walked around as a whole, if it can be helped


@final
@dataclass(frozen=True, slots=True)
class Hub:
    """The neighbours of a variable with many: by number, and by their place in the tree."""

    by_number: Codes
    places: Codes  # of `by_number`
    in_tree: Codes  # neighbours by place …
    sorted_places: Sequence[int]  # … and these


@final
@dataclass(frozen=True, slots=True)
class Ball:
    """What a search met: leaves by distance, each by a column of it, and the way back."""

    leaves: list[int]
    columns: list[int]  # the first column met of each leaf
    level: dict[int, int]  # distance of every variable that was passed
    distance: list[int]  # of `columns`


@final
@dataclass(frozen=True, slots=True)
class Surroundings:
    """The moral graph, and where in a rooted junction tree its variables lie."""

    near: Adjacency
    sorted_near: list[list[int]]  # of variables that are no hubs
    hubs: dict[int, Hub]
    home: list[int]  # leaf of a column, -1 for a latent
    homes: Codes
    place: list[int]  # of a variable: when its topmost clique is entered
    enter: list[int]  # of a clique; its subtree is entered before `leave`
    leave: list[int]
    leaf_places: list[int]  # when the clique of each leaf is entered …
    sorted_leaf_places: list[int]  # … and in order: components may come in another


def surround(tree: JunctionTree, near: Adjacency, leaves: Sequence[int]) -> Surroundings:
    """Places of all variables in a rooted tree; `leaves` are its leaf cliques, left to right."""
    enter, leave = _tour(tree)
    home = [-1] * len(near)
    for number, i in enumerate(leaves):
        for v in tree.holds[i]:
            home[v] = number
    place = [len(enter)] * len(near)
    for i, clique in enumerate(tree.cliques):
        for v in clique:
            place[v] = min(place[v], enter[i])
    places = np.array(place, dtype=np.int64)
    hubs = {}
    for v, around in enumerate(near):
        if len(around) > HUB:
            by_number = np.array(sorted(around), dtype=np.int64)
            mine = places[by_number]
            order = np.argsort(mine, kind="stable")
            hubs[v] = Hub(by_number, mine, by_number[order], mine[order].tolist())
    sorted_near = [[] if v in hubs else sorted(around) for v, around in enumerate(near)]
    homes = np.array(home, dtype=np.int64)
    leaf_places = [enter[i] for i in leaves]
    return Surroundings(
        near=near,
        sorted_near=sorted_near,
        hubs=hubs,
        home=home,
        homes=homes,
        place=place,
        enter=enter,
        leave=leave,
        leaf_places=leaf_places,
        sorted_leaf_places=sorted(leaf_places),
    )


def _tour(tree: JunctionTree) -> tuple[list[int], list[int]]:
    """When the subtree of each clique is entered and left, walking depth first."""
    order = tree.order()
    size = [1] * len(order)
    for i in reversed(order):
        if tree.parent[i] != i:
            size[tree.parent[i]] += size[i]
    enter, taken, start = [0] * len(order), [1] * len(order), 0
    for i in order:
        up = tree.parent[i]
        if up == i:
            enter[i], start = start, start + size[i]
        else:
            enter[i] = enter[up] + taken[up]
            taken[up] += size[i]
    return enter, [first + count for first, count in zip(enter, size, strict=True)]


def nearest(
    around: Surroundings,
    start: frozenset[int],
    edge: int,
    inside: bool,
    width: int,
) -> Ball:
    """Leaves on one side of a separator by distance in the moral graph, at least `width` if there.

    The separator `start` lies above clique `edge`, and the inside below it. Leaves at the same
    distance come by the number of their columns, all of them up to `MOST_TIED` in all.
    """
    most = max(width, MOST_TIED)
    low, high = around.enter[edge], around.leave[edge]
    ball = Ball([], [], {}, [])
    seen: set[int] = set()
    ring, depth = sorted(start), 0
    home, place, leaf_places = around.home, around.place, around.leaf_places
    while ring:
        for v in ring:
            x = home[v]
            if x >= 0 and x not in seen and (depth or (low <= leaf_places[x] < high) == inside):
                seen.add(x)
                ball.leaves.append(x)
                ball.columns.append(v)
                ball.distance.append(depth)
                if len(seen) >= most:
                    return ball
        if len(seen) >= width:
            break
        ball.level.update(dict.fromkeys(ring, depth))
        fresh: set[int] = set()
        for v in ring:
            if v in around.hubs:
                enough = most + width + len(start)  # some may have been met before
                fresh.update(_side_of_hub(around, around.hubs[v], low, high, inside, enough))
            else:
                fresh.update(
                    [u for u in around.sorted_near[v] if (low <= place[u] < high) == inside]
                )
        ring, depth = sorted(fresh.difference(ball.level)), depth + 1
    return ball


def _side_of_hub(
    around: Surroundings, hub: Hub, low: int, high: int, inside: bool, enough: int
) -> list[int]:
    """Neighbours of a hub on one side; only the first if these have `enough` leaves."""
    first, last = bisect_left(hub.sorted_places, low), bisect_left(hub.sorted_places, high)
    count = last - first if inside else len(hub.sorted_places) - (last - first)
    found: list[int] = []
    met: set[int] = set()
    for block in _blocks(len(hub.by_number), 2 * enough) if count > 2 * enough else ():
        part, places = hub.by_number[block], hub.places[block]
        part = part[((places >= low) & (places < high)) == inside]
        homes = around.homes[part]
        found += part[homes >= 0].tolist()
        met.update(homes[homes >= 0].tolist())
        if len(met) >= enough:
            return found
    if inside:
        return list(hub.in_tree[first:last].tolist())
    return [*hub.in_tree[:first].tolist(), *hub.in_tree[last:].tolist()]


def _blocks(count: int, size: int) -> list[slice]:
    """Slices of growing size over `count` things."""
    found, begin = [], 0
    while begin < count:
        found.append(slice(begin, begin + size))
        begin, size = begin + size, 2 * size
    return found


def path_back(around: Surroundings, ball: Ball, number: int) -> list[int]:
    """From the column of leaf `number` of a ball back to the separator, both included."""
    v, depth = ball.columns[number], ball.distance[number]
    path = [v]
    while depth:
        depth -= 1
        near = around.near[v]
        v = min(u for u in _either(near, ball.level) if ball.level[u] == depth)
        path.append(v)
    return path


def _either(near: set[int], level: dict[int, int]) -> list[int]:
    """What is in both, going through the smaller one."""
    if len(near) < len(level):
        return [u for u in near if u in level]
    return [u for u in level if u in near]
