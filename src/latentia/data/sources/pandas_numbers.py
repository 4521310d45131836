"""Columns of numbers out of pandas: what narwhals finds, at a tenth of its cost.

A small survey is learned in less time than all its columns take to be read one by one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from latentia.data.columns.values import Values
from latentia.typing import CellArray, Foreign, Label, TableLike

SHORT = 2**14  # rows: to read a column takes longer than to look at it, and to keep it no memory


def library_of(data: TableLike) -> str:
    """The package that a frame's type comes from."""
    return type(data).__module__.split(".")[0]


def is_pandas(data: TableLike) -> bool:
    return library_of(data) == "pandas"


def plain_numbers(frame: TableLike, place: int) -> Values | None:
    """A column of a frame of pandas that is numpy's; None for all others."""
    if not is_pandas(frame):
        return None
    series = frame[frame.columns[place]]
    return number_values(series.to_numpy()) if _is_numeric(series.dtype) else None


def short_matrix(frame: TableLike) -> CellArray | None:
    """All columns of a short frame of pandas at once, if they are numbers of one type."""
    if not is_pandas(frame) or not 0 < len(frame) <= SHORT:
        return None
    types = frame.dtypes.tolist()
    alike = bool(types) and _is_numeric(types[0]) and types.count(types[0]) == len(types)
    return np.asarray(frame.to_numpy()) if alike else None


def _is_numeric(dtype: DTypeLike) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in "iufb" and dtype.itemsize <= 8


def number_values(cells: CellArray) -> Values:
    """Numbers of numpy as cells: NaN is missing."""
    if cells.dtype.kind != "f":
        return Values(cells)
    return float_values(cells.astype(float, copy=False), np.isnan(cells))


def float_values(cells: CellArray, missing: CellArray) -> Values:
    """Floats, some of them missing; infinite ones are left to whoever measures them."""
    return Values(cells, missing if missing.any() else None)


def pandas_times(frame: Foreign, name: Label, values: CellArray) -> Foreign:
    """Times of the type that the frame's own column has; others as they are.

    Days are Python's dates, for pandas has no type for them.
    """
    if values.dtype.kind != "M" and not _has_zone(values):
        return values
    own = frame[name].dtype if name in frame.columns else None
    alike = (getattr(own, "tz", None) is not None) == _has_zone(values)  # not: a column of holes
    if getattr(own, "kind", "") == "M" and alike:
        import pandas as pd

        return pd.Series(values, index=frame.index).astype(own)
    return values.astype(object) if values.dtype == "datetime64[D]" else values


def _has_zone(values: CellArray) -> bool:
    some = next((v for v in values if v is not None), None) if values.dtype == object else None
    return getattr(some, "tzinfo", None) is not None
