"""The graph's own tables: counting, pieces and climbs, against enumeration and whole graphs."""

import tracemalloc

import numpy as np
import pytest

from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.errors import DataError, GraphError, PlanError
from latentia.exact.estep import sum_counts
from latentia.exact.estep_wiring import compile_estep
from latentia.exact.pieces import cut_graph
from latentia.exact.tabular_model import TabularModel
from latentia.native.loading import kernel
from latentia.networks import piece_learning, piece_problem
from latentia.networks.accelerate import Prior, accelerate
from latentia.networks.counting import count_families
from latentia.networks.em_problem import counts_in
from latentia.networks.knowledge import Knowledge
from latentia.networks.local_classes import class_memberships
from latentia.networks.lockstep import Lockstep
from latentia.networks.own_tables import learn_tables
from latentia.networks.piece_learning import TableSettings
from latentia.networks.piece_problem import TableProblem, effective_parameters, pose_piece
from latentia.networks.piece_starts import (
    StartMaker,
    columns_near,
    drawn_tables,
    membership_counts,
)
from latentia.networks.state_order import local_orders
from latentia.networks.to_operators import renumbered
from latentia.structure.graph import LatentGraph
from latentia.structure.reading_graphs import as_graph
from latentia.testing.random_models import all_rows, brute_force

FEW = TableSettings(rounds=1)


def random_dag(rng, size=9, latents=3, density=0.3):
    """A graph of mostly columns, some of whose inner variables are hidden, and its tables."""
    edges = [(a, b) for b in range(size) for a in range(b) if rng.random() < density]
    inner = sorted({a for a, _ in edges})
    hidden = frozenset(rng.choice(inner, min(latents, len(inner) - 1), replace=False).tolist())
    states = tuple(int(k) for k in rng.integers(2, 4, size))
    graph = LatentGraph(tuple(f"v{k}" for k in range(size)), tuple(edges), hidden, states)
    tables = {
        v: rng.dirichlet(np.ones(states[v]), size=[states[u] for u in above])
        for v, above in enumerate(graph.parents())
    }
    return graph, tables


def named(graph, tables):
    return {graph.names[v]: t for v, t in tables.items()}


def rows_of(graph, tables, rng, n=200, holes=0.0, weighted=True):
    codes = TabularModel(graph, named(graph, tables)).sample(n, rng)
    codes = np.where(rng.random(codes.shape) < holes, -1, codes)
    weight = rng.gamma(2.0, size=n) if weighted else None
    return Rows(tuple(np.ascontiguousarray(c) for c in codes.T.astype(np.int8)), weight)


def problem_of(graph, rows, holes=(), pseudo=1.0):
    states = [n or 1 for n in graph.states]
    prior = Prior({v: np.full(k, pseudo / k) for v, k in enumerate(states)})
    return TableProblem(graph, LocalRows(rows), rows.total, tuple(holes), prior, Knowledge())


class Blocks:
    """Rows that can only be added up, as those of a file."""

    def __init__(self, rows, size=37):
        self.rows, self.size = rows, size

    def fold(self, summary):
        parts = [summary(self.rows[a : a + self.size]) for a in range(0, len(self.rows), self.size)]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total

    def sample(self, size, rng):
        return LocalRows(self.rows).sample(size, rng)


# --- counting -------------------------------------------------------------------------------------


def test_every_joint_state_by_its_probability_gives_the_tables_back():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        graph, tables = random_dag(rng, size=6, latents=1)
        graph = LatentGraph(graph.names, graph.edges, frozenset(), graph.states)
        model = TabularModel(graph, named(graph, tables))
        codes, weight = all_rows(model)
        rows = Rows(tuple(codes.T), weight * 1000)
        found = learn_tables(graph, LocalRows(rows), TableSettings(smoothing=0.0))
        assert found.pieces == ()
        assert set(found.counted) == set(graph.names)
        for v, table in tables.items():
            np.testing.assert_allclose(found.tables[v], table, atol=1e-10)


