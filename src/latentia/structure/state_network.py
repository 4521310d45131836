"""A positive network of separator states: the plan's tree as a DAG with tables (design 4.3).

Each separator becomes a latent variable with r(S) states; separators repeated by splitting are one.
What lies below it gets tables P(· | s): one each where it is d-separated given S, else a joint one
(written as a chain, P(a | s) P(b | s, a)). Such a network is always a distribution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan
from latentia.structure.triangulate import Adjacency, moralise
from latentia.typing import Label


@final
@dataclass(frozen=True, slots=True)
class PositiveNetwork:
    """A DAG over separator states and columns; `node_of` tells whose coordinates start a latent."""

    graph: LatentGraph
    node_of: Mapping[Label, int]  # latent -> node of the plan


@final
@dataclass(slots=True)
class _Variable:
    """A variable in the making: a latent with the plan's nodes that it stands for, or a column."""

    name: Label
    key: frozenset[int]  # variables of the original graph
    nodes: list[int]  # of the plan; none for a column
    above: list[int]  # parents, by number


def own_network(plan: Plan, copies: bool = False) -> PositiveNetwork | None:
    """The graph itself, where each of its latents has a separator of its own that tells its states.

    It has fewer tables than the network of separators where these hold several latents. With
    `copies`, a latent without one (the end of a chain) may share that of a neighbour with as many
    states: which of the two is which cannot be told.
    """
    graph = plan.graph
    if not graph.directed:
        return None
    own: dict[int, int] = {}
    for k, node in enumerate(plan.nodes):
        for v in node.separator & graph.latent if len(node.separator) == 1 else ():
            even = v not in own or _imbalance(plan, k) < _imbalance(plan, own[v])
            if even and node.rank == graph.states[v]:
                own[v] = k
    near = moralise(graph)
    for v in sorted(graph.latent - own.keys()) if copies else ():
        beside = [u for u in sorted(near[v]) if u in own and graph.states[u] == graph.states[v]]
        if beside:
            own[v] = own[beside[0]]
    if own.keys() != graph.latent:
        return None
    return PositiveNetwork(graph, {graph.names[v]: k for v, k in own.items()})


def positive_network(plan: Plan) -> PositiveNetwork:
    """Walk the plan from its roots and give every separator a variable."""
    groups = [plan.nodes[k].columns for k in plan.leaves]
    near = moralise(plan.graph, groups)
    made: list[_Variable] = []
    owner: dict[int, int] = {}  # inner node of the plan -> variable
    for k, node in enumerate(plan.nodes):
        if node.is_leaf:
            continue
        children = list(node.children)
        if node.parent == k:
            top = max(children, key=lambda c: (_is_latent(plan, c), plan.nodes[c].rank, -c))
            own = _found(plan, top, made, [])
            if not plan.nodes[top].is_leaf:
                owner[top] = own
            elif made[own].nodes:
                _attach(plan, near, made, owner, own, [top])
            children.remove(top)
        else:
            own = owner[k]
        _attach(plan, near, made, owner, own, children)
    return _finish(plan, made)


def _attach(
    plan: Plan,
    near: Adjacency,
    made: list[_Variable],
    owner: dict[int, int],
    own: int,
    children: Sequence[int],
) -> None:
    """Hang children below a variable; those tied to each other given it share a table."""
    key = made[own].key
    fresh: list[int] = []
    for c in children:
        node = plan.nodes[c]
        same = next(
            (v for v in (own, *fresh) if made[v].nodes and made[v].key == node.separator), None
        )
        if same is not None and _is_latent(plan, c):
            made[same].nodes.append(c)
        elif _is_latent(plan, c):
            same = _found(plan, c, made, [own])
            fresh.append(same)
        else:
            same = own
        if not node.is_leaf:
            owner[c] = same
        elif same == own:
            fresh.extend(_columns(plan, c, made, own))
        else:
            _columns(plan, c, made, same)
    for i, a in enumerate(fresh):
        tied = [b for b in fresh[:i] if _connected(near, key, made[b].key - key, made[a].key - key)]
        made[a].above.extend(b for b in tied if b not in made[a].above)


def _found(plan: Plan, k: int, made: list[_Variable], above: list[int]) -> int:
    """A new variable for the separator above node k (a lone column's leaf: the column itself)."""
    node = plan.nodes[k]
    if not _is_latent(plan, k):
        return _columns(plan, k, made, *above)[0]
    made.append(_Variable(_name(plan, k), node.separator, [k], list(above)))
    return len(made) - 1


def _name(plan: Plan, k: int) -> Label:
    """That of the latent, where the separator is one with all its states; else one of its own."""
    node, graph = plan.nodes[k], plan.graph
    if len(node.separator) == 1:
        (v,) = node.separator
        if v in graph.latent and graph.states[v] in (None, node.rank):
            return graph.names[v]
    return f"S{k}({','.join(str(graph.names[v]) for v in sorted(node.separator))})"


def _columns(plan: Plan, leaf: int, made: list[_Variable], *above: int) -> list[int]:
    """The columns of a leaf, each told by those before it as well."""
    found: list[int] = []
    for v in plan.nodes[leaf].columns:
        made.append(_Variable(plan.graph.names[v], frozenset({v}), [], [*above, *found]))
        found.append(len(made) - 1)
    return found


def _is_latent(plan: Plan, k: int) -> bool:
    """Does the separator above node k hold more than the leaf's own columns?"""
    return not plan.nodes[k].separator <= set(plan.nodes[k].columns)


def _connected(near: Adjacency, cut: frozenset[int], a: frozenset[int], b: frozenset[int]) -> bool:
    """Is there a way from a to b in the moral graph that avoids the cut?"""
    seen, todo = set(a), list(a)
    while todo:
        v = todo.pop()
        if v in b:
            return True
        new = near[v] - cut - seen
        seen |= new
        todo.extend(new)
    return False


def _finish(plan: Plan, made: list[_Variable]) -> PositiveNetwork:
    """Columns first, in the plan's own order, so that rows and answers need no reordering."""
    column = {name: i for i, name in enumerate(plan.columns)}
    order = sorted(
        range(len(made)), key=lambda i: (bool(made[i].nodes), column.get(made[i].name, i))
    )
    number = {old: new for new, old in enumerate(order)}
    node_of: dict[Label, int] = {}
    states = []
    count = dict(zip(plan.graph.names, plan.graph.states, strict=True))
    for variable in (made[i] for i in order):
        if variable.nodes:
            best = max(variable.nodes, key=lambda k: (plan.nodes[k].rank, -_imbalance(plan, k), -k))
            node_of[variable.name] = best
            states.append(plan.nodes[best].rank)
        else:
            states.append(count[variable.name] or 1)
    graph = LatentGraph(
        names=tuple(made[i].name for i in order),
        edges=tuple(sorted((number[a], number[i]) for i, v in enumerate(made) for a in v.above)),
        latent=frozenset(number[i] for i, v in enumerate(made) if v.nodes),
        states=tuple(states),
    )
    return PositiveNetwork(graph, node_of)


def _imbalance(plan: Plan, k: int) -> int:
    """How unevenly node k cuts the leaves: both sides should have many."""
    inside = plan.nodes[k].last - plan.nodes[k].first
    return abs(len(plan.leaves) - 2 * inside)
