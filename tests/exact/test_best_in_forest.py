"""The most probable states of chains and trees by the kernel: against every joint state in turn."""

import itertools
import math

import numpy as np
import pytest

from latentia.exact import max_product
from latentia.exact.max_product import max_product_states
from latentia.exact.one_in_forest import one_in_forest
from latentia.exact.tabular_model import TabularModel
from latentia.native.loading import kernel
from latentia.structure.graph import LatentGraph

pytestmark = pytest.mark.skipif(kernel() is None, reason="no kernel was built")


def brute_force(graph, tables, row, weights, asked):
    """log P(evidence), the best log joint, and the first of the best in the order asked."""
    sizes, parents = graph.states, graph.parents()
    hidden = [v for v in range(len(sizes)) if row[v] < 0]
    shares = {}
    for states in itertools.product(*(range(sizes[v]) for v in hidden)):
        full = np.array(row)
        full[hidden] = states
        p = math.prod(tables[v][tuple(full[[*parents[v], v]])] for v in range(len(sizes)))
        p *= math.prod(x[full[v]] for v, x in weights.items())
        shares[tuple(full[asked])] = shares.get(tuple(full[asked]), 0.0) + p
    best = max(shares.values())
    first = min(states for states, p in shares.items() if p >= best * (1 - 1e-9))
    return math.fsum(shares.values()), best, first


def random_forest(rng, shape, coarse=False):
    """4 to 6 latents as a chain or a tree, each with a column, some numbers of states unequal."""
    count = int(rng.integers(4, 7))
    edges = [(t - 1 if shape == "chain" else int(rng.integers(t)), t) for t in range(1, count)]
    if shape == "forest":
        edges.pop(int(rng.integers(len(edges))))
    number = rng.permutation(2 * count)  # variables in any order, parents not before children
    edges = [(int(number[a]), int(number[b])) for a, b in edges]
    edges += [(int(number[t]), int(number[count + t])) for t in range(count)]
    states = tuple(rng.integers(1, 4, size=2 * count).tolist())
    latent = frozenset(number[:count].tolist())
    graph = LatentGraph(tuple(f"v{i}" for i in range(2 * count)), tuple(edges), latent, states)
    tables = {}
    for v, above in enumerate(graph.parents()):
        size = [*(states[u] for u in above), states[v]]
        table = rng.integers(0, 3, size=size).astype(float) if coarse else rng.random(size)
        table += 1e-30 if not coarse else (table.sum(axis=-1, keepdims=True) == 0)
        tables[v] = table / table.sum(axis=-1, keepdims=True)
    return graph, tables


@pytest.mark.parametrize("coarse", [False, True])  # coarse tables have ties and impossible rows
@pytest.mark.parametrize("shape", ["chain", "tree", "forest"])
def test_equals_every_joint_state_in_turn(shape, coarse, monkeypatch):
    quick = []
    plain = max_product.best_in_forest

    def counted(*args):
        quick.append(plain(*args) is not None)
        return plain(*args)

    monkeypatch.setattr(max_product, "best_in_forest", counted)
    impossible = 0
    for seed in range(40):
        rng = np.random.default_rng([seed, coarse, len(shape)])
        graph, tables = random_forest(rng, shape, coarse)
        row = np.full(len(graph.names), -1)
        for v in graph.observed:
            if rng.random() < 0.8:
                row[v] = rng.integers(graph.states[v])
        asked = [v for v in range(len(row)) if v in graph.latent]
        if seed % 3 == 0:
            rng.shuffle(asked)
        weights = {v: rng.random(graph.states[v]) for v in asked[: seed % 3]}
        found = max_product_states(graph, tables, row, weights, asked)
        total, best, first = brute_force(graph, tables, row, weights, asked)
        if total == 0:
            assert found.log_evidence == -math.inf
            impossible += 1
            continue
        assert found.log_evidence == pytest.approx(math.log(total), abs=1e-9)
        assert found.log_joint == pytest.approx(math.log(best), abs=1e-9)
        assert found.codes == first
    assert sum(quick) > 20  # the others met ties in an order that a forest does not settle
    assert impossible > 0 or not coarse


