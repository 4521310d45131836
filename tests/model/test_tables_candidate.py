"""The graph's own tables as a candidate for answers: hidden causes that share their symptoms."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.blocks import FoldOnly

import latentia as lt
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.inference.operators import Operators, independent
from latentia.model import choice
from latentia.networks import discrete_network, tables_candidate
from latentia.networks.accelerate import Prior
from latentia.networks.own_tables import LearnedTables
from latentia.networks.small_classes import race_small_class
from latentia.networks.tables_candidate import _has_loops, as_met, tables_promise
from latentia.structure import templates
from latentia.structure.plan import make_plan
from latentia.testing import random_model

PAIRS = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (0, 2), (1, 3), (2, 4), (0, 3), (1, 4)]
CAUSES = lt.as_graph(
    "; ".join(f"c{a}->s{k}; c{b}->s{k}" for k, (a, b) in enumerate(PAIRS + PAIRS[:4])),
    {f"c{k}": 2 for k in range(5)},
)
SIZED = CAUSES.with_states({CAUSES.names[v]: 2 for v in CAUSES.observed})


def drawn(n: int, seed: int = 0) -> tuple[lt.TabularModel, dict[Any, np.ndarray]]:
    rng = np.random.default_rng(seed)
    truth = random_model(SIZED, rng, 0.4)
    columns = [SIZED.names[v] for v in SIZED.observed]
    return truth, dict(zip(columns, np.asarray(truth.sample(n, rng)).T, strict=True))


def divergence(truth: lt.TabularModel, model: lt.LatentModel, column: str, rows: Any) -> float:
    """Mean KL of P(column | others)."""
    codes = np.full((len(rows[column]), len(truth.names)), -1)
    for name, own in rows.items():
        codes[:, truth.names.index(name)] = own if name != column else -1
    p = np.asarray(truth.posteriors(codes, [column])[column])
    others = {name: own for name, own in rows.items() if name != column}
    q = np.stack(list(model.predict_proba(others, column).values()), axis=1)
    return float((p * np.log(np.maximum(p, 1e-12) / q)).sum(axis=1).mean())


def test_separators_that_need_more_parameters_make_tables_a_candidate() -> None:
    def promises(graph: lt.LatentGraph, rows: float) -> bool:
        sized = graph.with_states({graph.names[v]: 3 for v in graph.observed})
        return tables_promise(make_plan(sized), rows)

    assert tables_promise(make_plan(SIZED), 1e6)
    assert promises(templates.factorial_markov(4, 2, 2), 1000)  # few rows pay dearly for more
    assert not promises(templates.factorial_markov(4, 2, 2), 10_000)
    wide = templates.factorial_markov(6, 2, 2)
    wide = wide.with_states({wide.names[v]: 5 for v in wide.observed})
    assert tables_promise(make_plan(wide), 1e6)
    for graph in (
        templates.hidden_markov(6, 2),
        templates.latent_class(6, 3),
        templates.latent_tree([["a", "b", ["c", "d"]], ["e", "f"]], 2),
        lt.as_graph("H -- X0; H -- X1; H -- X2", {"H": 2}),
    ):
        assert not promises(graph, 100)


def test_loops_of_latents_are_found() -> None:
    diamond = lt.as_graph("A->B,C; B->F,D; C->F,E; F->G,H", dict.fromkeys("ABCF", 2))
    for graph in (SIZED, templates.factorial_markov(4, 2, 2), templates.grid(2, 3, 2), diamond):
        assert _has_loops(graph)
    for graph in (
        templates.hidden_markov(6, 2),
        templates.latent_class(6, 3),
        templates.latent_tree([["a", "b", ["c", "d"]], ["e", "f"]], 2),
        lt.as_graph("a->b; b->c; a->c"),
    ):
        assert not _has_loops(graph)


def test_a_loop_of_sharp_latents_does_not_stay_where_its_closed_form_begins() -> None:
    """Likelihood, not luck: a race of starts finds what `tables` finds from the same rows."""
    graph = templates.grid(2, 3, 2)
    graph = graph.with_states({graph.names[v]: 4 for v in graph.observed})
    rng = np.random.default_rng(5)
    tables = {}
    for v, above in enumerate(graph.parents()):
        shape = [graph.states[u] or 1 for u in above]
        flat = rng.dirichlet(np.full(graph.states[v] or 1, 0.3), size=shape)
        best = rng.integers(graph.states[v] or 1, size=shape)
        tables[graph.names[v]] = 0.9 * np.eye(graph.states[v] or 1)[best] + 0.1 * flat
    truth = lt.TabularModel(graph, tables)
    columns = [graph.names[v] for v in graph.observed]
    data = dict(zip(columns, np.asarray(truth.sample(1000, rng)).T, strict=True))
    states = dict.fromkeys(columns, range(4))
    found = lt.LatentModel(graph, state_names=states).fit(data)
    best = lt.LatentModel(graph, learner="tables", state_names=states).fit(data)
    assert found.score(data) > best.score(data) - 0.004  # 4 nats of 1,000 rows: both are priced


@pytest.fixture(scope="module")
def fitted() -> tuple[lt.TabularModel, dict[Any, np.ndarray], lt.LatentModel]:
    truth, data = drawn(2000, seed=1)
    return truth, data, lt.LatentModel(CAUSES).fit(data)


def test_tables_win_and_answer_better_than_separators(fitted: Any) -> None:
    truth, data, model = fitted
    found = model.diagnostics_.choice
    assert found.chosen == "tables"
    assert {*found.losses} == {"marginal", "closed", "tables"}  # rows are few: no other network
    fresh = dict(zip(data, np.asarray(truth.sample(300, np.random.default_rng(9))).T, strict=True))
    total = sum(divergence(truth, model, c, fresh) for c in list(data)[::4])
    assert total < 0.03  # .009 here
    told = "\n".join(model.diagnostics_.pieces)
    assert "starts" in told
    assert "on all rows" in told


def test_messages_and_tables_answer_alike(fitted: Any, tmp_path: Path) -> None:
    _, _, model = fitted
    oracle = lt.TabularModel(model.plan_.graph, model.cpts_)
    given = {"s3": 1, "s7": 0, "s12": 1}
    for asked in ("s0", "s13", "c2"):
        np.testing.assert_allclose(
            np.asarray(model.query(asked, given)), oracle.query(asked, given), rtol=1e-9
        )
    model.save(tmp_path / "causes.latentia")
    again = lt.load(tmp_path / "causes.latentia")
    assert repr(again.diagnostics_.choice) == repr(model.diagnostics_.choice)
    np.testing.assert_array_equal(
        np.asarray(again.query("c2", given)), np.asarray(model.query("c2", given))
    )


def test_rows_elsewhere_are_learned_from_alike() -> None:
    _, data = drawn(600, seed=1)
    codes, plan = np.stack(list(data.values())), make_plan(SIZED)
    blocks = [Rows(tuple(codes[:, :250])), Rows(tuple(codes[:, 250:]))]
    here = lt.PBP().learn(plan, LocalRows(Rows(tuple(codes))))
    there = lt.PBP().learn(plan, FoldOnly(blocks))
    assert here.provenance.choice == there.provenance.choice
    for v, table in here.tables.items():
        np.testing.assert_allclose(there.tables[v], table, rtol=1e-9)


@pytest.mark.parametrize("rows", [200, 1000])
def test_separators_that_tell_the_tables_make_them_a_candidate(rows: int) -> None:
    """Of a hidden chain: they climb from what the network of separators says of them."""
    graph = templates.hidden_markov(5, 3)
    graph = graph.with_states({graph.names[v]: 4 for v in graph.observed})
    plan, rng = make_plan(graph), np.random.default_rng(1)
    truth = random_model(graph, rng, 0.5)
    source = LocalRows(Rows(tuple(np.asarray(truth.sample(rows, rng)).T)))
    assert not tables_promise(plan, rows)
    found = choice.choose_best(plan, source, np.random.default_rng(0), "auto")
    told = found.operators.provenance.choice
    assert told is not None
    assert {"refined", "tables"} <= {*told.losses}
    if told.chosen == "tables":
        assert found.operators.plan is plan
        assert found.operators.tables.keys() == {*range(len(graph.names))}


def test_the_graph_itself_leans_as_tables_do() -> None:
    """A refined network of the graph's own tables has the pseudo-counts of auto."""
    graph = templates.latent_class(6, 3)
    graph = graph.with_states({graph.names[v]: 4 for v in graph.observed})
    plan, rng = make_plan(graph), np.random.default_rng(2)
    truth = random_model(graph, rng, 0.3)
    rows = Rows(tuple(np.asarray(truth.sample(800, rng)).T))
    found, plain = (lt.PBP(smoothing=s).learn(plan, LocalRows(rows)) for s in ("auto", 1.0))
    assert found.provenance.choice is not None
    assert found.provenance.choice.chosen == "refined"
    tables = race_small_class(graph, rows, "auto", None).tables
    own, theirs, others = (sorted_classes(t) for t in (found.tables, tables, plain.tables))
    np.testing.assert_allclose(own, theirs, atol=3e-3)  # pseudo-counts are found on the way
    assert abs(own - others).max() > 1e-2


