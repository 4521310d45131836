"""Columns as JSON values, and back: states as a list, a grid as an object."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from latentia.data.columns.clock import Clock, read_zone
from latentia.data.columns.column import Column
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.columns.discrete import DiscreteColumn
from latentia.data.columns.masses import cell_values
from latentia.data.columns.scales import Knots
from latentia.data.columns.times import TimeColumn, time_column
from latentia.errors import DataError, StoreError
from latentia.store.plain import fields, items, number, pack, text, unpack, whole
from latentia.typing import Given, Label

OLDER = {
    "knots": [],
    "walls": [False, False],
    "lattice": [0, 1],
    "cuts": [],
    "clock": None,
    "single": False,
}  # what older files do not say
MOST_KNOTS = 256  # of a curve
SMALLEST_STEP = 1e-10  # between two knots
MOST_POINTS = 1024  # smoothing needs the square of it
LARGEST = 1e100  # of values and scales, so that their squares are numbers …
FARTHEST = 1e6  # … of scaled values
FARTHEST_WARPED = 500.0  # … before sinh, where the scale is small …
SLACK = 25.0  # … and room for the margins of a grid
LONGEST_TIME = 26  # letters
FARTHEST_DAY = 700_000.0  # from 1970, either way: the years 54 to 3886
SMALLEST = 1e-6  # width of a grid and spread of a column, scaled


def write_column(column: Column) -> object:
    if isinstance(column, ContinuousColumn):
        return {
            "centre": column.centre,
            "scale": column.scale,
            "warped": column.warped,
            "ends": [column.low, column.high],
            "spread": column.spread,
            "points": column.points,
            "atoms": list(column.atoms),
            **({"knots": [list(knot) for knot in column.knots]} if column.knots else {}),
            **({"walls": list(column.walls)} if any(column.walls) else {}),
            **({"lattice": list(column.lattice)} if column.lattice[0] else {}),
            **({"cuts": list(column.cuts)} if column.cuts else {}),
            **({"single": True} if column.single else {}),
            **({"clock": _write_clock(column.clock)} if isinstance(column, TimeColumn) else {}),
        }
    return [pack(state, f"a state of column {column.name!r}") for state in column.labels]


def newer_columns(records: Given) -> bool:
    """Does any column have what files before version 5 did not say?"""
    return any(
        isinstance(record, dict) and not OLDER.keys().isdisjoint(record) for record in records
    )


def leaves_with_atoms(records: Given) -> bool:
    """Gaussian leaves with a component for each atom: before version 5 they had none."""
    columns = [each for record in records for each in record.get("states", ())]
    atoms = any(isinstance(each, dict) and each["atoms"] for each in columns)
    return atoms and any("gaussians" in record.get("operators", {}) for record in records)


def read_column(record: object, name: Label, count: int) -> Column:
    """The column of this name, with as many states or cells as the plan has."""
    column = _read_grid(record, name) if isinstance(record, dict) else _read_states(record, name)
    if column.cells != count:
        raise StoreError(f"expected {count} states of column {name!r:.80}, got {column.cells}.")
    return column


def _read_states(record: object, name: Label) -> DiscreteColumn:
    return DiscreteColumn(name, tuple(unpack(state) for state in items(record)))


def _read_grid(record: Given, name: Label) -> ContinuousColumn:
    record = {**OLDER, **record}
    centre, scale, warped, ends, spread, points, atoms, *more = fields(
        record,
        *("centre", "scale", "warped", "ends", "spread", "points", "atoms"),
        *OLDER,
    )
    knots, walls, lattice, cuts, clock, single = more
    step, per = items(lattice, 2)
    for flag in (warped, single, *items(walls, 2)):
        if type(flag) is not bool:
            raise StoreError(
                f"expected true or false for warped, single and walls, got {flag!r:.80}."
            )
    far = FARTHEST_WARPED if warped and not knots else FARTHEST
    low, high = (number(end, -far, far) for end in items(ends, 2))
    if not high - low >= SMALLEST:
        raise StoreError(f"expected a grid from low to high, got {low:g} to {high:g}.")
    curve = _read_knots(knots, FARTHEST_WARPED if warped else FARTHEST)
    reach = max(abs(y) for y, _ in curve) if curve else max(abs(low), abs(high))
    largest = LARGEST / math.exp(max(reach - SLACK, 0.0)) if warped else LARGEST
    laid = ContinuousColumn(
        name=name,
        centre=number(centre, -LARGEST, LARGEST),
        scale=number(scale, 1.0 / LARGEST, largest),
        warped=warped,
        low=low,
        high=high,
        spread=number(spread, SMALLEST, FARTHEST),
        points=whole(points, MOST_POINTS + 1, lowest=2),
        atoms=tuple(number(a, -LARGEST, LARGEST) for a in items(atoms)),
        knots=curve,
        walls=(walls[0], walls[1]),
        lattice=(whole(step, 2**53), whole(per, 1001, lowest=1)),
        cuts=tuple(number(cut, low, high) for cut in items(cuts)),
        single=single,
    )
    return laid if clock is None else _read_times(laid, clock)


def _write_clock(clock: Clock) -> list[Given]:
    return [clock.form, clock.zone, clock.length, clock.between]


def _read_times(laid: ContinuousColumn, record: Given) -> TimeColumn:
    """A column of times: all of its grid and its atoms must be some."""
    form, zone, length, between = items(record, 4)
    try:
        told = None if zone is None else text(zone)
        clock = Clock(text(form), told, whole(length, LONGEST_TIME + 1), text(between))
        if told is not None:
            read_zone(told)
    except DataError as error:
        raise StoreError(f"expected how times are spelled: {error}") from None
    column = time_column(laid, clock)
    reach = np.abs(cell_values(column)).max()
    if not reach <= FARTHEST_DAY * (1.0 if clock.daily else 86_400.0):
        raise StoreError(
            f"expected times of a calendar in column {laid.name!r:.80}, got {reach:g}."
        )
    return column


def _read_knots(record: Given, far: float) -> Knots:
    """Pairs that rise in both ways, by more than nothing."""
    if len(items(record)) > MOST_KNOTS or len(record) == 1:
        raise StoreError(f"expected 2 to {MOST_KNOTS} knots or none, got {len(record)}.")
    found = []
    for pair in record:
        y, z = items(pair, 2)
        found.append((number(y, -far, far), number(z, -FARTHEST, FARTHEST)))
    for (y, z), (y1, z1) in pairwise(found):
        if not (y1 - y > SMALLEST_STEP and z1 - z > SMALLEST_STEP):
            raise StoreError(f"expected knots that rise, got {y:g}, {z:g} before {y1:g}, {z1:g}.")
    return tuple(found)
