"""Gaussian leaves against scikit-learn, enumeration and quadrature."""

import itertools
import warnings

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm
from sklearn.mixture import GaussianMixture
from tests.blocks import FoldOnly

import latentia as lt
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.errors import DataError, GraphError
from latentia.exact import gaussian_leaves as ga
from latentia.exact.estep import sum_counts
from latentia.exact.estep_wiring import compile_estep
from latentia.exact.row_posteriors import latent_posteriors
from latentia.networks.em_climb import climb
from latentia.networks.em_problem import pose
from latentia.networks.starts import random_tables, seeding_of
from latentia.networks.stepwise import StepwiseEM
from latentia.structure.plan import make_plan

CELLS = 32


def random_leaf(rng, shape, components):
    leaf = np.empty((*shape, components, 3))
    leaf[..., 0] = rng.dirichlet(np.ones(components), size=shape)
    leaf[..., 1] = rng.normal(size=(*shape, components))
    leaf[..., 2] = rng.uniform(0.2, 1.5, size=(*shape, components))
    return leaf


def log_density(leaf, x):
    """log P(x | s), (parents …), one value."""
    parts = np.log(leaf[..., 0]) + norm.logpdf(x, leaf[..., 1], np.sqrt(leaf[..., 2]))
    return logsumexp(parts, axis=-1)


def chain(length, states, extra=""):
    names = [f"x{t}" for t in range(length)]
    text = "; ".join(f"H{t}->H{t + 1}" for t in range(length - 1))
    text += "; " + "; ".join(f"H{t}->{x}" for t, x in enumerate(names)) + extra
    return lt.as_graph(text, {f"H{t}": states for t in range(length)}, dict.fromkeys(names, CELLS))


def enumerated(graph, tables, continuous, rows):
    """log P(row), expected counts of tables and component sums of leaves, by all joint states."""
    hidden = [v for v in range(len(graph.names)) if v not in continuous]
    parents = graph.parents()
    sums = {v: np.zeros(np.shape(t)) for v, t in tables.items()}
    logs = []
    columns = dict(zip(graph.observed, rows.codes, strict=True))
    for i in range(len(rows)):
        terms = []
        for states in itertools.product(*(range(graph.states[v]) for v in hidden)):
            at = dict(zip(hidden, states, strict=True))
            if any(v in columns and columns[v][i] >= 0 and columns[v][i] != at[v] for v in hidden):
                continue
            log = 0.0
            for v in hidden:
                log += np.log(tables[v][(*(at[u] for u in parents[v]), at[v])])
            for v in continuous:
                if not np.isnan(columns[v][i]):
                    log += log_density(tables[v][tuple(at[u] for u in parents[v])], columns[v][i])
            terms.append((at, log))
        total = logsumexp([log for _, log in terms])
        logs.append(total)
        weight = 1.0 if rows.weight is None else rows.weight[i]
        for at, log in terms:
            p = np.exp(log - total) * weight
            for v in hidden:
                sums[v][(*(at[u] for u in parents[v]), at[v])] += p
            for v in continuous:
                x = columns[v][i]
                if not np.isnan(x):
                    leaf = tables[v][tuple(at[u] for u in parents[v])]
                    r = leaf[:, 0] * norm.pdf(x, leaf[:, 1], np.sqrt(leaf[:, 2]))
                    r = p * r / r.sum()
                    sums[v][tuple(at[u] for u in parents[v])] += r[:, None] * [1.0, x, x * x]
    return np.array(logs), sums


