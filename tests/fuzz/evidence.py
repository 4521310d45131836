"""Evidence: unknown, impossible, out of range, soft, in intervals; asked of models fitted once."""

from __future__ import annotations

import warnings
from functools import cache
from random import Random
from typing import Any

import numpy as np

import latentia as lt
from latentia.inference.posterior import Posterior
from latentia.inference.posterior_density import Density

from .trial import Finding, check_finite, check_probabilities, check_scores, matrix, rows_of

GRAPH, LATENTS = "H->a,b; H->G; G->c,d; e", {"H": 2, "G": 2}
STATES: dict[str, list[Any]] = {
    "a": ["lo", "hi", "no"],
    "b": [0, 1],
    "c": [("t", 1), ("t", 2.5)],
    "d": [False, True],
    "e": [1, 2, 3],
}
NAN = float("nan")
ODD: list[Any] = [
    None,
    NAN,
    np.nan,
    np.float64("nan"),
    float("inf"),
    -1,
    99,
    2.5,
    "odd",
    "",
    True,
    b"x",
    (),
    [],
    {},
    (1, 2),
    (NAN, 1),
    (None, None),
    (3, 1),
    (0, "x"),
    (1, 2, 3),
    [0.0, 1.0],
    object(),
    10**400,
    np.int64(1),
    np.array(1),
    np.array([1, 0]),
    1e308,
    {"a": 1},
    {1, 2},
]
NAMES: list[Any] = [
    "a",
    "b",
    "c",
    "d",
    "e",
    "u",
    "v",
    "H",
    "G",
    "zz",
    0,
    None,
    NAN,
    ("a", "b"),
    ["a"],
    {},
    "",
]


def discrete_rows(n: int = 120) -> dict[str, Any]:
    rng = np.random.default_rng(5)
    hidden, data = rng.random(n), {}
    for name, states in STATES.items():
        u = np.where(rng.random(n) < 0.7, hidden, rng.random(n))
        data[name] = np.empty(n, dtype=object)
        data[name][:] = [states[int(x * len(states))] for x in u]
        data[name][rng.random(n) < 0.05] = None
    return data


def mixed_rows(n: int = 120) -> dict[str, Any]:
    rng = np.random.default_rng(6)
    h = rng.integers(2, size=n)
    u = np.round(h * 2 + rng.normal(size=n), 4)
    v = np.where(rng.random(n) < 0.2, 0.0, np.exp(h + rng.normal(size=n)))  # an atom, a long tail
    return {
        "a": np.array(["lo", "hi"], dtype=object)[h],
        "b": (h + (rng.random(n) < 0.2)) % 2,
        "u": u,
        "v": v,
    }


