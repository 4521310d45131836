"""Fitted models asked from many threads at once, and results that do not depend on n_jobs."""

import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import latentia as lt
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.linear_algebra import one_thread
from latentia.model.latent_questions import _kept

LEARNERS: dict[str, Any] = {
    "closed": lt.PBP(refine=False),
    "default": lt.PBP(),
    "refined": lt.PBP(refine=True),
    "paper": "paper",
    "spectral": "spectral",
    "em": lt.EM(2, random_state=0, tol=1e-3),
    "stepwise": lt.StepwiseEM(restarts=2, epochs=2, random_state=0),
}
GRAPH, LATENTS = "H->a,b,c; H->G; G->d,e,f", {"H": 2, "G": 3}


def rows(n: int, continuous: bool = False) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    h = rng.integers(3, size=n)
    data: dict[str, Any] = {
        c: np.where(rng.random(n) < 0.7, h, rng.integers(3, size=n)) for c in "abcdef"
    }
    if continuous:
        data["f"] = h + rng.normal(size=n)
    gaps = {c: x.astype(float) for c, x in data.items()}
    for x in gaps.values():
        x[rng.random(n) < 0.05] = np.nan
    return gaps


def fitted(learner: Any, data: dict[str, Any]) -> lt.LatentModel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lt.LatentModel(GRAPH, LATENTS, learner).fit(data)


def questions(model: lt.LatentModel, data: dict[str, Any]) -> list[Callable[[], Any]]:
    """A few of everything; each question gives an array or what prints the same."""
    found: list[Callable[[], Any]] = [
        lambda: model.predict_proba(data, "a")[1],
        lambda: model.score_samples(data),
        lambda: model.predict(data, "d"),
        lambda: repr(model.map_query(["b", "c", "d"], {"a": 1})),
        lambda: np.concatenate(
            [np.ravel(list(v.values())) for v in model.marginals(data).values()]
        ),
        lambda: np.asarray(model.query(["b", "d"], {"a": 0}).table),
        lambda: repr(model.check(data)),
    ]
    for state in range(3):
        found.append(
            lambda s=state: np.asarray(model.query("a", {"b": s, "e": 1}, {"c": {0: 0.2, 1: 0.8}}))
        )
    if model.operators_.tables:
        graph = model.operators_.plan.graph
        latent = graph.names[min(graph.latent)]
        found.append(lambda: np.array(list(model.predict_latent(data, latent).values())))
    return found


MIXED = {"embedded": lt.PBP(refine=False, kernel=lt.KernelSettings()), "gaussian": LEARNERS["em"]}


@pytest.mark.parametrize("name", [*LEARNERS, *MIXED])
def test_eight_threads_get_the_answers_of_one(name: str) -> None:
    data = rows(200, continuous=name in MIXED)
    asked = questions(fitted({**LEARNERS, **MIXED}[name], data), data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)  # switch often: what can race should
        try:
            with ThreadPoolExecutor(8) as pool:  # first, while no cache is warm
                answers = list(pool.map(lambda ask: ask(), asked * 3))
        finally:
            sys.setswitchinterval(before)
        alone = [ask() for ask in asked]
    for one, other in zip(alone * 3, answers, strict=True):
        assert np.array_equal(one, other)


def test_what_is_kept_of_several_models_can_be_asked_for_while_others_are_added() -> None:
    """More models than are kept: one thread looks through them while another appends."""
    asked = [object() for _ in range(9)]

    def ask(turn: int) -> bool:
        one = asked[turn % len(asked)]
        return _kept(lambda each: each, one) is one

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(ask, range(20_000)))
    finally:
        sys.setswitchinterval(before)


