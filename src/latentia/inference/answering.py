"""Posteriors of columns given the others, for many rows: up, at the roots and down (design 5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.inference.evidence import Evidence, at_others, points_of
from latentia.inference.evidence_level import (
    ComponentEvidence,
    components_above,
    total_evidence,
)
from latentia.inference.linear_part import lean_on
from latentia.inference.messages import Message, downward, upward
from latentia.inference.operators import Operators
from latentia.inference.repairing import by_itself, check_sound, repaired
from latentia.inference.table_form import TableForm
from latentia.typing import Array, Bools


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
    up = upward(operators, evidence)
    total, none = total_evidence(
        operators, components_above(operators, evidence, up, {}), evidence.rows
    )
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
    up = upward(operators, evidence, known)
    found = _at_columns(operators, evidence, up, list(columns), marks)[0]
    if impossible is None:
        check_sound(~marks)
    return found


def posterior_below(
    operators: Operators, evidence: Evidence, column: int, below: Message, impossible: Bools
) -> Array:
    """P̂(column | evidence on the others), (states, n), from the message down to its leaf."""
    plan = operators.plan
    leaf = next(k for k in plan.leaves if column in plan.nodes[k].columns)
    return _from_below(operators, evidence, {leaf: below}, [column], impossible)[0][column]


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
    up = upward(operators, evidence, known)
    return total_evidence(
        operators, components_above(operators, evidence, up, alone or {}), evidence.rows
    )


def log_evidence_at_root(
    operators: Operators, message: Message, alone: Array
) -> tuple[Array, Array]:
    """The same of a plan with one root, from P̂(e) / Π P̂(e_i), (1, n), and Σ log P̂(e_i), (n,)."""
    found = ComponentEvidence(message.value[0], message.log, alone)
    return total_evidence(operators, [found], len(alone))


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
    home = {v: k for k in plan.leaves for v in plan.nodes[k].columns}
    down = downward(operators, up, {home[v] for v in wanted})
    return _from_below(operators, evidence, down, wanted, impossible)


def _from_below(
    operators: Operators,
    evidence: Evidence,
    down: Mapping[int, Message],
    wanted: Sequence[int],
    impossible: Bools,
) -> tuple[dict[int, Array], dict[int, Array]]:
    """The same from the messages down to the leaves of the columns."""
    plan = operators.plan
    home = {v: x for x, k in enumerate(plan.leaves) for v in plan.nodes[k].columns}
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
            table = np.where(joint.sum(axis=0) > 0, table, by_itself(prior))
        table = np.broadcast_to(table, (len(table), evidence.rows))
        if operators.linear is not None and points is not None:
            table = lean_on(operators.linear, points, place[v], table)
        probabilities[v] = table
        clipped[v] = np.broadcast_to(lost, (evidence.rows,))
    return probabilities, clipped


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
