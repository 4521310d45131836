"""Diagnostics: what was learned from, and how well each separator is told; reads as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from latentia.inference.operators import Operators
from latentia.inference.provenance import Ascent, Choice
from latentia.spelling import printable
from latentia.typing import Label

MOST_SHOWN = 6


@final
@dataclass(frozen=True, slots=True)
class SeparatorLine:
    """One separator: what lies below it, the rank used and wanted, the weakest correlation kept."""

    variables: tuple[Label, ...]
    inside: tuple[Label, ...]  # the first few columns below
    below: int  # how many there are
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
    ascent: Ascent | None = None  # of learners that climb a likelihood
    choice: Choice | None = None  # of learners that choose among models, with its figures
    settings: Mapping[str, float] = field(default_factory=dict)  # of a kernel embedding
    pieces: tuple[str, ...] = ()  # of the graph's own tables: counted, raced, climbed
    pooled: Mapping[Label, Mapping[str, float]] = field(
        default_factory=dict
    )  # column -> weights of the models that `predict*` mixes
    hurried: tuple[str, ...] = ()  # what a time budget left no time for
    drawn_by: str = "joint"  # who draws rows for `sample`: the joint model, or a chain of its own

    def __repr__(self) -> str:
        lines = [f"{self.learner} on a weight of {self.weight:,.10g} rows"]
        gaps = {name: share for name, share in self.missing.items() if share > 0}
        if gaps:
            shown = ", ".join(f"{printable(n)} {s:.1%}" for n, s in list(gaps.items())[:8])
            lines.append(f"missing cells: {shown}" + (" …" if len(gaps) > 8 else ""))
        if self.choice is not None:
            lines.append(str(self.choice))
        if self.settings:
            shown = ", ".join(f"{name} {value:g}" for name, value in self.settings.items())
            lines.append(f"kernel settings: {shown}")
        if self.ascent is not None:
            lines.append(str(self.ascent))
        lines += [printable(line) for line in self.pieces]
        if self.pooled:
            lines.append(_pooled(self.pooled, self.drawn_by))
        rows = [("separator", "inside", "rank", "weakest correlation")]
        for s in self.separators:
            rank = str(s.rank) if s.rank == s.wanted else f"{s.rank} of {s.wanted}"
            weakest = "" if s.weakest is None else f"{s.weakest:.4f}"
            inside = _listing(s.inside) + (f",… ({s.below})" if s.below > len(s.inside) else "")
            rows.append(("{" + _listing(s.variables) + "}", inside, rank, weakest))
        widths = [max(len(row[c]) for row in rows) for c in range(4)]
        lines += [
            "  ".join(x.ljust(w) for x, w in zip(r, widths, strict=True)).rstrip()
            for r in rows
            if self.separators
        ]
        told = (*self.notes, *(f"no time for {what}" for what in self.hurried))
        return "\n".join(lines + [f"! {printable(note)}" for note in told])

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(repr(self))}</pre>"


def diagnose(operators: Operators, learner: str, missing: Mapping[Label, float]) -> Diagnostics:
    """Gather the reports of a fit."""
    plan = operators.plan
    names = plan.graph.names
    columns = [plan.nodes[k].columns for k in plan.leaves]
    lines = []
    for k, report in sorted(operators.provenance.reports.items()):
        node = plan.nodes[k]
        shown = range(node.first, min(node.last, node.first + MOST_SHOWN))
        lines.append(
            SeparatorLine(
                variables=tuple(names[v] for v in sorted(node.separator)),
                inside=tuple(names[v] for x in shown for v in columns[x]),
                below=sum(len(columns[x]) for x in range(node.first, node.last)),
                rank=report.rank,
                wanted=report.wanted,
                weakest=min(report.correlations, default=None),
                condition=report.condition,
            )
        )
    return Diagnostics(
        weight=operators.weight,
        learner=learner,
        missing=dict(missing),
        separators=tuple(lines),
        notes=plan.notes,
        ascent=operators.provenance.ascent,
        choice=operators.provenance.choice,
        settings=operators.provenance.settings,
        pieces=operators.provenance.pieces,
    )


def _pooled(pooled: Mapping[Label, Mapping[str, float]], drawn_by: str) -> str:
    """Who answers for columns, on the average; and that this is no joint distribution."""
    members = next(iter(pooled.values()))
    shares = {m: sum(own[m] for own in pooled.values()) / len(pooled) for m in members}
    shown = ", ".join(f"{m} {share:.0%}" for m, share in shares.items())
    drawing = "query and sample use the joint model alone"
    if drawn_by == "chain":
        drawing = (
            "query use the joint model alone; sample draws from a chain of trees, which is another "
            "joint distribution, sample(joint=True) from the one that scores"
        )
    return (
        f"predict, predict_proba, predict_quantiles and marginals pool models column by column "
        f"(on the average {shown}): together these answers are no joint distribution. score "
        f"and {drawing}"
    )


def _listing(names: tuple[Label, ...]) -> str:
    return ",".join(printable(n) for n in names)
