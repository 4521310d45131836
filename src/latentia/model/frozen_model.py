"""Learning from sums that are gathered elsewhere or later: parts of a table, other sites.

pilot ─> FrozenModel ─> gather(rows) ─> Moments, added ─> solve ─> LatentModel
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast, final

from latentia import doors
from latentia.assess.diagnostics import diagnose
from latentia.closed_form.frozen import Frozen
from latentia.data.columns.column import Column
from latentia.data.moments import Moments
from latentia.data.rows import Source
from latentia.data.sources.table_rows import open_rows
from latentia.errors import MomentsError
from latentia.parameters import unfitted
from latentia.structure.graph import spell
from latentia.structure.plan import Plan
from latentia.typing import Label, TableLike, WeightLike

if TYPE_CHECKING:
    from latentia.data.sources.progress import ProgressLike
    from latentia.model.latent_model import LatentModel
    from latentia.model.learning import Learning


@final
@dataclass(frozen=True, slots=True)
class FrozenModel:
    """A model before its numbers: columns, states, plan and basis are fixed, sums can be gathered.

    Made by `LatentModel.freeze(pilot)`. Whoever has it can gather sums of own rows; only these
    need to travel, and whoever adds them up can solve for the model.
    """

    model: Learning  # the LatentModel, not fitted
    plan: Plan
    columns: tuple[Column, ...]
    frozen: Frozen

    @property
    def kind(self) -> str:
        """Of the moments that belong to it; states count, too."""
        states = repr([(spell(c.name), [spell(s) for s in c.labels]) for c in self.columns])
        digest = hashlib.sha256(states.encode()).hexdigest()[:16]
        return f"{self.frozen.kind} of columns {digest}"

    def gather(
        self,
        X: TableLike,
        sample_weight: WeightLike | None = None,
        progress: ProgressLike = None,
    ) -> Moments:
        """Σ over the rows of a table: any table that `fit` takes."""
        names = [c.name for c in self.columns]
        rows = open_rows(X, names, sample_weight, progress, self.columns)
        return self.sums(rows.source(self.columns, plain=True))

    def sums(self, source: Source) -> Moments:
        """Σ over rows that are encoded by its columns."""
        return replace(source.fold(self.frozen.summary), kind=self.kind)

    def solve(self, moments: Moments) -> LatentModel:
        """The fitted LatentModel of these sums."""
        found = cast("LatentModel", unfitted(self.model))
        self.solve_into(found, moments)
        return found

    def solve_into(self, model: Learning, moments: Moments) -> None:
        if moments.kind != self.kind:
            raise MomentsError(
                f"expected {self.kind}, got {moments.kind}. Moments can be solved only by what "
                "they were gathered for: the same graph, columns, states and frozen basis."
            )
        operators = self.frozen.solve(replace(moments, kind=self.frozen.kind))
        learner = repr(self.model.learner)
        model._keep(
            self.plan, operators, self.columns, diagnose(operators, learner, self._missing(moments))
        )

    def _missing(self, moments: Moments) -> dict[Label, float]:
        """Share of rows that lack a column (of a group of columns: one of them)."""
        found = {}
        for k in self.plan.leaves:
            sums = moments.sums[f"leaf/{k}"]
            there = float((sums[:, 0] if sums.ndim > 1 else sums).sum())
            for v in self.plan.nodes[k].columns:
                found[self.plan.graph.names[v]] = max(0.0, 1.0 - there / moments.weight)
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to one file, at once or not at all; `latentia.load` reads it."""
        doors.save(self, path)
