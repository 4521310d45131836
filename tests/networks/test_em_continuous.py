"""EM with Gaussian leaves as a LatentModel: densities, latents, tables, questions."""

import warnings

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import latentia as lt
from latentia.errors import GraphError, PlanError
from latentia.exact.gaussian_leaves import GaussianTable


def rows(rng, n=1500):
    """Two latents; x and y under the first, z and a discrete d under the second."""
    a = rng.integers(2, size=n)
    b = np.where(rng.random(n) < 0.85, a, 1 - a)
    return {
        "x": 100.0 + 12.0 * a + 3.0 * rng.normal(size=n),
        "y": -1.0 * a + 0.4 * rng.normal(size=n),
        "z": np.where(b, 5.0, -5.0) + 2.0 * rng.normal(size=n),
        "d": np.where(rng.random(n) < 0.8, b, 1 - b),
    }


GRAPH = "A->B; A->x,y; B->z,d"
LATENTS = {"A": 2, "B": 2}


def fitted(data, learner=None, graph=GRAPH):
    learner = learner or lt.EM(4, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lt.errors.ConvergenceWarning)
        return lt.LatentModel(graph, LATENTS, learner=learner).fit(data)


def log_joint(model, data):
    """log P(row, a, b), (2, 2, n), from cpts_ alone; missing cells are left out."""
    t = model.cpts_
    total = np.log(t["A"])[:, None, None] + np.log(t["B"])[:, :, None]
    for name, axis in (("x", 0), ("y", 0), ("z", 1)):
        leaf = t[name]
        v = np.asarray(data[name], dtype=float)
        parts = np.log(leaf.weights)[..., None] + norm.logpdf(
            v, leaf.means[..., None], leaf.deviations[..., None]
        )
        part = np.where(np.isnan(v), 0.0, logsumexp(parts, axis=1))  # (2, n)
        total = total + (part[:, None] if axis == 0 else part[None])
    d = np.asarray(data["d"], dtype=float)
    code = np.where(np.isnan(d), 0, d).astype(int)
    return total + np.where(np.isnan(d), 0.0, np.log(t["d"])[:, code])[None]


@pytest.mark.parametrize(
    "learner",
    [lt.EM(4, random_state=0), lt.EM(4, mixture=2, random_state=0),
     lt.StepwiseEM(restarts=3, random_state=0)],
    ids=["em", "mixture", "stepwise"],
)  # fmt: skip
def test_answers_follow_from_the_tables(learner):
    rng = np.random.default_rng(0)
    data = rows(rng)
    data["x"][::9], data["z"][::7] = np.nan, np.nan
    data["d"] = np.where(rng.random(len(data["d"])) < 0.1, np.nan, data["d"])
    model = fitted(data, learner)
    joint = log_joint(model, data)
    exact = logsumexp(joint, axis=(0, 1))
    scores = model.score_samples(data)
    assert np.abs(scores - exact).mean() < 0.02  # the grid's interpolation
    assert model.history_[model.operators_.provenance.ascent.best][-1] == pytest.approx(
        exact.mean(), abs=1e-6
    )
    for name, axis in (("A", 1), ("B", 0)):
        expected = np.exp(logsumexp(joint, axis=axis) - exact)
        found = np.stack(list(model.predict_latent(data, name).values()))
        np.testing.assert_allclose(found, expected, atol=1e-8)


def test_the_truth_is_found():
    model = fitted(rows(np.random.default_rng(1), 4000))
    x, y = model.cpts_["x"], model.cpts_["y"]
    assert isinstance(x, GaussianTable)
    np.testing.assert_allclose(x.means[:, 0], [100, 112], atol=0.4)
    np.testing.assert_allclose(x.deviations[:, 0], 3.0, atol=0.2)
    np.testing.assert_allclose(y.means[:, 0], [0, -1], atol=0.05)
    np.testing.assert_allclose(model.cpts_["B"], [[0.85, 0.15], [0.15, 0.85]], atol=0.03)
    assert model.converged_


def test_questions():
    model = fitted(rows(np.random.default_rng(2)))
    density = model.query("z", {"x": 112.0, "y": -1.0})
    assert density.mean == pytest.approx(0.85 * 5 - 0.15 * 5, abs=0.8)
    found = model.query("d", {"z": 7.0})
    assert found[1] == pytest.approx(0.8, abs=0.05)
    few = {"x": [100.0, 112.0], "y": [0.0, -1.0]}
    assert np.diff(model.predict(few, target="z"))[0] == pytest.approx(7.0, abs=1.5)
    drawn = model.sample(3000, random_state=0)
    assert np.mean(drawn["x"]) == pytest.approx(106, abs=1.0)
    assert np.std(drawn["z"]) == pytest.approx(5.4, abs=0.4)


