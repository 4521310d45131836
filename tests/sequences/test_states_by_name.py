"""States of latents in an order, with names: in answers, profiles, pictures, files, the shell."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import latentia as lt
from latentia.errors import DataError, UnknownNameError

SLICE = "z -> z', z -> sound, heat"


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    z = np.repeat(rng.integers(3, size=60), 10)  # lukewarm twice as often as the others
    z = np.where(z == 2, 1, z * 2)  # 0 cold, 1 lukewarm, 2 hot
    return pd.DataFrame(
        {
            "id": np.repeat(np.arange(12), 50),
            "t": np.tile(np.arange(50), 12),
            "sound": np.where(rng.random(600) < 0.8, np.array(list("abc"))[z], "b"),
            "heat": 10.0 * z + rng.normal(size=600),
        }
    )


@pytest.fixture(scope="module")
def model(log: pd.DataFrame) -> lt.SequenceModel:
    names = {"z": ["cold", "warm", "hot"]}
    found = lt.SequenceModel(SLICE, {"z": 3}, order_by="heat", name_states=names)
    return found.fit(log, sequence="id", time="t")


def test_states_go_along_a_column(model: lt.SequenceModel, log: pd.DataFrame) -> None:
    assert (np.diff(model.cpts_["heat"].means.ravel()) > 5).all()
    by_size = lt.SequenceModel(SLICE, {"z": 3}).fit(log, sequence="id", time="t")
    assert (np.diff(by_size.profile().shares) <= 0).all()
    by_word = lt.SequenceModel(SLICE, {"z": 3}, order_by={"z": "sound"})
    by_word.fit(log, sequence="id", time="t")
    assert np.allclose(by_word.cpts_["z'"], model.cpts_["z'"])  # a < b < c goes with the heat
    assert model.score(log) == pytest.approx(by_size.score(log), abs=1e-9)


def test_every_answer_has_the_names(model: lt.SequenceModel, log: pd.DataFrame) -> None:
    columns = ["z=cold", "z=warm", "z=hot"]
    assert list(model.filter(log)) == list(model.smooth(log)) == columns
    path = model.decode(log)
    assert set(path) == {"cold", "warm", "hot"}
    numbers = lt.SequenceModel(SLICE, {"z": 3}, order_by="heat").fit(log, sequence="id", time="t")
    assert (np.array(["cold", "warm", "hot"])[numbers.decode(log)] == path).all()
    assert list(model.forecast(log, 2))[-3:] == columns
    one = log[log.id == 3]
    asked = model.query("z", at=4, given=one)
    assert asked["hot"] == pytest.approx(model.smooth(one)["z=hot"].iloc[4], abs=1e-12)
    assert set(model.sample(3, 40, random_state=0)["z"]) <= {"cold", "warm", "hot"}
    state = model.start()
    state.observe({"heat": 20.0, "sound": "c"})
    assert state.forecast("z")["hot"] > 0.5


def test_profile_and_pictures_have_the_names(model: lt.SequenceModel, log: pd.DataFrame) -> None:
    profile = model.profile()
    assert profile.states == ("cold", "warm", "hot")
    assert "warm" in repr(profile)
    assert {"cold", "± hot"} <= set(profile.to_frame())
    for picture in (profile.plot(), model.plot_moves(), model.plot_decoded(log, 2)):
        assert "warm" in picture.svg


def test_files_keep_the_names(model: lt.SequenceModel, log: pd.DataFrame, tmp_path) -> None:
    model.save(tmp_path / "m.latentia")
    again = lt.load(tmp_path / "m.latentia")
    assert again.name_states == {"z": ["cold", "warm", "hot"]}
    assert again.order_by == "heat"
    assert (again.decode(log) == model.decode(log)).all()


def test_names_can_come_later(log: pd.DataFrame) -> None:
    found = lt.SequenceModel(SLICE, {"z": 3}).fit(log, sequence="id", time="t")
    assert set(found.decode(log)) == {0, 1, 2}
    assert found.with_state_names({"z": ["x", "y", "w"]}) is found
    assert set(found.decode(log)) == {"x", "y", "w"}
    assert set(found.with_state_names({}).decode(log)) == {0, 1, 2}


def test_two_models_are_aligned(model: lt.SequenceModel, log: pd.DataFrame) -> None:
    other = lt.SequenceModel(SLICE, {"z": 3}).fit(log[log.id > 2], sequence="id", time="t")
    for rows in (None, log):
        found = model.align(other, rows)
        assert found.agreement["z"] > 0.95
        same = found.model
        assert same.score(log) == pytest.approx(other.score(log), abs=1e-9)
        assert (same.decode(log) == model.decode(log)).mean() > 0.95
        theirs = same.cpts_["heat"].means.ravel()
        assert np.abs(theirs - model.cpts_["heat"].means.ravel()).max() < 1
        assert found.mapping["z"]["hot"] == int(np.argmax(other.cpts_["heat"].means))


def test_wrong_wishes_are_told(log: pd.DataFrame) -> None:
    def fit(**wishes: object) -> None:
        lt.SequenceModel(SLICE, {"z": 3}, **wishes).fit(log, sequence="id", time="t")

    with pytest.raises(DataError, match="has 3 states, got 2 names"):
        fit(name_states={"z": ["a", "b"]})
    with pytest.raises(UnknownNameError, match="latent"):
        fit(name_states={"y": ["a", "b"]})
    with pytest.raises(UnknownNameError, match="order_by"):
        fit(order_by="cold")
    factorial = lt.SequenceModel(
        "y -> y'; z -> z'; y -> sound; z -> heat", {"y": 2, "z": 2}, order_by="heat"
    )
    with pytest.raises(DataError, match="'y' cannot go along 'heat'"):
        factorial.fit(log, sequence="id", time="t")
