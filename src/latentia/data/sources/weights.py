"""Weights of rows: frequencies, one number per row or a column of the table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from latentia.announcing import warn
from latentia.errors import DataError, UnknownNameError, WeightWarning
from latentia.typing import Array, Label, WeightLike

LARGEST_WEIGHT = 1e15  # larger counts are no longer exact


def weight_name(sample_weight: WeightLike | None, names: Sequence[Label]) -> Label | None:
    """The column that holds the weights, if they are given by name."""
    if not isinstance(sample_weight, str):
        return None
    if sample_weight not in names:
        raise UnknownNameError("column (as sample_weight)", sample_weight, names)
    return sample_weight


def checked_weight(weight: object, rows: int) -> Array:
    """Weights of a table in memory: finite, not negative, one per row."""
    try:
        values = np.asarray(weight, dtype=float)
    except (TypeError, ValueError):
        raise DataError(
            "expected weights to be numbers, one per row, or the name of a column; "
            f"got {type(weight).__name__} that holds something else."
        ) from None
    if values.ndim == 0:
        values = np.full(rows, float(values))
    if values.shape != (rows,):
        raise DataError(
            f"expected one weight per row, sample_weight.shape == {(rows,)}, got {values.shape}."
        )
    if not np.isfinite(values).all() or (values < 0).any():
        raise DataError("weights must be finite and not negative. Drop or mend such rows.")
    return values


def check_total(rows: int, total: float) -> None:
    """Do all weights together count as rows?"""
    if not total > 0:
        raise DataError("all weights are zero; at least one row must count.")
    if total > LARGEST_WEIGHT:
        raise DataError(
            f"the weights sum to {total:.3g}, more rows than can be counted (at most "
            f"{LARGEST_WEIGHT:.0e}). Weights are frequencies: divide them by a common factor."
        )
    if rows > 10 and total < 1.0 + 1e-3:
        warn(
            f"the {rows} weights sum to {total:.4g}: they look relative, but are read as "
            "frequencies, so this is learned like one row at most. Multiply them by the number of "
            "rows.",
            WeightWarning,
        )