def test_units_do_not_matter():
    data = rows(np.random.default_rng(3), 600)
    other = {**data, "x": 1e3 * data["x"] - 7e4}
    found = [fitted(frame) for frame in (data, other)]
    gap = found[0].history_[0][-1] - found[1].history_[0][-1]
    assert gap == pytest.approx(np.log(1e3), abs=1e-4)


LEARNERS = [lt.EM(4, random_state=0), lt.EM(4, mixture=2, random_state=0),
            lt.StepwiseEM(restarts=3, random_state=0)]  # fmt: skip
EM, MIXTURE, STEPWISE = LEARNERS


@pytest.mark.parametrize(
    ("shape", "learner"),
    [("atom", EM), ("gap", MIXTURE), ("both", EM), ("both", MIXTURE), ("both", STEPWISE)],
    ids=["atom-em", "gap-mixture", "both-em", "both-mixture", "both-stepwise"],
)
def test_columns_in_pieces_follow_from_the_tables(shape, learner):
    """log P(row) and P(latent | row) by hand: P(piece) N(x | piece), at an atom P(piece) alone."""
    rng = np.random.default_rng(14)
    data = rows(rng, 800)
    z = data["z"]
    if shape != "atom":  # two clusters that no latent tells, so far apart that a grid must bend
        z = z + 3000.0 * (rng.random(800) < 0.4)
    if shape != "gap":
        zero = rng.random(800) < np.where(data["d"] > 0, 0.5, 0.1)
        z = np.where(zero, 20.0, z)
    data["z"] = z
    data["z"][::7] = np.nan
    model = fitted(data, learner)
    column, leaf = model.columns_[2], model.cpts_["z"]
    assert column.atoms == (() if shape == "gap" else (20.0,))
    assert len(column.cuts) == (0 if shape == "atom" else 1)
    scaled = column.scaled(data["z"]) if column.curved else data["z"]
    slope = column.slope(data["z"]) if column.curved else np.ones(800)
    parts = np.searchsorted(column.cuts, column.scaled(data["z"]))
    count = (leaf.means.shape[1] - len(column.atoms)) // (len(column.cuts) + 1)
    expected = np.zeros((2, 800))
    for i in np.flatnonzero(~np.isnan(data["z"])):
        if data["z"][i] in column.atoms:
            assert leaf.deviations[0, -1] == 0
            expected[:, i] = np.log(leaf.weights[:, -1])
            continue
        own = slice(parts[i] * count, (parts[i] + 1) * count)
        each = norm.logpdf(scaled[i], leaf.means[:, own], leaf.deviations[:, own])
        expected[:, i] = logsumexp(np.log(leaf.weights[:, own]) + each, axis=1) + np.log(slope[i])
    bare = dict(data, z=np.full(800, np.nan))
    joint = log_joint(model, bare) + expected[None]
    exact = logsumexp(joint, axis=(0, 1))
    best = model.operators_.provenance.ascent.best
    assert model.history_[best][-1] == pytest.approx(exact.mean(), abs=1e-6)
    assert np.abs(model.score_samples(data) - exact).mean() < 0.05  # the grid's interpolation
    found = np.stack(list(model.predict_latent(data, "B").values()))
    np.testing.assert_allclose(found, np.exp(logsumexp(joint, axis=0) - exact), atol=1e-8)
    odd = np.flatnonzero(data["z"] == 20.0)[:2] if shape != "gap" else np.array([1, 2])
    for i in (1, 2, 3, *odd):  # the same, asked one by one
        evidence = {name: cells[i] for name, cells in data.items() if not np.isnan(cells[i])}
        asked = model.query("B", evidence).table
        np.testing.assert_allclose(asked, found[:, i], atol=1e-8)


def test_atoms_are_told_by_the_latent():
    rng = np.random.default_rng(15)
    data = rows(rng, 4000)
    b = data["z"] > 0
    data["z"] = np.where(rng.random(4000) < np.where(b, 0.4, 0.1), 0.0, data["z"])
    model = fitted(data)
    np.testing.assert_allclose(model.cpts_["z"].weights[:, -1], [0.1, 0.4], atol=0.03)
    np.testing.assert_allclose(model.cpts_["z"].means[:, :-1], [[-5.0], [5.0]], atol=0.2)
    share = (data["z"] <= 0).mean()
    assert float(model.query("z").cdf(0.0)) == pytest.approx(share, abs=3 * np.sqrt(0.25 / 4000))
    drawn = model.sample(4000, random_state=0)["z"]
    assert (drawn == 0.0).mean() == pytest.approx(0.25, abs=0.03)


