"""Answers for blocks of rows, as columns by name: what engines run where their rows are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.columns.labels import joint_labels, joint_summary_labels
from latentia.data.moments import Moments
from latentia.data.sources.engine import Engine, row_weights
from latentia.data.sources.opening import open_question
from latentia.data.sources.table import Table
from latentia.errors import DataError, UnknownNameError
from latentia.inference.many_rows import every_column, one_column, row_scores
from latentia.inference.operators import Operators
from latentia.typing import Array, Label

SCORE = "log_probability"

Found = Mapping[Any, np.ndarray[Any, Any]]
Columns = Sequence[Column]


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
    kinds = dict.fromkeys(summary_names(columns[place]), float)
    work = partial(summary_of, operators, columns, place)
    return engine.answer(work, kinds, _there(engine, columns, place))


def ask_everything(engine: Engine, operators: Operators, columns: Columns) -> Any:
    """Those of all columns side by side, named ``column=state``."""
    kinds = {label: float for own in joint_labels(columns) for label in own}
    work = partial(everything, operators, columns)
    return engine.answer(work, kinds, _there(engine, columns, None))


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


def asker(columns: Columns, place: int | None) -> Callable[[Operators, Table], Found]:
    """What a table is asked: probabilities of one column's states, or of all columns'."""
    return partial(_one_or_all, columns, place)


def _one_or_all(columns: Columns, place: int | None, operators: Operators, table: Table) -> Found:
    if place is None:
        return everything(operators, columns, table)
    return summary_of(operators, columns, place, table)


def ask_bars(
    engine: Engine, ask: Callable[[Table], Sequence[Found]], columns: Columns, place: int | None
) -> list[Any]:
    """Probabilities, lower and upper ends: three lazy tables."""
    if engine.once:
        raise DataError(
            "these rows can be read only once, but probabilities with a confidence are three "
            "tables. Pass a function that opens them anew, or write them to a Parquet file."
        )
    names = (
        [label for own in joint_summary_labels(columns) for label in own]
        if place is None
        else summary_names(columns[place])
    )
    kinds = dict.fromkeys(names, float)
    wanted = _there(engine, columns, place)
    return [engine.answer(partial(_one_of, ask, k), kinds, wanted) for k in range(3)]


def _one_of(ask: Callable[[Table], Sequence[Found]], which: int, table: Table) -> Found:
    return ask(table)[which]


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


def summary_of(operators: Operators, columns: Columns, place: int, table: Table) -> Found:
    """Probabilities of a column's states, or its mean and quantiles, by name."""
    found = one_column(operators, columns, table, place, summary)
    return dict(zip(summary_names(columns[place]), found, strict=True))


def everything(operators: Operators, columns: Columns, table: Table) -> Found:
    """Probabilities of the states of all discrete columns, named ``column=state``."""
    found = every_column(operators, columns, table)
    return {
        label: found[i][k]
        for i, labels in enumerate(joint_labels(columns))
        for k, label in enumerate(labels)
    }


def best_value(column: Column, p: Array) -> Array:
    """The posterior mean of a continuous column, the most probable code of a discrete one."""
    return column.best(p)[None]


def in_states(column: Column, best: Array) -> Any:
    """Means as they are, codes as states."""
    return column.answers(best)


def summary(column: Column, p: Array) -> Array:
    """Probabilities of states; mean and quantiles of a continuous column."""
    return column.summary(p)


def summary_names(column: Column) -> Sequence[Any]:
    """Names of what `summary` tells."""
    return column.summary_names


def _best(operators: Operators, columns: Columns, place: int, table: Table) -> Found:
    best = one_column(operators, columns, table, place, best_value)[0]
    return {columns[place].name: in_states(columns[place], best)}


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


def _kind(column: Column) -> type:
    return column.answer_type
