"""Messages up, at the root and down; pure, batched over rows of evidence, log-scaled (design 5).

Arrays are (r, n): one column per row of evidence, or one for all rows where nothing below was
observed. An upward message is a functional on E[θ | ·]; a downward one is P(e outside) E[θ | e
outside]. Each is divided by its largest magnitude, whose log is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.errors import EvidenceError
from latentia.operators import Operators
from latentia.plan import Plan
from latentia.typing import Array, Codes

__all__ = [
    "Answers",
    "Evidence",
    "Message",
    "answer",
    "component_evidence",
    "leaf_message",
    "log_evidence",
    "pass_down",
    "pass_up",
    "read_evidence",
    "repaired",
    "scaled",
]


@final
@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known at each leaf: a code per row (-1: nothing), or likelihoods of its states."""

    rows: int
    codes: tuple[Codes | None, ...]  # per leaf: (n,)
    likelihoods: tuple[Array | None, ...]  # per leaf: (states, n), where codes cannot say it


@final
@dataclass(frozen=True, slots=True)
class Message:
    """value · exp(log): (r, n) and (n,), or one column where no row has evidence."""

    value: Array
    log: Array


@final
@dataclass(frozen=True, slots=True)
class Answers:
    """P̂(column | evidence on the others) for each row, and what had to be repaired."""

    probabilities: dict[int, Array]  # column -> (states, n)
    log_evidence: Array  # (n,)
    clipped: dict[int, Array]  # column -> (n,): share of negative mass
    repaired: Array  # (n,): evidence that the signed model gave no positive probability


def read_evidence(
    plan: Plan,
    codes: Sequence[Codes | None],
    soft: Mapping[int, Array] | None = None,
) -> Evidence:
    """Evidence from one code array per column in graph order (None or -1: not observed).

    `soft` gives, by position of the column, likelihoods (states, n) or (states, 1) instead.
    """
    soft = soft or {}
    lengths = {len(c) for c in codes if c is not None} | {
        s.shape[1] for s in soft.values() if s.shape[1] > 1
    }
    if len(lengths) > 1:
        raise EvidenceError(f"evidence has columns of different lengths: {sorted(lengths)}.")
    n = lengths.pop() if lengths else 1
    place = {v: i for i, v in enumerate(plan.graph.observed)}
    hard: list[Codes | None] = []
    likelihoods: list[Array | None] = []
    for k in plan.leaves:
        members = [place[v] for v in plan.nodes[k].columns]
        simple = len(members) == 1 and members[0] not in soft
        own = codes[members[0]]
        if simple:
            hard.append(own if own is not None and (own >= 0).any() else None)
            likelihoods.append(None)
            continue
        hard.append(None)
        sizes = [plan.graph.states[v] or 1 for v in plan.nodes[k].columns]
        parts = [
            _column_likelihood(codes[i], soft.get(i), size)
            for i, size in zip(members, sizes, strict=True)
        ]
        known = any(part is not None for part in parts)
        likelihoods.append(_joint_likelihood(parts, sizes) if known else None)
    return Evidence(n, tuple(hard), tuple(likelihoods))


def _column_likelihood(codes: Codes | None, soft: Array | None, states: int) -> Array | None:
    if soft is not None:
        return soft
    if codes is None or not (codes >= 0).any():
        return None
    return np.where(codes < 0, 1.0, (codes == np.arange(states)[:, None]).astype(float))


def _joint_likelihood(parts: Sequence[Array | None], sizes: Sequence[int]) -> Array:
    """Product of the columns' likelihoods over their joint states: (states, n)."""
    joint = np.ones((1, 1))
    for part, size in zip(parts, sizes, strict=True):
        part = np.ones((size, 1)) if part is None else part
        joint = (joint[:, None, :] * part[None, :, :]).reshape(len(joint) * size, -1)
    return joint


