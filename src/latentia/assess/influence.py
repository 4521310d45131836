"""Infinitesimal jackknife of learned tables: what they would be without one group of rows.

With T = softmax(η) row by row, and c the expected counts of one row of data, the score is

    s = c - n T,   n = Σ_x c(x);   J = Σ_rows w s sᵀ;   η without group g:  η - G/(G-1) J⁻¹ s_g.

s_g sums the scores of group g, J is the information that the rows carry. Both are sums over rows,
gathered in one pass; no table is climbed again. Where a table has more mass than its counts (a
prior put it there), the excess counts as so many rows that were seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from latentia.assess.jackknife import Replicates, alike, check_groups, group_weights
from latentia.data.moments import Moments
from latentia.data.rows import Rows, Source
from latentia.errors import DataError
from latentia.exact.estep import pack_rows
from latentia.exact.estep_factors import Tables
from latentia.exact.estep_passes import Factors, Upward, distribute, marginal
from latentia.exact.estep_wiring import EStep
from latentia.exact.row_posteriors import passed_up
from latentia.inference.operators import Operators
from latentia.linear_algebra import one_thread
from latentia.networks.em_problem import pose
from latentia.networks.knowledge import Knowledge
from latentia.networks.to_operators import operators_of
from latentia.typing import Array, Codes

MOST_PARAMETERS = 3000  # J has their square, and each row takes as many steps
ONE_MORE = 1.0  # pseudo-count of every table row: rows of a table that no data speak of stay put
FARTHEST = 1.0  # that a logarithm moves: one group in twenty cannot tell more, a straight line can
RIDGE = 1e-9


def table_replicates(
    operators: Operators,
    source: Source,
    groups: int,
    seed: int,
    knowledge: Knowledge | None = None,
) -> Replicates:
    """Networks without each group, from one pass over the rows."""
    others = tables_without(operators, source, groups, seed, knowledge or Knowledge())
    plan, weight = operators.plan, operators.weight
    return alike(operators, (operators_of(plan, each, weight) for each in others))


def tables_without(
    operators: Operators, source: Source, groups: int, seed: int, knowledge: Knowledge
) -> list[dict[int, Array]]:
    """Tables without each group; known cells stay, and tied tables move as one."""
    tables = operators.tables
    cells = sum(table.size for table in tables.values())
    if cells > MOST_PARAMETERS:
        raise DataError(
            f"error bars of tables with {cells:,} cells in all are not made (at most "
            f"{MOST_PARAMETERS:,}): memory goes with the square. Give latents fewer states, or use "
            "PBP(refine=False), whose error bars come from sums."
        )
    problem = pose(operators.plan, source)
    check_groups(problem.weight, groups)
    shares = {v: free_shares(table, knowledge.cells.get(v)) for v, table in tables.items()}
    summary = partial(sum_influence, problem.estep, tables, shares, problem.packed, groups, seed)
    found = problem.source.fold(summary)
    with one_thread():
        steps = steps_without(shares, found.sums, knowledge)
    return [knowledge.held(moved(tables, steps[:, g])) for g in range(groups)]


def free_shares(table: Array, known: Array | None) -> Array:
    """The table over the cells that are learned, rows summing to one; zero at known cells."""
    own = table if known is None else np.where(np.isnan(known), table, 0.0)
    return np.asarray(own / np.maximum(own.sum(axis=-1, keepdims=True), 1e-300), dtype=float)


# --- sums over rows -------------------------------------------------------------------------------


def sum_influence(
    estep: EStep,
    tables: Tables,
    shares: Tables,
    packed: bool,
    groups: int,
    seed: int,
    rows: Rows,
) -> Moments:
    """J, the scores of every group, and the expected counts; tables one after the other.

    `shares` are the tables over the cells that are free to move: the tables themselves, unless
    some cells are known.
    """
    rows = rows if packed else pack_rows(estep, rows)
    share = group_weights(rows, groups, seed)  # (n, G)
    sums = influence_of(estep, tables, shares, rows, share)
    kind = f"influence on the tables of graph {estep.fingerprint}"
    return Moments(kind, rows.total, len(rows), sums)


def influence_of(
    estep: EStep, tables: Tables, shares: Tables, rows: Rows, share: Array
) -> dict[str, Array]:
    """J, scores and expected counts of packed rows, of which `share` (n, G) are in each group."""
    cells = sum(tables[v].size for v in tables)
    J, scores = np.zeros((cells, cells)), np.zeros((cells, share.shape[1]))
    counts = np.zeros(cells)
    for part, codes, up, used in passed_up(estep, tables, rows):
        found = row_counts(estep, used, up, codes)
        c = np.concatenate([found[v] for v in sorted(tables)])  # (cells, n)
        s = np.concatenate([_scores(shares[v], found[v]) for v in sorted(tables)])
        weight = share[part].sum(axis=1)
        J += (s * weight) @ s.T
        scores += s @ share[part]
        counts += c @ weight
    return {"information": J, "scores": scores, "counts": counts}


def _scores(shares: Array, counts: Array) -> Array:
    """c - n T over free cells, (cells, n); zero at cells that are known or have no mass."""
    m = shares.shape[-1]
    T = shares.reshape(-1, m, 1)
    c = counts.reshape(-1, m, counts.shape[-1]) * (T > 0)
    return np.asarray((c - c.sum(axis=1, keepdims=True) * T).reshape(counts.shape))


def row_counts(
    estep: EStep, factors: Factors, up: Upward, codes: Sequence[Codes]
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


def _witness_counts(estep: EStep, pack: int, belief: Array, codes: Codes) -> dict[int, Array]:
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


def steps_without(shares: Tables, sums: Mapping[str, Array], knowledge: Knowledge) -> Array:
    """-G/(G-1) J⁻¹ s_g of every group: (cells, G)."""
    J, scores, counts = (sums[name] for name in ("information", "scores", "counts"))
    place = _places(shares, knowledge)
    if knowledge.tied:
        R = (place[:, None] == np.unique(place)).astype(float)  # (cells, parameters)
        place = R.argmax(axis=1)
        J, scores, counts = R.T @ J @ R, R.T @ scores, R.T @ counts
    J = J.copy()
    done: set[int] = set()
    start = 0
    for v in sorted(shares):
        m = shares[v].shape[-1]
        for t in shares[v].reshape(-1, m):
            at = place[start : start + m]
            start += m
            if int(at[0]) in done:  # tied to a table before
                continue
            done.add(int(at[0]))
            J[np.ix_(at, at)] += _curvature(t, counts[at] * (t > 0))
    groups = scores.shape[1]
    apart = scores - scores.mean(axis=1, keepdims=True)  # of tables at rest the mean is zero
    size = np.sqrt(np.diagonal(J) + RIDGE)
    scaled = J / np.outer(size, size) + RIDGE * np.eye(len(J))
    steps = np.linalg.solve(scaled, apart / size[:, None]) / size[:, None]
    return np.asarray(-groups / (groups - 1) * steps[place], dtype=float)


def _places(shares: Tables, knowledge: Knowledge) -> Codes:
    """Which parameter each cell is: its own number, or that of the table it is tied to."""
    starts = dict(zip(sorted(shares), np.cumsum([0, *_sizes(shares)[:-1]]).tolist(), strict=True))
    first = {v: group[0] for group in knowledge.tied for v in group}
    parts = [starts[first.get(v, v)] + np.arange(shares[v].size) for v in sorted(shares)]
    return np.concatenate(parts)


def _sizes(tables: Tables) -> list[int]:
    return [tables[v].size for v in sorted(tables)]


def _curvature(t: Array, counts: Array) -> Array:
    """Of mass beyond the counts, as of rows that were seen; and the free level of η held."""
    more = np.maximum(counts.sum() * t - counts, 0.0) + ONE_MORE * t
    away = np.eye(len(t)) - t  # e_x - t
    free = (t > 0).astype(float)
    return np.asarray((away.T * more) @ away + more.sum() * np.outer(free, free), dtype=float)


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
