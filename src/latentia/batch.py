"""Answers for every row of a table, block by block on all cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock

import numpy as np

from latentia.features.continuous import Column, place_cells
from latentia.frames.local import in_parallel
from latentia.frames.table import Table
from latentia.messages import Evidence, answer, read_evidence
from latentia.operators import Operators
from latentia.typing import Array

__all__ = ["block_rows", "every_column", "in_blocks", "one_column"]

BLOCK_ROWS = 2**12  # rows of evidence whose messages fit into a cache, where ranks are small …
BLOCK_CELLS = 2**18  # … and cells of the product of two messages, where they are not
FEWEST_ROWS = 2**8
_MAKING = Lock()


def in_blocks(
    operators: Operators,
    columns: Sequence[Column],
    table: Table,
    work: Callable[[slice, Evidence], None],
    without: int | None = None,
) -> None:
    """`work` on the evidence of each block of rows; what the table lacks is not observed."""
    there = set(table.names)
    codes = [
        place_cells(c, table.column(c.name)) if c.name in there and i != without else None
        for i, c in enumerate(columns)
    ]

    step = block_rows(operators)

    def block(start: int) -> None:
        part = slice(start, min(start + step, table.length))
        seen = [None if c is None else c[part] for c in codes]
        work(part, read_evidence(operators.plan, seen))

    for _ in in_parallel(block, range(0, table.length, step)):
        pass


def block_rows(operators: Operators) -> int:
    """Rows at a time: the products of messages should not leave the cache."""
    widest = max((t.size // t.shape[-1] for t in operators.tensors.values() if t.size), default=1)
    return min(BLOCK_ROWS, max(FEWEST_ROWS, BLOCK_CELLS // widest))


def every_column(
    operators: Operators,
    columns: Sequence[Column],
    table: Table,
    reduce: Callable[[Column, Array], Array] | None = None,
) -> list[Array]:
    """P(column | all other present cells) for every column: (states, rows) each.

    `reduce` makes fewer numbers of them, block by block: a mean, quantiles.
    """
    out: list[Array] = [np.empty((0, 0))] * len(columns)

    def work(part: slice, evidence: Evidence) -> None:
        found = answer(operators, evidence)
        for i, v in enumerate(operators.plan.graph.observed):
            p = found.probabilities[v]
            _put(out, i, p if reduce is None else reduce(columns[i], p), part, table.length)

    in_blocks(operators, columns, table, work)
    return out


def one_column(
    operators: Operators,
    columns: Sequence[Column],
    table: Table,
    place: int,
    reduce: Callable[[Column, Array], Array] | None = None,
) -> Array:
    """P(column at `place` | all other present cells): (states, rows), or what `reduce` makes."""
    out: list[Array] = [np.empty((0, 0))]
    v = operators.plan.graph.observed[place]

    def work(part: slice, evidence: Evidence) -> None:
        p = answer(operators, evidence, [v]).probabilities[v]
        _put(out, 0, p if reduce is None else reduce(columns[place], p), part, table.length)

    in_blocks(operators, columns, table, work, without=place)
    return out[0]


def _put(out: list[Array], i: int, values: Array, part: slice, rows: int) -> None:
    if out[i].shape[1] != rows or not len(out[i]):
        with _MAKING:
            if out[i].shape[1] != rows or not len(out[i]):
                out[i] = np.empty((len(values), rows))
    out[i][:, part] = values
