"""Arrows for an undirected graph: those that say the same of independence, or as little more."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from latentia.structure.graph import LatentGraph
from latentia.structure.triangulate import eliminate, log_states, moralise


def directed_alike(graph: LatentGraph) -> LatentGraph | None:
    """The graph with arrows, from latents on; None if some cycle of four or more has no chord.

    Variables come in an order of most neighbours that came before (maximum cardinality search). If
    these are tied to each other for every variable, arrows from them say what the edges said.
    """
    if graph.directed:
        return graph
    near: dict[int, set[int]] = {v: set() for v in range(len(graph.names))}
    for a, b in graph.edges:
        near[a].add(b)
        near[b].add(a)
    before: dict[int, set[int]] = {}
    while len(before) < len(near):
        left = [v for v in near if v not in before]
        best = max(left, key=lambda v: (len(near[v] & {*before}), v in graph.latent, -v))
        before[best] = near[best] & {*before}
    if any(a not in near[b] for own in before.values() for a in own for b in own if a != b):
        return None
    edges = tuple(sorted((a, v) for v, own in before.items() for a in own))
    return replace(graph, edges=edges, directed=True)


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
