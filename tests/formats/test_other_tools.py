"""Files and objects on both sides: the other library reads the same numbers, and answers alike."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.samples import LARGE, NETWORKS, check_same, network_file, odd_model, plain_model

import latentia as lt
from latentia.errors import DataError, FormatError, GraphError, MissingLibraryError

SINGLE = 1e-7  # pyAgrum's readers of BIF, NET and UAI keep single precision
quiet_pgmpy = pytest.mark.filterwarnings("ignore::FutureWarning")  # of pgmpy's own modules


def named_model() -> lt.TabularModel:
    """Two parents whose sizes differ, states with names that every tool can read."""
    rng = np.random.default_rng(1)
    states = {"b": ["u", "v", "w"], "a": ["x", "y"], "c": ["p", "q", "r"], "d": ["lo", "hi"]}
    parents = {"b": [], "a": [], "c": ["b", "a"], "d": ["c", "a", "b"]}
    cpts = {
        name: rng.dirichlet(np.ones(len(states[name])), [len(states[p]) for p in above])
        for name, above in parents.items()
    }
    return lt.TabularModel(parents, cpts, latents=["a"], state_names=states)


@pytest.fixture
def gum() -> Any:
    return pytest.importorskip("pyagrum", reason="needs the oracle: pip install pyagrum")


def check_answers(gum: Any, model: lt.TabularModel, bn: Any, within: float, rows: int = 3) -> None:
    """Posteriors of every variable given a third of the others."""
    rng = np.random.default_rng(2)
    codes = model.sample(rows, rng, latents=True)
    codes[rng.random(codes.shape) < 0.67] = -1
    found = model.posteriors(codes)
    for row, code in enumerate(codes):
        oracle = gum.LazyPropagation(bn)
        oracle.setEvidence(
            {str(n): int(c) for n, c in zip(model.names, code, strict=True) if c >= 0}
        )
        oracle.makeInference()
        for name in model.names:
            expected = oracle.posterior(str(name)).toarray()
            np.testing.assert_allclose(found[name][row], expected, rtol=0, atol=within)


# --- pyAgrum --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["bif", "bifxml", "net"])
def test_pyagrum_reads_what_we_write(gum: Any, ending: str, tmp_path: Path) -> None:
    model, path = named_model(), str(tmp_path / f"x.{ending}")
    lt.write(model, path)
    bn = gum.loadBN(path)
    assert {n: bn.variable(n).labels() for n in bn.names()} == dict(model.state_names)
    check_answers(gum, model, bn, SINGLE)


@pytest.mark.parametrize("ending", ["bif", "bifxml", "net", "xdsl", "uai"])
def test_we_read_what_pyagrum_writes(gum: Any, ending: str, tmp_path: Path) -> None:
    """Its XDSL and UAI name the parents backwards: known by its mark, and read as it means them."""
    model, path = named_model(), str(tmp_path / f"x.{ending}")
    bn = lt.to_pyagrum(model)
    gum.saveBN(bn, path)
    again = lt.read(path)
    if ending == "uai":
        called = dict(zip(again.names, bn.names(), strict=True))  # numbers in pyAgrum's order
        order = [bn.variable(k).name() for k in sorted(bn.nodes())]
        assert len(called) == len(order)
        tables = {order[int(n)]: (n, t) for n, t in again.cpts.items()}
    else:
        assert dict(again.state_names) == dict(model.state_names)
        tables = {n: (n, t) for n, t in again.cpts.items()}
        order = []
    for name, (own, table) in tables.items():
        above = [again.names[p] for p in again.graph.parents()[again.graph.index(own)]]
        above = [order[int(p)] for p in above] if order else above
        expected = model.graph.parents()[model.graph.index(name)]
        axes = [above.index(model.names[p]) for p in expected]
        turned = table.transpose([*axes, len(axes)])
        np.testing.assert_allclose(turned, model.cpts[name], rtol=0, atol=1e-6)  # its 6 digits


@pytest.mark.parametrize("network", [n for n in NETWORKS if n not in LARGE])
def test_answers_equal_pyagrums(gum: Any, network: str) -> None:
    """Tables in double precision through the object: answers to 1e-9."""
    model = lt.read(network_file(network))
    check_answers(gum, model, lt.to_pyagrum(model), 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("network", ["barley", "munin2", "munin3", "pathfinder"])
def test_answers_of_large_networks_equal_pyagrums(gum: Any, network: str) -> None:
    model = lt.read(network_file(network))
    check_answers(gum, model, lt.to_pyagrum(model), 1e-9, rows=1)


@pytest.mark.parametrize("make", [named_model, odd_model, plain_model])
def test_pyagrum_there_and_back(gum: Any, make: Any) -> None:
    model = make()
    bn = lt.to_pyagrum(model)
    check_answers(gum, model, bn, 1e-9)
    check_same(lt.from_pyagrum(bn), model)
    assert lt.as_graph(bn).edges == model.graph.edges


def test_latents_of_a_pyagrum_network_may_be_named(gum: Any) -> None:
    bn = gum.fastBN("a{x|y}->b[3]<-c")
    model = lt.from_pyagrum(bn, latents=["c"])
    assert model.graph.latent == {model.graph.index("c")}
    assert model.state_names["a"] == ("x", "y")
    check_answers(gum, model, bn, 1e-9)
    bn.setProperty("latents", "a, c")
    with pytest.raises(DataError, match="JSON list of names in the property 'latents'"):
        lt.from_pyagrum(bn)


def test_markov_random_fields_of_pyagrum(gum: Any) -> None:
    model = plain_model("undirected")
    field = lt.to_pyagrum(model)
    again = lt.from_pyagrum(field)
    assert again.graph.latent == model.graph.latent
    oracle = gum.ShaferShenoyMRFInference(field)
    oracle.makeInference()
    for name in model.names:
        expected = oracle.posterior(str(name)).toarray()
        np.testing.assert_allclose(model.query(name), expected, rtol=0, atol=1e-9)
        np.testing.assert_allclose(again.query(str(name)), expected, rtol=0, atol=1e-9)


# --- pgmpy ----------------------------------------------------------------------------------------

READERS = {"bif": "BIFReader", "xmlbif": "XMLBIFReader", "net": "NETReader", "xdsl": "XDSLReader"}
WRITERS = {
    "bif": ("BIFWriter", "write_bif"),
    "xmlbif": ("XMLBIFWriter", "write_xmlbif"),
    "net": ("NETWriter", "write_net"),
    "xdsl": ("XDSLWriter", "write_xdsl"),
}


def check_pgmpy_answers(model: lt.TabularModel, network: Any) -> None:
    from pgmpy.inference import VariableElimination

    engine = VariableElimination(network)
    first = model.names[0]
    for state in model.state_names.get(first, range(model.states[0])):
        for name in model.names[1:]:
            found = engine.query([name], evidence={first: state}, show_progress=False)
            ours = model.query(name, {first: state})
            for label in model.state_names.get(name, range(model.states[model.graph.index(name)])):
                assert found.get_value(**{name: label}) == pytest.approx(ours[label], abs=1e-9)


@quiet_pgmpy
@pytest.mark.parametrize("ending", READERS)
def test_pgmpy_reads_what_we_write(ending: str, tmp_path: Path) -> None:
    readers = pytest.importorskip("pgmpy.readwrite", reason="needs pgmpy")
    model, path = named_model(), str(tmp_path / f"x.{ending}")
    lt.write(model, path)
    network = getattr(readers, READERS[ending])(path).get_model()
    check_pgmpy_answers(model, network)


@quiet_pgmpy
@pytest.mark.parametrize("ending", WRITERS)
def test_we_read_what_pgmpy_writes(ending: str, tmp_path: Path) -> None:
    writers = pytest.importorskip("pgmpy.readwrite", reason="needs pgmpy")
    model, path = named_model(), str(tmp_path / f"x.{ending}")
    kind, method = WRITERS[ending]
    writer = getattr(writers, kind)(lt.to_pgmpy(model))
    getattr(writer, method)(path)
    digits = 1e-8 if ending == "net" else 1e-15  # numpy prints 8
    latents = None if ending == "net" else ["a"]  # only there pgmpy keeps them
    check_same(lt.read(path, latents=latents), model, cells=digits)


@quiet_pgmpy
@pytest.mark.parametrize("make", [named_model, odd_model, plain_model])
def test_pgmpy_there_and_back(make: Any) -> None:
    pytest.importorskip("pgmpy", reason="needs pgmpy")
    model = make()
    network = lt.to_pgmpy(model)
    assert network.check_model()
    assert network.latents == {model.names[v] for v in model.graph.latent}
    again = lt.from_pgmpy(network)
    assert again.state_names == model.state_names
    assert {str(n) for n in again.names} == {str(n) for n in model.names}
    for name, table in model.cpts.items():
        np.testing.assert_allclose(again.cpts[name], table, rtol=0, atol=1e-15)
    if make is named_model:
        check_pgmpy_answers(model, network)


@quiet_pgmpy
def test_states_of_a_parent_in_another_order() -> None:
    """The child's table lists the parent's states backwards: matched by name, as pgmpy does."""
    models = pytest.importorskip("pgmpy.models", reason="needs pgmpy")
    from pgmpy.factors.discrete import TabularCPD

    network = models.DiscreteBayesianNetwork([("a", "b")])
    names = {"a": ["yes", "no"], "b": ["p", "q"]}
    network.add_cpds(
        TabularCPD("a", 2, [[0.2], [0.8]], state_names={"a": ["no", "yes"]}),
        TabularCPD("b", 2, [[0.1, 0.7], [0.9, 0.3]], ["a"], [2], state_names=names),
    )
    model = lt.from_pgmpy(network)
    assert model.query("b", {"a": "yes"})["p"] == pytest.approx(0.1)
    assert model.query("b", {"a": "no"})["p"] == pytest.approx(0.7)
    network.get_cpds("b").state_names["a"] = ["yes", "maybe"]
    with pytest.raises(DataError, match="states of 'a'"):
        lt.from_pgmpy(network)


@quiet_pgmpy
def test_markov_networks_of_pgmpy() -> None:
    pytest.importorskip("pgmpy", reason="needs pgmpy")
    from pgmpy.inference import VariableElimination

    model = plain_model("undirected")
    network = lt.to_pgmpy(model)
    again = lt.from_pgmpy(network)
    assert {again.names[v] for v in again.graph.latent} == {
        model.names[v] for v in model.graph.latent
    }
    engine = VariableElimination(network)
    for name in model.names:
        expected = engine.query([name], show_progress=False).values
        expected = expected / expected.sum()  # pgmpy leaves them as they are
        np.testing.assert_allclose(model.query(name), expected, rtol=0, atol=1e-9)
        np.testing.assert_allclose(again.query(name), expected, rtol=0, atol=1e-9)


@quiet_pgmpy
def test_networks_without_tables_are_refused() -> None:
    models = pytest.importorskip("pgmpy.models", reason="needs pgmpy")
    with pytest.raises(DataError, match=r"TabularCPD for 'a', got NoneType.*as_graph"):
        lt.from_pgmpy(models.DiscreteBayesianNetwork([("a", "b")]))


# --- networkx and others --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["named", "odd", "diamond", "undirected"])
def test_networkx_there_and_back(kind: str) -> None:
    nx = pytest.importorskip("networkx", reason="needs networkx")
    model = {"named": named_model, "odd": odd_model}.get(kind, lambda: plain_model(kind))()
    network = lt.to_networkx(model)
    shuffled = nx.DiGraph() if model.graph.directed else nx.Graph()  # edges in another order
    shuffled.graph.update(network.graph)
    shuffled.add_nodes_from(network.nodes(data=True))
    shuffled.add_edges_from(sorted(network.edges, key=repr, reverse=True))
    for given in (network, shuffled):
        again = lt.from_networkx(given)
        assert again.graph == model.graph
        assert again.state_names == model.state_names
        codes = model.sample(10, 0, latents=True)
        np.testing.assert_allclose(again.log_evidence(codes), model.log_evidence(codes), atol=1e-12)
        assert lt.from_networkx(given, graph_only=True) == model.graph
    assert lt.from_networkx(lt.to_networkx(model.graph), graph_only=True) == model.graph


def test_attributes_that_contradict_the_graph_are_refused() -> None:
    nx = pytest.importorskip("networkx", reason="needs networkx")
    for attributes, message in [
        ({"parents": ["q"]}, "parents of 'b' are"),
        ({"states": "xy"}, "states of 'b' as a list"),
        ({"latent": "yes"}, "latent=True or False of 'b'"),
        ({"cpt": [0.5, 0.5]}, "expected 2 axes in the table of 'b', got 1"),
    ]:
        network = nx.DiGraph([("a", "b")])
        network.nodes["a"]["cpt"] = [0.5, 0.5]
        network.nodes["b"].update({"cpt": [[0.5, 0.5], [0.5, 0.5]], **attributes})
        with pytest.raises(DataError, match=message):
            lt.from_networkx(network)
    with pytest.raises(DataError, match=r"'cpt', of every node, got none of \['a', 'b'\]"):
        lt.from_networkx(nx.DiGraph([("a", "b")]))


def test_other_objects_are_refused() -> None:
    for read, library in [
        (lt.from_pgmpy, "pgmpy"),
        (lt.from_pyagrum, "pyAgrum"),
        (lt.from_networkx, "networkx"),
    ]:
        with pytest.raises(GraphError, match=f"of {library}, got dict"):
            read({"a": []})
    for write in (lt.to_pgmpy, lt.to_pyagrum, lt.to_networkx):
        with pytest.raises(FormatError, match="got dict"):
            write({})


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for write, library in [
        (lt.to_pgmpy, "pgmpy"),
        (lt.to_pyagrum, "pyagrum"),
        (lt.to_networkx, "networkx"),
    ]:
        for name in [n for n in sys.modules if n.split(".")[0] == library]:
            monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(MissingLibraryError, match=f"pip install {library}"):
            write(named_model())
