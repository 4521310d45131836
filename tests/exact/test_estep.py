"""The exact E-step against enumeration, with holes and weights, in blocks, and near underflow."""

import numpy as np
import pytest

import latentia as lt
from latentia.data.rows import Rows
from latentia.errors import DataError, EvidenceError, GraphError, MomentsError, PlanError
from latentia.exact import estep as estep_module
from latentia.exact import estep_passes as passes
from latentia.exact.estep import pack_rows, packed_counts, sum_counts
from latentia.exact.estep_wiring import compile_estep
from latentia.exact.row_posteriors import latent_posteriors
from latentia.structure.templates import factorial_markov, grid, hidden_markov, latent_class
from latentia.testing.random_models import KINDS, brute_force_full, random_graph, random_model

pytestmark = pytest.mark.usefixtures("kernel_level")  # numpy, and the compiled kernel

DIRECTED = [kind for kind in KINDS if kind != "undirected"]


def drawn(kind, seed):
    """A small directed model of a kind."""
    rng = np.random.default_rng([seed, DIRECTED.index(kind)])
    while True:
        limit = 20_000 if kind == "diamond" else 2000
        graph = random_graph(rng, kind, observed_limit=limit, joint_limit=60_000)
        if graph.directed:
            return random_model(graph, rng), rng


def tables_of(model):
    return {scope[-1]: table for scope, table in model.tables.items()}


def rows_of(model, rng, n=30, holes=0.0, weighted=True):
    codes = model.sample(n, rng)
    codes = np.where(rng.random(codes.shape) < holes, -1, codes)
    weight = rng.gamma(2.0, size=n) if weighted else None
    return Rows(tuple(codes.T.astype(np.int8)), weight)


def enumerated(model, rows):
    """Expected counts and log-likelihood from the whole joint, row by row."""
    graph, full = model.graph, brute_force_full(model)
    axes = list(range(full.ndim))
    inner = {a for a, _ in graph.edges}
    counts = {v: np.zeros([model.states[u] for u in (*above, v)]) for v, above in parents(graph)}
    log_likelihood = 0.0
    for i in range(len(rows)):
        weight = 1.0 if rows.weight is None else rows.weight[i]
        table = full
        seen = {v: c[i] for v, c in zip(graph.observed, rows.codes, strict=True) if c[i] >= 0}
        for v, code in seen.items():
            mask = np.arange(model.states[v]) == code
            table = table * mask.reshape([-1 if k == v else 1 for k in axes])
        log_likelihood += weight * np.log(table.sum())
        table = table * (weight / table.sum())
        for v, above in parents(graph):
            if v in seen or v in graph.latent or v in inner:
                counts[v] += np.einsum(table, axes, [*above, v])
    return counts, log_likelihood


def parents(graph):
    return list(enumerate(graph.parents()))


def assert_equal(moments, wanted, tolerance=1e-10):
    counts, log_likelihood = wanted
    assert set(moments.sums) == {f"counts/{v}" for v in counts} | {"log_likelihood"}
    for v, count in counts.items():
        np.testing.assert_allclose(moments.sums[f"counts/{v}"], count, rtol=0, atol=tolerance)
    scale = max(1.0, abs(log_likelihood))
    np.testing.assert_allclose(
        moments.sums["log_likelihood"], [log_likelihood], rtol=0, atol=tolerance * scale
    )


