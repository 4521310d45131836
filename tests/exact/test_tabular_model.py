"""TabularModel against enumeration, forward-backward, pyAgrum, and questions it must refuse."""

import copy
import dataclasses
import gzip
import hashlib
import importlib.util
import math
import os
import pickle
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from latentia.errors import DataError, EvidenceError, PlanError, UnknownNameError
from latentia.exact import shafer_shenoy
from latentia.exact.table_answers import TableAnswers
from latentia.exact.tabular_model import TabularModel
from latentia.structure.reading_graphs import as_graph
from latentia.testing.random_models import KINDS, brute_force_full, random_graph, random_model

NETWORKS = {"asia": 8, "alarm": 37, "child": 20, "insurance": 27}  # number of variables
SEEDS = 23  # per kind: 9 kinds, 207 models


def rows_of_evidence(model, rng, rows=6):
    """Possible codes (rows + 2, variables): nothing seen, all seen, random cells; latents too."""
    codes = model.sample(rows + 2, rng, latents=True)
    seen = rng.random(codes.shape) < rng.random((rows + 2, 1))
    seen[0], seen[1] = False, True
    return np.where(seen, codes, -1)


def restricted(full, codes, soft=None):
    """The joint table with all cells that contradict one row of evidence set to nothing."""
    index = tuple(slice(None) if c < 0 else slice(c, c + 1) for c in codes)
    table = full[index]
    for axis, likelihood in (soft or {}).items():
        shape = [-1 if k == axis else 1 for k in range(full.ndim)]
        table = table * np.asarray(likelihood)[index[axis]].reshape(shape)
    return table


def marginal(table, codes, axes, states):
    """P(axes | …), axes as asked, observed ones certain."""
    summed = table.sum(axis=tuple(k for k in range(table.ndim) if k not in axes))
    wide = np.zeros([states[k] for k in sorted(axes)])
    wide[
        tuple(slice(None) if codes[k] < 0 else slice(codes[k], codes[k] + 1) for k in sorted(axes))
    ] = summed / summed.sum()
    return wide.transpose([sorted(axes).index(k) for k in axes])


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("kind", KINDS)
def test_equals_enumeration(kind, seed):
    rng = np.random.default_rng([seed, list(KINDS).index(kind)])
    model = random_model(random_graph(rng, kind), rng)
    full, states, n = brute_force_full(model), model.states, len(model.names)
    codes = rows_of_evidence(model, rng)
    soft = {
        v: rng.random((len(codes), states[v])) for v in rng.choice(n, 2, replace=False).tolist()
    }
    asked = rng.choice(n, min(n, int(rng.integers(1, 4))), replace=False).tolist()
    named = {model.names[v]: x for v, x in soft.items()}
    for given in ({}, named):
        found = model.posteriors(codes, soft=given)
        log_evidence = model.log_evidence(codes, soft=given)
        joint = model.joint([model.names[v] for v in asked], codes, soft=given)
        for row, code in enumerate(codes):
            table = restricted(full, code, {v: x[row] for v, x in soft.items()} if given else None)
            assert log_evidence[row] == pytest.approx(math.log(table.sum()), abs=1e-12, rel=1e-12)
            for v, name in enumerate(model.names):
                expected = marginal(table, code, [v], states)
                np.testing.assert_allclose(found[name][row], expected, rtol=0, atol=1e-12)
            expected = marginal(table, code, asked, states)
            np.testing.assert_allclose(joint[row], expected, rtol=0, atol=1e-12)


# --- the four networks ----------------------------------------------------------------------------


