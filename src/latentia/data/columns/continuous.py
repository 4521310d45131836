"""Continuous columns: values as positions on a grid, densities as masses at its points (design 7).

A column is scaled inside (long tails through asinh), so that units do not matter. A density is
piecewise linear between grid points and constant beyond the outermost, half a step before the ends;
hat functions turn values into weights of two neighbouring points, and masses into a density whose
integral is exactly their sum. A value that
fills a good share of an otherwise continuous column (zero inflation) is an atom with a point of its
own behind the grid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np

from latentia.data.columns.discrete import (
    MANY_FLOATS,
    DiscreteColumn,
    Values,
    discover_states,
    encode,
)
from latentia.errors import DataError
from latentia.typing import Array, Codes, Label

KINDS = ("discrete", "continuous")
POINTS = 128  # of the grid of a column in a leaf of its own
PAIRED_POINTS = 40  # along each axis of a leaf with several continuous columns
MANY_FINE = 4  # decimals with more digits than FINE tells …
FINE = 1000.0  # … are measured and not counted
MANY_INTEGERS = 40  # integers with more distinct values than this are continuous
FEWEST_AT_ATOM = 5
FEWEST_AT_BOUND = 3
ATOM = 0.1  # share of rows at one value that makes it an atom …
LONELY = 0.5  # … if this share of the other values is seen only once
LONG_TAIL = 14.0  # range over interquartile range (a normal column of 10⁶ rows: 7.2)
MARGIN = 0.05  # of the range, on sides that are not bounds
TAIL = 0.25  # standard deviations by which densities fall off beyond the grid
LARGEST_VALUE = 1e100  # of a column in training
FARTHEST = 1e120  # scaled values beyond this one are as good as it
BOUND = 0.01  # share of rows at the smallest or largest value that makes it a bound


@final
@dataclass(frozen=True, slots=True)
class ContinuousColumn:
    """z = (x − centre) / scale, or its asinh; grid points low + (j + ½) step, then the atoms."""

    name: Label
    centre: float
    scale: float
    warped: bool  # asinh: for long tails
    low: float  # the grid reaches from z = low …
    high: float  # … to z = high
    spread: float  # standard deviation of z
    points: int = POINTS
    atoms: tuple[float, ...] = ()  # values that stand alone

    def __post_init__(self) -> None:
        numbers = (self.centre, self.scale, self.low, self.high, self.spread, *self.atoms)
        if not all(np.isfinite(numbers)) or not self.scale > 0 or not self.high > self.low:
            raise DataError(f"column {self.name!r} cannot be laid on a grid: {numbers}.")
        if self.points < 2 or not self.spread > 0:
            raise DataError(f"column {self.name!r} needs a grid of two points at least.")

    @property
    def cells(self) -> int:
        """Grid points and atoms: the column's states as far as messages are concerned."""
        return self.points + len(self.atoms)

    @property
    def step(self) -> float:
        return (self.high - self.low) / self.points

    @property
    def grid(self) -> Array:
        """z of the grid points, without atoms."""
        return np.asarray(self.low + (np.arange(self.points) + 0.5) * self.step, dtype=float)

    def scaled(self, x: Array) -> Array:
        """z of values in their own units."""
        z = self._standard(x)
        return np.asarray(np.arcsinh(z) if self.warped else z)

    def _standard(self, x: Array) -> Array:
        """(x − centre) / scale; what would overflow stays at the largest number."""
        with np.errstate(over="ignore"):
            z = (np.asarray(x, dtype=float) - self.centre) / self.scale
        return np.asarray(np.clip(z, -FARTHEST, FARTHEST))

    def unscaled(self, z: Array) -> Array:
        """Values of z."""
        z = np.asarray(z, dtype=float)
        return np.asarray((np.sinh(z) if self.warped else z) * self.scale + self.centre)

    def slope(self, x: Array) -> Array:
        """dz/dx."""
        z = self._standard(x)
        return np.asarray((1.0 / np.hypot(1.0, z) if self.warped else np.ones_like(z)) / self.scale)

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

    def outside(self, x: Array) -> Codes:
        """Which values lie beyond the grid."""
        z = self.scaled(x)
        return np.asarray((z < self.low) | (z > self.high))

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


Column: TypeAlias = DiscreteColumn | ContinuousColumn


def discover(
    name: Label,
    values: Values,
    kind: str | None = None,
    given: Sequence[Any] | None = None,
    weight: Array | None = None,
) -> Column:
    """The states or the grid of a column.

    Numbers are continuous if they are decimals with more than 20 different values (more than 4 if
    they have more than three decimals), or integers with more than 40; everything else, and every
    column with given states or categories, is discrete. Weights of rows are frequencies.

    >>> type(discover("x", Values(np.linspace(0, 1, 50)))).__name__
    'ContinuousColumn'
    """
    if kind == "continuous" and given is None:
        values = _numbers(values) or values
    numeric = values.cells.dtype.kind in "iuf" and values.categories is None and given is None
    if kind == "continuous":
        if not numeric:
            raise DataError(
                f"column {name!r} is said to be continuous, but its values are no numbers "
                "(or its states were given). Pass numbers, or leave out its kind."
            )
        return _lay_grid(name, values.present.astype(float), _weight_of(values, weight))
    if kind is None and numeric and _many(values.present):
        return _lay_grid(name, values.present.astype(float), _weight_of(values, weight))
    return discover_states(name, values, kind, given)


