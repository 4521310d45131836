"""Times as people write them, and sequences that come as lists of arrays."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import latentia as lt
from latentia.errors import DataError, EvidenceError, UnknownNameError

SLICE = "z -> z', z -> a"


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(2)
    z = np.repeat(rng.integers(2, size=24), 5)
    a = np.where(rng.random(120) < 0.9, z, 1 - z)
    found = pd.DataFrame(
        {"id": np.repeat(list("uvwx"), 30), "t": np.tile(np.arange(30), 4), "a": a}
    )
    return found[rng.random(120) < 0.8].reset_index(drop=True)  # with gaps


def fitted(frame: pd.DataFrame) -> lt.SequenceModel:
    return lt.SequenceModel(SLICE, {"z": 2}).fit(frame, sequence="id", time="t")


def test_text_that_spells_whole_numbers_counts_steps(frame: pd.DataFrame) -> None:
    """As text, "10" would come before "2", and "005" is no date."""
    model = fitted(frame)
    for spelled in (str, "{:03d}".format):
        other = frame.assign(t=[spelled(t) for t in frame.t])
        again = fitted(other)
        assert again.fitted_.step == 1
        assert np.allclose(again.score_samples(other), model.score_samples(frame), atol=1e-12)


def test_only_text_that_looks_like_a_date_is_one(frame: pd.DataFrame) -> None:
    days = pd.Timestamp("2024-02-20") + pd.to_timedelta(frame.t, unit="D")
    spelled = frame.assign(t=days.dt.strftime("%Y-%m-%d"))
    assert np.allclose(fitted(spelled).score(spelled), fitted(frame).score(frame), atol=1e-12)
    named = frame.assign(t=[f"run{t:03d}" for t in frame.t])
    assert fitted(named).fitted_.step == 0  # tells the order, no gaps


def test_zones_share_one_clock(frame: pd.DataFrame) -> None:
    """An hour that a clock repeats or leaves out is an hour like any other; nothing is warned."""
    utc = pd.Timestamp("2024-03-30 12:00", tz="UTC") + pd.to_timedelta(frame.t, unit="h")
    there = frame.assign(t=utc.dt.tz_convert("Europe/Berlin"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fitted(there)
    assert model.score(there) == pytest.approx(fitted(frame).score(frame), abs=1e-12)


def test_two_rows_at_one_time_are_told_as_the_table_has_them(frame: pd.DataFrame) -> None:
    with pytest.raises(DataError, match=r"sequence 'u' has two rows at time 1\."):
        fitted(pd.concat([frame, frame.iloc[[0]]]))


def test_a_query_is_about_one_sequence(frame: pd.DataFrame) -> None:
    with pytest.raises(EvidenceError, match="rows of one sequence, got 4"):
        fitted(frame).query("a", at=40, given=frame)


def test_a_missing_latent_is_told(frame: pd.DataFrame) -> None:
    with pytest.raises(UnknownNameError, match="latents="):
        lt.SequenceModel(SLICE).fit(frame, sequence="id", time="t")


def test_lists_of_arrays_give_lists_of_answers() -> None:
    rng = np.random.default_rng(0)
    whole = [np.repeat(rng.integers(3, size=(k, 1)), 4, axis=0) for k in (9, 0, 1, 14)]
    model = lt.SequenceModel(SLICE, {"z": 3}).fit(whole)
    joined, lengths = np.concatenate(whole), [len(x) for x in whole]
    cuts = np.cumsum(lengths)[:-1]
    flat = [x[:, 0] for x in whole]
    cells = [x.tolist() for x in flat]
    for listed in (whole, flat, cells):
        again = lt.SequenceModel(SLICE, {"z": 3}).fit(listed)
        assert np.array_equal(again.cpts_["z'"], model.cpts_["z'"])
        for asked in ("decode", "filter", "smooth", "score_samples"):
            found = getattr(model, asked)(listed)
            wanted = np.split(np.asarray(getattr(model, asked)(joined, lengths=lengths)), cuts)
            assert all(np.array_equal(x, y) for x, y in zip(found, wanted, strict=True))
    assert model.score(flat) == pytest.approx(model.score(joined, lengths=lengths), abs=1e-12)
    assert np.array_equal(model.decode(flat[0]), model.decode(whole[0]))  # one array: a sequence
    words = lt.SequenceModel(SLICE, {"z": 2}).fit([["u", "v", "v"], ["v", None, "u"], ["u"]])
    assert words.query("a", at=3, given={"a": ["u", "u", "u"]})["u"] > 0
    with pytest.raises(DataError, match="lengths of its own"):
        lt.SequenceModel(SLICE, {"z": 2}).fit(flat, lengths=[3])


def test_lengths_need_no_column_of_times(frame: pd.DataFrame) -> None:
    model = fitted(frame)
    rows = frame.a.to_numpy()[:, None]
    assert len(model.decode(rows, lengths=[len(rows)])) == len(rows)


def test_states_far_apart_are_bells_on_a_straight_scale() -> None:
    """Half of the rows lie in the narrow middle, so that the others look like long tails."""
    rng = np.random.default_rng(4)
    z = np.repeat(rng.choice([0, 1, 1, 2], size=60), 10)
    x = 10.0 * z + rng.normal(size=600)
    model = lt.SequenceModel("z -> z', z -> x", {"z": 3}, order_by="x").fit({"x": x})
    assert model.cpts_["x"].warped is None
    assert np.abs(model.cpts_["x"].means.ravel() - [0, 10, 20]).max() < 0.3
    long = np.exp(2.5 * rng.normal(size=600) + np.repeat(rng.integers(2, size=60), 10))
    bent = lt.SequenceModel("z -> z', z -> x", {"z": 2}).fit({"x": long})
    assert bent.cpts_["x"].warped is not None
    # densities are per unit of x on either scale: they integrate to one
    at = np.unique(np.concatenate([-np.geomspace(1e-3, 1e7, 3000), np.geomspace(1e-3, 1e7, 3000)]))
    ones = np.exp(bent.score_samples({"x": at}, lengths=[1] * len(at)))
    assert np.trapezoid(ones, at) == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize(
    ("times", "step"),
    [
        (pd.date_range("2000-01-01", periods=40, freq="MS"), -1),
        (pd.date_range("2000-01-31", periods=40, freq="ME"), -1),
        (pd.period_range("2000-01", periods=40, freq="M"), -1),
        ([f"{2000 + k // 12}-{k % 12 + 1:02d}-15" for k in range(40)], -1),
        (pd.period_range("2000Q1", periods=40, freq="Q"), -3),
        (pd.date_range("1990-06-01", periods=40, freq="YS-JUN"), -12),
    ],
)
def test_months_are_steps_of_the_calendar(times, step: int, tmp_path) -> None:
    """Dates of one day of the month count months, whose days differ; gaps are holes."""
    codes = np.random.default_rng(0).integers(3, size=40)
    gone = np.isin(np.arange(40), [3, 4, 20])
    plain = pd.DataFrame({"t": np.arange(40), "a": codes})[~gone]
    dated = plain.assign(t=pd.Series(times)[~gone])
    first = lt.SequenceModel("z -> z', z -> a", {"z": 2}).fit(plain, time="t")
    model = lt.SequenceModel("z -> z', z -> a", {"z": 2}).fit(dated, time="t")
    assert model.fitted_.step == step
    model.save(tmp_path / "m.latentia")
    for own in (model, lt.load(tmp_path / "m.latentia")):
        np.testing.assert_array_equal(own.smooth(dated), first.smooth(plain))
        np.testing.assert_array_equal(own.filter(dated[:2]), first.filter(plain[:2]))


def test_months_and_days_do_not_mix() -> None:
    days = pd.DataFrame({"t": pd.date_range("2024-01-01", periods=60), "a": [0, 1, 1] * 20})
    model = lt.SequenceModel("z -> z', z -> a", {"z": 2}).fit(days, time="t")
    far = days.iloc[[0, 31]]  # the first of January and of February: thirty days are missing
    assert len(model._read(far, None)[0].row) == 32
    months = days.assign(t=pd.date_range("2000-01-01", periods=60, freq="QS"))
    model = lt.SequenceModel("z -> z', z -> a", {"z": 2}).fit(months, time="t")
    with pytest.raises(DataError, match=r"not whole steps of 3 month"):
        model.filter(days.iloc[[0, 31]])
    with pytest.raises(DataError, match="two rows at time"):
        model.filter(days.iloc[:2])  # both of January
