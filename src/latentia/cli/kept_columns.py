"""Columns that pass through a question as they are: ids beside predictions, and holes filled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from latentia.cli.answer_blocks import BlockAnswer, answer_of, collected, tell_written
from latentia.cli.screen import Screen
from latentia.cli.writing import give_rows
from latentia.data.sources.files import open_files
from latentia.data.sources.located import TableFile
from latentia.errors import UnknownNameError
from latentia.model.latent_model import LatentModel
from latentia.typing import CellArray, Facts, Label, TableLike


def kept_names(text: str, names: Sequence[Label]) -> list[str]:
    """`id,name`: columns of the table."""
    wanted = [part.strip() for part in text.split(",") if part.strip()]
    for name in wanted:
        if name not in names:
            raise UnknownNameError("column of --keep", name, names)
    return list(dict.fromkeys(wanted))


def filled_rows(model: LatentModel, table: TableFile, unknown: str | None) -> BlockAnswer:
    """The model's columns with their missing cells filled in."""
    more: Facts = {} if unknown is None else {"unknown": unknown}
    found = model.predict(table, **more)
    return answer_of([str(c.name) for c in model.columns_], found)


def with_kept(answer: BlockAnswer, table: TableFile, kept: Sequence[str]) -> BlockAnswer:
    """Columns of the table before those of an answer about its rows, block by block."""
    if not kept:
        return answer
    fresh = [name for name in answer.names if name not in kept]
    return BlockAnswer([*kept, *fresh], _beside(answer, table, kept))


def _beside(
    answer: BlockAnswer, table: TableFile, kept: Sequence[str]
) -> Iterator[dict[str, CellArray]]:
    """Blocks of the table need not be as long as those of the answer."""
    blocks = open_files([table]).tables(list(kept))
    waiting: dict[str, CellArray] = {name: np.empty(0, dtype=object) for name in kept}
    for block in answer.blocks:
        count = len(next(iter(block.values())))
        while len(waiting[kept[0]]) < count:
            more = next(blocks)
            for name in kept:
                cells = _cells(more, name)
                waiting[name] = np.concatenate([waiting[name], cells])
        part = {name: waiting[name][:count] for name in kept}
        waiting = {name: cells[count:] for name, cells in waiting.items()}
        yield {**block, **part}


def _cells(block: TableLike, name: str) -> CellArray:
    """The cells as they are, None where there is nothing."""
    values = block.column(name)
    found = np.empty(block.length, dtype=object)
    found[:] = np.asarray(values.cells).tolist()
    if values.missing is not None:
        found[np.asarray(values.missing, dtype=bool)] = None
    return found


def give_table(screen: Screen, answer: BlockAnswer, out: str | None, facts: Facts) -> None:
    """Rows as asked; with --json and without --out in the document."""
    if out is not None or not screen.as_json:
        give_rows(screen, answer.names, answer.blocks, out)
        tell_written(screen, facts, out)
        return
    screen.dump({**facts, "columns": collected(answer)})
