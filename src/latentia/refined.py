"""From the closed form's statistics to a valid distribution (design 4.3).

    canonical basis ─> soft separator states ─> first tables ─> accelerated MAP-EM ─> operators

One start, no restarts; every E-step is one more fold.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from latentia.basis import Basis
from latentia.cpts import operators_of
from latentia.em import Problem, counts_in, pose
from latentia.errors import DataError
from latentia.frames.local import LocalRows
from latentia.moments import PairLayout, Rows
from latentia.operators import Ascent, Operators
from latentia.plan import make_plan
from latentia.positive import PositiveNetwork, positive_network
from latentia.refine import (
    PSEUDO_COUNTS,
    Prior,
    Refined,
    Tables,
    accelerate,
    make_prior,
    normalised,
)
from latentia.start import first_counts
from latentia.typing import Array, Source

__all__ = ["refine_closed_form"]

SAMPLE = 2000  # rows whose soft states make the first tables
MANY_ROWS = 30_000  # beyond this many different rows, first climb on fewer
FEWER_ROWS = 20_000


def refine_closed_form(
    layout: PairLayout,
    basis: Basis,
    source: Source,
    rng: np.random.Generator,
    pseudo_counts: float = PSEUDO_COUNTS,
) -> Operators:
    """A positive network started from the basis, polished by EM, as operators of its own plan."""
    network = positive_network(layout.plan)
    plan = make_plan(network.graph)
    prior, start = _start(layout, basis, network, source, rng, pseudo_counts)
    problem = replace(pose(plan, source), prior=prior)
    local = problem.source
    if isinstance(local, LocalRows) and len(local.rows) > MANY_ROWS:
        fewer = local.sample(FEWER_ROWS, rng)
        share = fewer.total / problem.weight
        light = Prior({v: a * share for v, a in prior.counts.items()})
        start = _climb(replace(problem, source=LocalRows(fewer), prior=light), start).tables
    found = _climb(problem, start)
    path = tuple(level / problem.weight for level in found.history)
    return operators_of(plan, found.tables, problem.weight, Ascent((path,), (found.converged,), 0))


def _start(
    layout: PairLayout,
    basis: Basis,
    network: PositiveNetwork,
    source: Source,
    rng: np.random.Generator,
    pseudo_counts: float,
) -> tuple[Prior, dict[int, Array]]:
    """First tables from a sample of rows, counted as if it were all of them."""
    draw = getattr(source, "sample", None)
    if draw is None:
        raise DataError("the refinement starts from a sample of rows; this source cannot give one.")
    sample: Rows = draw(SAMPLE, rng)
    counts = first_counts(layout, basis, network, sample)
    scale = basis.weights[layout.plan.roots[0]] / sample.total
    counts = {v: table * scale for v, table in counts.items()}
    prior = make_prior(counts, pseudo_counts)
    return prior, normalised(counts, prior)


def _climb(problem: Problem, start: Tables) -> Refined:
    prior = problem.prior
    assert prior is not None

    def estep(tables: Tables) -> tuple[Tables, float]:
        moments = problem.sum(tables)
        return counts_in(moments), float(moments.sums["log_likelihood"][0])

    return accelerate(start, prior, estep)
