"""Learners: all of them, with odd settings, on small models; classifier, sums, parts, check."""

from __future__ import annotations

import os
import tempfile
from random import Random
from typing import Any

import numpy as np

import latentia as lt
from latentia import testing

from .trial import Finding, check_finite, check_probabilities, matrix

ODD: list[Any] = [
    0,
    -1,
    1,
    2,
    2.5,
    None,
    "x",
    float("nan"),
    float("inf"),
    True,
    [],
    (1, 2),
    1e-9,
    "auto",
    "random",
]
KINDS = ["tree", "chain", "latent_class", "inside", "forest", "undirected", "latent_class", "loop"]


def rows(r: Random, continuous: bool) -> tuple[Any, dict[str, Any], int]:
    """A random model's graph, and rows of it: few, with gaps, perhaps a continuous column."""
    rng = np.random.default_rng(r.getrandbits(32))
    graph = testing.random_graph(rng, r.choice(KINDS), observed_limit=500, joint_limit=20_000)
    n = r.choice([1, 2, 5, 20, 60])
    model = testing.random_model(graph, rng)
    drawn = model.sample(n, rng).astype(float)
    data: dict[str, Any] = {name: drawn[:, k].copy() for k, name in enumerate(_columns(graph))}
    for name, x in data.items():
        x[rng.random(n) < r.choice([0.0, 0.0, 0.2])] = np.nan
        if continuous and r.random() < 0.5:
            data[name] = x + rng.normal(size=n)
    return graph, data, n


def _columns(graph: lt.LatentGraph) -> list[Any]:
    return [graph.names[v] for v in graph.observed]


def plain(graph: lt.LatentGraph) -> lt.LatentGraph:
    """The graph without the numbers of states of its columns: data tell these."""
    states = tuple(s if v in graph.latent else None for v, s in enumerate(graph.states))
    return lt.LatentGraph(graph.names, graph.edges, graph.latent, states, graph.directed)


KNOWN: list[Any] = [
    {"H0": [0.5, 0.5]},
    {"H0": [[0.5, 0.5], [0.5, 0.5]]},
    {"X0": [[1, 0], [0, 1]]},
    {"X0": np.zeros((2, 2))},
    {"H0": [float("nan"), 0.2]},
    {"H0": [0.9, 0.9]},
    {"H0": [-1, 2]},
    {"zz": [1]},
    {"H0": "x"},
    "x",
    {},
    {"H0": np.full((2, 2), np.nan)},
]
TIED: list[Any] = [
    [["X0", "X1"]],
    [["H0", "H1"]],
    [["X0"]],
    [["X0", "X0"]],
    ["X0"],
    [[]],
    5,
    [["zz", "X0"]],
]
PSEUDO: list[Any] = [
    {"X0": 1.0},
    {"H0": 0.5, "X1": 2},
    {"zz": 1},
    {"X0": -1},
    {"X0": "x"},
    {"X0": [[1, 1], [1, 1]]},
]


def settings(r: Random, made: Any) -> Any:
    """One setting, perhaps absurd; now and then something said to be known."""
    if r.random() < 0.1 and "known" in made.get_params(deep=False):
        name, pool = r.choice([("known", KNOWN), ("tied", TIED), ("smoothing", PSEUDO)])
        return made.set_params(**{name: r.choice(pool)})
    if r.random() < 0.4:
        known = [k for k in made.get_params(deep=False) if k not in ("n_jobs", "verbose", "stage1")]
        made.set_params(**{r.choice(known): r.choice(ODD)})
    return made


def make(r: Random) -> Any:
    return settings(
        r,
        r.choice(
            [
                lambda: lt.PBP(refine=False),
                lambda: lt.PBP(refine=False),
                lambda: lt.PBP(),
                lambda: lt.PBP(refine=True),
                lambda: lt.PBP.paper(),
                lambda: lt.Spectral(),
                lambda: lt.Spectral(repair=False),
                lambda: lt.EM(1, max_iter=5, random_state=0),
                lambda: lt.StepwiseEM(restarts=1, epochs=1, random_state=0),
            ]
        )(),
    )


