"""A plan that does not go by the order of names: made on a graph in another order, numbered back.

Ties of a plan (which columns pair first, where the root is, who stands for a side) go by the
numbers of variables. Numbered by what rows tell of the columns, they fall alike however a table has
its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from latentia.structure.graph import LatentGraph, relevant
from latentia.structure.junction import JunctionTree
from latentia.structure.plan import Plan
from latentia.typing import Label


def plan_in_order(
    graph: LatentGraph, order: Sequence[Label], make: Callable[[LatentGraph], Plan]
) -> Plan:
    """The plan of the graph with its columns in this order, for the graph as it is.

    >>> from latentia.structure.plan import make_plan
    >>> from latentia.structure.templates import latent_class
    >>> graph = latent_class(list("abcde"), 2).with_states(dict.fromkeys("abcde", 2))
    >>> plan = plan_in_order(graph, list("edcba"), make_plan)
    >>> plan.columns, [plan.graph.names[plan.nodes[k].columns[0]] for k in plan.leaves]
    (('a', 'b', 'c', 'd', 'e'), ['a', 'e', 'd', 'c', 'b'])
    """
    place = {name: i for i, name in enumerate(order)}
    ranked = iter(sorted(graph.observed, key=lambda v: place[graph.names[v]]))
    moved = [v if v in graph.latent else next(ranked) for v in range(len(graph.names))]
    return numbered_back(make(reordered(graph, moved)), relevant(graph))


def reordered(graph: LatentGraph, old: Sequence[int]) -> LatentGraph:
    """The same graph, its variables in another order: number v is what was `old[v]`."""
    new = {v: i for i, v in enumerate(old)}
    edges = [(new[a], new[b]) for a, b in graph.edges]
    if not graph.directed:
        edges = [(min(edge), max(edge)) for edge in edges]
    return LatentGraph(
        tuple(graph.names[v] for v in old),
        tuple(edges),
        frozenset(new[v] for v in graph.latent),
        tuple(graph.states[v] for v in old),
        graph.directed,
    )


def numbered_back(plan: Plan, graph: LatentGraph) -> Plan:
    """The plan of a graph that differs from this one by its numbers only."""
    place = {name: v for v, name in enumerate(graph.names)}
    to = [place[name] for name in plan.graph.names]

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
    return replace(plan, graph=graph, tree=tree, nodes=nodes)
