"""Latent classes of maximum likelihood come to the best of many optima, whatever the seed."""

import numpy as np
import pandas as pd
import pytest

import latentia as lt
from latentia.networks.class_rows import SurveyRows
from latentia.networks.class_starts import changed_tables


def dummies(seed: int, n: int = 600) -> pd.DataFrame:
    """Two questions of five and six answers, each as a column of yes and no for every answer."""
    rng = np.random.default_rng(seed)
    member = rng.integers(0, 3, n)
    found = dict[str, np.ndarray]()
    for name, states in (("a", 6), ("b", 5)):
        lean = rng.dirichlet(np.ones(states), 3)
        answer = np.array([rng.choice(states, p=lean[m]) for m in member])
        found |= {f"{name}{s}": (answer == s).astype(int) for s in range(1, states)}
    return pd.DataFrame(found)


def test_most_seeds_come_to_the_best_level() -> None:
    """There are dozens of optima; without moved classes half of them came to the best one.

    With them 36 to 42 of 48, as columns and rows come in one order or another.
    """
    came = 0
    for rows in map(dummies, (1, 3, 4, 5, 6, 7)):
        graph = [("class", name) for name in rows]
        levels = []
        for turn in range(8):
            learner = lt.Tables(smoothing=0, random_state=turn)
            model = lt.LatentModel(graph, {"class": 5}, learner=learner).fit(rows)
            levels.append(model.score(rows) * len(rows))
        came += int((max(levels) - np.array(levels) < 1e-2).sum())
    assert came >= 33


def test_moved_classes_leave_the_others_where_they_are() -> None:
    rng = np.random.default_rng(0)
    seen = np.array([[0, 2], [1, -1], [0, 4], [1, 3]], dtype=np.int32)  # -1: a hole
    rows = SurveyRows(2, (0, 1), {0: 2, 1: 3, 2: 3}, seen, np.array([4.0, 1.0, 2.0, 1.0]))
    best = {
        0: rng.dirichlet(np.ones(2), 3),
        1: rng.dirichlet(np.ones(3), 3),
        2: np.array([0.5, 0.3, 0.2]),
    }
    for tables in changed_tables(rows, best, 20, rng):
        assert list(tables) == [0, 1, 2]
        for v, table in tables.items():
            assert table.sum(axis=-1) == pytest.approx(1.0)
            assert table.shape == best[v].shape
            assert table.min() > 0
        far = sum(abs(tables[v] - best[v]).max(axis=1) for v in (0, 1))
        assert np.count_nonzero(far > 0.08) <= 1  # the rest leans a little to what all rows are
