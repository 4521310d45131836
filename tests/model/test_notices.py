"""Every warning: of one cause, with its figure and what to do; and none on healthy fits."""

import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import latentia as lt
from latentia import errors, testing
from latentia.errors import LatentiaWarning
from latentia.model.notices import note_doubts, note_left_out, note_plan
from latentia.structure.plan import SHORTFALL

CLASSES = [
    c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, LatentiaWarning)
]
FAMILIES = {
    LatentiaWarning,
    errors.ColumnWarning,
    errors.EvidenceWarning,
}  # their children tell the cause


def class_rows(
    n: int = 2000, states: int = 2, seed: int = 0, strength: float = 0.8
) -> dict[str, Any]:
    """Four columns that a latent class explains."""
    rng = np.random.default_rng(seed)
    h = rng.integers(states, size=n)
    return {c: np.where(rng.random(n) < strength, h, rng.integers(states, size=n)) for c in "wxyz"}


def fit(
    data: dict[str, Any],
    graph: str = "H->w,x,y,z",
    states: int | None = 2,
    learner: Any = "pbp",
    **more: Any,
) -> lt.LatentModel:
    return lt.LatentModel(graph, {"H": states}, learner).fit(data, **more)


def ignored() -> None:
    fit({**class_rows(), "more": np.arange(2000)})


def constant() -> None:
    fit({**class_rows(), "z": np.zeros(2000, dtype=int)})


def told_apart() -> None:
    fit(class_rows(), states=5)


def features() -> None:
    missed = "reach rank 2 of 3: it takes joint ones of columns with more than 16,384 joint states"
    note_plan([f"{SHORTFALL} inside separator {{H}} {missed}. Give these columns fewer states."])


def unfinished() -> None:
    fit(class_rows(strength=0.5), learner=lt.EM(1, max_iter=2, random_state=0))


def relative() -> None:
    fit(class_rows(), sample_weight=np.full(2000, 1 / 2000), learner=lt.PBP(refine=False))


def independent() -> None:
    fit(class_rows(300, strength=0.0))


def too_many_states() -> None:
    fit(class_rows(20_000, 6), states=2, learner=lt.PBP(refine=False))


def repaired() -> None:
    data = {"x": [0, 0, 1, 1] * 10, "y": [0, 0, 1, 1] * 10, "z": [0, 0, 1, 1] * 10}
    model = lt.LatentModel("H->x,y,z", {"H": 2}, "paper").fit(data)
    model.score_samples({"x": [0], "y": [1], "z": [0]})


def beyond() -> None:
    rng = np.random.default_rng(0)
    data = {**class_rows(200), "u": rng.normal(size=200)}
    learner = lt.PBP(refine=False, kernel=lt.KernelSettings())
    fit(data, "H->w,x,y,z,u", learner=learner).query("w", {"u": 99.0})


def anew() -> None:
    model = fit(class_rows(), learner=lt.PBP(refine=False))
    model.partial_fit(class_rows(seed=1))


def impossible() -> None:
    data = {"x": [0, 0, 1, 1] * 10, "y": [0, 0, 1, 1] * 10}
    known = {"x": [[1.0, 0.0], [0.0, 1.0]], "y": [[1.0, 0.0], [0.0, 1.0]]}
    model = lt.LatentModel("H->x,y", {"H": 2}, lt.EM(known=known)).fit(data)
    model.score_samples({"x": [0, 0], "y": [0, 1]})


def unknown() -> None:
    model = fit(class_rows(), learner=lt.PBP(refine=False))
    model.predict_proba({"w": [0, 99], "x": [1, 1]}, "y", unknown="warn")


def left_out() -> None:
    """A network of more cells than may be, and rows beyond those that are kept."""
    model = fit(class_rows(), learner=lt.PBP(smoothing=1.0))  # candidates that are compared
    choice = replace(
        model.operators_.provenance.choice,
        left_out={"refined": "its tables would have 1.0e+09 cells."},
    )
    note_left_out(model.operators_.told(choice=choice))


def one_start_alone() -> None:
    model = fit(class_rows(), "H->w,x,y,z; w->x", learner="tables")
    doubt = (
        "of 31 starts only one found the best tables of H, 12.5 nats above the next: another "
        "random_state may find others, and answer otherwise. Bring more rows."
    )
    note_doubts(model.operators_.told(doubts=(doubt,)))


