"""Progress over rows that are read block by block: how many, how long still."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

SECONDS = 0.5  # between two reports


@dataclass(frozen=True, slots=True)
class Step:
    """How far a pass over the rows has come."""

    number: int  # of the pass, from 1
    rows: int  # read in this pass
    total: int | None  # of the whole table, where it is known
    seconds: float  # since the pass began

    @property
    def left(self) -> float | None:
        """Seconds until the pass ends, at the speed so far."""
        if self.total is None or not self.rows:
            return None
        return self.seconds * max(self.total - self.rows, 0) / self.rows

    def __str__(self) -> str:
        of = "" if self.total is None else f" of {self.total:,}"
        left = "" if self.left is None else f", {self.left:.0f} s left"
        return f"pass {self.number}: {self.rows:,}{of} rows{left}"


@dataclass(frozen=True, slots=True)
class Share:
    """How far work has come that is no pass over rows."""

    what: str
    share: float  # 0 to 1
    seconds: float  # since it began

    @property
    def left(self) -> float | None:
        """Seconds until it ends, at the speed so far."""
        return self.seconds * (1.0 - self.share) / self.share if self.share > 0 else None

    def __str__(self) -> str:
        left = "" if self.left is None else f", {self.left:.0f} s left"
        return f"{self.what}: {self.share:.0%}{left}"


Report: TypeAlias = Callable[[Step | Share], None]


class PassProgress:
    """Counts rows and passes and tells a function about it now and then.

    >>> seen = []
    >>> progress = PassProgress(seen.append)
    >>> progress.begin(10)
    >>> progress.advance(10)
    >>> progress.end()
    >>> seen[-1].rows, seen[-1].total, seen[-1].left
    (10, 10, 0.0)
    """

    def __init__(self, report: Report | None) -> None:
        self.report = report
        self.total: int | None = None
        self.number = 0

    def begin(self, total: int | None = None) -> None:
        self.number += 1
        self.rows = 0
        self.total = total if total is not None else self.total
        self.started = time.perf_counter()
        self.told = self.started

    def advance(self, rows: int) -> None:
        self.rows += rows
        now = time.perf_counter()
        if now - self.told >= SECONDS:
            self.told = now
            self._tell(now)

    def end(self) -> None:
        self.total = self.rows  # the next pass has as many
        self._tell(time.perf_counter())

    def sharing(self, what: str) -> Callable[[float], None]:
        """A function that takes the share of some work that is done.

        >>> told = []
        >>> done = PassProgress(told.append).sharing("looking for a structure")
        >>> done(1.0)
        >>> print(told[-1])
        looking for a structure: 100%, 0 s left
        """
        began = time.perf_counter()
        last = began

        def done(share: float) -> None:
            nonlocal last
            now = time.perf_counter()
            if self.report is not None and (share >= 1.0 or now - last >= SECONDS):
                last = now
                self.report(Share(what, min(share, 1.0), now - began))

        return done

    def _tell(self, now: float) -> None:
        if self.report is not None:
            self.report(Step(self.number, self.rows, self.total, now - self.started))


def as_progress(wanted: Any) -> PassProgress:
    """None or False: silent; True: a line on the screen; else a function of steps and shares."""
    if wanted is None or wanted is False:
        return PassProgress(None)
    return PassProgress(_line_writer() if wanted is True else wanted)


def _line_writer() -> Report:
    """One line, written over; by rich where it is installed."""
    try:
        from rich.console import Console
    except ImportError:
        return lambda step: print(f"\r{step}   ", end="", file=sys.stderr, flush=True)
    console = Console(stderr=True)
    return lambda step: console.print(f"{step}   ", end="\r", highlight=False)
