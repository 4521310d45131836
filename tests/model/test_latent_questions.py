"""Latents asked for as columns are: by name, on every table, against all joint states."""

import itertools
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

import latentia as lt
from latentia.data.columns.scales import bend
from latentia.errors import DataError, EvidenceError, UnknownNameError

GRAPH = "G->H; G->a,b; H->c,d; H->e; a->e"
LATENTS = {"G": 2, "H": 3}


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
    return lt.LatentModel(
        GRAPH, LATENTS, learner=learner, name_states={"H": ["low", "middle", "high"]}
    ).fit(rows())


def joint(model):
    """P of every joint state: {(state of each variable)}, and the names, by the tables alone."""
    graph, tables = model.operators_.model_graph, model.operators_.model_tables
    parents = graph.parents()
    found = np.empty(graph.states)
    for codes in itertools.product(*map(range, graph.states)):
        found[codes] = math.prod(
            tables[v][tuple(codes[u] for u in (*parents[v], v))] for v in range(len(codes))
        )
    return graph.names, found


def told(model, asked, evidence=None, soft=None):
    """P(asked | evidence), (states …), by summing up; states by code."""
    names, table = joint(model)
    for name, likelihood in (soft or {}).items():
        shape = [1] * table.ndim
        shape[names.index(name)] = -1
        table = table * np.reshape(likelihood, shape)
    for name, code in (evidence or {}).items():
        keep = np.zeros(table.shape[names.index(name)])
        keep[code] = 1
        shape = [1] * table.ndim
        shape[names.index(name)] = -1
        table = table * keep.reshape(shape)
    places = [names.index(name) for name in asked]
    rest = tuple(k for k in range(table.ndim) if k not in places)
    left = table.sum(axis=rest)
    order = np.argsort(np.argsort(places))
    left = left.transpose([sorted(places).index(p) for p in places]) if len(order) > 1 else left
    return left / left.sum(), float(np.log(table.sum()))


STATES = {"H": ("low", "middle", "high"), "e": ("no", "yes")}


@pytest.mark.parametrize(
    ("asked", "evidence", "soft"),
    [
        (["G"], {}, {}),
        (["H"], {"a": 1, "e": 1}, {}),
        (["H", "c"], {"G": 1}, {}),
        (["e", "G"], {"H": 2, "b": 0}, {}),
        (["G"], {"c": 2}, {"H": [0.2, 0.5, 1.0]}),
        (["H"], {}, {"G": [0.9, 0.3], "a": [0.0, 1.0]}),
        (["d"], {}, {"H": [0.0, 0.0, 1.0]}),
    ],
)
def test_query_is_the_sum_over_joint_states(model, asked, evidence, soft):
    def state(name, code):
        return STATES[name][code] if name in STATES else code

    given = {name: state(name, code) for name, code in evidence.items()}
    likelihoods = {
        name: {state(name, k): x for k, x in enumerate(values)} for name, values in soft.items()
    }
    expected, log = told(model, asked, evidence, soft)
    found = model.query(asked, given, likelihoods)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=0, atol=1e-12)
    assert found.log_evidence == pytest.approx(log, abs=1e-10)
    best = model.map_query(asked, given, likelihoods)
    at = np.unravel_index(expected.argmax(), expected.shape)
    assert list(best.values()) == [state(name, k) for name, k in zip(asked, at, strict=True)]
    assert best.exact
    assert best.probability == pytest.approx(float(expected.max()))


def test_soft_evidence_may_leave_states_out(model):
    found = model.query("G", soft={"H": {"high": 1.0}})
    np.testing.assert_allclose(np.asarray(found), np.asarray(model.query("G", {"H": "high"})))


def test_what_is_wrong_is_said(model):
    with pytest.raises(EvidenceError, match="asked for and observed"):
        model.query("H", {"H": "low"})
    with pytest.raises(UnknownNameError, match="state of 'H'"):
        model.query("G", {"H": "lowest"})
    with pytest.raises(UnknownNameError, match="variable 'K'"):
        model.query(["H", "K"])


def memberships(model, data):
    """P(H | row), (rows, states), by summing up."""
    codes = [
        {**{c: data[c][i] for c in "abcd"}, "e": int(data["e"][i] == "yes")} for i in range(40)
    ]
    return np.array([told(model, ["H"], row)[0] for row in codes])


def tables_of(data, folder):
    import dask.dataframe as dd
    import duckdb

    frame = pd.DataFrame(data)
    frame.to_parquet(folder / "rows.parquet")
    frame.to_csv(folder / "rows.csv", index=False)
    return {
        "pandas": frame,
        "polars": pl.DataFrame(data),
        "parquet": str(folder / "rows.parquet"),
        "csv": str(folder / "rows.csv"),
        "duckdb": duckdb.sql("select * from frame"),
        "dask": dd.from_pandas(frame, npartitions=3),
    }


