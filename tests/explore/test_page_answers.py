"""What a page answers is what `model.query` answers, whoever learned the model."""

import json
import shutil
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import latentia as lt
from latentia.errors import EvidenceError, LatentiaWarning, NotLearnedError
from latentia.explore.explored import Explored, as_explored
from latentia.explore.facts import page_facts
from latentia.explore.page_answers import answer_page

PAGE = Path(__file__).parents[2] / "src" / "latentia" / "explore" / "page"
NODE = shutil.which("node")
LOOPS = "A->B; A->C; B->F; C->F; B->D; C->E; F->G; F->H"  # of the paper
ASK = """
const names = ["inference.js", "evidence.js", "engine.js"];
for (const name of names) require(`${process.argv[1]}/${name}`);
const { facts, evidence } = JSON.parse(require("fs").readFileSync(0, "utf8"));
const engine = new latentia.LocalEngine(facts);
const told = new latentia.Known(evidence.map(([v, weights]) => [v, Float64Array.from(weights)]));
engine.answer(told).then(({ log, marginals }) =>
  console.log(JSON.stringify({ log, marginals: marginals.map((p) => p && Array.from(p)) })));
"""


def fitted(learner: Any, seed: int = 11) -> lt.LatentModel:
    rng = np.random.default_rng(seed)
    latents, columns = dict.fromkeys("ABCF", 2), dict.fromkeys("DEGH", 3)
    truth = lt.testing.random_model(lt.as_graph(LOOPS, latents, columns), rng, 0.4)
    rows = dict(zip("DEGH", truth.sample(2000, rng).T, strict=True))
    given = {} if learner is None else {"learner": learner}
    model = lt.LatentModel(LOOPS, latents, state_names=dict.fromkeys("DEGH", range(3)), **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LatentiaWarning)
        return model.fit(rows)


def compare(model: lt.LatentModel, explored: Explored, found: Any, given: dict[str, int]) -> None:
    """Every variable that is not known, against query; None where query refuses."""
    told = 0
    for name, shares in zip(explored.graph.names, found["marginals"], strict=True):
        if name in given:
            continue
        try:
            truth = model.query(name, given)
        except EvidenceError:
            assert shares is None
            continue
        assert shares == pytest.approx(np.asarray(truth).ravel().tolist(), abs=1e-6)
        if name not in "ABCF" or set(given) & set("ABCF"):
            assert found["log"] == pytest.approx(truth.log_evidence, abs=1e-6)
        told += 1
    assert told >= 2


def certain(explored: Explored, given: dict[str, int]) -> list[Any]:
    names = list(explored.graph.names)
    return [[names.index(n), np.eye(explored.states[names.index(n)])[k]] for n, k in given.items()]


LEARNERS = [None, "tables", "em", lt.PBP(refine=False), lt.PBP(refine=True), "spectral"]


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_python_answers_as_query_does(learner: Any) -> None:
    model = fitted(learner)
    explored = as_explored(model)
    for given in ({}, {"G": 2}, {"G": 2, "H": 0}, {"D": 1, "E": 0}):
        found = answer_page(explored, dict(certain(explored, given))).plain()
        compare(model, explored, found, given)
    if explored.network is not None and explored.shown[0].states:
        given = {"G": 2, "B": 1}
        found = answer_page(explored, dict(certain(explored, given))).plain()
        compare(model, explored, found, given)


@pytest.mark.skipif(NODE is None, reason="node is not installed, which runs the page")
@pytest.mark.parametrize("learner", [None, "tables", "em"], ids=str)
def test_the_page_answers_as_query_does(learner: Any) -> None:
    model = fitted(learner)
    explored = as_explored(model)
    facts = page_facts(explored)
    if learner is None:  # what predicts columns best is another network than that of the latents
        assert facts["columns"] is not None
    for given in ({}, {"G": 2, "H": 0}, {"G": 2, "B": 1}):
        evidence = [[v, w.tolist()] for v, w in certain(explored, given)]
        compare(model, explored, in_the_page(facts, evidence), given)


def in_the_page(facts: dict[str, Any], evidence: list[Any]) -> Any:
    done = subprocess.run(
        [str(NODE), "-e", ASK, str(PAGE)],
        input=json.dumps({"facts": facts, "evidence": evidence}),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def lines_and_logits(graph: str, n: int = 400) -> lt.LatentModel:
    """H behind a number x, which tells a word and another number."""
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=n)
    x = 2.0 * h + rng.normal(size=n)
    rows = {
        "x": x,
        "word": np.where(rng.random(n) < 1 / (1 + np.exp(-2 * x)), "yes", "no"),
        "y": 0.5 * x + rng.normal(size=n),
        "b": h ^ (rng.random(n) < 0.1),
    }
    return lt.LatentModel(graph, {"H": 2}, learner="tables").fit(rows)


@pytest.mark.skipif(NODE is None, reason="node is not installed, which runs the page")
def test_lines_and_logits_are_answered_over_cells() -> None:
    model = lines_and_logits("H -> x, b; x -> word, y")
    explored = as_explored(model)
    facts = page_facts(explored)
    names = list(explored.graph.names)
    values = explored.shown[names.index("x")].grid.values  # type: ignore[union-attr]
    for weights in ([0.0, 1.0], [0.3, 0.9]):
        soft = {"word": dict(zip(("no", "yes"), weights, strict=True))}
        told = {names.index("word"): np.array(weights)}
        python = answer_page(explored, told).plain()
        page = in_the_page(facts, [[v, w.tolist()] for v, w in told.items()])
        for found in (python, page):
            shares = dict(zip(names, found["marginals"], strict=True))
            for asked in ("H", "b"):
                truth = np.asarray(model.query(asked, soft=soft))
                assert shares[asked] == pytest.approx(truth.tolist(), abs=1e-6)
            mean = np.dot(shares["x"], values)
            assert mean == pytest.approx(model.query("x", soft=soft).mean, abs=1e-6)


def test_covariates_have_no_page() -> None:
    with pytest.raises(NotLearnedError, match=r"covariates \(x\)"):
        as_explored(lines_and_logits("x -> word, y; H -> word, b", 80))