def read_bif(text):
    """{variable: number of states}, {variable: (parents, CPT)} of a file in the BIF format."""
    labels = {
        name: [label.strip() for label in found.split(",")]
        for name, found in re.findall(r"variable\s+(\S+)\s*\{[^{]*\{([^}]*)\}", text)
    }
    tables = {}
    for head, body in re.findall(r"probability\s*\(([^)]*)\)\s*\{([^}]*)\}", text):
        child, *parents = (name.strip() for name in re.split(r"[|,]", head))
        table = np.full([len(labels[name]) for name in (*parents, child)], np.nan)
        for given, numbers in re.findall(r"(?:table|\(([^)]*)\))([^;]*);", body):
            states = [s.strip() for s in given.split(",")] if given else []
            index = tuple(labels[p].index(s) for p, s in zip(parents, states, strict=True))
            table[index] = [float(x) for x in numbers.split(",")]
        tables[child] = (parents, table / table.sum(axis=-1, keepdims=True))
    return {name: len(found) for name, found in labels.items()}, tables


def network_text(network):
    """The file as pgmpy's wheel carries it (pgmpy itself is not imported)."""
    spec = importlib.util.find_spec("pgmpy")
    if spec is None:
        pytest.skip("needs the networks' BIF files, which come with pgmpy: pip install pgmpy")
    (folder,) = spec.submodule_search_locations
    path = Path(folder) / "utils" / "example_models" / f"{network}.bif.gz"
    if not path.exists():
        pytest.skip(f"this version of pgmpy has no {path}; pgmpy 1.1.2 has")
    return gzip.decompress(path.read_bytes()).decode()


def as_pyagrum(gum, states, tables):
    bn = gum.BayesNet()
    for name, count in states.items():
        bn.add(gum.LabelizedVariable(name, "", count))
    for name, (parents, _) in tables.items():
        for parent in parents:
            bn.addArc(parent, name)
    for name, (parents, table) in tables.items():
        for index in np.ndindex(table.shape[:-1]):
            if parents:
                bn.cpt(name)[dict(zip(parents, index, strict=True))] = table[index].tolist()
            else:
                bn.cpt(name).fillWith(table.tolist())
    return bn


def as_tabular(states, tables):
    cpts = {name: table for name, (_, table) in tables.items()}
    return TabularModel({name: tables[name][0] for name in states}, cpts)


@pytest.mark.parametrize("kind", ["whole tree", "conditioned"])
@pytest.mark.parametrize("network", NETWORKS)
def test_equals_pyagrum(network, kind):
    gum = pytest.importorskip("pyagrum", reason="needs the oracle: pip install pyagrum")
    states, tables = read_bif(network_text(network))
    assert len(states) == len(tables) == NETWORKS[network]
    model, bn = as_tabular(states, tables), as_pyagrum(gum, states, tables)
    if kind == "conditioned":
        model = TableAnswers(model.graph, model.cpts)
    rng = np.random.default_rng(NETWORKS[network])
    codes = rows_of_evidence(model, rng, rows=48)
    found, log_evidence = model.posteriors(codes), model.log_evidence(codes)
    assert len(codes) == 50
    for row, code in enumerate(codes):
        evidence = {name: int(c) for name, c in zip(states, code, strict=True) if c >= 0}
        oracle = gum.LazyPropagation(bn)
        oracle.setEvidence(evidence)
        oracle.makeInference()
        assert log_evidence[row] == pytest.approx(math.log(oracle.evidenceProbability()), abs=1e-9)
        for name in states:
            expected = oracle.posterior(name).toarray()
            np.testing.assert_allclose(found[name][row], expected, rtol=0, atol=1e-9)


# --- long, wide and extreme -----------------------------------------------------------------------


def forward_backward(start, step, emit, seen):
    """Plain scaled forward-backward of a hidden Markov chain; `seen` are the symbols."""
    length, scale = len(seen), np.zeros(len(seen))
    alpha, beta = np.zeros((length, len(start))), np.ones((length, len(start)))
    for t in range(length):
        prior = start if t == 0 else alpha[t - 1] @ step[t - 1]
        alpha[t] = prior * emit[t][:, seen[t]]
        scale[t] = alpha[t].sum()
        alpha[t] /= scale[t]
    for t in range(length - 2, -1, -1):
        beta[t] = step[t] @ (emit[t + 1][:, seen[t + 1]] * beta[t + 1]) / scale[t + 1]
    return alpha * beta, np.log(scale).sum()


