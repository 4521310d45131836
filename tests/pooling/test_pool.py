"""Pooled answers: each part against a plain one, and the pool against its members."""

from copy import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import latentia as lt
from latentia.pooling.column_pool import MEMBERS, raised, sharpened
from latentia.pooling.gaussian_scores import GaussianScores, drawn_scores, fit_gaussian
from latentia.pooling.leaf_forest import grow_forest
from latentia.pooling.pool_weights import (
    SHARPNESS,
    crps_form,
    least_form,
    likeliest,
    power_gains,
    settled_sharpness,
    sharpness_gains,
)
from latentia.store.pool_record import packed_wholes, unpacked_wholes

N = 400


def mixed_table(n: int = N, seed: int = 0) -> pd.DataFrame:
    """Near-linear ties, a bent one, zeros that stand alone, a state that a number tells."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return pd.DataFrame(
        {
            "x": x,
            "line": 2.0 * x + 0.3 * rng.normal(size=n),
            "bent": np.round(np.abs(x) * 10 + rng.normal(size=n), 1),
            "cost": np.where(rng.random(n) < 0.4, 0.0, np.exp(x + 0.5 * rng.normal(size=n))),
            "state": np.where(x + 0.5 * rng.normal(size=n) > 0, "up", "down"),
        }
    )


@pytest.fixture(scope="module")
def model() -> lt.LatentModel:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("latentia.discovery.structure_search.EFFORT", (0.1, 1.0))
        return lt.LatentModel().fit(mixed_table())


def test_a_gaussian_fills_holes_as_its_conditional_does():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    covariance, mean = root @ root.T + np.eye(4), rng.normal(size=4)
    scores = rng.normal(size=(6, 4))
    scores[0, 1] = scores[1, 0] = scores[1, 3] = scores[2] = np.nan
    without = np.array([False, False, True, False])
    own = GaussianScores(mean, np.linalg.inv(covariance))
    found, variance = own.filled(scores, without)
    for row, told, spread in zip(scores, found, variance, strict=True):
        gone = np.isnan(row) | without
        there = ~gone
        slope = covariance[np.ix_(gone, there)] @ np.linalg.inv(covariance[np.ix_(there, there)])
        expected = mean[gone] + slope @ (row - mean)[there]
        rest = covariance[np.ix_(gone, gone)] - slope @ covariance[np.ix_(there, gone)]
        np.testing.assert_allclose(told[gone], expected, atol=1e-10)
        np.testing.assert_allclose(spread[gone], np.diag(rest), atol=1e-10)
        np.testing.assert_array_equal(told[there], row[there])


def test_holes_are_drawn_from_the_conditional():
    covariance = np.array([[1.0, 0.8, 0.2], [0.8, 1.0, 0.3], [0.2, 0.3, 1.0]])
    own = GaussianScores(np.zeros(3), np.linalg.inv(covariance))
    scores = np.tile([1.0, np.nan, np.nan], (20_000, 1))
    found = drawn_scores(own, scores, np.random.default_rng(0))[:, 1:]
    np.testing.assert_allclose(found.mean(axis=0), [0.8, 0.2], atol=0.03)  # se .007
    expected = covariance[1:, 1:] - np.outer(covariance[0, 1:], covariance[0, 1:])
    np.testing.assert_allclose(np.cov(found.T), expected, atol=0.04)  # se .01


def test_em_with_holes_finds_the_gaussian():
    rng = np.random.default_rng(1)
    covariance = np.array([[1.0, 0.8, 0.0], [0.8, 1.0, 0.3], [0.0, 0.3, 1.0]])
    scores = rng.multivariate_normal(np.zeros(3), covariance, size=8000)
    scores[rng.random(scores.shape) < 0.2] = np.nan
    found = fit_gaussian(scores, np.ones(len(scores)))
    # standard errors of correlations from 6400 pairs are .012 at most
    np.testing.assert_allclose(np.linalg.inv(found.precision), covariance, atol=0.05)


def test_weights_of_rows_are_copies():
    rng = np.random.default_rng(2)
    scores = rng.normal(size=(50, 3))
    scores[rng.random(scores.shape) < 0.2] = np.nan
    weight = rng.integers(1, 4, size=50)
    one = fit_gaussian(scores, weight.astype(float))
    other = fit_gaussian(np.repeat(scores, weight, axis=0), np.ones(int(weight.sum())))
    np.testing.assert_allclose(one.precision, other.precision, rtol=1e-8)


@pytest.mark.parametrize("classes", [False, True])
def test_a_forest_answers_as_scikit_learn_does(classes):
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    rng = np.random.default_rng(3)
    features = rng.normal(size=(200, 4)).astype(np.float32)
    cells = np.digitize(features[:, 0] + features[:, 1] ** 2, [-0.5, 0.5, 1.5])
    weight = rng.integers(1, 3, size=200).astype(float)
    target = cells if classes else cells.astype(float)
    forest = grow_forest(features, target, cells, 4, weight, 7, 5, 1.0, classes, 0)
    kind = ExtraTreesClassifier if classes else ExtraTreesRegressor
    theirs = kind(7, min_samples_leaf=5, max_features=1.0, random_state=0)
    theirs.fit(features, target, sample_weight=weight)
    asked = rng.normal(size=(30, 4)).astype(np.float32)
    found = forest.masses(asked)
    np.testing.assert_allclose(found.sum(axis=0), 1.0)
    if classes:
        np.testing.assert_allclose(found.T, theirs.predict_proba(asked), atol=1e-12)
    else:
        np.testing.assert_allclose(np.arange(4) @ found, theirs.predict(asked), atol=1e-12)


def test_the_form_is_the_score_of_the_mixture():
    """wᵀ G w against the sum over the steps of the mixture's levels; the best of a grid."""
    rng = np.random.default_rng(4)
    values = np.sort(rng.normal(size=9))
    masses = rng.dirichlet(np.ones(9), size=(3, 20)).transpose(0, 2, 1)
    truth, weight = values[rng.integers(9, size=20)], rng.integers(1, 3, size=20).astype(float)
    form = crps_form(values, masses, truth, weight)
    own = np.array([0.2, 0.5, 0.3])
    mixed = np.einsum("m,mcn->cn", own, masses)
    score = 0.0
    for p, x, w in zip(mixed.T, truth, weight, strict=True):
        level = np.cumsum(p)[:-1] - (values[:-1] >= x)
        score += w / weight.sum() * float(level**2 @ np.diff(values))
    assert own @ form @ own == pytest.approx(score)
    best = least_form(form, 1e9)  # hardly drawn to equal weights
    steps = np.linspace(0, 1, 41)
    grid = [np.array([a, b, 1 - a - b]) for a in steps for b in steps if a + b <= 1 + 1e-9]
    assert best @ form @ best <= min(w @ form @ w for w in grid) * (1 + 5e-3)  # small ones are cut


