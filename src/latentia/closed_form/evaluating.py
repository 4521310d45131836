"""Evaluating a basis: the coordinates θ and η of blocks of rows, through all rounds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.closed_form.basis import Basis, Coordinates, Round
from latentia.closed_form.pairs import PairLayout, leaf_codes, one_hot
from latentia.data.rows import Rows
from latentia.structure.plan import Plan
from latentia.typing import Array

GROUPED = 32  # coordinates of one product


@final
@dataclass(frozen=True, slots=True)
class FeatureValues:
    """Coordinates of a block of rows by node, (r, n) with ones first; indicators of leaves."""

    theta: dict[int, Array]
    eta: dict[int, Array]  # of nodes with children
    marks: dict[int, Array]  # leaf: (states, n), divided by its presence


def evaluator(
    layout: PairLayout, basis: Basis, leaves_too: bool = False
) -> Callable[[Rows], FeatureValues]:
    """A function that finds θ and η of a block of rows, through all rounds.

    Operators need η only above cliques with children; `leaves_too` asks for all of them. What it
    finds is overwritten by its next call: new memory for every block costs as much as the sums.
    """
    plan = layout.plan
    panels = range(len(layout.spans))
    wanted = [_wanted(layout, basis, p, leaves_too) for p in panels]
    stacked = [_stack(layout, p, [side for _, _, side in wanted[p]]) for p in panels]
    grouped = [_group(tables) for tables in stacked]
    starts = [np.cumsum([0, *(1 + side.size for _, _, side in wanted[p])]) for p in panels]
    looked_up = {
        k: _lookup(side)
        for k, side in enumerate(basis.inside)
        if side is not None and plan.nodes[k].is_leaf
    }
    kept: dict[tuple[int, int], tuple[Array, Array]] = {}
    own = [
        [
            (k, layout.span(p, (plan.nodes[k].first,)))
            for k in plan.leaves
            if layout.panel_of[k] == p
        ]
        for p in panels
    ]

    def evaluate(rows: Rows) -> FeatureValues:
        leaves = leaf_codes(plan, rows)
        values = FeatureValues({}, {}, {})
        for k, table in looked_up.items():
            values.theta[k] = table.take(leaves[plan.nodes[k].first], axis=1)
        for p in panels:
            if (p, len(rows)) not in kept:
                width, height = layout.width(p), len(stacked[p])
                kept[p, len(rows)] = np.empty((width, len(rows))), np.empty((height, len(rows)))
            marks, found = kept[p, len(rows)]
            one_hot(layout, p, leaves, out=marks)  # (states, n)
            for some, span, tables in grouped[p]:
                np.matmul(tables, marks[span], out=found[some])  # (coordinates, n)
            found[starts[p][:-1]] = 1.0
            for (node, store, _), (start, stop) in zip(
                wanted[p], itertools.pairwise(starts[p].tolist()), strict=True
            ):
                target = values.theta if store == "theta" else values.eta
                target[node] = found[start:stop]
            for k, span in own[p]:
                share = basis.shares[k]
                values.marks[k] = marks[span] if share == 1 else marks[span] / share
        for done in basis.rounds:
            values = _advance(plan, done, values)
        return values

    return evaluate


def neighbour_products(
    plan: Plan, k: int, values: FeatureValues
) -> tuple[list[Array], list[Array]]:
    """What the next round builds θ and η of node k from: blocks {first, second, product}.

    Inside: the children's θ (a leaf: its indicators). Outside: the siblings' θ, the parent's η.
    """
    node = plan.nodes[k]
    above = plan.nodes[node.parent]
    beside = [values.theta[c][1:] for c in above.children if c != k]
    beside += [] if above.parent == node.parent else [values.eta[node.parent][1:]]
    inner = [values.theta[c][1:] for c in node.children] or [values.marks[k]]
    return _product_blocks(inner), _product_blocks(beside)


def _product_blocks(factors: list[Array]) -> list[Array]:
    """Coordinates and their pairwise products: blocks of (features, n)."""
    products = [
        (a[:, None, :] * b[None, :, :]).reshape(-1, a.shape[1])
        for a, b in itertools.combinations(factors, 2)
    ]
    return factors + products


def _advance(plan: Plan, done: Mapping[int, Round], values: FeatureValues) -> FeatureValues:
    """One round for all nodes at once, each from the previous round's coordinates."""
    theta, eta = dict(values.theta), dict(values.eta)
    for k, step in done.items():
        inner, outer = neighbour_products(plan, k, values)
        ones = np.ones((1, inner[0].shape[1]))
        theta[k] = _with_ones(step.inside.T @ np.concatenate([ones, *inner]))
        if k in eta:  # a column that is a part by itself has nothing outside
            eta[k] = _with_ones(step.outside.T @ np.concatenate([ones, *outer]))
    return FeatureValues(theta, eta, values.marks)


