"""Times finer than Python's, which would fall together as values of Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from latentia.errors import DataError
from latentia.typing import CellArray, Foreign, Label

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw

FINE = 1000  # nanoseconds in the microsecond that Python's times can tell


def check_fine_times(series: nw.Series[Foreign], name: Label) -> None:
    """Nanoseconds that a list of Python's values would lose are an error; pandas keeps them."""
    native, dtype = series.to_native(), str(series.dtype)
    if dtype != "Time" and "'ns'" not in dtype:
        return
    match type(native).__module__.split(".")[0]:
        case "polars":
            numbers = native.to_physical().drop_nulls().to_numpy()
        case "pyarrow" if dtype == "Time" and native.type.bit_width == 64:
            if "[us" in str(native.type):
                return
            numbers = native.cast("int64").drop_null().to_numpy()
        case _:
            return
    if (numbers % FINE).any():
        raise _too_fine(name)


def numpy_times(cells: CellArray, name: Label) -> CellArray:
    """Times of numpy as Python's, None where there is none.

    >>> numpy_times(np.array(["2020-01-01", "NaT"], "datetime64[ns]"), "t").tolist()
    [datetime.datetime(2020, 1, 1, 0, 0), None]
    """
    if np.datetime_data(cells.dtype)[0] not in ("ns", "ps", "fs", "as"):
        return cells.astype(object)
    coarse = cells.astype("datetime64[us]" if cells.dtype.kind == "M" else "timedelta64[us]")
    if ((coarse.astype(cells.dtype) != cells) & ~np.isnat(cells)).any():
        raise _too_fine(name)
    return coarse.astype(object)


def _too_fine(name: Label) -> DataError:
    return DataError(
        f"column {name!r} holds times finer than microseconds, which Python's times cannot tell "
        "apart. Round them, or pass them as whole numbers or as text."
    )
