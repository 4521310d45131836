"""Progress that is written to the screen: what it says, and where it is silent."""

import io
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import latentia as lt
from latentia.data.sources.progress import (
    ClimbStep,
    PassProgress,
    Share,
    Step,
    as_progress,
    show_progress,
)


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


def asked(model: lt.LatentModel, table: Any, ask: str) -> None:
    """A question about rows; lazy answers are read to their end."""
    found = getattr(model, ask)(table, **({"target": "a"} if ask.startswith("predict") else {}))
    if not isinstance(table, dict):
        list(found)


@pytest.mark.parametrize("learner", ["pbp", "tables"])
@pytest.mark.parametrize("kind", ["words", "mixed"])
@pytest.mark.parametrize("where", ["memory", "file"])
def test_answers_for_many_rows_tell_share_rate_and_time_left(
    learner: str, kind: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("latentia.data.sources.progress.SECONDS", 0.0)
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=500)
    rows = {c: np.where(rng.random(500) < 0.7, h, 1 - h) for c in "abcd"}
    if kind == "mixed":
        rows["d"] = h + rng.normal(size=500)
    model = lt.LatentModel("H->a,b,c,d", {"H": 2}, learner=learner).fit(rows)
    table: Any = rows
    if where == "file":
        pd = pytest.importorskip("pandas")
        table = str(tmp_path / "rows.parquet")
        pd.DataFrame(rows).to_parquet(table)
    for ask in ("predict", "predict_proba", "score_samples"):
        told: list[Any] = []
        with show_progress(told.append):
            asked(model, table, ask)
        asked(model, table, ask)  # after it nothing is told
        steps = [step for step in told if isinstance(step, Step)]
        assert steps, ask
        assert {step.number for step in steps} == {0}
        assert (steps[-1].rows, steps[-1].total) == (500, 500)
        assert str(steps[-1]).startswith("answering: 500 of 500 rows (100%), ")
        assert str(steps[-1]).endswith("rows/s, 0 s left")


def test_short_answers_are_not_told() -> None:
    rows = {c: [0, 1, 1, 0] * 20 for c in "abc"}
    model = lt.LatentModel("H->a,b,c", {"H": 2}).fit(rows)
    told: list[Any] = []
    with show_progress(told.append):
        model.predict(rows, "a")
    assert not told


def test_a_line_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    with show_progress():
        work(as_progress(None))
        with show_progress(True):  # the same line, as a fit inside has it
            work(as_progress(True))
    assert screen.getvalue().count("\n") == 1
    assert screen.getvalue().endswith("left\n")


def test_a_fit_on_dask_tells_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    monkeypatch.setattr("latentia.data.sources.progress.SECONDS", 0.0)
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=400)
    rows = {c: np.where(rng.random(400) < 0.7, h, 1 - h) for c in "abc"}
    frame = dd.from_pandas(pd.DataFrame(rows), npartitions=4)
    told: list[Any] = []
    model = lt.LatentModel("H->a,b,c", {"H": 2}, learner=lt.PBP(refine=False))
    model.fit(frame, progress=told.append)
    first = [step.share for step in told if str(step).startswith("pass 1")]
    assert 0.0 < first[0] < first[-1] == 1.0
    assert any(str(step).startswith("pass 2") for step in told)
