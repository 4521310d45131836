"""Learning the tables of a piece: starts race on a sample, the best climbs on all (design 13).

Where columns of the piece have holes, what would be pieces if they had none race by themselves, on
rows that are complete there; tables without latents start as counts. From there all of it climbs on
all rows, holes and all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from latentia.announcing import warn
from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.errors import LeftOutWarning, PlanError
from latentia.exact.pieces import Piece, cut_graph, with_ancestors
from latentia.networks.accelerate import (
    ENOUGH,
    Prior,
    Refined,
    Tables,
    accelerate,
    free_parameters,
)
from latentia.networks.counting import count_families, tables_of_counts
from latentia.networks.em_problem import at_least
from latentia.networks.knowledge import AUTO, Knowledge, PseudoCounts
from latentia.networks.leaning import leaning_piece
from latentia.networks.piece_problem import (
    PieceProblem,
    TableProblem,
    effective_parameters,
    knowledge_of,
    piece_columns,
    pose_piece,
    pose_sample,
    rows_to_race,
)
from latentia.networks.piece_reports import PieceReport, Raced, report_drawn, report_piece
from latentia.networks.piece_starts import StartMaker, drawn_tables
from latentia.networks.race import (
    MOST_ROUNDS,
    Course,
    Runner,
    Schedule,
    race,
    run_round,
)
from latentia.networks.sampled_holes import MOST_ROWS as MOST_DRAWN_ROWS
from latentia.networks.sampled_holes import climb_sampled
from latentia.networks.tied import matched
from latentia.typing import Array, ByName, Cell, Label

RACE_ROWS, LEAST_RACE_ROWS = 5000, 1000  # of the sample that starts race on; where rows are wide
ROWS_A_PARAMETER, LEAST_SHARE = 20, 0.05  # are enough, if they are such a share of all rows
RACE_CELLS = 2_000_000  # numbers that an E-step of the race works out
TELLING, TELLING_ROWS, TELLING_CELLS = 4.0, 20_000, 4_000_000  # where each row stands for several
MOST_STEPS = 400  # E-steps of the climb on all rows
CLOSELY = 1e-3  # gain per parameter still to come, where the winner rests
HOLES_CLOSER = 0.1  # … times as much with holes, where the start is of other rows
PRECISELY, MOST_PRECISE_STEPS = 1e-7, 4000  # both where the very maximum is looked for …
PRECISE_FINALISTS = 6  # … and who may come to rest there
PRECISE_REST = 0.03  # … times as near to rest, where compiled classes climb: then equals are seen
REDRAWN_STARTS = 6  # of a later round of several latents, that are the best with one at random …
REDRAWN_ROUNDS, REDRAWN_WORK = 2, 8  # … times as many rounds then, and as much work: they gain
CHANGED_STARTS = 5  # … and starts of a later round of them that are near the best, not at random
EASY_PIECE = 20_000  # numbers of an E-step: other starts cost less than the closed form
EASY_WORK = 2**20  # numbers of an E-step of classes that numpy does at once, without any wiring
FEW_ROWS = 3.0  # for each parameter that they speak of: optima differ by luck, one round is enough
RACE_WORK = 3e8  # numbers worked out, after which no further round begins
FINALISTS, FINAL_SCHEDULE = 6, ((15, 1),)  # E-steps on all rows that tell the best of them
HOLED_FINALISTS = 3  # of every race, where columns have holes …
MOST_CHANGES = 5  # … and in all, …
HOLED_STARTS = 8  # … and starts at random beside them: rows without holes may miss the best one
HOLED_SCHEDULE = ((15, 6), (40, 3), (80, 2), (160, 1))
COMPLETE_ROWS = 300  # without holes, so that a piece may race on them alone


@final
@dataclass(frozen=True, slots=True)
class TableSettings:
    """How tables are learned; `smoothing`, `known` and `tied` as EM has them."""

    smoothing: PseudoCounts = AUTO
    known: ByName[Cell] | None = None
    tied: Sequence[Sequence[Label]] | None = None
    closed_form: int = 1  # starts of the first round …
    local: int = 5
    random: int = 7
    later_local: int = 2  # … and of every later one
    later_random: int = 8
    rounds: int = MOST_ROUNDS
    race_rows: int = RACE_ROWS  # of the sample that starts race on
    enough: float = ENOUGH  # gain per parameter that rows speak of: a start of the race rests …
    closely: float = CLOSELY  # … and the climb on all rows
    precise: bool | None = None  # look for the very maximum; None: of a likelihood only
    seeded: bool = False  # a latent class alone starts from rows far apart, as where precise
    pairs: bool = False  # … and from what pairs of columns tell
    given: Sequence[Tables] = ()  # more starts of the first round, of the whole graph

    def __post_init__(self) -> None:
        for name in ("closed_form", "local", "random", "later_local", "later_random"):
            at_least(name, getattr(self, name), 0, whole=True)
        for name, first, more in (
            ("random", self.random, self.local),
            ("later_random", self.later_random, self.later_local),
        ):
            at_least(name, first, 0 if more else 1, whole=True)  # every round has a start
        at_least("rounds", self.rounds, 1, whole=True)
        at_least("enough", self.enough, 0)
        at_least("closely", self.closely, 0)


def learn_piece(
    problem: TableProblem, piece: Piece, settings: TableSettings, rng: np.random.Generator
) -> tuple[dict[int, Array], PieceReport]:
    """Tables by the piece's own numbers, and how they were found."""
    gaps = any(v in problem.holes for v in piece.columns)
    try:
        whole = pose_piece(problem, piece)
    except PlanError:
        if not gaps:
            raise
        return _draw_holes(problem, piece, settings, rng)
    if settings.precise is None:
        alone = len(piece.families) == len(problem.graph.names)  # latents are what it is about
        settings = replace(settings, precise=whole.likelihood or (alone and easy(whole)))
    if not gaps:
        raced = [_race(problem, whole, settings, rng)]
        starts = _final(whole, raced[0], settings)
    else:
        inner, raced, counted = _without_holes(problem, piece, settings, rng)
        starts = _run_off(whole, inner, raced, counted, settings, rng)
    tables = [_agreeing(whole, start).tables for start in starts]
    if len(raced) == 1 and raced[0].small is whole:
        effective = raced[0].effective
    else:
        effective = effective_parameters(whole.estep(tables[0])[0], whole.knowledge)
    if problem.leans:
        whole = leaning_piece(whole, tables[0])
    rest = settings.closely * (HOLES_CLOSER if gaps else 1.0)
    rest, most = (rest, MOST_STEPS) if not settings.precise else (PRECISELY, MOST_PRECISE_STEPS)
    best = _climb(whole, tables, rest, most, effective)
    return dict(whole.grow(best.tables)), report_piece(whole, raced, best, effective)


