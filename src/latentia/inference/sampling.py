"""Rows drawn from the learned distribution.

Ancestral sampling walks the tree once, leaves from left to right: each leaf is drawn given all
leaves drawn before it, with the messages of finished subtrees in place of "nothing observed".
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from latentia.inference.evidence import read_evidence
from latentia.inference.messages import Message, leaf_message, pass_down, pass_up
from latentia.inference.operators import Operators
from latentia.inference.repairing import check_sound, repaired
from latentia.typing import Array, Codes


def sample_rows(operators: Operators, n: int, rng: np.random.Generator) -> tuple[Codes, ...]:
    """n rows, one code array per column in graph order."""
    if operators.network is not None:
        return operators.network.sample(n, rng)
    plan = operators.plan
    number = {k: x for x, k in enumerate(plan.leaves)}
    nothing = read_evidence(plan, [None] * len(plan.graph.observed))
    up = {k: leaf_message(operators, nothing, x) for k, x in number.items()}
    for k in reversed(plan.inner):
        up[k] = pass_up(operators, k, up)
    down: dict[int, Message] = {}
    drawn: dict[int, Codes] = {}
    for k, node in enumerate(plan.nodes):  # preorder: parents first, leaves from left to right
        if node.parent == k:
            continue
        down[k] = pass_down(operators, k, up, down)
        if not node.is_leaf:
            continue
        x = number[k]
        joint = operators.leaves[x] @ down[k].value
        prior = operators.marginals[x][:, None]
        table, _, sound = repaired(joint, down[k].log, prior, operators.mix)
        check_sound(sound)
        codes = _draw(np.broadcast_to(table, (len(table), n)), rng)
        drawn[k] = codes
        evidence = replace(nothing, codes=_only(codes, x, len(plan.leaves)))
        up[k] = leaf_message(operators, evidence, x)
        done = node.parent
        while plan.nodes[done].last == node.last and plan.nodes[done].parent != done:
            up[done] = pass_up(operators, done, up)  # its last leaf was drawn
            done = plan.nodes[done].parent
    return _columns(operators, drawn)


def _only(codes: Codes, x: int, count: int) -> tuple[Codes | None, ...]:
    """Evidence at leaf x alone."""
    return tuple(codes if y == x else None for y in range(count))


def _draw(table: Array, rng: np.random.Generator) -> Codes:
    """One state per column of `table` (states, n)."""
    levels = np.cumsum(table, axis=0)
    u = rng.random(table.shape[1]) * levels[-1]
    codes: Codes = np.minimum((levels <= u).sum(axis=0), len(table) - 1)
    return codes


def _columns(operators: Operators, drawn: dict[int, Codes]) -> tuple[Codes, ...]:
    plan = operators.plan
    found: dict[int, Codes] = {}
    for k, codes in drawn.items():
        sizes = [plan.graph.states[v] or 1 for v in plan.nodes[k].columns]
        for v, part in zip(plan.nodes[k].columns, np.unravel_index(codes, sizes), strict=True):
            found[v] = np.asarray(part)
    return tuple(found[v] for v in plan.graph.observed)
