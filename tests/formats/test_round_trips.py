"""What was written is read again: every cell, name, parent in its order, and latent."""

import gzip
import math
from pathlib import Path

import numpy as np
import pytest
from tests.exact.test_tabular_model import read_bif as read_slowly
from tests.formats.samples import (
    ENDINGS,
    LARGE,
    NETWORKS,
    check_same,
    network_file,
    odd_model,
    plain_model,
)

import latentia as lt
from latentia.errors import FormatError, PlanError, UnknownNameError


@pytest.mark.parametrize("network", [n for n in NETWORKS if n not in LARGE])
def test_networks_are_read_as_they_are_written(network: str, tmp_path: Path) -> None:
    """Against a reader of a few lines of regular expressions, and through all formats."""
    path = network_file(network)
    model = lt.read(path)
    states, tables = read_slowly(gzip.decompress(path.read_bytes()).decode())
    assert list(model.names) == list(states)
    cpts = model.cpts
    for name, above in zip(model.names, model.graph.parents(), strict=True):
        parents, table = tables[name]
        assert [model.names[p] for p in above] == parents
        np.testing.assert_allclose(cpts[name], table, rtol=0, atol=1e-15)
    for ending in ENDINGS:
        lt.write(model, tmp_path / f"x.{ending}")
        check_same(lt.read(tmp_path / f"x.{ending}"), model)


@pytest.mark.slow
@pytest.mark.parametrize("network", sorted(LARGE))
def test_large_networks_round_trip(network: str, tmp_path: Path) -> None:
    model = lt.read(network_file(network))
    for ending in ENDINGS:
        lt.write(model, tmp_path / f"x.{ending}")
        check_same(lt.read(tmp_path / f"x.{ending}"), model)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("make", [odd_model, plain_model])
def test_odd_names_latents_and_orders_round_trip(ending: str, make, tmp_path: Path) -> None:
    model, path = make(), tmp_path / f"x.{ending}"
    assert model.graph.latent
    lt.write(model, path)
    again = lt.read(path)
    check_same(again, model)
    assert again.names == tuple(map(str, model.names))
    assert lt.read(path, graph_only=True) == again.graph
    lt.write(again, tmp_path / f"y.{ending}")
    assert (tmp_path / f"y.{ending}").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("ending", ["dot", "graphml", "gv"])
@pytest.mark.parametrize("kind", ["diamond", "undirected", "odd"])
def test_graphs_round_trip(ending: str, kind: str, tmp_path: Path) -> None:
    model = odd_model() if kind == "odd" else plain_model(kind)
    for source in (model, model.graph):
        lt.write(source, tmp_path / f"x.{ending}")
        assert lt.read(tmp_path / f"x.{ending}") == model.graph


def test_undirected_models_go_to_uai(tmp_path: Path) -> None:
    model = plain_model("undirected")
    lt.write(model, tmp_path / "x.uai")
    again = lt.read(tmp_path / "x.uai")
    assert again.graph == model.graph
    codes = model.sample(20, 0, latents=True)
    np.testing.assert_allclose(again.log_evidence(codes), model.log_evidence(codes), atol=1e-12)
    for ending in set(ENDINGS) - {"uai"}:
        with pytest.raises(FormatError, match=r"undirected one\. Write \.uai"):
            lt.write(model, tmp_path / f"x.{ending}")


