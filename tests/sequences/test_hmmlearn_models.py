"""Models of hmmlearn in and out: every number as it was, and the same answers."""

from __future__ import annotations

import numpy as np
import pytest

import latentia as lt
from latentia.errors import DataError, GraphError

hmm = pytest.importorskip("hmmlearn.hmm")


def categorical(K: int = 3, M: int = 4) -> object:
    rng = np.random.default_rng(0)
    found = hmm.CategoricalHMM(K, n_features=M, init_params="")
    found.startprob_ = rng.dirichlet(np.ones(K))
    found.transmat_ = rng.dirichlet(np.ones(K), K)
    found.emissionprob_ = rng.dirichlet(np.ones(M), K)
    return found


def gaussian(kind: str = "diag", K: int = 3, D: int = 2) -> object:
    rng = np.random.default_rng(1)
    found = hmm.GaussianHMM(K, kind, init_params="")
    found.startprob_ = rng.dirichlet(np.ones(K))
    found.transmat_ = rng.dirichlet(np.ones(K), K)
    found.means_ = 100 * rng.normal(size=(K, D))
    found.covars_ = rng.uniform(1, 50, size=(K, D) if kind == "diag" else K)
    return found


def test_categorical_both_ways() -> None:
    one = categorical()
    model = lt.from_hmmlearn(one, ["a"])
    back = lt.to_hmmlearn(model)
    for name in ("startprob_", "transmat_", "emissionprob_"):
        np.testing.assert_array_equal(getattr(back, name), getattr(one, name))
    x = np.random.default_rng(2).integers(4, size=200)
    level, gamma = one.score_samples(x[:, None], [150, 50])
    found = model.smooth({"a": x}, lengths=[150, 50])
    np.testing.assert_allclose(np.array(list(found.values())).T, gamma, atol=1e-9)
    assert model.score_samples({"a": x}, lengths=[150, 50]).sum() == pytest.approx(level, rel=1e-12)


@pytest.mark.parametrize("kind", ["diag", "spherical"])
def test_gaussians_both_ways(kind: str) -> None:
    one = gaussian(kind)
    model = lt.from_hmmlearn(one)
    back = lt.to_hmmlearn(model)
    np.testing.assert_array_equal(back.means_, one.means_)
    x = np.random.default_rng(2).normal(size=(300, 2)) * 100
    level, gamma = one.score_samples(x)
    np.testing.assert_array_equal(back.covars_, one.covars_)  # matrices, of both
    rows = {"x0": x[:, 0], "x1": x[:, 1]}
    np.testing.assert_allclose(np.array(list(model.smooth(rows).values())).T, gamma, atol=1e-9)
    assert model.score_samples(rows).sum() == pytest.approx(level, rel=1e-10)
    ahead = model.forecast(rows, 1)
    p = gamma[-1] @ one.transmat_
    assert ahead["x0=mean"][0] == pytest.approx(p @ one.means_[:, 0], rel=1e-3)  # of a grid


def test_a_model_learned_here_goes_out() -> None:
    rng = np.random.default_rng(0)
    x = np.where(np.arange(400) // 50 % 2, 5.0, 0.0) + rng.normal(size=400)
    model = lt.SequenceModel("z -> z', z -> x", {"z": 2}).fit({"x": x})
    other = lt.to_hmmlearn(model)
    assert other.score(x[:, None]) == pytest.approx(model.score_samples({"x": x}).sum(), rel=1e-10)
    again = lt.from_hmmlearn(other, "x")
    np.testing.assert_allclose(
        again.score_samples({"x": x}), model.score_samples({"x": x}), atol=1e-9
    )


def test_what_has_no_counterpart_is_told(tmp_path) -> None:
    with pytest.raises(DataError, match="covary"):
        lt.from_hmmlearn(_full())
    with pytest.raises(GraphError, match="PoissonHMM"):
        lt.from_hmmlearn(hmm.PoissonHMM(2))
    with pytest.raises(DataError, match="not fitted"):
        lt.from_hmmlearn(hmm.CategoricalHMM(2))
    with pytest.raises(DataError, match="column names"):
        lt.from_hmmlearn(categorical(), ["a", "b"])
    with pytest.raises(DataError, match="4 states"):
        lt.from_hmmlearn(categorical(), ["a"], states="abc")
    with pytest.raises(DataError, match="fitted SequenceModel"):
        lt.to_hmmlearn(lt.SequenceModel("z -> z', z -> a", {"z": 2}))
    two = lt.SequenceModel("a -> a'").fit({"a": [0, 1, 1] * 9})
    with pytest.raises(GraphError, match="one latent"):
        lt.to_hmmlearn(two)
    model = lt.from_hmmlearn(categorical(), ["a"], states="abcd")
    model.save(tmp_path / "m.latentia")
    np.testing.assert_array_equal(
        lt.load(tmp_path / "m.latentia").decode({"a": list("abcdab")}),
        model.decode({"a": list("abcdab")}),
    )


def _full() -> object:
    found = hmm.GaussianHMM(2, "full", init_params="")
    found.startprob_, found.transmat_ = np.array([0.5, 0.5]), np.full((2, 2), 0.5)
    found.means_, found.covars_ = np.zeros((2, 2)), np.array([np.eye(2)] * 2)
    return found
