"""Choosing a model of discrete columns on held-out rows (design 6).

Candidates are the plain marginals, the closed form, the refined network, and the graph's own tables
where that network has many times their parameters, or tells them; each is learned from a part of
the rows. The rest tells their loss. The winner is then learned from all rows; tables of the graph
itself have as many pseudo-counts as their counts ask for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias, final

import numpy as np

from latentia.closed_form.pairs import leaf_codes, pair_layout, sum_pairs
from latentia.closed_form.solving import (
    Statistics,
    finish_closed_form,
    gather_statistics,
    leaf_marginals,
)
from latentia.closed_form.state_counts import state_notes
from latentia.data.rows import Rows, Source
from latentia.data.sources.memory import LocalRows
from latentia.data.sources.row_sample import deal_rows, keep_rows, split_rows
from latentia.errors import PlanError
from latentia.inference.operators import Operators, independent, smooth_unseen
from latentia.inference.provenance import Choice
from latentia.model.settled_class import RacedClass, agreed, higher_class, race_to_settle
from latentia.model.trials import (
    FLOOR,
    HELD_OUT,
    VALID,
    Trial,
    decide,
    incomparable,
    left_out_loss,
    uncompared,
)
from latentia.networks.accelerate import ENOUGH, PSEUDO_COUNTS
from latentia.networks.discrete_network import (
    CLOSELY,
    Network,
    climbed,
    plan_refinement,
    polish,
    started,
)
from latentia.networks.knowledge import AUTO, least_smoothing
from latentia.networks.own_tables import LearnedTables, climb_tables
from latentia.networks.piece_learning import TableSettings
from latentia.networks.small_classes import race_small_class, small_class_rows
from latentia.networks.tables import doubts_of, told_pieces
from latentia.networks.tables_beside import first_tables
from latentia.networks.tables_candidate import (
    RACE_ROWS,
    candidate_operators,
    finish_candidate,
    has_one_start,
    has_tables,
    learn_candidate,
    raced_again,
    raced_start,
    tables_promise,
    tables_suffice,
)
from latentia.networks.to_operators import operators_of, planned_ranks
from latentia.structure.plan import Plan
from latentia.typing import Array

Smoothed: TypeAlias = float | str  # pseudo-counts, or "auto"

POOL = 25_000  # different rows on which candidates are compared
FEW = 250  # rows; below, a fifth of them cannot tell candidates apart
FOLDS = 5  # then all rows do, fold by fold
WIDE, TWO_FOLDS = 20, 2  # columns from which two folds are enough: each takes long and tells more
ENOUGH_COLUMNS = 500  # … and from which a fifth of the rows is: each row judges by all its cells
MANY_ROWS = 20_000.0  # of which a closed form tells less than tables, unless optima are poor
NEARLY = 2e-2  # gain per free parameter at which a candidate rests; the winner climbs on
PATIENCE = 30.0  # E-steps after which more and more is small enough


@final
@dataclass(frozen=True, slots=True)
class Candidates:
    """Valid distributions, of a part of the rows; or why there is none."""

    network: Network | str | None  # None: tables suffice
    tables: LearnedTables | str | None = None  # None: the network has no more parameters
    raced: LearnedTables | None = None  # of a small latent class: of all rows already


@final
@dataclass(frozen=True, slots=True)
class Chosen:
    """The winner, learned from all rows; and what the comparison leaves to learn on from."""

    operators: Operators
    network: Network | None  # the refined candidate, of a part of the rows, if there is one
    tables: LearnedTables | None  # the graph's own, likewise
    pool: Rows  # rows that candidates were compared on
    source: Source  # all rows; the pool, if that is all of them


def learn_best(
    plan: Plan,
    source: Source,
    rng: np.random.Generator,
    smoothing: Smoothed = PSEUDO_COUNTS,
) -> Operators:
    """The candidate of least loss on held-out rows, learned from all rows."""
    return choose_best(plan, source, rng, smoothing).operators


def choose_best(
    plan: Plan,
    source: Source,
    rng: np.random.Generator,
    smoothing: Smoothed = PSEUDO_COUNTS,
) -> Chosen:
    """The same, with what the comparison brought to light besides."""
    pool, whole = keep_rows(source, POOL, rng)
    if whole:  # the pool is all there is: every kind of source is learned from alike
        source = LocalRows(pool)
    few = pool.total < FEW and len(plan.leaves) < ENOUGH_COLUMNS
    enough = pool.total >= FEW
    raced = race_to_settle(plan, source, pool, whole, smoothing) if enough else None
    if raced is not None and raced.settled is not None:
        return Chosen(raced.settled, None, None, pool, source)
    deals = deal_rows(pool, FOLDS, rng) if few else [split_rows(pool, HELD_OUT, rng)]
    deals = deals[:TWO_FOLDS] if len(plan.leaves) >= WIDE else deals
    why = incomparable(pool.total, deals)
    if why is not None:
        found = finish_closed_form(gather_statistics(plan, source), source)
        return Chosen(found.told(choice=uncompared(why)), None, None, pool, source)
    if few:
        found, last = _learn_best_of_few(plan, source, deals, rng, smoothing)
        return _chosen(found, last, pool, source)
    ((large, held),) = deals
    part = LocalRows(large)
    statistics = gather_statistics(plan, part)
    made = _candidates(statistics, part, rng, smoothing, NEARLY, source, raced)
    trial = _trial(statistics, part, made, held)
    choice = decide([trial])
    if choice.chosen not in VALID:
        made, choice = _second_look(statistics, part, rng, smoothing, made, trial, held)
    elif part.rows.total >= MANY_ROWS and _behind(choice) and made.raced is None:
        made, choice = _third_look(plan, part, rng, smoothing, made, trial, held)
    found = _finished(choice.chosen, plan, source, made, smoothing)
    found = found.told(choice=choice, notes=state_notes(statistics))
    return _chosen(found, made, pool, source)


def _chosen(found: Operators, made: Candidates, pool: Rows, source: Source) -> Chosen:
    network = made.network if isinstance(made.network, Network) else None
    tables = made.tables if isinstance(made.tables, LearnedTables) else None
    return Chosen(found, network, tables, pool, source)


def _learn_best_of_few(
    plan: Plan,
    source: Source,
    deals: Sequence[tuple[Rows, Rows]],
    rng: np.random.Generator,
    smoothing: Smoothed,
) -> tuple[Operators, Candidates]:
    """The same where rows are few: by the rows of several folds, each held out once.

    And the candidates of the last fold.
    """
    trials = []
    for large, held in deals:
        part = LocalRows(large)
        statistics = gather_statistics(plan, part)
        made = _candidates(statistics, part, rng, smoothing)
        trials.append(_trial(statistics, part, made, held))
    choice = decide(trials)
    best = made
    rows = sum(part.total for part in deals[0])
    if choice.chosen == "tables" and tables_promise(plan, rows):
        best = replace(made, tables=learn_candidate(plan, source, rng, smoothing))
    elif choice.chosen in VALID:
        network = started(gather_statistics(plan, source), source, rng, least_smoothing(smoothing))
        network = raced_start(plan, network, source, rng, smoothing, rows)
        best = replace(made, network=network)
        if choice.chosen == "tables":
            network = climbed(network, source, ENOUGH, PATIENCE)[0]
            best = replace(made, tables=_own_tables(plan, network, source, smoothing, rng))
    return _finished(choice.chosen, plan, source, best, smoothing).told(choice=choice), best


def _second_look(
    found: Statistics,
    part: LocalRows,
    rng: np.random.Generator,
    smoothing: Smoothed,
    made: Candidates,
    trial: Trial,
    held: Rows,
) -> tuple[Candidates, Choice]:
    """Where no distribution was chosen: the network may have rested too early, or was not made.

    And where a closed form of many rows is still ahead, tables may rest on a poor optimum: they
    race.
    """
    network = made.network
    if network is None:
        network = _started_network(found, part, rng, smoothing)
    if isinstance(network, str):
        return made, decide([trial])
    network = climbed(network, part, patience=PATIENCE)[0]
    losses = {**trial.losses, "refined": _network_loss(network, held)}
    left_out = {name: why for name, why in trial.left_out.items() if name != "refined"}
    trial, made = replace(trial, losses=losses, left_out=left_out), replace(made, network=network)
    choice = decide([trial])
    if choice.chosen != "closed" or part.rows.total < MANY_ROWS:
        return made, choice
    return _third_look(found.layout.plan, part, rng, smoothing, made, trial, held)


def _behind(choice: Choice) -> bool:
    """Does a closed form lose less than what was chosen? It tells less of many rows by far."""
    return choice.losses["closed"] < choice.losses[choice.chosen]


def _third_look(
    plan: Plan,
    part: LocalRows,
    rng: np.random.Generator,
    smoothing: Smoothed,
    made: Candidates,
    trial: Trial,
    held: Rows,
) -> tuple[Candidates, Choice]:
    """Tables against many starts: they may rest on a poor optimum."""
    if not has_tables(plan):
        return made, decide([trial])
    network, tables = made.network, made.tables
    own = isinstance(network, Network) and network.plan.graph == plan.graph
    first = tables if isinstance(tables, LearnedTables) else network if own else None
    if not isinstance(first, LearnedTables | Network):
        return made, decide([trial])
    found = raced_again(plan, part, rng, smoothing, first.tables)
    if isinstance(found, str):
        return made, decide([trial])
    name = "refined" if own else "tables"
    loss = left_out_loss(candidate_operators(plan, found), held)
    if name in trial.losses and loss @ held.weights >= trial.losses[name] @ held.weights:
        return made, decide([trial])
    if isinstance(network, Network) and own:
        made = replace(made, network=replace(network, tables=dict(found.tables)))
    else:
        made = replace(made, tables=found)
    losses = {**trial.losses, name: loss}
    return made, decide([replace(trial, losses=losses)])


def _started_network(
    found: Statistics, source: LocalRows, rng: np.random.Generator, smoothing: Smoothed
) -> Network | str:
    """The network of separators where it starts; or why there is none."""
    try:
        return started(found, source, rng, least_smoothing(smoothing))
    except PlanError as error:  # its tables would be too large
        return str(error)


def _candidates(
    found: Statistics,
    source: LocalRows,
    rng: np.random.Generator,
    smoothing: Smoothed,
    enough: float = ENOUGH,
    whole: Source | None = None,
    own: RacedClass | None = None,
) -> Candidates:
    """The valid distributions, of a part of the rows; or why there are none.

    A latent class has raced on its `own`: the part climbs from there.
    """
    plan = found.layout.plan
    if tables_suffice(plan, source.rows.total):
        tables = learn_candidate(plan, source, rng, smoothing)
        if isinstance(tables, LearnedTables):
            return Candidates(None, tables)
    network: Network | str
    raced = None
    try:
        plan_refinement(plan)
        network = first = started(found, source, rng, least_smoothing(smoothing))
        raced = None if whole is None else _raced_class(plan, network, whole, smoothing, own)
        if raced is None:
            before = None if own is None else own.tables.tables
            rows = source.rows.total
            network = raced_start(plan, network, source, rng, smoothing, rows, before)
        else:
            network = replace(network, tables=dict(raced.tables))
        if network is first or raced is not None or source.rows.total > RACE_ROWS:
            network = climbed(network, source, enough, PATIENCE)[0]  # others rest on all of them
    except PlanError as error:  # its tables would be too large
        network = str(error)
    if tables_promise(plan, source.rows.total):
        return Candidates(network, learn_candidate(plan, source, rng, smoothing), raced)
    if isinstance(network, str):
        return Candidates(network)
    return Candidates(network, _own_tables(plan, network, source, smoothing, rng), raced)


def _raced_class(
    plan: Plan,
    network: Network,
    source: Source,
    smoothing: Smoothed,
    own: RacedClass | None = None,
) -> LearnedTables | None:
    """A small latent class at its very maximum, so that seeds do not matter; None for others.

    Where starts of its `own` race disagreed, the closed form's may lead higher.
    """
    few = small_class_rows(plan.graph, source) if network.plan.graph == plan.graph else None
    if few is None:
        return None
    if own is None:
        return race_small_class(plan.graph, few, smoothing, network.tables)
    if agreed(own.tables):
        return own.tables
    return higher_class(plan, few, smoothing, own.tables, network.tables)


def _own_tables(
    plan: Plan, network: Network, source: Source, smoothing: Smoothed, rng: np.random.Generator
) -> LearnedTables | str | None:
    """The graph's own tables, as a network of separators tells them; None: it has them.

    They have fewer parameters, and as many pseudo-counts as their counts ask for. Separators of
    lower rank than latents have states do not tell them: they race.
    """
    if network.plan.graph == plan.graph or not plan.graph.directed:
        return None
    start = first_tables(plan, network.plan.graph, network.tables)
    if start is None:
        return learn_candidate(plan, source, rng, smoothing) if has_tables(plan) else None
    settings = TableSettings(smoothing=smoothing, closely=ENOUGH)
    return climb_tables(plan.graph, source, start, settings, PATIENCE, rested=False)


def _trial(found: Statistics, part: LocalRows, made: Candidates, held: Rows) -> Trial:
    """The loss of every candidate at every held-out row."""
    losses = {
        "marginal": _marginal_loss(found, held),
        "closed": left_out_loss(finish_closed_form(found, part), held),
    }
    left_out = {}
    if isinstance(made.network, Network):
        losses["refined"] = _network_loss(made.network, held)
    elif made.network is not None:
        left_out["refined"] = made.network
    if isinstance(made.tables, LearnedTables):
        operators = candidate_operators(found.layout.plan, made.tables)
        losses["tables"] = left_out_loss(operators, held)
    elif made.tables is not None:
        left_out["tables"] = made.tables
    return Trial(losses, held.weights, part.rows.total, left_out)


def _network_loss(network: Network, held: Rows) -> Array:
    return left_out_loss(operators_of(network.plan, network.tables, 1.0), held)


def _marginal_loss(found: Statistics, rows: Rows) -> Array:
    """-Σ_i log P̂(x_i), (n,)."""
    plan, N = found.layout.plan, found.pairs.weight
    shares = leaf_marginals(found.layout, found.pairs)
    total = np.zeros(len(rows))
    for mu, codes in zip(shares, leaf_codes(plan, rows), strict=True):
        log = np.log(np.maximum(smooth_unseen(mu, N), FLOOR))
        total -= np.append(log, 0.0)[codes]  # code -1 picks the last: nothing to lose
    return total


def _leaning(plan: Plan, network: Network, source: Source, enough: float) -> LearnedTables:
    """Tables of the graph itself, climbed on with as many pseudo-counts as counts ask for."""
    settings = TableSettings(smoothing=AUTO, closely=enough)
    return climb_tables(plan.graph, source, network.tables, settings, PATIENCE, rested=False)


def _finished(
    name: str, plan: Plan, source: Source, made: Candidates, smoothing: Smoothed
) -> Operators:
    """The candidate of this name, learned from all rows; tables climb on from where they are."""
    if name == "refined":
        assert isinstance(made.network, Network)
        network, raced = made.network, made.raced
        enough = CLOSELY if has_one_start(plan, network) else ENOUGH
        raced = raced or _raced_class(plan, network, source, smoothing)
        if smoothing == AUTO and network.plan.graph == plan.graph and plan.graph.directed:
            whole = raced or _leaning(plan, network, source, enough)
            found = operators_of(network.plan, whole.tables, whole.weight)
            ranks, pieces = planned_ranks(network.plan), told_pieces(whole)
            return found.told(reports=ranks, pieces=pieces, doubts=doubts_of(whole))
        if raced is not None:
            network = replace(network, tables=dict(raced.tables))
        return polish(network, source, enough, PATIENCE)
    if name == "tables":
        assert isinstance(made.tables, LearnedTables)
        return finish_candidate(plan, made.tables, source, smoothing, PATIENCE)
    if name == "closed":
        return finish_closed_form(gather_statistics(plan, source), source)
    layout = pair_layout(plan)
    pairs = source.fold(partial(sum_pairs, layout))
    shares = [smooth_unseen(mu, pairs.weight) for mu in leaf_marginals(layout, pairs)]
    return independent(plan, shares, pairs.weight).told(moments=pairs)
