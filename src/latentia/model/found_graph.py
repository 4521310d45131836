"""Where no graph is given: one is found, and with it the tables of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from latentia.announcing import warn
from latentia.data.columns.column import Column
from latentia.data.rows import Source
from latentia.data.sources.progress import as_progress
from latentia.discovery.finding import SEARCHING, Structure, find_structure
from latentia.discovery.found_structure import FoundStructure
from latentia.errors import DataError, IgnoredColumnWarning
from latentia.exact.mixture_network import MixtureNetwork
from latentia.exact.own_network import OwnNetwork
from latentia.inference.operators import Operators
from latentia.model.learners import PBP
from latentia.model.training import Opened
from latentia.networks.learner import Abilities
from latentia.networks.own_tables import LearnedTables
from latentia.networks.tables import as_operators
from latentia.structure.graph import LatentGraph
from latentia.structure.plan import Plan


def find_graph(
    opened: Opened, wish: Structure, learner: Any, groups: int, progress: Any = None
) -> tuple[FoundStructure, Opened, Any]:
    """The structure, the table over its columns, and who learns: by default, what was found."""
    if opened.rows.once:
        raise DataError(
            "a structure is sought in several passes, these rows can be read once. Pass a function "
            "that opens them anew, write them to a Parquet file and pass its path, or give a graph."
        )
    say = as_progress(progress).sharing(SEARCHING)
    rows = opened.first(opened.columns)
    found = find_structure(opened.columns, rows, opened.seen.weight, wish, say=say)
    if found.left_out:
        names = ", ".join(map(str, found.left_out))
        warn(
            f"{len(found.left_out)} column(s) left out of the structure: {names} (values of their "
            "own in nearly every row, as ids have).",
            IgnoredColumnWarning,
        )
    own = tuple(c for c in opened.columns if c.name not in found.left_out)
    narrow = replace(
        opened,
        graph=_without_sizes(found.graph),
        counted=False,
        columns=own,
        ignored=(*opened.ignored, *found.left_out),
    )
    kept = isinstance(learner, PBP) and learner.abilities.compares and not groups
    return found, narrow, FoundTables(found) if kept else learner


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
