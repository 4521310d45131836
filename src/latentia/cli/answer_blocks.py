"""Answers of a model as blocks of columns, whether they are computed lazily or lie in memory."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np

from latentia.cli.screen import Screen
from latentia.typing import CellArray, TableLike

Block: TypeAlias = Mapping[str, CellArray]


@final
@dataclass(frozen=True, slots=True)
class BlockAnswer:
    """Columns by name, block by block; to be read once."""

    names: list[str]
    blocks: Iterator[Block]


def answer_of(names: Sequence[str], found: object) -> BlockAnswer:
    """An answer under these names: an Arrow reader, a frame, or a single column."""
    return BlockAnswer(
        list(names),
        (dict(zip(names, columns, strict=True)) for columns in _columns_of(found)),
    )


def _columns_of(found: TableLike) -> Iterator[list[CellArray]]:
    if hasattr(found, "read_next_batch"):
        for batch in found:
            yield [column.to_numpy(zero_copy_only=False) for column in batch.columns]
    elif isinstance(found, Mapping):
        yield [np.asarray(values) for values in found.values()]
    elif isinstance(found, np.ndarray):
        yield [found]
    else:
        yield [np.asarray(column) for column in getattr(found, "columns", [found])]


def as_states(answer: BlockAnswer, states: Sequence[Hashable]) -> BlockAnswer:
    """States that came as text as they are, where text tells them apart."""
    words = {str(state): state for state in states}
    if len(words) < len(states) or all(isinstance(state, str) for state in states):
        return answer

    def typed(values: CellArray) -> CellArray:
        if values.dtype != object:
            return values
        found = np.empty(len(values), dtype=object)
        found[:] = [words.get(value, value) for value in values.tolist()]
        return found

    blocks = ({name: typed(v) for name, v in block.items()} for block in answer.blocks)
    return BlockAnswer(answer.names, blocks)


def beside(left: BlockAnswer, right: BlockAnswer) -> BlockAnswer:
    """Two answers about the same rows as one."""
    blocks = ({**a, **b} for a, b in zip(left.blocks, right.blocks, strict=True))
    return BlockAnswer([*left.names, *right.names], blocks)


def collected(answer: BlockAnswer) -> dict[str, CellArray]:
    """All blocks as one."""
    blocks = list(answer.blocks)
    return {
        name: np.concatenate([block[name] for block in blocks]) if blocks else np.array([])
        for name in answer.names
    }


def tell_written(screen: Screen, facts: Mapping[str, object], out: str | None) -> None:
    """What is said besides rows that went to a file."""
    if screen.as_json:
        screen.dump({**facts, "out": out})
    elif out is not None and screen.terminal and not screen.quiet:
        screen.show(f"{facts['rows']:,} rows written to {out}")
