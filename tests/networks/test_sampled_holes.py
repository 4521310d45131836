"""Holes that are drawn, and mixed-up tables with holes, against exact sums."""

import warnings

import numpy as np
import pytest

from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.errors import LeftOutWarning
from latentia.exact.tabular_model import TabularModel
from latentia.networks import piece_problem
from latentia.networks.own_tables import learn_tables
from latentia.networks.piece_learning import TableSettings
from latentia.structure.reading_graphs import as_graph

SETTINGS = TableSettings(rounds=1)


def drawn_rows(graph, rng, n, weighted=False):
    tables = {
        graph.names[v]: rng.dirichlet(
            np.full(graph.states[v], 0.7), size=[graph.states[u] for u in above]
        )
        for v, above in enumerate(graph.parents())
    }
    codes = TabularModel(graph, tables).sample(n, rng)
    return codes, rng.gamma(2.0, size=n) if weighted else None


def source_of(codes, weight=None):
    return LocalRows(Rows(tuple(np.ascontiguousarray(c) for c in codes.T), weight), threads=1)


@pytest.fixture
def draw_holes(monkeypatch):
    """Only a single latent is narrow; no wirings for patterns of holes are tried."""
    monkeypatch.setattr(piece_problem, "EASY_WIDTH", 8)
    monkeypatch.setattr(piece_problem, "EASY_CELLS", 0)
    monkeypatch.setattr(piece_problem, "MOST_TRIED", 0)


def test_drawn_holes_come_near_the_exact_climb(monkeypatch):
    """Without latents there is one optimum, and no numbering of states to get lost in."""
    graph = as_graph("a->b; b->c; a->c; c->d; b->e; d->e").with_states(dict.fromkeys("abcde", 3))
    rng = np.random.default_rng(0)
    codes, weight = drawn_rows(graph, rng, 3000, weighted=True)
    codes = np.where(rng.random(codes.shape) < 0.25, -1, codes)
    exact = learn_tables(graph, source_of(codes, weight), SETTINGS, 0)
    for name, value in (("EASY_WIDTH", 0), ("EASY_CELLS", 0), ("MOST_TRIED", 0)):
        monkeypatch.setattr(piece_problem, name, value)
    with pytest.warns(LeftOutWarning, match="they were drawn"):
        drawn = learn_tables(graph, source_of(codes, weight), SETTINGS, 0)
    assert any("holes drawn" in p.winner for p in drawn.pieces)
    assert drawn.log_likelihood <= exact.log_likelihood
    model = {k: TabularModel(graph, x.cpts) for k, x in (("exact", exact), ("drawn", drawn))}
    logs = {
        k: float(m.log_evidence(m.evidence(codes)) @ weight) / weight.sum()
        for k, m in model.items()
    }
    # nats a row; the rows' own noise is 84 parameters / 6000 / 2
    assert logs["exact"] - logs["drawn"] < 2e-3


@pytest.mark.usefixtures("draw_holes")
def test_known_tied_and_latent_tables_are_drawn_for_too():
    graph = as_graph("h->a; h->b; h->c; a->d; b->d; c->e", latents={"h": 2})
    graph = graph.with_states(dict.fromkeys("abcde", 2))
    rng = np.random.default_rng(1)
    codes, _ = drawn_rows(graph, rng, 1500)
    codes = np.where(rng.random(codes.shape) < 0.2, -1, codes)
    settings = TableSettings(rounds=1, known={"h": [0.4, 0.6]}, tied=[["a", "b"]])
    with pytest.warns(LeftOutWarning, match="they were drawn"):
        found = learn_tables(graph, source_of(codes), settings, 0)
    np.testing.assert_allclose(found.cpts["h"], [0.4, 0.6], atol=1e-12)
    np.testing.assert_allclose(found.cpts["a"], found.cpts["b"], atol=1e-12)
    for table in found.cpts.values():
        np.testing.assert_allclose(table.sum(axis=-1), 1.0, atol=1e-9)


def test_a_column_missing_in_a_block_and_rows_without_any_cell():
    """Exact: the log-likelihood is that of enumeration, and EM on the whole graph gains nothing."""
    graph = as_graph("h->a; h->b; a->c; b->c; c->d; b->e", latents={"h": 2})
    graph = graph.with_states(dict.fromkeys("abcde", 2) | {"c": 3})
    rng = np.random.default_rng(2)
    codes, weight = drawn_rows(graph, rng, 600, weighted=True)
    codes[200:400, 2] = -1  # c
    codes[500:520] = -1
    codes[rng.random(codes.shape) < 0.05] = -1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = learn_tables(graph, source_of(codes, weight), SETTINGS, 0)
    model = TabularModel(graph, found.cpts)
    logs = model.log_evidence(model.evidence(codes))
    # each climb stops at a step of EM that is worth less than 1e-4 nats a parameter
    assert float(logs @ weight) == pytest.approx(found.log_likelihood, abs=0.05)
    kept = (codes >= 0).any(axis=1)
    same = learn_tables(graph, source_of(codes[kept], weight[kept]), SETTINGS, 0)
    assert same.log_likelihood == pytest.approx(found.log_likelihood, abs=0.5)
