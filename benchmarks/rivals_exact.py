"""Exact inference over many rows on `alarm` (37 variables): TabularModel, pyAgrum and pgmpy.

Part of rivals.py. No two rows of evidence are equal, so that nobody gains by answering once what is
asked twice (latentia does). Every rival at its best: the fastest of its algorithms, of one or two
threads, with one inference object whose evidence is changed from row to row.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from latentia import TabularModel

MONITORS = ("CVP", "PCWP", "HRBP", "HREKG", "HRSAT", "TPR", "EXPCO2", "MINVOL", "PRESS", "BP")
TARGET = "HYPOVOLEMIA"
ROWS = 10_000


@dataclass(frozen=True)
class Question:
    """Rows of evidence, all different, and the variables asked for."""

    name: str
    codes: np.ndarray  # (rows, variables), -1 where unobserved
    targets: tuple[str, ...]


def alarm() -> tuple[Any, TabularModel]:
    """The network as pgmpy's wheel carries it, and the same in ours."""
    from pgmpy.utils import get_example_model

    network = get_example_model("alarm")
    names = sorted(network.nodes())
    place = {name: k for k, name in enumerate(names)}
    edges, cpts = {}, {}
    for name in names:
        cpd = network.get_cpds(name)
        own = sorted(cpd.variables[1:], key=place.__getitem__)
        edges[name] = own
        table = cpd.values.transpose([cpd.variables.index(v) for v in (*own, name)])
        cpts[name] = table / table.sum(axis=-1, keepdims=True)
    return network, TabularModel(edges, cpts)


def questions(model: TabularModel) -> Iterator[Question]:
    rng = np.random.default_rng(0)
    names = list(map(str, model.names))
    full = model.sample(100_000, rng, latents=True)
    seen = np.isin(names, MONITORS)
    fixed = np.unique(np.where(seen, full, -1), axis=0)
    fixed = rng.permutation(fixed)[:ROWS]
    yield Question(f"{len(MONITORS)} columns seen, one asked", fixed, (TARGET,))
    yield Question(f"{len(MONITORS)} columns seen, all asked", fixed, tuple(names))
    some = np.where(rng.random(full.shape) < 0.5, full, -1)[:ROWS]
    some[:, names.index(TARGET)] = -1
    some = rng.permutation(np.unique(some, axis=0))
    yield Question("half of all cells seen, one asked", some, (TARGET,))


def measure_all(quick: bool) -> Iterator[list[str]]:
    """A row of the table for every question and rival."""
    network, model = alarm()
    few = 60 if quick else 300
    for question in questions(model):
        ours = statistics.median(rate(question, _tabular(model)) for _ in range(5))
        part = Question(question.name, question.codes[:few], question.targets)
        tiny = Question(question.name, question.codes[: few // 10], question.targets)
        for rival, ways, asked in (
            ("pyAgrum", _pyagrum(model), part),
            ("pgmpy", _pgmpy(network, model), tiny),
        ):
            rates = {}
            for way, answer in ways.items():
                check(model, asked, answer)
                rates[way] = max(rate(asked, answer) for _ in range(3))
            best = max(rates, key=rates.__getitem__)
            theirs = rates[best]
            yield [
                question.name, f"{rival} ({best})", f"{ours:,.0f}", f"{theirs:,.0f}",
                f"{ours / theirs:,.0f}",
            ]  # fmt: skip


Answer = Callable[[Question], list[dict[str, np.ndarray]]]


def rate(question: Question, answer: Answer) -> float:
    """Rows per second."""
    start = time.perf_counter()
    answer(question)
    return len(question.codes) / (time.perf_counter() - start)


def check(model: TabularModel, question: Question, answer: Answer) -> None:
    """They answer the same question."""
    some = Question(question.name, question.codes[:3], question.targets)
    expected = model.posteriors(some.codes, list(some.targets))
    for row, found in enumerate(answer(some)):
        for name, table in found.items():
            np.testing.assert_allclose(table, expected[name][row], atol=1e-6)


def _tabular(model: TabularModel) -> Answer:
    def answer(question: Question) -> Any:
        return model.posteriors(question.codes, list(question.targets))

    return answer


def _evidence(model: TabularModel, codes: np.ndarray) -> dict[str, int]:
    return {str(model.names[v]): int(codes[v]) for v in np.flatnonzero(codes >= 0)}


def _pyagrum(model: TabularModel) -> dict[str, Answer]:
    import pyagrum as gum

    bn = gum.BayesNet()
    for name, count in zip(model.names, model.states, strict=True):
        bn.add(gum.LabelizedVariable(name, "", count))
    for a, b in model.graph.edges:
        bn.addArc(model.names[a], model.names[b])
    for scope, table in model.tables.items():
        cpt, above = bn.cpt(model.names[scope[-1]]), [model.names[u] for u in scope[:-1]]
        for index in np.ndindex(table.shape[:-1]):
            if above:
                cpt[dict(zip(above, index, strict=True))] = table[index].tolist()
            else:
                cpt.fillWith(table.tolist())

    def way(kind: Any, threads: int) -> Answer:
        def answer(question: Question) -> Any:
            engine, found, before = kind(bn), [], None
            engine.setNumberOfThreads(threads)
            for name in question.targets:
                engine.addTarget(name)
            for codes in question.codes:
                evidence = _evidence(model, codes)
                if before == evidence.keys():  # keeps what was wired for the same columns
                    for name, code in evidence.items():
                        engine.chgEvidence(name, code)
                else:
                    engine.setEvidence(evidence)
                before = evidence.keys()
                engine.makeInference()
                found.append({name: engine.posterior(name).toarray() for name in question.targets})
            return found

        return answer

    kinds = (gum.LazyPropagation, gum.ShaferShenoyInference, gum.VariableElimination)
    return {
        f"{kind.__name__}, {threads} thread{'s' * (threads > 1)}": way(kind, threads)
        for kind in kinds
        for threads in (1, 2)
        if (kind, threads) != (gum.VariableElimination, 2)
    }


def _pgmpy(network: Any, model: TabularModel) -> dict[str, Answer]:
    from pgmpy.inference import VariableElimination

    states = {name: network.get_cpds(name).state_names[name] for name in map(str, model.names)}

    def way(engine: Any) -> Answer:
        def answer(question: Question) -> Any:
            found = []
            for codes in question.codes:
                evidence = {k: states[k][c] for k, c in _evidence(model, codes).items()}
                asked = [name for name in question.targets if name not in evidence]
                # one at a time: for all at once it contracts to a table of 923 GiB
                each = (engine.query([v], evidence, show_progress=False) for v in asked)
                found.append({v: f.values for v, f in zip(asked, each, strict=True)})
            return found

        return answer

    # its BeliefPropagation needs more memory for alarm than this machine has (over 9 GB)
    return {"VariableElimination": way(VariableElimination(network))}


HEAD = ("evidence", "rival at its fastest", "latentia rows / s", "rival rows / s", "ratio")
