"""What comes in: models, graphs and tables from files."""

from __future__ import annotations

import glob
import json
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from latentia.cli.asking import read_counts
from latentia.data.columns.column import Column
from latentia.errors import DataError, GraphError, StoreError, UnknownNameError
from latentia.model.latent_model import LatentModel
from latentia.store.file import load
from latentia.structure.graph import LatentGraph
from latentia.structure.reading_graphs import as_graph
from latentia.typing import Cell, Label

if TYPE_CHECKING:
    from latentia.data.sources.located import TableFile
    from latentia.sequences.sequence_model import SequenceModel


def read_model(path: str) -> LatentModel:
    """The model of a file; files of classifiers, frozen models and moments are asked in Python."""
    return _of_rows(path, load(path))


def read_either_model(path: str) -> LatentModel | SequenceModel:
    """The model of a file, of rows or of sequences."""
    from latentia.sequences.sequence_model import SequenceModel

    found = load(path)
    return found if isinstance(found, SequenceModel) else _of_rows(path, found)


def _of_rows(path: str, found: object) -> LatentModel:
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
        raise OSError(f"cannot read {path!r}: the file must be text in UTF-8.") from None
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


def _names(value: object) -> object:
    """Columns of files are called by text, so numbers that name variables become text."""
    if isinstance(value, dict):
        return {name: _names(above) for name, above in value.items()}
    if isinstance(value, list):
        return [_names(item) for item in value]
    return str(value) if isinstance(value, int) else value


# -- tables ------------------------------------------------------------------------------------


def open_table(path: str, columns: Sequence[Column] = ()) -> TableFile:
    """A table by path: a file, a folder, a pattern, an address, or `-` for standard input.

    Its cells are read as the states and numbers of `columns`. What can be read only once is copied
    to a temporary file, which goes with the value.
    """
    import pyarrow  # noqa: F401 (a command that cannot go on without it says so at once)

    from latentia.data.sources.located import TableFile, spool

    if path == "-":
        copy = spool(sys.stdin.buffer)
        return TableFile(copy.name, path, tuple(columns), copy)
    if "://" not in path and (os.path.exists(path) or not glob.glob(path, recursive=True)):
        mode = os.stat(path).st_mode  # says it best when it is not there
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            with open(path, "rb") as pipe:
                copy = spool(pipe)
            return TableFile(copy.name, path, tuple(columns), copy)
    return TableFile(path, path, tuple(columns))


def look_over(table: TableFile) -> tuple[list[Label], int]:
    """The names of a table's columns and its number of rows; a file that is none is told now."""
    from latentia.data.sources.files import open_files

    stream = open_files([table])
    rows = stream.rows
    if rows is None:
        rows = sum(block.length for block in stream.tables(stream.names[:1]))
    return list(stream.names), rows


def check_weights(table: TableFile, name: str | None, names: Sequence[Label]) -> None:
    """The column of weights is there, and of numbers."""
    from latentia.data.sources.files import open_files

    if name is None:
        return
    if name not in names:
        raise UnknownNameError("column of weights", name, names)
    first = next(open_files([table]).tables([name]), None)
    if first is not None and first.column(name).cells.dtype.kind not in "iufb":
        raise DataError(f"the weights in {name!r} must be numbers.")


def read_state_names(path: str | None) -> dict[str, list[Cell]] | None:
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


def _are_states(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(state, str | int | float) for state in value)