def easy(whole: PieceProblem) -> bool:
    """Does an E-step cost so little that the very maximum can be looked for, whatever the prior?"""
    return whole.distinct is not None and whole.width * whole.rows < EASY_PIECE


def _climb(
    whole: PieceProblem, starts: Sequence[Tables], rest: float, most: int, effective: int
) -> Refined:
    """On all rows, until little is left to gain for each parameter: the highest of some."""
    moving = [whole.shrink(start) for start in starts]
    enough = rest * effective / max(free_parameters(moving[0]), 1)
    together = whole.compiled(moving, enough) or whole.compiled_steps(moving, enough)
    if together is not None:
        together.advance(range(len(moving)), most)
        return together.highest()
    prior, estep = whole.climbed_prior, whole.climbed_estep
    climbs = [accelerate(start, prior, estep, enough, most, whole.hold) for start in moving]
    return max(climbs, key=lambda climb: climb.history[-1])


def _race(
    problem: TableProblem, whole: PieceProblem, settings: TableSettings, rng: np.random.Generator
) -> Raced:
    """Rounds of starts, on a sample where rows are many."""
    small, rows = _fewer(problem, whole, settings.race_rows, rng)
    seeds = small.classes if settings.precise or settings.seeded else None
    maker = StartMaker(whole.piece, rows, small.prior, seeds)
    first = whole.knowledge.imposed(next(maker.at_random(1, rng)).tables)
    if small.classes is not None and small.classes.work <= EASY_WORK:
        effective = small.classes.spoken_parameters(first)
    else:
        effective = effective_parameters(small.estep(first)[0], whole.knowledge)
    enough = settings.enough * effective / max(free_parameters(small.shrink(first)), 1)
    if settings.precise and small.classes is not None:
        enough *= PRECISE_REST
    cost = small.width * small.rows + 4 * sum(t.size for t in first.values()) + 30_000
    rounds, work = settings.rounds, RACE_WORK
    if whole.weight < FEW_ROWS * effective and not settings.precise:
        rounds = 1
    elif rounds > 1 and _redraws(whole, settings):  # one round was asked for where it is enough
        rounds, work = REDRAWN_ROUNDS * rounds, REDRAWN_WORK * work
    found = race(
        course_of(small, enough),
        lambda turn, best: (
            Runner(start.kind, small.shrink(start.tables))
            for start in _starts(
                maker, whole, settings, rng, turn, best and small.grow(best.tables)
            )
        ),
        effective,
        rounds,
        work / cost,
        bool(settings.precise),
    )
    return Raced(small, found, effective)


