"""Known cells stay, zeros stay zeros, pseudo-counts count; learners by name learn as well."""

from __future__ import annotations

import numpy as np
import pytest

import latentia as lt
from latentia.errors import DataError, GraphError, UnknownNameError

NAN = np.nan


def stages(n: int = 40, seed: int = 0) -> dict[str, np.ndarray]:
    """Sequences that go through three stages, one after the other, each with its own letter."""
    rng = np.random.default_rng(seed)
    ids, letters = [], []
    for k in range(n):
        stage = np.repeat(np.arange(3), rng.integers(5, 15, size=3))
        ids.append(np.full(len(stage), k))
        letters.append(
            np.where(rng.random(len(stage)) < 0.9, stage, rng.integers(3, size=len(stage)))
        )
    return {"id": np.concatenate(ids), "a": np.concatenate(letters)}


def test_a_left_right_chain_finds_its_stages() -> None:
    frame = stages()
    model = lt.SequenceModel.named("left-right", ["a"], 3).fit(frame, sequence="id")
    move = model.cpts_["z'"]
    np.testing.assert_array_equal(move[np.tril_indices(3, -1)], 0.0)
    assert move[0, 2] == 0.0
    assert move[2, 2] == 1.0
    np.testing.assert_array_equal(model.cpts_["z"], [1.0, 0.0, 0.0])
    assert model.cpts_["a"].argmax(axis=1).tolist() == [0, 1, 2]  # stages in their order
    path = model.decode(frame)
    for k in range(40):
        assert (np.diff(path[frame["id"] == k]) >= 0).all()


def test_known_cells_stay_and_the_others_are_learned() -> None:
    frame = stages()
    emission = [[0.8, NAN, NAN], [NAN, NAN, NAN], [NAN, NAN, NAN]]
    model = lt.SequenceModel("z -> z', z -> a", {"z": 3}, known={"a": emission})
    found = model.fit(frame, sequence="id").cpts_["a"]
    assert found[0, 0] == pytest.approx(0.8, abs=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-12)
    assert (np.diff(model.history_) > -1e-6).all()


def test_known_tables_equal_plain_counting() -> None:
    """Everything of the latent is known: what is left is one weighted count."""
    frame = {"a": np.array([0, 1, 0, 0, 1, 1, 0, 1] * 5)}
    known = {"z": [1.0], "z'": [[1.0]]}
    model = lt.SequenceModel("z -> z', z -> a", {"z": 1}, known=known, pseudo_counts=0.0).fit(frame)
    np.testing.assert_allclose(model.cpts_["a"][0], [0.5, 0.5], atol=1e-9)


def test_pseudo_counts_by_table() -> None:
    frame = {"a": np.array([0, 0, 0, 1, 0, 0, 1, 0])}
    pseudo = {"a": [3.0, 5.0]}
    model = lt.SequenceModel("a -> b, a -> a'", {}, pseudo_counts=pseudo)
    frame["b"] = frame["a"]
    found = model.fit(frame).cpts_
    np.testing.assert_allclose(found["a"], [4 / 9, 5 / 9], atol=1e-9)  # one first step, and 3 : 5
    np.testing.assert_allclose(found["a'"], [[3 / 5, 2 / 5], [1.0, 0.0]], atol=1e-9)


@pytest.mark.parametrize(
    ("known", "error", "message"),
    [
        ({"y": [1.0]}, UnknownNameError, "table"),
        ({"z": [0.5, 0.5]}, DataError, r"shape \(3,\)"),
        ({"z": [0.5, 0.5, 0.5]}, DataError, "sum to 1"),
        ({"z": [-0.5, 1.0, 0.5]}, DataError, "from 0 on"),
        ({"z": "abc"}, DataError, "array of numbers"),
        ([1], DataError, "known tables as"),
    ],
)
def test_what_cannot_be_known_is_told(known: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        lt.SequenceModel("z -> z', z -> a", {"z": 3}, known=known).fit(stages(3), sequence="id")


@pytest.mark.parametrize("pseudo", [-1.0, "one", {"a": "x"}, {"a": [1.0]}, float("nan")])
def test_pseudo_counts_must_be_numbers(pseudo: object) -> None:
    with pytest.raises(DataError, match="pseudo"):
        lt.SequenceModel("z -> z', z -> a", {"z": 2}, pseudo_counts=pseudo).fit(
            stages(3), sequence="id"
        )


@pytest.mark.parametrize(
    "learner",
    ["em", lt.EM(restarts=3, random_state=1), lt.StepwiseEM(restarts=2, epochs=4, batch_size=100)],
)
def test_learners_reach_what_the_default_reaches(learner: object) -> None:
    frame = stages()
    latents = {"z": 3}
    usual = lt.SequenceModel("z -> z', z -> a", latents).fit(frame, sequence="id")
    other = lt.SequenceModel("z -> z', z -> a", latents, learner=learner).fit(frame, sequence="id")
    # starts at random may end a little below: 0.02 nats a row is far above what they lose here
    assert other.score(frame) > usual.score(frame) - 0.02


def test_what_is_no_learner_is_told() -> None:
    for learner in ("pbp", 3, lt.EM(mixture=2), lt.EM(restarts=0)):
        with pytest.raises(DataError):
            lt.SequenceModel("z -> z', z -> a", {"z": 2}, learner=learner).fit(
                stages(3), sequence="id"
            )


@pytest.mark.parametrize(
    ("name", "more", "text"),
    [
        ("hmm", {}, "(z[2])->(z[2])'; (z[2])->a; (z[2])->b"),
        (
            "factorial",
            {"chains": 2},
            "(z1[2])->(z1[2])'; (z2[2])->(z2[2])'; (z1[2])->a; (z2[2])->a; (z1[2])->b; (z2[2])->b",
        ),
        ("input-output", {"inputs": ["d"]}, "(z[2])->(z[2])'; d->(z[2]); (z[2])->a; (z[2])->b"),
        ("autoregressive", {}, "(z[2])->(z[2])'; a->a'; b->b'; (z[2])->a; (z[2])->b"),
    ],
)
def test_templates(name: str, more: dict, text: str) -> None:
    rng = np.random.default_rng(0)
    frame = {c: rng.integers(2, size=60) for c in "abd"}
    model = lt.SequenceModel.named(name, ["a", "b"], 2, **more)
    if name != "input-output":
        del frame["d"]
    fitted = model.fit(frame)
    assert sorted(str(fitted.slice_).split("; ")) == sorted(text.split("; "))
    assert np.isfinite(fitted.score(frame))


def test_templates_that_cannot_be_are_told() -> None:
    with pytest.raises(UnknownNameError, match="template"):
        lt.SequenceModel.named("hm", ["a"], 2)
    with pytest.raises(DataError, match="inputs="):
        lt.SequenceModel.named("input-output", ["a"], 2)
    with pytest.raises(GraphError, match="rename"):
        lt.SequenceModel.named("hmm", ["z"], 2)
    with pytest.raises(GraphError, match="whole number"):
        lt.SequenceModel.named("hmm", ["a"], 0)
