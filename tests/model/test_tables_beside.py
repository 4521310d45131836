"""The graph's own tables beside what answers for the columns: latents always have their names."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import latentia as lt
from latentia.data.rows import Rows
from latentia.data.sources import opening
from latentia.data.sources.memory import LocalRows
from latentia.errors import EvidenceError, NotLearnedError, UnknownNameError
from latentia.exact.table_answers import TableAnswers
from latentia.inference.answering import log_evidence
from latentia.inference.evidence import read_evidence
from latentia.model import choice
from latentia.native.loading import kernel
from latentia.networks import tables_beside
from latentia.networks.own_tables import climb_tables, learn_tables
from latentia.networks.tables_beside import first_tables
from latentia.structure import templates
from latentia.testing import random_model

GRAPHS = {
    "class": lt.as_graph("H->X0; H->X1; H->X2; H->X3; H->X4", {"H": 2}),
    "chain": templates.hidden_markov(5, 2),
    "tree": templates.latent_tree([["a", "b"], ["c", "d"], ["e", "f"]], 2),
    "factorial": templates.factorial_markov(3, 2, 2),
    "loops": templates.grid(2, 2, 2),
    "diamond": lt.as_graph(
        "A->B; A->C; B->F; C->F; B->D; C->E; F->G; F->H", dict.fromkeys("ABCF", 2)
    ),
}
WINNERS = ("marginal", "closed", "refined")


def drawn(kind: str, n: int = 600, seed: int = 0) -> tuple[lt.LatentGraph, dict[Any, np.ndarray]]:
    graph = GRAPHS[kind]
    graph = graph.with_states({graph.names[v]: 3 for v in graph.observed})
    rng = np.random.default_rng(seed)
    if kind == "class":
        h = rng.integers(2, size=n)
        told = {f"X{i}": np.where(rng.random(n) < 0.8, h, rng.integers(3, size=n)) for i in "01234"}
        return GRAPHS[kind], told
    cells = np.asarray(random_model(graph, rng, 0.2).sample(n, rng))
    names = [graph.names[v] for v in graph.observed]
    return GRAPHS[kind], dict(zip(names, cells.T, strict=True))


def fitted(
    kind: str, winner: str, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> tuple[lt.LatentModel, dict[Any, np.ndarray]]:
    """A default fit in which this candidate wins."""
    graph, data = drawn(kind)
    decide = choice.decide

    def decided(trials: Any) -> Any:
        return replace(decide(trials), chosen=winner)

    monkeypatch.setattr(choice, "decide", decided)
    monkeypatch.setattr(choice, "race_to_settle", lambda *given: None)
    model = lt.LatentModel(graph, **options).fit(data)
    assert model.diagnostics_.choice.chosen == winner
    return model, data


@pytest.mark.parametrize("winner", WINNERS)
@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
def test_latents_are_asked_for_whatever_won(
    kind: str, winner: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model, data = fitted(kind, winner, monkeypatch)
    graph = GRAPHS[kind]
    latents = [graph.names[v] for v in sorted(graph.latent)]
    assert set(model.cpts_) == set(graph.names)
    assert set(model.states_) == set(latents)
    oracle = lt.TabularModel(model.plan_.graph, model.cpts_)
    columns = [c.name for c in model.columns_]
    few = {name: data[name][:20] for name in columns}
    codes = np.full((20, len(oracle.names)), -1)
    for c in model.columns_:
        codes[:, oracle.names.index(c.name)] = np.searchsorted(c.labels, few[c.name])
    for name in latents:
        alone = np.asarray(model.query(name))
        np.testing.assert_allclose(alone, oracle.query(name), rtol=1e-9)
        wanted = oracle.posteriors(codes, [name])[name]
        for found in (model.predict_latent(few, name), model.predict_proba(few, name)):
            np.testing.assert_allclose(np.stack(list(found.values()), 1), wanted, rtol=1e-9)
    model.save(tmp_path / "model.latentia")
    again = lt.load(tmp_path / "model.latentia")
    for name, table in model.cpts_.items():
        np.testing.assert_array_equal(again.cpts_[name], table)
    assert repr(again.diagnostics_) == repr(model.diagnostics_)
    np.testing.assert_array_equal(
        np.asarray(again.query(latents[0])), np.asarray(model.query(latents[0]))
    )
    assert "S1(" not in repr(model.check(few)) + repr(model.cpts_)


@pytest.mark.parametrize("winner", WINNERS)
@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
def test_what_answers_for_the_columns_is_what_it_was(
    winner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables beside change nothing of the winner; sums of few rows come in another order."""
    model, data = fitted("chain", winner, monkeypatch)
    codes = [np.searchsorted(c.labels, data[c.name]) for c in model.columns_]
    plain = lt.PBP().learn(model.plan_, LocalRows(Rows(tuple(codes))))
    for probe in (Rows(tuple(codes)), Rows(tuple(c[::2] for c in codes))):
        told = [
            log_evidence(each, read_evidence(each.plan, probe.codes))[0]
            for each in (model.operators_, plain)
        ]
        np.testing.assert_allclose(told[0], told[1], atol=1e-9)
    assert plain.beside is None


