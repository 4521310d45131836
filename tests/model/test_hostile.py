"""What fuzzing found, each once more; and hostile graphs within bounds of time and memory."""

import itertools
import time
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import latentia as lt
from latentia.errors import DataError, EvidenceError, GraphError, LatentiaError, PlanError

NAN = float("nan")
GRAPH, LATENTS = "H->a,b,c", {"H": 2}
SOUND: dict[str, Any] = {"a": [0, 1] * 20, "b": [0, 1, 1, 0] * 10, "c": ["x", "y"] * 20}


def fitted(data: Any = None, **more: Any) -> lt.LatentModel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = lt.LatentModel(GRAPH, LATENTS, lt.PBP(refine=False))
        return model.fit(SOUND if data is None else data, **more)


def mixed() -> lt.LatentModel:
    rng = np.random.default_rng(0)
    learner = lt.PBP(refine=False, kernel=lt.KernelSettings())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lt.LatentModel("H->a,u", {"H": 2}, learner).fit(
            {"a": [0, 1] * 20, "u": rng.normal(size=40)}
        )


# -- tables ----------------------------------------------------------------------------------------


def with_column(cells: Any) -> Any:
    return {**SOUND, "a": cells}


def objects(cell: Any) -> Any:
    made = np.empty(40, dtype=object)
    for k in range(40):
        made[k] = cell
    return made


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (with_column(5), "one dimension"),
        (with_column([[1], [1, 2]] * 20), "different lengths"),
        (with_column(objects([1])), "cannot be states"),
        (with_column(objects({"k": 1})), "cannot be states"),
        (with_column(objects(np.array([1, 2]))), "cannot be states"),
        (with_column(np.append(np.linspace(0, 1e308, 39), 0.5)), "squares cannot be summed"),
        (with_column(np.linspace(0, 1e-120, 40)), "squares cannot be summed"),
        (pd.DataFrame(np.zeros((4, 3)), columns=["a", "a", "b"]), "two columns are called 'a'"),
        (pa.table([[1], [2]], names=["a", "a"]), "two columns are called 'a'"),
    ],
)
def test_tables_that_cannot_be_read_are_refused_in_words(table: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        fitted(table)


@pytest.mark.parametrize(
    "cells",
    [
        np.array([2**64 - 1, 2**64 - 2] * 20, dtype=np.uint64),
        [2**70, -(2**65)] * 20,
        np.array([-(2**63), 2**63 - 1] * 20),
        [True, 2.5, "x", None] * 10,
    ],
)
def test_odd_cells_are_states(cells: Any) -> None:
    model = fitted(with_column(cells))
    p = np.column_stack(list(model.predict_proba(SOUND, "a").values()))
    assert p.shape[0] == 40
    assert np.allclose(p.sum(axis=1), 1)


def test_integers_of_128_bits_are_read() -> None:
    wide = pl.DataFrame(
        {"a": pl.Series([0, 1] * 20, dtype=pl.Int128), "b": SOUND["b"], "c": SOUND["c"]}
    )
    assert fitted(wide).columns_[0].states == (0, 1)


@pytest.mark.parametrize("weight", [["x"] * 40, [1e300] * 40, object(), [[1.0, 2.0]] * 40])
def test_weights_that_cannot_be_summed_are_refused(weight: Any) -> None:
    with pytest.raises(DataError, match=r"weight"):
        fitted(sample_weight=weight)


@pytest.mark.parametrize("names", [5, "xy", [[1]], [NAN, 1], [None, 1]])
def test_states_must_be_listed(names: Any) -> None:
    with pytest.raises(DataError):
        lt.LatentModel(GRAPH, LATENTS, state_names={"a": names}).fit(SOUND)


# -- questions -------------------------------------------------------------------------------------

QUESTIONS: list[Callable[[lt.LatentModel], Any]] = [
    lambda m: m.query([["a"]]),
    lambda m: m.query([{}, "a"]),
    lambda m: m.query("a", {"b": np.array([0, 1])}),
    lambda m: m.query("a", soft={"b": {0: "x"}}),
    lambda m: m.query("a", soft={"b": {0: 10**400}}),
    lambda m: m.predict_proba(SOUND, "a", dtype=3),
    lambda m: m.score({"a": [], "b": []}),
    lambda m: m.sample(2.5),
    lambda m: m.sample("x"),
    lambda m: m.sample(3, random_state=-1),
    lambda m: m.map_query("a", random_state="x"),
    lambda m: m.predict_proba({"a": [[1]]}, "b"),
    lambda m: m.predict_proba({"a": objects([1])}, "b"),
]


@pytest.mark.parametrize("number", range(len(QUESTIONS)))
def test_odd_questions_are_refused_in_words(number: int) -> None:
    with pytest.raises(LatentiaError):
        QUESTIONS[number](fitted())


@pytest.mark.parametrize("quantile", ["x", (), (2,), NAN, None])
def test_odd_quantiles_are_refused(quantile: Any) -> None:
    with pytest.raises(EvidenceError, match="between 0 and 1"):
        mixed().predict_quantiles({"a": [0]}, "u", quantile)


@pytest.mark.parametrize(
    "soft", [lambda x: "no", lambda x: 1 / 0, lambda x: x[:2], lambda x: x * NAN]
)
def test_soft_evidence_that_fails_is_told(soft: Any) -> None:
    with pytest.raises(EvidenceError):
        mixed().query("a", soft={"u": soft})


@pytest.mark.parametrize("x", [1e308, -1e308, 1e150])
def test_evidence_far_beyond_training_has_a_finite_density(x: float) -> None:
    model = mixed()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", lt.errors.EvidenceWarning)
        found = model.query("a", {"u": x})
        assert np.isfinite(model.score_samples({"a": [0], "u": [x]})).all()
    assert np.isfinite(found.log_evidence)
    assert np.asarray(found).sum() == pytest.approx(1)


def test_a_number_too_large_for_a_float_is_refused() -> None:
    with pytest.raises(EvidenceError, match="expected a number"):
        mixed().query("a", {"u": 10**400})


# -- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "learner",
    [
        lt.PBP(random_state="x"),
        lt.PBP(groups=2.5),
        lt.PBP.paper(ridge=1.0),
        lt.PBP.paper(ridge=(1, -1)),
        lt.EM(1, random_state=-1),
        lt.StepwiseEM(restarts=1, random_state=2.5),
    ],
    ids=repr,
)
def test_odd_settings_are_refused_in_words(learner: Any) -> None:
    with pytest.raises(LatentiaError):
        lt.LatentModel(GRAPH, LATENTS, learner).fit(SOUND)


