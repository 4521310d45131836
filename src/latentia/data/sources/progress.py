"""Progress of long work: how many rows of how many, how long still, what a climb gains."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeAlias

SECONDS = 0.5  # between two reports


@dataclass(frozen=True, slots=True)
class Step:
    """How far a pass over the rows has come, or an answer for them."""

    number: int  # of the pass, from 1; 0 for an answer
    rows: int  # read in this pass, or answered
    total: int | None  # of the whole table, where it is known
    seconds: float  # since the pass began

    @property
    def left(self) -> float | None:
        """Seconds until the pass ends, at the speed so far."""
        if self.total is None or not self.rows:
            return None
        return self.seconds * max(self.total - self.rows, 0) / self.rows

    @property
    def rate(self) -> float | None:
        """Rows a second, so far."""
        return self.rows / self.seconds if self.seconds > 0 else None

    def __str__(self) -> str:
        """Rows, their share, the rate and the time left, as far as they are known.

        >>> print(Step(2, 500, 2000, 0.25))
        pass 2: 500 of 2,000 rows (25%), 2,000 rows/s, 1 s left
        """
        of = "" if self.total is None else f" of {self.total:,}"
        share = f" ({self.rows / self.total:.0%})" if self.total else ""
        rate = "" if self.rate is None else f", {self.rate:,.0f} rows/s"
        left = "" if self.left is None else f", {self.left:.0f} s left"
        what = f"pass {self.number}" if self.number else "answering"
        return f"{what}: {self.rows:,}{of} rows{share}{rate}{left}"


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


@dataclass(frozen=True, slots=True)
class ClimbStep:
    """How far a climb of the likelihood has come; where it ends is not known before."""

    steps: int
    gain: float  # of the last step, in nats
    seconds: float  # since learning began

    def __str__(self) -> str:
        """
        >>> print(ClimbStep(12, 0.5, 2.0))
        climbing: step 12, which gained 0.5 nats, 2 s
        """
        return (
            f"climbing: step {self.steps}, which gained {self.gain:.3g} nats, {self.seconds:.0f} s"
        )


Report: TypeAlias = Callable[[Step | Share | ClimbStep], None]


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

    def __init__(self, report: Report | None, answers: bool = False) -> None:
        self.report = report
        self.total: int | None = None
        self.number = 0
        self.answers = answers  # of them no passes are counted, and short ones are not told

    def begin(self, total: int | None = None) -> None:
        self.number += not self.answers
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
        now = time.perf_counter()
        if not self.answers or now - self.started >= SECONDS:
            self._tell(now)

    def sharing_pass(self) -> Callable[[float], None]:
        """The same for a pass of whose rows only a share is known."""
        self.number += 1
        return self.sharing(f"pass {self.number}")

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

    def climbing(self) -> Callable[[int, float], None] | None:
        """A function that takes steps of a climb and the gain of the last; None: nobody listens."""
        if self.report is None:
            return None
        began = last = time.perf_counter()
        report = self.report

        def climbed(steps: int, gain: float) -> None:
            nonlocal last
            now = time.perf_counter()
            if now - last >= SECONDS:
                last = now
                report(ClimbStep(steps, gain, now - began))

        return climbed

    def _tell(self, now: float) -> None:
        if self.report is not None:
            self.report(Step(self.number, self.rows, self.total, now - self.started))


ProgressLike: TypeAlias = "Report | bool | None"  # as a user asks for it
_SHOWN: ContextVar[Report | None] = ContextVar("_SHOWN", default=None)


@contextmanager
def show_progress(to: Report | bool | None = True) -> Iterator[None]:
    """Long work meanwhile shows how far it has come: fits, searches, and answers for many rows.

    On a line of the screen, in a terminal and in a notebook; elsewhere nothing is shown. A function
    gets what would be shown, wherever that is; False keeps silent, None leaves it as it was.

    >>> from latentia import LatentModel
    >>> table = {name: [0, 1, 1, 0] * 50 for name in "abc"}
    >>> model = LatentModel("H -> a, b, c", {"H": 2}).fit(table)
    >>> with show_progress():
    ...     best = model.predict(table, "a")
    """
    report = _SHOWN.get() if to is None else _reported(to)
    token = _SHOWN.set(report)
    try:
        yield
    finally:
        _SHOWN.reset(token)
        if to is True and isinstance(report, ScreenLine):
            report.end()


def as_progress(wanted: ProgressLike) -> PassProgress:
    """None: what `show_progress` says; True: a line on the screen; False: silent; else a function.

    True is silent, too, where nobody looks: standard error is neither a terminal nor a notebook.
    """
    return PassProgress(_SHOWN.get() if wanted is None else _reported(wanted))


def answer_progress() -> PassProgress:
    """That of an answer for many rows, as far as `show_progress` wants it."""
    return PassProgress(_SHOWN.get(), answers=True)


def _reported(wanted: Report | bool) -> Report | None:
    if wanted is False:
        return None
    if wanted is True:
        now = _SHOWN.get()
        return now if isinstance(now, ScreenLine) else ScreenLine() if _is_watched() else None
    return wanted


def _is_watched() -> bool:
    notebook = "ipykernel" in sys.modules
    return notebook or (sys.stderr is not None and sys.stderr.isatty())


class ScreenLine:
    """One line of the screen, written over; what was longer before is wiped out."""

    def __init__(self) -> None:
        self.before = 0

    def __call__(self, step: Step | Share | ClimbStep) -> None:
        line = str(step)
        print(f"\r{line.ljust(self.before)}", end="", file=sys.stderr, flush=True)
        self.before = len(line)

    def end(self) -> None:
        """What comes next begins on a new line."""
        if self.before:
            print(file=sys.stderr, flush=True)
        self.before = 0
