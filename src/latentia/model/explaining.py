"""Explanations: how far each piece of evidence has moved an answer, in log-odds.

    moved by e_i, left out:   λ(s | e) - λ(s | e without e_i),        λ = log p / (1 - p)
    moved by e_i, in order:   λ(s | e_1 … e_i) - λ(s | e_1 … e_{i-1})

The second kind adds up to the whole way from the prior; the first tells what is needed.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from latentia import doors
from latentia.errors import EvidenceError, GraphError, UnknownNameError
from latentia.exact.sensitivity import Sensitivity, sensitivity_of
from latentia.exact.table_answers import TableAnswers
from latentia.inference.posterior import Posterior
from latentia.inference.questions import read_row
from latentia.spelling import printable
from latentia.typing import ByName, Cell, Given, Label, Names

if TYPE_CHECKING:
    from latentia.draw.svg import Drawing

ORDERS = ("given", "strength")


@final
@dataclass(frozen=True, slots=True)
class Moved:
    """One piece of evidence, and how far it moved the log-odds of the explained state."""

    name: Label
    value: Cell
    left_out: float
    in_order: float
    before: float  # the state's probability before this piece, in order
    after: float


@final
@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a state is as probable as it is: the evidence piece by piece."""

    target: Label
    state: Hashable
    prior: float
    probability: float
    pieces: tuple[Moved, ...]  # in the order in which they were added

    @property
    def moved(self) -> float:
        """From the prior to the answer, in log-odds; ±inf where the answer is certain."""
        return _between(_log_odds(self.probability), _log_odds(self.prior))

    def frame(self) -> dict[str, list[Cell]]:
        """A row for each piece of evidence, as columns for any data frame."""
        return {
            "evidence": [p.name for p in self.pieces],
            "value": [p.value for p in self.pieces],
            "left_out": [p.left_out for p in self.pieces],
            "in_order": [p.in_order for p in self.pieces],
            "before": [p.before for p in self.pieces],
            "after": [p.after for p in self.pieces],
        }

    @property
    def title(self) -> str:
        return (
            f"{printable(self.target)} = {printable(self.state)}: {self.prior:.4f} before, "
            f"{self.probability:.4f} after"
        )

    def words(self) -> list[str]:
        """Sentences, the piece that is needed most first."""
        said = []
        for p in sorted(self.pieces, key=lambda p: -abs(p.left_out)):
            what = f"{printable(p.name)} = {printable(p.value)}"
            if abs(p.left_out) < 0.005:
                said.append(f"{what} changes nothing beside the others.")
            elif math.isinf(p.left_out):
                sure = "certain" if p.left_out > 0 else "impossible"
                said.append(f"{what} makes it {sure}.")
            else:
                speaks = "for" if p.left_out > 0 else "against"
                ratio = math.exp(min(abs(p.left_out), 700.0))
                said.append(
                    f"{what} speaks {speaks} it: odds {'×' if p.left_out > 0 else '÷'} {ratio:.3g}."
                )
        return said

    def plot(self) -> Drawing:
        """The way from the prior to the answer, one step for each piece of evidence."""
        return doors.plot_explanation(self)

    def __repr__(self) -> str:
        return "\n".join([self.title, *(f"  {line}" for line in self.words())])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td style='text-align:left'>{html.escape(printable(p.name))} = "
            f"{html.escape(printable(p.value))}</td><td>{p.left_out:+.3f}</td>"
            f"<td>{p.in_order:+.3f}</td><td>{p.after:.4f}</td></tr>"
            for p in self.pieces
        )
        return (
            f"<table><caption style='text-align:left'>{html.escape(self.title)}</caption>"
            "<tr><th>evidence</th><th>log-odds, left out</th><th>in order</th><th>then</th></tr>"
            f"{rows}</table>"
        )


def explain_by(
    ask: Callable[[ByName[Cell]], Posterior],
    target: Label,
    row: Cell,
    known: Iterable[Label],
    state: Label = None,
    order: object = "given",
) -> Explanation:
    """Ask for the target with all evidence, without each piece, and with one more after another."""
    evidence = read_row(row, known)
    told = evidence.pop(target, None)  # a row of a table may hold what is explained
    whole, nothing = ask(evidence), ask({})
    labels = whole.states[0]
    wanted = told if state is None else state
    if wanted is not None and wanted not in labels:
        raise UnknownNameError(f"state of {target!r}", wanted, labels)
    place = int(np.argmax(whole.table)) if wanted is None else labels.index(wanted)
    without = {
        n: _odds(ask({k: v for k, v in evidence.items() if k != n}), place) for n in evidence
    }
    full = _odds(whole, place)
    left_out = {name: _between(full, own) for name, own in without.items()}
    before, seen, pieces = nothing, dict[Label, Cell](), []
    for name in _ordered(evidence, left_out, order):
        seen[name] = evidence[name]
        after = whole if len(seen) == len(evidence) else ask(seen)
        pieces.append(
            Moved(
                name,
                evidence[name],
                left_out[name],
                _between(_odds(after, place), _odds(before, place)),
                float(before.table[place]),
                float(after.table[place]),
            )
        )
        before = after
    prior, found = float(nothing.table[place]), float(whole.table[place])
    return Explanation(target, labels[place], prior, found, tuple(pieces))


def explain_tables(
    model: Given, target: Names, row: Cell, *, state: Label = None, order: object = "given"
) -> Explanation:
    """The explanation by a model whose tables are given."""
    model.graph.index(target)

    def ask(evidence: ByName[Cell]) -> Posterior:
        found = model.query(target, evidence)
        assert isinstance(found, Posterior)
        return found

    return explain_by(ask, target, row, model.names, state, order)


def sensitivity_of_tables(
    model: Given,
    target: Names,
    evidence: ByName[Cell] | None = None,
    *,
    state: Label = None,
    of: Names | None = None,
) -> Sensitivity:
    """The sensitivities of a model whose tables are given."""
    if not model.graph.directed:
        raise GraphError(
            "sensitivities are by the cells of tables P(variable | parents), got an undirected "
            "graph (--). Direct it."
        )
    answers = TableAnswers(model.graph, model.cpts, state_names=model.state_names)
    given = read_row(evidence or {}, model.names)
    return sensitivity_of(answers, target, given, state, of)


def _ordered(evidence: ByName[Cell], left_out: ByName[float], order: Given) -> list[Cell]:
    if isinstance(order, str) and order == "given":
        return list(evidence)
    if isinstance(order, str) and order == "strength":
        return sorted(evidence, key=lambda name: -abs(left_out[name]))
    listed = [] if isinstance(order, str) else list(order)
    if sorted(map(repr, listed)) != sorted(map(repr, evidence)):
        raise EvidenceError(
            f"expected order to be one of {', '.join(map(repr, ORDERS))}, or a list of all "
            f"variables of the evidence, {list(evidence)}, got {order!r:.80}."
        )
    return listed


def _odds(answer: Posterior, place: int) -> float:
    """log p / Σ of the others: no digits are lost where p is almost one."""
    others = float(np.delete(answer.table, place).sum())
    p = float(answer.table[place])
    if others <= 0:
        return math.inf
    return -math.inf if p <= 0 else math.log(p) - math.log(others)


def _log_odds(p: float) -> float:
    if p >= 1:
        return math.inf
    return -math.inf if p <= 0 else math.log(p) - math.log1p(-p)


def _between(after: float, before: float) -> float:
    """after - before; what is certain anyway is not moved."""
    return 0.0 if after == before else after - before
