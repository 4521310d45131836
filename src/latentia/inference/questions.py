"""Reading a question: names, states and likelihoods, checked, as codes for one row of evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.columns.discrete import DiscreteColumn
from latentia.data.columns.masses import cell_values, interval_likelihood
from latentia.errors import EvidenceError, UnknownNameError
from latentia.typing import Array, Label


def named(variables: Any, known: Iterable[Label]) -> list[Label]:
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
    columns: Sequence[Column],
    known: Iterable[Label],
    asked: Sequence[Label],
    evidence: Mapping[Any, Any],
    soft: Mapping[Any, Any],
) -> tuple[list[Any], dict[int, Array]]:
    """Codes and likelihoods by column; what is asked for must not be observed."""
    codes: list[Any] = [None] * len(columns)
    for name in (*evidence, *soft):
        if name in asked:
            raise EvidenceError(
                f"{name!r} is asked for and observed at once. Leave it out of the evidence."
            )
        if name in evidence and name in soft:
            raise EvidenceError(f"{name!r} has hard and soft evidence. Keep one of them.")
    likelihoods: dict[int, Array] = {}
    for name, state in evidence.items():
        place = column_place(name, columns, known)
        column = columns[place]
        if state is None or (isinstance(state, float) and np.isnan(state)):
            continue  # a missing cell is not evidence
        if isinstance(column, DiscreteColumn):
            codes[place] = np.array([column.code(state)])
        elif not isinstance(column, ContinuousColumn):
            raise TypeError(f"no evidence is known for a column of kind {column.kind!r}.")
        elif isinstance(state, tuple | list):
            likelihoods[place] = _interval(column, state)
        else:
            codes[place] = column.positions(np.array([_number(column, state)]))
    for name, given in soft.items():
        place = column_place(name, columns, known)
        likelihoods[place] = _likelihood(columns[place], given)
    return codes, likelihoods


def _number(column: ContinuousColumn, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise EvidenceError(
            f"{column.name!r} is continuous: expected a number, or an interval (low, high), "
            f"got {value!r}."
        ) from None
    if not np.isfinite(number):
        raise EvidenceError(
            f"{column.name!r} is continuous: expected a finite number, got {value}."
        )
    return number


def _interval(column: ContinuousColumn, ends: Any) -> Array:
    if len(ends) != 2:
        raise EvidenceError(f"expected an interval (low, high) for {column.name!r}, got {ends!r}.")
    try:
        low = -np.inf if ends[0] is None else float(ends[0])
        high = np.inf if ends[1] is None else float(ends[1])
    except (TypeError, ValueError, OverflowError):
        raise EvidenceError(
            f"expected an interval (low, high) of numbers for {column.name!r}, got {tuple(ends)!r}."
        ) from None
    if not low < high:
        raise EvidenceError(
            f"expected an interval with low < high for {column.name!r}, got {tuple(ends)}."
        )
    x = column.unscaled(np.array([column.low, column.high]))
    share = interval_likelihood(column, max(low, float(x[0])), min(high, float(x[1])))
    if not share.sum() > 0:
        raise EvidenceError(
            f"{column.name!r} was between {x[0]:.6g} and {x[1]:.6g} in training; "
            f"{tuple(ends)} lies outside. Widen the interval, or leave it out."
        )
    return share[:, None]


def _likelihood(column: Column, given: Any) -> Array:
    """Likelihoods of the states, or of the values of a continuous column, (states, 1)."""
    if isinstance(column, ContinuousColumn):
        if not callable(given):
            raise EvidenceError(
                f"{column.name!r} is continuous: soft evidence is a function of its values, such "
                f"as lambda x: np.exp(-(x - 3)**2); got {type(given).__name__}."
            )
        x = cell_values(column)
        values = _function_values(column, given, x)
    else:
        assert isinstance(column, DiscreteColumn)
        if not isinstance(given, Mapping):
            raise EvidenceError(
                f"soft evidence of {column.name!r} is likelihoods of its states, such as "
                f"{{{column.states[0]!r}: 0.8}}; got {type(given).__name__}."
            )
        values = np.zeros(len(column.states))
        for state, likelihood in given.items():
            values[column.code(state)] = _likelihood_of(column, state, likelihood)
    if not np.isfinite(values).all() or (values < 0).any():
        raise EvidenceError(
            f"likelihoods must be finite and not negative, got {values.min()} … {values.max()} "
            f"for {column.name!r}."
        )
    if not values.sum() > 0:
        raise EvidenceError(f"all likelihoods of {column.name!r} are zero; one must be positive.")
    return np.array(values)[:, None]


def _likelihood_of(column: Column, state: Any, likelihood: Any) -> float:
    try:
        return float(likelihood)
    except (TypeError, ValueError, OverflowError):
        raise EvidenceError(
            f"expected a number as likelihood of {state!r} of {column.name!r}, got {likelihood!r}."
        ) from None


def _function_values(column: Column, given: Callable[[Array], Any], x: Array) -> Array:
    """Likelihoods at x; a function that fails, or gives something else, is told."""
    try:
        with np.errstate(all="ignore"):
            found = np.asarray(given(x), dtype=float)
        return np.array(np.broadcast_to(found, x.shape))
    except Exception as error:
        raise EvidenceError(
            f"the function given as soft evidence of {column.name!r} must turn an array of values "
            f"into one of likelihoods; it came to {type(error).__name__}: {error}."
        ) from error


def read_levels(quantile: Any) -> list[float]:
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


def _hashable(name: Any) -> bool:
    try:
        hash(name)
    except TypeError:
        return False
    return True


def _hashable_in(value: Any, known: Iterable[Label]) -> bool:
    try:
        return value in set(known)
    except TypeError:
        return False
