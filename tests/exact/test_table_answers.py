"""Answers conditioned on the evidence: those of the whole junction tree, in whatever pattern."""

import math
import pickle

import numpy as np
import pytest

from latentia.errors import EvidenceError, PlanError, UnknownNameError
from latentia.exact import active_tree, answer_wiring
from latentia.exact.patterns import group_patterns, patterns_of
from latentia.exact.pieces import cut_graph, with_ancestors
from latentia.exact.table_answers import TableAnswers
from latentia.exact.tabular_model import TabularModel
from latentia.structure.reading_graphs import as_graph
from latentia.testing.random_models import KINDS, random_graph, random_model

DIRECTED = [kind for kind in KINDS if kind != "undirected"]


def drawn(kind, seed):
    """A random directed model, and the same tables with answers of their own."""
    rng = np.random.default_rng([seed, DIRECTED.index(kind)])
    while True:
        graph = random_graph(rng, kind)
        if graph.directed:
            break
    model = random_model(graph, rng)
    return model, TableAnswers(model.graph, model.cpts), rng


def evidence_of(model, rng, rows, pattern):
    codes = model.sample(rows, rng, latents=True)
    if pattern == "columns":
        seen = np.broadcast_to(rng.random(codes.shape[1]) < 0.5, codes.shape)
    elif pattern == "nothing":
        seen = np.zeros(codes.shape, dtype=bool)
    else:
        seen = rng.random(codes.shape) < 0.5
    return np.where(seen, codes, -1)


@pytest.mark.parametrize("width", [0, 2**13])  # every pattern by itself, or all together
@pytest.mark.parametrize("pattern", ["columns", "cells", "nothing"])
@pytest.mark.parametrize("kind", DIRECTED)
def test_equals_the_whole_tree(monkeypatch, kind, pattern, width):
    monkeypatch.setattr(answer_wiring, "EASY_WIDTH", width)
    monkeypatch.setattr(answer_wiring, "EASY_CELLS", 0)
    for seed in range(3):
        model, answers, rng = drawn(kind, seed)
        codes = evidence_of(model, rng, 12, pattern)
        asked = list(rng.permutation(model.names)[:3])
        for variables in (None, asked, asked[0]):
            expected = model.posteriors(codes, variables)
            found = answers.posteriors(codes, variables)
            assert list(found) == list(expected)
            for name, table in expected.items():
                np.testing.assert_allclose(found[name], table, rtol=0, atol=1e-12)
        np.testing.assert_allclose(
            answers.log_evidence(codes), model.log_evidence(codes), rtol=0, atol=1e-11
        )
        for variables in (asked[:2], asked):
            np.testing.assert_allclose(
                answers.joint(variables, codes), model.joint(variables, codes), rtol=0, atol=1e-12
            )


@pytest.mark.parametrize("rows", [1, 7])
def test_soft_evidence_is_a_likelihood(rows):
    model, answers, rng = drawn("loop", 3)
    codes = evidence_of(model, rng, 7, "cells")
    soft = {name: rng.random((rows, model.states[model.names.index(name)])) for name in model.names}
    for name, table in model.posteriors(codes, soft=soft).items():
        np.testing.assert_allclose(
            answers.posteriors(codes, soft=soft)[name], table, rtol=0, atol=1e-12
        )
    np.testing.assert_allclose(
        answers.log_evidence(codes, soft), model.log_evidence(codes, soft), rtol=0, atol=1e-11
    )
    pair = list(model.names[:2])
    np.testing.assert_allclose(
        answers.joint(pair, codes, soft), model.joint(pair, codes, soft), rtol=0, atol=1e-12
    )


def test_one_row_by_name_and_samples():
    model, answers, _ = drawn("chain", 1)
    given = {model.names[-1]: 0}
    np.testing.assert_allclose(
        answers.query(model.names[0], given), model.query(model.names[0], given), atol=1e-13
    )
    assert (answers.sample(50, 4, latents=True) == model.sample(50, 4, latents=True)).all()
    again = pickle.loads(pickle.dumps(answers))
    assert (again.evidence(again.sample(5, 1)) == model.evidence(model.sample(5, 1))).all()
    with pytest.raises(UnknownNameError):
        answers.query("nobody")
    with pytest.raises(EvidenceError, match="one row"):
        answers.query(model.names[0], np.full((2, len(model.names)), -1))


