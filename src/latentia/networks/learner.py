"""What a learner is: from a plan and rows to operators, and what else it can do.

A learner is a file with a class that has `abilities` and `learn`; those that say so have
`learn_mixed`, `freeze` or `partial_learn` besides. `model.learners` names the ones that come along.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias, cast, final

from latentia.data.columns.column import Column
from latentia.data.rows import Source
from latentia.errors import DataError
from latentia.inference.operators import Operators
from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan
from latentia.typing import Array, ByName, Cell, Given, Label, Seed

if TYPE_CHECKING:
    from latentia.closed_form.frozen import Frozen
    from latentia.kernels.choose_settings import KernelChoice
    from latentia.networks.knowledge import PseudoCounts


@final
@dataclass(frozen=True, slots=True)
class Abilities:
    """What the road from a table to a model must know of a learner; every learner states it."""

    mixed: bool  # has learn_mixed: continuous columns
    frozen: bool  # has freeze: sums in one pass
    partial: bool  # has partial_learn: goes on where it stopped
    plans: bool = True  # needs a plan of the graph; else it has learn_graph
    pieces: bool = False  # has learn_graph besides: tables that need no plan …
    mixed_pieces: bool = False  # … and learn_mixed knows them, too: a plan of columns only
    gaussian: bool = False  # leaves of continuous columns are Gaussian, and need states above
    mixture: int = 1  # … so many of them for each state
    pairs: bool = False  # two continuous children of one latent share a leaf (design 7)
    straight: bool = False  # measures columns in their own units: no curved scales
    chooses_ranks: bool = False  # latents of continuous columns need no number of states
    compares: bool = False  # a fit chooses between candidates, by `refine`
    names_latents: bool = False  # has learn_with_latents: the graph's own tables beside the winner
    settles: bool = False  # has settle: kernel settings for several classes at once
    most_directions: int = 30  # of a separator of unknown rank
    groups: Iterable[Iterable[Label]] | None = (
        None  # columns that share a leaf, as the user gave them
    )
    known: ByName[Cell] | None = None  # cells of tables, as the user gave them
    tied: Sequence[Sequence[Label]] | None = None  # tables that are shared, as the user gave them
    smoothing: PseudoCounts = 0.0  # pseudo-counts of tables, as the user gave them
    started: ByName[Cell] | None = None  # tables to start from, as the user gave them
    random_state: Seed = None  # seed of starts and of rows held out


class Learner(Protocol):
    """From rows of codes to operators."""

    @property
    def abilities(self) -> Abilities: ...

    def learn(self, plan: Plan, source: Source) -> Operators:
        """With discrete columns: codes, -1 where missing."""
        ...


LearnerLike: TypeAlias = "Learner | str"  # or its name


class GraphLearner(Learner, Protocol):
    """One that needs no plan."""

    def learn_graph(self, graph: LatentGraph, source: Source) -> Operators:
        """From the graph itself, with the numbers of states of all variables."""
        ...


@final
@dataclass(frozen=True, slots=True)
class OnPieces:
    """A learner that could plan, and is led around it."""

    learner: Learner

    @property
    def abilities(self) -> Abilities:
        able: Abilities = self.learner.abilities
        return replace(able, plans=False)

    def learn(self, plan: Plan, source: Source) -> Operators:
        return self.learn_graph(plan.graph, source)

    def learn_graph(self, graph: LatentGraph, source: Source) -> Operators:
        return cast("GraphLearner", self.learner).learn_graph(graph, source)

    def learn_mixed(self, plan: Plan, columns: Sequence[Column], source: Source) -> Operators:
        return cast("MixedLearner", self.learner).learn_mixed(plan, columns, source)


class NamingLearner(Learner, Protocol):
    """One that keeps the graph's own tables beside what answers, so that latents have names."""

    def learn_with_latents(self, plan: Plan, source: Source) -> Operators:
        """As `learn` does, with tables beside."""
        ...


class MixedLearner(Learner, Protocol):
    """One for continuous columns, too."""

    def learn_mixed(self, plan: Plan, columns: Sequence[Column], source: Source) -> Operators:
        """With continuous columns: positions on grids, NaN where missing."""
        ...


class FreezingLearner(Learner, Protocol):
    """One whose sums can be gathered in one pass, in parts and elsewhere."""

    def freeze(self, plan: Plan, pilot: Source) -> Frozen:
        """What to sum, fixed by a pilot."""
        ...


class GoingLearner(Learner, Protocol):
    """One that goes on learning where it stopped."""

    def partial_learn(
        self, plan: Plan, columns: Sequence[Column], source: Source, previous: object
    ) -> tuple[Operators, object]:
        """`previous`: the state that the last call gave, a loaded model's operators, or None."""
        ...


class SettlingLearner(Learner, Protocol):
    """One that settles what all classes share before it learns each."""

    def settle(
        self,
        plans: Sequence[Plan],
        columns: Sequence[Column],
        sources: Sequence[Source],
        log_prior: Array,
    ) -> tuple[Learner, KernelChoice | None]:
        """A learner with settings of kernels for all classes, and how they were chosen."""
        ...


class TunedLearner(Learner, Protocol):
    """One with settings by name, as those that come along have."""

    def get_params(self, deep: bool = True) -> dict[str, Given]: ...

    def set_params(self, **params: object) -> Self: ...


def freeze_learner(learner: Learner, plan: Plan, pilot: Source) -> Frozen:
    """What the learner would sum in one pass."""
    if not learner.abilities.frozen:
        raise DataError(
            f"{type(learner).__name__} reads the rows again and again; it cannot learn from sums "
            "that are gathered once. Use PBP(), PBP.paper() or Spectral(), or rows that can be "
            "read again: a file, a list of frames, a function that opens them."
        )
    return cast("FreezingLearner", learner).freeze(plan, pilot)
