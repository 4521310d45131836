"""From rows to a structure: hold some out, race candidates, learn the best from all rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import final

import numpy as np

from latentia.data.rows import Rows, Source
from latentia.data.sources.row_sample import split_rows
from latentia.discovery.column_tree import Edge
from latentia.discovery.island_climb import IslandClimb, Known, known_rows
from latentia.discovery.island_network import (
    IslandCounts,
    IslandLayout,
    IslandTables,
    maximise_islands,
)
from latentia.discovery.island_prices import row_price
from latentia.discovery.island_race import (
    SIZES,
    Bounds,
    IslandCandidate,
    Search,
    race_islands,
    restart_leaders,
)
from latentia.discovery.island_steps import counts_of_codes
from latentia.discovery.members import Members, grow_members
from latentia.discovery.small_tables import judged_in_folds
from latentia.errors import DataError, GraphError
from latentia.time_left import Pace, TimeLeft
from latentia.typing import Array

METHODS = ("auto", "islands", "tree", "grouping", "class", "chow-liu")
MOST_GROUPED = 300  # columns
SAMPLE_CELLS = 2**26  # features of rows that are kept in memory while candidates race
MOST_ROWS = 200_000
CELLS_A_SECOND = 2_000_000  # of the rows that race, where the clock decides …
FEWEST_TIMED = 1_000  # … but not fewer of them than this
HELD_OUT = (0.15, 0.3)  # of the rows, at least and at most …
ENOUGH_HELD_OUT = 100.0  # … so that there are as many as this
MOST_HELD_OUT = 10_000.0
FEW_ROWS = 300.0  # below, ties that chance may have made are none: they cost more than they tell
EFFORT = (0.4, 2.5)  # seconds of work: for any table, and more for a million cells
RACE = 0.7  # of a time budget; the rest is for learning from all rows
LEAST_RACE = 1e-3  # seconds
TREE_STATES = 4  # of latents that people are to understand
MORE_ROUNDS = 3  # from all rows, of the climb that was chosen
LAST_STEPS = 2  # of EM on all rows, where only a sample of them raced


@final
@dataclass(frozen=True, slots=True)
class StructureSettings:
    """How to search: see `lt.learn_structure`."""

    method: str = "auto"
    max_states: int | None = None
    max_latents: int | None = None
    members: int = 1
    time_budget: float | None = None  # seconds by the clock
    effort: float | None = None  # seconds of counted work: the same on every machine
    require: tuple[Edge, ...] = ()  # by numbers of columns
    forbid: tuple[Edge, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise DataError(f"expected one of {', '.join(METHODS)}, got {self.method!r}.")
        counts = {
            "max_states": (self.max_states, 1),
            "max_latents": (self.max_latents, 0),
            "members": (self.members, 1),
        }
        for name, (value, least) in counts.items():
            if value is not None and value < least:
                raise DataError(f"{name} must be at least {least}, got {value!r}.")
        if self.method == "grouping" and (self.require or self.forbid):
            raise DataError(
                "recursive grouping ties columns by their distances alone: require and forbid do "
                "not bind it. Use 'tree', or edit the edges that were found."
            )
        if self.time_budget is not None and not self.time_budget > 0:
            raise DataError(f"time_budget must be seconds above 0, got {self.time_budget!r}.")

    def bounds(self, plain: bool) -> Bounds:
        """What may be tried. Only `plain` columns, discrete and without holes, can be parents."""
        ties = (self.require, self.forbid)
        if self.max_latents == 0 or self.max_states == 1 or (self.method == "chow-liu" and plain):
            return Bounds(1, None, True, (), *ties)
        if self.method == "chow-liu":  # each column tells a latent, and latents are the tree
            return Bounds(self.max_states or 32, self.max_latents, False, (1,), *ties, whole=False)
        if self.method == "tree":
            states = self.max_states or TREE_STATES
            return Bounds(states, self.max_latents, False, (2, 3, 4, 6), *ties, certain=True)
        if self.method == "grouping":
            states = self.max_states or TREE_STATES
            return Bounds(states, self.max_latents, False, (1,), grouped=True, certain=True)
        if self.method == "class":
            return Bounds(self.max_states or 256, self.max_latents, False, (), *ties)
        return Bounds(self.max_states or 256, self.max_latents, None, SIZES, *ties)


@final
@dataclass(frozen=True, slots=True)
class LearnedIslands:
    """One structure with what was counted for it."""

    candidate: IslandCandidate
    layout: IslandLayout
    counts: IslandCounts  # expected, of all rows
    rounds: int  # of the climb that were best


@final
@dataclass(frozen=True, slots=True)
class SearchResult:
    """What was found, and what it rests on."""

    members: tuple[LearnedIslands, ...]
    weights: Array  # of the members
    levels: dict[IslandCandidate, float]  # mean log-likelihood of rows held out
    information: Array  # of pairs of columns, nats
    held_out: float  # rows
    seconds: float
    hurried: tuple[str, ...] = ()  # what a time budget left no time for


def search_structure(
    sizes: Sequence[int],
    source: Source,
    settings: StructureSettings,
    held_out: Rows | None = None,
    ordered: Sequence[int] = (),
    say: Callable[[float], None] = lambda _: None,
) -> SearchResult:
    """Race candidates on a sample; the best is learned from all rows, those held out too.

    With rows `held_out` of one's own, these choose and nothing is learned from them. `say` hears
    which share of the work is done.
    """
    if settings.method == "grouping" and len(sizes) > MOST_GROUPED:
        raise DataError(
            f"recursive grouping is for at most {MOST_GROUPED} columns, got {len(sizes)}. "
            "Use 'tree', or fewer columns."
        )
    began = time.perf_counter()
    rng = np.random.default_rng(settings.seed)
    most = sampled_rows(sizes)
    if settings.time_budget is not None:
        most = min(most, rows_in_time(settings.time_budget, len(sizes)))
    sample = source.sample(most, rng)
    given = held_out is not None
    large, small = (sample, held_out) if held_out is not None else _split(sample, rng)
    train, watched = known_rows(large), known_rows(small)
    timed = settings.time_budget is not None
    plain = not any(ordered) and not (train.codes < 0).any() and not (watched.codes < 0).any()
    bounds = settings.bounds(plain)
    if settings.method in ("auto", "islands") and large.total < FEW_ROWS:
        bounds = replace(bounds, certain=True)
    whole = TimeLeft.of(settings.time_budget, began)
    race = whole if given else whole.part(RACE)
    work = settings.effort or default_effort(train.codes.size)
    raced = max(race.seconds, LEAST_RACE) if timed else work
    search = Search(sizes, train, watched, bounds, settings.seed, ordered, race)
    alone = settings.members == 1

    def tell() -> None:
        say(min(search.spent / raced, 1.0))

    race_islands(search, raced if alone else raced / 2, tell)
    if not search.climbs:
        raise _nothing_fits(search)
    if alone:
        restart_leaders(search, raced, tell)
    found = _members(search, settings.members, raced, None if given or timed else sample)
    learned, hurried = [], []
    order = np.argsort(-found.weights, kind="stable")
    for candidate in (found.candidates[i] for i in order):
        climb = search.climbs[candidate]
        counts = climb.best_counts
        if not given and (not timed or _fits(climb, search, sample, whole)):
            counts = _again(climb, known_rows(sample), settings.seed)
        elif not given:
            hurried.append(f"learning from the {watched.total:,.0f} rows that chose, too")
        assert counts is not None
        learned.append(LearnedIslands(candidate, climb.layout, counts, climb.best_round))
    say(1.0)
    return SearchResult(
        tuple(learned),
        found.weights[order],
        {each: search.climbs[each].best for each in search.ranked()},
        search.information,
        watched.total,
        time.perf_counter() - began,
        tuple(dict.fromkeys(hurried)),
    )


def sampled_rows(sizes: Sequence[int]) -> int:
    """Rows that candidates see, at most."""
    return int(min(MOST_ROWS, max(2_000, SAMPLE_CELLS // max(sum(sizes), 1))))


def rows_in_time(seconds: float, columns: int) -> int:
    """Rows of so many columns that leave time to race, where the clock decides."""
    return int(max(FEWEST_TIMED, CELLS_A_SECOND * seconds / max(columns, 1)))


def _nothing_fits(search: Search) -> GraphError:
    """Why no candidate has what is required."""
    bounds = search.bounds
    return GraphError(
        f"no structure of at most {bounds.most_states} states and {bounds.most_latents} latents "
        "has all edges that are required: columns with missing cells and continuous ones can only "
        "be tied by a latent. Allow latents of more states, or require fewer edges."
    )


def default_effort(cells: int) -> float:
    """Seconds to search, by the cells of the table."""
    least, more = EFFORT
    return float(least + more * np.sqrt(cells / 1e6))


def _members(search: Search, most: int, budget: float, sample: Rows | None) -> Members:
    if most == 1:
        best = search.plainest()
        best = best if sample is None else judged_in_folds(search, sample, best)
        return Members((best,), np.ones(1), search.climbs[best].best)
    return grow_members(search, most, budget)


def _split(sample: Rows, rng: np.random.Generator) -> tuple[Rows, Rows]:
    wanted = float(np.clip(ENOUGH_HELD_OUT / max(sample.total, 1.0), *HELD_OUT))
    share = min(wanted, MOST_HELD_OUT / max(sample.total, 1.0))
    large, small = split_rows(sample, share, rng)
    if not small.total > 0 or not large.total > 0:
        raise DataError(
            f"structure is chosen by rows held out, and {sample.total:g} rows are too few to hold "
            "any out. Give a graph, or more rows."
        )
    return large, small


def _fits(climb: IslandClimb, search: Search, rows: Rows, left: TimeLeft) -> bool:
    """Is there time to learn it again from all rows, as fast as the race went?"""
    wider = len(rows) / len(search.train)
    rounds = min(climb.best_round, MORE_ROUNDS)
    return left.fits(search.pace * (rounds + 1) * climb.cost * wider)


def _again(climb: IslandClimb, rows: Known, seed: int) -> IslandCounts:
    """The climb goes on from its best tables, on all rows of the sample, by a few rounds.

    A step on all rows at once ends it: then the model's marginals are those of the rows.
    """
    again = IslandClimb(climb.layout, rows, Known(rows.codes[:0]), climb.pseudo_count, seed)
    again.go_on_from(climb)
    again.advance(min(climb.best_round, MORE_ROUNDS), watched=False)
    again.settle()
    return again.counts


def polish_islands(
    learned: LearnedIslands, source: Source, left: TimeLeft, weight: float
) -> tuple[LearnedIslands, bool]:
    """A few steps of EM on all rows, each a fold, while there is time; whether all were taken."""
    counts, pace = learned.counts, Pace(left)
    if not left.fits(row_price(learned.layout) * weight):
        return learned, False
    for _ in range(LAST_STEPS):
        if not pace.goes_on():
            return replace(learned, counts=counts), False
        tables = maximise_islands(learned.layout, counts, learned.candidate.pseudo_count)
        counts = source.fold(partial(_block_counts, learned.layout, tables))
    return replace(learned, counts=counts), True


def _block_counts(layout: IslandLayout, tables: IslandTables, rows: Rows) -> IslandCounts:
    """Expected counts of one block of rows."""
    known = known_rows(rows)
    return counts_of_codes(layout, tables, known.codes, known.weight)
