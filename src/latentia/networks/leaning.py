"""Rows of a table lean on what they have in common, as far as their counts say (design 13).

    T(x | pa) = (n(pa, x) + a μ(x)) / (n(pa) + a)

Where a parent matters little, or has many states and few rows, its table's rows are nearly alike,
and more pseudo-counts a towards the common share μ than the least tell them better; where it
decides, the least are best. The counts themselves tell which, by their evidence

    log P(n | a, μ) = Σ_pa [log Γ(a) - log Γ(n(pa) + a)]
                      + Σ_pa,x [log Γ(n(pa, x) + a μ(x)) - log Γ(a μ(x))]

(Dirichlet-multinomial), with log a ~ N(log least, 2²) before any row. A row may as well have the
least, one of five before its counts are seen: one that has a mind of its own (the last row of an
"and") then keeps it. Its pseudo-counts are the mean of both.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
import scipy

from latentia.exact.pieces import Cut
from latentia.networks.accelerate import Prior, Tables
from latentia.networks.piece_problem import PieceProblem, TableProblem, pose_piece
from latentia.networks.spoken_rows import spoken_rows
from latentia.typing import Array

MOST = 100.0  # times the least pseudo-counts
TRIED = 14  # pseudo-counts between them, evenly by their logarithm
STEPS = np.linspace(0.0, np.log(MOST), TRIED)  # of log a
WIDTH = 2.0  # of log a, before any row
LOG_ODDS = np.log(4.0)  # that a row leans, before its counts are seen
TINY = 1e-9  # of a share
MOST_CELLS = 2**18  # that are worked on at once


def concentrations(counts: Array, share: Array, least: float) -> Array:
    """Pseudo-counts of every row of `counts`, (rows, states), towards `share`, (states,): (rows,).

    Rows that have something in common lean on it, others do not, and one that has a mind of its own
    keeps it:

    >>> alike = np.array([[90.0, 10.0], [8.0, 1.0], [7.0, 2.0], [16.0, 4.0]])
    >>> apart = np.array([[90.0, 10.0], [0.0, 9.0], [9.0, 0.0], [3.0, 17.0]])
    >>> share = np.array([0.8, 0.2])
    >>> bool(concentrations(alike, share, 1.0).min() > 3)
    True
    >>> bool(concentrations(apart, share, 1.0).max() < 2)
    True
    >>> odd = np.concatenate([np.tile(alike, (3, 1)), [[0.0, 40.0]]])
    >>> concentrations(odd, share, 1.0)[-1].round(2)
    np.float64(1.0)
    """
    seen = counts.sum(axis=1) > 0
    if seen.sum() < 2:
        return np.full(len(counts), least)
    told = log_evidence_of_rows(counts[seen], share, least * np.exp(STEPS))
    gain = told - told[0]  # over the least pseudo-counts, (tried, rows)
    level = np.logaddexp(gain + LOG_ODDS, 0.0).sum(axis=1) - 0.5 * (STEPS / WIDTH) ** 2
    step = _top(STEPS, level)
    low = min(int(step // STEPS[1]), TRIED - 2)
    part = step / STEPS[1] - low
    leans = (1.0 - part) * gain[low] + part * gain[low + 1]
    found = np.full(len(counts), least * np.exp(step))  # of rows that are not seen, too
    found[seen] = least + (found[seen] - least) * scipy.special.expit(leans + LOG_ODDS)
    return found


def _top(x: Array, y: Array) -> float:
    """Where y is largest, between even steps of x by a parabola: no jumps."""
    best = int(y.argmax())
    if best in (0, len(x) - 1):
        return float(x[best])
    below, top, above = y[best - 1 : best + 2]
    return float(x[best] + 0.5 * (below - above) / (below - 2.0 * top + above) * (x[1] - x[0]))


def log_evidence_of_rows(counts: Array, share: Array, a: Array) -> Array:
    """log P(row of counts | a, share) of each of the pseudo-counts a: (tried, rows); none is empty.

    Cells without a count say nothing, and large tables are made of them.
    """
    log_gamma = scipy.special.gammaln
    row, state = counts.nonzero()
    n, totals = counts[row, state], counts.sum(axis=1)
    first = np.searchsorted(row, np.arange(len(counts)))
    found = np.empty((len(a), len(counts)))
    together = max(1, MOST_CELLS // len(row))
    for i in range(0, len(a), together):
        some = a[i : i + together, None]
        pseudo = some * share  # (some, states)
        cells = log_gamma(n + pseudo[:, state]) - log_gamma(pseudo)[:, state]
        told = np.add.reduceat(cells, first, axis=1)
        found[i : i + together] = told + log_gamma(some) - log_gamma(some + totals)
    return found


def leaning(counts: Tables, prior: Prior, still: Collection[int], latent: Collection[int]) -> Prior:
    """Pseudo-counts of tables whose (expected) counts are told; those in `still` stay.

    Latents lean on their own expected shares: nothing else tells these.
    """
    found: dict[int, Array] = dict(prior.counts)
    for v, n in counts.items():
        a = prior.counts[v]
        least = float(a.sum()) if a.ndim == 1 else 0.0
        if v in still or n.ndim < 2 or not least > 0:
            continue
        own = n.reshape(-1, n.shape[-1])
        share = own.sum(axis=0) + a if v in latent else a
        share = np.maximum(share / share.sum(), TINY)
        pseudo = np.multiply.outer(concentrations(own, share, least), share / share.sum())
        found[v] = pseudo.reshape(n.shape)
    return Prior(found)


def leaning_counts(problem: TableProblem, counts: Tables) -> Prior:
    """The prior with that of counted families leaning."""
    still = _still(problem.knowledge.cells, problem.knowledge.tied, problem.leaves)
    return leaning(counts, problem.prior, still, problem.graph.latent)


def leaning_piece(whole: PieceProblem, tables: Tables) -> PieceProblem:
    """The same piece, its prior leaning as the expected counts under these tables say."""
    known = whole.knowledge
    still = _still(known.cells, known.tied, whole.leaves)
    prior = leaning(whole.estep(tables)[0], whole.prior, still, whole.piece.graph.latent)
    spoken = whole.spoken
    if spoken is not None and whole.distinct is not None:
        spoken = spoken_rows(whole.piece, whole.distinct, prior)
    return replace(whole, prior=prior, spoken=spoken)


def leaning_problem(problem: TableProblem, cut: Cut, counts: Tables, tables: Tables) -> Prior:
    """The prior that tables of all rows were learned with, counted ones and climbed ones."""
    found = dict(leaning_counts(problem, counts).counts)
    for piece in cut.pieces:
        own = leaning_piece(pose_piece(problem, piece), piece.inside(tables))
        found |= piece.outside(own.prior.counts)
    return Prior(found)


def _still(
    cells: Mapping[int, object], tied: Collection[Collection[int]], leaves: Mapping[int, object]
) -> set[int]:
    """Tables that are partly known, shared, or Gaussians: their prior is as it was given."""
    return set(cells).union(leaves, *tied)
