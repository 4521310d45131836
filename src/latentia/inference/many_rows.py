"""Answers for every row of a table, block by block on all cores; equal rows are asked once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Protocol, final

import numpy as np
from numpy.typing import DTypeLike

from latentia.data.columns.column import Column, Places
from latentia.data.sources.all_cores import by_column, in_parallel, usable_cores
from latentia.data.sources.memory import told_in_blocks
from latentia.data.sources.table import Table
from latentia.errors import DataError
from latentia.inference.answering import (
    log_evidence,
    log_evidence_at_root,
    posterior_below,
    posteriors,
)
from latentia.inference.evidence import Evidence, read_evidence
from latentia.inference.message_program import MessageProgram, message_program
from latentia.inference.operators import Operators
from latentia.inference.provenance import Provenance
from latentia.inference.subtrees import Subtree, look_up, look_up_scores, subtree_tables
from latentia.typing import Array, Bools, Cell, CellArray, Codes, Label

CACHED = 2**18  # numbers of a product of two messages that fit into a cache
MOST_COMPILED, NUMBERS = 2**16, 2**22  # rows of a block that the kernel works on, and their numbers
MOST_ROWS = 2**13  # so that the work on a block outweighs the steps that start it
_MAKING = Lock()
LOOK = 2**12  # rows that tell whether many are equal
COMPILED = 256  # rows from which their messages are made into a program for the kernel
FEW = 0.5  # different rows, as a share of all, for which it pays to ask each once


def in_precision(operators: Operators, dtype: DTypeLike | None) -> Operators:
    """The same operators in single precision, which is enough for five digits and faster."""
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = None
    if kind == np.float64:  # None, too
        return operators
    if kind != np.float32:
        raise DataError(f"expected dtype to be float64 or float32, got {dtype!r}.")

    def single(array: Array) -> CellArray:
        return array.astype(np.float32)

    return replace(
        operators,
        leaves=tuple(map(single, operators.leaves)),
        tensors={k: single(tensor) for k, tensor in operators.tensors.items()},
        diagonals={k: single(D) for k, D in operators.diagonals.items()},
        marginals=tuple(single(np.maximum(mu, 1e-30)) for mu in operators.marginals),
        targets={v: single(table) for v, table in operators.targets.items()},
        tables={},
        provenance=Provenance(),
    )


class Pooling(Protocol):
    """Other models, whose answers for one column are mixed into those of operators."""

    def mixed(self, place: int, codes: Sequence[Places | None], joint: Array) -> Array:
        """P(cell | row), (cells, n), from that of the operators; codes of all columns."""
        ...


@final
@dataclass(frozen=True, slots=True)
class Asked:
    """Rows of evidence as codes, each different one once; `place` tells which row asks which."""

    rows: int
    codes: tuple[Codes | None, ...]
    place: CellArray | None  # None: every row is its own
    unknown: tuple[tuple[Label, int, Cell], ...] = ()  # column, how many of its cells, the first

    def spread(self, found: CellArray) -> CellArray:
        """From answers (…, asked) to answers (…, rows)."""
        return found if self.place is None else found.take(self.place, axis=-1)


def read_asked(
    columns: Sequence[Column], table: Table, without: int | None = None, lenient: bool = False
) -> Asked:
    """The evidence of a table; what it lacks is not observed.

    A cell that is no state, or no number, is an error, or, where that is allowed, as good as
    missing.
    """
    there = set(table.names)
    used = [i for i, c in enumerate(columns) if c.name in there and i != without]
    read = by_column(lambda i: _read_column(columns[i], table, lenient), used, table.length)
    codes: list[Codes | None] = [None] * len(columns)
    for i, (own, _) in zip(used, read, strict=True):
        codes[i] = own
    unknown = [odd for _, odd in read if odd is not None]
    # one more for missing; rows of continuous columns differ
    sizes = [1 if c.continuous else c.cells + 1 for c in columns]
    found = distinct(codes, sizes, table.length)
    if found is None:
        return Asked(table.length, tuple(codes), None, tuple(unknown))
    first, place = found
    few = tuple(None if c is None else c[first] for c in codes)
    return Asked(len(first), few, place, tuple(unknown))


def _read_column(
    column: Column, table: Table, lenient: bool
) -> tuple[Codes, tuple[Label, int, Cell] | None]:
    """Codes of one column; how many of its cells are unknown and the first of them, if any."""
    values, unknown = table.column(column.name), None
    if lenient:
        values, odd = column.known(values)
        if odd.any():
            unknown = (column.name, int(odd.sum()), values.cell(int(odd.argmax())))
    return column.place(values), unknown


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
    joint: Codes = np.zeros(1, dtype=np.int64)
    for codes, m in used:
        joint = joint * m + (codes[part].astype(np.int64) + 1)
    return np.asarray(joint)


def in_blocks(
    operators: Operators,
    asked: Asked,
    work: Callable[[slice, Evidence], None],
    compiled: bool = False,
) -> None:
    """`work` on the evidence of each block of rows; larger ones where the kernel does it.

    It keeps to the cache by itself, and threads then wait less for each other.
    """
    step = block_rows(operators)
    if compiled:
        each = -(-asked.rows // (2 * usable_cores()))  # two blocks a core at least
        step = max(step, min(each, MOST_COMPILED, NUMBERS // _widest(operators)))

    def block(start: int) -> None:
        part = slice(start, min(start + step, asked.rows))
        seen = [None if c is None else c[part] for c in asked.codes]
        work(part, read_evidence(operators.plan, seen))

    starts = range(0, asked.rows, step)
    rows = asked.rows if asked.place is None else len(asked.place)
    told_in_blocks(in_parallel(block, starts), len(starts), rows)


def block_rows(operators: Operators) -> int:
    """Rows of evidence at a time: fewer for large ranks, whose products would leave the cache."""
    return max(128, min(MOST_ROWS, CACHED // _largest(operators)))


def _largest(operators: Operators) -> int:
    """Numbers of the largest product of two messages."""
    return max((t.size // t.shape[-1] for t in operators.tensors.values()), default=1) or 1


def _widest(operators: Operators) -> int:
    """… or of all that is known of a row."""
    return max(_largest(operators), len(operators.plan.leaves), *operators.plan.leaf_states())


@final
@dataclass(frozen=True, slots=True)
class Answered:
    """What was found for every row, and which rows have no probability (marginals stand there)."""

    values: list[Array]  # one per column that was asked for: (numbers, rows)
    impossible: Bools  # (rows,)


def every_column(
    operators: Operators,
    columns: Sequence[Column],
    asked: Asked,
    reduce: Callable[[Column, Array], Array] | None = None,
    pool: Pooling | None = None,
) -> Answered:
    """P(column | all other present cells) for every column: (states, rows) each.

    `reduce` makes fewer numbers of them, block by block: a mean, quantiles. A `pool` mixes in what
    other models say.
    """
    out = [_nothing(operators, c, reduce) for c in columns]
    impossible = np.zeros(asked.rows, dtype=bool)
    observed = operators.plan.graph.observed

    def work(part: slice, evidence: Evidence) -> None:
        found = posteriors(operators, evidence, observed, impossible=impossible[part])
        for i, v in enumerate(observed):
            p = found[v] if pool is None else pool.mixed(i, _part(asked, part), found[v])
            _put(out, i, p if reduce is None else reduce(columns[i], p), part, asked.rows)

    in_blocks(operators, asked, work)
    return Answered([asked.spread(each) for each in out], asked.spread(impossible))


def one_column(
    operators: Operators,
    columns: Sequence[Column],
    asked: Asked,
    place: int,
    reduce: Callable[[Column, Array], Array] | None = None,
    pool: Pooling | None = None,
) -> Answered:
    """P(column at `place` | all other present cells): (states, rows), or what `reduce` makes."""
    out = [_nothing(operators, columns[place], reduce)]
    impossible = np.zeros(asked.rows, dtype=bool)
    plan = operators.plan
    v = plan.graph.observed[place]
    own = {x for x, k in enumerate(plan.leaves) if v in plan.nodes[k].columns}
    tables = subtree_tables(operators, asked.rows, own, asked.codes)
    program = _program(operators, asked, tables, plan.leaves[min(own)])

    def work(part: slice, evidence: Evidence) -> None:
        made = None if program is None else program.run(evidence)
        if made is not None:
            p = posterior_below(operators, evidence, v, made[0], impossible[part])
        else:
            known = look_up(tables, evidence)
            p = posteriors(operators, evidence, [v], known, impossible[part])[v]
        if pool is not None:
            p = pool.mixed(place, _part(asked, part), p)
        _put(out, 0, p if reduce is None else reduce(columns[place], p), part, asked.rows)

    in_blocks(operators, asked, work, program is not None)
    return Answered([asked.spread(out[0])], asked.spread(impossible))


def _program(
    operators: Operators, asked: Asked, tables: Sequence[Subtree], target: int | None
) -> MessageProgram | None:
    """For the kernel, where rows are many enough to pay for it."""
    return message_program(operators, tables, target) if asked.rows >= COMPILED else None


def _part(asked: Asked, part: slice) -> list[Codes | None]:
    return [None if c is None else c[part] for c in asked.codes]


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


@final
@dataclass(frozen=True, slots=True)
class Scored:
    """log P(present cells) of every row, -inf where impossible; and where independence stood in."""

    logs: Array  # (rows,)
    repaired: Bools  # (rows,)

    @property
    def impossible(self) -> Bools:
        return np.isneginf(self.logs)


def row_scores(
    operators: Operators, columns: Sequence[Column], asked: Asked, table: Table
) -> Scored:
    """log P(present cells) of each row; densities in the columns' own units."""
    out, none = np.empty(asked.rows), np.zeros(asked.rows, dtype=bool)
    tables = subtree_tables(operators, asked.rows, (), asked.codes)
    program = _program(operators, asked, tables, None)

    def work(part: slice, evidence: Evidence) -> None:
        made = None if program is None else program.run(evidence)
        if made is not None:
            out[part], none[part] = log_evidence_at_root(operators, *made)
            return
        known, alone = look_up_scores(tables, evidence)
        out[part], none[part] = log_evidence(operators, evidence, known, alone)

    in_blocks(operators, asked, work, program is not None)
    scores = asked.spread(out)
    for c in columns:
        if c.continuous and c.name in table.names:
            scores = scores + c.log_factor(c.known(table.column(c.name))[0])
    return Scored(scores, asked.spread(none) & ~np.isneginf(scores))
