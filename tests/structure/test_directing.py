"""Arrows that say of independence what undirected edges say."""

import warnings

import numpy as np
import pytest

import latentia as lt
from latentia.structure.directing import directed_alike
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loop = lt.LatentModel("A--x; B--x; A--y; B--y; A--z; B--w", {"A": 2, "B": 2}).fit(rows)
    with pytest.raises(lt.errors.EvidenceError, match="latent"):
        loop.query("A")
