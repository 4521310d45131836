"""The rows of any table, ready to be looked at, summed and asked: the first steps of the one road.

open_rows(X) ─> TableRows ─> look ─> discover_columns ─> source ─> a learner
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import final

import numpy as np

from latentia.data.columns.column import KINDS, Column
from latentia.data.columns.discovering import discover
from latentia.data.rows import Rows, Source
from latentia.data.sources.engine import (
    Engine,
    EngineRows,
    OneBlock,
    encode_table,
    sketch_table,
)
from latentia.data.sources.memory import LocalRows, compress
from latentia.data.sources.opening import open_engine
from latentia.data.sources.progress import ProgressLike, as_progress
from latentia.data.sources.sketch import ColumnSketch, TableSketch, without_clock
from latentia.data.sources.stream import OneShot, Stream
from latentia.data.sources.table import Table
from latentia.data.sources.weights import check_total, checked_weight, weight_name
from latentia.errors import DataError, UnknownNameError
from latentia.typing import ByName, Cell, CellArray, Label, TableLike, WeightLike

KEPT_CELLS = 2**24  # of a table in blocks that is kept in memory as it is, and read once …
KEPT_BYTES = 2**26  # … and bytes of its codes, instead of being read again and again
FETCHED_BYTES = 2**20  # … where workers read it, and its codes must travel


@final
@dataclass(frozen=True, slots=True)
class Beside:
    """The name of a column that is none of the user's."""

    what: str

    def __str__(self) -> str:
        return self.what


WEIGHT = Beside("sample_weight")
LABEL = Beside("class")


@final
@dataclass(frozen=True, slots=True)
class Look:
    """Pass 0: what the columns hold, and the blocks themselves while they are few."""

    sketch: TableSketch
    kept: tuple[Table, ...] | None = None

    @property
    def rows(self) -> int:
        return self.sketch.rows

    @property
    def weight(self) -> float:
        return self.sketch.weight

    @property
    def columns(self) -> Mapping[Label, ColumnSketch]:
        return self.sketch.columns

    def __add__(self, other: Look) -> Look:
        sketch, kept = self.sketch + other.sketch, None
        few = sketch.rows * max(len(sketch.columns), 1) <= KEPT_CELLS
        if few and self.kept is not None and other.kept is not None:
            kept = self.kept + other.kept
        return Look(sketch, kept)


def look_at_block(
    names: Sequence[Label], weight: Label | None, keep: bool, table: Table
) -> Look | None:
    """Pass 0 over one block."""
    sketch = sketch_table(names, weight, table)
    few = table.length * max(len(names), 1) <= KEPT_CELLS
    return None if sketch is None else Look(sketch, (table,) if keep and few else None)


@final
@dataclass(frozen=True, slots=True)
class TableRows:
    """A table somewhere, and the column that holds the weights of its rows."""

    engine: Engine
    weight: Label | None = None
    label: Label | None = None  # the column that holds the classes of the rows

    @property
    def names(self) -> tuple[Label, ...]:
        """Columns that can be learned from."""
        aside = [name for name in (self.weight, self.label) if name is not None]
        return tuple(
            name for name in self.engine.names if not isinstance(name, Beside) and name not in aside
        )

    @property
    def once(self) -> bool:
        """Can the rows be read only once?"""
        return self.engine.once

    def look(self, names: Sequence[Label]) -> Look:
        """Pass 0: what the columns hold (of rows that can be read once: those of a pilot)."""
        wanted = [*names] if self.weight is None else [*names, self.weight]
        keep = isinstance(self.engine, Stream)
        work = partial(look_at_block, names, self.weight, keep)
        pilot = self.engine if isinstance(self.engine, OneShot) and self.engine.once else None
        fold = self.engine.fold if pilot is None else pilot.pilot_fold
        found: Look | None = fold(work, wanted)
        if found is None:
            raise DataError(
                f"0 sample(s) (shape=(0, {len(names)})) while a minimum of 1 is required: the "
                "table has no rows to learn from."
            )
        if self.weight is not None:
            check_total(found.rows, found.weight)
        return found

    def source(
        self, columns: Sequence[Column], seen: Look | None = None, plain: bool = False
    ) -> Source:
        """All rows, encoded; in memory where they are small, else where they are.

        Equal rows of memory are one row with their weight, unless they should be left `plain`.
        """
        if isinstance(self.engine, OneShot) and not self.engine.once:  # all of it is in memory
            return self.pilot(columns, plain)
        if isinstance(self.engine, OneBlock):
            rows = encode_table(columns, self.weight, self.engine.table)
            return _in_memory(columns, rows, plain)
        if seen is not None and seen.kept is not None:
            return _in_memory(columns, self._encoded(columns, seen.kept), plain)
        looked = None if seen is None or self.once else (seen.rows, seen.weight)
        engine = EngineRows(self.engine, tuple(columns), self.weight, looked=looked)
        most = KEPT_BYTES if self.engine.local else FETCHED_BYTES
        small = seen is not None and _bytes(columns, seen.rows) <= most
        if not small or self.once:
            return engine
        kept: Kept = engine.fold(keep_block)
        return _in_memory(columns, kept.rows, plain)

    def pilot(self, columns: Sequence[Column], plain: bool = False) -> Source:
        """Rows that can be read again and again: the first of those that can be read once."""
        if not isinstance(self.engine, OneShot):
            raise DataError("only rows that can be read once have a pilot.")
        return _in_memory(columns, self._encoded(columns, self.engine.pilot), plain)

    def _encoded(self, columns: Sequence[Column], tables: Sequence[Table]) -> Rows:
        parts = [encode_table(columns, self.weight, table) for table in tables]
        return joined([part for part in parts if len(part)] or parts[:1])


