"""A race of starts: all climb a little, the better ones on, in rounds that end when they gain
nothing (design 13).

Likelihoods of latent variables have several optima, and no kind of start finds the best one
everywhere. Most starts show after a few E-steps that they will not win; so the many are cut to few
while they climb, and only these come to rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import final

from latentia.networks.accelerate import EStepOf, Prior, Tables, accelerate

SCHEDULE = ((10, 6), (25, 3), (50, 2), (400, 1))  # E-steps in all, and how many are kept then
SAME = 0.02  # nats: starts that stand at the same level are one
LEAST_GAIN = 1.0  # nats: a round that gains less has gained nothing …
GAIN_SHARE = 0.05  # … or less than this for each parameter
DRY_ROUNDS = 2
MOST_ROUNDS = 6


@final
@dataclass(frozen=True, slots=True)
class Runner:
    """A start on its way: where it stands, after how many E-steps, and whether it rests there."""

    kind: str
    tables: Tables
    level: float = -float("inf")
    steps: int = 0
    rests: bool = False


@final
@dataclass(frozen=True, slots=True)
class Course:
    """What all runners climb."""

    estep: EStepOf
    prior: Prior
    enough: float  # gain per free parameter still to come, below which a start rests
    hold: Callable[[Tables], Tables] | None = None

    def climb(self, runner: Runner, steps: int) -> Runner:
        """On to so many E-steps in all."""
        left = steps - runner.steps
        if runner.rests or left < 2:
            return runner
        found = accelerate(
            runner.tables, self.prior, self.estep, self.enough, most=left + 1, hold=self.hold
        )
        return Runner(
            runner.kind,
            found.tables,
            found.history[-1],
            runner.steps + found.steps,
            found.converged,
        )


@final
@dataclass(frozen=True, slots=True)
class RoundResult:
    """The winner of a round, and where every start stood when it was last seen, best first."""

    winner: Runner
    seen: tuple[Runner, ...]


def run_round(
    course: Course,
    starts: Iterable[Runner],
    schedule: Sequence[tuple[int, int]] = SCHEDULE,
) -> RoundResult:
    """Successive halving."""
    alive, out = list(starts), list[Runner]()
    for steps, keep in schedule:
        alive = sorted((course.climb(r, steps) for r in alive), key=lambda r: -r.level)
        kept = _different(alive)[:keep]
        out = [r for r in alive if not any(r is k for k in kept)] + out
        alive = kept
    return RoundResult(alive[0], tuple(sorted((*alive, *out), key=lambda r: -r.level)))


def _different(runners: Sequence[Runner]) -> list[Runner]:
    """Of runners that stand at the same level, the first."""
    found: list[Runner] = []
    for runner in runners:
        if all(abs(runner.level - other.level) > SAME for other in found):
            found.append(runner)
    return found


@final
@dataclass(frozen=True, slots=True)
class Race:
    """All rounds."""

    winner: Runner
    rounds: tuple[RoundResult, ...]

    @property
    def steps(self) -> int:
        """E-steps of all starts."""
        return sum(runner.steps for result in self.rounds for runner in result.seen)


def race(
    course: Course,
    starts_of: Callable[[int], Iterable[Runner]],
    parameters: int,
    most_rounds: int = MOST_ROUNDS,
    most_steps: float = float("inf"),
) -> Race:
    """Rounds of starts, until two in a row gain nothing worth their while.

    `starts_of(k)` makes those of round k. After `most_steps` E-steps no more rounds begin.
    """
    worth = max(LEAST_GAIN, GAIN_SHARE * parameters)
    best: Runner | None = None
    rounds: list[RoundResult] = []
    dry = steps = 0
    for k in range(most_rounds):
        result = run_round(course, starts_of(k))
        rounds.append(result)
        steps += sum(runner.steps for runner in result.seen)
        gain = result.winner.level - (-float("inf") if best is None else best.level)
        if best is None or gain > 0:
            best = result.winner
        dry = dry + 1 if gain < worth else 0
        if dry >= DRY_ROUNDS or steps >= most_steps:
            break
    assert best is not None  # there is at least one round
    return Race(best, tuple(rounds))