def test_chain_of_a_thousand_latents():
    rng, length = np.random.default_rng(0), 1000
    start = rng.dirichlet(np.ones(3))
    step = rng.dirichlet(np.full(3, 0.5), size=(length - 1, 3))
    emit = rng.dirichlet(np.full(4, 0.5), size=(length, 3))
    edges = [(f"h{t}", f"h{t + 1}") for t in range(length - 1)]
    edges += [(f"h{t}", f"x{t}") for t in range(length)]
    cpts = {f"h{t + 1}": step[t] for t in range(length - 1)} | {"h0": start}
    cpts |= {f"x{t}": emit[t] for t in range(length)}
    begin = time.process_time()
    model = TabularModel(edges, cpts, latents=[f"h{t}" for t in range(length)])
    codes = model.sample(3, rng)
    found, log_evidence = (
        model.posteriors(model.evidence(codes)),
        model.log_evidence(model.evidence(codes)),
    )
    assert time.process_time() - begin < 20
    for row, seen in enumerate(codes):
        expected, log_expected = forward_backward(start, step, emit, seen)
        got = np.array([found[f"h{t}"][row] for t in range(length)])
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-11)
        assert log_evidence[row] == pytest.approx(log_expected, rel=1e-12)
    ends = model.joint(["h0", f"h{length - 1}"])[0]
    assert ends.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(ends.sum(axis=1), start, atol=1e-12)


def test_contradictory_floods_of_evidence_do_not_underflow():
    # 600 columns say 0 and 600 say 1, each 1000 times likelier: plain products are 0 both ways
    rng, columns = np.random.default_rng(1), 1200
    prior, emit = np.array([0.3, 0.7]), np.array([[0.999, 0.001], [0.001, 0.999]])
    cpts = {"h": prior} | {f"x{k}": emit for k in range(columns)}
    model = TabularModel([("h", f"x{k}") for k in range(columns)], cpts, latents=["h"])
    codes = rng.permutation(np.arange(columns) % 2)[None]
    posterior = model.posteriors(model.evidence(codes), variables="h")["h"]
    np.testing.assert_allclose(posterior[0], prior, rtol=0, atol=1e-9)
    expected = columns / 2 * (math.log(0.999) + math.log(0.001))
    assert model.log_evidence(model.evidence(codes))[0] == pytest.approx(expected, rel=1e-12)


def test_contradiction_across_a_separator_does_not_underflow():
    # h and k are equal for sure; 1e-900 for 0 on one side, 1e-900 for 1 on the other
    names = [f"x{t}" for t in range(6)]
    edges = [("h", "k"), *(("h" if t < 3 else "k", name) for t, name in enumerate(names))]
    tiny = np.array([[1.0, 1e-300], [1e-300, 1.0]])
    cpts = {"h": [0.3, 0.7], "k": np.eye(2)}
    cpts |= {name: tiny if t < 3 else tiny[::-1] for t, name in enumerate(names)}
    model = TabularModel(edges, cpts, latents=["h", "k"])
    evidence = dict.fromkeys(names, 0)
    for name in "hk":
        np.testing.assert_allclose(model.query(name, evidence), [0.3, 0.7], atol=1e-12)
    assert model.log_evidence(evidence)[0] == pytest.approx(-900 * math.log(10), rel=1e-12)


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_the_scale_of_potentials_does_not_matter(scale):
    rng = np.random.default_rng(2)
    model = random_model(random_graph(rng, "undirected"), rng)
    scaled = TabularModel(model.graph, {key: x / x.max() * scale for key, x in model.cpts.items()})
    codes = rows_of_evidence(model, rng)
    np.testing.assert_allclose(scaled.log_evidence(codes), model.log_evidence(codes), atol=1e-10)
    for name, expected in model.posteriors(codes).items():
        np.testing.assert_allclose(scaled.posteriors(codes)[name], expected, atol=1e-12)


