"""Reading a question: names, states and likelihoods, checked, as codes for one row of evidence.

Evidence is a dict, or a row of the table; nothing is said by cells that are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from latentia.data.columns.column import Column, Places
from latentia.data.columns.values import is_missing
from latentia.errors import EvidenceError, UnknownNameError
from latentia.typing import Array, ByName, Cell, Given, Label


def named(variables: Given, known: Iterable[Label]) -> list[Label]:
    """One label or several; a tuple may be a label of its own."""
    single = isinstance(variables, str) or not isinstance(variables, Iterable)
    names = [variables] if single or _hashable_in(variables, known) else list(variables)
    if not names:
        raise EvidenceError("name at least one variable to ask for.")
    for name in names:
        if not _hashable(name):
            raise EvidenceError(f"expected names of variables, got {name!r}.")
    if len(set(names)) != len(names):
        raise EvidenceError(f"variables are asked for twice: {names}.")
    return names


def column_place(name: Label, columns: Sequence[Column], known: Iterable[Label]) -> int:
    """Position of a column among the model's columns."""
    return _place(name, {column.name: i for i, column in enumerate(columns)}, known)


def _place(name: Label, places: Mapping[Label, int], known: Iterable[Label]) -> int:
    if _hashable(name) and name in places:
        return places[name]
    if _hashable(name) and name in known:
        raise EvidenceError(
            f"{name!r} is latent; only columns can be asked for or observed: "
            f"{', '.join(map(str, places))}."
        )
    raise UnknownNameError("variable", name, list(places))


def one_row(
    columns: Sequence[Column],
    known: Iterable[Label],
    asked: Sequence[Label],
    evidence: ByName[Cell],
    soft: ByName[Cell],
) -> tuple[list[Places | None], dict[int, Array]]:
    """Codes and likelihoods by column; what is asked for must not be observed."""
    codes: list[Places | None] = [None] * len(columns)
    wanted = set(asked)
    for name in (*evidence, *soft):
        if name in wanted:
            raise EvidenceError(
                f"{name!r} is asked for and observed at once. Leave it out of the evidence."
            )
        if name in evidence and name in soft:
            raise EvidenceError(f"{name!r} has hard and soft evidence. Keep one of them.")
    likelihoods: dict[int, Array] = {}
    places = {column.name: i for i, column in enumerate(columns)}
    for name, state in evidence.items():
        place = _place(name, places, known)
        column = columns[place]
        if is_missing(state):
            continue
        if column.is_range(state):
            likelihoods[place] = column.likelihood(state)[:, None]
        else:
            codes[place] = column.place_of(state)
    for name, given in soft.items():
        place = _place(name, places, known)
        likelihoods[place] = column_likelihood(columns[place], given)
    return codes, likelihoods


def column_likelihood(column: Column, given: Cell) -> Array:
    """Soft evidence as likelihoods of the column's cells, (cells, 1)."""
    values = column.likelihood(given)
    if not np.isfinite(values).all() or (values < 0).any():
        raise EvidenceError(
            f"likelihoods must be finite and not negative, got {values.min()} … {values.max()} "
            f"for {column.name!r}."
        )
    if not values.sum() > 0:
        raise EvidenceError(f"all likelihoods of {column.name!r} are zero; one must be positive.")
    return np.array(values)[:, None]


def read_levels(quantile: object) -> list[float]:
    """Levels of quantiles, each between 0 and 1."""
    try:
        levels = [float(q) for q in np.atleast_1d(np.asarray(quantile, dtype=float))]
    except (TypeError, ValueError):
        levels = []
    if not levels or not all(0 < q < 1 for q in levels):
        raise EvidenceError(
            f"expected quantiles as numbers between 0 and 1, one at least, got {quantile!r}."
        )
    return levels


def _hashable(name: object) -> bool:
    try:
        hash(name)
    except TypeError:
        return False
    return True


def _hashable_in(value: object, known: Iterable[Label]) -> bool:
    try:
        return value in set(known)
    except TypeError:
        return False


# --- evidence as people have it ------------------------------------------------------------------


def read_evidence_given(evidence: Cell, known: Iterable[Label]) -> ByName[Cell]:
    """{variable: state} of what was given as evidence; None is none."""
    if evidence is None:
        return {}
    if not isinstance(evidence, Mapping):
        return read_row(evidence, known)
    for name, state in evidence.items():
        if isinstance(state, Mapping):
            raise EvidenceError(
                f"expected one state of {name!r}, got likelihoods of several. These are soft "
                f"evidence: pass soft={{{name!r}: {dict(state)!r}}}."
            )
    return evidence


def read_row(row: Cell, known: Iterable[Label]) -> dict[Label, Cell]:
    """{variable: state} from a dict, a pandas series, or a frame of one row; holes left out.

    Of a table's row only what the model knows is evidence.
    """
    if isinstance(row, Mapping):
        return without_missing(row)
    names = list(known)
    if hasattr(row, "columns"):
        from latentia.data.sources.table import read_table

        table = read_table(row)
        if table.length != 1:
            raise EvidenceError(f"expected one row as evidence, got {table.length} rows.")
        found = {}
        for name in table.names:
            values = table.column(name)
            gone = values.missing is not None and bool(values.missing[0])
            if name in names and not gone:
                found[name] = values.cells.tolist()[0]
        return without_missing(found)
    if hasattr(row, "keys") and hasattr(row, "__getitem__"):
        return without_missing({name: row[name] for name in list(row.keys()) if name in names})
    raise EvidenceError(
        "expected evidence as {variable: state}, or a row of a table (a series, a frame of one "
        f"row), got {type(row).__name__}."
    )


def without_missing(evidence: ByName[Cell] | None) -> dict[Label, Cell]:
    """Evidence without cells that are missing."""
    return {name: state for name, state in (evidence or {}).items() if not is_missing(state)}
