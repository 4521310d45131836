"""Subtrees as tables: the upward message of a few leaves, by the joint code of what they observe.

Many rows of evidence meet the same few states at three or four neighbouring leaves. The message
m_S of each such combination is found once; for a row it is then one look-up instead of several
matrix products.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.inference.evidence import Evidence
from latentia.inference.evidence_level import log_alone
from latentia.inference.messages import RESCALE, Message, leaf_message, pass_up
from latentia.inference.operators import Operators
from latentia.structure.plan import Plan
from latentia.typing import Array, Codes

MOST_CELLS = 2**12  # of a table: one of its rows fits into the innermost cache
ROWS_PER_CELL = 16  # for which it pays to fill a table


@final
@dataclass(frozen=True, slots=True)
class Subtree:
    """m_S for every evidence on the leaves below node `node`.

    State x of a leaf counts as x + 1, and as x where no row lacks the leaf.
    """

    node: int
    leaves: range
    strides: tuple[int, ...]
    shifts: tuple[int, ...]  # 1: the leaf may be missing, which counts as 0
    table: Array  # (r, cells)
    alone: Array  # (cells,): Σ log P̂(e_i) of the leaves


def subtree_tables(
    operators: Operators,
    rows: int,
    targets: Collection[int],
    codes: Sequence[Codes | None] | None = None,
) -> list[Subtree]:
    """The largest subtrees without target leaves whose evidence has few kinds, for many rows.

    `codes` of all columns tell where nothing is missing, which makes for fewer kinds.
    """
    plan = operators.plan
    counts, shifts = _kinds(plan, codes)
    most = min(MOST_CELLS, rows // ROWS_PER_CELL)
    found: list[Subtree] = []
    for k, node in enumerate(plan.nodes):  # parents first
        leaves = range(node.first, node.last)
        inside_another = found and node.first in found[-1].leaves
        if node.is_leaf or node.parent == k or inside_another or len(leaves) > RESCALE:
            continue
        if any(len(plan.nodes[plan.leaves[x]].columns) > 1 or x in targets for x in leaves):
            continue
        if math.prod(counts[x] for x in leaves) <= most:
            found.append(_tabulated(operators, k, [(counts[x], shifts[x]) for x in leaves]))
    return found


def _kinds(plan: Plan, codes: Sequence[Codes | None] | None) -> tuple[list[int], list[int]]:
    """Kinds of evidence at each leaf, and what to add to its codes to count from zero."""
    sizes = plan.leaf_states()
    if codes is None:
        return [size + 1 for size in sizes], [1] * len(sizes)
    place = {v: i for i, v in enumerate(plan.graph.observed)}
    counts, shifts = [], []
    for k, size in zip(plan.leaves, sizes, strict=True):
        own = codes[place[plan.nodes[k].columns[0]]]
        whole = own is not None and own.dtype.kind != "f" and own.min(initial=0) >= 0
        counts.append(1 if own is None else size if whole else size + 1)
        shifts.append(0 if whole else 1)
    return counts, shifts


def _tabulated(operators: Operators, node: int, kinds: Sequence[tuple[int, int]]) -> Subtree:
    """Messages of all evidence on the leaves below: those of a node from all of its children."""
    plan = operators.plan
    counts, shifts = [count for count, _ in kinds], tuple(shift for _, shift in kinds)
    first, last = plan.nodes[node].first, plan.nodes[node].last
    own = [np.arange(count) - shift for count, shift in kinds]  # of each leaf alone
    seen = [own[x - first] if first <= x < last else None for x in range(len(plan.leaves))]
    evidence = Evidence(max(counts), tuple(seen), (None,) * len(seen))

    def within(value: Array, below: int, above: int) -> Array:
        """From (…, kinds at one node) to (…, kinds at another above it)."""
        inner, outer = plan.nodes[below], plan.nodes[above]
        before = math.prod(counts[outer.first - first : inner.first - first])
        after = math.prod(counts[inner.last - first : outer.last - first])
        return np.tile(np.repeat(value, after, axis=-1), before)

    up: dict[int, Message] = {}
    for k in reversed(_below(plan, node)):
        if plan.nodes[k].is_leaf:
            found = leaf_message(operators, evidence, plan.nodes[k].first)
            cells = counts[plan.nodes[k].first - first]
            value = np.broadcast_to(found.value, (len(found.value), cells))
            up[k] = Message(value, found.log, found.leaves)
            continue
        below = {c: up.pop(c) for c in plan.nodes[k].children}
        wide = {c: Message(within(m.value, c, k), m.log, m.leaves) for c, m in below.items()}
        up[k] = pass_up(operators, k, wide)
    alone = np.zeros(math.prod(counts))
    for x in range(first, last):
        one = log_alone(plan, operators.marginals[x], evidence, x)
        one = np.broadcast_to(one, counts[x - first : x - first + 1])
        alone = alone + within(one, plan.leaves[x], node)
    strides = tuple(math.prod(counts[i + 1 :]) for i in range(len(counts)))
    table = np.ascontiguousarray(up[node].value)
    return Subtree(node, range(first, last), strides, shifts, table, alone)


def _below(plan: Plan, node: int) -> list[int]:
    """The node and all below it, parents first."""
    found = [node]
    for k in found:
        found.extend(plan.nodes[k].children)
    return sorted(found)


def look_up(subtrees: Sequence[Subtree], evidence: Evidence) -> dict[int, Message]:
    """Messages of the subtrees for these rows; of those only where codes say all."""
    return {tree.node: _message(tree, index) for tree, index in _indices(subtrees, evidence)}


def look_up_scores(
    subtrees: Sequence[Subtree], evidence: Evidence
) -> tuple[dict[int, Message], dict[int, Array]]:
    """The same, and Σ log P̂(e_i) of their leaves, by node."""
    found = _indices(subtrees, evidence)
    messages = {tree.node: _message(tree, index) for tree, index in found}
    return messages, {tree.node: tree.alone.take(index) for tree, index in found}


def _message(tree: Subtree, index: Codes) -> Message:
    return Message(tree.table.take(index, axis=1), np.zeros(1), len(tree.leaves))


def _indices(subtrees: Sequence[Subtree], evidence: Evidence) -> list[tuple[Subtree, Codes]]:
    """Those whose evidence codes tell, with where it lies in their tables."""
    found = [(tree, subtree_index(tree, evidence)) for tree in subtrees]
    return [(tree, index) for tree, index in found if index is not None]


def subtree_index(tree: Subtree, evidence: Evidence) -> Codes | None:
    """Where the evidence of each row lies in the table: (n,), or (1,) where there is none.

    None where codes do not tell the evidence.
    """
    if any(evidence.likelihoods[x] is not None for x in tree.leaves):
        return None
    if evidence.corners and any(evidence.corners[x] is not None for x in tree.leaves):
        return None
    index: Codes = np.zeros(1, dtype=np.int16)
    for x, stride, shift in zip(tree.leaves, tree.strides, tree.shifts, strict=True):
        codes = evidence.codes[x]
        if codes is not None:
            own = np.multiply(codes, np.int16(stride), dtype=np.int16)
            index = own if index.size == 1 and not index[0] else np.add(index, own, out=own)
            if shift:
                index += np.int16(shift * stride)
    return index
