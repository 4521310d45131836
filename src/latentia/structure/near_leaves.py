"""The leaves nearest to a separator on either side of it, found without walking the whole graph.

A separator cuts the moral graph, so a search from it stays on the side that it looks at. Neighbours
of a hub are kept in the order of the tree as well: those on one side of an edge are then a slice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from latentia.structure.junction import JunctionTree
from latentia.structure.sides import MOST_TIED
from latentia.structure.triangulate import Adjacency
from latentia.typing import Codes

HUB = 128  # a variable with more neighbours is never walked around as a whole, if it can be helped


@final
@dataclass(frozen=True, slots=True)
class Hub:
    """The neighbours of a variable with many: by number, and by their place in the tree."""

    leaves: Codes  # those that are columns of leaves, by number
    leaf_places: Codes  # of these
    homes: Codes  # … and their leaves
    in_tree: Codes  # neighbours by place …
    sorted_places: Sequence[int]  # … and these
    begun: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)

    def beginning(self, enough: int) -> tuple[list[int], list[int]]:
        """The first columns, of so many leaves, and where these lie; none if there are fewer."""
        if enough not in self.begun:
            firsts = np.sort(np.unique(self.homes, return_index=True)[1])
            count = int(firsts[enough - 1]) + 1 if len(firsts) >= enough else 0
            places = np.sort(self.leaf_places[:count])
            self.begun[enough] = self.leaves[:count].tolist(), places.tolist()
        return self.begun[enough]


@final
@dataclass(frozen=True, slots=True)
class Ball:
    """What a search met: leaves by distance, each by a column of it, and the way back."""

    leaves: list[int]
    columns: list[int]  # the first column met of each leaf
    level: dict[int, int]  # distance of every variable that was passed
    distance: list[int]  # of `columns`
    ways: dict[int, list[int]] = field(default_factory=dict)  # to so many leaves, once asked for


@final
@dataclass(frozen=True, slots=True)
class Surroundings:
    """The moral graph, and where in a rooted junction tree its variables lie."""

    near: Adjacency
    hubs: dict[int, Hub]
    home: list[int]  # leaf of a column, -1 for a latent
    alone: bool  # every leaf holds one column, and so is met once
    place: list[int]  # of a variable: when its topmost clique is entered
    enter: list[int]  # of a clique; its subtree is entered before `leave`
    leave: list[int]
    leaf_places: list[int]  # when the clique of each leaf is entered …
    sorted_leaf_places: list[int]  # … and in order: components may come in another
    shared: dict[tuple[int, int], Ball] = field(default_factory=dict)  # by hub and width


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
    places, homes = np.array(place, dtype=np.int64), np.array(home, dtype=np.int64)
    hubs = {v: _hub(around, places, homes) for v, around in enumerate(near) if len(around) > HUB}
    leaf_places = [enter[i] for i in leaves]
    return Surroundings(
        near=near,
        hubs=hubs,
        home=home,
        alone=all(len(tree.holds[i]) == 1 for i in leaves),
        place=place,
        enter=enter,
        leave=leave,
        leaf_places=leaf_places,
        sorted_leaf_places=sorted(leaf_places),
    )


def _hub(around: set[int], places: Codes, homes: Codes) -> Hub:
    """Neighbours in both orders."""
    by_number = np.array(sorted(around), dtype=np.int64)
    order = np.argsort(places[by_number], kind="stable")
    leaves = by_number[homes[by_number] >= 0]
    in_tree = by_number[order]
    return Hub(leaves, places[leaves], homes[leaves], in_tree, places[in_tree].tolist())


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
    if (
        not inside
        and len(start) == 1
        and _begins_outside(around, min(start), low, high, most + width)
    ):
        ball = around.shared.setdefault((min(start), width), ball)  # the same for most edges
        if ball.leaves:
            return ball
    ring, depth = sorted(start), 0
    home, hubs, near = around.home, around.hubs, around.near
    while ring:
        met = [v for v in ring if home[v] >= 0]
        if not depth:  # columns of the separator itself lie on either side
            leaf_places = around.leaf_places
            met = [v for v in met if (low <= leaf_places[home[v]] < high) == inside]
        if met:
            _take(around, ball, met, depth, most)
        if len(ball.leaves) >= width:
            break
        ball.level.update(dict.fromkeys(ring, depth))
        fresh: set[int] = set()
        for v in ring:
            if v in hubs:
                enough = most + width + len(start)  # some may have been met before
                fresh.update(_side_of_hub(hubs[v], low, high, inside, enough))
            elif depth:  # nothing beyond the separator is next to what lies on this side of it
                fresh |= near[v]
            else:
                fresh.update([u for u in near[v] if (low <= around.place[u] < high) == inside])
        ring, depth = sorted(fresh.difference(ball.level)), depth + 1
    return ball


def _take(around: Surroundings, ball: Ball, met: list[int], depth: int, most: int) -> None:
    """The leaves of columns that were met, each once, until the ball has so many."""
    home, room = around.home, most - len(ball.leaves)
    if not around.alone:
        seen = dict.fromkeys(ball.leaves, -1)
        for v in met:
            seen.setdefault(home[v], v)
        met = [v for v in seen.values() if v >= 0]
    met = met[:room]
    ball.leaves.extend([home[v] for v in met])
    ball.columns.extend(met)
    ball.distance.extend([depth] * len(met))


def _side_of_hub(hub: Hub, low: int, high: int, inside: bool, enough: int) -> list[int]:
    """Neighbours of a hub on one side; only the first if these have `enough` leaves.

    Most separators have none of a hub's first neighbours inside: these are then the same for all.
    """
    first, last = bisect_left(hub.sorted_places, low), bisect_left(hub.sorted_places, high)
    count = last - first if inside else len(hub.sorted_places) - (last - first)
    if not inside and count > 2 * enough and _is_outside(hub, low, high, enough):
        return hub.beginning(enough)[0]
    found: list[int] = []
    met: set[int] = set()
    for block in _blocks(len(hub.leaves), 2 * enough) if count > 2 * enough else ():
        places = hub.leaf_places[block]
        here = (places >= low) & (places < high)
        if not inside:
            np.logical_not(here, out=here)
        found += hub.leaves[block][here].tolist()
        met.update(hub.homes[block][here].tolist())
        if len(met) >= enough:
            return found
    if inside:
        return list(hub.in_tree[first:last].tolist())
    return [*hub.in_tree[:first].tolist(), *hub.in_tree[last:].tolist()]


def _is_outside(hub: Hub, low: int, high: int, enough: int) -> bool:
    """Are there `enough` leaves around a hub of which the first do not lie inside an edge?"""
    leaves, begins = hub.beginning(enough)
    return bool(leaves) and bisect_left(begins, low) == bisect_left(begins, high)


def _begins_outside(around: Surroundings, v: int, low: int, high: int, most: int) -> bool:
    """Is v a latent hub whose first neighbours are all that is met outside an edge?"""
    hub, enough = around.hubs.get(v), most + 1
    if hub is None or around.home[v] >= 0:
        return False
    places = hub.sorted_places
    count = len(places) - bisect_left(places, high) + bisect_left(places, low)
    return count > 2 * enough and _is_outside(hub, low, high, enough)


def _blocks(count: int, size: int) -> list[slice]:
    """Slices of growing size over `count` things."""
    found, begin = [], 0
    while begin < count:
        found.append(slice(begin, begin + size))
        begin, size = begin + size, 2 * size
    return found


def ways_to(
    around: Surroundings, ball: Ball, count: int, columns: Sequence[tuple[int, ...]]
) -> list[int]:
    """What lies on the ways from the separator to the first leaves of a ball, and their columns."""
    if count not in ball.ways:
        found: dict[int, None] = {}
        for k in range(count):
            found.update(dict.fromkeys(reversed(path_back(around, ball, k))))
            found.update(dict.fromkeys(columns[ball.leaves[k]]))
        ball.ways[count] = list(found)
    return ball.ways[count]


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
