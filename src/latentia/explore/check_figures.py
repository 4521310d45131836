"""What a page shows of a check report: findings, columns, calibration and pairs, as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence

from latentia.assess.fit_figures import Level
from latentia.assess.report import SURE, CheckReport, misfits
from latentia.errors import LatentiaError
from latentia.explore.explored import differing
from latentia.typing import Cell, Facts, Label

MOST_PAIRS = 4_000  # the worst ones


def checked_report(check: object) -> CheckReport:
    """A report, or an error for something else."""
    if not isinstance(check, CheckReport):
        raise LatentiaError(
            f"expected check as model.check(rows) gives it, got {type(check).__name__}."
        )
    return check


def check_figures(report: CheckReport) -> Facts:
    """The whole report; columns are called as on the page of a model."""
    names = [column.name for column in report.columns]
    called = dict(zip(names, differing(names), strict=True))
    return {
        "verdict": report.verdict,
        "rows": report.fit.rows,
        "findings": [
            {
                "fact": finding.fact,
                "advice": finding.advice,
                "about": [called[name] for name in finding.about if name in called],
            }
            for finding in report.findings
        ],
        "columns": _columns(report, called),
        "levels": _levels(report.fit.levels),
        "coverage": _levels(report.fit.coverage),
        "pairs": _pairs(report, called),
        "footnote": report.footnote,
    }


def _columns(report: CheckReport, called: dict[Label, str]) -> list[dict[str, Cell]]:
    odd = {name for finding in report.findings if len(finding.about) == 1 for name in finding.about}
    return [
        {
            "name": called[c.name],
            "odd": c.name in odd,
            "rows": c.rows,
            **{
                what: _finite(getattr(c, what))
                for what in ("loss", "marginal", "gain", "error", "calibration", "outside")
            },
            "noise": _finite(c.calibration_noise),
        }
        for c in report.columns
    ]


def _levels(levels: Sequence[Level]) -> list[dict[str, float]]:
    """Stated and seen, and two standard errors of what would be seen by chance."""
    return [
        {
            "stated": level.stated,
            "seen": level.seen,
            "rows": level.rows,
            "error": 2 * math.sqrt(max(level.stated * (1 - level.stated), 0.0) / level.rows),
        }
        for level in levels
        if level.rows > 0
    ]


def _pairs(report: CheckReport, called: dict[Label, str]) -> list[dict[str, Cell]]:
    """Worst first; `nearness` to what chance does not explain is 1 at the level of a finding."""
    bad = {frozenset(pair.names) for pair in misfits(report.fit)}
    level = SURE - math.log(max(len(report.pairs), 1))
    return [
        {
            "names": [called[name] for name in pair.names],
            "gap": _finite(pair.gap),
            "chi2": _finite(pair.chi2),
            "freedom": _finite(pair.freedom),
            "nearness": min(max(pair.log_p / level, 0.0), 1.0),
            "beyond": frozenset(pair.names) in bad,
        }
        for pair in report.pairs[:MOST_PAIRS]
    ]


def _finite(x: float) -> float | None:
    return float(x) if math.isfinite(x) else None