def test_pseudo_counts_go_to_the_marginal_and_flat_for_roots():
    graph = as_graph("a->b", states={"a": 2, "b": 3})
    a, b = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 1])
    found = learn_tables(graph, LocalRows(Rows((a, b))), TableSettings(smoothing=2.0))
    np.testing.assert_allclose(found.tables[0], np.array([3 + 1, 1 + 1]) / 6)
    share = np.array([2, 2, 0.5]) / 4.5  # a state that no row has counts as half a row
    np.testing.assert_allclose(found.tables[1][0], (np.array([2, 1, 0]) + 2 * share) / 5)
    np.testing.assert_allclose(found.tables[1][1], (np.array([0, 1, 0]) + 2 * share) / 3)
    told = [found.tables[0][i] * found.tables[1][i, j] for i, j in zip(a, b, strict=True)]
    assert found.log_likelihood == pytest.approx(np.log(told).sum())


def test_rows_with_a_hole_in_a_last_column_do_not_speak_of_it():
    graph = as_graph("a->b", states={"a": 2, "b": 2})
    a, b = np.array([0, 0, 1, 1]), np.array([0, -1, 1, 0])
    found = learn_tables(graph, LocalRows(Rows((a, b))), TableSettings(smoothing=0.0))
    np.testing.assert_allclose(found.tables[0], [0.5, 0.5])
    np.testing.assert_allclose(found.tables[1], [[1, 0], [0.5, 0.5]])
    assert found.pieces == ()


def test_counts_are_the_same_in_blocks_and_with_weights():
    rng = np.random.default_rng(3)
    graph, tables = random_dag(rng, latents=1)
    graph = LatentGraph(graph.names, graph.edges, frozenset(), graph.states)
    rows = rows_of(graph, tables, rng, holes=0.2)
    families = range(len(graph.names))
    whole = count_families(graph, families, LocalRows(rows))
    for v, total in count_families(graph, families, Blocks(rows)).items():
        np.testing.assert_allclose(total, whole[v], rtol=1e-12)
        family = (*graph.parents()[v], v)
        expected = np.zeros(total.shape)
        for i in range(len(rows)):
            cell = tuple(int(rows.codes[u][i]) for u in family)
            if min(cell) >= 0:
                expected[cell] += rows.weights[i]
        np.testing.assert_allclose(total, expected, rtol=1e-12)


