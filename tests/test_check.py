"""`check` finds planted defects and stays calm on the true structure."""

import numpy as np
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
def test_planted_defects_are_found_and_the_truth_is_left_alone() -> None:
    """20 models each; a defect may be too weak to see now and then, a false alarm is rare (1 %)."""
    calm = few = shuffled = wrong = 0
    for seed in range(20):
        train, held = strong_chain(seed, 8_000)
        rng = np.random.default_rng(seed)

        def check(graph: str, latents: dict[str, int], frame: dict[str, np.ndarray]) -> bool:
            model = lt.LatentModel(graph, latents, learner=lt.PBP(refine=False)).fit(train)  # noqa: B023
            return model.check(frame).ok

        calm += check(TRUE, LATENTS, held)
        few += not check(TRUE, dict.fromkeys(LATENTS, 2), held)
        mixed_up = {**held, "x2": rng.permutation(held["x2"])}
        shuffled += not check(TRUE, LATENTS, mixed_up)
        wrong += not check(WRONG, LATENTS, held)
    assert calm >= 19
    assert shuffled == 20
    assert few >= 18
    assert wrong >= 18


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

    from latentia.cli import checks, commands

    assert checks.check_command
    train, held = strong_chain(0, 3_000)
    model = lt.LatentModel(TRUE, LATENTS, learner=lt.PBP(refine=False)).fit(train)
    model.save(tmp_path / "m.latentia")
    pd.DataFrame(held).to_csv(tmp_path / "held.csv", index=False)
    arguments = ["check", str(tmp_path / "m.latentia"), str(tmp_path / "held.csv")]
    shown = CliRunner().invoke(commands.app, arguments)
    assert shown.exit_code == 0, shown.output
    assert "check on 3,000 rows" in shown.output
    facts = json.loads(CliRunner().invoke(commands.app, [*arguments, "--json"]).stdout)
    assert facts["ok"] is model.check(held).ok
    assert len(facts["columns"]) == STEPS
