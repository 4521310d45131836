"""Infinitesimal jackknife of learned tables: what they would be without one group of rows.

With T = softmax(η) row by row, and c the expected counts of one row of data, the score is

    s = c - n T,   n = Σ_x c(x);   J = Σ_rows w s sᵀ;   η without group g:  η - G/(G-1) J⁻¹ s_g.

s_g sums the scores of group g, J is the information that the rows carry. Both are sums over rows,
gathered in one pass; no table is climbed again. Where a table has more mass than its counts (a
prior put it there), the excess counts as so many rows that were seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from latentia.cpts import operators_of
from latentia.errors import DataError
from latentia.estep import EStep, Tables, pack_rows, passed_up
from latentia.jackknife import Replicates, alike, check_groups, group_weights
from latentia.moments import Moments, Rows
from latentia.operators import Operators
from latentia.passes import Factors, Upward, distribute, marginal
from latentia.problem import pose
from latentia.solve import one_thread
from latentia.typing import Array, Source

__all__ = ["moved", "row_counts", "sum_influence", "table_replicates"]

MOST_PARAMETERS = 3000  # J has their square, and each row takes as many steps
ONE_MORE = 1.0  # pseudo-count of every table row: rows of a table that no data speak of stay put
FARTHEST = 1.0  # that a logarithm moves: one group in twenty cannot tell more, a straight line can
RIDGE = 1e-9


def table_replicates(operators: Operators, source: Source, groups: int, seed: int) -> Replicates:
    """Networks without each group, from one pass over the rows."""
    plan, tables = operators.plan, operators.tables
    cells = sum(table.size for table in tables.values())
    if cells > MOST_PARAMETERS:
        raise DataError(
            f"error bars of tables with {cells:,} cells in all are not made (at most "
            f"{MOST_PARAMETERS:,}): memory goes with the square. Give latents fewer states, or use "
            "PBP(refine=False), whose error bars come from sums."
        )
    problem = pose(plan, source)
    check_groups(problem.weight, groups)
    summary = partial(sum_influence, problem.estep, tables, problem.packed, groups, seed)
    found = problem.source.fold(summary)
    with one_thread():
        steps = _steps(tables, found)
    without = (moved(tables, steps[:, g]) for g in range(groups))
    others = (operators_of(plan, each, operators.weight) for each in without)
    return alike(operators, others)


# --- sums over rows -------------------------------------------------------------------------------


def sum_influence(
    estep: EStep, tables: Tables, packed: bool, groups: int, seed: int, rows: Rows
) -> Moments:
    """J, the scores of every group, and the expected counts; tables one after the other."""
    rows = rows if packed else pack_rows(estep, rows)
    share = group_weights(rows, groups, seed)  # (n, G)
    cells = sum(tables[v].size for v in tables)
    J, scores, counts = np.zeros((cells, cells)), np.zeros((cells, groups)), np.zeros(cells)
    for part, codes, up, used in passed_up(estep, tables, rows):
        found = row_counts(estep, used, up, codes)
        c = np.concatenate([found[v] for v in sorted(tables)])  # (cells, n)
        s = np.concatenate([_scores(tables[v], found[v]) for v in sorted(tables)])
        weight = share[part].sum(axis=1)
        J += (s * weight) @ s.T
        scores += s @ share[part]
        counts += c @ weight
    kind = f"influence on the tables of graph {estep.fingerprint}"
    sums = {"information": J, "scores": scores, "counts": counts}
    return Moments(kind, rows.total, len(rows), sums)


def _scores(table: Array, counts: Array) -> Array:
    """c - n T, (cells, n)."""
    m = table.shape[-1]
    c = counts.reshape(-1, m, counts.shape[-1])
    return np.asarray(
        (c - c.sum(axis=1, keepdims=True) * table.reshape(-1, m, 1)).reshape(counts.shape)
    )


def row_counts(
    estep: EStep, factors: Factors, up: Upward, codes: Sequence[Array]
) -> dict[int, Array]:
    """E[1{parents, variable} | row] of every table for every row of a block: (cells, n)."""
    counts: dict[int, Array] = {}
    n = len(up.log)
    for p in estep.free:
        counts |= _witness_counts(estep, p, np.ones((1, n)), codes[p])
    for k, D, belief in distribute(estep, factors, up, None):
        clique = estep.cliques[k]
        if clique.families:
            shared, upper, lower = clique.sizes
            at = clique.sums
            pairs = D.reshape(shared, upper, 1, n) * up.products[k].reshape(shared, 1, lower, n)
            pairs = pairs.reshape(*at.sizes, n).transpose(at.order).reshape(*at.spread, n)
            whole = factors.psi[k][..., None] * pairs
            for f in clique.families:
                own = whole.sum(axis=f.gone) if f.gone else whole
                counts[f.variable] = own.transpose(*f.back, own.ndim - 1).reshape(-1, n)
        for x in clique.inputs:
            for p in x.packs:
                counts |= _witness_counts(estep, p, marginal(x.placing, belief), codes[p])
    return counts


def _witness_counts(estep: EStep, pack: int, belief: Array, codes: Array) -> dict[int, Array]:
    """The belief of the parents, at the state of the column that the row has."""
    witnesses, n = estep.packs[pack].witnesses, belief.shape[1]
    counts = {}
    for w, code in zip(
        witnesses,
        np.unravel_index(codes.astype(np.intp), [w.codes for w in witnesses]),
        strict=True,
    ):
        if not w.seen:
            here = code == np.arange(w.codes - w.holes)[:, None]
            own = (belief[:, None] * here).reshape(*w.shape, n)
            own = own.transpose(*np.argsort(w.order), own.ndim - 1) if w.order else own
            counts[w.variable] = own.reshape(-1, n)
    return counts


# --- steps ----------------------------------------------------------------------------------------


def _steps(tables: Tables, found: Moments) -> Array:
    """-G/(G-1) J⁻¹ s_g of every group: (cells, G)."""
    J, scores, counts = (found.sums[name] for name in ("information", "scores", "counts"))
    J, start = J.copy(), 0
    for v in sorted(tables):
        m = tables[v].shape[-1]
        for t in tables[v].reshape(-1, m):
            part = slice(start, start + m)
            c = counts[part]
            more = np.maximum(c.sum() * t - c, 0.0) + ONE_MORE * t
            away = np.eye(m) - t  # e_x - t
            J[part, part] += (away.T * more) @ away
            J[part, part] += more.sum()  # the level of η is free: hold it
            start += m
    groups = scores.shape[1]
    apart = scores - scores.mean(axis=1, keepdims=True)  # of tables at rest the mean is zero
    size = np.sqrt(np.diagonal(J) + RIDGE)
    scaled = J / np.outer(size, size) + RIDGE * np.eye(len(J))
    found_steps = np.linalg.solve(scaled, apart / size[:, None]) / size[:, None]
    return np.asarray(-groups / (groups - 1) * found_steps, dtype=float)


def moved(tables: Tables, step: Array) -> dict[int, Array]:
    """Tables whose logarithms have taken a step, rows summing to one."""
    found: dict[int, Array] = {}
    start = 0
    for v in sorted(tables):
        stop = start + tables[v].size
        by = np.clip(step[start:stop], -FARTHEST, FARTHEST).reshape(tables[v].shape)
        table = tables[v] * np.exp(by)
        found[v] = table / table.sum(axis=-1, keepdims=True)
        start = stop
    return found
