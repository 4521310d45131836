"""Messages as a program for the kernel, against those that numpy passes one by one."""

import numpy as np
import pytest

import latentia as lt
from latentia import PBP, LatentModel, make_plan
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.inference.answering import (
    log_evidence,
    log_evidence_at_root,
    posterior_below,
    posteriors,
)
from latentia.inference.evidence import read_evidence
from latentia.inference.many_rows import in_precision
from latentia.inference.message_program import MessageProgram, message_program
from latentia.inference.subtrees import subtree_tables
from latentia.native.loading import kernel
from latentia.networks.to_operators import operators_of
from latentia.structure.templates import hidden_markov, latent_class, latent_tree
from latentia.testing.random_models import random_model

GRAPHS = {
    "chain": hidden_markov(12, 3),
    "long chain": hidden_markov(40, 2),  # messages are rescaled on their way
    "star": latent_class(9, 4),
    "tree": latent_tree([["a", "b", "c"], [["d", "e"], ["f", "g"]], "h"], 3),
}


def learned(kind, n=700, holes=True):
    graph = GRAPHS[kind]
    known = graph.with_states({graph.names[v]: 3 + v % 3 for v in graph.observed})
    rng = np.random.default_rng(1)
    codes = random_model(known, rng).sample(n, 2).astype(np.int8)
    if holes:
        codes[rng.random(codes.shape) < 0.1] = -1
    rows = Rows(tuple(codes.T.copy()))
    return PBP(refine=False).learn(make_plan(known), LocalRows(rows)), rows


@pytest.fixture
def compiled(kernel_level):
    if kernel_level == "off":
        pytest.skip("numpy is what it is compared with")


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("holes", [True, False])
@pytest.mark.parametrize("kind", GRAPHS)
def test_posteriors_and_scores_are_those_of_messages(kind, holes):
    operators, rows = learned(kind, holes=holes)
    plan, evidence = operators.plan, read_evidence(operators.plan, rows.codes)
    for x in range(0, len(plan.leaves), 5):
        (v,) = plan.nodes[plan.leaves[x]].columns
        for most in (0, 10**5):  # without tables of subtrees, and with them
            trees = subtree_tables(operators, most, {x})
            made = message_program(operators, trees, plan.leaves[x]).run(evidence)
            marks = np.zeros(len(rows), dtype=bool)
            fast = posterior_below(operators, evidence, v, made[0], marks)
            slow = posteriors(operators, evidence, [v])[v]
            np.testing.assert_allclose(fast, slow, rtol=0, atol=1e-12)
    for most in (0, 10**5):
        trees = subtree_tables(operators, most, ())
        program = message_program(operators, trees, None)
        assert program.rescales == (kind == "long chain")
        made = program.run(evidence)
        assert made[0].log.shape == ((len(rows),) if program.rescales else (1,))
        fast = log_evidence_at_root(operators, *made)
        slow = log_evidence(operators, evidence)
        # sums of up to 40 logs
        np.testing.assert_allclose(fast[0], slow[0], rtol=1e-12, atol=1e-11)
        np.testing.assert_array_equal(fast[1], slow[1])


@pytest.mark.usefixtures("compiled")
def test_plans_deeper_than_python_calls_go_through_it():
    """A chain of 1,500: what recursion could not reach; towards the root, and to its ends."""
    graph = hidden_markov(1500, 2).with_states({f"X{t}": 2 for t in range(1500)})
    truth = random_model(graph, np.random.default_rng(0))
    tables = {graph.index(name): x for name, x in truth.cpts.items()}
    operators = operators_of(make_plan(graph), tables, 1.0)
    codes = truth.sample(30, 1).astype(np.int8)
    evidence = read_evidence(operators.plan, list(codes.T))
    fast = log_evidence_at_root(operators, *message_program(operators, (), None).run(evidence))
    np.testing.assert_allclose(fast[0], log_evidence(operators, evidence)[0], rtol=1e-10)
    for x in (0, len(operators.plan.leaves) - 1):
        (v,) = operators.plan.nodes[operators.plan.leaves[x]].columns
        made = message_program(operators, (), operators.plan.leaves[x]).run(evidence)
        found = posterior_below(operators, evidence, v, made[0], np.zeros(30, dtype=bool))
        slow = posteriors(operators, evidence, [v])[v]
        np.testing.assert_allclose(found, slow, rtol=0, atol=1e-10)


@pytest.mark.usefixtures("compiled")
def test_what_is_not_observed_and_rows_that_do_not_fill_a_block():
    operators, rows = learned("tree", n=37)
    some = [None if i in (0, 4) else c for i, c in enumerate(rows.codes)]
    evidence = read_evidence(operators.plan, some)
    made = message_program(operators, (), None).run(evidence)
    fast = log_evidence_at_root(operators, *made)[0]
    np.testing.assert_allclose(fast, log_evidence(operators, evidence)[0], rtol=1e-12)


@pytest.mark.usefixtures("compiled")
def test_numpy_looks_at_what_codes_do_not_tell_and_at_what_is_not_finite():
    operators, rows = learned("star")
    program = message_program(operators, (), None)
    soft = read_evidence(operators.plan, rows.codes, {2: np.full((3, 1), 0.5)})
    assert program.run(soft) is None
    evidence = read_evidence(operators.plan, rows.codes)
    assert program.run(evidence) is not None
    program.tables[:] = 1e200  # products overflow
    assert program.run(evidence) is None
    program.tables[:] = 1.0
    codes = list(rows.codes)
    codes[0] = np.full_like(codes[0], 100)  # no such state
    assert program.run(read_evidence(operators.plan, codes)) is None


def test_no_program_without_a_kernel_or_in_single_precision(kernel_level):
    operators, _ = learned("star")
    assert (message_program(operators, (), None) is None) == (kernel() is None)
    assert message_program(in_precision(operators, "float32"), (), None) is None


@pytest.mark.usefixtures("compiled")
def test_questions_about_rows_go_through_it(monkeypatch):
    graph = lt.templates.hidden_markov(6, 3)
    known = graph.with_states({graph.names[v]: 4 for v in graph.observed})
    rng = np.random.default_rng(0)
    codes = random_model(known, rng).sample(1000, rng)
    frame = {str(known.names[v]): c for v, c in zip(known.observed, codes.T, strict=True)}
    model = LatentModel(known, learner=PBP(refine=False)).fit(frame)
    calls = []
    run = MessageProgram.run

    def watched(program, evidence):
        calls.append(evidence.rows)
        return run(program, evidence)

    monkeypatch.setattr(MessageProgram, "run", watched)
    fast = [*model.predict_proba(frame, "X2").values(), model.score_samples(frame)]
    assert len(calls) == 2
    monkeypatch.setenv("LATENTIA_KERNEL", "off")
    slow = [*model.predict_proba(frame, "X2").values(), model.score_samples(frame)]
    assert len(calls) == 2
    for one, other in zip(fast, slow, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
