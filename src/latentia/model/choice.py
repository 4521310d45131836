"""Choosing a model by what it says of rows it has not seen (design 6).

Candidates are the plain marginals, the closed form and the refined network, each learned from a
part of the rows. The rest tells their loss: -Σ_i log P̂(x_i | all other cells of the row), which
signed models have as well as valid ones. The winner is then learned from all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

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
from latentia.data.sources.row_sample import deal_rows, split_rows
from latentia.errors import PlanError
from latentia.inference.evidence import around, read_evidence
from latentia.inference.messages import answer
from latentia.inference.operators import Choice, Operators, independent, smooth_unseen
from latentia.networks.accelerate import ENOUGH, PSEUDO_COUNTS
from latentia.networks.discrete_network import Network, climbed, plan_refinement, polish, started
from latentia.networks.to_operators import operators_of
from latentia.structure.plan import Plan
from latentia.typing import Array

CANDIDATES = ("marginal", "closed", "refined")
POOL = 25_000  # rows on which candidates are compared
HELD_OUT = 0.2
FEW = 250  # rows; below, a fifth of them cannot tell candidates apart
FOLDS = 5  # then all rows do, fold by fold
WIDE, TWO_FOLDS = 20, 2  # columns from which two folds are enough: each takes long and tells more
FEWEST = 20  # rows
CLEARLY = 2.0  # standard errors
BEATEN = 0.25  # … by which the marginals must be
NEARLY = 2e-2  # gain per free parameter at which a candidate rests; the winner climbs on
PATIENCE = 30.0  # E-steps after which more and more is small enough
FLOOR = 1e-4  # of a probability: one surprise must not decide
BLOCK = 2**12


def learn_best(
    plan: Plan,
    source: Source,
    rng: np.random.Generator,
    pseudo_counts: float = PSEUDO_COUNTS,
) -> Operators:
    """The candidate of least loss on held-out rows, learned from all rows."""
    pool = source.sample(POOL, rng)
    few = pool.total < FEW
    deals = deal_rows(pool, FOLDS, rng) if few else [split_rows(pool, HELD_OUT, rng)]
    deals = deals[:TWO_FOLDS] if len(plan.leaves) >= WIDE else deals
    if pool.total < FEWEST or not all(_comparable(*deal) for deal in deals):
        found = finish_closed_form(gather_statistics(plan, source), source)
        return replace(found, choice=Choice("closed", {}, {}, 0, 0))
    if few:
        return _learn_best_of_few(plan, source, deals, rng, pseudo_counts)
    ((large, held),) = deals
    part = LocalRows(large)
    statistics = gather_statistics(plan, part)
    network = _network(statistics, part, rng, pseudo_counts, NEARLY)
    losses = _losses(statistics, part, network, held)
    choice = prefer_refined(losses, held.weights, round(large.total))
    if network is not None and choice.chosen != "refined":  # it may have rested too early
        network = climbed(network, part, patience=PATIENCE)[0]
        losses["refined"] = _network_loss(network, held)
        choice = prefer_refined(losses, held.weights, round(large.total))
    found = _finished(choice.chosen, plan, source, network)
    return replace(found, choice=choice, notes=state_notes(statistics))


def _comparable(large: Rows, held: Rows) -> bool:
    """Does the large part tell something of every column, and are there rows to judge by?"""
    return held.total > 0 and all((codes >= 0).any() for codes in large.codes)


def _learn_best_of_few(
    plan: Plan,
    source: Source,
    deals: Sequence[tuple[Rows, Rows]],
    rng: np.random.Generator,
    pseudo_counts: float,
) -> Operators:
    """The same where rows are few: by the rows of several folds, each held out once."""
    losses, weights = [], []
    for large, held in deals:
        part = LocalRows(large)
        statistics = gather_statistics(plan, part)
        network = _network(statistics, part, rng, pseudo_counts)
        losses.append(_losses(statistics, part, network, held))
        weights.append(held.weights)
    every = {name: np.concatenate([loss[name] for loss in losses]) for name in losses[0]}
    learned_from = round(float(np.mean([large.total for large, _ in deals])))
    choice = prefer_refined(every, np.concatenate(weights), learned_from)
    network = None
    if choice.chosen == "refined":
        network = started(gather_statistics(plan, source), source, rng, pseudo_counts)
    return replace(_finished(choice.chosen, plan, source, network), choice=choice)


def _losses(
    found: Statistics, part: LocalRows, network: Network | None, held: Rows
) -> dict[str, Array]:
    """The loss of every candidate at every held-out row."""
    losses = {
        "marginal": _marginal_loss(found, held),
        "closed": left_out_loss(finish_closed_form(found, part), held),
    }
    return losses if network is None else losses | {"refined": _network_loss(network, held)}


def _network(
    found: Statistics,
    source: LocalRows,
    rng: np.random.Generator,
    pseudo_counts: float,
    enough: float = ENOUGH,
) -> Network | None:
    """The refined network of a part of the rows; none where its tables would be too large."""
    try:
        plan_refinement(found.layout.plan)
    except PlanError:
        return None
    return climbed(started(found, source, rng, pseudo_counts), source, enough, PATIENCE)[0]


def _network_loss(network: Network, rows: Rows) -> Array:
    return left_out_loss(operators_of(network.plan, network.tables, 1.0), rows)


def _marginal_loss(found: Statistics, rows: Rows) -> Array:
    """-Σ_i log P̂(x_i), (n,)."""
    plan, N = found.layout.plan, found.pairs.weight
    shares = leaf_marginals(found.layout, found.pairs)
    total = np.zeros(len(rows))
    for mu, codes in zip(shares, leaf_codes(plan, rows), strict=True):
        log = np.log(np.maximum(smooth_unseen(mu, N), FLOOR))
        total -= np.append(log, 0.0)[codes]  # code -1 picks the last: nothing to lose
    return total


def _finished(name: str, plan: Plan, source: Source, network: Network | None) -> Operators:
    if name == "refined":
        assert network is not None
        return polish(network, source, patience=PATIENCE)
    if name == "closed":
        return finish_closed_form(gather_statistics(plan, source), source)
    layout = pair_layout(plan)
    pairs = source.fold(partial(sum_pairs, layout))
    shares = [smooth_unseen(mu, pairs.weight) for mu in leaf_marginals(layout, pairs)]
    return replace(independent(plan, shares, pairs.weight), moments=pairs)


def left_out_loss(operators: Operators, rows: Rows) -> Array:
    """-Σ_i log P̂(x_i | all other present cells), over the present cells of each row: (n,).

    Of a continuous column the mass that hat functions find at its position.
    """
    observed = operators.plan.graph.observed
    total = np.zeros(len(rows))
    for start in range(0, len(rows), BLOCK):
        codes = [c[start : start + BLOCK] for c in rows.codes]
        found = answer(operators, read_evidence(operators.plan, codes)).probabilities
        for v, x in zip(observed, codes, strict=True):
            cells, share = around(x, len(found[v]), len(x))
            p = np.concatenate([found[v], np.ones((1, len(x)))])  # a missing cell loses nothing
            at = sum(p[c, np.arange(len(x))] * w for c, w in zip(cells, share, strict=True))
            total[start : start + BLOCK] -= np.log(np.maximum(at, FLOOR))
    return total


def prefer_refined(losses: dict[str, Array], weight: Array, learned_from: int) -> Choice:
    """The refined network, a valid distribution, unless another candidate is clearly better.

    The marginals, unless they are beaten by more than a part of a standard error: models of columns
    that have nothing to do with each other lose by several.
    """
    means = {name: _mean(loss, weight) for name, loss in losses.items()}
    chosen = min(means, key=lambda name: means[name])
    if "refined" in losses and means["refined"] < means["marginal"]:
        gap = losses["refined"] - losses[chosen]
        if means["refined"] - means[chosen] <= CLEARLY * _error(gap, weight):
            chosen = "refined"
    gain = losses["marginal"] - losses[chosen]
    if _mean(gain, weight) <= BEATEN * _error(gain, weight):
        chosen = "marginal"
    errors = {name: _error(loss - losses[chosen], weight) for name, loss in losses.items()}
    return Choice(chosen, means, errors, round(float(weight.sum())), learned_from)


def _mean(x: Array, weight: Array) -> float:
    return float(x @ weight / weight.sum())


def _error(x: Array, weight: Array) -> float:
    """Standard error of the mean of x over rows that count `weight` times."""
    total = float(weight.sum())
    spread = float((x - _mean(x, weight)) ** 2 @ weight) / max(total - 1.0, 1.0)
    return float(np.sqrt(spread / total))
