"""Does a latent class tell its columns? What it expects of their pairs against what rows show.

    z²(i = a, j = b) = (n_ab - N_ij P(a, b))² / (N_ij P(a, b) + 1/2),  P(a, b) = Σ_h π_h θ_ha θ_hb

N_ij counts the rows in which both cells are there. Where columns depend on each other given the
class, some pair stands out by many times its degrees of freedom; where they do not, tables of
maximum likelihood leave a little less than one for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.networks.accelerate import Tables
from latentia.networks.class_rows import SurveyRows

HALF_A_ROW = 0.5  # added to what is expected: a cell of which nearly nothing is must not decide


@final
@dataclass(frozen=True, slots=True)
class PairMisfit:
    """How far pairs of columns are from what a latent class expects, and what it tells at all."""

    per_freedom: float  # Σ z² over the degrees of freedom of all pairs of columns
    worst: float  # z² of one cell
    cells: int
    apart: float  # log-likelihood of columns that know nothing of each other


def pair_misfit(rows: SurveyRows, tables: Tables) -> PairMisfit:
    """Of tables by the numbers that the rows have."""
    shown, column = rows.pairs, rows.column
    flat = np.concatenate([tables[v] for v in rows.columns], axis=1)  # (classes, codes)
    expected = flat.T @ (np.asarray(tables[rows.latent])[:, None] * flat) * rows.met_together
    upper = column[:, None] < column
    z2 = ((shown - expected)[upper] ** 2) / (expected[upper] + HALF_A_ROW)
    free = np.array([rows.states[v] - 1 for v in rows.columns])
    freedom = max((free.sum() ** 2 - (free**2).sum()) / 2, 1)
    single = shown.diagonal()
    there = np.add.reduceat(single, rows.begin)[column]
    apart = single @ np.log(np.where(single > 0, single / np.where(there > 0, there, 1.0), 1.0))
    return PairMisfit(float(z2.sum() / freedom), float(z2.max(initial=0.0)), len(z2), float(apart))
