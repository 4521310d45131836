"""Arrows for an undirected graph: those that say the same of independence, or as little more."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from heapq import heapify, heappop, heappush
from itertools import combinations

from latentia.structure.graph import LatentGraph
from latentia.structure.triangulate import eliminate, log_states, moralise


def directed_alike(graph: LatentGraph) -> LatentGraph | None:
    """The graph with arrows, from latents on; None if some cycle of four or more has no chord.

    Variables whose neighbours are tied to each other are taken away, one after the other: arrows
    from these to it say what the edges said. Columns go first, then latents that already have an
    arrow to one: a latent below which no column lies could not be told.
    """
    if graph.directed:
        return graph
    near = dict(enumerate(moralise(graph)))  # of its edges: nothing is married without arrows
    told: set[int] = set()  # above a column that was taken away
    edges: list[tuple[int, int]] = []

    def turn(v: int) -> tuple[int, int, int]:
        return (0 if v not in graph.latent else 1 if v in told else 2, -v, v)

    waiting = [turn(v) for v in near if _are_tied(near, near[v])]
    heapify(waiting)
    while waiting:
        rank, _, v = heappop(waiting)
        if v not in near or rank > turn(v)[0]:  # gone, or it waits at a better place
            continue
        above = near.pop(v)
        edges += [(u, v) for u in above]
        for u in above:
            near[u].discard(v)
            if v not in graph.latent or v in told:
                told.add(u)
        for u in above:
            if _are_tied(near, near[u]):
                heappush(waiting, turn(u))
    if near:  # what is left has a cycle without a chord
        return None
    return replace(graph, edges=tuple(sorted(edges)), directed=True)


def _are_tied(near: Mapping[int, AbstractSet[int]], some: AbstractSet[int]) -> bool:
    """Is each of them a neighbour of all others?"""
    return all(len(near[a] & some) == len(some) - 1 for a in some)


def with_chords(graph: LatentGraph) -> tuple[LatentGraph, tuple[tuple[int, int], ...]]:
    """The undirected graph with chords in every cycle, few of them, and these.

    It allows all that the graph allows, and a little more.
    """
    cliques = eliminate(moralise(graph), log_states(graph))
    ties = {(min(a, b), max(a, b)) for _, own in cliques for a, b in combinations(own, 2)}
    chords = tuple(sorted(ties - {(min(a, b), max(a, b)) for a, b in graph.edges}))
    return replace(graph, edges=(*graph.edges, *chords)), chords


def with_arrows(graph: LatentGraph) -> tuple[LatentGraph, tuple[tuple[int, int], ...]]:
    """Arrows for the edges, and the chords that cycles needed for it."""
    alike = directed_alike(graph)
    if alike is not None:
        return alike, ()
    chordal, chords = with_chords(graph)
    found = directed_alike(chordal)
    assert found is not None  # every cycle has a chord now
    return found, chords