def course_of(problem: PieceProblem, enough: float) -> Course:
    """What starts climb, and how many of them can be led on at once."""
    prior, estep = problem.climbed_prior, problem.climbed_estep
    return Course(estep, prior, enough, problem.hold, problem.repeated, problem.compiled)


def _final(whole: PieceProblem, raced: Raced, settings: TableSettings) -> list[Runner]:
    """Of those who did best on a sample, the one that does best on all rows.

    Where the very maximum is looked for, several climb: optima may be very near to each other.
    """
    precise = bool(settings.precise)
    if raced.small is whole and not precise:
        return [raced.winner]
    count = PRECISE_FINALISTS if precise else FINALISTS
    last = raced.race.finalists(count, raced.effective, precise)
    fresh = [Runner(r.kind, raced.small.grow(r.tables)) for r in last]
    if len(fresh) == 1 or precise:
        return fresh
    return [_best_of(whole, fresh, settings)]


def _best_of(
    whole: PieceProblem,
    starts: Sequence[Runner],
    settings: TableSettings,
    schedule: Schedule = FINAL_SCHEDULE,
) -> Runner:
    """The one that does best on all rows after a few E-steps; whole tables."""
    course = course_of(whole, settings.enough)
    moving = [replace(start, tables=whole.shrink(start.tables)) for start in starts]
    winner = run_round(course, moving, schedule).winner
    return replace(winner, tables=whole.grow(winner.tables))


