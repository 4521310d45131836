"""Rows as a network of arrows is asked about them: columns, latents, scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import DTypeLike

from latentia.data.columns.column import Column
from latentia.data.columns.discrete import DiscreteColumn
from latentia.data.columns.labels import joint_labels
from latentia.data.columns.masses import quantiles
from latentia.data.sources.engine import row_weights
from latentia.data.sources.table import Table
from latentia.exact.arrow_answers import log_joint, posterior_shares
from latentia.inference.row_answers import (
    SCORE,
    Found,
    Noted,
    ScoreSum,
    check_unknown,
    filled_cells,
    note_impossible,
    note_unknown,
)
from latentia.model.arrow_learning import ArrowModel
from latentia.typing import Array, ByName, Label


@final
@dataclass(frozen=True, slots=True)
class ArrowAsking:
    """A model of arrows as it is asked about rows; places count columns, not variables."""

    model: ArrowModel
    unknown: str = "error"

    def __post_init__(self) -> None:
        check_unknown(self.unknown)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.model.columns

    def in_precision(self, dtype: DTypeLike | None) -> ArrowAsking:
        return self

    def one_kinds(self, place: int) -> dict[Label, type]:
        """Names and types of what `one` finds."""
        return dict.fromkeys(self.columns[place].summary_names, float)

    def everything_kinds(self) -> dict[Label, type]:
        """Names and types of what `everything` finds."""
        return {label: float for labels in joint_labels(self.columns) for label in labels}

    def read(self, table: Table) -> Array:
        """(rows, variables): codes and standardised values, NaN where missing."""
        graph = self.model.graph
        cells = np.full((table.length, len(graph.names)), np.nan)
        for v, column in zip(graph.observed, self.columns, strict=True):
            if column.name not in table.names:
                continue
            values = table.column(column.name)
            if self.unknown != "error":
                values, odd = column.known(values)
                if self.unknown == "warn" and odd.any():
                    first = values.cells[int(odd.argmax())]
                    note_unknown([(column.name, int(odd.sum()), first)])
            cells[:, v] = column.measured(values)
        return cells

    def shares(self, cells: Array, v: int, table: Table) -> Array:
        """P(variable | other present cells), (axis, rows); that of no cells for impossible rows."""
        rows = cells.copy()
        rows[:, v] = np.nan
        p, log = posterior_shares(log_joint(self.model.network, rows, (v,)))
        lost = ~np.isfinite(log)
        if lost.any():
            blank = np.full((1, cells.shape[1]), np.nan)
            p[lost] = posterior_shares(log_joint(self.model.network, blank, (v,)))[0][0]
            note_impossible(lost, table.first)
        return p.T

    def _column(self, place: int, cells: Array, table: Table) -> Array:
        return self.shares(cells, self.model.graph.observed[place], table)

    def one(self, place: int, table: Table) -> Found:
        """Probabilities of a column's states, or its mean and quantiles, by name."""
        column = self.columns[place]
        found = column.spelled(column.summary(self._column(place, self.read(table), table)))
        return dict(zip(column.summary_names, found, strict=True))

    def everything(self, table: Table) -> Found:
        """Probabilities of the states of all discrete columns, named ``column=state``."""
        cells, found = self.read(table), {}
        for place, labels in enumerate(joint_labels(self.columns)):
            p = self._column(place, cells, table) if labels else np.zeros((0, table.length))
            found.update(dict(zip(labels, p, strict=False)))
        return found

    def all_columns(self, table: Table) -> dict[Label, Found]:
        """What `one` tells, of every column."""
        return {c.name: self.one(i, table) for i, c in enumerate(self.columns)}

    def best(self, place: int, table: Table) -> Found:
        """The most probable state of a column, or its mean."""
        column = self.columns[place]
        best = column.best(self._column(place, self.read(table), table))
        return {column.name: column.answers(best)}

    def spread(self, place: int, levels: Sequence[float], table: Table) -> Found:
        """Quantiles of a continuous column."""
        column = self.columns[place]
        p = self._column(place, self.read(table), table)
        found = column.spelled(quantiles(column, p, levels))  # type: ignore[arg-type]
        return {f"{q:g}": found[j] for j, q in enumerate(levels)}

    def filled(self, table: Table) -> Found:
        """The columns with their missing cells filled in, given the present ones of the row."""
        cells = self.read(table)
        best = (c.best(self._column(i, cells, table)) for i, c in enumerate(self.columns))
        return filled_cells(self.columns, best, table, self.unknown != "error")

    def scores(self, table: Table) -> Found:
        """log P(present cells | covariates) of every row; -inf where impossible."""
        return {SCORE: self._logs(table)}

    def _logs(self, table: Table) -> Array:
        cells = self.read(table)
        found = log_joint(self.model.network, cells, ())
        for v in self.model.graph.observed:
            found = found + self.model.unit_shift([v]) * ~np.isnan(cells[:, v])
        return np.asarray(found)

    def score_sum(self, weight: Label | None, table: Table) -> ScoreSum | None:
        """Σ log P(present cells | covariates) over a block, and what it weighs."""
        if table.length == 0:
            return None
        log, own = self._logs(table), row_weights(weight, table)
        w = np.ones(table.length) if own is None else own
        some = w > 0
        lost = int(np.isneginf(log[some]).sum())
        noted = Noted(impossible=lost)
        return ScoreSum(float(log[some] @ w[some]), float(w.sum()), int(some.sum()), noted)


@final
@dataclass(frozen=True, slots=True)
class ArrowLatent:
    """One latent of a network of arrows, as it is asked about rows."""

    asking: ArrowAsking
    column: DiscreteColumn

    def _shares(self, table: Table) -> Array:
        v = self.asking.model.graph.index(self.column.name)
        return self.asking.shares(self.asking.read(table), v, table)

    def memberships(self, table: Table) -> ByName[Array]:
        """P(state | present cells), by name of the state; (rows,) each."""
        return dict(zip(self.column.summary_names, self._shares(table), strict=True))

    def best(self, table: Table) -> Found:
        """The most probable state of every row."""
        return {self.column.name: self.column.answers(self._shares(table).argmax(axis=0))}
