"""The compiled E-step gives what numpy gives; enumeration with it: test_estep.py."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.errors import EvidenceError
from latentia.exact.compiled_rows import BLOCK, CACHED_SLOTS, fits_kernel
from latentia.exact.estep import pack_rows, packed_counts, sum_counts
from latentia.exact.estep_wiring import compile_estep
from latentia.structure.reading_graphs import as_graph
from latentia.structure.templates import hidden_markov

GRAPHS = {
    "class": ("h -> a, b, c, d", {"h": 4}),
    "chain": ("g -> h; h -> i; g -> a; h -> b; i -> c, d", {"g": 3, "h": 5, "i": 4}),
    "wide": ("g -> h; g -> a, b; h -> c, d", {"g": 16, "h": 9}),
    "diamond": ("g -> h, i; h -> a, j; i -> b, j; j -> c, d", {"g": 2, "h": 3, "i": 2, "j": 3}),
    "forest": ("g -> a, b; h -> c, d", {"g": 2, "h": 3}),
    "columns inside": ("g -> a; a -> h; h -> b; b -> c; d -> c", {"g": 3, "h": 2}),
}
SIZES = {"a": 2, "b": 3, "c": 4, "d": 5}


def case(name: str, n: int, holes: float = 0.0, seed: int = 0):
    text, latents = GRAPHS[name]
    graph = as_graph(text, latents)
    graph = replace(graph, states=tuple({**latents, **SIZES}[v] for v in graph.names))
    rng = np.random.default_rng(seed)
    shapes = {v: [graph.states[u] for u in (*up, v)] for v, up in enumerate(graph.parents())}
    tables = {v: rng.dirichlet(np.ones(s[-1]), s[:-1]) for v, s in shapes.items()}
    codes = [rng.integers(graph.states[v], size=n).astype(np.int8) for v in graph.observed]
    codes = [np.where(rng.random(n) < holes, np.int8(-1), c) for c in codes]
    weight = rng.gamma(2.0, size=n)
    return compile_estep(graph, None if holes else []), tables, Rows(tuple(codes), weight)


def same(found, plain, close: float = 1e-12) -> None:
    """Sums over rows, each to 1e-12 of the largest of its table: both ways round differently."""
    assert set(found.sums) == set(plain.sums)
    for name, x in plain.sums.items():
        limit = close * max(1.0, float(np.abs(x).max()))
        np.testing.assert_allclose(found.sums[name], x, rtol=0, atol=limit, err_msg=name)


@pytest.mark.parametrize("holes", [0.0, 0.3])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("name", GRAPHS)
def test_as_numpy(name: str, weighted: bool, holes: float, kernel_level: str, monkeypatch) -> None:
    """Whole blocks, a part of one, a single row."""
    for n in (1, BLOCK - 1, 2 * BLOCK, 5 * BLOCK + 7):
        estep, tables, rows = case(name, n, holes)
        rows = rows if weighted else Rows(rows.codes)
        assert fits_kernel(estep)
        monkeypatch.setenv("LATENTIA_KERNEL", kernel_level)
        found = sum_counts(estep, tables, rows)
        monkeypatch.setenv("LATENTIA_KERNEL", "off")
        same(found, sum_counts(estep, tables, rows))


def test_groups_of_rows(kernel_level: str, monkeypatch) -> None:
    estep, tables, rows = case("chain", 300)
    packed, groups = pack_rows(estep, rows), np.arange(300) % 3
    found = packed_counts(estep, tables, packed, groups)
    monkeypatch.setenv("LATENTIA_KERNEL", "off")
    same(found, packed_counts(estep, tables, packed, groups))
    assert found.sums["log_likelihood"].shape == (3,)


def test_rows_near_the_smallest_numbers(kernel_level: str, monkeypatch) -> None:
    """A few rows of probability 1e-240 in the midst of others: their blocks are done with care."""
    estep, tables, rows = case("class", 6 * BLOCK)
    for v in estep.graph.observed:
        tables[v] = tables[v].copy()
        tables[v][:, -1] *= 1e-60
    codes = [c.copy() for c in rows.codes]
    for c, v in zip(codes, estep.graph.observed, strict=True):
        c[c == estep.states[v] - 1] = 0
        c[[100, 101, 300]] = estep.states[v] - 1
    rows = Rows(tuple(codes), rows.weight)
    found = sum_counts(estep, tables, rows)
    monkeypatch.setenv("LATENTIA_KERNEL", "off")
    same(found, sum_counts(estep, tables, rows))
    assert found.sums["log_likelihood"][0] < -3 * 500


def test_impossible_rows_are_told(kernel_level: str) -> None:
    estep, tables, rows = case("class", 200)
    first = estep.graph.observed[0]
    tables[first] = np.stack([np.ones(4), np.zeros(4)], axis=1)
    codes = [np.zeros_like(rows.codes[0]), *rows.codes[1:]]
    codes[0][150] = 1
    with pytest.raises(EvidenceError, match="row 150 has probability zero"):
        sum_counts(estep, tables, Rows(tuple(codes), rows.weight))


def test_many_columns_are_rescaled(kernel_level: str, monkeypatch) -> None:
    """Sixty columns under one latent, in packs: P(row) is about 1e-60."""
    names = [f"x{i}" for i in range(60)]
    graph = as_graph("h -> " + ", ".join(names), {"h": 3})
    graph = replace(graph, states=(3,) + (10,) * 60)
    rng = np.random.default_rng(3)
    tables = {0: np.full(3, 1 / 3), **{v: rng.dirichlet(np.ones(10), 3) for v in range(1, 61)}}
    rows = Rows(tuple(rng.integers(10, size=150).astype(np.int8) for _ in names))
    estep = compile_estep(graph, [])
    found = sum_counts(estep, tables, rows)
    monkeypatch.setenv("LATENTIA_KERNEL", "off")
    same(found, sum_counts(estep, tables, rows))


def test_hundreds_of_latents(kernel_level: str, monkeypatch) -> None:
    """A chain of 600, more numbers a row than a cache holds of a block."""
    graph = hidden_markov(600, 3).with_states({f"X{t}": 2 for t in range(600)})
    rng = np.random.default_rng(4)
    states = [n or 1 for n in graph.states]
    shapes = {v: [states[u] for u in (*up, v)] for v, up in enumerate(graph.parents())}
    tables = {v: rng.dirichlet(np.ones(s[-1]), s[:-1]) for v, s in shapes.items()}
    rows = Rows(tuple(rng.integers(2, size=BLOCK + 9).astype(np.int8) for _ in graph.observed))
    estep = compile_estep(graph, [])
    assert estep.width > CACHED_SLOTS
    assert fits_kernel(estep)
    found = sum_counts(estep, tables, rows)
    monkeypatch.setenv("LATENTIA_KERNEL", "off")
    same(found, sum_counts(estep, tables, rows))


def test_threads(kernel_level: str, monkeypatch) -> None:
    """Blocks of rows on two threads, each with room of its own."""
    estep, tables, rows = case("diamond", 20_000)
    packed = pack_rows(estep, rows)
    work = partial(packed_counts, estep, tables)
    found = LocalRows(packed, 1000, 2).fold(work)
    monkeypatch.setenv("LATENTIA_KERNEL", "off")
    same(found, work(packed), close=1e-11)


def test_codes_out_of_bounds_are_an_error(kernel_level: str) -> None:
    estep, tables, rows = case("class", 100)
    packed = pack_rows(estep, rows)
    packed.codes[0][70] = 1000
    with pytest.raises(IndexError):
        packed_counts(estep, tables, packed)
