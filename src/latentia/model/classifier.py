"""LatentClassifier: P(class | x) ∝ P(class) P(x | class), one LatentModel per class.

All classes share their columns (states, grids, scales), which are discovered on all rows together:
a class must not call impossible what it has not seen itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self, cast, final

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from latentia.data.columns.column import Column
from latentia.data.columns.discrete import DiscreteColumn
from latentia.data.moments import Moments
from latentia.data.sources.engine import Answer, Engine, OneBlock, check_cells, row_weights
from latentia.data.sources.opening import open_question
from latentia.data.sources.table import Table
from latentia.data.sources.table_rows import (
    TableRows,
    discover_columns,
    joined,
    open_rows,
    with_labels,
)
from latentia.data.sources.weights import weight_name
from latentia.errors import DataError, LatentiaWarning, UnknownNameError
from latentia.inference.operators import Operators
from latentia.inference.row_answers import Asking, Found
from latentia.kernels.settings import KernelSettings
from latentia.model.choice import FEW
from latentia.model.class_models import (
    ClassRows,
    class_scores,
    class_training,
    fit_classes,
    held_scores,
    in_content_order,
    least_loss,
    log_class_posterior,
)
from latentia.model.contract import Estimator
from latentia.model.latent_model import LatentModel
from latentia.model.learners import as_learner
from latentia.model.mixed_plans import has_continuous
from latentia.model.opened_table import look_at
from latentia.model.specification import Specification
from latentia.model.training import place_columns
from latentia.parameters import unfitted
from latentia.typing import Array, ByName, Cell, CellArray, Label, TableLike, WeightLike

if TYPE_CHECKING:
    from latentia.networks.learner import Learner, LearnerLike, SettlingLearner, TunedLearner
    from latentia.structure.reading_graphs import GraphLike, Latents

FOLDS = 5  # of the recalibration; one of them compares forms
CLASS = "class"


class LatentClassifier(ClassifierMixin, Estimator):
    """One latent-variable model per class; the class is that of the largest posterior.

    Parameters
    ----------
    graph, latents, learner, kinds, state_names
        Of every class's `LatentModel`; see there. Without a graph: a latent class per class.
    priors : dict of class -> probability, or sequence in the order of `classes_`, optional
        Default: the shares of the classes in the training rows.
    calibrate : bool
        Recalibrate probabilities: P(class) P(x | class)^(1/T), the temperature T chosen by the log
        loss of held-out folds. Costs five more fits.
    n_jobs : int, optional
        Classes that are learned at once, in processes of their own.

    Attributes
    ----------
    classes_, priors_, temperature_
    models_ : list of LatentModel, one per class
    settings_ : KernelSettings of all classes (continuous columns, learner="pbp"), or None
    pool_ : share of a normal density per class in the scores of kernel embeddings
    class_losses_ : log loss of the class on held-out rows, of models that choose for themselves
        ("auto") and of closed forms, the better of which is taken; empty where none were compared

    Examples
    --------
    >>> import numpy as np, latentia as lt
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(2, size=400)
    >>> X = {c: np.where(rng.random(400) < 0.8, y, 1 - y) for c in "abc"}
    >>> model = lt.LatentClassifier().fit(X, y)
    >>> model.predict({"a": [1], "b": [1], "c": [1]})
    array([1])
    """

    _learned, _call = "models_", "fit(frame, y)"
    class_losses_: Mapping[str, float] = {}  # of the forms compared, not stored

    def __init__(
        self,
        graph: GraphLike | None = None,
        latents: Latents = None,
        learner: LearnerLike = "pbp",
        kinds: ByName[str] | None = None,
        priors: ArrayLike | None = None,
        state_names: ByName[Sequence[Cell]] | None = None,
        calibrate: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.graph = graph
        self.latents = latents
        self.learner = learner
        self.kinds = kinds
        self.priors = priors
        self.state_names = state_names
        self.calibrate = calibrate
        self.n_jobs = n_jobs

    # -- learning ------------------------------------------------------------------------------

    def fit(self, X: TableLike, y: object, sample_weight: WeightLike | None = None) -> Self:
        """Learn one model per class from a table and its labels.

        `y` has one class per row, or is the name of the column that holds them.
        """
        base = LatentModel(self.graph, self.latents, self.learner, self.kinds, self.state_names)
        learner = as_learner(self.learner)
        rows, self.classes_ = self._read_rows(X, y, sample_weight, learner)
        counts = rows.counts()
        self.priors_ = self._read_priors(counts)
        self.settings_, self.class_losses_ = None, {}
        if learner.abilities.settles and has_continuous(rows.columns):
            own = in_content_order(rows, learner)
            trainings = [class_training(own, k, learner) for k in range(rows.classes)]
            learner, choice = cast("SettlingLearner", learner).settle(
                [t.plan for t in trainings],
                own.columns,
                [t.source for t in trainings],
                np.log(self.priors_),
            )
            self.settings_ = None if choice is None else choice.settings
        elif learner.abilities.compares:
            learner, self.class_losses_ = self._compare(base, rows, counts, learner)
        self.pool_ = _pool_share(learner)
        self.models_ = fit_classes(base, rows, learner, self.n_jobs)
        self.columns_ = self.models_[0].columns_
        self.n_features_in_ = self.models_[0].n_features_in_
        self.feature_names_in_ = self.models_[0].feature_names_in_
        self.temperature_ = 1.0
        if self.calibrate:
            self.temperature_ = self._recalibrated(base, rows, counts, learner)
        return self

    def _read_rows(
        self, X: TableLike, y: object, sample_weight: WeightLike | None, learner: Learner
    ) -> tuple[ClassRows, CellArray]:
        """Rows with their classes, and the classes as the user has them."""
        wanted = Specification(self.graph, self.latents, self.kinds, self.state_names).read()
        table = open_rows(X, wanted.columns, sample_weight, known=wanted.stated)
        rows, classes = _labelled(table, y)
        opened = look_at(wanted, rows, learner.abilities.tied)
        label = rows.label
        assert label is not None
        seen = opened.seen
        if seen.columns[label].missing > 0:
            raise DataError("some rows have no class. Drop them, or fill in their class.")
        (labels,) = discover_columns(seen, [label], {label: "discrete"})
        states = np.asarray(labels.labels)  # those that some row of positive weight has
        classes = states if classes is None else classes[states]
        columns = place_columns(opened, learner)
        source = rows.source((*columns, labels), opened.seen)
        return ClassRows(opened, columns, labels, source), classes

    def _compare(
        self, base: LatentModel, rows: ClassRows, counts: Array, learner: Learner
    ) -> tuple[Learner, dict[str, float]]:
        """The closed form for all classes, if that tells the classes of held-out rows better.

        Each model chooses by how well it tells its columns; which class a row belongs to is another
        question. Compared are log losses of the class, each at its best temperature.
        """
        if counts.sum() < FEW or counts.min() < FOLDS or len(counts) < 2:
            return learner, {}
        part, held = rows.folds(FOLDS)[0]
        log_prior = np.log(counts / counts.sum())  # of these rows, whatever priors are given
        forms = {
            "auto": learner,
            "closed": cast("TunedLearner", unfitted(learner)).set_params(refine=False),
        }
        losses: dict[str, float] = {}
        for name, own in forms.items():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", LatentiaWarning)  # all rows will tell
                    models = fit_classes(base, part, own, self.n_jobs)
            except DataError:  # a column that only held-out rows of a class have
                return learner, {}
            scores = held_scores(models, held)
            losses[name] = least_loss(scores, log_prior, held.codes[-1], held.weight)[0]
        return forms[min(losses, key=lambda name: losses[name])], losses

    def _recalibrated(
        self, base: LatentModel, rows: ClassRows, counts: Array, learner: Learner
    ) -> float:
        """The temperature of least log loss on folds."""
        folds = int(min(FOLDS, counts.min()))
        if folds < 2:
            raise DataError(
                "calibrate=True needs at least two rows of every class. Bring more rows, or "
                "calibrate=False."
            )
        scores, held_rows = [], []
        for part, held in rows.folds(folds):
            models = fit_classes(base, part, learner, self.n_jobs)
            scores.append(held_scores(models, held, self.pool_))
            held_rows.append(held)
        every = joined(held_rows)
        log_prior = np.log(self.priors_)
        return least_loss(np.concatenate(scores), log_prior, every.codes[-1], every.weight)[1]

    def _read_priors(self, counts: Array) -> Array:
        if self.priors is None:
            return np.asarray(counts / counts.sum())
        known = self.classes_.tolist()
        if isinstance(self.priors, Mapping):
            odd = [name for name in self.priors if name not in known]
            odd += [name for name in known if name not in self.priors]
            if odd:
                raise UnknownNameError("class in priors", odd[0], known)
            values = _numbers([self.priors[name] for name in known])
        else:
            values = _numbers(self.priors)
        if values.shape != (len(known),) or not (values > 0).all():
            raise DataError(
                f"expected a positive prior for each of the classes {known}, got {self.priors!r}."
            )
        if abs(values.sum() - 1.0) > 1e-6:
            raise DataError(f"expected priors that sum to one, got {values.sum():.6g}.")
        return np.asarray(values / values.sum())

    # -- questions -----------------------------------------------------------------------------

    def predict_log_proba(self, X: TableLike, *, unknown: str = "error") -> TableLike:
        """log P(class | present cells): (rows, classes)."""
        return self._ask(X, self._asking(unknown).logs, unknown)

    def predict_proba(self, X: TableLike, *, unknown: str = "error") -> TableLike:
        """P(class | present cells): (rows, classes); missing cells are not evidence."""
        return self._ask(X, self._asking(unknown).probabilities, unknown)

    def predict(self, X: TableLike, *, unknown: str = "error") -> TableLike:
        """The most probable class of each row."""
        asking, engine = self._asking(unknown), self._open(X)
        if isinstance(engine, OneBlock):
            return asking.classes_of(engine.table)
        states = DiscreteColumn(CLASS, tuple(self.classes_.tolist()))
        kinds = {CLASS: states.answer_type}
        return engine.answer(asking.labels, kinds, self._checked(engine, unknown), "column")

    def score(
        self, X: TableLike, y: ArrayLike | None, sample_weight: WeightLike | None = None
    ) -> float:
        """Share of rows whose class is told; `y` may be the name of a column."""
        engine = self._open(X)
        if isinstance(engine, OneBlock) and not isinstance(y, str):
            return float(super().score(X, y, sample_weight))
        rows = TableRows(engine, weight_name(sample_weight, engine.names))
        if not isinstance(y, str) or y not in engine.names:
            raise UnknownNameError("column (as y)", y, engine.names)
        asides = [name for name in (rows.weight, y) if name is not None]
        work = partial(self._asking("error").right, y, rows.weight)
        found = engine.fold(work, [*self._there(engine), *asides])
        if found is None or not found.weight > 0:
            raise DataError("0 sample(s): there are no rows to score.")
        return float(found.sums["right"][0]) / found.weight

    def _asking(self, unknown: str) -> AskingClass:
        self._check_fitted()
        asking = Asking(self.models_[0].operators_, self.columns_, unknown)
        models = tuple(m.operators_ for m in self.models_)
        log_prior = np.log(self.priors_)
        return AskingClass(asking, models, self.classes_, log_prior, self.temperature_, self.pool_)

    def _ask(self, X: TableLike, work: Answer, unknown: str) -> TableLike:
        """An array for a table in memory, columns named by class for all others."""
        engine = self._open(X)
        if isinstance(engine, OneBlock):
            found = work(engine.table)
            return np.stack(list(found.values()), axis=1)
        kinds = dict.fromkeys(self.classes_.tolist(), float)
        return engine.answer(work, kinds, self._checked(engine, unknown))

    def _checked(self, engine: Engine, unknown: str) -> list[Label]:
        """The columns that a question reads; their cells are looked at where errors get lost."""
        wanted = self._there(engine)
        if unknown == "error":
            check_cells(engine, self.columns_, wanted)
        return wanted

    def _open(self, X: TableLike) -> Engine:
        self._check_fitted()
        known = [c.name for c in self.columns_]
        engine = open_question(X, self.columns_)
        if engine.names and not set(known) & set(engine.names):
            raise UnknownNameError(
                "column", engine.names[0], known, "None of the columns is there."
            )
        return engine

    def _there(self, engine: Engine) -> list[Label]:
        return [c.name for c in self.columns_ if c.name in engine.names]


@final
@dataclass(frozen=True, slots=True)
class AskingClass:
    """The models of all classes, as they are asked about rows."""

    asking: Asking
    models: tuple[Operators, ...]
    classes: CellArray
    log_prior: Array
    temperature: float
    pool: float

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.asking.columns

    def logs(self, table: Table) -> Found:
        """log P(class | present cells), by class."""
        scores = class_scores(self.models, self.asking.read(table), self.pool)
        found = log_class_posterior(scores, self.log_prior, self.temperature)
        return dict(zip(self.classes.tolist(), found.T, strict=True))

    def probabilities(self, table: Table) -> Found:
        return {name: np.exp(log) for name, log in self.logs(table).items()}

    def classes_of(self, table: Table) -> CellArray:
        """The most probable class of each row."""
        found = np.stack(list(self.logs(table).values()), axis=1)
        best: CellArray = self.classes[found.argmax(axis=1)]
        return best

    def labels(self, table: Table) -> Found:
        return {CLASS: self.classes_of(table)}

    def right(self, label: Label, weight: Label | None, table: Table) -> Moments | None:
        """Rows whose class is told, and what all rows weigh."""
        if table.length == 0:
            return None
        truth = table.column(label).cells
        own = row_weights(weight, table)
        own = np.ones(table.length) if own is None else own
        right = float(own[np.asarray(self.classes_of(table) == truth)].sum())
        return Moments("right", float(own.sum()), table.length, {"right": np.array([right])})


def _labelled(rows: TableRows, y: TableLike) -> tuple[TableRows, CellArray | None]:
    """Rows with a column of classes; the classes, unless the column holds them itself."""
    if y is None:
        raise DataError("a classifier requires y to be passed, but the target y is None.")
    if isinstance(y, str):
        if y not in rows.engine.names:
            raise UnknownNameError("column (as y)", y, rows.engine.names)
        return TableRows(rows.engine, rows.weight, y), None
    if not isinstance(rows.engine, OneBlock):
        return with_labels(rows, y), None  # says what is wrong
    labels = _checked_labels(y, rows.engine.table.length)
    classes, codes = np.unique(labels, return_inverse=True)
    return with_labels(rows, codes), classes


def _checked_labels(y: object, rows: int) -> CellArray:
    try:
        labels: CellArray = column_or_1d(np.asarray(y), warn=True)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        check_consistent_length(labels, range(rows))
    except (TypeError, ValueError) as error:
        raise DataError(f"y cannot be read as one class for each row: {error}") from None
    return labels


def _numbers(given: object) -> Array:
    try:
        return np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise DataError(f"expected priors as numbers, got {given!r}.") from None


def _pool_share(learner: Learner) -> float:
    """Share of normal densities in scores: of kernel embeddings with settings, else none."""
    settings = getattr(learner, "kernel", None)
    return settings.pool if isinstance(settings, KernelSettings) else 0.0