def _fewer(
    problem: TableProblem, whole: PieceProblem, wanted: int, rng: np.random.Generator
) -> tuple[PieceProblem, Rows]:
    """The piece on a sample, or as it is where rows are few; and rows of its columns."""
    told = max(ROWS_A_PARAMETER * whole.piece_parameters, int(LEAST_SHARE * whole.weight))
    most = max(LEAST_RACE_ROWS, min(wanted, told, RACE_CELLS // whole.width))
    limit = 1.25 * most
    if whole.weight >= TELLING * whole.rows:  # a sample would know far less
        limit = max(limit, min(TELLING_ROWS, TELLING_CELLS // whole.width))
    if whole.distinct is not None and whole.rows <= limit:
        return whole, whole.distinct
    if whole.distinct is not None:  # equal rows once: a sample of them tells more
        sample = LocalRows(whole.distinct, threads=1).sample(most, rng)
    else:
        sample = piece_columns(problem.source.sample(most, rng), problem.places(whole.piece))
    return pose_sample(problem, whole.piece, sample), sample


def _starts(
    maker: StartMaker,
    whole: PieceProblem,
    settings: TableSettings,
    rng: np.random.Generator,
    turn: int,
    best: Tables | None,
) -> Iterator[Runner]:
    """The starts of a round, in agreement with what is known."""
    local, random = settings.later_local, settings.later_random
    alone = bool(settings.precise) and maker.classes is not None
    if alone and best is not None and random > CHANGED_STARTS:
        random -= CHANGED_STARTS
        for start in maker.changed(best, CHANGED_STARTS, rng):
            yield _agreeing(whole, start)
    elif best is not None and _redraws(whole, settings):
        random -= REDRAWN_STARTS
        for start in maker.redrawn(best, REDRAWN_STARTS, rng):
            yield _agreeing(whole, start)
    if turn == 0:
        local, random = settings.local, settings.random
        for tables in settings.given:
            yield _agreeing(whole, Runner("given", whole.piece.inside(tables)))
        for start in maker.of_pairs() if settings.pairs else ():
            yield _agreeing(whole, start)
        for _ in range(0 if alone or easy(whole) else settings.closed_form):
            yield from (_agreeing(whole, start) for start in maker.closed_form(rng))
    for start in (*maker.local_classes(local, rng), *maker.at_random(random, rng)):
        yield _agreeing(whole, start)


def _redraws(whole: PieceProblem, settings: TableSettings) -> bool:
    """Do later rounds look around the best tables so far?"""
    several = len(whole.piece.graph.latent) > 1 and settings.later_random > REDRAWN_STARTS
    return several and not settings.precise


def _agreeing(problem: PieceProblem, start: Runner) -> Runner:
    """The start with states numbered as what is known has them, and that put in."""
    knowledge = problem.knowledge
    if knowledge.empty:
        return start
    graph = problem.piece.graph
    states = [n or 1 for n in graph.states]
    given = {k: np.full(states[k], 1.0 / states[k]) for k in problem.piece.given}
    placed = matched(graph, {**given, **start.tables}, knowledge)
    return Runner(start.kind, knowledge.imposed({k: placed[k] for k in start.tables}))


# --- holes ----------------------------------------------------------------------------------------


def _without_holes(
    problem: TableProblem, piece: Piece, settings: TableSettings, rng: np.random.Generator
) -> tuple[list[Piece], list[Raced], dict[int, Array]]:
    """The pieces within the piece, were there no holes, their races, and tables to start from.

    What is in none of them is counted over the rows that have all of a family, which is right if
    cells are missing at random, and a fair start if not. Tables are by the whole graph's numbers.
    """
    graph = problem.graph
    own = set(piece.families)
    telling = with_ancestors(graph.parents(), graph.observed)  # as the piece itself was cut
    cut = cut_graph(graph, graph.latent.intersection(piece.variables), telling)
    inner = [p for p in cut.pieces if p.unknown and own.issuperset(p.families)]
    climbed = {v for p in inner for v in p.families}
    counted = [v for v in piece.families if v not in climbed]
    loose = Knowledge({v: c for v, c in problem.knowledge.cells.items() if v in counted})
    counts = count_families(graph, counted, problem.source)
    tables = tables_of_counts(counts, problem.prior, loose)
    raced = []
    for part in inner:
        some = complete_rows(problem, part, rng)
        raced_here = _race(some, pose_piece(some, part), settings, rng)
        raced.append(raced_here)
        tables |= part.outside(raced_here.winner.tables)
    return inner, raced, tables


def _draw_holes(
    problem: TableProblem, piece: Piece, settings: TableSettings, rng: np.random.Generator
) -> tuple[dict[int, Array], PieceReport]:
    """Where holes are too wide to sum over: they are drawn."""
    _, raced, tables = _without_holes(problem, piece, settings, rng)
    rows = piece_columns(problem.source.sample(MOST_DRAWN_ROWS, rng), problem.places(piece))
    prior, known = Prior(piece.inside(problem.prior.counts)), knowledge_of(piece, problem.knowledge)
    start = known.imposed(piece.inside(tables)) if not known.empty else piece.inside(tables)
    best = climb_sampled(piece, rows, problem.weight, start, prior, known, rng)
    warn(
        f"holes around {', '.join(map(str, piece.graph.names[:6]))} … are too many to be summed "
        f"over: they were drawn, in {best.sweeps} sweeps over {best.rows:,} rows, so that tables "
        "are less exact. Fill some holes, or leave out columns with many, to avoid it.",
        LeftOutWarning,
    )
    return best.tables, report_drawn(piece, raced, best, prior)


def _run_off(
    whole: PieceProblem,
    inner: Sequence[Piece],
    raced: Sequence[Raced],
    tables: Tables,
    settings: TableSettings,
    rng: np.random.Generator,
) -> list[Runner]:
    """The winners of all races, a finalist in place of its winner, or a start at random.

    The one that does best on all rows, holes and all.
    """
    own = whole.piece
    kind = ", ".join(r.race.winner.kind for r in raced) or "counts"
    starts = [Runner(kind, own.inside(tables))]
    for part, r in zip(inner, raced, strict=True):
        for other in r.race.finalists(HOLED_FINALISTS, r.effective, bool(settings.precise))[1:]:
            changed = {**tables, **part.outside(r.small.grow(other.tables))}
            starts.append(Runner(kind, own.inside(changed)))
    if not inner or settings.precise:
        return starts[:MOST_CHANGES]
    starts = starts[:MOST_CHANGES]
    for _ in range(HOLED_STARTS):
        drawn = {
            v: t for part in inner for v, t in part.outside(drawn_tables(part, rng)[0]).items()
        }
        starts.append(Runner("random", own.inside({**tables, **drawn})))
    fresh = [_agreeing(whole, start) for start in starts]
    return [_best_of(whole, fresh, settings, HOLED_SCHEDULE)]


def complete_rows(problem: TableProblem, piece: Piece, rng: np.random.Generator) -> TableProblem:
    """The problem on rows that have all that the piece is conditioned on.

    A hole in a column that nothing of the piece hangs on does no harm. Where too few rows are left,
    holes are filled from their columns at random: it is a start, no more.
    """
    sample = problem.source.sample(4 * RACE_ROWS, rng)
    inner = {a for a, _ in piece.graph.edges} | piece.given
    place = dict(zip(piece.columns, problem.places(piece), strict=True))
    needed = [place[v] for k, v in enumerate(piece.variables) if k in inner and v in place]
    codes = [sample.codes[i] >= 0 for i in needed] or [np.ones(len(sample), dtype=bool)]
    rows = rows_to_race(sample, np.flatnonzero(np.logical_and.reduce(codes)))
    if len(rows) < min(COMPLETE_ROWS, len(sample)):
        rows = _filled(sample, needed, rng)
    gone = {problem.graph.observed[i] for i in needed}
    holes = tuple(v for v in problem.holes if v not in gone)
    return replace(problem.on_sample(rows), holes=holes)


def _filled(rows: Rows, columns: Sequence[int], rng: np.random.Generator) -> Rows:
    """Holes of some columns filled with what other rows have there."""
    codes = list(rows.codes)
    for i in columns:
        has = codes[i] >= 0
        share = rows.weights * has
        drawn = rng.choice(codes[i], int((~has).sum()), p=share / share.sum())
        codes[i] = codes[i].copy()
        codes[i][~has] = drawn
    return Rows(tuple(codes), rows.weight)
