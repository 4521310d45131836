"""lt.learn_structure and models without a graph: what people write, and odd tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import latentia as lt
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.sources.progress import Share
from latentia.discovery.cell_bells import cell_line, joined_lines
from latentia.discovery.column_bins import choose_bins
from latentia.discovery.island_climb import IslandClimb, Known
from latentia.discovery.island_network import island_layout
from latentia.discovery.islands import cut_islands
from latentia.errors import DataError, GraphError, IgnoredColumnWarning, UnknownNameError


def two_causes(n: int = 3000, seed: int = 0) -> pd.DataFrame:
    """Two latents that tell three columns each, and each other a little."""
    rng = np.random.default_rng(seed)
    mood = rng.integers(2, size=n)
    health = np.where(rng.random(n) < 0.65, mood, 1 - mood)
    columns = {}
    for name, cause in (("mood", mood), ("health", health)):
        for i in range(3):
            columns[f"{name}{i}"] = np.where(rng.random(n) < 0.85, cause, 1 - cause)
    return pd.DataFrame(columns)


def test_a_tree_finds_the_two_causes() -> None:
    found = lt.learn_structure(two_causes(), "tree", max_states=2)
    below: dict[Any, set[str]] = {}
    for a, b in found.edges:
        if b in two_causes(1).columns:
            below.setdefault(a, set()).add(b)
    assert sorted(map(sorted, below.values())) == [
        ["health0", "health1", "health2"],
        ["mood0", "mood1", "mood2"],
    ]
    assert set(found.latents.values()) == {2}
    text = str(found)
    assert "6 columns, 2 latents" in text
    assert "tells mood" in text
    assert "<svg" in found.draw().svg


def test_a_found_structure_is_a_graph_for_any_learner() -> None:
    frame = two_causes(800)
    found = lt.learn_structure(frame, "tree", max_states=2)
    by_em = lt.LatentModel(found, learner="em").fit(frame)
    assert by_em.states_ == found.latents
    edited = lt.LatentModel(found.edges[:-1], latents=found.latents, learner="em").fit(
        frame.drop(columns=[found.edges[-1][1]], errors="ignore")
        if found.edges[-1][1] in frame
        else frame
    )
    assert edited.score(frame) < 0


def test_a_model_without_a_graph_answers_with_what_was_found() -> None:
    frame, fresh = two_causes(), two_causes(2000, seed=1)
    model = lt.LatentModel("islands").fit(frame)
    truth = lt.LatentModel(
        "M->H; M->mood0,mood1,mood2; H->health0,health1,health2",
        latents={"M": 2, "H": 2},
        learner="em",
    ).fit(frame)
    # a few parameters more than the truth's 13: at most .02 nats a row with 3,000 rows
    assert model.score(fresh) > truth.score(fresh) - 0.02
    posterior = model.query("mood0", {"mood1": 1, "mood2": 1})
    assert abs(posterior[1] - truth.query("mood0", {"mood1": 1, "mood2": 1})[1]) < 0.05
    assert "structure_" in vars(model)


@pytest.mark.usefixtures("short_search")
@pytest.mark.parametrize("kind", ["polars", "blocks", "parquet", "duckdb", "dask"])
def test_every_table_finds_the_same(kind: str, tmp_path: Path) -> None:
    frame = two_causes(700)
    model = lt.LatentModel("tree").fit(frame)
    other = lt.LatentModel("tree").fit(as_table(kind, frame, tmp_path))
    assert str(other.structure_.graph) == str(model.structure_.graph)
    asked = {"mood1": 1, "health2": 0}
    assert other.query("mood0", asked)[1] == pytest.approx(model.query("mood0", asked)[1], abs=1e-9)


def as_table(kind: str, frame: pd.DataFrame, folder: Path) -> Any:
    if kind == "polars":
        return pl.from_pandas(frame)
    if kind == "blocks":
        return [frame.iloc[:300], frame.iloc[300:]]
    if kind == "parquet":
        frame.to_parquet(folder / "rows.parquet")
        return folder / "rows.parquet"
    if kind == "duckdb":
        duckdb = pytest.importorskip("duckdb")
        return duckdb.connect().from_df(frame)
    return pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=2)


@pytest.mark.usefixtures("short_search")
def test_holes_and_weights() -> None:
    frame = two_causes(1500).astype(float)
    rng = np.random.default_rng(3)
    holes = frame.mask(rng.random(frame.shape) < 0.1)
    model = lt.LatentModel("islands").fit(holes, sample_weight=np.full(1500, 0.5))
    assert np.isfinite(model.score(holes))
    proba = np.asarray(model.predict_proba(holes, "mood0"))
    assert np.isfinite(proba).all()
    assert np.allclose(proba.sum(axis=1), 1.0)


def test_mixed_columns() -> None:
    rng = np.random.default_rng(0)
    h = rng.integers(3, size=2000)
    frame = pd.DataFrame(
        {
            "size": rng.normal(2.0 * h, 0.6),
            "price": np.exp(rng.normal(h, 0.4)),
            "kind": np.array(["low", "mid", "high"])[np.where(rng.random(2000) < 0.9, h, 1)],
            "extra": np.where(rng.random(2000) < 0.4, 0.0, rng.gamma(2.0 + h, 1.0)),
        }
    )
    model = lt.LatentModel("auto").fit(frame)
    mean = [model.query("size", {"kind": k}).mean for k in ("low", "high")]
    expected = [frame["size"][frame["kind"] == k].mean() for k in ("low", "high")]
    np.testing.assert_allclose(mean, expected, atol=0.25)  # 600 rows each: 3 errors of .03, cells
    zero = model.query("extra").cdf(0.0)
    assert zero == pytest.approx((frame["extra"] == 0).mean(), abs=0.04)
    drawn = pd.DataFrame(model.sample(2000, random_state=0))
    assert drawn["price"].min() > 0
    assert drawn["price"].median() == pytest.approx(frame["price"].median(), rel=0.15)


def test_cells_of_a_column_keep_its_distribution() -> None:
    rng = np.random.default_rng(1)
    values = rng.exponential(size=1000)
    model = lt.LatentModel("auto").fit({"x": values, "y": values + rng.normal(size=1000)})
    column = model.columns_[0]
    assert isinstance(column, ContinuousColumn)
    for level in (0.05, 0.25, 0.5, 0.75, 0.95):
        at = float(np.quantile(values, level))
        error = 3 * np.sqrt(level * (1 - level) / 1000) + 0.01
        assert model.query("x").cdf(at) == pytest.approx(level, abs=error)


def test_bins_and_back() -> None:
    rng = np.random.default_rng(2)
    model = lt.LatentModel("class", kinds={"x": "continuous"}).fit(
        {
            "x": np.where(rng.random(500) < 0.3, 0.0, rng.lognormal(size=500)),
            "y": rng.normal(size=500),
        }
    )
    from latentia.data.rows import Rows

    columns = model.columns_
    places = tuple(np.linspace(0, c.points - 1.0, 400) for c in columns)
    (bins, _) = choose_bins(columns, Rows(places))
    assert bins is not None
    table = rng.dirichlet(np.ones(bins.cells), size=3)
    wide = bins.on_grid(table)
    np.testing.assert_allclose(wide.sum(axis=1), 1.0)
    np.testing.assert_allclose(
        np.stack([np.bincount(bins.cell_of, row, bins.cells) for row in wide]), table
    )
    assert bins.codes(np.array([np.nan, 0.0])).tolist() == [-1, 0]


@pytest.mark.parametrize("seed", range(3))
def test_cells_of_lumpy_columns_keep_their_lumps(seed: int) -> None:
    """The rule of thumb blurs by the standard deviation: here by half the room between lumps."""
    from latentia.data.columns.values import Values
    from latentia.data.rows import Rows

    rng = np.random.default_rng(seed)
    away = rng.random(800) < 0.4
    person = np.where(away, rng.integers(170, 191, 800), rng.integers(1, 5, 800))
    own = {"person": person[:400], "even": rng.normal(size=400)}
    kinds = {"person": "continuous"}
    columns = lt.LatentModel("class", kinds=kinds, learner=lt.PBP()).fit(own).columns_
    places = tuple(np.asarray(c.place(Values(own[c.name]))) for c in columns)
    (bins, _) = choose_bins(columns, Rows(places))
    assert bins is not None
    mass = bins.on_grid(np.bincount(bins.codes(places[0]), minlength=bins.cells) / 400)
    at = np.asarray(columns[0].labels, dtype=float)
    assert mass[(at > 7) & (at < 167)].sum() < 0.02
    others = np.rint(np.asarray(columns[0].place(Values(person[400:])))).astype(int)
    assert -np.log(mass[others]).mean() < 3.2


def test_bells_of_the_pool_are_the_pool() -> None:
    pooled = np.random.default_rng(0).dirichlet(np.ones(8)).astype(np.float32)[None, :, None]
    counts = np.repeat(pooled * 1e6, 2, axis=2)
    line = cell_line(pooled[0, :, 0].astype(float), 8)
    np.testing.assert_allclose(line.masses(counts), np.repeat(pooled, 2, 2), atol=2e-4)
    low = counts.copy()
    low[:, 4:, 0] = 0.0
    bell = line.masses(low)
    below = joined_lines([line, line]).masses(np.stack([low, low], axis=1).repeat(2, axis=0))
    np.testing.assert_array_equal(below, np.broadcast_to(bell, (2, 2, 8, 2)))  # below a parent
    np.testing.assert_allclose(bell.sum(axis=1), 1.0, atol=1e-5)
    assert bell[0, :4, 0].sum() > bell[0, :4, 1].sum()


def test_odd_tables() -> None:
    rng = np.random.default_rng(0)
    one = lt.learn_structure({"a": rng.integers(2, size=100)})
    assert str(one.graph) == "a[2]"
    apart = lt.learn_structure({c: rng.integers(3, size=2000) for c in "abc"})
    assert apart.chosen == "independent columns"
    assert not apart.latents
    same = rng.integers(3, size=500)
    twins = lt.learn_structure({"a": same, "b": same, "c": rng.integers(2, size=500)})
    assert twins.pairs()[0][:2] == ("a", "b")
    flat = lt.learn_structure({"a": same, "b": same, "c": np.zeros(500, dtype=int)})
    assert len(flat.graph.observed) == 3


@pytest.mark.usefixtures("short_search")
def test_ids_are_left_out_with_a_notice() -> None:
    frame = two_causes(400).assign(id=[f"p{i}" for i in range(400)])
    with pytest.warns(IgnoredColumnWarning, match="left out of the structure: id"):
        found = lt.learn_structure(frame, "tree")
    assert "id" in found.left_out
    assert "id" not in found.graph.names
    with pytest.warns(IgnoredColumnWarning, match="left out of the structure: id"):
        model = lt.LatentModel("tree").fit(frame)
    assert "id" not in [c.name for c in model.columns_]
    assert np.isfinite(model.score(frame))
    with pytest.raises(DataError, match="as ids have"):
        lt.learn_structure({"id": [f"p{i}" for i in range(100)]})


@pytest.mark.usefixtures("short_search")
def test_wishes() -> None:
    frame = two_causes(600)
    tied = lt.learn_structure(
        frame, "chow-liu", require=[("mood0", "health2")], forbid=[("mood1", "mood2")]
    )
    edges = {frozenset(edge) for edge in tied.edges}
    assert not tied.latents
    if tied.edges:
        assert frozenset(("mood0", "health2")) in edges
        assert frozenset(("mood1", "mood2")) not in edges
    assert len(lt.learn_structure(frame, max_latents=1).latents) <= 1
    with pytest.raises(UnknownNameError, match="nobody"):
        lt.learn_structure(frame, require=[("nobody", "mood0")])
    with pytest.raises(DataError, match="expected one of"):
        lt.learn_structure(frame, "forest")
    with pytest.raises(DataError, match="max_states"):
        lt.learn_structure(frame, max_states=0)
    with pytest.raises(GraphError, match="both required and forbidden"):
        lt.learn_structure(frame, require=[("mood0", "mood1")], forbid=[("mood1", "mood0")])


@pytest.mark.usefixtures("short_search")
def test_required_edges_are_in_the_graph_whatever_wins() -> None:
    rng = np.random.default_rng(1)
    apart = {c: rng.integers(2, size=400) for c in "abcd"}
    for method in ("auto", "chow-liu", "tree"):
        found = lt.learn_structure(apart, method, require=[("a", "c")])
        assert {"a", "c"} in [set(edge) for edge in found.edges], method
    holes = {c: np.where(rng.random(400) < 0.2, np.nan, x) for c, x in apart.items()}
    tied = lt.learn_structure(holes, require=[("a", "c")])  # by a latent: both have holes
    above = [set(tied.graph.parents()[tied.graph.index(c)]) for c in "ac"]
    assert above[0] & above[1] & tied.graph.latent
    with pytest.raises(GraphError, match="can only be tied by a latent"):
        lt.learn_structure(holes, max_latents=0, require=[("a", "c")])
    with pytest.raises(GraphError, match="'a' and 'b' are both required and forbidden"):
        lt.learn_structure(apart, require=[("a", "b")], forbid=[("b", "a")])
    with pytest.raises(GraphError, match="cycle through 'a' and 'c'"):
        lt.learn_structure(apart, require=[("a", "b"), ("b", "c"), ("a", "c")])
    with pytest.raises(GraphError, match="tied to itself"):
        lt.learn_structure(apart, forbid=[("a", "a")])


def test_columns_that_tell_nothing_hang_on_none() -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(2, size=500)
    b = np.where(rng.random(500) < 0.9, a, 1 - a)
    found = lt.learn_structure({"a": a, "b": b, "c": np.ones(500, dtype=int)}, "chow-liu")
    assert [set(edge) for edge in found.edges] == [{"a", "b"}]


def test_a_tree_of_columns_with_holes_or_numbers_is_one_of_latents() -> None:
    rng = np.random.default_rng(2)
    a = rng.integers(3, size=600)
    frame = pd.DataFrame({"a": a, "b": (a + rng.integers(2, size=600)) % 3, "c": a + 0.0})
    holes = frame.mask(rng.random(frame.shape) < 0.2)
    model = lt.LatentModel("chow-liu").fit(holes)
    # a and c are equal where both are there: the tree must tell it
    assert model.query("a", {"c": 2.0})[2.0] > 0.9
    numbers = pd.DataFrame({"x": rng.normal(size=600)})
    numbers["y"] = numbers.x + 0.1 * rng.normal(size=600)
    line = lt.LatentModel("chow-liu").fit(numbers)
    assert line.query("y", {"x": 1.5}).mean > 1.0  # the true one is 1.5


@pytest.mark.usefixtures("short_search")
def test_latents_of_a_tree_of_columns_tell_one_column_each() -> None:
    """One latent for all columns used to be the only candidate."""
    rng = np.random.default_rng(3)
    steps = 0.5 * rng.normal(size=(500, 4))
    frame = pd.DataFrame(np.cumsum(steps, axis=1), columns=list("abcd"))
    found = lt.learn_structure(frame, "chow-liu")
    assert {name: len(told) for name, told in found.telling.items()} == {
        f"latent({c})": 1 for c in "abcd"
    }
    ties = {frozenset(edge) for edge in found.edges}
    assert ties >= {
        frozenset({f"latent({a})", f"latent({b})"}) for a, b in zip("abc", "bcd", strict=True)
    }


@pytest.mark.usefixtures("short_search")
def test_one_latent_for_all_columns() -> None:
    found = lt.learn_structure(two_causes(800), "class")
    assert len(found.latents) == 1
    assert len(found.edges) == 6


def test_few_rows_of_few_states_are_not_climbed_again_and_again() -> None:
    """Equal rows are one, with a weight: a round is some thirty steps, not thousands."""
    rng = np.random.default_rng(0)
    codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    rows = Known(codes, rng.random(4) * 100)
    layout = island_layout(cut_islands(2, ((0, 1),), 2, False), (2, 2), 2)
    climb = IslandClimb(layout, rows, rows, 1.0, 0)
    assert climb.epochs == 32


def test_progress_and_a_time_budget() -> None:
    steps: list[object] = []
    found = lt.learn_structure(two_causes(400), time_budget=0.5, progress=steps.append)
    shares = [step for step in steps if isinstance(step, Share)]
    assert shares[-1].share == 1.0
    assert str(shares[-1]).startswith("looking for a structure: 100%")
    assert found.edges
    heard: list[object] = []
    lt.LatentModel("tree").fit(two_causes(400), progress=heard.append)
    assert any(isinstance(step, Share) for step in heard)


@pytest.mark.usefixtures("short_search")
def test_the_same_rows_give_the_same_structure() -> None:
    frame = two_causes(500)
    first, second = (lt.learn_structure(frame) for _ in range(2))
    assert str(first.graph) == str(second.graph)
    assert first.losses == second.losses


@pytest.mark.usefixtures("short_search")
def test_a_saved_model_without_a_graph_answers_the_same(tmp_path: Path) -> None:
    model = lt.LatentModel("islands").fit(two_causes(600))
    model.save(tmp_path / "m.latentia")
    again = lt.load(tmp_path / "m.latentia")
    asked = {"mood1": 1}
    assert again.query("mood0", asked)[1] == pytest.approx(
        model.query("mood0", asked)[1], abs=1e-12
    )


def test_a_mixture_of_structures(tmp_path: Path) -> None:
    frame = two_causes(1200)
    how = lt.Structure("islands", members=3, time_budget=1.5)
    model = lt.LatentModel(how).fit(frame)
    network = model.operators_.network
    assert network is not None
    drawn = pd.DataFrame(model.sample(3000, random_state=0))
    # the mean of 3,000 draws: three standard errors of .009
    np.testing.assert_allclose(drawn.mean(), frame.mean(), atol=0.06)
    every = pd.DataFrame(
        np.stack(np.meshgrid(*[[0, 1]] * 6, indexing="ij"), -1).reshape(-1, 6),
        columns=frame.columns,
    )
    joint = np.exp(model.score_samples(every))
    assert joint.sum() == pytest.approx(1.0, abs=1e-9)
    told = model.query("mood0", {"mood1": 1, "health0": 0})
    match = (every["mood1"] == 1) & (every["health0"] == 0)
    slow = joint[match & (every["mood0"] == 1)].sum() / joint[match].sum()
    assert told[1] == pytest.approx(slow, abs=1e-9)
    proba = np.asarray(model.predict_proba(every, "mood0"))
    others = [c for c in every if c != "mood0"]
    pairs = every.assign(p=joint).groupby(others)["p"].transform("sum")
    at = np.where(every["mood0"] == 1, joint, 0.0)
    slow_rows = every.assign(p=at).groupby(others)["p"].transform("sum") / pairs
    np.testing.assert_allclose(proba[:, 1], slow_rows, atol=1e-9)
    model.save(tmp_path / "m.latentia")
    again = lt.load(tmp_path / "m.latentia")
    np.testing.assert_allclose(again.score_samples(every), np.log(joint), atol=1e-12)


def test_marginals_are_those_of_the_rows() -> None:
    """The last batches weighed most: P(0) was .422 where .403 of 8,000 rows had it."""
    rng = np.random.default_rng([8000, 7])
    x = np.where(rng.random(8000) < 0.4, 0.0, rng.gamma(0.4, size=8000))
    rank = np.argsort(np.argsort(x)) / len(x)
    table = {"x": x} | {c: (rank + 0.3 * rng.normal(size=len(x)) > 0.5).astype(int) for c in "uvw"}
    model = lt.LatentModel().fit(table)
    for c in "uvw":
        assert model.query(c)[1] == pytest.approx(table[c].mean(), abs=1e-3)
    found = model.query("x")
    assert found.cdf(0.0) == pytest.approx((x <= 0).mean(), abs=1e-3)
    for q in (0.05, 0.25, 0.5, 0.75, 0.95):
        at = float(np.quantile(x, q))
        low, high = (x < at).mean(), (x <= at).mean()
        assert low - 0.002 < found.cdf(at) < high + 0.002