class TestEnumeration:
    @pytest.mark.parametrize("kind", DIRECTED)
    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize("holes", [0.0, 0.3, 0.8])
    def test_counts_and_likelihood(self, kind, seed, holes):
        model, rng = drawn(kind, seed)
        rows = rows_of(model, rng, holes=holes, weighted=seed % 2 == 0)
        wanted = enumerated(model, rows)
        assert_equal(sum_counts(compile_estep(model.graph), tables_of(model), rows), wanted)
        full = [(c >= 0).all() for c in rows.codes]
        gaps = [v for v, whole in zip(model.graph.observed, full, strict=True) if not whole]
        known = compile_estep(model.graph, gaps)
        assert_equal(sum_counts(known, tables_of(model), rows), wanted)

    @pytest.mark.parametrize("kind", DIRECTED)
    def test_with_every_factor_rescaled(self, kind, monkeypatch):
        monkeypatch.setattr(passes, "TINY", 2.0)  # no row is sound enough
        model, rng = drawn(kind, 7)
        rows = rows_of(model, rng, holes=0.3)
        found = sum_counts(compile_estep(model.graph), tables_of(model), rows)
        assert_equal(found, enumerated(model, rows))

    @pytest.mark.parametrize("kind", DIRECTED)
    @pytest.mark.parametrize("holes", [0.0, 0.5])
    def test_posteriors_of_latents(self, kind, holes):
        model, rng = drawn(kind, 5)
        rows = rows_of(model, rng, holes=holes)
        latents = sorted(model.graph.latent)
        found = latent_posteriors(compile_estep(model.graph), tables_of(model), rows, latents)
        exact = model.posteriors(model.evidence(np.column_stack(rows.codes).astype(int)))
        for v in latents:
            np.testing.assert_allclose(found[v].T, exact[model.names[v]], rtol=0, atol=1e-10)

    def test_tables_with_zeros(self):
        """States that cannot be, parents that cannot meet."""
        model = lt.TabularModel(
            "A->B; A,B->x; B->y; A->z",
            {
                "A": [0.5, 0.5, 0.0],
                "B": [[1.0, 0.0], [0.3, 0.7], [0.5, 0.5]],
                "x": np.full((3, 2, 2), 0.5),
                "y": [[0.9, 0.1], [0.0, 1.0]],
                "z": [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]],
            },
            latents=["A", "B"],
        )
        rows = rows_of(model, np.random.default_rng(0), 50, holes=0.3)
        found = sum_counts(compile_estep(model.graph), tables_of(model), rows)
        assert_equal(found, enumerated(model, rows))


class TestSums:
    @pytest.mark.parametrize("kind", ["chain", "loop", "inside", "forest"])
    def test_blocks_add(self, kind):
        model, rng = drawn(kind, 2)
        rows = rows_of(model, rng, 100, holes=0.2)
        estep, tables = compile_estep(model.graph), tables_of(model)
        whole = sum_counts(estep, tables, rows)
        parts = [sum_counts(estep, tables, rows[a:b]) for a, b in [(0, 1), (1, 40), (40, 100)]]
        total = parts[0] + parts[1] + parts[2]
        assert (total.rows, total.weight) == (100, pytest.approx(rows.total))
        for name, value in whole.sums.items():
            np.testing.assert_allclose(total.sums[name], value, rtol=1e-12, atol=1e-12)

    def test_inner_blocks_do_not_matter(self, monkeypatch):
        model, rng = drawn("tree", 1)
        rows = rows_of(model, rng, 100)
        estep, tables = compile_estep(model.graph), tables_of(model)
        whole = sum_counts(estep, tables, rows)
        monkeypatch.setattr(estep_module, "MOST_ROWS", 7)
        monkeypatch.setattr(estep_module, "LEAST_ROWS", 1)
        for name, value in sum_counts(estep, tables, rows).sums.items():
            np.testing.assert_allclose(value, whole.sums[name], rtol=1e-12, atol=1e-12)

    def test_whole_weights_are_repeated_rows(self):
        model, rng = drawn("diamond", 0)
        times = rng.integers(0, 4, size=50)
        rows = rows_of(model, rng, 50, holes=0.2)
        estep, tables = compile_estep(model.graph), tables_of(model)
        one = sum_counts(estep, tables, Rows(rows.codes, times.astype(float)))
        again = Rows(tuple(np.repeat(c, times) for c in rows.codes))
        for name, value in sum_counts(estep, tables, again).sums.items():
            np.testing.assert_allclose(value, one.sums[name], rtol=1e-11, atol=1e-11)

    def test_counts_of_families_agree_with_each_other(self):
        """Counts of a child, summed over it, are those of its parents, where nothing is missing."""
        model, rng = drawn("tree", 3)
        rows = rows_of(model, rng, 60)
        sums = sum_counts(compile_estep(model.graph, []), tables_of(model), rows).sums
        for v, above in parents(model.graph):
            assert sums[f"counts/{v}"].sum() == pytest.approx(rows.total)
            if len(above) == 1:
                grand = model.graph.parents()[above[0]]
                own = sums[f"counts/{above[0]}"].sum(axis=tuple(range(len(grand))))
                np.testing.assert_allclose(sums[f"counts/{v}"].sum(axis=-1), own, atol=1e-10)

    def test_packed_rows_give_the_same(self):
        model, rng = drawn("inside", 1)
        rows = rows_of(model, rng, 60, holes=0.2)
        estep, tables = compile_estep(model.graph), tables_of(model)
        one, two = (
            packed_counts(estep, tables, pack_rows(estep, rows)),
            sum_counts(estep, tables, rows),
        )
        for name, value in one.sums.items():
            np.testing.assert_array_equal(value, two.sums[name])

    def test_no_rows(self):
        model, _ = drawn("chain", 0)
        empty = Rows(tuple(np.zeros(0, dtype=np.int8) for _ in model.graph.observed))
        sums = sum_counts(compile_estep(model.graph), tables_of(model), empty).sums
        assert all((value == 0).all() for value in sums.values())

    def test_only_one_graph_adds(self):
        one, two = (drawn("chain", seed) for seed in (0, 1))
        found = [
            sum_counts(compile_estep(m.graph), tables_of(m), rows_of(m, rng))
            for m, rng in (one, two)
        ]
        with pytest.raises(MomentsError, match="do not belong together"):
            found[0] + found[1]


