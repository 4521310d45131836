"""Names and states that hold anything at all: nothing that cannot be seen comes out again."""

from __future__ import annotations

import html
import json
import unicodedata
import warnings
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

import latentia as lt
from latentia.cli.answer_views import (
    rows_view,
)
from latentia.cli.application import application as app
from latentia.spelling import printable

RED = "\x1b[31mred\n<script>"
TURNED = "a\u202eb\u2028c\u2029"
ODD = ["\x1b]0;title\x07", "x\ny\r\tz", "\x00\x08\x7f\x9b31m", "\ufffe\uffff\u200e", "<&'\">"]
HALF = "half \ud800"  # cannot be encoded, so that no file of rows can hold it
NAMES = (RED, TURNED, "v\x85\x0b", "plain")


def unseen(text: str, allowed: str = "\n") -> set[str]:
    """Characters that steer terminals, break lines or are forbidden in XML."""
    bad = ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp")
    return {c for c in text if unicodedata.category(c) in bad and c not in allowed}


def table(n: int = 240) -> dict[str, Any]:
    """Three columns of odd states and a continuous one, all told by a hidden coin."""
    rng = np.random.default_rng(0)
    hidden = rng.integers(2, size=n)
    states = np.array(ODD, dtype=object)
    found: dict[str, Any] = {}
    for k, name in enumerate(NAMES[:3]):
        noisy = np.where(rng.random(n) < 0.8, hidden, 1 - hidden)
        found[name] = states[2 * k % 4 + noisy]
    return {**found, NAMES[3]: hidden + 0.5 * rng.standard_normal(n)}


def fitted() -> lt.LatentModel:
    latent = "H\x1b[0m"
    edges = [(latent, name) for name in NAMES]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lt.errors.LatentiaWarning)
        return lt.LatentModel(edges, {latent: 2}, lt.EM(restarts=2, random_state=0)).fit(table())


@pytest.fixture(scope="module")
def model() -> lt.LatentModel:
    return fitted()


@pytest.fixture(scope="module")
def evidence() -> dict[str, Any]:
    return {TURNED: table()[TURNED][0]}


# -- the function ----------------------------------------------------------------------------------


@given(st.text(st.characters(exclude_categories=())))  # lone surrogates too
def test_nothing_unseen_is_left(text: str) -> None:
    shown = printable(text)
    assert not unseen(shown, "\u200c\u200d")
    ET.fromstring(f"<t>{html.escape(shown)}</t>")
    shown.encode("utf-8")
    assert printable(shown) == shown
    if not unseen(text, "\u200c\u200d") and all(unicodedata.category(c) != "Co" for c in text):
        assert shown == text


def test_what_is_kept() -> None:
    assert printable("two\nlines\t", keep="\n") == "two\nlines\\t"
    assert printable("naïve\u00a0日本\u3000語 👩\u200d🔬") == "naïve\u00a0日本\u3000語 👩\u200d🔬"
    assert printable(("a\n", 1)) == "('a\\n', 1)"
    assert printable(HALF) == "half \\ud800"


# -- answers, plans, reports -----------------------------------------------------------------------


def pictures(model: lt.LatentModel, evidence: dict[str, Any]) -> list[lt.Drawing]:
    report = model.check(table())
    return [
        model.query(RED, evidence).plot(),
        model.query([RED, NAMES[2]], evidence).plot(),
        model.query("plain", evidence).plot(),
        model.plan_.graph.draw(),
        model.plan_.draw(),
        model.draw(),
        model.draw(evidence, RED),
        report.plot(),
    ]


@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
def test_pictures_are_xml(model: lt.LatentModel, evidence: dict[str, Any]) -> None:
    for picture in pictures(model, evidence):
        assert not unseen(picture.svg)
        told = " ".join(ET.fromstring(picture.svg).itertext())
        assert "\\x1b" in told or "\\u202e" in told
        assert "<script>" not in picture.svg


