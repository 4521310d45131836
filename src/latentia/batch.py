"""Answers for every row of a table, block by block on all cores."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from threading import Lock

import numpy as np

from latentia.features.continuous import Column, ContinuousColumn, place_cells
from latentia.frames.local import in_parallel
from latentia.frames.table import Table
from latentia.graph import LatentGraph
from latentia.messages import Evidence, answer, read_evidence
from latentia.operators import Operators
from latentia.typing import Array, Codes

__all__ = ["every_column", "in_blocks", "latent_codes", "one_column"]

CACHED = 2**18  # numbers of a product of two messages that fit into a cache
MOST_ROWS = 2**12
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
    """Rows of evidence at a time: fewer for large ranks, whose products would leave the cache."""
    largest = max((t.size // t.shape[-1] for t in operators.tensors.values()), default=1)
    return max(128, min(MOST_ROWS, CACHED // max(largest, 1)))


def latent_codes(
    graph: LatentGraph, columns: Sequence[Column], table: Table, leaves: Container[int]
) -> tuple[Codes, ...]:
    """What an E-step reads: codes, positions of columns with `leaves`, the nearest cell of others.

    What the table lacks is missing.
    """
    found: list[Codes] = []
    for v, c in zip(graph.observed, columns, strict=True):
        continuous = isinstance(c, ContinuousColumn)
        if c.name in table.names:
            cells = place_cells(c, table.column(c.name))
        else:
            cells = np.full(table.length, np.nan if continuous else -1)
            cells = cells if continuous else cells.astype(np.int8)
        if continuous and v not in leaves:
            cells = np.where(np.isnan(cells), -1, np.rint(cells)).astype(np.int64)
        found.append(cells)
    return tuple(found)


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
