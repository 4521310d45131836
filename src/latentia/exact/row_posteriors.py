"""What single rows say: log P(row), and posteriors of what is unknown (design 4.3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from latentia.data.rows import Rows
from latentia.exact.estep import BothFactors, block_rows_of, block_values, pack_rows
from latentia.exact.estep_factors import Tables
from latentia.exact.estep_passes import Factors, Upward, collect, distribute
from latentia.exact.estep_wiring import Clique, EStep
from latentia.typing import Array, Codes


def passed_up(
    estep: EStep, tables: Tables, rows: Rows
) -> Iterator[tuple[slice, tuple[Codes, ...], Upward, Factors]]:
    """Packed rows block by block: which rows, their codes, the pass up, and the factors it took."""
    both = BothFactors(estep, tables)
    for start, block in _chunks(estep, rows):
        values = block_values(estep, tables, block)
        up, used = both.pass_up(values, start)
        yield slice(start, start + len(block)), values.codes, up, used


def latent_posteriors(
    estep: EStep, tables: Tables, rows: Rows, variables: Iterable[int]
) -> dict[int, Array]:
    """P(variable | present cells of the row) of active variables: (states, rows)."""
    both = BothFactors(estep, tables)
    home = _homes(estep, variables)
    out = {v: np.empty((estep.states[v], len(rows))) for v in home}
    for start, block in _chunks(estep, pack_rows(estep, Rows(rows.codes))):
        part = slice(start, start + len(block))
        up, used = both.pass_up(block_values(estep, tables, block), start)
        for k, D, belief in distribute(estep, used, up, None, home.values()):
            clique, psi, P = estep.cliques[k], used.psi[k], up.products[k]
            for v in (v for v in home if home[v] == k):
                out[v][:, part] = _belief(clique, psi, D, P, belief, v)
    return out


def row_answers(
    estep: EStep, tables: Tables, rows: Rows, variables: Iterable[int], careful: bool = False
) -> tuple[Array, dict[int, Array]]:
    """log P(row), (n,), and P(variable | row), (states, n), of active variables, in plain numbers.

    Rows that come near the smallest numbers, or have no probability, give NaN throughout. If
    `careful`, their blocks are done again with every factor rescaled: only rows without any
    probability are left, with a log of -inf and NaN for the rest.
    """
    both = BothFactors(estep, tables)
    home = _homes(estep, variables)
    log = np.full(len(rows), np.nan)
    out = {v: np.full((estep.states[v], len(rows)), np.nan) for v in home}
    with np.errstate(divide="ignore"):
        free = {p: np.log(both.plain.packs[p][0]) for p in estep.free}
    for start, block in _chunks(estep, pack_rows(estep, rows)):
        codes = block_values(estep, tables, block).codes
        used = both.plain
        up = collect(estep, used, codes, len(block))
        if up is None and careful:
            used = both.careful
            up = collect(estep, used, codes, len(block))
        if up is None:
            continue
        part = slice(start, start + len(block))
        log[part] = sum((x.take(codes[p]) for p, x in free.items()), up.log)
        with np.errstate(divide="ignore", invalid="ignore"):  # rows without any probability
            for k, D, belief in distribute(estep, used, up, None, home.values()):
                clique, psi, P = estep.cliques[k], used.psi[k], up.products[k]
                for v in (v for v in home if home[v] == k):
                    own = _belief(clique, psi, D, P, belief, v)
                    out[v][:, part] = np.where(np.isfinite(log[part]), own, np.nan)
    return log if careful else np.where(np.isfinite(log), log, np.nan), out


def _homes(estep: EStep, variables: Iterable[int]) -> dict[int, int]:
    """The clique nearest to a root that holds each variable."""
    return {v: next(k for k, c in enumerate(estep.cliques) if v in c.variables) for v in variables}


def _chunks(estep: EStep, rows: Rows) -> Iterator[tuple[int, Rows]]:
    """Blocks of rows, and where they start."""
    step = block_rows_of(estep, False)
    for start in range(0, len(rows), step):
        yield start, rows[start : start + step]


def _belief(clique: Clique, psi: Array, D: Array, P: Array, belief: Array, v: int) -> Array:
    """P(v | row), (states, n), of a variable that no clique above has.

    Where it comes in from below, a sum of the belief; else Σ ψ(s, u, v) D(s) P(u).
    """
    shared, upper, lower = clique.sizes
    n = P.shape[-1]
    place = {u: k for k, u in enumerate(clique.variables)}
    if v in clique.lower:
        axes = (*clique.shared, *clique.lower)
        whole = belief.reshape(*(psi.shape[place[u]] for u in axes), n)
        return np.asarray(whole.sum(axis=tuple(i for i, u in enumerate(axes) if u != v)))
    order = [place[u] for u in (*clique.shared, v, *clique.upper, *clique.lower)]
    gone = tuple(k for k in range(psi.ndim) if k not in order)
    left = [k for k in range(psi.ndim) if k in order]
    table = psi.sum(axis=gone).transpose([left.index(k) for k in order]).reshape(shared, -1, lower)
    given = np.matmul(table, P.reshape(shared, lower, n)).reshape(shared, -1, upper, n)
    return np.asarray(np.einsum("svun,sun->vn", given, D.reshape(shared, upper, -1)))
