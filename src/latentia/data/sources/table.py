"""Tables in memory, whatever library they come from: columns out, the same kind of frame back.

numpy arrays (names from the graph), dicts of arrays, and through narwhals every eager data frame
(pandas, polars, Arrow, …). No library is imported that the user did not bring.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, final

import numpy as np

from latentia.data.columns.values import (
    EXACT,
    Values,
    Words,
    as_objects,
    find_words,
    is_missing,
    word_values,
)
from latentia.data.sources.column_names import ColumnNames
from latentia.data.sources.pandas_numbers import (
    SHORT,
    float_values,
    is_pandas,
    library_of,
    number_values,
    pandas_times,
    plain_numbers,
    short_matrix,
)
from latentia.data.sources.series_words import is_pool, series_categories, series_words
from latentia.errors import DataError, FrameError, UnknownNameError
from latentia.typing import ByName, Cell, CellArray, Foreign, Label, TableLike

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw


@final
@dataclass(frozen=True, slots=True)
class Table:
    """Columns by name, and the frame they came from."""

    names: tuple[Label, ...]
    length: int
    native: TableLike
    frame: Foreign  # as narwhals has it; as it is, where it is a matrix; None: numpy or dict
    extra: Mapping[Label, CellArray] = field(default_factory=dict)  # besides the frame
    first: int | None = 0  # row where it begins in a longer table; None: nobody knows
    known: dict[Label, Values] = field(default_factory=dict, compare=False)  # once found
    pools: frozenset[Label] = frozenset()  # columns whose dictionaries declare no states
    matrix: CellArray | None = None  # of a frame that is one, all numbers of one type

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", ColumnNames.of(self.names))

    def beside(self, name: Label, values: CellArray) -> Table:
        """The same rows with one more column."""
        extra = {**self.extra, name: values}
        return replace(self, names=(*self.names, name), extra=extra, known={})

    def column(self, name: Label) -> Values:
        """The cells of one column; its words are found once, and all of short ones."""
        if name not in self.names:
            raise UnknownNameError("column", name, self.names, "The graph names it; add it.")
        key = (type(name), name)  # 1 and True are two names
        if key in self.known:
            return self.known[key]
        found = self._column(name)
        found = found if self.first == found.first else replace(found, first=self.first)
        if found.words is not None or self.length <= SHORT:
            self.known[key] = found
        return found

    def _column(self, name: Label) -> Values:
        if name in self.extra:
            return _array_values(self.extra[name], name)
        if self.frame is not None:
            place = _place_of(name, self.names)
            if self.matrix is not None:
                return number_values(self.matrix[:, place])
            plain = plain_numbers(self.frame.to_native(), place)
            if plain is not None:
                return plain
            found = _series_values(self.frame.get_column(self.frame.columns[place]), name)
            return replace(found, categories=None) if name in self.pools else found
        if isinstance(self.native, Mapping):
            given = self.native[name]
            if isinstance(given, Words):
                return word_values(given)
            return _array_values(_as_array(given, name), name)
        return _array_values(self.native[:, _place_of(name, self.names)], name)

    def like(self, columns: ByName[CellArray]) -> TableLike:
        """Columns as a frame of the same kind; numpy: a matrix."""
        if self.frame is None:
            if isinstance(self.native, Mapping):
                return dict(columns)
            if not columns:
                return np.empty((self.length, 0))
            return np.column_stack([_times_as_objects(x) for x in columns.values()])
        if is_pandas(self.native):
            own = {name: pandas_times(self.native, name, x) for name, x in columns.items()}
            return type(self.native)(own, index=self.native.index)
        named = {str(name): _listed_times(_of_one_type(x)) for name, x in columns.items()}
        if len(named) < len(columns):
            raise _same_text(columns)
        import narwhals.stable.v2 as nw

        backend = nw.get_native_namespace(self.native)
        try:
            return nw.from_dict(named, backend=backend).to_native()
        except OverflowError:
            texts = [name for name, values in named.items() if values.dtype == object]
            raise _too_large(", ".join(map(repr, texts)), backend) from None

    def like_column(self, values: CellArray, name: Label) -> TableLike:
        """One column as a series of the same kind; numpy and dict: an array."""
        if self.frame is None:
            return values
        if is_pandas(self.native):
            own = pandas_times(self.native, name, values)
            frame = type(self.native)({name: own}, index=self.native.index)
            return frame[name]
        own = _of_one_type(values)
        plain = own.tolist() if own.dtype == object else own
        import narwhals.stable.v2 as nw

        backend = nw.get_native_namespace(self.native)
        try:
            return nw.new_series(str(name), plain, backend=backend).to_native()
        except OverflowError:
            raise _too_large(repr(name), backend) from None


def _times_as_objects(values: CellArray) -> CellArray:
    """Times beside numbers of a matrix."""
    return values.astype(object) if values.dtype.kind == "M" else values


def _listed_times(values: CellArray) -> Foreign:
    """Times with a zone as a list, of which frames read their type."""
    some = next((v for v in values if v is not None), None) if values.dtype == object else None
    return values.tolist() if isinstance(some, datetime) else values


def _of_one_type(values: CellArray) -> CellArray:
    """Cells of several types (1 and "1") as text, for frames whose columns are of one type."""
    if values.dtype != object or len({type(v) for v in values.tolist()}) < 2:
        return values
    texts = np.empty(len(values), dtype=object)
    texts[:] = [str(v) for v in values]
    return texts


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


def _too_large(names: str, backend: Foreign) -> DataError:
    return DataError(
        f"the states of {names} are integers too large for a column of {backend.__name__}. "
        "Pass the rows as a dict of arrays, or the states as text."
    )


def read_table(data: TableLike, graph_names: Sequence[Label] | None = None) -> Table:
    """Look at a table; nothing is copied yet."""
    if hasattr(data, "toarray"):
        raise FrameError(
            f"sparse data ({type(data).__name__}) are not supported; pass data.toarray()."
        )
    if isinstance(data, np.ndarray) and data.dtype.names is None:
        return _numpy_table(data, graph_names)
    if isinstance(data, np.ndarray | list | tuple):
        from latentia.data.sources.named_rows import columns_of_rows  # which others do without

        data = columns_of_rows(data)
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
        matrix = short_matrix(data)
        if matrix is not None:
            return Table(tuple(data.columns.tolist()), len(data), data, data, matrix=matrix)
    import narwhals.stable.v2 as nw  # for frames only

    try:
        frame = nw.from_native(data, eager_only=True)
    except TypeError:
        if hasattr(data, "__array__"):
            return _numpy_table(np.asarray(data), graph_names)
        raise FrameError(
            "expected a pandas, polars or Arrow table, a dict of arrays or a numpy array, "
            f"got {type(data).__name__}. Collect lazy frames first."
        ) from None
    names = tuple(data.columns) if is_pandas(data) else tuple(frame.columns)
    if is_pandas(data) and any(not isinstance(name, str) for name in names):
        return Table(names, len(frame), data, _named_by_text(data))
    fields = data.schema if library_of(data) == "pyarrow" else ()
    pools = frozenset(field.name for field in fields if is_pool(field))
    return Table(names, len(frame), data, frame, pools=pools)


def part_of_table(data: TableLike) -> Table:
    """A part of a table elsewhere; which rows these are, nobody knows."""
    return replace(read_table(data), first=None)


def _array_of_rows(data: Sequence[Cell]) -> CellArray:
    """A list of rows as an array; among text, and beside floats, numbers stay what they are."""
    found: CellArray = np.asarray(data)
    if found.ndim == 2 and found.dtype.kind in "USf":
        cells = [cell for row in data for cell in row if not isinstance(cell, bool)]
        if _changes(cells, found.ravel()):
            found = np.array(data, dtype=object)
    return found


def _check_names(data: TableLike) -> None:
    """Columns that share a name cannot be told apart."""
    names = getattr(data, "column_names", data.columns)  # Arrow's columns are arrays
    listed = names.tolist() if is_pandas(data) else list(names)
    if len(set(listed)) == len(listed):
        return
    seen: set[Cell] = set()
    for name in listed:
        if name in seen:
            raise DataError(f"two columns are called {name!r}. Rename or drop one of them.")
        seen.add(name)


def _as_array(values: object, name: Label) -> CellArray:
    """An array; a list whose values would become others (1 the text "1") as objects."""
    try:
        found: CellArray = np.asanyarray(values)
        if isinstance(values, list | tuple) and found.ndim == 1 and _changes(values, found):
            found = np.empty(len(values), dtype=object)
            found[:] = values
        return found
    except ValueError:  # lists of different lengths
        raise DataError(
            f"column {name!r} must be a list of values, one for each row; it holds lists of "
            "different lengths."
        ) from None


def _changes(values: Sequence[Cell], found: CellArray) -> bool:
    """Did numpy make text or complex numbers of numbers, numbers of True, or round large ones?

    It reads text in an array of its own without the zero characters at its end.
    """
    kind, types = found.dtype.kind, set(map(type, values))
    if kind in "US":
        return True
    if kind == "c":
        return not all(issubclass(t, complex | np.complexfloating) for t in types)
    if kind in "iuf" and any(issubclass(t, bool | np.bool_) for t in types):
        return True
    if kind != "f" or not any(issubclass(t, int | np.integer) for t in types):
        return False
    return any(isinstance(v, int | np.integer) and abs(int(v)) > EXACT for v in values)


def _length(values: object, name: Label) -> int:
    if isinstance(values, Words):
        return len(values)
    cells = _as_array(values, name)
    if cells.ndim == 0:
        raise DataError(
            f"column {name!r} must have one dimension, got a single value, {values!r}. "
            "Pass a list with one value for each row, or a list of dicts, one for each row."
        )
    return len(cells)


def _numpy_table(data: CellArray, graph_names: Sequence[Label] | None) -> Table:
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


def _named_by_text(data: TableLike) -> nw.DataFrame[Foreign]:
    """narwhals wants names that are text, and 0 and "0" are two columns: numbered from the left."""
    import narwhals.stable.v2 as nw

    copy = data.copy(deep=False)
    copy.columns = [str(place) for place in range(len(data.columns))]
    return nw.from_native(copy, eager_only=True)


def _series_values(series: nw.Series[Foreign], name: Label) -> Values:
    import narwhals.stable.v2 as nw

    dtype = series.dtype
    if dtype in (nw.Int128, nw.UInt128):  # numpy has no such numbers
        return _listed(series, name)
    if (dtype.is_integer() or dtype == nw.Boolean) and series.null_count() == 0:
        return Values(series.to_numpy())
    if not dtype.is_numeric() and dtype != nw.Boolean:
        return _listed(series, name)
    missing = series.is_null().to_numpy()
    if dtype.is_float():
        cells = series.to_numpy()
        return float_values(np.asarray(cells, dtype=float), missing | np.isnan(cells.astype(float)))
    if dtype.is_integer() or dtype == nw.Boolean:
        if missing.any():
            kept = series.drop_nulls().to_numpy()
            cells = np.zeros(len(missing), dtype=kept.dtype)
            cells[~missing] = kept
            return Values(cells, missing)
        return Values(series.to_numpy())
    return _listed(series, name)


def _listed(series: nw.Series[Foreign], name: Label) -> Values:
    """The cells as Python's objects; of text and categories, only the different ones."""
    from latentia.data.sources.fine_times import check_fine_times

    check_fine_times(series, name)
    try:
        words = series_words(series)
        if words is not None:
            return word_values(words, categories=series_categories(series))
        cells = as_objects(series.to_list())
    except (ValueError, OverflowError) as error:  # dates beyond those of Python
        raise DataError(
            f"column {name!r} of {series.dtype} has cells that Python has no value for: "
            f"{error}. Pass them as text or as numbers."
        ) from None
    return _object_values(cells, series.is_null().to_numpy())


def _array_values(cells: CellArray, name: Label) -> Values:
    if cells.ndim != 1:
        raise DataError(f"column {name!r} must have one dimension, got {cells.ndim}.")
    if isinstance(cells, np.ma.MaskedArray):
        gone = np.ma.getmaskarray(cells)
        inner = _array_values(np.asarray(cells.data), name)
        return inner.without(gone)
    if cells.dtype.kind == "f":
        return float_values(cells, np.isnan(cells))
    if cells.dtype.kind in "iub":
        return Values(cells)
    if cells.dtype.kind in "mM":
        from latentia.data.sources.fine_times import numpy_times

        cells = numpy_times(cells, name)
    objects = cells.astype(object)
    return _object_values(objects, np.zeros(len(objects), dtype=bool))


def _object_values(cells: CellArray, missing: CellArray) -> Values:
    """Objects: None and values that differ from themselves (NaN, NaT) are missing."""
    words = find_words(cells)
    if words is not None:
        return word_values(words, missing)
    gone = missing | np.fromiter(map(is_missing, cells), bool, len(cells))
    return Values(cells, gone if gone.any() else None)
