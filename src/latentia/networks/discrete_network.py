"""From the closed form's statistics to a valid distribution (design 4.3).

    canonical basis ─> soft separator states ─> first tables ─> accelerated MAP-EM ─> operators

One start, no restarts; every E-step is one more fold. Where cells or ties of tables are known, they
are of tables of the graph itself. So every latent then needs a separator that tells its states; a
network of separator states has no such tables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import final

import numpy as np

from latentia.closed_form.evaluating import evaluator
from latentia.closed_form.solving import Statistics, gather_statistics
from latentia.closed_form.state_counts import state_notes
from latentia.data.rows import Rows, Source
from latentia.data.sources.memory import LocalRows
from latentia.data.sources.row_sample import keep_rows
from latentia.errors import PlanError
from latentia.inference.operators import Operators
from latentia.inference.provenance import Ascent
from latentia.networks.accelerate import (
    ENOUGH,
    MOST_STEPS,
    PSEUDO_COUNTS,
    EStepOf,
    Prior,
    Refined,
    Tables,
    accelerate,
    make_prior,
    normalised,
)
from latentia.networks.branch_classes import local_states, told_by_branches
from latentia.networks.compiled_lockstep import compiled_climb
from latentia.networks.em_problem import Problem, counts_in, pose, with_unseen
from latentia.networks.knowledge import Knowledge, PseudoCounts
from latentia.networks.many_starts import compiled_starts
from latentia.networks.soft_states import first_counts, memberships, shared_parts
from latentia.networks.starts import random_tables
from latentia.networks.tied import matched
from latentia.networks.to_operators import operators_of, planned_ranks
from latentia.structure.plan import Plan, make_plan
from latentia.structure.state_network import PositiveNetwork, own_network, positive_network
from latentia.typing import Array

SAMPLE = 1000  # rows whose soft states make the first tables
LARGE_SAMPLE = 4000  # … where there are many
ENOUGH_ROWS = 3000  # from here on it pays to look closely at each latent first
MOST_KEPT = 20_000  # different rows that are kept in memory; where there are more, a first climb
OTHER_CUTS = 2  # at random, where branches do not tell the states of a latent
TRIAL_STEPS = 5  # of each cut on the sample
CLOSELY = 1e-3  # gain per free parameter still to come, where refinement was asked for
OTHER_STARTS = 4  # at random, beside that of the closed form, where tables are known
START_SAMPLE = 4000  # rows on which these are tried
START_STEPS = 30


@final
@dataclass(frozen=True, slots=True)
class Network:
    """Tables of a positive network, with the prior of one row of weight one."""

    plan: Plan  # the network's own
    tables: dict[int, Array]
    prior: Prior


@lru_cache(maxsize=32)
def plan_refinement(plan: Plan) -> tuple[PositiveNetwork, Plan]:
    """The positive network of a plan, and the network's own plan; kept, for many fits alike."""
    own = own_network(plan)
    if own is not None:  # the graph itself: so is its plan, unless columns share leaves there
        alone = all(len(plan.nodes[k].columns) == 1 for k in plan.leaves)
        return own, plan if alone else make_plan(own.graph)
    network = positive_network(plan)
    return network, make_plan(network.graph)


def refine_closed_form(
    found: Statistics,
    source: Source,
    rng: np.random.Generator,
    pseudo_counts: float = PSEUDO_COUNTS,
) -> Operators:
    """A positive network started from the basis, polished by EM, as operators of its own plan."""
    kept, whole = keep_rows(source, MOST_KEPT, rng)
    if whole:
        source = LocalRows(kept)
    network = started(found, source, rng, pseudo_counts)
    if not whole:
        network = climbed(network, LocalRows(kept))[0]
    return polish(network, source, CLOSELY)


