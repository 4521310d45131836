"""The page's inference in node, against the library's own."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.explore.networks import random_tables, shipped

import latentia as lt
from latentia.explore.explored import as_explored
from latentia.explore.facts import page_facts
from latentia.explore.packed_numbers import packed_numbers

SCRIPT = Path(__file__).parents[2] / "src" / "latentia" / "explore" / "page" / "inference.js"
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed, which runs the page")

ASK = """
require(process.argv[1]);
const asked = JSON.parse(require("fs").readFileSync(0, "utf8"));
const tree = latentia.wire(asked.network);
const told = asked.evidence.map((given) => {
  const likelihoods = new Map(given.map(([v, weights]) => [v, Float64Array.from(weights)]));
  const found = latentia.infer(tree, likelihoods);
  const best = latentia.explain(tree, likelihoods);
  const marginals = found.marginals && found.marginals.map((p) => Array.from(p));
  return { log: found.log === -Infinity ? null : found.log, marginals,
           best: best.states, bestLog: best.log === -Infinity ? null : best.log };
});
console.log(JSON.stringify(told));
"""


def asked(model: Any, evidence: list[dict[int, list[float]]]) -> list[dict[str, Any]]:
    network = page_facts(as_explored(model))["network"]
    told = {"network": network, "evidence": [list(e.items()) for e in evidence]}
    assert NODE is not None
    done = subprocess.run(
        [NODE, "-e", ASK, str(SCRIPT)], input=json.dumps(told), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def certain(model: lt.TabularModel, codes: Mapping[int, int]) -> dict[int, list[float]]:
    return {v: np.eye(model.states[v])[code].tolist() for v, code in codes.items()}


GRAPHS = {
    "tree": ("H->a,b; H->G; G->c,d", {"H": 2, "G": 3}),
    "loops": ("H->a,b,c; G->b,c,d; a->d; H->G", {"H": 2, "G": 2}),
    "pieces": ("H->a,b; G->c,d; e->f", {"H": 2, "G": 2}),
}


@pytest.mark.parametrize("kind", GRAPHS)
def test_small_networks_equal_enumeration(kind: str) -> None:
    model = random_tables(*GRAPHS[kind])
    joint = model.joint_table(list(model.names))  # every joint state
    rng = np.random.default_rng(5)
    evidence: list[dict[int, list[float]]] = [{}]
    for _ in range(20):
        chosen = rng.choice(len(model.names), size=rng.integers(1, 4), replace=False)
        evidence.append({int(v): rng.random(model.states[v]).tolist() for v in chosen})
    for given, found in zip(evidence, asked(model, evidence), strict=True):
        weighed = joint.copy()
        for v, likelihood in given.items():
            shape = [-1 if u == v else 1 for u in range(joint.ndim)]
            weighed = weighed * np.reshape(likelihood, shape)
        total = weighed.sum()
        assert found["log"] == pytest.approx(np.log(total), abs=1e-9)
        for v in range(joint.ndim):
            others = tuple(u for u in range(joint.ndim) if u != v)
            truth = weighed.sum(axis=others) / total
            assert found["marginals"][v] == pytest.approx(truth.tolist(), abs=1e-9)
        assert found["bestLog"] == pytest.approx(np.log(weighed.max()), abs=1e-9)
        assert weighed[tuple(found["best"])] == pytest.approx(weighed.max(), rel=1e-9)


@pytest.mark.parametrize("name", ["asia", "alarm", "insurance", "child", "hailfinder", "sachs"])
def test_known_networks_equal_python(name: str) -> None:
    model = shipped(name)
    rows = model.sample(12, rng=1, latents=True)
    rng = np.random.default_rng(2)
    evidence = []
    for row in rows:
        chosen = rng.choice(len(row), size=rng.integers(0, 6), replace=False)
        evidence.append({int(v): int(row[v]) for v in chosen})
    answers = asked(model, [certain(model, e) for e in evidence])
    for given, found in zip(evidence, answers, strict=True):
        named = {model.names[v]: model.state_names[model.names[v]][k] for v, k in given.items()}
        assert found["log"] == pytest.approx(model.log_evidence(named)[0], abs=1e-9)
        for v, truth in enumerate(model.posteriors(named).values()):
            assert found["marginals"][v] == pytest.approx(truth[0].tolist(), abs=1e-9)


def test_an_undirected_graph_is_normalised() -> None:
    rng = np.random.default_rng(0)
    pairs = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]
    tables = {pair: 50 * rng.random((3, 3)) for pair in pairs}
    model = lt.TabularModel("a--b; b--c; c--d; d--a", tables)
    (nothing, some) = asked(model, [{}, certain(model, {0: 1, 2: 2})])
    assert nothing["log"] == pytest.approx(0.0, abs=1e-12)
    assert some["log"] == pytest.approx(model.log_evidence({"a": 1, "c": 2})[0], abs=1e-9)
    truth = model.posteriors({"a": 1, "c": 2})
    assert some["marginals"][1] == pytest.approx(truth["b"][0].tolist(), abs=1e-9)


def test_evidence_too_improbable_for_plain_numbers() -> None:
    """A chain of 200 columns, each as good as impossible: P(e) is far below 1e-308."""
    names = [f"x{i}" for i in range(200)]
    cpts: dict[str, Any] = {"H": [0.4, 0.6]}
    cpts |= {name: [[1 - 1e-9, 1e-9], [1 - 2e-9, 2e-9]] for name in names}
    model = lt.TabularModel("; ".join(f"H->{name}" for name in names), cpts, latents=["H"])
    seen = dict.fromkeys(names, 1)
    numbers = {model.graph.index(name): 1 for name in names}
    (found,) = asked(model, [certain(model, numbers)])
    assert found["log"] == pytest.approx(model.log_evidence(seen)[0], abs=1e-6)
    assert found["log"] < -4000
    truth = model.posteriors(seen, ["H"])["H"][0].tolist()
    assert found["marginals"][model.graph.index("H")] == pytest.approx(truth, abs=1e-9)


def test_impossible_evidence_is_told_as_such() -> None:
    model = lt.TabularModel("a->b", {"a": [0.5, 0.5], "b": [[1.0, 0.0], [0.0, 1.0]]})
    (found,) = asked(model, [certain(model, {0: 0, 1: 1})])
    assert found["log"] is None
    assert found["marginals"] is None
    assert found["best"] is None


def test_packed_numbers_lose_nothing() -> None:
    rng = np.random.default_rng(0)
    few, many = rng.choice(rng.random(9), 400), rng.random(400)
    assert "places" in packed_numbers(few)
    assert "places" not in packed_numbers(many)
    script = (
        "require(process.argv[1]); const all = JSON.parse(require('fs').readFileSync(0, 'utf8'));"
        "console.log(JSON.stringify(all.map((x) => Array.from(latentia.unpack(x)))));"
    )
    assert NODE is not None
    done = subprocess.run(
        [NODE, "-e", script, str(SCRIPT)],
        input=json.dumps([packed_numbers(few), packed_numbers(many)]),
        capture_output=True,
        text=True,
    )
    assert json.loads(done.stdout) == [few.tolist(), many.tolist()]
