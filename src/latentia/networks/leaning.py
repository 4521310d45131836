"""Rows of a table lean on what they have in common, as far as their counts say (design 13).

    T(x | pa) = (n(pa, x) + a μ(x)) / (n(pa) + a)

Where a parent matters little, or has many states and few rows, its table's rows are nearly alike,
and more pseudo-counts a towards the common share μ than the least tell them better; where it
decides, the least are best. The counts themselves tell which (concentrations.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from latentia.exact.pieces import Cut
from latentia.networks.accelerate import Prior, Tables
from latentia.networks.concentrations import CountedTable, concentrations
from latentia.networks.piece_problem import PieceProblem, TableProblem, pose_piece
from latentia.networks.spoken_rows import spoken_rows
from latentia.typing import Array

TINY = 1e-9  # of a share


def leaning(counts: Tables, prior: Prior, still: Collection[int], latent: Collection[int]) -> Prior:
    """Pseudo-counts of tables whose (expected) counts are told; those in `still` stay.

    Latents lean on their own expected shares: nothing else tells these.
    """
    found: dict[int, Array] = dict(prior.counts)
    asked: dict[int, CountedTable] = {}
    for v, n in counts.items():
        a = prior.counts[v]
        least = float(a.sum()) if a.ndim == 1 else 0.0
        if v in still or n.ndim < 2 or not least > 0:
            continue
        own = n.reshape(-1, n.shape[-1])
        share = own.sum(axis=0) + a if v in latent else a
        asked[v] = CountedTable(own, np.maximum(share / share.sum(), TINY), least)
    for (v, table), a in zip(asked.items(), concentrations(list(asked.values())), strict=True):
        pseudo = np.multiply.outer(a, table.share / table.share.sum())
        found[v] = pseudo.reshape(counts[v].shape)
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
