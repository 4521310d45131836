"""LatentClassifier: P(class | x) ∝ P(class) P(x | class), one LatentModel per class.

All classes share their columns (states, grids, scales), which are discovered on all rows together:
a class must not call impossible what it has not seen itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, final

import numpy as np
from joblib import Parallel, delayed
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.base import ClassifierMixin, clone
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import assert_all_finite, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from latentia.data.columns.column import Column
from latentia.data.columns.values import Values
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.data.sources.table import Table, read_table
from latentia.errors import (
    ConstantColumnWarning,
    DataError,
    LatentiaError,
    LatentiaWarning,
    UnknownNameError,
)
from latentia.inference.linear_part import pool_scores
from latentia.inference.many_rows import in_blocks, read_asked
from latentia.inference.messages import Evidence, log_evidence
from latentia.inference.operators import Operators
from latentia.kernels.settings import KernelSettings
from latentia.model.choice import FEW
from latentia.model.contract import Estimator
from latentia.model.latent_model import LatentModel
from latentia.model.mixed_plans import has_continuous
from latentia.model.notices import checked_weight
from latentia.model.training import as_learner
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Codes

FLOOR = 0.1  # of P̂(x) / Π P̂(x_i) in scores of signed models (design 7.5)
FAR = 100.0  # a class is at most so many nats behind the best one
FOLDS = 5  # of the recalibration; one of them compares forms
COLDEST, HOTTEST = -3.0, 6.0  # log temperature


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

    def __init__(
        self,
        graph: Any = None,
        latents: Any = None,
        learner: Any = "pbp",
        kinds: Mapping[Any, str] | None = None,
        priors: Any = None,
        state_names: Mapping[Any, Sequence[Any]] | None = None,
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn one model per class from a table and its labels."""
        length = read_table(X).length
        labels = _checked_labels(y, length)
        base = LatentModel(self.graph, self.latents, self.learner, self.kinds, self.state_names)
        weight = checked_weight(sample_weight, length)
        kept = None if weight is None else weight > 0  # others are dropped by the model, too
        graph, cells, weight = base._training(X, sample_weight, base._graph_given())
        rows = TrainingRows(graph, base._discover_all(graph, cells, weight), cells, weight)
        self.classes_, labels = np.unique(
            labels if kept is None else labels[kept], return_inverse=True
        )
        self.priors_ = self._read_priors(labels, weight)
        learner = as_learner(self.learner)
        self.settings_, self.class_losses_ = None, {}
        if hasattr(learner, "settle") and has_continuous(rows.columns):
            learner, self.settings_ = self._settle(base, rows, labels, learner)
        elif getattr(learner, "compares", False):
            learner, self.class_losses_ = self._compare(base, rows, labels, learner)
        self.pool_ = _pool_share(learner)
        self.models_ = self._fit_classes(base, rows, labels, learner)
        self.columns_ = self.models_[0].columns_
        self.n_features_in_ = self.models_[0].n_features_in_
        self.feature_names_in_ = self.models_[0].feature_names_in_
        self.temperature_ = 1.0
        if self.calibrate:
            self.temperature_ = self._recalibrated(base, rows, labels, learner)
        return self

    def _settle(
        self, base: LatentModel, rows: TrainingRows, labels: Codes, learner: Any
    ) -> tuple[Any, KernelSettings | None]:
        """Kernel settings, chosen once for all classes."""
        plans, sources, placed = [], [], tuple(rows.columns)
        for k in range(len(self.classes_)):
            own = rows.where(labels == k)
            plan, placed, codes = base._place_mixed(
                own.graph, own.columns, own.cells, own.weight, learner
            )
            plans.append(plan)
            sources.append(LocalRows(Rows(codes, own.weight)))
        learner, choice = learner.settle(plans, placed, sources, np.log(self.priors_))
        return learner, None if choice is None else choice.settings

    class_losses_: Mapping[str, float] = {}  # of the forms compared, not stored

    def _compare(
        self, base: LatentModel, rows: TrainingRows, labels: Codes, learner: Any
    ) -> tuple[Any, dict[str, float]]:
        """The closed form for all classes, if that tells the classes of held-out rows better.

        Each model chooses by how well it tells its columns; which class a row belongs to is another
        question. Compared are log losses of the class, each at its best temperature.
        """
        counts = np.bincount(labels)
        if len(labels) < FEW or counts.min() < FOLDS or len(counts) < 2:
            return learner, {}
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
        learn, test = next(folds.split(labels, labels))
        there = np.isin(np.arange(len(labels)), learn)
        held = rows.where(~there)
        log_prior = np.log(counts / counts.sum())  # of these rows, whatever priors are given
        forms = {"auto": learner, "closed": clone(learner).set_params(refine=False)}
        losses: dict[str, float] = {}
        for name, own in forms.items():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", LatentiaWarning)  # all rows will tell
                    models = self._fit_classes(base, rows.where(there), labels[learn], own)
            except DataError:  # a column that only held-out rows of a class have
                return learner, {}
            scores = _scores(models, held.as_table())
            losses[name] = _least_loss(scores, log_prior, labels[test], held.weight)[0]
        return forms[min(losses, key=lambda name: losses[name])], losses

    def _fit_classes(
        self, base: LatentModel, rows: TrainingRows, labels: Codes, learner: Any
    ) -> list[LatentModel]:
        found: list[LatentModel] = Parallel(n_jobs=self.n_jobs)(
            delayed(_fit_class)(clone(base), rows.where(labels == k), clone(learner), label)
            for k, label in enumerate(self.classes_)
        )
        for model in found:
            model.learner = self.learner
        return found

    def _recalibrated(
        self, base: LatentModel, rows: TrainingRows, labels: Codes, learner: Any
    ) -> float:
        """The temperature of least log loss on folds."""
        folds = min(FOLDS, int(np.bincount(labels).min()))
        if folds < 2:
            raise DataError(
                "calibrate=True needs at least two rows of every class. Bring more rows, or "
                "calibrate=False."
            )
        scores = np.empty((len(labels), len(self.classes_)))
        for learn, test in StratifiedKFold(folds, shuffle=True, random_state=0).split(
            labels, labels
        ):
            there = np.zeros(len(labels), dtype=bool)
            there[learn] = True
            models = self._fit_classes(base, rows.where(there), labels[learn], learner)
            scores[test] = _scores(models, rows.where(~there).as_table(), self.pool_)
        return _least_loss(scores, np.log(self.priors_), labels, rows.weight)[1]

    def _read_priors(self, labels: Codes, weight: Array | None) -> Array:
        if self.priors is None:
            counts = np.bincount(labels, weight).astype(float)
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

    def predict_log_proba(self, X: Any) -> Array:
        """log P(class | present cells): (rows, classes)."""
        self._check_fitted()
        table = read_table(X, [c.name for c in self.columns_])
        scores = _scores(self.models_, table, self.pool_)
        return _log_posterior(scores, np.log(self.priors_), self.temperature_)

    def predict_proba(self, X: Any) -> Array:
        """P(class | present cells): (rows, classes); missing cells are not evidence."""
        return np.asarray(np.exp(self.predict_log_proba(X)))

    def predict(self, X: Any) -> np.ndarray[Any, Any]:
        """The most probable class of each row."""
        self._check_fitted()
        found: np.ndarray[Any, Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return found


@final
@dataclass(frozen=True, slots=True)
class TrainingRows:
    """Cells of the graph's columns, and what these columns are."""

    graph: LatentGraph
    columns: Sequence[Column]
    cells: Sequence[Values]
    weight: Array | None

    def where(self, kept: Any) -> TrainingRows:
        cells = [c.where(kept) for c in self.cells]
        return replace(self, cells=cells, weight=None if self.weight is None else self.weight[kept])

    def as_table(self) -> Table:
        named = {
            c.name: _masked(values) for c, values in zip(self.columns, self.cells, strict=True)
        }
        return read_table(named)


def _masked(values: Values) -> Any:
    if values.missing is None:
        return values.cells
    return np.ma.MaskedArray(values.cells, values.missing)


def _fit_class(model: LatentModel, rows: TrainingRows, learner: Any, label: Any) -> LatentModel:
    model.set_params(learner=learner)
    label = label.item() if isinstance(label, np.generic) else label
    try:
        for column, values in zip(rows.columns, rows.cells, strict=True):
            if not len(values.present):
                raise DataError(
                    f"column {column.name!r} has no value in its rows. Drop the column, or bring "
                    "rows that have it."
                )
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", ConstantColumnWarning
            )  # constant here, not in other classes
            return model._fit_columns(rows.graph, rows.columns, rows.cells, rows.weight)
    except LatentiaError as error:
        raise DataError(f"class {label!r} cannot be learned: {error}") from error


