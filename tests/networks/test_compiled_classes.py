"""Climbs of latent classes by the kernel against lockstep.py and one row at a time."""

import numpy as np
import pytest

import latentia as lt
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.exact.pieces import cut_graph
from latentia.native.loading import kernel
from latentia.networks.accelerate import Prior, accelerate
from latentia.networks.class_rows import class_rows
from latentia.networks.class_starts import seeded_tables
from latentia.networks.compiled_classes import compiled_climbs
from latentia.networks.knowledge import Knowledge
from latentia.networks.lockstep import Lockstep
from latentia.networks.piece_problem import TableProblem, effective_parameters, pose_piece
from latentia.networks.piece_starts import drawn_tables
from latentia.structure.reading_graphs import as_graph

needs_kernel = pytest.mark.skipif(kernel() is None, reason="no kernel was built")


def posed(rng, classes=3, columns=6, rows=200, holes=False, strength=0.0, latent_first=True):
    """A problem of one latent class, columns of 2 to 4 states."""
    names = [f"x{i}" for i in range(columns)]
    text = "; ".join(f"h->{name}" for name in names)
    graph = as_graph(text if latent_first else [*(("h", n) for n in names)], {"h": classes})
    sizes = {name: int(rng.integers(2, 5)) for name in names}
    graph = graph.with_states(sizes)
    member = rng.integers(classes, size=rows)
    codes = []
    for v in graph.observed:
        table = rng.dirichlet(0.5 * np.ones(sizes[graph.names[v]]), classes)
        drawn = np.array([rng.choice(len(p), p=p) for p in table[member]])
        codes.append(np.where(rng.random(rows) < 0.2, -1, drawn) if holes else drawn)
    data = Rows(tuple(codes), rng.gamma(2.0, size=rows))
    prior = Prior({v: np.full(n or 1, strength / (n or 1)) for v, n in enumerate(graph.states)})
    gaps = graph.observed if holes else ()
    problem = TableProblem(graph, LocalRows(data), data.total, gaps, prior, Knowledge())
    (piece,) = (
        cut_graph(graph, set(graph.latent) | set(gaps)).pieces
        if gaps
        else cut_graph(graph, graph.latent).pieces
    )
    return pose_piece(problem, piece), piece


@needs_kernel
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("strength", [0.0, 1.0])
def test_climbs_are_those_of_lockstep(holes, strength):
    for seed in range(4):
        rng = np.random.default_rng([seed, holes])
        own, piece = posed(rng, 2 + seed, 5 + 3 * seed, 150, holes, strength)
        starts = [own.shrink(x) for x in drawn_tables(piece, rng, 4)]
        many = own.repeated(starts[0], len(starts))
        slow = Lockstep(starts, own.climbed_prior, many, 1e-9)
        fast = own.compiled(starts, 1e-9)
        np.testing.assert_allclose(fast.level, slow.level, rtol=1e-11)  # one E-step
        for k in range(4):
            for v, table in slow.tables(k).items():
                np.testing.assert_allclose(fast.tables(k)[v], table, atol=1e-12)
        for climbs in (slow, fast):
            climbs.advance(range(4), 12)
        np.testing.assert_allclose(fast.level, slow.level, rtol=1e-8)  # rounding, climbed on
        assert fast.steps.tolist() == slow.steps.tolist()
        for climbs in (slow, fast):
            climbs.advance(range(4), 3000)
        assert fast.rests.all()
        np.testing.assert_allclose(fast.level, slow.level, rtol=1e-7)
        found = fast.highest()
        best = accelerate(starts[int(fast.level.argmax())], own.climbed_prior, own.climbed_estep)
        assert found.history[-1] >= best.history[-1] - 1e-6
        fit = own.climbed_estep(found.tables)[1]
        assert found.log_likelihood == pytest.approx(fit, abs=1e-3)  # tables are one step of EM on


