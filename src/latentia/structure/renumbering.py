"""Graphs and plans under other numbers: where chance and ties go by numbers, these decide.

Ties of a plan (which columns pair first, where the root is, who stands for a side) go by the
numbers of variables, and so do random tables. A graph whose variables are numbered by what rows
tell of them is learned alike however a user wrote its edges; what was learned is numbered back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from latentia.structure.graph import LatentGraph
from latentia.structure.junction import JunctionTree
from latentia.structure.plan import Plan
from latentia.typing import Label


def reordered(graph: LatentGraph, old: Sequence[int], kept: Collection[int] = ()) -> LatentGraph:
    """The same graph, its variables in another order: number v is what was `old[v]`.

    Parents come in this order, too; those of the variables that are `kept` as they were given.
    """
    new = {v: i for i, v in enumerate(old)}
    if graph.directed:
        parents = graph.parents()
        above = {
            v: parents[v] if v in kept else sorted(parents[v], key=new.__getitem__) for v in old
        }
        edges = [(new[a], new[v]) for v in old for a in above[v]]
    else:
        edges = [(min(new[a], new[b]), max(new[a], new[b])) for a, b in graph.edges]
    return LatentGraph(
        tuple(graph.names[v] for v in old),
        tuple(edges),
        frozenset(new[v] for v in graph.latent),
        tuple(graph.states[v] for v in old),
        graph.directed,
    )


def numbered_as(graph: LatentGraph, like: LatentGraph) -> LatentGraph:
    """The same graph, its variables and their parents in the order that they have in another.

    What the other does not have, such as states of separators, keeps its place.

    >>> one, two = (
    ...     LatentGraph(names, ((0, 2), (1, 2)), frozenset(), (2, 2, 2)) for names in ("abc", "bac")
    ... )
    >>> numbered_as(two, one) == one
    True
    """
    place = {name: v for v, name in enumerate(like.names)}
    if _same_but_for_numbers(graph, like, place):
        return like.with_states(
            {name: k for name, k in zip(graph.names, graph.states, strict=True) if k is not None}
        )
    shared = (v for v, name in enumerate(graph.names) if name in place)
    ranked = iter(sorted(shared, key=lambda v: place[graph.names[v]]))
    old = [next(ranked) if name in place else v for v, name in enumerate(graph.names)]
    found = reordered(graph, old)
    if not (like.directed and graph.directed):
        return found
    edges: list[tuple[int, int]] = []
    theirs = like.parents()
    for v, above in enumerate(found.parents()):
        by_name = {found.names[u]: u for u in above}
        given = theirs[place[found.names[v]]] if found.names[v] in place else ()
        names = [like.names[u] for u in given]
        same = {*names} == {*by_name}
        edges += [(u, v) for u in ([by_name[name] for name in names] if same else above)]
    return replace(found, edges=tuple(edges))


def _same_but_for_numbers(
    graph: LatentGraph, like: LatentGraph, place: Mapping[Label, int]
) -> bool:
    """Are these the same variables, latents and edges, under other numbers?"""
    if graph.directed != like.directed or {*graph.names} != {*like.names}:
        return False
    to = [place[name] for name in graph.names]
    if {to[v] for v in graph.latent} != like.latent:
        return False
    edges = {(to[a], to[b]) for a, b in graph.edges}
    return {*like.edges} == (edges if like.directed else {(min(e), max(e)) for e in edges})


def new_numbers(graph: LatentGraph, found: LatentGraph) -> list[int]:
    """The number in another graph of each variable of this one."""
    place = {name: v for v, name in enumerate(found.names)}
    return [place[name] for name in graph.names]


def plan_numbered_as(plan: Plan, like: LatentGraph) -> Plan:
    """The same plan, its variables numbered as in a graph."""
    graph = numbered_as(plan.graph, like)
    to = new_numbers(plan.graph, graph)

    def all_of(variables: frozenset[int]) -> frozenset[int]:
        return frozenset(to[v] for v in variables)

    def columns(held: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(to[v] for v in held))

    tree = JunctionTree(
        tuple(map(all_of, plan.tree.cliques)),
        plan.tree.parent,
        tuple(map(columns, plan.tree.holds)),
    )
    nodes = tuple(
        replace(node, separator=all_of(node.separator), columns=columns(node.columns))
        for node in plan.nodes
    )
    answering = None if plan.tables_of is None else numbered_as(plan.tables_of, like)
    return replace(plan, graph=graph, tree=tree, nodes=nodes, tables_of=answering)