def sorted_classes(tables: Any) -> np.ndarray:
    """All tables of a latent class side by side, the largest class first."""
    share = tables[0]
    return np.concatenate([t[np.argsort(-share)] for t in tables.values() if t.ndim > 1], axis=1)


def test_few_rows_hold_out_each_fold_once() -> None:
    _, data = drawn(200, seed=2)
    found = lt.LatentModel(CAUSES).fit(data).diagnostics_.choice
    assert "tables" in found.losses
    assert found.held_out == 200


def test_where_another_wins_tables_are_kept_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = choice.decide
    monkeypatch.setattr(choice, "decide", lambda t: replace(decide(t), chosen="refined"))
    _, data = drawn(4000, seed=3)  # so many that the network is made
    model = lt.LatentModel(CAUSES).fit(data)
    assert model.operators_.beside is not None
    assert {*model.states_} == {f"c{k}" for k in range(5)}


def test_where_no_tables_convince_the_network_is_made_after_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[int] = []
    start = choice.started
    monkeypatch.setattr(choice, "started", lambda *x: (made.append(1), start(*x))[1])
    _, data = drawn(600, seed=3)
    assert lt.LatentModel(CAUSES).fit(data).diagnostics_.choice.chosen == "tables"
    assert not made
    loss = choice.candidate_operators  # tables that say nothing of the held-out rows
    monkeypatch.setattr(choice, "candidate_operators", lambda *x: flattened(loss(*x)))
    found = lt.LatentModel(CAUSES).fit(data).diagnostics_.choice
    assert made
    assert found.chosen == "refined"
    assert not found.left_out


