"""log P̂(evidence): messages meet at the roots; where they give none, independence (design 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.inference.evidence import Evidence, gathered, leaf_sizes
from latentia.inference.messages import Message, combine, meet, upward
from latentia.inference.operators import Operators
from latentia.structure.plan import Plan
from latentia.typing import Array


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
    return components_above(operators, evidence, upward(operators, evidence), {})


def components_above(
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


def total_evidence(
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
