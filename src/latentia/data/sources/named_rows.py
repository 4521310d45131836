"""Rows that name their cells: numpy's structured arrays, and lists of dicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from latentia.errors import DataError
from latentia.typing import Cell, CellArray, TableLike


def columns_of_rows(rows: CellArray | Sequence[Cell]) -> TableLike:
    """Such rows as a dict of columns, cells that a row does not name being missing; others as is.

    >>> columns_of_rows([{"a": 1, "b": 2}, {"a": 3}])
    {'a': [1, 3], 'b': [2, None]}
    """
    if isinstance(rows, np.ndarray):
        return _of_structured(rows)
    if not rows or not all(isinstance(row, Mapping) for row in rows):
        return rows
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _of_structured(rows: CellArray) -> TableLike:
    if rows.ndim != 1:
        raise DataError(
            f"expected a structured array of one dimension, a row for each item, got "
            f"{rows.ndim}. Pass array.ravel()."
        )
    return {name: rows[name] for name in rows.dtype.names or ()}
