"""Evaluating a basis: the coordinates θ and η of blocks of rows, through all rounds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.closed_form.basis import Basis, Coordinates, Round, state_places
from latentia.closed_form.pairs import PairLayout, leaf_codes, one_hot
from latentia.data.rows import Rows
from latentia.structure.plan import Plan
from latentia.typing import Array

GROUPED = 32  # coordinates of one product
Factor = tuple[int, str]  # node, and its "theta", "eta" or "marks"


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
    looked_up = leaf_tables(plan, basis)
    room = BlockMemory()
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
        for k, table in looked_up[0].items():
            values.theta[k] = table.take(leaves[plan.nodes[k].first], axis=1)
        for p in panels:
            marks = room.take(("marks", p), layout.width(p), len(rows))
            found = room.take(("found", p), len(stacked[p]), len(rows))
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
        for number, done in enumerate(basis.rounds):
            values = _advance(plan, number, done, values, room)
            for k in looked_up[0].keys() & done.keys():
                table = looked_up[number + 1][k]
                values.theta[k] = table.take(leaves[plan.nodes[k].first], axis=1)
        return values

    return evaluate


def _advance(
    plan: Plan, number: int, done: Mapping[int, Round], values: FeatureValues, room: BlockMemory
) -> FeatureValues:
    """One round for all nodes at once, each from the previous round's coordinates.

    Leaves keep theirs: they are looked up.
    """
    theta, eta = dict(values.theta), dict(values.eta)
    for k, step in done.items():
        inner, outer = neighbour_factors(plan, k)
        for new, matrix, factors in ((theta, step.inside, inner), (eta, step.outside, outer)):
            if k not in new or (new is theta and plan.nodes[k].is_leaf):
                continue  # a column that is a part by itself has nothing outside
            some = [factor_value(values, f) for f in factors]
            n = new[k].shape[1]
            found = room.take((number, k, new is theta), 1 + matrix.shape[1], n)
            found[0] = 1.0
            np.matmul(matrix.T, products_with_one(room, n, some), out=found[1:])
            new[k] = found
    return FeatureValues(theta, eta, values.marks)


@final
class BlockMemory:
    """Memory by name that the next block of rows takes over: new pages cost as much as the sums."""

    def __init__(self) -> None:
        self._held: dict[object, Array] = {}

    def take(self, name: object, rows: int, n: int) -> Array:
        """(rows, n) of whatever was there; who asks again for a name overwrites what it holds."""
        held = self._held.get(name)
        if held is None or held.size < rows * n:
            held = self._held[name] = np.empty(rows * n)
        return held[: rows * n].reshape(rows, n)


def products_with_one(room: BlockMemory, n: int, *sides: Sequence[Array]) -> Array:
    """Ones, then of each side its factors and their pairwise products: (1 + features, n)."""
    pairs = [list(itertools.combinations(factors, 2)) for factors in sides]
    size = sum(len(f) for factors in sides for f in factors)
    size += sum(len(a) * len(b) for own in pairs for a, b in own)
    out = room.take("products", 1 + size, n)
    out[0] = 1.0
    start = 1
    for factors, own in zip(sides, pairs, strict=True):
        for f in factors:
            out[start : start + len(f)] = f
            start += len(f)
        for a, b in own:
            stop = start + len(a) * len(b)
            np.multiply(a[:, None], b[None], out=out[start:stop].reshape(len(a), len(b), n))
            start = stop
    return out


def neighbour_factors(plan: Plan, k: int) -> tuple[tuple[Factor, ...], tuple[Factor, ...]]:
    """What θ and η of node k are built from: its children; its siblings, and its parent's outside.

    A leaf has its indicators instead of children.
    """
    node = plan.nodes[k]
    above = plan.nodes[node.parent]
    beside = [(c, "theta") for c in above.children if c != k]
    beside += [] if above.parent == node.parent else [(node.parent, "eta")]
    return tuple((c, "theta") for c in node.children) or ((k, "marks"),), tuple(beside)


def factor_value(values: FeatureValues, factor: Factor) -> Array:
    """Of a block of rows, without ones: (size, n)."""
    node, kind = factor
    if kind == "marks":
        return values.marks[node]
    return (values.theta if kind == "theta" else values.eta)[node][1:]


def leaf_tables(plan: Plan, basis: Basis) -> list[dict[int, Array]]:
    """θ of leaves by their code, a missing one (-1) last, after every round: (r, states + 1)."""
    first = {
        k: _lookup(side)
        for k, side in enumerate(basis.inside)
        if side is not None and plan.nodes[k].is_leaf
    }
    found = [first]
    for done in basis.rounds:
        new = {}
        for k in first.keys() & done.keys():
            inside = done[k].inside
            new[k] = _with_ones(inside[:1].T + inside[1:].T @ leaf_marks(plan, basis, k))
        found.append(found[-1] | new)
    return found


def leaf_marks(plan: Plan, basis: Basis, k: int) -> Array:
    """Indicators of a leaf by its code, divided by its presence, of a missing one last."""
    states = plan.block_states((plan.nodes[k].first,))
    return np.eye(states, states + 1) / basis.shares[k]


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
    own = layout.spans[panel]
    spans = [own[block] for block in side.blocks]
    return min([s.start for s in spans], default=0), max([s.stop for s in spans], default=0)


def _stack(layout: PairLayout, panel: int, sides: Sequence[Coordinates]) -> Array:
    """All coordinate tables of a panel in one matrix: (coordinates, states of its blocks).

    Each side has an empty row first, for its ones.
    """
    stacked = np.zeros((sum(1 + side.size for side in sides), layout.width(panel)))
    own = layout.spans[panel]
    start = 0
    for side in sides:
        start += 1
        stop = start + side.size
        begins = np.array([own[block].start for block in side.blocks], dtype=np.intp)
        stacked[start:stop, state_places(side, begins)] = side.stacked.T
        start = stop
    return stacked
