"""Files of classifiers: the same answers bit for bit, and nothing odd is believed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import latentia as lt
from latentia.errors import StoreError
from latentia.store import file
from latentia.store.classifier_record import read_classifier, write_classifier


def data(labels: Any, n: int = 240, seed: int = 0) -> tuple[dict[str, Any], Any]:
    rng = np.random.default_rng(seed)
    y = rng.integers(len(labels), size=n)
    X = {c: y + rng.standard_normal(n) for c in "ab"}
    X["d"] = np.where(rng.random(n) < 0.7, y, 0)
    X["e"] = rng.integers(3, size=n)
    return X, np.asarray(labels)[y]


FIXED = lt.PBP(kernel=lt.KernelSettings(rank=3))
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "continuous, text": (["no", "yes", "perhaps"], {"learner": FIXED}),
    "chosen": ([3, 7], {"learner": lt.PBP(kernel={"bandwidth": 0.4, "ridge": (0.3, 0.6)})}),
    "Gaussian EM": ([1.0, 2.0], {"learner": lt.EM(max_iter=5), "latents": {"H": 2}}),
    "discrete, calibrated": (
        [False, True],
        {"kinds": {"a": "discrete", "b": "discrete"}, "calibrate": True, "learner": "pbp"},
    ),
    "priors": (["x", "y"], {"learner": FIXED, "priors": {"x": 0.2, "y": 0.8}}),
}


def fitted(case: str) -> tuple[lt.LatentClassifier, dict[str, Any]]:
    labels, given = CASES[case]
    X, y = data(labels)
    if case.startswith("discrete"):
        X = {c: np.clip(np.rint(v), -1, 2).astype(int) for c, v in X.items()}
    else:
        given = {"graph": "H->a,b,d,e", "latents": ["H"], **given}
    return lt.LatentClassifier(**given).fit(X, y), X


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
def test_the_same_bit_for_bit(case: str, tmp_path: Path) -> None:
    model, X = fitted(case)
    model.save(tmp_path / "m.latentia")
    again = lt.load(tmp_path / "m.latentia")
    assert type(again) is lt.LatentClassifier
    np.testing.assert_array_equal(again.predict_log_proba(X), model.predict_log_proba(X))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.classes_.dtype == model.classes_.dtype
    for name in ("temperature_", "pool_", "n_features_in_", "priors", "calibrate", "settings_"):
        assert getattr(again, name) == getattr(model, name)
    holes = {"a": np.array([0.1, np.nan]), "d": np.array([1, 0])}
    if not case.startswith("discrete"):
        np.testing.assert_array_equal(again.predict_proba(holes), model.predict_proba(holes))
    if case == "continuous, text":  # what the model of a class answers is kept, too
        one = [repr(m.models_[1].query("a", {"b": 1.0})) for m in (model, again)]
        assert one[0] == one[1]
        refit = again.fit(*data(CASES[case][0]))
        np.testing.assert_array_equal(refit.predict_proba(X), model.predict_proba(X))


def test_what_cannot_be_kept(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        lt.save(lt.LatentClassifier(), tmp_path / "m")
    X, y = data([0, 1], n=60)
    gram = lt.PBP.paper(kernel="rbf", form="gram")
    model = lt.LatentClassifier("H->a,b,d,e", ["H"], gram).fit(X, y)
    with pytest.raises(StoreError, match="Gram form"):
        model.save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


ODD: dict[str, tuple[str, Any]] = {
    "priors": ("priors", [0.5, 0.5]),
    "negative prior": ("priors", [-0.5, 0.5, 1.0]),
    "temperature": ("temperature", 0.0),
    "pool": ("pool", 2.0),
    "counts": ("counts", [1, 1, 1]),
    "too many": ("counts", [10**9, 1, 1]),
    "no labels": ("labels", ["<U3", []]),
    "equal labels": ("labels", ["<U3", ["no", "no", "yes"]]),
    "wide labels": ("labels", ["<U999999999", ["a", "b", "c"]]),
    "records": ("labels", ["i4,i4", ["a", "b", "c"]]),
    "cut labels": ("labels", ["<U1", ["no", "yes", "maybe"]]),
    "settings": ("chosen", [["danger", 1]]),
    "models": ("models", []),
    "calibrate": ("parameters", {"priors": None, "calibrate": 1, "n_jobs": None}),
}


@pytest.mark.parametrize("odd", ODD)
def test_odd_records_are_refused(odd: str, tmp_path: Path) -> None:
    model, _ = fitted("continuous, text")
    record, arrays = write_classifier(model)
    record = json.loads(json.dumps(record))
    name, value = ODD[odd]
    assert name in record
    record[name] = value
    encoded = json.dumps({"library": "0", **record}).encode()
    with pytest.raises(StoreError):
        file._rebuild(encoded, lambda shapes: file._matching(arrays, shapes), "")


def test_classes_of_different_columns_are_refused() -> None:
    model, _ = fitted("continuous, text")
    X, y = data(CASES["continuous, text"][0])
    del X["e"]
    other = lt.LatentClassifier("H->a,b,d", ["H"], FIXED).fit(X, y)
    model.models_[1] = other.models_[1]
    record, arrays = write_classifier(model)
    with pytest.raises(StoreError, match="same columns"):
        read_classifier(record, lambda shapes: arrays)
