"""EM against enumeration and other libraries: same path, same tables, honest about its end."""

import warnings

import numpy as np
import pytest
from scipy.special import xlogy
from sklearn.base import clone

import latentia as lt
from latentia.data.rows import Rows
from latentia.data.sources import memory
from latentia.data.sources.memory import LocalRows, equal_rows, unique_rows
from latentia.errors import (
    ConvergenceWarning,
    DataError,
    EvidenceError,
    GraphError,
    LatentiaError,
    NotLearnedError,
    PlanError,
    UnknownNameError,
)
from latentia.inference.answering import answer
from latentia.inference.evidence import read_evidence
from latentia.networks import em_climb
from latentia.networks import to_operators as cpts
from latentia.networks.em_climb import climb
from latentia.networks.em_problem import maximise, pose
from latentia.networks.starts import random_tables, spawn_seeds
from latentia.networks.to_operators import check_operators, in_fixed_order, operators_of
from latentia.structure.plan import make_plan
from latentia.structure.templates import factorial_markov, hidden_markov, latent_class
from latentia.testing.random_models import (
    KINDS,
    brute_force,
    expected_counts,
    random_graph,
    random_model,
)

DIRECTED = [kind for kind in KINDS if kind != "undirected"]
NET = lt.as_graph(
    "A->B; A->x; B->y; B->z; A,B->w; x->u",
    {"A": 2, "B": 3},
    {"x": 3, "y": 2, "z": 3, "w": 2, "u": 2},
)


def tables_of(model):
    return {scope[-1]: table for scope, table in model.tables.items()}


def named(graph, tables):
    return {graph.names[v]: table for v, table in tables.items()}


def rows_of(model, rng, n, holes=0.0):
    codes = model.sample(n, rng)
    codes = np.where(rng.random(codes.shape) < holes, -1, codes)
    return Rows(tuple(codes.T.astype(np.int8)))


def problem_of(graph, rows, smoothing=0.0):
    return pose(make_plan(graph), LocalRows(rows), smoothing)


def frame_of(model, rows):
    names = [model.names[v] for v in model.graph.observed]
    cells = [np.where(c < 0, np.nan, c) for c in rows.codes]
    return dict(zip(names, cells, strict=True))


def separated(graph, rng, sure=0.9):
    """Tables in which every variable follows its parents' sum, mostly."""
    cpts = {}
    for v, above in enumerate(graph.parents()):
        states = graph.states[v]
        shape = [graph.states[u] for u in above]
        table = np.full([*shape, states], (1 - sure) / max(states - 1, 1))
        for index in np.ndindex(*shape):
            table[(*index, sum(index) % states)] = sure
        cpts[graph.names[v]] = table if above else rng.dirichlet(np.full(states, 20.0))
        cpts[graph.names[v]] /= cpts[graph.names[v]].sum(axis=-1, keepdims=True)
    return lt.TabularModel(graph, cpts)


def enumerated_em(graph, start, rows, iterations, prior=None):
    """The levels of EM by enumeration of all joint states, missing cells summed out."""
    tables, path = dict(start), []
    for _ in range(iterations + 1):
        model = lt.TabularModel(graph, named(graph, tables))
        counts, level = expected_counts(graph, model, rows.codes)
        if prior is not None:
            for v, table in tables.items():
                level += (prior[v] * np.log(table)).sum()
                counts[v] += prior[v]
        path.append(level / len(rows))
        tables = {v: c / c.sum(axis=-1, keepdims=True) for v, c in counts.items()}
    return path


