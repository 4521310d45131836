"""Spark data frames: each partition is summed by its task; only sums come to the driver.

Sums are added in the order of the partitions, in groups on the workers where there are many.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TypeVar, final

from pyspark import TaskContext

from latentia.data.rows import Additive
from latentia.data.sources.engine import Answer, Form, add_up, plus
from latentia.data.sources.handing_back import ToldOnce, arrow_batch, arrow_schema
from latentia.data.sources.progress import PassProgress
from latentia.data.sources.table import Table, part_of_table
from latentia.errors import FrameError, LatentiaError
from latentia.typing import ByName, Foreign, Label, TableLike

Sum = TypeVar("Sum", bound=Additive)

BRANCHES = 64  # sums that are added by one task
SCHEMA = "part long, total binary"
NAMES: dict[type, str] = {
    float: "double",
    int: "bigint",
    bool: "boolean",
    date: "date",
    datetime: "timestamp_ntz",
}


@final
@dataclass(frozen=True, slots=True)
class SparkEngine:
    """A Spark DataFrame."""

    frame: Foreign
    progress: PassProgress = field(default_factory=lambda: PassProgress(None))
    once: bool = False
    local: bool = False
    wraps: bool = True

    @property
    def names(self) -> tuple[Label, ...]:
        return tuple(self.frame.columns)

    def fold(self, work: Callable[[Table], Sum | None], columns: Sequence[Label]) -> Sum | None:
        tell = self.progress.sharing_pass()  # Spark shows its stages itself; here, what is done
        sums = self._selected(columns).mapInArrow(_partition_sums(work), SCHEMA)
        if self.partitions > BRANCHES:
            by_group = sums.groupBy((sums["part"] / BRANCHES).cast("long"))
            sums = by_group.applyInPandas(_group_sum, SCHEMA)
        rows = sorted((row["part"], row["total"]) for row in sums.collect())
        tell(1.0)
        # within the cluster, where these bytes were made a moment ago
        return add_up(map(_loaded, (total for _, total in rows)))

    @property
    def partitions(self) -> int:
        try:
            return int(self.frame.rdd.getNumPartitions())
        except Exception:  # Spark Connect has no rdd and tells so in many ways
            return 1

    def answer(
        self,
        work: Answer,
        kinds: ByName[type],
        columns: Sequence[Label],
        form: Form = "table",
    ) -> TableLike:
        told = {name: kind if kind in NAMES else str for name, kind in kinds.items()}
        fields = [f"{_quoted(name)} {NAMES.get(kind, 'string')}" for name, kind in told.items()]
        run = _partition_answers(work, told)
        return self._selected(columns).mapInArrow(run, ", ".join(fields))

    def _selected(self, columns: Sequence[Label]) -> Foreign:
        return self.frame.select(*[_quoted(c) for c in columns])


def _loaded(total: bytes) -> Foreign:
    """The sum of a partition; the error that it ended with is raised here."""
    found = pickle.loads(total)
    if isinstance(found, LatentiaError):
        raise found
    return found


def _quoted(name: Label) -> str:
    return "`" + str(name).replace("`", "``") + "`"


def _group_sum(sums: Foreign) -> Foreign:
    """The sums of neighbouring partitions as one, in their order."""
    ordered = sums.sort_values("part")
    try:
        total = add_up(map(_loaded, ordered["total"]))
    except LatentiaError as error:
        total = error
    return type(sums)({"part": ordered["part"][:1].to_list(), "total": [pickle.dumps(total)]})


def _partition_sums(
    work: Callable[[Table], Sum | None],
) -> Callable[[Iterator[TableLike]], Iterator[TableLike]]:
    def run(batches: Iterator[TableLike]) -> Iterator[TableLike]:
        import pyarrow as pa

        total: Sum | None = None
        failed: LatentiaError | None = None
        try:
            for batch in batches:
                if batch.num_rows:
                    total = plus(total, work(part_of_table(pa.Table.from_batches([batch]))))
        except LatentiaError as error:  # Spark would wrap it into one of its own
            failed = error
        if failed is not None or total is not None:
            context = TaskContext.get()
            part = 0 if context is None else context.partitionId()
            arrays = [
                pa.array([part], pa.int64()),
                pa.array([pickle.dumps(failed or total)], pa.binary()),
            ]
            yield pa.RecordBatch.from_arrays(arrays, ["part", "total"])

    return run


def _partition_answers(
    work: Answer, kinds: ByName[type]
) -> Callable[[Iterator[TableLike]], Iterator[TableLike]]:
    def run(batches: Iterator[TableLike]) -> Iterator[TableLike]:
        import pyarrow as pa

        schema, once = arrow_schema(kinds), ToldOnce(work)
        for batch in batches:
            if batch.num_rows:
                yield arrow_batch(once(part_of_table(pa.Table.from_batches([batch]))), schema)

    return run


def open_spark(data: Foreign, progress: PassProgress) -> SparkEngine:
    """The engine of a Spark DataFrame."""
    if not hasattr(data, "mapInArrow"):
        raise FrameError(
            f"expected a Spark DataFrame of Spark 3.3 or newer, got {type(data).__name__}."
        )
    return SparkEngine(data, progress)
