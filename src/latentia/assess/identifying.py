"""Can the states of a latent be told at all? By rank, and by how flat the likelihood is.

With c the expected counts of one row, T the tables around the latent and m the expected mass of
each of their rows, u = (c - n T) / √(m T) is the score of a row in units in which rows with known
states would have information one in every free direction. The eigenvalues of E[u uᵀ] lie between
0 and 1: what is left of that where the latent is hidden. A zero more than tables have rows is a
direction that no number of rows can tell (the rank falls short); where one is small, probabilities
have errors far beyond those that rows with known states would leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import final

import numpy as np

from latentia.assess.influence import row_counts
from latentia.data.rows import Rows
from latentia.errors import PlanError
from latentia.exact.estep import pack_rows
from latentia.exact.pieces import Piece, cut_graph, with_ancestors
from latentia.exact.row_posteriors import passed_up
from latentia.exact.table_answers import TableAnswers
from latentia.linear_algebra import eigh
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Codes, Label

MOST_PARAMETERS = 800  # an eigenvalue problem of their cube
MOST_CELLS = 2**12  # joint states of columns that are all looked at; beyond, rows are drawn
DRAWN = 6000  # rows
NOTHING = 1e-9  # masses and cells below are none
RANK = 1e-7  # eigenvalues below are zero
CLEAR, UNTOLD = 0.05, 0.2  # standard errors of a probability: with known states, without
SHARE = 0.1  # of a direction, in the tables around a latent: it is about the latent
ALIKE = 0.02  # states of a latent that differ by less say the same
EMPTY = 1e-3


@final
@dataclass(frozen=True, slots=True)
class Told:
    """How much rows can tell of the tables around a latent."""

    free: int  # numbers to be learned
    rank: int  # directions that rows can tell
    errors: Array  # standard errors of its probabilities, from one row; none if the rank is short
    known: Array  # the same if the states were known


def latent_doubts(
    answers: TableAnswers,
    latent: Label,
    weight: float,
    states: Sequence[object] | None = None,
    counted: bool = True,
) -> tuple[str, ...]:
    """Why the states of a latent may not be what they seem; nothing if all is well.

    `counted`: cells of tables are what is learned; not so for the grids of continuous columns.
    """
    graph, h = answers.graph, answers.graph.index(latent)
    names = [str(s) for s in (states or range(graph.states[h] or 1))]
    found = [*_alike(answers, h, names), *_exchangeable(graph, h)]
    told = told_of(answers, h) if counted else None
    if told is not None:
        found += _by_information(told, latent, weight)
    return tuple(found)


def _by_information(told: Told, latent: Label, weight: float) -> list[str]:
    if told.rank < told.free:
        return [
            f"{latent} cannot be identified: its columns tell {told.rank} of the {told.free} free "
            "numbers in the tables around it, whatever the number of rows. Add columns that depend "
            "on it, or give it fewer states."
        ]
    if not weight > 0 or not len(told.errors):
        return []
    errors, known = told.errors / np.sqrt(weight), told.known / np.sqrt(weight)
    blurred = np.where(known < CLEAR, errors, 0.0)
    worst = int(blurred.argmax())
    if blurred[worst] < UNTOLD:
        return []
    return [
        f"the likelihood is nearly flat around {latent}: by {weight:,.0f} rows a probability in "
        f"its tables is known to ± {errors[worst]:.2f}, where known states would leave "
        f"± {known[worst]:.3f}. Add columns or rows, or give it fewer states."
    ]


def _alike(answers: TableAnswers, h: int, names: Sequence[str]) -> list[str]:
    """States that are empty, or say the same of every column."""
    graph = answers.graph
    shares = answers.posteriors(None, [graph.names[h]])[graph.names[h]][0]
    found = [
        f"state {names[k]} of {graph.names[h]} is empty ({shares[k]:.1g} of the rows). Give it "
        "fewer states."
        for k in np.flatnonzero(shares < EMPTY).tolist()
    ]
    alive = np.flatnonzero(shares >= EMPTY)
    evidence = np.full((len(alive), len(graph.names)), -1)
    evidence[:, h] = alive
    told = answers.posteriors(evidence, [graph.names[x] for x in graph.observed])
    for i, j in combinations(range(len(alive)), 2):
        far = max((0.5 * float(np.abs(p[i] - p[j]).sum()) for p in told.values()), default=0.0)
        if far < ALIKE:
            found.append(
                f"states {names[alive[i]]} and {names[alive[j]]} of {graph.names[h]} say the same "
                f"of every column (they differ by {far:.2g} at most). Give it fewer states."
            )
    return found


def _exchangeable(graph: LatentGraph, h: int) -> list[str]:
    """Another latent with the same neighbours: which is which is chance."""
    around = _neighbours(graph, h)
    twins = [
        graph.names[u]
        for u in sorted(graph.latent - {h})
        if graph.states[u] == graph.states[h] and _neighbours(graph, u) == around
    ]
    if not twins:
        return []
    others = ", ".join(map(str, twins))
    return [
        f"{graph.names[h]} and {others} can change places: they have the same parents, children "
        "and numbers of states. Which is which is chance; give one of them a column of its own."
    ]


def _neighbours(graph: LatentGraph, h: int) -> tuple[frozenset[int], frozenset[int]]:
    return (
        frozenset(a for a, b in graph.edges if b == h),
        frozenset(b for a, b in graph.edges if a == h),
    )


# --- information ----------------------------------------------------------------------------------


def told_of(answers: TableAnswers, h: int, seed: int = 0) -> Told | None:
    """Rank and errors around a latent; None where that is too much to compute."""
    graph = answers.graph
    telling = with_ancestors(graph.parents(), graph.observed)
    if h not in telling:
        return Told(1, 0, np.zeros(0), np.zeros(0))
    cut = cut_graph(graph, graph.latent & telling, telling)
    piece = next(p for p in cut.pieces if h in p.unknown)
    cells = sum(answers.tables[v].size for v in piece.families)
    if cells > MOST_PARAMETERS:
        return None
    try:
        rows, share = _weighted_rows(answers, piece, seed)
        return _read(*_information(answers, piece, rows, share, h))
    except PlanError:  # too wide
        return None


def _weighted_rows(answers: TableAnswers, piece: Piece, seed: int) -> tuple[Rows, Array]:
    """Rows of the piece's columns with their probabilities: all of them, or so many draws."""
    sizes = [answers.states[v] for v in piece.columns]
    if np.prod(sizes, dtype=float) <= MOST_CELLS:
        codes = np.indices(sizes).reshape(len(sizes), -1).T  # (cells, columns)
        wide = np.full((len(codes), len(answers.names)), -1)
        wide[:, list(piece.columns)] = codes
        share = np.exp(answers.log_evidence(wide))
        codes, share = codes[share > 0], share[share > 0]
    else:
        drawn = answers.sample(DRAWN, seed, latents=True)[:, list(piece.columns)]
        codes, count = np.unique(drawn, axis=0, return_counts=True)
        share = count / DRAWN
    return Rows(tuple(np.ascontiguousarray(c) for c in codes.T)), share