def place_cells(column: Column, values: Values) -> Any:
    """Codes of a discrete column (-1: missing), positions of a continuous one (NaN: missing)."""
    if isinstance(column, DiscreteColumn):
        return encode(column, values)
    found = _numbers(values)
    if found is None:
        odd = next(v for v in values.present.tolist() if not _is_number(v))
        raise DataError(
            f"column {column.name!r} was continuous in training; expected numbers, got {odd!r}. "
            "Make such cells numbers, or missing (None or NaN)."
        )
    return column.positions(to_values(found))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _numbers(values: Values) -> Values | None:
    """The same as an array of numbers, if all present cells are: objects may be numbers, too."""
    if values.cells.dtype.kind in "iuf":
        return values
    present = values.present
    if values.cells.dtype.kind != "O" or not all(map(_is_number, present.tolist())):
        return None
    cells = np.full(len(values.cells), np.nan)
    cells[slice(None) if values.missing is None else ~values.missing] = present.astype(float)
    if np.isinf(cells).any():
        raise DataError("Input contains infinity; expected finite numbers or missing cells (NaN).")
    return Values(cells, values.missing)


def to_values(values: Values) -> Array:
    """Numbers, NaN where missing."""
    x = (_numbers(values) or values).cells.astype(float)
    if values.missing is not None:
        x[values.missing] = np.nan
    return x


def _many(present: np.ndarray[Any, Any]) -> bool:
    """More different numbers than a discrete column has; looks at a part first."""
    for part in (present[:2000], present) if len(present) > 2000 else (present,):
        seen = np.unique(part)  # what is seen decides, not how often: weights do the same
        if present.dtype.kind in "iu" or (seen == np.rint(seen)).all():
            limit = MANY_INTEGERS
        else:
            with np.errstate(over="ignore"):
                fine = np.clip(seen * FINE, -FARTHEST, FARTHEST)
            limit = MANY_FLOATS if np.allclose(fine, np.rint(fine), rtol=0) else MANY_FINE
        if len(seen) > limit:
            return True
    return False


def _weight_of(values: Values, weight: Array | None) -> Array | None:
    return weight if weight is None or values.missing is None else weight[~values.missing]


def _at_bound(marked: Any, weight: Array | None) -> bool:
    """Do enough rows lie at an end to call it a bound?"""
    count = float(marked.sum() if weight is None else weight[marked].sum())
    total = float(len(marked) if weight is None else weight.sum())
    return count >= max(BOUND * total, FEWEST_AT_BOUND)


def _moments(x: Array, weight: Array | None) -> tuple[float, float]:
    """Mean and standard deviation."""
    mean = float(np.average(x, weights=weight))
    return mean, math.sqrt(float(np.average((x - mean) ** 2, weights=weight)))


def _quantiles(x: Array, weight: Array | None, q: Sequence[float]) -> list[float]:
    """As numpy's, of values repeated by their weights."""
    if weight is None:
        return [float(v) for v in np.quantile(x, q)]
    order = np.argsort(x, kind="stable")
    level = np.cumsum(weight[order])
    place = np.asarray(q) * max(float(level[-1]) - 1.0, 0.0)
    below = np.floor(place)
    ends = [
        x[order][np.minimum(np.searchsorted(level, k, side="right"), len(x) - 1)]
        for k in (below, below + 1.0)
    ]
    part = place - below
    return [float(v) for v in np.where(part > 0, ends[0] + part * (ends[1] - ends[0]), ends[0])]


def _lay_grid(name: Label, x: Array, weight: Array | None = None) -> ContinuousColumn:
    """Centre, scale, tails, bounds and atoms from the values."""
    if not len(x):
        raise DataError(
            f"column {name!r} has no value at all. Drop it from the graph, or make it latent."
        )
    atoms = _find_atoms(x, weight)
    rest = x[~np.isin(x, atoms)] if atoms else x
    weight = weight[~np.isin(x, atoms)] if atoms and weight is not None else weight
    if np.abs(rest).max() > LARGEST_VALUE or 0 < np.ptp(rest) < 1.0 / LARGEST_VALUE:
        raise DataError(
            f"column {name!r} runs from {rest.min():.3g} to {rest.max():.3g}: its squares cannot "
            f"be summed (values up to ±{LARGEST_VALUE:.0e}, ranges from {1 / LARGEST_VALUE:.0e} "
            "can). Scale it, or take its logarithm."
        )
    if rest.min() == rest.max():
        raise DataError(
            f"column {name!r} has a single value ({float(rest[0])!r}); a continuous column needs "
            f"two. Drop it from the graph, or pass kinds={{{name!r}: 'discrete'}}."
        )
    low, middle, high = _quantiles(rest, weight, (0.25, 0.5, 0.75))
    warped = high > low and float(rest.max() - rest.min()) > LONG_TAIL * (high - low)
    if warped:
        centre, scale = middle, (high - low) / 1.35
    else:
        centre, scale = _moments(rest, weight)
    z = (rest - centre) / scale
    z = np.arcsinh(z) if warped else z
    first, last = float(z.min()), float(z.max())
    room = MARGIN * (last - first)
    first -= 0.0 if _at_bound(z == first, weight) else room
    last += 0.0 if _at_bound(z == last, weight) else room
    return ContinuousColumn(
        name, centre, scale, warped, first, last, _moments(z, weight)[1], POINTS, tuple(atoms)
    )


def _find_atoms(x: Array, weight: Array | None = None) -> list[float]:
    """Values with a good share of the rows, where most others are seen once and not whole."""
    if (x == np.rint(x)).all():
        return []
    if weight is None:
        seen, counts = np.unique(x, return_counts=True)
    else:
        seen, place = np.unique(x, return_inverse=True)
        counts = np.bincount(place, weight)
    often = counts >= max(ATOM * counts.sum(), FEWEST_AT_ATOM)
    others = counts[~often]
    if not often.any() or not len(others) or (others <= 1).mean() < LONELY:
        return []
    return [float(v) for v in seen[often]]
