"""Continuous columns: values as positions on a grid, densities as masses at its points (design 7).

A column is scaled inside, so that units do not matter: straight, by asinh (long tails; around zero
it is the logarithm of what is positive), and by a curve through quantiles where neither makes a
bell of it. A density is piecewise linear between grid points and constant beyond the outermost,
half a step before the ends; hat functions turn values into weights of two neighbouring points, and
masses into a density whose integral is exactly their sum. A value that fills a share of an
otherwise continuous column (zero inflation) is an atom with a point of its own behind the grid.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from latentia.data.columns import masses
from latentia.data.columns.column import KINDS as KINDS
from latentia.data.columns.column import Column as Column
from latentia.data.columns.number_evidence import (
    likelihood_of_function,
    likelihood_of_interval,
    read_number,
)
from latentia.data.columns.scales import Knots, bend, steepness, straighten
from latentia.data.columns.values import LENIENT, Values, are_measurable, first_odd
from latentia.data.columns.values import to_values as to_values
from latentia.errors import DataError
from latentia.spelling import shortened
from latentia.typing import Array, Bools, Cell, CellArray, Codes, Label

POINTS = 128  # of the grid of a column in a leaf of its own
PAIRED_POINTS = 40  # along each axis of a leaf with several continuous columns
TAIL = 0.25  # standard deviations by which densities fall off beyond the grid
LONG_TAIL = 14.0  # range over interquartile range (a normal column of 10⁶ rows: 7.2)
FARTHEST = 1e120  # scaled values beyond this one are as good as it
SUMMARY = ("mean", "0.05", "0.5", "0.95")


@dataclass(frozen=True, slots=True)
class ContinuousColumn:
    """z = (x − centre) / scale, its asinh, or a curve of that; grid points low + (j + ½) step.

    Atoms come after the grid points.
    """

    name: Label
    centre: float
    scale: float
    warped: bool  # asinh: for long tails
    low: float  # the grid reaches from z = low …
    high: float  # … to z = high
    spread: float  # standard deviation of z
    points: int = POINTS
    atoms: tuple[float, ...] = ()  # values that stand alone
    knots: Knots = ()  # of a curve on top; none: z as it is
    walls: tuple[bool, bool] = (False, False)  # does the column end steeply at low, at high?
    lattice: tuple[int, int] = (0, 1)  # values are multiples of this fraction; (0, 1): of none
    cuts: tuple[float, ...] = ()  # z in the middle of wide gaps, each part of which is a bell
    single: bool = False  # are decimals of the lattice rounded to floats of 32 bits?
    kind: ClassVar[str] = "continuous"
    continuous: ClassVar[bool] = True

    def __post_init__(self) -> None:
        curve = [number for knot in self.knots for number in knot]
        numbers = (self.centre, self.scale, self.low, self.high, self.spread, *self.atoms, *curve)
        if not all(np.isfinite(numbers)) or not self.scale > 0 or not self.high > self.low:
            raise DataError(f"column {self.name!r} cannot be laid on a grid: {numbers}.")
        if self.points < 2 or not self.spread > 0:
            raise DataError(f"column {self.name!r} needs a grid of two points at least.")
        rising = (np.diff(np.reshape(curve, (-1, 2)), axis=0) > 0).all()
        if self.lattice[0] < 0 or self.lattice[1] < 1:
            raise DataError(f"column {self.name!r} cannot have the lattice {self.lattice}.")
        inside = (self.low, *self.cuts, self.high)
        if not (np.diff(inside) > 0).all():
            raise DataError(f"the cuts of column {self.name!r} must rise inside: {inside}.")
        if len(self.knots) == 1 or not rising:
            raise DataError(f"the knots of column {self.name!r} must rise: {self.knots}.")

    @property
    def cells(self) -> int:
        """Grid points and atoms: the column's states as far as messages are concerned."""
        return self.points + len(self.atoms)

    @property
    def curved(self) -> bool:
        """Is z anything but a straight line of x?"""
        return self.warped or bool(self.knots)

    @property
    def step(self) -> float:
        return (self.high - self.low) / self.points

    @property
    def grid(self) -> Array:
        """z of the grid points, without atoms."""
        return np.asarray(self.low + (np.arange(self.points) + 0.5) * self.step, dtype=float)

    def scaled(self, x: Array) -> Array:
        """z of values in their own units."""
        y = self._standard(x)
        y = np.arcsinh(y) if self.warped else y
        return bend(self.knots, y) if self.knots else np.asarray(y)

    def _standard(self, x: Array) -> Array:
        """(x − centre) / scale; what would overflow stays at the largest number."""
        with np.errstate(over="ignore"):
            y = (np.asarray(x, dtype=float) - self.centre) / self.scale
        return np.asarray(np.clip(y, -FARTHEST, FARTHEST))

    def unscaled(self, z: Array) -> Array:
        """Values of z."""
        y = np.asarray(z, dtype=float)
        y = straighten(self.knots, y) if self.knots else y
        return np.asarray((np.sinh(y) if self.warped else y) * self.scale + self.centre)

    def slope(self, x: Array) -> Array:
        """dz/dx."""
        y = self._standard(x)
        slope = (1.0 / np.hypot(1.0, y) if self.warped else np.ones_like(y)) / self.scale
        if self.knots:
            slope = slope * steepness(self.knots, np.arcsinh(y) if self.warped else y)
        return np.asarray(slope)

    def positions(self, x: Array) -> Array:
        """Position on the grid, 0 … points − 1; atoms from `points` on. NaN stays NaN."""
        found = np.clip((self.scaled(x) - self.low) / self.step - 0.5, 0.0, self.points - 1.0)
        for k, atom in enumerate(self.atoms):
            found[x == atom] = self.points + k
        return np.asarray(found)

    def at(self, positions: Array) -> Array:
        """z of positions."""
        z = self.low + (positions + 0.5) * self.step
        for k, atom in enumerate(self.atoms):
            z = np.where(positions == self.points + k, self.scaled(np.array(atom)), z)
        return np.asarray(z)

    def outside(self, x: Array) -> Bools:
        """Which values lie beyond the grid, and are no atoms either."""
        z = self.scaled(x)
        return np.asarray(((z < self.low) | (z > self.high)) & ~np.isin(x, self.atoms))

    def log_density_factor(self, x: Array) -> Array:
        """log of what turns hat-weighted mass into density per unit of x; 0 where missing.

        Beyond the grid the density falls from that of its end like a narrow Gaussian.
        """
        with np.errstate(invalid="ignore"):
            z = self.scaled(x)
            beyond = np.maximum(np.maximum(self.low - z, z - self.high), 0.0)
            found = np.log(self.slope(x) / self.step) - 0.5 * (beyond / (TAIL * self.spread)) ** 2
        for atom in self.atoms:
            found = np.where(x == atom, 0.0, found)
        return np.where(np.isnan(x), 0.0, found)

    def on(self, laid: ContinuousColumn) -> ContinuousColumn:
        """Another grid for the same column."""
        return laid

    def spelled(self, x: Array) -> CellArray:
        """Numbers as cells of a table."""
        return x

    def shown(self, x: float) -> str:
        """A number for people."""
        return f"{x:.4g}"

    def apart(self, x: float) -> Cell:
        """A difference of numbers."""
        return x

    def shown_apart(self, x: float) -> str:
        return f"{x:.4g}"

    def read(self, x: Cell) -> Array:
        """What a user tells as numbers."""
        return np.asarray(x, dtype=float)

    # --- what every column can do -----------------------------------------------------------------

    @property
    def labels(self) -> tuple[Cell, ...]:
        """The value at every cell."""
        return tuple(masses.cell_values(self).tolist())

    @property
    def summary_names(self) -> tuple[Cell, ...]:
        return SUMMARY

    @property
    def summary_type(self) -> type:
        return float

    @property
    def answer_type(self) -> type:
        return float

    def place(self, values: Values) -> Array:
        """Positions of the cells, NaN where missing; what is no number is an error."""
        _check_numbers(self.name, values)
        return self.positions(to_values(values, self.name, LENIENT))

    def known(self, values: Values) -> tuple[Values, Bools]:
        odd = ~are_measurable(values)
        odd = odd if values.missing is None else odd & ~values.missing
        return values.without(odd) if odd.any() else values, np.asarray(odd)

    def beyond(self, values: Values) -> Bools:
        x = to_values(values, self.name)
        return self.outside(x) & ~np.isnan(x)

    def nothing(self, count: int) -> Array:
        return np.full(count, np.nan)

    def present(self, places: Array) -> Bools:
        return np.asarray(~np.isnan(places))

    def corners(self, places: Array) -> tuple[Codes, Array]:
        """The two cells around each position and their weights, (2, n)."""
        gone = np.isnan(places)
        low = np.floor(np.where(gone, 0.0, places)).astype(np.int64)
        part = np.where(gone, 0.0, places - low)
        first = np.where(gone, self.cells, low)
        return np.stack([first, np.minimum(low + 1, self.cells - 1)]), np.stack([1.0 - part, part])

    def nearest(self, places: Array) -> Codes:
        """The nearest cell, -1 where missing."""
        there = np.nan_to_num(places, nan=-1.0)
        return np.asarray(np.rint(there), dtype=np.int16)

    def coordinates(self, places: Array) -> Array:
        """z in units of its spread, NaN where missing."""
        return np.asarray(self.at(places) / self.spread)

    def place_of(self, state: Cell) -> Array:
        return self.positions(np.array([read_number(self.name, state)]))

    def told(self, state: Cell) -> Values:
        return Values(np.array([read_number(self.name, state)]))

    def is_range(self, told: Cell) -> bool:
        """An interval (low, high)."""
        return isinstance(told, tuple | list)

    def likelihood(self, given: Cell) -> Array:
        """Of an interval the share of each cell inside; of a function its values."""
        if self.is_range(given):
            return likelihood_of_interval(self.name, self, given)
        return likelihood_of_function(self.name, self, given)

    def measured(self, values: Values) -> Array:
        """z, wherever it lies: the ends of the grid do not matter."""
        _check_numbers(self.name, values)
        return self.scaled(to_values(values, self.name, LENIENT))

    def log_slope(self, values: Values) -> Array:
        x = to_values(values, self.name)
        with np.errstate(invalid="ignore"):
            return np.where(np.isnan(x), 0.0, np.log(self.slope(x)))

    def of_places(self, places: Array) -> Array:
        return self.at(np.asarray(places, dtype=float))

    def of_measures(self, measures: Array) -> Array:
        return self.unscaled(measures)

    def best(self, p: Array) -> Array:
        """The mean, (n,)."""
        return masses.means(self, p)

    def answers(self, best: CellArray) -> Array:
        return np.asarray(best)

    @property
    def whole(self) -> bool:
        """Are all values whole numbers?"""
        return self.lattice[0] > 0 and self.lattice[1] == 1

    def settled(self, best: CellArray) -> Array:
        return masses.on_lattice(self, np.asarray(best, dtype=float))

    def filled(self, values: Values, best: CellArray) -> CellArray:
        """The cells of a table, with `best` where they are missing; whole numbers stay those."""
        x = to_values(values, self.name)
        told = self.settled(best)
        if self.whole and values.kind in "iu":
            return _with_whole(values, told)
        return np.where(np.isnan(x), told, x)

    def summary(self, p: Array) -> Array:
        """Mean and quantiles, (4, n)."""
        levels = [float(q) for q in SUMMARY[1:]]
        return np.concatenate([self.best(p)[None], masses.quantiles(self, p, levels)])

    def log_factor(self, values: Values) -> Array:
        return self.log_density_factor(to_values(values, self.name))

    def log_units(self, places: Array) -> Array:
        """Atoms have no units: 0, as where missing."""
        inside = np.where(places < self.points, places, np.nan)
        return self.log_density_factor(self.unscaled(self.at(inside)))

    def bins(self, places: Array, most: int) -> Codes:
        there = ~np.isnan(places)
        share = np.where(there, places, 0.0) / max(self.cells - 1, 1)
        own = np.clip((share * most).astype(np.int64), 0, most - 1)
        return np.where(there, own, -1)

    def bin_names(self, most: int) -> tuple[Cell, ...]:
        edges = self.unscaled(np.linspace(self.low, self.high, most + 1))
        return tuple(f"{a:.4g} to {b:.4g}" for a, b in itertools.pairwise(edges))

    def draw(self, cells: Codes, rng: np.random.Generator) -> CellArray:
        """Of whole numbers, whole numbers."""
        found = masses.draw(self, cells, rng)
        return found.astype(np.int64) if self.whole else found


