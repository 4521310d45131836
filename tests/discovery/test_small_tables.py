"""Tables of few rows: clear ties are found, and none where there are none."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import latentia as lt


def one_pair(n: int, seed: int, kept: float) -> pd.DataFrame:
    """Six binary columns, of which the first two agree in a share `kept` of the rows."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"c{i}": rng.integers(2, size=n) for i in range(6)})
    return frame.assign(c1=np.where(rng.random(n) < kept, frame.c0, 1 - frame.c0))


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize("seed", [0, 2, 3])
def test_a_clear_pair_among_few_rows_is_found(seed: int) -> None:
    found = lt.learn_structure(one_pair(45, seed, 0.87))
    tied = {name for edge in found.edges for name in edge}
    assert {"c0", "c1"} <= tied


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_found_where_nothing_is(seed: int) -> None:
    assert not lt.learn_structure(one_pair(45, seed, 0.5)).edges