@pytest.mark.parametrize("kind", ["class", "tree", "loops"])
def test_a_refined_network_of_the_graph_is_its_tables(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns are answered alike by messages and by tables."""
    model, _ = fitted(kind, "refined", monkeypatch)
    oracle = lt.TabularModel(model.plan_.graph, model.cpts_)
    first, last = model.columns_[0].name, model.columns_[-1].name
    for state in range(3):
        np.testing.assert_allclose(
            np.asarray(model.query(first, {last: state})),
            oracle.query(first, {last: state}),
            rtol=1e-9,
        )


def log_likelihood(answers: TableAnswers, rows: Rows) -> float:
    codes = np.full((len(rows), len(answers.names)), -1)
    for v, own in zip(answers.graph.observed, rows.codes, strict=True):
        codes[:, v] = own
    return float(answers.log_evidence(codes) @ rows.weights)


def test_separators_of_a_chain_tell_its_tables(monkeypatch) -> None:
    """The ends are copies of their neighbours; all else is as the network of separators has it."""
    _, data = drawn("chain", 4000)
    rows = Rows(tuple(np.asarray(x) for x in data.values()))
    plan = lt.make_plan(GRAPHS["chain"].with_states(dict.fromkeys(data, 3)))
    refined = lt.PBP(refine=True).learn(plan, LocalRows(rows))
    inner = refined.plan.graph
    assert inner != plan.graph
    start = first_tables(plan, inner, refined.tables)
    assert start is not None
    monkeypatch.setattr(tables_beside, "calibrated", lambda *_: ((), []))  # no clique tells any
    for v, asked in first_tables(plan, inner, refined.tables).items():
        np.testing.assert_allclose(start[v], asked, atol=1e-12)
    network = TableAnswers(inner, {name: refined.tables[v] for v, name in enumerate(inner.names)})
    learned = climb_tables(plan.graph, LocalRows(rows), start)
    own = TableAnswers(plan.graph, learned.cpts)
    # the same model in other words, and its own prior: a nat of 40,000 is no loss
    assert log_likelihood(own, rows) > log_likelihood(network, rows) - 1.0
    assert learned.log_likelihood == pytest.approx(
        log_likelihood(own, rows), abs=0.1
    )  # before its last step


def test_a_climb_from_the_optimum_stays_there() -> None:
    graph, data = drawn("class", 3000)
    graph = graph.with_states(dict.fromkeys(data, 3))
    source = LocalRows(Rows(tuple(np.asarray(x) for x in data.values())))
    best = learn_tables(graph, source, rng=0)
    again = climb_tables(graph, source, best.tables)
    for v, table in best.tables.items():
        np.testing.assert_allclose(again.tables[v], table, atol=5e-3)  # as far as a climb rests
    assert again.log_likelihood == pytest.approx(best.log_likelihood, abs=0.1)


def test_a_number_of_states_from_the_data_has_tables() -> None:
    _, data = drawn("class", 1500)
    model = lt.LatentModel("H->X0,X1,X2,X3,X4", ["H"]).fit(data)
    assert model.cpts_["H"].shape == (model.states_["H"],)
    free = lt.LatentModel("class").fit(data)
    (name,) = free.states_
    assert len(np.asarray(free.query(name))) == free.states_[name]


def test_weights_count_rows() -> None:
    """A row of weight two is two rows, in its latents too."""
    _, data = drawn("class", 500)
    frame = pd.DataFrame(data)
    twice = pd.concat([frame, frame[:250]])
    weight = np.where(np.arange(500) < 250, 2, 1)
    one = lt.LatentModel(GRAPHS["class"], learner=lt.PBP(random_state=0)).fit(twice)
    two = lt.LatentModel(GRAPHS["class"], learner=lt.PBP(random_state=0)).fit(
        frame, sample_weight=weight
    )
    for name, table in one.cpts_.items():
        np.testing.assert_allclose(two.cpts_[name], table, atol=1e-9)


@pytest.mark.parametrize("learner", [lt.PBP(refine=False), lt.PBP.paper(), lt.Spectral()])
def test_learners_without_tables_say_what_to_do(learner: Any) -> None:
    _, data = drawn("class")
    model = lt.LatentModel(GRAPHS["class"], learner=learner).fit(data)
    latent = GRAPHS["class"].names[min(GRAPHS["class"].latent)]
    assert model.operators_.beside is None
    with pytest.raises(EvidenceError, match=r"is latent.*Use learner='tables'"):
        model.query(latent)
    with pytest.raises(NotLearnedError, match="learner='tables', learner='em'"):
        model.predict_latent(data, latent)


def test_rows_that_are_read_once_have_no_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few are kept in memory, and then have; here they are too many."""
    monkeypatch.setattr(opening, "PILOT_ROWS", 100)
    _, data = drawn("class")
    frame = pd.DataFrame(data)
    model = lt.LatentModel(GRAPHS["class"]).fit(iter([frame[:300], frame[300:]]))
    latent = GRAPHS["class"].names[min(GRAPHS["class"].latent)]
    with pytest.raises(EvidenceError, match="rows that can be read again: a frame, a file"):
        model.query(latent)
    with pytest.raises(NotLearnedError, match="read again"):
        _ = model.predict_latent(frame, latent)


def test_edges_without_a_direction_have_tables_of_arrows_that_say_the_same() -> None:
    _, data = drawn("class")
    model = lt.LatentModel("H--X0; H--X1; H--X2; H--X3; H--X4", {"H": 2}).fit(data)
    arrows = lt.LatentModel("H->X0; H->X1; H->X2; H->X3; H->X4", {"H": 2}).fit(data)
    found, truth = model.query("H").table, arrows.query("H").table
    assert np.abs(np.sort(found) - np.sort(truth)).max() < 0.05  # two climbs to the same hill


def test_an_unknown_latent_is_an_unknown_name() -> None:
    _, data = drawn("class")
    model = lt.LatentModel(GRAPHS["class"]).fit(data)
    with pytest.raises(UnknownNameError):
        model.query("nobody")
    with pytest.raises(UnknownNameError, match="latent 'nobody'"):
        model.predict_latent(data, "nobody")


@pytest.mark.skipif(kernel() is None, reason="no kernel was built")
def test_classes_of_few_rows_are_the_same_with_another_seed():
    """Four of a flat likelihood: climbs that rest early had other sizes with every seed."""
    rng = np.random.default_rng(3)
    member = rng.integers(4, size=700)
    right = np.array([0.25, 0.45, 0.65, 0.85])[member]
    data = pd.DataFrame({f"x{i}": (rng.random(700) < right).astype(int) for i in range(8)})
    graph = [("class", name) for name in data]
    found = [
        lt.LatentModel(graph, {"class": 3}, learner=lt.PBP(random_state=seed)).fit(data)
        for seed in range(2)
    ]
    first, second = (np.asarray(model.predict(data, "class")) for model in found)
    assert (first == second).mean() > 0.98


@pytest.mark.parametrize("learner", [lt.PBP(), lt.PBP(refine=True)])
@pytest.mark.parametrize(
    "graph", ["L--a; L--c; L--M; L--b; M--c; M--d", "L--a; L--b; L--M; M--c; M--d; a--c"]
)
def test_latents_of_undirected_graphs_have_names_however_edges_are_spelled(graph, learner):
    """An edge from a column that was named before its latent was taken for an arrow."""
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=400)
    rows = {c: np.where(rng.random(400) < 0.8, h, rng.integers(2, size=400)) for c in "abcd"}
    turned = "; ".join("--".join(reversed(edge.split("--"))) for edge in graph.split("; "))
    found = []
    for text in (graph, turned):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = lt.LatentModel(text, {"L": 2, "M": 2}, learner).fit(rows)
        assert model.query("M").table.sum() == pytest.approx(1.0)
        found.append(model.query("L", {"a": 0, "b": 0}).table)
        assert len(model.predict(rows, "L")) == 400
    # from other starts the climbs rest elsewhere near the top, and states may change places
    np.testing.assert_allclose(np.sort(found[0]), np.sort(found[1]), atol=0.01)
