"""What is climbed of one piece: its rows, the E-step that sums over them, prior and knowledge.

Only the piece's own columns matter: in memory, rows that agree on them are one. Each E-step is a
fold. Where some of its columns have holes, rows are wired by what they lack (patterns.py), so that
those who lack little stay narrow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import final

import numpy as np

from latentia.data.moments import Moments
from latentia.data.rows import Rows, Source
from latentia.data.sources.memory import LocalRows, unique_rows
from latentia.errors import PlanError
from latentia.exact.active_tree import TooWideError
from latentia.exact.compiled_many import CompiledManyRows, compiled_many
from latentia.exact.estep import pack_rows, packed_counts, sum_counts
from latentia.exact.estep_many import wire_many
from latentia.exact.estep_wiring import EStep, Scope
from latentia.exact.patterns import Flags, group_patterns, patterns_of
from latentia.exact.pieces import Piece
from latentia.native.loading import kernel
from latentia.networks.accelerate import Prior, Tables
from latentia.networks.class_rows import SurveyRows, class_rows
from latentia.networks.compiled_classes import ClassClimbs, compiled_climbs
from latentia.networks.compiled_lockstep import CompiledLockstep
from latentia.networks.em_problem import counts_in
from latentia.networks.knowledge import Knowledge
from latentia.networks.leaf_cells import LeafCells, with_bells
from latentia.networks.lockstep import EStepOfMany, in_turn
from latentia.networks.many_starts import MOST_LAID_OUT, SumOfMany
from latentia.networks.spoken_rows import SpokenRows, spoken_rows
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Codes

EASY_WIDTH = 2**14  # numbers a row: rows with different holes are wired together up to this
EASY_CELLS = 2**18  # … or numbers in all: what another wiring would cost
MOST_REPEATED = 2**18  # numbers of a product of a row, for all starts at once
MOST_TRIED = 1000  # wirings that are tried for rows with different holes
ALONE = 2000  # rows with the same holes that are worth a wiring of their own


@final
@dataclass(frozen=True, slots=True)
class WiredRows:
    """Rows that are wired alike."""

    estep: EStep
    source: Source
    columns: Scope | None  # places of the piece's columns among those of a row; None: packed

    def sum(self, tables: Tables) -> Moments:
        """One E-step over these rows."""
        if self.columns is None:
            return self.source.fold(partial(packed_counts, self.estep, tables))
        return self.source.fold(partial(_counts_of_some, self.estep, tables, self.columns))


@final
@dataclass(frozen=True, slots=True)
class PieceProblem:
    """A piece, its rows, and the prior of its tables, by the piece's own numbers."""

    piece: Piece
    parts: tuple[WiredRows, ...]
    prior: Prior
    knowledge: Knowledge
    weight: float  # Σ w
    rows: int  # that differ; 0 where they cannot be told
    distinct: Rows | None = None  # … and they themselves, of the piece's columns
    spoken: SpokenRows | None = None  # what the climb moves; None: all of every table
    leaves: Mapping[int, LeafCells] = field(default_factory=dict)  # of continuous columns
    classes: SurveyRows | None = None  # of a latent class alone
    kept: list[CompiledManyRows] = field(default_factory=list)  # parts as the kernel has them

    @property
    def hold(self) -> Callable[[Tables], Tables] | None:
        """What puts known cells back into tables, and Gaussians into those of leaves."""
        if not self.leaves:
            return self.knowledge.held if self.knowledge.cells else None
        return self._held

    def _held(self, tables: Tables) -> Tables:
        found = with_bells(tables, self.leaves)
        return self.knowledge.held(found) if self.knowledge.cells else found

    def shrink(self, tables: Tables) -> Tables:
        """What the climb moves of tables."""
        return tables if self.spoken is None else self.spoken.shrink(tables)

    def grow(self, tables: Tables) -> Tables:
        """Whole tables of what the climb moves."""
        return tables if self.spoken is None else self.spoken.grow(tables)

    @property
    def climbed_prior(self) -> Prior:
        """Pseudo-counts of what the climb moves."""
        return self.prior if self.spoken is None else self.spoken.prior(self.prior)

    @property
    def piece_parameters(self) -> int:
        """Free parameters of all its tables, whether rows speak of them or not."""
        graph, number = self.piece.graph, self.piece.number
        states, parents = [n or 1 for n in graph.states], graph.parents()
        own = [number[v] for v in self.piece.families]
        return sum((states[k] - 1) * math.prod([states[u] for u in parents[k]]) for k in own)

    @property
    def likelihood(self) -> bool:
        """Is there no prior?"""
        return not any(a.any() for a in self.prior.counts.values())

    def climbed_estep(self, tables: Tables) -> tuple[Tables, float]:
        """The E-step on what the climb moves."""
        counts, log_likelihood = self.estep(self.grow(tables))
        return self.shrink(counts), log_likelihood

    def estep(self, tables: Tables) -> tuple[Tables, float]:
        """Expected counts, those of tied tables added up, and the log-likelihood.

        The ascent adds each table's own pseudo-counts, so that a tied group's are made up for.
        """
        if self.kept and self.spoken is not None and (found := self._kept_counts(tables)):
            return found
        counts: dict[int, Array] = {}
        log_likelihood = 0.0
        for part in self.parts:
            moments = part.sum(tables)
            own = counts_in(moments)
            counts = {v: counts[v] + n for v, n in own.items()} if counts else own
            log_likelihood += float(moments.sums["log_likelihood"][0])
        if self.knowledge.tied:
            prior = self.prior.counts
            whole = self.knowledge.pooled({v: n + prior[v] for v, n in counts.items()})
            counts = {v: n - prior[v] for v, n in whole.items()}
        return counts, log_likelihood

    def _kept_counts(self, tables: Tables) -> tuple[Tables, float] | None:
        """The same of rows that are laid out; None where they need care."""
        assert self.spoken is not None
        own = self.spoken.shrink(tables)
        X = np.concatenate([t.ravel() for t in own.values()])[None]
        counts, log_likelihood = np.zeros(X.shape), 0.0
        for part in self.kept:
            found = part(X)
            if found is None:
                return None
            counts += found[0]
            log_likelihood += float(found[1][0])
        ends = np.cumsum([t.size for t in own.values()])[:-1]
        cut = zip(own.items(), np.split(counts[0], ends), strict=True)
        return self.spoken.spread({k: n.reshape(t.shape) for (k, t), n in cut}), log_likelihood

    def repeated(self, tables: Tables, starts: int) -> EStepOfMany | None:
        """One climbed E-step for many starts; None where it cannot be, or nothing is gained."""
        if self.spoken is None:
            return None
        alone = in_turn(self.climbed_estep, {k: t.shape for k, t in tables.items()})
        if kernel() is not None and self.rows > MOST_LAID_OUT:
            return alone
        laid_out = self._laid_out(tables)
        if laid_out is not None:
            return SumOfMany(laid_out, alone)
        places, cells = self.spoken.places(tables)
        own = [(p.estep, p.source.rows) for p in self.parts if isinstance(p.source, LocalRows)]
        if starts * max(e.widest for e, _ in own) > MOST_REPEATED:
            return None
        return SumOfMany(tuple(wire_many(e, rows, places, cells, starts) for e, rows in own), alone)

    def _laid_out(self, tables: Tables) -> tuple[CompiledManyRows, ...] | None:
        """Rows as the kernel has them, laid out once; None where it has no use for them."""
        own = kernel()
        if own is None or self.spoken is None:
            return None
        if not self.kept:
            places, cells = self.spoken.places(tables)
            found = []
            for part in self.parts:
                assert isinstance(part.source, LocalRows)  # what is spoken of is in memory
                found.append(compiled_many(own, part.estep, part.source.rows, places, cells))
            if None in found:
                return None
            self.kept.extend(part for part in found if part is not None)
        return tuple(self.kept)

    def compiled(self, starts: Sequence[Tables], enough: float) -> ClassClimbs | None:
        """The climbs of some starts by the kernel; None where it has none."""
        return compiled_climbs(self.classes, starts, self.climbed_prior, enough)

    def compiled_steps(self, starts: Sequence[Tables], enough: float) -> CompiledLockstep | None:
        """The same where only the steps between E-steps are compiled; no rows without a chance."""
        own, many = kernel(), self.repeated(starts[0], len(starts))
        if own is None or many is None or self.hold is not None:
            return None
        found = CompiledLockstep(own, starts, self.climbed_prior, many, enough)
        return None if found.hopeless.any() else found

    @property
    def width(self) -> int:
        """Numbers that an E-step works out for a row, about."""
        esteps = [part.estep for part in self.parts]
        return max(e.width + sum(e.size(p.scope) for p in e.packs) for e in esteps)


