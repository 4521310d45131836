"""One start of a latent class from the counts of its pairs of columns: rows by what pairs tell.

    M = (P_ij(a, b) - P_a P_b) / √(P_a P_b), zero within a column;  z(row) = Σ_i V[x_i] / √P[x_i]

Given the class columns know nothing of each other, so M has rank classes - 1 up to what was left
out on its diagonal. Rows cut into clusters by their places z on its first eigenvectors V are
classes. Seeds that lie far apart may all come to one poor optimum; this start sees all rows.
"""

from __future__ import annotations

import numpy as np

from latentia.linear_algebra import eigh
from latentia.networks.accelerate import Tables
from latentia.networks.class_rows import SurveyRows
from latentia.networks.k_means import cluster_distances
from latentia.typing import Array

PSEUDO_COUNT = 0.5
RARE = 1e-12


def pair_tables(rows: SurveyRows) -> Tables:
    """Tables by the piece's own numbers."""
    marks, weight = rows.marks, rows.weight
    place = _places(rows)
    far = cluster_distances(np.ascontiguousarray(place.T)[None], weight, rows.classes)[0]
    own = np.zeros((rows.classes, len(weight)))
    own[far.argmin(axis=0), np.arange(len(weight))] = weight
    met = own @ marks + PSEUDO_COUNT  # (classes, codes)
    size = own.sum(axis=1) + PSEUDO_COUNT
    tables = {rows.latent: size / size.sum()}
    for v, first in zip(rows.columns, rows.begin, strict=True):
        block = met[:, first : first + rows.states[v]]
        tables[v] = block / block.sum(axis=1, keepdims=True)
    return dict(sorted(tables.items()))


def _places(rows: SurveyRows) -> Array:
    """Where rows lie by what pairs of columns tell, (rows, classes - 1), axes of variance 1."""
    weight, column = rows.weight, rows.column
    counts = rows.pairs
    single = counts.diagonal()
    share = single / np.maximum(np.add.reduceat(single, rows.begin), RARE)[column]
    scale = np.sqrt(np.maximum(share, RARE))
    both = np.multiply.outer(share, share)
    told = counts / np.maximum(rows.met_together, RARE) - both
    told /= np.multiply.outer(scale, scale)
    told[column[:, None] == column] = 0.0
    axes = eigh(told)[1][:, ::-1][:, : rows.classes - 1]
    place = rows.marks @ (axes / scale[:, None])
    total = max(float(weight.sum()), RARE)
    place -= weight @ place / total
    place /= np.sqrt(weight @ place**2 / total + RARE)
    return place
