"""Learners: how operators are found for a plan. Parameters only; the mathematics is elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import cast

import numpy as np

from latentia.closed_form.frozen import Frozen, freeze_basis
from latentia.closed_form.solving import finish_closed_form, gather_statistics
from latentia.closed_form.state_counts import state_notes
from latentia.data.columns.column import Column
from latentia.data.rows import Source
from latentia.data.sources.memory import LocalRows, counted_once
from latentia.errors import DataError, UnknownNameError
from latentia.inference.operators import Operators
from latentia.kernels.choose_settings import (
    KernelChoice,
    choose_settings,
)
from latentia.kernels.class_settings import choose_settings_for_classes
from latentia.kernels.embedding import learn_embedded
from latentia.kernels.settings import KernelSettings
from latentia.linear_algebra import threads_of_products
from latentia.model.choice import Smoothed, choose_best, learn_best
from latentia.model.choice_mixed import learn_best_mixed
from latentia.model.published_learners import PublishedPBP, Spectral, shuffled_sample
from latentia.networks.discrete_network import refine_closed_form, refine_known
from latentia.networks.em import EM
from latentia.networks.em_problem import at_least
from latentia.networks.knowledge import (
    AUTO,
    PseudoCounts,
    least_smoothing,
    read_knowledge,
    short_tables,
)
from latentia.networks.learner import Abilities, Learner, LearnerLike, TunedLearner
from latentia.networks.smooth_network import SmoothSettings, refine_mixed
from latentia.networks.stepwise import StepwiseEM
from latentia.networks.tables import Tables
from latentia.networks.tables_beside import with_tables_beside
from latentia.parameters import Parameters, shown_with, unfitted
from latentia.seeds import as_generator
from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan
from latentia.typing import Array, ByName, Cell, Foreign, Given, Label, Seed


def as_learner(learner: LearnerLike) -> Learner:
    """A learner from its name, or as it is."""
    if isinstance(learner, str):
        if learner not in LEARNERS:
            raise UnknownNameError("learner", learner, LEARNERS)
        return LEARNERS[learner]()
    if not hasattr(learner, "learn") or not isinstance(
        getattr(learner, "abilities", None), Abilities
    ):
        raise DataError(
            f"expected a learner such as 'pbp' or PBP(...), got {type(learner).__name__}."
        )
    return learner


def tables_instead(learner: Learner, graph: LatentGraph) -> Tables | None:
    """The graph's own tables in place of a learner that chooses for itself (design 13).

    None for other learners, for undirected graphs, and where no column is a parent: there the
    closed form and the refined network are the better candidates.
    """
    able = learner.abilities
    if not able.compares or able.groups or not graph.directed:
        return None
    return Tables(able.smoothing, random_state=able.random_state)


def has_column_parents(graph: LatentGraph) -> bool:
    """Do columns tell of each other directly? What they tell is counted then.

    An edge without a direction has no parent, whichever end was named first.
    """
    return graph.directed and any(parent not in graph.latent for parent, _ in graph.edges)


class PBP(Parameters):
    """Predictive belief propagation: closed form (design 4.2), refined where that is better (4.3).

    Parameters
    ----------
    regularize : bool
        Shrinkage sized by the data. False switches all of it off: exact moments then give exact
        answers, and finite samples noisy ones. It leaves no room for refinement.
    refine : "auto", True or False
        True turns the closed form into a positive network of separator states and polishes it by
        accelerated EM: slower, but always a valid distribution with a likelihood. False leaves the
        closed form. "auto" tries both, and the plain marginals, on held-out rows and keeps what
        answers best; `diagnostics_` tells the choice and its figures.
    groups : list of lists of columns, optional
        Columns that share a leaf of the tree.
    kernel : KernelSettings or dict of its fields, optional
        Of the embedding of continuous columns. What a dict leaves out, or all of it by default, is
        chosen on held-out rows.
    random_state : int, optional
        Seed of the sample that a refinement starts from, of landmarks, and of the rows held out.
    smoothing : "auto", float, or dict of variable -> float or table
        Pseudo-counts for every row of every table of a refined network, spread like its own
        marginal. "auto" is one; tables of the graph itself have more where their counts say that
        rows are much alike. A dict tells them variable by variable of the graph, perhaps as tables.
    known, tied
        Known cells of tables and tables that are shared, as in `EM`. The closed form has no tables:
        the refined network is then that of the graph itself, and is taken without a trial.
    """

    def __init__(
        self,
        regularize: bool = True,
        refine: bool | str = "auto",
        groups: Iterable[Iterable[Label]] | None = None,
        kernel: Given = None,
        random_state: Seed = None,
        smoothing: PseudoCounts = AUTO,
        known: ByName[Cell] | None = None,
        tied: Sequence[Sequence[Label]] | None = None,
    ) -> None:
        self.regularize = regularize
        self.refine = refine
        self.groups = groups
        self.kernel = kernel
        self.random_state = random_state
        self.smoothing = smoothing
        self.known = known
        self.tied = tied

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        shown = {name: short_tables(x) for name, x in self.get_params(deep=False).items()}
        return shown_with(self, shown, N_CHAR_MAX)

    @property
    def _informed(self) -> bool:
        """Is anything known of the tables of the graph?"""
        given = [x for x in (self.known, self.tied) if x is not None and not _is_empty(x)]
        return bool(given) or isinstance(self.smoothing, Mapping)

    @property
    def abilities(self) -> Abilities:
        """What the road from a table to a model must know."""
        return Abilities(
            mixed=True,
            frozen=True,
            partial=False,
            pairs=True,
            chooses_ranks=self.refine is not True,
            compares=bool(self.refine == "auto" and self.regularize and not self._informed),
            names_latents=bool(self.refine and self.regularize and not self._informed),
            settles=True,
            most_directions=_kernel_settings(self.kernel)[0].most,
            groups=self.groups,
            known=self.known,
            tied=self.tied,
            smoothing=self.smoothing,
            random_state=self.random_state,
        )

    def _check_informed(self) -> None:
        if self._informed and (self.refine is False or not self.regularize):
            raise DataError(
                "the closed form has no tables in which known cells, ties or pseudo-counts of "
                "single variables could be kept. Use PBP(refine=True), or lt.EM(...)."
            )

    def learn(self, plan: Plan, source: Source) -> Operators:
        """Two passes over the rows, four on loops; refined, one more for each E-step."""
        with threads_of_products(sum(plan.graph.states[v] or 1 for v in plan.graph.observed)):
            return self._learn(plan, source)

    def _learn(self, plan: Plan, source: Source) -> Operators:
        source, rng = self._prepared(plan, source)
        if self._informed:
            knowledge = read_knowledge(plan.graph, self.known, self.tied, self.smoothing)
            return refine_known(plan, source, rng, least_smoothing(self.smoothing), knowledge)
        at_least("smoothing", least_smoothing(self.smoothing), 0)
        if self.regularize and self.refine == "auto":
            return learn_best(plan, source, rng, self._smoothed)
        found = gather_statistics(plan, source, self.regularize)
        if self.refine and self.regularize:
            made = refine_closed_form(found, source, rng, least_smoothing(self.smoothing))
        else:
            made = finish_closed_form(found, source, self.regularize)
        return made.told(notes=state_notes(found)) if self.regularize else made

    def learn_with_latents(self, plan: Plan, source: Source) -> Operators:
        """The same, and the graph's own tables beside it, whatever answers for the columns."""
        if not self.abilities.compares:
            made = self.learn(plan, source)
            return with_tables_beside(plan, made, source, self._smoothed)
        source, rng = self._prepared(plan, source)
        at_least("smoothing", least_smoothing(self.smoothing), 0)
        found = choose_best(plan, source, rng, self._smoothed)
        start = None if found.tables is None else found.tables.tables
        return with_tables_beside(
            plan, found.operators, found.source, self._smoothed, found.pool, found.network, start
        )

    @property
    def _smoothed(self) -> Smoothed:
        """Where no table is told apart: one number, or "auto"."""
        return cast("Smoothed", self.smoothing)

    def _prepared(self, plan: Plan, source: Source) -> tuple[Source, np.random.Generator]:
        """Rows once each, a generator; and settings that make sense."""
        if self.refine not in ("auto", True, False):
            raise UnknownNameError("refine", self.refine, ["auto", True, False])
        self._check_informed()
        if isinstance(source, LocalRows):
            sizes = [plan.graph.states[v] or 1 for v in plan.graph.observed]
            source = replace(source, rows=counted_once(source.rows, sizes))
        return source, as_generator(0 if self.random_state is None else self.random_state)

    def freeze(self, plan: Plan, pilot: Source) -> Frozen:
        """Coordinates from a pilot: then one pass over any rows, in parts or all at once."""
        if self.refine is True or self._informed:
            raise DataError(
                "refinement reads the rows several times; these sums are gathered once. Use "
                "PBP(refine=False), or rows that can be read again: a file, a list of frames."
            )
        return freeze_basis(plan, pilot, self.regularize)

    def learn_mixed(self, plan: Plan, columns: Sequence[Column], source: Source) -> Operators:
        """With continuous columns: settings on held-out rows, then two passes over the rows."""
        if self._informed:
            raise DataError(
                "known cells, ties and pseudo-counts of single variables are for discrete columns "
                "here. Use lt.EM(...), whose leaves of continuous columns are Gaussian."
            )
        rng = as_generator(0 if self.random_state is None else self.random_state)
        settings, fixed = _kernel_settings(self.kernel)
        sample = shuffled_sample(source, rng)
        if self.refine == "auto":
            return learn_best_mixed(plan, columns, source, sample, settings, fixed, rng)
        if self.refine is True:
            return refine_mixed(plan, columns, source, sample, settings, SmoothSettings(), rng)
        if fixed != ALL_SETTINGS and sample.total >= FEWEST_TO_CHOOSE:
            settings = choose_settings(plan, columns, sample, settings, rng, fixed).settings
        return learn_embedded(plan, columns, source, sample, settings)

    def settle(
        self,
        plans: Sequence[Plan],
        columns: Sequence[Column],
        sources: Sequence[Source],
        log_prior: Array,
    ) -> tuple[PBP, KernelChoice | None]:
        """A copy whose kernel settings are chosen once, for the models of several classes."""
        settings, fixed = _kernel_settings(self.kernel)
        own = unfitted(self)
        if self.refine is True:
            return own, None
        own.refine = False  # the embedding for all classes: their scores must be of one kind
        rng = as_generator(0 if self.random_state is None else self.random_state)
        samples = [shuffled_sample(source, rng) for source in sources]
        few = sum(s.total for s in samples) < FEWEST_TO_CHOOSE or len(samples) < 2
        if fixed == ALL_SETTINGS or few:
            return own.set_params(kernel=settings), None
        choice = choose_settings_for_classes(
            plans, columns, samples, log_prior, settings, rng, fixed
        )
        return own.set_params(kernel=choice.settings), choice

    @staticmethod
    def paper(
        ridge: tuple[float, float] | None = None,
        stage1: Foreign = None,
        folds: int = 5,
        seed: int = 0,
        kernel: Given = None,
        form: str = "finite",
    ) -> PublishedPBP:
        """The algorithm as published: minimal core groups and two-stage regression."""
        return PublishedPBP(ridge, stage1, folds, seed, kernel, form)


def _is_empty(x: object) -> bool:
    return isinstance(x, list | tuple | Mapping) and not x


ALL_SETTINGS = frozenset(f.name for f in fields(KernelSettings))
BY_DEFAULT = KernelSettings()
FEWEST_TO_CHOOSE = 40


def _kernel_settings(given: object) -> tuple[KernelSettings, frozenset[str]]:
    """Settings, and which of them are not to be chosen."""
    if given is None:
        return BY_DEFAULT, frozenset()
    if isinstance(given, KernelSettings):
        return given, ALL_SETTINGS
    if not isinstance(given, Mapping):
        raise DataError(
            "expected kernel settings as KernelSettings(...) or a dict, "
            f"got {type(given).__name__}."
        )
    for name in given:
        if name not in ALL_SETTINGS:
            raise UnknownNameError("kernel setting", name, sorted(ALL_SETTINGS))
    return KernelSettings(**given), frozenset(given)


LEARNERS: dict[str, Callable[[], TunedLearner]] = {
    "pbp": PBP,
    "paper": PublishedPBP,
    "spectral": Spectral,
    "em": EM,
    "stepwise": StepwiseEM,
    "tables": Tables,
}
