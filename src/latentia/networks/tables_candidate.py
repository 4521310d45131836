"""The graph's own tables as a candidate for answers, beside a network of separators (design 13).

Where separators hold several latents each (hidden causes that share their symptoms), a network of
separator states has many times the parameters of the graph, and rows must pay for them; few rows
pay dearly for fewer (parallel chains). Where the network is the graph itself, its closed form may
be a poor start: of latents with many branches, and of loops when rows are few.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from latentia.data.rows import Rows, Source
from latentia.data.sources.memory import LocalRows
from latentia.errors import PlanError
from latentia.inference.operators import Operators
from latentia.networks.accelerate import ENOUGH, Tables
from latentia.networks.branch_classes import MOST_BRANCHES, most_branches
from latentia.networks.discrete_network import Network, plan_refinement
from latentia.networks.knowledge import least_smoothing
from latentia.networks.own_tables import LearnedTables, climb_tables, learn_tables
from latentia.networks.piece_learning import TableSettings
from latentia.networks.tables import doubts_of, told_pieces
from latentia.networks.to_operators import check_operators, operators_of, planned_ranks, renumbered
from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan
from latentia.structure.triangulate import moralise
from latentia.typing import Codes

MANY_TIMES = 1.5  # the graph's parameters: so many of another network's cost more than they tell
MOST_TIMES = 2.0  # … and so many that all depends on the tables: they race for longer
FEW_ROWS = 3000.0  # below, more parameters than the graph's, and poor starts of loops, cost much

RACE_ROWS, RACED = 1500, 3  # a sample, and starts of a kind beside the closed form's
AT_RANDOM = 4  # … of few rows: local classes took as long again there, and gained nothing

AGAIN = 2  # rounds of a race that a closed form has called for


def tables_promise(plan: Plan, rows: float) -> bool:
    """Would separators take too many more parameters than the graph's tables, which can be made?"""
    return _times_as_many(plan) > (1.0 if rows < FEW_ROWS else MANY_TIMES)


def tables_suffice(plan: Plan, rows: float) -> bool:
    """Would a network of separators take so many more parameters that few rows are not for it?

    Where it was chosen all the same (five of twenty parallel chains, 500 and 1,000 rows), tables
    had a tenth less KL, and the network takes a fifth of the time.
    """
    return rows < FEW_ROWS and _times_as_many(plan) > MANY_TIMES


def has_tables(plan: Plan) -> bool:
    """Can the graph's tables answer by messages?"""
    return _times_as_many(plan) > 0


def _times_as_many(plan: Plan) -> float:
    """Parameters of the network of separators over the graph's; 0: its tables are of no use."""
    graph = plan.graph
    if not graph.latent or not graph.directed:
        return 0.0
    try:
        check_operators(plan)
    except PlanError:  # joint states of separators are too many to answer with
        return 0.0
    try:
        network = plan_refinement(plan)[0]
    except PlanError:  # too large to be made at all
        return math.inf
    return _parameters(network.graph) / max(_parameters(graph), 1)


def _parameters(graph: LatentGraph) -> int:
    """Free parameters of all tables."""
    states, parents = [n or 1 for n in graph.states], graph.parents()
    rows = [math.prod(states[u] for u in above) for above in parents]
    return sum(n * (states[v] - 1) for v, n in enumerate(rows))


def has_one_start(plan: Plan, network: Network) -> bool:
    """Is it the graph itself, and has one of its latents too many branches for local classes?

    Such a latent (of a latent class) starts as the closed form tells it, and may stay on a poor
    optimum or a plateau.
    """
    return network.plan.graph == plan.graph and most_branches(plan.graph) > MOST_BRANCHES


def _starts_badly(plan: Plan, network: Network, rows: float) -> bool:
    """… or do its latents lie on loops, of which few rows tell little in closed form?

    Twelve grids of eight sharp binary latents, 1,000 rows: a race of starts took a third off the
    median KL, and four fifths off that of the worst model; at 10,000 rows nothing.
    """
    loops = rows < FEW_ROWS and network.plan.graph == plan.graph and _has_loops(plan.graph)
    return loops or has_one_start(plan, network)


def _has_loops(graph: LatentGraph) -> bool:
    """Is there a cycle of latents, where those with a common child are neighbours?"""
    near = moralise(graph)
    beside = {v: near[v] & graph.latent for v in graph.latent}
    ends = [v for v, others in beside.items() if len(others) < 2]
    while ends:  # take ends of branches away: loops have none
        for u in beside.pop(ends.pop(), ()):
            others = beside.get(u, set())
            others.intersection_update(beside)
            if u in beside and len(others) < 2:
                ends.append(u)
    return bool(beside)


