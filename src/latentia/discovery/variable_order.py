"""Variables of a graph in an order that rows tell, however its edges were written.

Columns have colours by what they hold; a variable's colour tells those of its neighbours, too
(Weisfeiler and Leman). Variables are numbered from the smallest colour on, neighbours by
neighbours: of two branches that are alike, all of one comes as all of the other does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from latentia.data.row_colours import Colours, mixed_colours
from latentia.structure.graph import LatentGraph

LATENT, UP = np.uint64(0xD1B54A32D192ED03), np.uint64(0x8CB92BA72F3D8DD7)


def variable_colours(graph: LatentGraph, columns: Colours) -> Colours:
    """Of all variables, by number; `columns` are those of the columns by themselves."""
    states = np.array([0 if count is None else count for count in graph.states], dtype=np.uint64)
    found = np.asarray(mixed_colours(states ^ LATENT))
    found[list(graph.observed)] = mixed_colours(columns)
    ends = np.array(graph.edges, dtype=np.intp).reshape(-1, 2)
    told = len(np.unique(found))
    for _ in graph.names:
        near = np.zeros_like(found)
        np.add.at(near, ends[:, 0], mixed_colours(found[ends[:, 1]]))
        up = mixed_colours(found[ends[:, 0]] ^ (UP if graph.directed else np.uint64(0)))
        np.add.at(near, ends[:, 1], up)
        found = np.asarray(mixed_colours(found + mixed_colours(near)))
        before, told = told, len(np.unique(found))
        if told == before:
            break
    return found


def variable_order(graph: LatentGraph, colours: Colours) -> list[int]:
    """Variables by number, in the order in which they are met.

    >>> graph = LatentGraph(("a", "H", "b"), ((1, 0), (1, 2)), frozenset({1}), (2, 2, 2))
    >>> variable_order(graph, np.array([5, 7, 3], dtype=np.uint64))
    [2, 1, 0]
    """
    near = _neighbours(graph)
    by_colour = sorted(range(len(graph.names)), key=lambda v: int(colours[v]))
    place = {v: i for i, v in enumerate(by_colour)}
    found: dict[int, None] = {}
    for start in by_colour:
        if start in found:
            continue
        found[start] = None
        ring = [start]
        while ring:
            more = []
            for v in ring:
                new = sorted((u for u in near[v] if u not in found), key=place.__getitem__)
                found |= dict.fromkeys(new)
                more += new
            ring = more
    return list(found)


def _neighbours(graph: LatentGraph) -> Sequence[set[int]]:
    near: list[set[int]] = [set() for _ in graph.names]
    for a, b in graph.edges:
        near[a].add(b)
        near[b].add(a)
    return near
