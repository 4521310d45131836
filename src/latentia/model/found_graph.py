"""Where no graph is given: one is found, and with it the tables of the model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from latentia.announcing import warn
from latentia.data.columns.column import Column
from latentia.data.rows import Rows, Source
from latentia.data.sources.progress import ProgressLike, as_progress
from latentia.data.sources.sketch import ColumnSketch
from latentia.data.sources.table_rows import Look
from latentia.discovery.finding import SEARCHING, Structure, find_structure
from latentia.discovery.found_structure import FoundStructure
from latentia.errors import DataError, IndependenceWarning, LeftOutWarning
from latentia.exact.mixture_network import MixtureNetwork
from latentia.exact.own_network import OwnNetwork
from latentia.inference.operators import Operators
from latentia.model.learners import PBP
from latentia.model.opened_table import Opened
from latentia.model.training import Training
from latentia.networks.learner import Abilities, Learner
from latentia.networks.own_tables import LearnedTables
from latentia.networks.tables import as_operators
from latentia.pooling.column_pool import Pool
from latentia.pooling.learning_pool import (
    can_pool,
    learn_pool,
    least_to_pool,
    rows_to_pool,
    seconds_to_pool,
)
from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan
from latentia.time_left import TimeLeft
from latentia.typing import Array

FEWEST_ROWS = 40.0  # from which a table without a graph has one found
SEARCHED = 0.25  # of a time budget, at least, where columns are to be pooled
RELEARNED = 0.25  # of what is left to pool, at most, for the joint model without rows held out
KEPT = 1.2  # times a time budget: what is longer is told


def seeks(learner: Learner) -> bool:
    """Does the learner find a graph where none is given? Others learn one latent class."""
    return isinstance(learner, PBP) and learner.abilities.compares


def sought_by_default(opened: Opened) -> Opened:
    """A table without a graph: one is found, where its rows can be read again and are enough."""
    if opened.rows.once or opened.seen.weight < FEWEST_ROWS or len(opened.columns) < 2:
        return opened
    return replace(opened, wish=Structure())


def find_graph(
    opened: Opened,
    wish: Structure,
    learner: Learner,
    groups: int,
    progress: ProgressLike = None,
) -> tuple[FoundStructure, Opened, Learner]:
    """The structure, the table over its columns, and who learns: by default, what was found."""
    if opened.rows.once:
        raise DataError(
            "a structure is sought in several passes, these rows can be read once. Pass a function "
            "that opens them anew, write them to a Parquet file and pass its path, or give a graph."
        )
    say = as_progress(progress).sharing(SEARCHING)
    rows = opened.first(opened.columns)
    weight, left_out = opened.seen.weight, opened.left_out
    left = _left_to_search(opened)
    found = find_structure(
        opened.columns, rows, weight, wish, say=say, left_out=left_out, left=left
    )
    if not found.graph.edges and len(found.columns) > 1:
        warn(
            "the columns tell nothing of each other that other rows bear out: on "
            f"{found.held_out:,.0f} held-out rows no tree and no latent beats the marginals. "
            "Bring more rows, or graph='class' to have a model all the same.",
            IndependenceWarning,
        )
    graph = _without_sizes(found.graph)
    kept = seeks(learner) and not groups
    narrow = replace(opened, graph=graph, counted=False, found=kept)
    return found, narrow, FoundTables(found) if kept else learner


def _left_to_search(opened: Opened) -> TimeLeft:
    """The time budget without what comes after the search: the model is made, columns are pooled.

    To make it takes as long as to open the table, about.
    """
    left = opened.left
    if not left.ends:
        return left
    after = time.perf_counter() - opened.began
    most = max(left.seconds - after, 0.0)
    count = len(opened.columns)
    worth = (1.0 - SEARCHED) * most >= least_to_pool(count)
    if worth and can_pool(opened.columns, opened.seen.weight):
        most = max(most - seconds_to_pool(count), SEARCHED * most)
    return TimeLeft.of(most)


def note_hurry(wish: Structure, left: TimeLeft, hurried: Sequence[str]) -> None:
    """What a time budget left no time for, and a budget that could not be kept."""
    if wish.time_budget is None:
        return
    took = time.perf_counter() - left.until + wish.time_budget
    said = []
    if hurried:
        said.append(f"left no time for {'; for '.join(hurried)}")
    if took > KEPT * wish.time_budget:
        said.append(
            f"was too short: {took:.2g} s passed, as reading the table and the least that must be "
            "learned take their time"
        )
    if said:
        warn(
            f"a time budget of {wish.time_budget:g} s {', and '.join(said)}. Allow more seconds, "
            "or none: the work is then counted.",
            LeftOutWarning,
        )


def pool_columns(
    found: FoundStructure, training: Training, look: Look, left: TimeLeft
) -> tuple[Pool | None, tuple[str, ...]]:
    """What other models say beside the one that was found, where that is worth its time.

    Beside the pool, what there was no time for.
    """
    columns, again = training.columns, found.again
    if again is None or not can_pool(columns, found.rows):
        return None, ()
    rng = np.random.default_rng(again.seed)
    rows = training.source.sample(rows_to_pool(len(columns)), rng)

    def joint(some: Rows) -> Operators:
        tables = again.tables_of(some, left.part(RELEARNED))
        return as_operators(LearnedTables(*tables, some.total, 0.0, ()))

    seen = [values_seen(look.columns.get(c.name)) for c in columns]
    return learn_pool(columns, rows, joint, seen, rng, left)


def values_seen(sketch: ColumnSketch | None) -> Array:
    """Different numbers of a column, rising: all of them, or as many as were kept."""
    if sketch is None or sketch.numbers is None:
        return np.empty(0)
    numbers = sketch.numbers
    return np.union1d(numbers.seen.astype(float), np.array([*numbers.frequent], dtype=float))


def _without_sizes(graph: LatentGraph) -> LatentGraph:
    """Numbers of states of latents only: those of columns come from the columns."""
    states = tuple(n if v in graph.latent else None for v, n in enumerate(graph.states))
    return replace(graph, states=states)


@final
@dataclass(frozen=True, slots=True)
class FoundTables:
    """A learner that has learned already: the tables that were found with the structure."""

    found: FoundStructure

    @property
    def abilities(self) -> Abilities:
        return Abilities(mixed=True, frozen=False, partial=False, plans=False)

    def learn(self, plan: Plan, source: Source) -> Operators:
        return self._kept()

    def learn_graph(self, graph: LatentGraph, source: Source) -> Operators:
        """Of discrete columns."""
        return self._kept()

    def learn_mixed(self, plan: Plan, columns: Sequence[Column], source: Source) -> Operators:
        """Of mixed columns, on their grids."""
        return self._kept()

    def _kept(self) -> Operators:
        graph, parents = self.found.graph, self.found.graph.parents()
        counted = [v for v in graph.observed if not set(parents[v]) & graph.latent]
        weight = self.found.rows
        level = -self.found.losses[self.found.chosen]
        told = tuple(graph.names[v] for v in counted)
        parts = [
            as_operators(LearnedTables(own, tables, weight, level * weight, told))
            for own, tables in self.found.members
        ]
        networks = [part.network for part in parts]
        if len(parts) == 1:
            return parts[0]
        members = tuple(each for each in networks if isinstance(each, OwnNetwork))
        return replace(parts[0], network=MixtureNetwork(members, self.found.weights))
