"""CheckReport: what `LatentModel.check` found, in words, as a table and as a picture."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from latentia import doors
from latentia.assess.fit_figures import ColumnFit, Fit
from latentia.assess.latents import LatentFit
from latentia.assess.residuals import PairFit
from latentia.spelling import printable
from latentia.typing import FilePath, Label

if TYPE_CHECKING:
    from latentia.draw.svg import Drawing

SURE = math.log(0.01)  # chance of a false alarm over all pairs
WORTH = 0.01  # smallest gap of a pair that matters
MOST_PAIRS = 6
MOST_COLUMNS = 20
UNCALIBRATED = 0.03  # beyond what chance explains
ALIKE = 0.02  # states of a latent that differ by less say the same
OUTSIDE = 0.02  # share of values beyond those of training


@final
@dataclass(frozen=True, slots=True)
class Finding:
    """Something to look at: what, the figure behind it, and what to do."""

    what: str
    figure: str
    advice: str
    about: tuple[Label, ...] = ()  # columns or latents

    @property
    def fact(self) -> str:
        what = printable(self.what)
        return f"{what} ({self.figure})" if self.figure else what

    def __str__(self) -> str:
        return f"{self.fact}. {self.advice}" if self.advice else self.fact


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

    @property
    def latents(self) -> tuple[LatentFit, ...]:
        return self.fit.latents

    @property
    def verdict(self) -> str:
        """One line."""
        if self.ok:
            return "nothing stands out: the model fits these rows as well as they can tell."
        count = len(self.findings)
        return f"{count} thing{'s' if count > 1 else ''} to look at"

    def words(self) -> list[str]:
        """The findings, line by line; advice that serves several is given once, after them."""
        lines: list[str] = []
        for k, finding in enumerate(self.findings):
            lines.append(f"! {finding.fact}")
            following = self.findings[k + 1].advice if k + 1 < len(self.findings) else ""
            if finding.advice and finding.advice != following:
                lines.append(f"→ {finding.advice}")
        return lines

    def plot(self) -> Drawing:
        """Gains column by column, whether probabilities come true, and the pairs, as a picture."""
        return doors.draw_check(self)

    def save(self, path: FilePath) -> None:
        """The picture (.svg), or a page to click through, in one file (.html)."""
        doors.save_check(self, path)

    def _table(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = [
            ("column", "rows", "loss", "marginal", "gain", "± error", "calibration")
        ]
        for c in self.fit.columns[:MOST_COLUMNS]:
            rows.append(
                (
                    printable(c.name),
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
        lines = [f"check on {self.fit.rows:,} rows: {self.verdict}" + ("" if self.ok else ":")]
        lines += [f"  {line}" for line in self.words()]
        lines += ["", *aligned(self._table())]
        if len(self.fit.columns) > MOST_COLUMNS:
            lines.append(f"… and {len(self.fit.columns) - MOST_COLUMNS} more columns")
        worst = self.fit.pairs[:3]
        if worst:
            shown = ", ".join(f"{'–'.join(map(printable, p.names))} {p.gap:.3f}" for p in worst)
            lines.append(f"pairs with most left untold: {shown}")
        lines += _latent_lines(self.fit.latents)
        lines.append(self.footnote)
        return "\n".join(lines)

    @property
    def footnote(self) -> str:
        """Shares that should be small."""
        return (
            f"clipped mass {self.fit.clipped:.2%}, rows without positive probability "
            f"{self.fit.repaired:.2%}, cells beyond training {self.fit.outside:.2%}"
        )

    def _repr_html_(self) -> str:
        head, *rows = self._table()
        cells = "".join(
            "<tr>" + "".join(f"<td>{html.escape(x)}</td>" for x in row) + "</tr>" for row in rows
        )
        names = "".join(f"<th>{html.escape(x)}</th>" for x in head)
        items = "<br>".join(html.escape(line) for line in self.words())
        words = "".join(f"<p>{html.escape(x)}</p>" for x in _latent_lines(self.fit.latents))
        return (
            f"<p><b>check on {self.fit.rows:,} rows</b>: {html.escape(self.verdict)}</p>"
            f"{f'<p>{items}</p>' if items else ''}{self.plot()._repr_html_()}"
            f"<table><tr>{names}</tr>{cells}</table>{words}<p>{html.escape(self.footnote)}</p>"
        )


def _latent_lines(latents: Sequence[LatentFit]) -> list[str]:
    """The latents that are told least clearly, in a line."""
    alike = sorted((x.closest, printable(x.name)) for x in latents if x.closest is not None)
    weak = sorted((x.weakest, printable(x.name)) for x in latents if x.weakest is not None)
    lines = []
    if alike:
        shown = ", ".join(f"{name} {value:.2f}" for value, name in alike[:3])
        lines.append(f"latents whose two closest states differ least (of 1): {shown}")
    if weak:
        shown = ", ".join(f"{name} {value:.2f}" for value, name in weak[:3])
        lines.append(f"latents with the weakest correlations: {shown}")
    return lines


def make_report(fit: Fit, notes: Sequence[str] = ()) -> CheckReport:
    """Findings where the figures say so."""
    found = [*_pair_findings(fit), *_column_findings(fit), *_latent_findings(fit)]
    found += [Finding(note, "", "") for note in notes]
    if fit.repaired > 0.01:
        found.append(
            Finding(
                "many rows have no positive probability under the signed model",
                f"{fit.repaired:.1%} of rows",
                "Use PBP(refine=True), whose model is always a distribution, or more rows.",
            )
        )
    return CheckReport(fit, tuple(found))


def misfits(fit: Fit) -> list[PairFit]:
    """Pairs with more between them than chance explains, and enough to matter."""
    level = SURE - math.log(max(len(fit.pairs), 1))
    return [p for p in fit.pairs if p.log_p < level and p.gap > WORTH]


def _pair_findings(fit: Fit) -> list[Finding]:
    bad = misfits(fit)
    found = []
    for pair in bad[:MOST_PAIRS]:
        a, b = pair.names
        found.append(
            Finding(
                f"{a!r} tells more of {b!r} than the model says",
                f"{pair.gap:.1%} of the rows, χ² {pair.chi2:.0f} on {pair.freedom:.0f} degrees of "
                "freedom",
                "Look for a wrong or missing edge between their branches, a latent with too few "
                "states, a leaf of another shape than the values, or rows from another source.",
                pair.names,
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


def _latent_findings(fit: Fit) -> list[Finding]:
    return [
        Finding(
            f"two states of {x.name!r} say the same of every column",
            f"they differ by {x.closest:.3f} at most",
            "Give it fewer states, or more columns.",
            (x.name,),
        )
        for x in fit.latents
        if x.closest is not None and x.closest < ALIKE
    ]


def _column_findings(fit: Fit) -> list[Finding]:
    found = [finding for c in fit.columns for finding in _gain_findings(c)]
    found += [
        Finding(
            f"probabilities of {c.name!r} do not come true",
            f"off by {c.calibration:.3f}, by chance {c.calibration_noise:.3f}",
            "Learn from more rows, or use PBP(refine=True).",
            (c.name,),
        )
        for c in fit.columns
        if c.calibration > 2 * c.calibration_noise + UNCALIBRATED
    ]
    found += [
        Finding(
            f"values of {c.name!r} lie beyond those of training",
            f"{c.outside:.1%} of them",
            "States never seen count as missing here, numbers as the nearest that were seen. Learn "
            "from rows that have them.",
            (c.name,),
        )
        for c in fit.columns
        if c.outside > OUTSIDE
    ]
    return found


def _gain_findings(c: ColumnFit) -> list[Finding]:
    """Columns that are predicted worse than by their marginal, or no better."""
    if c.gain < -4 * max(c.error, 1e-6) and c.gain < -0.002:
        return [
            Finding(
                f"the model predicts {c.name!r} worse than its marginal does",
                f"loss {c.loss:.4f} against {c.marginal:.4f}",
                "It is overfitted or its rows differ from those of training.",
                (c.name,),
            )
        ]
    if c.gain < 2 * c.error and c.gain < 0.001 and c.rows >= 100:
        return [
            Finding(
                f"the other columns tell nothing of {c.name!r}",
                f"gain {c.gain:+.4f} ± {c.error:.4f} nats",
                "Was the column shuffled or joined wrongly? Else leave it out of the graph.",
                (c.name,),
            )
        ]
    return []


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Cells below each other: the first to the left, the others to the right."""
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
