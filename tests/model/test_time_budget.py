"""A time budget is for the whole fit: what does not fit is left out, and said."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import latentia as lt
from latentia.data.columns.continuous import ContinuousColumn
from latentia.discovery.structure_search import rows_in_time
from latentia.pooling import learning_pool
from latentia.time_left import Pace


def mixed(rows: int = 150) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=rows)
    return pd.DataFrame(
        {
            "x": x,
            "y": x + 0.3 * rng.normal(size=rows),
            "word": np.where(x + 0.5 * rng.normal(size=rows) > 0, "up", "down"),
        }
    )


def test_a_small_budget_leaves_pools_and_the_chain_out_and_says_so() -> None:
    with pytest.warns(lt.errors.LeftOutWarning, match=r"left no time for .*chain that draws"):
        model = lt.LatentModel(lt.Structure(time_budget=0.02)).fit(mixed())
    assert not hasattr(model, "pool_")
    assert any("models beside the joint one" in each for each in model.diagnostics_.hurried)
    assert "! no time for a chain" in str(model.diagnostics_)
    assert len(model.predict(mixed()[["x", "word"]], "y")) == 150
    assert set(pd.DataFrame(model.sample(20, random_state=0))) == {"x", "y", "word"}


def test_a_budget_that_runs_out_among_columns_pools_those_before(
    monkeypatch: pytest.MonkeyPatch, short_search: None
) -> None:
    """Two pieces of every kind of work: two columns are weighed, no chain is whole."""
    monkeypatch.setattr(Pace, "goes_on", lambda self, pieces=1.0: _two(self))
    monkeypatch.setattr(learning_pool, "TREES", (2, 2))
    with pytest.warns(lt.errors.LeftOutWarning, match="1 of 3 columns; for a chain that draws"):
        model = lt.LatentModel(lt.Structure(time_budget=1e9, max_states=2)).fit(mixed())
    assert model.diagnostics_.pooled["word"] == {"joint": 1.0, "linear": 0.0, "forest": 0.0}
    drawn = pd.DataFrame(model.sample(50, random_state=0))
    assert np.isfinite(drawn["x"]).all()
    assert isinstance(model.columns_[0], ContinuousColumn)


def _two(pace: Pace) -> bool:
    pace.done += 1
    return pace.done <= 2


def test_a_budget_that_is_too_small_for_the_table_is_said() -> None:
    with pytest.warns(lt.errors.LeftOutWarning, match="was too short: "):
        lt.LatentModel(lt.Structure(time_budget=1e-6)).fit(mixed())


def test_rows_that_race_by_the_clock_are_no_fewer_than_a_thousand() -> None:
    assert rows_in_time(1e-6, 400) == 1000
    assert rows_in_time(1.0, 100) == 20_000
