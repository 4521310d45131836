"""What a model answers for a block of rows, as columns by name: engines run it where rows are.

`Asking` is all that travels: operators, columns, and what to do with cells that are no states.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias, final

import numpy as np
from numpy.typing import DTypeLike

from latentia.announcing import note
from latentia.data.columns.column import Column
from latentia.data.columns.labels import joint_labels
from latentia.data.columns.masses import quantiles
from latentia.data.columns.values import plain, row_of
from latentia.data.sources.engine import row_weights
from latentia.data.sources.table import Table
from latentia.errors import (
    ImpossibleRowWarning,
    RepairWarning,
    UnknownNameError,
    UnknownStateWarning,
)
from latentia.inference.many_rows import (
    Asked,
    Pooling,
    every_column,
    in_precision,
    one_column,
    read_asked,
    row_scores,
)
from latentia.inference.operators import Operators
from latentia.spelling import shortened
from latentia.typing import Array, Bools, ByName, Cell, CellArray, Label

SCORE = "log_probability"
UNKNOWN = ("error", "missing", "warn")  # what becomes of cells that are no states

Found: TypeAlias = ByName[CellArray]


@final
@dataclass(frozen=True, slots=True)
class Noted:
    """What is to be told of scores; `+` joins blocks, wherever they were scored."""

    unknown: tuple[tuple[Label, int, Cell], ...] = ()  # column, how many of its cells, the first
    impossible: int = 0
    first: str = ""  # the first impossible row
    repaired: int = 0

    def __add__(self, other: Noted) -> Noted:
        odd = {name: (count, first) for name, count, first in self.unknown}
        for name, count, first in other.unknown:
            before, earlier = odd.get(name, (0, first))
            odd[name] = (before + count, earlier)
        return Noted(
            tuple((name, *each) for name, each in odd.items()),
            self.impossible + other.impossible,
            self.first or other.first,
            self.repaired + other.repaired,
        )

    def tell(self) -> None:
        note_unknown(self.unknown)
        _note_impossible(self.impossible, self.first)
        note_repaired(self.repaired)


@final
@dataclass(frozen=True, slots=True)
class ScoreSum:
    """Σ w log P(row), Σ w, and rows that weigh something."""

    log: float
    weight: float
    rows: int
    noted: Noted

    def __add__(self, other: ScoreSum) -> ScoreSum:
        return ScoreSum(
            self.log + other.log,
            self.weight + other.weight,
            self.rows + other.rows,
            self.noted + other.noted,
        )


@final
@dataclass(frozen=True, slots=True)
class Asking:
    """A model as it is asked about rows."""

    operators: Operators
    columns: tuple[Column, ...]
    unknown: str = "error"
    pool: Pooling | None = None  # beside the operators, where one column is asked for

    def __post_init__(self) -> None:
        check_unknown(self.unknown)

    def using(self, operators: Operators) -> Asking:
        """The same questions to other operators, without words."""
        quiet = "missing" if self.unknown == "warn" else self.unknown
        return replace(self, operators=operators, unknown=quiet, pool=None)

    def in_precision(self, dtype: DTypeLike | None) -> Asking:
        return replace(self, operators=in_precision(self.operators, dtype))

    def read(self, table: Table, without: int | None = None) -> Asked:
        """The evidence of a block."""
        asked = self._evidence(table, without)
        if self.unknown == "warn":
            note_unknown(asked.unknown)
        return asked

    def _evidence(self, table: Table, without: int | None = None) -> Asked:
        return read_asked(self.columns, table, without, self.unknown != "error")

    def one(self, place: int, table: Table) -> Found:
        """Probabilities of a column's states, or its mean and quantiles, by name."""
        asked = self.read(table, place)
        found = one_column(self.operators, self.columns, asked, place, summary, self.pool)
        note_impossible(found.impossible, table.first)
        return dict(zip(self.columns[place].summary_names, found.values[0], strict=True))

    def everything(self, table: Table) -> Found:
        """Probabilities of the states of all discrete columns, named ``column=state``."""
        found = every_column(self.operators, self.columns, self.read(table), None, self.pool)
        note_impossible(found.impossible, table.first)
        return {
            label: found.values[i][k]
            for i, labels in enumerate(joint_labels(self.columns))
            for k, label in enumerate(labels)
        }

    def all_columns(self, table: Table) -> dict[Label, Found]:
        """What `one` tells, of every column in one look."""
        found = every_column(self.operators, self.columns, self.read(table), summary, self.pool)
        note_impossible(found.impossible, table.first)
        return {
            c.name: dict(zip(c.summary_names, c.spelled(values), strict=True))
            for c, values in zip(self.columns, found.values, strict=True)
        }

    def best(self, place: int, table: Table) -> Found:
        """The most probable state of a column, or its mean."""
        asked = self.read(table, place)
        found = one_column(self.operators, self.columns, asked, place, best_value, self.pool)
        note_impossible(found.impossible, table.first)
        column = self.columns[place]
        return {column.name: column.answers(found.values[0][0])}

    def spread(self, place: int, levels: Sequence[float], table: Table) -> Found:
        """Quantiles of a continuous column."""

        def reduce(column: Column, p: Array) -> Array:
            return quantiles(column, p, levels)  # type: ignore[arg-type]

        asked = self.read(table, place)
        found = one_column(self.operators, self.columns, asked, place, reduce, self.pool)
        note_impossible(found.impossible, table.first)
        told = self.columns[place].spelled(found.values[0])
        return {f"{q:g}": told[j] for j, q in enumerate(levels)}

    def filled(self, table: Table) -> Found:
        """The columns with their missing cells filled in, given the present ones of the row."""
        found = every_column(self.operators, self.columns, self.read(table), best_value, self.pool)
        note_impossible(found.impossible, table.first)
        best = (values[0] for values in found.values)
        return filled_cells(self.columns, best, table, self.unknown != "error")

    def scores(self, table: Table) -> Found:
        """log P(present cells) of every row; -inf where impossible."""
        scores, noted = self._scored(table)
        noted.tell()
        return {SCORE: scores}

    def _scored(self, table: Table) -> tuple[Array, Noted]:
        asked = self._evidence(table)
        found = row_scores(self.operators, self.columns, asked, table)
        odd = asked.unknown if self.unknown == "warn" else ()
        count = int(np.count_nonzero(found.impossible))
        first = row_of(table.first, int(np.argmax(found.impossible))) if count else ""
        return found.logs, Noted(odd, count, first, int(found.repaired.sum()))

    def score_sum(self, weight: Label | None, table: Table) -> ScoreSum | None:
        """Σ log P(present cells) over a block, what it weighs, and what is to be told of it."""
        if table.length == 0:
            return None
        (scores, noted), own = self._scored(table), row_weights(weight, table)
        if own is not None:
            scores, own = scores[own > 0], own[own > 0]
        total = float(scores.sum()) if own is None else float(scores @ own)
        counted = float(len(scores)) if own is None else float(own.sum())
        return ScoreSum(total, counted, len(scores), noted)

    def everything_kinds(self) -> dict[Label, type]:
        """Names and types of what `everything` finds."""
        return {label: float for labels in joint_labels(self.columns) for label in labels}

    def one_kinds(self, place: int) -> dict[Label, type]:
        """Names and types of what `one` finds."""
        return dict.fromkeys(self.columns[place].summary_names, self.columns[place].summary_type)


