"""Messages up and down; pure, batched over rows of evidence, log-scaled (design 5).

Arrays are (r, n): one column per row of evidence, or one for all rows where nothing below was
observed. An upward message is a functional on E[θ | ·]; a downward one is P(e outside) E[θ | e
outside]. Both are told relative to independence: divided by Π P̂(e_i) over their evidence, so that
they stay near one; after many leaves they are also divided by their largest entry, the log kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.inference.evidence import Evidence, gathered, leaf_sizes
from latentia.inference.operators import Operators
from latentia.typing import Array

RESCALE = 16  # leaves: their messages are near one, but not so near for ever


@final
@dataclass(frozen=True, slots=True)
class Message:
    """value · exp(log): (r, n) and (n,), or one column where no row has evidence."""

    value: Array
    log: Array
    leaves: int  # whose evidence went in since the last rescaling


def upward(
    operators: Operators, evidence: Evidence, known: Mapping[int, Message] | None = None
) -> dict[int, Message]:
    """From the leaves to just below the roots; nothing below messages that are known."""
    plan = operators.plan
    up = dict(known or {})
    ends = {x: n.last for n in (plan.nodes[k] for k in up) for x in range(n.first, n.last)}
    for x, k in enumerate(plan.leaves):
        if x not in ends:
            up[k] = leaf_message(operators, evidence, x)
    for k in reversed(plan.inner):
        if plan.nodes[k].last > ends.get(plan.nodes[k].first, 0):
            up[k] = pass_up(operators, k, up)
    return up


def downward(
    operators: Operators, up: Mapping[int, Message], targets: set[int]
) -> dict[int, Message]:
    """From the roots to the targets."""
    plan = operators.plan
    needed = set(targets)
    for k in reversed(range(len(plan.nodes))):
        if k in needed:
            needed.add(plan.nodes[k].parent)
    down: dict[int, Message] = {}
    for k, node in enumerate(plan.nodes):
        if k in needed and node.parent != k:
            down[k] = pass_down(operators, k, up, down)
    return down


def pass_up(operators: Operators, k: int, up: Mapping[int, Message]) -> Message:
    """m_{C→parent} = W^S × m_1 × m_2 …: what node k tells its parent."""
    children = [up[c] for c in operators.plan.nodes[k].children]
    if k in operators.diagonals:
        return _scaled(operators.diagonals[k].T, meet(children))
    W, below = operators.tensors[k], combine(children)
    return _scaled(W.reshape(-1, W.shape[-1]).T, below)


def pass_down(
    operators: Operators, k: int, up: Mapping[int, Message], down: Mapping[int, Message]
) -> Message:
    """What its parent predicts for node k: 𝒯 or W with its own message and the siblings'."""
    plan = operators.plan
    parent = plan.nodes[k].parent
    above = plan.nodes[parent]
    others = [up[c] for c in above.children if c != k]
    if parent in operators.diagonals:
        D = operators.diagonals[parent]
        first = Message(D[:, None], np.zeros(1), 0)
        if above.parent != parent:
            first = _scaled(D, down[parent])
        return _rescaled(meet([first, *others]))
    others += [] if above.parent == parent else [down[parent]]
    tensor, place = operators.tensors[parent], above.children.index(k)
    matrix = np.moveaxis(tensor, place, 0).reshape(tensor.shape[place], -1)
    return _scaled(matrix, combine(others))


def leaf_message(operators: Operators, evidence: Evidence, x: int) -> Message:
    """t summed over what is possible at leaf x, divided by P̂(evidence at x)."""
    table, mu = operators.leaves[x], operators.marginals[x]  # (states, r), (states,)
    likelihood, codes = evidence.likelihoods[x], evidence.codes[x]
    cells = evidence.cells[x] if evidence.cells else None
    if likelihood is not None:
        value = table.T @ likelihood / np.maximum(mu @ likelihood, 1e-300)
    elif codes is not None:
        # one row more, for code -1: nothing observed is the sum over all states
        rows = np.concatenate([table / np.maximum(mu, 1e-300)[:, None], table.sum(axis=0)[None]])
        value = rows.T.take(codes, axis=1)
    elif cells is not None:
        sizes = leaf_sizes(operators.plan, x)
        value = gathered(table, cells, sizes)
        value /= np.maximum(gathered(mu[:, None], cells, sizes), 1e-300)
    else:
        value = table.sum(axis=0)[:, None]
    return Message(value, np.zeros(1), 1)


def combine(messages: Sequence[Message]) -> Message:
    """⊗ of messages, row by row: (r_1 r_2 …, n), and the sum of their logs."""
    if not messages:
        return Message(np.ones((1, 1)), np.zeros(1), 0)
    value, log, leaves = messages[0].value, messages[0].log, messages[0].leaves
    for m in messages[1:]:
        value = _products(value, m.value).reshape(len(value) * len(m.value), -1)
        log = log + m.log
        leaves += m.leaves
    return Message(value, log, leaves)


def _products(a: Array, b: Array) -> Array:
    """a_i b_j of every row; what overflows (wild without regularisation) is no probability."""
    try:
        with np.errstate(over="raise"):
            return np.asarray(a[:, None, :] * b[None, :, :])
    except FloatingPointError:
        with np.errstate(over="ignore", invalid="ignore"):
            found = a[:, None, :] * b[None, :, :]
        return np.where(np.isfinite(found), found, 0.0)


def meet(messages: Sequence[Message]) -> Message:
    """Π of messages, coordinate by coordinate: (N, n), and the sum of their logs."""
    value, log, leaves = messages[0].value, messages[0].log, messages[0].leaves
    for m in messages[1:]:
        value, log, leaves = value * m.value, log + m.log, leaves + m.leaves
    return Message(value, log, leaves)


def _scaled(matrix: Array, message: Message) -> Message:
    """matrix @ message, divided by its largest magnitude where much evidence has gone in."""
    return _rescaled(Message(matrix @ message.value, message.log, message.leaves))


def _rescaled(message: Message) -> Message:
    if message.leaves <= RESCALE:
        return message
    size = np.abs(message.value).max(axis=0)
    size = np.where(size > 0, size, 1.0)
    return Message(message.value / size, message.log + np.log(size), 1)
