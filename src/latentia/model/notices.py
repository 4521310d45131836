"""What a user is told besides the answer: warnings, each with its figure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING

import numpy as np

from latentia.announcing import warn
from latentia.data.columns.column import Column
from latentia.data.columns.continuous import dense_columns
from latentia.data.columns.values import is_missing
from latentia.errors import (
    ConstantColumnWarning,
    ConvergenceWarning,
    DateColumnWarning,
    FeatureWarning,
    IdentifiabilityWarning,
    IgnoredColumnWarning,
    IndependenceWarning,
    LeftOutWarning,
    RangeWarning,
    RestartWarning,
    StartsDisagreeWarning,
    StatesWarning,
)
from latentia.inference.operators import Operators
from latentia.structure.plan import SHORTFALL
from latentia.typing import ByName, Cell, Label

if TYPE_CHECKING:
    from latentia.networks.learner import Learner


MANY_DATES = 20  # more than months, and so many that rows of each are few
DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ]|$)")  # as ISO 8601 spells them …
ZONE = re.compile(r"\d(Z|[+-]\d{2}:?\d{2})$")  # as times end
EITHER_WAY = re.compile(r"\d{1,2}([./-])\d{1,2}\1\d{4}([T ]|$)")  # … day or month first


def note_constant(names: Sequence[Label]) -> None:
    flat = [str(name) for name in names]
    if flat:
        warn(
            f"{len(flat)} column(s) with a single value cannot teach anything: "
            f"{', '.join(flat[:10])}. Leave them out, or bring rows in which they vary.",
            ConstantColumnWarning,
        )


def note_ignored(names: Sequence[Label]) -> None:
    if names:
        warn(
            f"{len(names)} column(s) that the graph does not name are ignored: {_ten(names)}. "
            "Tie them into the graph, or drop them.",
            IgnoredColumnWarning,
        )


def _ten(names: Sequence[Label]) -> str:
    """The first ten."""
    return ", ".join(str(n) for n in names[:10]) + (" …" if len(names) > 10 else "")


def note_dates(columns: Sequence[Column], kinds: ByName[str]) -> None:
    """Columns of many dates, unless they were said to be discrete."""
    for column in columns:
        if column.continuous or column.name in kinds or column.cells <= MANY_DATES:
            continue
        if all(map(_is_date, column.labels)):
            holds = "holds dates"
            advice = f"kinds={{{column.name!r}: 'continuous'}} has time measured"
            if any(isinstance(x, str) and ZONE.search(x) for x in column.labels):
                advice = "As text with a zone they are no times: pandas.to_datetime makes them such"
        elif all(isinstance(x, str) and EITHER_WAY.match(x) for x in column.labels):
            holds = f"seems to hold dates such as {column.labels[0]!r}"
            advice = "Spelled as 2024-03-17 (pandas.to_datetime) time is measured"
        else:
            continue
        warn(
            f"{column.name!r} {holds}, each of its {column.cells:,} is a state of its own that "
            f"knows nothing of the next. {advice}; months or weekdays are states. "
            f"kinds={{{column.name!r}: 'discrete'}} keeps the dates.",
            DateColumnWarning,
        )


def _is_date(label: Cell) -> bool:
    return isinstance(label, date) or (isinstance(label, str) and bool(DATE.match(label)))


def note_silent(names: Sequence[Label]) -> None:
    """Latents below which no column lies."""
    if names:
        warn(
            f"rows tell nothing of {_ten(names)}: no column lies below; the model does without. "
            "Tie such latents to columns that they act on, or leave them out of the graph.",
            IdentifiabilityWarning,
        )


def note_plan(notes: Sequence[str]) -> None:
    """What the plan says of the graph: states that cannot be told apart, features left out."""
    for note in notes:
        missed = note.startswith(SHORTFALL)
        kind = FeatureWarning if missed else IdentifiabilityWarning
        warn(note, kind)


def note_restart(rows: float) -> None:
    warn(
        f"this model was learned by fit, whose sums cannot be added to: partial_fit starts anew, "
        f"without those {rows:,.0f} rows. Learn all tables by partial_fit, or all at once by fit.",
        RestartWarning,
    )


def note_unfinished(operators: Operators, learner: Learner) -> None:
    ascent = operators.provenance.ascent
    if ascent is None or ascent.converged[ascent.best]:
        return
    path = ascent.paths[ascent.best]
    last = "" if len(path) < 2 else f" (the last gained {path[-1] - path[-2]:.2g} per row)"
    warn(
        f"{type(learner).__name__} stopped after {len(path) - 1} iterations before it converged"
        f"{last}. Allow more iterations, or a larger tolerance.",
        ConvergenceWarning,
    )


def note_states(operators: Operators) -> None:
    for note in operators.provenance.notes:
        warn(note, StatesWarning)


def note_doubts(operators: Operators) -> None:
    for doubt in operators.provenance.doubts:
        warn(doubt, StartsDisagreeWarning)


def note_independent(operators: Operators) -> None:
    choice = operators.provenance.choice
    if choice is None or choice.chosen != "marginal" or len(operators.plan.leaves) < 2:
        return
    best = min(loss for name, loss in choice.losses.items() if name != "marginal")
    warn(
        "the columns tell nothing of each other that other rows bear out: on "
        f"{choice.held_out} held-out rows the marginals alone lose "
        f"{choice.losses['marginal']:.4f} per row, the best model {best:.4f}. Answers are the "
        "marginals. Bring more rows, or PBP(refine=True) to have a model all the same.",
        IndependenceWarning,
    )


def note_left_out(operators: Operators) -> None:
    """Candidates of a comparison that could not be made, and rows that were not learned from."""
    choice = operators.provenance.choice
    said = list(operators.provenance.remarks)
    if choice is not None and choice.losses:
        said += [
            f"there is no {name} model among those compared, and the {choice.chosen} one answers: "
            f"{why}"
            for name, why in choice.left_out.items()
        ]
    for text in said:
        warn(text, LeftOutWarning)


def note_outside(columns: Sequence[Column], evidence: ByName[Cell]) -> None:
    """Evidence at values that training never came near."""
    for c in dense_columns(range(len(columns)), columns).values():
        value = evidence.get(c.name)
        if is_missing(value) or c.is_range(value):
            continue
        told = c.told(value)
        if c.beyond(told)[0]:
            ends = c.unscaled(np.array([c.low, c.high])).tolist()
            own = (*c.read([value]).tolist(), *ends)
            shown, low, high = (
                c.shown(x) if c.summary_type is not float else f"{x:.6g}" for x in own
            )
            warn(
                f"{c.name} = {shown} lies beyond the values of training, {low} to "
                f"{high}; the nearest of these stands in. Leave it out if it is an error.",
                RangeWarning,
            )


def note_not_asked(extra: Sequence[Label]) -> None:
    """Columns that a score leaves out: a longer row than the model knows, for instance."""
    if extra:
        shown = ", ".join(str(n) for n in extra[:10]) + (" …" if len(extra) > 10 else "")
        warn(
            f"{len(extra)} column(s) that the model does not know take no part in the score: "
            f"{shown}. Drop them, or learn a model of them, too.",
            IgnoredColumnWarning,
        )
