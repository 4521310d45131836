"""The graph's own tables without one group of rows each: error bars of what they answer.

As tables are learned, so they are taken apart: families that rows know as a whole are counted
again, group by group. A piece of latents climbs again without the group, from where it stands
(climbed_bars.py); where rows are many, or not in memory, it moves by the influence of the group on
it, in one pass over the rows. Steps are small, so that the states of latents keep their numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import final

import numpy as np

from latentia.assess.climbed_bars import (
    climbed_without,
    climbs_again,
    cut_as_learned,
    pose_tables,
)
from latentia.assess.influence import (
    ONE_MORE,
    free_shares,
    influence_of,
    moved,
    steps_without,
)
from latentia.assess.jackknife import Replicates, check_groups, group_weights, in_groups
from latentia.data.moments import Moments
from latentia.data.rows import Rows, Source
from latentia.exact.estep import pack_rows
from latentia.exact.estep_wiring import EStep
from latentia.exact.own_network import OwnNetwork
from latentia.exact.pieces import Piece
from latentia.exact.table_answers import TableAnswers
from latentia.inference.operators import Operators
from latentia.linear_algebra import one_thread
from latentia.networks.counting import family_counts
from latentia.networks.knowledge import Knowledge, PseudoCounts
from latentia.networks.piece_problem import knowledge_of, piece_columns
from latentia.structure.graph import LatentGraph
from latentia.typing import Array

Tables = Mapping[int, Array]


def network_replicates(
    operators: Operators,
    source: Source,
    groups: int,
    seed: int,
    knowledge: Knowledge | None = None,
    smoothing: PseudoCounts = 0.0,
) -> Replicates:
    """Operators whose tables answer, with the tables of all rows but one group each."""
    network = operators.network
    assert isinstance(network, OwnNetwork)
    found = tables_with_and_without(
        network.graph, network.tables, source, groups, seed, knowledge, smoothing
    )
    whole, *without = (
        replace(operators, network=OwnNetwork(table_answers(network.graph, each), network.leaves))
        for each in found
    )
    return Replicates(whole, tuple(without))


def with_tables_without(
    replicates: Replicates,
    operators: Operators,
    source: Source,
    seed: int,
    knowledge: Knowledge | None = None,
    smoothing: PseudoCounts = 0.0,
) -> Replicates:
    """The same, with the tables that tell latents beside each."""
    own = operators.beside
    if own is None:
        return replicates
    every = (replicates.whole, *replicates.without)
    tables = tables_with_and_without(
        own.graph, own.tables, source, replicates.groups, seed, knowledge, smoothing
    )
    whole, *without = (
        replace(each, beside=table_answers(own.graph, found))
        for each, found in zip(every, tables, strict=True)
    )
    return Replicates(whole, tuple(without))


def table_answers(graph: LatentGraph, tables: Tables) -> TableAnswers:
    return TableAnswers(graph, {graph.names[v]: table for v, table in tables.items()})


# --- tables ---------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, slots=True)
class _Part:
    """A piece, wired, with the places of its columns among those of a row."""

    piece: Piece
    estep: EStep
    places: tuple[int, ...]
    tables: Tables  # by the piece's own numbers
    shares: Tables  # the same over cells that are free


def own_tables_without(
    graph: LatentGraph,
    tables: Tables,
    source: Source,
    groups: int,
    seed: int = 0,
    knowledge: Knowledge | None = None,
    smoothing: PseudoCounts = 0.0,
) -> list[dict[int, Array]]:
    """Tables of all rows but one group each; known cells stay, and tied tables move as one."""
    found = tables_with_and_without(graph, tables, source, groups, seed, knowledge, smoothing)
    return found[1:]


def tables_with_and_without(
    graph: LatentGraph,
    tables: Tables,
    source: Source,
    groups: int,
    seed: int = 0,
    knowledge: Knowledge | None = None,
    smoothing: PseudoCounts = 0.0,
) -> list[dict[int, Array]]:
    """The same after those of all rows, which have come to rest as these have.

    `smoothing` is what tables were learned with.
    """
    known = knowledge or Knowledge()
    problem = pose_tables(graph, source, smoothing, known, tables)
    check_groups(problem.weight, groups)
    holes = set(problem.holes)
    cut = cut_as_learned(problem)
    climbing = [piece for piece in cut.pieces if climbs_again(problem, piece, tables)]
    still = [piece for piece in cut.pieces if piece not in climbing]
    parts = [_part(graph, tables, piece, holes, known) for piece in still]
    with one_thread():
        found = source.fold(partial(_sums, graph, cut.closed, parts, groups, seed)).sums
        steps = [
            steps_without(p.shares, _own(found, k), knowledge_of(p.piece, known))
            for k, p in enumerate(parts)
        ]
        climbed = [climbed_without(problem, p, tables, groups, seed) for p in climbing]
    every = [dict(tables)]
    counts = known.pooled({v: found[f"closed/{v}"] for v in cut.closed})
    for g in range(groups):
        changed = dict(tables)
        changed |= {v: _counted_without(tables[v], counts[v], g) for v in cut.closed}
        for part, step in zip(parts, steps, strict=True):
            changed |= part.piece.outside(moved(part.tables, step[:, g]))
        every.append(known.held(changed) if known.cells else changed)
    for piece, own in zip(climbing, climbed, strict=True):
        for changed, each in zip(every, own, strict=True):
            changed |= piece.outside(each)
    return every


def _part(
    graph: LatentGraph, tables: Tables, piece: Piece, holes: set[int], known: Knowledge
) -> _Part:
    own = piece.inside(tables)
    place = {v: i for i, v in enumerate(graph.observed)}
    given = piece.inside(known.cells)
    shares = {v: free_shares(table, given.get(v)) for v, table in own.items()}
    estep = piece.wire([v for v in piece.columns if v in holes])
    return _Part(piece, estep, tuple(place[v] for v in piece.columns), own, shares)


def _sums(
    graph: LatentGraph,
    closed: Sequence[int],
    parts: Sequence[_Part],
    groups: int,
    seed: int,
    rows: Rows,
) -> Moments:
    """Counts of closed families by group, (groups, cells …), and what moves each piece."""
    sums: dict[str, Array] = {}
    if closed:
        found = [family_counts(graph, closed, some) for some in in_groups(rows, groups, seed)]
        for v in closed:
            sums[f"closed/{v}"] = np.stack([each.sums[f"counts/{v}"] for each in found])
    share = group_weights(rows, groups, seed)
    for k, part in enumerate(parts):
        some = pack_rows(part.estep, piece_columns(rows, part.places))
        own = influence_of(part.estep, part.tables, part.shares, some, share)
        sums |= {f"{k}/{name}": total for name, total in own.items()}
    return Moments(f"influence in {groups} groups", rows.total, len(rows), sums)


def _own(sums: Mapping[str, Array], k: int) -> dict[str, Array]:
    return {name: sums[f"{k}/{name}"] for name in ("information", "scores", "counts")}


def _counted_without(table: Array, counts: Array, g: int) -> Array:
    """A counted table without the rows of a group: as its counts change, so does it."""
    whole = counts.sum(axis=0)
    more = ONE_MORE * table  # rows of the table that nobody speaks of stay put
    found = table * (whole - counts[g] + more) / np.where(whole + more > 0, whole + more, 1.0)
    total = found.sum(axis=-1, keepdims=True)
    return np.asarray(np.where(total > 0, found / np.where(total > 0, total, 1.0), table))
