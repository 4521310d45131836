"""Learners as they were published: predictive belief propagation by two ridges, and spectral."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from latentia.closed_form.frozen import Frozen, FrozenSpectral, FrozenTables
from latentia.closed_form.published.spectral import learn_spectral
from latentia.closed_form.published.two_stage_tables import learn_as_published
from latentia.data.columns.column import Column
from latentia.data.rows import Rows, Source
from latentia.errors import DataError, UnknownNameError
from latentia.inference.operators import Operators
from latentia.kernels.gram import as_published_kernel, code_columns, learn_gram
from latentia.kernels.published_finite import learn_uncentred
from latentia.networks.learner import Abilities
from latentia.parameters import Parameters
from latentia.seeds import as_generator
from latentia.structure.plan import Plan
from latentia.typing import Foreign, Given

KERNEL_SAMPLE = 4000


def shuffled_sample(source: Source, rng: np.random.Generator) -> Rows:
    """At most a few thousand rows, in random order."""
    sample = source.sample(KERNEL_SAMPLE, rng)
    order = rng.permutation(len(sample))
    weight = None if sample.weight is None else sample.weight[order]
    return Rows(tuple(c[order] for c in sample.codes), weight)


class PublishedPBP(Parameters):
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
    kernel : str, scikit-learn kernel, function, PublishedKernel or dict of its fields, optional
        Embeds the columns, as continuous ones need it. Its own ridges, added to Gram matrices as in
        the paper, hold where `ridge` is not given.
    form : "finite" or "gram"
        With a kernel: finite coordinates on landmarks, linear in rows; or the kernel trick, N³, for
        reference and a few thousand rows.
    """

    def __init__(
        self,
        ridge: tuple[float, float] | None = None,
        stage1: Foreign = None,
        folds: int = 5,
        seed: int = 0,
        kernel: Given = None,
        form: str = "finite",
    ) -> None:
        self.ridge = ridge
        self.stage1 = stage1
        self.folds = folds
        self.seed = seed
        self.kernel = kernel
        self.form = form

    @property
    def abilities(self) -> Abilities:
        """What the road from a table to a model must know."""
        own_units = self.kernel is not None and as_published_kernel(self.kernel).units == "own"
        return Abilities(mixed=True, frozen=True, partial=False, pairs=True, straight=own_units)

    def learn(self, plan: Plan, source: Source) -> Operators:
        """One pass over the rows; with `stage1`, the rows themselves."""
        _check_ridge(self.ridge)
        if self.kernel is not None:
            return self.learn_mixed(plan, code_columns(plan), source)
        return learn_as_published(plan, source, self.ridge, self.stage1, self.folds, self.seed)

    def freeze(self, plan: Plan, pilot: Source) -> Frozen:
        """Counts are enough: nothing depends on the pilot."""
        _check_ridge(self.ridge)
        if self.stage1 is not None:
            raise DataError("a stage-1 regressor reads rows; sums are enough for stage1=None only.")
        return FrozenTables(plan, self.ridge)

    def learn_mixed(self, plan: Plan, columns: Sequence[Column], source: Source) -> Operators:
        """With a kernel: two passes over the rows, or Gram matrices of all of them."""
        if self.kernel is None:
            raise DataError(
                "the algorithm as published needs a kernel for continuous columns. "
                "Use PBP.paper(kernel='rbf'), or PBP()."
            )
        _check_ridge(self.ridge)
        if self.form not in FORMS:
            raise UnknownNameError("form", self.form, FORMS)
        if self.stage1 is not None:
            raise DataError("with a kernel, stage 1 is ridge regression; leave out stage1.")
        settings = as_published_kernel(self.kernel)
        if self.form == "gram":
            return learn_gram(plan, columns, source, settings, self.ridge)
        rng = as_generator(self.seed)
        sample = shuffled_sample(source, rng)
        return learn_uncentred(plan, columns, source, sample, settings, self.ridge)


FORMS = ("finite", "gram")


def _check_ridge(ridge: Given) -> None:
    try:
        fine = ridge is None or (len(ridge) == 2 and all(0 <= r < float("inf") for r in ridge))
    except TypeError:
        fine = False
    if not fine:
        raise DataError(f"expected ridge=(λ₁, λ₂), finite and not negative, got {ridge!r}.")


class Spectral(Parameters):
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

    @property
    def abilities(self) -> Abilities:
        """What the road from a table to a model must know."""
        return Abilities(mixed=False, frozen=True, partial=False)

    def learn(self, plan: Plan, source: Source) -> Operators:
        """One pass over the rows."""
        return learn_spectral(plan, source, self.repair)

    def freeze(self, plan: Plan, pilot: Source) -> Frozen:
        """Counts are enough: nothing depends on the pilot."""
        return FrozenSpectral(plan, self.repair)