class TestPath:
    @pytest.mark.parametrize("holes", [0.0, 0.3])
    def test_equals_enumeration(self, holes):
        """With holes: EM on the likelihood with the missing cells summed out."""
        rng = np.random.default_rng(3)
        rows = rows_of(random_model(NET, rng, 2.0), rng, 60, holes)
        start = random_tables(NET, np.random.SeedSequence(1))
        found = climb(problem_of(NET, rows), start, 12, 0.0)
        np.testing.assert_allclose(found.path, enumerated_em(NET, start, rows, 12), atol=1e-10)

    def test_smoothing_equals_enumeration(self):
        rng = np.random.default_rng(4)
        rows = rows_of(random_model(NET, rng), rng, 40, 0.1)
        start = random_tables(NET, np.random.SeedSequence(2))
        prior = {}
        for v, above in enumerate(NET.parents()):
            share = np.full(NET.states[v], 1 / NET.states[v])
            if above and v not in NET.latent:
                codes = rows.codes[NET.observed.index(v)]
                share = np.bincount(codes[codes >= 0], minlength=NET.states[v]) / (codes >= 0).sum()
            prior[v] = 2.5 * share
        found = climb(problem_of(NET, rows, smoothing=2.5), start, 10, 0.0)
        wanted = enumerated_em(NET, start, rows, 10, prior)
        np.testing.assert_allclose(found.path, wanted, atol=1e-10)

    @pytest.mark.parametrize("kind", DIRECTED)
    @pytest.mark.parametrize("smoothing", [0.0, 1.0])
    def test_never_falls(self, kind, smoothing):
        rng = np.random.default_rng(5)
        graph = random_graph(rng, kind)
        while not graph.directed:
            graph = random_graph(rng, kind)
        problem = problem_of(graph, rows_of(random_model(graph, rng), rng, 200, 0.2), smoothing)
        for seed in spawn_seeds(0, 3):
            path = climb(problem, random_tables(graph, seed), 40, 0.0).path
            assert np.diff(path).min() > -1e-11
            assert path[-1] > path[0]

    def test_a_fall_is_an_error(self, monkeypatch):
        rng = np.random.default_rng(6)
        problem = problem_of(NET, rows_of(random_model(NET, rng), rng, 50))
        random = random_tables(NET, np.random.SeedSequence(9))
        monkeypatch.setattr(em_climb, "maximise", lambda counts, prior: random)
        start = climb(problem, tables_of(random_model(NET, rng)), 1, 0.0)
        monkeypatch.undo()
        best = climb(problem, start.tables, 50, 0.0).tables
        monkeypatch.setattr(em_climb, "maximise", lambda counts, prior: random)
        with pytest.raises(LatentiaError, match="likelihood fell"):
            climb(problem, best, 5, 0.0)

    def test_equals_pyagrum(self):
        """The tables after each of the first iterations from the same start."""
        gum = pytest.importorskip("pyagrum", reason="needs the oracle: pip install pyagrum")
        pandas = pytest.importorskip("pandas")
        rng = np.random.default_rng(7)
        graph = lt.as_graph("A->B; A->x; B->y; B->z", {"A": 2, "B": 2}, dict.fromkeys("xyz", 3))
        rows = rows_of(random_model(graph, rng, 1.0), rng, 80)
        start = random_tables(graph, np.random.SeedSequence(5))
        bn = as_pyagrum(gum, graph, start)
        columns = {
            graph.names[v]: c.astype(str) for v, c in zip(graph.observed, rows.codes, strict=True)
        }
        data = pandas.DataFrame({**columns, "A": "?", "B": "?"})
        problem = problem_of(graph, rows)
        for iterations in (1, 2, 5):
            learner = gum.BNLearner(data, bn, ["?"])
            learner.useEM(1e-14, 0.0)
            learner.EMsetMaxIter(iterations)
            learned = learner.learnParameters(bn)
            found = climb(problem, start, iterations, 0.0)
            for v, above in enumerate(graph.parents()):
                cpt = learned.cpt(graph.names[v])
                for index in np.ndindex(*[graph.states[u] for u in above]):
                    names = [graph.names[u] for u in above]
                    row = cpt[dict(zip(names, index, strict=True))] if above else cpt.toarray()
                    np.testing.assert_allclose(found.tables[v][index], row, atol=1e-6)

    def test_equals_stepmix(self):
        """The likelihood after each iteration of a latent class model from the same start."""
        stepmix = pytest.importorskip("stepmix", reason="needs the rival: pip install stepmix")
        rng = np.random.default_rng(8)
        graph = latent_class(6, 3).with_states({f"X{i}": 2 for i in range(6)})
        rows = rows_of(separated(graph, rng, 0.8), rng, 400)
        X = np.column_stack(rows.codes)

        def fitted(iterations):
            model = stepmix.StepMix(
                3, measurement="binary", max_iter=iterations, abs_tol=0, rel_tol=0, random_state=1,
                verbose=0, progress_bar=0,
            )  # fmt: skip
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return model.fit(X)

        first = fitted(1).get_parameters()
        pis = np.asarray(first["measurement"]["pis"])  # (classes, items)
        start = {0: np.asarray(first["weights"])}
        start |= {1 + i: np.column_stack([1 - p, p]) for i, p in enumerate(pis.T)}
        found = climb(problem_of(graph, rows), start, 8, 0.0)
        theirs = [fitted(k).lower_bound_ for k in range(2, 11)]
        np.testing.assert_allclose(found.path, theirs, atol=1e-6)


