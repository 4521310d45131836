"""What EM climbs, piece by piece: the same sums as on the whole graph, without its junction tree.

Families without a latent are counted once; every other family belongs to a piece (design 13). Sums
of the pieces side by side are those of an E-step on the whole graph, so that EM takes the same path
there, wherever a whole graph can be wired at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias, final

import numpy as np

from latentia.data.moments import Moments
from latentia.data.rows import Rows, Source
from latentia.data.sources.memory import LocalRows
from latentia.errors import DataError, PlanError
from latentia.exact.estep import sum_counts
from latentia.exact.estep_wiring import EStep, Scope, check_graph
from latentia.exact.pieces import cut_graph, with_ancestors
from latentia.networks.accelerate import Prior, Tables
from latentia.networks.counting import family_counts, log_likelihood_of
from latentia.networks.em_problem import Scale, prior_of_tables
from latentia.networks.first_look import count_once
from latentia.networks.knowledge import Knowledge, PseudoCounts, read_smoothing
from latentia.networks.leaf_cells import LeafCells
from latentia.networks.piece_problem import PieceProblem, TableProblem, piece_columns, pose_piece
from latentia.structure.graph import LatentGraph
from latentia.typing import Array

# of each piece: its E-step, the places of its columns in a row, its variables and families
Wired: TypeAlias = tuple[tuple[EStep, Scope, Scope, Scope], ...]

LOG = "log_likelihood"


@final
@dataclass(frozen=True, slots=True)
class PiecesProblem:
    """Pieces of a graph, counts of its other families, and the prior of the M-step."""

    graph: LatentGraph
    source: Source  # all columns
    pieces: tuple[PieceProblem, ...]
    counted: Mapping[int, Array]  # n(parents, variable) of families without anything unknown
    weight: float  # N
    marginals: Mapping[int, Array]  # counts of the states of each column
    prior: Prior | None  # None: maximum likelihood
    knowledge: Knowledge
    wired: Wired = ()  # every piece for rows of all columns, whatever they lack
    scales: Mapping[int, Scale] = field(default_factory=dict)  # no column is continuous
    smoothing: Mapping[int, float] = field(default_factory=dict)
    floor: float = 0.0
    leaves: Mapping[int, LeafCells] = field(default_factory=dict)  # columns in cells of a grid

    @property
    def learned_marginals(self) -> Mapping[int, Array]:
        """Counts of the states of columns whose tables are learned, tied ones together."""
        counts = self.knowledge.pooled(self.marginals)
        return {v: x for v, x in counts.items() if v not in self.knowledge.cells}

    @property
    def coarse(self) -> bool:
        """All pieces are summed in double precision."""
        return False

    def sum(self, tables: Tables, single: bool = False) -> Moments:
        """One E-step over all rows; where they are not in memory, one pass for all pieces."""
        if self.pieces and not isinstance(self.source, LocalRows):
            found = self.source.fold(partial(_sums_of_pieces, self.wired, tables)).sums
            return self._with_counted(dict(found), tables)
        sums: dict[str, Array] = {LOG: np.zeros(1)}
        for p in self.pieces:
            number, own = p.piece.variables, p.piece.inside(tables)
            for part in p.parts:
                _add(sums, part.sum(own), number)
        return self._with_counted(sums, tables)

    def block(self, tables: Tables, rows: Rows) -> Moments:
        """The sums of some rows, with all their columns."""
        found = dict(_sums_of_pieces(self.wired, tables, rows).sums)
        counts = family_counts(self.graph, tuple(self.counted), rows).sums
        found |= counts
        own = {int(name.removeprefix("counts/")): n for name, n in counts.items()}
        found[LOG] = found[LOG] + log_likelihood_of(own, tables)
        return Moments("pieces", rows.total, len(rows), found)

    def _with_counted(self, sums: dict[str, Array], tables: Tables) -> Moments:
        sums |= {f"counts/{v}": n for v, n in self.counted.items()}
        log = float(sums[LOG][0]) + log_likelihood_of(self.counted, tables)
        if not np.isfinite(log):
            raise DataError(
                "some rows are impossible: known cells of tables are zero where rows were seen. "
                "Leave these cells open (NaN), or check the columns."
            )
        sums[LOG] = np.array([log])
        return Moments("pieces", self.weight, 0, sums)

    def on(self, threads: int) -> PiecesProblem:
        """The same, each fold on so many threads."""
        return replace(self, pieces=tuple(_on(p, threads) for p in self.pieces))

    def told(self) -> tuple[str, ...]:
        """What is counted and what is climbed, a line each."""
        lines = [f"counted {len(self.counted)} of {len(self.graph.names)} tables"]
        for p in self.pieces:
            names = [str(p.piece.graph.names[k]) for k in sorted(p.piece.graph.latent)]
            shown = ", ".join(names[:6]) + (" …" if len(names) > 6 else "")
            lines.append(
                f"piece of {shown}: {len(p.piece.families)} tables; an E-step takes {p.width:,} "
                "numbers a row"
            )
        return tuple(lines)


def pose_pieces(
    graph: LatentGraph,
    source: Source,
    smoothing: PseudoCounts,
    knowledge: Knowledge,
    blocks: bool = False,
) -> PiecesProblem:
    """Look at the rows once and wire every piece; for rows in `blocks`, too, if asked for."""
    check_graph(graph)
    seen = count_once(graph, source, cut_graph(graph, graph.latent).closed)
    prior = prior_of_tables(graph, seen.marginals, read_smoothing(graph, smoothing), knowledge)
    telling = with_ancestors(graph.parents(), graph.observed)
    barren = [str(graph.names[v]) for v in sorted(graph.latent) if v not in telling]
    if barren:
        raise PlanError(
            f"nothing is known of {', '.join(barren[:8])}: no column lies below. Leave such "
            "latents out of the graph."
        )
    parental = {a for a, _ in graph.edges}
    cut = cut_graph(graph, graph.latent | parental.intersection(seen.holes))
    flat = {v: np.zeros(graph.states[v] or 1) for v in range(len(graph.names))}
    problem = TableProblem(
        graph, source, seen.weight, seen.holes, prior or Prior(flat), Knowledge()
    )
    pieces = tuple(pose_piece(problem, piece) for piece in cut.pieces)
    counts = seen.counts_of(cut.closed)
    wired: Wired = ()
    if blocks or not isinstance(source, LocalRows):
        wired = tuple(_wire(problem, p, seen.holes) for p in pieces)
    told = (counts, seen.weight, seen.marginals, prior, knowledge, wired)
    return PiecesProblem(graph, source, pieces, *told)


def _wire(
    problem: TableProblem, p: PieceProblem, holes: Scope
) -> tuple[EStep, Scope, Scope, Scope]:
    estep = p.parts[0].estep if len(p.parts) == 1 else p.piece.wire(holes)
    return estep, problem.places(p.piece), p.piece.variables, p.piece.families


def _sums_of_pieces(wired: Wired, tables: Tables, rows: Rows) -> Moments:
    """The E-steps of all pieces over a block of rows."""
    sums: dict[str, Array] = {LOG: np.zeros(1)}
    for estep, columns, variables, families in wired:
        number = {v: k for k, v in enumerate(variables)}
        own = {number[v]: tables[v] for v in families}
        _add(sums, sum_counts(estep, own, piece_columns(rows, columns)), variables)
    return Moments("pieces", rows.total, len(rows), sums)


def _add(sums: dict[str, Array], found: Moments, variables: Scope) -> None:
    """Sums of a piece onto those of the whole graph, by its numbers."""
    for name, total in found.sums.items():
        own = name
        if name.startswith("counts/"):
            own = f"counts/{variables[int(name.removeprefix('counts/'))]}"
        sums[own] = sums[own] + total if own in sums else total


def _on(p: PieceProblem, threads: int) -> PieceProblem:
    parts = []
    for part in p.parts:
        source = part.source
        if isinstance(source, LocalRows):
            source = LocalRows(source.rows, source.block_rows, threads)
        parts.append(replace(part, source=source))
    return replace(p, parts=tuple(parts))
