"""Work on all cores: threads draw items from one list, and results come in its order."""

from __future__ import annotations

import os
from _thread import start_new_thread
from collections.abc import Callable, Iterator, Sequence
from threading import Condition, local
from typing import Generic, TypeVar, final

from latentia.linear_algebra import one_thread

T = TypeVar("T")
Item = TypeVar("Item")

MANY_CELLS = 2**20  # a millisecond of work, to which a thread adds a tenth
_HERE = local()  # `busy`: this thread works for others, whose cores are all in use


def usable_cores() -> int:
    """Those that this process may use, which in a container may be few of the machine's."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_parallel(
    work: Callable[[Item], T], items: Sequence[Item], threads: int | None = None
) -> Iterator[T]:
    """Results in order, one thread per core; each with BLAS on one thread, which scales better.

    The thread that asks works, too. Work that asks for the same again gets no further threads.
    """
    many = 1 if getattr(_HERE, "busy", False) else min(threads or usable_cores(), len(items))
    if many < 2:
        yield from map(work, items)
        return
    shared = _Shared(work, items)
    with one_thread():
        try:
            for _ in range(many - 1):
                shared.get_help()
            for k in range(len(items)):
                yield shared.result(k)
        finally:
            shared.stop()


def by_column(work: Callable[[Item], T], columns: Sequence[Item], rows: int) -> list[T]:
    """`work` on every column, on all cores where there are so many cells that it pays."""
    many = rows * len(columns) >= MANY_CELLS
    return list(in_parallel(work, columns) if many else map(work, columns))


@final
class _Shared(Generic[Item, T]):
    """Items that threads draw from one after the other, and what was found for them."""

    def __init__(self, work: Callable[[Item], T], items: Sequence[Item]) -> None:
        self.work, self.items = work, items
        self.changed = Condition()
        self.drawn = 0
        self.helping = 0  # threads
        self.found: dict[int, T] = {}
        self.failed: dict[int, BaseException] = {}

    def get_help(self) -> None:
        """One thread more; nobody waits until it is there, as `Thread.start` does."""
        with self.changed:  # the one before may be done already
            self.helping += 1
        start_new_thread(self._help, ())

    def _help(self) -> None:
        while self.work_on_next():
            pass
        with self.changed:
            self.helping -= 1
            self.changed.notify_all()

    def work_on_next(self) -> bool:
        """Work on one item, if one is left."""
        with self.changed:
            k = self.drawn
            if k >= len(self.items):
                return False
            self.drawn += 1
        before, _HERE.busy = getattr(_HERE, "busy", False), True
        try:
            found = self.work(self.items[k])
        except BaseException as error:
            with self.changed:
                self.failed[k] = error
                self.drawn = len(self.items)  # nobody will ask for later ones
                self.changed.notify_all()
        else:
            with self.changed:
                self.found[k] = found
                self.changed.notify_all()
        finally:
            _HERE.busy = before
        return True

    def result(self, k: int) -> T:
        """What was found for item k; until then, work on others."""
        while k not in self.found and k not in self.failed:
            if self.work_on_next():
                continue
            with self.changed:
                self.changed.wait_for(lambda: k in self.found or k in self.failed)
        if k in self.failed:
            raise self.failed[k]
        return self.found.pop(k)

    def stop(self) -> None:
        """Let nobody begin another item, and wait until all have ended theirs."""
        with self.changed:
            self.drawn = len(self.items)
            self.changed.wait_for(lambda: not self.helping)
