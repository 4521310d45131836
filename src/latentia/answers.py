"""Answers for blocks of rows, as columns by name: what engines run where their rows are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from latentia.batch import every_column, one_column, row_scores
from latentia.errors import DataError, UnknownNameError
from latentia.features.discrete import DiscreteColumn, decode
from latentia.frames.engine import Engine, row_weights
from latentia.frames.opening import open_question
from latentia.frames.table import Table
from latentia.moments import Moments
from latentia.operators import Operators
from latentia.typing import Label

__all__ = [
    "SCORE",
    "ask_best",
    "ask_everything",
    "ask_marginals",
    "ask_one",
    "ask_scores",
    "engine_of",
    "mean_score",
]

SCORE = "log_probability"

Found = Mapping[Any, np.ndarray[Any, Any]]
Columns = Sequence[DiscreteColumn]


def engine_of(X: Any, columns: Columns) -> Engine | None:
    """The engine whose rows are asked about; None: they are in memory."""
    known = [c.name for c in columns]
    engine = open_question(X, known)
    if engine is not None and not set(known) & set(engine.names):
        raise UnknownNameError(
            "column", next(iter(engine.names), None), known, "None of the model's columns is there."
        )
    return engine


def ask_one(engine: Engine, operators: Operators, columns: Columns, place: int) -> Any:
    """P(column | all other present cells), lazily."""
    kinds = dict.fromkeys(columns[place].states, float)
    work = partial(_one, operators, columns, place)
    return engine.answer(work, kinds, _there(engine, columns, place))


def ask_everything(engine: Engine, operators: Operators, columns: Columns) -> Any:
    """Those of all columns side by side, named ``column=state``."""
    kinds = {f"{c.name}={state}": float for c in columns for state in c.states}
    return engine.answer(
        partial(_everything, operators, columns), kinds, _there(engine, columns, None)
    )


def ask_marginals(engine: Engine, operators: Operators, columns: Columns) -> dict[Label, Any]:
    """One lazy table per column."""
    if engine.once:
        raise DataError(
            "these rows can be read only once, but marginals makes a table for each column. Use "
            "predict_proba(X), which has them all side by side."
        )
    return {c.name: ask_one(engine, operators, columns, i) for i, c in enumerate(columns)}


def ask_best(engine: Engine, operators: Operators, columns: Columns, place: int) -> Any:
    """The most probable state of a column given all other present cells, lazily."""
    column = columns[place]
    kinds = {column.name: _kind(column)}
    work = partial(_best, operators, columns, place)
    return engine.answer(work, kinds, _there(engine, columns, place))


def ask_scores(engine: Engine, operators: Operators, columns: Columns) -> Any:
    """log P(present cells) of every row, lazily, as a column of that name."""
    work = partial(_scores, operators, columns)
    return engine.answer(work, {SCORE: float}, _there(engine, columns, None))


def mean_score(
    engine: Engine, operators: Operators, columns: Columns, weight: Label | None
) -> float:
    """Mean log P(present cells) per row: a fold like any other."""
    wanted = [*_there(engine, columns, None), *([] if weight is None else [weight])]
    found = engine.fold(partial(_score_sum, operators, columns, weight), wanted)
    if found is None or not found.weight > 0:
        raise DataError("there are no rows to score, or their weights are all zero.")
    return float(found.sums["log"][0]) / found.weight


def _one(operators: Operators, columns: Columns, place: int, table: Table) -> Found:
    found = one_column(operators, columns, table, place)
    return {state: found[k] for k, state in enumerate(columns[place].states)}


def _everything(operators: Operators, columns: Columns, table: Table) -> Found:
    found = every_column(operators, columns, table)
    return {
        f"{c.name}={state}": found[i][k]
        for i, c in enumerate(columns)
        for k, state in enumerate(c.states)
    }


def _best(operators: Operators, columns: Columns, place: int, table: Table) -> Found:
    best = one_column(operators, columns, table, place).argmax(axis=0)
    return {columns[place].name: decode(columns[place], best)}


def _scores(operators: Operators, columns: Columns, table: Table) -> Found:
    return {SCORE: row_scores(operators, columns, table)[0]}


def _score_sum(
    operators: Operators, columns: Columns, weight: Label | None, table: Table
) -> Moments | None:
    if table.length == 0:
        return None
    scores, own = row_scores(operators, columns, table)[0], row_weights(weight, table)
    total = float(scores.sum()) if own is None else float(scores @ own)
    counted = float(len(scores)) if own is None else float(own.sum())
    return Moments("scores", counted, len(scores), {"log": np.array([total])})


def _there(engine: Engine, columns: Columns, without: int | None) -> list[Label]:
    """The model's columns that the table has and the question needs; at least one, to count."""
    names = [c.name for c in columns if c.name in engine.names]
    kept = [n for n in names if without is None or n != columns[without].name]
    return kept or names


def _kind(column: DiscreteColumn) -> type:
    kinds = {type(s) for s in column.states}
    if kinds <= {bool}:
        return bool
    if kinds <= {int}:
        return int
    return float if kinds <= {int, float} else str