def answer(
    operators: Operators, evidence: Evidence, columns: Iterable[int] | None = None
) -> Answers:
    """Posterior of each column given the evidence on all *other* columns, in one up and down pass.

    `columns` are variables of the graph; default: all of them. The evidence of other columns that
    share the target's leaf counts, its own does not. The log evidence is that of everything.
    """
    plan = operators.plan
    wanted = list(plan.graph.observed if columns is None else columns)
    home = {v: x for x, k in enumerate(plan.leaves) for v in plan.nodes[k].columns}
    up = _upward(operators, evidence)
    down = _downward(operators, up, {plan.leaves[home[v]] for v in wanted})
    alone = _each_alone(operators, evidence)
    total, none = _total(_components(operators, up, alone), operators.mix, evidence.rows)
    probabilities, clipped = {}, {}
    for v in wanted:
        x = home[v]
        joint, prior = _at_column(operators, evidence, x, v, down[plan.leaves[x]].value)
        table, lost = repaired(
            joint, down[plan.leaves[x]].log, prior, alone.without(x), operators.mix
        )
        probabilities[v] = np.broadcast_to(table, (len(table), evidence.rows))
        clipped[v] = np.broadcast_to(lost, (evidence.rows,))
    return Answers(probabilities, total, clipped, none)


def log_evidence(operators: Operators, evidence: Evidence) -> tuple[Array, Array]:
    """log P̂(evidence), (n,); and where the signed model gave none and independence stood in."""
    return _total(component_evidence(operators, evidence), operators.mix, evidence.rows)


def _upward(operators: Operators, evidence: Evidence) -> dict[int, Message]:
    """From the leaves to just below the roots."""
    plan = operators.plan
    up: dict[int, Message] = {}
    for x, k in enumerate(plan.leaves):
        up[k] = scaled(leaf_message(operators, evidence, x), np.zeros(1))
    for k in reversed(plan.inner):
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
    W = operators.tensors[k]
    product, log = combine([up[c] for c in operators.plan.nodes[k].children])
    return scaled(W.reshape(-1, W.shape[-1]).T @ product, log)


def pass_down(
    operators: Operators, k: int, up: Mapping[int, Message], down: Mapping[int, Message]
) -> Message:
    """What its parent predicts for node k: 𝒯 or W with its own message and the siblings'."""
    plan = operators.plan
    parent = plan.nodes[k].parent
    above = plan.nodes[parent]
    others = [up[c] for c in above.children if c != k]
    others += [] if above.parent == parent else [down[parent]]
    product, log = combine(others)
    tensor, place = operators.tensors[parent], above.children.index(k)
    matrix = np.moveaxis(tensor, place, 0).reshape(tensor.shape[place], -1)
    return scaled(matrix @ product, log)


def leaf_message(operators: Operators, evidence: Evidence, x: int) -> Array:
    table = operators.leaves[x]  # (states, r)
    likelihood, codes = evidence.likelihoods[x], evidence.codes[x]
    if likelihood is not None:
        return table.T @ likelihood
    whole: Array = table.sum(axis=0, keepdims=True)
    if codes is None:
        return whole.T
    return np.concatenate([table, whole]).T.take(
        codes, axis=1
    )  # code -1 picks the sum over all states


def combine(messages: Sequence[Message]) -> tuple[Array, Array]:
    """⊗ of messages, row by row: (r_1 r_2 …, n), and the sum of their logs."""
    value, log = np.ones((1, 1)), np.zeros(1)
    for m in messages:
        value = (value[:, None, :] * m.value[None, :, :]).reshape(len(value) * len(m.value), -1)
        log = log + m.log
    return value, log


def scaled(value: Array, log: Array) -> Message:
    size = np.abs(value).max(axis=0)
    size = np.where(size > 0, size, 1.0)
    return Message(value / size, log + np.log(size))


@final
@dataclass(frozen=True, slots=True)
class _Alone:
    """log P̂(evidence of each leaf) on its own, and sums of these over each component."""

    logs: list[Array]  # per leaf: (n,) or (1,); -inf for values never seen
    component: list[int]  # per leaf
    finite: list[Array]  # per component: sum of the finite logs
    never: list[Array]  # per component: how many are -inf

    def of_component(self, c: int) -> Array:
        return np.where(self.never[c] > 0, -np.inf, self.finite[c])

    def without(self, x: int) -> Array:
        """The component of leaf x without x itself."""
        c, own = self.component[x], self.logs[x]
        never = ~np.isfinite(own)
        rest = self.finite[c] - np.where(never, 0.0, own)
        return np.where(self.never[c] - never > 0, -np.inf, rest)


