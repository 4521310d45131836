"""What is told of tables: before they are learned, after, and where another seed might differ."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import latentia as lt
from latentia.cli.application import app
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.errors import StartsDisagreeWarning
from latentia.exact.pieces import cut_graph
from latentia.model.notices import note_doubts
from latentia.networks.own_tables import learn_tables
from latentia.networks.piece_reports import StartReport
from latentia.networks.table_plan import plan_tables, width_with_holes
from latentia.networks.tables import as_operators, doubts_of

GRAPH = "a->H; H->b,c; b->d; c->d; d->G; G->e,f; e->g"
LATENTS = {"H": 2, "G": 3}
STATES = dict.fromkeys("abcdefg", 4)


def test_what_is_counted_and_what_is_climbed() -> None:
    graph = lt.as_graph(GRAPH, LATENTS).with_states(STATES)
    found = plan_tables(graph)
    assert set(found.counted) == {"a", "d", "g"}
    assert found.counted_cells == 4 + 4 * 4 * 4 + 4 * 4
    one, two = sorted(found.pieces, key=lambda p: p.latents)
    assert (one.latents, set(one.tables), set(one.columns)) == (("G",), {*"Gef"}, {*"def"})
    assert (two.latents, set(two.tables), set(two.columns)) == (("H",), {*"Hbc"}, {*"abc"})
    assert one.cells == 4 * 3 + 3 * 4 + 3 * 4
    assert len(cut_graph(graph, graph.latent).pieces) == 2
    assert one.cost is not None
    assert one.cost >= 3
    text = str(found)
    assert "3 tables counted, 2 pieces climbed" in text
    assert "piece 2" in text


def test_holes_make_pieces_wider() -> None:
    graph = lt.as_graph(GRAPH, LATENTS).with_states(STATES)
    narrow = max(p.cost or 0 for p in plan_tables(graph).pieces)
    assert width_with_holes(graph, []) == narrow
    some = width_with_holes(graph, [graph.index("d")])
    everything = width_with_holes(graph, graph.observed)
    assert some is not None
    assert everything is not None
    assert narrow < some <= everything
    leaves = [graph.index("g"), graph.index("f")]
    assert width_with_holes(graph, leaves) == narrow  # nothing hangs below


def test_the_default_takes_tables_where_holes_are_easy() -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(2, size=600)
    h = np.where(rng.random(600) < 0.8, a, 1 - a)
    data = {c: np.where(rng.random(600) < 0.85, h, 1 - h).astype(float) for c in "bcd"}
    data = {"a": a.astype(float), **data}
    for column in data.values():
        column[rng.random(600) < 0.1] = np.nan
    model = lt.LatentModel("a->H; H->b,c,d", {"H": 2}).fit(data)
    assert model.operators_.network is not None
    oracle = lt.EM(restarts=3, smoothing=1.0, tol=1e-9, max_iter=2000, random_state=0)
    other = lt.LatentModel("a->H; H->b,c,d", {"H": 2}, learner=oracle).fit(data)
    # the same likelihood, climbed to a thousandth of a nat for each parameter
    assert model.score(data) == pytest.approx(other.score(data), abs=1e-4)


def test_plans_of_fitted_models_show_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    data = {c: rng.integers(3, size=300) for c in "abcdefg"}
    for learner in ("tables", lt.EM(1, max_iter=2, tol=10.0)):
        model = lt.LatentModel(GRAPH, {"H": 2, "G": 2}, learner=learner).fit(data)
        assert "2 pieces climbed" in str(model.plan_)
        model.save(tmp_path / "m.latentia")
        assert str(lt.load(tmp_path / "m.latentia").plan_) == str(model.plan_)
    default = lt.LatentModel("H->a,b,c", {"H": 2}, learner=lt.PBP(refine=False)).fit(
        {c: data[c] for c in "abc"}
    )
    assert "separator" in str(default.plan_)


def test_the_shell_shows_it(tmp_path: Path) -> None:
    run = CliRunner()
    states = ",".join(f"{c}=4" for c in "abcdefg")
    command = ["plan", GRAPH, "--latents", "H=2,G=3", "--states", states]
    said = run.invoke(app, command)
    assert said.exit_code == 0, said.output
    assert "piece 1" in said.output
    assert "3 tables counted, 2 pieces climbed" in said.output
    facts = json.loads(run.invoke(app, [*command, "--json"]).output)
    assert [p["latents"] for p in facts["tables"]["pieces"]] in ([["G"], ["H"]], [["H"], ["G"]])
    plain = json.loads(
        run.invoke(app, ["plan", "H->a,b,c", "--latents", "H=2", "--states", "3", "--json"]).output
    )
    assert "tables" not in plain
    rng = np.random.default_rng(0)
    data = {c: rng.integers(3, size=300) for c in "abcdefg"}
    lt.LatentModel(GRAPH, {"H": 2, "G": 2}, learner="tables").fit(data).save(tmp_path / "m")
    shown = run.invoke(app, ["inspect", str(tmp_path / "m"), "--json"])
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.output)
    assert found["latents"] == {"H": 2, "G": 2}
    assert found["plan"]["tables"]["counted"]


def learned() -> lt.LatentModel:
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=800)
    data = {c: np.where(rng.random(800) < 0.8, h, 1 - h) for c in "abcd"}
    return lt.LatentModel("H->a,b,c,d; a->b", {"H": 2}, learner="tables").fit(data)


def test_diagnostics_tell_every_start() -> None:
    (_, piece) = learned().diagnostics_.pieces
    assert "levels of starts: " in piece
    assert "level with it" in piece
    assert piece in repr(learned().diagnostics_)


def test_a_start_that_stands_alone_is_doubted() -> None:
    graph = lt.as_graph("H->a,b,c,d", {"H": 2}).with_states(dict.fromkeys("abcd", 2))
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=800)
    codes = tuple(np.where(rng.random(800) < 0.8, h, 1 - h) for _ in range(4))
    found = learn_tables(graph, LocalRows(Rows(codes)), rng=0)
    assert doubts_of(found) == ()
    (piece,) = found.pieces
    levels = [StartReport("random", -x, 50, True) for x in (100.0, 120.0, 121.0)]
    alone = replace(piece, starts=tuple(levels), agreed=1, rounds=3)
    doubted = as_operators(replace(found, pieces=(alone,)))
    (said,) = doubted.provenance.doubts
    assert "of 3 starts only one found the best tables of H, 20.0 nats above" in said
    with pytest.warns(StartsDisagreeWarning, match="another random_state"):
        note_doubts(doubted)
    near = replace(alone, starts=(levels[0], replace(levels[1], level=-101.0)))
    assert doubts_of(replace(found, pieces=(near,))) == ()
    assert doubts_of(replace(found, pieces=(replace(alone, agreed=2),))) == ()
