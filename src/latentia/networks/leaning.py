"""Rows of a table lean on what they have in common, as far as their counts say (design 13).

    T(x | pa) = (n(pa, x) + a μ(x)) / (n(pa) + a)

Where a parent matters little, or has many states and few rows, its table's rows are nearly alike,
and more pseudo-counts a towards the common share μ than the least tell them better; where it
decides, the least are best. The counts themselves tell which, by their evidence

    log P(n | a, μ) = Σ_pa [log Γ(a) - log Γ(n(pa) + a)]
                      + Σ_pa,x [log Γ(n(pa, x) + a μ(x)) - log Γ(a μ(x))]

(Dirichlet-multinomial), with log a ~ N(log least, 2²) before any row.
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
WIDTH = 2.0  # of log a, before any row
TINY = 1e-9  # of a share
MOST_CELLS = 2**18  # that are worked on at once


def concentration(counts: Array, share: Array, least: float) -> float:
    """Pseudo-counts a of every row of `counts`, (rows, states), towards `share`, (states,).

    Rows that have something in common lean on it, others do not:

    >>> alike = np.array([[90.0, 10.0], [8.0, 1.0], [7.0, 2.0]])
    >>> apart = np.array([[90.0, 10.0], [0.0, 9.0], [9.0, 0.0]])
    >>> share = np.array([0.8, 0.2])
    >>> concentration(alike, share, 1.0) > 5 > 2 > concentration(apart, share, 1.0) >= 1
    True
    """
    seen = counts[counts.sum(axis=1) > 0]
    if len(seen) < 2:
        return least
    steps = np.linspace(0.0, np.log(MOST), TRIED)
    tried = least * np.exp(steps)
    together = max(1, MOST_CELLS // seen.size)
    parts = [tried[i : i + together] for i in range(0, TRIED, together)]
    told = np.concatenate([log_evidence(seen, share, a) for a in parts])
    told -= 0.5 * (steps / WIDTH) ** 2
    best = int(told.argmax())
    if best in (0, TRIED - 1):
        return float(least * np.exp(steps[best]))
    below, top, above = told[best - 1 : best + 2]  # a parabola through them: no jumps
    aside = 0.5 * (below - above) / (below - 2.0 * top + above)
    return float(least * np.exp(steps[best] + aside * (steps[1] - steps[0])))


def log_evidence(counts: Array, share: Array, a: Array) -> Array:
    """log P(counts | a, share) of each of the pseudo-counts a, (tried,)."""
    log_gamma = scipy.special.gammaln
    pseudo = np.multiply.outer(a, share)  # (tried, states)
    known = log_gamma(a) * len(counts) - log_gamma(np.add.outer(a, counts.sum(axis=1))).sum(axis=1)
    cells = log_gamma(counts + pseudo[:, None]).sum(axis=(1, 2))
    return np.asarray(known + cells - len(counts) * log_gamma(pseudo).sum(axis=1))


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
        found[v] = concentration(own, share, least) * share / share.sum()
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
