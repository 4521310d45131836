"""`check` finds planted defects and stays calm on the true structure."""

import numpy as np
import pandas as pd
import pytest

import latentia as lt

STEPS = 6
LATENTS = {f"H{t}": 3 for t in range(STEPS)}
NAMES = [f"x{t}" for t in range(STEPS)]
TRUE = "; ".join(
    [f"H{t}->H{t + 1}" for t in range(STEPS - 1)] + [f"H{t}->x{t}" for t in range(STEPS)]
)
WRONG = TRUE.replace("->x1", "->q").replace("->x4", "->x1").replace("->q", "->x4")


def strong_chain(seed: int, rows: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Two tables from one random chain whose neighbours have much to do with each other."""
    rng = np.random.default_rng(seed)
    graph = lt.as_graph(TRUE, LATENTS, dict.fromkeys(NAMES, 4))
    tables = {}
    for v, above in enumerate(graph.parents()):
        shape = [graph.states[u] for u in above]
        states = graph.states[v]
        if v in graph.latent and above:
            turned = np.eye(3)[rng.permutation(3)]
            tables[graph.names[v]] = 0.8 * turned + 0.2 * rng.dirichlet(np.ones(3), 3)
        else:
            tables[graph.names[v]] = rng.dirichlet(np.full(states, 0.4), size=shape or None)
    tables["H0"] = np.full(3, 1 / 3)
    codes = lt.TabularModel(graph, tables).sample(2 * rows, seed)
    columns = {graph.names[v]: codes[:, i] for i, v in enumerate(graph.observed)}
    first = {name: x[:rows] for name, x in columns.items()}
    return first, {name: x[rows:] for name, x in columns.items()}


@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
@pytest.mark.parametrize(
    "learner",
    [lt.PBP(refine=False), pytest.param(lt.PBP(), marks=pytest.mark.slow)],
    ids=["closed", "default"],
)
def test_planted_defects_are_found_and_the_truth_is_left_alone(learner) -> None:
    """20 models each; a defect may be too weak to see now and then, a false alarm is rare (1 %)."""
    calm = few = shuffled = wrong = 0
    for seed in range(20):
        train, held = strong_chain(seed, 8_000)
        rng = np.random.default_rng(seed)

        def fitted(graph: str, latents: dict[str, int]) -> lt.LatentModel:
            return lt.LatentModel(graph, latents, learner=learner).fit(train)  # noqa: B023

        true = fitted(TRUE, LATENTS)
        calm += true.check(held).ok
        few += not fitted(TRUE, dict.fromkeys(LATENTS, 2)).check(held).ok
        mixed_up = {**held, "x2": rng.permutation(held["x2"])}
        shuffled += not true.check(mixed_up).ok
        wrong += not fitted(WRONG, LATENTS).check(held).ok
    assert calm >= 19
    assert shuffled == 20
    assert few >= 19
    assert wrong >= 19


TREE = "R->A; R->B; R->C; A->a1; A->a2; A->a3; B->b1; B->b2; B->b3; C->c1; C->c2; C->c3"
TREE_WRONG = TREE.replace("A->a3", "B->a3").replace("B->b3", "A->b3")
LOOP = "A->B; A->C; B->F; C->F; B->D; B->D2; C->E; C->E2; F->G; F->H"


def strong_net(graph: str, seed: int, rows: int, states: int = 3) -> list[dict[str, np.ndarray]]:
    """Two tables of a net whose variables mostly follow the sum of their parents."""
    rng = np.random.default_rng(seed)
    hidden = {a for a in "RABCF" if f"{a}->" in graph}
    names = {w for edge in graph.split("; ") for w in edge.split("->")} - hidden
    net = lt.as_graph(graph, dict.fromkeys(sorted(hidden), states), dict.fromkeys(names, states))
    tables = {}
    for v, above in enumerate(net.parents()):
        shape = [states] * len(above)
        table = 0.3 * rng.dirichlet(np.ones(states), size=shape or None)
        for index in np.ndindex(*shape):
            table[(*index, sum(index) % states)] += 0.7
        tables[net.names[v]] = table if above else np.full(states, 1 / states)
    codes = lt.TabularModel(net, tables).sample(2 * rows, seed)
    columns = {net.names[v]: codes[:, i] for i, v in enumerate(net.observed)}
    return [{n: x[part] for n, x in columns.items()} for part in (slice(rows), slice(rows, None))]


@pytest.mark.filterwarnings("ignore::latentia.errors.LatentiaWarning")
def test_other_structures_and_learners() -> None:
    """Trees and loops, learned by default and by EM: the truth is left alone, a swap is found."""
    tree = dict.fromkeys("RABC", 3)
    calm = found = loops = by_em = 0
    for seed in range(8):
        train, held = strong_net(TREE, seed, 4000)
        calm += lt.LatentModel(TREE, tree).fit(train).check(held).ok
        found += not lt.LatentModel(TREE_WRONG, tree).fit(train).check(held).ok
        em = lt.EM(init="pbp")
        by_em += lt.LatentModel(TREE, tree, learner=em).fit(train).check(held).ok
        train, held = strong_net(LOOP, seed, 4000)
        loops += lt.LatentModel(LOOP, dict.fromkeys("ABCF", 3)).fit(train).check(held).ok
    assert calm >= 7
    assert by_em >= 7
    assert loops >= 7
    assert found == 8


def test_residuals_are_sums_over_rows() -> None:
    """G = Σ 1{x_i = b} (1{x_j = a} − P̂), by a loop over rows; and blocks add up."""
    from latentia.assess.fit_figures import measure_fit
    from latentia.assess.residuals import sum_residuals
    from latentia.data.sources.engine import OneBlock
    from latentia.data.sources.table import read_table

    train, held = strong_chain(4, 300)
    model = lt.LatentModel(TRUE, LATENTS, learner=lt.PBP(refine=False)).fit(train)
    p = [np.column_stack(list(model.predict_proba(held, x).values())).T for x in NAMES]
    cells = {i: held[x].copy() for i, x in enumerate(NAMES)}
    cells[2][:5] = -1
    bins = {i: np.eye(4) for i in cells}
    found = sum_residuals(bins, cells, dict(enumerate(p)))
    for i, j in ((0, 1), (2, 3), (3, 2)):
        score, spread, rows = np.zeros((4, 4)), np.zeros((4, 4)), 0
        for r in range(300):
            if cells[i][r] >= 0 and cells[j][r] >= 0:
                score[cells[i][r]] += np.eye(4)[cells[j][r]] - p[j][:, r]
                spread[cells[i][r]] += p[j][:, r] * (1 - p[j][:, r])
                rows += 1
        part = np.ix_(range(4 * i, 4 * i + 4), range(4 * j, 4 * j + 4))
        np.testing.assert_allclose(found.score[part], score, atol=1e-9)
        np.testing.assert_allclose(found.variance[part], spread, atol=1e-9)
        assert found.rows[i, j] == rows
    parts = [
        sum_residuals(
            bins, {i: c[s] for i, c in cells.items()}, {i: q[:, s] for i, q in enumerate(p)}
        )
        for s in (slice(100), slice(100, None))
    ]
    np.testing.assert_allclose((parts[0] + parts[1]).score, found.score, atol=1e-9)
    fit = measure_fit(
        model.plan_, model.operators_, model.columns_, OneBlock(read_table(held, NAMES))
    )
    assert len(fit.pairs) == 15


def test_latents_that_cannot_be_told() -> None:
    """A third state that says the same as the second; and a latent with too few states."""
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=3000)
    frame = {n: np.where(rng.random(3000) < 0.85, h, 1 - h) for n in "abcd"}
    twice = [[0.85, 0.15], [0.15, 0.85], [0.15, 0.85]]
    tables = {"H": [0.5, 0.25, 0.25], **dict.fromkeys("abcd", twice)}
    learner = lt.EM(init=tables, max_iter=1, tol=1.0)
    model = lt.LatentModel("H->a; H->b; H->c; H->d", {"H": 3}, learner).fit(frame)
    report = model.check(frame)
    assert report.latents[0].closest < 0.02
    assert "say the same" in str(report)
    two = lt.LatentModel("H->a; H->b; H->c; H->d", {"H": 2}, lt.EM(random_state=0)).fit(frame)
    assert two.check(frame).latents[0].closest == pytest.approx(0.7, abs=0.05)
    assert two.check(frame).ok


def test_values_beyond_training_are_counted() -> None:
    train, held = strong_chain(1, 2_000)
    model = lt.LatentModel(TRUE, LATENTS, learner=lt.PBP(refine=False)).fit(train)
    held["x1"] = np.where(np.arange(2_000) < 200, 9, held["x1"])
    report = model.check(held)
    (own,) = [c for c in report.columns if c.name == "x1"]
    assert own.outside == pytest.approx(0.1)
    assert own.rows == 1_800
    assert report.fit.outside == pytest.approx(0.1 / 6)
    assert "beyond those of training" in str(report)
    words = {**held, "x1": np.array(["?"] * 2_000)}
    assert [c.outside for c in model.check(words).columns if c.name == "x1"] == [1.0]


def test_the_picture(tmp_path) -> None:
    import xml.etree.ElementTree as ET

    train, held = strong_chain(1, 2_000)
    rng = np.random.default_rng(0)
    model = lt.LatentModel(TRUE, LATENTS, learner=lt.PBP(refine=False)).fit(train)
    calm, odd = model.check(held), model.check({**held, "x2": rng.permutation(held["x2"])})
    for report in (calm, odd):
        drawing = report.plot()
        text = "".join(ET.fromstring(drawing.svg).itertext())
        assert "nan" not in drawing.svg
        assert all(name in text for name in NAMES)
        assert 500 < drawing.width < 1000
        report.save(tmp_path / "c.svg")
        report.save(tmp_path / "c.html")
        page = (tmp_path / "c.html").read_text()
        assert report.verdict in page
    assert "! x2" in odd.plot().svg
    assert "! x2" not in calm.plot().svg
    assert odd.plot().svg.count("#f3b55e") > calm.plot().svg.count("#f3b55e") == 0
    with pytest.raises(lt.errors.DataError, match=r"\.svg or \.html"):
        calm.save(tmp_path / "c.png")


def test_pictures_of_odd_tables() -> None:
    """One column; many columns; columns that the rows lack."""
    rng = np.random.default_rng(0)
    h = rng.integers(3, size=2000)
    many = {
        f"c{i}": np.where(rng.random(2000) < 0.6, h, rng.integers(3, size=2000)) for i in range(40)
    }
    model = lt.LatentModel(None, learner=lt.PBP(refine=False)).fit(many)
    report = model.check(many)
    assert "16 more columns" in report.plot().svg
    few = model.check({"c0": many["c0"], "c1": many["c1"]})
    assert few.plot().svg
    assert sum(c.rows > 0 for c in few.columns) == 2
    alone = lt.LatentModel("H->x", {"H": 2}, lt.EM(1, 5, tol=1.0)).fit({"x": [0, 1, 1, 0]})
    assert alone.check({"x": [0, 1, 1]}).plot().svg


def test_a_column_shuffled_before_training_is_named() -> None:
    train, held = strong_chain(3, 5_000)
    rng = np.random.default_rng(0)
    train["x2"], held["x2"] = rng.permutation(train["x2"]), rng.permutation(held["x2"])
    model = lt.LatentModel(TRUE, LATENTS, learner=lt.PBP(refine=False)).fit(train)
    report = model.check(held)
    assert not report.ok
    assert "'x2'" in str(report)
    assert "tell nothing" in str(report)


def test_losses_are_those_of_predict_proba() -> None:
    train, held = strong_chain(1, 2_000)
    model = lt.LatentModel(TRUE, LATENTS, learner=lt.PBP(refine=False)).fit(train)
    report = model.check(held)
    p = model.predict_proba(held, "x3")
    matrix = np.column_stack([p[k] for k in p])
    loss = -np.log(matrix[np.arange(len(matrix)), held["x3"]]).mean()
    (own,) = [c for c in report.columns if c.name == "x3"]
    assert own.loss == pytest.approx(loss, abs=1e-9)
    shares = np.bincount(train["x3"], minlength=4) / 2_000
    assert own.marginal == pytest.approx(-np.log(shares[held["x3"]]).mean(), abs=1e-3)
    assert "x3" in repr(report)
    assert "<table>" in report._repr_html_()


def test_continuous_columns_are_checked_too() -> None:
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=6_000)
    frame = {
        "x": rng.normal(3 * h, 1.0),
        "y": rng.gamma(2.0 + 3 * h),
        "k": np.where(rng.random(6_000) < 0.8, h, 1 - h),
        "z": rng.normal(-2 * h, 1.0),
    }
    train = {name: v[:3_000] for name, v in frame.items()}
    held = {name: v[3_000:] for name, v in frame.items()}
    model = lt.LatentModel("H->x; H->y; H->k; H->z", {"H": 2}).fit(train)
    assert model.check(held).ok, model.check(held)
    held["x"] = rng.permutation(held["x"])
    assert not model.check(held).ok


def test_one_row_is_too_few() -> None:
    train, held = strong_chain(0, 500)
    model = lt.LatentModel(TRUE, LATENTS, learner=lt.PBP(refine=False)).fit(train)
    with pytest.raises(lt.errors.DataError, match="two rows"):
        model.check({name: x[:1] for name, x in held.items()})


def test_check_on_the_command_line(tmp_path) -> None:
    pytest.importorskip("typer")
    pytest.importorskip("pyarrow")
    import json

    import pandas as pd
    from typer.testing import CliRunner

    from latentia.cli.application import application

    train, held = strong_chain(0, 3_000)
    model = lt.LatentModel(TRUE, LATENTS, learner=lt.PBP(refine=False)).fit(train)
    model.save(tmp_path / "m.latentia")
    pd.DataFrame(held).to_csv(tmp_path / "held.csv", index=False)
    arguments = ["check", str(tmp_path / "m.latentia"), str(tmp_path / "held.csv")]
    shown = CliRunner().invoke(application, arguments)
    assert shown.exit_code == 0, shown.output
    assert "check on 3,000 rows" in shown.output
    facts = json.loads(CliRunner().invoke(application, [*arguments, "--json"]).stdout)
    assert facts["ok"] is model.check(held).ok
    assert len(facts["columns"]) == STEPS
    assert len(facts["latents"]) == STEPS
    for name in ("c.svg", "c.html"):
        done = CliRunner().invoke(application, [*arguments, "--out", str(tmp_path / name)])
        assert done.exit_code == 0, done.output
        assert ("<svg" if name == "c.svg" else "<script>") in (tmp_path / name).read_text()
    assert CliRunner().invoke(application, [*arguments, "--out", "c.png"]).exit_code == 2


def test_cells_that_hold_no_state() -> None:
    """As predict and score have it: an error, missing, or missing and said so; files alike."""
    rng = np.random.default_rng(0)
    h = rng.integers(2, size=500)
    frame = pd.DataFrame({n: np.where(rng.random(500) < 0.8, h, 1 - h) for n in "abc"})
    model = lt.LatentModel("H->a,b,c", {"H": 2}, learner=lt.PBP(refine=False)).fit(frame)
    odd = frame.astype(object)
    odd.loc[3, "a"], odd.loc[7, "a"] = 9, 8
    parts = [odd[:5], odd[5:]]
    quiet = model.check(odd)
    assert quiet.fit.outside > 0
    with pytest.raises(lt.errors.UnknownNameError, match="row 3"):
        model.check(odd, unknown="error")
    for rows in (odd, parts):
        with pytest.warns(lt.errors.UnknownStateWarning, match="2 cell.s. of 'a'.*such as 9"):
            assert str(model.check(rows, unknown="warn")) == str(quiet)
    with pytest.raises(lt.errors.UnknownNameError, match="'missing'"):
        model.check(odd, unknown="ignore")