@pytest.mark.parametrize("order", ["min_fill", "min_weight", "min_neighbours"])
def test_blocks_and_orders_change_nothing(monkeypatch, order):
    rng = np.random.default_rng(3)
    model = random_model(random_graph(rng, "loop"), rng)
    codes = rows_of_evidence(model, rng, rows=30)
    other = TabularModel(model.graph, model.cpts, order=order)
    expected, log_expected = model.posteriors(codes), model.log_evidence(codes)
    monkeypatch.setattr(shafer_shenoy, "BLOCK", 1)
    np.testing.assert_allclose(other.log_evidence(codes), log_expected, atol=1e-12)
    for name, found in other.posteriors(codes.astype(np.int8)).items():
        np.testing.assert_allclose(found, expected[name], atol=1e-12)
    name = model.names[0]
    likelihoods = rng.random((len(codes), model.states[0]))
    whole = model.log_evidence(codes, soft={name: likelihoods})
    one_by_one = [
        model.log_evidence(c[None], soft={name: x})[0]
        for c, x in zip(codes, likelihoods, strict=True)
    ]
    np.testing.assert_allclose(whole, one_by_one, atol=1e-12)


# --- corners --------------------------------------------------------------------------------------


def test_one_variable():
    model = TabularModel([("x",)], {"x": [0.25, 0.75]})
    np.testing.assert_allclose(model.joint_table("x"), [0.25, 0.75])
    np.testing.assert_allclose(model.log_evidence({"x": 0}), [math.log(0.25)])
    assert model.sample(5, 0).shape == (5, 1)


def test_barren_latents_can_be_asked():
    flip = [[0.9, 0.1], [0.2, 0.8]]
    model = TabularModel(
        "h->x; h->barren", {"h": [0.5, 0.5], "x": flip, "barren": flip}, ["h", "barren"]
    )
    h = np.array([0.1, 0.8]) / 0.9
    np.testing.assert_allclose(model.query("barren", {"x": 1}), h @ flip, atol=1e-15)


def test_rows_none_one_and_many():
    model = TabularModel("h->x", {"h": [0.5, 0.5], "x": [[0.9, 0.1], [0.2, 0.8]]}, ["h"])
    assert model.log_evidence().shape == (1,)
    assert model.log_evidence(np.zeros((0, 2), dtype=int)).shape == (0,)
    assert model.posteriors(np.zeros((0, 2), dtype=int))["h"].shape == (0, 2)
    assert model.posteriors(np.full((3, 2), -1))["x"].shape == (3, 2)
    assert model.joint(["x", "h"], soft={"x": np.ones((4, 2))}).shape == (4, 2, 2)
    assert model.posteriors({"x": -1}, variables=["h"]).keys() == {"h"}
    np.testing.assert_array_equal(model.query("x", {"x": 1}), [0, 1])  # observed: certain


def test_labels_may_be_tuples_and_numbers():
    edges = [(("h", 1), 7), (("h", 1), 8)]
    flip = [[0.9, 0.1], [0.2, 0.8]]
    model = TabularModel(edges, {("h", 1): [0.5, 0.5], 7: flip, 8: flip}, latents=[("h", 1)])
    assert model.joint([("h", 1), 8]).shape == (1, 2, 2)
    np.testing.assert_allclose(model.query(("h", 1)), [0.5, 0.5])
    flat = {("a", 1): [1.0, 3.0], (("a", 1), "b"): [[1.0, 2.0], [3.0, 4.0]]}
    pair = TabularModel(as_graph("b--c", states={"c": 2}), {"b": [1.0, 1.0]})
    np.testing.assert_allclose(pair.joint_table(["b", "c"]), np.full((2, 2), 0.25))
    import networkx as nx

    tied = TabularModel(nx.Graph([(("a", 1), "b")]), flat)
    np.testing.assert_allclose(tied.query(("a", 1)), np.array([3, 21]) / 24)


def test_parents_come_in_the_order_given():
    # a was named first, but the edge b->x is written first
    x = np.zeros((3, 2, 2))  # (b, a, x)
    x[..., 0] = [[0.1, 0.4], [0.2, 0.5], [0.3, 0.6]]
    x[..., 1] = 1 - x[..., 0]
    model = TabularModel(
        [("a",), ("b", "x"), ("a", "x")], {"a": [0.5, 0.5], "b": [0.2, 0.3, 0.5], "x": x}
    )
    assert model.query("x", {"a": 1, "b": 2})[0] == pytest.approx(0.6)


