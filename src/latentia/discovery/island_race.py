"""Candidates of a structure, and the race that picks one by rows held out (design 15).

A candidate is how large islands are, how many states their latents have, whether the columns' tree
stays within islands, and how strongly tables are drawn together. Latents of one state are none:
with inner edges that is the tree of Chow and Liu, without them independent columns.

Ranks after one round tell final ranks well, but not across sizes of islands: the race starts wide,
looks at neighbours of what leads, and then halves, with a survivor for each size.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, final

import numpy as np

from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.discovery.cell_bells import cell_line
from latentia.discovery.column_tree import Edge, column_tree, connected_parts
from latentia.discovery.compiled_islands import in_eights
from latentia.discovery.island_climb import IslandClimb, Known
from latentia.discovery.island_network import IslandLayout, island_layout
from latentia.discovery.island_prices import ROW, ROW_STATE, row_price
from latentia.discovery.island_steps import Phi
from latentia.discovery.islands import Islands, cut_islands
from latentia.discovery.pair_distances import PairDistances, pair_distances
from latentia.discovery.pair_information import pair_information
from latentia.discovery.recursive_grouping import grouped_islands
from latentia.time_left import FOREVER, Pace, TimeLeft
from latentia.typing import Array

T = TypeVar("T", int, float)

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
STATES = (2, 4, 8, 16, 32, 64, 128, 256)
PSEUDO_COUNTS = (0.5, 1.0, 2.0, 4.0, 8.0)
FIRST_ROUNDS, LAST_ROUNDS, RESTART_ROUNDS = 2, 4, 60
RESTARTS, RESTARTED = 6, 6
LEAST_TRIED = 6  # candidates, however little the work: the cheapest ones …
HURRIED = 2  # … when the time is over by the clock
STARTED, EXPLORED = 0.25, 0.45  # shares of the budget
HALVINGS = ((16, 4), (8, 8), (6, 16), (4, 32))  # how many go on, by how many rounds
HARDLY = 0.5  # standard errors of a difference …
TWO_NATS = 2.0  # … or less than this over all rows held out
TOLERANCES = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # of recursive grouping, standard errors
CERTAIN = 3.0
MOST_RANK = 2  # of its distances: small singular values are mostly noise
DEAREST = 1 / 30  # share of the budget that a round may cost


@final
@dataclass(frozen=True, slots=True, order=True)
class IslandCandidate:
    """A structure that may be tried."""

    smallest: int  # columns of an island, at least
    states: int  # of its latent, at most
    inner: bool  # do edges of the columns' tree stay within islands
    pseudo_count: float = 2.0
    resampled: int = 0  # the columns' tree is that of rows drawn again; 0: of the rows themselves
    start: int = 0  # from other random tables
    grouped: float = 0.0  # recursive grouping within so many standard errors; 0: islands are cut

    def __str__(self) -> str:
        if self.states == 1:
            return "tree of columns" if self.inner else "independent columns"
        if self.grouped:
            return f"groups within {self.grouped:g} standard errors, {self.states} states"
        edges = " with edges" if self.inner else ""
        return f"islands of {self.smallest}+, {self.states} states{edges}"


@final
@dataclass(frozen=True, slots=True)
class Bounds:
    """What a user allows."""

    most_states: int = 256
    most_latents: int | None = None
    inner: bool | None = None  # None: both ways are tried
    sizes: tuple[int, ...] = SIZES
    require: tuple[Edge, ...] = ()
    forbid: tuple[Edge, ...] = ()
    grouped: bool = False  # by recursive grouping, not by cuts of the columns' tree
    certain: bool = False  # ties that chance may have made are none: for people who look at them
    whole: bool = True  # may one latent tell all columns


@final
class Search:
    """Rows to learn from and to judge by, and what was built for them so far.

    What it has spent is counted work, which is the same everywhere; or seconds by the clock, where
    the time that is `left` ends.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        train: Known,
        held_out: Known,
        bounds: Bounds | None = None,
        seed: int = 0,
        ordered: Sequence[int] = (),
        left: TimeLeft = FOREVER,
    ) -> None:
        self._left, self._began = left, time.perf_counter()
        self.sizes, self.train, self.held_out = tuple(sizes), train, held_out
        self.bounds, self.seed = bounds or Bounds(), seed
        gaps = (train.codes < 0).any(axis=0) | (held_out.codes < 0).any(axis=0)
        self.holes = tuple(map(int, np.flatnonzero(gaps)))
        self.childless = {*self.holes, *(i for i, line in enumerate(ordered) if line)}
        self.lines = {
            c: cell_line(shares, ordered[c])
            for c, shares in enumerate(train.marginals(sizes) if any(ordered) else ())
            if ordered[c]
        }
        self.information = self._pairs(train)
        self.climbs: dict[IslandCandidate, IslandClimb] = {}
        self.counted = 0.0  # seconds of work …
        self._ran = 0.0  # … and by the clock
        self._alike: set[tuple[Islands, tuple[int, ...], float, tuple[int, int]]] = set()
        self._trees: dict[int, tuple[Edge, ...]] = {}
        self._ordered = tuple(ordered)
        self._distances: PairDistances | None = None
        self._features: dict[Islands, Phi] = {}

    @property
    def spent(self) -> float:
        """Seconds, counted or by the clock."""
        return time.perf_counter() - self._began if self._left.ends else self.counted

    @property
    def timed(self) -> bool:
        """By the clock?"""
        return self._left.ends

    @property
    def pace(self) -> float:
        """Seconds by the clock for a second that is counted."""
        return self._ran / self.counted if self.counted else 1.0

    @property
    def late(self) -> bool:
        """Is the time over, by the clock?"""
        return self._left.ends and self._left.seconds == 0.0

    def tree(self, resampled: int = 0) -> tuple[Edge, ...]:
        """The columns' tree: of all rows, or of rows drawn with replacement."""
        if resampled not in self._trees:
            pairs = self._certain() if self.bounds.certain else self.information
            if resampled:
                rng = np.random.default_rng((self.seed, resampled))
                some = rng.choice(len(self.train), len(self.train))
                weight = None if self.train.weight is None else self.train.weight[some]
                pairs = self._pairs(Known(self.train.codes[some], weight))
            self._trees[resampled] = column_tree(pairs, self.bounds.require, self.bounds.forbid)
        return self._trees[resampled]

    def _certain(self) -> Array:
        """Informations beyond `CERTAIN` standard deviations of what independent columns show."""
        there = (self.train.codes >= 0).astype(float)
        rows = (there * self.train.weights[:, None]).T @ there
        free = np.asarray(self.sizes) - 1.0
        chance = CERTAIN * np.sqrt(2.0 * np.outer(free, free))  # of 2n I, which is χ² distributed
        return np.where(2.0 * rows * self.information > chance, self.information, 0.0)

    @property
    def distances(self) -> PairDistances:
        """Of columns, as latents of the fewest states that any column has allow."""
        if self._distances is None:
            fewest = min((m for m in self.sizes if m > 1), default=2)
            rank = min(fewest, max(self.bounds.most_states, 2), MOST_RANK)
            self._distances = pair_distances(
                self.sizes, self._ordered, LocalRows(_as_rows(self.train)), rank
            )
        return self._distances

    def layout(self, candidate: IslandCandidate) -> IslandLayout:
        if candidate.grouped:
            parts = connected_parts(len(self.sizes), self.tree())
            groups = grouped_islands(self.distances, parts, candidate.grouped)
            return island_layout(groups, self.sizes, candidate.states, self.holes, self.lines)
        islands = cut_islands(
            len(self.sizes),
            self.tree(candidate.resampled),
            candidate.smallest,
            candidate.inner,
            self.childless,
            self.bounds.require,
        )
        return island_layout(islands, self.sizes, candidate.states, self.holes, self.lines)

    def run(self, candidate: IslandCandidate, rounds: int, dearest: float = math.inf) -> bool:
        """Start a candidate, or let it go on; unless a round of it costs too much. Did it move?"""
        climb = self.climbs.get(candidate)
        if climb is None:
            layout = self.layout(candidate)
            latents = sum(k > 1 for k in layout.states)
            if latents > (self.bounds.most_latents or latents) or self.untied(layout):
                return False
            drawn = (candidate.resampled, candidate.start)
            key = (layout.islands, layout.states, candidate.pseudo_count, drawn)
            if key in self._alike:
                return False  # another name for what was tried: few columns bound the states
            climb = IslandClimb(
                layout,
                self.train,
                self.held_out,
                candidate.pseudo_count,
                self.seed + len(self.climbs),
                self._phi,
            )
            late = len(self.climbs) >= HURRIED and not self._left.fits(self.pace * climb.cost)
            if climb.cost > dearest or late:
                return False
            self.climbs[candidate] = climb
            self._alike.add(key)
        before, began = self.counted, time.perf_counter()
        pace = Pace(self._left, self.pace * climb.cost)
        while pace.done < rounds and not climb.done and (pace.goes_on() or not climb.rounds):
            self.counted += climb.advance(1)
        self._ran += time.perf_counter() - began
        return self.counted > before

    def untied(self, layout: IslandLayout) -> list[Edge]:
        """Required edges that are lost: neither an edge nor two columns of one latent."""
        islands = layout.islands
        return [
            (a, b)
            for a, b in self.bounds.require
            if islands.column_parent[a] != b
            and islands.column_parent[b] != a
            and (islands.home[a] != islands.home[b] or layout.states[islands.home[a]] == 1)
        ]

    def ranked(self) -> list[IslandCandidate]:
        """The best first."""
        return sorted(self.climbs, key=lambda each: (-self.climbs[each].best, each))

    def plainest(self) -> IslandCandidate:
        """The one of fewest parameters that rows held out can hardly tell from the best."""
        best, *others = self.ranked()
        weight = self.held_out.weights / self.held_out.total
        for each in sorted(others, key=lambda c: self.climbs[c].layout.parameters):
            if self.climbs[each].layout.parameters >= self.climbs[best].layout.parameters:
                break
            lost = self.climbs[best].best_rows - self.climbs[each].best_rows
            mean = float(lost @ weight)
            error = math.sqrt(float((lost - mean) ** 2 @ weight) / self.held_out.total)
            if mean <= max(HARDLY * error, TWO_NATS / self.held_out.total):
                return each
        return best

    def _phi(self, layout: IslandLayout) -> Phi:
        key = layout.islands
        if key not in self._features:
            self._features[key] = (
                layout.of_rows(self.train.codes),
                layout.of_rows(self.held_out.codes),
            )
        return self._features[key]

    def _pairs(self, rows: Known) -> Array:
        return pair_information(self.sizes, LocalRows(_as_rows(rows)))


