"""Models without one group of rows each, for whatever was learned: what intervals are made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from latentia.assess.influence import table_replicates
from latentia.assess.jackknife import (
    Replicates,
    dealt_source,
    frozen_replicates,
    marginal_replicates,
    sums_in_groups,
)
from latentia.assess.table_bars import network_replicates, with_tables_without
from latentia.closed_form.frozen import Frozen, FrozenBasis
from latentia.data.columns.column import Column
from latentia.data.rows import Source
from latentia.errors import DataError, NotLearnedError
from latentia.inference.operators import Operators
from latentia.networks.knowledge import read_knowledge
from latentia.networks.learner import Learner, freeze_learner
from latentia.structure.plan import Plan
from latentia.typing import Given

GROUPS = 20
FEWEST_GROUPS = 5


def group_count(error_bars: Given) -> int:
    """True means so many groups as are usual."""
    if error_bars is True:
        return GROUPS
    whole = isinstance(error_bars, int | np.integer) and not isinstance(error_bars, bool)
    if not whole or error_bars < FEWEST_GROUPS:
        raise DataError(
            f"expected error_bars to be True ({GROUPS} groups of rows) or a number of groups of "
            f"at least {FEWEST_GROUPS}, got {error_bars!r}."
        )
    return int(error_bars)


def replicate(
    learner: Learner,
    operators: Operators,
    source: Source,
    groups: int = GROUPS,
    seed: int = 0,
    frozen: Frozen | None = None,
) -> Replicates:
    """Models without one group of rows each, learned from `source` as `operators` were.

    Learned tables move by the influence of the group; all others are solved again from sums, in
    the coordinates of these rows, or of those that the model was frozen in.
    """
    able = learner.abilities
    if operators.network is not None:
        knowledge = read_knowledge(operators.network.graph, able.known, able.tied)
        return network_replicates(operators, source, groups, seed, knowledge, able.smoothing)
    found = _replicated(learner, operators, source, groups, seed, frozen)
    return with_tables_without(found, operators, source, seed, smoothing=able.smoothing)


def _replicated(
    learner: Learner,
    operators: Operators,
    source: Source,
    groups: int,
    seed: int,
    frozen: Frozen | None,
) -> Replicates:
    if operators.embedded:
        raise NotLearnedError(
            f"error bars are not made for models with a kernel, such as {learner!r}. Use "
            "learner='pbp' with discrete columns."
        )
    given, source = source, dealt_source(source)
    if operators.valid:
        able = learner.abilities
        knowledge = read_knowledge(operators.plan.graph, able.known, able.tied)
        return table_replicates(operators, source, groups, seed, knowledge)
    if operators.independent:
        return marginal_replicates(operators.plan, source, groups, seed)
    if frozen is None:
        frozen = freeze_learner(learner, operators.plan, given)
        frozen = replace(frozen, own=True) if isinstance(frozen, FrozenBasis) else frozen
    return frozen_replicates(frozen, sums_in_groups(source, frozen.summary, groups, seed))


def replicate_once(
    learner: Learner, plan: Plan, pilot: Source, source: Source, groups: int
) -> Replicates:
    """From rows that can be read once: the same sums give the model and its error bars."""
    frozen = freeze_learner(learner, plan, pilot)
    return frozen_replicates(frozen, sums_in_groups(source, frozen.summary, groups, 0))


def check_all_discrete(columns: Sequence[Column]) -> None:
    """Discrete columns only, or an error that says so."""
    for column in columns:
        if column.continuous:
            raise NotLearnedError(
                f"error bars are made for discrete columns, and {column.name!r} is continuous. Bin "
                "it or name its kind, kinds={column: 'discrete'}; its own spread is told by "
                "query and predict_quantiles."
            )
