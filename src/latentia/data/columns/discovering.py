"""Discovering a column from the sketch of its cells: which kind it is, its states or its grid.

The rule for kinds, where none is given: numbers are continuous if they are decimals with more than
10 different values (more than 4 if they have more than three decimals), or integers with more than
40. Half as many are enough where one cell in two hundred is the only one with its value: then other
rows are likely to bring new values (Good and Turing), which states cannot be. What one cell in a
hundred does decides nothing: a decimal among integers leaves them integers. Times are measured by
the same rule, in days or seconds, unless they are declared to be categories. Everything else,
and every column with given states or categories, is discrete. A column whose count of different
values is near a limit may change its kind with the rows: give its kind.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.columns.continuous import FARTHEST
from latentia.data.columns.discrete import DiscreteColumn
from latentia.data.columns.grids import lay_grid
from latentia.data.columns.times import time_column
from latentia.data.columns.values import Values, distinct_states, plain, sorted_states
from latentia.data.sources.cell_spelling import CODE
from latentia.data.sources.sketch import (
    ColumnSketch,
    NumberSketch,
    sketch_column,
    sketch_numbers,
    without_clock,
)
from latentia.errors import DataError
from latentia.spelling import shortened
from latentia.typing import Array, Cell, Label

MOST_STATES = 1000  # of a discrete column that was not told to have more
MANY_FLOATS = 10  # decimals with more different values than this are continuous
MANY_FINE = 4  # decimals with more digits than FINE tells …
FINE = 1000.0  # … are measured and not counted …
OFTEN = 5  # … unless nearly every cell has a value that so many cells have
MANY_INTEGERS = 40  # integers with more different values than this are continuous
SINGLE = 0.005  # share of cells that are the only ones with their value, where half as many do
ODD = 0.01  # share of cells that decides nothing
MOSTLY = 0.5  # share of numbers in a column that was meant to hold numbers


def discover(
    name: Label,
    sketch: ColumnSketch,
    kind: str | None = None,
    given: Sequence[Cell] | None = None,
) -> Column:
    """The states or the grid of a column; weights of rows are frequencies.

    >>> discover("D", sketch_column(Values(np.array([3, 1, 1]))))
    DiscreteColumn(name='D', states=(1, 3))
    >>> discover("x", sketch_column(Values(np.linspace(0, 1, 50)))).kind
    'continuous'
    """
    if sketch.clock is not None:
        if given is None and (kind == "continuous" or (kind is None and _is_timed(sketch))):
            return time_column(lay_grid(name, _only_numbers(name, sketch, given)), sketch.clock)
        sketch = without_clock(sketch)
    if kind == "continuous":
        return lay_grid(name, _only_numbers(name, sketch, given))
    if given is not None:
        return stated_column(name, given)
    if sketch.categories is not None:
        return DiscreteColumn(name, sketch.categories)
    if sketch.numbers is not None and kind is None and is_measured(sketch.numbers):
        if not sketch.others:
            return lay_grid(name, sketch.numbers)
        if sketch.numbers.weight >= MOSTLY * sketch.weight:
            raise _odd_cell(name, sketch)
    if kind is None:
        check_written(name, sketch)
    return DiscreteColumn(name, _seen_states(name, sketch))


def stated_column(name: Label, given: Sequence[Cell]) -> DiscreteColumn:
    """The column whose states were given."""
    return DiscreteColumn(name, _given_states(name, given))


def discover_from_values(
    name: Label,
    values: Values,
    kind: str | None = None,
    given: Sequence[Cell] | None = None,
    weight: Array | None = None,
) -> Column:
    """The column of a table of one block.

    >>> discover_from_values("x", Values(np.array(["b", "a"], dtype=object)))
    DiscreteColumn(name='x', states=('a', 'b'))
    """
    return discover(name, sketch_column(values, weight, name), kind, given)


def is_measured(numbers: NumberSketch) -> bool:
    """Are there more different numbers than a discrete column has?"""
    if not numbers.whole:
        return True
    seen, share = numbers.seen.astype(float), numbers.weights / numbers.weights.sum()
    with np.errstate(over="ignore"):
        fine = np.clip(seen * FINE, -FARTHEST, FARTHEST)
    if share[np.abs(fine - np.rint(fine)) > 1e-8].sum() > ODD:
        return len(seen) > (MANY_FLOATS if _come_again(numbers.weights) else MANY_FINE)
    limit = MANY_INTEGERS if share[seen != np.rint(seen)].sum() <= ODD else MANY_FLOATS
    return len(seen) > (limit // 2 if _new_values(numbers.weights) > SINGLE else limit)


def _is_timed(sketch: ColumnSketch) -> bool:
    """Are there more different times than a discrete column has? The rule is that of numbers."""
    return sketch.numbers is not None and is_measured(sketch.numbers)


def _come_again(weights: Array) -> bool:
    """Do nearly all cells have a value that many have? Unknown where weights are not whole.

    >>> _come_again(np.array([7.0, 5.0, 6.0])), _come_again(np.array([7.0, 1.0, 6.0]))
    (True, False)
    """
    if (weights != np.rint(weights)).any():
        return False
    return bool(weights[weights < OFTEN].sum() <= ODD * weights.sum())


def _new_values(weights: Array) -> float:
    """How likely the next cell has a new value: the share of values that were seen once.

    Weights are frequencies; where they are not whole, nobody knows what was seen once.

    >>> _new_values(np.array([1.0, 1.0, 6.0])), _new_values(np.array([0.5, 0.5]))
    (0.25, 0.0)
    """
    if (weights != np.rint(weights)).any():
        return 0.0
    return float(weights[weights == 1].sum() / weights.sum())


def check_written(name: Label, sketch: ColumnSketch) -> None:
    """Numbers that are text for their commas, or for one odd cell, are measured: no states."""
    texts = [s for s in sketch.others if isinstance(s, str)]
    written = [s for s in texts if "," in s and _reads_as_number(s.replace(",", ".", 1))]
    plain_ones = [s for s in texts if "," not in s and _reads_as_number(s)]
    if len(written) > MANY_FLOATS and len(written) + len(plain_ones) >= (1 - ODD) * len(texts):
        raise DataError(
            f"column {name!r} holds numbers with decimal commas as text, such as {written[0]!r}. "
            "Write them with points (pandas: read_csv(…, decimal=',')); or pass "
            f"kinds={{{name!r}: 'discrete'}} to take every text as a state."
        )
    odd = [s for s in texts if not _reads_as_number(s) or re.match(CODE, s)]
    if sketch.numbers is None and 1 <= len(odd) <= max(1, ODD * len(texts)) < len(texts):
        numbers = np.array([float(s) for s in texts if s not in odd])
        unknown = np.full(len(numbers), 0.5)  # how often each of them came
        if np.isfinite(numbers).all() and is_measured(sketch_numbers(numbers, unknown)):
            raise DataError(
                f"column {name!r} holds numbers, but some cell has {shortened(odd[0])}. Make such "
                f"cells missing (None, NaN, an empty cell of a file) or numbers; or pass "
                f"kinds={{{name!r}: 'discrete'}} to take every text as a state."
            )


def _only_numbers(name: Label, sketch: ColumnSketch, given: object) -> NumberSketch:
    """The numbers of a column that is said to be continuous."""
    if given is None and {math.inf, -math.inf} & set(sketch.others):
        raise DataError(
            f"Input contains infinity in column {name!r}, which is said to be continuous; expected "
            "finite numbers or missing cells (NaN). Replace infinite values."
        )
    odd = (
        "" if sketch.odd is None else f": row {sketch.odd[0]} has {shortened(plain(sketch.odd[1]))}"
    )
    if given is not None or sketch.categories is not None or sketch.others:
        raise DataError(
            f"column {name!r} is said to be continuous, but its values are no numbers{odd} "
            "(or its states were given). Pass numbers, or leave out its kind."
        )
    if sketch.numbers is None:
        raise DataError(
            f"column {name!r} has no value at all. Drop it from the graph, or make it latent."
        )
    return sketch.numbers


def _odd_cell(name: Label, sketch: ColumnSketch) -> DataError:
    assert sketch.odd is not None
    row, cell = sketch.odd
    return DataError(
        f"column {name!r} holds numbers, but row {row} has {shortened(plain(cell))}. Make such "
        f"cells missing (None or NaN) or numbers; or pass kinds={{{name!r}: 'discrete'}} to take "
        "every value as a state."
    )


def _given_states(name: Label, given: object) -> tuple[Hashable, ...]:
    """States as listed: each hashable, none of them missing."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise DataError(
            f"expected state_names as {{column: list of states}}, got {given!r} for {name!r}."
        )
    states = tuple(plain(s) for s in given)
    distinct_states(states, name)
    if any(s is None or (isinstance(s, float) and s != s) for s in states):
        raise DataError(f"None and NaN are missing cells, no states of {name!r}: {list(states)}.")
    return states