def _counts_of_some(estep: EStep, tables: Tables, columns: Scope, rows: Rows) -> Moments:
    return sum_counts(estep, tables, piece_columns(rows, columns))


def piece_columns(rows: Rows, columns: Scope) -> Rows:
    """The same rows with some of their columns, by place."""
    return Rows(tuple(rows.codes[i] for i in columns), rows.weight)


@final
@dataclass(frozen=True, slots=True)
class TableProblem:
    """Rows of a whole graph, and what is thought of its tables before any row."""

    graph: LatentGraph
    source: Source
    weight: float  # Σ w
    holes: tuple[int, ...]  # columns that some row lacks
    prior: Prior
    knowledge: Knowledge
    leaves: Mapping[int, LeafCells] = field(default_factory=dict)  # of continuous columns
    leans: bool = False  # are these pseudo-counts only the least? (leaning.py)

    def on_sample(self, rows: Rows) -> TableProblem:
        """The same on a sample of the rows; pseudo-counts are as much fewer as rows are."""
        share = rows.total / self.weight
        prior = Prior({v: a * share for v, a in self.prior.counts.items()})
        return replace(self, source=LocalRows(rows, threads=1), weight=rows.total, prior=prior)

    def places(self, piece: Piece) -> Scope:
        """Where the columns of a piece are among those of a row."""
        place = {v: i for i, v in enumerate(self.graph.observed)}
        return tuple(place[v] for v in piece.columns)


