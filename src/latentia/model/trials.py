"""How candidates are compared: by what they say of rows that they have not seen (design 6).

    candidates of a part of the rows ─> their losses on the rest ─> the one to be learned from all

A loss is -Σ_i log P̂(x_i | all other cells of the row), which signed models have as well as valid
ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from latentia.data.columns.column import is_present
from latentia.data.rows import Rows
from latentia.inference.answering import answer
from latentia.inference.evidence import around, read_evidence
from latentia.inference.operators import Operators
from latentia.inference.provenance import Choice
from latentia.typing import Array

VALID = ("refined", "tables")  # candidates that are distributions
HELD_OUT = 0.2  # of the rows
FEWEST = 20  # rows that can be compared on
CLEARLY = 2.0  # standard errors
BEATEN = 0.25  # … by which the marginals must be
ROUNDING = 1e-9  # of a loss
FLOOR = 1e-4  # of a probability: one surprise must not decide
BLOCK = 2**12


@final
@dataclass(frozen=True, slots=True)
class Trial:
    """What the candidates lose, learned from some rows, on others."""

    losses: Mapping[str, Array]  # candidate -> at every held-out row
    weight: Array  # of these rows
    learned_from: float  # rows
    left_out: Mapping[str, str] = field(default_factory=dict)  # candidate that was not made -> why


def decide(trials: Sequence[Trial]) -> Choice:
    """One choice by the held-out rows of all trials; candidates must have been made in each."""
    left_out = {name: why for trial in trials for name, why in trial.left_out.items()}
    names = [name for name in trials[0].losses if all(name in t.losses for t in trials)]
    losses = {name: np.concatenate([t.losses[name] for t in trials]) for name in names}
    weight = np.concatenate([t.weight for t in trials])
    learned_from = round(float(np.mean([t.learned_from for t in trials])))
    return prefer_refined(losses, weight, learned_from, left_out)


def prefer_refined(
    losses: Mapping[str, Array],
    weight: Array,
    learned_from: int,
    left_out: Mapping[str, str] | None = None,
) -> Choice:
    """The better of the refined network and tables, which are valid, unless others clearly are.

    The marginals, unless they are beaten by more than a part of a standard error: models of columns
    that have nothing to do with each other lose by several. A network that answers as they do (the
    states of its latents say the same) is called by their name; rounding must not tell.
    """
    means = {name: _mean(loss, weight) for name, loss in losses.items()}
    chosen = min(means, key=lambda name: means[name])
    valid = min((name for name in VALID if name in losses), key=means.__getitem__, default=None)
    if valid is not None and means[valid] < means["marginal"] + ROUNDING:
        gap = losses[valid] - losses[chosen]
        if means[valid] - means[chosen] <= CLEARLY * _error(gap, weight) + ROUNDING:
            chosen = valid
    gain = losses["marginal"] - losses[chosen]
    alike = np.abs(gain).max(initial=0.0) <= ROUNDING
    if alike or _mean(gain, weight) <= BEATEN * _error(gain, weight):
        chosen = "marginal"
    errors = {name: _error(loss - losses[chosen], weight) for name, loss in losses.items()}
    held_out = round(float(weight.sum()))
    return Choice(chosen, means, errors, held_out, learned_from, dict(left_out or {}))


def uncompared(why: str) -> Choice:
    """The closed form, taken without a trial."""
    return Choice("closed", {}, {}, 0, 0, {"marginal": why, "refined": why})


def incomparable(rows: float, deals: Sequence[tuple[Rows, Rows]]) -> str | None:
    """Why candidates cannot be compared, if so.

    The large part must tell something of every column, and there must be rows to judge by.
    """
    if rows < FEWEST:
        return f"too few rows to compare ({rows:g}, at least {FEWEST})"
    for large, held in deals:
        told = all(is_present(np.asarray(x)).any() for x in large.codes)
        if not held.total > 0 or not told:
            return "too few rows to compare: some column has values in held-out rows only"
    return None


def left_out_loss(operators: Operators, rows: Rows) -> Array:
    """-Σ_i log P̂(x_i | all other present cells), over the present cells of each row: (n,).

    Of a continuous column the mass that hat functions find at its position.
    """
    observed = operators.plan.graph.observed
    total = np.zeros(len(rows))
    for start in range(0, len(rows), BLOCK):
        codes = [c[start : start + BLOCK] for c in rows.codes]
        found = answer(operators, read_evidence(operators.plan, codes)).probabilities
        for v, x in zip(observed, codes, strict=True):
            cells, share = around(x, len(found[v]), len(x))
            p = np.concatenate([found[v], np.ones((1, len(x)))])  # a missing cell loses nothing
            at = sum(p[c, np.arange(len(x))] * w for c, w in zip(cells, share, strict=True))
            total[start : start + BLOCK] -= np.log(np.maximum(at, FLOOR))
    return total


def _mean(x: Array, weight: Array) -> float:
    return float(x @ weight / weight.sum())


def _error(x: Array, weight: Array) -> float:
    """Standard error of the mean of x over rows that count `weight` times."""
    total = float(weight.sum())
    spread = float((x - _mean(x, weight)) ** 2 @ weight) / max(total - 1.0, 1.0)
    return float(np.sqrt(spread / total))