class TestLeaf:
    @pytest.mark.parametrize("components", [1, 3])
    def test_likelihoods_and_sums(self, components):
        rng = np.random.default_rng(0)
        leaves = [random_leaf(rng, (2, 3), components) for _ in range(2)]
        X = rng.normal(size=(2, 50))
        X[0, ::7], X[1, ::5] = np.nan, np.nan
        F, terms = ga.features(X), ga.log_terms(leaves)
        found = ga.leaf_log_likelihoods(terms, F)
        for i in range(50):
            parts = [
                log_density(leaf, x[i])
                for leaf, x in zip(leaves, X, strict=True)
                if not np.isnan(x[i])
            ]
            expected = np.sum(parts, axis=0).ravel() if parts else 0.0
            np.testing.assert_allclose(found[:, i], expected, atol=1e-12)
        share = rng.random((6, 50))
        sums = ga.component_sums(terms, F, share)[0]
        there = ~np.isnan(X[0])
        np.testing.assert_allclose(sums[..., 0].sum(axis=1), share[:, there].sum(axis=1))
        np.testing.assert_allclose(sums[..., 1].sum(axis=1), share[:, there] @ X[0, there])

    def test_the_m_step_is_the_maximum(self):
        rng = np.random.default_rng(1)
        sums = ga.leaf_sums(random_leaf(rng, (2,), 2)) * rng.uniform(1, 9, size=(2, 2, 1))

        def value(leaf, pseudo):
            added = sums + pseudo / 2 * np.array([1.0, 0.0, 1.0])
            return (ga._coefficients(leaf) * added).sum()

        for pseudo in (0.0, 3.0):
            best = ga.maximise_leaf(sums, 0.0, pseudo)
            np.testing.assert_allclose(best[..., 0].sum(axis=-1), 1.0)
            for _ in range(50):
                other = best * (1 + rng.normal(scale=0.02, size=best.shape))
                other[..., 0] /= other[..., 0].sum(axis=-1, keepdims=True)
                assert value(other, pseudo) < value(best, pseudo)
        floored = ga.maximise_leaf(sums, 2.0)
        assert floored[..., 2].min() == 2.0
        np.testing.assert_allclose(ga.maximise_leaf(np.zeros((2, 1, 3)), 0.1), [[[1, 0, 1]]] * 2)

    def test_grid_masses(self):
        """Against quadrature of the density times hats; what lies outside goes to the ends."""
        rng = np.random.default_rng(2)
        leaf = ga.rescaled(random_leaf(rng, (3,), 2), 10.0, 4.0)
        found = ga.grid_masses(leaf, 20)
        np.testing.assert_allclose(found.sum(axis=-1), 1.0)
        x = np.linspace(-60, 80, 70_001)
        at = np.clip(x, 0, 19)
        for s in range(3):
            density = np.exp(log_density(leaf[s], x[:, None]))
            for j in (0, 7, 19):
                hat = np.maximum(1 - np.abs(at - j), 0)
                assert found[s, j] == pytest.approx(np.trapezoid(density * hat, x), abs=1e-6)

    def test_starts_lie_apart(self):
        rng = np.random.default_rng(3)
        X = np.concatenate([rng.normal(c, 0.01, size=(2, 300)) for c in (-1, 0, 1)], axis=1)
        leaves = ga.draw_leaves(X, [3], 1, rng)
        assert leaves.shape == (2, 3, 1, 3)
        np.testing.assert_allclose(np.sort(leaves[0, :, 0, 1]), [-1, 0, 1], atol=0.1)
        np.testing.assert_allclose(ga.draw_leaves(np.zeros((1, 4)), [3], 2, rng)[..., 1], 0.0)


