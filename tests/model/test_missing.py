"""Missing cells, and columns that teach nothing: what every learner does with them."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import latentia as lt
from latentia.closed_form import evaluating
from latentia.closed_form.basis import Coordinates, canonical_basis
from latentia.closed_form.pairs import one_hot, pair_layout, sum_pairs
from latentia.closed_form.solving import learn_closed_form, solve_operators, sum_products
from latentia.data.rows import Rows, block_codes
from latentia.data.sources.memory import LocalRows, compress
from latentia.inference.answering import answer
from latentia.inference.evidence import read_evidence
from latentia.structure.plan import make_plan
from latentia.testing.random_models import brute_force, random_model

LEARNERS = {
    "pbp": lambda: lt.PBP(),
    "exact": lambda: lt.PBP(regularize=False),
    "refined": lambda: lt.PBP(refine=True),
    "paper": lambda: lt.PBP.paper(),
    "spectral": lambda: lt.Spectral(),
    "em": lambda: lt.EM(restarts=2, max_iter=30, random_state=0),
    "stepwise": lambda: lt.StepwiseEM(restarts=1, epochs=2, random_state=0),
}
GRAPH, LATENTS = "H1->H2; H1->a; H1->b; H2->c; H2->d", {"H1": 2, "H2": 2}


def make_frame(n=3000, holes=0.2, seed=0):
    rng = np.random.default_rng(seed)
    h = rng.integers(2, size=n)
    cells = {c: np.where(rng.random(n) < 0.8, h, rng.integers(2, size=n)) for c in "abcd"}
    return pd.DataFrame(cells).astype(float).mask(rng.random((n, 4)) < holes)


FRAME = make_frame()
every_learner = pytest.mark.parametrize("learner", LEARNERS)
quiet = pytest.mark.filterwarnings("ignore::latentia.errors.ConvergenceWarning")


def new_model(learner, **more):
    return lt.LatentModel(GRAPH, LATENTS, learner=LEARNERS[learner](), **more)


@quiet
class TestEveryLearner:
    @every_learner
    def test_holes_in_training(self, learner):
        model = new_model(learner).fit(FRAME)
        for name in "abcd":
            share = FRAME[name].isna().mean()
            assert model.diagnostics_.missing[name] == pytest.approx(share)
        assert model.query("a", {"b": 1.0, "c": 1.0})[1] > 0.7

    @every_learner
    @pytest.mark.parametrize("kind", ["NaN", "None", "null", "masked"])
    def test_kinds_of_holes(self, learner, kind):
        gone = FRAME.isna().to_numpy()
        other = {
            "NaN": FRAME,
            "None": {c: FRAME[c].astype(object).where(FRAME[c].notna(), None) for c in "abcd"},
            "null": FRAME.astype("Int64"),
            "masked": {
                c: np.ma.array(FRAME[c].fillna(0).astype(int), mask=gone[:, i])
                for i, c in enumerate("abcd")
            },
        }[kind]
        found, expected = new_model(learner).fit(other), new_model(learner).fit(FRAME)
        assert found.score(FRAME) == pytest.approx(expected.score(FRAME), abs=1e-9)

    @every_learner
    def test_missing_evidence_is_no_evidence(self, learner):
        model = new_model(learner).fit(FRAME)
        probe = make_frame(50, 0.0, seed=1)
        holes = probe.assign(c=np.nan)
        np.testing.assert_allclose(
            model.predict_proba(holes, target="a"), model.predict_proba(probe[["a", "b", "d"]], "a")
        )
        np.testing.assert_allclose(
            model.score_samples(holes), model.score_samples(probe[["a", "b", "d"]])
        )

    @every_learner
    def test_a_row_without_any_value(self, learner):
        nothing = pd.DataFrame({c: [np.nan] * 200 for c in "abcd"})
        model = new_model(learner).fit(pd.concat([FRAME, nothing]))
        assert model.diagnostics_.weight == 3200
        # tables of few complete rows do not add up to exactly one
        far = 0.02 if learner in ("paper", "spectral") else 1e-9
        assert model.score_samples(nothing[:1])[0] == pytest.approx(0.0, abs=far)

    @every_learner
    @pytest.mark.filterwarnings("ignore:.*column.s. with a single value")
    @pytest.mark.parametrize("declared", [False, True])
    def test_a_column_entirely_missing(self, learner, declared):
        names = {"c": [0, 1]} if declared else None
        with pytest.raises(lt.errors.DataError, match=r"no value at all|no row has a value in c"):
            new_model(learner, state_names=names).fit(FRAME.assign(c=np.nan))

    @every_learner
    @pytest.mark.parametrize("states", [None, [1], [0, 1]], ids=["seen", "one", "two"])
    def test_a_constant_column(self, learner, states):
        """It teaches nothing and takes nothing: the others are learned as if it were not there."""
        names = None if states is None else {"c": states}
        with pytest.warns(lt.errors.ColumnWarning, match="single value"):
            model = new_model(learner, state_names=names).fit(FRAME.assign(c=1.0))
        assert model.query("c")[1] > 0.999
        assert model.query("a", {"b": 1.0})[1] > 0.6
        probe = make_frame(20, 0.0, seed=2)
        kept, without = (
            model.predict_proba(frame, target="a").to_numpy()
            for frame in (probe.assign(c=1.0), probe.drop(columns="c"))
        )
        np.testing.assert_allclose(kept, without, atol=0.02)

    @every_learner
    def test_an_unknown_state_when_asked(self, learner):
        model = new_model(learner).fit(FRAME)
        probe = make_frame(5, 0.0).assign(d=[0.0, 1.0, 7.0, 0.0, 1.0])
        with pytest.raises(lt.errors.UnknownNameError, match=r"'d' \(row 2\).*7"):
            model.predict_proba(probe, target="a")
        with pytest.raises(lt.errors.UnknownNameError, match="state of 'd'"):
            model.query("a", {"d": 7})

    @every_learner
    def test_a_state_that_was_named_but_never_seen(self, learner):
        """As evidence it says (next to) nothing, and it is improbable but not impossible."""
        model = new_model(learner, state_names={"d": [0, 1, 2]}).fit(FRAME)
        assert 0 <= model.query("d")[2] < 0.01
        if learner == "exact":
            return  # without regularisation, what was never seen is impossible
        if learner in ("paper", "spectral"):  # it has no probability: independence stands in
            with pytest.warns(lt.errors.EvidenceWarning):
                told = model.query("a", {"d": 2})
        else:
            told = model.query("a", {"d": 2})
        # stepwise EM keeps a little of its random start
        far = 0.3 if learner == "stepwise" else 0.05
        assert told[1] == pytest.approx(model.query("a")[1], abs=far)


# --- the bar --------------------------------------------------------------------------------------

DIAMOND = lt.as_graph("A->B,C; B,C->F; B->D; C->E; F->G,H", dict.fromkeys("ABCF", 3))
MODELS = {
    "diamond": DIAMOND.with_states(dict.fromkeys("DEGH", 5)),
    "chain": lt.templates.hidden_markov(5, 3, list("abcde")).with_states(dict.fromkeys("abcde", 4)),
}


def mean_kl(operators, table):
    """Mean over columns of the KL of P(column | all others), weighted by P(others)."""
    p = table.ravel()
    codes = np.indices(table.shape).reshape(table.ndim, -1)
    found = answer(operators, read_evidence(operators.plan, list(codes.astype(np.int8))))
    total = 0.0
    for i, v in enumerate(operators.plan.graph.observed):
        q = found.probabilities[v][codes[i], np.arange(len(p))]
        true = (table / table.sum(axis=i, keepdims=True)).ravel()
        total += float(p @ (np.log(true) - np.log(np.maximum(q, 1e-4))))
    return total / table.ndim


def sample_rows(model, n, rng, holes):
    codes = model.sample(n, rng).astype(np.int8)
    codes[rng.random(codes.shape) < holes] = -1
    return Rows(tuple(np.ascontiguousarray(c) for c in codes.T))


def median_kl(kind, learn, n, holes, models=10):
    graph = MODELS[kind]
    plan, sizes = make_plan(graph), [graph.states[v] for v in graph.observed]
    found = []
    for seed in range(models):
        rng = np.random.default_rng(100 + seed)
        model = random_model(graph, rng)
        rows = compress(sample_rows(model, n, rng, holes), sizes)
        found.append(mean_kl(learn(plan, LocalRows(rows)), brute_force(model)))
    return float(np.median(found))


def pairs_of(side):
    return zip(side.blocks, side.tables, strict=True)


def filled_by_regression(plan, source):
    """The shortcut: every hole gets the linear prediction of its indicators from the row's rest."""
    layout = pair_layout(plan)
    pairs = source.fold(lambda rows: sum_pairs(layout, rows))
    found = canonical_basis(layout, pairs, True)
    # holes are filled: coordinates are no longer to be divided by presence
    panel, sizes = 0, plan.leaf_states()
    total = pairs.sums[f"pairs/{panel}"]
    spans = layout.spans[panel]
    whole = {b: total[s, s].sum() / pairs.weight for b, s in spans.items()}
    shrink = [
        None
        if side is None
        else Coordinates.of(side.blocks, [t * whole[b] for b, t in pairs_of(side)])
        for side in (*found.inside, *found.outside)
    ]
    half = len(found.inside)
    found = replace(
        found,
        inside=tuple(shrink[:half]),
        outside=tuple(shrink[half:]),
        shares=tuple(1.0 for _ in found.shares),
    )
    second = np.zeros_like(total)  # P(s, t), each pair over the rows that have both
    for s in spans.values():
        for t in spans.values():
            second[s, t] = total[s, t] / total[s, t].sum()

    def filled(layout, panel, leaves, dtype=np.float64, out=None):
        marks = one_hot(layout, panel, leaves, dtype, out)
        gone = np.stack([block_codes(leaves, sizes, b) < 0 for b in spans])
        kinds, which = np.unique(gone, axis=1, return_inverse=True)
        for k in range(kinds.shape[1]):
            holes = [s for s, lost in zip(spans.values(), kinds[:, k], strict=True) if lost]
            seen = [s for s, lost in zip(spans.values(), kinds[:, k], strict=True) if not lost]
            if not holes:
                continue
            own = np.flatnonzero(which.ravel() == k)
            a = np.concatenate([np.arange(s.start, s.stop) for s in holes])
            if not seen:
                marks[np.ix_(a, own)] = np.diagonal(second)[a][:, None]
                continue
            b = np.concatenate([np.arange(s.start, s.stop) for s in seen])
            slope = np.linalg.lstsq(second[np.ix_(b, b)], second[np.ix_(b, a)], rcond=1e-8)[0]
            marks[np.ix_(a, own)] = slope.T @ marks[np.ix_(b, own)]
        return marks

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluating, "one_hot", filled)
        products = source.fold(lambda rows: sum_products(layout, found, rows))
    return solve_operators(layout, found, pairs, products, True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_a_third_of_holes_costs_less_than_a_third_of_rows(kind):
    """30 % missing at random at 3·10⁴ rows: no worse than 1.2 times complete data at 10⁴."""
    with_holes = median_kl(kind, learn_closed_form, 30_000, 0.3)
    complete = median_kl(kind, learn_closed_form, 10_000, 0.0)
    assert with_holes <= 1.2 * complete, (with_holes, complete)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_no_floor(kind):
    levels = [median_kl(kind, learn_closed_form, n, 0.3, models=5) for n in (12_000, 400_000)]
    assert levels[1] < levels[0] / 10, levels


@pytest.mark.slow
def test_the_shortcut_has_a_floor():
    """So the tests above can tell: filled by regression, 400,000 rows do not help."""
    good = median_kl("diamond", learn_closed_form, 400_000, 0.3, models=4)
    filled = median_kl("diamond", filled_by_regression, 400_000, 0.3, models=4)
    start = median_kl("diamond", filled_by_regression, 12_000, 0.3, models=4)
    assert filled > 2 * good, (filled, good)
    assert filled > start / 10, (filled, start)


def test_the_shortcut_is_the_closed_form_without_holes():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = median_kl("diamond", filled_by_regression, 3000, 0.0, models=2)
        two = median_kl("diamond", learn_closed_form, 3000, 0.0, models=2)
    assert one == pytest.approx(two, rel=1e-9)
