"""Learning from sums that are gathered elsewhere or later: engines, parts of a table, other sites.

pilot ─> FrozenModel ─> gather(rows) ─> Moments, added ─> solve ─> LatentModel
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, final

import numpy as np
from sklearn.base import clone

from latentia import doors
from latentia.assess.diagnostics import diagnose
from latentia.closed_form.frozen import Frozen
from latentia.data.columns.continuous import Column, place_cells
from latentia.data.columns.discrete import DiscreteColumn
from latentia.data.columns.values import Values
from latentia.data.moments import Moments
from latentia.data.rows import Rows, Source
from latentia.data.sources import handing_back as giving
from latentia.data.sources.engine import Engine, EngineRows, encode_table, row_weights, sketch_table
from latentia.data.sources.memory import LocalRows, compress
from latentia.data.sources.opening import open_engine
from latentia.data.sources.progress import as_progress
from latentia.data.sources.sketch import ColumnSketch, TableSketch
from latentia.data.sources.stream import OneShot, Stream
from latentia.data.sources.table import Table, read_table
from latentia.errors import DataError, MomentsError, UnknownNameError
from latentia.inference.operators import Operators
from latentia.model.notices import checked_weight
from latentia.structure.graph import spell
from latentia.structure.plan import Plan
from latentia.typing import Label

WEIGHT = " weight"  # a name that no column has
Discover = Callable[[Label, ColumnSketch], Column]


@final
@dataclass(frozen=True, slots=True)
class Opened:
    """A table whose columns are known, ready to be folded."""

    columns: tuple[Column, ...]
    engine: Engine
    weight: Label | None
    missing: Mapping[Label, float]  # share of missing cells per column
    constant: tuple[Label, ...]  # columns with a single value

    @property
    def once(self) -> bool:
        """Can the rows be read only once?"""
        return self.engine.once

    def source(self, columns: Sequence[Column]) -> Source:
        """All rows."""
        if isinstance(self.engine, OneShot) and not self.engine.once:  # all of it is in memory
            return self.first(columns)
        return EngineRows(self.engine, tuple(columns), self.weight)

    def first(self, columns: Sequence[Column]) -> Source:
        """Rows that can be read at once and again: a pilot, or all of them."""
        if isinstance(self.engine, OneShot):
            return _local(columns, self.weight, self.engine.pilot)
        return EngineRows(self.engine, tuple(columns), self.weight)


def weight_name(sample_weight: Any, names: Sequence[Label]) -> Label | None:
    """The column that holds the weights, if they are given by name."""
    if not isinstance(sample_weight, str):
        return None
    if sample_weight not in names:
        raise UnknownNameError("column (as sample_weight)", sample_weight, names)
    return sample_weight


def weights_of(sample_weight: Any, table: Table) -> Any:
    """Weights of a table in memory: those given, or those of its column of that name."""
    name = weight_name(sample_weight, table.names)
    return checked_weight(sample_weight if name is None else row_weights(name, table), table.length)


def open_rows(
    engine: Engine,
    names: Sequence[Label],
    weight: Label | None,
    discover: Discover,
) -> Opened:
    """One pass that discovers the columns (of rows that can be read once: over a pilot)."""
    wanted = [*names] if weight is None else [*names, weight]
    work = partial(sketch_table, names, weight)
    pilot = engine if isinstance(engine, OneShot) and engine.once else None
    fold = engine.fold if pilot is None else pilot.pilot_fold
    found: TableSketch | None = fold(work, wanted)
    if found is None or not found.weight > 0:
        raise DataError(
            f"0 sample(s) (shape=(0, {len(names)})) while a minimum of 1 is required: "
            "the table has no rows to learn from, or their weights are all zero."
        )
    columns = tuple(discover(name, found.columns[name]) for name in names)
    cells = {name: s.weight + s.missing for name, s in found.columns.items()}
    missing = {name: s.missing / cells[name] for name, s in found.columns.items()}
    flat = tuple(n for n, s in found.columns.items() if s.different < 2)
    return Opened(columns, engine, weight, missing, flat)


def _local(columns: Sequence[Column], weight: Label | None, tables: Sequence[Table]) -> LocalRows:
    """Blocks that are in memory as one."""
    parts = [encode_table(columns, weight, table) for table in tables]
    codes = [np.concatenate([p.codes[i] for p in parts]) for i in range(len(columns))]
    own = None if weight is None else np.concatenate([p.weight for p in parts if len(p)])
    rows = Rows(tuple(codes), own)
    if any(c.continuous for c in columns):
        return LocalRows(rows)
    return LocalRows(compress(rows, [c.cells for c in columns]))


def freeze_learner(learner: Any, plan: Plan, pilot: Source) -> Frozen:
    """What the learner would sum in one pass."""
    if not hasattr(learner, "freeze"):
        raise DataError(
            f"{type(learner).__name__} reads the rows again and again; it cannot learn from sums "
            "that are gathered once. Use PBP(), PBP.paper() or Spectral(), or rows that can be "
            "read again: a file, a list of frames, a function that opens them."
        )
    found: Frozen = learner.freeze(plan, pilot)
    return found


def learn_from(learner: Any, plan: Plan, opened: Opened) -> Operators:
    """The learner's own road, or, for rows that can be read once, that of frozen sums."""
    if not opened.once:
        found: Operators = learner.learn(plan, opened.source(opened.columns))
        return found
    frozen = freeze_learner(learner, plan, opened.first(opened.columns))
    return frozen.solve(opened.source(opened.columns).fold(frozen.summary))


