"""What comes in: models, graphs and tables from files."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from latentia.cli.asking import find_state, read_counts
from latentia.data.columns.column import Column
from latentia.data.columns.discrete import DiscreteColumn
from latentia.errors import DataError, GraphError, StoreError, UnknownNameError
from latentia.model.latent_model import LatentModel
from latentia.store.file import load
from latentia.structure.graph import LatentGraph
from latentia.structure.reading_graphs import as_graph
from latentia.typing import Array, Label

Rows: TypeAlias = Any  # dict of arrays (CSV) or Arrow table (Parquet): whatever LatentModel reads

MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "NULL", "null", "n/a", "#N/A"})
GZIP, PARQUET = b"\x1f\x8b", b"PAR1"


def read_model(path: str) -> LatentModel:
    """The model of a file; files of classifiers, frozen models and moments are asked in Python."""
    found = load(path)
    if not isinstance(found, LatentModel):
        raise StoreError(
            f"{path}: expected a LatentModel, got a {type(found).__name__}. Questions to it are "
            f"asked in Python: latentia.load({path!r})."
        )
    return found


# -- graphs ------------------------------------------------------------------------------------


def graph_from_text(text: str, latents: str = "", states: str = "") -> LatentGraph:
    """A graph as text, `@file`, or a file with such text or with JSON.

    >>> str(graph_from_text("A->B; A->C", latents="A=3", states="2,C=4"))
    '(A[3])->B[2]; (A[3])->C[4]'
    """
    described = _graph_text(text)
    hidden, known = read_counts(latents, "--latents"), read_counts(states, "--states")
    if described.lstrip()[:1] in ("{", "["):
        graph = _graph_of_json(described)
    else:
        graph = as_graph(described)
    default = known.pop("", None)
    counted = {name: count for name, count in known.items() if count is not None}
    graph = as_graph(graph, hidden or None, counted)
    if default is not None:
        open_ones = [v for v in graph.observed if graph.states[v] is None]
        graph = graph.with_states({graph.names[v]: default for v in open_ones})
    return graph


def _graph_text(text: str) -> str:
    path = text[1:] if text.startswith("@") else text
    if not text.startswith("@") and not os.path.isfile(path):
        looks_like_path = "/" in text or Path(text).suffix in (".json", ".txt", ".graph")
        if not looks_like_path or any(mark in text for mark in ("->", "<-", "--", ";", "\n")):
            return text
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise _not_text(path) from None
    return "\n".join(line for line in lines if not line.lstrip().startswith("#"))


def _graph_of_json(text: str) -> LatentGraph:
    """`{"edges": […], "latents": {…}, "states": {…}}`, a list of edges, or a dict of parents."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise GraphError(f"the graph is not valid JSON: {error}.") from None
    if isinstance(found, dict) and "edges" in found:
        odd = sorted(set(found) - {"edges", "latents", "states"})
        if odd:
            raise UnknownNameError("key of the graph", odd[0], ["edges", "latents", "states"])
        states = found.get("states") or {}
        if not isinstance(states, dict):
            raise GraphError(f'expected "states": {{"D": 5, …}} in the graph, got {states!r}.')
        return as_graph(_names(found["edges"]), found.get("latents"), states)
    return as_graph(_names(found))


def _names(value: Any) -> Any:
    """Columns of files are called by text, so numbers that name variables become text."""
    if isinstance(value, dict):
        return {name: _names(above) for name, above in value.items()}
    if isinstance(value, list):
        return [_names(item) for item in value]
    return str(value) if isinstance(value, int) else value


# -- tables ------------------------------------------------------------------------------------


def read_table_file(path: str, columns: Sequence[Column] = (), only: Sequence[Label] = ()) -> Rows:
    """A CSV file (also gzipped, `-` for stdin) or Parquet file.

    CSV has no types. The cells of discrete `columns` are read as the states that they look like; in
    other columns all cells together decide whether they are numbers, true/false or text. If any of
    `only` are there, Parquet is spared reading the others.
    """
    import pyarrow as pa

    buffer = _open_buffer(path)
    try:
        if buffer[:4].to_pybytes() == PARQUET:
            return _read_parquet(buffer, only)
        return _read_csv(buffer, [c for c in columns if isinstance(c, DiscreteColumn)])
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0].rstrip(".")
        if "invalid UTF8" in reason:
            raise _not_text(path) from error
        raise OSError(f"cannot read {path!r} as CSV or Parquet: {reason}.") from error
    except UnicodeDecodeError as error:
        raise _not_text(path) from error
    except OSError as error:
        raise OSError(f"cannot read {path!r}: {str(error).rstrip('.')}.") from error


def _not_text(path: str) -> OSError:
    return OSError(f"cannot read {path!r}: the file must be text in UTF-8.")


