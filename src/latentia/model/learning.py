"""Learning: the methods by which a model learns, each on the one road of `training`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Self, cast

from numpy.typing import ArrayLike

from latentia.announcing import hearing_climbs
from latentia.data.moments import Moments
from latentia.data.sources.progress import ProgressLike, as_progress, show_progress
from latentia.errors import DataError, NotLearnedError
from latentia.inference.operators import Operators
from latentia.model.contract import Learned
from latentia.model.notices import note_dates, note_plan, note_restart, note_silent
from latentia.model.state_names import (
    OrderBy,
    checked_names,
    checked_order,
    with_ordered_states,
)
from latentia.parameters import offered_if, unfitted
from latentia.structure.graph import relevant, silent_latents
from latentia.typing import ByName, Cell, Given, Label, TableLike, WeightLike

if TYPE_CHECKING:
    from latentia.assess.jackknife import Replicates
    from latentia.discovery.found_structure import FoundStructure
    from latentia.model.frozen_model import FrozenModel
    from latentia.model.opened_table import Opened
    from latentia.model.specification import Specification
    from latentia.model.training import Training
    from latentia.networks.learner import GoingLearner, Learner, LearnerLike
    from latentia.structure.reading_graphs import GraphLike, Latents


def _goes_on(model: Given) -> bool:
    """Whether the learner has partial_fit."""
    from latentia.model.learners import as_learner

    learner = as_learner(model.learner)
    if not learner.abilities.partial and not learner.abilities.frozen:
        raise NotLearnedError(
            f"{type(learner).__name__} learns from all rows at once and has no partial_fit. "
            "Use learner='pbp' or 'stepwise', or fit a table with all rows."
        )
    return True


def _first_step(learner: Learner, training: Training) -> tuple[Operators, object]:
    """What a learner that goes on makes of the first rows, and where it stands."""
    going = cast("GoingLearner", learner)
    return going.partial_learn(training.plan, training.columns, training.source, None)


class Learning(Learned):
    """Parameters, and every way to learn from rows: at once, in parts, where they are."""

    def __init__(
        self,
        graph: GraphLike | None = None,
        latents: Latents = None,
        learner: LearnerLike = "pbp",
        kinds: ByName[str] | None = None,
        state_names: ByName[Sequence[Cell]] | None = None,
        order_by: OrderBy = None,
        name_states: ByName[Sequence[Cell]] | None = None,
        link: ByName[str] | None = None,
        mechanism: ByName[Sequence[Cell]] | None = None,
    ) -> None:
        self.graph = graph
        self.latents = latents
        self.learner = learner
        self.kinds = kinds
        self.state_names = state_names
        self.order_by = order_by
        self.name_states = name_states
        self.link = link
        self.mechanism = mechanism

    def _wanted(self) -> Specification:
        from latentia.data.sources.indicators import INDICATED
        from latentia.model.mechanism import indicator_names, with_mechanism
        from latentia.model.specification import Specification

        if not self.mechanism:
            return Specification(self.graph, self.latents, self.kinds, self.state_names)
        indicators = indicator_names(self.mechanism)
        graph = with_mechanism(self.graph, self.latents, self.mechanism)
        states = {**(self.state_names or {}), **dict.fromkeys(indicators, INDICATED)}
        return Specification(graph, None, self.kinds, states, indicators)

    def _refuse_mechanism(self, what: str) -> None:
        if self.mechanism:
            raise NotLearnedError(
                f"{what} is not made for models with a mechanism of missing cells. Use fit."
            )

    def fit(
        self,
        X: TableLike,
        y: object = None,
        sample_weight: WeightLike | None = None,
        *,
        progress: ProgressLike = None,
        error_bars: bool | int = False,
    ) -> Self:
        """Learn from a table: in memory, in files, or of an engine (docs/scale.md tells which).

        `sample_weight` is one number per row or the name of a column. `progress`: True, or a
        function that is told of passes over rows that are read block by block, and of the gains of
        climbs (`latentia.show_progress` shows that of answers, too). With `error_bars` (True, or
        a number of groups of rows) questions can be asked with a confidence.
        """
        from latentia.assess.without_groups import group_count
        from latentia.discovery.finding import Structure
        from latentia.discovery.id_columns import note_ids
        from latentia.model.found_graph import seeks, sought_by_default
        from latentia.model.learners import as_learner
        from latentia.model.opened_table import open_training

        groups = 0 if error_bars is False else group_count(error_bars)
        for name in ("progress_", "frozen_", "sums_"):
            self.__dict__.pop(name, None)  # fit starts anew
        learner = as_learner(self.learner)
        tied = learner.abilities.tied
        with show_progress(progress), hearing_climbs(as_progress(progress).climbing()):
            wishes = (self.graph, self.order_by, self.name_states, self.link, self.mechanism)
            free = not groups and all(each is None for each in wishes) and seeks(learner)
            wanted = self._wanted()
            sought = Structure() if free else wanted.wish
            opened = open_training(wanted, X, sample_weight, progress, tied, sought)
            note_ids(opened.left_out)
            if free:
                opened = sought_by_default(opened)
            self._silent = silent_latents(opened.graph)
            note_silent(self._silent)
            note_dates(opened.columns, self.kinds or {})
            opened = replace(opened, graph=relevant(opened.graph))  # whatever learns from it
            return self._fit_opened(opened, learner, groups, progress)

    def _fit_opened(
        self, opened: Opened, learner: Learner, groups: int, progress: ProgressLike = None
    ) -> Self:
        """From a table whose columns are known to what the model keeps."""
        from latentia.model.found_graph import FoundTables, find_graph, note_hurry, pool_columns
        from latentia.model.training import learn_opened

        given, left = learner, opened.left
        self.__dict__.pop("structure_", None)
        if opened.wish is not None:
            wish = opened.wish
            self.structure_, opened, given = find_graph(opened, wish, learner, groups, progress)
        self._ignored = opened.ignored
        learn = partial(self._learned_by, groups=groups, latents=True)
        training, operators, replicates = learn_opened(opened, given, learn)
        operators, replicates = self._arranged(training, operators, groups, replicates)
        self._keep_learned(training, learner, operators, replicates)
        if isinstance(given, FoundTables):
            pool, hurried = pool_columns(given.found, training, opened.seen, left)
            if pool is not None:
                self._keep_pool(pool)
            hurried = (*given.found.hurried, *hurried)
            self.diagnostics_ = replace(self.diagnostics_, hurried=hurried)
            note_hurry(wish, left, hurried)
        return self

    structure_: FoundStructure  # where no graph was given

    _ignored: Sequence[Label] = ()  # columns that fit has told of already
    _silent: Sequence[Label] = ()  # latents of the graph that the model does without

    def _learn(self, training: Training, learner: Learner, groups: int = 0) -> Self:
        """From rows on their columns to what the model keeps."""
        operators, replicates = self._learned_by(training, groups)
        operators, replicates = self._arranged(training, operators, groups, replicates)
        return self._keep_learned(training, learner, operators, replicates)

    def _learned_by(
        self, training: Training, groups: int = 0, latents: bool = False
    ) -> tuple[Operators, Replicates | None]:
        """What the learner makes of the rows; `latents`: by name."""
        from latentia.model.training import learn_training

        checked_names(training.graph, self.name_states)
        checked_order(training.graph, self.order_by)
        return learn_training(training, groups, latents)

    def _arranged(
        self,
        training: Training,
        operators: Operators,
        groups: int,
        replicates: Replicates | None,
    ) -> tuple[Operators, Replicates | None]:
        """States in the order wanted, and models without one group of rows each, if asked for."""
        from latentia.assess.without_groups import replicate
        from latentia.model.training import learned_plan

        if training.once:
            return operators, replicates
        learner, graph = training.learner, learned_plan(training, operators).graph
        operators = with_ordered_states(operators, graph, training.columns, self.order_by, learner)
        found = replicate(learner, operators, training.source, groups) if groups else None
        return operators, found

    def _keep_learned(
        self,
        training: Training,
        learner: Learner,
        operators: Operators,
        replicates: Replicates | None,
    ) -> Self:
        from latentia.assess.diagnostics import diagnose
        from latentia.model.training import learned_plan, warn_of

        warn_of(training, operators, learner)
        by = "" if training.learner is learner else ", by the graph's own tables"
        told = diagnose(operators, repr(learner) + by, training.missing)
        self._keep(learned_plan(training, operators), operators, training.columns, told)
        if replicates is not None:
            self.error_bars_ = replicates
        return self

    def with_state_names(self, name_states: ByName[Sequence[Cell]]) -> Self:
        """Name the states of latents: {latent: names}, in the order of the model; {} forgets them.

        Answers, evidence, profiles and files go by these names from now on. It is the parameter
        `name_states`, for what is named once it has been looked at; others keep their names.
        """
        self._check_fitted()
        given = {**(self.name_states or {}), **name_states} if name_states else {}
        checked_names(self._graph, given)
        self.name_states = given or None
        return self

    error_bars_: Replicates

    def with_error_bars(
        self, X: TableLike, sample_weight: WeightLike | None = None, groups: bool | int = True
    ) -> Self:
        """One more look at the rows that the model was learned from, for answers with intervals.

        Rows fall into groups at random (20, unless told otherwise); kept are the models without one
        group each. `query` and `predict_proba` then take a confidence.
        """
        from latentia.assess.without_groups import check_all_discrete, group_count, replicate
        from latentia.model.learners import as_learner
        from latentia.model.mechanism import indicator_names
        from latentia.model.opened_table import rows_again

        self._check_fitted()
        count = group_count(groups)
        check_all_discrete(self.columns_)
        told = indicator_names(self.mechanism)
        source = rows_again(self.columns_, self.operators_.weight, X, sample_weight, told)
        frozen = self.frozen_.frozen if hasattr(self, "frozen_") else None
        learner = as_learner(self.learner)
        self.error_bars_ = replicate(learner, self.operators_, source, count, frozen=frozen)
        return self

    frozen_: FrozenModel
    sums_: Moments

    def freeze(
        self, X: TableLike, y: ArrayLike | None = None, sample_weight: WeightLike | None = None
    ) -> FrozenModel:
        """Fix columns, states, plan and basis from a pilot; sums can then be gathered anywhere.

        Name all states in `state_names`, unless the pilot shows them all.
        """
        from latentia.model.learners import as_learner
        from latentia.model.opened_table import open_training

        self._refuse_mechanism("freeze")
        learner = as_learner(self.learner)
        opened = open_training(self._wanted(), X, sample_weight, tied=learner.abilities.tied)
        return self._freeze(opened, learner)

    def _freeze(self, opened: Opened, learner: Learner) -> FrozenModel:
        from latentia.model.frozen_model import FrozenModel
        from latentia.model.mixed_plans import has_continuous
        from latentia.model.training import counted_graph, plan_for
        from latentia.networks.learner import freeze_learner

        if has_continuous(opened.columns):
            raise DataError(
                "sums are gathered for discrete columns only; some are continuous. Bin them, or "
                "name their kind: kinds={column: 'discrete'}."
            )
        first = opened.first(opened.columns)
        graph = counted_graph(opened.graph, opened.columns, first, opened.counted)
        plan = plan_for(graph, learner)
        note_plan(plan.notes)
        return FrozenModel(
            unfitted(self), plan, opened.columns, freeze_learner(learner, plan, first)
        )

    @offered_if(_goes_on)
    def partial_fit(
        self, X: TableLike, y: ArrayLike | None = None, sample_weight: WeightLike | None = None
    ) -> Self:
        """Go on learning from the rows of a table; the first call fixes columns and states.

        Learners from sums add to the sums: their basis is that of the first table, which should
        hold some thousands of rows. Stepwise EM takes further steps. States that the first table
        does not show must be named in `state_names`.
        """
        from latentia.assess.diagnostics import diagnose
        from latentia.data.sources.table_rows import missing_shares, open_rows
        from latentia.model.learners import as_learner
        from latentia.model.opened_table import open_training
        from latentia.model.specification import columns_of
        from latentia.model.training import learn_opened

        self._refuse_mechanism("partial_fit")
        learner = as_learner(self.learner)
        if not learner.abilities.partial:
            return self._add_sums(X, sample_weight)
        if not hasattr(self, "operators_"):
            opened = open_training(self._wanted(), X, sample_weight, tied=learner.abilities.tied)
            start = partial(_first_step, learner)
            training, operators, self.progress_ = learn_opened(opened, learner, start, True)
            plan, columns, gaps = training.plan, training.columns, training.missing
        else:
            plan, columns = self.plan_, self.columns_
            names = columns_of(plan.graph)
            rows = open_rows(X, names, sample_weight, known=columns)
            self._wanted().check(plan.graph, rows)
            seen = rows.look(names)
            source, gaps = rows.source(columns, seen), missing_shares(seen)
            last = getattr(self, "progress_", None) or self.operators_
            going = cast("GoingLearner", learner)
            operators, self.progress_ = going.partial_learn(plan, columns, source, last)
        operators = with_ordered_states(operators, plan.graph, columns, self.order_by, learner)
        self._keep(plan, operators, columns, diagnose(operators, repr(learner), gaps))
        return self

    def _add_sums(self, X: TableLike, sample_weight: WeightLike | None) -> Self:
        from latentia.model.learners import as_learner
        from latentia.model.opened_table import open_training

        if not hasattr(self, "frozen_"):
            if hasattr(self, "operators_"):
                note_restart(self.operators_.weight)
            learner = as_learner(self.learner)
            opened = open_training(self._wanted(), X, sample_weight, tied=learner.abilities.tied)
            frozen = self._freeze(opened, learner)
            sums = frozen.sums(opened.rows.source(frozen.columns, plain=True))
        else:
            frozen = self.frozen_
            sums = self.sums_ + frozen.gather(X, sample_weight)
        frozen.solve_into(self, sums)
        self.frozen_, self.sums_ = frozen, sums
        return self
