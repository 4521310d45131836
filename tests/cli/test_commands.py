"""The command line: details in this process, what needs a shell or a terminal in one of its own."""

import csv
import gzip
import json
import math
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import latentia as lt
from latentia.cli import writing
from latentia.cli.answer_views import (
    rows_view,
)
from latentia.cli.application import application as app
from latentia.cli.plan_views import (
    plan_view,
)
from latentia.cli.reading import graph_from_text, open_table
from latentia.data.columns.discrete import DiscreteColumn
from latentia.data.sources import files
from latentia.data.sources.cell_spelling import find_state

GRAPH = "A->D; A->E; A->G; A->H"
EDGES = [["A", name] for name in "DEGH"]
PATIENCE = 60  # seconds of silence after which a terminal is given up
COMMANDS = ("plan", "fit", "query", "predict", "score", "check", "explore", "sample", "inspect")


# -- a folder with tables and a model ------------------------------------------------------------


def make_columns(rows: int = 2000) -> dict[str, list[Any]]:
    """Four columns of text, numbers and truth values that a class of three explains; one more."""
    rng = np.random.default_rng(0)
    a = rng.integers(3, size=rows)
    d, e, g = (np.where(rng.random(rows) < 0.7, a, rng.integers(3, size=rows)) for _ in range(3))
    h = np.where(rng.random(rows) < 0.8, a > 0, rng.random(rows) < 0.5)
    cells = zip(rng.random(rows), d, strict=True)
    names = [None if x < 0.05 else ("low", "mid", "high")[k] for x, k in cells]
    extra = [f"row {k}" for k in range(rows)]
    return {"D": names, "E": e.tolist(), "G": g.tolist(), "H": h.tolist(), "note": extra}