def filled_cells(
    columns: Iterable[Column], best: Iterable[Array], table: Table, lenient: bool
) -> Found:
    """Columns of a table with the best values in their holes; of what it lacks, these alone.

    Cells that are no states are holes where that is allowed.
    """
    out: dict[Label, CellArray] = {}
    for column, guess in zip(columns, best, strict=True):
        if column.name not in table.names:
            out[column.name] = column.answers(column.settled(guess))
            continue
        values = table.column(column.name)
        known = column.known(values)[0] if lenient else values
        out[column.name] = column.filled(known, guess)
    return out


def check_unknown(unknown: str) -> None:
    """What becomes of cells that are no states must be one of the words for it."""
    if unknown not in UNKNOWN:
        raise UnknownNameError("unknown", unknown, UNKNOWN)


def best_value(column: Column, p: Array) -> Array:
    """The posterior mean of a continuous column, the most probable code of a discrete one."""
    return column.best(p)[None]


def summary(column: Column, p: Array) -> Array:
    """Probabilities of states; mean and quantiles of a continuous column."""
    return column.summary(p)


def note_unknown(unknown: Iterable[tuple[Label, int, Cell]]) -> None:
    """Columns, how many of their cells hold no state, and the first of them."""
    for name, count, first in unknown:
        note(UnknownStateWarning, name, count, first, partial(_unknown_text, name))


def _unknown_text(name: Label, count: int, first: object) -> str:
    return (
        f"{count} cell(s) of {name!r} hold no state that was learned, such as "
        f"{shortened(plain(first))}; they count as missing. Map them to known states, or ask with "
        "unknown='missing'."
    )


def note_impossible(impossible: Bools, first: int | None) -> None:
    """`first` is the row where these begin in their table."""
    count = int(np.count_nonzero(impossible))
    _note_impossible(count, row_of(first, int(np.argmax(impossible))) if count else "")


def _note_impossible(count: int, row: str) -> None:
    if count:
        note(ImpossibleRowWarning, None, count, row, _impossible_text)


def _impossible_text(count: int, row: str) -> str:
    return (
        f"{count} row(s) have probability zero under the model (values never seen, or never "
        f"seen together), the first is {row}; they are answered by the marginals, and "
        "scored -inf. Make the odd cell missing to marginalise it."
    )


def note_repaired(rows: int) -> None:
    if rows:
        note(RepairWarning, None, rows, None, _repaired_text)


def _repaired_text(rows: int, _: object) -> str:
    return (
        f"the signed model gave {rows} row(s) no positive probability; their columns stand in as "
        "if they were independent. More rows, or a learner with a valid distribution, would help."
    )