def raced_start(
    plan: Plan,
    network: Network,
    source: Source,
    rng: np.random.Generator,
    smoothing: float | str,
    rows: float,
    before: Tables | None = None,
) -> Network:
    """The network, or tables that climb higher than it on a sample, where it starts badly.

    `before` are tables that won a race without it: no more are needed then.
    """
    if not _starts_badly(plan, network, rows):
        return network
    one = has_one_start(plan, network)
    settings = TableSettings(
        smoothing=smoothing if one else least_smoothing(smoothing),  # loops climb on without more
        closed_form=0,
        local=RACED if one else 0,
        random=0 if one else AT_RANDOM,
        rounds=1,
        closely=ENOUGH,
        precise=False,  # a start, no more
        seeded=True,
    )
    sample, met = as_met(plan.graph, source.sample(RACE_ROWS, rng))
    given = [network.tables] if before is None else [network.tables, before]
    settings = replace(settings, given=[renumbered(plan.graph, one, met) for one in given])
    if before is not None:
        settings = replace(settings, local=0, random=1)
    found = learn_tables(plan.graph, LocalRows(sample, threads=1), settings, rng)
    back = {v: np.argsort(order) for v, order in met.items()}
    return replace(network, tables=renumbered(plan.graph, found.tables, back))


def as_met(graph: LatentGraph, rows: Rows) -> tuple[Rows, dict[int, Codes]]:
    """Rows with the states of columns numbered as rows show them, so that names do not matter.

    And the old number of every new one.
    """
    codes, orders = [], {}
    backwards = np.arange(len(rows))[::-1]
    for v, own in zip(graph.observed, rows.codes, strict=True):
        states = graph.states[v] or 1
        first = np.full(states + 1, len(rows))  # of unseen ones: behind all rows
        first[own[::-1]] = backwards  # the last one written is the first row; missing fall behind
        orders[v] = np.argsort(first[:-1], kind="stable").astype(np.int64)
        new = np.full(states + 1, -1)  # code -1 picks the last: missing stays so
        new[orders[v]] = np.arange(states)
        codes.append(new[own].astype(own.dtype))
    return Rows(tuple(codes), rows.weight), orders


def learn_candidate(
    plan: Plan, source: Source, rng: np.random.Generator, smoothing: float | str
) -> LearnedTables | str:
    """Tables of a part of the rows; or why there are none."""
    graph, settings = plan.graph, TableSettings(smoothing=smoothing, precise=False)
    if _times_as_many(plan) <= MOST_TIMES:  # more starts and rounds took longer and gained nothing
        few = isinstance(source, LocalRows) and source.rows.total < FEW_ROWS
        local, random = (0, AT_RANDOM) if few else (RACED, RACED)
        settings = replace(settings, closed_form=0, local=local, random=random)
        settings = replace(settings, rounds=1, race_rows=RACE_ROWS)
    try:
        if not isinstance(source, LocalRows):
            return learn_tables(graph, source, settings, rng)
        rows, met = as_met(graph, source.rows)
        found = learn_tables(graph, replace(source, rows=rows), settings, rng)
    except PlanError as error:
        return str(error)
    back = {v: np.argsort(order) for v, order in met.items()}
    return replace(found, tables=renumbered(graph, found.tables, back))


def raced_again(
    plan: Plan, source: LocalRows, rng: np.random.Generator, smoothing: float | str, first: Tables
) -> LearnedTables | str:
    """Tables that a closed form has beaten, against many starts; or why there are none.

    With many rows that happens where they rest on a poor optimum: of sharp chains with 10⁶ rows
    one in five, with 5 to 15 times the KL of the best one.
    """
    rows, met = as_met(plan.graph, source.rows)
    given = [renumbered(plan.graph, first, met)]
    settings = TableSettings(smoothing=smoothing, precise=False, rounds=AGAIN, given=given)
    try:
        found = learn_tables(plan.graph, replace(source, rows=rows), settings, rng)
    except PlanError as error:
        return str(error)
    back = {v: np.argsort(order) for v, order in met.items()}
    return replace(found, tables=renumbered(plan.graph, found.tables, back))


def candidate_operators(plan: Plan, found: LearnedTables) -> Operators:
    """Tables as messages know them."""
    return operators_of(plan, found.tables, found.weight)


def finish_candidate(
    plan: Plan, found: LearnedTables, source: Source, smoothing: float | str, patience: float
) -> Operators:
    """The same tables, climbed on over all rows."""
    settings = TableSettings(smoothing=smoothing)
    whole = climb_tables(plan.graph, source, found.tables, settings, patience, rested=False)
    made = operators_of(plan, whole.tables, whole.weight)
    told = (*told_pieces(found), *(f"on all rows: {line}" for line in told_pieces(whole)[1:]))
    ranks = planned_ranks(plan)
    return made.told(reports=ranks, notes=whole.notes, pieces=told, doubts=doubts_of(found))
