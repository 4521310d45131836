"""CheckReport: what `LatentModel.check` found, in words and as a table."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from latentia.fitting import ColumnFit, Fit, PairFit

__all__ = ["CheckReport", "Finding", "make_report"]

SURE = math.log(0.01)  # chance of a false alarm over all pairs
WORTH = 0.01  # smallest gap of a pair that matters
MOST_PAIRS = 6
MOST_COLUMNS = 20
UNCALIBRATED = 0.03  # beyond what chance explains


@final
@dataclass(frozen=True, slots=True)
class Finding:
    """Something to look at: what, the figure behind it, and what to do."""

    what: str
    figure: str
    advice: str

    def __str__(self) -> str:
        return f"{self.what} ({self.figure}). {self.advice}"


@final
@dataclass(frozen=True, slots=True)
class CheckReport:
    """Figures and findings; `ok` if nothing needs to be looked at."""

    fit: Fit
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        return not self.findings

    @property
    def columns(self) -> tuple[ColumnFit, ...]:
        return self.fit.columns

    @property
    def pairs(self) -> tuple[PairFit, ...]:
        """Worst first."""
        return self.fit.pairs

    def _table(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [
            ("column", "rows", "loss", "marginal", "gain", "± error", "calibration")
        ]
        for c in self.fit.columns[:MOST_COLUMNS]:
            rows.append(
                (
                    str(c.name),
                    f"{c.rows:,}",
                    f"{c.loss:.4f}",
                    f"{c.marginal:.4f}",
                    f"{c.gain:+.4f}",
                    f"{c.error:.4f}",
                    f"{c.calibration:.3f}",
                )
            )
        return rows

    def __repr__(self) -> str:
        verdict = (
            "nothing stands out: the model fits these rows as well as can be told from them."
            if self.ok
            else f"{len(self.findings)} thing(s) to look at:"
        )
        lines = [f"check on {self.fit.rows:,} rows: {verdict}"]
        lines += [f"  ! {finding}" for finding in self.findings]
        lines += ["", *_aligned(self._table())]
        if len(self.fit.columns) > MOST_COLUMNS:
            lines.append(f"… and {len(self.fit.columns) - MOST_COLUMNS} more columns")
        worst = self.fit.pairs[:3]
        if worst:
            shown = ", ".join(f"{p.names[0]}–{p.names[1]} {p.gap:.3f}" for p in worst)
            lines.append(f"largest gaps between pairs seen and P̂: {shown}")
        lines.append(
            f"clipped mass {self.fit.clipped:.2%}, "
            f"rows without positive probability {self.fit.repaired:.2%}"
        )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head, *rows = self._table()
        cells = "".join(
            "<tr>" + "".join(f"<td>{html.escape(x)}</td>" for x in row) + "</tr>" for row in rows
        )
        names = "".join(f"<th>{html.escape(x)}</th>" for x in head)
        items = "".join(f"<li>{html.escape(str(f))}</li>" for f in self.findings)
        verdict = "nothing stands out." if self.ok else f"<ul>{items}</ul>"
        return (
            f"<b>check on {self.fit.rows:,} rows</b>: {verdict}"
            f"<table><tr>{names}</tr>{cells}</table>"
        )


def make_report(fit: Fit, notes: Sequence[str] = ()) -> CheckReport:
    """Findings where the figures say so."""
    found = [*_pair_findings(fit), *_column_findings(fit)]
    found += [Finding("a latent is not identified", note, "See the plan.") for note in notes]
    if fit.repaired > 0.01:
        found.append(
            Finding(
                "many rows have no positive probability under the signed model",
                f"{fit.repaired:.1%} of rows",
                "Use PBP(refine=True), whose model is always a distribution, or more rows.",
            )
        )
    return CheckReport(fit, tuple(found))


def _pair_findings(fit: Fit) -> list[Finding]:
    level = SURE - math.log(max(len(fit.pairs), 1))
    bad = [p for p in fit.pairs if p.log_p < level and p.gap > WORTH]
    found = []
    for pair in bad[:MOST_PAIRS]:
        a, b = pair.names
        found.append(
            Finding(
                f"{a!r} and {b!r} go together otherwise than the model says",
                f"gap {pair.gap:.3f}, χ² {pair.chi2:.0f} on {pair.freedom} degrees of freedom",
                "Look for a missing edge between their branches, a latent with too few states, or "
                "rows from another source.",
            )
        )
    if len(bad) > MOST_PAIRS:
        found.append(
            Finding(
                f"{len(bad) - MOST_PAIRS} more pairs misfit",
                f"{len(bad)} of {len(fit.pairs)} in all",
                "The structure as a whole is in doubt.",
            )
        )
    return found


def _column_findings(fit: Fit) -> list[Finding]:
    found = []
    for c in fit.columns:
        if c.rows == 0:
            continue
        if c.gain < -4 * max(c.error, 1e-6) and c.gain < -0.002:
            found.append(
                Finding(
                    f"the model predicts {c.name!r} worse than its marginal does",
                    f"loss {c.loss:.4f} against {c.marginal:.4f}",
                    "It is overfitted or its rows differ from those of training.",
                )
            )
        elif c.gain < 2 * c.error and c.gain < 0.001 and c.rows >= 100:
            found.append(
                Finding(
                    f"the other columns tell nothing of {c.name!r}",
                    f"gain {c.gain:+.4f} ± {c.error:.4f} nats",
                    "Was the column shuffled or joined wrongly? Else leave it out of the graph.",
                )
            )
        if c.calibration > 2 * c.calibration_noise + UNCALIBRATED:
            found.append(
                Finding(
                    f"probabilities of {c.name!r} do not come true",
                    f"off by {c.calibration:.3f}, by chance {c.calibration_noise:.3f}",
                    "Learn from more rows, or use PBP(refine=True).",
                )
            )
        if c.outside > 0.02:
            found.append(
                Finding(
                    f"values of {c.name!r} lie beyond those of training",
                    f"{c.outside:.1%} of rows",
                    "Answers there rest on the nearest values that were seen.",
                )
            )
    return found


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    return [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(x.rjust(w) for x, w in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in rows
    ]
