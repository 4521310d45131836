"""What may be said of a continuous column: a number, an interval, a function of its values."""

from __future__ import annotations

import numpy as np

from latentia.data.columns.masses import Grid, cell_values, interval_likelihood
from latentia.errors import EvidenceError
from latentia.spelling import shortened
from latentia.typing import Array, Cell, Label


def read_number(name: Label, value: Cell) -> float:
    """A finite number, or an error that says what may be said."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise EvidenceError(
            f"{name!r} is continuous: expected a number, or an interval (low, high), got "
            f"{shortened(value)}."
        ) from None
    if not np.isfinite(number):
        raise EvidenceError(f"{name!r} is continuous: expected a finite number, got {value}.")
    return number


def likelihood_of_interval(name: Label, column: Grid, ends: Cell) -> Array:
    """Share of each cell inside the interval, (cells,); None is an end that is open."""
    if len(ends) != 2:
        raise EvidenceError(f"expected an interval (low, high) for {name!r}, got {ends!r}.")
    try:
        low = -np.inf if ends[0] is None else float(ends[0])
        high = np.inf if ends[1] is None else float(ends[1])
    except (TypeError, ValueError, OverflowError):
        raise EvidenceError(
            f"expected an interval (low, high) of numbers for {name!r}, got {tuple(ends)!r}."
        ) from None
    if not low < high:
        raise EvidenceError(
            f"expected an interval with low < high for {name!r}, got {tuple(ends)}."
        )
    x = column.unscaled(np.array([column.low, column.high]))
    share = interval_likelihood(column, max(low, float(x[0])), min(high, float(x[1])))
    if not share.sum() > 0:
        raise EvidenceError(
            f"{name!r} was between {x[0]:.6g} and {x[1]:.6g} in training; "
            f"{tuple(ends)} lies outside. Widen the interval, or leave it out."
        )
    return share


def likelihood_of_function(name: Label, column: Grid, given: Cell) -> Array:
    """Values of a function at the cells, (cells,); one that fails is told."""
    if not callable(given):
        raise EvidenceError(
            f"{name!r} is continuous: soft evidence is a function of its values, such "
            f"as lambda x: np.exp(-(x - 3)**2); got {type(given).__name__}."
        )
    x = cell_values(column)
    try:
        with np.errstate(all="ignore"):
            found = np.asarray(given(x), dtype=float)
        return np.array(np.broadcast_to(found, x.shape))
    except Exception as error:
        raise EvidenceError(
            f"the function given as soft evidence of {name!r} must turn an array of values "
            f"into one of likelihoods; it came to {type(error).__name__}: {error}."
        ) from error
