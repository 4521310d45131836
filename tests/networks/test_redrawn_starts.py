"""Later rounds of a race look around the best tables so far: latents of large pieces in turn."""

import numpy as np

from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.exact.pieces import cut_graph
from latentia.exact.table_answers import TableAnswers
from latentia.networks import piece_learning, piece_starts
from latentia.networks.accelerate import Prior
from latentia.networks.own_tables import learn_tables
from latentia.networks.piece_learning import TableSettings
from latentia.networks.piece_starts import PAIRS, StartMaker, drawn_tables
from latentia.structure.graph import LatentGraph


def hidden_steps(steps, states=3, levels=4):
    """A hidden chain, two columns a step that tell each other, and the next step's first."""
    names = tuple(f"{x}{t}" for x in "hab" for t in range(steps))
    first, second = range(steps, 2 * steps), range(2 * steps, 3 * steps)
    edges = [(t, t + 1) for t in range(steps - 1)]
    edges += [(first[t], first[t + 1]) for t in range(steps - 1)]
    for t in range(steps):
        edges += [(t, first[t]), (t, second[t]), (first[t], second[t])]
    sizes = (states,) * steps + (levels,) * 2 * steps
    return LatentGraph(names, tuple(sorted(edges)), frozenset(range(steps)), sizes)


def drawn_rows(graph, count, seed):
    rng = np.random.default_rng(seed)
    parents, sizes = graph.parents(), graph.states
    tables = {
        graph.names[v]: rng.dirichlet(np.full(n, 0.5), size=[sizes[u] for u in parents[v]])
        for v, n in enumerate(sizes)
    }
    return Rows(tuple(np.ascontiguousarray(TableAnswers(graph, tables).sample(count, rng).T)))


def test_only_what_touches_a_latent_or_two_is_redrawn():
    graph = hidden_steps(4)
    (piece,) = cut_graph(graph, graph.latent).pieces
    rng = np.random.default_rng(0)
    (best,) = drawn_tables(piece, rng)
    maker = StartMaker(piece, drawn_rows(graph, 10, 0), Prior({}))
    parents, latents = piece.graph.parents(), set(piece.graph.latent)
    met = set()
    for k, start in enumerate(maker.redrawn(best, 8, rng)):
        anew = {v for v, t in start.tables.items() if t is not best[v]}
        around = [h for h in latents if anew >= {v for v in best if h == v or h in parents[v]}]
        assert len(around) == (2 if k % PAIRS == PAIRS - 1 else 1)
        assert anew == {v for v in best if not {v, *parents[v]}.isdisjoint(around)}
        for v in anew:
            np.testing.assert_allclose(start.tables[v].sum(axis=-1), 1.0)
        met.update(around)
    assert met == latents


def test_more_is_found_than_by_fresh_starts_alone(monkeypatch):
    graph = hidden_steps(6)
    source = LocalRows(drawn_rows(graph, 5_000, 1))
    found = [learn_tables(graph, source, TableSettings(), s).pieces[0] for s in range(2)]
    monkeypatch.setattr(piece_learning, "REDRAWN_STARTS", 100)  # none
    before = [learn_tables(graph, source, TableSettings(), s).pieces[0] for s in range(2)]
    assert sum(p.level for p in found) > sum(p.level for p in before) + 20


def test_no_local_classes_cost_nothing(monkeypatch):
    graph = hidden_steps(3)
    (piece,) = cut_graph(graph, graph.latent).pieces
    maker = StartMaker(piece, drawn_rows(graph, 10, 0), Prior({}))
    monkeypatch.setattr(piece_starts, "class_memberships", None)  # nobody asks for any
    assert not [*maker.local_classes(0, np.random.default_rng(0))]


def test_equal_names_of_other_types_have_cuts_of_their_own():
    """1 and True are equal, and so are graphs that differ in nothing else: cuts are kept."""
    for column in (1, True, 1.0):
        graph = LatentGraph(("h", column, "y"), ((0, 1), (0, 2)), frozenset({0}), (2, 2, 2))
        (piece,) = cut_graph(graph, graph.latent).pieces
        assert type(piece.graph.names[1]) is type(column)
