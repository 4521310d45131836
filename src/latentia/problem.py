"""What EM climbs on: rows, the E-step that sums over them, the prior, and the M-step.

Exact E-step on the junction tree, over unique rows, each one fold; closed-form M-step. Missing
cells are marginalised: it is the likelihood of what was observed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, final

import numpy as np

from latentia.cpts import check_operators
from latentia.errors import DataError
from latentia.estep import EStep, Tables, compile_estep, expected_counts, pack_rows, packed_counts
from latentia.frames.local import LocalRows, unique_rows
from latentia.graph import LatentGraph
from latentia.moments import Moments, Rows
from latentia.operators import smooth_unseen
from latentia.plan import Plan
from latentia.refine import Prior
from latentia.typing import Array, Source
from latentia.wiring import check_graph

__all__ = [
    "Counts",
    "Problem",
    "at_least",
    "counts_in",
    "level",
    "maximise",
    "pose",
    "with_unseen",
]

Counts: TypeAlias = Mapping[int, Array]  # variable -> (parents …, variable)


@final
@dataclass(frozen=True, slots=True)
class Problem:
    """Rows, the E-step that sums over them, and the prior of the M-step."""

    estep: EStep
    source: Source
    packed: bool  # the rows of the source are packed already
    weight: float  # N
    marginals: Mapping[int, Array]  # counts of the states of each column
    prior: Prior | None  # None: maximum likelihood

    def sum(self, tables: Tables) -> Moments:
        """One E-step."""
        summary = packed_counts if self.packed else expected_counts
        return self.source.fold(partial(summary, self.estep, tables))

    def on(self, threads: int) -> Problem:
        """The same, each fold on so many threads."""
        if not isinstance(self.source, LocalRows):
            return self
        source = LocalRows(self.source.rows, self.source.block_rows, threads)
        return Problem(self.estep, source, self.packed, self.weight, self.marginals, self.prior)


def pose(plan: Plan, source: Source, smoothing: float = 0.0) -> Problem:
    """Look at the rows once: columns with holes, marginals; in memory, unique rows are kept."""
    at_least("smoothing", smoothing, 0)
    graph = plan.graph
    check_graph(graph)
    check_operators(plan)
    seen = source.fold(partial(_count_columns, graph))
    if not seen.weight > 0:
        raise DataError("there are no rows to learn from, or their weights are all zero.")
    counts = {v: seen.sums[f"column/{v}"] for v in graph.observed}
    for v, count in counts.items():
        if not count.sum() > 0:
            raise DataError(
                f"no row has a value in {graph.names[v]}. Drop the column from the graph."
            )
    holes = [v for v in graph.observed if seen.sums[f"holes/{v}"][0] > 0]
    estep = compile_estep(graph, holes)
    prior = _make_prior(graph, counts, smoothing) if smoothing > 0 else None
    if not isinstance(source, LocalRows):
        return Problem(estep, source, False, seen.weight, counts, prior)
    rows = unique_rows(pack_rows(estep, source.rows), [pack.codes for pack in estep.packs])
    packed = LocalRows(rows, source.block_rows, source.threads)
    return Problem(estep, packed, True, seen.weight, counts, prior)


def _count_columns(graph: LatentGraph, rows: Rows) -> Moments:
    """Counts of the states of every column, and of its missing cells."""
    sums: dict[str, Array] = {}
    for v, codes in zip(graph.observed, rows.codes, strict=True):
        found = np.bincount(codes + 1, rows.weight, (graph.states[v] or 1) + 1).astype(float)
        sums[f"column/{v}"], sums[f"holes/{v}"] = found[1:], np.array([(codes < 0).sum()])
    return Moments("columns", rows.total, len(rows), sums)


def _make_prior(graph: LatentGraph, counts: Counts, smoothing: float) -> Prior:
    found = {}
    for v, above in enumerate(graph.parents()):
        size = graph.states[v] or 1
        share = np.full(size, 1.0 / size)
        if above and v in counts:
            share = smooth_unseen(counts[v] / counts[v].sum(), float(counts[v].sum()))
        found[v] = smoothing * share
    return Prior(found)


def level(problem: Problem, tables: Tables, moments: Moments) -> float:
    """Log-likelihood, plus the log of the prior, per row."""
    prior = 0.0 if problem.prior is None else problem.prior.log_density(tables)
    return (float(moments.sums["log_likelihood"][0]) + prior) / problem.weight


def counts_in(moments: Moments) -> dict[int, Array]:
    return {
        int(name.removeprefix("counts/")): total
        for name, total in moments.sums.items()
        if name.startswith("counts/")
    }


def maximise(counts: Counts, prior: Prior | None) -> dict[int, Array]:
    """The M-step: counts and pseudo-counts, every row divided by its sum.

    A row that no data speak of takes the shares of all rows together.
    """
    tables = {}
    for v, count in counts.items():
        rows = count if prior is None else count + prior.counts[v]
        total = rows.sum(axis=-1, keepdims=True)
        if not total.min() > 0:
            pooled = count.reshape(-1, count.shape[-1]).sum(axis=0)
            rows = np.where(total > 0, rows, pooled)
            total = rows.sum(axis=-1, keepdims=True)
        tables[v] = rows / total
    return tables


def with_unseen(tables: Tables, marginals: Counts) -> dict[int, Array]:
    """States that were declared but never seen count as half a row, alike for all parents.

    So that they say nothing as evidence, rather than contradict the model.
    """
    found = dict(tables)
    for v, count in marginals.items():
        unseen = count == 0
        if unseen.any() and not tables[v][..., unseen].any():
            N = float(count.sum())
            share = smooth_unseen(count / N, N) * unseen
            found[v] = tables[v] * (1.0 - share.sum()) + share
    return found


def at_least(name: str, value: Any, lowest: float, whole: bool = False) -> None:
    """A number of at least so much, or an error that says so."""
    kinds = (int, np.integer) if whole else (int, float, np.number)
    if not isinstance(value, kinds) or not lowest <= value < math.inf:
        what = "a whole number" if whole else "a number"
        raise DataError(f"expected {name} to be {what} of at least {lowest}, got {value!r}.")