def open_rows(
    X: TableLike,
    names: Sequence[Label] | None = None,
    sample_weight: WeightLike | None = None,
    progress: ProgressLike = None,
    known: Sequence[Column] = (),
) -> TableRows:
    """Any table; `names` are those of columns that come without (numpy).

    Files of text spell no types: there the states of columns that are `known` tell what cells mean.
    """
    engine = open_engine(X, names, as_progress(progress), known)
    name = weight_name(sample_weight, engine.names)
    if name is not None or sample_weight is None:
        return TableRows(engine, name)
    if not isinstance(engine, OneBlock):
        raise DataError(
            "expected sample_weight to be the name of a column for a table that is read in "
            f"blocks, got {type(sample_weight).__name__}. Put the weights into a column."
        )
    table = engine.table
    return TableRows(
        OneBlock(table.beside(WEIGHT, checked_weight(sample_weight, table.length))), WEIGHT
    )


def with_labels(rows: TableRows, labels: CellArray) -> TableRows:
    """A table in memory with the classes of its rows, as codes."""
    if not isinstance(rows.engine, OneBlock):
        raise DataError(
            "expected y to be the name of a column for a table that is read in blocks, got "
            f"{type(labels).__name__}. Put the classes into a column."
        )
    return replace(rows, engine=OneBlock(rows.engine.table.beside(LABEL, labels)), label=LABEL)


def discover_columns(
    seen: Look,
    names: Sequence[Label],
    kinds: ByName[str] | None = None,
    state_names: ByName[Sequence[Cell]] | None = None,
    timed: bool = True,
) -> tuple[Column, ...]:
    """What each column is, from the first pass; times are measured, or else states."""
    kinds, state_names = kinds or {}, state_names or {}
    for name, kind in kinds.items():
        if kind not in KINDS:
            raise UnknownNameError(f"kind of column {name!r}", kind, KINDS)
    found = []
    for name in names:
        sketch = seen.columns[name] if timed else without_clock(seen.columns[name])
        found.append(discover(name, sketch, kinds.get(name), state_names.get(name)))
    return tuple(found)


def constant_columns(seen: Look) -> list[Label]:
    """Columns with a single value."""
    return [name for name, sketch in seen.columns.items() if sketch.different < 2]


def missing_shares(seen: Look) -> dict[Label, float]:
    """Share of missing cells per column."""
    return {name: s.missing / (s.weight + s.missing) for name, s in seen.columns.items()}


@final
@dataclass(frozen=True, slots=True)
class Kept:
    """Blocks of rows, one behind the other."""

    parts: tuple[Rows, ...]

    def __add__(self, other: Kept) -> Kept:
        return Kept(self.parts + other.parts)

    @property
    def rows(self) -> Rows:
        return joined(self.parts)


def keep_block(rows: Rows) -> Kept:
    return Kept((rows,))


def joined(parts: Sequence[Rows]) -> Rows:
    """Several blocks as one."""
    if len(parts) == 1:
        return parts[0]
    codes = tuple(np.concatenate(column) for column in zip(*(p.codes for p in parts), strict=True))
    plain = all(p.weight is None for p in parts)
    return Rows(codes, None if plain else np.concatenate([p.weights for p in parts]))


def _in_memory(columns: Sequence[Column], rows: Rows, plain: bool) -> LocalRows:
    """Equal rows once, where that makes them few."""
    if not len(rows):
        raise DataError("there are no rows to learn from, or their weights are all zero.")
    if plain or any(c.continuous for c in columns):
        return LocalRows(rows)
    return LocalRows(compress(rows, [c.cells for c in columns]))


def _bytes(columns: Sequence[Column], rows: int) -> int:
    """Memory of the codes of so many rows."""
    wide = [8 if c.continuous else 1 + (c.cells > 127) for c in columns]
    return rows * sum(wide)
