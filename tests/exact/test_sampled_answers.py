"""Answers by drawing a cutset, against exact ones."""

import numpy as np
import pytest

from latentia.errors import EvidenceError, PlanError
from latentia.exact import active_tree, estep_wiring, sampled_answers
from latentia.exact.sampled_answers import find_cutset, started_chains
from latentia.exact.table_answers import TableAnswers
from latentia.structure.graph import LatentGraph


def grid(side, rng, states=3, sharp=1.0):
    """Each node below its neighbours to the left and above: wide without evidence."""
    number = {(i, j): i * side + j for i in range(side) for j in range(side)}
    edges = [(number[i, j], number[i + 1, j]) for i, j in number if i + 1 < side]
    edges += [(number[i, j], number[i, j + 1]) for i, j in number if j + 1 < side]
    names = tuple(f"v{k}" for k in range(side * side))
    graph = LatentGraph(names, tuple(sorted(edges)), frozenset(), (states,) * (side * side))
    tables = {
        names[v]: rng.dirichlet(np.full(states, sharp), size=[states] * len(above))
        for v, above in enumerate(graph.parents())
    }
    return TableAnswers(graph, tables)


@pytest.fixture
def narrow_only(monkeypatch):
    """Exact answers are refused early, so that they can be had for comparison without it."""

    def refuse():
        monkeypatch.setattr(active_tree, "LARGEST_CLIQUE", 3**4)
        monkeypatch.setattr(sampled_answers, "NARROW", 3**3)
        estep_wiring._compiled.cache_clear()
        answer_wiring_cache()

    def answer_wiring_cache():
        from latentia.exact import answer_wiring

        answer_wiring._wire.cache_clear()

    yield refuse
    estep_wiring._compiled.cache_clear()
    answer_wiring_cache()


def test_within_their_standard_errors(narrow_only):
    rng = np.random.default_rng(0)
    model = grid(5, rng)
    rows = model.sample(6, rng)
    codes = model.evidence(rows)
    codes[:, rng.permutation(25)[:22]] = -1
    names = ["v12", "v24", "v0"]
    exact = {x: model.joint(x, codes) for x in names}
    pair = model.joint(["v6", "v18"], codes[:2])
    narrow_only()
    with pytest.raises(PlanError, match=r"approximate=True"):
        model.joint("v24", np.full((1, 25), -1))
    scores = []
    for x in names:
        found = model.sampled(x, codes, rng=1)
        np.testing.assert_allclose(found.table.sum(axis=1), 1.0, atol=1e-12)
        drawn = found.error > 0
        scores += ((found.table - exact[x])[drawn] / found.error[drawn]).tolist()
        np.testing.assert_allclose(found.table[~drawn], exact[x][~drawn], atol=1e-12)
    assert len(scores) > 10
    # standard errors from 16 chains: Student's t of 15 degrees, of some 18 cells
    assert np.abs(scores).max() < 5
    assert np.sqrt(np.mean(np.square(scores))) < 1.6
    found = model.sampled(["v6", "v18"], codes[:2], rng=1)
    assert (np.abs(found.table - pair) <= 5 * found.error + 1e-12).all()
    again = model.sampled(["v6", "v18"], codes[:2], rng=1)
    np.testing.assert_array_equal(found.table, again.table)


def test_exact_where_it_can_be():
    rng = np.random.default_rng(1)
    model = grid(3, rng)
    found = model.sampled("v8", {"v0": 1})
    np.testing.assert_array_equal(found.table, model.joint("v8", {"v0": 1}))
    assert found.cutset == 0
    assert not found.error.any()


def test_cutsets_leave_nothing_wide_and_nothing_that_is_asked_for():
    rng = np.random.default_rng(2)
    model = grid(6, rng, states=2)
    cut = find_cutset(model.graph, frozenset({3}), frozenset({35}), narrow=2**4)
    assert cut
    assert 35 not in cut
    assert 3 not in cut
    assert find_cutset(model.graph, frozenset({3, *cut}), frozenset({35}), narrow=2**4) == []
    with pytest.raises(PlanError, match="too many"):
        find_cutset(model.graph, frozenset(), frozenset(range(36)), narrow=2)


def test_impossible_evidence_is_said():
    model = TableAnswers("a->b", {"a": [1.0, 0.0], "b": [[1.0, 0.0], [0.0, 1.0]]})
    with pytest.raises(EvidenceError, match="agrees with the evidence"):
        started_chains(
            model.graph, model.tables, np.array([[-1, 1]]), [0], np.random.default_rng(0)
        )
