"""Reading evidence for a TabularModel: codes, state names, rows of them, likelihoods."""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from latentia.data.sources.table import read_table
from latentia.errors import EvidenceError, UnknownNameError
from latentia.exact.shafer_shenoy import log
from latentia.typing import Array, ByName, Cell, CellArray, Label

StateCodes: TypeAlias = NDArray[np.int64]
RowsGiven: TypeAlias = "ByName[Cell] | CellArray | Sequence[Cell] | None"
Soft: TypeAlias = "ByName[Cell] | None"


class Variables(Protocol):
    """What reading evidence needs to know of a model."""

    @property
    def names(self) -> tuple[Label, ...]: ...

    @property
    def states(self) -> tuple[int, ...]: ...

    @property
    def state_names(self) -> Mapping[Label, tuple[Hashable, ...]]: ...


def labels_of(model: Variables, v: int) -> tuple[Hashable, ...]:
    """The states of a variable by name, by code if they have none."""
    return labels_of_all(model, [v])[0]


def labels_of_all(model: Variables, variables: Iterable[int]) -> list[tuple[Hashable, ...]]:
    """The same of some variables: what the model knows of all of them is looked up once."""
    names, states, named = model.names, model.states, model.state_names
    return [named[names[v]] if names[v] in named else tuple(range(states[v])) for v in variables]


def read_codes(
    model: Variables, evidence: object, soft: Soft
) -> tuple[StateCodes, dict[int, Array]]:
    """Codes (rows, variables), and likelihoods {variable: (rows or 1, states)}."""
    number = {name: v for v, name in enumerate(model.names)}
    codes = checked_codes(_codes(model, evidence), model)
    weights: dict[int, Array] = {}
    for name, likelihood in (soft or {}).items():
        if name not in number:
            raise UnknownNameError("variable", name, model.names)
        v = number[name]
        weights[v] = _checked_likelihood(likelihood, name, labels_of(model, v))
    rows = {len(codes), *(len(x) for x in weights.values())} - {1}
    if len(rows) > 1:
        raise EvidenceError(
            f"expected as many rows of soft evidence as of hard, or one, got {sorted(rows)}."
        )
    return np.broadcast_to(codes, (max(rows, default=1), codes.shape[1])), weights


def _codes(model: Variables, evidence: object) -> CellArray:
    """(rows, variables), -1 where unobserved, not yet checked against the states."""
    if evidence is None:
        return np.full((1, len(model.names)), -1, dtype=np.int64)
    if isinstance(evidence, Mapping):
        return _by_name(model, evidence)
    if isinstance(evidence, list | tuple) and any(isinstance(row, Mapping) for row in evidence):
        return _by_row(model, evidence)
    if hasattr(evidence, "columns"):  # a frame: its columns have names, and may miss cells
        table = read_table(evidence)
        columns = {}
        for name in table.names:
            values = table.column(name)
            gone = values.missing if values.missing is not None else [False] * table.length
            cells = zip(values.cells.tolist(), gone, strict=True)
            columns[name] = [None if missing else cell for cell, missing in cells]
        return _by_name(model, columns, rows=table.length)
    return np.asarray(evidence)


def _by_row(model: Variables, evidence: Sequence[Cell]) -> CellArray:
    rows = []
    for k, row in enumerate(evidence):
        if not isinstance(row, Mapping):
            raise EvidenceError(f"expected {{variable: state}} in row {k}, got {row!r:.80}.")
        rows.append(_by_name(model, row, rows=1))
    return np.concatenate(rows)


def _by_name(model: Variables, given: ByName[Cell], rows: int | None = None) -> CellArray:
    """{variable: state} is one row, {variable: [state, …]} are many; None is unobserved."""
    number = {name: v for v, name in enumerate(model.names)}
    found: dict[int, int | list[int]] = {}
    for name, value in given.items():
        if name not in number:
            raise UnknownNameError("variable", name, model.names)
        found[number[name]] = _state_codes(model, name, value)
    lengths = {len(x) for x in found.values() if isinstance(x, list)}
    if len(lengths | ({rows} if rows is not None else set())) > 1:
        raise EvidenceError(
            f"expected as many states for every variable, got lists of {sorted(lengths)}."
        )
    length = lengths.pop() if lengths else 1
    codes = np.full((length, len(model.names)), -1, dtype=np.int64)
    for v, column in found.items():
        codes[:, v] = column
    return codes


