"""Columns of dates and times: measured, answered as what they are, alike whatever holds them."""

from __future__ import annotations

import datetime as dt
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import latentia as lt
from latentia.cli.application import app
from latentia.data.columns.clock import Clock, told_clock
from latentia.data.columns.times import TimeColumn
from latentia.errors import DataError, DateColumnWarning, EvidenceError, StoreError

FIRST = dt.date(2021, 3, 1)
LEVELS = (0.05, 0.5, 0.95)


def drawn(n: int = 400, seed: int = 0) -> dict[str, np.ndarray]:
    """A day tells a price and a kind."""
    rng = np.random.default_rng(seed)
    day = rng.integers(0, 600, n)
    return {
        "day": day,
        "price": np.round(20 + 0.05 * day + rng.normal(size=n), 2),
        "kind": np.where(rng.random(n) < day / 600, "new", "old"),
    }


def with_days(days: Any, seed: int = 0) -> dict[str, Any]:
    """The same table with days as `days` spells their numbers; every ninth is missing."""
    table: dict[str, Any] = dict(drawn(seed=seed))
    told = [None if i % 9 == 0 else days(int(x)) for i, x in enumerate(table["day"])]
    return {**table, "day": told}


def a_date(day: int) -> dt.date:
    return FIRST + dt.timedelta(days=day)


def a_time(day: int) -> dt.datetime:
    return dt.datetime(2021, 3, 1, 6) + dt.timedelta(days=day, hours=day % 5)


def text_of(day: int) -> str:
    return a_date(day).isoformat()


def written(kind: str, table: dict[str, Any], folder: Path) -> Any:
    frame = pd.DataFrame(table)
    if kind == "csv":
        frame.to_csv(folder / "rows.csv", index=False)
        return str(folder / "rows.csv")
    arrow = pa.table({name: pa.array(list(x)) for name, x in table.items()})
    if kind == "parquet":
        pq.write_table(arrow, folder / "rows.parquet")
        return str(folder / "rows.parquet")
    if kind == "duckdb":
        duckdb = pytest.importorskip("duckdb")
        return duckdb.connect().from_arrow(arrow)
    makers = {
        "pandas": lambda: frame,
        "polars": lambda: pl.DataFrame(arrow),
        "arrow": lambda: arrow,
    }
    return makers[kind]() if kind in makers else {n: np.asarray(x) for n, x in table.items()}


def as_listed(answer: Any, name: str) -> list[Any]:
    """A column of any kind of table."""
    if hasattr(answer, "fetchall"):  # DuckDB
        return [row[answer.columns.index(name)] for row in answer.fetchall()]
    if hasattr(answer, "read_all"):
        answer = answer.read_all()
    found = answer if isinstance(answer, np.ndarray) else answer[name]
    return found.to_pylist() if hasattr(found, "to_pylist") else list(found)


@pytest.fixture(scope="module")
def model() -> lt.LatentModel:
    return lt.LatentModel().fit(with_days(a_date))


def test_days_are_measured_and_come_back_as_dates(model: lt.LatentModel) -> None:
    column = model.columns_[0]
    assert isinstance(column, TimeColumn)
    assert column.clock == Clock("date")
    assert column.lattice == (1, 1)
    truth = np.array([a_date(int(x)) for x in drawn()["day"]], dtype="datetime64[D]")
    told = model.predict(with_days(a_date), "day")
    assert told.dtype == "datetime64[D]"
    assert abs((told - truth).astype(int)).mean() < 25  # 150 of the middle day
    levels = model.predict_quantiles(with_days(a_date), "day", LEVELS)
    held = (levels["0.05"] <= truth) & (truth <= levels["0.95"])
    assert held.mean() > 0.85
    assert (levels["0.05"] <= levels["0.5"]).all()
    filled = model.predict(with_days(a_date))["day"]
    there = np.arange(400) % 9 != 0
    np.testing.assert_array_equal(filled[there], truth[there])
    assert abs((filled - truth).astype(int))[~there].mean() < 25