def ask(r: Random, model: lt.LatentModel, data: dict[str, Any], n: int) -> None:
    column = r.choice(model.columns_)
    if hasattr(column, "states"):
        check_probabilities(matrix(model.predict_proba(data, column.name)), n)
    else:
        check_finite(matrix(model.predict_quantiles(data, column.name)), n)
    check_finite(model.score_samples(data), n, "scores")
    told = model.operators_.plan.graph
    if model.operators_.tables and told.latent:
        latent = told.names[r.choice(sorted(told.latent))]
        check_probabilities(matrix(model.predict_latent(data, latent)), n)
    if r.random() < 0.2:
        repr(model.check(data))
    if r.random() < 0.1 and model.operators_.tables:
        check_finite([model.bic(data), model.aic(data)], what="bic and aic")
    if r.random() < 0.1:
        drawn = model.sample(3, 0)
        if any(len(x) != 3 for x in drawn.values()):
            raise Finding("sample gave another number of rows")
    if r.random() < 0.1:
        kept(model, data)


def kept(model: lt.LatentModel, data: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.latentia")
        model.save(path)
        if not np.array_equal(lt.load(path).score_samples(data), model.score_samples(data)):
            raise Finding("a model that was stored and read scores otherwise")


def classify(r: Random, graph: Any, data: dict[str, Any], n: int) -> str:
    y: Any = [r.choice([0, 1]) for _ in range(n)]
    if r.random() < 0.3:
        y = r.choice(
            [
                [0] * n,
                ["a"] * n,
                None,
                [float("nan")] * n,
                [0.5] * n,
                y[:-1],
                [[v] for v in y],
                [None] * n,
                list(range(n)),
                [(1, 2)] * n,
                [True] * n,
                [1, "a"] * n,
                5,
            ]
        )
    priors = r.choice(
        [
            None,
            None,
            None,
            [0.5, 0.5],
            {0: 0.1, 1: 0.9},
            {0: 1.0},
            [1, 1],
            "x",
            [float("nan")] * 2,
            5,
        ]
    )
    model = lt.LatentClassifier(
        r.choice([None, graph]),
        learner=lt.PBP(refine=False),
        priors=priors,
        calibrate=r.random() < 0.05,
    ).fit(data, y)
    check_probabilities(model.predict_proba(data), n)
    if len(model.predict(data)) != n:
        raise Finding("the classifier lost rows")
    return "classified"


def in_parts(r: Random, graph: Any, data: dict[str, Any], n: int) -> str:
    learner = r.choice(
        [
            lt.PBP(refine=False),
            lt.PBP(),
            "paper",
            "spectral",
            "em",
            lt.StepwiseEM(restarts=1, epochs=1, random_state=0),
        ]
    )
    model = lt.LatentModel(graph, learner=learner)
    cut = r.randint(0, n)
    first, second = ({k: v[s] for k, v in data.items()} for s in (slice(cut), slice(cut, None)))
    if r.random() < 0.5:
        frozen = model.freeze(first)
        sums = frozen.gather(second) + frozen.gather(first)
        if sums.weight != n:
            raise Finding(f"{n} rows came, sums of {sums.weight} went")
        model = frozen.solve(sums)
    elif not hasattr(model, "partial_fit"):  # as scikit-learn has it
        return "no parts"
    else:
        model.partial_fit(first)
        model.partial_fit(second)
    ask(r, model, data, n)
    return "in parts"


def case(r: Random) -> str:
    graph, data, n = rows(r, continuous=r.random() < 0.15)
    graph = plain(graph)
    way = r.random()
    if way < 0.15:
        return classify(r, graph, data, n)
    if way < 0.3:
        return in_parts(r, graph, data, n)
    model = lt.LatentModel(graph, learner=make(r))
    if r.random() < 0.1:
        model.fit(data, error_bars=r.choice([True, True, 3, 0, -1, "x", 1000]))
    else:
        model.fit(data)
    ask(r, model, data, n)
    return "learned"