def holes() -> None:
    data = {name: column.astype(float) for name, column in class_rows().items()}
    gone = np.random.default_rng(1).random(2000) < 0.1 + 0.5 * data["x"]
    data["w"][gone] = np.nan
    fit(data, learner=lt.EM(1, random_state=0))


def effect() -> None:
    learner = lt.EM(1, tol=1e-3, random_state=0)
    fit(class_rows(), "H->w,x,y,z; w->x", learner=learner).effect("w", "x")


def dates() -> None:
    rng = np.random.default_rng(0)
    first, days = np.datetime64("2024-01-01"), rng.integers(30, size=2000)
    fit({**class_rows(), "day": first + days}, "H->w,x,y,z,day")


CAUSES: dict[type[LatentiaWarning], Callable[[], None]] = {
    errors.IgnoredColumnWarning: ignored,
    errors.ConstantColumnWarning: constant,
    errors.DateColumnWarning: dates,
    errors.IdentifiabilityWarning: told_apart,
    errors.FeatureWarning: features,
    errors.ConvergenceWarning: unfinished,
    errors.WeightWarning: relative,
    errors.IndependenceWarning: independent,
    errors.LeftOutWarning: left_out,
    errors.StatesWarning: too_many_states,
    errors.StartsDisagreeWarning: one_start_alone,
    errors.RepairWarning: repaired,
    errors.RangeWarning: beyond,
    errors.ImpossibleRowWarning: impossible,
    errors.UnknownStateWarning: unknown,
    errors.RestartWarning: anew,
    errors.HolesWarning: holes,
    errors.EffectWarning: effect,
}


def test_every_class_has_a_cause() -> None:
    assert set(CLASSES) - FAMILIES == set(CAUSES)


@pytest.mark.parametrize("kind", CAUSES, ids=lambda c: c.__name__)
def test_it_fires_on_its_cause_with_a_figure_and_advice(kind: type[LatentiaWarning]) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        CAUSES[kind]()
    mine = [w for w in told if w.category is kind]
    assert mine, [w.category.__name__ for w in told]
    message = str(mine[0].message)
    assert re.search(r"\d", message), message  # the figure behind it
    assert len(re.findall(r"[.:;] +[A-Za-z]", message)) >= 1, message  # and what to do
    assert message.endswith(".")


# -- healthy fits ----------------------------------------------------------------------------------


def healthy() -> Iterator[tuple[str, lt.LatentGraph, Any]]:
    """Two models of each kind whose latents can be told apart, and whose columns depend."""
    for kind in testing.KINDS:
        found, seed = 0, 0
        while found < 2:
            rng = np.random.default_rng([seed, *kind.encode()])
            seed += 1
            graph = testing.random_graph(rng, kind)
            model = testing.random_model(graph, rng, concentration=0.3)
            if not lt.make_plan(graph).notes and _total_correlation(model) > 0.2 and _varies(model):
                found += 1
                yield f"{kind}-{seed - 1}", graph, (model, rng)


def _varies(model: Any) -> bool:
    """No column is all but constant."""
    joint = testing.brute_force(model)
    axes = range(joint.ndim)
    return all(joint.sum(axis=tuple(a for a in axes if a != k)).max() < 0.97 for k in axes)


def _total_correlation(model: Any) -> float:
    """Σ p log(p / Π marginals)."""
    joint = testing.brute_force(model)
    rest = np.ones_like(joint)
    for k in range(joint.ndim):
        gone = tuple(a for a in range(joint.ndim) if a != k)
        rest = rest * joint.sum(axis=gone, keepdims=True)
    there = joint > 0
    return float((joint[there] * np.log(joint[there] / rest[there])).sum())


@pytest.mark.parametrize("learner", ["closed", "default"])
@pytest.mark.parametrize(
    ("graph", "drawn"), [pytest.param(g, m, id=name) for name, g, m in healthy()]
)
def test_healthy_fits_raise_none(graph: lt.LatentGraph, drawn: Any, learner: str) -> None:
    model, _ = drawn
    codes = model.sample(5000, np.random.default_rng(7))
    data = {graph.names[v]: codes[:, k] for k, v in enumerate(graph.observed)}
    states = {graph.names[v]: list(range(graph.states[v] or 1)) for v in graph.observed}
    plain = lt.LatentGraph(
        graph.names,
        graph.edges,
        graph.latent,
        tuple(s if v in graph.latent else None for v, s in enumerate(graph.states)),
        graph.directed,
    )
    made = lt.PBP(refine=False) if learner == "closed" else lt.PBP()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lt.LatentModel(plain, learner=made, state_names=states).fit(data)


