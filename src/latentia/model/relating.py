"""relate: outcomes of latent classes after the fact, corrected for errors of assignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from latentia.assess.report import aligned
from latentia.assess.three_steps import (
    Estimates,
    assigned_shares,
    corrected_weights,
    likely_means,
    likely_shares,
    misclassification,
    wald_test,
    weighted_estimates,
)
from latentia.data.columns.column import Column
from latentia.data.columns.values import check_finite
from latentia.data.sources.engine import OneBlock
from latentia.data.sources.table import Table
from latentia.data.sources.table_rows import WEIGHT, TableRows, discover_columns, open_rows
from latentia.errors import DataError, UnknownNameError
from latentia.spelling import printable
from latentia.typing import Array, ByName, Cell, Foreign, Given, Label, TableLike, WeightLike

if TYPE_CHECKING:
    from latentia.model.latent_uses import LatentUses

CORRECTIONS = ("BCH", "ML", None)
ASSIGNMENTS = ("modal", "proportional")
FEWEST = 2  # rows that have an outcome


@final
@dataclass(frozen=True, slots=True)
class Outcome:
    """One outcome in every class, and whether classes differ in it."""

    name: Label
    states: tuple[Cell, ...] | None  # None: a number, of which means are told
    estimates: Estimates
    rows: int  # that have the outcome
    chi2: float  # of all classes being alike (Wald)
    freedom: int
    p_value: float


@final
@dataclass(frozen=True, slots=True)
class Relation:
    """What outcomes are like in the classes of a latent: estimates ± errors, and tests."""

    latent: Label
    classes: tuple[Cell, ...]
    outcomes: tuple[Outcome, ...]
    correction: str | None
    assignment: str
    misclassification: Array  # P(assigned | class)

    def __getitem__(self, name: Label) -> Outcome:
        for outcome in self.outcomes:
            if outcome.name == name:
                return outcome
        raise UnknownNameError("outcome", name, [o.name for o in self.outcomes])

    def to_dict(self) -> list[dict[str, Cell]]:
        """One dict for each outcome, state and class."""
        found = []
        for o in self.outcomes:
            for j, state in enumerate(o.states or ("mean",)):
                for c, label in enumerate(self.classes):
                    estimate = float(o.estimates.values[c, j])
                    error = float(o.estimates.errors[c, j])
                    found.append(
                        {"outcome": o.name, "state": state, str(self.latent): label,
                         "estimate": estimate, "error": error, "p_value": o.p_value}
                    )  # fmt: skip
        return found

    def to_frame(self) -> Foreign:
        """One row for each outcome, state and class, as a pandas frame."""
        import pandas as pd

        return pd.DataFrame(self.to_dict())

    def __repr__(self) -> str:
        head = ["outcome", *(f"{printable(self.latent)}={c}" for c in self.classes), "differ? p"]
        rows = [tuple(head)]
        for o in self.outcomes:
            for j, state in enumerate(o.states or ("mean",)):
                shown = f"{printable(o.name)}: {printable(state)}"
                cells = [
                    f"{o.estimates.values[c, j]:.4g} ± {o.estimates.errors[c, j]:.2g}"
                    for c in range(len(self.classes))
                ]
                rows.append((shown, *cells, f"{o.p_value:.3g}" if j == 0 else ""))
        how = "no correction" if self.correction is None else f"{self.correction} correction"
        told = [f"three steps, {self.assignment} assignment, {how}", *aligned(rows)]
        if any(o.states and (o.estimates.values < 0).any() for o in self.outcomes):
            told.append("shares below 0: weights of BCH may be negative; correction='ML' has none")
        return "\n".join(told)


def relate_outcomes(
    model: LatentUses,
    latent: Label,
    X: TableLike,
    outcomes: Sequence[Label],
    correction: str | None,
    assignment: str,
    kinds: ByName[str] | None,
    sample_weight: WeightLike | None,
) -> Relation:
    """The three steps for every outcome, one by one."""
    if correction not in CORRECTIONS:
        raise UnknownNameError("correction", correction, list(CORRECTIONS))
    if assignment not in ASSIGNMENTS:
        raise UnknownNameError("assignment", assignment, ASSIGNMENTS)
    names = _outcome_names(model, outcomes)
    rows = open_rows(X, None, sample_weight)
    if not isinstance(rows.engine, OneBlock):
        raise DataError(
            f"relate reads tables in memory, got {type(X).__name__}. Read its columns into a frame."
        )
    for name in names:
        if name not in rows.names:
            raise UnknownNameError("column", name, rows.names)
    table = rows.engine.table
    weight = _weights(rows, table)
    asking = model._asking_latent(latent, "error")
    p = np.stack(list(asking.memberships(table).values()), axis=1)
    columns = discover_columns(rows.look(names), names, kinds)
    assigned = assigned_shares(p, assignment == "modal")
    told = [_one(c, table, p, assigned, weight, correction) for c in columns]
    D = misclassification(p, assigned, weight)
    return Relation(latent, asking.column.labels, tuple(told), correction, assignment, D)


def _outcome_names(model: LatentUses, outcomes: Given) -> list[Label]:
    names = [outcomes] if isinstance(outcomes, str) else list(outcomes)
    if not names:
        raise DataError("expected the names of outcomes, got none.")
    inside = [name for name in names if name in [c.name for c in model.columns_]]
    if inside:
        raise DataError(
            f"{inside[0]!r} is a column of the model, which has told its classes already: see "
            "cpts_. Leave it out of the graph, or of the outcomes."
        )
    return names


def _weights(rows: TableRows, table: Table) -> Array:
    if rows.weight is None:
        return np.ones(table.length)
    return np.asarray(table.column(rows.weight if rows.weight != WEIGHT else WEIGHT).cells, float)


def _one(
    column: Column, table: Table, p: Array, assigned: Array, weight: Array, correction: str | None
) -> Outcome:
    """One outcome, over the rows that have it."""
    values = table.column(column.name)
    there = np.ones(table.length, dtype=bool)
    if values.missing is not None:
        there &= ~np.asarray(values.missing, dtype=bool)
    codes = None if column.continuous else np.asarray(column.place(values))
    if codes is not None:
        there &= codes >= 0
    check_finite(values, column.name)
    if there.sum() < FEWEST:
        raise DataError(f"expected rows with a value in {column.name!r}, got {there.sum()}.")
    numbers = np.asarray(values.cells[there], dtype=float) if codes is None else None
    if numbers is not None:
        there[np.flatnonzero(there)[np.isnan(numbers)]] = False
        numbers = numbers[~np.isnan(numbers)]
    own, w = assigned[there], weight[there]
    if correction == "ML":
        log_D = np.log(np.maximum(misclassification(p, assigned, weight), 1e-15))
        log_assigned = own @ log_D.T  # log P(assigned | class), (n, classes)
        share = np.log(np.average(p, axis=0, weights=weight))
        if numbers is not None:
            found = likely_means(numbers, log_assigned, share, w)
        else:
            assert codes is not None
            found = likely_shares(codes[there], column.cells, log_assigned, share, w)
    else:
        shares = own if correction is None else corrected_weights(p, assigned, weight)[there]
        if numbers is not None:
            Y = numbers[:, None]
        else:
            assert codes is not None
            Y = np.eye(column.cells)[codes[there]]
        found = weighted_estimates(shares, Y, w)
    states = None if numbers is not None else tuple(column.labels)
    return Outcome(column.name, states, found, int(there.sum()), *wald_test(found))
