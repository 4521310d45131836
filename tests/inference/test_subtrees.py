"""Messages of subtrees from tables, against messages passed row by row."""

import numpy as np
import pytest

from latentia import PBP, LatentModel, make_plan
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.inference.answering import answer, log_evidence, posteriors
from latentia.inference.evidence import read_evidence
from latentia.inference.many_rows import in_precision
from latentia.inference.subtrees import look_up, look_up_scores, subtree_tables
from latentia.structure.templates import hidden_markov, latent_class, latent_tree
from latentia.testing.random_models import random_model

GRAPHS = {
    "chain": hidden_markov(12, 3),
    "star": latent_class(9, 3),
    "tree": latent_tree([["a", "b", "c"], [["d", "e"], ["f", "g"]], "h"], 3),
}


def learned(kind, n=3000):
    graph = GRAPHS[kind]
    known = graph.with_states({graph.names[v]: 3 for v in graph.observed})
    rng = np.random.default_rng(1)
    codes = random_model(known, rng).sample(n, 2).astype(np.int8)
    codes[rng.random(codes.shape) < 0.1] = -1
    rows = Rows(tuple(codes.T.copy()))
    plan = make_plan(known)
    return PBP(refine=False).learn(plan, LocalRows(rows)), rows


@pytest.mark.parametrize("kind", GRAPHS)
def test_tables_give_what_messages_give(kind):
    operators, rows = learned(kind)
    plan = operators.plan
    evidence = read_evidence(plan, rows.codes)
    used = 0
    for x, k in enumerate(plan.leaves):
        (v,) = plan.nodes[k].columns
        tables = subtree_tables(operators, 10**5, {x})
        assert all(x not in tree.leaves for tree in tables)
        used += len(tables)
        slow = answer(operators, evidence, [v]).probabilities[v]
        fast = posteriors(operators, evidence, [v], look_up(tables, evidence))[v]
        np.testing.assert_allclose(fast, slow, rtol=0, atol=1e-12)
    assert used


def test_a_subtree_without_any_evidence_and_one_with_soft_evidence():
    operators, rows = learned("chain")
    plan = operators.plan
    v = plan.graph.observed[6]
    home = next(x for x, k in enumerate(plan.leaves) if v in plan.nodes[k].columns)
    tables = subtree_tables(operators, 10**5, {home})
    some = [None if i in (0, 1, 2) else c for i, c in enumerate(rows.codes)]
    soft = {11: np.array([[0.2], [0.3], [0.5]])}
    for evidence in (read_evidence(plan, some), read_evidence(plan, some, soft)):
        slow = answer(operators, evidence, [v]).probabilities[v]
        known = look_up(tables, evidence)
        assert known
        np.testing.assert_allclose(posteriors(operators, evidence, [v], known)[v], slow, atol=1e-12)


def test_few_rows_fill_no_tables():
    operators, _ = learned("chain")
    assert not subtree_tables(operators, 50, set())


def test_in_single_precision_tables_are_single():
    operators, rows = learned("tree")
    single = in_precision(operators, "float32")
    tables = subtree_tables(single, 10**5, {0})
    assert {tree.table.dtype for tree in tables} == {np.dtype(np.float32)}
    v = operators.plan.nodes[operators.plan.leaves[0]].columns[0]
    evidence = read_evidence(operators.plan, rows.codes)
    slow = answer(operators, evidence, [v]).probabilities[v]
    fast = posteriors(single, evidence, [v], look_up(tables, evidence))[v]
    assert np.abs(fast - slow).max() < 1e-5


def test_predict_proba_of_many_rows_is_that_of_single_ones():
    graph = GRAPHS["chain"]
    known = graph.with_states({graph.names[v]: 3 for v in graph.observed})
    codes = random_model(known, np.random.default_rng(0)).sample(20_000, 1)
    names = [graph.names[v] for v in graph.observed]
    frame = {name: codes[:, i] for i, name in enumerate(names)}
    model = LatentModel(graph, learner=PBP(refine=False)).fit(frame)
    many = model.predict_proba(frame, "X5")
    few = model.predict_proba({name: c[:30] for name, c in frame.items()}, "X5")
    for state, share in few.items():
        np.testing.assert_allclose(many[state][:30], share, atol=1e-12)


@pytest.mark.parametrize("gaps", ["some", "none", "whole columns"])
@pytest.mark.parametrize("kind", GRAPHS)
def test_codes_tell_which_kinds_there_are(kind, gaps):
    """Tables for just the evidence that rows have, missing or not, give the same answers."""
    operators, rows = learned(kind)
    plan = operators.plan
    codes = [c if gaps == "some" else np.maximum(c, 0) for c in rows.codes]
    if gaps == "whole columns":
        codes[1] = codes[-1] = None
    evidence = read_evidence(plan, codes)
    x = len(plan.leaves) // 2
    (v,) = plan.nodes[plan.leaves[x]].columns
    tables = subtree_tables(operators, 10**5, {x}, codes)
    assert tables
    known = look_up(tables, evidence)
    assert known
    slow = answer(operators, evidence, [v]).probabilities[v]
    np.testing.assert_allclose(posteriors(operators, evidence, [v], known)[v], slow, atol=1e-12)
    if gaps != "some":  # fewer kinds of evidence: no more tables, and no larger ones
        blind = subtree_tables(operators, 10**5, {x})
        assert sum(len(t.leaves) for t in tables) >= sum(len(t.leaves) for t in blind)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("kind", GRAPHS)
def test_scores_by_tables_are_those_of_messages(kind, gaps):
    operators, rows = learned(kind)
    codes = rows.codes if gaps else tuple(np.maximum(c, 0) for c in rows.codes)
    evidence = read_evidence(operators.plan, codes)
    tables = subtree_tables(operators, 10**5, (), codes)
    assert tables
    slow, none = log_evidence(operators, evidence)
    fast, gone = log_evidence(operators, evidence, *look_up_scores(tables, evidence))
    np.testing.assert_allclose(fast, slow, rtol=0, atol=1e-11)  # sums of 12 logs, to 1e-12 each
    np.testing.assert_array_equal(gone, none)


def test_rows_are_scored_by_the_tables(monkeypatch):
    """Many rows: the model's own scores, with tables and without."""
    graph = GRAPHS["chain"]
    known = graph.with_states({graph.names[v]: 3 for v in graph.observed})
    codes = random_model(known, np.random.default_rng(5)).sample(40_000, 2)
    data = dict(zip((known.names[v] for v in known.observed), codes.T, strict=True))
    model = LatentModel(known, learner=PBP(refine=False)).fit(data)
    fast = model.score_samples(data)
    asked = []
    monkeypatch.setattr(
        "latentia.inference.many_rows.subtree_tables", lambda *given: asked.append(given) or []
    )
    np.testing.assert_allclose(fast, model.score_samples(data), rtol=0, atol=1e-11)
    assert asked
