"""Graph, junction tree and plan as JSON values, and back.

What is read is checked here beyond what these values check themselves, so that no question asked of
a model from a hostile file can run astray.
"""

from __future__ import annotations

from latentia.errors import StoreError
from latentia.store.plain import LARGEST_COUNT, fields, items, pack, text, unpack, whole, wholes
from latentia.structure.graph import LatentGraph
from latentia.structure.junction import JunctionTree
from latentia.structure.plan import Node, Plan
from latentia.structure.sides import Side
from latentia.typing import Given

MOST_BELOW = 2**26  # Σ over nodes of the leaves below: diagnostics and ranks_ list them


def write_graph(graph: LatentGraph) -> dict[str, Given]:
    return {
        "names": [pack(name, "the name of a variable") for name in graph.names],
        "edges": [list(edge) for edge in graph.edges],
        "latent": sorted(graph.latent),
        "states": list(graph.states),
        "directed": graph.directed,
    }


def ordered_parents(record: object) -> bool:
    """Has a graph in this record parents in an order of its own? (Files of version 5.)"""
    if isinstance(record, list):
        return any(map(ordered_parents, record))
    if not isinstance(record, dict):
        return False
    if record.keys() >= {"names", "edges", "latent", "states", "directed"}:  # by write_graph
        return bool(record["edges"] != sorted(record["edges"]))
    return any(map(ordered_parents, record.values()))


def read_graph(record: object) -> LatentGraph:
    names, edges, latent, states, directed = fields(
        record, "names", "edges", "latent", "states", "directed"
    )
    count = len(items(names))
    if not isinstance(directed, bool):
        raise StoreError(f"expected true or false for directed, got {directed!r:.80}.")
    ties = [wholes(edge, count, length=2) for edge in items(edges)]
    return LatentGraph(
        names=tuple(unpack(name) for name in names),
        edges=tuple((a, b) for a, b in ties),
        latent=frozenset(wholes(latent, count)),
        states=tuple(None if s is None else whole(s, LARGEST_COUNT) for s in items(states)),
        directed=directed,
    )


def write_plan(plan: Plan) -> dict[str, Given]:
    tree = plan.tree
    return {
        "graph": write_graph(plan.graph),
        "cliques": [sorted(clique) for clique in tree.cliques],
        "parents": list(tree.parent),
        "holds": [list(held) for held in tree.holds],
        "nodes": [
            {
                "parent": node.parent,
                "children": list(node.children),
                "separator": sorted(node.separator),
                "columns": list(node.columns),
                "leaves": [node.first, node.last],
                "rank": int(node.rank),
                "inside": _write_side(node.inside),
                "outside": _write_side(node.outside),
            }
            for node in plan.nodes
        ],
        "leaves": list(plan.leaves),
        "notes": list(plan.notes),
    }


def _write_side(side: Side) -> list[Given]:
    wide = [block[0] if len(block) == 1 else list(block) for block in side.wide]
    return [list(side.core), int(side.core_rank), wide, int(side.wide_rank)]


def read_plan(record: object) -> Plan:
    graph_, cliques, parents, holds, nodes, leaves, notes = fields(
        record, "graph", "cliques", "parents", "holds", "nodes", "leaves", "notes"
    )
    graph = read_graph(graph_)
    variables, size = len(graph.names), len(items(cliques))
    tree = JunctionTree(
        cliques=tuple(frozenset(wholes(clique, variables)) for clique in cliques),
        parent=wholes(parents, size),
        holds=tuple(wholes(held, variables) for held in items(holds)),
    )
    count, ends = len(items(nodes)), len(items(leaves))
    plan = Plan(
        graph=graph,
        tree=tree,
        nodes=tuple(_read_node(node, variables, count, ends) for node in nodes),
        leaves=wholes(leaves, count),
        notes=tuple(text(note) for note in items(notes)),
    )
    _check_walk(plan)
    return plan


def _read_node(record: object, variables: int, nodes: int, leaves: int) -> Node:
    parent, children, separator, columns, span, rank, inside, outside = fields(
        record,
        *("parent", "children", "separator", "columns"),
        *("leaves", "rank", "inside", "outside"),
    )
    first, last = wholes(span, leaves + 1, length=2)
    return Node(
        parent=whole(parent, nodes),
        children=wholes(children, nodes),
        separator=frozenset(wholes(separator, variables)),
        columns=wholes(columns, variables),
        first=first,
        last=last,
        rank=whole(rank, LARGEST_COUNT, lowest=1),
        inside=_read_side(inside, leaves),
        outside=_read_side(outside, leaves),
    )


def _read_side(record: object, leaves: int) -> Side:
    core, core_rank, wide, wide_rank = items(record, 4)
    return Side(
        core=wholes(core, leaves),
        core_rank=whole(core_rank, LARGEST_COUNT),
        wide=tuple(
            wholes([block] if isinstance(block, int) else block, leaves) for block in items(wide)
        ),
        wide_rank=whole(wide_rank, LARGEST_COUNT),
    )


def _check_walk(plan: Plan) -> None:
    """Parents and children agree, leaves go from left to right, roots have something below."""
    nodes = plan.nodes
    below: list[list[int]] = [[] for _ in nodes]
    for k, node in enumerate(nodes):
        if node.parent != k:
            below[node.parent].append(k)
    reached = 0  # leaves in the trees so far
    for k, node in enumerate(nodes):
        spans = [(nodes[c].first, nodes[c].last) for c in node.children]
        spans = spans or [(node.first, node.first + 1)]
        starts, stops = zip(*spans, strict=True)
        if (*starts, node.last) != (node.first, *stops):
            raise StoreError(f"expected leaves from left to right below node {k} of the plan.")
        if list(node.children) != below[k]:
            raise StoreError(f"expected children {below[k]} of node {k}, got {node.children}.")
        if node.parent == k:
            if node.first != reached or node.is_leaf or node.separator:
                raise StoreError(f"expected columns below root {k} of the plan, and nothing above.")
            reached = node.last
    found = [(k, n.first) for k, n in enumerate(nodes) if n.is_leaf]
    if found != [(k, x) for x, k in enumerate(plan.leaves)]:
        raise StoreError("expected the leaves of the plan numbered from left to right.")
    if reached != len(found) or None in plan.graph.states:
        raise StoreError("expected every leaf below a root, and every number of states.")
    if sum(node.last - node.first for node in nodes) > MOST_BELOW:
        raise StoreError(f"the plan is too deep: more than {MOST_BELOW} leaves below its nodes.")
