"""Tables in memory, whatever library they come from: columns out, the same kind of frame back.

numpy arrays (names from the graph), dicts of arrays, and through narwhals every eager data frame
(pandas, polars, Arrow, …). No library is imported that the user did not bring.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import narwhals.stable.v2 as nw
import numpy as np

from latentia.data.columns.values import EXACT, Values
from latentia.errors import DataError, FrameError, UnknownNameError
from latentia.typing import Label


@final
@dataclass(frozen=True, slots=True)
class Table:
    """Columns by name, and the frame they came from."""

    names: tuple[Label, ...]
    length: int
    native: Any
    frame: nw.DataFrame[Any] | None  # None: numpy or dict
    extra: Mapping[Label, np.ndarray[Any, Any]] = field(default_factory=dict)  # besides the frame

    def beside(self, name: Label, values: np.ndarray[Any, Any]) -> Table:
        """The same rows with one more column."""
        return replace(self, names=(*self.names, name), extra={**self.extra, name: values})

    def column(self, name: Label) -> Values:
        """The cells of one column."""
        if name not in self.names:
            raise UnknownNameError("column", name, self.names, "The graph names it; add it.")
        if name in self.extra:
            return _array_values(self.extra[name], name)
        if self.frame is not None:
            place = _place_of(name, self.names)
            return _series_values(self.frame.get_column(self.frame.columns[place]), name)
        if isinstance(self.native, Mapping):
            return _array_values(_as_array(self.native[name], name), name)
        return _array_values(self.native[:, _place_of(name, self.names)], name)

    def like(self, columns: Mapping[Any, np.ndarray[Any, Any]]) -> Any:
        """Columns as a frame of the same kind; numpy: a matrix."""
        if self.frame is None:
            if isinstance(self.native, Mapping):
                return dict(columns)
            if not columns:
                return np.empty((self.length, 0))
            return np.column_stack(list(columns.values()))
        if _is_pandas(self.native):
            return type(self.native)(dict(columns), index=self.native.index)
        named = {str(name): values for name, values in columns.items()}
        if len(named) < len(columns):
            raise _same_text(columns)
        backend = nw.get_native_namespace(self.native)
        try:
            return nw.from_dict(named, backend=backend).to_native()
        except OverflowError:
            texts = [name for name, values in named.items() if values.dtype == object]
            raise _too_large(", ".join(map(repr, texts)), backend) from None

    def like_column(self, values: np.ndarray[Any, Any], name: Label) -> Any:
        """One column as a series of the same kind; numpy and dict: an array."""
        if self.frame is None:
            return values
        if _is_pandas(self.native):
            frame = type(self.native)({name: values}, index=self.native.index)
            return frame[name]
        plain = values.tolist() if values.dtype == object else values
        backend = nw.get_native_namespace(self.native)
        try:
            return nw.new_series(str(name), plain, backend=backend).to_native()
        except OverflowError:
            raise _too_large(repr(name), backend) from None


def _same_text(names: Iterable[Label]) -> DataError:
    seen: dict[str, Label] = {}
    for name in names:
        other = seen.setdefault(str(name), name)
        if other != name:
            return DataError(
                f"two columns are called {other!r} and {name!r}, which are one as text. Rename "
                "one of them."
            )
    raise AssertionError("all names differ as text")


def _place_of(name: Label, names: Sequence[Label]) -> int:
    """Where the column of this name is; of names that are equal (1 and True), the same type."""
    first = names.index(name)
    if type(names[first]) is type(name):
        return first
    found = [i for i, own in enumerate(names) if own == name]
    exact = [i for i in found if type(names[i]) is type(name)]
    return (exact or found)[0]


def _too_large(names: str, backend: Any) -> DataError:
    return DataError(
        f"the states of {names} are integers too large for a column of {backend.__name__}. "
        "Pass the rows as a dict of arrays, or the states as text."
    )


def read_table(data: Any, graph_names: Sequence[Label] | None = None) -> Table:
    """Look at a table; nothing is copied yet."""
    if hasattr(data, "toarray"):
        raise FrameError(
            f"sparse data ({type(data).__name__}) are not supported; pass data.toarray()."
        )
    if isinstance(data, np.ndarray):
        return _numpy_table(data, graph_names)
    if isinstance(data, Mapping):
        lengths = {str(name): _length(values, name) for name, values in data.items()}
        if len(set(lengths.values())) > 1:
            raise DataError(f"the columns have different lengths: {lengths}.")
        return Table(tuple(data), next(iter(lengths.values()), 0), data, None)
    if isinstance(data, list | tuple) and data and not isinstance(data[0], Mapping):
        try:
            return _numpy_table(_array_of_rows(data), graph_names)
        except ValueError as error:
            raise DataError(f"cannot read rows from a list: {error}") from None
    if not isinstance(data, str | bytes) and hasattr(data, "columns"):
        _check_names(data)
    try:
        frame = nw.from_native(data, eager_only=True)
    except TypeError:
        if hasattr(data, "__array__"):
            return _numpy_table(np.asarray(data), graph_names)
        raise FrameError(
            "expected a pandas, polars or Arrow table, a dict of arrays or a numpy array, "
            f"got {type(data).__name__}. Collect lazy frames first."
        ) from None
    names = tuple(data.columns) if _is_pandas(data) else tuple(frame.columns)
    if _is_pandas(data) and any(not isinstance(name, str) for name in names):
        return Table(names, len(frame), data, _named_by_text(data))
    return Table(names, len(frame), data, frame)


def _array_of_rows(data: Sequence[Any]) -> np.ndarray[Any, Any]:
    """A list of rows as an array; among text, and beside floats, numbers stay what they are."""
    found: np.ndarray[Any, Any] = np.asarray(data)
    if found.ndim == 2 and found.dtype.kind in "USf":
        cells = [cell for row in data for cell in row if not isinstance(cell, bool)]
        if _changes(cells, found.ravel()):
            found = np.array(data, dtype=object)
    return found


def _check_names(data: Any) -> None:
    """Columns that share a name cannot be told apart."""
    names = getattr(data, "column_names", data.columns)  # Arrow's columns are arrays
    seen: set[Any] = set()
    for name in list(names):
        if name in seen:
            raise DataError(f"two columns are called {name!r}. Rename or drop one of them.")
        seen.add(name)


def _as_array(values: Any, name: Label) -> np.ndarray[Any, Any]:
    """An array; a list whose values would become others (1 the text "1") as objects."""
    try:
        found: np.ndarray[Any, Any] = np.asanyarray(values)
        if isinstance(values, list | tuple) and found.ndim == 1 and _changes(values, found):
            found = np.empty(len(values), dtype=object)
            found[:] = values
        return found
    except ValueError:  # lists of different lengths
        raise DataError(
            f"column {name!r} must be a list of values, one for each row; it holds lists of "
            "different lengths."
        ) from None


def _changes(values: Sequence[Any], found: np.ndarray[Any, Any]) -> bool:
    """Did numpy make text of numbers, numbers of True, or round large whole numbers?"""
    kind, types = found.dtype.kind, set(map(type, values))
    if kind in "US":
        return not all(issubclass(t, str | bytes) for t in types)
    if kind in "iuf" and any(issubclass(t, bool | np.bool_) for t in types):
        return True
    if kind != "f" or not any(issubclass(t, int | np.integer) for t in types):
        return False
    return any(isinstance(v, int | np.integer) and abs(int(v)) > EXACT for v in values)


def _length(values: Any, name: Label) -> int:
    cells = _as_array(values, name)
    if cells.ndim == 0:
        raise DataError(
            f"column {name!r} must have one dimension, got a single value, {values!r}. "
            "Pass a list with one value for each row."
        )
    return len(cells)


def _numpy_table(data: np.ndarray[Any, Any], graph_names: Sequence[Label] | None) -> Table:
    if data.dtype.kind == "c":
        raise DataError("Complex data not supported; pass real numbers or states.")
    if data.ndim != 2:
        raise DataError(
            f"expected a table with rows and columns (2D array), got {data.ndim} dimension(s). "
            "Reshape your data: one row per case, one column per variable."
        )
    names = tuple(graph_names) if graph_names is not None else None
    if names is None:
        names = tuple(f"x{i}" for i in range(data.shape[1]))
    if len(names) != data.shape[1]:
        raise DataError(
            f"X has {data.shape[1]} features, but LatentModel is expecting {len(names)} features "
            f"as input: the graph's columns in order, {', '.join(map(str, names[:10]))}. "
            "Pass a data frame to go by name."
        )
    return Table(names, len(data), data, None)


def _named_by_text(data: Any) -> nw.DataFrame[Any]:
    """narwhals wants names that are text, and 0 and "0" are two columns: numbered from the left."""
    copy = data.copy(deep=False)
    copy.columns = [str(place) for place in range(len(data.columns))]
    return nw.from_native(copy, eager_only=True)


def _is_pandas(data: Any) -> bool:
    return type(data).__module__.split(".")[0] == "pandas"


def _series_values(series: nw.Series[Any], name: Label) -> Values:
    dtype = series.dtype
    if dtype in (nw.Int128, nw.UInt128):  # numpy has no such numbers
        return _listed(series, name)
    if (dtype.is_integer() or dtype == nw.Boolean) and series.null_count() == 0:
        return Values(series.to_numpy())
    missing = series.is_null().to_numpy()
    if dtype.is_float():
        cells = series.to_numpy()
        return _checked(np.asarray(cells, dtype=float), missing | np.isnan(cells.astype(float)))
    if dtype.is_integer() or dtype == nw.Boolean:
        if missing.any():
            kept = series.drop_nulls().to_numpy()
            cells = np.zeros(len(missing), dtype=kept.dtype)
            cells[~missing] = kept
            return Values(cells, missing)
        return Values(series.to_numpy())
    return _listed(series, name)


def _listed(series: nw.Series[Any], name: Label) -> Values:
    """The cells as Python's objects."""
    cells = np.empty(len(series), dtype=object)
    try:
        cells[:] = series.to_list()
    except (ValueError, OverflowError) as error:  # dates beyond those of Python
        raise DataError(
            f"column {name!r} of {series.dtype} has cells that Python has no value for: "
            f"{error}. Pass them as text or as numbers."
        ) from None
    return _object_values(cells, series.is_null().to_numpy(), _categories(series))


