"""What a model answers for a block of rows, as columns by name: engines run it where rows are.

`Asking` is all that travels: operators, columns, and what to do with cells that are no states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, final

import numpy as np

from latentia.announcing import warn
from latentia.data.columns.continuous import Column, ContinuousColumn, place_cells, to_values
from latentia.data.columns.discrete import decode
from latentia.data.moments import Moments
from latentia.data.sources.engine import row_weights
from latentia.data.sources.table import Table
from latentia.errors import (
    ImpossibleRowWarning,
    RepairWarning,
    UnknownNameError,
    UnknownStateWarning,
)
from latentia.inference.grid_density import means, quantiles
from latentia.inference.many_rows import (
    Asked,
    every_column,
    in_precision,
    one_column,
    read_asked,
    row_scores,
    without_odd,
)
from latentia.inference.operators import Operators
from latentia.typing import Array, Bools, Label

SCORE = "log_probability"
UNKNOWN = ("error", "missing", "warn")  # what becomes of cells that are no states
SHOWN = (0.05, 0.5, 0.95)  # quantiles of a continuous column

Found: TypeAlias = Mapping[Any, np.ndarray[Any, Any]]


@final
@dataclass(frozen=True, slots=True)
class Asking:
    """A model as it is asked about rows."""

    operators: Operators
    columns: tuple[Column, ...]
    unknown: str = "error"

    def __post_init__(self) -> None:
        if self.unknown not in UNKNOWN:
            raise UnknownNameError("unknown", self.unknown, UNKNOWN)

    def using(self, operators: Operators) -> Asking:
        """The same questions to other operators, without words."""
        quiet = "missing" if self.unknown == "warn" else self.unknown
        return replace(self, operators=operators, unknown=quiet)

    def in_precision(self, dtype: Any) -> Asking:
        return replace(self, operators=in_precision(self.operators, dtype))

    def read(self, table: Table, without: int | None = None) -> Asked:
        """The evidence of a block."""
        asked = read_asked(self.columns, table, without, self.unknown != "error")
        if self.unknown == "warn":
            note_unknown(asked)
        return asked

    def one(self, place: int, table: Table) -> Found:
        """Probabilities of a column's states, or its mean and quantiles, by name."""
        asked = self.read(table, place)
        found = one_column(self.operators, self.columns, asked, place, summary)
        note_impossible(found.impossible)
        return dict(zip(summary_names(self.columns[place]), found.values[0], strict=True))

    def everything(self, table: Table) -> Found:
        """Probabilities of the states of all discrete columns, named ``column=state``."""
        found = every_column(self.operators, self.columns, self.read(table))
        note_impossible(found.impossible)
        return {
            name: found.values[i][k]
            for i, c in enumerate(self.columns)
            if not isinstance(c, ContinuousColumn)
            for k, name in enumerate(state_columns(c))
        }

    def all_columns(self, table: Table) -> dict[Any, Found]:
        """What `one` tells, of every column in one look."""
        found = every_column(self.operators, self.columns, self.read(table), summary)
        note_impossible(found.impossible)
        return {
            c.name: dict(zip(summary_names(c), values, strict=True))
            for c, values in zip(self.columns, found.values, strict=True)
        }

    def best(self, place: int, table: Table) -> Found:
        """The most probable state of a column, or its mean."""
        asked = self.read(table, place)
        found = one_column(self.operators, self.columns, asked, place, best_value)
        note_impossible(found.impossible)
        column = self.columns[place]
        return {column.name: in_states(column, found.values[0][0])}

    def spread(self, place: int, levels: Sequence[float], table: Table) -> Found:
        """Quantiles of a continuous column."""

        def reduce(column: Column, p: Array) -> Array:
            return quantiles(column, p, levels)  # type: ignore[arg-type]

        asked = self.read(table, place)
        found = one_column(self.operators, self.columns, asked, place, reduce)
        note_impossible(found.impossible)
        return {f"{q:g}": found.values[0][j] for j, q in enumerate(levels)}

    def filled(self, table: Table) -> Found:
        """The columns with their missing cells filled in, given the present ones of the row."""
        found = every_column(self.operators, self.columns, self.read(table), best_value)
        note_impossible(found.impossible)
        out: dict[Any, np.ndarray[Any, Any]] = {}
        for i, c in enumerate(self.columns):
            best = in_states(c, found.values[i][0])
            if c.name in table.names:
                values = table.column(c.name)
                if self.unknown != "error":
                    values = without_odd(c, values)[0]
                if isinstance(c, ContinuousColumn):
                    x = to_values(values)
                    best = np.where(np.isnan(x), best, x)
                else:
                    codes = place_cells(c, values)
                    best = decode(c, np.where(codes < 0, found.values[i][0].astype(int), codes))
            out[c.name] = best
        return out

    def scores(self, table: Table) -> Found:
        """log P(present cells) of every row; -inf where impossible."""
        found = row_scores(self.operators, self.columns, self.read(table), table)
        note_impossible(found.impossible)
        note_repaired(int(found.repaired.sum()))
        return {SCORE: found.logs}

    def score_sum(self, weight: Label | None, table: Table) -> Moments | None:
        """Σ log P(present cells) over a block, and what it weighs."""
        if table.length == 0:
            return None
        scores, own = self.scores(table)[SCORE], row_weights(weight, table)
        if own is not None:
            scores, own = scores[own > 0], own[own > 0]
        total = float(scores.sum()) if own is None else float(scores @ own)
        counted = float(len(scores)) if own is None else float(own.sum())
        return Moments("scores", counted, len(scores), {"log": np.array([total])})

    def everything_kinds(self) -> dict[Any, type]:
        """Names and types of what `everything` finds."""
        return {
            name: float
            for c in self.columns
            if not isinstance(c, ContinuousColumn)
            for name in state_columns(c)
        }

    def one_kinds(self, place: int) -> dict[Any, type]:
        """Names and types of what `one` finds."""
        return dict.fromkeys(summary_names(self.columns[place]), float)


