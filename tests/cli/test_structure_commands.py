"""`latentia structure` and `latentia synthesize`: a table without a graph, at the shell."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import latentia as lt
from latentia.cli.application import application


def run(*words: object, code: int = 0) -> str:
    found = CliRunner().invoke(application, [str(word) for word in words])
    assert found.exit_code == code, found.output
    return found.output


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    mood = rng.integers(2, size=500)
    frame = pd.DataFrame(
        {
            f"answer {i}": np.where(np.where(rng.random(500) < 0.85, mood, 1 - mood), "yes", "no")
            for i in range(3)
        }
    )
    frame["age"] = rng.integers(20, 70, size=500) + 5 * mood
    frame["id"] = [f"p{i}" for i in range(500)]
    where = tmp_path_factory.mktemp("rows") / "rows.csv"
    frame.to_csv(where, index=False)
    return where


@pytest.mark.usefixtures("short_search")
def test_a_structure_is_found_drawn_and_told(rows: Path) -> None:
    picture = rows.parent / "graph.svg"
    shown = run("structure", rows, "--method", "tree", "--out", picture)
    assert "4 columns" in shown
    assert "left out: id" in shown
    assert picture.read_text().startswith("<svg")
    found = json.loads(run("structure", rows, "--json", "--quiet", "--require", "age,answer 1"))
    parents = {child: {a for a, b in found["edges"] if b == child} for child in ("age", "answer 1")}
    direct = ["age", "answer 1"] in found["edges"] or ["answer 1", "age"] in found["edges"]
    assert direct or parents["age"] & parents["answer 1"]


@pytest.mark.usefixtures("short_search")
def test_rows_are_drawn_like_those_of_the_table(rows: Path) -> None:
    out = rows.parent / "drawn.csv"
    run("synthesize", rows, "--out", out, "--seed", 3, "--quiet")
    real, drawn = pd.read_csv(rows), pd.read_csv(out)
    assert list(drawn) == ["answer 0", "answer 1", "answer 2", "age"]  # ids are nobody's
    assert len(drawn) == len(real)
    assert (drawn.age % 1 == 0).all()
    assert drawn.age.between(real.age.min() - 10, real.age.max() + 10).all()
    same = [(f["answer 0"] == f["answer 1"]).mean() for f in (real, drawn)]
    assert abs(same[0] - same[1]) < 0.1  # three standard errors of a difference of two halves
    again = rows.parent / "again.csv"
    run("synthesize", rows, "--out", again, "--seed", 3, "--quiet")
    assert again.read_text() == out.read_text()


@pytest.mark.usefixtures("short_search")
def test_rows_of_a_mixed_table_are_drawn_by_the_chain_or_jointly(rows: Path) -> None:
    saved = rows.parent / "mixed.latentia"
    run("fit", rows, "--out", saved, "--quiet")
    drawn = {
        ways: json.loads(run("sample", saved, "-n", 50, "--seed", 1, "--json", *ways))["columns"]
        for ways in ((), ("--joint",))
    }
    model = lt.load(saved)
    assert model.diagnostics_.drawn_by == "chain"
    for ways, found in drawn.items():
        expected = model.sample(50, random_state=1, joint=bool(ways))
        assert found["age"] == list(map(float, expected["age"]))
    assert drawn[()] != drawn["--joint",]
