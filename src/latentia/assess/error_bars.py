"""Error bars: how far an answer may be off because the rows are a sample.

With p the answer, p_g that of the model without group g and p₀ that of all rows, learned alike,
all on the scale z = arcsin √p, where the noise of a share hardly depends on the share:

    se² = (G-1)/G Σ_g (z_g - z̄)²,   bias = (G-1)(z̄ - z₀),   z ± t · √(se² + bias²),

t the quantile of Student's distribution with G-1 degrees of freedom. The bias is what the jackknife
sees of one that falls as 1/N, such as shrinkage; the answer is left where it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from latentia.assess.influence import table_replicates
from latentia.assess.jackknife import (
    Replicates,
    frozen_replicates,
    marginal_replicates,
    sums_in_groups,
)
from latentia.closed_form.frozen import Frozen, FrozenBasis
from latentia.data.columns.continuous import Column, place_cells
from latentia.data.columns.discrete import DiscreteColumn
from latentia.data.moments import Moments
from latentia.data.rows import Rows, Source
from latentia.data.sources.engine import EngineRows
from latentia.data.sources.memory import LocalRows, compress
from latentia.data.sources.opening import open_engine
from latentia.data.sources.progress import as_progress
from latentia.data.sources.table import read_table
from latentia.errors import DataError, EvidenceError, NotLearnedError
from latentia.inference.operators import Operators
from latentia.model.frozen_model import Opened, engine_weight, freeze_learner, weights_of
from latentia.model.mixed_plans import column_cells
from latentia.networks.knowledge import read_knowledge
from latentia.structure.plan import Plan
from latentia.typing import Array

GROUPS = 20
FEWEST_GROUPS = 5
SAME_WEIGHT = 1e-6

Found = Mapping[Any, np.ndarray[Any, Any]]


class Bars(NamedTuple):
    """Probabilities and the ends of their intervals, each a table of the same kind."""

    proba: Any
    lower: Any
    upper: Any


# --- intervals ------------------------------------------------------------------------------------


def checked_confidence(confidence: Any) -> float:
    """A number between 0 and 1, or an error that says so."""
    number = isinstance(confidence, int | float | np.number) and not isinstance(confidence, bool)
    if not number or not 0 < confidence < 1:
        raise EvidenceError(
            f"expected a confidence between 0 and 1, such as 0.9, got {confidence!r}."
        )
    return float(confidence)


def intervals(
    p: Array, whole: Array, without: Iterable[Array], confidence: float
) -> tuple[Array, Array]:
    """Lower and upper ends around p, from the answers of the replicates: lower ≤ p ≤ upper.

    >>> lower, upper = intervals(np.array([0.5]), np.array([0.5]), [np.array([0.5])] * 5, 0.9)
    >>> lower, upper
    (array([0.5]), array([0.5]))
    """
    centre, spread, count = np.zeros(np.shape(p)), np.zeros(np.shape(p)), 0
    for answer in without:  # running mean and squares: one answer in memory at a time
        count += 1
        away = _turned(answer) - centre
        centre = centre + away / count
        spread = spread + away * away * (count - 1) / count
    variance = (count - 1) / count * spread
    bias = (count - 1) * (centre - _turned(whole))
    half = float(stdtrit(count - 1, 0.5 + confidence / 2)) * np.sqrt(variance + bias**2)
    z = _turned(p)
    lower, upper = _back(z - half), _back(z + half)
    return np.minimum(lower, p), np.maximum(upper, p)  # rounding must not leave p outside


def _turned(p: Array) -> Array:
    return np.asarray(np.arcsin(np.sqrt(np.clip(p, 0.0, 1.0))), dtype=float)


def _back(z: Array) -> Array:
    return np.asarray(np.sin(np.clip(z, 0.0, math.pi / 2)) ** 2, dtype=float)


def bars_of(
    ask: Callable[..., Found],
    operators: Operators,
    replicates: Replicates,
    confidence: float,
    *question: Any,
) -> tuple[Found, Found, Found]:
    """What `ask(operators, *question)` finds, column by column, with both ends."""
    p, whole = ask(operators, *question), ask(replicates.whole, *question)
    # one array for all columns, so that the answers of one replicate are enough at a time
    others = (_stacked(ask(each, *question)) for each in replicates.without)
    ends = intervals(_stacked(p), _stacked(whole), others, confidence)
    lower, upper = (dict(zip(p, end, strict=True)) for end in ends)
    return p, lower, upper


def _stacked(found: Found) -> Array:
    return np.stack([np.asarray(x, dtype=float) for x in found.values()])


# --- replicates -----------------------------------------------------------------------------------


def group_count(error_bars: Any) -> int:
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
    learner: Any,
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
    if operators.raw or operators.targets or operators.diagonals:
        raise NotLearnedError(
            f"error bars are not made for models with a kernel, such as {learner!r}. Use "
            "learner='pbp' with discrete columns."
        )
    if operators.tables:
        known, tied = getattr(learner, "known", None), getattr(learner, "tied", None)
        knowledge = read_knowledge(operators.plan.graph, known, tied)
        return table_replicates(operators, source, groups, seed, knowledge)
    if operators.choice is not None and operators.choice.chosen == "marginal":
        return marginal_replicates(operators.plan, source, groups, seed)
    if frozen is None:
        frozen = freeze_learner(learner, operators.plan, source)
        frozen = replace(frozen, own=True) if isinstance(frozen, FrozenBasis) else frozen
    return frozen_replicates(frozen, sums_in_groups(source, frozen.summary, groups, seed))


def replicate_once(learner: Any, plan: Plan, opened: Opened, groups: int) -> Replicates:
    """From rows that can be read once: the same sums give the model and its error bars."""
    frozen = freeze_learner(learner, plan, opened.first(opened.columns))
    source = opened.source(opened.columns)
    return frozen_replicates(frozen, sums_in_groups(source, frozen.summary, groups, 0))


def check_all_discrete(columns: Sequence[Column]) -> None:
    """Discrete columns only, or an error that says so."""
    for column in columns:
        if not isinstance(column, DiscreteColumn):
            raise NotLearnedError(
                f"error bars are made for discrete columns, and {column.name!r} is continuous. Bin "
                "it or name its kind, kinds={column: 'discrete'}; its own spread is told by "
                "query and predict_quantiles."
            )


def rows_again(model: Any, X: Any, sample_weight: Any) -> Source:
    """The rows of a table as the fitted model reads them; they must weigh what it was fitted on."""
    source, learned = _source_of(model.columns_, X, sample_weight), model.operators_.weight
    weight = source.fold(_weigh).weight
    if not abs(weight - learned) <= SAME_WEIGHT * learned:
        raise DataError(
            f"expected the rows that the model was learned from, of weight {learned:g}, got rows "
            f"of weight {weight:g}. Pass the same table and sample_weight as to fit."
        )
    return source


def _weigh(rows: Rows) -> Moments:
    return Moments("weights", rows.total, len(rows), {})


def _source_of(columns: Sequence[Column], X: Any, sample_weight: Any) -> Source:
    names = [c.name for c in columns]
    engine = open_engine(X, names, as_progress(None))
    if engine is not None:
        if engine.once:
            raise DataError(
                "error bars take another pass, but these rows can be read only once. Pass a "
                "function that opens them anew, or write them to a Parquet file."
            )
        return EngineRows(engine, tuple(columns), engine_weight(sample_weight, engine))
    table = read_table(X, names)
    weight = weights_of(sample_weight, table)
    codes = [place_cells(c, table.column(c.name)) for c in columns]
    if weight is not None and (weight == 0).any():
        kept = weight > 0
        codes, weight = [c[kept] for c in codes], weight[kept]
    if not len(codes[0]):
        raise DataError("there are no rows to learn from, or their weights are all zero.")
    rows = Rows(tuple(codes), weight)
    return LocalRows(compress(rows, [column_cells(c) for c in columns]))
