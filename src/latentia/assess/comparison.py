"""Comparison: candidates with different numbers of states, in words, as frame and as picture."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from latentia import doors
from latentia.assess.report import aligned
from latentia.errors import DataError
from latentia.spelling import printable
from latentia.typing import Array, Cell, Foreign, Label

if TYPE_CHECKING:
    from latentia.draw.svg import Drawing

CRITERIA = ("aic", "bic", "adjusted_bic")  # of all of them less is better
SPELLED = {"aic": "AIC", "bic": "BIC", "adjusted_bic": "adjusted BIC"}


@final
@dataclass(frozen=True, slots=True)
class Candidate:
    """One choice of numbers of states, and its figures."""

    states: Mapping[Label, int]  # of every latent that was varied
    log_likelihood: float
    parameters: int
    rows: float  # Σ w that it was learned from
    entropy: float  # R²: 1 if every row's states are certain, 0 if nothing is known of them
    smallest: float  # share of the smallest state of any latent
    held_out: float  # -log P(row), mean over rows that it was not learned from …
    held_out_error: float  # … its standard error …
    behind: float  # … by how much it is worse than the best …
    behind_error: float  # … and the standard error of that, row by row
    seconds: float
    converged: bool = True
    p_value: float | None = None  # of the smaller candidate, by bootstrapped likelihood ratios

    @property
    def aic(self) -> float:
        """2k - 2 log P(rows)."""
        return 2.0 * self.parameters - 2.0 * self.log_likelihood

    @property
    def bic(self) -> float:
        """k log N - 2 log P(rows)."""
        return self.parameters * math.log(self.rows) - 2.0 * self.log_likelihood

    @property
    def adjusted_bic(self) -> float:
        """BIC with (N + 2) / 24 in place of N (Sclove 1987)."""
        size = (self.rows + 2.0) / 24.0
        return self.parameters * math.log(size) - 2.0 * self.log_likelihood

    @property
    def name(self) -> str:
        """As a reader sees it: 3, or a=3, b=2."""
        if len(self.states) == 1:
            return str(next(iter(self.states.values())))
        return ", ".join(f"{printable(k)}={n}" for k, n in self.states.items())

    @property
    def as_good(self) -> bool:
        """Is its held-out loss within one standard error of the best?"""
        return self.behind <= self.behind_error


@final
@dataclass(frozen=True, slots=True)
class Comparison:
    """Every candidate with its figures, smallest first, and the one to take."""

    candidates: tuple[Candidate, ...]
    held_out_rows: float
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.candidates:
            raise DataError("expected one candidate at least.")

    @property
    def best(self) -> Candidate:
        """Of those that predict other rows as well as the best does, the one of least BIC."""
        good = [c for c in self.candidates if c.as_good]
        return min(good, key=lambda c: c.bic)

    @property
    def recommended(self) -> dict[Label, int]:
        """Numbers of states, ready for ``LatentModel(graph, latents=...)``."""
        return dict(self.best.states)

    def least(self, criterion: str) -> Candidate:
        """The candidate that a criterion prefers: "aic", "bic", "adjusted_bic" or "held_out"."""
        if criterion not in (*CRITERIA, "held_out"):
            expected = ", ".join((*CRITERIA, "held_out"))
            raise DataError(f"expected a criterion among {expected}, got {criterion!r}.")
        return min(self.candidates, key=lambda c: float(getattr(c, criterion)))

    @property
    def why(self) -> str:
        """The recommendation in words."""
        best, first = self.best, self.least("held_out")
        names = "; ".join(f"{printable(k)}: {n}" for k, n in best.states.items())
        lines = [f"Take {names}."]
        if first is best:
            lines.append(
                f"That predicts rows best that it has not seen ({_loss(best)} nats a row)."
            )
        else:
            lines.append(
                f"Unseen rows are predicted best with {first.name} ({_loss(first)} nats a row), "
                f"but with {best.name} as well within one standard error "
                f"({best.behind:+.4f} ± {best.behind_error:.4f})."
            )
        agreeing = [SPELLED[c] for c in CRITERIA if self.least(c) is best]
        others = [
            f"{SPELLED[c]} {self.least(c).name}" for c in CRITERIA if self.least(c) is not best
        ]
        if agreeing:
            lines.append(f"{' and '.join(agreeing)} {'say' if len(agreeing) > 1 else 'says'} so.")
        if others:
            lines.append(f"Others say otherwise: {', '.join(others)}.")
        return " ".join(lines)

    def plot(self) -> Drawing:
        """The criteria and the held-out loss over the candidates, as a picture."""
        return doors.draw_criteria(self)

    def to_dict(self) -> list[dict[str, Cell]]:
        """One dict a candidate: states of each latent, and all figures."""
        return [_figures(c) for c in self.candidates]

    def to_frame(self) -> Foreign:
        """One row a candidate, as a pandas frame."""
        import pandas as pd

        frame = pd.DataFrame(self.to_dict())
        return frame.drop(columns="p_value") if frame["p_value"].isna().all() else frame

    def _table(self) -> list[tuple[str, ...]]:
        tested = any(c.p_value is not None for c in self.candidates)
        names = " × ".join(printable(k) for k in self.candidates[0].states)
        head = [names, "log-likelihood", "parameters", "AIC", "BIC", "adjusted BIC", "entropy R²"]
        head += ["smallest", "held-out loss", "± error", "seconds", *(["p"] if tested else [])]
        rows: list[tuple[str, ...]] = [tuple(head)]
        for c in self.candidates:
            row = [("→ " if c is self.best else "  ") + c.name, f"{c.log_likelihood:,.3f}"]
            row += [f"{c.parameters:,}", f"{c.aic:,.1f}", f"{c.bic:,.1f}", f"{c.adjusted_bic:,.1f}"]
            row += [f"{c.entropy:.3f}", f"{c.smallest:.1%}", f"{c.held_out:.4f}"]
            row += [f"{c.held_out_error:.4f}", f"{c.seconds:.2f}"]
            if tested:
                row.append("" if c.p_value is None else f"{c.p_value:.3f}")
            rows.append(tuple(row))
        return rows

    def __repr__(self) -> str:
        return "\n".join([self.why, "", *aligned(self._table()), *self.notes])

    def _repr_html_(self) -> str:
        head, *rows = self._table()
        names = "".join(f"<th>{html.escape(x)}</th>" for x in head)
        cells = "".join(
            "<tr>" + "".join(f"<td>{html.escape(x)}</td>" for x in row) + "</tr>" for row in rows
        )
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return (
            f"<p>{html.escape(self.why)}</p>{self.plot()._repr_html_()}"
            f"<table><tr>{names}</tr>{cells}</table>{notes}"
        )


def _loss(candidate: Candidate) -> str:
    return f"{candidate.held_out:.4f} ± {candidate.held_out_error:.4f}"


def _figures(c: Candidate) -> dict[str, Cell]:
    return {
        **{str(name): count for name, count in c.states.items()},
        "log_likelihood": c.log_likelihood,
        "parameters": c.parameters,
        "aic": c.aic,
        "bic": c.bic,
        "adjusted_bic": c.adjusted_bic,
        "entropy": c.entropy,
        "smallest": c.smallest,
        "held_out": c.held_out,
        "held_out_error": c.held_out_error,
        "seconds": c.seconds,
        "p_value": c.p_value,
    }


def mean_and_error(x: Array, weight: Array) -> tuple[float, float]:
    """Weighted mean over rows, and its standard error; a row of weight w is w rows."""
    total = float(weight.sum())
    mean = float(x @ weight) / total
    spread = float((x - mean) ** 2 @ weight) / max(total - 1.0, 1.0)
    return mean, math.sqrt(spread / total)
