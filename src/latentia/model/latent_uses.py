"""What latents are good for besides being asked: memberships as features, and outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from latentia.data.sources.table import Table
from latentia.errors import NotLearnedError
from latentia.model.table_questions import TableQuestions
from latentia.parameters import offered_if
from latentia.spelling import printable
from latentia.typing import ByName, CellArray, Foreign, Given, Label, TableLike, WeightLike

if TYPE_CHECKING:
    from latentia.exact.latent_rows import AskingLatent
    from latentia.inference.row_answers import Found
    from latentia.model.relating import Relation


def _tells_latents(model: Given) -> bool:
    """Has the model tables of its latents, or will it have them once it is fitted?"""
    from latentia.model.learners import as_learner
    from latentia.networks.em import EM
    from latentia.networks.stepwise import StepwiseEM
    from latentia.networks.tables import Tables

    if hasattr(model, "operators_"):
        told = any(model._is_told_latent(name) for name in model.states_)
    else:
        learner = as_learner(model.learner)
        named = bool(model.latents) and learner.abilities.names_latents  # the default, told by name
        told = named or isinstance(learner, EM | StepwiseEM | Tables)
    if not told:
        raise NotLearnedError(
            "transform gives memberships of latents, of which this model has no tables. Use "
            "learner='tables' or 'em'."
        )
    return True


class LatentUses(TableQuestions):
    """Memberships as features of other models, and what outcomes are like in every class."""

    _sklearn_auto_wrap_output_keys: ClassVar[set[str]] = {"transform"}  # what set_output rules

    def __sklearn_tags__(self) -> Foreign:
        tags = super().__sklearn_tags__()
        if hasattr(self, "transform"):
            from sklearn.utils import TransformerTags

            tags.transformer_tags = TransformerTags(preserves_dtype=[])
        return tags

    @offered_if(_tells_latents)
    def transform(self, X: TableLike) -> TableLike:
        """P(state | present cells) of every latent, side by side: features for other models."""
        from sklearn.utils._set_output import _wrap_data_with_container

        self._check_fitted()
        asking = [self._asking_latent(name, "error") for name in self._told_latents()]
        names = list(map(str, self.get_feature_names_out()))
        found = self._ask(X, _Side(asking, names), dict.fromkeys(names, float))
        return _wrap_data_with_container("transform", found, X, self)

    @offered_if(_tells_latents)
    def fit_transform(self, X: TableLike, y: object = None, **more: Given) -> TableLike:
        """`fit`, then `transform` of the same rows."""
        return self.fit(X, y, **more).transform(X)

    @offered_if(_tells_latents)
    def set_output(self, *, transform: object = None) -> Self:
        """The container of what `transform` gives: "pandas", "polars", or "default"."""
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}
        return self

    @offered_if(_tells_latents)
    def get_feature_names_out(self, input_features: object = None) -> CellArray:
        """Names of what `transform` gives: ``latent=state``."""
        self._check_fitted()
        found = [f"{name}={s}" for name in self._told_latents() for s in self._latent_labels(name)]
        return np.array([printable(name) for name in found], dtype=object)

    def _told_latents(self) -> list[Label]:
        return [name for name in self.states_ if self._is_told_latent(name)]

    def relate(
        self,
        latent: Label,
        X: TableLike,
        outcomes: Sequence[Label],
        correction: str | None = "BCH",
        assignment: str = "modal",
        kinds: ByName[str] | None = None,
        sample_weight: WeightLike | None = None,
    ) -> Relation:
        """What columns that are not in the model are like in every class, ± error, and a test.

        Rows are assigned to classes with errors. `correction` "BCH" or "ML" undoes what they blur;
        None does not. `assignment` is to the most probable class ("modal") or by memberships
        ("proportional"). Of numbers means are told, of discrete columns shares of states; ML takes
        numbers as normal in every class.
        """
        from latentia.model.relating import relate_outcomes

        self._check_fitted()
        return relate_outcomes(
            self, latent, X, outcomes, correction, assignment, kinds, sample_weight
        )


class _Side:
    """Memberships of several latents side by side."""

    def __init__(self, asking: Sequence[AskingLatent], names: Sequence[str]) -> None:
        self.asking = list(asking)
        self.names = list(names)

    def __call__(self, table: Table) -> Found:
        values = [p for each in self.asking for p in each.memberships(table).values()]
        return dict(zip(self.names, values, strict=True))