@pytest.mark.usefixtures("kernel_level")
class TestEStep:
    @pytest.mark.parametrize("components", [1, 2])
    @pytest.mark.parametrize("holes", [0.0, 0.3])
    def test_a_chain_equals_enumeration(self, components, holes):
        rng = np.random.default_rng(4)
        graph = chain(4, 2)
        dense = list(graph.observed)
        tables = random_tables(graph, np.random.SeedSequence(0))
        tables |= {v: random_leaf(rng, (2,), components) for v in dense}
        X = rng.normal(size=(4, 12))
        X[rng.random(X.shape) < holes] = np.nan
        rows = Rows(tuple(X), rng.uniform(0.5, 2.0, size=12))
        estep = compile_estep(graph, continuous=dense)
        found = sum_counts(estep, tables, rows)
        logs, sums = enumerated(graph, tables, dense, rows)
        assert found.sums["log_likelihood"][0] == pytest.approx(logs @ rows.weight, abs=1e-10)
        for v, expected in sums.items():
            np.testing.assert_allclose(found.sums[f"counts/{v}"], expected, atol=1e-10)

    def test_mixed_parents_equal_enumeration(self):
        """Discrete columns beside, above, and none above continuous ones; two latents above one."""
        rng = np.random.default_rng(5)
        graph = lt.as_graph(
            "A->B; A->d; A,B->x; B,d->y; B->z; A->z; e", {"A": 2, "B": 3},
            {"d": 3, "x": CELLS, "y": CELLS, "z": 2, "e": CELLS},
        )  # fmt: skip
        dense = [graph.index(name) for name in "xye"]
        tables = random_tables(graph, np.random.SeedSequence(1))
        for v in dense:
            shape = [graph.states[u] for u in graph.parents()[v]]
            tables[v] = random_leaf(rng, shape, 2)
        columns = []
        for v in graph.observed:
            if v in dense:
                x = rng.normal(size=10)
                columns.append(np.where(rng.random(10) < 0.2, np.nan, x))
            else:
                columns.append(rng.integers(-1, graph.states[v], size=10).astype(np.int8))
        rows = Rows(tuple(columns))
        estep = compile_estep(graph, continuous=dense)
        found = sum_counts(estep, tables, rows)
        logs, sums = enumerated(graph, tables, dense, rows)
        assert found.sums["log_likelihood"][0] == pytest.approx(logs.sum(), abs=1e-10)
        for v, expected in sums.items():
            if graph.names[v] == "z":  # missing cells of leaves are left out of counts
                continue
            np.testing.assert_allclose(found.sums[f"counts/{v}"], expected, atol=1e-10)
        A = latent_posteriors(estep, tables, rows, [graph.index("A")])[graph.index("A")]
        np.testing.assert_allclose(A.sum(axis=0), 1.0)
        np.testing.assert_allclose(A.sum(axis=1), sums[graph.index("A")], atol=1e-10)

    def test_blocks_add(self):
        rng = np.random.default_rng(6)
        graph = chain(3, 3)
        dense = list(graph.observed)
        tables = random_tables(graph, np.random.SeedSequence(2))
        tables |= {v: random_leaf(rng, (3,), 1) for v in dense}
        rows = Rows(tuple(rng.normal(size=(3, 900))))
        estep = compile_estep(graph, continuous=dense)
        whole = sum_counts(estep, tables, rows)
        parts = sum_counts(estep, tables, rows[:400]) + sum_counts(estep, tables, rows[400:])
        for name, total in whole.sums.items():
            np.testing.assert_allclose(parts.sums[name], total, rtol=1e-10)

    def test_far_values_and_sharp_states(self):
        """One state is e^800 likelier by its column, and ruled out by a table: still finite."""
        graph = lt.as_graph("H->x; H->d", {"H": 2}, {"x": CELLS, "d": 2})
        tables = {0: np.array([0.5, 0.5]), 1: np.zeros((2, 1, 3)), 2: np.eye(2)}
        tables[1][:] = [[[1.0, 0.0, 0.01]], [[1.0, 4.0, 0.01]]]
        rows = Rows((np.array([0.0, 4.0]), np.array([0, 0], dtype=np.int8)))
        estep = compile_estep(graph, [], continuous=[1])
        found = sum_counts(estep, tables, rows)
        np.testing.assert_allclose(found.sums["counts/0"], [2.0, 0.0], atol=1e-12)
        assert np.isfinite(found.sums["log_likelihood"]).all()

    def test_children_of_continuous_columns_are_refused(self):
        graph = lt.as_graph("H->x; x->y", {"H": 2}, {"x": CELLS, "y": 2})
        with pytest.raises(GraphError, match="continuous columns without children, got 'x' -> 'y'"):
            compile_estep(graph, continuous=[graph.index("x")])


def mixture_rows(rng, n=300, columns=3):
    h = rng.integers(3, size=n)
    means = rng.normal(scale=2.0, size=(columns, 3))
    return tuple(10.0 * (means[c][h] + rng.normal(size=n)) + 40.0 for c in range(columns))


