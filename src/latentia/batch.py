"""Answers for every row of a table, block by block on all cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from latentia.errors import EvidenceError
from latentia.features.discrete import DiscreteColumn, encode
from latentia.frames.local import in_parallel
from latentia.frames.table import Table
from latentia.messages import Evidence, answer, log_evidence, read_evidence
from latentia.operators import Operators
from latentia.typing import Array

__all__ = ["every_column", "in_blocks", "one_column", "row_scores"]

BLOCK_ROWS = 2**12  # rows of evidence whose messages fit into a cache


def in_blocks(
    operators: Operators,
    columns: Sequence[DiscreteColumn],
    table: Table,
    work: Callable[[slice, Evidence], None],
    without: int | None = None,
) -> None:
    """`work` on the evidence of each block of rows; what the table lacks is not observed."""
    there = set(table.names)
    codes = [
        encode(c, table.column(c.name)) if c.name in there and i != without else None
        for i, c in enumerate(columns)
    ]

    def block(start: int) -> None:
        part = slice(start, min(start + BLOCK_ROWS, table.length))
        seen = [None if c is None else c[part] for c in codes]
        work(part, read_evidence(operators.plan, seen))

    for _ in in_parallel(block, range(0, table.length, BLOCK_ROWS)):
        pass


def every_column(
    operators: Operators, columns: Sequence[DiscreteColumn], table: Table
) -> list[Array]:
    """P(column | all other present cells) for every column: (states, rows) each."""
    out = [np.empty((len(c.states), table.length)) for c in columns]

    def work(part: slice, evidence: Evidence) -> None:
        found = answer(operators, evidence)
        for i, v in enumerate(operators.plan.graph.observed):
            out[i][:, part] = found.probabilities[v]

    in_blocks(operators, columns, table, work)
    return out


def one_column(
    operators: Operators, columns: Sequence[DiscreteColumn], table: Table, place: int
) -> Array:
    """P(column at `place` | all other present cells): (states, rows)."""
    out = np.empty((len(columns[place].states), table.length))
    v = operators.plan.graph.observed[place]

    def work(part: slice, evidence: Evidence) -> None:
        out[:, part] = answer(operators, evidence, [v]).probabilities[v]

    in_blocks(operators, columns, table, work, without=place)
    return out


def row_scores(
    operators: Operators, columns: Sequence[DiscreteColumn], table: Table
) -> tuple[Array, np.ndarray[Any, Any]]:
    """log P(present cells) of each row, and which rows needed the independent mixture."""
    out, none = np.empty(table.length), np.zeros(table.length, dtype=bool)

    def work(part: slice, evidence: Evidence) -> None:
        out[part], none[part] = log_evidence(operators, evidence)

    in_blocks(operators, columns, table, work)
    if not np.isfinite(out).all():
        row = int(np.argmin(np.isfinite(out)))
        raise EvidenceError(
            f"row {row} has probability zero under the model (values never seen, or never seen "
            "together). Make one of its cells missing to marginalise it."
        )
    return out, none
