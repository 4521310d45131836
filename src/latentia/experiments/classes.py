"""One model for each class: log P̂_c(row) + log P(c)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from latentia.estimator import LatentModel
from latentia.typing import Array

__all__ = ["class_scores", "fit_classes"]

NOTHING = 1e-6  # weight of a row that only shows how far a column reaches


def fit_classes(
    model: LatentModel, train: Mapping[str, Any], target: Any, ends: Sequence[float] = ()
) -> dict[Any, LatentModel]:
    """A copy of the model for each class, fitted to its rows.

    `ends` are the smallest and largest value of continuous columns, where they are known: they
    join the rows with next to no weight. Without them each class has a range of its own, beyond
    which its density does not fall any further, and narrow classes attract what is far off.
    """
    found = {}
    for label in np.unique(target).tolist():
        own = {name: column[target == label] for name, column in train.items()}
        weight = np.ones(np.sum(target == label))
        if ends:
            own = {name: np.concatenate([column, ends]) for name, column in own.items()}
            weight = np.concatenate([weight, np.full(len(ends), NOTHING)])
        found[label] = clone(model).fit(own, sample_weight=weight)
    return found


def class_scores(
    model: LatentModel,
    train: Mapping[str, Any],
    target: Any,
    test: Mapping[str, Any],
    ends: Sequence[float] = (),
) -> tuple[Array, float]:
    """log P̂_c(row) + log P(c) of every test row, (rows, classes); and the seconds of all fits."""
    start = time.perf_counter()
    models = fit_classes(model, train, target, ends)
    seconds = time.perf_counter() - start
    scores = [
        fitted.score_samples(test) + np.log(np.mean(target == label))
        for label, fitted in models.items()
    ]
    return np.column_stack(scores), seconds
