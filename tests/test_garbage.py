"""The collector of garbage is left as it was found."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

import latentia as lt
from latentia.errors import PlanError
from latentia.garbage import uncollected


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_the_last_to_leave_lets_it_go_on() -> None:
    first, second = uncollected(), uncollected()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)  # not the one that came last: another thread's
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_who_stopped_it_before_finds_it_so() -> None:
    gc.disable()
    with uncollected(), uncollected():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_plans_stop_it_for_a_while_only() -> None:
    lt.make_plan("H->X; H->Y; H->Z", {"H": 2}, {"X": 3, "Y": 3, "Z": 3})
    assert gc.isenabled()
    wide = {f"X{i}": 30 for i in range(8)}
    causes = {f"H{i}": 9 for i in range(9)}
    with pytest.raises(PlanError):
        lt.make_plan(";".join(f"{h}->{x}" for x in wide for h in causes), causes, wide)
    assert gc.isenabled()