def test_tables_that_a_closed_form_beats_race_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables on a poor optimum are not the last word: of many starts others are better."""
    chain = templates.hidden_markov(5, 3)
    chain = chain.with_states({chain.names[v]: 5 for v in chain.observed})
    truth = random_model(chain, np.random.default_rng(0), 0.3)
    codes = np.asarray(truth.sample(30_000, np.random.default_rng(1)))
    data = dict(zip([chain.names[v] for v in chain.observed], codes.T, strict=True))
    learn = choice._own_tables

    def poor(*x: Any) -> Any:
        found = learn(*x)
        assert isinstance(found, LearnedTables)
        alike = {v: np.full(t.shape, 1.0 / t.shape[-1]) for v, t in found.tables.items()}
        return replace(found, tables=alike)

    monkeypatch.setattr(choice, "_own_tables", poor)
    monkeypatch.setattr(choice, "_network_loss", lambda _, held: np.full(len(held), 99.0))
    found = lt.LatentModel(chain).fit(data).diagnostics_.choice
    assert found.chosen == "tables"
    assert found.losses["tables"] < found.losses["closed"]


def test_many_rows_race_where_a_closed_form_tells_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not clearly more, so that tables were kept; of so many rows they should tell more."""
    raced: list[int] = []
    again = choice.raced_again
    monkeypatch.setattr(choice, "raced_again", lambda *x: (raced.append(1), again(*x))[1])
    monkeypatch.setattr(choice, "_behind", lambda _: True)
    for n, times in ((2000, 0), (30_000, 1)):
        _, data = drawn(n, seed=6)
        assert lt.LatentModel(CAUSES).fit(data).diagnostics_.choice.chosen in choice.VALID
        assert len(raced) == times


def flattened(operators: Operators) -> Operators:
    """Every column by itself, as shares of its marginal's complement: worse than the marginals."""
    worse = [(1 - mu) / (1 - mu).sum() for mu in operators.marginals]
    return independent(operators.plan, worse, operators.weight)


def test_tables_too_wide_are_told_as_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise lt.errors.PlanError("too wide for this test.")

    monkeypatch.setattr(tables_candidate, "learn_tables", refuse)
    _, data = drawn(600, seed=4)
    with pytest.warns(lt.errors.LeftOutWarning, match="no tables model.*too wide for this test"):
        lt.LatentModel(CAUSES).fit(data)


def test_answers_have_error_bars() -> None:
    _, data = drawn(600, seed=5)
    model = lt.LatentModel(CAUSES).fit(data, error_bars=5)
    assert model.diagnostics_.choice.chosen == "tables"
    told = model.query("s0", {"s1": 1}, confidence=0.9)
    assert (told.lower <= np.asarray(told)).all()
    assert (np.asarray(told) <= told.upper).all()


