"""Work by the clock: what is left, and whether one more piece fits."""

from __future__ import annotations

import math

import pytest

from latentia import time_left
from latentia.time_left import FOREVER, Pace, TimeLeft


class Clock:
    """A clock that is set by hand."""

    now = 100.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(time_left, "time", found)
    return found


def test_time_passes(clock: Clock) -> None:
    left = TimeLeft.of(10.0, began=98.0)
    assert left.ends
    assert left.seconds == 8.0
    assert left.part(0.5).seconds == 4.0
    assert left.fits(8.0)
    assert not left.fits(8.1)
    clock.now = 120.0
    assert left.seconds == 0.0


def test_without_an_end_all_fits() -> None:
    assert TimeLeft.of(None) == FOREVER
    assert not FOREVER.ends
    assert FOREVER.part(0.1) == FOREVER
    assert FOREVER.fits(math.inf)
    assert all(Pace(FOREVER).goes_on(1e9) for _ in range(3))


def test_pieces_go_on_while_one_more_fits(clock: Clock) -> None:
    pace, done = Pace(TimeLeft.of(10.0)), 0
    while pace.goes_on():
        clock.now += 3.0
        done += 1
    assert done == 3  # a fourth would end at 12
    assert Pace(TimeLeft.of(10.0), guess=11.0).goes_on() is False
    slow = Pace(TimeLeft.of(10.0))
    assert slow.goes_on(4)  # nothing is known of them yet
    clock.now += 3.0
    assert not slow.goes_on(3)
