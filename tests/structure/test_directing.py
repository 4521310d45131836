"""Arrows that say of independence what undirected edges say."""

import numpy as np
import pytest

import latentia as lt
from latentia.exact.pieces import with_ancestors
from latentia.structure.directing import directed_alike, with_chords
from latentia.structure.reading_graphs import as_graph


def test_decomposable_graphs_have_arrows_from_latents_on():
    graph = as_graph("x--H; H--y; y--z; H--z", ["H"])
    found = directed_alike(graph)
    assert found is not None
    assert found.directed
    names = found.names
    assert {(names[a], names[b]) for a, b in found.edges} >= {("H", "x"), ("H", "y"), ("H", "z")}
    assert {frozenset(e) for e in found.edges} == {frozenset(e) for e in graph.edges}
    for above in found.parents():  # parents are tied: nothing becomes dependent that was not
        assert all((min(a, b), max(a, b)) in graph.edges for a in above for b in above if a != b)


def test_cycles_without_a_chord_have_none_and_arrows_stay():
    assert directed_alike(as_graph("a--b; b--c; c--d; a--d", [])) is None
    graph = as_graph("H->x; H->y", ["H"])
    assert directed_alike(graph) is graph


def test_latents_of_undirected_graphs_are_told_by_name():
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=2000)
    rows = {c: np.where(rng.random(2000) < 0.8, h, 1 - h) for c in "xyzw"}
    model = lt.LatentModel("H--x; H--y; H--z; H--w", {"H": 2}).fit(rows)
    found = np.asarray(model.predict(rows, "H"))
    assert max(np.mean(found == h), np.mean(found != h)) > 0.85
    assert model.query("H", {"x": 1}).table.sum() == pytest.approx(1.0)


def test_chords_make_every_graph_decomposable():
    rng = np.random.default_rng(1)
    for _ in range(20):
        pairs = [(a, b) for a in range(7) for b in range(a) if rng.random() < 0.4]
        graph = as_graph("; ".join(f"v{a}--v{b}" for a, b in pairs), [])
        more, chords = with_chords(graph)
        assert directed_alike(more) is not None
        assert {*more.edges} == {*graph.edges, *chords}
        assert (directed_alike(graph) is not None) == (not chords)
    square, (chord,) = with_chords(as_graph("a--b; b--c; c--d; a--d", []))
    assert len(square.edges) == 5
    assert chord in {(0, 2), (1, 3)}


def test_no_latent_is_left_below_columns_where_it_need_not_be():
    """Then rows would tell nothing of it: an order by most neighbours had D below X and A."""
    graph = as_graph(
        "C--Y; C--A; C--X; C--B; A--Y; A--D; A--X; A--B; X--D; X--Z; B--X; B--Z",
        ["A", "B", "C", "D"],
    )
    found = directed_alike(graph)
    assert found is not None
    assert set(range(len(found.names))) == with_ancestors(found.parents(), found.observed)


def test_latents_on_a_cycle_are_told_by_name():
    """Edges in a cycle have potentials, not tables: those of the graph with a chord tell them."""
    rng = np.random.default_rng(0)
    hidden = [rng.integers(2, size=2000)]
    for _ in range(3):
        hidden.append(np.where(rng.random(2000) < 0.8, hidden[-1], 1 - hidden[-1]))
    rows = {
        f"x{k}{c}": np.where(rng.random(2000) < 0.9, h, 1 - h)
        for k, h in enumerate(hidden)
        for c in "ab"
    }
    ring = [f"h{k}--h{(k + 1) % 4}" for k in range(4)]
    below = [f"h{x[1]}--{x}" for x in rows]
    latents = {f"h{k}": 2 for k in range(4)}
    model = lt.LatentModel("; ".join(ring + below), latents).fit(rows)
    for k, h in enumerate(hidden):
        found = np.asarray(model.predict(rows, f"h{k}"))
        assert max(np.mean(found == h), np.mean(found != h)) > 0.88  # two columns of .9 tell it
    table = np.asarray(model.query(["h0", "h1"], {"x3a": 1}).table)
    assert table.sum() == pytest.approx(1.0)
    best = model.map_query(["h0", "h1"], {"x3a": 1})
    assert np.log(table.max()) == pytest.approx(best.log_probability)
    assert any("chords were added" in line for line in model.diagnostics_.pieces)