def columns_of(found):
    """Any answer as {name: array}."""
    if hasattr(found, "read_all"):
        found = found.read_all().to_pandas()
    for turn in ("compute", "df", "to_pandas"):
        if hasattr(found, turn):
            found = getattr(found, turn)()
    return found


def test_every_table_is_answered(model, tmp_path):
    data = {name: column[:40] for name, column in rows(seed=1).items()}
    expected = memberships(model, data)
    best = np.array(STATES["H"])[expected.argmax(axis=1)]
    for kind, table in tables_of(data, tmp_path).items():
        found = columns_of(model.predict_proba(table, "H"))
        assert list(found) == list(STATES["H"]), kind
        np.testing.assert_allclose(found.to_numpy(), expected, rtol=0, atol=1e-12)
        states = columns_of(model.predict(table, "H"))
        assert np.asarray(states).ravel().tolist() == best.tolist(), kind
        every = model.marginals(table, latents=True)
        assert list(every) == ["a", "b", "c", "d", "e", "G", "H"]
        np.testing.assert_allclose(columns_of(every["H"]).to_numpy(), expected, rtol=0, atol=1e-12)


def test_samples_with_latents_follow_the_joint_distribution(model):
    n = 40_000
    found = model.sample(n, random_state=3, latents=True)
    assert list(found) == ["G", "H", "a", "b", "c", "d", "e"]
    assert set(found["H"]) == set(STATES["H"])
    codes = [found["G"], np.array([STATES["H"].index(h) for h in found["H"]]), found["c"]]
    counts = np.zeros((2, 3, 3))
    np.add.at(counts, tuple(np.asarray(c) for c in codes), 1.0 / n)
    expected = told(model, ["G", "H", "c"])[0]
    # six standard errors of a share of n rows
    assert np.abs(counts - expected).max() < 6 * math.sqrt(0.25 / n)
    assert list(model.sample(3, random_state=0)) == ["a", "b", "c", "d", "e"]


def test_many_at_once():
    """With the latent 2^27 joint states, exactly; without it the sum ties all columns together."""
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=800)
    data = {f"x{i}": np.where(rng.random(800) < 0.7, h, 1 - h) for i in range(26)}
    model = lt.LatentModel("H->" + ",".join(data), {"H": 2}, learner="tables").fit(data)
    best = model.map_query(["H", *data])
    tables = model.cpts_
    shares = [tables["H"][k] * math.prod(tables[name][k].max() for name in data) for k in range(2)]
    assert best.exact
    assert best["H"] == int(np.argmax(shares))
    assert best.probability == pytest.approx(max(shares))
    assert not model.map_query(list(data)).exact  # a search, as before


# --- continuous columns ---------------------------------------------------------------------------


