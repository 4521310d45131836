"""Profiles tell the expected counts; comparisons find the number of states that drew the rows."""

from __future__ import annotations

import numpy as np
import pytest
from tests.sequences.test_forecasts import doses

import latentia as lt
from latentia.errors import DataError, EvidenceError, GraphError


def chains(states: int = 3, n: int = 30, length: int = 100, seed: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = np.zeros((n, length), dtype=int)
    for t in range(1, length):
        z[:, t] = np.where(rng.random(n) < 0.9, z[:, t - 1], rng.integers(states, size=n))
    flat = z.ravel()
    return {
        "id": np.repeat(np.arange(n), length),
        "a": np.where(rng.random(len(flat)) < 0.8, flat, rng.integers(4, size=len(flat))),
        "x": 3.0 * flat + rng.normal(size=len(flat)),
    }


def test_profiles_tell_what_smoothing_counts() -> None:
    frame = chains()
    model = lt.SequenceModel("z -> z', z -> a, x", {"z": 3}).fit(frame, sequence="id")
    p = np.array(list(model.smooth(frame).values()))  # (states, rows)
    found = model.profile()
    # the counts are those of the last tables but one, which are at rest
    np.testing.assert_allclose(found.shares, p.mean(axis=1), atol=1e-3)
    size = p.sum(axis=1)
    letters = p @ (frame["a"][:, None] == np.arange(4)) / size[:, None]
    np.testing.assert_allclose(found["a"].table, letters, atol=1e-3)
    mean = p @ frame["x"] / size
    np.testing.assert_allclose(found["x"].table[:, 0], mean, atol=1e-2)
    sd = np.sqrt(p @ frame["x"] ** 2 / size - mean**2)
    np.testing.assert_allclose(found["x"].table[:, 1], sd, atol=1e-2)
    np.testing.assert_allclose(found["x"].errors[:, 0], sd / np.sqrt(size), rtol=1e-2)
    share = letters[0, 0]
    error = np.sqrt(share * (1 - share) / size[0])
    assert found["a"].errors[0, 0] == pytest.approx(error, rel=1e-2)
    np.testing.assert_allclose(found.moves, model.cpts_["z'"], atol=0.02)  # pseudo-counts apart
    assert found.columns[0].name == "x"  # tells most
    assert "lasts" in repr(found)
    frame_of = found.to_frame()
    assert list(frame_of["column"].unique()) == ["(size)", "x", "a", "z'"]
    with pytest.raises(KeyError, match="no column"):
        found["b"]


def test_profiles_survive_the_store(tmp_path) -> None:
    frame = doses()
    slice_ = "z -> z', dose -> z, z -> cough, heat"
    model = lt.SequenceModel(slice_, {"z": 2}, given=["dose"], learner=lt.EM(restarts=2))
    model.fit(frame, sequence="who", time="day").save(tmp_path / "m.latentia")
    other = lt.load(tmp_path / "m.latentia")
    assert other.profile().to_dict().keys() == model.profile().to_dict().keys()
    np.testing.assert_array_equal(other.profile().shares, model.profile().shares)
    assert repr(other.learner) == repr(model.learner)


def test_a_slice_without_latent_has_no_profile() -> None:
    model = lt.SequenceModel("a -> a'").fit({"a": [0, 1, 1] * 9})
    with pytest.raises(EvidenceError, match="no latent"):
        model.profile()


@pytest.mark.parametrize("whole", [True, False])
def test_the_number_of_states_is_found(whole: bool) -> None:
    frame = chains(n=30 if whole else 2, length=100 if whole else 1500)
    found = lt.SequenceModel.compare(frame, "z -> z', z -> a, x", {"z": range(1, 5)}, sequence="id")
    assert found.recommended == {"z": 3}
    one = found.candidates[2]
    model = lt.SequenceModel("z -> z', z -> a, x", {"z": 3}).fit(frame, sequence="id")
    assert one.log_likelihood == pytest.approx(model.score_samples(frame).sum(), rel=1e-4)
    assert one.parameters == 2 + 6 + 9 + 6  # start, moves, letters, means and variances
    assert one.bic == pytest.approx(model.bic(frame), rel=1e-4)
    assert "→ 3" in repr(found)
    assert list(found.to_frame()["z"]) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("latents", "error", "message"),
    [
        ({}, DataError, "latents as a dict"),
        ({"z": range(1, 100)}, DataError, "combinations"),
        ({"z": [0, 1]}, GraphError, "from 1 on"),
        ({"z": [1, "two"]}, DataError, "numbers of states"),
    ],
)
def test_candidates_that_cannot_be(latents: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        lt.SequenceModel.compare(chains(n=3), "z -> z', z -> a, x", latents, sequence="id")
