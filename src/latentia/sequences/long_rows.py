"""Long tables: rows that belong to sequences, sorted by time, with gaps in time as empty steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from latentia.announcing import warn
from latentia.data.columns.column import Column, Places
from latentia.data.columns.values import Values, check_finite
from latentia.data.sources.engine import Engine, OneBlock
from latentia.data.sources.table import Table
from latentia.errors import DataError, LatentiaWarning, UnknownNameError
from latentia.sequences.packing import Indices
from latentia.sequences.step_data import Sequences
from latentia.sequences.step_times import Times, read_times, sorted_steps
from latentia.typing import Array, Cell, CellArray, Given, Label, TableLike


@final
@dataclass(frozen=True, slots=True)
class Naming:
    """How a table tells sequences and their order."""

    sequence: Label | None = None
    time: Label | None = None
    lengths: Given = None
    blocks: bool = False  # every block is a sequence: a list of frames
    cut: bool = False  # rows come from a list of arrays: answers are lists by `lengths`

    @property
    def columns(self) -> list[Label]:
        return [name for name in (self.sequence, self.time) if name is not None]


@final
@dataclass(frozen=True, slots=True)
class LongSteps:
    """Sequences as codes, and the row of the table behind every step."""

    sequences: Sequences
    row: Indices  # (steps,) -1: a gap
    rows: int
    labels: tuple[Cell, ...]  # of sequences
    times: Times | None
    log_slopes: Array  # (rows,) Σ log dz/dx: what turns densities of z into those of x
    tables: tuple[Table, ...]  # whose rows they are, one after the other; none: of a file

    def to_rows(self, x: CellArray) -> CellArray:
        """What is known of steps, for the rows of the table: (…, steps) -> (…, rows)."""
        found = np.empty((*x.shape[:-1], self.rows), dtype=x.dtype)
        there = self.row >= 0
        found[..., self.row[there]] = x[..., there]
        return found


@final
@dataclass(frozen=True, slots=True)
class _Gathered:
    """Encoded blocks, one behind the other."""

    parts: tuple[_Part, ...]

    def __add__(self, other: _Gathered) -> _Gathered:
        return _Gathered(self.parts + other.parts)

    def joined(self) -> _Part:
        """All blocks as one."""
        first, *others = self.parts
        if not others:
            return first
        return _Part(
            tuple(np.concatenate(x) for x in zip(*(p.cells for p in self.parts), strict=True)),
            np.concatenate([p.log_slopes for p in self.parts]),
            None if first.ids is None else np.concatenate([p.ids for p in self.parts]),
            None if first.times is None else np.concatenate([p.times for p in self.parts]),
            tuple(t for p in self.parts for t in p.tables),
        )


@final
@dataclass(frozen=True, slots=True)
class _Part:
    """One block: codes of its columns, ids and times of its rows."""

    cells: tuple[Cell, ...]
    log_slopes: Array
    ids: CellArray | None
    times: CellArray | None
    tables: tuple[Table, ...]


def read_long(
    engine: Engine,
    columns: Mapping[int, Column],
    naming: Naming,
    step: int | None = None,
    absent: frozenset[int] = frozenset(),
) -> LongSteps:
    """The sequences of a table; `step` is the time between two steps, None: found here.

    Columns of `absent` need not be there: they are missing throughout.
    """
    for name in naming.columns:
        if name not in engine.names:
            what = "sequence column" if name == naming.sequence else "time column"
            raise UnknownNameError(what, name, engine.names)
    wanted = [c.name for v, c in columns.items() if c.name in engine.names or v not in absent]

    def work(table: Table) -> _Gathered | None:
        some = table.length or naming.blocks
        return _Gathered((_encode(table, columns, naming, set(wanted)),)) if some else None

    gathered: _Gathered | None = engine.fold(work, [*wanted, *naming.columns])
    if gathered is None:
        raise DataError("0 sample(s): the table has no rows.")
    found = gathered.joined()
    if isinstance(engine, OneBlock):
        found = replace(found, tables=(engine.table,))
    return _arranged(found, columns, naming, step)


def _encode(
    table: Table, columns: Mapping[int, Column], naming: Naming, wanted: set[Label]
) -> _Part:
    cells: list[Places] = []
    units = np.zeros(table.length)
    for column in columns.values():
        if column.name not in wanted:
            cells.append(empty_cells(column, table.length))
            continue
        values = table.column(column.name)
        cells.append(cells_of(column, values))
        units += column.log_slope(values)
    ids = None if naming.sequence is None else _whole(table, naming.sequence, "sequence ids")
    times = None if naming.time is None else _whole(table, naming.time, "times")
    kept = (table,) if naming.blocks else ()  # blocks of files are not kept
    return _Part(tuple(cells), units, ids, times, kept)


def empty_cells(column: Column, count: int) -> Places:
    """So many missing cells."""
    return np.full(count, np.nan) if column.continuous else np.full(count, -1, dtype=np.int64)


def one_value(value: object) -> Values:
    """A single cell as a column of a table."""
    cells = np.empty(1, dtype=object)
    cells[0] = value
    return Values(cells)


def cells_of(column: Column, values: Values) -> Places:
    """Codes of a discrete column, z of a continuous one (without the ends of its grid)."""
    if column.continuous:
        return column.measured(values)
    return np.asarray(column.place(values), dtype=np.int64)


def _whole(table: Table, name: Label, what: str) -> CellArray:
    """The cells of a column without holes."""
    values = table.column(name)
    if values.missing is not None and values.missing.any():
        row = int(np.flatnonzero(values.missing)[0])
        raise DataError(
            f"column {name!r} holds {what}, but row {row} has none. Fill it, or drop the row."
        )
    check_finite(values, name)
    return values.cells


def _arranged(
    found: _Part, columns: Mapping[int, Column], naming: Naming, step: int | None
) -> LongSteps:
    rows = len(found.log_slopes)
    whose, labels = _memberships(found, naming, rows)
    if found.times is None:
        order = np.argsort(whose, kind="stable")
        at, times = np.arange(rows), None
    else:
        times = read_times(found.times, whose, labels, naming.time, step)
        order = np.lexsort((times.ticks, whose))
        at = times.ticks
        late = np.diff(at) < 0
        if (late & (np.diff(whose) == 0)).any():
            warn(
                f"rows are not sorted by {naming.time!r} within their sequences; they were sorted "
                "(answers come back in the order of your rows).",
                LatentiaWarning,
            )
    row, offsets = sorted_steps(order, whose, at, times, len(labels))
    cells = {}
    for (v, column), x in zip(columns.items(), found.cells, strict=True):
        own = empty_cells(column, len(row))
        own[row >= 0] = x[row[row >= 0]]
        cells[v] = own
    sequences = Sequences(cells, offsets)
    return LongSteps(sequences, row, rows, labels, times, found.log_slopes, found.tables)


def _memberships(found: _Part, naming: Naming, rows: int) -> tuple[Indices, tuple[Cell, ...]]:
    """The sequence of every row, numbered as they first appear, and their labels."""
    if naming.lengths is not None:
        lengths = checked_lengths(naming.lengths, rows)
        return np.repeat(np.arange(len(lengths)), lengths), tuple(range(len(lengths)))
    if naming.blocks and naming.sequence is None:
        lengths = np.array([t.length for t in found.tables])
        return np.repeat(np.arange(len(lengths)), lengths), tuple(range(len(lengths)))
    if found.ids is None:
        return np.zeros(rows, dtype=np.intp), (0,)
    number: dict[Label, int] = {}
    try:
        codes = [number.setdefault(label, len(number)) for label in found.ids.tolist()]
    except TypeError:
        raise DataError(
            f"column {naming.sequence!r} holds sequence ids that cannot be told apart (lists or "
            "dicts). Make them text or numbers."
        ) from None
    return np.array(codes, dtype=np.intp), tuple(number)


def checked_lengths(lengths: ArrayLike | None, rows: int) -> Indices:
    """Whole numbers from 0 on that add up to the rows."""
    try:
        found = np.asarray(lengths)
        whole = found.ndim == 1 and (found == found.astype(np.intp)).all() and (found >= 0).all()
    except (TypeError, ValueError):
        whole = False
    if not whole:
        raise DataError(f"expected lengths as a list of whole numbers, got {lengths!r:.80}.")
    if int(found.sum()) != rows:
        raise DataError(
            f"the lengths add up to {int(found.sum())}, but there are {rows} rows. Give the number "
            "of rows of each sequence, in order."
        )
    return found.astype(np.intp)


def listed_sequences(X: TableLike, naming: Naming, columns: int) -> tuple[TableLike, Naming]:
    """A list of tables, each a sequence, as such; other tables as they are.

    Where there is but one column, cells need not be in a table: an array of them is a sequence, a
    list of arrays or of lists of cells several.
    """
    if columns == 1 and isinstance(X, np.ndarray) and X.ndim == 1:
        return X[:, None], naming
    if not isinstance(X, list | tuple) or not len(X):
        return X, naming
    first: CellArray = X[0]
    if columns == 1 and any(_width(x) != 1 for x in X) and all(_width(x) is not None for x in X):
        return _joined([np.asarray(x)[:, None] for x in X], naming)
    if isinstance(first, np.ndarray) and first.ndim == 2:
        return _joined([np.asarray(x) for x in X], naming)
    rows = isinstance(first, Mapping) and not all(np.ndim(v) == 1 for v in first.values())
    if rows or not (isinstance(first, Mapping) or hasattr(first, "columns")):
        return X, naming
    return X, replace(naming, blocks=True)


def _joined(arrays: Sequence[CellArray], naming: Naming) -> tuple[TableLike, Naming]:
    """Arrays as one, and their lengths."""
    wide = {x.shape[1:] for x in arrays}
    if len(wide) > 1:
        raise DataError(f"the arrays of the list have different columns: shapes {sorted(wide)}.")
    if naming.lengths is not None:
        raise DataError("a list of arrays has lengths of its own; pass it without lengths=.")
    lengths = [len(x) for x in arrays]
    arrays = [x for x in arrays if len(x)] or arrays[:1]  # an empty list has no kind
    if len({x.dtype.kind in "biuf" for x in arrays}) > 1:
        arrays = [x.astype(object) for x in arrays]
    return np.concatenate(arrays), replace(naming, lengths=lengths, cut=True)


def _width(x: object) -> int | None:
    """Of an array or a list of cells how many there are; None: something else."""
    if isinstance(x, np.ndarray):
        return len(x) if x.ndim == 1 else None
    return len(x) if isinstance(x, list | tuple) and not any(map(np.ndim, x)) else None
