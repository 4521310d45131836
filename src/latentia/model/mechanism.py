"""Why cells are missing: what the rows say of it, and a warning where it matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from latentia.announcing import warn
from latentia.assess.holes import HolesDepend, dependent_holes
from latentia.data.columns.column import Column
from latentia.data.rows import Source
from latentia.errors import HolesWarning
from latentia.typing import Label

MOST_SAID = 5


def note_holes(
    columns: Sequence[Column], missing: Mapping[Label, float], source: Source, exact: bool
) -> tuple[HolesDepend, ...]:
    """A warning that names the columns whose holes depend on others; `exact`: by likelihood."""
    found = dependent_holes(columns, [missing.get(c.name, 0.0) for c in columns], source)
    if not found:
        return ()
    said = "; ".join(each.words for each in found[:MOST_SAID])
    more = f"; and {len(found) - MOST_SAID} more" if len(found) > MOST_SAID else ""
    advice = (
        "Tables account for this as long as what holes depend on is a column of the model. If they "
        "depend on the missing value itself, name that: mechanism={column: [parents]}."
        if exact
        else "This model takes holes for a matter of chance, and is biased by them. Use "
        "learner='tables' or 'em'; or name why cells are missing: mechanism={column: [parents]}."
    )
    warn(f"{said}{more}. {advice}", HolesWarning)
    return found
