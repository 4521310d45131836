"""A real cluster of two worker processes: only sums travel, and a lost worker changes nothing."""

import os
import signal
import threading
import time

import numpy as np
import pandas as pd
import pytest

import latentia as lt
from latentia.data.sources import table_rows

distributed = pytest.importorskip("distributed")
dd = pytest.importorskip("dask.dataframe")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # those of a cluster that loses a worker are many
]

GRAPH = "H->a; H->b; H->c; H->d"
PARTS = 12
MANY = 40_000  # rows of a partition


def one_part(number: int, pause: float = 0.0, rows: int = 500) -> pd.DataFrame:
    """Rows of one partition, made on the worker; `pause` makes a pass take its time."""
    time.sleep(pause)
    rng = np.random.default_rng(number)
    h = rng.integers(3, size=rows)
    noise = {c: rng.integers(3, size=rows) for c in "abcd"}
    return pd.DataFrame({c: np.where(rng.random(rows) < 0.7, h, x) for c, x in noise.items()})


def table(pause: float = 0.0, rows: int = 500):
    return dd.from_map(one_part, range(PARTS), pause=pause, rows=rows, meta=one_part(0)[:0])


def new_model(learner=None):
    """By default the closed form: few passes, so that sums weigh little beside the rows."""
    return lt.LatentModel(GRAPH, {"H": 3}, learner=learner or lt.PBP(refine=False))


@pytest.fixture(autouse=True)
def stay(monkeypatch):
    """Small tables would be fetched; here they stay where they are."""
    monkeypatch.setattr(table_rows, "FETCHED_BYTES", 0)


@pytest.fixture(scope="module")
def cluster():
    """One for all tests; that which kills a worker is the last."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as workers,
        distributed.Client(workers) as client,
    ):
        yield client


def assert_equal(found, expected):
    for k, tensor in expected.operators_.tensors.items():
        np.testing.assert_array_equal(found.operators_.tensors[k], tensor)


def test_only_sums_travel(cluster):
    """No partition is read by one worker and summed by another, whoever is idle.

    Dask does not look into our sums and counts some 64 bytes for each; a partition counts whole.
    """
    expected = new_model().fit(pd.concat([one_part(i, rows=MANY) for i in range(PARTS)]))
    found = new_model().fit(table(rows=MANY))
    for k, tensor in expected.operators_.tensors.items():
        np.testing.assert_allclose(found.operators_.tensors[k], tensor, rtol=0, atol=1e-10)
    assert_equal(new_model().fit(table(rows=MANY)), found)  # the same bits again
    seen = cluster.run(
        lambda dask_worker: sum(x["total"] for x in dask_worker.transfer_incoming_log)
    )
    brought = sum(seen.values())
    assert brought < MANY * 4, f"workers exchanged {brought} bytes: rows, not sums"
    answers = found.predict_proba(table(rows=MANY), target="a")
    assert answers.npartitions == PARTS
    np.testing.assert_allclose(answers.sum(axis=1).compute(), 1.0)
    assert len(found.score_samples(table(rows=MANY)).compute()) == MANY * PARTS


def test_refined_and_em_fold_on_the_workers(cluster):
    rows = pd.concat([one_part(i) for i in range(PARTS)])
    for learner in (lt.PBP(refine=True), lt.EM(restarts=1, max_iter=3, random_state=0)):
        found, expected = new_model(learner).fit(table()), new_model(learner).fit(rows)
        for v, cpt in expected.operators_.tables.items():
            np.testing.assert_allclose(found.operators_.tables[v], cpt, rtol=0, atol=1e-9)


def test_a_worker_killed_in_mid_fit(cluster):
    expected = new_model().fit(table())
    workers = cluster.run(os.getpid)
    victim = next(iter(workers.values()))
    done: list[float] = []

    def kill() -> None:
        time.sleep(1.0)
        os.kill(victim, signal.SIGKILL)
        done.append(time.perf_counter())

    killer = threading.Thread(target=kill)
    killer.start()
    found = new_model().fit(table(pause=0.2))  # three passes of 12 x 0.2 s on two workers
    ended = time.perf_counter()
    killer.join()
    assert done, "the worker was not killed"
    assert done[0] < ended, "the fit ended before the worker was killed"
    assert_equal(found, expected)
