"""Long tables: every way to bring sequences gives the same model and answers; bad ones are told."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

import latentia as lt
from latentia.errors import (
    DataError,
    EvidenceError,
    IgnoredColumnWarning,
    LatentiaWarning,
    UnknownNameError,
)

TEXT = "z -> z', z -> word, pitch"


def frame_of(seed: int = 0, lengths=(40, 1, 25, 60)) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    parts = []
    for k, T in enumerate(lengths):
        z = (rng.random(T) < 0.15).cumsum() % 2
        word = np.where(rng.random(T) < 0.9, z, 1 - z)
        pitch = 3.0 * z + rng.normal(size=T)
        parts.append(
            pd.DataFrame(
                {
                    "id": f"s{k}",
                    "t": np.arange(T),
                    "word": np.array(["a", "b"])[word],
                    "pitch": pitch,
                }
            )
        )
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return frame_of()


@pytest.fixture(scope="module")
def model(frame: pd.DataFrame) -> lt.SequenceModel:
    return lt.SequenceModel(TEXT, {"z": 2}).fit(frame, sequence="id", time="t")


def same(a: lt.SequenceModel, b: lt.SequenceModel) -> None:
    assert a.cpts_.keys() == b.cpts_.keys()
    for name, table in a.cpts_.items():
        other = b.cpts_[name]
        if name == "pitch":
            np.testing.assert_allclose(table.means, other.means, atol=1e-9)
            np.testing.assert_allclose(table.deviations, other.deviations, atol=1e-9)
        else:
            np.testing.assert_allclose(table, other, atol=1e-9)


def test_it_learns_what_was_there(model: lt.SequenceModel) -> None:
    means = np.sort(model.cpts_["pitch"].means[:, 0])
    np.testing.assert_allclose(means, [0.0, 3.0], atol=0.4)  # standard errors of about .15
    assert model.converged_
    assert model.states_ == {"z": 2}


def test_engines_agree(model: lt.SequenceModel, frame: pd.DataFrame, tmp_path) -> None:
    path = tmp_path / "rows.parquet"
    frame.to_parquet(path)
    tables = [pl.from_pandas(frame), {c: frame[c].to_numpy() for c in frame}, str(path)]
    for table in tables:
        other = lt.SequenceModel(TEXT, {"z": 2}).fit(table, sequence="id", time="t")
        same(model, other)
        np.testing.assert_allclose(
            model.score_samples(frame), other.score_samples(table), atol=1e-9
        )
    from_file, here = model.filter(str(path)), model.filter(frame)
    np.testing.assert_allclose(from_file["z=0"], here["z=0"], atol=1e-12)
    np.testing.assert_allclose(
        model.forecast(str(path), 2)["word=a"], model.forecast(frame, 2)["word=a"], atol=1e-12
    )
    np.testing.assert_array_equal(model.decode(str(path)), model.decode(frame))
    assert isinstance(model.forecast(pl.from_pandas(frame), 2), pl.DataFrame)
    assert isinstance(model.filter(pl.from_pandas(frame)), pl.DataFrame)
    assert list(model.smooth(frame).columns) == ["z=0", "z=1"]
    assert model.smooth(frame).index.equals(frame.index)


def test_lists_and_lengths_agree(model: lt.SequenceModel, frame: pd.DataFrame) -> None:
    parts = [part[["word", "pitch"]] for _, part in frame.groupby("id", sort=False)]
    listed = lt.SequenceModel(TEXT, {"z": 2}).fit(parts)
    same(model, listed)
    found = listed.filter(parts)
    assert [len(f) for f in found] == [len(p) for p in parts]
    np.testing.assert_allclose(np.vstack(found), model.filter(frame), atol=1e-9)
    np.testing.assert_allclose(
        np.concatenate(listed.score_samples(parts)), model.score_samples(frame)
    )
    rows = frame[["word", "pitch"]].to_numpy(dtype=object)
    lengths = [len(p) for p in parts]
    arrays = lt.SequenceModel(TEXT, {"z": 2}).fit(rows, lengths=lengths)
    same(model, arrays)
    np.testing.assert_array_equal(arrays.decode(rows, lengths=lengths), model.decode(frame))
    split = [rows[a : a + n] for a, n in zip(np.cumsum([0, *lengths]), lengths, strict=False)]
    same(model, lt.SequenceModel(TEXT, {"z": 2}).fit(split))


def test_order_of_rows_does_not_matter(model: lt.SequenceModel, frame: pd.DataFrame) -> None:
    mixed = frame.sample(frac=1.0, random_state=1)
    with pytest.warns(LatentiaWarning, match="not sorted by 't'"):
        found = model.smooth(mixed)
    np.testing.assert_allclose(found.loc[frame.index], model.smooth(frame), atol=1e-12)


def test_gaps_in_time_are_holes(model: lt.SequenceModel, frame: pd.DataFrame) -> None:
    gone = (frame.t % 7 == 3) & (frame.t > 0)
    holes = frame.copy()
    holes.loc[gone, ["word", "pitch"]] = None
    short = frame[~gone]
    np.testing.assert_allclose(model.smooth(short), model.smooth(holes)[~gone], atol=1e-12)
    np.testing.assert_allclose(model.score_samples(holes)[gone], 0.0, atol=1e-12)
    dates = short.assign(t=pd.Timestamp("2024-01-01") + pd.to_timedelta(short.t, unit="D"))
    other = lt.SequenceModel(TEXT, {"z": 2}).fit(dates, sequence="id", time="t")
    same(other, lt.SequenceModel(TEXT, {"z": 2}).fit(short, sequence="id", time="t"))


def test_decimals_only_tell_the_order(model: lt.SequenceModel, frame: pd.DataFrame) -> None:
    odd = frame.assign(t=frame.t * 1.5 + 0.25)
    same(model, lt.SequenceModel(TEXT, {"z": 2}).fit(odd, sequence="id", time="t"))


def test_a_missing_column_is_a_hole(model: lt.SequenceModel, frame: pd.DataFrame) -> None:
    blank = frame.assign(pitch=np.nan)
    np.testing.assert_allclose(model.filter(frame.drop(columns="pitch")), model.filter(blank))


def test_online_equals_batch(model: lt.SequenceModel, frame: pd.DataFrame) -> None:
    one = frame[frame.id == "s3"].copy()
    one.loc[one.index[5], "word"] = None
    one.loc[one.index[9], "pitch"] = np.nan
    state = model.start()
    beliefs, scores = [], []
    for row in one[["word", "pitch"]].to_dict("records"):
        scores.append(state.observe(row))
        beliefs.append(state.belief["z"])
    np.testing.assert_allclose(beliefs, model.filter(one), atol=1e-12)
    np.testing.assert_allclose(scores, model.score_samples(one), atol=1e-12)
    ahead = model.forecast(one, 3)
    for k in (1, 2, 3):
        row = ahead[ahead.ahead == k].iloc[0]
        assert state.forecast("word", k)["a"] == pytest.approx(row["word=a"], abs=1e-12)
        assert state.forecast("pitch", k).mean == pytest.approx(row["pitch=mean"], abs=1e-9)
        assert state.forecast("z", k)[0] == pytest.approx(row["z=0"], abs=1e-12)
        later = model.query("word", at=len(one) + k - 1, given=one)
        assert later["a"] == pytest.approx(row["word=a"], abs=1e-12)


def test_query_within_a_sequence_is_smoothed(model: lt.SequenceModel, frame: pd.DataFrame) -> None:
    one = frame[frame.id == "s0"]
    np.testing.assert_allclose(
        np.asarray(model.query("z", at=4, given=one)), model.smooth(one).iloc[4], atol=1e-12
    )
    np.testing.assert_allclose(np.asarray(model.query("z", at=0)), model.cpts_["z"], atol=1e-12)
    with pytest.raises(EvidenceError, match="is told at step 4"):
        model.query("word", at=4, given=one)
    with pytest.raises(EvidenceError, match="step from 0 on"):
        model.query("word", at=-1)


def test_samples_look_like_the_model(model: lt.SequenceModel) -> None:
    drawn = model.sample(200, 50, random_state=1)
    assert set(drawn) == {"id", "t", "z", "word", "pitch"}
    again = lt.SequenceModel(TEXT, {"z": 2}).fit(
        {k: v for k, v in drawn.items() if k != "z"}, sequence="id", time="t"
    )
    here, there = (np.argsort(m.cpts_["pitch"].means[:, 0]) for m in (again, model))
    np.testing.assert_allclose(
        again.cpts_["z'"][here][:, here], model.cpts_["z'"][there][:, there], atol=0.03
    )
    np.testing.assert_allclose(again.cpts_["word"][here], model.cpts_["word"][there], atol=0.03)
    path = np.argsort(here)[again.decode(drawn)]
    assert (np.argsort(there)[drawn["z"]] == path).mean() > 0.9


def test_bad_tables_are_told(model: lt.SequenceModel, frame: pd.DataFrame) -> None:
    fresh = lt.SequenceModel(TEXT, {"z": 2})
    with pytest.raises(DataError, match="two rows at time"):
        fresh.fit(pd.concat([frame, frame.iloc[[3]]]), sequence="id", time="t")
    with pytest.raises(UnknownNameError, match="sequence column 'who'"):
        fresh.fit(frame.drop(columns="id"), sequence="who", time="t")
    with pytest.raises(DataError, match="row 2 has none"):
        fresh.fit(frame.assign(id=frame.id.where(frame.index != 2)), sequence="id", time="t")
    rows = frame[["word", "pitch"]].to_numpy(dtype=object)
    with pytest.raises(DataError, match="add up to 5"):
        fresh.fit(rows, lengths=[2, 3])
    with pytest.raises(DataError, match="whole numbers"):
        fresh.fit(rows, lengths=[2.5, 3])
    with pytest.raises(UnknownNameError, match="column 'pitch'"):
        fresh.fit(frame.drop(columns="pitch"), sequence="id", time="t")
    with pytest.raises(DataError, match="without a row"):
        fresh.fit(frame.assign(t=np.arange(len(frame)) ** 3), sequence="id", time="t")
    with pytest.raises(LookupError, match="'c'"):
        model.filter(frame.assign(word="c"))
    with pytest.raises(DataError, match="one must be"):
        model.filter({"id": [1], "t": [0]})
    with pytest.raises(UnknownNameError, match="'id'"):
        model.filter(frame.drop(columns="id"))
    with pytest.warns(IgnoredColumnWarning, match="extra"):
        fresh.fit(frame.assign(extra=1), sequence="id", time="t")


def test_one_long_sequence_and_single_steps() -> None:
    rng = np.random.default_rng(0)
    z = (rng.random(100_000) < 0.05).cumsum() % 2
    x = np.where(rng.random(len(z)) < 0.9, z, 1 - z)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = lt.SequenceModel("z -> z', z -> x", {"z": 2}).fit({"x": x})
        np.testing.assert_allclose(np.diag(model.cpts_["z'"]), 0.95, atol=0.01)
        assert np.isfinite(model.score({"x": x}))
        alone = lt.SequenceModel("z -> z', z -> x", {"z": 2}).fit(
            {"x": x[:500], "id": np.arange(500)}, sequence="id"
        )
    assert alone.cpts_["z'"].shape == (2, 2)
