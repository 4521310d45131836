"""Rows dealt to hands at random: held-out rows and folds; and rows kept in memory.

Chance goes by colours: rows that only their names tell apart fall to the same hand.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from latentia.data.row_colours import by_colour, row_colours, whole_weights
from latentia.data.rows import Rows, Source
from latentia.data.sources.memory import LocalRows
from latentia.data.sources.row_sketch import RowSketch, distinct_rows, every_row, sketch_rows
from latentia.typing import Array, Codes

MOST_ALIKE = 0.1  # of the rows: so many may share a colour, and fall to the same hand


def keep_rows(source: Source, most: int, rng: np.random.Generator) -> tuple[Rows, bool]:
    """`source.sample(most)`, and whether that is all there is: every row, equal ones once."""
    seed = int(rng.integers(2**31))
    few = every_row(source.rows, most) if isinstance(source, LocalRows) else None
    if few is not None:
        return few, True
    found: RowSketch = source.fold(partial(sketch_rows, most, seed))
    every = found.whole()
    return (found.draw(), False) if every is None else (every, True)


def split_rows(rows: Rows, share: float, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Rows at random to a large and a small hand; a row with a whole weight is that many rows."""
    rows = _merged(rows)
    first, place = _groups(rows)
    whole = whole_weights(rows.weights)
    if whole is None:
        small = rows.weights * (rng.random(len(first)) < share)[place]
    else:
        small = rng.binomial(whole[first], share).astype(float)[place]
    return _hands(rows, rows.weights - small, small)


def deal_rows(rows: Rows, folds: int, rng: np.random.Generator) -> list[tuple[Rows, Rows]]:
    """Every row falls to one of the folds at random: all rows but a fold's, and the fold's.

    A row with a whole weight is that many rows. Folds are as equal as can be, and none is empty
    where there are that many rows.
    """
    rows = _merged(rows)
    whole = whole_weights(rows.weights)
    times = np.ones(len(rows), dtype=np.int64) if whole is None else whole
    unit = rows.weights if whole is None else np.ones(len(rows))
    copies = np.arange(len(rows)).repeat(times)
    _, turn, many = np.unique(_numbers(rows, times, rng), return_inverse=True, return_counts=True)
    fold = ((np.cumsum(many) - many) * folds // max(len(copies), 1))[turn]
    dealt = []
    for k in range(folds):
        small = np.bincount(copies[fold == k], minlength=len(rows)) * unit
        large = np.bincount(copies[fold != k], minlength=len(rows)) * unit
        dealt.append(_hands(rows, large, small))
    return dealt


def _merged(rows: Rows) -> Rows:
    """Equal rows once, with their weight: they have one colour, and yet each has its own chance."""
    found = distinct_rows(rows, len(rows))
    return rows if found is None or len(found) == len(rows) else by_colour(found)


def _groups(rows: Rows) -> tuple[Codes, Codes]:
    """One row of each colour, and where every row belongs; colours rise.

    Should too many rows mirror each other, they could not be dealt: then codes tell them apart.
    """
    colours = row_colours(rows)
    _, first, place, count = np.unique(
        colours, return_index=True, return_inverse=True, return_counts=True
    )
    if count.max(initial=0) > MOST_ALIKE * len(rows):
        first = np.lexsort((*rows.codes[::-1], colours))
        place = np.empty(len(rows), dtype=np.int64)
        place[first] = np.arange(len(rows))
    return first, place


def _numbers(rows: Rows, times: Codes, rng: np.random.Generator) -> Array:
    """A uniform number for each copy of each row; the same ones for rows of one colour."""
    first, place = _groups(rows)
    stop = np.cumsum(times[first])
    drawn = rng.random(int(stop[-1])) if len(stop) else np.zeros(0)
    begin = (stop - times[first])[place]  # of the numbers of each row
    ordinal = np.arange(int(times.sum())) - (np.cumsum(times) - times).repeat(times)
    return np.asarray(drawn[begin.repeat(times) + ordinal])


def _hands(rows: Rows, large: Array, small: Array) -> tuple[Rows, Rows]:
    """The rows of each hand, with their weights there."""
    return _chosen(rows, large), _chosen(rows, small)


def _chosen(rows: Rows, weight: Array) -> Rows:
    mark = weight > 0
    own = None if rows.weight is None else weight[mark]
    return Rows(tuple(c[mark] for c in rows.codes), own)