def best_value(column: Column, p: Array) -> Array:
    """The posterior mean of a continuous column, the most probable code of a discrete one."""
    if isinstance(column, ContinuousColumn):
        return means(column, p)[None]
    return np.asarray(p.argmax(axis=0)[None], dtype=float)


def in_states(column: Column, best: Array) -> Any:
    """Means as they are, codes as states."""
    return best if isinstance(column, ContinuousColumn) else decode(column, best.astype(int))


def summary(column: Column, p: Array) -> Array:
    """Probabilities of states; mean and quantiles of a continuous column."""
    if isinstance(column, ContinuousColumn):
        return np.concatenate([means(column, p)[None], quantiles(column, p, SHOWN)])
    return p


def summary_names(column: Column) -> Sequence[Any]:
    """Names of what `summary` tells."""
    if isinstance(column, ContinuousColumn):
        return ("mean", *(f"{q:g}" for q in SHOWN))
    return column.states


def state_columns(column: Column) -> list[str]:
    """``column=state`` for every state."""
    return [f"{column.name}={state}" for state in summary_names(column)]


def answer_kind(column: Column) -> type:
    """The type of a column's values."""
    if isinstance(column, ContinuousColumn):
        return float
    kinds = {type(s) for s in column.states}
    if kinds <= {bool}:
        return bool
    if kinds <= {int}:
        return int
    return float if kinds <= {int, float} else str


def note_unknown(asked: Asked) -> None:
    for name, count, first in asked.unknown:
        warn(
            f"{count} cell(s) of {name!r} hold no state that was learned, such as {first!r}; they "
            "count as missing. Map them to known states, or ask with unknown='missing'.",
            UnknownStateWarning,
        )


def note_impossible(impossible: Bools) -> None:
    count = int(np.count_nonzero(impossible))
    if count:
        row = int(np.argmax(impossible))
        warn(
            f"{count} row(s) have probability zero under the model (values never seen, or never "
            f"seen together), the first is row {row} of its block; they are answered by the "
            "marginals, and scored -inf. Make the odd cell missing to marginalise it.",
            ImpossibleRowWarning,
        )


def note_repaired(rows: int) -> None:
    if rows:
        warn(
            f"the signed model gave {rows} row(s) no positive probability; their columns stand in "
            "as if they were independent. More rows, or a learner with a valid distribution, "
            "would help.",
            RepairWarning,
        )
