"""The E-step of wide latents by matrix products gives what looking up row by row gives."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.errors import EvidenceError
from latentia.exact.estep import _narrow_counts, pack_rows, packed_counts
from latentia.exact.estep_wiring import compile_estep
from latentia.exact.wide_layout import wide_layout
from latentia.exact.wide_rows import wide_sums
from latentia.structure.reading_graphs import as_graph

GRAPHS = {
    "class": ("h -> a, b, c, d, e, f", {"h": 40}),
    "tree": ("g -> h, i; g -> a; h -> b, c; i -> d, e, f", {"g": 24, "h": 36, "i": 25}),
    "chain": ("g -> h; h -> i; g -> a, b; h -> c; i -> d, e, f", {"g": 33, "h": 33, "i": 33}),
    "two parents": ("g -> a, b, c, d, e, f; h -> a, b, c, d, e, f", {"g": 5, "h": 6}),
    "forest": ("g -> a, b, c; h -> d, e, f", {"g": 30, "h": 32}),
    "columns inside": (
        "g -> a; a -> b; g -> b, c; g -> h; h -> d, e; d -> f; h -> f",
        {"g": 24, "h": 26},
    ),
}
SIZES = {"a": 2, "b": 3, "c": 4, "d": 5, "e": 2, "f": 7}
CLOSE = {True: 1e-5, False: 1e-12}  # of the largest count: both ways round differently


def case(name: str, n: int, holes: float = 0.0, seed: int = 0):
    text, latents = GRAPHS[name]
    graph = as_graph(text, latents)
    graph = replace(graph, states=tuple({**latents, **SIZES}[v] for v in graph.names))
    rng = np.random.default_rng(seed)
    shapes = {v: [graph.states[u] for u in (*up, v)] for v, up in enumerate(graph.parents())}
    tables = {v: rng.dirichlet(np.ones(s[-1]), s[:-1]) for v, s in shapes.items()}
    codes = [rng.integers(graph.states[v], size=n).astype(np.int8) for v in graph.observed]
    codes = [np.where(rng.random(n) < holes, np.int8(-1), c) for c in codes]
    estep = compile_estep(graph, None if holes else [])
    return estep, tables, pack_rows(estep, Rows(tuple(codes), rng.gamma(2.0, size=n)))


def same(found, plain, close: float) -> None:
    assert set(found.sums) == set(plain.sums)
    for name, x in plain.sums.items():
        limit = close * max(1.0, float(np.abs(x).max()))
        np.testing.assert_allclose(found.sums[name], x, rtol=0, atol=limit, err_msg=name)


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("holes", [0.0, 0.3])
@pytest.mark.parametrize("name", GRAPHS)
def test_as_row_by_row(name: str, holes: float, single: bool, monkeypatch) -> None:
    monkeypatch.setenv("LATENTIA_KERNEL", "off")
    for n in (1, 300):
        estep, tables, rows = case(name, n, holes)
        if not (holes and name == "columns inside"):  # there, missing parents are more variables
            assert wide_layout(estep) is not None
        for some in (rows, Rows(rows.codes)):
            plain = _narrow_counts(estep, tables, some, None)
            same(packed_counts(estep, tables, some, single=single), plain, CLOSE[single])


@pytest.mark.parametrize("single", [True, False])
def test_blocks_threads_and_groups(single: bool, monkeypatch) -> None:
    """Many blocks, the last one short, on two threads that keep their memory apart."""
    monkeypatch.setenv("LATENTIA_KERNEL", "off")
    estep, tables, rows = case("tree", 5000)
    plain = _narrow_counts(estep, tables, rows, None)
    work = partial(packed_counts, estep, tables, single=single)
    same(LocalRows(rows, 700, 2).fold(work), plain, 10 * CLOSE[single])
    groups = np.arange(5000) % 3
    found = packed_counts(estep, tables, rows, groups, single)
    same(found, _narrow_counts(estep, tables, rows, groups), CLOSE[single])


@pytest.mark.parametrize("single", [True, False])
def test_rows_near_the_smallest_numbers_are_counted_with_care(single: bool, monkeypatch) -> None:
    """Rows of probability 1e-360 in the midst of others, in the last group but one."""
    monkeypatch.setenv("LATENTIA_KERNEL", "off")
    estep, tables, rows = case("chain", 900)
    unpacked = [np.random.default_rng(1).integers(SIZES[c] - 1, size=900) for c in "abcdef"]
    for c, v in zip(unpacked, estep.graph.observed, strict=True):
        tables[v] = tables[v].copy()
        tables[v][:, -1] *= 1e-60
        c[[100, 600]] = estep.states[v] - 1
    rows = pack_rows(estep, Rows(tuple(unpacked), rows.weight))
    layout = wide_layout(estep)
    assert layout is not None
    lost = wide_sums(layout, layout.vector(tables), rows, single).lost
    assert lost.tolist() == [100, 600]
    groups = np.repeat(np.arange(3), 300)
    groups[600] = 1
    for own in (None, groups):
        plain = _narrow_counts(estep, tables, rows, own)
        same(packed_counts(estep, tables, rows, own, single), plain, CLOSE[single])


@pytest.mark.parametrize("single", [True, False])
def test_impossible_rows_are_told_by_their_number(single: bool) -> None:
    estep, tables, _ = case("class", 200)
    graph = estep.graph
    first = graph.observed[0]
    tables[first] = np.stack([np.ones(40), np.zeros(40)], axis=1)
    codes = [np.zeros(200, dtype=np.int8) for _ in graph.observed]
    codes[0][150] = 1
    packed = pack_rows(estep, Rows(tuple(codes)))
    with pytest.raises(EvidenceError, match="row 150 has probability zero"):
        packed_counts(estep, tables, packed, single=single)


def test_many_columns_are_rescaled(monkeypatch) -> None:
    """A hundred columns of ten states under one latent: P(row) is about 1e-100."""
    monkeypatch.setenv("LATENTIA_KERNEL", "off")
    names = [f"x{i}" for i in range(100)]
    graph = as_graph("h -> " + ", ".join(names), {"h": 30})
    graph = replace(graph, states=(30,) + (10,) * 100)
    rng = np.random.default_rng(3)
    tables = {0: np.full(30, 1 / 30), **{v: rng.dirichlet(np.ones(10), 30) for v in range(1, 101)}}
    estep = compile_estep(graph, [])
    codes = tuple(rng.integers(10, size=150).astype(np.int8) for _ in names)
    rows = pack_rows(estep, Rows(codes))
    plain = _narrow_counts(estep, tables, rows, None)
    for single in (True, False):
        same(packed_counts(estep, tables, rows, single=single), plain, CLOSE[single])


def test_codes_out_of_bounds_are_an_error() -> None:
    estep, tables, rows = case("tree", 100)
    for wrong in (1000, -1):
        rows.codes[0][70] = wrong
        with pytest.raises(IndexError, match="out of bounds"):
            packed_counts(estep, tables, rows, single=True)


def test_narrow_and_other_wirings_have_no_layout() -> None:
    for text, latents in (
        ("h -> a, b, c", {"h": 4}),
        ("g -> h, i; h -> a, j; i -> b, j; j -> c, d", {"g": 30, "h": 30, "i": 30, "j": 30}),
    ):
        graph = as_graph(text, latents)
        graph = replace(graph, states=tuple({**latents, **SIZES}[v] for v in graph.names))
        assert wide_layout(compile_estep(graph, [])) is None