def _open_buffer(path: str) -> Any:
    """The bytes of a file, mapped into memory where that is possible."""
    import pyarrow as pa

    if path == "-":
        buffer = _arrow_memory(sys.stdin.buffer.read())
    elif stat.S_ISREG(os.stat(path).st_mode) and os.path.getsize(path):
        with open(path, "rb"):  # says it best when it is not allowed
            buffer = pa.memory_map(path).read_buffer()
    else:
        buffer = _arrow_memory(Path(path).read_bytes())  # pipes; a directory is an error here
    if not buffer.size:
        what = "standard input" if path == "-" else repr(path)
        raise OSError(f"{what} is empty; expected a line of column names and rows below it.")
    return buffer


def _arrow_memory(content: bytes) -> Any:
    """A copy that Arrow owns: its threads may let go of it after the interpreter has gone."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    sink.write(content)
    return sink.getvalue()


def _read_parquet(buffer: Any, only: Sequence[Label]) -> Rows:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(pa.BufferReader(buffer))
    there = [name for name in only if name in file.schema_arrow.names]
    return file.read(columns=there or None)


def _read_csv(buffer: Any, columns: Sequence[DiscreteColumn]) -> Rows:
    import pyarrow as pa
    import pyarrow.csv as csv

    def stream() -> Any:
        plain = pa.BufferReader(buffer)
        packed = buffer[:2].to_pybytes() == GZIP
        return pa.CompressedInputStream(plain, "gzip") if packed else plain

    header = stream().read(2**16).strip().partition(b"\n")[0]
    if not header:
        raise OSError("expected a line of column names, got none")
    mark = _delimiter(header)
    parsing = csv.ParseOptions(
        delimiter=mark,
        newlines_in_values=True,
        ignore_empty_lines=mark.encode() in header,  # in a single column they are missing cells
    )
    named = {str(c.name): c for c in columns}
    texts = {name: pa.dictionary(pa.int32(), pa.string()) for name in named}

    def read(types: Mapping[str, Any]) -> Any:
        converting = csv.ConvertOptions(column_types=types, null_values=sorted(MISSING))
        return csv.read_csv(stream(), parse_options=parsing, convert_options=converting)

    table = read(texts)
    dates = {f.name: pa.string() for f in table.schema if pa.types.is_temporal(f.type)}
    if dates:  # states are numbers, true/false or text
        table = read({**texts, **dates})
    if any(pa.types.is_binary(field.type) for field in table.schema):
        raise pa.ArrowInvalid("invalid UTF8")
    often, times = Counter(table.column_names).most_common(1)[0]
    if times > 1:
        raise DataError(f"{times} columns are called {often!r}; give each a name of its own.")
    return {
        named[name].name if name in named else name: (
            _cells_as_states(named[name], table[name]) if name in named else _cells(table[name])
        )
        for name in table.column_names
    }


def _delimiter(header: bytes) -> str:
    """A comma, unless the line of names has none."""
    return next((mark for mark in ",;\t" if mark.encode() in header), ",")


def _cells(column: Any) -> np.ndarray[Any, Any]:
    """Numbers as they are; text without the spellings of missing."""
    cells: np.ndarray[Any, Any] = column.to_numpy()
    if cells.dtype != object:
        return cells
    return np.array([None if c in MISSING else c for c in cells.tolist()], dtype=object)


def _cells_as_states(column: DiscreteColumn, texts: Any) -> Any:
    """Each different text is looked up once; one that is no state is left for the model to name."""
    packed = texts.unify_dictionaries().combine_chunks()
    found = []
    for text in packed.dictionary.to_pylist():
        state = find_state(column, text)
        found.append(None if state == text and text in MISSING - {*column.states} else state)
    codes = packed.indices.to_numpy(zero_copy_only=False)
    kinds = {type(state) for state in found}
    if kinds <= {int, float, type(None)}:  # as numbers, with NaN for missing
        return np.array(found, dtype=int if kinds <= {int} else float)[codes]
    values = np.empty(len(found), dtype=object)
    values[:] = found
    return values[codes]


def column_names(rows: Rows) -> list[Any]:
    return list(rows) if isinstance(rows, dict) else list(rows.column_names)


def count_rows(rows: Rows) -> int:
    return len(next(iter(rows.values()), ())) if isinstance(rows, dict) else len(rows)


def take_weights(rows: Rows, name: str | None) -> tuple[Rows, Array | None]:
    """The column of weights, and the table without it."""
    if not name:
        return rows, None
    if name not in column_names(rows):
        raise UnknownNameError("column of weights", name, column_names(rows))
    try:
        weight = np.asarray(rows[name], dtype=float)
    except (TypeError, ValueError):
        raise DataError(f"the weights in {name!r} must be numbers.") from None
    if isinstance(rows, dict):
        return {other: cells for other, cells in rows.items() if other != name}, weight
    return rows.drop_columns([name]), weight


def read_state_names(path: str | None) -> dict[str, list[Any]] | None:
    """`{"D": ["low", "mid", "high"]}`."""
    if path is None:
        return None
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise OSError(f"cannot read {path!r}: not valid JSON ({error}).") from None
    if not isinstance(found, dict) or not all(map(_are_states, found.values())):
        raise DataError(
            f'expected {{"column": ["state", …], …}} in {path!r}, got {json.dumps(found)[:80]}.'
        )
    return found


def _are_states(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(state, str | int | float) for state in value)
