"""How an answer depends on the cells of tables: exact, as a ratio of two straight lines.

P(e) is linear in each row of a table. With θ moved by t, and the rest of its row scaled so that it
still sums to one (d is that direction, d_x = 1 at θ itself),

    p(t) = P(s, e; t) / P(e; t) = (p + a t) / (1 + b t),   dp/dt at 0 = a - p b,

a = Σ_x d_x ∂P(s, e)/∂θ_x / P(e) and b the same of P(e). A derivative by a cell is the joint
probability of its family and the evidence where the table is uniform, times its number of states,
so that cells which are zero have theirs, too (Castillo, Gutiérrez and Hadi; Darwiche).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.errors import EvidenceError, UnknownNameError
from latentia.exact.reading_evidence import StateCodes, labels_of, read_codes
from latentia.exact.table_answers import TableAnswers
from latentia.spelling import printable, printable_evidence
from latentia.typing import Array, ByName, Cell, Given, Label, Names

MOST_CELLS = 10**5
SHOWN = 10


@final
@dataclass(frozen=True, slots=True)
class TableCell:
    """P(variable = state | parents) and what the answer makes of it."""

    variable: Label
    parents: Mapping[Label, Hashable]
    state: Hashable
    value: float
    slope: float  # of the answer by this cell, the rest of its row in proportion
    answer: float
    above: float  # a: of the numerator
    below: float  # b: of the denominator

    def at(self, value: float) -> float:
        """The answer if this cell were `value`, exactly."""
        if not 0 <= value <= 1:
            raise EvidenceError(f"expected a probability between 0 and 1, got {value!r}.")
        move = value - self.value
        whole = 1 + self.below * move
        if whole <= 1e-300:
            raise EvidenceError(
                f"with {self.title} = {value:g} the evidence is impossible, so nothing follows."
            )
        return min(max((self.answer + self.above * move) / whole, 0.0), 1.0)

    def reaches(self, answer: float) -> float | None:
        """The value of this cell at which the answer is `answer`; None if none does."""
        rise = self.above - answer * self.below
        if rise == 0:
            return self.value if math.isclose(self.answer, answer) else None
        value = self.value + (answer - self.answer) / rise
        return value if 0 <= value <= 1 else None

    @property
    def title(self) -> str:
        own = f"{printable(self.variable)}={printable(self.state)}"
        given = printable_evidence(self.parents)
        return f"P({own} | {given})" if given else f"P({own})"


@final
@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Every cell of the tables, those first on which the answer depends most."""

    target: Label
    state: Hashable
    answer: float
    cells: tuple[TableCell, ...]

    def frame(self) -> dict[str, list[Cell]]:
        """A row for each cell, as columns for any data frame."""
        return {
            "variable": [c.variable for c in self.cells],
            "state": [c.state for c in self.cells],
            "parents": [printable_evidence(c.parents) for c in self.cells],
            "value": [c.value for c in self.cells],
            "slope": [c.slope for c in self.cells],
        }

    def cell(self, variable: Label, state: Label, parents: ByName[Cell] | None = None) -> TableCell:
        """The cell P(variable = state | parents)."""
        for found in self.cells:
            if (found.variable, found.state) == (variable, state) and dict(found.parents) == dict(
                parents or {}
            ):
                return found
        known = [c.title for c in self.cells if c.variable == variable]
        raise UnknownNameError("cell", (variable, state, dict(parents or {})), known[:20])

    def __repr__(self) -> str:
        head = f"{printable(self.target)}={printable(self.state)}: {self.answer:.4f}; by its cells"
        width = max((len(c.title) for c in self.cells[:SHOWN]), default=0)
        lines = [
            f"  {c.title.ljust(width)}  {c.value:.4f}  slope {c.slope:+.4f}"
            for c in self.cells[:SHOWN]
        ]
        more = len(self.cells) - SHOWN
        return "\n".join([head, *lines, *([f"  … and {more} more"] if more > 0 else [])])


