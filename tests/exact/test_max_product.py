"""The most probable states by elimination, against all joint states one by one."""

import math

import numpy as np
import pytest

from latentia.errors import PlanError
from latentia.exact import max_product
from latentia.exact.max_product import TIE, max_product_states
from latentia.exact.table_answers import TableAnswers
from latentia.exact.tabular_model import TabularModel
from latentia.structure.graph import LatentGraph
from latentia.testing.random_models import KINDS, random_graph, random_model

DIRECTED = [kind for kind in KINDS if kind != "undirected"]


def brute_force(model, row, weights, asked):
    """The first of the best joint states, and its log share: every joint state in turn."""
    soft = {model.names[v]: x for v, x in weights.items()}
    table = np.asarray(model.joint([model.names[v] for v in asked], row[None], soft)[0])
    with np.errstate(divide="ignore"):
        logs = np.log(table)
    first = np.flatnonzero(logs.ravel() >= logs.max() - 1e-9)[0]  # joint's rounding
    return np.unravel_index(first, table.shape), float(logs.max())


@pytest.mark.parametrize("narrow", [0, max_product.NARROW])  # both orders of what is asked
@pytest.mark.parametrize("kind", DIRECTED)
def test_equals_enumeration(monkeypatch, kind, narrow):
    monkeypatch.setattr(max_product, "NARROW", narrow)
    for seed in range(12):
        rng = np.random.default_rng([seed, DIRECTED.index(kind)])
        graph = random_graph(rng, kind)
        while not graph.directed:
            graph = random_graph(rng, kind)
        model = random_model(graph, rng)
        oracle = TabularModel(model.graph, model.cpts)
        answers = TableAnswers(model.graph, model.cpts)
        codes = model.sample(1, rng, latents=True)[0]
        order = rng.permutation(len(codes))
        few = int(rng.integers(1, min(5, len(codes)) + 1))
        asked, others = order[:few].tolist(), order[few:]
        row = np.full(len(codes), -1)
        seen = others[rng.random(len(others)) < 0.4]
        row[seen] = codes[seen]
        weights = (
            {int(v): rng.random(answers.states[v]) for v in others if v not in seen}
            if seed % 2
            else {}
        )
        found = max_product_states(answers.graph, answers.tables, row, weights, asked)
        expected, share = brute_force(oracle, row, weights, asked)
        assert found.log_joint - found.log_evidence == pytest.approx(share, abs=1e-9)
        told = oracle.log_evidence(row[None], {oracle.names[v]: x for v, x in weights.items()})
        assert found.log_evidence == pytest.approx(float(told[0]), abs=1e-9)
        assert found.codes == tuple(expected)  # random tables have no ties


def chain(length, states, rng, observed=True):
    """H0 -> H1 -> …, each with a column."""
    names = [f"H{t}" for t in range(length)] + [f"x{t}" for t in range(length)] * observed
    edges = [(t, t + 1) for t in range(length - 1)]
    edges += [(t, length + t) for t in range(length)] * observed
    graph = LatentGraph(
        tuple(names), tuple(edges), frozenset(range(length)), (states,) * len(names)
    )
    step, told = (rng.dirichlet(np.ones(states), states) for _ in range(2))
    tables = {0: rng.dirichlet(np.ones(states))} | dict.fromkeys(range(1, length), step)
    return graph, tables | {length + t: told for t in range(length)} if observed else tables


def viterbi(first, step, told, codes):
    """The textbook's."""
    score, back = np.log(first) + np.log(told[:, codes[0]]), []
    for code in codes[1:]:
        both = score[:, None] + np.log(step)
        back.append(both.argmax(axis=0))
        score = both.max(axis=0) + np.log(told[:, code])
    path = [int(score.argmax())]
    for best in reversed(back):
        path.append(int(best[path[-1]]))
    return path[::-1], float(score.max())


def test_a_long_chain_is_viterbi():
    rng = np.random.default_rng(0)
    graph, tables = chain(1000, 4, rng)
    codes = rng.integers(4, size=1000)
    row = np.concatenate([np.full(1000, -1), codes])
    found = max_product_states(graph, tables, row, {}, list(range(1000)))
    path, score = viterbi(tables[0], tables[1], tables[1000], codes)
    assert list(found.codes) == path
    assert found.log_joint == pytest.approx(score, rel=1e-12)
    shuffled = rng.permutation(1000).tolist()  # asked in an order that would be wide
    again = max_product_states(graph, tables, row, {}, shuffled)
    assert [again.codes[shuffled.index(t)] for t in range(1000)] == path


def test_ties_go_to_the_first_states_in_the_order_asked():
    graph = LatentGraph(("a", "b", "c"), ((0, 1), (1, 2)), frozenset(), (2, 2, 2))
    same, flip = np.full(2, 0.5), np.array([[0.1, 0.9], [0.9, 0.1]])
    tables = {0: same, 1: flip, 2: flip}
    row = np.full(3, -1)
    # 0 1 0 and 1 0 1 are equally probable
    assert max_product_states(graph, tables, row, {}, [0, 1, 2]).codes == (0, 1, 0)
    assert max_product_states(graph, tables, row, {}, [1, 0, 2]).codes == (0, 1, 1)
    assert max_product_states(graph, tables, row, {}, [2, 1, 0]).codes == (0, 1, 0)
    flat = {0: same, 1: np.full((2, 2), 0.5), 2: np.full((2, 2), 0.5 + TIE / 100)}
    assert max_product_states(graph, flat, row, {}, [2, 0, 1]).codes == (0, 0, 0)


def test_some_summed_out_is_not_the_same_as_all_asked():
    graph = LatentGraph(("a", "b"), ((0, 1),), frozenset({0}), (2, 3))
    tables = {0: np.array([0.55, 0.45]), 1: np.array([[0.34, 0.33, 0.33], [1.0, 0.0, 0.0]])}
    assert max_product_states(graph, tables, np.full(2, -1), {}, [0, 1]).codes == (1, 0)
    found = max_product_states(graph, tables, np.full(2, -1), {}, [0])
    assert found.codes == (0,)
    assert found.log_joint - found.log_evidence == pytest.approx(math.log(0.55))


def test_impossible_evidence_has_no_probability():
    graph = LatentGraph(("a", "b"), ((0, 1),), frozenset({0}), (2, 2))
    tables = {0: np.array([1.0, 0.0]), 1: np.eye(2)}
    found = max_product_states(graph, tables, np.array([-1, 1]), {}, [0])
    assert found.log_evidence == -math.inf


def test_what_is_too_wide_is_refused_at_once():
    # 30 causes, 15 of them of each symptom: a sum over most of their 2^30 states
    names = (*(f"c{i}" for i in range(30)), *(f"x{i}" for i in range(30)))
    edges = tuple((i, 30 + j) for i in range(30) for j in range(30) if (i - j) % 30 < 15)
    graph = LatentGraph(names, edges, frozenset(range(30)), (2,) * 60)
    tables = {i: np.full(2, 0.5) for i in range(30)}
    shape = (2,) * 15
    tables |= {30 + j: np.full((*shape, 2), 0.5) for j in range(30)}
    row = np.concatenate([np.full(30, -1), np.zeros(30, dtype=int)])
    with pytest.raises(PlanError, match=r"need a table of .* cells .*summed out"):
        max_product_states(graph, tables, row, {}, [0, 1])