def as_pyagrum(gum, graph, tables):
    bn = gum.BayesNet()
    for v, name in enumerate(graph.names):
        bn.add(gum.LabelizedVariable(name, "", graph.states[v]))
    for a, b in graph.edges:
        bn.addArc(graph.names[a], graph.names[b])
    for v, above in enumerate(graph.parents()):
        cpt = bn.cpt(graph.names[v])
        for index in np.ndindex(*[graph.states[u] for u in above]):
            names = [graph.names[u] for u in above]
            if above:
                cpt[dict(zip(names, index, strict=True))] = tables[v][index].tolist()
            else:
                cpt.fillWith(tables[v].tolist())
    return bn


class TestTruth:
    @pytest.mark.parametrize(
        "graph",
        [
            latent_class(6, 3).with_states({f"X{i}": 3 for i in range(6)}),
            hidden_markov(5, 2).with_states({f"X{t}": 3 for t in range(5)}),
            lt.as_graph("A->B,C; A->x,y; B->u,v; C->s,t", dict.fromkeys("ABC", 2)).with_states(
                dict.fromkeys("xyuvst", 3)
            ),
        ],
        ids=["latent class", "chain", "tree"],
    )
    def test_a_well_separated_truth_is_found(self, graph, request):
        rng = np.random.default_rng(0)
        truth = separated(graph, rng)
        operators = lt.EM(5, random_state=0, max_iter=500, tol=1e-9).learn(
            make_plan(graph), LocalRows(rows_of(truth, rng, 20_000))
        )
        found = lt.TabularModel(graph, named(graph, operators.tables))
        p, q = brute_force(truth), brute_force(found)
        assert float(xlogy(p, p / q).sum()) < 0.003
        if "chain" not in request.node.callspec.id:  # its ends are seen through one column only
            wanted = in_fixed_order(graph, tables_of(truth))
            for v, table in operators.tables.items():
                np.testing.assert_allclose(table, wanted[v], atol=0.05)

    def test_holes_leave_no_bias(self):
        """40 % missing at random: the distribution is found all the same."""
        graph = latent_class(5, 2).with_states({f"X{i}": 3 for i in range(5)})
        rng = np.random.default_rng(1)
        truth = separated(graph, rng, 0.85)
        rows = rows_of(truth, rng, 40_000, holes=0.4)
        operators = lt.EM(3, random_state=0).learn(make_plan(graph), LocalRows(rows))
        p, q = (
            brute_force(m) for m in (truth, lt.TabularModel(graph, named(graph, operators.tables)))
        )
        assert float(xlogy(p, p / q).sum()) < 0.002


class TestSeeds:
    def test_answers_do_not_depend_on_jobs(self):
        rng = np.random.default_rng(2)
        source = LocalRows(rows_of(random_model(NET, rng), rng, 500, 0.1), block_rows=100)
        plan = make_plan(NET)
        found = [
            lt.EM(4, max_iter=30, random_state=3, n_jobs=jobs).learn(plan, source)
            for jobs in (None, 1, 2, -1)
        ]
        for other in found[1:]:
            assert other.provenance.ascent == found[0].provenance.ascent
            for v, table in found[0].tables.items():
                np.testing.assert_array_equal(table, other.tables[v])

    def test_seeds_of_all_kinds(self):
        seeds = [0, np.random.RandomState(0), np.random.default_rng(0)]
        for a, b in zip(
            seeds, [0, np.random.RandomState(0), np.random.default_rng(0)], strict=True
        ):
            one, two = (random_tables(NET, spawn_seeds(s, 2)[1]) for s in (a, b))
            for v in one:
                np.testing.assert_array_equal(one[v], two[v])
        again = [random_tables(NET, spawn_seeds(None, 1)[0])[0][0] for _ in range(2)]
        assert again[0] != again[1]

    def test_the_first_restarts_are_those_of_fewer(self):
        rng = np.random.default_rng(2)
        source = LocalRows(rows_of(random_model(NET, rng), rng, 100))
        few, many = (
            lt.EM(n, max_iter=5, random_state=3)
            .learn(make_plan(NET), source)
            .provenance.ascent.paths
            for n in (2, 4)
        )
        assert many[:2] == few

    def test_the_order_of_rows_and_blocks_is_no_matter(self):
        rng = np.random.default_rng(2)
        rows = rows_of(random_model(NET, rng), rng, 300, 0.1)
        order = rng.permutation(300)
        sources = [
            LocalRows(rows),
            LocalRows(Rows(tuple(c[order] for c in rows.codes)), block_rows=17),
        ]
        one, two = (
            lt.EM(1, max_iter=20, random_state=0).learn(make_plan(NET), source)
            for source in sources
        )
        np.testing.assert_allclose(
            one.provenance.ascent.paths[0], two.provenance.ascent.paths[0], atol=1e-10
        )

    def test_a_source_that_only_folds(self):
        rng = np.random.default_rng(2)
        rows = rows_of(random_model(NET, rng), rng, 300, 0.1)

        class Stream:
            def fold(self, summary):
                return summary(rows[:100]) + summary(rows[100:])

        learner = lt.EM(2, max_iter=10, random_state=0)
        one, two = (learner.learn(make_plan(NET), s) for s in (Stream(), LocalRows(rows)))
        np.testing.assert_allclose(
            one.provenance.ascent.paths, two.provenance.ascent.paths, atol=1e-10
        )


