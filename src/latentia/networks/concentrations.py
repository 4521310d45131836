"""How far rows of tables lean on their common share, as their counts say: by evidence (design 13).

    log P(n | a, μ) = Σ_pa [log Γ(a) - log Γ(n(pa) + a)]
                      + Σ_pa,x [log Γ(n(pa, x) + a μ(x)) - log Γ(a μ(x))]

(Dirichlet-multinomial), with log a ~ N(log least, 2²) before any row. A row may as well have the
least, one of five before its counts are seen: one that has a mind of its own (the last row of an
"and") then keeps it. Its pseudo-counts are the mean of both.

Networks have hundreds of small tables: all rows of all of them are worked on at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy

from latentia.typing import Array, Codes

MOST = 100.0  # times the least pseudo-counts
TRIED = 14  # pseudo-counts between them, evenly by their logarithm
STEPS = np.linspace(0.0, np.log(MOST), TRIED)  # of log a
WIDTH = 2.0  # of log a, before any row
LOG_ODDS = np.log(4.0)  # that a row leans, before its counts are seen
MOST_CELLS = 2**18  # that are worked on at once


@final
@dataclass(frozen=True, slots=True)
class CountedTable:
    """Counts of a table's rows, (rows, states), the share that they lean on, the least of it."""

    counts: Array
    share: Array  # (states,)
    least: float


@final
@dataclass(frozen=True, slots=True)
class StackedRows:
    """Rows that are seen, of all tables: cells without a count say nothing, and are left out."""

    table: Codes  # of each row
    totals: Array  # of each row
    first: Codes  # of each row: where its cells begin
    cell: Array  # counts above zero
    pair: Codes  # of each cell: its table and state
    share: Array  # of each pair
    least: Array  # of each table
    table_of_pair: Codes


def concentrations(tables: Sequence[CountedTable]) -> list[Array]:
    """Pseudo-counts of every row of each table, (rows,).

    Rows that have something in common lean on it, others do not, and one that has a mind of its own
    keeps it:

    >>> alike = np.array([[90.0, 10.0], [8.0, 1.0], [7.0, 2.0], [16.0, 4.0]])
    >>> apart = np.array([[90.0, 10.0], [0.0, 9.0], [9.0, 0.0], [3.0, 17.0]])
    >>> odd = np.concatenate([np.tile(alike, (3, 1)), [[0.0, 40.0]]])
    >>> share = np.array([0.8, 0.2])
    >>> found = concentrations([CountedTable(n, share, 1.0) for n in (alike, apart, odd)])
    >>> bool(found[0].min() > 3), bool(found[1].max() < 2), found[2][-1].round(2)
    (True, True, np.float64(1.0))
    """
    seen = [np.flatnonzero(table.counts.any(axis=1)) for table in tables]
    found = [np.full(len(table.counts), table.least) for table in tables]
    several = [k for k, some in enumerate(seen) if len(some) > 1]
    if not several:
        return found
    rows = stacked_rows([tables[k] for k in several], [seen[k] for k in several])
    begin = np.searchsorted(rows.table, np.arange(len(several)))
    told = evidence_of_rows(rows, np.exp(STEPS))
    gain = told - told[0]  # over the least pseudo-counts, (tried, rows)
    level = np.add.reduceat(np.logaddexp(gain + LOG_ODDS, 0.0), begin, axis=1)
    step = _top(level - 0.5 * (STEPS[:, None] / WIDTH) ** 2)  # of each table
    low = np.minimum((step / STEPS[1]).astype(np.intp), TRIED - 2)
    part, low = (step / STEPS[1] - low)[rows.table], low[rows.table]
    each = np.arange(len(rows.table))
    leans = (1.0 - part) * gain[low, each] + part * gain[low + 1, each]
    likely = scipy.special.expit(leans + LOG_ODDS)
    for k, own, top in zip(several, np.split(likely, begin[1:]), step, strict=True):
        least = tables[k].least
        found[k][:] = least * np.exp(top)  # of rows that are not seen, too
        found[k][seen[k]] = least + (least * np.exp(top) - least) * own
    return found


def stacked_rows(tables: Sequence[CountedTable], seen: Sequence[Codes]) -> StackedRows:
    """The seen rows of the tables, one table after the other."""
    states = np.array([len(table.share) for table in tables])
    kept = [len(some) for some in seen]
    flat = np.concatenate([t.counts[s].ravel() for t, s in zip(tables, seen, strict=True)])
    table = np.repeat(np.arange(len(tables)), kept)
    length = states[table]
    first = np.cumsum(length) - length
    place = np.flatnonzero(flat)
    row = np.repeat(np.arange(len(table)), length)[place]
    offset = np.cumsum(states) - states
    return StackedRows(
        table,
        np.add.reduceat(flat, first),
        np.searchsorted(row, np.arange(len(table))),
        flat[place],
        place - first[row] + offset[table[row]],
        np.concatenate([t.share for t in tables]),
        np.array([t.least for t in tables]),
        np.repeat(np.arange(len(tables)), states),
    )


def evidence_of_rows(rows: StackedRows, times: Array) -> Array:
    """log P(row of counts | a, share) of pseudo-counts so many times the least: (tried, rows)."""
    log_gamma = scipy.special.gammaln
    found = np.empty((len(times), len(rows.table)))
    together = max(1, MOST_CELLS // len(rows.cell))
    for i in range(0, len(times), together):
        a = times[i : i + together, None] * rows.least  # (some, tables)
        pseudo = a[:, rows.table_of_pair] * rows.share
        cells = log_gamma(rows.cell + pseudo[:, rows.pair]) - log_gamma(pseudo)[:, rows.pair]
        told = np.add.reduceat(cells, rows.first, axis=1)
        own = a[:, rows.table]
        found[i : i + together] = told + log_gamma(a)[:, rows.table] - log_gamma(own + rows.totals)
    return found


def _top(level: Array) -> Array:
    """Where each column of (tried, tables) is largest, by a parabola: no jumps."""
    best, each = level.argmax(axis=0), np.arange(level.shape[1])
    inner = np.clip(best, 1, TRIED - 2)
    below, top, above = level[inner - 1, each], level[inner, each], level[inner + 1, each]
    bend = below - 2.0 * top + above
    inside = (best == inner) & (bend < 0)
    shift = np.where(inside, 0.5 * (below - above) / np.where(inside, bend, 1.0), 0.0)
    return np.asarray(STEPS[best] + shift * STEPS[1])
