"""The E-step of many starts, against that of one."""

import numpy as np
import pytest

from latentia.data.rows import Rows
from latentia.exact.compiled_many import compiled_many
from latentia.exact.estep import pack_rows, packed_counts
from latentia.exact.estep_many import wire_many
from latentia.exact.estep_wiring import compile_estep
from latentia.native.loading import kernel
from latentia.networks.em_problem import counts_in
from latentia.structure.graph import LatentGraph


def drawn(rng, size, latents, density=0.4):
    edges = [(a, b) for b in range(size) for a in range(b) if rng.random() < density]
    states = tuple(int(k) for k in rng.integers(2, 5, size))
    hidden = frozenset(rng.choice(size, latents, replace=False).tolist())
    return LatentGraph(tuple(f"v{k}" for k in range(size)), tuple(edges), hidden, states)


def tables_of(graph, rng):
    return {
        v: rng.dirichlet(np.ones(graph.states[v]), size=[graph.states[u] for u in above])
        for v, above in enumerate(graph.parents())
    }


def flat_places(tables):
    places, start = {}, 0
    for v, t in tables.items():
        places[v] = start + np.arange(t.size).reshape(t.shape)
        start += t.size
    return places, start


def by_kernel(estep, rows, places, cells, starts):
    compiled = kernel()
    if compiled is None:
        pytest.skip("no kernel was built")
    return compiled_many(compiled, estep, rows, places, cells)


WIRED = pytest.mark.parametrize("wired", [wire_many, by_kernel])


def compare(wired, graph, rng, rows, holes, starts=3):
    estep = compile_estep(graph, holes)
    packed = pack_rows(estep, rows)
    many = [tables_of(graph, rng) for _ in range(starts)]
    places, cells = flat_places(many[0])
    X = np.stack([np.concatenate([t.ravel() for t in tables.values()]) for tables in many])
    counts, fits = wired(estep, packed, places, cells, starts)(X)
    for k, tables in enumerate(many):
        moments = packed_counts(estep, tables, packed)
        assert fits[k] == pytest.approx(float(moments.sums["log_likelihood"][0]), rel=1e-12)
        for v, n in counts_in(moments).items():
            np.testing.assert_allclose(counts[k][places[v]], n, atol=1e-9 * len(rows))


@WIRED
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_counts_and_log_likelihoods_are_those_of_each_start(seed, holes, wired):
    """Random graphs, one clique or several, with tables within and seen through columns."""
    rng = np.random.default_rng(seed)
    graph = drawn(rng, 8, 3 + seed % 2, 0.25 + 0.05 * (seed % 3))
    codes = [rng.integers(0, graph.states[v], 150).astype(np.int16) for v in graph.observed]
    codes = [np.where(rng.random(150) < holes, -1, c).astype(np.int16) for c in codes]
    rows = Rows(tuple(codes), rng.gamma(2.0, size=150))
    compare(wired, graph, rng, rows, graph.observed if holes else ())


@WIRED
def test_many_columns_are_rescaled(wired):
    rng = np.random.default_rng(3)
    leaves = 40
    graph = LatentGraph(
        tuple(f"v{k}" for k in range(leaves + 2)),
        ((0, 1), *((k % 2, k + 2) for k in range(leaves))),
        frozenset({0, 1}),
        (3, 4, *(5,) * leaves),
    )
    rows = Rows(tuple(rng.integers(0, 5, 60) for _ in range(leaves)))
    compare(wired, graph, rng, rows, ())


@WIRED
def test_too_small_numbers_are_left_to_care(wired):
    graph = LatentGraph(("h", "x"), ((0, 1),), frozenset({0}), (2, 2))
    estep = compile_estep(graph, ())
    rows = pack_rows(estep, Rows((np.array([0, 1]),)))
    tables = {0: np.array([0.5, 0.5]), 1: np.array([[1.0, 1e-250], [1.0, 1e-250]])}
    places, cells = flat_places(tables)
    X = np.concatenate([t.ravel() for t in tables.values()])[None]
    assert wired(estep, rows, places, cells, 1)(X) is None


def test_codes_that_no_row_has_cost_nothing():
    """A pack of 40,000 joint codes is looked up by those of its rows."""
    if kernel() is None:
        pytest.skip("no kernel was built")
    rng = np.random.default_rng(0)
    names = ("h", "a", "b", "x")
    graph = LatentGraph(names, ((0, 3), (1, 3), (2, 3)), frozenset({0}), (2, 200, 200, 3))
    codes = (rng.integers(0, 200, 50), rng.integers(0, 200, 50), rng.integers(0, 3, 50))
    compare(by_kernel, graph, rng, Rows(codes), ())
