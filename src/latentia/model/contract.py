"""What every estimator here has: is it fitted, its file, and the tables that it takes."""

from __future__ import annotations

from typing import Any, ClassVar

from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from latentia import doors


class Estimator(BaseEstimator):
    """The part of scikit-learn's contract that models and classifiers share."""

    _learned: ClassVar[str]  # the attribute that a fit leaves behind
    _call: ClassVar[str] = "fit(frame)"

    def save(self, path: Any) -> None:
        """Write what was fitted to one file, at once or not at all; `latentia.load` reads it."""
        doors.save(self, path)

    def _check_fitted(self) -> None:
        if not hasattr(self, self._learned):
            name = type(self).__name__
            raise NotFittedError(
                f"this {name} instance is not fitted yet. Call {self._call} first."
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
