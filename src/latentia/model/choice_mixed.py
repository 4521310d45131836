"""Choosing a model of continuous and mixed columns on held-out rows (design 6, 7).

Candidates are the plain marginals, the kernel embedding and, where the numbers of states are known,
the positive network with smooth leaves; of a latent class, tables whose states are sought on rows
held out, where the marginals would be kept. Losses are of densities at points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.rows import Rows, Source
from latentia.data.sources.memory import LocalRows
from latentia.data.sources.row_sample import deal_rows, split_rows
from latentia.errors import PlanError
from latentia.inference.operators import Operators, answered_marginal, independent
from latentia.inference.provenance import Choice
from latentia.kernels.choose_settings import choose_settings
from latentia.kernels.embedding import learn_embedded
from latentia.kernels.settings import KernelSettings
from latentia.model.mixed_plans import known_ranks
from latentia.model.sought_class import sought_class
from latentia.model.trials import (
    HELD_OUT,
    Trial,
    decide,
    incomparable,
    left_out_loss,
    uncompared,
)
from latentia.networks.smooth_network import SmoothSettings, refine_mixed
from latentia.structure.plan import Plan
from latentia.typing import Array

POOL = 3000  # rows on which candidates are compared
FEW = 100  # rows: fewer are dealt …
DOUBTFUL = 300  # … and so many where those held out would have the marginals kept …
FOLDS = 5  # … so that each is held out once
MANY_MORE = 1.5  # times the rows of the pool


def learn_best_mixed(
    plan: Plan,
    columns: Sequence[Column],
    source: Source,
    sample: Rows,
    settings: KernelSettings,
    fixed: frozenset[str],
    rng: np.random.Generator,
) -> Operators:
    """The candidate of least loss on held-out rows, learned from all rows."""
    if len(sample) < FEW:
        return _learn_best_of_few(plan, columns, source, sample, settings, rng)
    large, held = split_rows(sample[:POOL], HELD_OUT, rng)
    if known_ranks(plan):  # the network wins as a rule: a short search is enough
        fixed = fixed | {"bandwidth", "ridge", "rank"}
    settings = choose_settings(plan, columns, large, settings, rng, fixed).settings
    closed = learn_embedded(plan, columns, LocalRows(large), large, settings)
    refined = _network(plan, columns, large, settings, rng) if known_ranks(plan) else None
    choice = _decided(plan, columns, [_trial(closed, refined, large, held)], [(large, held)])
    if choice.chosen == "marginal" and len(sample) < DOUBTFUL:
        return _learn_best_of_few(plan, columns, source, sample, settings, rng)
    # the bandwidth that suited the pool, unless there are many more rows: then chosen anew
    more = len(sample) > MANY_MORE * len(large)
    kept = None if more or not isinstance(refined, Operators) else refined.blur[0]
    smooth = SmoothSettings(kept)
    return _finished(choice, plan, columns, source, sample, settings, smooth, rng)


def _learn_best_of_few(
    plan: Plan,
    columns: Sequence[Column],
    source: Source,
    sample: Rows,
    settings: KernelSettings,
    rng: np.random.Generator,
) -> Operators:
    """The same where rows are few: by the rows of several folds, each held out once."""
    deals = deal_rows(sample, FOLDS, rng)
    why = incomparable(len(sample), deals)
    if why is not None:
        found = learn_embedded(plan, columns, source, sample, settings)
        return found.told(choice=uncompared(why))
    trials = []
    for large, held in deals:
        closed = learn_embedded(plan, columns, LocalRows(large), large, settings)
        refined = _network(plan, columns, large, settings, rng) if known_ranks(plan) else None
        trials.append(_trial(closed, refined, large, held))
    choice = _decided(plan, columns, trials, deals)
    return _finished(choice, plan, columns, source, sample, settings, SmoothSettings(), rng)


def _decided(
    plan: Plan,
    columns: Sequence[Column],
    trials: Sequence[Trial],
    deals: Sequence[tuple[Rows, Rows]],
) -> Choice:
    """The candidate of least loss; a class is sought where the marginals would be kept.

    Where none is found in a fold it answers as the marginals do there.
    """
    choice = decide(trials)
    if choice.chosen != "marginal":
        return choice
    sought = [sought_class(plan, columns, LocalRows(rows), rows.total) for rows, _ in deals]
    if not any(sought):
        return choice
    more = []
    for trial, own, (_, held) in zip(trials, sought, deals, strict=True):
        loss = left_out_loss(own, held) if own else trial.losses["marginal"]
        more.append(replace(trial, losses={**trial.losses, "tables": loss}))
    found = decide(more)
    # the tables stand in for a network that could not be made
    return replace(found, left_out={}) if found.chosen == "tables" else found


def _finished(
    choice: Choice,
    plan: Plan,
    columns: Sequence[Column],
    source: Source,
    sample: Rows,
    settings: KernelSettings,
    smooth: SmoothSettings,
    rng: np.random.Generator,
) -> Operators:
    """The candidate that was chosen, learned from all rows."""
    if choice.chosen == "refined":
        found = refine_mixed(plan, columns, source, sample, settings, smooth, rng)
    else:
        found = learn_embedded(plan, columns, source, sample, settings)
        if choice.chosen == "marginal":
            found = independent(plan, _marginals(found), found.weight)
        if choice.chosen == "tables":
            sought = sought_class(plan, columns, source, found.weight)
            choice = choice if sought else replace(choice, chosen="marginal")
            found = sought or independent(plan, _marginals(found), found.weight)
    return found.told(choice=choice)


def _network(
    plan: Plan,
    columns: Sequence[Column],
    large: Rows,
    settings: KernelSettings,
    rng: np.random.Generator,
) -> Operators | str:
    """The refined network of a part of the rows; or why there is none."""
    try:
        return refine_mixed(plan, columns, LocalRows(large), large, settings, SmoothSettings(), rng)
    except PlanError as error:  # its tables would be too large
        return str(error)


def _trial(closed: Operators, refined: Operators | str | None, large: Rows, held: Rows) -> Trial:
    """The loss of every candidate at every held-out row."""
    alone = independent(closed.plan, _marginals(closed), closed.weight)
    losses = {"marginal": left_out_loss(alone, held), "closed": left_out_loss(closed, held)}
    if isinstance(refined, Operators):
        losses["refined"] = left_out_loss(refined, held)
    left_out = {"refined": refined} if isinstance(refined, str) else {}
    return Trial(losses, held.weights, len(large), left_out)


def _marginals(operators: Operators) -> list[Array]:
    """Of every leaf, as its columns answer one by one: P(x) = Π P(x_i), within a leaf, too."""
    plan = operators.plan
    found = []
    for k in plan.leaves:
        joint = np.ones(1)
        for v in plan.nodes[k].columns:
            mu = np.maximum(answered_marginal(operators, v), 0.0)
            mu = mu + 1e-9 / len(mu)
            joint = np.outer(joint, mu / mu.sum()).ravel()
        found.append(joint)
    return found
