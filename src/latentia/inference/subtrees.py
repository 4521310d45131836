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
from latentia.inference.messages import RESCALE, Message, leaf_message, pass_up
from latentia.inference.operators import Operators
from latentia.structure.plan import Plan
from latentia.typing import Array

MOST_CELLS = 2**10  # of a table: more would leave the cache
ROWS_PER_CELL = 16  # for which it pays to fill a table


@final
@dataclass(frozen=True, slots=True)
class Subtree:
    """m_S for every evidence on the leaves below node `node`; state x of a leaf counts as x + 1."""

    node: int
    leaves: range
    strides: tuple[int, ...]
    table: Array  # (r, cells); cell 0: nothing observed


def subtree_tables(operators: Operators, rows: int, targets: Collection[int]) -> list[Subtree]:
    """The largest subtrees without target leaves whose evidence has few kinds, for many rows."""
    plan = operators.plan
    sizes = plan.leaf_states()
    most = min(MOST_CELLS, rows // ROWS_PER_CELL)
    found: list[Subtree] = []
    for k, node in enumerate(plan.nodes):  # parents first
        leaves = range(node.first, node.last)
        inside_another = found and node.first in found[-1].leaves
        if node.is_leaf or node.parent == k or inside_another or len(leaves) > RESCALE:
            continue
        if any(len(plan.nodes[plan.leaves[x]].columns) > 1 or x in targets for x in leaves):
            continue
        counts = [sizes[x] + 1 for x in leaves]
        if math.prod(counts) <= most:
            strides = [math.prod(counts[i + 1 :]) for i in range(len(counts))]
            table = _all_messages(operators, k, counts)
            found.append(Subtree(k, leaves, tuple(strides), table))
    return found


def _all_messages(operators: Operators, node: int, counts: Sequence[int]) -> Array:
    """(r, cells): row by row of the table that holds all evidence on the leaves below."""
    plan = operators.plan
    cells = math.prod(counts)
    codes = [c - 1 for c in np.unravel_index(np.arange(cells), counts)]
    first, last = plan.nodes[node].first, plan.nodes[node].last
    seen = [codes[x - first] if first <= x < last else None for x in range(len(plan.leaves))]
    evidence = Evidence(cells, tuple(seen), (None,) * len(seen))
    up: dict[int, Message] = {}
    for k in reversed(_below(plan, node)):
        leaf = plan.nodes[k].is_leaf
        up[k] = (
            leaf_message(operators, evidence, plan.nodes[k].first)
            if leaf
            else pass_up(operators, k, up)
        )
    return np.ascontiguousarray(np.broadcast_to(up[node].value, (len(up[node].value), cells)))


def _below(plan: Plan, node: int) -> list[int]:
    """The node and all below it, parents first."""
    found = [node]
    for k in found:
        found.extend(plan.nodes[k].children)
    return sorted(found)


def look_up(subtrees: Sequence[Subtree], evidence: Evidence) -> dict[int, Message]:
    """Messages of the subtrees for these rows; of those only where codes say all."""
    found = {}
    for tree in subtrees:
        if any(evidence.likelihoods[x] is not None for x in tree.leaves):
            continue
        if evidence.corners and any(evidence.corners[x] is not None for x in tree.leaves):
            continue
        index = np.zeros(1, dtype=np.int16)
        for x, stride in zip(tree.leaves, tree.strides, strict=True):
            codes = evidence.codes[x]
            if codes is not None:
                index = index + (codes.astype(np.int16) + np.int16(1)) * np.int16(stride)
        found[tree.node] = Message(tree.table.take(index, axis=1), np.zeros(1), len(tree.leaves))
    return found