def _as_rows(known: Known) -> Rows:
    return Rows(tuple(np.ascontiguousarray(c) for c in known.codes.T), known.weight)


def race_islands(search: Search, budget: float, say: Callable[[], None] = lambda: None) -> None:
    """Spend the budget of seconds on candidates; `search.ranked()` tells who won."""
    dearest = DEAREST * budget
    cost = _rough_cost if search.timed else _cost
    for candidate in sorted(first_candidates(search), key=lambda each: cost(search, each)):
        few = len(search.climbs) < (HURRIED if search.late else LEAST_TRIED)
        if few or search.spent < STARTED * budget:
            search.run(candidate, FIRST_ROUNDS, math.inf if few else dearest)
            say()
    _explore(search, EXPLORED * budget, lambda _: FIRST_ROUNDS, dearest, say)
    for keep, rounds in HALVINGS:
        for candidate in survivors(search.ranked(), keep):
            if search.spent < 0.95 * budget:
                search.run(candidate, rounds)
                say()
    _explore(
        search, 0.95 * budget, lambda each: max(4, search.climbs[each].best_round), dearest, say
    )
    for candidate in search.ranked()[:4]:
        while not search.climbs[candidate].done and search.spent < budget:
            if not search.run(candidate, LAST_ROUNDS):
                break
            say()