def learn_mixed_from(
    learner: Any, plan: Plan, columns: Sequence[Column], opened: Opened
) -> Operators:
    """With continuous columns: rows have to be read several times."""
    if not hasattr(learner, "learn_mixed"):
        raise DataError(
            f"{type(learner).__name__} learns from discrete columns only; some are continuous. "
            "Bin them, or use learner='pbp'."
        )
    if opened.once:
        raise DataError(
            "continuous columns are read several times, these rows can be read once. Pass a "
            "function that opens them anew, or write them to a Parquet file and pass its path."
        )
    found: Operators = learner.learn_mixed(plan, columns, opened.source(columns))
    return found


@final
@dataclass(frozen=True, slots=True)
class FrozenModel:
    """A model before its numbers: columns, states, plan and basis are fixed, sums can be gathered.

    Made by `LatentModel.freeze(pilot)`. Whoever has it can gather sums of own rows; only these
    need to travel, and whoever adds them up can solve for the model.
    """

    model: Any  # the LatentModel, not fitted
    plan: Plan
    columns: tuple[DiscreteColumn, ...]
    frozen: Frozen

    @property
    def kind(self) -> str:
        """Of the moments that belong to it; states count, too."""
        states = repr([(spell(c.name), [spell(s) for s in c.states]) for c in self.columns])
        digest = hashlib.sha256(states.encode()).hexdigest()[:16]
        return f"{self.frozen.kind} of columns {digest}"

    def gather(self, X: Any, sample_weight: Any = None, progress: Any = None) -> Moments:
        """Σ over the rows of a table: any table that `fit` takes."""
        names = [c.name for c in self.columns]
        engine = open_engine(X, names, as_progress(progress))
        if engine is None:
            found = self._gather_table(read_table(X, names), sample_weight)
            return replace(found, kind=self.kind)
        weight = engine_weight(sample_weight, engine)
        found = EngineRows(engine, self.columns, weight).fold(self.frozen.summary)
        return replace(found, kind=self.kind)

    def _gather_table(self, table: Table, sample_weight: Any) -> Moments:
        weight = weights_of(sample_weight, table)
        codes = tuple(place_cells(c, table.column(c.name)) for c in self.columns)
        rows = Rows(codes, weight)
        if weight is not None:
            kept = weight > 0
            rows = Rows(tuple(c[kept] for c in codes), weight[kept])
        if not len(rows):
            raise DataError("the table has no rows to learn from.")
        return LocalRows(rows).fold(self.frozen.summary)

    def solve(self, moments: Moments) -> Any:
        """The fitted LatentModel of these sums."""
        found = clone(self.model)
        self.solve_into(found, moments)
        return found

    def solve_into(self, model: Any, moments: Moments) -> None:
        if moments.kind != self.kind:
            raise MomentsError(
                f"expected {self.kind}, got {moments.kind}. Moments can be solved only by what "
                "they were gathered for: the same graph, columns, states and frozen basis."
            )
        operators = self.frozen.solve(replace(moments, kind=self.frozen.kind))
        learner = repr(self.model.learner)
        model._keep(
            self.plan, operators, self.columns, diagnose(operators, learner, self._missing(moments))
        )

    def _missing(self, moments: Moments) -> dict[Label, float]:
        """Share of rows that lack a column (of a group of columns: one of them)."""
        found = {}
        for k in self.plan.leaves:
            sums = moments.sums[f"leaf/{k}"]
            there = float((sums[:, 0] if sums.ndim > 1 else sums).sum())
            for v in self.plan.nodes[k].columns:
                found[self.plan.graph.names[v]] = max(0.0, 1.0 - there / moments.weight)
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to one file, at once or not at all; `latentia.load` reads it."""
        doors.save(self, path)


def engine_weight(sample_weight: Any, engine: Engine) -> Label | None:
    """The column that holds the weights of rows that are read in blocks."""
    name = weight_name(sample_weight, engine.names)
    if sample_weight is not None and name is None:
        raise DataError(
            "expected sample_weight to be the name of a column for a table that is read in "
            f"blocks, got {type(sample_weight).__name__}. Put the weights into a column."
        )
    return name


def table_stream(X: Any, names: Sequence[Label] | None) -> Stream:
    """A table in memory as a stream of one block."""
    table = read_table(X, names)
    return Stream(table.names, lambda _: iter([table.native]), giving.give_list, table.length)


def with_weights(
    X: Any, names: Sequence[Label] | None, sample_weight: Any
) -> tuple[Stream, Label | None]:
    """A table in memory with its weights as one more column."""
    table = read_table(X, names)
    weight = checked_weight(sample_weight, table.length)
    cells: dict[Any, Any] = {name: _objects(table.column(name)) for name in table.names}
    cells[WEIGHT] = weight
    return table_stream(cells, None), WEIGHT


def _objects(values: Values) -> Any:
    return (
        values.cells if values.missing is None else np.ma.array(values.cells, mask=values.missing)
    )
