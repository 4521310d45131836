"""Holes that depend on other columns: against scipy, over blocks, and what users are told."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2_contingency

import latentia as lt
from latentia.assess.holes import HOLES, count_holes, dependent_holes, g_test, judge_holes
from latentia.data.columns.discrete import DiscreteColumn
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.errors import HolesWarning

COLUMNS = tuple(DiscreteColumn(name, (0, 1, 2)) for name in "abc")


@pytest.mark.parametrize("seed", range(5))
def test_the_g_test_is_that_of_scipy(seed):
    table = np.random.default_rng(seed).integers(1, 40, size=(2, 4)).astype(float)
    found = chi2_contingency(table, lambda_="log-likelihood", correction=False)
    p, v = g_test(table)
    assert p == pytest.approx(found.pvalue)
    plain = chi2_contingency(table, correction=False).statistic
    assert v == pytest.approx(np.sqrt(plain / table.sum()))


def test_tables_without_anything_to_test():
    assert g_test(np.array([[0.0, 0.0], [3.0, 4.0]])) == (1.0, 0.0)
    assert g_test(np.zeros((2, 3))) == (1.0, 0.0)
    assert g_test(np.array([[5.0, 0.0], [3.0, 0.0]])) == (1.0, 0.0)


def drawn(n, seed=0, chance=None):
    """Codes of three columns; those of a are missing by chance, or more often where b is 2."""
    rng = np.random.default_rng(seed)
    a, b, c = rng.integers(3, size=(3, n))
    gone = rng.random(n) < (0.2 if chance is None else np.where(b == 2, chance, 0.1))
    return Rows((np.where(gone, -1, a), b, c))


def test_counts_are_those_of_a_loop_and_add_up_over_blocks():
    rows = drawn(300, chance=0.5)
    weighted = Rows(rows.codes, np.random.default_rng(1).integers(1, 4, 300).astype(float))
    whole = count_holes(COLUMNS, [0], weighted).sums[HOLES]
    parts = count_holes(COLUMNS, [0], weighted[:100]) + count_holes(COLUMNS, [0], weighted[100:])
    np.testing.assert_allclose(parts.sums[HOLES], whole)
    for gone in (0, 1):
        for state in range(3):
            here = ((rows.codes[0] < 0) == gone) & (rows.codes[1] == state)
            assert whole[0, gone, 3 + state] == weighted.weight[here].sum()


def test_what_holes_depend_on_is_found():
    found = dependent_holes(COLUMNS, [0.2, 0.0, 0.0], LocalRows(drawn(3000, chance=0.5)))
    assert [(each.column, each.on) for each in found] == [("a", "b")]
    assert found[0].shares[1][0] == 2
    assert found[0].shares[1][1] == pytest.approx(0.5, abs=0.06)  # four errors of 1000 rows
    assert "where it is 2" in found[0].words


def test_chance_is_seldom_taken_for_more():
    """At the level of .01 one false alarm in 200 tables of two pairs is as many as are expected."""
    alarms = sum(
        bool(dependent_holes(COLUMNS, [0.2, 0.0, 0.0], LocalRows(drawn(1000, seed))))
        for seed in range(200)
    )
    assert alarms <= 8  # of a Poisson with mean 2 this is .9998


def test_weak_dependence_in_many_rows_does_not_count():
    counts = np.zeros((1, 2, 9))
    counts[0, :, 3:6] = np.array([[9e7, 9e7, 9e7], [1e7, 1e7, 1.01e7]])
    assert judge_holes(COLUMNS, [0], counts) == ()


# --- in fits --------------------------------------------------------------------------------------


def table_with_holes(dependent, kind=int):
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=3000)
    data = {c: np.where(rng.random(3000) < 0.85, h, 1 - h).astype(float) for c in "xyz"}
    share = np.where(data["y"] == 1, 0.5, 0.1) if dependent else np.full(3000, 0.3)
    data["x"][rng.random(3000) < share] = np.nan
    if kind is float:
        data["y"] = data["y"] * 2 + rng.normal(size=3000)
    return pd.DataFrame(data)


GRAPH = "h->x; h->y; h->z"


@pytest.mark.parametrize(
    ("learner", "words"),
    [(lt.EM(restarts=1, random_state=0), "account for this"), (lt.PBP(refine=False), "biased")],
)
def test_users_are_told_which(learner, words):
    model = lt.LatentModel(GRAPH, {"h": 2}, learner=learner)
    with pytest.warns(HolesWarning, match="holes in x depend on y: 11.5%") as told:
        model.fit(table_with_holes(True))
    assert any(words in str(each.message) for each in told)
    with warnings.catch_warnings():
        warnings.simplefilter("error", HolesWarning)
        model.fit(table_with_holes(False))


def test_continuous_columns_are_looked_at_in_bins():
    model = lt.LatentModel(GRAPH, {"h": 2}, learner=lt.EM(restarts=1, random_state=0))
    with pytest.warns(HolesWarning, match="holes in x depend on y"):
        model.fit(table_with_holes(True, float))