class TestPath:
    def test_equals_scikit_learn(self):
        """A latent class model with Gaussian leaves is GaussianMixture(covariance_type="diag")."""
        rng = np.random.default_rng(7)
        graph = lt.as_graph("H->x,y,z", {"H": 3}, dict.fromkeys("xyz", CELLS))
        columns = mixture_rows(rng)
        problem = pose(make_plan(graph), source := LocalRows(Rows(columns)))
        scales = [problem.scales[v] for v in graph.observed]
        X = np.column_stack([(c - m) / s for c, (m, s) in zip(columns, scales, strict=True)])
        np.testing.assert_allclose(X.std(axis=0), 1.0)
        start = random_tables(graph, np.random.SeedSequence(3), seeding_of(problem, source, 1))
        found = climb(problem, start, 30, 0.0)
        leaves = [start[v][:, 0] for v in graph.observed]
        theirs = GaussianMixture(
            3, covariance_type="diag", reg_covar=0.0, tol=0.0, max_iter=1, warm_start=False,
            weights_init=start[graph.index("H")],
            means_init=np.column_stack([leaf[:, 1] for leaf in leaves]),
            precisions_init=np.column_stack([1 / leaf[:, 2] for leaf in leaves]),
        )  # fmt: skip
        for iterations in (1, 2, 3, 10, 30):
            theirs.set_params(max_iter=iterations)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs.fit(X)
            # its bound is that of the last E-step, one M-step before its parameters
            assert theirs.lower_bound_ == pytest.approx(found.path[iterations - 1], abs=1e-6)
            if iterations > 1:
                assert theirs.score(X) == pytest.approx(found.path[iterations], abs=1e-6)

    def test_steps_equal_enumeration(self):
        rng = np.random.default_rng(8)
        graph = chain(3, 2)
        X = rng.normal(size=(3, 25)) + np.array([[0.0], [1.0], [2.0]])
        X[rng.random(X.shape) < 0.15] = np.nan
        problem = pose(make_plan(graph), source := LocalRows(Rows(tuple(X))), floor=0.05)
        start = random_tables(graph, np.random.SeedSequence(4), seeding_of(problem, source, 2))
        found = climb(problem, start, 4, 0.0)
        Z = Rows(tuple((X[i] - m) / s for i, (m, s) in enumerate(problem.scales.values())))
        tables, dense = dict(start), list(graph.observed)
        for level in found.path:
            logs, sums = enumerated(graph, tables, dense, Z)
            assert logs.mean() == pytest.approx(level, abs=1e-9)
            tables = {
                v: ga.maximise_leaf(s, 0.05) if v in dense else s / s.sum(axis=-1, keepdims=True)
                for v, s in sums.items()
            }

    @pytest.mark.parametrize("mixture", [1, 3])
    @pytest.mark.parametrize("smoothing", [0.0, 2.0])
    @pytest.mark.parametrize("floor", [1e-3, 0.3])
    def test_never_falls(self, mixture, smoothing, floor):
        rng = np.random.default_rng(9)
        graph = chain(3, 3, "; H0->d").with_states({"d": 2})
        X = rng.normal(size=(3, 200))
        X[rng.random(X.shape) < 0.2] = np.nan
        d = rng.integers(-1, 2, size=200).astype(np.int8)
        by_name = {"x0": X[0], "x1": X[1], "x2": X[2], "d": d}
        rows = Rows(tuple(by_name[graph.names[v]] for v in graph.observed))
        problem = pose(make_plan(graph), source := LocalRows(rows), smoothing, floor)
        for seed in range(3):
            start = random_tables(
                graph, np.random.SeedSequence(seed), seeding_of(problem, source, mixture)
            )
            start = climb(problem, start, 1, 0.0).tables  # starts may lie below the floor
            path = climb(problem, start, 40, 0.0).path
            assert np.diff(path).min() > -1e-10
            assert path[-1] > path[0]

    def test_units_do_not_matter(self):
        rng = np.random.default_rng(10)
        graph = lt.as_graph("H->x,y,z", {"H": 3}, dict.fromkeys("xyz", CELLS))
        columns = mixture_rows(rng)
        other = tuple(1e6 + 1e3 * c for c in columns)
        paths = [
            lt.EM(3, random_state=0)
            .learn(make_plan(graph), LocalRows(Rows(c)))
            .provenance.ascent.paths
            for c in (columns, other)
        ]
        for a, b in zip(*paths, strict=True):
            np.testing.assert_allclose(a[:20], b[:20], atol=1e-6)


