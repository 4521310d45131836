"""Tables that are learned, known, smoothed, started from or kept in files: axes in one order."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import latentia as lt
from latentia.data.rows import Rows
from latentia.errors import MomentsError
from latentia.exact.estep import sum_counts
from latentia.exact.estep_wiring import compile_estep
from latentia.store.file import HEAD
from latentia.testing.random_models import expected_counts, random_graph, random_model

GRAPH = {"A": [], "B": [], "C": ["B", "A"], "x": ["C", "A", "B"]}  # all with two states:
FORMULA = "a,b,bac,cabd->abcd"  # another order of axes would fit, and be wrong


def make_tables(rng):
    return {
        child: rng.dirichlet([1.0, 1.0], size=[2] * len(above)) for child, above in GRAPH.items()
    }


def draw(cpts, n=4000):
    joint = np.einsum(FORMULA, *(cpts[v] for v in GRAPH))
    codes = np.random.default_rng(1).choice(16, n, p=joint.ravel())
    return pd.DataFrame(dict(zip(GRAPH, np.unravel_index(codes, (2,) * 4), strict=True)))


def shares(rows, child, smoothing=0.0):
    """P(child | parents), axes as GRAPH has them, by counting."""
    counts = np.zeros([2] * (len(GRAPH[child]) + 1)) + smoothing
    np.add.at(counts, tuple(rows[[*GRAPH[child], child]].to_numpy().T), 1.0)
    return counts / counts.sum(axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def cpts():
    return make_tables(np.random.default_rng(5))


@pytest.fixture(scope="module")
def rows(cpts):
    return draw(cpts)


def turned(graph, rng):
    """The same graph with the parents of every variable in a random order."""
    return replace(graph, edges=tuple(graph.edges[i] for i in rng.permutation(len(graph.edges))))


@pytest.mark.parametrize("kind", ["inside", "loop", "clique4"])
def test_expected_counts_against_enumeration(kind):
    rng = np.random.default_rng(2)
    unsorted = 0
    for _ in range(6):
        graph = random_graph(rng, kind, observed_limit=2000, joint_limit=20_000)
        if not graph.directed or not graph.edges:
            continue
        graph = turned(graph, rng)
        unsorted += graph.edges != tuple(sorted(graph.edges))
        model = random_model(graph, rng)
        codes = model.sample(12, rng)
        codes = np.where(rng.random(codes.shape) < 0.2, -1, codes)
        tables = {scope[-1]: table for scope, table in model.tables.items()}
        found = sum_counts(compile_estep(graph), tables, Rows(tuple(codes.T))).sums
        wanted, level = expected_counts(graph, model, codes.T)
        assert abs(found["log_likelihood"][0] - level) < 1e-9
        for v, table in wanted.items():
            np.testing.assert_allclose(found[f"counts/{v}"], table, rtol=0, atol=1e-10)
    assert unsorted


def test_counts_of_graphs_with_other_orders_do_not_add(cpts, rows):
    graphs = [lt.as_graph(g, states=dict.fromkeys(GRAPH, 2)) for g in (GRAPH, ascending())]
    block = Rows(tuple(rows.to_numpy().T))
    one, two = (
        sum_counts(compile_estep(g), {v: np.full([2] * len(f), 0.5) for v, f in families(g)}, block)
        for g in graphs
    )
    with pytest.raises(MomentsError):
        one + two


def families(graph):
    return [(v, (*above, v)) for v, above in enumerate(graph.parents())]


def ascending():
    return {child: sorted(above) for child, above in GRAPH.items()}


def test_learned_tables_are_shares_in_the_order_given(rows):
    model = lt.LatentModel(GRAPH, learner="em").fit(rows)
    for child in GRAPH:
        np.testing.assert_allclose(model.cpts_[child], shares(rows, child), rtol=0, atol=1e-9)


def test_known_tables_are_read_in_the_order_given(cpts, rows):
    """All but one table known: the answers are those of a model with these tables."""
    known = {"C": cpts["C"], "x": cpts["x"]}
    model = lt.LatentModel(GRAPH, learner=lt.EM(known=known)).fit(rows)
    exact = lt.TabularModel(
        GRAPH, {"A": shares(rows, "A"), "B": shares(rows, "B"), "C": cpts["C"], "x": cpts["x"]}
    )
    for evidence in ({"x": 1}, {"x": 0, "A": 1}, {"C": 1, "B": 0, "A": 1}):
        asked = next(v for v in "BCAx" if v not in evidence)
        found = np.asarray(model.query(asked, evidence))
        np.testing.assert_allclose(found, np.asarray(exact.query(asked, evidence)), atol=1e-9)
    for child in ("C", "x"):
        np.testing.assert_allclose(model.cpts_[child], cpts[child], rtol=0, atol=1e-12)


def test_the_default_learner_takes_known_tables_in_the_order_given(cpts, rows):
    known = {"C": cpts["C"], "x": cpts["x"]}
    model = lt.LatentModel(GRAPH, learner=lt.PBP(known=known)).fit(rows)
    np.testing.assert_allclose(model.cpts_["x"], cpts["x"], rtol=0, atol=1e-12)
    for a, b, c in np.ndindex(2, 2, 2):
        found = np.asarray(model.query("x", {"A": a, "B": b, "C": c}))
        np.testing.assert_allclose(found, cpts["x"][c, a, b], rtol=0, atol=1e-6)


def test_pseudo_counts_are_read_in_the_order_given(rows):
    rng = np.random.default_rng(8)
    pseudo = {child: rng.gamma(1.0, 2000.0, size=[2] * (1 + len(GRAPH[child]))) for child in "Cx"}
    model = lt.LatentModel(GRAPH, learner=lt.EM(smoothing=pseudo)).fit(rows)
    for child in "Cx":
        wanted = shares(rows, child, pseudo[child])
        np.testing.assert_allclose(model.cpts_[child], wanted, rtol=0, atol=1e-9)


def test_a_start_is_read_in_the_order_given(cpts, rows):
    """From the truth with A hidden: the likelihood before any iteration is that of the truth."""
    hidden = rows.drop(columns="A")
    learner = lt.EM(init=cpts, max_iter=1)
    with pytest.warns(lt.errors.ConvergenceWarning):
        model = lt.LatentModel(GRAPH, {"A": 2}, learner=learner).fit(hidden)
    exact = lt.TabularModel(GRAPH, cpts, ["A"])
    level = exact.log_evidence(exact.evidence(hidden.to_numpy())).mean()
    assert abs(model.history_[0][0] - level) < 1e-9


def test_gaussian_leaves_have_their_parents_in_the_order_given():
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"a": rng.integers(2, size=3000), "b": rng.integers(2, size=3000)})
    means = np.array([[0.0, 3.0], [7.0, 20.0]])  # of (b, a)
    frame["y"] = means[frame.b, frame.a] + rng.normal(size=3000)
    frame["z"] = means[frame.b, frame.a] + rng.normal(size=3000)
    graph = {"a": [], "b": [], "y": ["b", "a"], "z": ["a", "b"]}
    kinds = {"a": "discrete", "b": "discrete", "y": "continuous", "z": "continuous"}
    model = lt.LatentModel(graph, learner="em", kinds=kinds).fit(frame)
    by_group = frame.groupby(["b", "a"])
    np.testing.assert_allclose(
        model.cpts_["y"].means[..., 0], by_group.y.mean().to_numpy().reshape(2, 2), atol=0.05
    )
    np.testing.assert_allclose(
        model.cpts_["z"].means[..., 0], by_group.z.mean().to_numpy().reshape(2, 2).T, atol=0.05
    )


def test_files_keep_the_order_and_say_so_by_their_version(rows, tmp_path):
    """A reader of before would take the axes in another order: it must refuse."""
    model = lt.LatentModel(GRAPH, learner="em").fit(rows)
    model.save(tmp_path / "m")
    loaded = lt.load(tmp_path / "m")
    assert loaded.plan_.graph == model.plan_.graph
    assert loaded.graph.parents() == lt.as_graph(GRAPH).parents()
    for child in GRAPH:
        np.testing.assert_array_equal(loaded.cpts_[child], model.cpts_[child])
    plain = lt.PBP(refine=False)
    lt.LatentModel(ascending(), learner=plain).fit(rows).save(tmp_path / "old")
    versions = [HEAD.unpack((tmp_path / n).read_bytes()[: HEAD.size])[1] for n in ("m", "old")]
    assert versions[0] == 5
    assert versions[1] <= 4