def refine_known(
    plan: Plan,
    source: Source,
    rng: np.random.Generator,
    smoothing: PseudoCounts,
    knowledge: Knowledge,
) -> Operators:
    """Tables of the graph that hold what is known, climbed to from the closed form's."""
    network = own_network(plan, copies=True)
    if network is None:
        raise PlanError(
            "what is known of tables can be held where every latent has a separator of its own "
            "that tells its states; some of this graph have none. Use lt.EM(...) with the same "
            "known, tied and smoothing."
        )
    kept, whole = keep_rows(source, MOST_KEPT, rng)
    if whole:
        source = LocalRows(kept)
    problem = pose(plan, source, smoothing, knowledge=knowledge)
    found = gather_statistics(plan, source)
    first = started(found, source, rng, network=network).tables
    start = _best_start(plan, source.sample(START_SAMPLE, rng), rng, smoothing, knowledge, first)
    tables, ascent = _ascend(problem, start, _prior_of(problem, start))
    return _reported(plan, tables, problem.weight, ascent).told(notes=state_notes(found))


def polish(
    network: Network, source: Source, enough: float = ENOUGH, patience: float = math.inf
) -> Operators:
    """Climb on all rows until it rests, and make operators of the tables."""
    network, ascent, weight = climbed(network, source, enough, patience)
    return _reported(network.plan, network.tables, weight, ascent)


def _reported(plan: Plan, tables: Tables, weight: float, ascent: Ascent) -> Operators:
    found = operators_of(plan, tables, weight, ascent)
    return found.told(reports=planned_ranks(plan))


def climbed(
    network: Network, source: Source, enough: float = ENOUGH, patience: float = math.inf
) -> tuple[Network, Ascent, float]:
    """EM from the network's tables over the rows of a source; and the weight of these."""
    problem = pose(network.plan, source)
    tables, ascent = _ascend(problem, network.tables, network.prior, enough, patience)
    return replace(network, tables=tables), ascent, problem.weight


def _ascend(
    problem: Problem,
    start: Tables,
    prior: Prior,
    enough: float = ENOUGH,
    patience: float = math.inf,
) -> tuple[dict[int, Array], Ascent]:
    """Accelerated MAP-EM from one start, until it rests."""
    found = _accelerated(problem, start, prior, enough=enough, patience=patience)
    path = tuple(level / problem.weight for level in found.history)
    seen = problem.learned_marginals
    tables = with_unseen(without_unseen(found.tables, seen), seen)
    return tables, Ascent((path,), (found.converged,), 0)


def _accelerated(
    problem: Problem,
    start: Tables,
    prior: Prior,
    most: int = MOST_STEPS,
    enough: float = ENOUGH,
    patience: float = math.inf,
) -> Refined:
    hold = problem.knowledge.held if problem.knowledge.cells else None
    estep, source = _estep(problem, prior), problem.source
    if problem.knowledge.empty and not problem.scales and isinstance(source, LocalRows):
        many = compiled_starts(problem.estep, source.rows, start, estep)
        found = compiled_climb(start, prior, many, enough, most, patience)
        if found is not None:
            return found
    return accelerate(start, prior, estep, enough, most, hold, patience)


def without_unseen(tables: Tables, marginals: Mapping[int, Array]) -> dict[int, Array]:
    """States of columns that no row has keep the floor of the climb: take it away."""
    found = dict(tables)
    for v, count in marginals.items():
        if not count.all():
            table = tables[v] * (count > 0)
            found[v] = table / table.sum(axis=-1, keepdims=True)
    return found