def _check_numbers(name: Label, values: Values) -> None:
    odd = first_odd(values)
    if odd is not None:
        raise DataError(
            f"column {name!r} was continuous in training; expected numbers, got "
            f"{shortened(odd[1])} ({values.row(odd[0])}). Make such cells numbers, or missing "
            f"(None or NaN){LENIENT}."
        )


def dense_columns(
    variables: Iterable[int], columns: Iterable[Column]
) -> dict[int, ContinuousColumn]:
    """The continuous ones among columns, by variable."""
    own = zip(variables, columns, strict=True)
    return {v: c for v, c in own if isinstance(c, ContinuousColumn)}


def straightened(column: Column) -> Column:
    """The same column on a straight scale, for who needs its own units; long tails stay bent.

    Its grid has the same ends; centre and spread are told by them, not by the rows.
    """
    if not isinstance(column, ContinuousColumn) or not column.curved:
        return column
    first, last = column.unscaled(np.array([column.low, column.high])).tolist()
    inner = column.unscaled(0.675 * column.spread * np.array([-1.0, 1.0]))  # quartiles of a bell
    long = column.warped and last - first > LONG_TAIL * float(inner[1] - inner[0])
    if not column.knots or long:
        return column
    return replace(
        column,
        centre=(first + last) / 2.0,
        scale=(last - first) / 4.0,
        warped=False,
        knots=(),
        low=-2.0,
        high=2.0,
        spread=1.0,
    )


def _with_whole(values: Values, told: Array) -> Codes:
    """Whole numbers as they are, and `told` ones where they are missing."""
    if values.missing is None:
        return values.cells
    found = values.cells.astype(np.int64)
    found[values.missing] = told[values.missing].astype(np.int64)
    return found
