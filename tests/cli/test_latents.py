"""Latents at the shell: asked for, predicted, drawn and profiled by name."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import latentia as lt
from latentia.cli.application import application as app


def run(*args):
    return CliRunner().invoke(app, [str(a) for a in args], prog_name="latentia")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("latents")
    rng = np.random.default_rng(0)
    h = (rng.random(1200) < 0.3).astype(int)
    data = {c: np.where(rng.random(1200) < 0.8, h, 1 - h) for c in "abcd"}
    with (place / "rows.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(data)
        writer.writerows(zip(*data.values(), strict=True))
    told = run(
        *("fit", place / "rows.csv", "--graph", "class->a,b,c,d", "--latents", "class=2"),
        *("--learner", "tables", "--out", place / "m.latentia"),
        *("--order-by", "a", "--name-states", "class=low,high"),
    )
    assert told.exit_code == 0, told.output
    return place


@pytest.fixture
def model(folder: Path):
    return lt.load(folder / "m.latentia")


def test_query_a_latent(folder, model):
    found = run("query", folder / "m.latentia", "class", "--given", "a=1", "--json")
    assert found.exit_code == 0, found.output
    shares = model.query("class", {"a": 1}).probabilities
    assert list(shares) == ["low", "high"]
    assert json.loads(found.stdout)["probabilities"] == pytest.approx(list(shares.values()))
    given = run("query", folder / "m.latentia", "a", "--given", "class=high", "--json")
    assert json.loads(given.stdout)["probabilities"] == pytest.approx(
        list(model.query("a", {"class": "high"}).probabilities.values())
    )
    soft = run("query", folder / "m.latentia", "a", "--soft", "class=low:.1,high:.9", "--json")
    assert json.loads(soft.stdout)["probabilities"] == pytest.approx(
        list(model.query("a", soft={"class": {"low": 0.1, "high": 0.9}}).probabilities.values())
    )
    best = run("query", folder / "m.latentia", "class", "a", "--map", "--json")
    assert json.loads(best.stdout)["assignment"] == dict(model.map_query(["class", "a"]))
    wrong = run("query", folder / "m.latentia", "a", "--given", "class=middle")
    assert wrong.exit_code != 0
    assert "state of 'class'" in wrong.stderr


def test_predict_a_latent(folder, model):
    rows = str(folder / "rows.csv")
    found = run("predict", folder / "m.latentia", rows, "--target", "class", "--json")
    assert found.exit_code == 0, found.output
    facts = json.loads(found.stdout)
    assert facts["states"] == ["low", "high"]
    told = model.predict(rows, "class").read_all().column(0).to_pylist()
    assert facts["predictions"] == told
    shares = run("predict", folder / "m.latentia", rows, "--target", "class", "--proba")
    lines = shares.stdout.splitlines()
    assert lines[0] == "low,high"
    assert len(lines) == 1201
    assert sum(map(float, lines[1].split(","))) == pytest.approx(1.0)


def test_sample_with_latents(folder):
    found = run("sample", folder / "m.latentia", "-n", "5", "--seed", "0", "--latents")
    lines = found.stdout.splitlines()
    assert lines[0] == "class,a,b,c,d"
    assert {line.split(",")[0] for line in lines[1:]} <= {"low", "high"}


def test_profile(folder, model):
    found = run("profile", folder / "m.latentia", "class", "--plot", folder / "class.svg")
    assert found.exit_code == 0, found.output
    assert "class: 2 states over 4 columns" in found.stdout
    assert (folder / "class.svg").read_text().startswith("<svg")
    facts = json.loads(run("profile", folder / "m.latentia", "class", "--json").stdout)
    told = model.profile("class")
    assert facts["states"] == ["low", "high"]
    assert facts["sizes"] == pytest.approx(list(told.sizes.values()))
    np.testing.assert_allclose(facts["columns"][0]["table"], told.columns[0].table)
    assert run("profile", folder / "m.latentia", "klass").exit_code != 0
    assert run("profile", folder / "m.latentia", "class", "--plot", "x.png").exit_code == 2


def test_an_apostrophe_within_a_name_is_no_next_step(tmp_path):
    rng = np.random.default_rng(1)
    h = rng.integers(2, size=300)
    names = ["l'été", "won't", "c"]
    cells = [np.where(rng.random(300) < 0.9, h, 1 - h) for _ in names]
    lines = [",".join(map(str, row)) for row in zip(*cells, strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join([",".join(names), *lines]))
    told = run(
        *("fit", tmp_path / "rows.csv", "--graph", "class -> l'été, won't, c"),
        *("--latents", "class=2", "--learner", "tables", "--out", tmp_path / "m.latentia"),
    )
    assert told.exit_code == 0, told.output
    told = run("query", tmp_path / "m.latentia", "class", "--given", "l'été=1", "--json")
    assert json.loads(told.stdout)["variables"] == ["class"]


def test_one_class_of_all_columns_has_the_name_that_it_is_given(folder, tmp_path):
    told = run(
        *("fit", folder / "rows.csv", "--graph", "class", "--latents", "mood=2"),
        *("--learner", "tables", "--out", tmp_path / "m.latentia"),
    )
    assert told.exit_code == 0, told.output
    assert lt.load(tmp_path / "m.latentia").states_ == {"mood": 2}
    told = run(
        *("fit", folder / "rows.csv", "--graph", "class", "--latents", "mood=2,class=2"),
        *("--out", tmp_path / "n.latentia"),
    )
    assert told.exit_code != 0
    assert "one latent" in told.stderr
