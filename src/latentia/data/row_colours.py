"""Colours of rows: 64 bits that tell rows apart, whatever their states and columns are called.

Rows and states are the two sides of a graph: a row is tied to the states of its cells. Colours are
refined along it (Weisfeiler and Leman): a state's is a hash of the colours of its rows, a column's
one of its states', a row's one of its cells'. All sums wrap around, so that no order matters, be it
of rows, of columns or of states. Rows go by their colours wherever chance, or a start, would
otherwise go by names: held-out rows, samples, clusters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from latentia.data.rows import Rows
from latentia.typing import Array, CellArray, Codes

Colours: TypeAlias = NDArray[np.uint64]

MOST_CELLS = 2**16  # at a time
ROUNDS = 8  # at most; states are told apart in two or three
PARTS = 2.0**20  # of the mean weight, where weights are not whole
MISSING = np.uint64(0x9E3779B97F4A7C15)  # colour of a cell that is not there


def row_colours(rows: Rows) -> Colours:
    """A colour for every row, (n,). Equal rows have one colour; so have rows that mirror others.

    Rows of different weights have different colours.

    >>> a, b = np.array([0, 0, 1, 0]), np.array([2, 0, 1, 1])
    >>> there, back = Rows((a, b)), Rows((2 - b, 1 - a))  # other names, columns in another order
    >>> bool((row_colours(there) == row_colours(back)).all())
    True
    """
    units = row_units(rows)
    return np.asarray(mixed_colours(_refined(rows, units) ^ mixed_colours(units)))


def colours_told(rows: Rows) -> Colours:
    """What every row tells its states, (n,): a row of weight three as much as three equal rows."""
    units = row_units(rows)
    own = mixed_colours(_refined(rows, units) ^ mixed_colours(np.uint64(1)))
    return np.asarray(mixed_colours(own) * units)


def _refined(rows: Rows, units: Colours) -> Colours:
    """Colours of rows, whatever they weigh."""
    fixed = np.zeros(len(rows), dtype=np.uint64)  # what does not change from round to round
    for positions in rows.codes:
        if positions.dtype.kind == "f":
            fixed += _position_colours(np.asarray(positions), units)
    parts = _discrete_parts(rows)
    states = [np.zeros(len(part.column), dtype=np.uint64) for part in parts]
    found, told = mixed_colours(fixed), 0
    for _ in range(ROUNDS if parts else 0):
        counted = found * units
        states = [_state_colours(p, old, counted) for p, old in zip(parts, states, strict=True)]
        found = fixed.copy()
        for part, colours in zip(parts, states, strict=True):
            found += colours[part.cells].sum(axis=0, dtype=np.uint64)
        found = mixed_colours(found)
        shown = np.concatenate([colours[colours > 0] for colours in states])
        before, told = told, len(np.unique(shown))
        if told in (before, len(shown)):  # nothing new, or no two states alike
            break
    return found


def rising(colours: Colours) -> CellArray:
    """Where the rows are in the order of their colours; rows of one colour as they come.

    The stable sort of so large numbers takes six times as long: only where two are alike.
    """
    order = np.argsort(colours)
    sorted_ = colours[order]
    if (sorted_[1:] == sorted_[:-1]).any():
        return np.argsort(colours, kind="stable")
    return order


def by_colour(rows: Rows) -> Rows:
    """The same rows in the order of their colours; rows that share one go by their codes."""
    colours = row_colours(rows)
    order = np.argsort(colours)
    if (colours[order[1:]] == colours[order[:-1]]).any():
        order = np.lexsort((*rows.codes[::-1], colours))
    weight = None if rows.weight is None else rows.weight[order]
    return Rows(tuple(c[order] for c in rows.codes), weight)


def whole_weights(weight: Array) -> Codes | None:
    """The weights as whole numbers, if that is what they are; small ones are not zero.

    >>> whole_weights(np.array([3.0, 0.0])), whole_weights(np.array([3.0, 1e-12]))
    (array([3, 0]), None)
    """
    whole = np.rint(weight)
    if np.allclose(whole, weight, rtol=1e-9, atol=0) and whole.max(initial=0) < 2**62:
        return whole.astype(np.int64)
    return None


def row_units(rows: Rows) -> Colours:
    """Weights as whole numbers, which add up to the same in any order."""
    if rows.weight is None:
        return np.ones(len(rows), dtype=np.uint64)
    whole = whole_weights(rows.weight)
    if whole is not None:
        return whole.astype(np.uint64)
    share = rows.weight / max(float(rows.weight.mean()), 1e-300)
    return np.rint(np.minimum(share, 2.0**40) * PARTS).astype(np.uint64)


@final
@dataclass(frozen=True, slots=True)
class _Part:
    """Some discrete columns: their states one after the other, of each the missing one first."""

    cells: Codes  # the state of each cell, (columns, n)
    column: Codes  # of each state
    first: Codes  # the missing state of each column


def _discrete_parts(rows: Rows) -> list[_Part]:
    """Columns side by side, so that a step is one step for all of them; not too many at a time."""
    plain = [c for c in rows.codes if c.dtype.kind != "f"]
    most = max(1, MOST_CELLS // max(len(rows), 1))
    found = []
    for start in range(0, len(plain), most):
        some = plain[start : start + most]
        sizes = np.array([int(c.max(initial=-1)) + 2 for c in some])
        first = np.cumsum(sizes) - sizes
        cells = np.empty((len(some), len(rows)), dtype=np.intp)
        for row, c, begin in zip(cells, some, first, strict=True):
            row[:] = c  # faster than adding while the type changes
            row += begin + 1
        found.append(_Part(cells, np.arange(len(sizes)).repeat(sizes), first))
    return found


def _state_colours(part: _Part, old: Colours, counted: Colours) -> Colours:
    """By the rows that have the state, and by the whole column; 0 if no row has it."""
    total = np.zeros_like(old)
    for cells in part.cells:
        np.add.at(total, cells, counted)
    own = mixed_colours(total + old)
    own[part.first] = mixed_colours(own[part.first] ^ MISSING)
    own[total == 0] = 0
    columns = np.zeros(len(part.first), dtype=np.uint64)
    np.add.at(columns, part.column, own)
    own = mixed_colours(own ^ mixed_colours(columns)[part.column])
    own[total == 0] = 0
    return np.asarray(own)


def _position_colours(positions: CellArray, units: Colours) -> Colours:
    """Of the cells of a continuous column: by their ranks, whatever its units and its rounding.

    Ranks are counted from the middle, so that a column that is turned round has the same colours.
    """
    gone = np.isnan(positions)
    values, rank = np.unique(positions, return_inverse=True)
    middle = len(values) - 1 - int(gone.any())  # NaN comes last
    own = np.where(gone, MISSING, mixed_colours(np.abs(2 * rank - middle)))
    column = mixed_colours((own * units).sum(dtype=np.uint64))
    return np.asarray(mixed_colours(own ^ column))


def mixed_colours(x: NDArray[np.uint64] | np.uint64) -> NDArray[np.uint64]:
    """A bijection of 64 bits in which every bit moves all others (splitmix64)."""
    with np.errstate(over="ignore"):
        x = np.asarray(x, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