class TestScale:
    def test_many_columns_neither_underflow_nor_lose_digits(self):
        """600 columns of one latent class: each row has a probability near e^-600."""
        graph = latent_class(600, 3).with_states({f"X{i}": 3 for i in range(600)})
        rng = np.random.default_rng(0)
        model = random_model(graph, rng)
        rows = rows_of(model, rng, 20, holes=0.1)
        self.assert_like_exact(model, rows)

    def test_contradictions_beyond_the_smallest_numbers(self):
        """Every state explains half of the columns, and gives the others 1e-30 each."""
        graph = latent_class(60, 2).with_states({f"X{i}": 2 for i in range(60)})
        tables = {"H": np.array([0.5, 0.5])}
        for i in range(60):
            near = np.array([[1 - 1e-30, 1e-30], [1e-30, 1 - 1e-30]])
            tables[f"X{i}"] = near if i % 2 else near[::-1]
        model = lt.TabularModel(graph, tables)
        rows = Rows(tuple(np.zeros((60, 2), dtype=np.int8)), np.array([1.0, 2.0]))
        self.assert_like_exact(model, rows)

    @pytest.mark.parametrize("tiny", [passes.TINY, 2.0], ids=["plain", "every factor rescaled"])
    def test_latents_between_many_columns(self, tiny, monkeypatch):
        """Cliques that only pass on what comes from one child, rescaled on the way."""
        monkeypatch.setattr(passes, "TINY", tiny)
        edges = [("A", "B"), ("B", "C"), ("C", "D"), ("D", "E")]
        edges += [(h, f"{h}{i}") for h in "AE" for i in range(60)]
        graph = lt.as_graph(edges, dict.fromkeys("ABCDE", 3))
        graph = graph.with_states({graph.names[v]: 2 for v in graph.observed})
        rng = np.random.default_rng(3)
        model = random_model(graph, rng)
        rows = rows_of(model, rng, 20, holes=0.1)
        self.assert_like_exact(model, rows)
        evidence = model.evidence(np.column_stack(rows.codes).astype(int))
        sums = sum_counts(compile_estep(graph), tables_of(model), rows).sums
        for h in "BCDE":
            exact = rows.weight @ model.posteriors(evidence, [h])[h]
            found = sums[f"counts/{graph.index(h)}"].sum(axis=0)
            np.testing.assert_allclose(found, exact, atol=1e-9)

    def test_a_long_chain(self):
        rng = np.random.default_rng(1)
        graph = hidden_markov(500, 3).with_states({f"X{t}": 3 for t in range(500)})
        model = random_model(graph, rng)
        self.assert_like_exact(model, rows_of(model, rng, 10, holes=0.2))

    @staticmethod
    def assert_like_exact(model, rows):
        estep = compile_estep(model.graph)
        sums = sum_counts(estep, tables_of(model), rows).sums
        evidence = model.evidence(np.column_stack(rows.codes).astype(int))
        exact = float(model.log_evidence(evidence) @ rows.weight)
        assert sums["log_likelihood"][0] == pytest.approx(exact, rel=1e-12)
        first = min(model.graph.latent)
        belief = model.posteriors(evidence, [model.names[first]])[model.names[first]]
        np.testing.assert_allclose(sums[f"counts/{first}"], rows.weight @ belief, atol=1e-9)

    @pytest.mark.parametrize("make", [lambda n: hidden_markov(n, 3), lambda n: grid(n, 3, 2)])
    def test_linear_in_the_number_of_latents(self, make):
        graphs = [make(n) for n in (20, 40)]
        graphs = [g.with_states({g.names[v]: 3 for v in g.observed}) for g in graphs]
        small, large = (compile_estep(g) for g in graphs)
        assert large.width < 2.2 * small.width
        assert large.widest == small.widest

    def test_a_chain_multiplies_matrices_of_its_states_only(self):
        graph = hidden_markov(30, 5).with_states({f"X{t}": 3 for t in range(30)})
        assert compile_estep(graph).widest == 5

    def test_columns_without_holes_are_conditioned_on(self):
        """An autoregressive chain costs no more than a plain one, as long as nothing is missing."""
        edges = [(f"H{t}", f"H{t + 1}") for t in range(5)] + [
            (f"X{t}", f"X{t + 1}") for t in range(5)
        ]
        edges += [(f"H{t}", f"X{t}") for t in range(6)]
        names = {f"X{t}": 4 for t in range(6)}
        graph = lt.as_graph(edges, {f"H{t}": 3 for t in range(6)}, names)
        assert compile_estep(graph, []).widest == 3
        assert compile_estep(graph).widest > 3


