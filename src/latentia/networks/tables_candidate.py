"""The graph's own tables as a candidate for answers, beside a network of separators (design 13).

Where separators hold several latents each (hidden causes that share their symptoms), a network of
separator states has many times the parameters of the graph, and rows must pay for them.
"""

from __future__ import annotations

import math

import numpy as np

from latentia.data.rows import Source
from latentia.errors import PlanError
from latentia.inference.operators import Operators
from latentia.networks.discrete_network import plan_refinement
from latentia.networks.own_tables import LearnedTables, climb_tables, learn_tables
from latentia.networks.piece_learning import TableSettings
from latentia.networks.tables import doubts_of, told_pieces
from latentia.networks.to_operators import check_operators, operators_of
from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan

MANY_TIMES = 2.0  # the graph's parameters: so many of another network's cost more than they tell


def tables_promise(plan: Plan) -> bool:
    """Would separators take many more parameters than the graph's own tables, which can be made?"""
    graph = plan.graph
    if not graph.latent or not graph.directed:
        return False
    try:
        check_operators(plan)
    except PlanError:  # joint states of separators are too many to answer with
        return False
    try:
        network = plan_refinement(plan)[0]
    except PlanError:  # too large to be made at all
        return True
    return _parameters(network.graph) > MANY_TIMES * _parameters(graph)


def _parameters(graph: LatentGraph) -> int:
    """Free parameters of all tables."""
    states, parents = [n or 1 for n in graph.states], graph.parents()
    rows = [math.prod(states[u] for u in above) for above in parents]
    return sum(n * (states[v] - 1) for v, n in enumerate(rows))


def learn_candidate(
    plan: Plan, source: Source, rng: np.random.Generator, smoothing: float
) -> LearnedTables | str:
    """Tables of a part of the rows; or why there are none."""
    try:
        return learn_tables(plan.graph, source, TableSettings(smoothing=smoothing), rng)
    except PlanError as error:
        return str(error)


def candidate_operators(plan: Plan, found: LearnedTables) -> Operators:
    """Tables as messages know them."""
    return operators_of(plan, found.tables, found.weight)


def finish_candidate(
    plan: Plan, found: LearnedTables, source: Source, smoothing: float, patience: float
) -> Operators:
    """The same tables, climbed on over all rows."""
    settings = TableSettings(smoothing=smoothing)
    whole = climb_tables(plan.graph, source, found.tables, settings, patience)
    made = operators_of(plan, whole.tables, whole.weight)
    told = (*told_pieces(found), *(f"on all rows: {line}" for line in told_pieces(whole)[1:]))
    return made.told(notes=whole.notes, pieces=told, doubts=doubts_of(found))
