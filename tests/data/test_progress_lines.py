"""Progress that is written to the screen: what it says, and where it is silent."""

import io
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import latentia as lt
from latentia.data.sources.progress import ClimbStep, PassProgress, Share, Step, as_progress


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def work(progress: PassProgress) -> None:
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


@pytest.mark.parametrize("learner", ["em", "tables"])
def test_climbs_tell_their_gain(learner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latentia.data.sources.progress.SECONDS", 0.0)
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=400)
    rows = {c: np.where(rng.random(400) < 0.7, h, 1 - h) for c in "abcd"}
    told: list[Any] = []
    lt.LatentModel("H->a,b,c,d", {"H": 2}, learner=learner).fit(rows, progress=told.append)
    gains = [step.gain for step in told if isinstance(step, ClimbStep)]
    assert len(gains) > 2
    assert all(np.isfinite(gains))


@pytest.mark.parametrize("kind", ["words", "numbers"])
def test_climbs_of_chains_are_heard(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latentia.data.sources.progress.SECONDS", 0.0)
    rng = np.random.default_rng(0)
    z = np.cumsum(rng.random(300) < 0.1) % 2
    x = np.where(rng.random(300) < 0.9, z, 1 - z) if kind == "words" else z + rng.normal(size=300)
    heard: list[object] = []
    lt.SequenceModel("z -> z', z -> x", latents={"z": 2}).fit({"x": x}, progress=heard.append)
    assert any(isinstance(step, ClimbStep) for step in heard)
