"""From the closed form's statistics to a valid distribution (design 4.3).

    canonical basis ─> soft separator states ─> first tables ─> accelerated MAP-EM ─> operators

One start, no restarts; every E-step is one more fold.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from latentia.basis import Basis
from latentia.cpts import operators_of
from latentia.em import counts_in
from latentia.errors import DataError
from latentia.estep import pack_rows
from latentia.frames.local import LocalRows
from latentia.moments import PairLayout, Rows
from latentia.operators import Ascent, Operators
from latentia.plan import make_plan
from latentia.positive import PositiveNetwork, positive_network
from latentia.problem import Problem, pose
from latentia.refine import (
    PSEUDO_COUNTS,
    EStepOf,
    Prior,
    Refined,
    Tables,
    accelerate,
    make_prior,
    normalised,
)
from latentia.start import first_counts, memberships, shared_parts
from latentia.typing import Array, Source

__all__ = ["refine_closed_form"]

SAMPLE = 2000  # rows whose soft states make the first tables
MANY_ROWS = 30_000  # beyond this many different rows, first climb on fewer
FEWER_ROWS = 20_000
STARTS = 4  # ways to cut the sample into states
TRIAL_STEPS = 15  # of each on the sample


def refine_closed_form(
    layout: PairLayout,
    basis: Basis,
    source: Source,
    rng: np.random.Generator,
    pseudo_counts: float = PSEUDO_COUNTS,
    starts: int = STARTS,
) -> Operators:
    """A positive network started from the basis, polished by EM, as operators of its own plan."""
    network = positive_network(layout.plan)
    plan = make_plan(network.graph)
    problem = pose(plan, source)
    prior, start = _best_start(layout, basis, network, problem, source, rng, pseudo_counts, starts)
    local = problem.source
    if isinstance(local, LocalRows) and len(local.rows) > MANY_ROWS:
        fewer = local.sample(FEWER_ROWS, rng)
        start = _climb(_scaled(problem, prior, LocalRows(fewer), fewer.total), start).tables
    found = _climb(replace(problem, prior=prior), start)
    path = tuple(level / problem.weight for level in found.history)
    return operators_of(plan, found.tables, problem.weight, Ascent((path,), (found.converged,), 0))


def _best_start(
    layout: PairLayout,
    basis: Basis,
    network: PositiveNetwork,
    problem: Problem,
    source: Source,
    rng: np.random.Generator,
    pseudo_counts: float,
    starts: int,
) -> tuple[Prior, dict[int, Array]]:
    """A few ways to cut the same sample of rows into states; the one that climbs highest on it.

    The sample is small, so that all of this costs less than one step on many rows.
    """
    draw = getattr(source, "sample", None)
    if draw is None:
        raise DataError("the refinement starts from a sample of rows; this source cannot give one.")
    sample: Rows = draw(SAMPLE, rng)
    parts = shared_parts(layout, basis, network, sample)
    small = LocalRows(pack_rows(problem.estep, sample), threads=1)
    best: tuple[float, Prior, dict[int, Array]] | None = None
    for k in range(starts):
        soft = memberships(network, parts, sample, rng if k else None)
        counts = first_counts(network, soft, sample)
        scale = problem.weight / sample.total
        prior = make_prior({v: t * scale for v, t in counts.items()}, pseudo_counts)
        local = _scaled(replace(problem, packed=True), prior, small, sample.total)
        assert local.prior is not None
        tables = normalised(counts, local.prior)
        if starts > 1:
            tables, level = _few_steps(local, tables)
        else:
            level = 0.0
        if best is None or level > best[0]:
            best = (level, prior, tables)
    assert best is not None
    return best[1], best[2]


def _few_steps(problem: Problem, tables: dict[int, Array]) -> tuple[dict[int, Array], float]:
    """EM for a while: enough to tell a good start from a bad one."""
    found = accelerate(tables, _prior(problem), _estep(problem), most=TRIAL_STEPS)
    return found.tables, found.history[-1]


def _scaled(problem: Problem, prior: Prior, source: Source, weight: float) -> Problem:
    """The problem on fewer rows, with as much less prior."""
    share = weight / problem.weight
    light = Prior({v: a * share for v, a in prior.counts.items()})
    return replace(problem, source=source, prior=light, weight=weight)


def _climb(problem: Problem, start: Tables) -> Refined:
    return accelerate(start, _prior(problem), _estep(problem))


def _prior(problem: Problem) -> Prior:
    assert problem.prior is not None
    return problem.prior


def _estep(problem: Problem) -> EStepOf:
    def estep(tables: Tables) -> tuple[Tables, float]:
        moments = problem.sum(tables)
        return counts_in(moments), float(moments.sums["log_likelihood"][0])

    return estep
