"""The experiments in their quick form, to the end, and what their reports must hold."""

import csv
import json
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import latentia as lt
from latentia.cli.application import application as app
from latentia.cli.reproducing import reproduce_command
from latentia.errors import MissingLibraryError, UnknownNameError
from latentia.reproduce import cells, datasets, drawn_networks
from latentia.reproduce.cells import Cell, CellProgress, Experiment, Figure, run_cells
from latentia.reproduce.nltcs import _log_loss
from latentia.reproduce.pages import Outcome, sheets
from latentia.reproduce.rivals import RIVALS
from latentia.reproduce.running import EXPERIMENTS, reproduce
from latentia.reproduce.splice import _split, naive_bayes_scores
from latentia.reproduce.synthetic import divergences, draw_truth

HERE = datasets.available(["splice", "nltcs", "pendigits"])
needs_data = pytest.mark.skipif(not HERE, reason="the data are not on this machine")


def needs_matplotlib() -> None:
    pytest.importorskip("matplotlib", reason="pip install 'latentia[experiments]'")


def median(outcome: Outcome, metric: str, learner: str, size: int, variant: str = "") -> float:
    return float(np.median(outcome.values(metric, variant, learner, size)))


def check_report(outcome: Outcome, page: Path) -> None:
    """Figures with labelled axes and all learners, tables, CSV, settings, versions; no NaN."""
    folder, experiment = page.parent, outcome.experiment
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"\bnan\b", text, re.IGNORECASE)
    assert not re.findall(r"https?://(?!www\.w3\.org)", text)  # nothing comes from elsewhere
    extra = 2 if experiment.pictures else 0
    assert text.count("<figure>") == len(experiment.figures) + extra
    for figure in experiment.figures:
        name = f"{experiment.name}-{figure.metric.replace('_', '-')}.svg"
        svg = (folder / name).read_text(encoding="utf-8")
        assert svg in text
        assert figure.label in svg
        assert "rows to learn from, N" in svg
        for learner in outcome.learners:
            if any(
                outcome.values(figure.metric, v, learner, outcome.sizes[0])
                for v in outcome.variants
            ):
                assert RIVALS[learner].label in svg
    for fact in ("Python", "numpy", "processor", "latentia reproduce", "restarts", "seed"):
        assert fact in text
    with (folder / f"{experiment.name}.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(outcome.results)
    for row in rows:
        assert all(
            v == "" or math.isfinite(float(v))
            for k, v in row.items()
            if k not in ("variant", "learner")
        )


def quick(name: str, folder: Path) -> Outcome:
    needs_matplotlib()
    seen: list[CellProgress] = []
    (outcome,), page = reproduce([name], folder, quick=True, report=lambda n, p: seen.append(p))
    assert seen[-1].done == seen[-1].total == len(outcome.results)
    assert seen[-1].left == 0.0
    check_report(outcome, page)
    return outcome


def test_synthetic_quick(tmp_path: Path) -> None:
    outcome = quick("synthetic", tmp_path)
    for metric in ("kl", "kl_weighted"):
        for learner in ("closed", "pbp", "refined", "em", "spectral", "paper"):
            few, many = (median(outcome, metric, learner, n) for n in (100, 10_000))
            assert many < few
        for learner in ("closed", "pbp", "refined"):
            assert median(outcome, metric, learner, 10_000) < 0.3 * median(
                outcome, metric, "marginal", 10_000
            )
            assert median(outcome, metric, learner, 10_000) < median(
                outcome, metric, "paper", 10_000
            )
    assert median(outcome, "kl", "closed", 100) < median(outcome, "kl", "em", 100)
    assert median(outcome, "seconds", "closed", 10_000) < median(
        outcome, "seconds", "stepwise", 10_000
    )


@needs_data
def test_splice_quick(tmp_path: Path) -> None:
    outcome = quick("splice", tmp_path)
    for variant in ("chain", "latent class"):
        for learner in outcome.learners:
            assert median(outcome, "accuracy", learner, 1_000, variant) > 85
        for learner in ("closed", "pbp", "refined", "em"):
            assert median(outcome, "accuracy", learner, 100, variant) > 75
    assert {r.cell.variant for r in outcome.results} == {"chain", "latent class"}


@needs_data
def test_nltcs_quick(tmp_path: Path) -> None:
    outcome = quick("nltcs", tmp_path)
    for variant in outcome.variants:
        alone = median(outcome, "log_loss", "independent", 1_000, variant)
        for learner in ("closed", "pbp", "refined", "em", "stepwise"):
            assert median(outcome, "log_loss", learner, 1_000, variant) < 0.75 * alone
        row = median(outcome, "log_likelihood", "independent", 1_000, variant)
        for learner in ("refined", "em"):
            assert median(outcome, "log_likelihood", learner, 1_000, variant) > row + 2
        assert not outcome.values("log_likelihood", variant, "closed", 1_000)  # it is signed
        assert not outcome.values("log_likelihood", variant, "spectral", 1_000)


@needs_data
def test_digits_quick(tmp_path: Path) -> None:
    outcome = quick("digits", tmp_path)
    for learner in outcome.learners:
        assert median(outcome, "accuracy", learner, 300) > 75
    for learner in ("kernel", "gram", "finite", "nearest", "svm"):
        assert median(outcome, "accuracy", learner, 300) > 90
    assert median(outcome, "accuracy", "kernel", 100) > median(outcome, "accuracy", "spectral", 100)
    for name in ("filled", "sampled"):
        svg = (tmp_path / f"digits-{name}.svg").read_text(encoding="utf-8")
        assert "x of the pen" in svg
        assert "digit 3" in svg


# --- the pieces -----------------------------------------------------------------------------------


def toy(measure: Callable[[Cell, dict[str, Any]], dict[str, float]]) -> Experiment:
    return Experiment(
        "toy",
        "Toy",
        "Nothing.",
        lambda quick, seed: {"seed": seed, "restarts": 1, "max_iter": 1, "tol": 0, "smoothing": 0},
        lambda settings, who: [Cell(r, n, "", w) for w in who for n in (10, 100) for r in range(3)],
        measure,
        (Figure("error", "error [%]", "Error"),),
        ("closed", "em"),
    )


def test_a_stopped_run_goes_on_where_it_was(tmp_path: Path) -> None:
    calls: list[Cell] = []

    def measure(cell: Cell, settings: dict[str, Any]) -> dict[str, float]:
        if len(calls) == 5:
            raise KeyboardInterrupt
        calls.append(cell)
        return {"error": float(cell.size + cell.repetition)}

    experiment = toy(measure)
    todo = experiment.cells({}, experiment.learners)
    settings = experiment.settings(True, 0)
    with pytest.raises(KeyboardInterrupt):
        run_cells(experiment, settings, todo, tmp_path)
    (kept,) = tmp_path.glob("toy-*.jsonl")
    with kept.open("a") as file:
        file.write('{"cell": {"repet')  # cut off in the middle
    calls.clear()
    again = toy(lambda cell, settings: calls.append(cell) or {"error": 1.0})
    results = run_cells(again, settings, todo, tmp_path)
    assert len(calls) == len(todo) - 5
    assert [r.cell for r in results] == todo
    calls.clear()
    run_cells(again, settings, todo, tmp_path)
    assert calls == []
    run_cells(again, {**settings, "seed": 1}, todo, tmp_path)  # other settings: all anew
    assert len(calls) == len(todo)


def test_jobs_do_not_change_results(tmp_path: Path) -> None:
    experiment = EXPERIMENTS["synthetic"]
    settings = experiment.settings(True, 3)
    todo = [Cell(r, 100, "", name) for name in ("closed", "em") for r in range(2)]
    found = []
    for jobs in (1, 2):
        (tmp_path / str(jobs)).mkdir()
        results = run_cells(experiment, settings, todo, tmp_path / str(jobs), jobs)
        found.append([r.metrics["kl"] for r in results])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)