def test_groups_are_checked_for_continuous_columns_too() -> None:
    data = {"a": [0, 1] * 20, "u": np.linspace(0, 1, 40)}
    with pytest.raises(GraphError, match="groups"):
        lt.LatentModel("H->a,u", {"H": 2}, lt.PBP(groups=2.5)).fit(data)


@pytest.mark.parametrize(
    "make",
    [
        lambda: lt.templates.hidden_markov(2.5),  # type: ignore[arg-type]
        lambda: lt.templates.hidden_markov("3"),  # type: ignore[arg-type]
        lambda: lt.templates.grid(None, 2),  # type: ignore[arg-type]
        lambda: lt.templates.factorial_markov(2, 0),
        lambda: lt.templates.latent_class(2.5),  # type: ignore[arg-type]
        lambda: lt.templates.latent_class(True),
    ],
)
def test_templates_count_in_whole_numbers(make: Callable[[], Any]) -> None:
    with pytest.raises(GraphError):
        make()


@pytest.mark.parametrize("y", [None, 5, [NAN] * 40, [0.5, 0.7] * 20, [0] * 39, [(1, 2)] * 40])
def test_odd_labels_are_refused(y: Any) -> None:
    with pytest.raises(DataError, match=r"\by\b"):
        lt.LatentClassifier().fit(SOUND, y)


@pytest.mark.parametrize("priors", ["x", 5, [NAN, NAN], {0: "a", 1: 1.0}])
def test_odd_priors_are_refused(priors: Any) -> None:
    with pytest.raises(DataError, match="prior"):
        lt.LatentClassifier(priors=priors).fit(SOUND, [0, 1] * 20)


# -- hostile graphs --------------------------------------------------------------------------------


def complete(n: int, arrow: str) -> list[str]:
    return [f"v{a}{arrow}v{b}" for a, b in itertools.combinations(range(n), 2)]


@pytest.mark.parametrize("latents", [0, 30], ids=["observed", "latent"])
@pytest.mark.parametrize("arrow", ["->", "--"])
@pytest.mark.parametrize("n", [60, 250])
def test_dense_graphs_are_refused_with_their_cost(n: int, arrow: str, latents: int) -> None:
    graph = lt.as_graph(complete(n, arrow), {f"v{k}": 2 for k in range(latents)})
    states = {f"v{k}": 2 for k in range(latents, n)}
    tracemalloc.start()
    began = time.process_time()
    with pytest.raises(PlanError, match=r"cells.*[Dd]rop\s+edges"):
        lt.make_plan(graph, states=states)
    seconds = time.process_time() - began
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6
    assert seconds < 20  # 0.1 s on a quiet core, without tracing


@pytest.mark.parametrize("learner", ["pbp", "paper", "spectral", "em", "stepwise"])
def test_no_learner_tries_a_dense_graph(learner: str) -> None:
    data = {f"v{k}": [0, 1] for k in range(30, 60)}
    model = lt.LatentModel(complete(60, "->"), {f"v{k}": 2 for k in range(30)}, learner)
    with pytest.raises(PlanError, match=r"GB|countless|joint states"):
        model.fit(data)