def started(
    found: Statistics,
    source: Source,
    rng: np.random.Generator,
    pseudo_counts: float = PSEUDO_COUNTS,
    network: PositiveNetwork | None = None,
) -> Network:
    """First tables from soft states of a sample of rows.

    Of a few ways to cut a large sample into states, the one that climbs highest on it.
    """
    plan = found.layout.plan
    if network is None:
        network, plan = plan_refinement(plan)
    many = found.pairs.weight >= ENOUGH_ROWS
    sample = source.sample(LARGE_SAMPLE if many else SAMPLE, rng)
    values = evaluator(found.layout, found.basis, leaves_too=True)(sample)
    parts = shared_parts(found.basis, network, values)
    soft = memberships(network, parts, sample)
    cuts = [soft]
    if many:
        local = local_states(found, network, values, sample, soft, rng)
        more = 0 if told_by_branches(network) else OTHER_CUTS
        others = [memberships(network, parts, sample, rng) for _ in range(more)]
        cuts = [{**cut, **local} for cut in (soft, *others)] + ([soft] if local else [])
    scale = found.pairs.weight / sample.total
    starts = []
    for cut in cuts:
        counts = first_counts(network, cut, sample)
        prior = make_prior({v: t * scale for v, t in counts.items()}, pseudo_counts)
        light = Prior({v: a / scale for v, a in prior.counts.items()})
        starts.append((Network(plan, normalised(counts, light), prior), light))
    if len(starts) == 1:
        return starts[0][0]
    problem = pose(plan, LocalRows(sample, threads=1))
    trials = [_trial(problem, start, light) for start, light in starts]
    return max(trials, key=lambda trial: trial[1])[0]


def start_of_graph(plan: Plan, source: Source, rng: np.random.Generator) -> dict[int, Array]:
    """Tables of the graph itself from the closed form's statistics, for EM to start from."""
    network = own_network(plan, copies=True)
    if network is None:
        told = {v for n in plan.nodes for v in n.separator if len(n.separator) == 1}
        alone = [str(plan.graph.names[v]) for v in sorted(plan.graph.latent - told)]
        which = f" ({', '.join(alone[:10])})" if alone else ""
        raise PlanError(
            "init='pbp' needs a separator of its own for every latent, which tells all of its "
            f"states; some have none{which}. Use init='random', or learner='pbp', which learns "
            "such graphs without their tables."
        )
    kept, whole = keep_rows(source, MOST_KEPT, rng)
    if whole:
        source = LocalRows(kept)
    return started(gather_statistics(plan, source), source, rng, network=network).tables


def _trial(problem: Problem, network: Network, light: Prior) -> tuple[Network, float]:
    """A few steps on a sample, and how high they led."""
    found = _accelerated(problem, network.tables, light, TRIAL_STEPS)
    return replace(network, tables=found.tables), found.history[-1]


def _best_start(
    plan: Plan,
    sample: Rows,
    rng: np.random.Generator,
    smoothing: PseudoCounts,
    knowledge: Knowledge,
    first: Tables,
) -> Tables:
    """The closed form's tables or some at random, whichever climb highest on a sample.

    The closed form knows nothing of ties and zeros: with few rows, its states may be cut otherwise.
    """
    seeds = np.random.SeedSequence(int(rng.integers(2**31))).spawn(OTHER_STARTS)
    drawn = [matched(plan.graph, first, knowledge), *(random_tables(plan.graph, s) for s in seeds)]
    problem = pose(plan, LocalRows(sample, threads=1), smoothing, knowledge=knowledge)
    prior = _prior_of(problem, first)
    starts = [knowledge.imposed(tables) for tables in drawn]
    trials = [_accelerated(problem, start, prior, START_STEPS) for start in starts]
    return max(trials, key=lambda trial: trial.history[-1]).tables


def _prior_of(problem: Problem, tables: Tables) -> Prior:
    nothing = {v: np.zeros(table.shape[-1]) for v, table in tables.items()}
    return Prior(nothing) if problem.prior is None else problem.prior


def _estep(problem: Problem, prior: Prior) -> EStepOf:
    """Counts of tied tables added up, and their pseudo-counts with them.

    The ascent adds each table's own pseudo-counts, so that these are taken off here.
    """
    knowledge = problem.knowledge

    def estep(tables: Tables) -> tuple[Tables, float]:
        moments = problem.sum(tables)
        counts = counts_in(moments)
        if knowledge.tied:
            total = {v: n + prior.counts[v] for v, n in counts.items()}
            counts = {v: n - prior.counts[v] for v, n in knowledge.pooled(total).items()}
        return counts, float(moments.sums["log_likelihood"][0])

    return estep
