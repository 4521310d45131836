"""Columns as JSON values, and back: states as a list, a grid as an object."""

from __future__ import annotations

from typing import Any

from latentia.data.columns.continuous import Column, ContinuousColumn
from latentia.data.columns.discrete import DiscreteColumn
from latentia.errors import StoreError
from latentia.store.plain import fields, items, number, pack, unpack, whole
from latentia.typing import Label

MOST_POINTS = 1024  # smoothing needs the square of it
LARGEST = 1e100  # of values and scales, so that their squares are numbers …
FARTHEST = 1e6  # … of scaled values
FARTHEST_WARPED = 100.0  # … and of their sinh
SMALLEST = 1e-6  # width of a grid and spread of a column, scaled


def write_column(column: Column) -> Any:
    if isinstance(column, ContinuousColumn):
        return {
            "centre": column.centre,
            "scale": column.scale,
            "warped": column.warped,
            "ends": [column.low, column.high],
            "spread": column.spread,
            "points": column.points,
            "atoms": list(column.atoms),
        }
    return [pack(state, f"a state of column {column.name!r}") for state in column.states]


def read_column(record: Any, name: Label, count: int) -> Column:
    """The column of this name, with as many states or cells as the plan has."""
    column = _read_grid(record, name) if isinstance(record, dict) else _read_states(record, name)
    found = column.cells if isinstance(column, ContinuousColumn) else len(column.states)
    if found != count:
        raise StoreError(f"expected {count} states of column {name!r:.80}, got {found}.")
    return column


def _read_states(record: Any, name: Label) -> DiscreteColumn:
    return DiscreteColumn(name, tuple(unpack(state) for state in items(record)))


def _read_grid(record: Any, name: Label) -> ContinuousColumn:
    centre, scale, warped, ends, spread, points, atoms = fields(
        record, "centre", "scale", "warped", "ends", "spread", "points", "atoms"
    )
    if type(warped) is not bool:
        raise StoreError(f"expected true or false for warped, got {warped!r:.80}.")
    far = FARTHEST_WARPED if warped else FARTHEST
    low, high = (number(end, -far, far) for end in items(ends, 2))
    if not high - low >= SMALLEST:
        raise StoreError(f"expected a grid from low to high, got {low:g} to {high:g}.")
    largest = LARGEST**0.5 if warped else LARGEST
    return ContinuousColumn(
        name=name,
        centre=number(centre, -LARGEST, LARGEST),
        scale=number(scale, 1.0 / LARGEST, largest),
        warped=warped,
        low=low,
        high=high,
        spread=number(spread, SMALLEST, FARTHEST),
        points=whole(points, MOST_POINTS + 1, lowest=2),
        atoms=tuple(number(a, -LARGEST, LARGEST) for a in items(atoms)),
    )