def test_unique_rows_carry_the_weight_of_all():
    rng = np.random.default_rng(0)
    codes = tuple(rng.integers(2, size=(70, 500)).astype(np.int16) * rng.integers(2, size=500))
    weight = rng.random(500)
    found = unique_rows(Rows(codes, weight), [2**10] * 70)  # too many joint states for one number
    table = np.column_stack(codes)
    unique, place = np.unique(table, axis=0, return_inverse=True)
    order = np.lexsort(np.column_stack(found.codes).T[::-1])
    np.testing.assert_array_equal(np.column_stack(found.codes)[order], unique)
    np.testing.assert_allclose(found.weight[order], np.bincount(place.ravel(), weight))
    distinct = Rows((np.arange(10),))
    assert unique_rows(distinct, [10]) is distinct


@pytest.mark.parametrize("twins", [1, 8])
def test_many_rows_are_sorted_only_where_some_of_them_have_twins(twins, monkeypatch):
    monkeypatch.setattr(memory, "MANY_ROWS", 500)
    monkeypatch.setattr(memory, "PAIRED_ROWS", 200)
    sorted_rows = []

    def watched(columns, states):
        sorted_rows.append(len(columns[0]))
        return equal_rows(columns, states)

    monkeypatch.setattr(memory, "equal_rows", watched)
    kinds = np.arange(4000 // twins).repeat(twins)  # twins lie together: spaced looks miss them
    rows = Rows(((kinds // 64).astype(np.int16), (kinds % 64).astype(np.int16)), np.ones(4000))
    found = unique_rows(rows, [64, 64])
    assert len(found) == 4000 // twins
    assert sorted_rows == ([200] if twins == 1 else [200, 4000])


class TestVerdict:
    def setup_method(self):
        rng = np.random.default_rng(0)
        self.graph = latent_class(4, 2).with_states({f"X{i}": 2 for i in range(4)})
        self.truth = separated(self.graph, rng, 0.85)
        self.rows = rows_of(self.truth, rng, 1000)
        self.data = frame_of(self.truth, self.rows)

    def fitted(self, **parameters):
        learner = lt.EM(**{"restarts": 3, "random_state": 0, **parameters})
        return lt.LatentModel(self.graph, learner=learner).fit(self.data)

    def test_converged(self):
        model = self.fitted()
        assert model.converged_
        path = model.history_[model.operators_.provenance.ascent.best]
        assert len(path) == model.n_iter_ + 1 < 200
        assert path[-1] - path[-2] < 1e-6 <= path[-2] - path[-3]
        assert model.score(self.data) == pytest.approx(path[-1], abs=1e-12)
        assert len(model.history_) == 3
        assert max(p[-1] for p in model.history_) == path[-1]
        assert "converged after" in repr(model.diagnostics_)

    def test_not_converged_is_said(self):
        with pytest.warns(ConvergenceWarning, match="stopped after 2 iterations"):
            model = self.fitted(max_iter=2)
        assert not model.converged_
        assert model.n_iter_ == 2
        assert "before it converged" in repr(model.diagnostics_)

    def test_a_given_start(self):
        model = self.fitted(init=named(self.graph, tables_of(self.truth)), restarts=7)
        assert len(model.history_) == 1
        assert model.history_[0][0] == pytest.approx(
            self.truth.log_evidence(self.truth.evidence(np.column_stack(self.rows.codes))).mean()
        )

    def test_progress(self, capsys):
        self.fitted(verbose=True)
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 3
        assert all("iterations, converged" in line for line in lines)

    def test_progress_to_a_function(self):
        heard = []
        model = self.fitted(verbose=heard.append)
        assert [line[:9] for line in heard] == ["start 1/3", "start 2/3", "start 3/3"]
        assert "verbose" not in repr(model.diagnostics_)

    def test_progress_in_a_terminal(self, capsys, monkeypatch):
        pytest.importorskip("rich")
        monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
        monkeypatch.setenv("TERM", "xterm")
        self.fitted(verbose=True)
        out = capsys.readouterr().out
        assert "starts" in out
        assert "start 3/3" in out

    def test_clone_and_parameters(self):
        learner = lt.EM(3, smoothing=0.5, init={"a": [1.0]})
        assert clone(learner).get_params().keys() == learner.get_params().keys()
        model = lt.LatentModel(self.graph, learner="em")
        assert "em" in repr(clone(model))


class TestTables:
    def test_restarts_end_in_the_same_numbering(self):
        """Different starts, same optimum: the same tables, although the states were shuffled."""
        graph = lt.as_graph("A->B; A->x,y,r; B->u,v,s", {"A": 3, "B": 2})
        graph = graph.with_states(dict.fromkeys("xyruvs", 3))
        rng = np.random.default_rng(0)
        source = LocalRows(rows_of(separated(graph, rng), rng, 2000))
        found = []
        for seed in range(4):
            learner = lt.EM(4, max_iter=500, tol=1e-10, random_state=seed)
            found.append(learner.learn(make_plan(graph), source).tables)
        for other in found[1:]:
            for v, table in found[0].items():
                np.testing.assert_allclose(other[v], table, atol=1e-3)
        codes = found[0][graph.index("x")] @ np.arange(3)
        assert (np.diff(codes) > 0).all()

    @pytest.mark.parametrize("kind", DIRECTED)
    def test_any_numbering_comes_to_the_same(self, kind):
        """Permuted states of latents are put back, and the distribution stays."""
        rng = np.random.default_rng(11)
        graph = random_graph(rng, kind)
        while not graph.directed:
            graph = random_graph(rng, kind)
        model = random_model(graph, rng)
        tables = dict(tables_of(model))
        wanted = in_fixed_order(graph, tables)
        for h in graph.latent:
            order = rng.permutation(graph.states[h])
            for v, above in enumerate(graph.parents()):
                for axis, u in enumerate((*above, v)):
                    if u == h:
                        tables[v] = tables[v].take(order, axis=axis)
        found = in_fixed_order(graph, tables)
        for v in tables:
            np.testing.assert_array_equal(found[v], wanted[v])
        p, q = (brute_force(m) for m in (model, lt.TabularModel(graph, named(graph, found))))
        np.testing.assert_allclose(p, q, atol=1e-12)

    def test_states_that_no_row_has(self):
        """Declared, never seen: neutral as evidence, as with the other learners."""
        rng = np.random.default_rng(0)
        h = rng.integers(2, size=400)
        data = {c: np.where(rng.random(400) < 0.9, h, 1 - h) for c in "xyz"}
        states = {"x": [0, 1, 2], "y": [0, 1], "z": [0, 1]}
        model = lt.LatentModel(
            "H->x,y,z", {"H": 2}, learner=lt.EM(2, random_state=0), state_names=states
        ).fit(data)
        np.testing.assert_allclose(model.cpts_["x"].sum(axis=-1), 1.0)
        neutral = model.query("y", {"x": 2})
        np.testing.assert_allclose(np.asarray(neutral), np.asarray(model.query("y")), atol=1e-12)

    def test_parents_that_never_meet_take_the_shares_of_all(self):
        counts = {0: np.array([[2.0, 6.0], [0.0, 0.0]])}
        np.testing.assert_allclose(maximise(counts, None)[0], [[0.25, 0.75], [0.25, 0.75]])

    def test_smoothing_keeps_tables_from_zeros(self):
        rng = np.random.default_rng(0)
        rows = rows_of(random_model(NET, rng, 0.2), rng, 20)
        plain, smooth = (
            lt.EM(3, random_state=0, smoothing=s).learn(make_plan(NET), LocalRows(rows))
            for s in (0.0, 1.0)
        )
        lowest = [min(t.min() for t in o.tables.values()) for o in (plain, smooth)]
        assert lowest[0] < 1e-6
        assert lowest[1] > 1e-3 * lowest[0]
        assert lowest[1] > 1e-4


class TestOperators:
    @pytest.mark.parametrize("kind", DIRECTED)
    @pytest.mark.parametrize("seed", range(3))
    def test_answers_equal_exact_inference(self, kind, seed):
        rng = np.random.default_rng([seed, 77])
        graph = random_graph(rng, kind)
        while not graph.directed:
            graph = random_graph(rng, kind)
        model = random_model(graph, rng)
        plan = make_plan(graph, root=None if seed else 1)
        operators = operators_of(plan, tables_of(model), 100.0)
        rows = np.column_stack(rows_of(model, rng, 25, holes=0.4).codes).astype(int)
        found = answer(operators, read_evidence(plan, list(rows.T)))
        exact = model.log_evidence(model.evidence(rows))
        np.testing.assert_allclose(found.log_evidence, exact, atol=1e-10)
        for i, v in enumerate(graph.observed):
            others = rows.copy()
            others[:, i] = -1
            wanted = model.posteriors(model.evidence(others), [graph.names[v]])[graph.names[v]]
            np.testing.assert_allclose(found.probabilities[v].T, wanted, atol=1e-10)
            assert (found.clipped[v] < 1e-12).all()

    def test_too_large_separators_are_refused_before_learning(self, monkeypatch):
        graph = factorial_markov(4, 2, 3)
        plan = make_plan(graph.with_states({graph.names[v]: 10 for v in graph.observed}))
        check_operators(plan)
        monkeypatch.setattr(cpts, "LARGEST_TENSOR", 500)
        rows = Rows(tuple(np.zeros(1, dtype=np.int16) for _ in graph.observed))
        with pytest.raises(PlanError, match=r"9×9×9.*H0_., H1_..*learner='pbp'"):
            lt.EM().learn(plan, LocalRows(rows))


class TestModel:
    def setup_method(self):
        rng = np.random.default_rng(1)
        self.truth = separated(NET, rng, 0.8)
        self.rows = rows_of(self.truth, rng, 800, holes=0.1)
        self.data = frame_of(self.truth, self.rows)
        learner = lt.EM(4, random_state=0, tol=1e-5)
        self.model = lt.LatentModel(NET, learner=learner).fit(self.data)

    def exact(self):
        return lt.TabularModel(self.model.operators_.model_graph, self.model.cpts_)

    def test_every_question(self):
        model, exact = self.model, self.exact()
        np.testing.assert_allclose(
            np.asarray(model.query("x", {"y": 1, "z": 2})),
            exact.query("x", {"y": 1, "z": 2}),
            atol=1e-10,
        )
        np.testing.assert_allclose(
            np.asarray(model.query(["x", "w"], {"u": 1})), exact.query(["x", "w"], {"u": 1})
        )
        best = model.map_query(["x", "y"], {"z": 0})
        table = np.asarray(exact.query(["x", "y"], {"z": 0}))
        assert tuple(best.values()) == np.unravel_index(table.argmax(), table.shape)
        evidence = exact.evidence(np.column_stack(self.rows.codes).astype(int))
        np.testing.assert_allclose(
            model.score_samples(self.data), exact.log_evidence(evidence), atol=1e-10
        )
        drawn = model.sample(20_000, random_state=0)
        share = np.bincount(drawn["x"], minlength=3) / 20_000
        np.testing.assert_allclose(share, exact.query("x"), atol=0.02)

    def test_posteriors_of_latents(self):
        exact = self.exact()
        evidence = exact.evidence(np.column_stack(self.rows.codes).astype(int))
        for name in "AB":
            found = np.column_stack(list(self.model.predict_latent(self.data, name).values()))
            np.testing.assert_allclose(
                found, exact.posteriors(evidence, [name])[name], rtol=0, atol=1e-10
            )
        few = self.model.predict_latent({"x": [0, 1]}, "B")
        wanted = exact.posteriors(evidence[:2] * 0 - 1 + np.array([[0], [1]]) * 0, ["B"])["B"]
        assert len(few[0]) == len(wanted) == 2
        assert self.model.predict_latent(np.column_stack(list(self.data.values())), "A").shape == (
            800,
            2,
        )

    def test_frames_in_frames_out(self):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(self.data, index=range(5, 805))
        found = self.model.predict_latent(frame, "A")
        assert list(found.columns) == [0, 1]
        assert found.index.equals(frame.index)

    def test_what_cannot_be_asked(self):
        with pytest.raises(EvidenceError, match="is a column"):
            self.model.predict_latent(self.data, "x")
        with pytest.raises(UnknownNameError, match="latent 'Q' is unknown"):
            self.model.predict_latent(self.data, "Q")
        signed = lt.LatentModel(NET, learner=lt.PBP(refine=False)).fit(self.data)
        for ask in ("cpts_", "history_", "converged_", "n_iter_"):
            assert not hasattr(signed, ask)
        with pytest.raises(NotLearnedError, match="learner='em'"):
            signed.predict_latent(self.data, "A")

    def test_files(self, tmp_path):
        self.model.save(tmp_path / "m")
        loaded = lt.load(tmp_path / "m")
        for name, table in self.model.cpts_.items():
            np.testing.assert_array_equal(loaded.cpts_[name], table)
        assert loaded.history_ == self.model.history_
        assert loaded.converged_ == self.model.converged_
        assert repr(loaded.diagnostics_) == repr(self.model.diagnostics_)
        assert loaded.learner.get_params() == self.model.learner.get_params()
        np.testing.assert_array_equal(
            loaded.predict_latent(self.data, "A")[0], self.model.predict_latent(self.data, "A")[0]
        )
        np.testing.assert_array_equal(
            loaded.score_samples(self.data), self.model.score_samples(self.data)
        )
        closed = lt.LatentModel(NET, learner=lt.PBP(refine=False))
        closed.fit(self.data).save(tmp_path / "plain")
        versions = [(tmp_path / name).read_bytes()[8] for name in ("plain", "m")]
        assert versions == [1, 5]  # what needs nothing new stays readable by older readers


class TestErrors:
    def learn(self, graph="H->x,y,z", **parameters):
        data = {c: [0, 1, 1, 0, 1] for c in "xyz"}
        return lt.LatentModel(graph, {"H": 2}, learner=lt.EM(**parameters)).fit(data)

    def test_undirected(self):
        with pytest.raises(GraphError, match="directed graph"):
            self.learn("H--x,y,z")

    def test_latents_without_states(self):
        data = {c: [0, 1, 1, 0, 1] * 200 for c in "xyz"}
        model = lt.LatentModel("H->x,y,z", ["H"], learner="em").fit(data)
        assert model.states_ == {"H": 2}

    @pytest.mark.parametrize(
        "parameters",
        [
            {"restarts": 0},
            {"max_iter": 0},
            {"tol": -1.0},
            {"tol": float("nan")},
            {"smoothing": -0.1},
            {"n_jobs": 0},
            {"max_iter": "many"},
            {"restarts": 2.5},
        ],
        ids=str,
    )
    def test_parameters(self, parameters):
        (name,) = parameters
        with pytest.raises(DataError, match=f"expected {name} to be"):
            self.learn(**parameters)

    def test_starts(self):
        with pytest.raises(UnknownNameError, match="init 'best' is unknown"):
            self.learn(init="best")
        with pytest.raises(DataError, match="table for every variable"):
            self.learn(init={"H": [0.5, 0.5]})
        point = {c: [[1.0, 0.0], [1.0, 0.0]] for c in "xyz"}
        with pytest.raises(EvidenceError, match="probability zero"):
            self.learn(init={"H": [0.5, 0.5], **point})

    def test_rows(self):
        plan = make_plan(NET)
        empty = Rows(tuple(np.zeros(0, dtype=np.int8) for _ in NET.observed))
        with pytest.raises(DataError, match="no rows to learn from"):
            lt.EM().learn(plan, LocalRows(empty))
        gone = Rows(tuple(np.full(3, -(v == NET.index("z")), dtype=np.int8) for v in NET.observed))
        with pytest.raises(DataError, match="no row has a value in z"):
            lt.EM().learn(plan, LocalRows(gone))

    def test_one_row_is_learned(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = lt.LatentModel("H->x,y", {"H": 2}, learner=lt.EM(2, random_state=0)).fit(
                {"x": [0], "y": [1]}, sample_weight=[3.0]
            )
        assert model.score({"x": [0], "y": [1]}) == pytest.approx(0.0, abs=1e-9)