def test_impossible_rows_are_named_and_have_no_probability():
    cpts = {"h": [0.5, 0.5], "x": np.eye(2), "y": np.eye(2)}
    answers = TableAnswers("h->x; h->y", cpts, latents=["h"])
    codes = np.array([[-1, 0, 0], [-1, 0, 1], [-1, 1, 1]])
    np.testing.assert_allclose(
        answers.log_evidence(codes), [math.log(0.5), -math.inf, math.log(0.5)], atol=1e-12
    )
    with pytest.raises(EvidenceError, match="row 1 of the evidence has probability 0"):
        answers.posteriors(codes, "h")
    with pytest.raises(EvidenceError, match="row 1 of the evidence has probability 0"):
        answers.joint(["h", "y"], codes)


def test_rows_near_underflow_are_answered():
    """1,500 columns of probability 1e-2 each: 1e-3000 in all."""
    names = [f"x{i}" for i in range(1500)]
    table = np.array([[0.01, 0.99], [0.02, 0.98]])
    answers = TableAnswers(
        [("h", x) for x in names], {"h": [0.5, 0.5], **dict.fromkeys(names, table)}, latents=["h"]
    )
    codes = np.zeros((3, 1501), dtype=int)
    codes[:, 0] = -1
    codes[1, 1:] = 1
    logs = np.array([[1500 * math.log(t) for t in (0.01, 0.02)]] * 3) + math.log(0.5)
    logs[1] = [1500 * math.log(t) + math.log(0.5) for t in (0.99, 0.98)]
    np.testing.assert_allclose(answers.log_evidence(codes), np.logaddexp(*logs.T), rtol=1e-12)
    top = np.exp(logs - logs.max(axis=1, keepdims=True))
    expected = top / top.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(answers.posteriors(codes, "h")["h"], expected, atol=1e-12)


def test_a_state_that_evidence_revives_is_not_lost():
    """After 1,200 columns state 1 is 1e-361 times as likely as 0, which the last one rules out."""
    names = [f"x{i}" for i in range(1200)]
    cpts = {
        "h": [0.5, 0.5],
        **dict.fromkeys(names, np.array([[0.9, 0.1], [0.45, 0.55]])),
        "y": np.array([[1.0, 0.0], [0.5, 0.5]]),
        "z": np.array([[0.2, 0.8], [0.7, 0.3]]),
    }
    answers = TableAnswers([("h", x) for x in [*names, "y", "z"]], cpts, latents=["h"])
    codes = np.zeros((3, 1203), dtype=int)
    codes[:, [0, -1]] = -1
    codes[0, -2] = 1
    codes[2, -2] = 1
    codes[2, -1] = 0
    logs = math.log(0.5) + 1200 * math.log(0.45) + math.log(0.5)
    found = answers.log_evidence(codes)
    np.testing.assert_allclose(found[[0, 2]], [logs, logs + math.log(0.7)], rtol=1e-12)
    posterior = answers.posteriors(codes, ["h", "z"])
    np.testing.assert_allclose(posterior["h"], [[0, 1], [1, 0], [0, 1]], atol=1e-12)
    np.testing.assert_allclose(posterior["z"], [[0.7, 0.3], [0.2, 0.8], [1, 0]], atol=1e-12)


def lattice(size):
    """A grid of binary variables, whose junction tree is wider than any table."""
    edges = [((i, j), (i + 1, j)) for i in range(size - 1) for j in range(size)]
    edges += [((i, j), (i, j + 1)) for i in range(size) for j in range(size - 1)]
    graph = as_graph(edges, states={(i, j): 2 for i in range(size) for j in range(size)})
    rng = np.random.default_rng(0)
    tables = {
        graph.names[v]: rng.dirichlet([1, 1], size=[2] * len(above))
        for v, above in enumerate(graph.parents())
    }
    return graph, tables


