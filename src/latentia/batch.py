"""Answers for every row of a table, block by block on all cores; equal rows are asked once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from latentia.errors import DataError, EvidenceError
from latentia.features.discrete import DiscreteColumn, encode
from latentia.frames.local import in_parallel
from latentia.frames.table import Table
from latentia.messages import Evidence, answer, log_evidence, read_evidence
from latentia.operators import Operators
from latentia.typing import Array, Codes

__all__ = ["every_column", "in_precision", "one_column", "row_scores"]

BLOCK_ROWS = 2**12  # rows of evidence whose messages fit into a cache
LOOK = 2**12  # rows that tell whether many are equal
FEW = 0.5  # different rows, as a share of all, for which it pays to ask each once


def in_precision(operators: Operators, dtype: Any) -> Operators:
    """The same operators in single precision, which is enough for five digits and faster."""
    if dtype is None or np.dtype(dtype) == np.float64:
        return operators
    if np.dtype(dtype) != np.float32:
        raise DataError(f"expected dtype to be float64 or float32, got {dtype!r}.")

    def single(array: Array) -> Any:
        return array.astype(np.float32)

    return replace(
        operators,
        leaves=tuple(map(single, operators.leaves)),
        tensors={k: single(tensor) for k, tensor in operators.tensors.items()},
        marginals=tuple(single(np.maximum(mu, 1e-30)) for mu in operators.marginals),
        tables={},
        ascent=None,
    )


@final
@dataclass(frozen=True, slots=True)
class Asked:
    """Rows of evidence as codes, each different one once; `place` tells which row asks which."""

    rows: int
    codes: tuple[Codes | None, ...]
    place: np.ndarray[Any, Any] | None  # None: every row is its own

    def spread(self, found: Array) -> Array:
        """From answers (…, asked) to answers (…, rows)."""
        return found if self.place is None else found.take(self.place, axis=-1)


def read_rows(columns: Sequence[DiscreteColumn], table: Table, without: int | None = None) -> Asked:
    """The evidence of a table; what it lacks is not observed."""
    there = set(table.names)
    codes = [
        encode(c, table.column(c.name)) if c.name in there and i != without else None
        for i, c in enumerate(columns)
    ]
    sizes = [len(c.states) + 1 for c in columns]  # one more for missing
    found = distinct(codes, sizes, table.length)
    if found is None:
        return Asked(table.length, tuple(codes), None)
    first, place = found
    return Asked(len(first), tuple(None if c is None else c[first] for c in codes), place)


def distinct(
    codes: Sequence[Codes | None], sizes: Sequence[int], rows: int
) -> tuple[Codes, Codes] | None:
    """First row of each kind, and the kind of each row; None where most rows differ."""
    used = [(c, m) for c, m in zip(codes, sizes, strict=True) if c is not None]
    cells = math.prod(m for _, m in used)
    whole = all(c.dtype.kind in "iu" for c, _ in used)
    if rows < 2 or cells >= 2**62 or not used or not whole:
        return None
    few = cells <= FEW * rows
    if not few:
        look = _joint(used, slice(0, LOOK))
        if len(np.unique(look)) > FEW * len(look):
            return None
    joint = _joint(used, slice(None))
    if few:  # all kinds that there could be fit into a table
        first = np.full(cells, -1, dtype=np.int64)
        first[joint[::-1]] = np.arange(rows)[::-1]
        met = np.flatnonzero(first >= 0)
        number = np.empty(cells, dtype=np.int64)
        number[met] = np.arange(len(met))
        return first[met], number[joint]
    _, start, place = np.unique(joint, return_index=True, return_inverse=True)
    return (start, place) if len(start) <= FEW * rows else None


def _joint(used: Sequence[tuple[Codes, int]], part: slice) -> Codes:
    """One number per row: its codes, missing ones too."""
    joint: Any = np.zeros(1, dtype=np.int64)
    for codes, m in used:
        joint = joint * m + (codes[part].astype(np.int64) + 1)
    return np.asarray(joint)


def in_blocks(operators: Operators, asked: Asked, work: Callable[[slice, Evidence], None]) -> None:
    """`work` on the evidence of each block of rows."""

    def block(start: int) -> None:
        part = slice(start, min(start + BLOCK_ROWS, asked.rows))
        seen = [None if c is None else c[part] for c in asked.codes]
        work(part, read_evidence(operators.plan, seen))

    for _ in in_parallel(block, range(0, asked.rows, BLOCK_ROWS)):
        pass


def every_column(
    operators: Operators, columns: Sequence[DiscreteColumn], table: Table
) -> list[Array]:
    """P(column | all other present cells) for every column: (states, rows) each."""
    asked = read_rows(columns, table)
    dtype = operators.leaves[0].dtype
    out = [np.empty((len(c.states), asked.rows), dtype=dtype) for c in columns]

    def work(part: slice, evidence: Evidence) -> None:
        found = answer(operators, evidence)
        for i, v in enumerate(operators.plan.graph.observed):
            out[i][:, part] = found.probabilities[v]

    in_blocks(operators, asked, work)
    return [asked.spread(table) for table in out]


def one_column(
    operators: Operators, columns: Sequence[DiscreteColumn], table: Table, place: int
) -> Array:
    """P(column at `place` | all other present cells): (states, rows)."""
    asked = read_rows(columns, table, without=place)
    out = np.empty((len(columns[place].states), asked.rows), dtype=operators.leaves[0].dtype)
    v = operators.plan.graph.observed[place]

    def work(part: slice, evidence: Evidence) -> None:
        out[:, part] = answer(operators, evidence, [v]).probabilities[v]

    in_blocks(operators, asked, work)
    return asked.spread(out)


def row_scores(
    operators: Operators, columns: Sequence[DiscreteColumn], table: Table
) -> tuple[Array, np.ndarray[Any, Any]]:
    """log P(present cells) of each row, and which rows needed the independent mixture."""
    asked = read_rows(columns, table)
    out, none = np.empty(asked.rows), np.zeros(asked.rows, dtype=bool)

    def work(part: slice, evidence: Evidence) -> None:
        out[part], none[part] = log_evidence(operators, evidence)

    in_blocks(operators, asked, work)
    scores = asked.spread(out)
    if not np.isfinite(scores).all():
        row = int(np.argmin(np.isfinite(scores)))
        raise EvidenceError(
            f"row {row} has probability zero under the model (values never seen, or never seen "
            "together). Make one of its cells missing to marginalise it."
        )
    return scores, asked.spread(none)
