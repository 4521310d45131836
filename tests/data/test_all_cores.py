"""Work on all cores: in order, with the error of the first that fails, no threads too many."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from latentia.data.rows import Rows
from latentia.data.sources import all_cores
from latentia.data.sources.all_cores import by_column, in_parallel
from latentia.data.sources.memory import LocalRows, even_blocks

THREADS = 3


def test_results_come_in_order_from_several_threads() -> None:
    met: set[int] = set()
    together = threading.Barrier(THREADS, timeout=10)  # all of them work at the same time

    def work(k: int) -> int:
        if k < THREADS:
            together.wait()
        met.add(threading.get_ident())
        time.sleep(0.001 * (k % 3))
        return k * k

    assert list(in_parallel(work, range(20), THREADS)) == [k * k for k in range(20)]
    assert len(met) == THREADS
    assert threading.get_ident() in met  # who asks works, too


def test_the_error_is_that_of_the_first_item_that_fails() -> None:
    def work(k: int) -> int:
        time.sleep(0.02 if k == 3 else 0.0)
        if k >= 3:
            raise ValueError(f"item {k}")
        return k

    found = in_parallel(work, range(10), THREADS)
    assert [next(found) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="item 3"):
        next(found)


def test_nobody_works_on_when_nobody_asks_any_more() -> None:
    begun: list[int] = []

    def work(k: int) -> int:
        begun.append(k)
        time.sleep(0.005)
        return k

    found: Iterator[int] = in_parallel(work, range(1000), 2)
    next(found)
    found.close()  # type: ignore[attr-defined]
    count = len(begun)
    time.sleep(0.02)
    assert len(begun) == count < 1000


def test_work_that_asks_for_all_cores_again_gets_its_own_only() -> None:
    def outer(k: int) -> set[int]:
        inner = in_parallel(lambda _: threading.get_ident(), range(4), THREADS)
        return {*inner, threading.get_ident()}

    assert [len(met) for met in in_parallel(outer, range(6), THREADS)] == [1] * 6
    met = set(in_parallel(_slowly, range(8), THREADS))
    assert len(met) > 1  # later work has all of them again


def _slowly(_: int) -> int:
    time.sleep(0.01)
    return threading.get_ident()


def test_columns_are_shared_out_where_cells_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_cores, "usable_cores", lambda: 2)
    assert set(by_column(_slowly, range(6), 10)) == {threading.get_ident()}
    assert len(set(by_column(_slowly, range(6), all_cores.MANY_CELLS))) == 2


@pytest.mark.parametrize("rows", [0, 1, 39, 40, 41, 100, 319, 320, 321, 1000])
def test_blocks_are_all_rows_once(rows: int) -> None:
    blocks = even_blocks(rows, 40)
    assert np.concatenate([np.arange(rows)[b] for b in blocks]).tolist() == list(range(rows))
    assert all(b.stop - b.start <= 40 for b in blocks)
    assert len(blocks) == 1 or all(b.stop > b.start for b in blocks)


def test_sums_do_not_depend_on_the_number_of_threads() -> None:
    values = np.random.default_rng(0).normal(size=1000)
    sums = [
        LocalRows(Rows((values,)), 90, threads).fold(lambda part: float(part.codes[0].sum()))
        for threads in (1, 2, 3)
    ]
    assert sums[0] == sums[1] == sums[2]
    assert sums[0] == pytest.approx(values.sum(), abs=1e-12)