def test_the_answers_are_those_of_numbers(model: lt.LatentModel) -> None:
    table, start = drawn(), FIRST.toordinal() - dt.date(1970, 1, 1).toordinal()
    day = np.where(np.arange(400) % 9 == 0, np.nan, table["day"] + start)
    numbers = {**table, "day": day}
    plain = lt.LatentModel(kinds={"day": "continuous"}).fit(numbers)
    np.testing.assert_allclose(
        plain.score_samples(numbers), model.score_samples(with_days(a_date)), rtol=1e-9
    )
    told = plain.predict_quantiles(numbers, "day", LEVELS)
    times = model.predict_quantiles(with_days(a_date), "day", LEVELS)
    for level in told:
        np.testing.assert_array_equal(times[level].astype(int), told[level])
    for given in ({"kind": "new"}, {"price": 30.0}):
        mean = model.query("day", given).mean
        assert abs((mean - dt.date(1970, 1, 1)).days - plain.query("day", given).mean) <= 0.5
    at = dt.date(2022, 1, 1)
    number = float((at - dt.date(1970, 1, 1)).days)
    for ask in ("cdf", "pdf"):
        own, theirs = model.query("day"), plain.query("day")
        assert getattr(own, ask)(at) == pytest.approx(getattr(theirs, ask)(number))
    mine = model.query("price", {"day": (at, None)})
    assert mine.mean == pytest.approx(plain.query("price", {"day": (number, None)}).mean)
    soft = model.query("price", soft={"day": lambda x: (x >= np.datetime64(at)) * 1.0})
    assert soft.mean > model.query("price").mean + 3


KINDS = ("pandas", "polars", "arrow", "dict", "parquet", "duckdb")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("days", [a_date, a_time])
def test_whatever_holds_them(kind: str, days: Any, tmp_path: Path) -> None:
    table = with_days(days)
    base = lt.LatentModel().fit(table)
    rows = written(kind, table, tmp_path)
    model = lt.LatentModel().fit(rows)
    column = model.columns_[0]
    assert isinstance(column, TimeColumn)
    rows = written(kind, table, tmp_path)
    told = model.predict_quantiles(rows, "day", [0.5])
    expected = base.predict_quantiles(table, "day", [0.5])["0.5"].tolist()
    listed = [
        x.to_pydatetime() if isinstance(x, pd.Timestamp) else x for x in as_listed(told, "0.5")
    ]
    listed = [x.item() if isinstance(x, np.datetime64) else x for x in listed]
    assert listed == expected
    if kind in ("pandas", "polars", "arrow"):
        filled = model.predict(rows)["day"]
        assert str(getattr(filled, "dtype", None) or filled.type) == str(
            getattr(rows["day"], "dtype", None) or rows["day"].type
        )


def test_text_of_csv_comes_back_as_text(tmp_path: Path, model: lt.LatentModel) -> None:
    rows = written("csv", with_days(text_of), tmp_path)
    own = lt.LatentModel().fit(rows)
    column = own.columns_[0]
    assert isinstance(column, TimeColumn)
    assert column.clock.length == 10
    told = as_listed(own.predict_quantiles(rows, "day", [0.5]), "0.5")
    same = model.predict_quantiles(with_days(a_date), "day", [0.5])["0.5"]
    assert told == [str(x) for x in same]
    # dates in another form are the same dates
    np.testing.assert_allclose(
        own.score_samples(with_days(a_date)), model.score_samples(with_days(a_date))
    )
    assert own.query("day").mean == model.query("day").mean.isoformat()


ZONES: Any = [dt.timezone(dt.timedelta(hours=5, minutes=30)), "Europe/Berlin", dt.UTC]


