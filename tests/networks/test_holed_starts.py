"""Pieces with holes: where races on complete rows end badly, starts at random make up for it."""

from __future__ import annotations

import numpy as np

from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.exact.pieces import cut_graph
from latentia.networks.accelerate import Prior
from latentia.networks.knowledge import Knowledge
from latentia.networks.own_tables import learn_tables
from latentia.networks.piece_learning import TableSettings, _run_off
from latentia.networks.piece_problem import TableProblem, pose_piece
from latentia.networks.piece_reports import Raced
from latentia.networks.race import Race, Runner
from latentia.structure.reading_graphs import as_graph

GRAPH = as_graph("a->H; H->b; H->c; H->d; b->e", {"H": 2})
STATES = {"a": 2, "b": 2, "c": 2, "d": 2, "e": 2}


def holed_rows(n: int = 600) -> Rows:
    """H is told by b, c and d; b, a parent, is missing where e says so."""
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=n)
    a, b, c, d = (np.where(rng.random(n) < 0.85, h, 1 - h) for _ in "abcd")
    e = np.where(rng.random(n) < 0.8, b, 1 - b)
    b = np.where((e == 1) & (rng.random(n) < 0.6), -1, b)
    return Rows((a, b, c, d, e))


def test_a_race_that_ended_on_a_saddle_is_left_behind() -> None:
    """Flat tables of a latent stay flat, whatever rows say: EM never leaves them."""
    graph = GRAPH.with_states(STATES)
    prior = Prior({v: np.full(2, 0.5) for v in range(len(graph.names))})
    holes = (graph.index("b"),)
    source = LocalRows(holed_rows(), threads=1)
    problem = TableProblem(graph, source, 600.0, holes, prior, Knowledge())
    (piece,) = cut_graph(graph, graph.latent | {*holes}).pieces
    inner = [p for p in cut_graph(graph, graph.latent).pieces if p.unknown]
    whole = pose_piece(problem, piece)
    flat = {v: np.full([2] * (len(graph.parents()[v]) + 1), 0.5) for v in range(len(graph.names))}
    small = pose_piece(problem, inner[0])
    saddle = Runner("saddle", small.shrink(inner[0].inside(flat)), 0.0, 1, True)
    raced = [Raced(small, Race(saddle, ()), 10)]
    rng = np.random.default_rng(0)
    (found,) = _run_off(whole, inner, raced, flat, TableSettings(precise=False), rng)
    assert found.kind == "random"
    low, high = (whole.estep(t)[1] for t in (piece.inside(flat), found.tables))
    best = learn_tables(graph, source, TableSettings(), 0).pieces[0].log_likelihood
    assert high > low + 50
    assert high > best - 5  # a few E-steps of a run-off from the top
