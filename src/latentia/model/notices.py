"""What a user is told besides the answer: wrong weights, and warnings with their figure."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.columns.continuous import ContinuousColumn
from latentia.errors import (
    ConstantColumnWarning,
    ConvergenceWarning,
    DataError,
    FeatureWarning,
    IdentifiabilityWarning,
    IgnoredColumnWarning,
    IndependenceWarning,
    RangeWarning,
    RepairWarning,
    RestartWarning,
    StatesWarning,
    WeightWarning,
)
from latentia.inference.operators import Operators
from latentia.structure.plan import SHORTFALL
from latentia.typing import Array, Codes, Label

LARGEST_WEIGHT = 1e15  # larger counts are no longer exact


def checked_weight(weight: Any, rows: int) -> Array | None:
    """Weights are frequencies: finite, not negative, one per row."""
    if weight is None:
        return None
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
    total = float(values.sum())
    if not total > 0:
        raise DataError("all weights are zero; at least one row must count.")
    if total > LARGEST_WEIGHT:
        raise DataError(
            f"the weights sum to {total:.3g}, more rows than can be counted (at most "
            f"{LARGEST_WEIGHT:.0e}). Weights are frequencies: divide them by a common factor."
        )
    if rows > 10 and abs(total - 1.0) < 1e-3:
        warnings.warn(
            f"the {rows} weights sum to {total:.4g}: they look relative, but are read as "
            "frequencies, so this is learned like one row. Multiply them by the number of rows.",
            WeightWarning,
            stacklevel=3,
        )
    return values


def note_constant(columns: Sequence[Column], codes: Sequence[Codes]) -> None:
    flat = [
        str(c.name)
        for c, x in zip(columns, codes, strict=True)
        if not c.continuous and len(np.unique(x[x >= 0])) < 2
    ]
    note_flat(flat)


def note_flat(names: Sequence[Label]) -> None:
    flat = [str(name) for name in names]
    if flat:
        warnings.warn(
            f"{len(flat)} column(s) with a single value cannot teach anything: "
            f"{', '.join(flat[:10])}. Leave them out, or bring rows in which they vary.",
            ConstantColumnWarning,
            stacklevel=3,
        )


def note_ignored(names: Sequence[Label]) -> None:
    if names:
        shown = ", ".join(str(n) for n in names[:10]) + (" …" if len(names) > 10 else "")
        warnings.warn(
            f"{len(names)} column(s) that the graph does not name are ignored: {shown}. "
            "Tie them into the graph, or drop them.",
            IgnoredColumnWarning,
            stacklevel=4,
        )


def note_plan(notes: Sequence[str], stacklevel: int = 4) -> None:
    """What the plan says of the graph: states that cannot be told apart, features left out."""
    for note in notes:
        missed = note.startswith(SHORTFALL)
        kind = FeatureWarning if missed else IdentifiabilityWarning
        warnings.warn(note, kind, stacklevel=stacklevel)


def note_restart(rows: float) -> None:
    warnings.warn(
        f"this model was learned by fit, whose sums cannot be added to: partial_fit starts anew, "
        f"without those {rows:,.0f} rows. Learn all tables by partial_fit, or all at once by fit.",
        RestartWarning,
        stacklevel=4,
    )


def note_unfinished(operators: Operators, learner: Any) -> None:
    ascent = operators.ascent
    if ascent is None or ascent.converged[ascent.best]:
        return
    path = ascent.paths[ascent.best]
    last = "" if len(path) < 2 else f" (the last gained {path[-1] - path[-2]:.2g} per row)"
    warnings.warn(
        f"{type(learner).__name__} stopped after {len(path) - 1} iterations before it converged"
        f"{last}. Allow more iterations, or a larger tolerance.",
        ConvergenceWarning,
        stacklevel=3,
    )


def note_states(operators: Operators) -> None:
    for note in operators.notes:
        warnings.warn(note, StatesWarning, stacklevel=4)


def note_independent(operators: Operators) -> None:
    choice = operators.choice
    if choice is None or choice.chosen != "marginal" or len(operators.plan.leaves) < 2:
        return
    best = min(loss for name, loss in choice.losses.items() if name != "marginal")
    warnings.warn(
        "the columns tell nothing of each other that other rows bear out: on "
        f"{choice.held_out} held-out rows the marginals alone lose "
        f"{choice.losses['marginal']:.4f} per row, the best model {best:.4f}. Answers are the "
        "marginals. Bring more rows, or PBP(refine=True) to have a model all the same.",
        IndependenceWarning,
        stacklevel=4,
    )


def note_outside(columns: Sequence[Column], evidence: Mapping[Any, Any]) -> None:
    """Evidence at values that training never came near."""
    for c in columns:
        value = evidence.get(c.name)
        if not isinstance(c, ContinuousColumn) or not isinstance(value, int | float | np.number):
            continue
        if bool(c.outside(np.array([float(value)]))[0]):
            low, high = c.unscaled(np.array([c.low, c.high]))
            warnings.warn(
                f"{c.name} = {float(value):.6g} lies beyond the values of training, {low:.6g} to "
                f"{high:.6g}; the nearest of these stands in. Leave it out if it is an error.",
                RangeWarning,
                stacklevel=3,
            )


def note_repaired(rows: int) -> None:
    warnings.warn(
        f"the signed model gave {rows} row(s) no positive probability; their columns stand in as "
        "if they were independent. More rows, or a learner with a valid distribution, would help.",
        RepairWarning,
        stacklevel=3,
    )