def test_rounded_tables_are_normalised():
    model = TabularModel([("x",)], {"x": [1 / 3 + 3e-9, 1 / 3, 1 / 3]})
    assert model.cpts["x"].sum() == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize("kind", ["tree", "undirected", "inside"])
def test_is_a_value(kind):
    rng = np.random.default_rng(4)
    model = random_model(random_graph(rng, kind), rng)
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert twin.graph == model.graph
        assert all(np.array_equal(twin.cpts[key], table) for key, table in model.cpts.items())
        np.testing.assert_array_equal(
            twin.sample(50, 7, latents=True), model.sample(50, 7, latents=True)
        )
        assert not any(table.flags.writeable for table in twin.cpts.values())
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.order = "min_weight"
    with pytest.raises(ValueError, match="read-only"):
        next(iter(model.cpts.values()))[...] = 0


def test_the_callers_arrays_stay_theirs():
    table = np.array([0.5, 0.5])
    model = TabularModel([("x",)], {"x": table})
    table[:] = [1.0, 0.0]
    np.testing.assert_array_equal(model.joint_table("x"), [0.5, 0.5])


def test_prints_on_one_screen():
    rng = np.random.default_rng(5)
    text = repr(random_model(random_graph(rng, "diamond"), rng))
    assert "4 observables, 4 latents, directed" in text
    assert "(A[3])->(B[3])" in text
    assert "27 joint states" in text
    long = {f"x{t}": [0.5, 0.5] if t == 0 else np.full((2, 2), 0.5) for t in range(500)}
    chain = TabularModel([(f"x{t}", f"x{t + 1}") for t in range(499)], long)
    assert len(repr(chain)) < 1000


# --- sampling -------------------------------------------------------------------------------------


@pytest.mark.parametrize("latents", [False, True])
@pytest.mark.parametrize("kind", ["diamond", "inside", "forest", "clique4", "undirected"])
def test_samples_follow_the_model(kind, latents):
    rng = np.random.default_rng(6)
    model, n = random_model(random_graph(rng, kind), rng), 100_000
    codes = model.sample(n, rng, latents=latents)
    columns = range(len(model.names)) if latents else model.graph.observed
    assert codes.shape == (n, len(columns))
    for i, a in enumerate(columns):
        for j, b in list(enumerate(columns))[:i]:
            expected = model.joint_table([model.names[a], model.names[b]]).ravel()
            flat = codes[:, i] * model.states[b] + codes[:, j]
            counts = np.bincount(flat, minlength=expected.size)
            common = n * expected > 10
            error = np.sqrt(n * expected * (1 - expected))
            assert (np.abs(counts - n * expected) <= 6 * error)[common].all()
            assert counts[~common].sum() <= 6 * (1 + math.sqrt(n * expected[~common].sum())) ** 2


def test_impossible_states_are_never_drawn():
    model = TabularModel("x->y", {"x": [0, 1, 0], "y": [[1, 0], [0.5, 0.5], [0, 1]]})
    assert set(model.sample(1000, 0)[:, 0]) == {1}
    tied = TabularModel("a--b", {("a", "b"): [[0, 2, 0], [0, 0, 5]]})
    assert {tuple(row) for row in tied.sample(1000, 0).tolist()} == {(0, 1), (1, 2)}


def test_sampling_is_reproducible():
    rng = np.random.default_rng(8)
    model = random_model(random_graph(rng, "tree"), rng)
    np.testing.assert_array_equal(model.sample(20, 3), model.sample(20, np.random.default_rng(3)))
    assert model.sample(0, 3).shape == (0, len(model.graph.observed))


