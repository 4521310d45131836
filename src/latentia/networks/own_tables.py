"""The graph's own tables, learned from sums over rows (design 13).

    rows ─> columns counted ─┬─> families without a latent: counted, once
                             └─> pieces: starts ─> race on a sample ─> climb on all rows

A graph without latents is counting and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, final

import numpy as np

from latentia.data.rows import Rows, Source
from latentia.errors import DataError, PlanError
from latentia.exact.estep_wiring import check_graph
from latentia.exact.pieces import Piece, cut_graph, with_ancestors
from latentia.linear_algebra import one_thread
from latentia.networks.accelerate import (
    ENOUGH,
    PSEUDO_COUNTS,
    Prior,
    Refined,
    Tables,
    accelerate,
    free_parameters,
)
from latentia.networks.counting import count_families, log_likelihood_of, tables_of_counts
from latentia.networks.em_problem import (
    count_columns,
    prior_of_tables,
    with_unseen,
)
from latentia.networks.knowledge import Knowledge, read_knowledge, read_smoothing
from latentia.networks.piece_problem import (
    PieceProblem,
    TableProblem,
    columns_of,
    effective_parameters,
    pose_piece,
)
from latentia.networks.piece_starts import StartMaker
from latentia.networks.race import MOST_ROUNDS, Course, Race, Runner, race
from latentia.networks.tied import matched
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Label

RACE_ROWS = 5000  # of the sample that starts race on …
LEAST_RACE_ROWS = 1000  # … and where a row is wide
RACE_CELLS = 2_000_000  # numbers that an E-step of the race works out
MOST_STEPS = 400  # E-steps of the climb on all rows
EASY_PIECE = 5000  # numbers of an E-step: too few to ask the closed form
RACE_WORK = 3e8  # numbers worked out, after which no further round begins


@final
@dataclass(frozen=True, slots=True)
class TableSettings:
    """How tables are learned; `smoothing`, `known` and `tied` as EM has them."""

    smoothing: Any = PSEUDO_COUNTS
    known: Mapping[Any, Any] | None = None
    tied: Sequence[Sequence[Any]] | None = None
    closed_form: int = 1  # starts of the first round …
    local: int = 4
    random: int = 5
    later_local: int = 2  # … and of every later one
    later_random: int = 8
    rounds: int = MOST_ROUNDS
    enough: float = ENOUGH  # gain per parameter that rows speak of


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
    agreed: int  # rounds whose winner stands where the best one does
    race_steps: int  # E-steps on the sample
    climb_steps: int  # … and on all rows
    converged: bool
    level: float  # penalised log-likelihood of the climb's last step
    log_likelihood: float


@final
@dataclass(frozen=True, slots=True)
class LearnedTables:
    """Tables of a graph under its own names, and how they were found."""

    graph: LatentGraph
    tables: Mapping[int, Array]  # variable -> (parents …, variable)
    weight: float  # Σ w
    log_likelihood: float  # of all rows
    counted: tuple[Label, ...]  # variables whose tables are counts
    pieces: tuple[PieceReport, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def cpts(self) -> dict[Label, Array]:
        """The tables by name."""
        return {self.graph.names[v]: table for v, table in self.tables.items()}


def learn_tables(
    graph: LatentGraph,
    source: Source,
    settings: TableSettings | None = None,
    rng: np.random.Generator | int | None = None,
) -> LearnedTables:
    """Count what rows know, climb the rest piece by piece.

    `rng` draws samples and starts; the same seed gives the same tables.
    """
    settings = settings or TableSettings()
    check_graph(graph)
    generator = np.random.default_rng(rng)
    knowledge = read_knowledge(graph, settings.known, settings.tied, settings.smoothing)
    with one_thread():
        return _learn(graph, source, settings, knowledge, generator)


def _learn(
    graph: LatentGraph,
    source: Source,
    settings: TableSettings,
    knowledge: Knowledge,
    rng: np.random.Generator,
) -> LearnedTables:
    weight, marginals, holes = _look(graph, source)
    prior = _prior(graph, marginals, settings, knowledge)
    problem = TableProblem(graph, source, weight, holes, prior, knowledge)
    telling = with_ancestors(graph.parents(), graph.observed)
    barren = [v for v in sorted(graph.latent) if v not in telling]
    children = {a for a, b in graph.edges if b in telling}
    unknown = {v for v in graph.latent if v in telling} | {v for v in holes if v in children}
    cut = cut_graph(graph, unknown, telling, knowledge.tied)
    counts = count_families(graph, cut.closed, source)
    tables = tables_of_counts(counts, prior, knowledge)
    tables |= _told_by_prior(graph, barren, prior, knowledge)
    log_likelihood = log_likelihood_of(counts, tables)
    reports = []
    for piece, seed in zip(cut.pieces, rng.spawn(len(cut.pieces)), strict=True):
        found, report = learn_piece(problem, piece, settings, seed)
        tables |= piece.outside(found)
        log_likelihood += report.log_likelihood
        reports.append(report)
    seen = {v: n for v, n in marginals.items() if v not in knowledge.cells}
    tables = with_unseen(tables, knowledge.pooled(seen))
    return LearnedTables(
        graph,
        {v: tables[v] for v in range(len(graph.names))},
        weight,
        log_likelihood,
        tuple(graph.names[v] for v in cut.closed),
        tuple(reports),
        _notes(graph, barren),
    )


def _notes(graph: LatentGraph, barren: Sequence[int]) -> tuple[str, ...]:
    if not barren:
        return ()
    names = ", ".join(str(graph.names[v]) for v in barren[:8])
    return (f"nothing is known of {names}: no column lies below. Their tables are the prior's.",)


def _look(graph: LatentGraph, source: Source) -> tuple[float, dict[int, Array], tuple[int, ...]]:
    """One pass over the rows: their weight, counts of states, and the columns with holes."""
    seen = source.fold(partial(count_columns, graph))
    if not seen.weight > 0:
        raise DataError("there are no rows to learn from, or their weights are all zero.")
    dense = [v for v in graph.observed if f"moments/{v}" in seen.sums]
    if dense:
        names = ", ".join(str(graph.names[v]) for v in dense[:8])
        raise PlanError(
            f"tables are of discrete columns, and {names} is continuous. Bin it "
            "(kinds={...: 'discrete'}), or use lt.EM or lt.PBP."
        )
    marginals = {v: seen.sums[f"column/{v}"] for v in graph.observed}
    for v, count in marginals.items():
        if not count.sum() > 0:
            raise DataError(
                f"no row has a value in {graph.names[v]}. Drop the column from the graph."
            )
    holes = tuple(v for v in graph.observed if seen.sums[f"holes/{v}"][0] > 0)
    return seen.weight, marginals, holes


def _prior(
    graph: LatentGraph, marginals: Tables, settings: TableSettings, knowledge: Knowledge
) -> Prior:
    pseudo = read_smoothing(graph, settings.smoothing)
    found = prior_of_tables(graph, marginals, pseudo, knowledge)
    if found is not None:
        return found
    return Prior({v: np.zeros(graph.states[v] or 1) for v in range(len(graph.names))})


def _told_by_prior(
    graph: LatentGraph, barren: Sequence[int], prior: Prior, knowledge: Knowledge
) -> dict[int, Array]:
    """Tables that no row speaks of: flat, but for what is known of them."""
    parents, states = graph.parents(), [n or 1 for n in graph.states]
    flat = {
        v: np.full([states[u] for u in (*parents[v], v)], 1.0 / states[v]) + prior.counts[v]
        for v in barren
    }
    tables = {v: x / x.sum(axis=-1, keepdims=True) for v, x in flat.items()}
    known = {v: cells for v, cells in knowledge.cells.items() if v in tables}
    return Knowledge(known).held(tables) if known else tables


# --- a piece --------------------------------------------------------------------------------------


def learn_piece(
    problem: TableProblem, piece: Piece, settings: TableSettings, rng: np.random.Generator
) -> tuple[dict[int, Array], PieceReport]:
    """Race starts on a sample of the rows, then climb from the best on all of them."""
    whole = pose_piece(problem, piece)
    small, rows = _fewer(problem, whole, rng)
    maker = StartMaker(piece, rows, small.prior)
    first = whole.knowledge.imposed(next(maker.at_random(1, rng)).tables)
    effective = effective_parameters(small.estep(first)[0], whole.knowledge)
    parameters = free_parameters(first)
    enough = settings.enough * effective / max(parameters, 1)
    hold = whole.knowledge.held if whole.knowledge.cells else None
    cost = small.width * small.rows + 4 * sum(t.size for t in first.values()) + 30_000
    found = race(
        Course(small.estep, small.prior, enough, hold, small.repeated),
        partial(_starts, maker, whole, settings, rng),
        effective,
        settings.rounds,
        RACE_WORK / cost,
    )
    best = _climb_on(whole, small, found.winner, enough, hold)
    return best.tables, _report(whole, small, found, best, effective, parameters)


def _fewer(
    problem: TableProblem, whole: PieceProblem, rng: np.random.Generator
) -> tuple[PieceProblem, Rows]:
    """The piece on a sample, or as it is where rows are few; and rows of its columns."""
    most = max(LEAST_RACE_ROWS, min(RACE_ROWS, RACE_CELLS // whole.width))
    sample = problem.source.sample(most, rng)
    rows = columns_of(sample, problem.places(whole.piece))
    if 0 < whole.rows <= 2 * most:
        return whole, rows
    return pose_piece(problem.on_sample(sample), whole.piece), rows


def _starts(
    maker: StartMaker,
    whole: PieceProblem,
    settings: TableSettings,
    rng: np.random.Generator,
    turn: int,
) -> Iterator[Runner]:
    """The starts of a round, in agreement with what is known."""
    local, random = settings.later_local, settings.later_random
    if turn == 0:
        local, random = settings.local, settings.random
        easy = whole.width * whole.rows < EASY_PIECE  # other starts cost less, and do as well
        for _ in range(0 if easy else settings.closed_form):
            yield from (_agreeing(whole, start) for start in maker.closed_form(rng))
    for start in (*maker.local_classes(local, rng), *maker.at_random(random, rng)):
        yield _agreeing(whole, start)


def _agreeing(problem: PieceProblem, start: Runner) -> Runner:
    knowledge = problem.knowledge
    if knowledge.empty:
        return start
    graph = problem.piece.graph
    given = {
        k: np.full(graph.states[k] or 1, 1.0 / (graph.states[k] or 1)) for k in problem.piece.given
    }
    placed = matched(graph, {**given, **start.tables}, knowledge)
    tables = knowledge.imposed({k: placed[k] for k in start.tables})
    return Runner(start.kind, tables)


def _climb_on(
    problem: PieceProblem,
    small: PieceProblem,
    winner: Runner,
    enough: float,
    hold: Any,
) -> Refined:
    """On all rows; where these are what was raced on, what is left to rest."""
    if small is problem and winner.rests:
        fit = problem.estep(winner.tables)[1]
        return Refined(dict(winner.tables), True, 1, (winner.level,), fit)
    return accelerate(
        winner.tables, problem.prior, problem.estep, enough, most=MOST_STEPS, hold=hold
    )


def _report(
    problem: PieceProblem,
    small: PieceProblem,
    found: Race,
    best: Refined,
    effective: int,
    parameters: int,
) -> PieceReport:
    piece = problem.piece
    seen = sorted((r for result in found.rounds for r in result.seen), key=lambda r: -r.level)
    near = max(1.0, 0.05 * effective)
    winners = [result.winner.level for result in found.rounds]
    names = piece.graph.names
    return PieceReport(
        latents=tuple(names[k] for k in sorted(piece.graph.latent)),
        families=tuple(names[piece.number[v]] for v in piece.families),
        columns=tuple(names[k] for k in piece.graph.observed),
        rows=problem.rows,
        raced_rows=small.rows,
        width=problem.width,
        parameters=parameters,
        effective=effective,
        rounds=len(found.rounds),
        starts=tuple(StartReport(r.kind, r.level, r.steps, r.rests) for r in seen),
        winner=found.winner.kind,
        agreed=sum(max(winners) - level < near for level in winners),
        race_steps=found.steps,
        climb_steps=best.steps,
        converged=best.converged,
        level=best.history[-1],
        log_likelihood=best.log_likelihood,
    )