def _categories(series: nw.Series[Any]) -> tuple[Any, ...] | None:
    """Declared states: pandas categories and polars enums. Other categoricals share one pool."""
    native = series.to_native()
    if _is_pandas(native) and hasattr(native, "cat"):
        return tuple(native.cat.categories.tolist())
    if isinstance(series.dtype, nw.Enum):
        return tuple(series.dtype.categories)
    return None


def _array_values(cells: np.ndarray[Any, Any], name: Label) -> Values:
    if cells.ndim != 1:
        raise DataError(f"column {name!r} must have one dimension, got {cells.ndim}.")
    if isinstance(cells, np.ma.MaskedArray):
        gone = np.ma.getmaskarray(cells)
        inner = _array_values(np.asarray(cells.data), name)
        return Values(inner.cells, gone if inner.missing is None else gone | inner.missing)
    if cells.dtype.kind == "f":
        return _checked(cells, np.isnan(cells))
    if cells.dtype.kind in "iub":
        return Values(cells)
    objects = cells.astype(object)
    return _object_values(objects, np.zeros(len(objects), dtype=bool), None)


def _object_values(
    cells: np.ndarray[Any, Any], missing: np.ndarray[Any, Any], categories: Any
) -> Values:
    """Objects: None and values that differ from themselves (NaN, NaT) are missing."""
    gone = missing | np.fromiter((v is None or _is_nan(v) for v in cells), bool, len(cells))
    return Values(cells, gone if gone.any() else None, categories)


def _is_nan(value: Any) -> bool:
    try:
        return bool(value != value)
    except TypeError:  # pandas.NA cannot be compared
        return True
    except ValueError:  # an array in a cell: no state, but not missing
        return False


def _checked(cells: np.ndarray[Any, Any], missing: np.ndarray[Any, Any]) -> Values:
    if np.isinf(cells).any():
        raise DataError(
            "Input contains infinity; expected finite numbers or missing cells (NaN). "
            "Replace infinite values."
        )
    return Values(cells, missing if missing.any() else None)
