"""The linear answer beside kernel embeddings, against normal equations and least squares."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_t

import latentia as lt
from latentia.data.columns.discovering import discover_from_values
from latentia.data.columns.values import Values
from latentia.data.sources.table import read_table
from latentia.errors import LatentiaError
from latentia.inference.linear_part import (
    BORROWED,
    Linear,
    Slot,
    fit_linear,
    linear_masses,
    linear_scores,
    linear_slots,
    pool_scores,
    sum_linear,
)
from latentia.inference.many_rows import one_column, read_asked

pytestmark = pytest.mark.usefixtures("nameless")

GRAPH = "H->a,b,c,d"


def line(n: int, seed: int = 0) -> dict[str, Any]:
    """a is close to a linear function of b and c; d tells a little of it."""
    rng = np.random.default_rng(seed)
    b, c = rng.standard_normal((2, n))
    a = b - 2 * c + 0.3 * rng.standard_normal(n)
    return {"a": a, "b": b, "c": c, "d": (a + rng.standard_normal(n) > 0).astype(int)}


def learned(rows: dict[str, Any], weight: Any = None) -> tuple[Linear, list[Any], list[Any]]:
    cells = [Values(v, np.isnan(v)) for v in rows.values()]
    columns = [discover_from_values(name, values) for name, values in zip(rows, cells, strict=True)]
    codes = [c.place(values) for c, values in zip(columns, cells, strict=True)]
    slots = linear_slots(columns)
    assert slots is not None
    total = float(len(codes[0]) if weight is None else weight.sum())
    return fit_linear(slots, sum_linear(slots, codes, weight), total), columns, codes


def test_the_line_is_that_of_least_squares() -> None:
    linear, columns, codes = learned(line(5000))
    test = line(50, seed=1)
    there = [c.place(Values(v)) for c, v in zip(columns, test.values(), strict=True)]
    found = linear_masses(linear, there, 0, 50)
    assert found is not None
    X = np.column_stack([np.ones(5000), codes[1], codes[2], codes[3]])
    beta = np.linalg.lstsq(X, codes[0], rcond=None)[0]
    wanted = np.column_stack([np.ones(50), there[1], there[2], there[3]]) @ beta
    inner = (wanted > 10) & (wanted < 118)  # where the grid cuts nothing off
    got = np.arange(len(found[1])) @ found[1]
    assert inner.sum() > 40
    np.testing.assert_allclose(got[inner], wanted[inner], atol=0.3)
    residual = codes[0] - X @ beta
    np.testing.assert_allclose(found[0], 1 - residual.var() / codes[0].var(), atol=2e-3)
    np.testing.assert_allclose(found[1].sum(axis=0), 1.0)


def test_sums_add_up_and_weights_repeat_rows() -> None:
    rows = line(300)
    _, columns, codes = learned(rows)
    slots = linear_slots(columns)
    assert slots is not None
    whole = sum_linear(slots, codes, None)
    parts = [sum_linear(slots, [c[s] for c in codes], None) for s in (slice(99), slice(99, None))]
    for name, total in whole.items():
        np.testing.assert_allclose(parts[0][name] + parts[1][name], total)
    twice = sum_linear(slots, [np.repeat(c, 2) for c in codes], None)
    for name, total in sum_linear(slots, codes, np.full(300, 2.0)).items():
        np.testing.assert_allclose(total, twice[name])


def test_each_pattern_of_holes_has_its_own_line() -> None:
    linear, columns, _ = learned(line(2000))
    test = line(40, seed=2)
    codes = [c.place(Values(v)) for c, v in zip(columns, test.values(), strict=True)]
    codes[1][::2] = np.nan
    codes[3][::3] = -1
    found = linear_masses(linear, codes, 0, 40)
    assert found is not None
    for i in range(40):
        alone = linear_masses(linear, [c[i : i + 1] for c in codes], 0, 1)
        assert alone is not None
        np.testing.assert_allclose(found[1][:, i], alone[1][:, 0], atol=1e-12)
        np.testing.assert_allclose(found[0][i], alone[0][0], atol=1e-12)


def test_holes_in_training_rows_leave_covariances_possible() -> None:
    rows = line(400)
    rng = np.random.default_rng(5)
    for name in "abc":
        rows[name] = np.where(rng.random(400) < 0.6, np.nan, rows[name])
    linear, _, _ = learned(rows)
    assert np.linalg.eigvalsh(linear.covariance).min() > -1e-9


def test_no_more_coordinates_than_rows_and_no_states_without_a_line() -> None:
    linear, columns, codes = learned(line(60))
    few = replace(linear, weight=4.0)
    found = linear_masses(few, codes, 0, 60)
    assert found is not None
    assert (found[0] == 0).all()
    assert linear_masses(linear, codes, 3, 60) is None  # a discrete column
    assert linear_slots(columns * 200) is None
    with pytest.raises(LatentiaError, match="covariances of 1"):
        Linear((Slot(0, 1, 8),), np.zeros(2), np.eye(2), 1.0)


def rmse(model: lt.LatentModel, test: dict[str, Any]) -> float:
    given = {c: test[c] for c in "bcd"}
    return float(np.sqrt(np.mean((model.predict(given, target="a") - test["a"]) ** 2)))


def fitted(lean: float, rows: dict[str, Any]) -> lt.LatentModel:
    kernel = lt.KernelSettings(rank=6, lean=lean)
    return lt.LatentModel(GRAPH, ["H"], lt.PBP(kernel=kernel, refine=False)).fit(rows)


def test_answers_lean_on_the_line_where_columns_are_linear() -> None:
    rows, test = line(1500), line(500, seed=3)
    X, Y = (np.column_stack([np.ones(len(r["b"])), r["b"], r["c"]]) for r in (rows, test))
    straight = Y @ np.linalg.lstsq(X, rows["a"], rcond=None)[0]
    best = float(np.sqrt(np.mean((straight - test["a"]) ** 2)))
    bare, leaning = fitted(0.0, rows), fitted(0.6, rows)
    assert rmse(leaning, test) < 1.15 * best < 0.8 * rmse(bare, test)
    assert leaning.operators_.provenance.settings["lean"] == 0.6


def test_held_out_rows_choose_to_lean() -> None:
    learner = lt.PBP(kernel={"rank": 6, "bandwidth": 0.4, "ridge": (0.3, 0.6)}, refine=False)
    model = lt.LatentModel(GRAPH, ["H"], learner).fit(line(1000))
    assert model.operators_.provenance.settings["lean"] > 0


def test_nothing_observed_or_soft_evidence_gives_no_line() -> None:
    rows = line(800)
    bare, leaning = fitted(0.0, rows), fitted(0.6, rows)
    for evidence in ({}, {"b": (0.0, 1.0)}):
        one, other = bare.query("a", evidence), leaning.query("a", evidence)
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    scores = [m.score_samples(line(20, seed=4)) for m in (bare, leaning)]
    np.testing.assert_array_equal(scores[0], scores[1])


def test_one_row_or_many_give_the_same() -> None:
    rows, test = line(800), line(30, seed=6)
    test["b"][::3] = np.nan
    model = fitted(0.6, rows)
    given = {c: test[c] for c in "bcd"}
    asked = read_asked(model.columns_, read_table(given), 0)
    (many,) = one_column(model.operators_, model.columns_, asked, 0).values
    for i in (0, 1, 3):
        one = model.query("a", {c: v[i] for c, v in given.items() if not np.isnan(v[i])})
        np.testing.assert_allclose(many[:, i], np.asarray(one), atol=1e-12)


def test_scores_are_predictive_densities_of_each_class() -> None:
    """Against scipy's t, and the normal density of many rows; with holes of the cells there."""
    linear, _, codes = learned(line(4000))
    other = replace(linear, mean=linear.mean + 3.0, covariance=2 * linear.covariance)
    some = [c[:20].copy() for c in codes]
    some[1][::2] = np.nan
    got = linear_scores([linear, other], some, 20)
    points = np.column_stack([some[0], some[1], some[2], some[3] == 1])
    shared = (np.diag(linear.covariance) + np.diag(other.covariance)) / 2
    for own, scores in zip((linear, other), got, strict=True):
        C = own.covariance + np.diag(BORROWED * (np.diag(own.covariance) + shared))
        for row, score in zip(points, scores, strict=True):
            here = ~np.isnan(row)
            free = own.weight - here.sum()
            t = multivariate_t(own.mean[here], C[np.ix_(here, here)], df=free)
            zero = multivariate_t(np.zeros(here.sum()), np.eye(here.sum()), df=free)
            want = t.logpdf(row[here]) - zero.logpdf(np.zeros(here.sum()))
            np.testing.assert_allclose(score, want, rtol=1e-6)