@pytest.mark.parametrize("zone", ZONES)
def test_zones_are_kept(zone: Any, tmp_path: Path) -> None:
    from zoneinfo import ZoneInfo

    own = ZoneInfo(zone) if isinstance(zone, str) else zone
    table = with_days(lambda x: a_time(x).replace(tzinfo=own))
    frame = pd.DataFrame(table)
    model = lt.LatentModel().fit(frame)
    model.save(tmp_path / "m.latentia")
    loaded = lt.load(tmp_path / "m.latentia")
    assert loaded.columns_[0] == model.columns_[0]
    for each in (model, loaded):
        filled = each.predict(frame)["day"]
        assert filled.dtype == frame["day"].dtype
        assert (filled == frame["day"])[frame["day"].notna()].all()
        mean = each.query("day").mean
        assert mean.utcoffset() == mean.astimezone(own).utcoffset()
    with pytest.raises(DataError, match=r"'day' held times .* zone"):
        model.predict(with_days(a_time), "kind")


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_a_column_of_holes_need_not_know_the_zone(zone: str | None) -> None:
    """pandas gives missing times alone a type, which may be another one."""
    frame = pd.DataFrame(with_days(a_time))
    frame["day"] = pd.to_datetime(frame["day"]).dt.tz_localize(zone)
    model = lt.LatentModel("H -> day, price, kind", {"H": 3}).fit(frame)
    wanted = model.predict(frame.drop(columns="day"))["day"]
    for other in (None, "UTC"):
        empty = pd.Series(pd.NaT, index=frame.index, dtype="datetime64[ns]").dt.tz_localize(other)
        found = model.predict(frame.assign(day=empty))["day"]
        if zone is not None or other is None:
            assert (pd.DatetimeIndex(found) == pd.DatetimeIndex(wanted)).all()
        assert not found.isna().any()


def test_files_keep_them(model: lt.LatentModel, tmp_path: Path) -> None:
    for own in (model, lt.LatentModel().fit(with_days(text_of))):
        own.save(tmp_path / "m.latentia")
        loaded = lt.load(tmp_path / "m.latentia")
        assert loaded.columns_ == own.columns_
        table = with_days(a_date)
        np.testing.assert_array_equal(loaded.predict(table, "day"), own.predict(table, "day"))


@pytest.mark.parametrize("clock", [["hour", None, 0, ""], ["time", "Mars/Phobos", 0, ""], [1], {}])
def test_hostile_clocks(clock: Any) -> None:
    from latentia.store.column_record import read_column, write_column

    column = lt.LatentModel().fit(with_days(a_date)).columns_[0]
    record: Any = write_column(column)
    assert read_column(record, "day", column.cells) == column
    with pytest.raises(StoreError):
        read_column({**record, "clock": clock}, "day", column.cells)
    with pytest.raises(StoreError, match="calendar"):
        read_column({**record, "centre": 1e9}, "day", column.cells)


def test_rows_that_are_drawn(model: lt.LatentModel) -> None:
    for joint in (False, True):
        days = model.sample(500, random_state=0, joint=joint)["day"]
        assert days.dtype == "datetime64[D]"
        real = np.array([a_date(int(x)) for x in drawn()["day"]], dtype="datetime64[D]")
        assert abs(np.sort(days)[::100].astype(int) - np.sort(real)[::80].astype(int)).max() < 90
        assert days.min() >= real.min() - np.timedelta64(20, "D")


def test_holes_are_filled_and_drawn() -> None:
    frame = pd.DataFrame(with_days(a_time))
    filled = lt.LatentImputer().fit_transform(frame)
    assert filled["day"].dtype == frame["day"].dtype
    assert filled["day"].notna().all()
    (one, two) = lt.LatentImputer(random_state=0).fit(frame).draws(frame, 2)
    gone = frame["day"].isna()
    assert (one["day"] == frame["day"])[~gone].all()
    assert (one["day"] != two["day"])[gone].any()


def test_profiles_and_pictures(tmp_path: Path) -> None:
    model = lt.LatentModel("class", learner="em").fit(with_days(a_date))
    profile = model.profile("H")
    said = repr(profile)
    assert " early, 2021-" in said
    assert " days" in said
    column = profile["day"]
    mean = column.told(0, float(column.overall[0]))
    assert dt.date(2021, 3, 1) < mean < dt.date(2022, 12, 1)
    assert isinstance(column.told(1, float(column.overall[1])), dt.timedelta)
    assert {type(x) for x in profile.to_dict()["all"]} >= {float, dt.date, dt.timedelta}
    profile.plot().save(tmp_path / "profile.svg")
    model.query("day").plot().save(tmp_path / "density.svg")
    assert "2021-" in (tmp_path / "density.svg").read_text()
    assert "2021-" in repr(model.query("day"))


