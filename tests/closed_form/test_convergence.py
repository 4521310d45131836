"""From rows to operators: sums add up whatever the blocks, and the default converges."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import xlogy
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression
from sklearn.svm import LinearSVC

from latentia import PBP, Spectral
from latentia.closed_form import pairs
from latentia.closed_form.pairs import pair_layout, sum_pairs
from latentia.closed_form.published.two_stage_tables import sum_tables
from latentia.closed_form.solving import learn_closed_form
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.errors import DataError, MomentsError
from latentia.inference.answering import answer
from latentia.inference.evidence import read_evidence
from latentia.structure.plan import make_plan
from latentia.structure.templates import hidden_markov, latent_class
from latentia.testing.random_models import all_rows, brute_force, random_graph, random_model

DIAMOND = make_plan(
    "A->B,C; B,C->F; B->D; C->E; F->G,H", dict.fromkeys("ABCF", 3), dict.fromkeys("DEGH", 5)
)
LOOP = make_plan(
    "a->c; b->c; a,b->d; a->x; b->y; c->z; d->u",
    dict.fromkeys("abcd", 2),
    dict.fromkeys("xyzu", 3),
)


def random_rows(plan, rng, n, missing=0.0, weight=None):
    sizes = [plan.graph.states[v] for v in plan.graph.observed]
    # a few hidden types of rows, so that the columns are correlated
    kinds = [rng.dirichlet(np.ones(m) * 0.5, size=4) for m in sizes]
    which = rng.integers(4, size=n)
    codes = [
        np.minimum((rng.random(n)[:, None] > p.cumsum(axis=1)[which]).sum(axis=1), len(p[0]) - 1)
        for p in kinds
    ]
    codes = [np.where(rng.random(n) < missing, -1, c).astype(np.int8) for c in codes]
    return Rows(tuple(codes), weight)


def tensors_of(operators):
    return [*operators.tensors.values(), *operators.leaves]


class TestMomentsAdd:
    @settings(max_examples=25)
    @given(cuts=st.lists(st.integers(1, 399), max_size=6, unique=True), seed=st.integers(0, 99))
    def test_counts_agree_exactly_whatever_the_blocks(self, cuts, seed):
        rng = np.random.default_rng(seed)
        rows = random_rows(LOOP, rng, 400, missing=0.2)
        edges = [0, *sorted(cuts), 400]
        for summary in (lambda r: sum_pairs(pair_layout(LOOP), r), lambda r: sum_tables(LOOP, r)):
            whole = summary(rows)
            parts = [summary(rows[a:b]) for a, b in itertools.pairwise(edges)]
            total = sum(parts[1:], start=parts[0])
            assert (total.rows, total.weight) == (400, 400.0)
            for name, value in whole.sums.items():
                np.testing.assert_array_equal(total.sums[name], value)

    @pytest.mark.parametrize("plan", [DIAMOND, LOOP], ids=["diamond", "loop"])
    @pytest.mark.parametrize("block_rows", [7, 64, 10_000])
    def test_operators_agree_whatever_the_blocks(self, plan, block_rows):
        rows = random_rows(plan, np.random.default_rng(1), 500, missing=0.1)
        one = learn_closed_form(plan, LocalRows(rows))
        two = learn_closed_form(plan, LocalRows(rows, block_rows))
        for a, b in zip(tensors_of(one), tensors_of(two), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-10)

    @settings(max_examples=10)
    @given(seed=st.integers(0, 10**6))
    def test_integer_weights_are_repeated_rows(self, seed):
        rng = np.random.default_rng(seed)
        times = rng.integers(0, 4, size=300)
        rows = random_rows(DIAMOND, rng, 300, missing=0.1, weight=times.astype(float))
        again = Rows(tuple(np.repeat(c, times) for c in rows.codes))
        for learner in (PBP(refine=False), PBP.paper()):
            one, two = (learner.learn(DIAMOND, LocalRows(r)) for r in (rows, again))
            for a, b in zip(tensors_of(one), tensors_of(two), strict=True):
                np.testing.assert_allclose(a, b, atol=1e-9)

    @settings(max_examples=10)
    @given(seed=st.integers(0, 10**6))
    def test_the_order_of_rows_does_not_matter(self, seed):
        rng = np.random.default_rng(seed)
        rows = random_rows(LOOP, rng, 300)
        order = rng.permutation(300)
        one, two = (
            PBP(refine=False).learn(LOOP, LocalRows(r))
            for r in (rows, Rows(tuple(c[order] for c in rows.codes)))
        )
        for a, b in zip(tensors_of(one), tensors_of(two), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-10)

    @pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
    def test_the_dtype_of_codes_does_not_matter(self, dtype):
        rows = random_rows(LOOP, np.random.default_rng(2), 300)
        other = Rows(tuple(c.astype(dtype) for c in rows.codes))
        one, two = (PBP(refine=False).learn(LOOP, LocalRows(r)) for r in (rows, other))
        for a, b in zip(tensors_of(one), tensors_of(two), strict=True):
            np.testing.assert_array_equal(a, b)

    def test_moments_of_different_plans_are_refused(self):
        one, two = (
            sum_pairs(pair_layout(plan), random_rows(plan, np.random.default_rng(0), 10))
            for plan in (DIAMOND, LOOP)
        )
        with pytest.raises(MomentsError, match="do not belong together"):
            one + two

    def test_each_entry_carries_the_weight_of_its_own_rows(self):
        """Holes in one column leave the pairs of the others untouched."""
        rng = np.random.default_rng(3)
        rows = random_rows(DIAMOND, rng, 200)
        holes = np.where(rng.random(200) < 0.5, -1, rows.codes[0])
        layout = pair_layout(DIAMOND)
        full = sum_pairs(layout, rows).sums["pairs/0"]
        part = sum_pairs(layout, Rows((holes, *rows.codes[1:]))).sums["pairs/0"]
        leaf = next(x for x, k in enumerate(DIAMOND.leaves) if DIAMOND.nodes[k].columns == (4,))
        own = layout.span(0, (leaf,))
        others = np.setdiff1d(np.arange(len(full)), np.arange(own.start, own.stop))
        np.testing.assert_array_equal(part[np.ix_(others, others)], full[np.ix_(others, others)])
        assert part[own, own].sum() == (holes >= 0).sum()


def test_large_graphs_are_counted_in_panels(monkeypatch):
    """A long chain: several panels, the same operators as counted in one."""
    plan = make_plan(hidden_markov(60, 3), states={f"X{t}": 4 for t in range(60)})
    source = LocalRows(random_rows(plan, np.random.default_rng(0), 200, missing=0.1))
    assert len(pair_layout(plan).spans) == 1
    one = learn_closed_form(plan, source)
    monkeypatch.setattr(pairs, "PANEL_STATES", 128)
    pair_layout.cache_clear()
    several = len(pair_layout(plan).spans)
    other = learn_closed_form(plan, source)
    pair_layout.cache_clear()
    assert several > 2
    for a, b in zip(tensors_of(one), tensors_of(other), strict=True):
        np.testing.assert_allclose(np.abs(a), np.abs(b), atol=1e-9)  # bases are free up to sign


def weighted_kl(operators, table, column):
    """Σ_e P(e) KL(P(x | e) ‖ P̂(x | e)) over all evidence on the other columns, floor 1e-4."""
    codes, weight = all_rows(table)
    v = operators.plan.graph.observed[column]
    found = answer(operators, read_evidence(operators.plan, list(codes.T)), [v])
    q = np.maximum(found.probabilities[v], 1e-4)
    q = (q / q.sum(axis=0))[codes[:, column], np.arange(len(codes))]
    p = (table / table.sum(axis=column, keepdims=True)).ravel()
    return float(xlogy(weight, p / q).sum())


def marginal_kl(table, column):
    """The same for the answer that ignores the evidence."""
    mu = table.sum(axis=tuple(i for i in range(table.ndim) if i != column), keepdims=True)
    p = table / table.sum(axis=column, keepdims=True)
    return float(xlogy(table, p / mu).sum())


@pytest.mark.parametrize(
    ("plan", "column"),
    [(DIAMOND, 0), (make_plan(hidden_markov(6, 3), states={f"X{t}": 4 for t in range(6)}), 2)],
    ids=["diamond", "chain"],
)
def test_the_default_converges(plan, column):
    """KL falls as 1/N from 10³ to 10⁶ on models where the marginal is a bad answer (KL ≥ .05).

    The median slope of ten models lies within [-1.3, -.7]: -1 is the parametric rate, and shrinkage
    that fades with N bends it a little.
    """
    sizes = np.array([10**3, 10**4, 10**5, 10**6])
    slopes, seed = [], 0
    while len(slopes) < 10:
        rng = np.random.default_rng(seed)
        seed += 1
        table = brute_force(random_model(plan.graph, rng, 0.4))
        if marginal_kl(table, column) < 0.05:
            continue
        codes, weight = all_rows(table)
        kl = []
        for n in sizes:
            counts = rng.multinomial(n, weight / weight.sum()).astype(float)
            kept = counts > 0
            rows = Rows(tuple(codes[kept].T), counts[kept])
            kl.append(weighted_kl(PBP(refine=False).learn(plan, LocalRows(rows)), table, column))
        assert kl[-1] < marginal_kl(table, column) / 20
        slopes.append(np.polyfit(np.log(sizes), np.log(kl), 1)[0])
    assert -1.3 < np.median(slopes) < -0.7, slopes


def test_spectral_is_unstable_above_the_true_rank():
    """Without a ridge, a rank above the truth inverts noise; the closed form shrinks it away."""
    truth = make_plan(latent_class(5, 2), states={f"X{i}": 4 for i in range(5)})
    over = make_plan(latent_class(5, 4), states={f"X{i}": 4 for i in range(5)})
    ratios = {"spectral": [], "pbp": []}
    for seed in range(8):
        rng = np.random.default_rng(seed)
        table = brute_force(random_model(truth.graph, rng, 0.4))
        codes, weight = all_rows(table)
        counts = rng.multinomial(3000, weight / weight.sum()).astype(float)
        source = LocalRows(Rows(tuple(codes[counts > 0].T), counts[counts > 0]))
        for name, learner in (("spectral", Spectral()), ("pbp", PBP(refine=False))):
            right, wrong = (weighted_kl(learner.learn(p, source), table, 0) for p in (truth, over))
            ratios[name].append(wrong / right)
    assert np.median(ratios["spectral"]) > 5
    assert np.median(ratios["pbp"]) < 2.5


class TestMissingCells:
    def test_holes_leave_no_floor(self):
        """30 % missing at random: consistent, so that KL at 10⁶ rows is far below that at 10⁴."""
        rng = np.random.default_rng(4)
        table = brute_force(random_model(DIAMOND.graph, rng, 0.4))
        codes, weight = all_rows(table)
        kl = []
        for n in (10_000, 1_000_000):
            flat = rng.choice(len(codes), size=n, p=weight / weight.sum())
            rows = codes[flat].T
            rows = np.where(rng.random(rows.shape) < 0.3, -1, rows).astype(np.int8)
            operators = PBP(refine=False).learn(DIAMOND, LocalRows(Rows(tuple(rows))))
            kl.append(weighted_kl(operators, table, 0))
        assert kl[1] < kl[0] / 10

    def test_a_column_without_any_value_is_named(self):
        rows = random_rows(DIAMOND, np.random.default_rng(0), 50)
        empty = Rows((np.full(50, -1, dtype=np.int8), *rows.codes[1:]))
        for learner in (PBP(refine=False), PBP.paper()):
            with pytest.raises(DataError, match="no row has a value in D"):
                learner.learn(DIAMOND, LocalRows(empty))

    def test_columns_never_seen_together(self):
        """No pair, no correlation: the marginals are the answer, or a clear error."""
        rng = np.random.default_rng(0)
        seen = np.where(
            np.arange(200)[:, None] % 4 == np.arange(4), rng.integers(5, size=(200, 4)), -1
        )
        rows = LocalRows(Rows(tuple(seen.T.astype(np.int8))))
        for learner in (PBP(refine=False), PBP(refine=True)):
            operators = learner.learn(DIAMOND, rows)
            plan = operators.plan
            found = answer(operators, read_evidence(plan, [np.array([c]) for c in (0, 1, 2, 3)]))
            for p in found.probabilities.values():
                np.testing.assert_allclose(p.sum(axis=0), 1.0)
        for learner in (PBP.paper(), Spectral()):
            with pytest.raises(DataError, match="no row has all the columns"):
                learner.learn(DIAMOND, rows)


class TestStage1:
    """The algorithm as published with any regressor in stage 1."""

    @pytest.fixture
    def problem(self):
        rng = np.random.default_rng(8)
        while True:
            table = brute_force(random_model(DIAMOND.graph, rng, 0.3))
            if marginal_kl(table, 0) > 0.1:
                break
        codes, weight = all_rows(table)
        flat = rng.choice(len(codes), size=4000, p=weight / weight.sum())
        return table, Rows(tuple(codes[flat].T.astype(np.int8)))

    @pytest.mark.parametrize(
        "estimator",
        [
            LinearRegression(),
            Lasso(alpha=1e-4),
            LogisticRegression(),
            RandomForestClassifier(20, random_state=0),
            GradientBoostingRegressor(n_estimators=20, random_state=0),  # one output at a time
        ],
        ids=lambda e: type(e).__name__,
    )
    def test_any_regressor_or_classifier(self, problem, estimator):
        table, rows = problem
        operators = PBP.paper(stage1=estimator).learn(DIAMOND, LocalRows(rows))
        assert weighted_kl(operators, table, 0) < marginal_kl(table, 0)

    def test_least_squares_agrees_with_counts(self, problem):
        """One-hot instruments: linear regression is the conditional frequency, up to the folds."""
        _, rows = problem
        counts = PBP.paper(ridge=(0, 1e-3)).learn(DIAMOND, LocalRows(rows))
        linear = PBP.paper(ridge=(0, 1e-3), stage1=LinearRegression(fit_intercept=False))
        for a, b in zip(
            tensors_of(counts), tensors_of(linear.learn(DIAMOND, LocalRows(rows))), strict=True
        ):
            np.testing.assert_allclose(a, b, atol=0.1)

    def test_a_classifier_without_probabilities_is_refused(self, problem):
        with pytest.raises(DataError, match="predict_proba"):
            PBP.paper(stage1=LinearSVC()).learn(DIAMOND, LocalRows(problem[1]))

    def test_too_few_rows_for_the_folds(self, problem):
        with pytest.raises(DataError, match="folds need at least 10 rows"):
            PBP.paper(stage1=LinearRegression()).learn(DIAMOND, LocalRows(problem[1][:5]))

    def test_a_source_without_rows_is_refused(self, problem):
        class Stream:
            def fold(self, summary):
                return summary(problem[1])

        with pytest.raises(DataError, match="reads rows"):
            PBP.paper(stage1=LinearRegression()).learn(DIAMOND, Stream())


@pytest.mark.parametrize("kind", ["tree", "loop", "inside", "forest", "undirected"])
def test_defaults_give_probabilities_even_from_few_rows(kind):
    """Ten rows, then one: never a NaN, a negative number, or a sum other than one."""
    rng = np.random.default_rng(12)
    plan = make_plan(random_graph(rng, kind, observed_limit=2000))
    for n in (10, 1):
        rows = random_rows(plan, rng, n)
        for learner in (PBP(refine=False), PBP.paper()):
            operators = learner.learn(plan, LocalRows(rows))
            found = answer(operators, read_evidence(plan, [None] * len(rows.codes)))
            for p in found.probabilities.values():
                assert (p >= 0).all()
                np.testing.assert_allclose(p.sum(axis=0), 1.0, atol=1e-12)
            assert np.isfinite(found.log_evidence).all()


def test_no_rows_no_model():
    empty = Rows(tuple(np.zeros(0, dtype=np.int8) for _ in range(4)))
    for learner in (PBP(refine=False), PBP.paper()):
        with pytest.raises(DataError, match="no rows to learn from"):
            learner.learn(DIAMOND, LocalRows(empty))
