"""Refinement with prior knowledge: the graph's own tables, started from the closed form (4.3).

    statistics ─> tables of the graph ─> states matched ─> accelerated MAP-EM ─> operators

Known cells and ties are of tables of the graph itself. So every latent needs a separator that tells
its states; a network of separator states has no such tables.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from latentia.closed_form.solving import gather_statistics
from latentia.closed_form.state_counts import state_notes
from latentia.data.rows import Source
from latentia.data.sources.memory import LocalRows
from latentia.errors import PlanError
from latentia.inference.operators import Ascent, Operators, SeparatorReport
from latentia.networks.accelerate import EStepOf, Prior, Tables, accelerate
from latentia.networks.discrete_network import started, without_unseen
from latentia.networks.em_problem import Problem, counts_in, pose, random_tables, with_unseen
from latentia.networks.knowledge import Knowledge
from latentia.networks.tied import matched
from latentia.networks.to_operators import operators_of
from latentia.structure.plan import Plan
from latentia.structure.state_network import own_network

OTHERS = 4  # starts at random beside that of the closed form
SAMPLE = 4000  # rows on which starts are tried
TRIAL_STEPS = 30


def refine_known(
    plan: Plan, source: Source, rng: np.random.Generator, smoothing: Any, knowledge: Knowledge
) -> Operators:
    """Tables of the graph that hold what is known, climbed to from the closed form's."""
    network = own_network(plan, copies=True)
    if network is None:
        raise PlanError(
            "what is known of tables can be held where every latent has a separator of its own "
            "that tells its states; some of this graph have none. Use lt.EM(...) with the same "
            "known, tied and smoothing."
        )
    problem = pose(plan, source, smoothing, knowledge=knowledge)
    found = gather_statistics(plan, source)
    first = started(found, source, rng, network=network).tables
    start = _best_start(plan, source, rng, smoothing, knowledge, first)
    prior = _prior_of(problem, start)
    climbed = accelerate(start, prior, _estep(problem, prior), hold=knowledge.held)
    path = tuple(level / problem.weight for level in climbed.history)
    seen = problem.learned_marginals
    tables = with_unseen(without_unseen(climbed.tables, seen), seen)
    ascent = Ascent((path,), (climbed.converged,), 0)
    made = operators_of(plan, tables, problem.weight, ascent)
    ranks = {k: SeparatorReport(n.rank, n.rank) for k, n in enumerate(plan.nodes) if n.parent != k}
    return replace(made, reports=ranks, notes=state_notes(found))


def _best_start(
    plan: Plan,
    source: Source,
    rng: np.random.Generator,
    smoothing: Any,
    knowledge: Knowledge,
    first: Tables,
) -> Tables:
    """The closed form's tables or some at random, whichever climb highest on a sample.

    The closed form knows nothing of ties and zeros: with few rows, its states may be cut otherwise.
    """
    seeds = np.random.SeedSequence(int(rng.integers(2**31))).spawn(OTHERS)
    drawn = [matched(plan.graph, first, knowledge), *(random_tables(plan.graph, s) for s in seeds)]
    starts = [knowledge.imposed(tables) for tables in drawn]
    some = LocalRows(source.sample(SAMPLE, rng), threads=1)
    problem = pose(plan, some, smoothing, knowledge=knowledge)
    prior = _prior_of(problem, first)
    step = _estep(problem, prior)
    trials = [accelerate(s, prior, step, most=TRIAL_STEPS, hold=knowledge.held) for s in starts]
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
            whole = {v: n + prior.counts[v] for v, n in counts.items()}
            counts = {v: n - prior.counts[v] for v, n in knowledge.pooled(whole).items()}
        return counts, float(moments.sums["log_likelihood"][0])

    return estep