def _checked_labels(y: Any, rows: int) -> np.ndarray[Any, Any]:
    if y is None:
        raise DataError("a classifier requires y to be passed, but the target y is None.")
    try:
        labels: np.ndarray[Any, Any] = column_or_1d(np.asarray(y), warn=True)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        check_consistent_length(labels, range(rows))
    except (TypeError, ValueError) as error:
        raise DataError(f"y cannot be read as one class for each row: {error}") from None
    return labels


def _numbers(given: Any) -> Array:
    try:
        return np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise DataError(f"expected priors as numbers, got {given!r}.") from None


def _pool_share(learner: Any) -> float:
    """Share of normal densities in scores: of kernel embeddings with settings, else none."""
    settings = getattr(learner, "kernel", None)
    return settings.pool if isinstance(settings, KernelSettings) else 0.0


def _scores(models: Sequence[LatentModel], table: Table, pool: float = 0.0) -> Array:
    """log P̂(present cells | class), floored and never infinite: (rows, classes)."""
    known = [c.name for c in models[0].columns_]
    if table.names and not set(known) & set(table.names):
        raise UnknownNameError("column", table.names[0], known, "None of the columns is there.")
    asked = read_asked(models[0].columns_, table)  # the same columns for all classes
    out = np.empty((asked.rows, len(models)))
    for alike in _alike([_floored(model.operators_) for model in models]):

        def work(part: slice, evidence: Evidence, alike: Mapping[int, Operators] = alike) -> None:
            for k, operators in alike.items():
                out[part, k] = log_evidence(operators, evidence)[0]

        in_blocks(max(alike.values(), key=_largest), asked, work)
    lines = [m.operators_.linear for m in models if m.operators_.linear is not None]
    out = pool_scores(out.T, lines, asked.codes, pool)
    out = np.ascontiguousarray(asked.spread(out).T)
    best = out.max(axis=1, initial=-np.inf, keepdims=True)
    return np.where(np.isneginf(best), 0.0, np.maximum(out, best - FAR))


def _alike(operators: Sequence[Operators]) -> list[dict[int, Operators]]:
    """Classes whose leaves hold the same columns: evidence is read once for all of them."""
    found: dict[Any, dict[int, Operators]] = {}
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


def _log_posterior(scores: Array, log_prior: Array, temperature: float) -> Array:
    """log softmax of log P(class) + log P(x | class) / T."""
    return np.asarray(log_softmax(log_prior + scores / temperature, axis=1))


def _least_loss(
    scores: Array, log_prior: Array, labels: Codes, weight: Array | None
) -> tuple[float, float]:
    """The least log loss of the class, and its temperature."""
    rows = np.arange(len(labels))

    def loss(log_t: float) -> float:
        own = _log_posterior(scores, log_prior, float(np.exp(log_t)))[rows, labels]
        return -float(np.average(own, weights=weight))

    found = minimize_scalar(loss, bounds=(COLDEST, HOTTEST), method="bounded")
    return float(found.fun), float(np.exp(found.x))
