"""Density: the posterior of a continuous variable, with what it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from latentia import doors
from latentia.data.columns.column import Column
from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.columns.masses import cdf, densities, draw, means, on_lattice, quantiles, spreads
from latentia.errors import EvidenceError
from latentia.inference.posterior import Posterior
from latentia.seeds import as_generator
from latentia.spelling import printable, printable_evidence
from latentia.typing import Array, ByName, Cell, CellArray, Label, Seed

if TYPE_CHECKING:
    from latentia.draw.svg import Drawing

BLOCKS = "▁▂▃▄▅▆▇█"
WIDE = 60


@final
@dataclass(frozen=True, slots=True, eq=False)
class Density:
    """p̂(variable | evidence): never negative, integral one; atoms have probability of their own.

    >>> column = ContinuousColumn("x", 0.0, 1.0, False, 0.0, 4.0, 1.0, points=4)
    >>> p = Density(column, np.full(4, 0.25))
    >>> p.mean, p.quantile(0.5), p.interval(0.5), float(p.pdf(1.0))
    (2.0, 2.0, (1.0, 3.0), 0.25)
    """

    column: ContinuousColumn
    masses: Array  # of the cells, atoms last
    log_evidence: float = 0.0
    clipped: float = 0.0  # share of negative mass that was cut off (design 6)
    evidence: ByName[Cell] | None = None
    fallback: bool = False  # the evidence had no positive probability: this is the marginal

    @property
    def variables(self) -> tuple[Label, ...]:
        return (self.column.name,)

    def pdf(self, x: ArrayLike) -> float | Array:
        """Density at x, per unit of x (a day, a second of times); at an atom its probability."""
        own = self.column.read(x)
        return _like(own, densities(self.column, self.masses, np.atleast_1d(own)))

    def cdf(self, x: ArrayLike) -> float | Array:
        """P(X ≤ x)."""
        own = self.column.read(x)
        return _like(own, cdf(self.column, self.masses, np.atleast_1d(own)))

    def quantile(self, q: ArrayLike) -> Cell:
        """The smallest x with P(X ≤ x) ≥ q; of times, a time, as are mean, median and mode."""
        found = self._levels(q)
        return self._told(float(found[0])) if np.ndim(q) == 0 else self.column.spelled(found)

    def _told(self, x: float) -> Cell:
        (found,) = self.column.spelled(np.array([x])).tolist()
        return found

    def _levels(self, q: ArrayLike) -> Array:
        levels = np.atleast_1d(np.asarray(q, dtype=float))
        if not ((levels >= 0) & (levels <= 1)).all():
            raise EvidenceError(f"quantiles are asked for between 0 and 1, got {q!r}.")
        return quantiles(self.column, self.masses[:, None], levels.tolist())[:, 0]

    def interval(self, coverage: float = 0.9) -> tuple[Cell, Cell]:
        """Central interval with this probability."""
        low, high = self._ends(coverage)
        return self._told(low), self._told(high)

    def _ends(self, coverage: float) -> tuple[float, float]:
        if not 0 < coverage < 1:
            raise EvidenceError(f"coverage lies between 0 and 1, got {coverage!r}.")
        low, high = self._levels([(1 - coverage) / 2, (1 + coverage) / 2]).tolist()
        return low, high

    @property
    def _mean(self) -> float:
        return float(means(self.column, self.masses[:, None])[0])

    @property
    def mean(self) -> Cell:
        return self._told(self._mean)

    @property
    def std(self) -> Cell:
        """Of times, a stretch of time."""
        return self.column.apart(self._std)

    @property
    def shown_std(self) -> str:
        """The same in words: a number, or so many days or hours."""
        return self.column.shown_apart(self._std)

    @property
    def _std(self) -> float:
        return float(spreads(self.column, self.masses[:, None])[0])

    @property
    def median(self) -> Cell:
        return self.quantile(0.5)

    @property
    def mode(self) -> Cell:
        """The atom or the grid point of largest probability or density."""
        column = self.column
        x, inner = column.unscaled(column.grid), self.masses[: column.points]
        best = int(np.argmax(inner * column.slope(x)))  # per unit of x, not of z
        atoms = self.masses[column.points :]
        if len(atoms) and atoms.max() > inner[best]:
            return self._told(column.atoms[int(atoms.argmax())])
        return self._told(float(on_lattice(column, x[best : best + 1])[0]))

    @property
    def atoms(self) -> dict[Cell, float]:
        """Values with a probability of their own."""
        own = self.masses[self.column.points :]
        return {self._told(a): float(p) for a, p in zip(self.column.atoms, own, strict=True)}

    def sample(self, size: int = 1, random_state: Seed = None) -> CellArray:
        """Values drawn from the density."""
        rng = as_generator(random_state)
        p = self.masses / self.masses.sum()
        return self.column.spelled(draw(self.column, rng.choice(len(p), size, p=p), rng))

    def grid(self, count: int = 200) -> tuple[Array, Array]:
        """x and density at evenly spaced points of the grid, for plots; of times, their numbers."""
        z = np.linspace(self.column.low, self.column.high, count)
        x = self.column.unscaled(z)
        return x, densities(self.column, self.masses, x)

    def plot(self) -> Drawing:
        """The density as a curve, with its middle 90 % shaded."""
        x, p = self.grid(256)
        return doors.plot_density(x, p, self._title(), "; ".join(self._facts()), self.column.shown)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> CellArray:
        return np.array(self.masses, dtype=dtype or float)

    def _title(self) -> str:
        name, given = printable(self.column.name), printable_evidence(self.evidence)
        return f"p({name} | {given})" if given else f"p({name})"

    def _facts(self) -> Sequence[str]:
        shown, own = self.column.shown, self.masses[self.column.points :].tolist()
        low, high = map(shown, self._ends(0.9))
        middle, spread = shown(float(self._levels(0.5)[0])), self.shown_std
        facts = [
            f"mean {shown(self._mean)}, std {spread}, median {middle}, 90 % in [{low}, {high}]"
        ]
        name = printable(self.column.name)
        alone = zip(self.column.atoms, own, strict=True)
        facts += [f"P({name} = {shown(a)}) = {p:.4f}" for a, p in alone]
        if self.evidence:
            facts.append(f"log p(evidence) = {self.log_evidence:.4f}")
        if self.fallback:
            facts.append("the evidence is unlike all training rows: the marginal stands in")
        return facts

    def __repr__(self) -> str:
        x, p = self.grid(WIDE)
        top = max(float(p.max()), 1e-300)
        picture = "".join(BLOCKS[min(int(v / top * 7.999), 7)] if v > 0 else " " for v in p)
        left, right = map(self.column.shown, (float(x[0]), float(x[-1])))
        axis = left + right.rjust(WIDE - len(left))
        return "\n".join(
            [self._title(), f"  {picture}", f"  {axis}", *map("  {}".format, self._facts())]
        )

    def _repr_html_(self) -> str:
        from html import escape

        x, p = self.grid(160)
        top = max(float(p.max()), 1e-300)
        u = (np.linspace(0, 320, len(x))).round(1)
        line = " ".join(f"{a},{100 - 95 * b / top:.1f}" for a, b in zip(u, p, strict=True))
        facts = "<br>".join(escape(f) for f in self._facts())
        left, right = map(self.column.shown, (float(x[0]), float(x[-1])))
        return (
            f"<div>{escape(self._title())}<br><svg width='320' height='115' "
            f"role='img' aria-label='{escape(self._title())}'>"
            f"<polygon points='0,100 {line} 320,100' fill='#4477aa' fill-opacity='.35' "
            f"stroke='#4477aa'/><text x='0' y='113' font-size='11'>{escape(left)}</text>"
            f"<text x='320' y='113' font-size='11' text-anchor='end'>{escape(right)}</text></svg>"
            f"<br><small>{facts}</small></div>"
        )


def as_answer(
    columns: Sequence[Column],
    table: Array,
    log_evidence: float = 0.0,
    clipped: float = 0.0,
    evidence: ByName[Cell] | None = None,
    fallback: bool = False,
    ends: tuple[Array | None, Array | None] = (None, None),
    confidence: float | None = None,
) -> Posterior | Density:
    """A density of one continuous column, else a table with an axis a column."""
    (first, *others) = columns
    if not others and isinstance(first, ContinuousColumn):
        return Density(first, table, log_evidence, clipped, evidence, fallback)
    names, states = tuple(c.name for c in columns), tuple(c.labels for c in columns)
    return Posterior(names, states, table, log_evidence, clipped, evidence, *ends, confidence)


def _like(given: ArrayLike, values: Array) -> float | Array:
    return float(values[0]) if np.ndim(given) == 0 else values
