"""What every kind of column can do, so that nobody else has to ask which kind it is."""

from __future__ import annotations

from typing import Protocol, TypeAlias

import numpy as np

from latentia.data.columns.values import Values
from latentia.typing import Array, Bools, Cell, CellArray, Codes, Label

Places: TypeAlias = (
    CellArray  # (n,) codes, -1 where missing, or positions on a grid, NaN where missing
)
KINDS = ("discrete", "continuous")


class Column(Protocol):
    """A column of a model: values become places, and masses of its cells become answers."""

    @property
    def name(self) -> Label: ...

    @property
    def kind(self) -> str:
        """``discrete`` or ``continuous``."""
        ...

    @property
    def continuous(self) -> bool: ...

    @property
    def curved(self) -> bool:
        """Is what `measured` tells anything but a straight line of the values?"""
        ...

    @property
    def cells(self) -> int:
        """States, or points of the grid and atoms: the length of a vector of masses."""
        ...

    @property
    def labels(self) -> tuple[Cell, ...]:
        """The states, or the value at every cell."""
        ...

    @property
    def summary_names(self) -> tuple[Cell, ...]:
        """Names of what `summary` tells; those of a discrete column differ when printed."""
        ...

    @property
    def summary_type(self) -> type:
        """Of what `spelled` makes of a summary: float, but for times."""
        ...

    @property
    def answer_type(self) -> type:
        """Of a table's column that holds the column's values: float, int, bool or str."""
        ...

    def place(self, values: Values) -> Places:
        """Cells of a table as codes or positions; what cannot be placed is an error."""
        ...

    def known(self, values: Values) -> tuple[Values, Bools]:
        """The cells with those that cannot be placed made missing; and which these are."""
        ...

    def beyond(self, values: Values) -> Bools:
        """Which cells can be placed, but lie where training saw none."""
        ...

    def nothing(self, count: int) -> Places:
        """The places of so many missing cells."""
        ...

    def present(self, places: Places) -> Bools:
        """Which of the places are not missing."""
        ...

    def corners(self, places: Places) -> tuple[Codes, Array]:
        """Cells around each place and their weights, (k, n) each; `cells` where missing."""
        ...

    def nearest(self, places: Places) -> Codes:
        """The cell nearest to each place, -1 where missing."""
        ...

    def coordinates(self, places: Places) -> Array:
        """Codes, or z in units of its spread; NaN where missing."""
        ...

    def place_of(self, state: Cell) -> Places:
        """The place of one state or number that was told, (1,)."""
        ...

    def told(self, state: Cell) -> Values:
        """The same as a cell of a table."""
        ...

    def is_range(self, told: Cell) -> bool:
        """Does hard evidence tell a range of cells instead of one place?"""
        ...

    def likelihood(self, given: Cell) -> Array:
        """Likelihoods of the cells by what is told of them: a range, or soft evidence."""
        ...

    def measured(self, values: Values) -> Array:
        """Codes, or z wherever it lies, of the cells of a table; NaN where missing."""
        ...

    def log_slope(self, values: Values) -> Array:
        """log of by how much `measured` grows with the values; 0 where missing, or discrete."""
        ...

    def of_places(self, places: Places) -> Array:
        """The same of places."""
        ...

    def of_measures(self, measures: Array) -> CellArray:
        """Cells as a table has them: states of codes, or numbers in their own units."""
        ...

    def best(self, p: Array) -> Array:
        """(cells, n) -> (n,): the most probable code, or the mean."""
        ...

    def answers(self, best: CellArray) -> CellArray:
        """States of codes; numbers as they are."""
        ...

    def settled(self, best: CellArray) -> CellArray:
        """What `best` says, as codes or as numbers that the column can have."""
        ...

    def filled(self, values: Values, best: CellArray) -> CellArray:
        """The cells of a table, with the answers of `best` where they are missing."""
        ...

    def summary(self, p: Array) -> Array:
        """(cells, n) -> (k, n): probabilities of states, or mean and quantiles."""
        ...

    def spelled(self, x: Array) -> CellArray:
        """Numbers that `summary` and quantiles tell, as a table has them."""
        ...

    def log_factor(self, values: Values) -> Array:
        """log of what turns probability of a place into density of a value; 0 if discrete."""
        ...

    def log_units(self, places: Places) -> Array:
        """The same of places; 0 where missing."""
        ...

    def bins(self, places: Places, most: int) -> Codes:
        """Codes, or positions in so many bins; -1 where missing."""
        ...

    def bin_names(self, most: int) -> tuple[Cell, ...]:
        """The states, or from where to where the bins reach."""
        ...

    def draw(self, cells: Codes, rng: np.random.Generator) -> CellArray:
        """Values for cells that were drawn."""
        ...


def is_present(places: Places) -> Bools:
    """Which places are not missing, where the column is not at hand: positions are floats."""
    return np.asarray(~np.isnan(places) if places.dtype.kind == "f" else places >= 0)


def share_missing(column: Column, places: Places, weight: Array | None) -> float:
    """Share of the rows that lack the column."""
    return float(np.average(~column.present(places), weights=weight))
