"""Answers in the user's terms: tables like those that were asked about."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from latentia.data.sources.table import Table
from latentia.typing import ByName, Cell, CellArray, Label, TableLike


def like_tables(tables: Sequence[Table], columns: ByName[Cell], blocks: bool) -> TableLike:
    """Columns over all rows as frames of the kind that came: one, or one for each block."""
    if not blocks and len(tables) == 1:
        return tables[0].like(columns)
    if not blocks:
        return dict(columns)  # of files and streams: arrays, in the order of their rows
    found, start = [], 0
    for table in tables:
        stop = start + table.length
        found.append(table.like({name: x[start:stop] for name, x in columns.items()}))
        start = stop
    return found


def like_column(tables: Sequence[Table], name: Label, values: CellArray, blocks: bool) -> TableLike:
    """The same of a single column."""
    if not blocks and len(tables) == 1:
        return tables[0].like_column(values, name)
    if not blocks:
        return values
    found, start = [], 0
    for table in tables:
        stop = start + table.length
        found.append(table.like_column(values[start:stop], name))
        start = stop
    return found


def new_table(tables: Sequence[Table], columns: ByName[Cell]) -> TableLike:
    """A frame of the same kind with other rows; numpy, dict and files: a dict of arrays."""
    table = tables[0] if tables else None
    if table is None or table.frame is None:
        return dict(columns)
    if type(table.native).__module__.split(".")[0] == "pandas":
        return type(table.native)(dict(columns))
    import narwhals.stable.v2 as nw

    backend = nw.get_native_namespace(table.native)
    named = {str(name): np.asarray(x).tolist() for name, x in columns.items()}
    return nw.from_dict(named, backend=backend).to_native()


def repeated_labels(labels: tuple[Cell, ...], count: int) -> CellArray:
    """Every label so many times; whole numbers and text as such."""
    found = np.empty(len(labels), dtype=object)
    found[:] = labels
    kinds = {type(label) for label in labels}
    return np.repeat(np.array(labels) if kinds in ({int}, {str}) else found, count)
