"""Two-stage regression at one separator, as published (paper, steps 3 to 5; design 4.1).

Stage 1A predicts θ = θ^S[α(S)] and stage 1B κ = ⊗_k θ^{S_k}, both from the instruments η; stage 2
regresses the second prediction on the first: E[κ | η] = W E[θ | η].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np

from latentia.errors import DataError
from latentia.linear_algebra import Solution
from latentia.typing import Array, Codes, Foreign

Solver: TypeAlias = Callable[[Array, Array], Solution]


@final
@dataclass(frozen=True, slots=True)
class Predictions:
    """θ̄ and κ̄ for a list of instrument values, each column times the root of its weight."""

    theta: Array  # (p, n)
    kappa: Array  # (q, n)


def stage_1(joint: Array, ridge: float) -> Array:
    """C_tη (C_ηη + λ₁I)⁻¹ for indicators: E[t | η] times √P(η), (p, states of η).

    `joint` holds P̂(t, η); C_ηη is diagonal with P̂(η).
    """
    prior = joint.sum(axis=0)
    slope = joint / np.maximum(prior + ridge, 1e-300)
    return np.asarray(slope * np.sqrt(prior), dtype=float)


def stage_2(predicted: Predictions, solver: Solver) -> Solution:
    """W = Σ κ̄ θ̄ᵀ (Σ θ̄ θ̄ᵀ + λ₂I)⁻¹, or the truncated pseudo-inverse: (q, p)."""
    return solver(predicted.theta, predicted.kappa)


def cross_fitted(
    estimator: Foreign,
    eta: Codes,
    target: Codes,
    sizes: tuple[int, int],
    weight: Array,
    folds: int,
    seed: int,
) -> Array:
    """E[1{target} | η] of every row, each from a model that did not see the row: (n, targets).

    `sizes` are the numbers of states of η and of the target. Rows with the same η are predicted
    once. Regressors get one-hot targets, classifiers the target itself and answer by probability.
    """
    from sklearn.model_selection import KFold

    n = len(eta)
    if n < 2 * folds:
        raise DataError(f"{folds} folds need at least {2 * folds} rows, got {n}.")
    out = np.zeros((n, sizes[1]))
    for train, test in KFold(folds, shuffle=True, random_state=seed).split(eta):
        model = _fitted(estimator, eta[train], target[train], sizes, weight[train])
        values, place = np.unique(eta[test], return_inverse=True)
        out[test] = _predicted(model, np.eye(sizes[0])[values], sizes[1])[place]
    return out


def _fitted(
    estimator: Foreign, eta: Codes, target: Codes, sizes: tuple[int, int], weight: Array
) -> Foreign:
    from sklearn.base import clone, is_classifier
    from sklearn.multioutput import MultiOutputRegressor
    from sklearn.utils import get_tags
    from sklearn.utils.validation import has_fit_parameter

    model = clone(estimator)
    X = np.eye(sizes[0])[eta]
    extra = {"sample_weight": weight} if has_fit_parameter(model, "sample_weight") else {}
    if is_classifier(model):
        return model.fit(X, target, **extra)
    tags = get_tags(model).target_tags
    if not tags.multi_output or tags.single_output:
        model = MultiOutputRegressor(model)
    return model.fit(X, np.eye(sizes[1])[target], **extra)


def _predicted(model: Foreign, X: Array, states: int) -> Array:
    from sklearn.base import is_classifier

    if not is_classifier(model):
        return np.asarray(model.predict(X), dtype=float).reshape(len(X), states)
    if not hasattr(model, "predict_proba"):
        raise DataError(
            f"{type(model).__name__} is a classifier without predict_proba; "
            "pass one that has it, or a regressor."
        )
    out = np.zeros((len(X), states))
    out[:, model.classes_.astype(int)] = model.predict_proba(X)
    return out
