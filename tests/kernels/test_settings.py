"""Kernel settings: what is odd is refused; the median rule and given landmarks do as they say."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import pdist

import latentia as lt
from latentia.data.columns.discovering import discover_from_values
from latentia.data.columns.values import Values
from latentia.errors import DataError, EvidenceWarning, UnknownNameError
from latentia.kernels.feature_maps import make_map

pytestmark = pytest.mark.usefixtures("nameless")

GRAPH = "H->a,b,c"


def rows(n: int = 400, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    h = rng.integers(2, size=n)
    return {c: 3.0 * h * (-1) ** i + rng.standard_normal(n) for i, c in enumerate("abc")}


def fitted(data: dict[str, Any], **kernel: Any) -> lt.LatentModel:
    settings = lt.KernelSettings(rank=2, **kernel)
    return lt.LatentModel(GRAPH, {"H": 2}, lt.PBP(kernel=settings, refine=False)).fit(data)


@pytest.mark.parametrize(
    "odd",
    [
        {"bandwidth": 0.0},
        {"bandwidth": "mean"},
        {"evidence": -1.0},
        {"own": float("nan")},
        {"rank": 0},
        {"features": 0},
        {"ridge": (0.1, 0.0)},
        {"ridge": (0.1,)},
        {"lean": 1.5},
        {"pool": -0.1},
        {"mix": 2.0},
        {"kernel": 3},
    ],
)
def test_odd_settings_are_refused_by_name(odd: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="expected"):
        lt.KernelSettings(**odd)


def test_names_that_are_not_known() -> None:
    with pytest.raises(UnknownNameError, match="nystroem"):
        lt.KernelSettings(map="taylor")
    with pytest.raises(UnknownNameError, match="matern"):
        lt.KernelSettings(kernel="cosine")


def test_the_median_rule_is_the_median_distance() -> None:
    data = rows(150)
    columns = [discover_from_values(name, Values(values)) for name, values in data.items()]
    sample = np.stack(list(data.values()))
    found = make_map(columns, (0, 2), sample, "median")
    assert found.bandwidth == pytest.approx(float(np.median(pdist(sample[[0, 2]].T))))
    assert make_map(columns, (0,), np.ones((3, 9)), "median").bandwidth == 1.0  # no distances


def test_a_model_by_the_median_rule(tmp_path: Any) -> None:
    data, test = rows(), rows(200, seed=1)
    model = fitted(data, bandwidth="median")
    assert "bandwidth" not in model.operators_.provenance.settings
    given = {c: test[c] for c in "bc"}
    error = np.mean((model.predict(given, target="a") - test["a"]) ** 2)
    assert error < 0.6 * test["a"].var()
    model.save(tmp_path / "m")
    again = lt.load(tmp_path / "m")
    np.testing.assert_array_equal(
        again.predict(given, target="a"), model.predict(given, target="a")
    )
    assert again.learner.kernel["bandwidth"] == "median"
    chosen = lt.PBP(kernel={"bandwidth": "median", "rank": 2}, refine=False)
    lt.LatentModel(GRAPH, {"H": 2}, chosen).fit(data)  # the others on held-out rows


def test_landmarks_may_be_given() -> None:
    data = rows()
    first = {c: v[:40] for c, v in rows(seed=3).items()}
    given = fitted(data, landmarks=first)
    shuffled = np.random.default_rng(0).permutation(400)
    other = fitted({c: v[shuffled] for c, v in data.items()}, landmarks=first)
    one, two = (np.asarray(m.query("a", {"b": 1.0})) for m in (given, other))
    np.testing.assert_allclose(one, two, atol=1e-9)  # no sample, so the order does not matter
    with pytest.raises(UnknownNameError, match="landmarks"):
        fitted(data, landmarks={"a": [1.0]})
    with pytest.raises(DataError, match="same number"):
        fitted(data, landmarks={"a": [1.0], "b": [1.0, 2.0], "c": [0.0]})
    with pytest.raises(DataError, match="dict"):
        fitted(data, landmarks=[1.0])


def test_evidence_unlike_all_rows_falls_back_and_says_so() -> None:
    """Where the embedding gives no positive probability, the marginal stands in, flagged."""
    settings = lt.KernelSettings(rank=10, lean=0.0, evidence=0.05)
    learner = lt.PBP(kernel=settings, refine=False)
    model = lt.LatentModel(GRAPH, ["H"], learner).fit(rows(80))
    marginal = np.asarray(model.query("c"))
    rng, fallen = np.random.default_rng(1), 0
    for a, b in rng.uniform(-4.0, 4.0, (40, 2)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            p = model.query("c", {"a": a, "b": b})
        assert p.fallback == any("no positive probability" in str(w.message) for w in caught)
        if p.fallback:
            fallen += 1
            assert all(issubclass(w.category, EvidenceWarning) for w in caught)
            assert "unlike all training rows" in repr(p)
            np.testing.assert_allclose(np.asarray(p), marginal, atol=1e-6)
    assert 0 < fallen < 40


ODD_KERNELS: dict[str, tuple[Any, str]] = {
    "shape": (lambda x, y: np.ones(3), "must work on arrays"),
    "nan": (lambda x, y: np.nan * (x - y), "not finite"),
    "one-sided": (lambda x, y: np.exp(-np.maximum(x - y, 0.0)), "k\\(y, x\\)"),
    "indefinite": (lambda x, y: -np.abs(x - y), "not positive definite"),
}


@pytest.mark.parametrize("name", ODD_KERNELS)
def test_odd_kernels_are_refused(name: str) -> None:
    kernel, said = ODD_KERNELS[name]
    with pytest.raises(DataError, match=said):
        fitted(rows(60), kernel=kernel)


def test_no_evidence_has_probability_one() -> None:
    model = fitted(rows())
    nothing = np.full(2, np.nan)
    scores = model.score_samples({"a": nothing, "b": nothing, "c": nothing})
    np.testing.assert_allclose(scores, 0.0, atol=1e-9)
    assert abs(model.query("a").log_evidence) < 1e-9