def restart_leaders(search: Search, budget: float, say: Callable[[], None] = lambda: None) -> None:
    """Those that lead start again from other tables, and neighbours are tried, while there is time.

    Climbs of one structure end at different heights, which differ as much as structures do.
    """
    for start in range(1, RESTARTS + 1):
        leaders = list(dict.fromkeys(replace(each, start=0) for each in search.ranked()))
        for lead in survivors(leaders, RESTARTED):
            if lead.states > 1 and search.spent < budget:
                search.run(replace(lead, start=start), RESTART_ROUNDS)
                say()
        _explore(search, budget, lambda _: RESTART_ROUNDS, math.inf, say)


def first_candidates(search: Search) -> set[IslandCandidate]:
    """A wide grid."""
    if search.bounds.grouped:
        most = search.bounds.most_states
        groups = {IslandCandidate(1, k, False, grouped=t) for t in TOLERANCES for k in {2, most}}
        return {IslandCandidate(len(search.sizes), 1, False), *groups}
    found = {
        IslandCandidate(len(search.sizes), 1, False),
        IslandCandidate(len(search.sizes), 1, True),
    }
    sizes = (3, 6, 12, 24, len(search.sizes)) if search.bounds.whole else search.bounds.sizes
    for smallest in sizes:
        for states in {min(k, search.bounds.most_states) for k in (4, 16, 64)} - {1}:
            for inner in (False, True):
                found.add(IslandCandidate(smallest, states, inner))
    return {each for each in found if _allowed(search, each)}


