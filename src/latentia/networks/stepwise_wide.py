"""Stepwise EM on wide latents: tables and sums as one vector, batches in single precision.

A batch of 500 rows leaves no time for a hundred small tables one by one: all lie one after the
other (exact/wide_layout.py), so that a step mixes, divides and looks up a few long arrays. Batches
are in single precision, whose rounding is far below what a batch says of all rows; levels are not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.data.rows import Rows
from latentia.exact.estep import packed_counts
from latentia.exact.estep_factors import Tables
from latentia.exact.wide_layout import WideLayout, wide_layout
from latentia.exact.wide_rows import WidePasses
from latentia.networks.em_problem import Counts, Posed, Problem, counts_in, maximise
from latentia.typing import Array


@final
@dataclass(frozen=True, slots=True)
class WideSteps:
    """What steps on the vector of all tables need."""

    problem: Problem
    layout: WideLayout
    kinds: tuple[tuple[slice, int], ...]  # cells of all tables with so many states
    pseudo: Array  # counts of the prior
    passes: WidePasses

    def sums(self, vector: Array, rows: Rows) -> tuple[Array, float]:
        """Expected counts of packed rows, and their log-likelihood."""
        found = self.passes.sums(vector, rows)
        counts, log = found.counts, float(found.logs.sum())
        if len(found.lost):
            tables, few = self.layout.tables(vector), rows.where(found.lost)
            more = packed_counts(self.problem.estep, tables, few)
            counts = counts + self.layout.vector(counts_in(more))[:-2]
            log += float(more.sums["log_likelihood"][0])
        return counts, log

    def maximum(self, counts: Array) -> Array:
        """The M-step: the vector of tables."""
        found = np.concatenate([counts + self.pseudo, (1.0, 0.0)])
        for part, states in self.kinds:
            rows = found[part].reshape(-1, states)
            total = rows @ np.ones(states)
            if not total.min() > 0:  # rows of tables that nothing speaks of take those of all
                tables = maximise(self.layout.tables(counts), self.problem.prior)
                return self.layout.vector(tables)
            rows /= total[:, None]
        return found


def wide_steps(problem: Posed) -> WideSteps | None:
    """Steps on a vector, where latents are wide and all tables are free."""
    if not isinstance(problem, Problem) or not problem.packed or problem.scales:
        return None
    layout = wide_layout(problem.estep)
    if layout is None or problem.knowledge.tied or problem.knowledge.cells:
        return None
    shapes = layout.shapes
    sizes: dict[int, int] = {}  # the vector has tables with as many states together
    for shape in shapes.values():
        sizes[shape[-1]] = sizes.get(shape[-1], 0) + math.prod(shape)
    ends = np.cumsum(list(sizes.values())).tolist()
    kinds = tuple((slice(b - n, b), k) for b, (k, n) in zip(ends, sizes.items(), strict=True))
    pseudo = np.zeros(layout.size)
    if problem.prior is not None:
        given = problem.prior.counts
        pseudo = layout.vector({v: np.broadcast_to(given[v], s) for v, s in shapes.items()})[:-2]
    return WideSteps(problem, layout, kinds, pseudo, WidePasses(layout, single=True))


class WideTables:
    """Tables and s of a start on its way, each as one vector."""

    def __init__(self, steps: WideSteps, tables: Tables, sums: Counts) -> None:
        self.steps, self.layout = steps, steps.layout
        self.tables, self.sums = self.layout.vector(tables), self.layout.vector(sums)[:-2]

    def go_on(self, rows: Rows, step: float, weight: float) -> float:
        """A step with these rows; their log-likelihood before it."""
        counts, log = self.steps.sums(self.tables, rows)
        self.sums = (1.0 - step) * self.sums + (step / len(rows)) * counts
        self.tables = self.steps.maximum(weight * self.sums)
        return log

    def found(self) -> tuple[dict[int, Array], dict[int, Array]]:
        """Tables and s, by variable."""
        return self.layout.tables(self.tables), self.layout.tables(self.sums)
