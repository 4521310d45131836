"""`latentia effect`, `explain` and `query --do`: what the library says, at the shell."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import latentia as lt
from latentia.cli.application import application


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A model of an illness that decides on a drug, and of both on recovery."""
    rng = np.random.default_rng(0)
    ill = rng.random(2000) < 0.4
    drug = rng.random(2000) < np.where(ill, 0.8, 0.2)
    well = rng.random(2000) < 0.6 - 0.4 * ill + 0.2 * drug
    words = np.array(["no", "yes"])
    data = {"ill": words[ill * 1], "drug": words[drug * 1], "well": well * 1}
    learner = lt.EM(restarts=1, random_state=0)
    model = lt.LatentModel("ill->drug; ill->well; drug->well", learner=learner)
    path = tmp_path_factory.mktemp("why") / "m.latentia"
    model.fit(data, error_bars=True).save(path)
    return path


def run(*args):
    return CliRunner().invoke(application, [str(a) for a in args], prog_name="latentia")


def facts(*args):
    found = run(*args, "--json")
    assert found.exit_code == 0, found.stderr
    return json.loads(found.stdout)


def test_query_with_do(saved):
    model = lt.load(saved)
    found = facts("query", saved, "well", "--do", "drug=yes", "--given", "ill=no")
    expected = model.query("well", {"ill": "no"}, do={"drug": "yes"})
    assert found["probabilities"] == expected.table.tolist()
    assert found["do"] == {"drug": "yes"}
    shown = run("query", saved, "well", "--do", "drug=yes").stdout
    assert "do(drug=yes)" in shown
    assert run("query", saved, "well", "--do", "drug=yes", "--map").exit_code == 2
    refused = run("query", saved, "well", "--do", "drug=perhaps")
    assert refused.exit_code == 1
    assert "'no', 'yes'" in refused.stderr


def test_effect(saved):
    model = lt.load(saved)
    found = facts("effect", saved, "drug", "well", "--confidence", ".9")
    expected = model.effect("drug", "well", confidence=0.9)
    assert found["probabilities"] == expected.table.tolist()
    assert found["average"] == list(expected.average.values())
    assert found["average_intervals"][1] == list(expected.average_intervals["yes"])
    assert found["back_door"] == ["ill"]
    assert found["identified"] is True
    assert found["states"] == {"drug": ["no", "yes"], "well": [0, 1]}
    shown = run("effect", saved, "drug", "well", "--baseline", "yes").stdout
    assert "set to no instead of yes, the mean changes by -" in shown
    assert "back-door set ill" in shown
    words = facts("effect", saved, "well", "drug")["average"]
    assert np.shape(words) == (2, 2)


def test_explain(saved, tmp_path: Path):
    model = lt.load(saved)
    picture = tmp_path / "why.svg"
    args = ("explain", saved, "ill", "--given", "drug=yes", "--given", "well=0")
    found = facts(*args, "--picture", picture)
    expected = model.explain("ill", {"drug": "yes", "well": 0})
    assert found["left_out"] == [p.left_out for p in expected.pieces]
    assert found["evidence"] == ["drug", "well"]
    assert found["state"] == "yes"
    assert picture.read_text().startswith("<svg")
    shown = run(*args, "--state", "no", "--order", "strength").stdout
    assert "drug = yes speaks against it" in shown
    assert run(*args, "--picture", "why.png").exit_code == 2
