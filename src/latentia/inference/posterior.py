"""Posterior: the answer to one question, with what it rests on."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import DTypeLike

from latentia import doors
from latentia.spelling import printable, printable_evidence
from latentia.typing import Array, ByName, Cell, CellArray, Label

if TYPE_CHECKING:
    from latentia.draw.svg import Drawing

BAR = 24
MOST_ROWS = 30


@final
@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """P̂(variables | evidence) as a table, one axis per variable in the order asked.

    >>> p = Posterior(("D",), (("low", "high"),), np.array([0.25, 0.75]))
    >>> p["high"], p.probabilities
    (0.75, {'low': 0.25, 'high': 0.75})
    """

    variables: tuple[Label, ...]
    states: tuple[tuple[Hashable, ...], ...]
    table: Array
    log_evidence: float = 0.0
    clipped: float = 0.0  # share of negative mass that was cut off (design 6)
    evidence: ByName[Cell] | None = None
    lower: Array | None = None  # ends of intervals, shaped as the table, if a confidence was asked
    upper: Array | None = None
    confidence: float | None = None
    do: ByName[Cell] | None = None  # what was set by hand
    standard_error: Array | None = None  # of an answer that was drawn, shaped as the table

    @property
    def intervals(self) -> dict[Cell, tuple[float, float]] | None:
        """(lower, upper) by state name; None unless a confidence was asked for."""
        if self.lower is None or self.upper is None:
            return None
        ends = zip(self.lower.ravel().tolist(), self.upper.ravel().tolist(), strict=True)
        return dict(zip(map(self._key, itertools.product(*self.states)), ends, strict=True))

    @property
    def probabilities(self) -> dict[Cell, float]:
        """By state name; by tuples of state names for several variables."""
        return {self._key(key): float(p) for key, p in self._cells()}

    @property
    def mode(self) -> Cell:
        """The most probable state (a tuple of states for several variables)."""
        return max(self.probabilities.items(), key=lambda item: item[1])[0]

    def __getitem__(self, state: Cell) -> float:
        try:
            return self.probabilities[state]
        except (KeyError, TypeError):
            raise KeyError(f"{state!r} is no state of {self.title}") from None

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> CellArray:
        return np.array(self.table, dtype=dtype or float)

    def __len__(self) -> int:
        return self.table.size

    def _cells(self) -> Iterator[tuple[tuple[Hashable, ...], float]]:
        return zip(itertools.product(*self.states), self.table.ravel().tolist(), strict=True)

    def _key(self, key: tuple[Hashable, ...]) -> Cell:
        return key[0] if len(key) == 1 else key

    @property
    def title(self) -> str:
        """The question, as P(variables | evidence)."""
        what = ", ".join(printable(v) for v in self.variables)
        known = printable_evidence(self.evidence)
        hand = f"do({printable_evidence(self.do)})" if self.do else ""
        given = ", ".join(filter(None, (known, hand)))
        return f"P({what} | {given})" if given else f"P({what})"

    @property
    def footnote(self) -> str:
        """What the answer rests on: log P(evidence), and what had to be clipped."""
        parts = []
        if self.evidence:
            parts.append(f"log P(evidence) = {self.log_evidence:.4f}")
        if self.clipped > 0.005:
            parts.append(f"clipped {self.clipped:.1%}")
        if self.confidence is not None:
            parts.append(f"{100 * self.confidence:.4g} % intervals of sampling error")
        return "; ".join(parts)

    def _shown(self) -> tuple[list[tuple[str, float, str]], int]:
        """Words, probability and interval of the cells that there is room for."""
        ends = self.intervals
        cells = [
            (
                ", ".join(map(printable, key)),
                p,
                _ends(None if ends is None else ends[self._key(key)]),
            )
            for key, p in self._cells()
        ]
        if len(cells) <= MOST_ROWS:
            return cells, 0
        top = sorted(cells, key=lambda cell: -cell[1])[:MOST_ROWS]
        return top, len(cells) - MOST_ROWS

    def plot(self) -> Drawing:
        """Bars by state; for two variables a grid of their joint shares."""
        return doors.plot_posterior(self)

    def __repr__(self) -> str:
        cells, hidden = self._shown()
        width = max(len(name) for name, _, _ in cells)
        lines = [self.title]
        for name, p, ends in cells:
            lines.append(f"  {name.ljust(width)}  {p:6.4f}  {ends}{_bar(p)}".rstrip())
        if hidden:
            lines.append(f"  … and {hidden} less probable ones")
        return "\n".join(lines + ([self.footnote] if self.footnote else []))

    def _repr_html_(self) -> str:
        from html import escape

        cells, hidden = self._shown()
        rows = "".join(
            f"<tr><td style='text-align:left'>{escape(name)}</td>"
            f"<td>{p:.4f}</td>{f'<td>{ends.strip()}</td>' if ends else ''}"
            f"<td style='width:160px'><div style='background:#4477aa;height:10px;"
            f"width:{max(p, 0) * 160:.1f}px'></div></td></tr>"
            for name, p, ends in cells
        )
        more = f"<tr><td colspan='4'>… and {hidden} more</td></tr>" if hidden else ""
        return (
            f"<table><caption style='text-align:left'>{escape(self.title)}</caption>"
            f"{rows}{more}</table><small>{escape(self.footnote)}</small>"
        )


class Assignment(dict[Label, Cell]):
    """The most probable states of some variables: a dict with its probability.

    `exact` is False where the assignments were too many to enumerate and a search stands in.
    """

    def __init__(self, values: ByName[Cell], log_probability: float, exact: bool) -> None:
        super().__init__(values)
        self.log_probability = log_probability
        self.exact = exact

    @property
    def probability(self) -> float:
        """P̂(assignment | evidence)."""
        return math.exp(self.log_probability)

    def __repr__(self) -> str:
        how = "exact" if self.exact else "by search"
        return f"{dict(self)} with probability {self.probability:.4g} ({how})"


def _ends(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else "[{:.4f}, {:.4f}]  ".format(*interval)


def _bar(p: float) -> str:
    eighths = round(max(min(p, 1.0), 0.0) * BAR * 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