def test_tables_show_median_and_quartiles() -> None:
    experiment = toy(lambda cell, settings: {})
    todo = experiment.cells({}, ("closed",))
    results = tuple(cells.Result(c, {"error": c.size * (c.repetition + 1.0)}) for c in todo)
    (sheet,) = sheets(Outcome(experiment, {}, ("closed",), results))
    assert sheet.head[1:] == ("N = 10", "N = 100")
    assert sheet.lines == (("PBP closed form", "20 [15, 25]", "200 [150, 250]"),)


def test_divergence_is_that_of_the_formula() -> None:
    rng = np.random.default_rng(0)
    joint = rng.dirichlet(np.ones(5**4)).reshape(5, 5, 5, 5)
    found = rng.dirichlet(np.ones(5), size=(5, 5, 5)).transpose(3, 0, 1, 2)
    each, weights = [], []
    for e, g, h in np.ndindex(5, 5, 5):
        p = joint[:, e, g, h] / joint[:, e, g, h].sum()
        each.append(sum(p[k] * math.log(p[k] / found[k, e, g, h]) for k in range(5)))
        weights.append(joint[:, e, g, h].sum())
    uniform, weighted = divergences(joint, found, 0.0)
    assert uniform == pytest.approx(np.mean(each))
    assert weighted == pytest.approx(np.average(each, weights=weights))
    truth = joint / joint.sum(axis=0)
    assert divergences(joint, truth, 0.0) == pytest.approx((0.0, 0.0), abs=1e-12)


def test_truths_are_the_same_again_and_worth_asking() -> None:
    settings = EXPERIMENTS["synthetic"].settings(False, 7)
    one, two = draw_truth(settings, 1)[1], draw_truth(settings, 1)[1]
    np.testing.assert_array_equal(one, two)
    assert not np.allclose(one, draw_truth(settings, 2)[1])
    assert settings["rows"] == [100, 1_000, 10_000, 100_000, 1_000_000]
    assert settings["models"] == settings["restarts"] == 10


