"""`latentia fit --sequence`, `decode` and `forecast` answer as the model does in Python."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.test_commands import write_csv
from tests.sequences.test_forecasts import doses
from typer.testing import CliRunner

import latentia as lt
from latentia.cli.application import application as app

SLICE = "z -> z', dose -> z, z -> cough, heat"
FIT = ["--latents", "z=2", "--given", "dose", "--sequence", "who", "--time", "day"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "log.csv", {k: v.tolist() for k, v in doses().items()})
    plan = {"who": ["x"] * 2 + ["y"] * 2 + ["z"] * 2, "dose": [0, 1] * 3}
    write_csv(tmp_path / "plan.csv", plan)
    return tmp_path


def run(*words: str, code: int = 0) -> str:
    found = CliRunner().invoke(app, list(words))
    assert found.exit_code == code, found.output
    return found.output


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_whole_road(here: Path) -> None:
    told = json.loads(
        run("fit", "log.csv", "--graph", SLICE, *FIT, "--out", "m.latentia", "--json")
    )
    assert told["latents"] == {"z": 2}
    assert told["rows"] == 180
    model = lt.load("m.latentia")
    frame = doses()
    run("decode", "m.latentia", "log.csv", "--out", "path.csv")
    rows = rows_of(here / "path.csv")
    assert [r["who"] for r in rows] == frame["who"].tolist()
    assert [int(r["day"]) for r in rows] == frame["day"].tolist()
    assert [int(r["z"]) for r in rows] == model.decode(frame).tolist()
    run("decode", "m.latentia", "log.csv", "--what", "smooth", "--out", "beliefs.csv")
    found = [float(r["z=1"]) for r in rows_of(here / "beliefs.csv")]
    np.testing.assert_allclose(found, model.smooth(frame)["z=1"], atol=1e-12)
    more = ("--steps", "2", "--inputs", "plan.csv")
    run("forecast", "m.latentia", "log.csv", *more, "--out", "next.csv")
    ahead = rows_of(here / "next.csv")
    given = {"who": ["x"] * 2 + ["y"] * 2 + ["z"] * 2, "dose": [0, 1] * 3}
    expected = model.forecast(frame, 2, given=given)
    assert [r["who"] for r in ahead] == ["x", "x", "y", "y", "z", "z"]
    np.testing.assert_allclose(
        [float(r["cough=1"]) for r in ahead], expected["cough=1"], atol=1e-12
    )
    document = json.loads(run("decode", "m.latentia", "log.csv", "--json"))
    assert document["states"]["z"] == model.decode(frame).tolist()


def test_score_sample_and_inspect_take_sequences(here: Path) -> None:
    run("fit", "log.csv", "--graph", SLICE, *FIT, "--out", "m.latentia")
    model, frame = lt.load("m.latentia"), doses()
    scores = model.score_samples(frame)
    told = json.loads(run("score", "m.latentia", "log.csv", "--rows", "--json"))
    np.testing.assert_allclose(told["scores"], scores, rtol=1e-12)
    assert told["mean"] == pytest.approx(model.score(frame), rel=1e-12)
    lines = run("score", "m.latentia", "log.csv", "--rows").split()
    np.testing.assert_allclose([float(x) for x in lines], scores, rtol=1e-12)
    assert "rows before it" in run("score", "m.latentia", "log.csv")
    shown = json.loads(run("inspect", "m.latentia", "--json"))
    assert [c["name"] for c in shown["columns"] if c["given"]] == ["dose"]
    assert shown["latents"] == {"z": 2}
    assert "cough" in run("inspect", "m.latentia")
    assert "leave it out" in run("score", "m.latentia", "log.csv", "--weights", "day", code=1)


def test_sequences_are_drawn(here: Path) -> None:
    words = ("--graph", "z -> z', z -> cough, heat", "--latents", "z=2", "--sequence", "who")
    run("fit", "log.csv", *words, "--time", "day", "--out", "m.latentia")
    run("sample", "m.latentia", "-n", "3", "--length", "4", "--seed", "1", "--out", "drawn.csv")
    rows = rows_of(here / "drawn.csv")
    assert list(rows[0]) == ["who", "day", "cough", "heat"]
    expected = lt.load("m.latentia").sample(3, 4, random_state=1)
    assert [r["cough"] for r in rows] == [str(x) for x in expected["cough"]]
    drawn = json.loads(run("sample", "m.latentia", "-n", "2", "--latents", "--json"))
    assert len(drawn["columns"]["z"]) == drawn["rows"] == 20


def test_what_cannot_be_done_is_told(here: Path) -> None:
    assert "slice" in run("fit", "log.csv", *FIT, "--out", "m.latentia", code=1)
    run("fit", "log.csv", "--graph", SLICE, *FIT, "--out", "m.latentia")
    assert "inputs of the steps to come" in run("forecast", "m.latentia", "log.csv", code=1)
    assert "expected one of" in run("decode", "m.latentia", "log.csv", "--what", "x", code=2)
    lt.LatentModel("A -> cough; A -> dose; A -> day", {"A": 2}).fit(
        {k: doses()[k] % 3 for k in ("cough", "dose", "day")}
    ).save("plain.latentia")
    assert "expected a SequenceModel" in run("decode", "plain.latentia", "log.csv", code=3)


def test_profiles_of_chains(here: Path) -> None:
    run("fit", "log.csv", "--graph", SLICE, *FIT, "--out", "m.latentia")
    model = lt.load("m.latentia")
    assert repr(model.profile()) in run("profile", "m.latentia", "z")
    told = json.loads(run("profile", "m.latentia", "z", "--json"))
    np.testing.assert_allclose(told["moves"], model.profile().moves, atol=1e-9)
    assert [c["name"] for c in told["columns"]] == [c.name for c in model.profile().columns]


def test_the_closed_form(here: Path) -> None:
    how = ("--latents", "z=2", "--sequence", "who", "--time", "day")
    how += ("--learner", "pbp", "--set", "refine=false")
    run("fit", "log.csv", "--graph", "z -> z', z -> cough", *how, "--out", "c.latentia")
    run("forecast", "c.latentia", "log.csv", "--steps", "2", "--out", "next.csv")
    ahead = rows_of(here / "next.csv")
    right = lt.load("c.latentia").forecast(doses(), 2)
    found = [float(r["cough=1"]) for r in ahead]
    np.testing.assert_allclose(found, right["cough=1"], atol=1e-12)
    assert "no named states" in run("decode", "c.latentia", "log.csv", code=1)
    how = (*how[:-4], "--learner", "closed-form")
    run("fit", "log.csv", "--graph", "z -> z', z -> cough", *how, "--out", "same.latentia")
    same = lt.load("same.latentia").forecast(doses(), 2)
    np.testing.assert_array_equal(same["cough=1"], right["cough=1"])
    told = run("fit", "log.csv", *how, "--graph", "z -> z'", "--set", "a=1", "--out", "x", code=2)
    assert "has no settings" in told
    assert "one of sequences" in run(
        "fit", "log.csv", "--graph", "class", "--learner", "closed-form", "--out", "x", code=1
    )