def sensitivity_of(
    answers: TableAnswers,
    target: Names,
    evidence: ByName[Cell] | None = None,
    state: Label = None,
    of: Names | None = None,
) -> Sensitivity:
    """How P(target = state | evidence) depends on every cell of the tables (of these variables)."""
    y, codes = answers.graph.index(target), read_codes(answers, evidence, None)[0]
    if len(codes) != 1 or codes[0, y] >= 0:
        raise EvidenceError(
            f"expected one row of evidence that leaves {target!r} open, got {evidence!r:.80}."
        )
    labels = labels_of(answers, y)
    shares = answers.joint(target, codes)[0]
    if state is not None and state not in labels:
        raise UnknownNameError(f"state of {target!r}", state, labels)
    s = int(np.argmax(shares)) if state is None else labels.index(state)
    wanted = _variables(answers, of)
    found = [cell for v in wanted for cell in _cells(answers, v, codes, (y, s), float(shares[s]))]
    found.sort(key=lambda cell: -abs(cell.slope))
    return Sensitivity(target, labels[s], float(shares[s]), tuple(found))


def _variables(answers: TableAnswers, of: Given) -> Sequence[int]:
    if of is None:
        wanted = list(range(len(answers.names)))
    elif of in answers.names:
        wanted = [answers.graph.index(of)]
    else:
        names = [of] if isinstance(of, str) else list(of)
        wanted = [answers.graph.index(name) for name in names]
    size = sum(answers.tables[v].size for v in wanted)
    if size > MOST_CELLS:
        raise EvidenceError(
            f"the tables have {size:,} cells, of which at most {MOST_CELLS:,} are looked at. Name "
            "some variables: of=[...]."
        )
    return wanted


def _cells(
    answers: TableAnswers, v: int, codes: StateCodes, asked: tuple[int, int], p: float
) -> list[TableCell]:
    """The cells of one table."""
    table, family = answers.tables[v], (*answers.graph.parents()[v], v)
    uniform = TableAnswers(
        answers.graph, answers.cpts | {answers.names[v]: np.full_like(table, 1 / table.shape[-1])}
    )
    log = float(answers.log_evidence(codes)[0])
    with_state = codes.copy()
    with_state[:, asked[0]] = asked[1]
    of_evidence = _by_cells(uniform, family, codes, log)
    of_both = _by_cells(uniform, family, with_state, log)
    d = directions(table)
    a, b = (np.einsum("...xz,...z->...x", d, g) for g in (of_both, of_evidence))
    names = [answers.names[u] for u in family]
    spelled = [labels_of(answers, u) for u in family]
    found = []
    for place in itertools.product(*(range(size) for size in table.shape)):
        labels = [listed[k] for listed, k in zip(spelled, place, strict=True)]
        parents = dict(zip(names[:-1], labels[:-1], strict=True))
        slope = float(a[place] - p * b[place])
        found.append(
            TableCell(
                names[-1],
                parents,
                labels[-1],
                float(table[place]),
                slope,
                p,
                float(a[place]),
                float(b[place]),
            )
        )
    return found


def _by_cells(uniform: TableAnswers, family: Sequence[int], codes: StateCodes, log: float) -> Array:
    """∂P(evidence)/∂θ of every cell, over exp(log): shaped as the table."""
    own = float(uniform.log_evidence(codes)[0])
    shape = tuple(uniform.states[u] for u in family)
    if own == -math.inf:
        return np.zeros(shape)
    joint = uniform.joint([uniform.names[u] for u in family], codes)[0]
    return np.asarray(joint * shape[-1] * math.exp(own - log))


def directions(table: Array) -> Array:
    """For each cell x of a row, how all its cells z move with it: (…, x, z)."""
    count = table.shape[-1]
    rest = 1.0 - table[..., :, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = -table[..., None, :] / rest
    alone = -1.0 / max(count - 1, 1)  # of a row with one certain state the others grow alike
    share = np.where(rest > 1e-12, share, alone)
    own = np.eye(count)
    return np.asarray(np.where(own > 0, float(count > 1), share))