def test_evidence_cuts_a_graph_that_is_too_wide_as_a_whole():
    graph, tables = lattice(30)
    with pytest.raises(PlanError):
        TabularModel(graph, tables)
    answers = TableAnswers(graph, tables)
    row = answers.sample(1, 0)
    codes = row.copy()
    gone = [graph.index(name) for name in [(7, 7), (7, 8), (20, 3)]]
    codes[:, gone] = -1
    found = answers.joint([graph.names[v] for v in gone], codes)[0]
    logs = np.empty((2, 2, 2))
    for state in np.ndindex(2, 2, 2):
        full = row.copy()
        full[:, gone] = state
        logs[state] = answers.log_evidence(full)[0]
    expected = np.exp(logs - logs.max())
    np.testing.assert_allclose(found, expected / expected.sum(), atol=1e-12)
    with pytest.raises(PlanError, match=r"an exact answer needs a table over .* Give evidence"):
        answers.log_evidence({(29, 29): 1})
    assert answers.query((0, 0)).shape == (2,)  # nothing below it matters


def test_variables_that_are_too_wide_together_are_asked_in_turn(monkeypatch):
    """Roots with a child for every pair: the children together tie all roots, one ties two."""
    rng = np.random.default_rng(0)
    pairs = [(a, b) for b in range(7) for a in range(b)]
    edges = [(f"r{a}", f"c{a}{b}") for a, b in pairs] + [(f"r{b}", f"c{a}{b}") for a, b in pairs]
    cpts = {f"r{a}": rng.dirichlet([1, 1]) for a in range(7)}
    cpts |= {f"c{a}{b}": rng.dirichlet([1, 1], size=(2, 2)) for a, b in pairs}
    model = TabularModel(edges, cpts)
    answers = TableAnswers(model.graph, model.cpts)
    monkeypatch.setattr(active_tree, "LARGEST_CLIQUE", 2**5)
    codes = np.full((2, len(model.names)), -1)
    for name, table in model.posteriors(codes).items():
        np.testing.assert_allclose(answers.posteriors(codes)[name], table, atol=1e-12)
    codes[:, [model.names.index(f"c{a}{b}") for a, b in pairs]] = 0
    with pytest.raises(PlanError, match="an exact answer needs a table over"):
        answers.posteriors(codes)


def test_pieces_are_what_hangs_together():
    graph = as_graph("a->b->c->d->e; f->c", states=dict.fromkeys("abcdef", 2))
    number = graph.index
    cut = cut_graph(graph, {number("b"), number("d")})
    assert [sorted(graph.names[v] for v in p.families) for p in cut.pieces] == [
        ["b", "c"],
        ["d", "e"],
    ]
    assert sorted(graph.names[v] for v in cut.closed) == ["a", "f"]
    given = {cut.pieces[0].graph.names[k] for k in cut.pieces[0].given}
    assert given == {"a", "f"}
    tied = cut_graph(graph, {number("b"), number("d")}, together=[(number("a"), number("e"))])
    assert [len(p.families) for p in tied.pieces] == [2, 3]
    assert with_ancestors(graph.parents(), [number("c")]) == {number(x) for x in "abcf"}


def test_patterns_are_split_until_they_fit():
    rng = np.random.default_rng(0)
    seen = rng.random((300, 6)) < 0.7
    patterns, which, counts = patterns_of(seen)
    assert (patterns[which] == seen).all()
    assert counts.sum() == 300

    def fits(some, rows):
        return bool((~some).any(axis=0).sum() <= 3)

    groups = group_patterns(patterns, counts, fits)
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(patterns)))
    assert all(len(g) == 1 or fits(patterns[g], 0) for g in groups)
    assert len(groups) < len(patterns)
    apart = group_patterns(
        patterns, counts, lambda some, rows: rows == counts[counts < 20].sum(), alone=20
    )
    assert sum(len(g) == 1 and counts[g[0]] >= 20 for g in apart) == (counts >= 20).sum()


@pytest.mark.parametrize("kind", DIRECTED)
def test_marginals_without_evidence_equal_the_whole_tree(kind):
    """From the top down where every variable has one parent at most, else by the wiring."""
    for seed in range(3):
        model, answers, rng = drawn(kind, seed)
        some = list(rng.permutation(model.names)[:2])
        for variables in (None, some):
            expected = model.posteriors(None, variables)
            found = answers.posteriors(None, variables)
            assert list(found) == list(expected)
            for name, table in expected.items():
                np.testing.assert_allclose(found[name], table, rtol=0, atol=1e-12)