def pose_piece(problem: TableProblem, piece: Piece) -> PieceProblem:
    """The part of a problem that is about one piece."""
    columns, source = problem.places(piece), problem.source
    if isinstance(source, LocalRows):
        return _pose_rows(problem, piece, piece_columns(source.rows, columns), source)
    gaps = [v for v in piece.columns if v in problem.holes]
    parts = (WiredRows(_wired(piece, gaps), source, columns),)
    own = _told(problem, piece)
    leaves = piece.inside(problem.leaves)
    return PieceProblem(piece, parts, *own, problem.weight, 0, leaves=leaves)


def pose_sample(problem: TableProblem, piece: Piece, rows: Rows) -> PieceProblem:
    """The same of a sample of rows of the piece's own columns."""
    small = problem.on_sample(rows)
    return _pose_rows(small, piece, rows, LocalRows(rows, threads=1))


def _told(problem: TableProblem, piece: Piece) -> tuple[Prior, Knowledge]:
    """What is thought of the piece's tables, by its own numbers."""
    return Prior(piece.inside(problem.prior.counts)), knowledge_of(piece, problem.knowledge)


def _pose_rows(problem: TableProblem, piece: Piece, own: Rows, source: LocalRows) -> PieceProblem:
    """A piece and rows of its columns, which are summed over as `source` is."""
    prior, known = _told(problem, piece)
    gaps = [v for v in piece.columns if v in problem.holes]
    leaves = piece.inside(problem.leaves)
    rows = rows_once(own, [piece.graph.states[k] or 1 for k in piece.graph.observed])
    found = []
    for some, missing in _alike(piece, rows, gaps):
        estep = _wired(piece, missing)
        packed = LocalRows(pack_rows(estep, some), source.block_rows, source.threads)
        found.append(WiredRows(estep, packed, None))
    spoken = spoken_rows(piece, rows, prior) if known.empty else None
    count = len(rows)
    free = known.empty and not leaves
    classes = class_rows(piece, rows) if free else None
    whole = (problem.weight, count, rows, spoken, leaves, classes)
    return PieceProblem(piece, tuple(found), prior, known, *whole)