def test_pooled_scores() -> None:
    linear, _, codes = learned(line(100))
    some = [c[:5] for c in codes]
    scores = np.zeros((2, 5))
    assert pool_scores(scores, [linear], some, 0.3) is scores  # a class without covariances
    assert pool_scores(scores, [linear, linear], some, 0.0) is scores
    half = pool_scores(scores, [linear, linear], some, 0.3)
    np.testing.assert_allclose(half, 0.15 * linear_scores([linear, linear], some, 5))


def test_few_rows_of_a_class_gain_by_normal_densities() -> None:
    rng = np.random.default_rng(0)
    mix = rng.standard_normal((2, 6, 6))

    def draw(n: int) -> tuple[dict[str, Any], Any]:
        y = rng.integers(2, size=n)
        x = np.einsum("nij,nj->ni", mix[y], rng.standard_normal((n, 6)))
        return {f"x{i}": x[:, i] for i in range(6)}, y

    (X, y), (T, t) = draw(80), draw(1500)
    graph = "H->" + ",".join(X)
    right = [
        (lt.LatentClassifier(graph, ["H"], lt.PBP(kernel=k)).fit(X, y).predict(T) == t).mean()
        for k in (lt.KernelSettings(pool=0.0), lt.KernelSettings())
    ]
    assert right[1] > right[0] + 0.02


def test_no_rows_have_no_scores() -> None:
    """Dask asks an empty table what an answer looks like."""
    import pandas as pd

    rng = np.random.default_rng(0)
    label = rng.integers(2, size=200)
    frame = pd.DataFrame({c: rng.normal(label) for c in "xyz"})
    model = lt.LatentClassifier("H->x; H->y; H->z", {"H": 2}).fit(frame, label)
    assert len(model.predict_proba([frame[:0], frame[:3]])[1]) == 3
    dask_frame = pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=2)
    found = model.predict_proba(dask_frame)
    np.testing.assert_allclose(found.compute(), model.predict_proba(frame), rtol=0, atol=1e-9)