@cache
def models() -> list[lt.LatentModel]:
    """Every learner, with and without continuous columns."""
    learners: list[Any] = [
        lt.PBP(refine=False),
        lt.PBP(),
        lt.PBP(regularize=False),
        lt.PBP(refine=True),
        "paper",
        "spectral",
        lt.Spectral(repair=False),
        lt.EM(1, tol=1e-3, random_state=0),
        lt.StepwiseEM(restarts=1, epochs=2, random_state=0),
    ]
    mixed: list[Any] = [
        lt.PBP(refine=False, kernel=lt.KernelSettings()),
        lt.PBP(refine=True, random_state=0),
        lt.EM(1, tol=1e-3, random_state=0),
        lt.PBP.paper(kernel="rbf"),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows, more = discrete_rows(), mixed_rows()
        found = [lt.LatentModel(GRAPH, LATENTS, x, state_names=STATES).fit(rows) for x in learners]
        found += [lt.LatentModel("H->a,b,u,v", {"H": 2}, x).fit(more) for x in mixed]
        one = {"a": [0, 1] * 10}
        found.append(lt.LatentModel("a", learner=lt.PBP(refine=False)).fit(one))  # a lone column
        barred = lt.LatentModel(GRAPH, LATENTS, lt.PBP(refine=False), state_names=STATES)
        found.append(barred.fit(rows, error_bars=True))
        never = {"a": ["lo", "hi"] * 30, "b": [0, 1] * 30}  # never seen together: lo, 1
        found.append(lt.LatentModel("H->a,b", {"H": 2}, lt.EM(1, random_state=0)).fit(never))
    return found


def value(r: Random, name: Any) -> Any:
    if r.random() < 0.12:
        return r.choice(ODD)
    if name in ("u", "v"):
        x = r.choice([0.0, 1.0, -3.0, 7.5, 1e6, -1e300])
        return r.choice([x, (x, x + 1), (None, x), [x, None], (x, x), int(max(min(x, 1e9), -1e9))])
    return r.choice(STATES.get(name, [0, 1]) if isinstance(name, str) else [0])


def soft_value(r: Random, name: Any) -> Any:
    if r.random() < 0.3:
        return r.choice(
            [
                *ODD,
                lambda x: x,
                lambda x: x * NAN,
                lambda x: "no",
                lambda x: 1 / 0,
                {0: -1.0},
                {0: NAN},
                {0: 0.0},
                {0: "x"},
                {"zz": 1.0},
                {},
            ]
        )
    if name in ("u", "v"):
        return r.choice(
            [
                lambda x: np.exp(-x * x),
                lambda x: x > 1,
                lambda x: 1.0,
                lambda x: x[:2],
                lambda x: 0 * x,
            ]
        )
    states = STATES.get(name, [0]) if isinstance(name, str) else [0]
    weights = [0.0, 0.0, 0.5, 1.0, 1e-300, 1e300, -0.1, NAN, float("inf"), 2]
    return {s: r.choice(weights[: r.choice([4, 6, 10])]) for s in states if r.random() < 0.8}


def names(r: Random, model: lt.LatentModel) -> list[Any]:
    known = [c.name for c in model.columns_]
    pool = known if r.random() < 0.93 else NAMES
    return [r.choice(pool) for _ in range(r.choice([1, 1, 1, 2, 3, 0]))]


def keyed(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    return {k: v for k, v in pairs if not isinstance(k, list | dict)}


def question(r: Random, model: lt.LatentModel) -> tuple[Any, Any, Any]:
    asked: Any = names(r, model)
    asked = asked[0] if len(asked) == 1 and r.random() < 0.7 else asked
    given = keyed([(k, value(r, k)) for k in names(r, model) + names(r, model)])
    soft = keyed([(k, soft_value(r, k)) for k in names(r, model)]) if r.random() < 0.3 else {}
    if r.random() < 0.7:  # mostly not what is asked for
        wanted = asked if isinstance(asked, list) else [asked]
        given = {k: v for k, v in given.items() if k not in wanted}
        soft = {k: v for k, v in soft.items() if k not in wanted and k not in given}
    return asked, given or r.choice([None, {}]), soft or None


def check_posterior(found: Posterior | Density) -> None:
    if np.isnan(found.log_evidence) or found.log_evidence == np.inf:
        raise Finding(f"log evidence {found.log_evidence}")
    if isinstance(found, Density):
        check_finite([found.mean, *found.quantile([0.05, 0.5, 0.95])], what="mean and quantiles")
        x = np.linspace(*found.quantile([0.01, 0.99]), 7)
        check_finite(found.pdf(x), what="density")
        if (found.pdf(x) < 0).any() or np.diff(found.quantile([0.05, 0.5, 0.95])).min() < 0:
            raise Finding("a negative density, or quantiles out of order")
    else:
        check_probabilities(np.ravel(found.table), what="posterior")
    repr(found)


def ask(r: Random, model: lt.LatentModel) -> str:
    asked, given, soft = question(r, model)
    if r.random() < 0.2:
        found = model.map_query(asked, given, soft)
        if not np.isfinite(found.log_probability):
            raise Finding(f"most probable assignment of log probability {found.log_probability}")
        return "assignment"
    level = (
        r.choice([0.9, 0.9, 0.5, 0, 1, -1, 2, "x", float("nan"), True])
        if r.random() < 0.15
        else None
    )
    found = model.query(asked, given, soft, level)
    check_posterior(found)
    if level is not None:
        check_bars(found)
    return "posterior"


def check_bars(found: Any) -> None:
    """lower ≤ table ≤ upper, all of them probabilities."""
    low, table, high = (np.asarray(x, dtype=float) for x in (found.lower, found.table, found.upper))
    check_finite([low, high], what="error bars")
    if (low < 0).any() or (high > 1).any() or (low > table).any() or (table > high).any():
        raise Finding(f"error bars {low} … {high} around {table}")


def table(r: Random, model: lt.LatentModel) -> tuple[dict[Any, Any], int]:
    """Rows to be asked about: known columns, odd cells now and then, some columns missing."""
    rows = r.choice([0, 1, 2, 5])
    odd = r.random() < 0.2
    cells: dict[Any, Any] = {}
    for c in model.columns_:
        if r.random() < 0.85:
            x = np.empty(rows, dtype=object)
            pool = [*ODD[:10]] if odd else [None]
            choices = getattr(c, "states", None) or [0.0, 1.5, -2.0, 1e9]
            for k in range(rows):
                x[k] = r.choice(pool) if r.random() < 0.2 else r.choice(list(choices))
            cells[c.name] = x
    if r.random() < 0.1:
        cells[r.choice(["zz", "H", 3])] = np.zeros(rows)
    return cells, rows if cells else 0


def ask_rows(r: Random, model: lt.LatentModel) -> str:
    cells, rows = table(r, model)
    target = r.choice([c.name for c in model.columns_]) if r.random() < 0.9 else r.choice(NAMES)
    what = r.randint(0, 7)
    if what == 0:
        found = model.predict_proba(
            cells, target, dtype=r.choice([None, "float32", "float64", "int8", 3])
        )
        if target is not None:  # without a target: all columns side by side
            check_probabilities(matrix(found), rows)
    elif what == 1:
        check_scores(model.score_samples(cells), rows)
    elif what == 2:
        found = model.predict(cells, target)  # without a target: the table, filled in
        if (rows_of(found) if target is None else len(found)) != rows:
            raise Finding("predict lost rows")
    elif what == 3:
        for name, found in model.marginals(cells).items():
            numbers = matrix(found)
            (check_finite if name in ("u", "v") else check_probabilities)(numbers, rows)
    elif what == 4:
        check_finite(
            matrix(
                model.predict_quantiles(cells, target, r.choice([(0.1, 0.9), 0.5, (), (2,), "x"]))
            )
        )
    elif what == 5:
        if rows_of(model.predict(cells)) != rows:
            raise Finding("filling in lost rows")
    elif what == 6:
        check_probabilities(matrix(model.predict_latent(cells, r.choice(["H", "G", target]))), rows)
    else:
        repr(model.check(cells))
    return "rows"


def case(r: Random) -> str:
    model = r.choice(models())
    if r.random() < 0.3:
        return ask_rows(r, model)
    if r.random() < 0.03:
        n = r.choice([1, 3, 0, -1, 2.5, "x", None])
        if rows_of(model.sample(n, r.choice([0, None, 7]))) != n:
            raise Finding("sample gave another number of rows")
        return "sample"
    return ask(r, model)