SCRIPT = """
import hashlib, numpy as np
from latentia.testing.random_models import KINDS, random_graph, random_model
for kind in KINDS:
    rng = np.random.default_rng(11)
    model = random_model(random_graph(rng, kind), rng)
    codes = model.sample(20, rng, latents=True)
    codes[:, ::2] = -1
    digest = hashlib.sha256(repr(model).encode() + repr(model.network.cliques).encode())
    for name, found in model.posteriors(codes).items():
        digest.update(repr(name).encode() + found.tobytes())
    digest.update(model.joint_table([model.names[0], model.names[-1]]).tobytes())
    print(kind, digest.hexdigest())
"""


def test_same_on_every_run():
    printed = set()
    for seed in ("0", "1", "42"):
        paths = os.pathsep.join(p for p in sys.path if p)
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths}
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True
        )
        assert run.returncode == 0, run.stderr
        printed.add(hashlib.sha256(run.stdout.encode()).hexdigest())
    assert len(printed) == 1


# --- refusals -------------------------------------------------------------------------------------

HALF, FLIP = [0.5, 0.5], [[0.9, 0.1], [0.2, 0.8]]


@pytest.mark.parametrize(
    ("graph", "cpts", "error", "message"),
    [
        ("h->x", [HALF, FLIP], DataError, "expected tables as"),
        ("h->x", {"h": HALF}, DataError, r"none for \['x'\]"),
        ("h->x", {"h": HALF, "x": FLIP, "y": HALF}, UnknownNameError, "'y' is unknown"),
        ("h->x", {"h": HALF, "x": HALF}, DataError, r"expected 2 axes .* \['h', 'x'\]"),
        ("h->x", {"h": HALF, "x": [["a", "b"]]}, DataError, "array of numbers"),
        ("h->x", {"h": HALF, "x": [[1, 0], [1]]}, DataError, "array of numbers"),
        ("h->x", {"h": [1.5, -0.5], "x": FLIP}, DataError, "finite numbers of 0 or more"),
        ("h->x", {"h": [np.nan, 1], "x": FLIP}, DataError, "finite numbers"),
        ("h->x", {"h": [np.inf, 1], "x": FLIP}, DataError, "finite numbers"),
        ("h->x", {"h": [0, 0], "x": FLIP}, DataError, "not all 0"),
        ("h->x", {"h": [0.5, 0.5001], "x": FLIP}, DataError, "sum to 1"),
        ("h->x", {"h": HALF, "x": np.transpose(FLIP)}, DataError, "sum to 1"),
        ("h->x", {"h": [0.2, 0.3, 0.5], "x": FLIP}, DataError, "'h' has 3 states"),
        ("h[3]->x", {"h": HALF, "x": FLIP}, DataError, "'h' has 3 states"),
        ("a--b", {("a", "c"): FLIP}, UnknownNameError, "'c' is unknown"),
        ("a--b", {"c": HALF}, UnknownNameError, "'c' is unknown"),
        ("a--b; b--c", {("a", "c"): FLIP}, DataError, "must form a clique"),
        ("a--b", {("a", "a"): FLIP}, DataError, "must form a clique"),
        ("a--b", {(): 1.0}, DataError, "must form a clique"),
        ("a--b", {("a",): HALF, "a": HALF}, DataError, "given twice"),
        ("a--b", {"a": HALF}, DataError, "states of 'b' is unknown"),
        ("a--b", {("a", "b"): np.zeros((2, 2))}, DataError, "not all 0"),
        ("a--b", {"a": [1, 0], ("a", "b"): [[0, 0], [1, 1]]}, DataError, "contradict each other"),
        ("a--b", {("a", "b"): FLIP, "b": [1, 1, 1]}, DataError, "'b' has 2 states"),
    ],
)
def test_wrong_tables_are_refused(graph, cpts, error, message):
    with pytest.raises(error, match=message):
        TabularModel(graph, cpts)


def test_unknown_order_is_refused():
    with pytest.raises(UnknownNameError, match="min_fill"):
        TabularModel("h->x", {"h": HALF, "x": FLIP}, order="best")