class TestErrors:
    def test_an_impossible_row_is_named(self):
        model = lt.TabularModel(
            "H->x; H->y",
            {"H": [0.5, 0.5], "x": [[1, 0], [0, 1]], "y": [[1, 0], [0, 1]]},
            latents=["H"],
        )
        rows = Rows((np.array([0, 1, 0]), np.array([0, 1, 1])))
        with pytest.raises(EvidenceError, match="row 2 has probability zero"):
            sum_counts(compile_estep(model.graph), tables_of(model), rows)

    def test_an_impossible_cell_without_latents(self):
        model = lt.TabularModel("x; y", {"x": [1.0, 0.0], "y": [0.5, 0.5]})
        rows = Rows((np.array([0, 1]), np.array([0, 1])))
        with pytest.raises(EvidenceError, match="probability zero"):
            sum_counts(compile_estep(model.graph), tables_of(model), rows)

    def test_undirected_graphs_are_refused_with_a_hint(self):
        graph = lt.as_graph("H--x; H--y", {"H": 2}, {"x": 2, "y": 2})
        with pytest.raises(GraphError, match=r"directed graph.*learner='pbp'"):
            compile_estep(graph)

    def test_states_must_be_known(self):
        with pytest.raises(PlanError, match="states of latent 'H' is not known"):
            compile_estep(lt.as_graph("H->x", ["H"], {"x": 2}))

    def test_cliques_beyond_reason(self):
        graph = factorial_markov(3, 12, 10)
        graph = graph.with_states({graph.names[v]: 2 for v in graph.observed})
        with pytest.raises(PlanError, match="joint states"):
            compile_estep(graph)

    def test_holes_must_be_announced(self):
        model, rng = drawn("chain", 0)
        rows = rows_of(model, rng, holes=0.5)
        with pytest.raises(DataError, match="was said to have no missing cells"):
            sum_counts(compile_estep(model.graph, []), tables_of(model), rows)