def blas() -> list[int]:
    """Threads of the libraries of matrix products."""
    return [p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"]


class Watched(lt.PBP):
    """The default, and how many threads multiply while it learns."""

    seen: ClassVar[list[set[int]]] = []

    def learn_with_latents(self, plan: Any, source: Any) -> Any:
        self.seen.append(set(blas()))
        return super().learn_with_latents(plan, source)


@pytest.mark.parametrize(("states", "threads"), [(3, 1), (60, 2)])
def test_products_of_narrow_tables_take_one_thread(states: int, threads: int) -> None:
    """A second one would only be waited for: fits took twice the processor time on two cores."""
    rng = np.random.default_rng(0)
    rows = {name: rng.integers(states, size=300).astype(str) for name in "abcde"}
    with threadpool_limits(2, user_api="blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        at_first = blas()
        lt.LatentModel("H -> a, b, c, d, e", {"H": 2}, learner=Watched()).fit(rows)
        assert blas() == at_first
    assert Watched.seen.pop() <= {threads}


def test_learners_that_are_asked_themselves_multiply_on_one_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen, plain = set[int](), LocalRows.fold

    def looked(source: LocalRows, summary: Any) -> Any:
        seen.update(blas())
        return plain(source, summary)

    monkeypatch.setattr(LocalRows, "fold", looked)
    rng = np.random.default_rng(0)
    plan = lt.make_plan(lt.as_graph("h->a,b,c", {"h": 2}).with_states(dict.fromkeys("abc", 3)))
    with threadpool_limits(2, user_api="blas"):
        before = blas()
        rows = Rows(tuple(rng.integers(3, size=400) for _ in "abc"))
        lt.PBP(refine=False).learn(plan, LocalRows(rows))
        assert blas() == before
    assert seen == {1}


def test_the_limit_on_blas_threads_is_lifted_by_the_last_to_leave() -> None:
    def stay(seconds: float) -> None:
        with one_thread():
            time.sleep(seconds)

    with threadpool_limits(2, user_api="blas"):
        at_first = blas()
        with one_thread():
            assert set(blas()) <= {1}
            with one_thread():
                pass
            assert set(blas()) <= {1}
        with ThreadPoolExecutor(8) as pool:  # the first to come is not the last to leave
            list(pool.map(stay, [0.01, 0.05, 0.02, 0.03, 0.005, 0.04, 0.001, 0.02] * 2))
        assert blas() == at_first


# -- n_jobs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda jobs: lt.EM(4, max_iter=20, random_state=7, n_jobs=jobs),
        lambda jobs: lt.EM(3, max_iter=20, random_state=np.random.default_rng(7), n_jobs=jobs),
        lambda jobs: lt.StepwiseEM(restarts=3, epochs=2, random_state=7, n_jobs=jobs),
    ],
    ids=["em", "em-generator", "stepwise"],
)
def test_models_do_not_depend_on_jobs(make: Callable[[Any], Any]) -> None:
    data = rows(200)
    one, two, all_ = (fitted(make(jobs), data) for jobs in (None, 2, -1))
    for name, table in one.cpts_.items():
        assert np.array_equal(table, two.cpts_[name])
        assert np.array_equal(table, all_.cpts_[name])
    assert np.array_equal(one.score_samples(data), two.score_samples(data))


@pytest.mark.parametrize("name", ["closed", "default", "refined"])
def test_fits_from_several_threads_are_those_from_one(name: str) -> None:
    data = rows(400)
    with warnings.catch_warnings(), ThreadPoolExecutor(4) as pool:
        warnings.simplefilter("ignore")
        alone = fitted(LEARNERS[name], data).score_samples(data)
        fits = pool.map(
            lambda _: lt.LatentModel(GRAPH, LATENTS, LEARNERS[name]).fit(data), range(4)
        )
        assert all(np.array_equal(model.score_samples(data), alone) for model in fits)


def test_classifiers_do_not_depend_on_jobs() -> None:
    data = rows(240)
    y = np.nan_to_num(data.pop("a")).astype(int)
    one, two = (
        lt.LatentClassifier(learner=lt.PBP(random_state=1), n_jobs=jobs)
        .fit(data, y)
        .predict_proba(data)
        for jobs in (None, 2)
    )
    assert np.array_equal(one, two)


def test_learning_block_by_block_does_not_depend_on_threads() -> None:

    rng = np.random.default_rng(0)
    codes = tuple(rng.integers(3, size=5000).astype(np.int8) for _ in range(4))
    plan = lt.make_plan("H->a,b,c,d", {"H": 2}, dict.fromkeys("abcd", 3))
    found = [
        lt.PBP(refine=False).learn(plan, LocalRows(Rows(codes), block_rows=512, threads=threads))
        for threads in (1, 2, 8)
    ]
    for other in found[1:]:
        assert all(np.array_equal(found[0].tensors[k], t) for k, t in other.tensors.items())