@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
def test_what_is_printed(model: lt.LatentModel, evidence: dict[str, Any]) -> None:
    tabular = lt.TabularModel(
        [(RED, HALF)], {RED: np.array([0.4, 0.6]), HALF: np.array([[0.1, 0.9], [0.8, 0.2]])}
    )
    report = model.check(table())
    shown = [
        model.query(RED, evidence),
        model.query([RED, NAMES[2]], evidence),
        model.query("plain", evidence),
        model.map_query([RED], evidence),
        model.plan_,
        model.plan_.graph,
        model.diagnostics_,
        model,
        report,
        tabular,
        lt.as_graph([(RED, HALF)]),
        *report.findings,
    ]
    for value in shown:
        assert not unseen(repr(value) + str(value)), type(value)
        page = value._repr_html_() if hasattr(value, "_repr_html_") else ""
        assert not unseen(page), type(value)
        assert "n<script>" not in page, type(value)  # scikit-learn has a script of its own


def test_a_density_of_an_odd_name_has_its_lines(evidence: dict[str, Any]) -> None:
    columns = {RED: table()["plain"], TURNED: table()[TURNED]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lt.errors.LatentiaWarning)
        model = lt.LatentModel([("H", RED), ("H", TURNED)], {"H": 2}, lt.EM(restarts=1))
        found = model.fit(columns).query(RED, evidence)
    lines = repr(found).splitlines()
    assert lines[0].startswith("p(\\x1b[31mred\\n<script> | a\\u202eb")
    assert len(lines) == 5  # title, picture, axis, moments, log p(evidence)
    assert not unseen(repr(found))


def test_errors_and_warnings(model: lt.LatentModel) -> None:
    for ask in (
        lambda: model.query(HALF),
        lambda: model.query("plain", {RED: TURNED}),
        lambda: lt.load("no\x1b[31m\nsuch file"),
        lambda: lt.LatentModel(f"{RED}->").fit(table()),
        lambda: lt.make_plan([("H", RED), ("H", TURNED)], {"H": 2}),
    ):
        with pytest.raises(lt.errors.LatentiaError) as caught:
            ask()
        assert not unseen(str(caught.value)), str(caught.value)
    for kind in (lt.errors.DataError, lt.errors.StatesWarning):
        assert str(kind(f"column {TURNED}{RED}")) == (
            "column a\\u202eb\\u2028c\\u2029\\x1b[31mred\n<script>"
        )
    assert str(lt.errors.UnknownNameError(f"state of {RED}", 1, [])).count("\n") == 0


# -- the command line ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(model: lt.LatentModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("odd")
    model.save(place / "m.latentia")
    graph = {"edges": [["H", name] for name in NAMES], "latents": {"H": 2}}
    graph["states"] = dict.fromkeys(NAMES, 2)
    (place / "graph.json").write_text(json.dumps(graph))
    pd.DataFrame(table()).to_parquet(place / "rows.parquet")
    return place


def asked(*args: object) -> Any:
    return CliRunner().invoke(app, [str(a) for a in args], prog_name="latentia")


COMMANDS: dict[str, list[Any]] = {
    "fit": ["fit", "rows.parquet", "--graph", "graph.json", "--out", "new.latentia"],
    "plan": ["plan", "graph.json"],
    "inspect": ["inspect", "m.latentia"],
    "query": ["query", "m.latentia", RED, "--given", "plain=0.5"],
    "density": ["query", "m.latentia", "plain"],
    "map": ["query", "m.latentia", RED, "--map"],
    "score": ["score", "m.latentia", "rows.parquet"],
    "check": ["check", "m.latentia", "rows.parquet"],
    "unknown": ["query", "m.latentia", TURNED + HALF],
    "debug": ["inspect", "\x1b[31m\nno file", "--debug"],
    "no file": ["inspect", "\x1b[31m\nno file"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_line(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    done = asked(*COMMANDS[command])
    assert done.exit_code == {"unknown": 1, "no file": 3, "debug": 3}.get(command, 0), done.stderr
    assert not unseen(done.stdout + done.stderr)


def test_json_is_exact(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    done = asked("query", "m.latentia", RED, "--given", "plain=0.5", "--json")
    assert done.exit_code == 0, done.stderr
    assert not unseen(done.stdout)
    found = json.loads(done.stdout)
    assert found["variables"] == [RED]
    assert found["states"][RED] == sorted({*table()[RED]})


def test_rows_in_a_terminal() -> None:
    console = Console(width=200, markup=False, highlight=False)
    with console.capture() as captured:
        for part in rows_view({RED: ODD, TURNED: [HALF] * len(ODD)}, lambda part: True):
            console.print(part)
    assert not unseen(captured.get())