@needs_kernel
def test_who_is_left_behind_stays_there():
    rng = np.random.default_rng(1)
    own, piece = posed(rng)
    fast = own.compiled([own.shrink(x) for x in drawn_tables(piece, rng, 3)], 1e-9)
    level = float(fast.level[1])
    fast.advance([0, 2], 30)
    assert fast.level[1] == level
    assert fast.steps[1] == 1


@needs_kernel
def test_rows_without_probability_are_left_to_others():
    rng = np.random.default_rng(2)
    own, piece = posed(rng, 2, 3)
    tables = own.shrink(drawn_tables(piece, rng)[0])
    hopeless = {
        v: np.where(np.arange(t.shape[-1]) == 0, 1.0, 0.0) + 0 * t for v, t in tables.items()
    }
    assert own.compiled([tables, hopeless], 1e-9) is None


def test_other_pieces_are_no_classes():
    rng = np.random.default_rng(3)
    for text, latents in (("a->b; a->x,y; b->z,w", {"a": 2, "b": 2}), ("h->x,y,z; x->y", {"h": 2})):
        graph = as_graph(text, latents)
        graph = graph.with_states({graph.names[v]: 2 for v in graph.observed})
        codes = tuple(rng.integers(2, size=20) for _ in graph.observed)
        for piece in cut_graph(graph, graph.latent).pieces:
            assert class_rows(piece, Rows(codes[: len(piece.columns)])) is None


def test_seeds_are_tables_that_differ():
    rng = np.random.default_rng(4)
    own, _ = posed(rng, 3, 6, 100, holes=True)
    seeds = seeded_tables(own.classes, 5, rng)
    assert len(seeds) == 5
    for tables in seeds:
        assert list(tables) == sorted(tables)
        for table in tables.values():
            np.testing.assert_allclose(table.sum(axis=-1), 1.0)
            assert (table > 0).all()
    assert len({round(float(t[own.classes.columns[0]][0, 0]), 6) for t in seeds}) > 1
    assert compiled_climbs(None, [], own.prior, 1.0) is None


def test_codes_of_many_columns_do_not_overflow():
    """Codes of few states come as int8; numbers of states over all columns are larger."""
    rng = np.random.default_rng(0)
    names = [f"x{i}" for i in range(60)]
    graph = as_graph("; ".join(f"h->{name}" for name in names), {"h": 2})
    graph = graph.with_states(dict.fromkeys(names, 4))
    (piece,) = cut_graph(graph, graph.latent).pieces
    codes = rng.integers(-1, 4, size=(60, 20))
    large, small = (class_rows(piece, Rows(tuple(codes.astype(t)))) for t in (np.int64, np.int8))
    assert large is not None
    assert small is not None
    np.testing.assert_array_equal(small.seen, large.seen)
    assert small.seen.max() > 127


@pytest.mark.parametrize("holes", [False, True])
def test_parameters_that_rows_speak_of_are_those_of_the_e_step(holes):
    for rows in (3, 6, 200):  # of a few rows, classes have less than half a row
        rng = np.random.default_rng([rows, holes])
        own, piece = posed(rng, 5, 4, rows, holes)
        tables = drawn_tables(piece, rng)[0]
        wired = effective_parameters(own.estep(tables)[0], Knowledge())
        assert own.classes.spoken_parameters(tables) == wired


def test_default_fits_of_small_classes_are_the_same_without_a_kernel(monkeypatch):
    """Both race to the maximum: 1e-6 is where climbs to it rest."""
    rng = np.random.default_rng(3)
    h = rng.integers(3, size=300)
    rows = {
        f"q{i}": np.where(rng.random(300) < 0.7, h, rng.integers(3, size=300)) for i in range(5)
    }
    found = []
    for wish in ("on", "off"):
        monkeypatch.setenv("LATENTIA_KERNEL", wish)
        model = lt.LatentModel("class", {"mood": 3}).fit(rows)
        found.append(np.stack([model.query("mood", {"q0": 0, "q3": k}).table for k in range(3)]))
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
