"""A race of starts: all climb a little, the better ones on, in rounds that end when they gain
nothing (design 13).

Likelihoods of latent variables have several optima, and no kind of start finds the best one
everywhere. Most starts show after a few E-steps that they will not win; so the many are cut to few
while they climb, and only these come to rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, final

from latentia.native.loading import kernel
from latentia.networks.accelerate import EStepOf, Prior, Tables, accelerate
from latentia.networks.compiled_lockstep import CompiledLockstep
from latentia.networks.lockstep import EStepOfMany, Lockstep, in_turn
from latentia.typing import Array, CellArray

Schedule: TypeAlias = Sequence[tuple[int, int]]

# E-steps in all, and how many are kept then: one after the other, and where they cost little
SCHEDULE: Schedule = ((10, 6), (25, 3), (50, 2), (400, 1))
LOCKSTEP: Schedule = ((20, 7), (50, 4), (100, 2), (400, 1))
MOST_REMEMBERED = 2**18  # cells of all tables of all starts, which each remember several steps
SLACK = 2.0  # times what a winner climbed from some stage on: nobody climbs more
SAME = 0.02  # nats: starts that stand at the same level are one
LEAST_GAIN = 1.0  # nats: a round that gains less has gained nothing …
GAIN_SHARE = 0.005  # … or less than this for each parameter
LEAST_APART, APART_SHARE = 0.5, 0.005  # nats, and for each parameter: nearer starts agree
DRY_ROUNDS = 1
LONE_DRY = 2  # … where a single start has come to the best level
SOME_AGREE, MOST_AGREE = 0.3, 0.5  # shares of the starts of a round that came to the best level
MOST_ROUNDS = 4
FINAL_SHARE = 0.1  # nats for each parameter by which a finalist may be behind on a sample
PRECISE = 0.05  # nats, where the very maximum is looked for: other optima may be as near
PRECISE_DRY, PRECISE_TIMES = (6, 4, 2), 3  # dry rounds, then, and times as many in all:
ENOUGH_CAME = 5  # … where one fresh start has come to the best level, several, and so many
CHANGED = "changed"  # the kind of starts that are near the best so far: they agree with it anyway


@final
@dataclass(frozen=True, slots=True)
class Runner:
    """A start on its way: where it stands, after how many E-steps, and whether it rests there."""

    kind: str
    tables: Tables
    level: float = -float("inf")
    steps: int = 0
    rests: bool = False


class Climbs(Protocol):
    """Climbs that are led on together, each with its level, E-steps and whether it rests."""

    @property
    def level(self) -> Array: ...

    @property
    def steps(self) -> CellArray: ...

    @property
    def rests(self) -> CellArray: ...

    def tables(self, k: int) -> Tables: ...

    def advance(self, which: Sequence[int], steps: int) -> None: ...


def _one_by_one(tables: Tables, starts: int) -> EStepOfMany | None:
    return None


def _none_compiled(starts: Sequence[Tables], enough: float) -> Climbs | None:
    return None


@final
@dataclass(frozen=True, slots=True)
class Course:
    """What all runners climb."""

    estep: EStepOf
    prior: Prior
    enough: float  # gain per free parameter still to come, below which a start rests
    hold: Callable[[Tables], Tables] | None = None
    repeated: Callable[[Tables, int], EStepOfMany | None] = _one_by_one
    compiled: Callable[[Sequence[Tables], float], Climbs | None] = _none_compiled

    def line_up(self, starts: Sequence[Runner]) -> Field:
        """A field that runs in lockstep where that pays, else one after the other."""
        tables = [start.tables for start in starts]
        compiled = self.compiled(tables, self.enough)
        if compiled is not None:
            return _Together(starts, compiled, LOCKSTEP)
        cells = len(starts) * sum(t.size for t in starts[0].tables.values())
        several = len(starts) > 1 and cells <= 4 * MOST_REMEMBERED
        many = self.repeated(starts[0].tables, len(starts)) if several else None
        if many is not None:
            return _Together(starts, self._lockstep(tables, many), LOCKSTEP)
        if self.hold is None and cells <= MOST_REMEMBERED:
            shapes = {k: t.shape for k, t in tables[0].items()}
            own = self._lockstep(tables, in_turn(self.estep, shapes))
            return _Together(starts, own, SCHEDULE)
        return _OneByOne(self, starts)

    def _lockstep(self, starts: Sequence[Tables], many: EStepOfMany) -> Climbs:
        own = kernel()
        if own is not None:
            return CompiledLockstep(own, starts, self.prior, many, self.enough)
        return Lockstep(starts, self.prior, many, self.enough)


class Field(Protocol):
    """Runners that can be led on."""

    schedule: Schedule

    def advance(self, which: Sequence[int], steps: int) -> None:
        """Some of them on to so many E-steps in all, or to rest."""
        ...

    def levels(self, which: Sequence[int]) -> list[float]:
        """How high some of them stand."""
        ...

    def at(self, k: int) -> Runner:
        """Where one of them stands."""
        ...


@final
class _OneByOne:
    schedule = SCHEDULE

    def __init__(self, course: Course, starts: Sequence[Runner]) -> None:
        self.course = course
        self.runners = list(starts)

    def levels(self, which: Sequence[int]) -> list[float]:
        return [self.runners[k].level for k in which]

    def at(self, k: int) -> Runner:
        return self.runners[k]

    def advance(self, which: Sequence[int], steps: int) -> None:
        course = self.course
        for k in which:
            old = self.runners[k]
            left = steps - old.steps
            if old.rests or left < 2:
                continue
            found = accelerate(
                old.tables, course.prior, course.estep, course.enough, left + 1, course.hold
            )
            done = old.steps + found.steps
            self.runners[k] = Runner(
                old.kind, found.tables, found.history[-1], done, found.converged
            )


@final
class _Together:
    def __init__(self, starts: Sequence[Runner], climbs: Climbs, schedule: Schedule) -> None:
        self.schedule = schedule
        self.kinds = [start.kind for start in starts]
        self.climbs = climbs

    def levels(self, which: Sequence[int]) -> list[float]:
        return [float(level) for level in self.climbs.level[list(which)]]

    def at(self, k: int) -> Runner:
        climbs = self.climbs
        return Runner(
            self.kinds[k],
            climbs.tables(k),
            float(climbs.level[k]),
            int(climbs.steps[k]),
            bool(climbs.rests[k]),
        )

    def advance(self, which: Sequence[int], steps: int) -> None:
        self.climbs.advance(which, steps)


@final
@dataclass(frozen=True, slots=True)
class RoundResult:
    """The winner of a round, and where every start stood when it was last seen, best first."""

    winner: Runner
    seen: tuple[Runner, ...]
    climbed: tuple[float, ...]  # by the winner, from each stage on
    reached: tuple[float, ...]  # by fresh starts, or by those with which they stood level

    def count_within(self, distance: float, level: float) -> int:
        """Starts that came as near as this to a level."""
        return sum(level - reached < distance for reached in self.reached)

    def share_within(self, distance: float, level: float) -> float:
        """The same as a share of all of them."""
        return self.count_within(distance, level) / len(self.reached)


def run_round(
    course: Course,
    starts: Iterable[Runner],
    schedule: Schedule | None = None,
    before: Sequence[RoundResult] = (),
) -> RoundResult:
    """Successive halving.

    Starts that would have to climb much more than the winners of rounds `before` did from there, so
    as to overtake the best of them, are left behind.
    """
    runners = list(starts)
    field = course.line_up(runners)
    schedule = schedule or field.schedule
    best = max((result.winner.level for result in before), default=-float("inf"))
    alive, stages = list(range(len(runners))), list[dict[int, float]]()
    beside: dict[int, int] = {}  # who stood level with whom, and was left behind
    for stage, (steps, keep) in enumerate(schedule):
        field.advance(alive, steps)
        stages.append(dict(zip(alive, field.levels(alive), strict=True)))
        standing = sorted(((level, k) for k, level in stages[-1].items()), reverse=True)
        alive, twins = _different(standing)
        beside |= twins
        left = SLACK * max((result.climbed[stage] for result in before), default=float("inf"))
        alive = [k for k in alive[:keep] if stages[-1][k] + left >= best]
        if not alive:
            break
    seen = [field.at(k) for k in range(len(runners))]
    first = max(range(len(runners)), key=lambda k: seen[k].level)
    climbed = [seen[first].level - levels.get(first, -float("inf")) for levels in stages]
    climbed += [0.0] * (len(schedule) - len(stages))
    ranked = tuple(sorted(seen, key=lambda r: -r.level))
    climbed = [x if x < math.inf else 0.0 for x in climbed]
    fresh = [k for k, start in enumerate(runners) if start.kind != CHANGED]
    reached = [seen[_last(beside, k)].level for k in fresh]
    return RoundResult(seen[first], ranked, tuple(climbed), tuple(reached))


def _different(standing: Sequence[tuple[float, int]]) -> tuple[list[int], dict[int, int]]:
    """Of runners that stand at the same level, the first; best first. And whose twins others are.

    Nobody stands between a runner and the last one that was kept: levels fall.
    """
    kept: list[int] = []
    twins: dict[int, int] = {}
    last = math.inf
    for level, k in standing:
        if kept and (level == last or last - level <= SAME):
            twins[k] = kept[-1]
        else:
            kept.append(k)
            last = level
    return kept, twins


def _last(beside: Mapping[int, int], k: int) -> int:
    """Who went on for a runner, or for the one who did."""
    while k in beside:
        k = beside[k]
    return k


@final
@dataclass(frozen=True, slots=True)
class Race:
    """All rounds."""

    winner: Runner
    rounds: tuple[RoundResult, ...]

    def finalists(self, count: int, parameters: int, precise: bool = False) -> list[Runner]:
        """The best that differ, and may be better on other rows: the winner first."""
        near = FINAL_SHARE * parameters + LEAST_GAIN
        apart = PRECISE if precise else agreement(parameters)
        found = [self.winner]
        seen = (runner for result in self.rounds for runner in result.seen)
        for runner in sorted(seen, key=lambda r: -r.level):
            others = all(abs(runner.level - other.level) > apart for other in found)
            if others and self.winner.level - runner.level < near:
                found.append(runner)
        return found[:count]

    @property
    def steps(self) -> int:
        """E-steps of all starts."""
        return sum(runner.steps for result in self.rounds for runner in result.seen)


def race(
    course: Course,
    starts_of: Callable[[int, Runner | None], Iterable[Runner]],
    parameters: int,
    most_rounds: int = MOST_ROUNDS,
    most_steps: float = float("inf"),
    precise: bool = False,
) -> Race:
    """Rounds of starts, until they gain nothing worth their while; if `precise`, nothing at all.

    `starts_of(k, best)` makes those of round k, given the best of rounds before. A dry round ends
    the race, two of them where a single start had come to the best level (more where the very
    maximum is looked for); none is waited for where half of the starts of a round had. After
    `most_steps` E-steps no more rounds begin.
    """
    worth, near = max(LEAST_GAIN, GAIN_SHARE * parameters), agreement(parameters)
    if precise:
        worth, near, most_rounds = PRECISE, PRECISE, PRECISE_TIMES * most_rounds
    best: Runner | None = None
    rounds: list[RoundResult] = []
    dry, steps, agreed = 0, 0, 0.0
    for k in range(most_rounds):
        result = run_round(course, starts_of(k, best), before=rounds)
        rounds.append(result)
        steps += sum(runner.steps for runner in result.seen)
        gain = result.winner.level - (-float("inf") if best is None else best.level)
        if best is None or gain > 0:
            best = result.winner
        dry = dry + 1 if gain < worth else 0
        agreed = 0.0 if gain >= worth else agreed  # what they agreed on is no longer best
        agreed = max(agreed, result.share_within(near, best.level))
        came = sum(r.count_within(near, best.level) for r in rounds)
        lone, some, enough = PRECISE_DRY if precise else (LONE_DRY, DRY_ROUNDS, DRY_ROUNDS)
        most_dry = lone if came < 2 else some if came < ENOUGH_CAME else enough
        if dry >= _dry_rounds(agreed, most_dry) or steps >= most_steps:
            break
    assert best is not None  # there is at least one round
    return Race(best, tuple(rounds))


def agreement(parameters: int) -> float:
    """How near two starts come that have found the same optimum, as far as they climbed."""
    return max(LEAST_APART, APART_SHARE * parameters)


def _dry_rounds(agreed: float, most: int) -> int:
    return 0 if agreed >= MOST_AGREE else 1 if agreed >= SOME_AGREE else most
