"""Forecasts with inputs equal the same question asked row by row; inputs that lack are told."""

from __future__ import annotations

import numpy as np
import pytest

import latentia as lt
from latentia.errors import DataError, EvidenceError


def doses(n: int = 3, length: int = 60, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    dose = rng.integers(2, size=n * length)
    ill = np.zeros(n * length, dtype=int)
    for t in range(1, n * length):
        ill[t] = rng.random() < (0.9 if ill[t - 1] else 0.3) - 0.25 * dose[t]
    return {
        "who": np.repeat(np.array(["x", "y", "z"])[:n], length),
        "day": np.tile(np.arange(length), n),
        "dose": dose,
        "cough": np.where(rng.random(n * length) < 0.9, ill, 1 - ill),
        "heat": ill + rng.normal(size=n * length),
    }


@pytest.fixture(scope="module")
def model() -> lt.SequenceModel:
    slice_ = "z -> z', dose -> z, z -> cough, heat"
    return lt.SequenceModel(slice_, {"z": 2}, given=["dose"]).fit(
        doses(), sequence="who", time="day"
    )


def test_inputs_of_steps_to_come(model: lt.SequenceModel) -> None:
    frame, ahead = doses(), 4
    rng = np.random.default_rng(5)
    future = {"who": np.repeat(["y", "z", "x"], ahead), "dose": rng.integers(2, size=3 * ahead)}
    found = model.forecast(frame, ahead, given=future)
    assert found["who"].tolist() == ["x"] * ahead + ["y"] * ahead + ["z"] * ahead
    for who in "xyz":
        own = {k: v[frame["who"] == who] for k, v in frame.items() if k != "who"}
        told = future["dose"][future["who"] == who]
        longer = {k: np.concatenate([v, np.full(ahead, np.nan)]) for k, v in own.items()}
        longer["dose"] = np.concatenate([own["dose"], told])
        longer["day"] = np.arange(len(longer["dose"]))
        for k in range(ahead):
            at = 60 + k
            row = (found["who"] == who) & (found["ahead"] == k + 1)
            p = model.query("cough", at=at, given=longer)
            assert found["cough=1"][row][0] == pytest.approx(p[1], abs=1e-12)
            q = model.query("z", at=at, given=longer)
            assert found["z=1"][row][0] == pytest.approx(q[1], abs=1e-12)


def test_one_sequence_needs_no_name(model: lt.SequenceModel) -> None:
    one = doses(1)
    plain = model.forecast(one, 2, given={"dose": [0, 1]})
    named = model.forecast(one, 2, given={"who": ["x", "x"], "dose": [0, 1]})
    np.testing.assert_array_equal(plain["cough=1"], named["cough=1"])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (None, EvidenceError, "inputs of the steps to come"),
        ({"who": ["x", "y", "z"], "dose": [0, 1, 0]}, DataError, "1 step"),
        ({"who": ["x", "x"], "dose": [0, 1]}, DataError, "no inputs for the sequence 'y'"),
        (
            {"who": ["x"] * 2 + ["y"] * 2 + ["z"] * 2, "dose": [0, 1, 0, 1, 0, None]},
            DataError,
            "missing",
        ),
        ({"who": ["x"], "cough": [1]}, DataError, "dose"),
    ],
)
def test_inputs_that_lack_are_told(model, given, error, message) -> None:
    with pytest.raises(error, match=message):
        model.forecast(doses(), 2, given=given)


def test_inputs_of_a_slice_without_any() -> None:
    model = lt.SequenceModel("z -> z', z -> a", {"z": 2}).fit({"a": [0, 1] * 20})
    with pytest.raises(EvidenceError, match="no inputs"):
        model.forecast({"a": [0, 1]}, 2, given={"dose": [1, 1]})


def test_answers_tell_how_far_they_are(monkeypatch) -> None:
    monkeypatch.setattr("latentia.sequences.chain_wiring.MOST_ASKED", 50)
    monkeypatch.setattr("latentia.sequences.chain_wiring.LEAST_GROUP", 50)
    monkeypatch.setattr("latentia.sequences.chain_wiring.GROUP", 50)
    rows = {"a": np.tile([0, 1, 1], 100)}
    model = lt.SequenceModel("z -> z', z -> a", {"z": 2}).fit(rows, lengths=[30] * 10)
    told: list[str] = []
    with lt.show_progress(lambda step: told.append(str(step))):
        found = model.smooth(rows, lengths=[30] * 10)
    assert told[-1].startswith("answering: 100%")
    monkeypatch.undo()
    told.clear()
    with lt.show_progress(lambda step: told.append(str(step))):
        np.testing.assert_allclose(
            model.smooth(rows, lengths=[30] * 10)["z=0"], found["z=0"], atol=1e-12
        )
    assert not told  # what takes no time is not told
