"""Choosing a model of continuous and mixed columns on held-out rows (design 6, 7).

Candidates are the plain marginals, the kernel embedding and, where the numbers of states are known,
the positive network with smooth leaves. The loss is that of `choice`, with densities at points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from latentia.data.columns.column import Column
from latentia.data.rows import Rows, Source
from latentia.data.sources.memory import LocalRows
from latentia.data.sources.row_sample import split_rows
from latentia.errors import PlanError
from latentia.inference.operators import Choice, Operators, independent
from latentia.kernels.choose_settings import choose_settings
from latentia.kernels.embedding import learn_embedded
from latentia.kernels.settings import KernelSettings
from latentia.model.choice import HELD_OUT, left_out_loss, prefer_refined
from latentia.model.mixed_plans import known_ranks
from latentia.networks.smooth_network import SmoothSettings, refine_mixed
from latentia.structure.plan import Plan

POOL = 3000  # rows on which candidates are compared
FEWEST = 100


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
    if len(sample) < FEWEST:
        found = learn_embedded(plan, columns, source, sample, settings)
        return replace(found, choice=Choice("closed", {}, {}, 0, 0))
    pool = Rows(
        tuple(c[:POOL] for c in sample.codes),
        None if sample.weight is None else sample.weight[:POOL],
    )
    large, held = split_rows(pool, HELD_OUT, rng)
    if known_ranks(plan):  # the network wins as a rule: a short search is enough
        fixed = fixed | {"bandwidth", "ridge", "rank"}
    settings = choose_settings(plan, columns, large, settings, rng, fixed).settings
    part = LocalRows(large)
    closed = learn_embedded(plan, columns, part, large, settings)
    alone = independent(plan, _marginals(closed), closed.weight)
    losses = {"marginal": left_out_loss(alone, held), "closed": left_out_loss(closed, held)}
    smooth = SmoothSettings()
    refined = _network(plan, columns, part, settings, rng) if known_ranks(plan) else None
    if refined is not None:
        smooth = SmoothSettings(refined.blur[0])
        losses["refined"] = left_out_loss(refined, held)
    choice = prefer_refined(losses, held.weights, len(large))
    if choice.chosen == "refined":
        smooth = _narrower(smooth, len(large), sample)
        found = refine_mixed(plan, columns, source, sample, settings, smooth, rng)
    else:
        found = learn_embedded(plan, columns, source, sample, settings)
        if choice.chosen == "marginal":
            found = independent(plan, _marginals(found), found.weight)
    return replace(found, choice=choice)


def _network(
    plan: Plan,
    columns: Sequence[Column],
    part: LocalRows,
    settings: KernelSettings,
    rng: np.random.Generator,
) -> Operators | None:
    """The refined network of a part of the rows; no candidate where its tables are too large."""
    try:
        return refine_mixed(plan, columns, part, part.rows, settings, SmoothSettings(), rng)
    except PlanError:
        return None


def _narrower(smooth: SmoothSettings, learned_from: int, sample: Rows) -> SmoothSettings:
    """The bandwidth that suited the pool, unless there are many more rows: then chosen anew."""
    return smooth if len(sample) <= 1.5 * learned_from else SmoothSettings()


def _marginals(operators: Operators) -> list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    """Of every leaf, as it answers."""
    plan, found = operators.plan, []
    for x, k in enumerate(plan.leaves):
        v = plan.nodes[k].columns[0]
        table = operators.targets[v][:, 0] if v in operators.targets else operators.marginals[x]
        mu = np.maximum(table, 0.0) + 1e-9 / len(table)
        found.append(np.asarray(mu / mu.sum(), dtype=np.float64))
    return found