def test_few_rows_leave_weights_near_equal_and_many_do_not():
    chances = np.array([[0.9, 0.8], [0.1, 0.2]])
    few = likeliest(chances, np.array([0.5, 0.5]))
    many = likeliest(chances, np.array([500.0, 500.0]))
    assert abs(few[0] - 0.5) < 0.2
    assert many[0] == 1.0


def test_a_sharpened_mixture_has_levels_of_a_beta_distribution():
    rng = np.random.default_rng(5)
    masses, order = rng.dirichlet(np.ones(7), size=10).T, rng.permutation(7)
    found = sharpened(masses, order, 1.6)
    levels = stats.beta(1.6, 1.6).cdf(np.cumsum(masses[order], axis=0))
    np.testing.assert_allclose(np.cumsum(found[order], axis=0), levels, atol=1e-12)
    assert sharpened(masses, order, 1.0) is masses


@pytest.mark.parametrize("wide", [0.7, 1.0, 1.6])
def test_mixtures_that_are_too_wide_are_narrowed(wide):
    """Normal truths, said to be `wide` times as wide as they are; levels stay level."""
    rng = np.random.default_rng(6)
    ends = np.linspace(-6, 6, 200)
    cdf = np.concatenate([[0.0], stats.norm(scale=wide).cdf(ends), [1.0]])
    masses = np.repeat(np.diff(cdf)[:, None], 400, axis=1)
    truth = np.digitize(rng.normal(size=400), ends)
    gains = sharpness_gains(masses, np.arange(201), truth, np.ones(400))
    (found,) = settled_sharpness(gains[None])
    assert (found > 1.2) == (wide > 1.2)
    assert (found < 0.9) == (wide < 0.9)
    levels = np.cumsum(sharpened(masses[:, :1], np.arange(201), found)[:, 0])[truth]
    # at most 2.6 standard errors, .015 each, and half a step of the grid from nine tenths
    assert ((levels > 0.05) & (levels < 0.95)).mean() == pytest.approx(0.9, abs=0.06)


def test_a_mixture_of_states_is_as_sharp_as_rows_say():
    """P ∝ P^a: the power that the truth has is found, and none below one."""
    rng = np.random.default_rng(0)
    told = rng.dirichlet(np.ones(3), size=2000).T
    for power, expected in ((2.0, 2.0), (0.6, 1.0)):
        sharp = raised(told, power)
        np.testing.assert_allclose(sharp, told**power / (told**power).sum(axis=0))
        truth = (rng.random(2000) > np.cumsum(sharp, axis=0)).sum(axis=0)
        gains = power_gains(told, truth, np.ones(2000))
        slow = np.log(raised(told, 1.5)[truth, np.arange(2000)]).sum()
        assert gains[SHARPNESS.index(1.5)] == pytest.approx(slow, rel=1e-3)  # tiny ones are cut
        assert settled_sharpness(gains[None]) == [expected]


def test_few_rows_take_the_sharpness_of_all_columns():
    some = np.zeros((5, len(SHARPNESS)))
    some[:4] = -40.0 * (np.log(SHARPNESS) - np.log(1.5)) ** 2  # four columns say 1.5, one nothing
    assert settled_sharpness(some) == [1.5] * 5
    assert settled_sharpness(np.zeros((2, len(SHARPNESS)))) == [1.0, 1.0]