class TestLearners:
    def rows(self, rng, n=2000):
        """Two latents, the second mostly equal to the first; well separated."""
        a = rng.integers(2, size=n)
        b = np.where(rng.random(n) < 0.9, a, 1 - a)
        x = np.where(a, 22.0, 10.0) + rng.normal(scale=2.0, size=n)
        y = np.where(b, 8.0, 20.0) + rng.normal(scale=1.0, size=n)
        z = np.where(b, 9.0, 21.0) + rng.normal(scale=3.0, size=n)
        return (a, b), Rows((x, y, z))

    GRAPH = lt.as_graph("A->B; A->x; B->y,z", {"A": 2, "B": 2}, dict.fromkeys("xyz", CELLS))

    @pytest.mark.parametrize("learner", [lt.EM(5, random_state=0),
                                         StepwiseEM(restarts=5, random_state=0)])  # fmt: skip
    def test_a_well_separated_truth_is_found(self, learner):
        _, rows = self.rows(np.random.default_rng(11))
        found = learner.learn(make_plan(self.GRAPH), LocalRows(rows))
        names = self.GRAPH.names
        leaves = {names[v]: leaf for v, leaf in found.gaussians.items()}
        # A in the order of x; y tells B, in its own order
        np.testing.assert_allclose(leaves["x"][:, 0, 1], [10, 22], atol=0.5)
        np.testing.assert_allclose(leaves["y"][:, 0, 1], [8, 20], atol=0.5)
        np.testing.assert_allclose(np.sqrt(leaves["y"][:, 0, 2]), 1.0, atol=0.15)
        B = found.tables[names.index("B")]
        np.testing.assert_allclose(B, [[0.1, 0.9], [0.9, 0.1]], atol=0.05)
        for v, table in found.tables.items():
            assert table.shape[-1] == self.GRAPH.states[v]
            np.testing.assert_allclose(table.sum(axis=-1), 1.0)

    def test_answers_do_not_depend_on_jobs(self):
        _, rows = self.rows(np.random.default_rng(12), 300)
        plan, source = make_plan(self.GRAPH), LocalRows(rows)
        found = [
            lt.EM(3, mixture=2, random_state=1, n_jobs=jobs).learn(plan, source)
            for jobs in (None, 2)
        ]
        assert found[0].provenance.ascent == found[1].provenance.ascent
        for v, leaf in found[0].gaussians.items():
            np.testing.assert_array_equal(leaf, found[1].gaussians[v])

    def test_a_source_that_only_folds(self):
        _, rows = self.rows(np.random.default_rng(13), 300)

        source = FoldOnly.of(rows, 3)
        found = lt.EM(3, random_state=1).learn(make_plan(self.GRAPH), source)
        local = lt.EM(3, random_state=1).learn(make_plan(self.GRAPH), LocalRows(rows))
        for a, b in zip(found.provenance.ascent.paths, local.provenance.ascent.paths, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-9)  # the same starts; sums in other orders

    def test_parameters(self):
        _, rows = self.rows(np.random.default_rng(14), 50)
        plan, source = make_plan(self.GRAPH), LocalRows(rows)
        with pytest.raises(DataError, match="expected mixture to be"):
            lt.EM(mixture=0).learn(plan, source)
        with pytest.raises(DataError, match="expected variance_floor to be"):
            lt.EM(variance_floor=-1).learn(plan, source)
        with pytest.raises(DataError, match="init takes tables of discrete columns only"):
            lt.EM(init={"A": [0.5, 0.5]}).learn(plan, source)
