"""What a race runs on, and which starts it is spared."""

import numpy as np
import pytest

from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.exact.pieces import cut_graph
from latentia.networks import piece_learning
from latentia.networks.accelerate import Prior
from latentia.networks.knowledge import Knowledge
from latentia.networks.own_tables import learn_tables
from latentia.networks.piece_learning import TableSettings
from latentia.networks.piece_problem import TableProblem, piece_columns, pose_piece, pose_sample
from latentia.networks.piece_starts import closed_form_memberships, drawn_tables
from latentia.structure.graph import LatentGraph

FEW = TableSettings(local=1, random=1, rounds=1, race_rows=1000)


def class_graph(columns, states, hidden=3):
    """A hidden class of some columns, and a column that only one of these tells of."""
    edges = [(0, k) for k in range(1, columns + 1)]
    names = ("h", *(f"x{k}" for k in range(columns)), "z")
    sizes = (hidden, *(states,) * columns, 7)
    return LatentGraph(names, (*edges, (1, columns + 1)), frozenset({0}), sizes)


def class_rows(columns, states, rows, seed=0):
    rng = np.random.default_rng(seed)
    hidden = rng.integers(3, size=rows)
    codes = [
        np.where(rng.random(rows) < 0.6, hidden, rng.integers(states, size=rows))
        for _ in range(columns)
    ]
    return Rows((*codes, rng.integers(7, size=rows)))


def test_a_sample_is_of_different_rows_of_the_piece():
    """Of rows of all columns some would agree on those of the piece, and tell less."""
    found = learn_tables(class_graph(6, 4), LocalRows(class_rows(6, 4, 6_000)), FEW, 0)
    assert found.pieces[0].rows > 1500
    assert found.pieces[0].raced_rows == 1000


def test_few_parameters_need_few_rows_unless_there_are_many():
    """Causes of 86 parameters raced on 5,000 of 10,000 rows: 1,720 tell starts apart as well."""
    graph = class_graph(9, 4, hidden=4)
    (piece,) = cut_graph(graph, graph.latent).pieces
    for rows, raced in ((6_000, 20 * 111), (60_000, 3_000)):
        source = LocalRows(class_rows(9, 4, rows))
        problem = TableProblem(graph, source, rows, (), prior_of(graph), Knowledge())
        whole = pose_piece(problem, piece)
        assert whole.piece_parameters == 3 + 9 * 4 * 3
        _, drawn = piece_learning._fewer(problem, whole, 5000, np.random.default_rng(0))
        assert drawn.total == pytest.approx(raced, rel=0.2)  # equal rows stand there once
        assert len(drawn) <= raced


def prior_of(graph):
    return Prior({v: np.full(n, 1 / n) for v, n in enumerate(graph.states)})


def test_a_sample_of_all_rows_poses_the_same_problem():
    graph, rows = class_graph(4, 3), class_rows(4, 3, 500)
    prior = Prior({v: np.full(n, 1 / n) for v, n in enumerate(graph.states)})
    problem = TableProblem(graph, LocalRows(rows), 500.0, (), prior, Knowledge())
    (piece,) = cut_graph(graph, graph.latent).pieces
    own = piece_columns(rows, problem.places(piece))
    assert len(own.codes) == 4
    (tables,) = drawn_tables(piece, np.random.default_rng(1))
    counts, fit = pose_piece(problem, piece).estep(tables)
    others, other_fit = pose_sample(problem, piece, own).estep(tables)
    assert fit == pytest.approx(other_fit, rel=1e-12)
    for k, n in counts.items():
        np.testing.assert_allclose(n, others[k])


@pytest.mark.parametrize(("hidden", "asked"), [(3, True), (20, False)])
def test_the_closed_form_is_not_asked_for_wide_separators(hidden, asked):
    """It would cost more than all other starts."""
    rng = np.random.default_rng(2)
    graph = class_graph(4, 30, hidden)
    rows = Rows(tuple(rng.integers(m, size=2000) for m in graph.states[1:]))
    assert bool(closed_form_memberships(graph, rows, rng)) == asked


def test_one_round_where_rows_are_fewer_than_what_they_speak_of(monkeypatch):
    """Optima differ by luck there: which of them is higher says little about other rows."""
    rng, graph = np.random.default_rng(0), class_graph(7, 9)
    noise = [rng.integers(9, size=400) for _ in range(7)]
    source = LocalRows(Rows((*noise, rng.integers(7, size=400))))
    few = learn_tables(graph, source, TableSettings(), 0).pieces[0]
    assert few.effective > 400 / piece_learning.FEW_ROWS
    assert few.rounds == 1
    monkeypatch.setattr(piece_learning, "FEW_ROWS", 0.0)
    assert learn_tables(graph, source, TableSettings(), 0).pieces[0].rounds > 1
