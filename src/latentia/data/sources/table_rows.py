"""The rows of any table, ready to be looked at, summed and asked: the first steps of the one road.

open_rows(X) ─> TableRows ─> look ─> discover_columns ─> source ─> a learner
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, final

import numpy as np

from latentia.data.columns.continuous import KINDS, Column, ContinuousColumn, discover
from latentia.data.rows import Rows, Source
from latentia.data.sources.engine import (
    Engine,
    EngineRows,
    Marks,
    OneBlock,
    check_same,
    encode_table,
    sketch_table,
)
from latentia.data.sources.memory import LocalRows, compress
from latentia.data.sources.opening import open_engine
from latentia.data.sources.progress import as_progress
from latentia.data.sources.sketch import TableSketch
from latentia.data.sources.stream import OneShot
from latentia.data.sources.weights import check_total, checked_weight, weight_name
from latentia.errors import DataError, UnknownNameError
from latentia.typing import Label

KEPT_BYTES = 2**26  # codes of a table in blocks that are kept in memory instead of read again


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

    def look(self, names: Sequence[Label]) -> TableSketch:
        """Pass 0: what the columns hold (of rows that can be read once: those of a pilot)."""
        wanted = [*names] if self.weight is None else [*names, self.weight]
        work = partial(sketch_table, names, self.weight)
        pilot = self.engine if isinstance(self.engine, OneShot) and self.engine.once else None
        fold = self.engine.fold if pilot is None else pilot.pilot_fold
        found: TableSketch | None = fold(work, wanted)
        if found is None:
            raise DataError(
                f"0 sample(s) (shape=(0, {len(names)})) while a minimum of 1 is required: the "
                "table has no rows to learn from."
            )
        if self.weight is not None:
            check_total(found.rows, found.weight)
        return found

    def source(
        self, columns: Sequence[Column], seen: TableSketch | None = None, plain: bool = False
    ) -> Source:
        """All rows, encoded; in memory where they are small, else where they are.

        Equal rows of memory are one row with their weight, unless they should be left `plain`.
        """
        if isinstance(self.engine, OneShot) and not self.engine.once:  # all of it is in memory
            return self.pilot(columns, plain)
        if isinstance(self.engine, OneBlock):
            rows = encode_table(columns, self.weight, self.engine.table)
            return _in_memory(columns, rows, plain)
        engine = EngineRows(self.engine, tuple(columns), self.weight)
        small = seen is not None and _bytes(columns, seen.rows) <= KEPT_BYTES
        if not small or self.once or not self.engine.local:
            return engine
        kept: Kept = engine.fold(keep_block)
        if seen is not None:  # the rows of pass 0, as far as it tells
            marks = engine.first[0]
            check_same(Marks(seen.rows, seen.weight, marks.sums), marks)
        return _in_memory(columns, kept.rows, plain)

    def pilot(self, columns: Sequence[Column], plain: bool = False) -> Source:
        """Rows that can be read again and again: the first of those that can be read once."""
        if not isinstance(self.engine, OneShot):
            raise DataError("only rows that can be read once have a pilot.")
        parts = [encode_table(columns, self.weight, table) for table in self.engine.pilot]
        return _in_memory(columns, joined([part for part in parts if len(part)]), plain)


def open_rows(
    X: Any,
    names: Sequence[Label] | None = None,
    sample_weight: Any = None,
    progress: Any = None,
) -> TableRows:
    """Any table; `names` are those of columns that come without (numpy)."""
    engine = open_engine(X, names, as_progress(progress))
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


def with_labels(rows: TableRows, labels: np.ndarray[Any, Any]) -> TableRows:
    """A table in memory with the classes of its rows, as codes."""
    if not isinstance(rows.engine, OneBlock):
        raise DataError(
            "expected y to be the name of a column for a table that is read in blocks, got "
            f"{type(labels).__name__}. Put the classes into a column."
        )
    return replace(rows, engine=OneBlock(rows.engine.table.beside(LABEL, labels)), label=LABEL)


def discover_columns(
    seen: TableSketch,
    names: Sequence[Label],
    kinds: Mapping[Any, str] | None = None,
    state_names: Mapping[Any, Sequence[Any]] | None = None,
) -> tuple[Column, ...]:
    """What each column is, from the first pass."""
    kinds, state_names = kinds or {}, state_names or {}
    for name, kind in kinds.items():
        if kind not in KINDS:
            raise UnknownNameError(f"kind of column {name!r}", kind, KINDS)
    found = []
    for name in names:
        given = state_names.get(name)
        told = kinds.get(name)
        as_states = "discrete" if told is None and given is not None else told
        found.append(discover(name, seen.columns[name].cells(as_states), told, given))
    return tuple(found)


def constant_columns(seen: TableSketch) -> list[Label]:
    """Columns with a single value."""
    return [n for n, s in seen.columns.items() if s.values is None or len(s.values) < 2]


def missing_shares(seen: TableSketch) -> dict[Label, float]:
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
    if plain or any(isinstance(c, ContinuousColumn) for c in columns):
        return LocalRows(rows)
    return LocalRows(compress(rows, [len(c.states) for c in columns]))  # type: ignore[union-attr]


def _bytes(columns: Sequence[Column], rows: int) -> int:
    """Memory of the codes of so many rows."""
    wide = [8 if isinstance(c, ContinuousColumn) else 1 + (len(c.states) > 127) for c in columns]
    return rows * sum(wide)
