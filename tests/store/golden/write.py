"""Writes the model files in the archive beside it, and the answers that they gave when written.

They were written once, by version 0.1.0 before its modules moved into packages. Run again only to
add a file of a newer format: those that are there stay as they are.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np

import latentia as lt

HERE = Path(__file__).parent
QUESTIONS: dict[str, Any] = {  # by the columns of a model: method, arguments
    "discrete": [
        ["query", [["a"], {"c": 1}]],
        ["query", [["a", "b"], {"c": 0}]],
        ["query", [["b"], {"a": 1, "c": 0}]],
        ["score_samples", [{"a": [0, 1, 1], "b": [2, 0, 1], "c": [1, 0, 1]}]],
    ],
    "mixed": [
        ["query", [["b"], {"x": 0.5}]],
        ["query", [["b"], {"x": -1.0}]],
        ["predict", [{"b": [0, 1], "x": [None, 0.25]}, "x"]],
        ["score_samples", [{"b": [0, 1, 1], "x": [0.1, -0.7, 2.0]}]],
    ],
    "bars": [["query", [["a"], {"c": 1}, None, 0.9]]],
    "classes": [["predict_log_proba", [{"a": [0, 1, 1], "b": [2, 0, 1], "c": [1, 0, 1]}]]],
}


def discrete(n: int = 300) -> dict[str, Any]:
    """Three columns that lean on one hidden coin."""
    rng = np.random.default_rng(0)
    hidden = rng.integers(2, size=n)
    noisy = {c: np.where(rng.random(n) < 0.8, hidden, rng.integers(2, size=n)) for c in "abc"}
    return {**noisy, "b": noisy["b"] + (rng.random(n) < 0.3)}


def mixed(n: int = 200) -> dict[str, Any]:
    """A column of two states, and a normal one around it."""
    rng = np.random.default_rng(1)
    b = rng.integers(2, size=n)
    return {"b": b, "x": b + 0.5 * rng.standard_normal(n)}


def star(learner: Any, **given: Any) -> Any:
    return lt.LatentModel("H->a,b,c", {"H": 2}, learner).fit(discrete(), **given)


def pair(learner: Any) -> Any:
    return lt.LatentModel("H->b,x", {"H": 2}, learner).fit(mixed())


def alone() -> Any:
    """Columns that tell nothing of each other: the default keeps their marginals."""
    rng = np.random.default_rng(2)
    table = {c: rng.integers(2 + (c == "b"), size=300) for c in "abc"}
    return lt.LatentModel("H->a,b,c", {"H": 2}).fit(table)


def frozen() -> Any:
    return lt.LatentModel("H->a,b,c", {"H": 2}, lt.PBP(refine=False)).freeze(discrete())


def classifier() -> Any:
    table = discrete()
    model = lt.LatentClassifier("H->a,b,c", {"H": 2}, lt.PBP(refine=False))
    return model.fit(table, np.where(table["b"] > 0, "yes", "no"))


MAKERS: Mapping[str, tuple[str, Callable[[], Any]]] = {
    "closed": ("discrete", lambda: star(lt.PBP(refine=False))),
    "refined": ("discrete", lambda: star(lt.PBP(refine=True))),
    "marginal": ("discrete", alone),
    "chosen": ("discrete", lambda: star("pbp")),
    "spectral": ("discrete", lambda: star("spectral")),
    "em": ("discrete", lambda: star(lt.EM(restarts=2, max_iter=20, random_state=0))),
    "bars": ("bars", lambda: star(lt.PBP(refine=False), error_bars=5)),
    "gaussian": ("mixed", lambda: pair(lt.EM(restarts=1, max_iter=20, random_state=0))),
    "embedded": (
        "mixed",
        lambda: pair(lt.PBP(refine=False, kernel=lt.KernelSettings(rank=3), random_state=0)),
    ),
    "frozen": ("discrete", frozen),
    "moments": ("discrete", lambda: frozen().gather(discrete())),
    "classifier": ("classes", classifier),
}


def numbers(answer: Any) -> Any:
    """An answer as JSON holds it, every number exact."""
    if isinstance(answer, lt.Moments):
        return [np.asarray(total).tolist() for total in answer.sums.values()]
    if isinstance(answer, lt.Posterior):
        ends = [end for end in (answer.lower, answer.upper) if end is not None]
        return np.stack([answer.table, *ends]).tolist()
    return np.asarray(answer, dtype=float).tolist()


def table_of(given: Any) -> Any:
    """Columns of JSON as arrays; null is a hole."""
    if isinstance(given, Mapping) and any(isinstance(v, list) for v in given.values()):
        return {
            name: np.array([np.nan if v is None else v for v in values])
            for name, values in given.items()
        }
    return given


def replay(model: Any, questions: Any) -> list[Any]:
    """The answers of a model; sums as they are, a frozen model by what it learns again."""
    if isinstance(model, lt.Moments):
        return [numbers(model)]
    if isinstance(model, lt.FrozenModel):
        model = model.solve(model.gather(discrete()))
    return [numbers(getattr(model, ask)(*map(table_of, given))) for ask, given in questions]


def main() -> None:
    place = HERE / "answers.json"
    known = json.loads(place.read_text(encoding="utf-8")) if place.exists() else {}
    with (
        warnings.catch_warnings(),
        TemporaryDirectory() as folder,
        ZipFile(HERE / "models.zip", "a", ZIP_DEFLATED) as kept,
    ):
        warnings.simplefilter("ignore")
        for name in (name for name in MAKERS if name not in known):
            columns, make = MAKERS[name]
            model, path = make(), Path(folder, name)
            lt.save(model, path)
            kept.write(path, name)
            questions = [] if isinstance(model, lt.Moments) else QUESTIONS[columns]
            known[name] = {"questions": questions, "answers": replay(model, questions)}
    place.write_text(json.dumps(known), encoding="utf-8")


if __name__ == "__main__":
    main()