def _information(
    answers: TableAnswers, piece: Piece, rows: Rows, share: Array, h: int
) -> tuple[Array, Array, Codes, Array]:
    """E[u uᵀ] over all cells of the piece, what is not free, which cells are about h, units."""
    estep, tables = piece.wire(), piece.inside(answers.tables)
    order = sorted(tables)
    packed = pack_rows(estep, rows)
    parts: list[tuple[slice, dict[int, Array]]] = []
    mass = {v: np.zeros(tables[v].size // tables[v].shape[-1]) for v in order}
    for where, codes, up, used in passed_up(estep, tables, packed):
        counts = row_counts(estep, used, up, codes)
        parts.append((where, counts))
        for v in order:
            each = counts[v].reshape(len(mass[v]), -1, counts[v].shape[-1]).sum(axis=1)
            mass[v] += each @ share[where]
    cells = sum(tables[v].size for v in order)
    U = np.zeros((cells, cells))
    for where, counts in parts:
        u = np.concatenate([_scaled(tables[v], mass[v], counts[v]) for v in order])
        U += (u * share[where]) @ u.T
    near = {piece.number[h], *(b for a, b in piece.graph.edges if a == piece.number[h])}
    about = np.concatenate([np.full(tables[v].size, v in near) for v in order])
    flat = [(tables[v].reshape(len(mass[v]), -1), mass[v]) for v in order]
    unit = np.concatenate([np.sqrt(T / np.maximum(m, NOTHING)[:, None]).ravel() for T, m in flat])
    return U, _held(flat), about, unit


def _held(tables: Sequence[tuple[Array, Array]]) -> Array:
    """The projection on what is not free: a table's row sums to one, dead cells stay."""
    cells = sum(T.size for T, _ in tables)
    found = np.zeros((cells, cells))
    start = 0
    for T, mass in tables:
        for t, m in zip(T, mass, strict=True):
            alive = (t > NOTHING) & bool(m > NOTHING)
            unit = np.sqrt(np.where(alive, t, 0.0) / max(float(t[alive].sum()), 1e-300))
            at = slice(start, start + len(t))
            found[at, at] = np.outer(unit, unit) + np.diag((~alive).astype(float))
            start += len(t)
    return found


def _scaled(table: Array, mass: Array, counts: Array) -> Array:
    """(c - n T) / √(m T), (cells, rows); zero where there is nothing."""
    T = table.reshape(len(mass), -1, 1)
    c = counts.reshape(*T.shape[:2], -1)
    unit = np.sqrt(mass[:, None, None] * T)
    alive = (T > NOTHING) & (mass > NOTHING)[:, None, None]
    away = c - c.sum(axis=1, keepdims=True) * T
    return np.asarray(np.where(alive, away / np.where(alive, unit, 1.0), 0.0).reshape(T.size, -1))


def _read(U: Array, held: Array, about: Codes, unit: Array) -> Told:
    """Rank and errors, of what is about the latent.

    `held`: what is no free direction, as a projection; its eigenvalues then are one. `unit` turns
    the coordinates of u into probabilities: √(T / m).
    """
    values, vectors = eigh(U + held)
    mine = values[(vectors[about] ** 2).sum(axis=0) >= SHARE]
    free = len(U) - round(float(np.trace(held)))
    lost = int((mine <= RANK).sum())
    if lost:
        return Told(free, free - lost, np.zeros(0), np.zeros(0))
    inverse = ((vectors**2) / np.maximum(values, RANK)).sum(axis=1) - np.diagonal(held)
    spread = np.sqrt(np.maximum(inverse, 0.0)) * unit
    known = np.sqrt(np.maximum(1.0 - np.diagonal(held), 0.0)) * unit
    return Told(free, free, spread[about], known[about])