def test_pooled_answers_are_the_weighted_ones_of_the_members(model):
    frame = mixed_table(40, seed=1)
    place = [c.name for c in model.columns_].index("state")
    pool = model.pool_
    weights = pool.weights_of(place)
    assert tuple(weights) == MEMBERS
    assert sum(weights.values()) == pytest.approx(1.0)
    codes = [c.place(_values(frame, c.name)) for c in model.columns_]
    codes[place] = None
    joint = np.full((2, 40), 0.5)
    own = pool.columns[place]
    plain = replace(pool, columns=tuple(replace(each, sharpness=1.0) for each in pool.columns))
    only = plain.mixed(place, codes, joint) - weights["joint"] * joint
    found = np.asarray(model.predict_proba(frame, "state")).T
    alone = np.asarray([model.query("state", _others(frame, i)).table for i in range(3)]).T
    mixed = raised(only[:, :3] + weights["joint"] * alone, own.sharpness)
    np.testing.assert_allclose(found[:, :3], mixed, atol=1e-9)


def _others(frame, i):
    return frame.drop(columns="state").iloc[i].to_dict()


def _values(frame, name):
    from latentia.data.columns.values import Values

    return Values(frame[name].to_numpy())


def test_near_linear_ties_are_told_as_well_as_a_line_tells_them(model):
    """The joint model alone has cells of a few states; the pool is within a tenth of the truth."""
    frame = mixed_table(500, seed=2)
    spread = np.asarray(model.predict_quantiles(frame, "line", [0.05, 0.5, 0.95]))
    truth = frame["line"].to_numpy()
    error = np.abs(truth - spread[:, 1]).mean()
    assert error < 1.35 * 0.3 * np.sqrt(2 / np.pi)  # rows tell x itself; 400 of them were learned
    covered = ((truth >= spread[:, 0]) & (truth <= spread[:, 2])).mean()
    assert stats.binomtest(int(covered * 500), 500, 0.9).pvalue > 1e-6 or covered > 0.9


def test_quantiles_and_filled_cells_stay_on_the_lattice(model):
    frame = mixed_table(50, seed=3).assign(bent=np.nan)
    spread = np.asarray(model.predict_quantiles(frame, "bent", [0.1, 0.5, 0.9]))
    assert np.abs(spread * 10 - np.rint(spread * 10)).max() < 1e-6
    cost = np.asarray(model.predict_quantiles(frame, "cost", [0.05]))
    assert cost.min() >= 0.0


def test_rows_that_tell_little_are_answered_by_the_joint_model(model):
    frame = pd.DataFrame({"x": [0.3, -2.0]})
    found = np.asarray(model.predict_proba(frame, "state"))
    for row, x in zip(found, frame["x"], strict=True):
        np.testing.assert_allclose(row, model.query("state", {"x": x}).table, atol=1e-9)


def test_diagnostics_say_that_answers_are_pooled(model):
    assert "no joint distribution" in repr(model.diagnostics_)
    assert {*model.diagnostics_.pooled} == {c.name for c in model.columns_}
    assert model.diagnostics_.drawn_by == "chain"
    assert "sample draws from a chain" in repr(model.diagnostics_)
    alone = copy(model)
    chain = replace(model.pool_.chain, links=())  # it would draw rows too near to the table's
    alone._keep_pool(replace(model.pool_, chain=chain))
    assert alone.diagnostics_.drawn_by == "joint"
    assert "query and sample use the joint model" in repr(alone.diagnostics_)
    plain = lt.LatentModel("class", kinds={"x": "continuous"}).fit(mixed_table())
    assert not hasattr(plain, "pool_")
    assert "pool" not in repr(plain.diagnostics_)


def test_scores_and_joint_samples_are_those_of_the_joint_model(model):
    """They do not change when the pool is taken away."""
    frame = mixed_table(20, seed=5)
    bare = copy(model)
    del bare.pool_
    drawn = model.sample(10, random_state=0, joint=True)
    assert all((drawn[c] == bare.sample(10, random_state=0)[c]).all() for c in drawn)
    np.testing.assert_array_equal(model.score_samples(frame), bare.score_samples(frame))


def test_files_keep_the_pool(model, tmp_path):
    model.save(tmp_path / "m.latentia")
    again = lt.load(tmp_path / "m.latentia")
    frame = mixed_table(30, seed=4)
    for ask in (
        lambda m: m.predict_proba(frame, "state"),
        lambda m: m.predict_quantiles(frame, "cost"),
    ):
        np.testing.assert_array_equal(np.asarray(ask(again)), np.asarray(ask(model)))


@pytest.mark.parametrize("below", [1, 2, 128, 1000, 70_000])
def test_packed_numbers_come_back(below):
    values = np.random.default_rng(5).integers(below, size=101)
    np.testing.assert_array_equal(unpacked_wholes(packed_wholes(values, below), 101, below), values)
