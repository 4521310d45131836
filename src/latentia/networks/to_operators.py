"""From tables P(variable | parents) to operators, and the states of latents in a fixed order.

With known tables the coordinates of a separator are its own joint states: a leaf's table is
P(x | s), an inner tensor P(s_1, s_2 | s), a root's P(s_1, s_2, …). Everything that works on
operators works then: messages, sampling, files; and nothing in them is negative.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias, final

import numpy as np

from latentia.errors import PlanError
from latentia.exact.tabular_model import TabularModel
from latentia.inference.operators import Operators
from latentia.inference.provenance import Ascent, Provenance, SeparatorReport
from latentia.structure.calibrating import calibrated
from latentia.structure.generic_rank import push
from latentia.structure.graph import LatentGraph
from latentia.structure.junction import JunctionTree
from latentia.structure.plan import Plan
from latentia.structure.skeleton import Branch, trace
from latentia.structure.triangulate import log_states
from latentia.typing import Array, Codes

Tables: TypeAlias = Mapping[int, Array]  # variable -> (parents …, variable)

LARGEST_TENSOR = 2**24
CLEAR_GAP = 0.01  # between expected codes, as a share of their range


# --- operators ------------------------------------------------------------------------------------


def check_operators(plan: Plan) -> None:
    """Refuse separators whose joint states make operators too large, before anything is learned."""
    graph = plan.graph
    sizes = [math.prod(graph.states[v] or 1 for v in node.separator) for node in plan.nodes]
    for k in sorted({*plan.inner, *plan.roots}):
        node = plan.nodes[k]
        parts = [*node.children, *([] if node.parent == k else [k])]
        cells = math.prod(sizes[c] for c in parts)
        if cells > LARGEST_TENSOR:
            shape = "×".join(str(sizes[c]) for c in parts)
            wide = max(parts, key=lambda c: sizes[c])
            names = ", ".join(str(graph.names[v]) for v in sorted(plan.nodes[wide].separator))
            raise PlanError(
                f"the joint states of separators make an operator of {shape} = {cells:.1e} cells "
                f"(at most {LARGEST_TENSOR:.1e}); the widest is {{{names}}}. Give these latents "
                "fewer states or drop edges, or use learner='pbp', which needs their rank only."
            )


def planned_ranks(plan: Plan) -> dict[int, SeparatorReport]:
    """Every separator has all states that it was planned to have."""
    return {k: SeparatorReport(n.rank, n.rank) for k, n in enumerate(plan.nodes) if n.parent != k}


def operators_of(
    plan: Plan,
    tables: Tables,
    weight: float,
    ascent: Ascent | None = None,
    gaussians: Tables | None = None,
) -> Operators:
    """The same distribution over the columns, in the coordinates of separator states.

    `gaussians` are the leaves of continuous columns, whose tables are masses on their grids.
    """
    check_operators(plan)
    graph, tree = plan.graph, plan.tree
    families = [((*above, v), tables[v]) for v, above in enumerate(graph.parents())]
    axes, beliefs = calibrated(tree, [count or 1 for count in graph.states], families)
    walk = _Walk(tree, axes, beliefs, _branches(plan))
    leaves = tuple(np.ascontiguousarray(walk.leaf(k).T) for k in plan.leaves)
    marginals = tuple(beliefs[walk.branches[k].clique].ravel().copy() for k in plan.leaves)
    tensors = {k: walk.tensor(k) for k in sorted({*plan.inner, *plan.roots})}
    return Operators(
        plan,
        leaves,
        tensors,
        marginals,
        weight,
        0.0,
        tables=dict(tables),
        gaussians=dict(gaussians or {}),
        provenance=Provenance(ascent=ascent),
    )


@lru_cache(maxsize=8)
def _branches(plan: Plan) -> tuple[Branch, ...]:
    return trace(plan.tree, log_states(plan.graph)).branches


@final
@dataclass(frozen=True, slots=True)
class _Walk:
    """Functions of separator states, carried up the calibrated tree."""

    tree: JunctionTree
    axes: Sequence[tuple[int, ...]]
    beliefs: Sequence[Array]
    branches: Sequence[Branch]

    def leaf(self, k: int) -> Array:
        """P(x | s): (states of the separator, states of the leaf)."""
        branch = self.branches[k]
        own = np.eye(self.beliefs[branch.clique].size)
        return self._climb(branch.clique, own, branch.edge)

    def tensor(self, k: int) -> Array:
        """P(s_1, s_2 | s): (r_1, r_2, r); at a root P(s_1, …)."""
        branch = self.branches[k]
        inputs: dict[int, Array] = {}
        sizes = []
        for c in branch.children:
            edge = self.branches[c].edge
            own = np.eye(self._states(edge))
            sizes.append(len(own))
            below = self._below(edge, branch.clique)
            inputs[below] = self._climb(edge, own, below)
        if branch.parent == k:
            return self._push(branch.clique, None, inputs).reshape(sizes)
        up = self._push(branch.clique, self.tree.parent[branch.clique], inputs)
        found = self._climb(branch.clique, up, branch.edge)  # (r, r_1 r_2)
        return np.ascontiguousarray(found.T).reshape(*sizes, len(found))

    def _climb(self, start: int, functions: Array, end: int) -> Array:
        """Functions of the separator above `start` as functions of the one above `end`."""
        while start != end:
            above = self.tree.parent[start]
            functions = self._push(above, self.tree.parent[above], {start: functions})
            start = above
        return functions

    def _below(self, start: int, clique: int) -> int:
        """The child of `clique` on the way from `start`."""
        while self.tree.parent[start] != clique:
            start = self.tree.parent[start]
        return start

    def _push(self, i: int, j: int | None, inputs: Mapping[int, Array]) -> Array:
        return push(self.tree, self.axes, self.beliefs, i, j, inputs)

    def _states(self, edge: int) -> int:
        shared = self.tree.shared[edge]
        shape = zip(self.axes[edge], self.beliefs[edge].shape, strict=True)
        return math.prod(count for v, count in shape if v in shared)


# --- order of states ------------------------------------------------------------------------------


def in_fixed_order(graph: LatentGraph, tables: Tables) -> dict[int, Array]:
    """The same tables with the states of latents renumbered, so that equal models look equal."""
    return renumbered(graph, tables, fixed_orders(graph, tables))


def fixed_orders(graph: LatentGraph, tables: Tables) -> dict[int, Codes]:
    """How the states of every latent are to be numbered.

    The states of a latent go by the expected code of a column below it: the first that tells all of
    them clearly apart, columns that hang on it alone before others, near before far.
    """
    parents = graph.parents()
    alone = {h: [x for x in graph.observed if parents[x] == (h,)] for h in sorted(graph.latent)}
    orders: dict[int, Codes] = {}
    hard: list[int] = []
    for h, columns in alone.items():
        codes = [tables[x] @ np.arange(tables[x].shape[1]) / _range(graph, x) for x in columns]
        clear = next((c for c in codes if _gap(c) >= CLEAR_GAP), None)
        if clear is None:
            hard.append(h)
        else:
            orders[h] = np.argsort(clear, kind="stable")
    return orders | _orders_by_inference(graph, tables, hard)


def _orders_by_inference(
    graph: LatentGraph, tables: Tables, latents: list[int]
) -> dict[int, Codes]:
    """By E[code of a column below | state], which takes inference; impossible states last."""
    if not latents:
        return {}
    model = TabularModel(graph, {name: tables[v] for v, name in enumerate(graph.names)})
    orders = {}
    for h in latents:
        states = graph.states[h] or 1
        evidence = np.full((states, len(graph.names)), -1)
        evidence[:, h] = np.arange(states)
        alive = np.flatnonzero(np.isfinite(model.log_evidence(evidence)))
        told = [graph.names[x] for x in _columns_below(graph, h)]
        found = model.posteriors(evidence[alive], told)
        codes = [
            found[x] @ np.arange(found[x].shape[1]) / _range(graph, graph.index(x)) for x in told
        ]
        gaps = [_gap(c) for c in codes]
        best = next((i for i, gap in enumerate(gaps) if gap >= CLEAR_GAP), int(np.argmax(gaps)))
        dead = np.setdiff1d(np.arange(states), alive)
        orders[h] = np.concatenate([alive[np.argsort(codes[best], kind="stable")], dead])
    return orders


def _columns_below(graph: LatentGraph, h: int) -> list[int]:
    """Columns among the descendants of a latent, near before far; all columns if there are none."""
    below: list[list[int]] = [[] for _ in graph.names]
    for a, b in graph.edges:
        below[a].append(b)
    seen, ring, found = {h}, [h], []
    while ring:
        ring = sorted({b for a in ring for b in below[a]} - seen)
        seen.update(ring)
        found += [v for v in ring if v not in graph.latent]
    return found or list(graph.observed)


def _range(graph: LatentGraph, x: int) -> int:
    return max((graph.states[x] or 1) - 1, 1)


def _gap(codes: Array) -> float:
    """The smallest distance between expected codes."""
    return float(np.diff(np.sort(codes)).min(initial=np.inf))


def renumbered(graph: LatentGraph, tables: Tables, orders: Mapping[int, Codes]) -> dict[int, Array]:
    """Tables (parents …, variable, …) of some variables with the states of latents in order."""
    found, parents = {}, graph.parents()
    for v, table in tables.items():
        above = parents[v]
        for axis, u in enumerate((*above, v)):
            if u in orders:
                table = table.take(orders[u], axis=axis)
        found[v] = np.ascontiguousarray(table)
    return found
