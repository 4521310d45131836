"""Answers for every row of a table, block by block on all cores; equal rows are asked once."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, final

import numpy as np

from latentia.data.columns.continuous import Column, place_cells
from latentia.data.sources.memory import in_parallel
from latentia.data.sources.table import Table
from latentia.errors import DataError, EvidenceError
from latentia.inference.messages import Evidence, log_evidence, posteriors, read_evidence
from latentia.inference.operators import Operators
from latentia.inference.subtrees import look_up, subtree_tables
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Codes

CACHED = 2**18  # numbers of a product of two messages that fit into a cache
MOST_ROWS = 2**12
_MAKING = Lock()
LOOK = 2**12  # rows that tell whether many are equal
FEW = 0.5  # different rows, as a share of all, for which it pays to ask each once


def in_precision(operators: Operators, dtype: Any) -> Operators:
    """The same operators in single precision, which is enough for five digits and faster."""
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = None
    if kind == np.float64:  # None, too
        return operators
    if kind != np.float32:
        raise DataError(f"expected dtype to be float64 or float32, got {dtype!r}.")

    def single(array: Array) -> Any:
        return array.astype(np.float32)

    return replace(
        operators,
        leaves=tuple(map(single, operators.leaves)),
        tensors={k: single(tensor) for k, tensor in operators.tensors.items()},
        diagonals={k: single(D) for k, D in operators.diagonals.items()},
        marginals=tuple(single(np.maximum(mu, 1e-30)) for mu in operators.marginals),
        targets={v: single(table) for v, table in operators.targets.items()},
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


def read_asked(columns: Sequence[Column], table: Table, without: int | None = None) -> Asked:
    """The evidence of a table; what it lacks is not observed."""
    there = set(table.names)
    codes = [
        place_cells(c, table.column(c.name)) if c.name in there and i != without else None
        for i, c in enumerate(columns)
    ]
    # one more for missing; rows of continuous columns differ
    sizes = [1 if c.continuous else c.cells + 1 for c in columns]
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
    step = block_rows(operators)

    def block(start: int) -> None:
        part = slice(start, min(start + step, asked.rows))
        seen = [None if c is None else c[part] for c in asked.codes]
        work(part, read_evidence(operators.plan, seen))

    for _ in in_parallel(block, range(0, asked.rows, step)):
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
        continuous = c.continuous
        if c.name in table.names:
            cells = place_cells(c, table.column(c.name))
        else:
            cells = c.nothing(table.length)
        if continuous and v not in leaves:
            cells = c.nearest(cells).astype(np.int64)
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
    asked = read_asked(columns, table)
    out = [_nothing(operators, c, reduce) for c in columns]

    def work(part: slice, evidence: Evidence) -> None:
        found = posteriors(operators, evidence, operators.plan.graph.observed)
        for i, v in enumerate(operators.plan.graph.observed):
            p = found[v]
            _put(out, i, p if reduce is None else reduce(columns[i], p), part, asked.rows)

    in_blocks(operators, asked, work)
    return [asked.spread(each) for each in out]


def one_column(
    operators: Operators,
    columns: Sequence[Column],
    table: Table,
    place: int,
    reduce: Callable[[Column, Array], Array] | None = None,
) -> Array:
    """P(column at `place` | all other present cells): (states, rows), or what `reduce` makes."""
    asked = read_asked(columns, table, without=place)
    out = [_nothing(operators, columns[place], reduce)]
    plan = operators.plan
    v = plan.graph.observed[place]
    own = {x for x, k in enumerate(plan.leaves) if v in plan.nodes[k].columns}
    tables = subtree_tables(operators, asked.rows, own)

    def work(part: slice, evidence: Evidence) -> None:
        p = posteriors(operators, evidence, [v], look_up(tables, evidence))[v]
        _put(out, 0, p if reduce is None else reduce(columns[place], p), part, asked.rows)

    in_blocks(operators, asked, work)
    return asked.spread(out[0])


def _nothing(
    operators: Operators, column: Column, reduce: Callable[[Column, Array], Array] | None
) -> Array:
    """The answer for no rows: (numbers per row, 0)."""
    p = np.full((column.cells, 1), 1.0 / column.cells)
    found = p if reduce is None else reduce(column, p)
    return found[:, :0].astype(operators.leaves[0].dtype)


def _put(out: list[Array], i: int, values: Array, part: slice, rows: int) -> None:
    if out[i].shape[1] != rows:
        with _MAKING:
            if out[i].shape[1] != rows:
                out[i] = np.empty((len(values), rows), dtype=out[i].dtype)
    out[i][:, part] = values


def row_scores(
    operators: Operators, columns: Sequence[Column], table: Table
) -> tuple[Array, np.ndarray[Any, Any]]:
    """log P(present cells) of each row, and which rows needed the independent mixture."""
    asked = read_asked(columns, table)
    out, none = np.empty(asked.rows), np.zeros(asked.rows, dtype=bool)

    def work(part: slice, evidence: Evidence) -> None:
        out[part], none[part] = log_evidence(operators, evidence)

    in_blocks(operators, asked, work)
    scores = asked.spread(out)
    for c in columns:
        if c.continuous and c.name in table.names:
            scores = scores + c.log_factor(table.column(c.name))
    if not np.isfinite(scores).all():
        row = int(np.argmin(np.isfinite(scores)))
        raise EvidenceError(
            f"row {row} has probability zero under the model (values never seen, or never seen "
            "together). Make one of its cells missing to marginalise it."
        )
    return scores, asked.spread(none)
