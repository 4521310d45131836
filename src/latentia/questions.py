"""Reading a question: names, states and likelihoods, checked, as codes for one row of evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from latentia.errors import EvidenceError, UnknownNameError
from latentia.features.discrete import DiscreteColumn
from latentia.typing import Array, Codes, Label

__all__ = ["column_place", "named", "one_row"]


def named(variables: Any, known: Iterable[Label]) -> list[Label]:
    """One label or several; a tuple may be a label of its own."""
    single = isinstance(variables, str) or not isinstance(variables, Iterable)
    names = [variables] if single or _hashable_in(variables, known) else list(variables)
    if not names:
        raise EvidenceError("name at least one variable to ask for.")
    if len(set(names)) != len(names):
        raise EvidenceError(f"variables are asked for twice: {names}.")
    return names


def column_place(name: Label, columns: Sequence[DiscreteColumn], known: Iterable[Label]) -> int:
    """Position of a column among the model's columns."""
    for i, column in enumerate(columns):
        if column.name == name:
            return i
    if name in known:
        raise EvidenceError(
            f"{name!r} is latent; only columns can be asked for or observed: "
            f"{', '.join(str(c.name) for c in columns)}."
        )
    raise UnknownNameError("variable", name, [c.name for c in columns])


def one_row(
    columns: Sequence[DiscreteColumn],
    known: Iterable[Label],
    asked: Sequence[Label],
    evidence: Mapping[Any, Any],
    soft: Mapping[Any, Mapping[Any, float]],
) -> tuple[list[Codes | None], dict[int, Array]]:
    """Codes and likelihoods by column; what is asked for must not be observed."""
    codes: list[Codes | None] = [None] * len(columns)
    for name in (*evidence, *soft):
        if name in asked:
            raise EvidenceError(
                f"{name!r} is asked for and observed at once. Leave it out of the evidence."
            )
        if name in evidence and name in soft:
            raise EvidenceError(f"{name!r} has hard and soft evidence. Keep one of them.")
    for name, state in evidence.items():
        place = column_place(name, columns, known)
        if state is None or (isinstance(state, float) and np.isnan(state)):
            continue  # a missing cell is not evidence
        codes[place] = np.array([columns[place].code(state)])
    likelihoods = {}
    for name, by_state in soft.items():
        place = column_place(name, columns, known)
        column = columns[place]
        values = np.zeros(len(column.states))
        for state, likelihood in by_state.items():
            if not (np.isfinite(likelihood) and likelihood >= 0):
                raise EvidenceError(
                    f"likelihoods must be finite and not negative, got {likelihood} "
                    f"for {name!r}={state!r}."
                )
            values[column.code(state)] = likelihood
        if not values.sum() > 0:
            raise EvidenceError(f"all likelihoods of {name!r} are zero; one must be positive.")
        likelihoods[place] = values[:, None]
    return codes, likelihoods


def _hashable_in(value: Any, known: Iterable[Label]) -> bool:
    try:
        return value in set(known)
    except TypeError:
        return False