def test_columns_are_asked_for_beside_latents_and_loops_are_left_to_elimination():
    rng = np.random.default_rng(3)
    graph, tables = random_forest(rng, "tree")
    row, asked = np.full(len(graph.names), -1), list(range(len(graph.names)))
    found = max_product_states(graph, tables, row, {}, asked)
    total, best, first = brute_force(graph, tables, row, {}, asked)
    assert found.codes == first
    assert found.log_joint - found.log_evidence == pytest.approx(math.log(best / total), abs=1e-9)
    # a - b - c - a: pairs only, but a loop
    names, edges = ("a", "b", "c", "x"), ((0, 1), (1, 3), (2, 3), (0, 2))
    loop = LatentGraph(names, edges, frozenset({0, 1, 2}), (2, 3, 2, 2))
    shapes = {0: (2,), 1: (2, 3), 2: (2, 2), 3: (3, 2, 2)}
    tables = {v: (x := rng.random(s)) / x.sum(-1, keepdims=True) for v, s in shapes.items()}
    row = np.array([-1, -1, -1, 1])
    found = max_product_states(loop, tables, row, {}, [0, 1, 2])
    total, best, first = brute_force(loop, tables, row, {}, [0, 1, 2])
    assert found.codes == first
    assert found.log_evidence == pytest.approx(math.log(total), abs=1e-9)


def test_chains_of_thousands_do_not_underflow():
    states, length = 3, 3000
    names = (*(f"h{t}" for t in range(length)), "x")
    edges = (*((t, t + 1) for t in range(length - 1)), (length - 1, length))
    graph = LatentGraph(names, edges, frozenset(range(length)), (states,) * len(names))
    step = np.full((3, 3), 1e-5) + np.diag([1, 1, 1]) * (1 - 3e-5)
    tables = {0: np.array([1e-200, 0.5, 0.5])} | dict.fromkeys(range(1, length + 1), step)
    row = np.array([-1] * length + [0])
    found = max_product_states(graph, tables, row, {}, list(range(length)))
    # to end in 0 one change is paid for, as late as the first states ask for: 1 0 0 0 …
    assert found.codes == (1,) + (0,) * (length - 1)


@pytest.mark.parametrize("coarse", [False, True])  # coarse tables have impossible rows
@pytest.mark.parametrize("shape", ["chain", "tree", "forest"])
def test_one_variable_is_told_as_by_every_joint_state(shape, coarse):
    told = 0
    for seed in range(30):
        rng = np.random.default_rng([seed, coarse, len(shape), 1])
        graph, tables = random_forest(rng, shape, coarse)
        row = np.full(len(graph.names), -1)
        for v in graph.observed:
            if rng.random() < 0.7:
                row[v] = rng.integers(graph.states[v])
        hidden = np.flatnonzero(row < 0)
        asked = int(rng.choice(hidden))
        soft = [int(v) for v in rng.permutation(hidden)[: seed % 3]]
        weights = {v: rng.random(graph.states[v]) for v in soft}
        found = one_in_forest(graph, tables, row, weights, asked)
        total = brute_force(graph, tables, row, weights, [asked])[0]
        if total == 0:
            assert found is None  # the slow way says why
            continue
        shares, seen = [], row.copy()
        for state in range(graph.states[asked]):
            seen[asked] = state
            shares.append(brute_force(graph, tables, seen, weights, [asked])[0])
        np.testing.assert_allclose(found[0], np.array(shares) / total, rtol=0, atol=1e-12)
        assert found[1] == pytest.approx(math.log(total), abs=1e-10)
        told += 1
    assert told > 10


def test_queries_of_one_variable_are_the_same_without_a_kernel(monkeypatch):
    rng = np.random.default_rng(6)
    graph, tables = random_forest(rng, "tree")
    model = TabularModel(graph, {graph.names[v]: table for v, table in tables.items()})
    evidence = {graph.names[v]: int(rng.integers(graph.states[v])) for v in graph.observed[:3]}
    name = graph.names[min(graph.latent)]
    quick = model.query(name, evidence)
    monkeypatch.setenv("LATENTIA_KERNEL", "off")
    slow = model.query(name, evidence)
    np.testing.assert_allclose(quick.table, slow.table, rtol=0, atol=1e-12)
    assert quick.log_evidence == pytest.approx(slow.log_evidence, abs=1e-12)
    assert quick.evidence == slow.evidence
