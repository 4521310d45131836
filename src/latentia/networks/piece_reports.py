"""How the tables of a piece were found: its race, its climb, and where they ended (design 13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from latentia.exact.pieces import Piece
from latentia.networks.accelerate import Prior, Refined, Tables, free_parameters
from latentia.networks.piece_problem import PieceProblem
from latentia.networks.race import Race, Runner, agreement
from latentia.networks.sampled_holes import SampledClimb
from latentia.typing import Label


@final
@dataclass(frozen=True, slots=True)
class StartReport:
    """Where a start stood when it was last seen: penalised log-likelihood of the race's rows."""

    kind: str
    level: float
    steps: int
    rests: bool


@final
@dataclass(frozen=True, slots=True)
class PieceReport:
    """How the tables of a piece were found."""

    latents: tuple[Label, ...]
    families: tuple[Label, ...]
    columns: tuple[Label, ...]
    rows: int  # that differ; 0 where they cannot be told
    raced_rows: int
    width: int  # numbers that an E-step works out for a row
    parameters: int
    effective: int  # those of table rows with an expected count above one half
    rounds: int
    starts: tuple[StartReport, ...]  # best first
    winner: str
    agreed: int  # starts, or rounds of several, that ended level with the best
    race_steps: int  # E-steps on the sample
    climb_steps: int  # … and on all rows
    converged: bool
    level: float  # penalised log-likelihood of the climb's last step, by the prior it ended with
    log_likelihood: float  # … a bound from below, where holes were drawn


@final
@dataclass(frozen=True, slots=True)
class Raced:
    """A race, the problem that it was run on, and the parameters that rows speak of."""

    small: PieceProblem
    race: Race
    effective: int

    @property
    def winner(self) -> Runner:
        """With whole tables."""
        return replace(self.race.winner, tables=self.small.grow(self.race.winner.tables))


def report_piece(
    problem: PieceProblem, raced: Sequence[Raced], best: Refined, effective: int
) -> PieceReport:
    """What is told of a climb, and of the races before it."""
    whole = problem.grow(best.tables)
    unmoved = 0.0
    if problem.spoken is not None and problem.spoken.rest:  # rows that only the prior tells of
        unmoved = problem.prior.log_density(whole) - problem.climbed_prior.log_density(best.tables)
    found = _report(problem.piece, raced, whole)
    return replace(
        found,
        rows=problem.rows,
        width=problem.width,
        effective=effective,
        climb_steps=best.steps,
        converged=best.converged,
        level=best.history[-1] + unmoved,
        log_likelihood=best.log_likelihood,
    )


def report_drawn(
    piece: Piece, raced: Sequence[Raced], best: SampledClimb, prior: Prior
) -> PieceReport:
    """Of a piece whose holes were drawn: its level is a bound."""
    found = _report(piece, raced, best.tables)
    return replace(
        found,
        rows=best.rows,
        winner=f"{found.winner}; holes drawn",
        climb_steps=best.sweeps,
        level=best.bound + prior.log_density(best.tables),
        log_likelihood=best.bound,
    )


def _report(piece: Piece, raced: Sequence[Raced], tables: Tables) -> PieceReport:
    """What the races say, and the tables' sizes, before the climb that found these tables."""
    names, parameters = piece.graph.names, free_parameters(tables)
    rounds = [result for r in raced for result in r.race.rounds]
    seen = sorted((runner for result in rounds for runner in result.seen), key=lambda r: -r.level)
    return PieceReport(
        latents=tuple(names[k] for k in sorted(piece.graph.latent)),
        families=tuple(names[piece.number[v]] for v in piece.families),
        columns=tuple(names[k] for k in piece.graph.observed),
        rows=0,
        raced_rows=sum(r.small.rows for r in raced),
        width=len(piece.unknown),
        parameters=parameters,
        effective=parameters,
        rounds=len(rounds),
        starts=tuple(StartReport(r.kind, r.level, r.steps, r.rests) for r in seen),
        winner=", ".join(r.race.winner.kind for r in raced) or "counts",
        agreed=min((_agreed(r) for r in raced), default=0),
        race_steps=sum(r.race.steps for r in raced),
        climb_steps=0,
        converged=True,
        level=-float("inf"),
        log_likelihood=-float("inf"),
    )


def _agreed(raced: Raced) -> int:
    """Starts that came to where the winner stands: itself, and fresh ones."""
    near = agreement(raced.effective)
    top = raced.race.winner.level
    return max(1, sum(result.count_within(near, top) for result in raced.race.rounds))
