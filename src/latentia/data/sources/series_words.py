"""Text and categories of data frames as words and codes, by the libraries that hold them.

Dictionaries and categories are codes already and are taken as they are; text is encoded by the
library of the frame. No cell becomes an object of Python, only the words do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from latentia.data.columns.values import Words, as_objects, code_type, is_missing
from latentia.typing import Cell, CellArray, Foreign, Label

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

POOL = b"_PL_CATEGORICAL"  # how polars marks its categoricals in Arrow's metadata …
FIRST_CELLS = 2**14  # of a column of text, which are looked at for words
MET = b"latentia: words as they were met"  # … and we the text of CSV files


def series_words(series: nw.Series[Foreign]) -> Words | None:
    """Words of a column of text or categories; None: it holds something else."""
    native = series.to_native()
    match type(native).__module__.split(".")[0]:
        case "pandas":
            return _pandas_words(native)
        case "polars":
            return _polars_words(native, series.dtype)
        case "pyarrow":
            return arrow_words(native)
    return None


def _words(values: list[Cell], codes: CellArray) -> Words:
    return Words(as_objects(values), codes.astype(code_type(len(values)), copy=False))


def _pandas_words(native: Foreign) -> Words | None:
    import pandas as pd

    if isinstance(native.dtype, pd.CategoricalDtype):
        return _words(native.cat.categories.tolist(), native.cat.codes.to_numpy())
    if hasattr(native.dtype, "pyarrow_dtype"):
        return arrow_words(native.array.__arrow_array__())
    if native.dtype == object:  # pandas would take 1 and True, among objects, for one
        if pd.api.types.infer_dtype(native, skipna=True) != "string":
            return None
    elif not pd.api.types.is_string_dtype(native.dtype):
        return None
    codes, values = native.factorize()
    return _words(values.tolist(), codes)


def _polars_words(native: Foreign, dtype: Foreign) -> Words | None:
    """An enum of the text that is met; of the pool that categories share, those that are met."""
    import narwhals.stable.v2 as nw
    import polars as pl

    if dtype == nw.String:
        values, coded = _polars_enum(native)
        return _words(values, _physical(coded))
    if isinstance(dtype, nw.Enum):
        return _words(list(dtype.categories), _physical(native))
    if dtype != nw.Categorical:
        return None
    met = native.drop_nulls().unique()
    pool, codes = _physical(met), _physical(native)
    place = np.full(int(pool.max(initial=0)) + 1, -1)
    place[pool] = np.arange(len(pool))
    found = np.where(codes < 0, -1, place[codes])  # -1 picks the last place, whatever it holds
    return _words(met.cast(pl.String).to_list(), found)


def _polars_enum(native: Foreign) -> tuple[list[str], Foreign]:
    """Text as an enum of the words that are met.

    The first cells tell the words of most columns; where others come later, all cells are asked.
    """
    import polars as pl

    words = native.head(FIRST_CELLS).drop_nulls().unique()
    coded = native.cast(pl.Enum(words), strict=False)
    if coded.null_count() > native.null_count():
        words = native.drop_nulls().unique()
        coded = native.cast(pl.Enum(words))
    return words.to_list(), coded


def _physical(native: Foreign) -> NDArray[np.int64]:
    """The codes that polars keeps, -1 where missing."""
    if not native.null_count():
        codes: CellArray = native.to_physical().to_numpy()
        return codes.astype(np.int64)
    codes = native.to_physical().fill_null(0).to_numpy().astype(np.int64)
    return np.where(native.is_null().to_numpy(), -1, codes)


def arrow_words(column: Foreign) -> Words | None:
    """Words of an Arrow column; chunks with dictionaries of their own add theirs."""
    import pyarrow as pa

    kind = column.type
    if not pa.types.is_dictionary(kind):
        names = ("is_string", "is_large_string", "is_string_view")  # the last is young
        if not any(hasattr(pa.types, name) and getattr(pa.types, name)(kind) for name in names):
            return None
        try:
            column = column.dictionary_encode()
        except pa.ArrowNotImplementedError:  # views, once
            return None
    values: list[Cell] = []
    parts: list[CellArray] = [np.zeros(0, dtype=np.int64)]
    last, start = None, 0
    for chunk in [column] if isinstance(column, pa.Array) else column.chunks:
        own, codes = _used(chunk)
        if last is None or not own.equals(last):
            last, start = own, len(values)
            values += own.to_pylist()
        parts.append(np.where(codes < 0, -1, codes + start))
    return _words(values, np.concatenate(parts))


def series_categories(series: nw.Series[Foreign]) -> tuple[Cell, ...] | None:
    """Declared states: categories of pandas, enums of polars and DuckDB, dictionaries of Arrow.

    Other categoricals of polars share one pool of what was met, which declares nothing.
    """
    import narwhals.stable.v2 as nw

    native = series.to_native()
    match type(native).__module__.split(".")[0]:
        case "pyarrow":
            return _arrow_categories(native)
        case "pandas" if hasattr(native.dtype, "pyarrow_dtype"):
            return _arrow_categories(native.array.__arrow_array__())
        case "pandas" if hasattr(native, "cat"):
            return tuple(native.cat.categories.tolist())
    return tuple(series.dtype.categories) if isinstance(series.dtype, nw.Enum) else None


def _arrow_categories(column: Foreign) -> tuple[Cell, ...] | None:
    """The dictionaries of all chunks, one after the other; what is missing is no state."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        return None
    found: dict[Label, None] = {}
    last = None
    for chunk in [column] if isinstance(column, pa.Array) else column.chunks:
        if last is None or not chunk.dictionary.equals(last):
            last = chunk.dictionary
            found |= dict.fromkeys(v for v in last.to_pylist() if not is_missing(v))
    return tuple(found)


def is_pool(field: Foreign) -> bool:
    """Is the dictionary of this field of an Arrow schema but a pool of the words that were met?"""
    return any(key.startswith(POOL) or key == MET for key in field.metadata or ())


def _used(chunk: Foreign) -> tuple[Foreign, NDArray[np.int64]]:
    """The dictionary of a chunk and its codes; of a large one, what the chunk needs of it."""
    own, indices = chunk.dictionary, chunk.indices
    codes = indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    gone = indices.is_null().to_numpy(zero_copy_only=False)
    if len(own) > len(codes):
        used, codes = np.unique(codes[~gone], return_inverse=True)
        whole = np.full(len(gone), -1)
        whole[~gone] = codes
        return own.take(used), whole
    return own, np.where(gone, -1, codes)