def _each_alone(operators: Operators, evidence: Evidence) -> _Alone:
    logs, component, finite, never = [], [], [], []
    with np.errstate(divide="ignore"):
        for mu, likelihood, codes in zip(
            operators.marginals, evidence.likelihoods, evidence.codes, strict=True
        ):
            if likelihood is not None:
                logs.append(np.log(mu @ likelihood))
            elif codes is not None:
                logs.append(np.append(np.log(mu), 0.0)[codes])  # code -1 picks log 1
            else:
                logs.append(np.zeros(1))
    for c, root in enumerate(operators.plan.roots):
        node = operators.plan.nodes[root]
        own = logs[node.first : node.last]
        component += [c] * len(own)
        finite.append(np.asarray(sum(np.where(np.isfinite(log), log, 0.0) for log in own)))
        never.append(np.asarray(sum((~np.isfinite(log)).astype(int) for log in own)))
    return _Alone(logs, component, finite, never)


@final
@dataclass(frozen=True, slots=True)
class ComponentEvidence:
    """P̂(evidence in one component) = value · exp(log), perhaps negative; and under independence."""

    value: Array  # (n,) or (1,)
    log: Array
    alone: Array  # log Π P̂(e_i)

    def log_positive(self, mix: float) -> Array:
        """log of max(P̂(e), 0) + mix · Π P̂(e_i)."""
        with np.errstate(divide="ignore"):
            kept = np.log(np.maximum(self.value, 0.0)) + self.log
            return np.asarray(np.logaddexp(kept, np.log(mix) + self.alone), dtype=float)


def component_evidence(operators: Operators, evidence: Evidence) -> list[ComponentEvidence]:
    """One entry per root."""
    up = _upward(operators, evidence)
    return _components(operators, up, _each_alone(operators, evidence))


def _components(
    operators: Operators, up: Mapping[int, Message], alone: _Alone
) -> list[ComponentEvidence]:
    found = []
    for c, root in enumerate(operators.plan.roots):
        product, log = combine([up[k] for k in operators.plan.nodes[root].children])
        value = (operators.tensors[root].reshape(1, -1) @ product)[0]
        found.append(ComponentEvidence(value, log, alone.of_component(c)))
    return found


def _total(components: Sequence[ComponentEvidence], mix: float, rows: int) -> tuple[Array, Array]:
    """Σ over components of log P̂(e); where one gives none, its columns on their own (design 6)."""
    total, none = np.zeros(rows), np.zeros(rows, dtype=bool)
    for part in components:
        with np.errstate(divide="ignore"):
            signed = np.log(np.abs(part.value)) + part.log
        total = total + np.where(part.value > 0, signed, part.log_positive(mix))
        none = none | (part.value <= 0)
    return total, none


def _at_column(
    operators: Operators, evidence: Evidence, x: int, column: int, down: Array
) -> tuple[Array, Array]:
    """P̂(column, e) and P̂(column), with the evidence of columns that share its leaf."""
    plan = operators.plan
    columns = plan.nodes[plan.leaves[x]].columns
    joint = operators.leaves[x] @ down  # (states of the leaf, n)
    prior = operators.marginals[x][:, None]
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
    axes = tuple(i for i in range(len(sizes)) if i != place)
    joint, prior = (t.reshape(*sizes, -1).sum(axis=axes) for t in (joint, prior))
    return joint, prior


def repaired(
    joint: Array, log: Array, prior: Array, around: Array, mix: float
) -> tuple[Array, Array]:
    """max(P̂(q, e), 0) + mix · P̂(q) Π P̂(e_i), normalised; and the share clipped (design 6)."""
    lost = np.maximum(-joint, 0).sum(axis=0) / np.maximum(np.abs(joint).sum(axis=0), 1e-300)
    table = np.maximum(joint, 0)
    if mix > 0:
        # both terms on the scale of the larger: neither may under- or overflow
        level = np.where(np.isfinite(around), np.maximum(log, around), log)
        table = table * np.exp(log - level) + mix * prior * np.exp(around - level)
    total = table.sum(axis=0)
    if not (total > 0).all():
        raise EvidenceError(
            f"the evidence of row {int(np.argmin(total > 0))} has probability zero under the model "
            "(a value never seen in training, or values never seen together). Leave the value out "
            "to marginalise it."
        )
    return table / total, lost