def mixed_rows(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    h = (rng.random(n) < 0.4).astype(int)
    return {
        "x": 2.0 * h + rng.normal(size=n),
        "y": np.where(h, 0.5, 1.5) * rng.normal(size=n),
        "a": np.where(rng.random(n) < 0.8, h, 1 - h),
    }


@pytest.fixture(scope="module")
def mixed():
    return lt.LatentModel("H->x,y,a", {"H": 2}, learner=lt.EM(2, random_state=0)).fit(mixed_rows())


def test_latents_given_continuous_cells(mixed):
    data = {name: column[:25] for name, column in mixed_rows(seed=1).items()}
    found = np.stack(list(mixed.predict_proba(data, "H").values()), axis=1)
    tables = mixed.cpts_
    logs = np.log(tables["H"]) + np.log(tables["a"].T)[data["a"]]
    for name in "xy":
        mean, deviation = tables[name].means[:, 0], tables[name].deviations[:, 0]
        warped, knots, z = tables[name].warped, tables[name].knots, data[name]
        z = np.arcsinh((z - warped[0]) / warped[1]) if warped else z
        z = bend(knots, z) if knots else z
        logs = logs - ((z[:, None] - mean) / deviation) ** 2 / 2 - np.log(deviation)
    expected = np.exp(logs - logs.max(axis=1, keepdims=True))
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    states = mixed.predict(data, "H")
    assert states.tolist() == expected.argmax(axis=1).tolist()
    for i in range(25):
        row = {name: column[i] for name, column in data.items()}
        one = mixed.query("H", row)
        np.testing.assert_allclose(np.asarray(one), expected[i], rtol=0, atol=1e-9)
        assert mixed.map_query("H", row)["H"] == states[i]
    without = mixed.query("H", {"x": data["x"][0]})
    own = mixed.predict_proba({"x": data["x"][:1]}, "H")
    np.testing.assert_allclose(np.asarray(without), [own[0][0], own[1][0]], rtol=0, atol=1e-9)


def test_latents_given_columns_with_atoms_and_gaps():
    """Many zeros, and two far clusters: one row at a time tells what all rows do."""
    rng = np.random.default_rng(0)
    h = (rng.random(2000) < 0.4).astype(int)
    data = {
        "x": np.where(rng.random(2000) < 0.2 + 0.5 * h, 0.0, np.exp(rng.normal(size=2000) + h)),
        "y": np.where(rng.random(2000) < 0.3 + 0.4 * h, 100.0, 0.0) + rng.normal(size=2000),
        "a": np.where(rng.random(2000) < 0.8, h, 1 - h),
    }
    model = lt.LatentModel("H->x,y,a", {"H": 2}, learner=lt.EM(2, random_state=0)).fit(data)
    assert any(c.atoms or c.cuts for c in model.columns_ if c.continuous)  # what this is about
    some = {name: column[:30] for name, column in data.items()}
    found = np.stack(list(model.predict_proba(some, "H").values()), axis=1)
    scores = model.score_samples(some)
    for i in range(30):
        one = model.query("H", {name: column[i] for name, column in some.items()})
        np.testing.assert_allclose(np.asarray(one), found[i], rtol=0, atol=1e-9)
        assert np.isfinite(scores[i])


def test_continuous_columns_given_latents(mixed):
    table = mixed.cpts_["x"]
    for k in range(2):
        density = mixed.query("x", {"H": k})
        # a grid of 128 points
        assert density.mean == pytest.approx(table.means[k, 0], abs=0.02)
    both = mixed.query(["H", "a"], {"x": (0.0, 1.0)})
    assert both.table.shape == (2, 2)
    shares = mixed.sample(20_000, random_state=0, latents=True)
    assert np.mean(shares["H"]) == pytest.approx(mixed.cpts_["H"][1], abs=0.02)
    for k in range(2):
        assert shares["x"][shares["H"] == k].mean() == pytest.approx(table.means[k, 0], abs=0.1)


def test_a_model_without_tables_says_so():
    model = lt.LatentModel("H->a,b,c", {"H": 2}, learner=lt.PBP(refine=False))
    model.fit({c: rows()[c] for c in "abc"})
    for ask in (
        lambda: model.query("H"),
        lambda: model.map_query(["H", "a"]),
        lambda: model.sample(3, latents=True),
        lambda: model.marginals({c: rows()[c] for c in "abc"}, latents=True),
    ):
        with pytest.raises(EvidenceError, match="'H' is latent"):
            ask()
    with pytest.raises(DataError, match="list of names"):
        lt.LatentModel("H->a,b,c", {"H": 2}, name_states={"H": "low"}).fit(
            {c: rows()[c] for c in "abc"}
        )


def test_continuous_parents_of_a_latent_are_evidence_as_in_rows():
    """The default turns such arrows round: a continuous column may then be a parent of another."""
    rng = np.random.default_rng(4)
    age, pay = rng.normal(40, 12, size=600), rng.integers(4, size=600)
    kind = (age / 12 + pay + rng.logistic(size=600) > 5).astype(int)
    vote = np.where(rng.random(600) < 0.85, kind, 1 - kind)
    data = pd.DataFrame({"age": age, "pay": pay, "vote": vote})
    for i in range(3):
        data[f"x{i}"] = np.where(rng.random(600) < 0.8, kind, rng.integers(3, size=600))
    graph = "age, pay -> camp; camp -> vote, x0, x1, x2"
    model = lt.LatentModel(graph, {"camp": 2}).fit(data)
    for row in ({"age": 33.3, "pay": 2, "vote": 1}, {"age": 61.0}, {"age": 50.0, "x0": 2}):
        told = model.query("camp", row)
        frame = pd.DataFrame([row])
        np.testing.assert_allclose(
            told.table, np.asarray(model.predict_proba(frame, "camp"))[0], rtol=0, atol=1e-9
        )
        assert told.log_evidence == pytest.approx(model.score_samples(frame)[0], abs=1e-9)
    joint = model.query(["camp", "vote"], {"age": (30.0, 50.0)})
    both = joint.table.sum(axis=1)
    np.testing.assert_allclose(both, model.query("camp", {"age": (30.0, 50.0)}).table, atol=1e-9)
