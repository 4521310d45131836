"""Times as numbers: days of dates, seconds of times, since 1970; and back, in the same spelling.

Dates, times (pandas' timestamps, too) and text that spells either as ISO 8601 does, all cells of a
column alike. A zone is kept; the numbers are those of UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import final
from zoneinfo import ZoneInfo

import numpy as np

from latentia.data.columns.values import Values, as_objects, find_words, is_missing
from latentia.errors import DataError
from latentia.typing import Array, Bools, Cell, CellArray

DATE, TIME, TEXT = "date", "time", "text"
FORMS = (DATE, TIME, TEXT)
ISO = re.compile(r"\d{4}-\d{2}-\d{2}(?:([T ])\d{2}:\d{2}(?::\d{2}(?:\.\d{3}(?:\d{3})?)?)?)?")
OF_DATE = 10  # letters of a date
EPOCH_DAY, EPOCH = date(1970, 1, 1).toordinal(), datetime(1970, 1, 1)
MICRO = timedelta(microseconds=1)
SECOND = 1_000_000  # microseconds


@final
@dataclass(frozen=True, slots=True)
class Clock:
    """How a column spells times: as dates, as times, or as text of so many letters."""

    form: str
    zone: str | None = None  # of times
    length: int = 0  # of text
    between: str = ""  # of text: what stands between date and time

    def __post_init__(self) -> None:
        text = self.form == TEXT
        if self.form not in FORMS or (self.zone is not None and self.form != TIME):
            raise DataError(f"expected a clock of {', '.join(FORMS)}, got {self!r}.")
        if text != (self.length >= OF_DATE) or (self.length > OF_DATE) != (
            self.between in ("T", " ")
        ):
            raise DataError(f"expected text of ten letters, or more around T or a space: {self!r}.")

    @property
    def daily(self) -> bool:
        """Are numbers days? Else they are seconds."""
        return self.form == DATE or self.length == OF_DATE

    @property
    def unit(self) -> timedelta:
        return timedelta(days=1) if self.daily else timedelta(seconds=1)

    @property
    def kind(self) -> type:
        """Of a cell."""
        return str if self.form == TEXT else date if self.form == DATE else datetime

    def times(self, x: Array) -> CellArray:
        """Numbers as cells of a table: days, microseconds, or objects; nothing where NaN."""
        x = np.asarray(x, dtype=float)
        gone = np.isnan(x)
        ticks = np.rint(np.where(gone, 0.0, x) * (1 if self.daily else SECOND)).astype(np.int64)
        found: CellArray = ticks.astype("datetime64[D]" if self.daily else "datetime64[us]")
        if self.form != TEXT and self.zone is None:
            found[gone] = np.datetime64("NaT")
            return found
        cells: CellArray = as_objects([*map(self._spelled, found.ravel().tolist())])
        cells[gone.ravel()] = None
        return cells.reshape(x.shape)

    def _spelled(self, value: Cell) -> Cell:
        if self.zone is not None:
            return value.replace(tzinfo=UTC).astimezone(read_zone(self.zone))
        if self.length == OF_DATE:
            return value.isoformat()
        return value.isoformat(self.between, "microseconds")[: self.length]

    def shown(self, x: float) -> str:
        """One number for people: a time without the part of it that is nought."""
        (value,) = self.times(np.array([x])).tolist()
        told = value if isinstance(value, str) else value.isoformat(*([] if self.daily else [" "]))
        return told.removesuffix(" 00:00:00")

    def numbers(self, values: Values) -> tuple[Values, Bools]:
        """The same cells as numbers, and which of those present are no times of any form."""
        words = find_words(values.cells) if values.words is None else values.words
        if words is None:
            return Values(np.zeros(len(values)), values.missing), ~_gone(values)
        told = np.full(len(words.values), np.nan)
        for k, value in enumerate(words.values):
            if not is_missing(value):
                number = self.number(value)
                told[k] = np.nan if number is None else number
        cells = words.taken(told, np.nan)
        gone = _gone(values)
        odd = np.isnan(cells) & ~gone & (words.codes >= 0)
        gone = gone | np.isnan(cells)
        found = Values(cells, gone if gone.any() else None, None, values.first, values.rows)
        return found, odd

    def number(self, value: Cell) -> float | None:
        """A date or a time, in whatever form; None: it is none, or its zone cannot be known."""
        told = told_time(value)
        if told is None or (told.zone is not None) != (self.zone is not None):
            return None
        days = told.ticks if told.daily else told.ticks / (SECOND * 86_400)
        seconds = told.ticks * 86_400 if told.daily else told.ticks / SECOND
        return float(days if self.daily else seconds)


def _gone(values: Values) -> Bools:
    return np.zeros(len(values), dtype=bool) if values.missing is None else values.missing


@final
@dataclass(frozen=True, slots=True)
class ToldTime:
    """A cell: days, or microseconds, since 1970 (of UTC, where it has a zone)."""

    ticks: int
    daily: bool
    form: str
    zone: str | None = None
    length: int = 0
    between: str = ""


def told_time(value: Cell) -> ToldTime | None:
    """What a cell tells as a time; None: it is none, or one finer than microseconds.

    >>> told_time("1970-01-03").ticks, told_time(datetime(1970, 1, 1, 0, 0, 1)).ticks
    (2, 1000000)
    >>> told_time("3 January"), told_time("1970-02-30")
    (None, None)
    """
    if isinstance(value, np.datetime64):
        value = value.item()
    if isinstance(value, str):
        return _of_text(value)
    if isinstance(value, datetime):
        return _of_time(value)
    if isinstance(value, date):
        return ToldTime(value.toordinal() - EPOCH_DAY, True, DATE)
    return None


def _of_text(text: str) -> ToldTime | None:
    match = ISO.fullmatch(text)
    if match is None:
        return None
    between = match[1] or ""
    try:
        if not between:
            days = date.fromisoformat(text).toordinal() - EPOCH_DAY
            return ToldTime(days, True, TEXT, None, OF_DATE)
        ticks = (datetime.fromisoformat(text) - EPOCH) // MICRO
    except ValueError:
        return None
    return ToldTime(ticks, False, TEXT, None, len(text), between)


def _of_time(value: datetime) -> ToldTime | None:
    if getattr(value, "nanosecond", 0):
        return None
    zone = None
    if value.tzinfo is not None:
        zone = spelled_zone(value.tzinfo)
        if zone is None:
            return None
        value = value.astimezone(UTC)
    plain = datetime(*value.timetuple()[:6], value.microsecond)
    return ToldTime((plain - EPOCH) // MICRO, False, TIME, zone)


def spelled_zone(zone: tzinfo) -> str | None:
    """A name that `read_zone` knows; None: there is none."""
    told = getattr(zone, "key", None) or getattr(zone, "zone", None) or str(zone)
    try:
        read_zone(told)
    except DataError:
        return None
    return str(told)


def read_zone(name: str) -> tzinfo:
    """A zone by its name, or by its distance from UTC.

    >>> read_zone("UTC+02:00").utcoffset(None)
    datetime.timedelta(seconds=7200)
    """
    if name == "UTC":
        return UTC
    match = re.fullmatch(r"UTC([+-])(\d\d):(\d\d)", name)
    if match:
        apart = timedelta(hours=int(match[2]), minutes=int(match[3]))
        return timezone(apart if match[1] == "+" else -apart)
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise DataError(f"expected the name of a time zone, got {name!r:.80}.") from None


def told_clock(values: Iterable[Cell]) -> tuple[Clock, CellArray] | None:
    """How all of these spell times, and their numbers; None: they are not all times alike.

    >>> clock, days = told_clock(["2024-01-31", "2024-02-01"])
    >>> clock.length, days.tolist()
    (10, [19753, 19754])
    """
    ticks, first = [], None
    for value in values:
        told = told_time(value)
        if told is None:
            return None
        own = (told.form, told.zone, told.length, told.between)
        if first is None:
            first, daily = own, told.daily
        if own != first:
            return None
        ticks.append(told.ticks)
    if first is None:
        return None
    found = np.array(ticks, dtype=np.int64)
    if daily:
        return Clock(*first), found
    return Clock(*first), found / SECOND if (found % SECOND).any() else found // SECOND
