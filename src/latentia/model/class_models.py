"""Models of several classes: rows by class, one model each, and how well they tell the class."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, final

import numpy as np
import scipy

from latentia.data.columns.column import Column
from latentia.data.moments import Moments
from latentia.data.rows import Rows, Source
from latentia.data.sources.changed_rows import change_rows
from latentia.data.sources.engine import restrict
from latentia.data.sources.memory import LocalRows
from latentia.data.sources.row_sample import deal_rows
from latentia.data.sources.table_rows import joined
from latentia.errors import (
    ConstantColumnWarning,
    DataError,
    IndependenceWarning,
    LatentiaError,
)
from latentia.inference.answering import log_evidence
from latentia.inference.evidence import Evidence
from latentia.inference.linear_part import pool_scores
from latentia.inference.many_rows import Asked, in_blocks
from latentia.inference.operators import Operators
from latentia.model.by_content import MOST_ROWS, Turned, turn
from latentia.model.latent_model import LatentModel
from latentia.model.mixed_plans import has_continuous
from latentia.model.opened_table import Opened
from latentia.model.state_names import with_ordered_states
from latentia.model.training import Training, counted_graph, plan_continuous, plan_for
from latentia.parameters import unfitted
from latentia.structure.renumbering import plan_numbered_as
from latentia.typing import Array, Codes, Label

if TYPE_CHECKING:
    from latentia.networks.learner import Learner

FLOOR = 0.1  # of P̂(x) / Π P̂(x_i) in scores of signed models (design 7.5)
FAR = 100.0  # a class is at most so many nats behind the best one
COLDEST, HOTTEST = -3.0, 6.0  # log temperature
MOST_COMPARED = 200_000  # rows in memory on which forms and temperatures are chosen


@final
@dataclass(frozen=True, slots=True)
class ClassRows:
    """Rows whose last column is their class."""

    opened: Opened
    columns: tuple[Column, ...]  # of the graph, on their grids
    labels: Column  # discrete
    source: Source
    turned: Turned | None = None  # graph and columns are in the order of their contents

    @property
    def classes(self) -> int:
        return self.labels.cells

    def of_class(self, k: int) -> Source:
        """The rows of one class, without it."""
        return restrict(self.source, len(self.columns), k)

    def in_memory(self) -> Rows:
        """All rows, or many of them."""
        if isinstance(self.source, LocalRows):
            return self.source.rows
        return self.source.sample(MOST_COMPARED, np.random.default_rng(0))

    def folds(self, count: int) -> list[tuple[ClassRows, Rows]]:
        """All rows but a fold's, and the fold's; every class falls evenly into the folds."""
        rows, rng = self.in_memory(), np.random.default_rng(0)
        dealt = [
            deal_rows(rows.where(rows.codes[-1] == k), count, rng) for k in range(self.classes)
        ]
        return [
            (
                replace(self, source=LocalRows(joined([own[f][0] for own in dealt]))),
                joined([own[f][1] for own in dealt]),
            )
            for f in range(count)
        ]

    def counts(self) -> Array:
        """Weight of each class."""
        found = self.source.fold(partial(_count_last, self.classes))
        return found.sums["classes"]


def in_content_order(rows: ClassRows, learner: Learner, k: int | None = None) -> ClassRows:
    """The same in the order of what rows hold, those of one class or all, where they are few."""
    opened, count = rows.opened, rows.opened.counted_rows
    if opened.rows.once or count > MOST_ROWS:
        return rows
    rows = replace(rows, source=LocalRows(rows.in_memory()))
    alone = partial(_first_columns, len(rows.columns))
    own = change_rows(rows.source, alone) if k is None else rows.of_class(k)
    turned = turn(opened.graph, rows.columns, own, count, learner.abilities)
    if turned is None:
        return rows
    moved = replace(opened, graph=turned.graph, columns=turned.own_columns(opened.columns))
    columns, source = turned.own_columns(rows.columns), turned.source(rows.source, beside=1)
    return ClassRows(moved, columns, rows.labels, source, turned)


def _as_given(turned: Turned | None, model: LatentModel, learner: Learner) -> LatentModel:
    """The model of a class with graph, columns and states as the user has them."""
    if turned is None:
        return model
    columns = turned.given_columns(model.columns_)
    operators = turned.back(model.operators_, columns)
    plan = plan_numbered_as(model.plan_, turned.given)
    operators = with_ordered_states(operators, plan.graph, columns, None, learner)
    model._keep(plan, operators, columns, model.diagnostics_)
    return model


def _first_columns(count: int, rows: Rows) -> Rows:
    return Rows(rows.codes[:count], rows.weight)


def _count_last(classes: int, rows: Rows) -> Moments:
    counts = np.bincount(rows.codes[-1], rows.weights, classes).astype(float)
    return Moments("classes", rows.total, len(rows), {"classes": counts})


def class_training(rows: ClassRows, k: int, learner: Learner) -> Training:
    """The plan of one class, and its rows."""
    try:
        return _class_training(rows, k, learner)
    except LatentiaError as error:
        raise _cannot_learn(rows, k, error) from error


def _cannot_learn(rows: ClassRows, k: int, error: LatentiaError) -> DataError:
    return DataError(f"class {rows.labels.labels[k]!r} cannot be learned: {error}")


def _class_training(rows: ClassRows, k: int, learner: Learner) -> Training:
    opened, source = rows.opened, rows.of_class(k)
    there = source.fold(_count_present)
    missing = {
        c.name: 1.0 - float(n) / there.weight
        for c, n in zip(rows.columns, there.sums["present"], strict=True)
    }
    for name, share in missing.items():
        if share == 1.0:
            raise DataError(
                f"column {name!r} has no value in its rows. Drop the column, or bring rows that "
                "have it."
            )
    if has_continuous(rows.columns):
        plan, _, _ = plan_continuous(opened, learner, lambda: source, planned=True)
        graph = plan.tables_of or plan.graph
    else:
        # classes differ by their models; how many states each has matters little
        graph = counted_graph(opened.graph, rows.columns, source, opened.counted, quickly=True)
        plan = plan_for(graph, learner)
    return Training(graph, plan, learner, rows.columns, source, source, False, missing, ())


def _count_present(rows: Rows) -> Moments:
    there = [~np.isnan(c) if c.dtype.kind == "f" else c >= 0 for c in rows.codes]
    sums = np.array([float(rows.weights[x].sum()) for x in there])
    return Moments("present", rows.total, len(rows), {"present": sums})


def fit_classes(
    base: LatentModel, rows: ClassRows, learner: Learner, n_jobs: int | None = None
) -> list[LatentModel]:
    """One model per class."""
    from joblib import Parallel, delayed

    jobs = n_jobs if isinstance(rows.source, LocalRows) else None  # others read by themselves
    found: list[LatentModel] = Parallel(n_jobs=jobs)(
        delayed(_fit_class)(unfitted(base), rows, k, unfitted(learner)) for k in range(rows.classes)
    )
    return found


def _fit_class(model: LatentModel, rows: ClassRows, k: int, learner: Learner) -> LatentModel:
    own = in_content_order(rows, learner, k)
    training = class_training(own, k, learner)
    try:
        with warnings.catch_warnings():
            # constant here, not in other classes; independent given the class is a model, too
            for kind in (ConstantColumnWarning, IndependenceWarning):
                warnings.simplefilter("ignore", kind)
            return _as_given(own.turned, model._learn(training, learner), learner)
    except LatentiaError as error:
        raise _cannot_learn(rows, k, error) from error


def held_scores(models: Sequence[LatentModel], held: Rows, pool: float = 0.0) -> Array:
    """Scores of rows that were held out: (rows, classes)."""
    asked = Asked(len(held), held.codes[:-1], None)
    return class_scores([model.operators_ for model in models], asked, pool)


def class_scores(models: Sequence[Operators], asked: Asked, pool: float = 0.0) -> Array:
    """log P̂(present cells | class), floored and never infinite: (rows, classes)."""
    out = np.empty((asked.rows, len(models)))
    for alike in _alike([_floored(model) for model in models]):

        def work(part: slice, evidence: Evidence, alike: Mapping[int, Operators] = alike) -> None:
            for k, operators in alike.items():
                out[part, k] = log_evidence(operators, evidence)[0]

        in_blocks(max(alike.values(), key=_largest), asked, work)
    lines = [m.linear for m in models if m.linear is not None]
    out = pool_scores(out.T, lines, asked.codes, pool)
    out = np.ascontiguousarray(asked.spread(out).T)
    best = out.max(axis=1, initial=-np.inf, keepdims=True)
    return np.where(np.isneginf(best), 0.0, np.maximum(out, best - FAR))


def _alike(operators: Sequence[Operators]) -> list[dict[int, Operators]]:
    """Classes whose leaves hold the same columns: evidence is read once for all of them."""
    found: dict[Label, dict[int, Operators]] = {}
    for k, own in enumerate(operators):
        plan = own.plan
        leaves = tuple(plan.nodes[x].columns for x in plan.leaves)
        states = tuple(plan.graph.states[v] for v in plan.graph.observed)
        found.setdefault((plan.graph.observed, leaves, states), {})[k] = own
    return list(found.values())


def _largest(operators: Operators) -> int:
    return max((t.size for t in operators.tensors.values()), default=0)


def _floored(operators: Operators) -> Operators:
    """Scores of signed models rest on a floor; a valid distribution needs none."""
    signed = not operators.tables
    return replace(operators, floor=max(operators.floor, FLOOR)) if signed else operators


def log_class_posterior(scores: Array, log_prior: Array, temperature: float) -> Array:
    """log softmax of log P(class) + log P(x | class) / T."""
    return np.asarray(scipy.special.log_softmax(log_prior + scores / temperature, axis=1))


def least_loss(
    scores: Array, log_prior: Array, labels: Codes, weight: Array | None
) -> tuple[float, float]:
    """The least log loss of the class, and its temperature."""
    rows = np.arange(len(labels))

    def loss(log_t: float) -> float:
        own = log_class_posterior(scores, log_prior, float(np.exp(log_t)))[rows, labels]
        return -float(np.average(own, weights=weight))

    found = scipy.optimize.minimize_scalar(loss, bounds=(COLDEST, HOTTEST), method="bounded")
    return float(found.fun), float(np.exp(found.x))
