"""Graphs of other libraries, and things that are none: read as they are meant, or refused."""

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import latentia as lt
from latentia.errors import DataError, GraphError
from latentia.exact.tabular_model import TabularModel
from latentia.structure.reading_graphs import as_graph


def edges_by_name(graph: Any) -> set[tuple[Any, Any]]:
    return {(graph.names[a], graph.names[b]) for a, b in graph.edges}


def parents_by_name(graph: Any) -> dict[Any, list[Any]]:
    return {
        graph.names[v]: [graph.names[u] for u in above] for v, above in enumerate(graph.parents())
    }


# --- pyAgrum --------------------------------------------------------------------------------------


@pytest.fixture
def gum() -> Any:
    return pytest.importorskip("pyagrum", reason="needs pyagrum")


def bayes_net(gum: Any) -> Any:
    bn = gum.BayesNet()
    for name in "cab":  # ids are in another order than the alphabet and than the arcs
        bn.add(gum.LabelizedVariable(name, "", 2))
    for arc in ("bc", "ac", "ab"):
        bn.addArc(*arc)
    gum.initRandom(3)
    bn.generateCPTs()
    return bn


def test_a_bayes_net_of_pyagrum_by_name(gum: Any) -> None:
    read = as_graph(bayes_net(gum), latents=["a"])
    assert read.names == ("c", "a", "b")
    assert edges_by_name(read) == {("b", "c"), ("a", "c"), ("a", "b")}
    assert read.directed
    assert read.latent == {1}


def test_tables_of_pyagrum_fit_the_order_of_parents(gum: Any) -> None:
    """Binary variables: another order would fit, and be wrong."""
    bn = bayes_net(gum)
    model = TabularModel(bn, {name: bn.cpt(name).toarray() for name in bn.names()})
    oracle = gum.LazyPropagation(bn)
    for evidence in ({"c": 1}, {"a": 0, "c": 0}, {"b": 1}):
        oracle.setEvidence(evidence)
        oracle.makeInference()
        for name in set("abc") - set(evidence):
            found = np.asarray(model.query(name, evidence))
            np.testing.assert_allclose(found, oracle.posterior(name).toarray(), atol=1e-12)


def test_other_graphs_of_pyagrum(gum: Any) -> None:
    field = as_graph(gum.fastMRF("a--b--c;c--d"))
    assert not field.directed
    assert {frozenset(edge) for edge in edges_by_name(field)} == {
        frozenset(pair)
        for pair in ("ab", "bc", "ac", "cd")  # a--b--c is one potential
    }
    dag = gum.DAG()
    dag.addNodes(3)
    dag.addArc(2, 0)
    assert (as_graph(dag).names, edges_by_name(as_graph(dag))) == ((0, 1, 2), {(2, 0)})
    ring = gum.UndiGraph()
    ring.addNodes(3)
    ring.addEdge(2, 1)
    assert (as_graph(ring).directed, as_graph(ring).edges) == (False, ((1, 2),))


def test_what_is_no_graph_of_variables_is_refused_by_name(gum: Any) -> None:
    bn = bayes_net(gum)
    for odd in (
        gum.fastID("a->*d->$u"),
        gum.EssentialGraph(bn),
        gum.JunctionTreeGenerator().junctionTree(bn),
        gum.LazyPropagation(bn),
        bn.cpt("c"),
    ):
        with pytest.raises(GraphError, match=f"{type(odd).__name__} of pyAgrum cannot be read"):
            as_graph(odd)


# --- pgmpy ----------------------------------------------------------------------------------------


@pytest.fixture
def models() -> Any:
    return pytest.importorskip("pgmpy.models", reason="needs pgmpy")


def test_a_network_of_pgmpy_with_its_latents(models: Any) -> None:
    network = models.DiscreteBayesianNetwork([("h", "y"), ("h", "x")], latents={"h"})
    network.add_node("alone")
    read = as_graph(network)
    assert read.names == ("h", "y", "x", "alone")
    assert (edges_by_name(read), read.latent) == ({("h", "y"), ("h", "x")}, {0})
    assert as_graph(network, latents={"h": 3}).states[0] == 3


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of pgmpy's own modules
def test_tables_of_pgmpy_fit_the_order_of_parents(models: Any) -> None:
    from pgmpy.factors.discrete import TabularCPD
    from pgmpy.inference import VariableElimination

    rng = np.random.default_rng(0)
    network = models.DiscreteBayesianNetwork([("a", "c"), ("b", "c")], latents={"a"})
    for name, parents in {"a": [], "b": [], "c": ["b", "a"]}.items():
        table = rng.dirichlet([1.0, 1.0], size=2 ** len(parents)).T
        network.add_cpds(
            TabularCPD(name, 2, table, evidence=parents or None, evidence_card=[2] * len(parents))
        )
    read = as_graph(network)
    assert parents_by_name(read)["c"] == ["b", "a"]  # as the axes of the table, not of the edges
    assert read.states == (2, None, None)  # that of the latent, which no column tells
    cpts = {cpd.variable: np.moveaxis(cpd.values, 0, -1) for cpd in network.get_cpds()}
    model = TabularModel(network, cpts)
    oracle = VariableElimination(network)
    for evidence in ({"c": 1}, {"c": 0, "b": 1}):
        found = np.asarray(model.query("a", evidence))
        expected = oracle.query(["a"], evidence, show_progress=False).values
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_undirected_networks_of_pgmpy(models: Any) -> None:
    read = as_graph(models.DiscreteMarkovNetwork([("a", "b"), ("b", "c")]))
    assert (read.directed, read.edges) == (False, ((0, 1), (1, 2)))


