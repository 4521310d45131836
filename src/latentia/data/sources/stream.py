"""Streams: tables read block by block on this machine; memory is bounded by the blocks.

One thread reads, the others encode and sum; sums are added in the order of the blocks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeVar, final

from latentia.data.rows import Additive
from latentia.data.sources.all_cores import usable_cores
from latentia.data.sources.engine import Answer, Form, add_up, plus
from latentia.data.sources.progress import PassProgress
from latentia.data.sources.table import Table, read_table
from latentia.errors import DataError
from latentia.linear_algebra import one_thread
from latentia.typing import ByName, CellArray, Label, TableLike

Sum = TypeVar("Sum", bound=Additive)

BLOCK_ROWS = 2**17  # rows read at a time

Blocks = Callable[
    [Sequence[Label] | None], Iterator[TableLike]
]  # of frames; columns wanted, None: all
Giving = Callable[[Iterator[ByName[CellArray]], ByName[type]], TableLike]


@final
@dataclass(frozen=True, slots=True)
class Stream:
    """Blocks of rows that can be read again and again."""

    names: tuple[Label, ...]
    blocks: Blocks
    give: Callable[[Stream, Answer, ByName[type], Sequence[Label]], TableLike]
    rows: int | None = None  # where it is known
    threads: int | None = None
    progress: PassProgress = field(default_factory=lambda: PassProgress(None))
    once: bool = False
    local: bool = True
    wraps: bool = False

    def fold(self, work: Callable[[Table], Sum | None], columns: Sequence[Label]) -> Sum | None:
        return fold_blocks(self.tables(columns), work, self.threads, self.progress, self.rows)

    def tables(self, columns: Sequence[Label]) -> Iterator[Table]:
        """The blocks as tables; numpy blocks take the names of the stream."""
        first = 0
        for block in self.blocks(columns):
            table = read_table(block, self.names)
            yield replace(table, first=first)
            first += table.length

    def answer(
        self,
        work: Answer,
        kinds: ByName[type],
        columns: Sequence[Label],
        form: Form = "table",
    ) -> TableLike:
        return self.give(self, work, kinds, columns)


@final
class OneShot:
    """Blocks that can be read once; the first of them, the pilot, are kept until then."""

    local = True
    wraps = False

    def __init__(self, stream: Stream, pilot_rows: int) -> None:
        self.names = stream.names
        self._stream = stream
        self._rest = stream.tables(stream.names)
        self.pilot: list[Table] = []
        self.whole = False
        count = 0
        for table in self._rest:
            self.pilot.append(table)
            count += table.length
            if count >= pilot_rows:
                break
        else:
            self.whole = True  # that was all: it may be read as often as one likes

    @property
    def once(self) -> bool:
        return not self.whole

    def pilot_fold(
        self, work: Callable[[Table], Sum | None], columns: Sequence[Label]
    ) -> Sum | None:
        """Σ over the pilot only."""
        return add_up(work(table) for table in self.pilot)

    def fold(self, work: Callable[[Table], Sum | None], columns: Sequence[Label]) -> Sum | None:
        if not self.whole and self._rest is None:
            raise DataError(
                "these rows can be read only once, and have been. Pass a function that opens them "
                "anew, or write them to a Parquet file and pass its path."
            )
        return fold_blocks(
            self._all(), work, self._stream.threads, self._stream.progress, self._stream.rows
        )

    def _all(self) -> Iterator[Table]:
        kept, rest = self.pilot, self._rest
        if not self.whole:
            self.pilot, self._rest = [], None  # type: ignore[assignment]
        yield from kept
        if not self.whole:
            yield from rest

    def answer(
        self,
        work: Answer,
        kinds: ByName[type],
        columns: Sequence[Label],
        form: Form = "table",
    ) -> TableLike:
        raise DataError("a pilot has been read from these rows. Open them anew to ask about them.")


def fold_blocks(
    tables: Iterator[Table],
    work: Callable[[Table], Sum | None],
    threads: int | None,
    progress: PassProgress,
    rows: int | None,
) -> Sum | None:
    """Σ `work(table)`: this thread reads, a few others work, sums are added in order."""
    many = threads or usable_cores()
    progress.begin(rows)
    total: Sum | None = None
    waiting: deque[tuple[int, Future[Sum | None]]] = deque()
    with one_thread(), ThreadPoolExecutor(many) as pool:
        try:
            for table in tables:
                waiting.append((table.length, pool.submit(work, table)))
                del table
                while len(waiting) > many:  # so that few blocks are in memory at a time
                    length, found = waiting.popleft()
                    total = plus(total, found.result())
                    progress.advance(length)
            for length, found in waiting:
                total = plus(total, found.result())
                progress.advance(length)
        finally:
            for _, found in waiting:
                found.cancel()
    progress.end()
    return total
