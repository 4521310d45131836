"""Tables with continuous columns among them: no plan, wide graphs, exact answers on their grids."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import latentia as lt
from latentia.errors import DataError, PlanError
from latentia.exact.table_answers import TableAnswers
from latentia.networks.leaf_cells import LeafCells, coarse_cells
from latentia.networks.learner import OnPieces

GRAPH = "a->b; a->H; H->c; H->d; H->x; b->x; b->y"
LATENTS = {"H": 2}
STEPWISE = lt.StepwiseEM(restarts=2, epochs=12, random_state=0)
LEARNERS = [lt.PBP(), lt.Tables(), lt.EM(3, random_state=0), STEPWISE]
NAMES = ["default", "tables", "em", "stepwise"]


def rows(n: int = 3000, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    a = rng.integers(2, size=n)
    b = np.where(rng.random(n) < 0.8, a, 1 - a)
    h = np.where(rng.random(n) < 0.75, a, 1 - a)
    c, d = (np.where(rng.random(n) < 0.85, h, 1 - h) for _ in "cd")
    x = 2.0 * h + b + rng.normal(size=n) * np.where(h == 1, 0.5, 1.0)
    y = 3.0 * b + rng.normal(size=n)
    return {"a": a, "b": b, "c": c, "d": d, "x": x, "y": y}


def wide_graph(columns: int = 14) -> tuple[str, dict[str, np.ndarray]]:
    """Every column below three others: no junction tree of it is small; x and y hang on H."""
    rng = np.random.default_rng(1)
    n, data, edges = 600, {}, []
    h = rng.integers(2, size=n)
    for k in range(columns):
        above = [f"v{j}" for j in range(k) if (k - j) in (1, 3, 5, 6)]
        code = h + sum(data[name] for name in above)
        data[f"v{k}"] = (code + rng.integers(6, size=n)) % 6
        edges += [f"{name}->v{k}" for name in above]
    data["q"] = np.where(rng.random(n) < 0.85, h, 1 - h)
    data["r"] = np.where(rng.random(n) < 0.85, h, 1 - h)
    data["x"] = 3.0 * h + rng.normal(size=n)
    return "; ".join([*edges, "H->q; H->r; H->x; v0->H"]), data


def by_enumeration(model: lt.LatentModel, row: dict[str, float], asked: str) -> np.ndarray:
    """P(asked | row) from the tables: every joint state of all that is discrete, one by one."""
    graph, tables = model.operators_.model_graph, model.operators_.model_tables
    columns = {c.name: c for c in model.columns_}
    dense = [graph.index(c.name) for c in model.columns_ if c.continuous]
    discrete = [v for v in range(len(graph.names)) if v not in dense]
    parents, target = graph.parents(), graph.index(asked)
    found = np.zeros(graph.states[target])
    for joint in itertools.product(*(range(graph.states[v]) for v in discrete)):
        at = dict(zip(discrete, joint, strict=True))
        if any(at[graph.index(c)] != x for c, x in row.items() if graph.index(c) in at):
            continue
        p = np.prod([tables[v][tuple(at[u] for u in (*parents[v], v))] for v in discrete])
        rows_of = {v: tables[v][tuple(at[u] for u in parents[v])] for v in dense}
        for v in dense:
            if graph.names[v] in row:
                place = columns[graph.names[v]].positions(np.array([row[graph.names[v]]]))[0]
                cells = [int(place), min(int(place) + 1, len(rows_of[v]) - 1)]
                p *= np.dot([1 - place % 1, place % 1], rows_of[v][cells])
        if target in dense:
            found += p * rows_of[target]
        else:
            found[at[target]] += p
    return found / found.sum()


@pytest.fixture(scope="module", params=range(len(LEARNERS)), ids=NAMES)
def model(request: pytest.FixtureRequest) -> lt.LatentModel:
    """EM plans what it can; here it is led around the plan as it is on wide graphs."""
    learner = LEARNERS[request.param]
    if isinstance(learner, lt.EM | lt.StepwiseEM):
        learner = OnPieces(learner)
    return lt.LatentModel(GRAPH, LATENTS, learner=learner).fit(rows(2000))


ROW = {"a": 1, "b": 0, "c": 1, "d": 1, "x": 1.37, "y": -0.4}


@pytest.mark.parametrize("asked", ["H", "x", "y", "b", "c"])
@pytest.mark.parametrize("known", ["abcdxy", "ax", "dy", ""])
def test_answers_are_those_of_enumeration(model: lt.LatentModel, asked: str, known: str) -> None:
    row = {name: ROW[name] for name in known if name != asked}
    expected = by_enumeration(model, row, asked)
    found = model.query(asked, row)
    table = found.masses if asked in "xy" else found.table
    np.testing.assert_allclose(table, expected, rtol=0, atol=1e-12)


def test_rows_are_answered_as_questions_are(model: lt.LatentModel) -> None:
    few = {name: values[:5] for name, values in rows(seed=1).items()}
    latent = np.column_stack(list(model.predict_proba(few, "H").values()))
    b = np.column_stack(list(model.predict_proba(few, "b").values()))
    x = model.predict(few, "x")
    for i in range(5):
        row = {name: values[i] for name, values in few.items()}
        np.testing.assert_allclose(latent[i], by_enumeration(model, row, "H"), atol=1e-12)
        rest = {name: value for name, value in row.items() if name != "b"}
        np.testing.assert_allclose(b[i], by_enumeration(model, rest, "b"), atol=1e-12)
        rest = {name: value for name, value in row.items() if name != "x"}
        assert x[i] == pytest.approx(model.query("x", rest).mean, abs=1e-9)
    few["x"] = np.where(np.arange(5) % 2, few["x"], np.nan)
    holed = np.column_stack(list(model.predict_proba(few, "H").values()))
    rest = {name: values[0] for name, values in few.items() if name != "x"}
    np.testing.assert_allclose(holed[0], by_enumeration(model, rest, "H"), atol=1e-12)


def test_what_is_learned_is_near_the_truth(model: lt.LatentModel) -> None:
    """H = 1 has the larger x: mean 2 + b and spread .5; some hundred rows tell each."""
    high = max((0, 1), key=lambda h: model.query("x", {"H": h, "b": 0}).mean)
    for h, b in itertools.product((0, 1), (0, 1)):
        found = model.query("x", {"H": high if h else 1 - high, "b": b})
        assert found.mean == pytest.approx(2.0 * h + b, abs=0.15)
        spread = (found.quantile(0.84) - found.quantile(0.16)) / 2
        assert spread == pytest.approx(0.5 if h else 1.0, abs=0.12)
    assert model.query("y", {"b": 1}).mean == pytest.approx(3.0, abs=0.1)
    drawn = model.sample(4000, random_state=0)
    assert np.mean(drawn["y"]) == pytest.approx(np.mean(rows()["y"]), abs=0.1)


def test_the_level_is_that_of_em_on_the_whole_graph() -> None:
    """The same Gaussians, exact there, in cells here: cells cost a hundredth of a nat at most."""
    data = rows()
    exact = lt.LatentModel(GRAPH, LATENTS, learner=lt.EM(3, smoothing=1.0, random_state=0)).fit(
        data
    )
    found = lt.LatentModel(GRAPH, LATENTS, learner="tables").fit(data)
    assert found.score(data) == pytest.approx(exact.score(data), abs=0.01)


@pytest.mark.filterwarnings("ignore::latentia.errors.ConvergenceWarning")  # stepwise, of few epochs
@pytest.mark.parametrize("learner", LEARNERS, ids=NAMES)
def test_a_graph_too_wide_for_a_plan(learner: object, tmp_path) -> None:
    graph, data = wide_graph()
    with pytest.raises(PlanError):
        lt.make_plan(graph, {"H": 2}, {**dict.fromkeys(data, 6), "q": 2, "r": 2})
    model = lt.LatentModel(graph, {"H": 2}, learner=learner).fit(data)
    low, high = sorted(model.query("x", {"H": h}).mean for h in (0, 1))
    assert low == pytest.approx(0.0, abs=0.4)
    assert high == pytest.approx(3.0, abs=0.4)
    assert model.predict_proba(data, "H")[0].shape == (600,)
    assert np.isfinite(model.score(data))
    model.save(tmp_path / "m.latentia")
    again = lt.load(tmp_path / "m.latentia")
    assert again.score(data) == pytest.approx(model.score(data), abs=1e-12)
    assert "counted" in str(model.diagnostics_)


def test_what_continuous_columns_of_tables_cannot_be() -> None:
    data = rows(300)
    with pytest.raises(DataError, match="tied"):
        lt.LatentModel(GRAPH, LATENTS, learner=lt.Tables(tied=[["x", "y"]])).fit(data)
    known = np.full((2, 8), np.nan)
    with pytest.raises(DataError, match="continuous"):
        lt.LatentModel(GRAPH, LATENTS, learner=lt.Tables(known={"y": known})).fit(data)
    wide, rest = wide_graph()
    for bad in ({"mixture": 2}, {"init": "pbp"}):
        with pytest.raises(DataError, match=r"mixture=1|init='random'"):
            lt.LatentModel(wide, {"H": 2}, learner=lt.EM(1, **bad)).fit(rest)
    with pytest.raises(DataError, match="mixture=1"):
        lt.LatentModel(wide, {"H": 2}, learner=lt.StepwiseEM(mixture=2)).fit(rest)
    with pytest.raises((DataError, PlanError)):
        lt.LatentModel(wide, {"H": 2}, learner=STEPWISE).partial_fit(rest)


def test_the_m_step_keeps_mean_and_variance_of_the_counts() -> None:
    """Far from the ends of the grid; 1e-9: what Gaussian tails and the least mass leave out."""
    rng = np.random.default_rng(0)
    cells = LeafCells(((0, 60),), 62, 0.01)
    counts = np.zeros((3, 62))
    counts[:, 20:40] = rng.random((3, 20))
    counts[:, 60:] = rng.random((3, 2))
    found, x = cells.masses(counts), np.arange(60)
    share = counts / counts.sum(axis=-1, keepdims=True)
    np.testing.assert_allclose(found.sum(axis=-1), 1.0, atol=1e-12)
    np.testing.assert_allclose(found[:, 60:], share[:, 60:], atol=1e-11)
    for power in (1, 2):
        np.testing.assert_allclose(found[:, :60] @ x**power, share[:, :60] @ x**power, atol=1e-3)


def test_coarse_cells_spread_back_to_what_was_counted() -> None:
    mass = np.random.default_rng(0).random(50)
    cells = LeafCells(((0, 48),), 50, 0.01)
    coarse = coarse_cells(mass, cells, 8)
    assert coarse.count == 8 + 2
    assert (np.diff(coarse.coarse) >= 0).all()
    total = np.bincount(coarse.coarse, mass)
    np.testing.assert_allclose(coarse.spread(total), mass, atol=2e-2 * mass.max())


def test_soft_evidence_on_leaves_is_summed_out_at_once() -> None:
    """Equal to the same network with a child of the leaf that says it."""
    rng = np.random.default_rng(0)
    tables = {
        "H": rng.dirichlet(np.ones(3)),
        "a": rng.dirichlet(np.ones(2), 3),
        "x": rng.dirichlet(np.ones(4), (3, 2)),
    }
    likelihood = rng.random((5, 4))
    likelihood[3] = 1.0  # says nothing
    own = TableAnswers("H->a; H->x; a->x", tables, latents=["H"])
    child = {**tables, "s": np.column_stack([likelihood.T / 10, 1 - likelihood.sum(axis=0) / 10])}
    other = TableAnswers("H->a; H->x; a->x; x->s", child, latents=["H"])
    codes = np.full((5, 3), -1)
    codes[:3, own.names.index("a")] = (0, 1, 1)
    wide = np.column_stack([codes, np.arange(5)])
    assert other.names == (*own.names, "s")
    for name in ("H", "a"):
        expected = other.posteriors(wide, [name])[name]
        found = own.posteriors(codes, [name], {"x": likelihood})[name]
        np.testing.assert_allclose(found, expected, atol=1e-14)
    expected = other.log_evidence(wide) + np.log(10)
    np.testing.assert_allclose(own.log_evidence(codes, {"x": likelihood}), expected, atol=1e-13)
    joint = own.joint(["x", "H"], codes, {"x": likelihood})  # asked for: it keeps its states
    np.testing.assert_allclose(joint, other.joint(["x", "H"], wide), atol=1e-13)