def rows_once(rows: Rows, states: Sequence[int]) -> Rows:
    """Equal rows once, with their weight; a hole is a state of its own."""
    whole = [int(codes.min(initial=0)) >= 0 for codes in rows.codes]
    if all(whole):
        return unique_rows(rows, states)
    found = unique_rows(
        Rows(tuple(c + 1 for c in rows.codes), rows.weight), [m + 1 for m in states]
    )
    return Rows(tuple(c - 1 for c in found.codes), found.weight)


def knowledge_of(piece: Piece, knowledge: Knowledge) -> Knowledge:
    """What is known of the piece's own tables, by its own numbers."""
    if knowledge.empty:
        return Knowledge()
    number, own = piece.number, set(piece.families)
    groups = (tuple(number[v] for v in group if v in own) for group in knowledge.tied)
    return Knowledge(piece.inside(knowledge.cells), tuple(g for g in groups if len(g) > 1))


def _wired(piece: Piece, holes: Sequence[int]) -> EStep:
    try:
        return piece.wire(holes)
    except TooWideError as error:
        lacking = f", {len(holes)} of whose columns have holes," if holes else ""
        raise PlanError(
            f"the tables of {_some(piece)}{lacking} are learned together, which needs "
            f"{error.width}. Give latents fewer states, drop edges between them, or fill holes."
        ) from error


def _some(piece: Piece) -> str:
    names = [str(piece.graph.names[k]) for k in sorted(piece.graph.latent)]
    shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    return shown or ", ".join(str(name) for name in piece.graph.names[:8])


def _alike(piece: Piece, rows: Rows, gaps: Sequence[int]) -> list[tuple[Rows, tuple[int, ...]]]:
    """Rows to be wired together, and the columns that some of them lack."""
    if not gaps or _narrow(piece, gaps, len(rows)):
        return [(rows, tuple(gaps))]
    at = {v: i for i, v in enumerate(piece.columns)}
    seen = np.stack([rows.codes[at[v]] >= 0 for v in gaps], axis=1)
    patterns, which, counts = patterns_of(seen)

    def missing(some: Flags) -> tuple[int, ...]:
        return tuple(v for i, v in enumerate(gaps) if not some[:, i].all())

    tried = 0

    def fits(some: Flags, count: int) -> bool:
        nonlocal tried
        tried += 1
        if tried > MOST_TRIED:
            raise PlanError(
                f"rows of {_some(piece)} have holes in too many different ways to be summed over: "
                f"{len(patterns):,} patterns. Fill some, or leave columns with many holes out."
            )
        return _narrow(piece, missing(some), count)

    groups = group_patterns(patterns, counts, fits, ALONE)
    return [
        (rows_to_race(rows, np.flatnonzero(np.isin(which, group))), missing(patterns[group]))
        for group in groups
    ]


def _narrow(piece: Piece, holes: Sequence[int], rows: int) -> bool:
    """One wiring for so many rows costs no more than several would."""
    try:
        width = piece.wire(holes).width
        return width <= EASY_WIDTH or width * rows <= EASY_CELLS
    except TooWideError:
        return False


def rows_to_race(rows: Rows, place: Codes) -> Rows:
    """Some of the rows, by place."""
    weight = None if rows.weight is None else rows.weight[place]
    return Rows(tuple(c[place] for c in rows.codes), weight)


def effective_parameters(
    counts: Mapping[int, Array], known: Knowledge, leaves: Mapping[int, LeafCells] | None = None
) -> int:
    """Free parameters of table rows that data speak of: with an expected count above one half.

    Tied tables count once; cells that are known are not free, nor are those of a Gaussian.
    """
    spare = {v for group in known.tied for v in group[1:]}
    total = 0
    for v, n in counts.items():
        if v in spare:
            continue
        free = np.full(n.shape, True) if v not in known.cells else np.isnan(known.cells[v])
        rows = np.maximum(free.sum(axis=-1) - 1, 0)
        if leaves and v in leaves:
            rows = np.full(rows.shape, leaves[v].parameters)
        total += int(rows[n.sum(axis=-1) > 0.5].sum())
    return max(total, 1)
