"""The command line with continuous columns: densities, intervals, means and quantiles."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import latentia as lt
from latentia.cli.application import application as app

GRAPH = "H->x,y,z,D"


def make_columns(n: int = 400) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=n)
    return {
        "x": 4.0 * h + rng.normal(size=n),
        "y": np.exp(h + 0.5 * rng.normal(size=n)),
        "z": np.where(rng.random(n) < 0.3, 0.0, 2 * h + rng.random(n)),
        "D": np.array(["lo", "hi"])[np.where(rng.random(n) < 0.9, h, 1 - h)],
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("cli")
    table = pa.table(make_columns())
    pq.write_table(table, place / "rows.parquet")
    csv.write_csv(table, place / "rows.csv")
    ok("fit", place / "rows.csv", "--graph", GRAPH, "--latents", "H=2", "--out", place / "m")
    return place


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


def run(*args: object) -> Any:
    return CliRunner().invoke(app, [str(a) for a in args])


def ok(*args: object) -> str:
    found = run(*args)
    assert found.exit_code == 0, found.output
    return str(found.stdout)


def facts(*args: object) -> Any:
    return json.loads(ok(*args, "--json"))


def refused(code: int, *args: object) -> str:
    found = run(*args)
    assert found.exit_code == code, found.output
    return " ".join(found.stderr.split())


def test_fit_learns_what_the_library_learns(here: Path) -> None:
    model = lt.load("m")
    own = lt.LatentModel(GRAPH, {"H": 2}).fit(make_columns())
    assert [type(c).__name__ for c in model.columns_[:3]] == ["ContinuousColumn"] * 3
    np.testing.assert_allclose(
        np.asarray(model.query("x", {"y": 2.0})), np.asarray(own.query("x", {"y": 2.0})), atol=1e-9
    )


def test_query_a_density(here: Path) -> None:
    found = facts("query", "m", "x", "--given", "y=3.2", "--given", "z=0..2.5", "--given", "D=hi")
    own = lt.load("m").query("x", {"y": 3.2, "z": (0, 2.5), "D": "hi"})
    assert found["mean"] == own.mean
    assert found["quantiles"]["0.5"] == own.median
    assert found["given"] == {"y": 3.2, "z": [0, 2.5], "D": "hi"}
    assert len(found["density"]["x"]) == len(found["density"]["p"])
    assert found["log_evidence"] == own.log_evidence
    shown = ok("query", "m", "x", "--given", "y=3.2", "--given", "z=..2.5")
    assert "p(x | y=3.2000, z=..2.5000)" in shown
    assert "█" in shown
    assert "95%" in shown


def test_a_discrete_column_given_continuous_ones(here: Path) -> None:
    found = facts("query", "m", "D", "--given", "x=4.1", "--given", "z=1..")
    assert (
        found["probabilities"] == lt.load("m").query("D", {"x": 4.1, "z": (1, None)}).table.tolist()
    )


def test_atoms_are_told(here: Path) -> None:
    assert "P(z = 0) = 0." in ok("query", "m", "z")
    assert 0.2 < facts("query", "m", "z")["atoms"]["0"] < 0.4


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_predict_means_and_quantiles(here: Path, ending: str, tmp_path: Path) -> None:
    model, data = lt.load("m"), make_columns()
    means = facts("predict", "m", f"rows.{ending}", "--target", "x")
    np.testing.assert_allclose(means["predictions"], model.predict(data, "x"), atol=1e-9)
    assert set(means["quantiles"]) == {"0.05", "0.25", "0.5", "0.75", "0.95"}
    ok(
        "predict",
        "m",
        f"rows.{ending}",
        "--target",
        "x",
        "--quantiles",
        ".1,.9",
        "--out",
        tmp_path / "p.csv",
    )
    lines = (tmp_path / "p.csv").read_text().splitlines()
    assert lines[0] == "x,0.1,0.9"
    mean, low, high = map(float, lines[1].split(","))
    assert low < high
    assert mean == pytest.approx(model.predict(data, "x")[0])


@pytest.mark.filterwarnings("ignore::latentia.errors.EvidenceWarning")
def test_score_sample_and_inspect(here: Path) -> None:
    assert facts("score", "m", "rows.csv")["mean"] == pytest.approx(
        lt.load("m").score(make_columns())
    )
    rows = facts("sample", "m", "-n", 5, "--seed", 1)["columns"]
    assert set(rows) == {"x", "y", "z", "D"}
    found = facts("inspect", "m")["columns"]
    assert [c["kind"] for c in found] == ["continuous"] * 3 + ["discrete"]
    assert found[2]["atoms"] == [0.0]
    shown = ok("inspect", "m")
    assert "often 0" in shown


def test_plan_and_kinds(here: Path, tmp_path: Path) -> None:
    found = facts(
        "plan",
        GRAPH,
        "--latents",
        "H=2",
        "--states",
        "D=2",
        "--kinds",
        "x=continuous,y=continuous,z=continuous",
    )
    assert found["columns"] == {"x": 128, "y": 128, "z": 128, "D": 2}
    assert "'q'" in refused(
        1, "plan", GRAPH, "--latents", "H=2", "--states", 2, "--kinds", "q=discrete"
    )
    assert "--kinds" in refused(2, "plan", GRAPH, "--kinds", "x=wavy")
    said = refused(
        1,
        "fit",
        "rows.csv",
        "--graph",
        GRAPH,
        "--latents",
        "H=2",
        "--out",
        tmp_path / "n",
        "--kinds",
        "D=continuous",
    )
    assert "'D' is said to be continuous" in said


@pytest.mark.parametrize(
    ("code", "args", "words"),
    [
        (1, ["query", "m", "x", "--given", "y=red"], "expected a number, or an interval"),
        (1, ["query", "m", "x", "--given", "y=inf"], "finite number"),
        (1, ["query", "m", "x", "--given", "y=3..1"], "low < high"),
        (1, ["query", "m", "x", "--given", "y=1000..2000"], "lies outside"),
        (1, ["query", "m", "x", "--soft", "y=1:.5"], "'y' is continuous: --soft is for states"),
        (1, ["predict", "m", "rows.csv", "--target", "x", "--proba"], "no list of states"),
        (1, ["predict", "m", "rows.csv", "--target", "D", "--quantiles", ".5"], "'D' is discrete"),
        (2, ["predict", "m", "rows.csv", "--target", "x", "--quantiles", "2"], "between 0 and 1"),
        (
            1,
            ["fit", "rows.csv", "--graph", GRAPH, "--latents", "H=2", "--learner", "spectral"],
            "discrete columns only",
        ),
    ],
)
def test_clear_errors(here: Path, code: int, args: list[str], words: str, tmp_path: Path) -> None:
    if args[0] == "fit":
        args = [*args, "--out", str(tmp_path / "n")]
    assert words in refused(code, *args)


def test_text_in_a_continuous_column(here: Path, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text("x,y\n1.0,red\n,2\n")
    assert "'y' was continuous in training; expected numbers, got 'red'" in refused(
        1, "predict", "m", tmp_path / "new.csv", "--target", "D"
    )
    (tmp_path / "new.csv").write_text("x,y\nNA,\n1.5,\n")  # a column without values is not observed
    found = facts("predict", "m", tmp_path / "new.csv", "--target", "D", "--proba")
    np.testing.assert_allclose(
        found["probabilities"][0], np.asarray(lt.load("m").query("D")), atol=1e-9
    )