def test_atoms_go_on_after_a_file(tmp_path):
    """Counts of pieces come back from the marginals of a model file."""
    rng = np.random.default_rng(16)

    def some(share):
        data = rows(rng, 1500)
        data["z"] = np.where(rng.random(1500) < share, 0.0, data["z"])
        return data

    learner = lt.StepwiseEM(restarts=2, random_state=0)
    model = lt.LatentModel(GRAPH, LATENTS, learner=learner).partial_fit(some(0.3))
    model.save(tmp_path / "m")
    assert int.from_bytes((tmp_path / "m").read_bytes()[8:12], "little") == 5
    loaded = lt.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.cpts_["z"].weights, model.cpts_["z"].weights)
    loaded.partial_fit(some(0.3))
    assert loaded.operators_.weight == 3000
    column = loaded.columns_[2]
    places = {v: x for x, k in enumerate(loaded.plan_.leaves)
              for v in loaded.plan_.nodes[k].columns}  # fmt: skip
    v = loaded.plan_.graph.index("z")
    share = loaded.operators_.marginals[places[v]][column.points]
    assert share == pytest.approx(0.3, abs=0.08)  # the last steps are of twenty rows each


def test_a_class_without_the_atom():
    """Classes of a classifier share columns: one that has no zeros finds them unlikely."""
    rng = np.random.default_rng(17)
    data = rows(rng, 1200)
    y = rng.integers(2, size=1200)
    data["z"] = np.where((rng.random(1200) < 0.4) & (y == 1), 0.0, data["z"])
    model = lt.LatentClassifier(GRAPH, LATENTS, learner=lt.EM(2, random_state=0)).fit(data, y)
    probe = {name: cells[:1] for name, cells in data.items()} | {"z": np.array([0.0])}
    found = model.predict_proba(probe)
    assert np.isfinite(found).all()
    assert found[0, 1] > 0.99


def test_what_cannot_be_learned():
    data = rows(np.random.default_rng(5), 200)
    with pytest.raises(PlanError, match=r"number of states of latent '[AB]'"):
        lt.LatentModel(GRAPH, ["A", "B"], learner="em").fit(data)
    with pytest.raises(GraphError, match="directed graph"):
        lt.LatentModel("A--B; A--x,y; B--z,d", LATENTS, learner="em").fit(data)


def test_a_model_without_a_graph():
    data = rows(np.random.default_rng(6), 300)
    model = lt.LatentModel(learner=lt.EM(2, random_state=0)).fit(data)
    assert np.isfinite(model.score(data))


@pytest.mark.parametrize(
    "learner",
    [lt.EM(2, mixture=2, random_state=0), lt.StepwiseEM(restarts=2, random_state=0), lt.PBP()],
    ids=["em", "stepwise", "pbp"],
)
def test_files(tmp_path, learner):
    rng = np.random.default_rng(7)
    data = rows(rng, 400)
    data["y"] = np.sinh(3 * data["y"])  # long tails
    data["x"][::5] = np.nan
    model = fitted(data, learner)
    model.save(tmp_path / "m")
    loaded = lt.load(tmp_path / "m")
    assert loaded.columns_ == model.columns_
    np.testing.assert_array_equal(loaded.score_samples(data), model.score_samples(data))
    few = {"x": [100.0, 112.0]}
    np.testing.assert_array_equal(loaded.predict(few, target="z"), model.predict(few, target="z"))
    if not isinstance(learner, lt.PBP):
        np.testing.assert_array_equal(
            loaded.predict_latent(data, "A")[0], model.predict_latent(data, "A")[0]
        )
        for name in "xyz":
            np.testing.assert_array_equal(loaded.cpts_[name].means, model.cpts_[name].means)
        assert loaded.cpts_["y"].warped == model.cpts_["y"].warped
        assert (loaded.cpts_["y"].warped is None) != model.columns_[1].warped


def test_goes_on_after_a_file(tmp_path):
    rng = np.random.default_rng(8)
    learner = lt.StepwiseEM(restarts=2, random_state=0)
    model = lt.LatentModel(GRAPH, LATENTS, learner=learner).partial_fit(rows(rng, 1500))
    model.save(tmp_path / "m")
    test = rows(rng, 1000)
    loaded = lt.load(tmp_path / "m")
    before = loaded.score(test)
    loaded.partial_fit(rows(rng, 1500))
    assert loaded.operators_.weight == 3000
    assert loaded.score(test) > before - 0.05