def _state_codes(model: Variables, name: Label, value: Cell) -> int | list[int]:
    """The code of a state, or of many."""
    named = model.state_names.get(name)
    place = None if named is None else {state: k for k, state in enumerate(named)}
    state = isinstance(value, tuple) and _found(value, place) is not None
    if state or not _is_column(value):
        return _code(name, value, place)
    cells = value.tolist() if hasattr(value, "tolist") else list(value)
    # a column with holes is one of floats, whole numbers though it holds
    plain = (int(x) if isinstance(x, float) and x.is_integer() else x for x in cells)
    return [_code(name, x, place) for x in (cells if place is not None else plain)]


def _is_column(value: Cell) -> bool:
    if isinstance(value, list | tuple):
        return True
    return hasattr(value, "__array__") and np.ndim(value) == 1


def _code(name: Label, value: Cell, place: ByName[int] | None) -> int:
    if value is None or (isinstance(value, float) and value != value):
        return -1
    if place is not None:
        code = _found(value, place)
        if code is None:
            raise UnknownNameError(f"state of {name!r}", value, place)
        return code
    try:
        return operator.index(value)
    except TypeError:
        raise EvidenceError(
            f"expected the code of a state of {name!r}, a whole number, got {value!r:.80}. To give "
            "states by name, pass state_names to the model."
        ) from None


def _found(value: Cell, place: ByName[int] | None) -> int | None:
    try:
        return (place or {}).get(value)
    except TypeError:  # what cannot be hashed is no state
        return None


def with_latents(model: Variables, observed: Sequence[int], columns: object) -> StateCodes:
    """Codes (rows, observables) -> (rows, all variables), -1 for latents."""
    codes = np.asarray(columns)
    if codes.ndim != 2 or codes.shape[1] != len(observed):
        raise EvidenceError(
            f"expected codes of shape (rows, {len(observed)}), one column for each observable, "
            f"got {codes.shape}."
        )
    wide = np.full((len(codes), len(model.names)), -1, dtype=codes.dtype)
    wide[:, observed] = codes
    return checked_codes(wide, model)


def checked_codes(codes: CellArray, model: Variables) -> StateCodes:
    n = len(model.names)
    if codes.ndim != 2 or codes.shape[1] != n:
        raise EvidenceError(
            f"expected codes of shape (rows, {n}), one column for every variable, latents too, got "
            f"{codes.shape}. `evidence(columns)` of the model adds the latents to observables."
        )
    if not np.issubdtype(codes.dtype, np.integer):
        raise EvidenceError(
            f"expected whole numbers as codes, -1 where unobserved, got dtype {codes.dtype}. "
            "Number the states of each variable 0, 1, … and convert with astype(int)."
        )
    wrong = np.argwhere((codes < -1) | (codes >= np.array(model.states)))
    if len(wrong):
        row, v = wrong[0]
        raise EvidenceError(
            f"variable {model.names[v]!r} has states 0 to {model.states[v] - 1}, got "
            f"{codes[row, v]} in row {row}. Pass one of the states, or -1 to leave it unobserved."
        )
    return codes.astype(np.int64)


def _checked_likelihood(given: object, name: Label, labels: tuple[Hashable, ...]) -> Array:
    likelihood, states = given, len(labels)
    if isinstance(given, Mapping):
        if set(given) != set(labels):
            raise EvidenceError(
                f"expected as soft evidence on {name!r} a likelihood for each of its states, "
                f"{list(labels)}, got {given!r:.80}."
            )
        likelihood = [given[state] for state in labels]
    try:
        numbers = np.atleast_2d(np.asarray(likelihood, dtype=np.float64))  # (rows or 1, states)
    except (TypeError, ValueError):
        numbers = np.full((1, 1), np.nan)
    wanted = numbers.ndim == 2 and numbers.shape[1] == states
    if not wanted or not np.isfinite(numbers).all() or (numbers < 0).any():
        raise EvidenceError(
            f"expected as soft evidence on {name!r} finite likelihoods of 0 or more, of shape "
            f"({states},) or (rows, {states}), got {given!r:.80}."
        )
    return numbers


def log_likelihoods(
    model: Variables, codes: StateCodes, soft: Mapping[int, Array], rows: slice
) -> dict[int, Array]:
    """log λ of each variable with any evidence in this block of rows: (states, rows)."""
    found: dict[int, Array] = {}
    states = model.states
    for v in np.flatnonzero((codes >= 0).any(axis=0)).tolist():
        column = codes[:, v]  # (rows,)
        agrees = (column == np.arange(states[v])[:, None]) | (column < 0)
        found[v] = np.where(agrees, 0.0, -np.inf)
    for v, likelihood in soft.items():
        part = likelihood if len(likelihood) == 1 else likelihood[rows]
        found[v] = found.get(v, np.zeros(1)) + log(part.T)
    return found