def _seen_states(name: Label, sketch: ColumnSketch) -> tuple[Hashable, ...]:
    """The sorted values seen."""
    if not sketch.different:
        raise DataError(
            f"column {name!r} has no value at all. Drop it from the graph, make it latent, "
            "or name its states in state_names."
        )
    if sketch.different > MOST_STATES:
        few = sketch.different <= MOST_STATES + 1 and sketch.numbers is None
        many = f"more than {MOST_STATES}" if few else f"{sketch.different}"
        if sketch.numbers is not None and not sketch.numbers.whole:
            many = f"more than {len(sketch.numbers.seen)}"
        raise DataError(
            f"column {name!r} has {many} different values; at most {MOST_STATES} states are "
            f"sensible. Is it an identifier or continuous?{_number_like(sketch)} Bin it or leave "
            "it out of the graph."
        )
    numbers = () if sketch.numbers is None else _number_states(sketch.numbers)
    if not sketch.others:
        return numbers
    both = {True, False} & set(sketch.others) & set(numbers)  # in Python True is 1
    if any(isinstance(s, bool) for s in sketch.others) and both:
        raise DataError(
            f"column {name!r} holds both {bool(min(both))} and {int(min(both))}, which are equal. "
            "Make them all numbers, all True and False, or text."
        )
    return sorted_states([*numbers, *sketch.others])


def _number_states(numbers: NumberSketch) -> tuple[Hashable, ...]:
    """Integers if all are whole."""
    states = numbers.seen.tolist()
    if all(isinstance(s, int) or s.is_integer() for s in states):
        return tuple(int(s) for s in states)
    return tuple(float(s) if abs(s) <= 2**53 else s for s in states)


def _number_like(sketch: ColumnSketch) -> str:
    """Text that is mostly numbers: which one is not?"""
    texts = [s for s in sketch.others if isinstance(s, str)]
    odd = [s for s in texts if not _reads_as_number(s)]
    if not texts or len(odd) > ODD * len(texts):
        return ""
    return f" Nearly all are numbers as text{f', {odd[0]!r} is not' if odd else ''}."


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
