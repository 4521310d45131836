"""Tables that are odd somewhere: which row, which states, and which types come back."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import latentia as lt
from latentia.errors import (
    FileError,
    IgnoredColumnWarning,
    ImpossibleRowWarning,
    LatentiaWarning,
    UnknownNameError,
    UnknownStateWarning,
)

ROWS = 300


def pairs(low: Any, high: Any, seed: int = 0) -> pd.DataFrame:
    """Three columns that tell one hidden class; the first has these two states."""
    rng = np.random.default_rng(seed)
    h = rng.integers(2, size=ROWS)
    codes = {c: np.where(rng.random(ROWS) < 0.8, h, 1 - h) for c in "abc"}
    states = np.empty(2, dtype=object)
    states[:] = [low, high]
    return pd.DataFrame({**codes, "a": pd.Series(states[codes["a"]]).infer_objects()})


def new_model(**more: Any) -> lt.LatentModel:
    return lt.LatentModel("H->a,b,c", {"H": 2}, learner=lt.PBP(refine=False), **more)


class TestWideStates:
    """States that no integer of 64 bits with a sign can be."""

    @pytest.mark.parametrize("states", [(2**63, 2**63 + 1), (2**64 - 2, 2**64 - 1)])
    @pytest.mark.parametrize("kind", ["parquet", "duckdb", "polars lazy"])
    def test_come_back_from_engines(self, states: Any, kind: str, tmp_path: Path) -> None:
        frame = pairs(*states).astype({"a": "uint64"})
        frame.to_parquet(tmp_path / "rows.parquet")
        model = new_model().fit(frame)
        expected = model.predict(frame, "a").tolist()
        if kind == "parquet":
            found = model.predict(tmp_path / "rows.parquet", "a").read_all()["a"].to_pylist()
        elif kind == "duckdb":
            found = model.predict(duckdb.sql(f"from '{tmp_path}/rows.parquet'"), "a").fetchall()
            found = [cell for (cell,) in found]
        else:
            lazy = pl.scan_parquet(tmp_path / "rows.parquet")
            found = model.predict(lazy, "a").collect()["a"].to_list()
        assert found == expected
        assert set(found) == set(states)

    def test_beyond_64_bits_are_text(self, tmp_path: Path) -> None:
        frame = pairs(-1, 2**64)
        frame.to_csv(tmp_path / "rows.csv", index=False)
        model = new_model().fit(frame)
        found = model.predict(tmp_path / "rows.csv", "a").read_all()["a"].to_pylist()
        assert found == [str(state) for state in model.predict(frame, "a")]


def test_states_of_two_types_are_text_where_columns_have_one() -> None:
    frame = pairs(1, "1")
    model = new_model().fit(frame)
    rows = pl.from_pandas(frame[["b", "c"]])
    expected = [str(state) for state in model.predict(frame, "a")]
    assert model.predict(rows, "a").to_list() == expected
    assert model.predict(rows)["a"].to_list() == expected


class TestStatedStates:
    """Files of text spell no types: states that are known tell what cells mean."""

    STATES: ClassVar = {"a": ["1", "0"], "b": [0.0, 1.0, 2.0]}

    @pytest.fixture
    def rows(self, tmp_path: Path) -> tuple[pd.DataFrame, Path]:
        frame = pairs("0", "1")
        frame.to_csv(tmp_path / "rows.csv", index=False)
        return frame, tmp_path / "rows.csv"

    def test_fit(self, rows: Any) -> None:
        expected, found = (new_model(state_names=self.STATES).fit(X) for X in rows)
        assert found.columns_ == expected.columns_
        assert found.score(rows[0]) == pytest.approx(expected.score(rows[0]), abs=1e-12)

    def test_words_for_missing_may_be_states(self, tmp_path: Path) -> None:
        frame = pairs("NA", "EU")
        frame.to_csv(tmp_path / "rows.csv", index=False)
        named = {"a": ["EU", "NA"]}
        found = new_model(state_names=named).fit(tmp_path / "rows.csv")
        expected = new_model(state_names=named).fit(frame)
        np.testing.assert_allclose(found.query("a"), expected.query("a"), atol=1e-12)

    def test_later_tables(self, rows: Any) -> None:
        """Sums, error bars and further rows are read as the states of the model."""
        frame, path = rows
        model = new_model().fit(frame)
        assert model.with_error_bars(path).query("a", confidence=0.9).lower is not None
        frozen = new_model().freeze(frame)
        for name, total in frozen.gather(frame).sums.items():
            np.testing.assert_array_equal(frozen.gather(path).sums[name], total)
        one, two = (new_model().partial_fit(frame).partial_fit(X) for X in rows)
        assert one.score(frame) == pytest.approx(two.score(frame), abs=1e-12)
        steps = lt.LatentModel("H->a,b,c", {"H": 2}, learner=lt.StepwiseEM(random_state=0))
        assert np.isfinite(steps.partial_fit(frame).partial_fit(path).score(path))

    def test_classifier(self, rows: Any) -> None:
        frame, path = rows
        named = {"a": ["1", "0"]}
        one, two = (
            lt.LatentClassifier(state_names=named, learner=lt.PBP(refine=False)).fit(X, "c")
            for X in (frame, path)
        )
        assert one.columns_ == two.columns_
        np.testing.assert_allclose(one.predict_proba(frame), two.predict_proba(frame), atol=1e-12)


class TestWhichRow:
    """Errors and warnings count rows from the start of the table, not of a block."""

    def test_unknown_state(self) -> None:
        frame = pairs("no", "yes")
        model = new_model().fit(frame)
        odd = frame.copy()
        odd.loc[250, "a"] = "perhaps"
        for rows in (odd, [odd[:100], odd[100:]], lambda: iter([odd[:200], odd[200:]])):
            with pytest.raises(UnknownNameError, match=r"\(row 250\)"):
                model.score(rows)
        with pytest.raises(UnknownNameError, match=r"\(row 50 of its part\)"):
            model.score(dd.from_pandas(odd, npartitions=3))  # of 100 rows each

    def test_rows_without_weight_count(self) -> None:
        frame = pairs("no", "yes").assign(w=1)
        frame.loc[:9, "w"] = 0
        frame.loc[20, "a"] = "perhaps"
        with pytest.raises(UnknownNameError, match=r"\(row 20\)"):
            new_model(state_names={"a": ["no", "yes"]}).fit(frame, sample_weight="w")

    def test_no_number(self) -> None:
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"x": rng.normal(size=ROWS), "k": rng.integers(2, size=ROWS)})
        model = lt.LatentModel("H->x,k", {"H": 2}, learner=lt.PBP(refine=False)).fit(frame)
        odd = frame.astype({"x": object})
        odd.loc[250, "x"] = "far"
        with pytest.raises(lt.errors.DataError, match=r"\(row 250\)"):
            model.score([odd[:100], odd[100:]])

    def test_impossible_row(self) -> None:
        frame = pd.DataFrame({"a": [0, 1] * 100, "b": [0, 1] * 100})
        model = lt.LatentModel("a->b", learner=lt.EM(restarts=1, random_state=0)).fit(frame)
        frame.loc[150, "b"] = 1
        with pytest.warns(ImpossibleRowWarning, match="the first is row 150"):
            model.score_samples([frame[:120], frame[120:]])


def test_latents_of_unknown_cells() -> None:
    """`unknown` means for latents what it means for columns."""
    frame = pairs("no", "yes")
    model = lt.LatentModel("H->a,b,c", {"H": 2}, learner=lt.EM(restarts=1, random_state=0))
    model.fit(frame)
    odd = frame.assign(a=frame["a"].mask(frame.index == 7, "perhaps"))
    with pytest.warns(UnknownStateWarning, match=r"1 cell\(s\) of 'a'"):
        found = model.predict_latent(odd, "H", unknown="warn")
    expected = model.predict_latent(frame.assign(a=frame["a"].mask(frame.index == 7)), "H")
    np.testing.assert_allclose(found, expected, atol=1e-12)
    with pytest.raises(UnknownNameError, match="unknown"):
        model.predict_latent(odd, "H", unknown="ignore")


def test_longer_rows_are_not_scored_in_silence() -> None:
    frame = pairs("no", "yes")
    model = new_model().fit(frame)
    for rows in (frame.assign(e=1), [frame.assign(e=1)], pl.from_pandas(frame.assign(e=1)).lazy()):
        with pytest.warns(IgnoredColumnWarning, match="take no part in the score: e"):
            model.score_samples(rows)


def test_what_a_library_cannot_read_is_said_in_our_words(tmp_path: Path) -> None:
    frame = pairs("no", "yes")
    frame.to_parquet(tmp_path / "1.parquet")
    frame.drop(columns="c").to_parquet(tmp_path / "2.parquet")
    with pytest.raises(FileError, match=r"polars cannot read these rows: .*column c"):
        new_model().fit(pl.scan_parquet(tmp_path / "*.parquet"))
    frame.assign(b="five").to_csv(tmp_path / "rows.csv", index=False)
    wrong = duckdb.sql(f"select a, cast(b as int) as b, c from '{tmp_path}/rows.csv'")
    with pytest.raises(FileError, match="duckdb cannot read these rows"):
        new_model().fit(wrong)


def test_scores_of_many_blocks_are_told_of_once() -> None:
    """Counts of all rows, as from a table in memory, and from wherever blocks are scored."""
    frame = pd.DataFrame({"a": [0, 1] * 100, "b": [0, 1] * 100})
    model = lt.LatentModel("a->b", learner=lt.EM(restarts=1, random_state=0)).fit(frame)
    frame.loc[[30, 150, 190], "b"] = [1, 1, 1]
    frame.loc[[40, 160], "a"] = [7, 8]
    tables = (frame, [frame[:50], frame[50:120], frame[120:]], dd.from_pandas(frame, npartitions=3))
    said = []
    for rows in tables:
        with pytest.warns(LatentiaWarning) as told:
            assert model.score(rows, unknown="warn") == -np.inf
        said.append([str(w.message) for w in told if issubclass(w.category, LatentiaWarning)])
    assert said[0] == said[1]
    assert [text.replace("row 30 of its part", "row 30") for text in said[2]] == said[0]
    assert said[0][0].startswith("2 cell(s) of 'a' hold no state that was learned, such as 7;")
    assert said[0][1].startswith("3 row(s) have probability zero")
    assert "the first is row 30;" in said[0][1]