def test_at_the_shell(tmp_path: Path) -> None:
    rows, runner = written("csv", with_days(text_of), tmp_path), CliRunner()
    kept = str(tmp_path / "m.latentia")
    assert runner.invoke(app, ["fit", rows, "--out", kept]).exit_code == 0
    for command in (
        ["inspect", kept],
        ["query", kept, "day"],
        ["query", kept, "kind", "--given", "day=2022-01-01"],
    ):
        found = runner.invoke(app, command)
        assert found.exit_code == 0, found.output
        found = runner.invoke(app, [*command, "--json"])
        assert found.exit_code == 0, found.output
        json.loads(found.stdout)


def test_intervals_at_the_shell(tmp_path: Path) -> None:
    model = lt.LatentModel("H -> day, price, kind", {"H": 3}).fit(with_days(a_date))
    model.save(tmp_path / "m.latentia")

    def ask(*words: str) -> str:
        found = CliRunner().invoke(app, ["query", str(tmp_path / "m.latentia"), *words])
        assert found.exit_code == 0, found.output
        return found.stdout

    told = json.loads(ask("H", "--given", "day=2021-05-01..2021-08-01", "--json"))
    wanted = model.query("H", {"day": ("2021-05-01", "2021-08-01")})
    assert told["probabilities"] == pytest.approx(list(wanted.table))
    open_end = ask("H", "--given", "day=..2021-08-01", "--json")
    assert "probabilities" in open_end
    assert "days   " in ask("day")  # the deviation, as in Python
    assert "microsecond" not in ask("day")


def test_few_dates_are_states_and_kinds_decide() -> None:
    few = with_days(lambda x: a_date(x // 40 * 40))
    assert not lt.LatentModel("class").fit(few).columns_[0].continuous
    kinds = {"day": "continuous"}
    assert isinstance(lt.LatentModel("class", kinds=kinds).fit(few).columns_[0], TimeColumn)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DateColumnWarning)
        model = lt.LatentModel("class", kinds={"day": "discrete"}).fit(with_days(a_date))
    assert not model.columns_[0].continuous
    assert all(isinstance(x, dt.date) for x in model.columns_[0].labels)
    odd = with_days(text_of)
    odd["day"][1] = "soon"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not lt.LatentModel("class").fit(odd).columns_[0].continuous


def test_cells_that_are_no_times_are_told(model: lt.LatentModel) -> None:
    for odd in ("soon", 3.0, dt.time(3)):
        table = with_days(a_date)
        table["day"][1] = odd
        with pytest.raises(DataError, match=r"'day' held dates in training; got .*row 1"):
            model.predict(table, "kind")
        told = model.predict(table, "kind", unknown="missing")
        assert len(told) == 400
        with pytest.raises(EvidenceError, match="'day' holds dates: expected one"):
            model.query("kind", {"day": odd})


def test_clocks() -> None:
    told = told_clock(["2024-01-31T10:00", "2024-02-01T11:30"])
    assert told is not None
    clock, numbers = told
    assert clock.times(numbers).tolist() == ["2024-01-31T10:00", "2024-02-01T11:30"]
    for spelled in ("2024-01-31 10:00:00", "2024-01-31T10:00:00.125", "2024-01-31 10:00:00.000001"):
        told = told_clock([spelled])
        assert told is not None
        assert told[0].times(told[1]).tolist() == [spelled]
    for mixed in (["2024-01-31", "2024-01-31T10:00"], [a_date(1), a_time(1)], ["2024-02-30"], []):
        assert told_clock(mixed) is None
    with pytest.raises(DataError, match="ten letters"):
        Clock("text")


def test_a_time_that_tells_a_latent() -> None:
    rows = {**with_days(a_time), "day": [a_time(int(x)) for x in drawn()["day"]]}
    model = lt.LatentModel("day->H; H->kind,price", {"H": 2}).fit(rows)
    early, late = (model.query("H", {"day": dt.datetime(y, 6, 1)}).table for y in (2021, 2022))
    assert abs(early - late).max() > 0.5
    assert model.sample(3, random_state=0)["day"].dtype == "datetime64[us]"
    assert model.query("kind", {"day": dt.datetime(2022, 9, 1)})["new"] > 0.6