def write_csv(path: Path, columns: dict[str, list[Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            writer.writerow([str(c).lower() if isinstance(c, bool) else c for c in row])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("cli")
    columns = make_columns()
    write_csv(place / "rows.csv", columns)
    pq.write_table(pa.table(columns), place / "rows.parquet")
    (place / "graph.json").write_text(json.dumps({"edges": EDGES, "latents": {"A": 3}}))
    (place / "graph.txt").write_text("# classes\nA -> D, E\nA -> G, H\n")
    table = pa.table(columns).drop_columns(["note"])
    lt.LatentModel(GRAPH, {"A": 3}).fit(table).save(place / "m.latentia")
    return place


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


# -- running it --------------------------------------------------------------------------------


def run(*args: object, stdin: str | bytes | None = None) -> Any:
    return CliRunner().invoke(app, [str(a) for a in args], input=stdin, prog_name="latentia")


def ok(*args: object, stdin: str | bytes | None = None) -> str:
    result = run(*args, stdin=stdin)
    assert result.exit_code == 0, result.stderr
    return str(result.stdout)


def facts(*args: object, stdin: str | bytes | None = None) -> Any:
    return json.loads(ok(*args, "--json", stdin=stdin))


def read_rows_of(path: Path, columns: Any = ()) -> dict[Any, Any]:
    """All rows of a file, as the command line reads them."""
    stream = files.open_files([open_table(str(path), columns)])
    parts: dict[Any, list[Any]] = {name: [] for name in stream.names}
    for block in stream.tables(stream.names):
        for name, cells in parts.items():
            cells += block.column(name).cells.tolist()
    return parts


def refused(code: int, *args: object, stdin: str | None = None) -> str:
    """The sentence on stderr; nothing on stdout."""
    result = run(*args, stdin=stdin)
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith("latentia: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    return str(result.stderr)


def environment(**more: str) -> dict[str, str]:
    plain = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    return {**plain, "OPENBLAS_NUM_THREADS": "1", "TERM": "xterm-256color", **more}


def shell(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """A script for sh that may call `latentia`."""
    start = f'latentia() {{ {shlex.quote(sys.executable)} -m latentia "$@"; }}\n'
    return subprocess.run(
        ["sh", "-c", start + script], cwd=folder, env=environment(), capture_output=True, text=True
    )


def terminal(
    folder: Path, *args: str, press: bytes = b"", after: bytes = b"", **env: str
) -> tuple[int, str]:
    """Exit code and screen of a command in a terminal; keys follow once `after` is seen."""
    pid, screen = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execve(sys.executable, [sys.executable, "-m", "latentia", *args], environment(**env))
    seen = b""
    while True:
        if not select.select([screen], [], [], PATIENCE)[0]:
            os.kill(pid, signal.SIGKILL)
        try:
            new = os.read(screen, 4096)
        except OSError:  # how Linux says that the other end is closed
            break
        if not new:
            break
        seen += new
        if press and re.search(after, seen):
            os.write(screen, press)
            press = b""
    _, status = os.waitpid(pid, 0)
    os.close(screen)
    return os.waitstatus_to_exitcode(status), seen.decode()


# -- in a real shell ---------------------------------------------------------------------------


def test_the_whole_road_in_a_shell(folder: Path) -> None:
    done = shell(
        folder,
        """
        set -e
        exec 2>notes.txt
        latentia fit rows.csv --graph graph.txt --latents A=3 --out road.latentia >fit.txt
        latentia inspect road.latentia >inspect.txt
        latentia query road.latentia D --given G=2 --given H=true >query.txt
        latentia predict road.latentia rows.csv --target D --out predicted.csv
        latentia sample road.latentia -n 50 --seed 0 | latentia score road.latentia - --json
        """,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["rows"] == 50
    assert -8 < found["mean"] < -1
    text = {name: (folder / f"{name}.txt").read_text() for name in ("fit", "inspect", "query")}
    assert (folder / "notes.txt").read_text() == (
        "note: 1 column(s) that the graph does not name are ignored: note. "
        "Tie them into the graph, or drop them.\n"
    )
    assert "road.latentia" in text["fit"]
    assert "2,000 rows" in text["fit"]
    assert all(word in text["inspect"] for word in ("A[3]", "low, mid", "α core", "Diagnostics"))
    assert "P(D | G=2, H=True)" in text["query"]
    for plain in text.values():
        assert "\x1b" not in plain
        assert not any(line.endswith(" ") for line in plain.splitlines())
    predicted = (folder / "predicted.csv").read_text().split()
    assert (predicted[0], len(predicted), set(predicted[1:])) == ("D", 2001, {"low", "mid", "high"})


def test_a_reader_that_leaves_is_no_error(folder: Path) -> None:
    script = "{ latentia sample m.latentia -n 100000; echo $? >code; } | head -1"
    done = shell(folder, script)
    assert (done.stdout, done.stderr) == ("D,E,G,H\n", "")
    assert (folder / "code").read_text() == "141\n"


def test_one_sentence_and_a_code_in_a_shell(folder: Path) -> None:
    done = shell(folder, "latentia score m.latentia nowhere.csv")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "latentia: cannot open 'nowhere.csv': no such file or directory.\n"


@pytest.mark.parametrize("library", ["typer", "pyarrow"])
def test_a_missing_library_is_named(folder: Path, library: str) -> None:
    code = f"""
import sys
sys.modules[{library!r}] = None
sys.argv = ["latentia", "score", "m.latentia", "rows.csv"]
from latentia.cli import main
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment(), capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"latentia: the command line needs {library}, which is not installed: "
        "pip install 'latentia[cli]'\n"
    )


# -- in a terminal -----------------------------------------------------------------------------


def test_a_terminal_gets_colours_and_bars(folder: Path) -> None:
    code, screen = terminal(folder, "query", "m.latentia", "D", "--given", "G=2")
    assert code == 0
    assert "\x1b[1;36mP(D | G=2)" in screen
    assert "█" in screen


def test_no_color_is_respected_and_short_work_shows_no_progress(folder: Path) -> None:
    code, screen = terminal(folder, "sample", "m.latentia", "-n", "30", NO_COLOR="1")
    assert code == 0
    assert "\x1b[3" not in screen
    assert "drawing" not in screen
    assert "… and 10 more rows" in screen


def test_long_work_shows_progress_and_can_be_interrupted(folder: Path) -> None:
    # Not at its first frame: a thread that is just starting may take the signal from the one
    # that waits for input, which then does not wake up. Busy machines do not show every second.
    some_seconds = rb"0:00:0[1-9]"
    code, screen = terminal(folder, "score", "m.latentia", "-", press=b"\x03", after=some_seconds)
    assert code == 130
    assert "reading -" in screen
    assert screen.endswith("interrupted.\r\n")
    assert "Traceback" not in screen


# -- help --------------------------------------------------------------------------------------


def test_help_names_the_commands() -> None:
    text = ok("--help")
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert "Exit codes" in text
    assert ok("--version") == f"latentia {lt.__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(command: str) -> None:
    text = ok(command, "--help")
    assert f"latentia {command} " in text.split("Examples:")[1]
    assert all(option in text for option in ("--json", "--quiet", "--debug"))


# -- plan --------------------------------------------------------------------------------------


def test_plan_before_any_data() -> None:
    text = ok("plan", GRAPH, "--latents", "A=3", "--states", "3,H=2")
    assert "α core" in text
    assert "4 leaves, 1 root; " in text
    found = facts("plan", GRAPH, "--latents", "A=3", "--states", "3,H=2")
    assert found["latents"] == {"A": 3}
    assert found["columns"] == {"D": 3, "E": 3, "G": 3, "H": 2}
    assert found["notes"] == []
    plan = lt.make_plan(GRAPH, {"A": 3}, {"D": 3, "E": 3, "G": 3, "H": 2})
    assert found["cost"] == plan.cost


def test_plan_notes_what_cannot_be_told_apart() -> None:
    args = ("plan", "A->X; A->Y", "--latents", "A=4", "--states", "2")
    result = run(*args)
    assert result.exit_code == 0
    assert result.stderr.startswith("note: the 4 states of latent 'A' cannot be told apart")
    assert result.stderr.count("\n") == 1
    assert run(*args, "--quiet").stderr == ""
    assert len(facts(*args)["notes"]) == 1


def test_narrow_terminals_get_narrow_tables() -> None:
    found = facts("plan", GRAPH, "--latents", "A=3", "--states", "3")
    for width in (8, 6):
        table = plan_view(found, lambda t, width=width: len(t.columns) <= width)[0]
        assert len(table.columns) == width
    columns = {f"x{k}": [1, 2] for k in range(40)}
    table, foot = rows_view(columns, lambda t: len(t.columns) <= 10)
    assert len(table.columns) == 10
    assert "31 more columns" in str(foot)


@pytest.mark.parametrize("given", ["graph.json", "@graph.json", "graph.txt", "@graph.txt", GRAPH])
def test_graphs_as_text_and_files(here: Path, given: str) -> None:
    found = graph_from_text(given, "A=3")
    assert str(found) == "(A[3])->D; (A[3])->E; (A[3])->G; (A[3])->H"


def test_graphs_as_json(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    for written in ([["A", 1]], ["A->1"], {"1": ["A"]}, {"edges": "A->1", "states": {"1": 2}}):
        path.write_text(json.dumps(written))
        assert str(graph_from_text(str(path), "A", "2")) == "(A)->1[2]"


@pytest.mark.parametrize(
    ("code", "args", "words"),
    [
        (1, ["A->"], "expected names joined by"),
        (1, ["A->B; B->A"], "contradictory edges"),
        (1, ["A->B", "--latents", "C=2"], "'C' is unknown; expected one of: 'A', 'B'"),
        (1, ["A->B", "--latents", "A=2"], "Pass --states B=…"),
        (1, ["A->B", "--latents", "A", "--states", "2"], "Pass --latents A=…"),
        (1, ['{"edges": []}'], "no variables"),
        (1, ['{"edges": [], "nodes": 1}'], "'nodes' is unknown"),
        (1, ['{"edges": ["A->B"], "states": 3}'], 'expected "states"'),
        (1, ['["A->B"'], "not valid JSON"),
        (
            1,
            ["; ".join(f"A{i}--A{j}" for i in range(60) for j in range(i)), "--states", "9"],
            "ell",
        ),
        (3, ["nowhere.json"], "cannot open 'nowhere.json'"),
        (3, ["@A->B"], "cannot open 'A->B'"),
    ],
)
def test_graphs_that_are_none(code: int, args: list[str], words: str) -> None:
    assert words in refused(code, "plan", *args)


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["plan"],
        ["plan", GRAPH, "--latents", "A=x"],
        ["plan", GRAPH, "--latents", "A=1,A=2"],
        ["fit", "rows.csv"],
        ["fit", "rows.csv", "--out", "x.latentia", "--learner", "magic"],
        ["query", "m.latentia", "D", "--given", "G"],
        ["query", "m.latentia", "D", "--soft", "G=0"],
        ["sample", "m.latentia", "-n", "0"],
        ["sample", "m.latentia", "--out", "rows.xls"],
        ["dance"],
    ],
)
def test_wrong_usage(here: Path, args: list[str]) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert "Usage: latentia" in result.output


# -- fit ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_fit_learns_what_the_library_learns(here: Path, tmp_path: Path, ending: str) -> None:
    out = tmp_path / "x.latentia"
    found = facts("fit", f"rows.{ending}", "--graph", "graph.json", "--out", out)
    assert (found["rows"], found["weight"], found["latents"]) == (2000, 2000, {"A": 3})
    assert found["columns"][0]["states"] == ["high", "low", "mid"]
    assert found["columns"][3]["states"] == [False, True]
    assert found["columns"][0]["missing"] == pytest.approx(0.05, abs=0.02)
    assert found["notes"] == [
        "1 column(s) that the graph does not name are ignored: note. "
        "Tie them into the graph, or drop them."
    ]
    asked = ("D", {"G": 2, "H": True})
    expected = lt.load(here / "m.latentia").query(*asked)
    # the same sums, added in another order
    np.testing.assert_allclose(lt.load(out).query(*asked).table, expected.table, atol=1e-12)


def test_fit_with_weights_and_state_names(here: Path, tmp_path: Path) -> None:
    columns = {k: v * 2 for k, v in make_columns(300).items()}
    columns["count"] = [0] * 300 + [2] * 300
    write_csv(tmp_path / "rows.csv", columns)
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    names = {"D": ["low", "mid", "high"], "E": [2, 1, 0]}
    (tmp_path / "names.json").write_text(json.dumps(names))
    options = ["--weights", "count", "--state-names", tmp_path / "names.json"]
    answers = []
    for ending in ("csv", "parquet"):
        out = tmp_path / f"{ending}.latentia"
        args = ["fit", tmp_path / f"rows.{ending}", "--graph", "@graph.json", *options]
        found = facts(*args, "--out", out, "--learner", "paper")
        assert (found["rows"], found["weight"]) == (600, 600)
        assert [c["states"] for c in found["columns"][:2]] == list(names.values())
        assert "PublishedPBP" in found["learner"]
        answers.append(facts("query", out, "D", "--given", "E=2")["probabilities"])
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    ("learner", "settings", "words"),
    [
        ("em", ["restarts=2", "max_iter=30", "tol=1e-4", "random_state=0"], "EM(max_iter=30, "),
        ("stepwise", ["restarts=2", "epochs=2", "batch_size=100", "n_jobs=1"], "StepwiseEM("),
        ("spectral", ["repair=false"], "Spectral(repair=False)"),
        ("paper", ["ridge=0.01,0.02"], "PublishedPBP(ridge=(0.01, 0.02))"),
        ("pbp", ["refine=true"], "PBP(refine=True)"),
    ],
)
def test_every_learner_has_its_settings(
    here: Path, tmp_path: Path, learner: str, settings: list[str], words: str
) -> None:
    out = tmp_path / "m.latentia"
    given = [word for setting in settings for word in ("--set", setting)]
    args = ["fit", "rows.csv", "--graph", "graph.json", "--out", out, "--learner", learner]
    assert words in facts(*args, *given)["learner"]
    assert words in repr(lt.load(out).learner)
    assert facts("query", out, "D", "--given", "G=2")["probabilities"]


def test_settings_that_a_learner_has_not(here: Path) -> None:
    args = ["fit", "rows.csv", "--graph", "graph.json", "--out", "n.latentia", "--learner", "em"]
    for setting, words in (
        ("starts=3", "has no setting 'starts'; it has init, known, max_iter"),
        ("restarts", "expected NAME=VALUE"),
    ):
        result = run(*args, "--set", setting)
        assert result.exit_code == 2
        assert words in " ".join(result.output.replace("│", " ").split())
    assert "expected restarts to be" in run(*args, "--set", "restarts=0").stderr


@pytest.mark.usefixtures("quick_fits")
def test_fit_without_graph_and_quietly(tmp_path: Path) -> None:
    columns = make_columns(200)
    write_csv(tmp_path / "rows.csv", {k: columns[k] for k in "DEGH"})
    result = run("fit", tmp_path / "rows.csv", "--out", tmp_path / "m.latentia", "--quiet")
    assert (result.exit_code, result.output) == (0, "")
    assert lt.load(tmp_path / "m.latentia").query("D", {"G": 2}).table.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("code", "options", "words"),
    [
        (1, ["--graph", "A->D; A->X", "--latents", "A=2"], "column 'X' is unknown; expected one"),
        (1, ["--graph", "D->E", "--latents", "D=2"], "'D' is latent in the graph but a column"),
        (1, ["--latents", "A=2"], "latents were given without a graph"),
        (1, ["--graph", "A->D; A->E", "--latents", "A=2", "--weights", "w"], "'w' is unknown"),
        (1, ["--graph", "A->D; A->E", "--latents", "A=2", "--weights", "D"], "must be numbers"),
        (1, ["--graph", "D->E", "--state-names", "graph.json"], 'expected {"column": ["state"'),
        (3, ["--graph", "D->E", "--state-names", "rows.csv"], "not valid JSON"),
        (3, ["--graph", "D->E", "--state-names", "none.json"], "no such file"),
        (3, ["--graph", "D->E", "--out", "no/where.latentia"], "no such folder"),
        (3, ["--graph", "D->E", "--out", "."], "it is a folder"),
    ],
)
def test_fits_that_cannot_be(here: Path, code: int, options: list[str], words: str) -> None:
    assert words in refused(code, "fit", "rows.csv", "--out", "never.latentia", *options)
    assert not (here / "never.latentia").exists()


def test_state_names_of_no_column(here: Path, tmp_path: Path) -> None:
    (tmp_path / "n.json").write_text('{"X": [1, 2]}')
    args = ["fit", "rows.csv", "--graph", "D->E", "--out", tmp_path / "x.latentia"]
    assert "'X' is unknown" in refused(1, *args, "--state-names", tmp_path / "n.json")


# -- questions ---------------------------------------------------------------------------------


def test_query_at_full_precision(here: Path) -> None:
    found = facts("query", "m.latentia", "D", "--given", "G=2", "--given", "H=true")
    expected = lt.load("m.latentia").query("D", {"G": 2, "H": True})
    assert found["probabilities"] == expected.table.tolist()
    assert found["states"] == {"D": ["high", "low", "mid"]}
    assert found["given"] == {"G": 2, "H": True}
    assert found["log_evidence"] == expected.log_evidence


def test_query_jointly_with_soft_evidence(here: Path) -> None:
    args = ("query", "m.latentia", "D", "E", "--soft", "G=0:.2,1:.8")
    found = facts(*args)
    expected = lt.load("m.latentia").query(["D", "E"], soft={"G": {0: 0.2, 1: 0.8}})
    assert found["probabilities"] == expected.table.tolist()
    lines = ok(*args).splitlines()
    assert lines[0] == "P(D, E | G={0: 0.2, 1: 0.8})"
    assert lines[3].split()[:3] == ["high", "0", f"{expected[('high', 0)]:.4f}"]


def test_query_for_the_most_probable(here: Path) -> None:
    args = ("query", "m.latentia", "D", "E", "--given", "G=2", "--map")
    found = facts(*args)
    expected = lt.load("m.latentia").map_query(["D", "E"], {"G": 2})
    assert found["assignment"] == dict(expected)
    assert (found["probability"], found["exact"]) == (expected.probability, True)
    assert "the best of all" in ok(*args)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["X"], "variable 'X' is unknown"),
        (["D", "--given", "G=7"], "state of 'G' 7 is unknown; expected one of: 0, 1, 2."),
        (["D", "--given", "G=low"], "state of 'G' 'low' is unknown"),
        (["G", "--given", "D=LOW"], "state of 'D' 'LOW' is unknown"),
        (["D", "--given", "D=low"], "asked for and observed at once"),
        (["D", "--given", "G=1", "--given", "G=1"], "given twice"),
        (["D", "D"], "asked for twice"),
        (["D", "--given", "G=1", "--soft", "G=1:1"], "hard and soft"),
        (["D", "--soft", "G=1:-1"], "not negative"),
        (["D", "--soft", "G=1:nan"], "finite"),
    ],
)
def test_questions_without_answer(here: Path, args: list[str], words: str) -> None:
    assert words in refused(1, "query", "m.latentia", *args)
    assert words in refused(1, "query", "m.latentia", *args, "--json")


def test_debug_shows_where(here: Path) -> None:
    result = run("query", "m.latentia", "X", "--debug")
    assert result.exit_code == 1
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("latentia: variable 'X' is unknown")


def test_files_that_are_no_models(here: Path) -> None:
    assert "rows.csv" in refused(3, "inspect", "rows.csv")
    assert "nowhere" in refused(3, "inspect", "nowhere")
    assert "it is" not in refused(3, "query", ".", "D")


def test_text_finds_typed_states() -> None:
    def found(text: str, *states: Any) -> Any:
        return find_state(DiscreteColumn("G", states), text)

    assert found("2", 1, 2) == 2
    assert found("2.0", 1, 2) == 2
    assert found("2", "1", "2") == "2"
    assert found("0.5", 0.25, 0.5) == 0.5
    assert found("TRUE", False, True) is True
    assert found("1", False, True) == "1"
    assert found("2", 1, "low", 2) == 2
    with pytest.raises(lt.errors.EvidenceError, match=r"2 and '2'"):
        found("2", 2, "2")


# -- tables ------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::latentia.errors.EvidenceWarning")
@pytest.mark.filterwarnings("ignore::latentia.errors.IgnoredColumnWarning")
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_predict_score_and_sample(here: Path, tmp_path: Path, ending: str) -> None:
    model, table = lt.load("m.latentia"), pq.read_table("rows.parquet")
    data = f"rows.{ending}"
    found = facts("predict", "m.latentia", data, "--target", "D")
    assert found["predictions"] == model.predict(table, target="D").to_pylist()
    found = facts("predict", "m.latentia", data, "--target", "D", "--proba")
    expected = np.column_stack(model.predict_proba(table, target="D").columns)
    assert found["probabilities"] == expected.tolist()
    found = facts("score", "m.latentia", data, "--rows")
    assert found["scores"] == model.score_samples(table).tolist()
    assert found["mean"] == model.score(table)
    assert f"{found['mean']:.6f} over 2,000 rows" in ok("score", "m.latentia", data)
    lines = ok("score", "m.latentia", data, "--rows").split()
    assert [float(line) for line in lines] == found["scores"]

    out = tmp_path / data
    said = facts("sample", "m.latentia", "-n", 300, "--seed", 5, "--out", out)
    assert said == {"rows": 300, "seed": 5, "out": str(out), "notes": []}
    drawn = model.sample(300, random_state=5)
    read = read_rows_of(out, model.columns_)
    assert {k: np.asarray(read[k]).tolist() for k in drawn} == {
        k: v.tolist() for k, v in drawn.items()
    }
    assert facts("sample", "m.latentia", "-n", 300, "--seed", 5)["columns"]["H"] == (
        drawn["H"].tolist()
    )
    assert ok("predict", "m.latentia", out, "--target", "G", "--proba", "--out", out) == ""
    assert np.asarray(read_rows_of(out)["0"]).shape == (300,)
    assert [p.name for p in tmp_path.iterdir()] == [data]  # no half of a file stays


def test_csv_comes_in_many_ways(here: Path, tmp_path: Path) -> None:
    plain = Path("rows.csv").read_bytes()
    expected = ok("score", "m.latentia", "rows.csv")
    (tmp_path / "semicolons.csv").write_bytes(plain.replace(b",", b";"))
    (tmp_path / "tabs.tsv").write_bytes(plain.replace(b",", b"\t"))
    (tmp_path / "mark.csv").write_bytes(b"\xef\xbb\xbf" + plain)
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(plain))
    for path in tmp_path.iterdir():
        assert ok("score", "m.latentia", path) == expected
    for data in (plain, (tmp_path / "x.csv.gz").read_bytes(), Path("rows.parquet").read_bytes()):
        assert ok("score", "m.latentia", "-", stdin=data) == expected


def test_folders_and_patterns(here: Path, tmp_path: Path) -> None:
    header, *lines = Path("rows.csv").read_text().splitlines(keepends=True)
    (tmp_path / "1.csv").write_text(header + "".join(lines[:700]))
    (tmp_path / "2.csv").write_text(header + "".join(lines[700:]))
    expected = ok("score", "m.latentia", "rows.csv")
    assert ok("score", "m.latentia", tmp_path) == expected
    assert ok("score", "m.latentia", tmp_path / "*.csv") == expected
    assert "no such file" in refused(3, "score", "m.latentia", tmp_path / "*.parquet")


@pytest.mark.parametrize("learner", ["pbp", "em", "stepwise"])
def test_standard_input_is_read_several_times(here: Path, tmp_path: Path, learner: str) -> None:
    options = ["--graph", "graph.json", "--learner", learner, "--set", "random_state=0"]
    if learner == "pbp":
        options = options[:-2]
    for data in ("rows.csv", "-"):
        stdin = None if data == "rows.csv" else Path("rows.csv").read_bytes()
        ok("fit", data, *options, "--out", tmp_path / f"m{data[0]}", stdin=stdin)
    one, other = (lt.load(tmp_path / f"m{x}").query("D", {"G": 2}) for x in "r-")
    assert one.table.tolist() == other.table.tolist()


def test_answers_are_written_block_by_block(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, table = lt.load("m.latentia"), pq.read_table("rows.parquet")
    best = model.predict(table, target="D").to_pylist()
    chances = np.column_stack(model.predict_proba(table, target="G").columns)
    scores = model.score_samples(table.select([c.name for c in model.columns_]))
    monkeypatch.setattr(files, "BLOCK_ROWS", 170)
    sizes: list[int] = []
    plain = writing._plain
    monkeypatch.setattr(writing, "_plain", lambda v: sizes.append(len(v)) or plain(v))
    for data in ("rows.csv", "rows.parquet"):
        assert ok("predict", "m.latentia", data, "--target", "D").split() == ["D", *best]
        for ending in ("csv", "csv.gz", "parquet"):
            out = tmp_path / f"p.{ending}"
            ok("predict", "m.latentia", data, "--target", "G", "--proba", "--out", out)
            found = np.column_stack([np.asarray(v) for v in read_rows_of(out).values()])
            # a block more or less, and sums are rounded in another order
            np.testing.assert_allclose(found, chances, atol=1e-12)
        lines = ok("score", "m.latentia", data, "--rows").split()
        np.testing.assert_allclose([float(line) for line in lines], scores, atol=1e-12)
        assert facts("predict", "m.latentia", data, "--target", "D")["predictions"] == best
    assert max(sizes) == 170


@pytest.mark.filterwarnings("ignore::latentia.errors.HolesWarning")  # by design
def test_predicted_states_keep_their_types(tmp_path: Path) -> None:
    data = {"X": [1, "low", None] * 40, "Y": [1, 2, 2] * 40}
    lt.LatentModel("H->X; H->Y", {"H": 2}).fit(data).save(tmp_path / "m")
    found = facts("predict", tmp_path / "m", "-", "--target", "X", stdin="X,Y\n,1\n,2\n")
    assert found["predictions"] == [1, "low"]


def test_unknown_is_handed_on_where_it_is_given(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def score(self: Any, X: Any, **more: Any) -> float:
        seen.append(more)
        return 0.0

    monkeypatch.setattr(lt.LatentModel, "score", score)
    ok("score", "m.latentia", "rows.csv")
    ok("score", "m.latentia", "rows.csv", "--unknown", "missing")
    assert seen == [{"sample_weight": None}, {"sample_weight": None, "unknown": "missing"}]
    for command in (["score"], ["predict", "--target", "D"]):
        result = run(*command, "m.latentia", "rows.csv", "--unknown", "perhaps")
        assert result.exit_code == 2
        assert "expected one of error, missing, warn" in " ".join(result.output.split())


def test_an_unknown_state_is_an_error_before_any_row(here: Path) -> None:
    """A pipe gets nothing, not even the names; the sentence tells the option that helps."""
    names = [str(c.name) for c in lt.load(here / "m.latentia").columns_]
    rows = ",".join(names) + "\n" + ",".join(["nowhere"] * len(names)) + "\n"
    for command in (["predict", "--target", "D"], ["score", "--rows"]):
        told = refused(1, *command, "m.latentia", "-", stdin=rows)
        assert "'nowhere' is unknown" in told
        assert "--unknown missing" in told


def test_cells_are_read_as_the_models_states(tmp_path: Path) -> None:
    data = {"X": ["1", "2", "x", "NA"] * 50, "Y": [1, 2, 3, 3] * 50}
    path = tmp_path / "m.latentia"
    lt.LatentModel("H->X; H->Y", {"H": 2}).fit(data).save(path)
    scores = facts("score", path, "-", "--rows", stdin="X,Y\n1,2.0\nNA,\n,NaN\n")["scores"]
    expected = lt.load(path).score_samples({"X": ["1", "NA", None], "Y": [2, math.nan, math.nan]})
    assert scores == expected.tolist()


@pytest.mark.parametrize(
    ("code", "text", "words"),
    [
        (3, "", "is empty"),
        (3, "\n\n", "got none"),
        (3, "D,E\nlow\n", "line 2: Expected 2 columns, got 1"),
        (3, 'D,E\nlow,1\n"low,1\n' + "low,1\n" * 50, "a quote opens on line 3 and is never closed"),
        (3, 'D,E\nlow,1\n"lo"w,1\n', "line 3: text follows a closing quote"),
        (1, "D,E\n", "no rows"),
        (1, "D,D\nlow,mid\n", "2 columns are called 'D'"),
        (1, "x,y\n1,2\n", "'x' is unknown"),
        (1, "D,E\nlow,1\nlow,9\n", "state of 'E' (row 1) 9 is unknown; expected one of: 0, 1, 2."),
        (1, "D,E\nlow,big\n", "state of 'E' (row 0) 'big' is unknown"),
    ],
)
def test_tables_that_cannot_be_read(here: Path, code: int, text: str, words: str) -> None:
    (here / "odd.csv").write_text(text)
    assert words in refused(code, "score", "m.latentia", "odd.csv")
    assert refused(code, "score", "m.latentia", "-", stdin=text)


def test_tables_that_are_no_text(here: Path) -> None:
    Path("latin.csv").write_bytes("D,E\nlöw,1\n".encode("latin-1"))
    Path("cut.csv.gz").write_bytes(b"\x1f\x8b" + bytes(20))
    Path("cut.parquet").write_bytes(Path("rows.parquet").read_bytes()[:500])
    Path("empty.parquet").touch()
    for data in ("latin.csv", "cut.csv.gz", "cut.parquet", "empty.parquet"):
        assert repr(data) in refused(3, "score", "m.latentia", data)
    refused(3, "score", "m.latentia", ".")
    args = ["--graph", "A->D; A->E", "--latents", "A=2", "--out", "never.latentia"]
    assert "UTF-8" in refused(3, "fit", "latin.csv", *args)


def test_warnings_become_notes(here: Path, tmp_path: Path) -> None:
    columns = make_columns(100)
    write_csv(tmp_path / "rows.csv", {**{k: columns[k] for k in "DEG"}, "H": [1] * 100})
    args = ["fit", tmp_path / "rows.csv", "--graph", "@graph.json", "--out", tmp_path / "x"]
    result = run(*args)
    notes = result.stderr.splitlines()
    assert any("column(s) with a single value cannot teach anything: H." in line for line in notes)
    assert all(line.startswith("note: ") for line in notes)
    assert run(*args, "--quiet").output == ""
    assert facts("inspect", tmp_path / "x")["columns"][3]["states"] == [1]
