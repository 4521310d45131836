"""A profile's figures are those of the joint distribution, summed up state by state."""

import itertools
import math
import xml.etree.ElementTree as ET

import numpy as np
import pandas as pd
import polars as pl
import pytest

import latentia as lt
from latentia.errors import DataError, EvidenceError, UnknownNameError
from latentia.model.profile import ColumnProfile, Profile

GRAPH = "G->H; G->a,b; H->c,d; H->e; a->e"


def rows(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    g = rng.random(n) < 0.35
    h = np.where(rng.random(n) < 0.8, 2 * g, rng.integers(3, size=n))
    data = {c: np.where(rng.random(n) < 0.85, g, ~g).astype(int) for c in "ab"}
    data |= {c: np.where(rng.random(n) < 0.8, h, rng.integers(3, size=n)) for c in "cd"}
    data["e"] = np.array(["no", "yes"])[((h + data["a"] + rng.integers(2, size=n)) > 2).astype(int)]
    return data


@pytest.fixture(scope="module", params=["tables", "em"])
def model(request):
    learner = lt.EM(2, random_state=0) if request.param == "em" else request.param
    names = {"H": ["low", "<middle>", "high"]}
    return lt.LatentModel(GRAPH, {"G": 2, "H": 3}, learner=learner, name_states=names).fit(rows())


def joint_of(model, *names):
    """P(names), (states …), by every joint state in turn."""
    graph, tables = model.operators_.model_graph, model.operators_.model_tables
    parents = graph.parents()
    places = [graph.index(name) for name in names]
    found = np.zeros([graph.states[v] for v in places])
    for codes in itertools.product(*map(range, graph.states)):
        p = math.prod(
            tables[v][tuple(codes[u] for u in (*parents[v], v))] for v in range(len(codes))
        )
        found[tuple(codes[v] for v in places)] += p
    return found


def test_figures_are_sums_over_joint_states(model):
    found = model.profile("H")
    assert found.states == ("low", "<middle>", "high")
    np.testing.assert_allclose(found.shares, joint_of(model, "H"), atol=1e-12)
    assert sorted(c.name for c in found.columns) == list("abcde")
    told = [c.information for c in found.columns]
    assert told == sorted(told, reverse=True)
    for c in found.columns:
        both = joint_of(model, "H", c.name)
        np.testing.assert_allclose(c.table, both / both.sum(axis=1, keepdims=True), atol=1e-12)
        np.testing.assert_allclose(c.overall, both.sum(axis=0), atol=1e-12)
        alone = np.outer(both.sum(axis=1), both.sum(axis=0))
        assert c.information == pytest.approx(float((both * np.log(both / alone)).sum()))
        assert c.bits == pytest.approx(c.information / math.log(2))
    assert found["e"].labels == ("no", "yes")
    (link,) = found.links
    assert (link.above, link.below) == ("G", "H")
    both = joint_of(model, "G", "H")
    np.testing.assert_allclose(link.table, both / both.sum(axis=1, keepdims=True), atol=1e-12)
    assert link.columns == found.states


def test_continuous_columns_have_means_and_spreads():
    rng = np.random.default_rng(0)
    h = rng.random(3000) < 0.3
    data = {"x": 3.0 * h + rng.normal(size=3000), "a": np.where(rng.random(3000) < 0.9, h, ~h)}
    data["y"] = -1.8 * h + 0.9 * rng.normal(size=3000)
    model = lt.LatentModel("H->x,a,y", {"H": 2}, learner=lt.EM(2, random_state=0)).fit(data)
    found, leaf = model.profile("H"), model.cpts_["x"]
    x, y = found["x"], found["y"]
    assert x.labels[:2] == ("mean", "deviation")
    # a grid of 128 points stands for the bell, whose tails it cuts
    np.testing.assert_allclose(x.table[:, 0], leaf.means[:, 0], atol=0.03)
    np.testing.assert_allclose(x.table[:, 1], leaf.deviations[:, 0], rtol=0.03)
    half = (x.table[:, -1] - x.table[:, 2]) / 2
    np.testing.assert_allclose(half, 1.645 * leaf.deviations[:, 0], rtol=0.04)
    # the truth, of 900 rows at least
    np.testing.assert_allclose(y.table[:, 0], [0.0, -1.8], atol=0.15)
    np.testing.assert_allclose(y.table[:, 1], 0.9, rtol=0.1)
    assert found["x"].bits > found["y"].bits


def test_as_a_frame(model):
    found = model.profile("H")
    frame = found.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == ["column", "state", "low", "<middle>", "high", "all", "bits"]
    assert frame.loc[0, "low"] == pytest.approx(found.sizes["low"])
    row = frame[(frame["column"] == "e") & (frame["state"] == "yes")].iloc[0]
    assert row["high"] == pytest.approx(found["e"].table[2, 1])
    assert isinstance(found.to_frame("polars"), pl.DataFrame)
    assert found.to_frame("polars").shape == frame.shape
    with pytest.raises(DataError, match="expected a frame"):
        found.to_frame("excel")


def test_in_words_and_as_a_picture(model):
    found = model.profile("H")
    text = repr(found)
    assert "H: 3 states over 5 columns, learned from 1,500 rows" in text
    for state in found.states:
        assert str(state) in text
    drawing = found.plot()
    ET.fromstring(drawing.svg)  # names are escaped
    assert "&lt;middle&gt;" in drawing.svg
    for c in found.columns:
        assert f">{c.name}<" in drawing.svg
    assert "P(H | G)" in drawing.svg
    assert drawing.svg in found._repr_html_()


def test_what_has_no_profile(model):
    with pytest.raises(UnknownNameError, match="latent 'a'"):
        model.profile("a")
    closed = lt.LatentModel("H->a,b,c", {"H": 2}, learner=lt.PBP(refine=False))
    closed.fit({c: rows()[c] for c in "abc"})
    with pytest.raises(EvidenceError, match="'H' is latent"):
        closed.profile("H")


def test_a_mean_like_all_others_is_neither_high_nor_low():
    """Of a skewed column the middle of a state may lie above, and its mean where all means do."""
    places = np.array([0.2, 0.65, 0.9])
    table = np.array([[14.0, 5.0], [23.9, 9.0], [40.0, 9.0]])
    income = ColumnProfile(
        "income", ("mean", "deviation"), table, np.array([23.7, 15.0]), 0.5, True, places=places
    )
    low, like, high = Profile("stage", (0, 1, 2), np.full(3, 1 / 3), (income,)).words()
    assert "income low, 14 on average" in low
    assert "like all the others" in like
    assert "income high, 40 on average" in high


def test_words_without_an_order_are_not_averaged():
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=500)
    words = np.array(["no", "perhaps", "yes"])
    told = np.where(rng.random(500) < 0.8, np.array([1, 2])[h], rng.integers(3, size=500))
    frame = {"asked": words[told]} | {
        f"x{i}": np.where(rng.random(500) < 0.85, h, 1 - h) for i in range(3)
    }
    graph = "class -> asked, x0, x1, x2"
    model = lt.LatentModel(graph, {"class": 2}, learner="tables").fit(frame)
    picture = model.profile("class").plot().svg
    assert "asked = " in picture
    assert "share of the one named" in picture
    ordered = lt.LatentModel(
        graph, {"class": 2}, learner="tables", state_names={"asked": ["no", "yes", "perhaps"]}
    )
    assert "asked = " not in ordered.fit(frame).profile("class").plot().svg