def test_a_family_of_many_parent_states_stays_small():
    """40,000 parent states: their square would take 13 GB, the table takes 1 MB."""
    parents = [f"x{k}" for k in range(4)]
    edges = [(x, "y") for x in parents] + [("h", "y"), ("h", "z")]
    sizes = {"x0": 20, "x1": 20, "x2": 10, "x3": 10, "y": 2, "z": 3, "h": 2}
    graph = as_graph(edges, latents=["h"], states=sizes)
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, graph.states[v], 2000).astype(np.int16) for v in graph.observed]
    tracemalloc.start()
    found = learn_tables(graph, LocalRows(Rows(tuple(codes)), threads=1), FEW, 0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.cpts["y"].size == 160_000
    assert peak < 2**28  # a few hundred times the table: starts, their memory, blocks of rows
    report = found.pieces[0]
    assert report.effective < 8000 < 80_000 < report.parameters  # of rows that data speak of


# --- pieces ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [LocalRows, Blocks])
@pytest.mark.parametrize("holes", [0.0, 0.15])
@pytest.mark.parametrize("seed", range(4))
def test_counts_and_likelihood_of_pieces_are_those_of_the_whole_graph(seed, holes, source):
    rng = np.random.default_rng([7, seed])
    graph, tables = random_dag(rng)
    rows = rows_of(graph, tables, rng, holes=holes)
    gaps = [v for v, c in zip(graph.observed, rows.codes, strict=True) if c.min() < 0]
    whole = sum_counts(compile_estep(graph, gaps), tables, rows)
    expected = counts_in(whole)
    inner = {a for a, _ in graph.edges}
    cut = cut_graph(graph, graph.latent | {v for v in gaps if v in inner})
    found = count_families(graph, cut.closed, source(rows))
    log_likelihood = sum(float((n * np.log(tables[v])).sum()) for v, n in found.items())
    problem = problem_of(graph, rows, gaps)
    problem = TableProblem(
        graph, source(rows), rows.total, tuple(gaps), problem.prior, problem.knowledge
    )
    for piece in cut.pieces:
        counts, own = pose_piece(problem, piece).estep(piece.inside(tables))
        log_likelihood += own
        found |= piece.outside(counts)
    assert found.keys() == expected.keys()
    for v, n in expected.items():
        np.testing.assert_allclose(found[v], n, atol=1e-9)
    assert log_likelihood == pytest.approx(whole.sums["log_likelihood"][0], rel=1e-12)


def test_rows_wired_by_their_holes_give_the_same_sums(monkeypatch):
    rng = np.random.default_rng(2)
    graph, tables = random_dag(rng, size=10, density=0.4)
    rows = rows_of(graph, tables, rng, holes=0.2)
    inner = {a for a, _ in graph.edges}
    cut = cut_graph(graph, graph.latent | {v for v in graph.observed if v in inner})
    problem = problem_of(graph, rows, graph.observed)
    together = [pose_piece(problem, piece) for piece in cut.pieces]
    monkeypatch.setattr(piece_problem, "EASY_WIDTH", 20)
    monkeypatch.setattr(piece_problem, "EASY_CELLS", 0)
    apart = [pose_piece(problem, piece) for piece in cut.pieces]
    assert max(len(p.parts) for p in apart) > 3
    for one, many in zip(together, apart, strict=True):
        own = one.piece.inside(tables)
        counts, log_likelihood = many.estep(own)
        expected, level = one.estep(own)
        assert log_likelihood == pytest.approx(level, rel=1e-12)
        for v, n in expected.items():
            np.testing.assert_allclose(counts[v], n, atol=1e-9)


@pytest.mark.parametrize("holes", [0.0, 0.1, 0.4])
def test_likelihood_is_that_of_the_tables(holes):
    for seed in range(3):
        rng = np.random.default_rng([11, seed])
        graph, tables = random_dag(rng)
        rows = rows_of(graph, tables, rng, n=400, holes=holes)
        found = learn_tables(graph, LocalRows(rows), FEW, seed)
        for table in found.tables.values():
            np.testing.assert_allclose(table.sum(axis=-1), 1.0, atol=1e-9)
        model = TabularModel(graph, found.cpts)
        codes = model.evidence(np.column_stack(rows.codes).astype(int))
        expected = model.log_evidence(codes) @ rows.weights
        # pieces report the likelihood of their last E-step, one step of EM before their tables
        assert found.log_likelihood == pytest.approx(expected, abs=0.5)


def test_a_latent_class_model_is_found_to_the_last_digit():
    """All rows by their probability: the optimum is the truth itself."""
    rng = np.random.default_rng(5)
    graph = as_graph("h->a,b,c,d; a->b; e->h", latents={"h": 2}, states=dict.fromkeys("abcde", 3))
    tables = {
        v: rng.dirichlet(np.ones(graph.states[v]) * 0.5, size=[graph.states[u] for u in above])
        for v, above in enumerate(graph.parents())
    }
    model = TabularModel(graph, named(graph, tables))
    codes, truth = all_rows(model)
    rows = Rows(tuple(codes.T), truth * 1e4)
    found = learn_tables(graph, LocalRows(rows), TableSettings(smoothing=0.0, enough=1e-7), 1)
    learned = brute_force(TabularModel(graph, found.cpts)).ravel()
    assert float(truth @ np.log(truth / learned)) < 1e-7


def test_the_same_seed_gives_the_same_tables_and_sources_agree():
    rng = np.random.default_rng(8)
    graph, tables = random_dag(rng, size=8, latents=2)
    rows = rows_of(graph, tables, rng, n=600, weighted=False)
    first = learn_tables(graph, LocalRows(rows), TableSettings(), 3)
    again = learn_tables(graph, LocalRows(rows), TableSettings(), 3)
    for v, table in first.tables.items():
        assert np.array_equal(table, again.tables[v])
    folded = learn_tables(graph, Blocks(rows, 100), TableSettings(), 3)
    worth = sum(max(1.0, 0.05 * p.effective) for p in first.pieces)
    assert folded.log_likelihood == pytest.approx(first.log_likelihood, abs=2 * worth)
    assert all(p.rows == 0 for p in folded.pieces)


def test_states_are_numbered_by_what_is_around_them():
    """Whatever the numbers were, the same order comes out; latents beside latents have one, too."""
    rng = np.random.default_rng(21)
    graph = as_graph(
        "c->g->h->a,b; h->k; p->h",
        latents={"h": 3, "g": 2, "k": 2},
        states={"a": 3, "b": 2, "c": 2, "p": 2},
    )
    tables = {
        v: rng.dirichlet(np.ones(graph.states[v]), size=[graph.states[u] for u in above])
        for v, above in enumerate(graph.parents())
    }
    first = renumbered(graph, tables, local_orders(graph, tables))
    assert local_orders(graph, tables).keys() == graph.latent
    for _ in range(5):
        mixed = {h: rng.permutation(graph.states[h]) for h in graph.latent}
        other = renumbered(graph, tables, mixed)
        again = renumbered(graph, other, local_orders(graph, other))
        for v, table in first.items():
            np.testing.assert_allclose(again[v], table, atol=1e-12)


def test_the_winner_is_no_worse_than_any_start():
    rng = np.random.default_rng(12)
    graph, tables = random_dag(rng, size=10, latents=4, density=0.4)
    rows = rows_of(graph, tables, rng, n=800, weighted=False)
    for piece in learn_tables(graph, LocalRows(rows), TableSettings(smoothing=1.0), 0).pieces:
        assert piece.level >= max(start.level for start in piece.starts) - 1e-6
        assert piece.starts[0].kind == piece.winner
        assert 1 <= piece.agreed <= len(piece.starts)
        assert piece.race_steps == sum(start.steps for start in piece.starts)


def test_races_on_a_sample_where_rows_are_many(monkeypatch):
    monkeypatch.setattr(piece_learning, "LEAST_RACE_ROWS", 50)
    monkeypatch.setattr(piece_learning, "TELLING_ROWS", 50)
    rng = np.random.default_rng(4)
    graph, tables = random_dag(rng, size=12, latents=3, density=0.4)
    rows = rows_of(graph, tables, rng, n=2000, weighted=False)
    few = learn_tables(graph, LocalRows(rows), TableSettings(race_rows=50), 0)
    assert any(p.raced_rows <= 50 < p.rows for p in few.pieces)
    monkeypatch.undo()
    full = learn_tables(graph, LocalRows(rows), TableSettings(), 0)
    worth = sum(max(1.0, 0.05 * p.effective) for p in full.pieces)
    assert few.log_likelihood > full.log_likelihood - 5 * worth


# --- what is known --------------------------------------------------------------------------------


def test_known_cells_are_held_and_ties_are_ties():
    rng = np.random.default_rng(6)
    graph = as_graph("h->a,b,c; c->d", latents={"h": 2}, states=dict.fromkeys("abcd", 2))
    tables = {
        v: rng.dirichlet(np.ones(2), size=[2] * len(above))
        for v, above in enumerate(graph.parents())
    }
    rows = rows_of(graph, tables, rng, n=500, weighted=False)
    known = {"a": [[0.9, 0.1], [np.nan, np.nan]], "d": [[0.5, 0.5], [np.nan, np.nan]]}
    settings = TableSettings(known=known, tied=[["b", "c"]])
    found = learn_tables(graph, LocalRows(rows), settings, 0).cpts
    np.testing.assert_allclose(found["a"][0], [0.9, 0.1])
    np.testing.assert_allclose(found["d"][0], [0.5, 0.5])
    np.testing.assert_allclose(found["b"], found["c"], atol=1e-12)
    assert not np.allclose(found["d"][1], 0.5)


def test_a_tie_joins_what_is_counted_to_what_is_climbed():
    rng = np.random.default_rng(9)
    graph = as_graph("h->a,b; p->q", latents={"h": 2}, states=dict.fromkeys("abpq", 2))
    tables = {
        v: rng.dirichlet(np.ones(2), size=[2] * len(above))
        for v, above in enumerate(graph.parents())
    }
    rows = rows_of(graph, tables, rng, n=500, weighted=False)
    found = learn_tables(graph, LocalRows(rows), TableSettings(tied=[["a", "q"]]), 0)
    np.testing.assert_allclose(found.cpts["a"], found.cpts["q"], atol=1e-12)
    assert found.counted == ("p",)
    model = TabularModel(graph, found.cpts)
    codes = model.evidence(np.column_stack(rows.codes).astype(int))
    assert found.log_likelihood == pytest.approx(model.log_evidence(codes).sum(), abs=0.5)


def test_what_cannot_be_learned_is_said():
    graph = as_graph("h->a,b; h->l", latents={"h": 2, "l": 3}, states={"a": 2, "b": 2})
    rows = Rows((np.array([0, 1, 1]), np.array([0, 1, 0])))
    found = learn_tables(graph, LocalRows(rows), FEW, 0)
    assert "nothing is known of l" in found.notes[0]
    np.testing.assert_allclose(found.cpts["l"], 1 / 3)
    with pytest.raises(DataError, match="rounds to be a whole number of at least 1"):
        TableSettings(rounds=0)
    with pytest.raises(DataError, match="later_random to be a whole number of at least 1"):
        TableSettings(later_random=0, later_local=0)
    with pytest.raises(GraphError, match="directed"):
        learn_tables(as_graph("a--b", states={"a": 2, "b": 2}), LocalRows(rows))
    pair = as_graph("a->b", states={"a": 2, "b": 2})
    holes = LocalRows(Rows((np.array([0, 1]), np.array([-1, -1]))))
    with pytest.raises(DataError, match="no row has a value in b"):
        learn_tables(pair, holes)
    decimals = LocalRows(Rows((np.array([0, 1]), np.array([0.5, 1.5]))))
    with pytest.raises(PlanError, match="is continuous"):
        learn_tables(pair, decimals)
    wide = as_graph(
        [(f"h{i}", "x") for i in range(30)],
        latents={f"h{i}": 2 for i in range(30)},
        states={"x": 2},
    )
    with pytest.raises(PlanError, match=r"are learned together, which needs a table over"):
        learn_tables(wide, LocalRows(Rows((np.array([0, 1]),))))


# --- starts and races -----------------------------------------------------------------------------


def test_lockstep_is_one_climb_after_the_other():
    rng = np.random.default_rng(1)
    graph, tables = random_dag(rng, size=8, latents=2)
    rows = rows_of(graph, tables, rng, n=300)
    problem = problem_of(graph, rows)
    piece = cut_graph(graph, graph.latent).pieces[0]
    own = pose_piece(problem, piece)
    drawn = StartMaker(piece, own.distinct, own.prior).at_random(5, rng)
    starts = [own.shrink(s.tables) for s in drawn]
    many, apart = own.repeated(starts[0], 5), pose_piece(problem, piece)
    counts, fits = many(np.stack([np.concatenate([t.ravel() for t in s.values()]) for s in starts]))
    for k, start in enumerate(starts):
        expected, fit = apart.climbed_estep(start)
        assert fits[k] == pytest.approx(fit, rel=1e-12)
        flat = np.concatenate([expected[v].ravel() for v in start])
        np.testing.assert_allclose(counts[k], flat, atol=1e-9)
    field = Lockstep(starts, own.climbed_prior, many, 1e-3)
    field.advance(range(5), 12)
    for k, start in enumerate(starts):
        alone = accelerate(start, own.climbed_prior, own.climbed_estep, 1e-3, 12)
        if field.steps[k] == alone.steps:
            assert field.level[k] == pytest.approx(alone.history[-1], abs=1e-6)
    field.advance(range(3), 400)
    assert field.rests[:3].all()
    assert field.steps[3:].max() <= 12
    for k in range(3):
        alone = accelerate(starts[k], own.climbed_prior, own.climbed_estep, 1e-3, 400)
        assert field.level[k] == pytest.approx(alone.history[-1], abs=0.2)


@pytest.mark.parametrize("seed", range(4))
def test_counts_of_rows_that_are_laid_out_are_those_of_a_fold(seed):
    """Also where the climb moves a part of the tables only, and with holes."""
    rng = np.random.default_rng(seed)
    graph, tables = random_dag(rng, size=8, latents=2)
    rows = rows_of(graph, tables, rng, holes=0.1 if seed % 2 else 0.0)
    gaps = [v for v, c in zip(graph.observed, rows.codes, strict=True) if c.min() < 0]
    inner = {a for a, _ in graph.edges}
    problem = problem_of(graph, rows, gaps)
    for piece in cut_graph(graph, graph.latent | inner.intersection(gaps)).pieces:
        own, apart = pose_piece(problem, piece), pose_piece(problem, piece)
        inside = piece.inside(tables)
        assert own.repeated(own.shrink(inside), 1) is not None
        assert kernel() is None or own.kept
        (counts, level), (right, same) = own.estep(inside), apart.estep(inside)
        assert level == pytest.approx(same, rel=1e-12)
        for k, n in right.items():
            np.testing.assert_allclose(counts[k], n, atol=1e-9)


def test_rows_that_no_data_speak_of_stay_the_priors():
    """Of 6 x 5 joint states of the parents 3 are seen; the rest does not move."""
    graph = as_graph("h->y; h->z; a->y; b->y", latents={"h": 2}, states=dict.fromkeys("yz", 3))
    graph = graph.with_states({"a": 6, "b": 5})
    rng = np.random.default_rng(0)
    pairs = np.array([[0, 1], [3, 3], [5, 0]])[rng.integers(0, 3, 200)]
    columns = {"a": pairs[:, 0], "b": pairs[:, 1]}
    columns |= {x: rng.integers(0, 3, 200) for x in "yz"}
    rows = Rows(tuple(columns[graph.names[v]] for v in graph.observed))
    piece = cut_graph(graph, graph.latent).pieces[0]
    own = pose_piece(problem_of(graph, rows), piece)
    tables = next(StartMaker(piece, own.distinct, own.prior).at_random(1, rng)).tables
    small = own.shrink(tables)
    y = piece.graph.index("y")
    assert small[y].shape == (2 * 3, 3)
    counts, log_likelihood = own.estep(tables)
    reduced, same = own.climbed_estep(small)
    assert log_likelihood == pytest.approx(same, rel=1e-12)
    for k, n in own.shrink(counts).items():
        np.testing.assert_allclose(reduced[k], n, atol=1e-9)
        assert n.sum() == pytest.approx(counts[k].sum())
    found = learn_tables(graph, LocalRows(rows), FEW, 0).cpts["y"]
    axes = [graph.names[u] for u in graph.parents()[graph.index("y")]]
    unseen = np.moveaxis(found, [axes.index(x) for x in ("a", "b", "h")], [0, 1, 2])[0, 0]
    np.testing.assert_allclose(unseen, np.bincount(columns["y"])[None] / 200 * [[1], [1]])


def test_memberships_become_the_counts_of_first_tables():
    rng = np.random.default_rng(3)
    graph, tables = random_dag(rng, size=7, latents=2)
    rows = rows_of(graph, tables, rng, n=50)
    piece = cut_graph(graph, graph.latent).pieces[0]
    own = Rows(tuple(rows.codes[graph.observed.index(v)] for v in piece.columns), rows.weight)
    small = piece.graph
    soft = {h: rng.dirichlet(np.ones(small.states[h]), 50).T for h in small.latent}
    place = {v: i for i, v in enumerate(small.observed)}
    for k, found in membership_counts(piece, soft, own).items():
        family = (*small.parents()[k], k)
        expected = np.zeros(found.shape)
        for i in range(50):
            for cell in np.ndindex(found.shape):
                share = own.weights[i]
                for u, state in zip(family, cell, strict=True):
                    share *= soft[u][state, i] if u in soft else own.codes[place[u]][i] == state
                expected[cell] += share
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_local_classes_tell_clear_states():
    rng = np.random.default_rng(0)
    state = rng.integers(0, 3, 900)
    columns = [np.where(rng.random(900) < 0.95, state, rng.integers(0, 3, 900)) for _ in range(5)]
    columns[2][:100] = -1  # holes
    best = class_memberships(columns, [3] * 5, np.ones(900), 3, 2, rng)[0]
    np.testing.assert_allclose(best.sum(axis=0), 1.0)
    guess = best.argmax(axis=0)
    agree = max(
        np.mean(np.array(order)[guess] == state)
        for order in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
    )
    assert agree > 0.97


def test_columns_near_a_latent_are_its_neighbours_first():
    graph = as_graph("h->a,b,c; p->h; h->g; g->x,y", latents={"h": 2, "g": 2})
    near = {graph.names[v] for v in columns_near(graph, graph.index("h"))}
    assert near == {"a", "b", "c", "p"}
    near = {graph.names[v] for v in columns_near(graph, graph.index("g"))}
    assert {"x", "y"} < near


def test_rows_of_tables_that_no_data_speak_of_are_no_parameters():
    counts = {0: np.array([[3.0, 1.0], [0.2, 0.2]]), 1: np.array([1.0, 1.0, 2.0])}
    assert effective_parameters(counts, Knowledge()) == 1 + 2
    known = Knowledge({1: np.array([0.5, np.nan, np.nan])})
    assert effective_parameters(counts, known) == 1 + 1


def test_starts_at_random_are_flat_dirichlets():
    graph = as_graph("h -> a, b; a -> b", {"h": 3}).with_states({"a": 2, "b": 4})
    (piece,) = cut_graph(graph, graph.latent).pieces
    drawn = drawn_tables(piece, np.random.default_rng(5), 2)
    rng, parents = np.random.default_rng(5), piece.graph.parents()
    for k, table in (pair for tables in drawn for pair in tables.items()):
        size = [piece.graph.states[u] for u in parents[k]]
        right = rng.dirichlet(np.ones(piece.graph.states[k]), size=size)
        np.testing.assert_allclose(table, right, atol=1e-15)


@pytest.mark.parametrize("way", ["numpy", "in turn"])
def test_starts_end_alike_by_the_kernel_by_numpy_and_one_after_the_other(way, monkeypatch):
    """The race is the same, start by start."""
    rng = np.random.default_rng(8)
    graph, tables = random_dag(rng)
    rows = rows_of(graph, tables, rng, n=300)
    together = learn_tables(graph, LocalRows(rows), FEW, 0)
    if way == "numpy":
        monkeypatch.setattr(piece_problem, "compiled_many", lambda *_: None)
    else:
        monkeypatch.setattr(piece_problem, "MOST_LAID_OUT", 1)
    other = learn_tables(graph, LocalRows(rows), FEW, 0)
    for v, table in together.tables.items():
        np.testing.assert_allclose(other.tables[v], table, atol=1e-6)  # where climbs rest


def test_rows_are_passed_over_once_where_nothing_is_latent():
    rng = np.random.default_rng(6)
    graph, tables = random_dag(rng, latents=0)
    rows = rows_of(graph, tables, rng)
    passes = []

    class Counted(Blocks):
        def fold(self, summary):
            passes.append(summary)
            return super().fold(summary)

    found = learn_tables(graph, Counted(rows), TableSettings(), 0)
    assert len(passes) == 1
    right = learn_tables(graph, LocalRows(rows), TableSettings(), 0)
    for v, table in right.tables.items():
        np.testing.assert_allclose(found.tables[v], table, rtol=1e-12)


def test_a_latent_below_columns_with_holes_is_told_by_the_prior():
    """It is no part of the piece around the holes, and must not be counted as if it were seen."""
    graph = as_graph("H->a; H->b; H->c; a->S; H->S; a->b", ["H", "S"])
    graph = graph.with_states(dict.fromkeys("abc", 3) | {"H": 2, "S": 2})
    closely = TableSettings(smoothing=1.0, rounds=1, closely=1e-8)
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=600)
    codes = [np.where(rng.random(600) < 0.8, h, rng.integers(3, size=600)) for _ in "abc"]
    holed = [np.where(rng.random(600) < 0.1, -1, c).astype(np.int8) for c in codes]
    found = learn_tables(graph, LocalRows(Rows(tuple(holed))), closely, 0)
    without = graph.names.index("S")
    np.testing.assert_allclose(found.tables[without], 0.5)
    assert "nothing is known of S" in found.notes[0]
    alone = as_graph("H->a; H->b; H->c; a->b", ["H"])
    alone = alone.with_states(dict.fromkeys("abc", 3) | {"H": 2})
    other = learn_tables(alone, LocalRows(Rows(tuple(holed))), closely, 0)
    for name, table in other.cpts.items():  # climbs from other starts rest near one maximum
        np.testing.assert_allclose(found.cpts[name], table, atol=1e-4)
