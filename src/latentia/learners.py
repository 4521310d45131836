"""Learners: how operators are found for a plan. Parameters only; the mathematics is elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from latentia.errors import DataError
from latentia.frozen import Frozen, FrozenSpectral, FrozenTables, freeze_basis
from latentia.learn import finish_closed_form, gather_statistics
from latentia.operators import Operators
from latentia.paper import learn_as_published
from latentia.plan import Plan
from latentia.refined import refine_closed_form
from latentia.spectral import learn_spectral
from latentia.typing import Source

__all__ = ["PBP", "PublishedPBP", "Spectral"]


class PBP(BaseEstimator):
    """Predictive belief propagation in closed form (design 4.2), refined on request (4.3).

    Parameters
    ----------
    regularize : bool
        Shrinkage sized by the data. False switches all of it off: exact moments then give exact
        answers, and finite samples noisy ones. It leaves no room for refinement.
    refine : bool
        Turn the closed form into a positive network of separator states and polish it by
        accelerated EM: slower, but always a valid distribution with a likelihood.
    groups : list of lists of columns, optional
        Columns that share a leaf of the tree.
    random_state : int, optional
        Seed of the sample of rows that a refinement starts from.
    """

    def __init__(
        self,
        regularize: bool = True,
        refine: bool = False,
        groups: Any = None,
        random_state: Any = None,
    ) -> None:
        self.regularize = regularize
        self.refine = refine
        self.groups = groups
        self.random_state = random_state

    def learn(self, plan: Plan, source: Source) -> Operators:
        """Two passes over the rows, four on loops; refined, one more for each E-step."""
        found = gather_statistics(plan, source, self.regularize)
        if not (self.refine and self.regularize):
            return finish_closed_form(found, source, self.regularize)
        rng = np.random.default_rng(0 if self.random_state is None else self.random_state)
        return refine_closed_form(found.layout, found.basis, source, rng)

    def freeze(self, plan: Plan, pilot: Source) -> Frozen:
        """Coordinates from a pilot: then one pass over any rows, in parts or all at once."""
        if self.refine is True:
            raise DataError(
                "refinement reads the rows several times; these sums are gathered once. Use "
                "PBP(refine=False), or rows that can be read again: a file, a list of frames."
            )
        return freeze_basis(plan, pilot, self.regularize)

    @staticmethod
    def paper(
        ridge: tuple[float, float] | None = None, stage1: Any = None, folds: int = 5, seed: int = 0
    ) -> PublishedPBP:
        """The algorithm as published: minimal core groups and two-stage regression."""
        return PublishedPBP(ridge, stage1, folds, seed)


class PublishedPBP(BaseEstimator):
    """Predictive belief propagation as published (paper, section 4; design 4.1).

    Parameters
    ----------
    ridge : (float, float), optional
        λ₁ of stage 1 and λ₂ of stage 2 for moments divided by N; default (1/N, 10/N). Zero λ₂ means
        the pseudo-inverse truncated at the separator's rank.
    stage1 : scikit-learn regressor or classifier, optional
        Used for stages 1A and 1B instead of ridge; reads rows and is cross-fitted.
    folds, seed : int
        Of the cross-fitting.
    """

    def __init__(
        self,
        ridge: tuple[float, float] | None = None,
        stage1: Any = None,
        folds: int = 5,
        seed: int = 0,
    ) -> None:
        self.ridge = ridge
        self.stage1 = stage1
        self.folds = folds
        self.seed = seed

    def learn(self, plan: Plan, source: Source) -> Operators:
        """One pass over the rows; with `stage1`, the rows themselves."""
        return learn_as_published(plan, source, self.ridge, self.stage1, self.folds, self.seed)

    def freeze(self, plan: Plan, pilot: Source) -> Frozen:
        """Counts are enough: nothing depends on the pilot."""
        if self.stage1 is not None:
            raise DataError("a stage-1 regressor reads rows; sums are enough for stage1=None only.")
        return FrozenTables(plan, self.ridge)


class Spectral(BaseEstimator):
    """The spectral algorithm for latent junction trees (Parikh et al. 2012; design 9).

    Ranks as given by the graph, no ridge: with more states than the data have it is unstable.

    Parameters
    ----------
    repair : bool
        Mix a little independence into answers, as the other learners do. False leaves the joint
        probability as published, perhaps negative, and answers only cut off at zero.
    """

    def __init__(self, repair: bool = True) -> None:
        self.repair = repair

    def learn(self, plan: Plan, source: Source) -> Operators:
        """One pass over the rows."""
        return learn_spectral(plan, source, self.repair)

    def freeze(self, plan: Plan, pilot: Source) -> Frozen:
        """Counts are enough: nothing depends on the pilot."""
        return FrozenSpectral(plan, self.repair)
