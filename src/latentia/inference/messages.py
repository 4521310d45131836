"""Messages up, at the root and down; pure, batched over rows of evidence, log-scaled (design 5).

Arrays are (r, n): one column per row of evidence, or one for all rows where nothing below was
observed. An upward message is a functional on E[θ | ·]; a downward one is P(e outside) E[θ | e
outside]. Both are told relative to independence: divided by Π P̂(e_i) over their evidence, so that
they stay near one; after many leaves they are also divided by their largest entry, the log kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.errors import EvidenceError
from latentia.inference.evidence import (
    Evidence,
    at_others,
    gathered,
    leaf_sizes,
    points_of,
)
from latentia.inference.linear_part import lean_on
from latentia.inference.operators import Operators
from latentia.inference.table_form import TableForm
from latentia.structure.plan import Plan
from latentia.typing import Array, Bools

RESCALE = 16  # leaves: their messages are near one, but not so near for ever
LARGEST_LOG = 600.0


@final
@dataclass(frozen=True, slots=True)
class Message:
    """value · exp(log): (r, n) and (n,), or one column where no row has evidence."""

    value: Array
    log: Array
    leaves: int  # whose evidence went in since the last rescaling


@final
@dataclass(frozen=True, slots=True)
class Answers:
    """P̂(column | evidence on the others) for each row, and what had to be repaired."""

    probabilities: dict[int, Array]  # column -> (states, n)
    log_evidence: Array  # (n,)
    clipped: dict[int, Array]  # column -> (n,): share of negative mass
    repaired: Array  # (n,): evidence that the signed model gave no positive probability
    impossible: Bools  # (n,): no probability at all for some column; its marginal stands there


def answer(
    operators: Operators,
    evidence: Evidence,
    columns: Iterable[int] | None = None,
    strict: bool = True,
) -> Answers:
    """Posterior of each column given the evidence on all *other* columns, in one up and down pass.

    `columns` are variables of the graph; default: all of them. The evidence of other columns that
    share the target's leaf counts, its own does not. The log evidence is that of everything.
    Evidence of probability zero is an error, or, unless `strict`, marked and answered by marginals.
    """
    wanted = list(operators.plan.graph.observed if columns is None else columns)
    if operators.network is not None:
        return _of_network(operators.network, evidence, wanted, strict)
    up = _upward(operators, evidence)
    total, none = _total(operators, _components(operators, evidence, up, {}), evidence.rows)
    impossible = np.zeros(evidence.rows, dtype=bool)
    probabilities, clipped = _at_columns(operators, evidence, up, wanted, impossible)
    if strict:
        check_sound(~impossible)
    return Answers(probabilities, total, clipped, none, impossible)


def _of_network(
    network: TableForm, evidence: Evidence, wanted: Sequence[int], strict: bool
) -> Answers:
    """Tables answer for themselves: nothing is clipped or repaired."""
    found, impossible = network.given_others(evidence, wanted)
    if strict:
        check_sound(~impossible)
    nothing = np.zeros(evidence.rows)
    clipped = dict.fromkeys(wanted, nothing)
    log = network.log_evidence(evidence)
    return Answers(found, log, clipped, nothing.astype(bool), impossible)


def posteriors(
    operators: Operators,
    evidence: Evidence,
    columns: Iterable[int],
    known: Mapping[int, Message] | None = None,
    impossible: Bools | None = None,
) -> dict[int, Array]:
    """The probabilities of `answer` without its log evidence: (states, n) by column.

    `known` are upward messages of subtrees, without any of the columns, that are there already.
    Rows of probability zero are marked in `impossible`, (n,), and answered by marginals; without
    it they are an error.
    """
    marks = np.zeros(evidence.rows, dtype=bool) if impossible is None else impossible
    if operators.network is not None:
        own, marked = operators.network.given_others(evidence, list(columns))
        marks |= marked
        if impossible is None:
            check_sound(~marks)
        return own
    up = _upward(operators, evidence, known)
    found = _at_columns(operators, evidence, up, list(columns), marks)[0]
    if impossible is None:
        check_sound(~marks)
    return found


def _at_columns(
    operators: Operators,
    evidence: Evidence,
    up: Mapping[int, Message],
    wanted: Sequence[int],
    impossible: Bools,
) -> tuple[dict[int, Array], dict[int, Array]]:
    """Down to the leaves of the columns: their probabilities, and the share clipped.

    Rows without any probability are marked.
    """
    plan = operators.plan
    home = {v: x for x, k in enumerate(plan.leaves) for v in plan.nodes[k].columns}
    down = _downward(operators, up, {plan.leaves[home[v]] for v in wanted})
    probabilities, clipped = {}, {}
    points = None if operators.linear is None else points_of(plan, evidence)
    place = {v: i for i, v in enumerate(plan.graph.observed)}
    for v in wanted:
        below = down[plan.leaves[home[v]]]
        joint, prior = _at_column(operators, evidence, home[v], v, below.value)
        table, lost, sound = repaired(joint, below.log, prior, operators.mix)
        if not sound.all():
            impossible |= ~sound
        if operators.raw:  # an embedding: without positive evidence only noise is left of it
            table = np.where(joint.sum(axis=0) > 0, table, _by_itself(prior))
        table = np.broadcast_to(table, (len(table), evidence.rows))
        if operators.linear is not None and points is not None:
            table = lean_on(operators.linear, points, place[v], table)
        probabilities[v] = table
        clipped[v] = np.broadcast_to(lost, (evidence.rows,))
    return probabilities, clipped


def _by_itself(prior: Array) -> Array:
    """P̂(column), given the evidence that shares its leaf: never negative, sum one."""
    kept = np.maximum(prior, 1e-12)
    return np.asarray(kept / kept.sum(axis=0))


def log_evidence(
    operators: Operators,
    evidence: Evidence,
    known: Mapping[int, Message] | None = None,
    alone: Mapping[int, Array] | None = None,
) -> tuple[Array, Array]:
    """log P̂(evidence), (n,); and where the signed model gave none and independence stood in.

    `known` are upward messages of subtrees that are there already, `alone` Σ log P̂(e_i) of their
    leaves.
    """
    if operators.network is not None:
        return operators.network.log_evidence(evidence), np.zeros(evidence.rows, dtype=bool)
    up = _upward(operators, evidence, known)
    return _total(operators, _components(operators, evidence, up, alone or {}), evidence.rows)


def _upward(
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


def _downward(
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


@final
@dataclass(frozen=True, slots=True)
class ComponentEvidence:
    """P̂(evidence in one component) = value · exp(log + alone); value may be negative."""

    value: Array  # (n,) or (1,)
    log: Array
    alone: Array  # log Π P̂(e_i)

    def log_positive(self, mix: float) -> Array:
        """log of max(P̂(e), 0) + mix · Π P̂(e_i)."""
        with np.errstate(divide="ignore"):
            kept = np.log(np.maximum(self.value, 0.0)) + self.log
            return np.asarray(np.logaddexp(kept, np.log(mix)) + self.alone, dtype=float)


def component_evidence(operators: Operators, evidence: Evidence) -> list[ComponentEvidence]:
    """One entry per root."""
    if operators.network is not None:
        log = operators.network.log_evidence(evidence)
        there = np.isfinite(log)
        zero = np.zeros(evidence.rows)
        return [ComponentEvidence(there.astype(float), np.where(there, log, 0.0), zero)]
    return _components(operators, evidence, _upward(operators, evidence), {})


def _components(
    operators: Operators,
    evidence: Evidence,
    up: Mapping[int, Message],
    known: Mapping[int, Array],
) -> list[ComponentEvidence]:
    """One entry per root; `known` is what is told of the leaves below some nodes."""
    found = []
    plan = operators.plan
    told = {x: k for k in known for x in range(plan.nodes[k].first, plan.nodes[k].last)}
    for root in plan.roots:
        node = plan.nodes[root]
        below, last = _root_halves(operators, root, [up[k] for k in node.children])
        with np.errstate(over="ignore", invalid="ignore"):  # wild without regularisation …
            value = (below.value * last.value).sum(axis=0)
        value = np.where(np.isfinite(value), value, 0.0)  # … and then no probability at all
        log = below.log + last.log
        alone = np.zeros(1)
        for x in range(node.first, node.last):
            if x not in told:
                alone = alone + log_alone(plan, operators.marginals[x], evidence, x)
            elif x == plan.nodes[told[x]].first:
                alone = alone + known[told[x]]
        found.append(ComponentEvidence(value, log, alone))
    return found


def _root_halves(
    operators: Operators, root: int, children: Sequence[Message]
) -> tuple[Message, Message]:
    """𝒯 with all messages but the last, and the last: the product of all would be too large."""
    *first, last = children
    if root in operators.diagonals:
        weight = Message(operators.diagonals[root][:, None], np.zeros(1), 0)
        return meet([weight, *first]), last
    T, head = operators.tensors[root], combine(first)
    matrix = T.reshape(-1, T.shape[-1]).T
    return Message(matrix @ head.value, head.log, head.leaves), last


def log_alone(plan: Plan, mu: Array, evidence: Evidence, x: int) -> Array:
    """log P̂(evidence at leaf x), (n,) or (1,); -inf for values never seen."""
    likelihood, codes = evidence.likelihoods[x], evidence.codes[x]
    with np.errstate(divide="ignore"):
        if likelihood is not None:
            return np.asarray(np.log(mu @ likelihood), dtype=float)
        if codes is not None:
            return np.append(np.log(mu), 0.0).take(codes)  # code -1 picks log 1
        cells = evidence.cells[x] if evidence.cells else None
        if cells is not None:
            alone = gathered(mu[:, None], cells, leaf_sizes(plan, x))[0]
            return np.asarray(np.log(alone), dtype=float)
    return np.zeros(1)


def _total(
    operators: Operators, components: Sequence[ComponentEvidence], rows: int
) -> tuple[Array, Array]:
    """Σ over components of log P̂(e); where one gives none, its columns on their own (design 6).

    With a floor (kernel embeddings): log (max(ratio, 0) + floor) − log (1 + floor) + Σ log P̂(e_i)
    for all rows: independence mixed in, so that no evidence at all has probability one.
    """
    total, none = np.zeros(rows), np.zeros(rows, dtype=bool)
    for part in components:
        gone = part.value <= 0
        none = none | gone
        if operators.floor > 0:
            total = total + part.log_positive(operators.floor) - np.log1p(operators.floor)
            continue
        with np.errstate(divide="ignore"):
            signed = np.log(np.abs(part.value)) + part.log + part.alone
        if gone.any():  # most rows have a probability
            signed = np.where(gone, part.log_positive(operators.mix), signed)
        total = total + signed
    return total, none


def _at_column(
    operators: Operators, evidence: Evidence, x: int, column: int, down: Array
) -> tuple[Array, Array]:
    """P̂(column, e) / Π P̂(e_i) and P̂(column), with the evidence of columns that share its leaf."""
    plan = operators.plan
    columns = plan.nodes[plan.leaves[x]].columns
    table = operators.targets.get(column)
    prior = operators.marginals[x][:, None] if table is None else table[:, :1]
    with np.errstate(over="ignore", invalid="ignore"):  # refused when it is repaired
        joint = (operators.leaves[x] if table is None else table) @ down  # (states of the leaf, n)
    if len(columns) == 1:
        return joint, prior
    sizes = [plan.graph.states[v] or 1 for v in columns]
    place = columns.index(column)
    likelihood = evidence.likelihoods[x]
    if likelihood is not None:
        # the target's own evidence must not count. It is a factor of the likelihood, so that the
        # largest value over the target's states is the others' evidence up to a constant
        shaped = likelihood.reshape(*sizes, -1)
        others = np.broadcast_to(shaped.max(axis=place, keepdims=True), shaped.shape)
        joint, prior = (t * others.reshape(likelihood.shape) for t in (joint, prior))
    corners = evidence.corners[x] if evidence.corners else None
    if corners is not None:
        return at_others(joint, corners, sizes, place), at_others(prior, corners, sizes, place)
    axes = tuple(i for i in range(len(sizes)) if i != place)
    joint, prior = (t.reshape(*sizes, -1).sum(axis=axes) for t in (joint, prior))
    return joint, prior


def repaired(joint: Array, log: Array, prior: Array, mix: float) -> tuple[Array, Array, Bools]:
    """max(P̂(q, e), 0) + mix · P̂(q) Π P̂(e_i), normalised; and the share clipped (design 6).

    `joint` · exp(log) is P̂(q, e) / Π P̂(e_i): (states, n). Last, which rows have any probability;
    the others get P̂(q).
    """
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused below
        table, share = joint, np.zeros(joint.shape[1], dtype=joint.dtype)
        if not joint.min(initial=0.0) >= 0:  # or some is not a number
            table = np.maximum(joint, 0.0)
            kept = table.sum(axis=0)
            lost = kept - joint.sum(axis=0)  # the negative part, with its sign turned
            share = lost / np.maximum(kept + lost, np.finfo(kept.dtype).tiny)
        if mix > 0:
            table = table + mix * prior * np.exp(np.minimum(-log, LARGEST_LOG))
        total = table.sum(axis=0)
    sound = (total > 0) & (total < np.inf)
    if sound.all():
        return table / total, share, sound
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return np.where(sound, table / total, _by_itself(prior)), share, sound


def check_sound(sound: Bools) -> None:
    """An error that names the first row without any probability."""
    if not sound.all():
        raise EvidenceError(
            f"the evidence of row {int(np.argmin(sound))} has probability zero under the model "
            "(a value never seen in training, or values never seen together). Leave the value out "
            "to marginalise it."
        )
