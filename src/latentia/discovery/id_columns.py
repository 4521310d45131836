"""Which columns are ids: names, account numbers and row numbers, which tell nothing of other rows.

Words are ids if nearly every cell has one of its own, or if they are too many for states. Whole
numbers can be measurements all the same: they are ids if they are all different although chance
would have made many of them equal. Of n values drawn alike from R possible ones, n(n−1)/(2R) pairs
are equal on average, or more, whatever their distribution; running numbers have R ≈ n. Numbers of
which some are missing are none.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from latentia.announcing import warn
from latentia.data.columns.discovering import MOST_STATES, check_written, is_measured
from latentia.data.sources.sketch import ColumnSketch, NumberSketch
from latentia.errors import DataError, IgnoredColumnWarning
from latentia.typing import Label

FEWEST_CELLS = 50
NEARLY_ALL = 0.9  # different values among the cells
EQUAL_PAIRS = 12.0  # that chance would have made, at least: none has probability e⁻¹²
FEWER = 0.25  # of them, at most, are there
NUMBERS = "whole numbers that are all different, as ids are"
YEARS = (1500, 2200)  # one row a year is a series, and time tells


def id_columns(
    seen: Mapping[Label, ColumnSketch],
    names: Sequence[Label],
    kinds: Mapping[Label, str],
    asked_for: Collection[Label] = (),
) -> dict[Label, str]:
    """Columns to leave out of a structure, and why; never those that were asked for."""
    found = {}
    for name in names:
        kind = kinds.get(name)
        asked = kind == "continuous" or name in asked_for
        why = None if asked else _why_id(name, seen[name], kind)
        if why is not None:
            found[name] = why
    if len(found) == len(names) > 0:
        raise DataError(
            "every column has a value of its own in nearly every row, as ids have: there is "
            "nothing to learn. Say which columns are numbers with kinds={...: 'continuous'}."
        )
    return found


def names_without(names: Sequence[Label], left_out: Collection[Label]) -> tuple[Label, ...]:
    """The names that stay, in their order."""
    return tuple(name for name in names if name not in left_out)


def note_ids(left_out: Mapping[Label, str]) -> None:
    """Tells which columns are left out, and how to keep numbers."""
    if not left_out:
        return
    shown = "; ".join(f"{name} ({why})" for name, why in [*left_out.items()][:10])
    more = " …" if len(left_out) > 10 else ""
    number = next((name for name, why in left_out.items() if why == NUMBERS), None)
    keep = "" if number is None else f" To keep numbers: kinds={{{number!r}: 'continuous'}}."
    warn(
        f"{len(left_out)} column(s) left out of the structure: {shown}{more}.{keep}",
        IgnoredColumnWarning,
    )


def _why_id(name: Label, sketch: ColumnSketch, kind: str | None) -> str | None:
    numbers, enough = sketch.numbers, sketch.cells >= FEWEST_CELLS
    if kind is None and numbers is not None and is_measured(numbers):
        if sketch.clock is not None or sketch.missing > 0:
            return (
                None  # days of a series are all different; rows whose number nobody knows have none
            )
        if sketch.others or not enough or not are_ids(numbers, sketch.cells):
            return None  # an odd cell among numbers is an error, of which discovering tells
        return NUMBERS
    different = max(sketch.different, len(sketch.categories or ()))
    own = enough and different >= NEARLY_ALL * sketch.cells
    many = different > MOST_STATES and kind is None and sketch.categories is None
    if not own and not many:
        return None
    check_written(name, sketch)
    if own:
        return "a value of its own in nearly every row, as ids have"
    return f"more than {MOST_STATES} different values, too many for states"


def are_ids(numbers: NumberSketch, cells: int) -> bool:
    """Are so many whole numbers all different, or nearly, where chance would have made pairs?

    >>> import numpy as np
    >>> from latentia.data.sources.sketch import sketch_numbers
    >>> incomes = np.random.default_rng(0).integers(20_000, 90_000, 100)
    >>> [are_ids(sketch_numbers(x), 100) for x in (np.arange(100), incomes)]
    [True, False]
    """
    values = numbers.seen.tolist()
    if any(x != math.floor(x) for x in values):
        return False
    low, high = int(numbers.low[0][0]), int(numbers.high[0][0])
    if YEARS[0] <= low and high <= YEARS[1]:
        return False
    step = math.gcd(*(int(x) - int(values[0]) for x in values)) or 1
    possible = (high - low) // step + 1
    expected = 0.5 * cells * (cells - 1) / possible
    mean = float(numbers.weights.mean())
    different = len(values) if numbers.whole else numbers.weight / mean
    equal = max(cells - different, 0.0)
    return bool(
        expected >= EQUAL_PAIRS and different >= NEARLY_ALL * cells and equal <= FEWER * expected
    )
