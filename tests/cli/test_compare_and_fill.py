"""`latentia compare`, and predictions with ids beside them and holes filled."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import latentia as lt
from latentia.cli.application import application


def run(*words, code=0):
    found = CliRunner().invoke(application, [str(word) for word in words])
    assert found.exit_code == code, found.output
    return found.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("rows")
    rng = np.random.default_rng(0)
    member = rng.integers(2, size=400)
    frame = pd.DataFrame(
        {f"x{i}": np.where(rng.random(400) < 0.85, member, 1 - member) for i in range(5)}
    )
    frame.insert(0, "id", [f"row {i}" for i in range(400)])
    holes = frame.copy().astype(object)
    holes.loc[::3, "x1"] = None
    frame.to_csv(where / "rows.csv", index=False)
    holes.to_csv(where / "holes.csv", index=False)
    graph = "; ".join(f"class->x{i}" for i in range(5))
    model = lt.LatentModel(graph, {"class": 2}, learner="tables").fit(frame.drop(columns="id"))
    model.save(where / "m.latentia")
    return where


def test_compare(folder):
    graph = "; ".join(f"class->x{i}" for i in range(5))
    words = ["compare", folder / "rows.csv", "--graph", graph, "--latents", "class=1:3"]
    shown = run(*words, "--out", folder / "c.svg")
    assert "Take class: 2" in shown
    assert (folder / "c.svg").read_text().startswith("<svg")
    found = json.loads(run(*words, "--json", "--quiet"))
    assert found["recommended"] == {"class": 2}
    assert [c["class"] for c in found["candidates"]] == [1, 2, 3]


@pytest.mark.parametrize("latents", ["class", "class=3:1", "class=a:b", "class=1,class=2", ""])
def test_ranges_that_are_none(folder, latents):
    assert "FIRST:LAST" in run("compare", folder / "rows.csv", "--latents", latents, code=2)


def test_ids_stay_beside_predictions(folder):
    out = folder / "predicted.csv"
    run("predict", folder / "m.latentia", folder / "rows.csv", "--target", "x0", "--keep", "id",
        "--out", out)  # fmt: skip
    found, rows = pd.read_csv(out), pd.read_csv(folder / "rows.csv")
    assert list(found) == ["id", "x0"]
    assert (found["id"] == rows["id"]).all()
    model = lt.load(folder / "m.latentia")
    expected = model.predict(rows.drop(columns="id"), "x0")
    assert (found["x0"].to_numpy() == np.asarray(expected)).all()
    words = ["predict", folder / "m.latentia", folder / "rows.csv", "--target", "x0"]
    assert "ids" in run(*words, "--keep", "ids", code=1)


def test_holes_are_filled(folder):
    out = folder / "filled.csv"
    words = ["predict", folder / "m.latentia", folder / "holes.csv", "--fill", "--keep", "id"]
    run(*words, "--out", out)
    found, holes = pd.read_csv(out), pd.read_csv(folder / "holes.csv")
    assert list(found) == ["id", *(f"x{i}" for i in range(5))]
    assert not found.isna().any().any()
    there = holes["x1"].notna()
    assert (found["x1"][there] == holes["x1"][there]).all()
    document = json.loads(run(*words, "--json"))
    assert document["rows"] == 400
    assert document["columns"]["x1"] == found["x1"].tolist()


def test_target_or_fill(folder):
    for extra in ([], ["--fill", "--target", "x0"], ["--fill", "--proba"]):
        run("predict", folder / "m.latentia", folder / "rows.csv", *extra, code=2)