def test_naive_bayes_is_a_latent_class_with_one_state() -> None:
    rng = np.random.default_rng(1)
    letters = np.array(list("ACGT"), dtype=object)
    target = rng.integers(2, size=400)
    columns = {f"P{i}": letters[(rng.integers(2, size=400) + target) % 4] for i in range(4)}
    columns["P0"][:7] = None
    scores, _ = naive_bayes_scores(columns, target, columns)
    graph = lt.templates.latent_class(list(columns), 1)
    states = dict.fromkeys(columns, tuple("ACGT"))
    model = lt.LatentClassifier(
        graph, learner=lt.EM(restarts=1, smoothing=4), state_names=states
    ).fit(columns, target)
    assert (scores.argmax(axis=1) == model.predict(columns)).mean() > 0.95


def test_folds_are_disjoint_and_stratified() -> None:
    target = np.array(["a"] * 100 + ["b"] * 50)
    settings = {"seed": 0, "folds": 5}
    tests = []
    for repetition in range(5):
        train, test = _split(target, settings, Cell(repetition, 60, "", "em"))
        assert not set(train) & set(test)
        assert (target[train] == "a").sum() == 40
        assert (target[train] == "b").sum() == 20
        tests += test.tolist()
    assert sorted(tests) == list(range(150))
    train, _ = _split(target, settings, Cell(0, 10**6, "", "em"))
    assert len(train) == 120


def test_log_loss_by_hand() -> None:
    yes = {"a": np.array([0.9, 0.2])}
    assert _log_loss(yes, {"a": np.array([1, 0])}, 1e-9) == pytest.approx(
        -(math.log(0.9) + math.log(0.8)) / 2
    )


# --- the command ----------------------------------------------------------------------------------


def test_command_runs_and_says_where_the_report_is(tmp_path: Path) -> None:
    needs_matplotlib()
    assert reproduce_command is not None  # importing it joins it to the app
    asked = ["reproduce", "synthetic", "--quick", "--learners", "closed, marginal"]
    asked += ["--seed", "5", "--out", str(tmp_path)]
    run = CliRunner().invoke(app, asked)
    assert run.exit_code == 0, run.output
    assert "PBP closed form" in run.output
    assert "the marginal" in run.output
    assert "EM" not in run.output
    assert f"Report: {tmp_path / 'report.html'}" in run.output
    told = CliRunner().invoke(app, [*asked, "--json", "--quiet"])
    facts = json.loads(told.stdout)
    assert len(facts["experiments"]["synthetic"]) == 2 * 3 * 3


@pytest.mark.parametrize(
    "words", [["nothing"], ["synthetic", "--learners", "magic"], ["synthetic", "--jobs", "0"]]
)
def test_command_refuses_what_is_not_there(words: list[str], tmp_path: Path) -> None:
    needs_matplotlib()
    run = CliRunner().invoke(app, ["reproduce", *words, "--quick", "--out", str(tmp_path)])
    assert run.exit_code in (1, 2)
    assert "expected one of" in run.output or "jobs" in run.output


def test_without_matplotlib_the_way_out_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingLibraryError, match=r"pip install 'latentia\[experiments\]'"):
        reproduce(["synthetic"], tmp_path, quick=True)


def test_unknown_experiments_and_learners_are_named(tmp_path: Path) -> None:
    needs_matplotlib()
    with pytest.raises(UnknownNameError, match="synthetic"):
        reproduce(["nothing"], tmp_path)
    with pytest.raises(UnknownNameError, match="closed"):
        reproduce(["synthetic"], tmp_path, learners=["magic"])


def test_networks_quick(tmp_path: Path) -> None:
    outcome = quick("networks", tmp_path)
    for variant in ("causes", "latent tree"):
        alone = median(outcome, "kl", "marginal", 2_000, variant)
        for learner in ("pbp", "tables", "em"):
            assert median(outcome, "kl", learner, 2_000, variant) < 0.3 * alone
            assert median(outcome, "kl", learner, 2_000, variant) < median(
                outcome, "kl", learner, 500, variant
            )


@pytest.mark.parametrize("shape", sorted(drawn_networks.SHAPES))
def test_drawn_networks_have_hidden_parents(shape: str) -> None:
    for seed in range(5):
        network = drawn_networks.draw_network(shape, np.random.default_rng(seed))
        parents = {a for a, _ in network.graph.edges}
        assert network.graph.latent <= parents
        assert all(a < b for a, b in network.graph.edges)
        assert len(network.graph.observed) > 15


def test_sequences_quick(tmp_path: Path) -> None:
    pytest.importorskip("hmmlearn")
    outcome = quick("sequences", tmp_path)
    for kind in outcome.variants:
        ours, closed, theirs = (
            median(outcome, "excess", learner, 2_000, kind)
            for learner in ("pbp", "closed", "hmmlearn")
        )
        assert 0 < ours < 1.5 * theirs  # two restarts, 2,000 symbols
        assert closed < 10 * ours
