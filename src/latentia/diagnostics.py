"""Diagnostics: what was learned from, and how well each separator is told; reads as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from latentia.operators import Operators
from latentia.typing import Label

__all__ = ["Diagnostics", "diagnose"]


@final
@dataclass(frozen=True, slots=True)
class SeparatorLine:
    """One separator: what lies below it, the rank used and wanted, the weakest correlation kept."""

    variables: tuple[Label, ...]
    inside: tuple[Label, ...]
    rank: int
    wanted: int
    weakest: float | None
    condition: float


@final
@dataclass(frozen=True, slots=True)
class Diagnostics:
    """What the fit rests on. Numbers to look at; warnings are made from them by the estimator."""

    weight: float  # N, the sum of the weights
    learner: str
    missing: Mapping[Label, float]  # share of missing cells per column
    separators: tuple[SeparatorLine, ...]
    notes: tuple[str, ...]  # latents whose states cannot be told apart

    def __repr__(self) -> str:
        lines = [f"{self.learner} on a weight of {self.weight:,.10g} rows"]
        gaps = {name: share for name, share in self.missing.items() if share > 0}
        if gaps:
            shown = ", ".join(f"{n} {s:.1%}" for n, s in list(gaps.items())[:8])
            lines.append(f"missing cells: {shown}" + (" …" if len(gaps) > 8 else ""))
        rows = [("separator", "inside", "rank", "weakest correlation")]
        for s in self.separators:
            rank = str(s.rank) if s.rank == s.wanted else f"{s.rank} of {s.wanted}"
            weakest = "" if s.weakest is None else f"{s.weakest:.4f}"
            rows.append((_set(s.variables), _listing(s.inside), rank, weakest))
        widths = [max(len(row[c]) for row in rows) for c in range(4)]
        lines += [
            "  ".join(x.ljust(w) for x, w in zip(r, widths, strict=True)).rstrip() for r in rows
        ]
        return "\n".join(lines + [f"! {note}" for note in self.notes])


def diagnose(operators: Operators, learner: str, missing: Mapping[Label, float]) -> Diagnostics:
    """Gather the reports of a fit."""
    plan = operators.plan
    names = plan.graph.names
    columns = [plan.nodes[k].columns for k in plan.leaves]
    lines = []
    for k, report in sorted(operators.reports.items()):
        node = plan.nodes[k]
        lines.append(
            SeparatorLine(
                variables=tuple(names[v] for v in sorted(node.separator)),
                inside=tuple(names[v] for x in range(node.first, node.last) for v in columns[x]),
                rank=report.rank,
                wanted=report.wanted,
                weakest=min(report.correlations, default=None),
                condition=report.condition,
            )
        )
    return Diagnostics(operators.weight, learner, dict(missing), tuple(lines), plan.notes)


def _set(names: tuple[Label, ...]) -> str:
    return "{" + _listing(names) + "}"


def _listing(names: tuple[Label, ...], most: int = 6) -> str:
    shown = ",".join(str(n) for n in names[:most])
    return shown + (f",… ({len(names)})" if len(names) > most else "")