def test_nodes_that_are_no_variables_are_refused(models: Any) -> None:
    from pgmpy.base import PDAG

    network = models.DiscreteMarkovNetwork([("a", "b"), ("b", "c")])
    cliques = models.ClusterGraph([(("a", "b"), ("b", "c"))])
    steps = models.DynamicBayesianNetwork([(("a", 0), ("b", 0)), (("a", 0), ("a", 1))])
    half = PDAG(directed_ebunch=[("a", "b")], undirected_ebunch=[("b", "c")])
    for odd in (models.FactorGraph(), cliques, steps, half, models.MarkovChain()):
        with pytest.raises(GraphError, match=f"{type(odd).__name__} of pgmpy cannot be read"):
            as_graph(odd)
    assert as_graph(network).names == ("a", "b", "c")


# --- what only looks like a graph -----------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["alarm.bif", "net.XML", "g.json", "asia.net", "a.xdsl", "g.dot", "a/b/asia.bif.gz", " x.bif "],
)
def test_the_path_of_a_file_is_no_variable(path: str) -> None:
    for given in (path, Path(path)):
        with pytest.raises(GraphError, match="looks like the path of a file"):
            as_graph(given)


def test_a_file_that_is_there_is_no_variable(tmp_path: Path) -> None:
    file = tmp_path / "network.odd"
    file.write_text("a->b")
    with pytest.raises(GraphError, match="looks like the path of a file"):
        as_graph(str(file))


def test_names_with_dots_are_names() -> None:
    assert as_graph("income.net -> tax.xml").names == ("income.net", "tax.xml")
    assert as_graph("x.1").names == ("x.1",)
    assert as_graph([("alarm.bif",)]).names == ("alarm.bif",)
    assert as_graph(["income.net", "income.gross"]).names == ("income.net", "income.gross")


@pytest.mark.parametrize(
    "text", ["digraph { a -> b }", "a → b", "dag { x }", "network unknown {\n}", '{"a": 1}']
)
def test_text_of_other_languages_is_refused(text: str) -> None:
    with pytest.raises(GraphError, match="cannot read"):
        as_graph(text)


class Bag:
    """Something that can be iterated, as networks often can."""

    def __iter__(self) -> Any:
        return iter([(0, "a"), (1, "b")])


@pytest.mark.parametrize(
    "odd",
    [
        Bag(),
        pd.DataFrame(np.eye(2), columns=["a", "b"]),
        np.array([["a", "b"], ["b", "c"]]),
        np.eye(3),
        b"ab",
        object(),
        {"model": Bag()},
        {"model": pd.DataFrame({"a": [1]})},
    ],
    ids=lambda odd: type(odd).__name__,
)
def test_what_can_merely_be_iterated_is_refused(odd: Any) -> None:
    with pytest.raises(GraphError, match=r"expected a (graph as text|list of names)"):
        as_graph(odd)


def test_dicts_of_dicts_do_not_say_who_is_the_parent() -> None:
    graph = nx.DiGraph([("a", "b")])
    for odd in (graph.adj, graph.pred, {"a": {"b": {}}}):
        with pytest.raises(GraphError, match="parents or children"):
            as_graph(odd)


def test_views_of_networkx_are_lists_of_edges_and_of_nodes() -> None:
    graph = nx.DiGraph([("a", "b"), ("b", "c")])
    assert edges_by_name(as_graph(graph.edges)) == {("a", "b"), ("b", "c")}
    assert as_graph(graph.edges).edges == as_graph(graph).edges


@pytest.mark.parametrize("box", [np.array, pd.Index, pd.Series, tuple, iter])
def test_lists_of_names_come_in_many_boxes(box: Any) -> None:
    assert as_graph("h->x; k->x", latents=box(["h", "k"])).latent == {0, 2}
    assert parents_by_name(as_graph({"x": box(["k", "h"])}))["x"] == ["k", "h"]


def hidden_model() -> lt.TabularModel:
    cpts = {"h": [0.3, 0.3, 0.4], "x": [[0.5, 0.5]] * 3, "y": [[0.1, 0.9]] * 3}
    return lt.TabularModel("h->x; h->y", cpts, latents=["h"])


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of pgmpy's own modules
@pytest.mark.parametrize(
    ("library", "convert"),
    [
        ("networkx", lambda model: lt.to_networkx(model)),
        ("networkx", lambda model: lt.to_networkx(model.graph)),
        ("pgmpy", lambda model: lt.to_pgmpy(model)),
        ("pyagrum", lambda model: lt.to_pyagrum(model)),
        ("numpy", lambda model: model),
    ],
)
def test_latents_of_objects_come_along(library: str, convert: Any) -> None:
    """What `to_…` notes of latents, `as_graph` and LatentModel find."""
    pytest.importorskip(library, reason=f"needs {library}")
    read = lt.as_graph(convert(hidden_model()))
    hidden = [read.names[v] for v in sorted(read.latent)]
    assert (hidden, [read.states[v] for v in sorted(read.latent)]) == (["h"], [3])


def test_odd_notes_of_latents_are_refused(gum: Any) -> None:
    nx = pytest.importorskip("networkx", reason="needs networkx")
    network = nx.DiGraph([("h", "x")])
    network.nodes["h"]["latent"] = "yes"
    with pytest.raises(DataError, match="latent=True or False"):
        lt.as_graph(network)
    net = gum.fastBN("h->x")
    net.setProperty("latents", '["z"]')
    with pytest.raises(DataError, match="property 'latents'"):
        lt.as_graph(net)