def survivors(ranked: Sequence[IslandCandidate], keep: int) -> list[IslandCandidate]:
    """The best few; the best of every size of islands is among them while that takes half."""
    chosen = {(each.smallest, each.grouped): each for each in reversed(ranked)}
    first = sorted(chosen.values(), key=ranked.index)[: keep // 2]
    rest = [each for each in ranked if each not in first]
    return sorted([*first, *rest[: keep - len(first)]], key=ranked.index)


def neighbours(candidate: IslandCandidate) -> Iterable[IslandCandidate]:
    """One step along each setting."""
    if candidate.states == 1:
        return
    if candidate.grouped:
        for change in (1, -1):
            yield replace(candidate, grouped=_beside(TOLERANCES, candidate.grouped, change))
            if candidate.states + change >= 2:
                yield replace(candidate, states=candidate.states + change)
            count = _beside(PSEUDO_COUNTS, candidate.pseudo_count, change)
            yield replace(candidate, pseudo_count=count)
        return
    for change in (1, -1):
        yield replace(candidate, states=_beside(STATES, candidate.states, change))
        yield replace(candidate, smallest=_beside(SIZES, candidate.smallest, change))
        count = _beside(PSEUDO_COUNTS, candidate.pseudo_count, change)
        yield replace(candidate, pseudo_count=count)
    yield replace(candidate, inner=not candidate.inner)


def _explore(
    search: Search,
    until: float,
    rounds: Callable[[IslandCandidate], int],
    dearest: float,
    say: Callable[[], None],
) -> None:
    """Neighbours of the leading three, until they are all looked at."""
    seen: set[IslandCandidate] = set()
    while search.spent < until:
        open_ones = [each for each in search.ranked()[:3] if each not in seen]
        if not open_ones:
            return
        lead = open_ones[0]
        seen.add(lead)
        for near in neighbours(lead):
            if near not in search.climbs and _allowed(search, near) and search.spent < until:
                search.run(near, rounds(lead), dearest)
                say()


def _allowed(search: Search, candidate: IslandCandidate) -> bool:
    bounds, n = search.bounds, len(search.sizes)
    if candidate.grouped:
        return candidate.states <= bounds.most_states
    fits = candidate.smallest in bounds.sizes
    fits |= candidate.smallest == n and (bounds.whole or candidate.states == 1)
    if not fits or candidate.smallest > n or candidate.states > bounds.most_states:
        return False
    if candidate.inner and (candidate.smallest == 1 or bounds.inner is False):
        return False
    return candidate.inner or bounds.inner is not True


def _cost(search: Search, candidate: IslandCandidate) -> float:
    return row_price(search.layout(candidate))


def _rough_cost(search: Search, candidate: IslandCandidate) -> float:
    """The same without a look at the tree."""
    return len(search.sizes) / candidate.smallest * (ROW + in_eights(candidate.states) * ROW_STATE)


def _beside(steps: Sequence[T], value: T, change: int) -> T:
    """The next larger or smaller step; the last one where there is none."""
    if change > 0:
        return next((step for step in steps if step > value), steps[-1])
    return next((step for step in reversed(steps) if step < value), steps[0])
