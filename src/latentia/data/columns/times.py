"""Columns of dates and times: measured as numbers, spelled as the times that they are."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import final

import numpy as np

from latentia.data.columns import masses
from latentia.data.columns.clock import DATE, TIME, Clock
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.columns.number_evidence import likelihood_of_function, likelihood_of_interval
from latentia.data.columns.values import LENIENT, Values, as_objects, plain
from latentia.errors import DataError, EvidenceError
from latentia.spelling import shortened
from latentia.typing import Array, Bools, Cell, CellArray, Codes

DAYS = Clock(DATE)


@final
@dataclass(frozen=True, slots=True)
class TimeColumn(ContinuousColumn):
    """A continuous column of days or seconds since 1970, whose cells are times."""

    clock: Clock = DAYS

    def on(self, laid: ContinuousColumn) -> ContinuousColumn:
        return time_column(laid, self.clock)

    def spelled(self, x: Array) -> CellArray:
        """Of whole days, whole days, though a mean lies between them."""
        return self.clock.times(masses.on_lattice(self, np.asarray(x, dtype=float)))

    def shown(self, x: float) -> str:
        """Of a column that is spread over days, the day and the minute."""
        return self.clock.shown(float(masses.on_lattice(self, np.array([x]))[0]))

    def apart(self, x: float) -> Cell:
        """A stretch of so many days or seconds."""
        return x * self.clock.unit

    def shown_apart(self, x: float) -> str:
        days = x * self.clock.unit / timedelta(days=1)
        return f"{days:.4g} days" if days >= 1.0 else f"{24.0 * days:.4g} hours"

    def read(self, x: Cell) -> Array:
        """Times that a user tells, as numbers."""
        cells = np.asarray(x)
        listed = [x] if cells.ndim == 0 else list(cells.ravel())
        return np.array([self._number(each) for each in listed]).reshape(cells.shape)

    def _number(self, given: Cell) -> float:
        found = self.clock.number(given)
        if found is None:
            raise EvidenceError(
                f"{self.name!r} holds {'dates' if self.clock.daily else 'times'}: expected one, "
                f"such as {self.shown(self._middle())!r}, or an interval (from, to), got "
                f"{shortened(plain(given))}{self._zoned()}."
            )
        return found

    def _zoned(self) -> str:
        zone = self.clock.zone
        if self.clock.form != TIME:
            return ""
        return " (times without a zone)" if zone is None else f" (times of a zone, as {zone})"

    def _middle(self) -> float:
        return float(self.unscaled(np.array([(self.low + self.high) / 2.0]))[0])

    def _numbers(self, values: Values) -> Values:
        found, odd = self.clock.numbers(values)
        if odd.any():
            row = int(odd.argmax())
            raise DataError(
                f"column {self.name!r} held {'dates' if self.clock.daily else 'times'} in training"
                f"{self._zoned()}; got {shortened(plain(values.cell(row)))} ({values.row(row)}). "
                f"Make such cells times like those, or missing (None){LENIENT}."
            )
        return found

    # --- what every column can do -----------------------------------------------------------------

    @property
    def labels(self) -> tuple[Cell, ...]:
        return tuple(self.spelled(masses.cell_values(self)).tolist())

    @property
    def summary_type(self) -> type:
        return self.clock.kind

    @property
    def answer_type(self) -> type:
        return self.clock.kind

    def place(self, values: Values) -> Array:
        return ContinuousColumn.place(self, self._numbers(values))

    def known(self, values: Values) -> tuple[Values, Bools]:
        odd = self.clock.numbers(values)[1]
        return values.without(odd) if odd.any() else values, odd

    def beyond(self, values: Values) -> Bools:
        return ContinuousColumn.beyond(self, self._numbers(values))

    def place_of(self, state: Cell) -> Array:
        return self.positions(np.array([self._number(state)]))

    def told(self, state: Cell) -> Values:
        self._number(state)
        return Values(as_objects([state]))

    def likelihood(self, given: Cell) -> Array:
        if self.is_range(given):
            ends = [end if end is None else self._number(end) for end in given]
            return likelihood_of_interval(self.name, self, ends)
        if not callable(given):
            return likelihood_of_function(self.name, self, given)
        return likelihood_of_function(self.name, self, lambda x: given(self.spelled(x)))

    def measured(self, values: Values) -> Array:
        return ContinuousColumn.measured(self, self._numbers(values))

    def log_slope(self, values: Values) -> Array:
        return ContinuousColumn.log_slope(self, self._numbers(values))

    def of_measures(self, measures: Array) -> CellArray:
        return self.spelled(self.unscaled(measures))

    def answers(self, best: CellArray) -> CellArray:
        return self.spelled(best)

    def filled(self, values: Values, best: CellArray) -> CellArray:
        return self.clock.times(ContinuousColumn.filled(self, self._numbers(values), best))

    def log_factor(self, values: Values) -> Array:
        return ContinuousColumn.log_factor(self, self._numbers(values))

    def bin_names(self, most: int) -> tuple[Cell, ...]:
        edges = self.unscaled(np.linspace(self.low, self.high, most + 1)).tolist()
        return tuple(f"{self.shown(a)} to {self.shown(b)}" for a, b in itertools.pairwise(edges))

    def draw(self, cells: Codes, rng: np.random.Generator) -> CellArray:
        return self.spelled(masses.draw(self, cells, rng))


def time_column(laid: ContinuousColumn, clock: Clock) -> TimeColumn:
    """A column of numbers, spelled as times."""
    own = {field.name: getattr(laid, field.name) for field in fields(ContinuousColumn)}
    return TimeColumn(**own, clock=clock)
