"""Seconds that are left: work by the clock, where somebody has set an end."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Self, final


@final
@dataclass(frozen=True, slots=True)
class TimeLeft:
    """Until when work may go on; without an end, for ever."""

    until: float = math.inf  # of time.perf_counter()

    @classmethod
    def of(cls, seconds: float | None, began: float | None = None) -> Self:
        """So many seconds from now on, or from when it began; None: without an end."""
        if seconds is None:
            return cls()
        return cls((time.perf_counter() if began is None else began) + seconds)

    @property
    def ends(self) -> bool:
        return self.until < math.inf

    @property
    def seconds(self) -> float:
        """From now on; 0 where the time is over."""
        return max(self.until - time.perf_counter(), 0.0)

    def part(self, share: float) -> TimeLeft:
        """A share of it, from now on."""
        return TimeLeft.of(share * self.seconds) if self.ends else self

    def fits(self, seconds: float) -> bool:
        """Would work of so many seconds be done in time?"""
        return not self.ends or seconds <= self.seconds


FOREVER = TimeLeft()


@final
class Pace:
    """Pieces of like work, one after the other, while there is time for one more."""

    def __init__(self, left: TimeLeft, guess: float = 1e-3) -> None:
        self.left, self.guess, self.done = left, guess, 0
        self._began = time.perf_counter()

    @property
    def piece(self) -> float:
        """Seconds that a piece took so far, on the average; of the first one, a guess."""
        return (time.perf_counter() - self._began) / self.done if self.done else self.guess

    def goes_on(self, pieces: float = 1.0) -> bool:
        """Is there time for so many pieces more, as fast as it went? One of them is begun then."""
        if not self.left.fits(pieces * self.piece):
            return False
        self.done += 1
        return True
