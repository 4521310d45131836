"""Progress that is written to the screen: what it says, and where it is silent."""

import io
import sys
from types import ModuleType

import pytest

from latentia.data.sources.progress import Share, Step, as_progress


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def work(progress) -> None:
    progress.begin(10)
    progress.advance(10)
    progress.end()


def test_a_terminal_sees_share_rate_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    work(as_progress(True))
    assert screen.getvalue().startswith("\rpass 1: 10 of 10 rows (100%), ")
    assert "rows/s, 0 s left" in screen.getvalue()


def test_others_see_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    work(as_progress(True))
    as_progress(True).sharing("looking")(1.0)
    assert file.getvalue() == ""


def test_a_notebook_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    work(as_progress(True))
    assert "10 of 10 rows" in file.getvalue()


def test_a_function_is_told_wherever_it_is() -> None:
    told: list[Step | Share] = []
    work(as_progress(told.append))
    assert isinstance(told[-1], Step)
    assert told[-1].rate is not None


def test_a_longer_line_is_wiped_out(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    progress = as_progress(True)
    progress.report(Share("a long piece of work", 0.5, 1.0))  # type: ignore[misc]
    progress.report(Share("short", 0.5, 1.0))  # type: ignore[misc]
    first, second = screen.getvalue().split("\r")[1:]
    assert len(first) == len(second)
