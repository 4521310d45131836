"""Indicator columns: whether a cell of another column is there, as a column of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar, final

import numpy as np

from latentia.data.rows import Additive
from latentia.data.sources.engine import Answer, Engine, Form, OneBlock
from latentia.data.sources.table import Table
from latentia.errors import DataError
from latentia.typing import Bools, ByName, Label, TableLike

Sum = TypeVar("Sum", bound=Additive)
MISSING, PRESENT = "missing", "present"
INDICATED = (MISSING, PRESENT)  # the states of an indicator


def with_indicators(engine: Engine, indicators: Mapping[Label, Label]) -> Engine:
    """The same table with a column for each indicator, {its name: the column it is about}."""
    if not indicators:
        return engine
    for name in indicators:
        if name in engine.names:
            raise DataError(
                f"the table has a column {name!r}, which the mechanism of missing cells would add. "
                "Rename it, or leave it out."
            )
    if isinstance(engine, OneBlock):
        return OneBlock(add_indicators(indicators, engine.table))
    return Indicated(engine, dict(indicators))


def add_indicators(indicators: Mapping[Label, Label], table: Table) -> Table:
    """Words that tell whether cells are there; a column that is not there is missing."""
    for name, about in indicators.items():
        gone: Bools = np.ones(table.length, dtype=bool)
        if about in table.names:
            told = table.column(about).missing
            gone = np.zeros(table.length, dtype=bool) if told is None else np.asarray(told)
        table = table.beside(name, np.where(gone, MISSING, PRESENT))
    return table


T = TypeVar("T")


@final
@dataclass(frozen=True, slots=True)
class Indicated:
    """An engine whose blocks get their indicators where they are read."""

    engine: Engine
    indicators: Mapping[Label, Label]

    @property
    def names(self) -> tuple[Label, ...]:
        return (*self.engine.names, *self.indicators)

    @property
    def once(self) -> bool:
        return self.engine.once

    @property
    def local(self) -> bool:
        return self.engine.local

    @property
    def wraps(self) -> bool:
        return self.engine.wraps

    def fold(self, work: Callable[[Table], Sum | None], columns: Sequence[Label]) -> Sum | None:
        wanted, asked = self._split(columns)
        return self.engine.fold(partial(_work_with, work, asked), wanted)

    def answer(
        self,
        work: Answer,
        kinds: ByName[type],
        columns: Sequence[Label],
        form: Form = "table",
    ) -> TableLike:
        wanted, asked = self._split(columns)
        return self.engine.answer(partial(_work_with, work, asked), kinds, wanted, form)

    def _split(self, columns: Sequence[Label]) -> tuple[list[Label], dict[Label, Label]]:
        """The columns of the table itself, and the indicators among those that are wanted."""
        asked = {name: about for name, about in self.indicators.items() if name in columns}
        own = [name for name in columns if name not in asked]
        more = [about for about in asked.values() if about in self.engine.names]
        return list(dict.fromkeys((*own, *more))), asked


def _work_with(work: Callable[[Table], T], asked: Mapping[Label, Label], table: Table) -> T:
    return work(add_indicators(asked, table))
