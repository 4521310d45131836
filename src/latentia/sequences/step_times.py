"""Times of rows: which step of its sequence each row is, and which steps have no row."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import final

import numpy as np

from latentia.errors import DataError
from latentia.sequences.packing import Indices
from latentia.typing import Cell, CellArray, Label

MOST_GAPS = 20  # empty steps to a row: more, and times are no steps
_NUMBER = re.compile(r"\s*[+-]?\d+\s*")
_DATE = re.compile(r"\s*[+-]?\d{4,}-\d\d")  # text that begins like one


@final
@dataclass(frozen=True, slots=True)
class Times:
    """Times as whole numbers of ticks; so many make a step (0: only their order counts).

    Below 0, steps are so many months of the calendar, and ticks are months.
    """

    ticks: CellArray  # (rows,)
    step: int


def read_times(
    cells: CellArray, whose: Indices, labels: tuple[Cell, ...], name: Label | None, step: int | None
) -> Times:
    """Whole numbers and dates count steps; decimals and text only tell the order.

    Dates that all have the same day of the month, or are the last of theirs, count months.
    """
    ticks, counted, dates = _ticks(cells, name)
    monthly = dates and (by_months(ticks) if step is None else step < 0)
    ticks = _months(ticks) if monthly else ticks
    order = np.lexsort((ticks, whose))
    same, gap = np.diff(whose[order]) == 0, np.diff(ticks[order])
    twice = np.flatnonzero(same & (gap == 0))
    if len(twice):
        row = order[twice[0] + 1]
        raise DataError(
            f"sequence {labels[whose[row]]!r} has two rows at time {_shown(cells[row])}. Drop one, "
            f"or make column {name!r} tell them apart."
        )
    if not counted:
        return Times(ticks, 0)
    gaps = gap[same]
    if step is None:
        step = int(np.gcd.reduce(gaps)) if len(gaps) else 1
        step = -step if monthly else step
    size, told = abs(step), shown_step(step, dates)
    if step and ((gaps % size).any() or (step < 0 and not dates)):
        raise DataError(
            f"the times in column {name!r} are not whole steps of {told}, the time between two "
            "steps when the model was fitted."
        )
    empty = int((gaps // size - 1).sum()) if step else 0
    if empty > MOST_GAPS * len(cells):
        raise DataError(
            f"the times in column {name!r} leave {empty:,} steps of {told} without a row, with "
            f"{len(cells):,} rows. If they only tell the order, pass them as decimals or leave "
            "time= out; else take coarser times."
        )
    return Times(ticks, step)


def shown_step(step: int, dates: bool) -> str:
    """The time between two steps in words.

    >>> shown_step(-3, True), shown_step(3_600_000_000, True), shown_step(2, False)
    ('3 month(s)', '1:00:00', '2')
    """
    if step < 0:
        return f"{-step} month(s)"
    return str(timedelta(microseconds=step)) if dates and step < 2**50 else str(step)


def by_months(ticks: CellArray) -> bool:
    """Do dates (µs) lie on one day of their months, or all on the last, at one time of day?

    >>> dates = np.array(["2024-01-31", "2024-02-29", "2024-04-30"], dtype="datetime64[us]")
    >>> by_months(dates.astype(np.int64)), by_months(dates[:2].astype(np.int64) + [0, 1])
    (True, False)
    """
    at = ticks.astype("datetime64[us]")
    month, day = at.astype("datetime64[M]"), at.astype("datetime64[D]")
    if len(np.unique(month)) < 2 or len(np.unique(at - day)) > 1:
        return False
    left = (month + 1).astype("datetime64[D]") - day
    return len(np.unique(day - month.astype("datetime64[D]"))) == 1 or len(np.unique(left)) == 1


def _months(ticks: CellArray) -> CellArray:
    """Dates (µs) as numbers of their months."""
    return ticks.astype("datetime64[us]").astype("datetime64[M]").astype(np.int64)


def _ticks(cells: CellArray, name: Label | None) -> tuple[CellArray, bool, bool]:
    """Times as numbers that can be sorted, whether they count steps, and whether they are dates."""
    if cells.dtype.kind in "iu":
        return cells.astype(np.int64), True, False
    if cells.dtype.kind == "f":
        whole = bool((cells == np.rint(cells)).all()) and float(np.abs(cells).max()) < 2**53
        return (cells.astype(np.int64), True, False) if whole else (cells, False, False)
    counted, dates = _counted(cells.tolist())
    if counted is not None:
        return counted, True, dates
    try:
        values = sorted(set(cells.tolist()))
    except TypeError:
        raise DataError(
            f"the times in column {name!r} cannot be sorted. Make them numbers, dates or text."
        ) from None
    rank = {value: k for k, value in enumerate(values)}
    return np.array([rank[v] for v in cells.tolist()], dtype=np.int64), False, False


def _counted(values: list[Cell]) -> tuple[CellArray | None, bool]:
    """Dates, and text that spells dates or whole numbers, as whole numbers, and whether they are
    dates; None: others.
    """
    if all(isinstance(v, str) for v in values):
        if all(_NUMBER.fullmatch(v) for v in values):
            return np.array([int(v) for v in values], dtype=np.int64), False
        if not all(_DATE.match(v) for v in values):
            return None, False
    try:
        own = [_everywhere(v) if isinstance(v, datetime) else v for v in values]
        return np.asarray(own, dtype="datetime64[us]").astype(np.int64), True
    except (TypeError, ValueError, OverflowError):
        return None, False


def _everywhere(moment: datetime) -> datetime:
    """The same moment on the clock that all zones share."""
    if moment.tzinfo is None:
        return moment
    return moment.astimezone(UTC).replace(tzinfo=None)


def _shown(time: object) -> str:
    """As a table shows it: numbers of numpy as numbers."""
    return repr(time.item() if isinstance(time, np.number) else time)


def sorted_steps(
    order: Indices, whose: Indices, at: CellArray, times: Times | None, count: int
) -> tuple[Indices, Indices]:
    """Rows in the order of steps (-1 where a step has none), and where sequences begin."""
    own = whose[order]
    if times is None or not times.step or not len(order):
        lengths = np.bincount(own, minlength=count)
        return order, np.concatenate([[0], np.cumsum(lengths)])
    jump = np.ones(len(order), dtype=np.int64)
    same = np.diff(own) == 0
    jump[1:][same] = np.diff(at[order])[same] // abs(times.step)
    place = np.cumsum(jump) - 1
    row = np.full(int(place[-1]) + 1, -1, dtype=np.intp)
    row[place] = order
    last = np.concatenate([np.flatnonzero(~same), [len(order) - 1]])
    ends = np.zeros(count, dtype=np.intp)
    ends[own[last]] = place[last] + 1
    return row, np.concatenate([[0], np.maximum.accumulate(ends)])