def test_too_large_cliques_are_refused():
    names = [f"v{k}" for k in range(20)]
    edges = [f"{a}--{b}" for k, a in enumerate(names) for b in names[:k]]
    graph = as_graph(edges, states=dict.fromkeys(names, 4))
    with pytest.raises(PlanError, match=f"{4**20:,} joint states.*order=.*fewer states"):
        TabularModel(graph, {})
    lonely = TabularModel([(name,) for name in names], {name: [0.25] * 4 for name in names})
    with pytest.raises(PlanError, match=r"20 variables .* fewer variables together"):
        lonely.joint(names)
    many = TabularModel([(k,) for k in range(40)], {k: [1.0] for k in range(40)})
    with pytest.raises(PlanError, match="40 variables"):
        many.joint(range(40))


def test_wrong_evidence_is_refused():
    model = TabularModel("h->x", {"h": HALF, "x": FLIP}, latents=["h"])
    refusals = [
        ({"y": 0}, None, UnknownNameError, "'y' is unknown"),
        (None, {"y": HALF}, UnknownNameError, "'y' is unknown"),
        ({"x": "a"}, None, EvidenceError, "code of a state of 'x'"),
        ({"x": 0.5}, None, EvidenceError, "code of a state of 'x'"),
        ({"x": 2}, None, EvidenceError, "states 0 to 1, got 2 in row 0"),
        ([[0, 0], [0, -2]], None, EvidenceError, "'x' has states 0 to 1, got -2 in row 1"),
        ([[0]], None, EvidenceError, r"shape \(rows, 2\).*latents too"),
        ([0, 0], None, EvidenceError, r"shape \(rows, 2\)"),
        (np.zeros((1, 2)), None, EvidenceError, "whole numbers"),
        (None, {"x": [1, 1, 1]}, EvidenceError, "soft evidence on 'x'"),
        (None, {"x": [-1, 1]}, EvidenceError, "soft evidence on 'x'"),
        (None, {"x": [np.nan, 1]}, EvidenceError, "soft evidence on 'x'"),
        (None, {"x": "ab"}, EvidenceError, "soft evidence on 'x'"),
        (None, {"x": np.ones((2, 2, 2))}, EvidenceError, "soft evidence on 'x'"),
        ([[0, 0]] * 3, {"x": np.ones((2, 2))}, EvidenceError, "rows of soft evidence"),
    ]
    for evidence, soft, error, message in refusals:
        with pytest.raises(error, match=message):
            model.log_evidence(evidence, soft=soft)


def test_wrong_questions_are_refused():
    model = TabularModel("h->x", {"h": HALF, "x": FLIP}, latents=["h"])
    for variables, error in [
        ("y", UnknownNameError),
        (["x", "y"], UnknownNameError),
        (3, UnknownNameError),
        ([], EvidenceError),
        (["x", "x"], EvidenceError),
    ]:
        with pytest.raises(error):
            model.joint(variables)
    with pytest.raises(EvidenceError, match="one row of evidence, got 2"):
        model.query("h", [[0, 0], [0, 1]])
    with pytest.raises(EvidenceError, match="one column for each observable"):
        model.evidence([[0, 0]])
    with pytest.raises(EvidenceError, match="got 5 in row 0"):
        model.evidence([[5]])
    with pytest.raises(DataError, match="0 or more, got -1"):
        model.sample(-1)


def test_impossible_evidence():
    model = TabularModel("h->x; h->y", {"h": HALF, "x": np.eye(2), "y": np.eye(2)}, latents=["h"])
    codes = np.array([[-1, 0, 0], [-1, 1, 0], [-1, 0, 1]])
    np.testing.assert_array_equal(model.log_evidence(codes), [math.log(0.5), -np.inf, -np.inf])
    with pytest.raises(EvidenceError, match=r"row 1 .*2 such rows"):
        model.posteriors(codes)
    with pytest.raises(EvidenceError, match="row 0"):
        model.joint(["h", "x"], codes[1:])
    np.testing.assert_array_equal(model.log_evidence(soft={"x": [0, 0]}), [-np.inf])
    with pytest.raises(EvidenceError, match="row 0"):
        model.query("h", soft={"x": [0, 0]})