def test_a_child_of_thousands_is_refused_before_they_are_tied() -> None:
    began = time.process_time()
    with pytest.raises(PlanError, match="countless cells in 3001 dimensions"):
        lt.make_plan(
            [(f"x{k}", "y") for k in range(3000)],
            states={**{f"x{k}": 2 for k in range(3000)}, "y": 2},
        )
    assert time.process_time() - began < 10


def test_a_large_grid_is_refused_within_seconds() -> None:
    graph = lt.templates.grid(30, 30, 2)
    began = time.process_time()
    with pytest.raises(PlanError, match="cells"):
        lt.make_plan(graph, states={graph.names[v]: 2 for v in graph.observed})
    assert time.process_time() - began < 30  # 1 s on a quiet core


@pytest.mark.parametrize("root", ["x", 1.5, True])
def test_a_root_that_is_no_number_is_refused(root: Any) -> None:
    with pytest.raises(PlanError, match="root"):
        lt.make_plan("H->a,b,c,d", {"H": 2}, dict.fromkeys("abcd", 2), root=root)


def test_dates_beyond_those_of_python_are_refused() -> None:
    far = pl.Series("a", [10**15]).cast(pl.Datetime("ms"))  # the year 33,658
    frame = pl.DataFrame([far, pl.Series("b", [1]), pl.Series("c", [1])])
    with pytest.raises(lt.errors.DataError, match="'a'"):
        lt.LatentModel("H->a,b,c", {"H": 2}).fit(frame)


@pytest.mark.parametrize("width", [0, -3, 2.5, "x", True])
def test_a_search_without_width_is_refused(width: Any) -> None:
    """Twice nothing is nothing: this one hung."""
    with pytest.raises(PlanError, match="width"):
        lt.make_plan("H->a,b,c", {"H": 2}, dict.fromkeys("abc", 2), width=width)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["star", "chain", "hidden"])
def test_thousands_of_columns_plan_within_bounds(shape: str) -> None:
    n = 1500 if shape == "star" else 2500  # beyond what recursion could reach
    columns = {f"X{k}": 2 for k in range(n)}
    graph: Any = {
        "star": lambda: lt.templates.latent_class(n, 2),
        "chain": lambda: [(f"X{k}", f"X{k + 1}") for k in range(n - 1)],
        "hidden": lambda: lt.templates.hidden_markov(n, 2),
    }[shape]()
    began = time.process_time()
    plan = lt.make_plan(graph, states=columns)
    assert len(plan.leaves) == n
    assert time.process_time() - began < 120  # about 10 s on a quiet core


def test_a_latent_is_asked_for_by_name() -> None:
    rows = {c: np.arange(40) % 2 for c in "abc"}
    model = lt.LatentModel("H->a,b,c", {"H": 2}, lt.EM(restarts=1, max_iter=3, tol=1.0)).fit(rows)
    with pytest.raises(lt.errors.UnknownNameError, match="latent"):
        model.predict_latent(rows, {"H": 1})


def test_columns_that_are_the_same_as_text_are_refused_where_names_are_text() -> None:
    frame = pl.DataFrame({"1": [0, 1] * 20, "b": [0, 1] * 20, "c": [1, 0] * 20}).lazy()
    graph = [("H", 1), ("H", "1"), ("H", "b"), ("H", "c")]
    with pytest.raises(lt.errors.LatentiaError):
        lt.LatentModel(graph, {"H": 2}).fit(frame)


def test_integers_too_large_for_a_column_are_told() -> None:
    rows = {c: [10**30 + k % 2 for k in range(40)] for c in "abc"}
    model = lt.LatentModel("H->a,b,c", {"H": 2}, lt.PBP(refine=False)).fit(rows)
    gaps = pa.table({c: pa.nulls(3, pa.int64()) for c in "abc"})
    with pytest.raises(lt.errors.DataError, match="'a' are integers too large"):
        model.predict(gaps, "a")
    with pytest.raises(lt.errors.DataError, match="'a', 'b', 'c' are integers too large"):
        model.predict(gaps)


def test_an_infinite_state_meets_whole_numbers() -> None:
    """Learned from objects, asked with integers: infinity is a state like another."""
    rows = {c: np.array([1.0, np.inf, 2.0, 1.0] * 10, dtype=object) for c in "abc"}
    kinds = dict.fromkeys("abc", "discrete")
    model = lt.LatentModel("H->a,b,c", {"H": 2}, lt.PBP(refine=False), kinds).fit(rows)
    scores = model.score_samples({c: np.array([1, 2, 2]) for c in "abc"})
    assert np.isfinite(scores).all()


def test_true_is_no_number_of_components() -> None:
    rows = {c: np.linspace(0, 1, 60) for c in "abc"}
    with pytest.raises(lt.errors.DataError, match="mixture to be a whole number"):
        lt.LatentModel("H->a,b,c", {"H": 2}, lt.EM(mixture=True)).fit(rows)