@pytest.mark.parametrize("learner", ["pbp", "tables", "em"])
def test_latents_without_columns_below_are_told_of(learner: str) -> None:
    rng = np.random.default_rng(0)
    rows = {c: rng.integers(2, size=200) for c in "abc"}
    rows["b"] = rows["a"] ^ (rng.random(200) < 0.2)
    graph = [("h", "a"), ("h", "b"), ("h", "c"), ("h", "idle"), ("idle", "idler")]
    model = lt.LatentModel(graph, {"h": 2, "idle": 2, "idler": 3}, learner=learner)
    with pytest.warns(
        errors.IdentifiabilityWarning, match="nothing of idle, idler: no column lies below"
    ):
        model.fit(rows)
    for ask in (lambda: model.query("idle"), lambda: model.predict_proba(rows, "idler")):
        with pytest.raises(errors.EvidenceError, match="no column lies below 'idle"):
            ask()
    assert model.query("h").table.sum() == pytest.approx(1.0)


def test_dates_that_were_said_to_be_states_are_no_news() -> None:
    rng = np.random.default_rng(0)
    days = np.datetime64("2024-01-01") + rng.integers(30, size=500)
    rows = {"a": rng.integers(2, size=500), "b": rng.integers(2, size=500), "day": days}
    text = {**rows, "day": days.astype(str)}
    for table, kinds, told in (
        (rows, {"day": "discrete"}, 0),
        (text, None, 1),
        ({**text, "day": pd.DatetimeIndex(days).strftime("%d.%m.%Y").to_numpy()}, None, 1),
        ({**text, "day": pd.DatetimeIndex(days).strftime("%m/%d/%Y").to_numpy()}, None, 1),
        ({**text, "day": np.char.add("no ", days.astype(str))}, None, 0),
        ({**rows, "day": np.datetime64("2024-01-01") + rng.integers(7, size=500)}, None, 0),
    ):
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            lt.LatentModel("H->a,b,day", {"H": 2}, kinds=kinds).fit(table)
        assert sum(w.category is errors.DateColumnWarning for w in heard) == told


@pytest.mark.parametrize(
    ("spelling", "advice"),
    [
        ("%Y-%m-%d", "kinds={'day': 'continuous'} has time measured"),
        ("%Y-%m-%dT%H:%M:%SZ", "As text with a zone they are no times: pandas.to_datetime"),
        ("%Y-%m-%d %H:%M:%S+01:00", "As text with a zone they are no times: pandas.to_datetime"),
        ("%d.%m.%Y", "Spelled as 2024-03-17 (pandas.to_datetime) time is measured"),
    ],
)
@pytest.mark.filterwarnings("ignore::latentia.errors.IndependenceWarning")
def test_the_advice_on_dates_can_be_taken(spelling: str, advice: str) -> None:
    rng = np.random.default_rng(0)
    days = pd.DatetimeIndex(np.datetime64("2024-01-01") + rng.integers(30, size=500))
    rows = {"a": rng.integers(2, size=500), "b": rng.integers(2, size=500)}
    rows["day"] = days.strftime(spelling).to_numpy()
    with pytest.warns(errors.DateColumnWarning, match=re.escape(advice)):
        lt.LatentModel("H->a,b,day", {"H": 2}).fit(rows)
    if "continuous" not in advice:
        rows["day"] = pd.to_datetime(rows["day"], dayfirst="." in spelling)
    model = lt.LatentModel("H->a,b,day", {"H": 2}, kinds={"day": "continuous"}).fit(rows)
    assert model.columns_[2].continuous


def test_latents_without_columns_below_harm_no_continuous_parents() -> None:
    """The road of arrows ended in an error about shapes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    h = x + rng.normal(size=300) > 0
    rows = {"x": x, **{c: np.where(rng.random(300) < 0.8, h, ~h).astype(int) for c in "abc"}}
    graph = [("x", "h"), ("h", "a"), ("h", "b"), ("h", "c")]
    plain = lt.LatentModel(graph, {"h": 2}, learner="em").fit(rows)
    more = lt.LatentModel([*graph, ("h", "idle")], {"h": 2, "idle": 3}, learner="em")
    with pytest.warns(errors.IdentifiabilityWarning, match="nothing of idle"):
        more.fit(rows)
    np.testing.assert_allclose(more.score_samples(rows), plain.score_samples(rows), atol=1e-6)
    with pytest.raises(errors.LatentiaError, match="idle"):
        more.query("idle")