def leaf_coordinates(plan: Plan, basis: Basis, leaf: int) -> Array:
    """θ without its one at every state of a leaf that is present: (states, r - 1)."""
    steps = [done[leaf] for done in basis.rounds if leaf in done]
    if steps:
        return np.asarray(steps[-1].inside[0] + steps[-1].inside[1:], dtype=float)
    side = basis.inside[leaf]
    assert side is not None
    return side.tables[0] * basis.shares[leaf]


def _with_ones(values: Array) -> Array:
    return np.concatenate([np.ones((1, values.shape[1])), values])


def _lookup(side: Coordinates) -> Array:
    """θ of a leaf by its code, that of a missing one (-1) last: (r, states + 1)."""
    (table,) = side.tables
    return _with_ones(np.concatenate([table, np.zeros((1, table.shape[1]))]).T)


def _group(stacked: Array) -> list[tuple[slice, slice, Array]]:
    """Rows that lie together and are zero outside a span of states: (rows, span, their part).

    The near columns of a node are few of a wide panel; most of one large product would be zeros.
    """
    found: list[tuple[slice, slice, Array]] = []
    for start in range(0, len(stacked), GROUPED):
        rows = slice(start, min(start + GROUPED, len(stacked)))
        used = np.flatnonzero(np.any(stacked[rows], axis=0))
        span = slice(int(used[0]), int(used[-1]) + 1) if len(used) else slice(0, 1)
        found.append((rows, span, np.ascontiguousarray(stacked[rows, span])))
    return found


def _wanted(
    layout: PairLayout, basis: Basis, panel: int, leaves_too: bool
) -> list[tuple[int, str, Coordinates]]:
    found = []
    for k, node in enumerate(layout.plan.nodes):
        inside, outside = basis.inside[k], basis.outside[k]
        if layout.panel_of[k] == panel and inside is not None and outside is not None:
            if not node.is_leaf:
                found.append((k, "theta", inside))
            if node.children or leaves_too:
                found.append((k, "eta", outside))
    # those that need the same states lie together
    return sorted(found, key=lambda x: (_reach(layout, panel, x[2]), x[0], x[1]))


def _reach(layout: PairLayout, panel: int, side: Coordinates) -> tuple[int, int]:
    spans = [layout.span(panel, block) for block in side.blocks]
    return min((s.start for s in spans), default=0), max((s.stop for s in spans), default=0)


def _stack(layout: PairLayout, panel: int, sides: Sequence[Coordinates]) -> Array:
    """All coordinate tables of a panel in one matrix: (coordinates, states of its blocks).

    Each side has an empty row first, for its ones.
    """
    stacked = np.zeros((sum(1 + side.size for side in sides), layout.width(panel)))
    start = 0
    for side in sides:
        start += 1
        stop = start + side.size
        for block, table in zip(side.blocks, side.tables, strict=True):
            stacked[start:stop, layout.span(panel, block)] = table.T
        start = stop
    return stacked
