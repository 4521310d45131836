"""How many states latents have among columns that are parents: tried piece by piece (design 13).

Ranks of separators tell numbers of states where only latents tie columns together. Where columns
tell of each other directly a separator holds some of them, or is too wide to be looked at; but
there latents fall into small pieces, whose fits cost milliseconds. Each begins with two states, and
the latent whose next state gains most has it, as long as Akaike's criterion says so: a state too
few can cost many times the KL, one too many little more than its parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, final

import numpy as np

from latentia.data.rows import Source
from latentia.data.sources.memory import LocalRows
from latentia.errors import LatentiaError
from latentia.exact.pieces import Cut, Piece, cut_graph, with_ancestors
from latentia.linear_algebra import one_thread
from latentia.networks.accelerate import Tables, free_parameters
from latentia.networks.candidates import split_state
from latentia.networks.em_problem import prior_of_tables
from latentia.networks.first_look import count_once
from latentia.networks.knowledge import Knowledge
from latentia.networks.piece_learning import complete_rows, course_of
from latentia.networks.piece_problem import (
    PieceProblem,
    TableProblem,
    effective_parameters,
    pose_piece,
)
from latentia.networks.piece_starts import StartMaker
from latentia.networks.race import Runner, run_round
from latentia.structure.graph import LatentGraph
from latentia.typing import Array

FEWEST, MOST = 2, 10
MOST_ROWS, LEAST_ROWS = 100_000, 1000  # that fits are tried on; where they are wide
CELLS = 2**19  # numbers that an E-step of the first fit works out …
MOST_CELLS = 16 * CELLS  # … and that of the last
ENOUGH = 2e-3  # gain per parameter still to come, where a start rests
LOCAL, RANDOM = 1, 6  # starts of a fit, beside those that split a state of the fit before

Counts: TypeAlias = Mapping[int, int]  # states of the latents that have no number, by the graph's


@final
@dataclass(frozen=True, slots=True)
class _Fit:
    """Tables of a piece with some numbers of states, and what is said for these."""

    tables: Tables  # by the piece's own numbers
    score: float  # log-likelihood less parameters


def states_of_pieces(graph: LatentGraph, source: Source, seed: int = 0) -> LatentGraph:
    """The directed graph with numbers of states for latents that have none, as rows tell them."""
    unknown = tuple(v for v in sorted(graph.latent) if graph.states[v] is None)
    if not unknown:
        return graph
    rng = np.random.default_rng(seed)
    rows = LocalRows(source.sample(MOST_ROWS, rng), threads=1)
    first = _sized(graph, dict.fromkeys(unknown, FEWEST))
    seen = count_once(first, rows)
    counts = dict.fromkeys(unknown, FEWEST)
    for piece in _cut(first).pieces:
        own = tuple(v for v in unknown if v in piece.unknown)
        if own:
            told = (seen.weight, seen.marginals, seen.holes)
            trials = _Trials(graph, rows, *told, own, piece, rng)
            with one_thread():
                counts |= trials.fitted_to_rows().best()
    return _sized(graph, counts)


def _sized(graph: LatentGraph, counts: Counts) -> LatentGraph:
    return graph.with_states({graph.names[v]: n for v, n in counts.items()})


def _cut(graph: LatentGraph) -> Cut:
    """At all columns: rows that miss some of them are left out, or filled, for this purpose."""
    telling = with_ancestors(graph.parents(), graph.observed)
    return cut_graph(graph, graph.latent & telling, telling)


@final
@dataclass(frozen=True, slots=True)
class _Trials:
    """Fits of one piece, all on the same rows."""

    graph: LatentGraph
    source: LocalRows
    weight: float
    marginals: Mapping[int, Array]
    holes: tuple[int, ...]
    unknown: tuple[int, ...]  # latents of the piece without a number of states
    piece: Piece  # with the fewest states
    rng: np.random.Generator

    def fitted_to_rows(self) -> _Trials:
        """The same on rows that are complete where they must be, and no more than can be paid."""
        found = self
        if any(v in self.holes for v in self.piece.columns):
            problem = self._problem(self._first)
            some = complete_rows(problem, self.piece, np.random.default_rng(0))
            assert isinstance(some.source, LocalRows)
            found = replace(self, source=some.source, weight=some.weight, holes=some.holes)
        try:
            whole = found._posed(found._first)
        except LatentiaError:  # too wide whatever the numbers: told when it is learned
            return found
        if whole.width * whole.rows > CELLS:
            few = max(LEAST_ROWS, CELLS // whole.width)
            some_rows = found.source.sample(few, np.random.default_rng(0))
            found = replace(found, source=LocalRows(some_rows, threads=1), weight=some_rows.total)
        return found

    @property
    def _first(self) -> Counts:
        return dict.fromkeys(self.unknown, FEWEST)

    def best(self) -> Counts:
        """One state more after the other, for the latent that gains most by it.

        A latent that gained nothing is asked again once others have more states.
        """
        counts = dict(self._first)
        at = self._fit(counts)
        if at is None:
            return counts
        going, risen = list(self.unknown), False
        while going:
            tried = {v: self._fit({**counts, v: counts[v] + 1}, v, at.tables) for v in going}
            better = {v: fit for v, fit in tried.items() if fit and fit.score > at.score}
            if better:
                first = max(better, key=lambda v: better[v].score)
                counts[first] += 1
                at, risen = better[first], True
            going = [v for v in better if counts[v] < MOST]
            if not better and risen and len(self.unknown) > 1:
                going, risen = [v for v in self.unknown if counts[v] < MOST], False
        return counts

    def _fit(self, counts: Counts, grown: int = -1, before: Tables | None = None) -> _Fit | None:
        """A quick race; `before` are tables where `grown` has a state less. None if too wide."""
        try:
            whole = self._posed(counts)
        except LatentiaError:
            return None
        if whole.width * whole.rows > MOST_CELLS or whole.distinct is None:
            return None
        maker = StartMaker(whole.piece, whole.distinct, whole.prior)
        starts = [*maker.local_classes(LOCAL, self.rng), *maker.at_random(RANDOM, self.rng)]
        if before is not None:
            h = self.piece.number[grown]
            for s in range(counts[grown] - 1):
                starts.append(
                    Runner(
                        "split", split_state(whole.piece.graph.parents(), before, h, s, self.rng)
                    )
                )
        tables = _raced(whole, starts)
        expected, log_likelihood = whole.estep(tables)
        return _Fit(tables, log_likelihood - effective_parameters(expected, whole.knowledge))

    def _posed(self, counts: Counts) -> PieceProblem:
        problem = self._problem(counts)
        piece = next(p for p in _cut(problem.graph).pieces if self.unknown[0] in p.unknown)
        return pose_piece(problem, piece)

    def _problem(self, counts: Counts) -> TableProblem:
        sized, nothing = _sized(self.graph, counts), Knowledge()
        pseudo = dict.fromkeys(range(len(sized.names)), 1.0)
        prior = prior_of_tables(sized, self.marginals, pseudo, nothing)
        assert prior is not None  # there are pseudo-counts
        return TableProblem(sized, self.source, self.weight, self.holes, prior, nothing)


def _raced(whole: PieceProblem, starts: Sequence[Runner]) -> Tables:
    """One round of starts."""
    effective = effective_parameters(whole.estep(starts[0].tables)[0], whole.knowledge)
    moving = [replace(start, tables=whole.shrink(start.tables)) for start in starts]
    enough = ENOUGH * effective / max(free_parameters(moving[0].tables), 1)
    return dict(whole.grow(run_round(course_of(whole, enough), moving).winner.tables))