def test_latents_of_many_branches_have_one_start() -> None:
    for graph, wanted in (
        (templates.latent_class(8, 3), True),
        (templates.latent_class(5, 3), False),
    ):
        plan = make_plan(graph.with_states({graph.names[v]: 3 for v in graph.observed}))
        own = discrete_network.plan_refinement(plan)[1]
        network = discrete_network.Network(own, {}, Prior({}))
        assert tables_candidate.has_one_start(plan, network) == wanted


def test_a_class_does_not_stay_on_a_poor_optimum() -> None:
    """Its own start ends 168 nats below where others lead to, and below the truth."""
    wide = templates.latent_class(10, 4).with_states({f"X{k}": 3 for k in range(10)})
    rng = np.random.default_rng(36)
    truth = random_model(wide, rng, 0.5)
    cells = np.asarray(truth.sample(4000, rng))
    found = lt.PBP().learn(make_plan(wide), LocalRows(Rows(tuple(cells.T))))
    assert found.provenance.choice.chosen == "refined"
    codes = np.column_stack([np.full(4000, -1), cells])  # the class comes first
    learned = lt.TabularModel(wide, {wide.names[v]: t for v, t in found.tables.items()})
    assert learned.log_evidence(codes).sum() > truth.log_evidence(codes).sum()


def test_a_graph_too_wide_for_a_plan_may_have_continuous_columns() -> None:
    """Numbers below a latent are learned piece by piece, as columns of states are."""
    rng = np.random.default_rng(0)
    pairs = list(itertools.combinations(range(10), 2))
    graph = {f"b{i}{k}": [f"a{i}", f"a{k}"] for i, k in pairs} | {
        "x": ["H"],
        "z": ["H"],
        "H": ["a0"],
    }
    data: dict[Any, np.ndarray] = {f"a{i}": rng.integers(8, size=300) for i in range(10)}
    data |= {name: rng.integers(2, size=300) for name in graph if name not in "xH"}
    kinds = dict.fromkeys(data, "discrete")
    data["x"] = rng.normal(size=300)
    mixed = lt.LatentModel(graph, latents={"H": 2}, kinds=kinds).fit(data)
    assert mixed.query("x", {"z": 1}).mean == pytest.approx(data["x"].mean(), abs=1.0)
    data["x"] = np.digitize(data["x"], [-1, 0, 1])
    model = lt.LatentModel(graph, latents={"H": 2}, kinds={**kinds, "x": "discrete"}).fit(data)
    assert np.asarray(model.query("x", {"z": 1})).shape == (4,)


def test_states_are_numbered_as_rows_show_them():
    """Against looking at one row after the other; unseen states come last, holes stay holes."""
    rng = np.random.default_rng(3)
    graph = lt.as_graph("H->a,b,c", {"H": 2}).with_states({"a": 1, "b": 4, "c": 9})
    for n in (1, 6, 30):
        own = [rng.integers(-1, graph.states[v], size=n).astype(np.int8) for v in graph.observed]
        found, orders = as_met(graph, Rows(tuple(own)))
        for v, codes, new in zip(graph.observed, own, found.codes, strict=True):
            met = [x for x in dict.fromkeys(codes.tolist()) if x >= 0]
            order = met + [x for x in range(graph.states[v]) if x not in met]
            assert orders[v].tolist() == order
            assert new.tolist() == [order.index(x) if x >= 0 else -1 for x in codes.tolist()]
            assert new.dtype == codes.dtype


def test_tables_are_a_candidate_where_separators_of_lower_rank_do_not_tell_them() -> None:
    """A number of states that is one too many: its separator has the rank that data can show."""
    chain = templates.hidden_markov(5, 3)
    truth = chain.with_states(dict.fromkeys((chain.names[v] for v in chain.observed), 4))
    model = random_model(truth, np.random.default_rng(3))
    codes = model.sample(4_000, np.random.default_rng(4)).astype(np.int8)
    source = LocalRows(Rows(tuple(np.ascontiguousarray(c) for c in codes.T)))
    middle = sorted(truth.latent)[2]
    plan = make_plan(truth.with_states({truth.names[middle]: 4}))
    assert discrete_network.plan_refinement(plan)[0].graph != plan.graph
    found = lt.PBP().learn(plan, source).provenance.choice
    assert found is not None
    assert found.losses["tables"] <= found.losses["refined"] + 0.01