def test_a_learned_model_is_written_with_its_latents(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    hidden = rng.integers(2, size=500)
    frame = {
        name: np.where(rng.random(500) < 0.8, hidden, 1 - hidden).astype(str) for name in "abc"
    }
    model = lt.LatentModel("H->a,b,c", {"H": 2}, lt.EM(restarts=1, random_state=0)).fit(frame)
    for ending in ENDINGS:
        lt.write(model, tmp_path / f"x.{ending}")
        again = lt.read(tmp_path / f"x.{ending}")
        assert again.graph.latent == {again.graph.index("H")}
        for name, table in model.cpts_.items():
            np.testing.assert_array_equal(again.cpts[name], table)
        found = again.query("a", {"b": "1", "c": "0"})
        expected = model.query("a", {"b": "1", "c": "0"})
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    frame["x"] = rng.normal(size=500)
    mixed = lt.LatentModel("H->a,b,c,x", {"H": 2}, lt.EM(restarts=1, random_state=0)).fit(frame)
    with pytest.raises(FormatError, match=r"continuous columns \['x'\]"):
        lt.write(mixed, tmp_path / "x.bif")


@pytest.mark.parametrize("graph", ["H->a,b,c", "H->a,b,c; a->b"])
@pytest.mark.parametrize("learner", ["pbp", "em"])
def test_own_tables_are_written_however_they_answer(
    graph: str, learner: str, tmp_path: Path
) -> None:
    """Beside the winner, or by themselves."""
    rng = np.random.default_rng(0)
    hidden = rng.integers(2, size=500)
    frame = {
        name: np.where(rng.random(500) < 0.8, hidden, 1 - hidden).astype(str) for name in "abc"
    }
    model = lt.LatentModel(graph, {"H": 2}, learner=learner).fit(frame)
    lt.write(model, tmp_path / "x.bif")
    again = lt.read(tmp_path / "x.bif")
    assert set(again.cpts) == {*"abcH"}
    for name, table in model.cpts_.items():
        np.testing.assert_array_equal(again.cpts[name], table)


def test_latents_are_added_to_those_of_the_file(tmp_path: Path) -> None:
    lt.write(odd_model(), tmp_path / "x.bif")
    both = lt.read(tmp_path / "x.bif", latents=["x"])
    assert {both.names[v] for v in both.graph.latent} == {"größe", "x"}
    with pytest.raises(UnknownNameError, match="latent 'q' is unknown"):
        lt.read(tmp_path / "x.bif", latents=["q"])


def test_the_order_that_keeps_cliques_small_is_found() -> None:
    """munin1 is too large for min_fill, link for min_weight."""
    assert lt.read(network_file("munin1")).order == "min_weight"
    with pytest.raises(PlanError, match="order="):
        lt.read(network_file("munin1"), order="min_fill")


def test_rounded_rows_are_normalised_if_asked(tmp_path: Path) -> None:
    text = (
        "variable a { type discrete [ 3 ] { x, y, z }; }\nprobability ( a ) {\n table .33 .33 .33;}"
    )
    path = tmp_path / "x.bif"
    path.write_text(text)
    with pytest.raises(FormatError, match=r"line 2: .*sum to 1, got 0\.99\. .*normalize=True"):
        lt.read(path)
    np.testing.assert_allclose(lt.read(path, normalize=True).cpts["a"], np.full(3, 1 / 3))


def test_names_that_a_file_cannot_hold_are_refused(tmp_path: Path) -> None:
    flat = {1: [0.5, 0.5], "1": [0.5, 0.5]}
    with pytest.raises(FormatError, match="variables that differ in print"):
        lt.write(lt.TabularModel([(1,), ("1",)], flat), tmp_path / "x.bif")
    quoted = lt.TabularModel([('a"b',)], {'a"b': [0.5, 0.5]})
    for ending in ("bif", "net"):
        with pytest.raises(FormatError, match=r"cannot hold quotes.*xmlbif"):
            lt.write(quoted, tmp_path / f"x.{ending}")
    lt.write(quoted, tmp_path / "x.xmlbif")
    check_same(lt.read(tmp_path / "x.xmlbif"), quoted)
    control = lt.TabularModel([("a\x1b",)], {"a\x1b": [0.5, 0.5]})
    with pytest.raises(FormatError, match="not printed"):
        lt.write(control, tmp_path / "x.xmlbif")
    assert not (tmp_path / "x.bif").exists()


def test_endings_and_formats(tmp_path: Path) -> None:
    model = plain_model()
    lt.write(model, tmp_path / "x.data", format="net")
    check_same(lt.read(tmp_path / "x.data", format="net"), model)
    for name in ("x.data", "x"):
        with pytest.raises(FormatError, match=r"ends with one of \.bif.*format=.*lt\.load"):
            lt.read(tmp_path / name)
    with pytest.raises(UnknownNameError, match="format 'hugin' is unknown"):
        lt.read(tmp_path / "x.data", format="hugin")
    with pytest.raises(FormatError, match=r"Leave out \.gz"):
        lt.write(model, tmp_path / "x.bif.gz")
    with pytest.raises(FormatError, match=r"a graph without any\. Write \.dot"):
        lt.write(model.graph, tmp_path / "x.bif")
    with pytest.raises(FormatError, match="a TabularModel or a LatentModel, got dict"):
        lt.write({}, tmp_path / "x.bif")
    with pytest.raises(FileNotFoundError):
        lt.read(tmp_path / "none.bif")


def test_an_xml_file_says_itself_what_it_is(tmp_path: Path) -> None:
    model = plain_model()
    for ending in ("xmlbif", "xdsl", "graphml"):
        lt.write(model, tmp_path / "x.xml", format=ending)
        again = lt.read(tmp_path / "x.xml")
        if ending == "graphml":
            assert again == model.graph
        else:
            check_same(again, model)


def test_many_digits_survive(tmp_path: Path) -> None:
    tiny = [1e-300, 1 / 3, 1 - 1e-300 - 1 / 3]
    model = lt.TabularModel([("a",)], {"a": tiny})
    for ending in ENDINGS:
        lt.write(model, tmp_path / f"x.{ending}")
        assert math.log(lt.read(tmp_path / f"x.{ending}").cpts["a"][0]) == math.log(1e-300)


ASIA_XDSL = """<?xml version="1.0" encoding="UTF-8"?>
<smile version="1.0" id="part_of_asia" numsamples="1000" discsamples="10000">
  <nodes>
    <cpt id="either"><state id="no"/><state id="yes"/><probabilities>0.9 0.1</probabilities></cpt>
    <cpt id="bronc"><state id="no"/><state id="yes"/><probabilities>0.6 0.4</probabilities></cpt>
    <cpt id="dysp"><state id="no"/><state id="yes"/><parents>either bronc</parents>
      <probabilities>0.9 0.1 0.2 0.8 0.3 0.7 0.1 0.9</probabilities></cpt>
  </nodes>
</smile>
"""
ASIA_UAI = """BAYES
3
2 2 2
3
1 0
1 1
3 0 1 2
2 0.9 0.1
2 0.6 0.4
8 0.9 0.1 0.2 0.8 0.3 0.7 0.1 0.9
"""


@pytest.mark.parametrize(
    ("ending", "text"), [("xdsl", ASIA_XDSL), ("uai", ASIA_UAI)], ids=["xdsl", "uai"]
)
def test_the_first_parent_is_the_slowest(ending: str, text: str, tmp_path: Path) -> None:
    """Dyspnoea as Lauritzen and Spiegelhalter have it, in the order in which GeNIe saves it.

    SMILE's manual: the first parent is the most significant coordinate. UAI's format: the last
    variable of a scope changes fastest. Bronchitis alone gives .8, the other cause alone .7.
    """
    path = tmp_path / f"asia.{ending}"
    path.write_text(text)
    model = lt.read(path)
    either, bronc, dysp = model.names
    yes = "yes" if ending == "xdsl" else "1"
    no = "no" if ending == "xdsl" else "0"
    for first, second, expected in [(no, yes, 0.8), (yes, no, 0.7), (yes, yes, 0.9)]:
        assert model.query(dysp, {either: first, bronc: second})[yes] == pytest.approx(expected)
    lt.write(model, tmp_path / f"again.{ending}")
    again = lt.read(tmp_path / f"again.{ending}")
    np.testing.assert_allclose(again.cpts[dysp], model.cpts[dysp])
