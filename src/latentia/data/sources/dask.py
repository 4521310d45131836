"""Dask data frames: each partition is summed on its worker, and sums are added as a tree.

The tree is fixed by the order of the partitions, so that results do not depend on the workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, final

from dask.callbacks import Callback
from dask.delayed import delayed

from latentia.data.rows import Additive
from latentia.data.sources.engine import Answer, Form, add_up
from latentia.data.sources.handing_back import ToldOnce
from latentia.data.sources.progress import PassProgress
from latentia.data.sources.table import Table, part_of_table
from latentia.errors import FrameError
from latentia.typing import ByName, Foreign, Label, TableLike

Sum = TypeVar("Sum", bound=Additive)

BRANCHES = 8  # sums that are added by one task


@final
@dataclass(frozen=True, slots=True)
class DaskEngine:
    """A dask DataFrame."""

    frame: Foreign
    progress: PassProgress = field(default_factory=lambda: PassProgress(None))
    once: bool = False
    local: bool = False
    wraps: bool = False

    @property
    def names(self) -> tuple[Label, ...]:
        return tuple(self.frame.columns)

    def fold(self, work: Callable[[Table], Sum | None], columns: Sequence[Label]) -> Sum | None:
        wanted = self.frame[list(columns)]
        # the work is sent once, not with every task
        shared = delayed(work, pure=False, traverse=False)
        # read and summed by one task: as two, the second may be given to another worker, and then
        # a partition travels
        sums = wanted.map_partitions(
            _on_partition, shared, meta=wanted._meta, enforce_metadata=False
        ).to_delayed()
        while len(sums) > 1:
            groups = [sums[i : i + BRANCHES] for i in range(0, len(sums), BRANCHES)]
            sums = [delayed(add_up, pure=True)(group) for group in groups]
        tell = self.progress.sharing_pass()
        done: Foreign = Callback  # dask has no types
        with done(posttask=lambda key, value, dask, state, worker: tell(_share(state))):
            found: Sum | None = sums[0].compute()
        tell(1.0)  # what workers elsewhere have done is known at the end only
        return found

    def answer(
        self,
        work: Answer,
        kinds: ByName[type],
        columns: Sequence[Label],
        form: Form = "table",
    ) -> TableLike:
        wanted = self.frame[list(columns)]
        meta = _answered(wanted._meta, work)
        found = wanted.map_partitions(_answered, ToldOnce(work), meta=meta)
        return found if form == "table" else found[next(iter(kinds))]


def _share(state: Mapping[str, Foreign]) -> float:
    """Of the tasks of a graph: those that are done."""
    left = sum(len(state[kind]) for kind in ("waiting", "ready", "running"))
    done = len(state["finished"])
    return min(done / max(done + left, 1), 0.999)


def _on_partition(part: TableLike, work: Callable[[Table], Sum | None]) -> Sum | None:
    return work(part_of_table(part))


def _answered(part: TableLike, work: Answer) -> TableLike:
    table = part_of_table(part)
    return table.like(work(table))


def open_dask(data: Foreign, progress: PassProgress) -> DaskEngine:
    """The engine of a dask DataFrame; arrays and bags have no named columns."""
    if not hasattr(data, "columns") or not hasattr(data, "to_delayed"):
        raise FrameError(
            f"expected a dask DataFrame, got {type(data).__name__}. Make one with named columns."
        )
    return DaskEngine(data, progress)
