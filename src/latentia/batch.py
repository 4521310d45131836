"""Answers for every row of a table, block by block on all cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from latentia.features.discrete import DiscreteColumn, encode
from latentia.frames.local import in_parallel
from latentia.frames.table import Table
from latentia.messages import Evidence, answer, read_evidence
from latentia.operators import Operators
from latentia.typing import Array

__all__ = ["every_column", "in_blocks", "one_column"]

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
