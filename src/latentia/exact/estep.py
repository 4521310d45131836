"""The exact E-step: expected counts of every table given rows, as one additive sum (design 4.3).

Plain numbers, (states, rows) with rows last, so that every step is a matrix product, a look-up or a
count. With P the product of what comes into a clique, D what comes from above (already divided by
P(row), times the weight of the row), and ψ the clique's table, M sums ψ over all but S and U:

    up      m(s) = Σ_u M(s, u) P(u)
    down    belief(u) = P(u) Σ_s M(s, u) D(s);  to a child: its belief / its message
    counts  ψ(s, u, …) Σ_rows D(s) P(u);  of a column: the belief of its parents, row by row

Products are rescaled after many columns only. Should a row come near the smallest numbers even so,
its block is done again with every factor rescaled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np

from latentia.data.moments import Moments
from latentia.data.rows import Rows, block_codes
from latentia.errors import DataError
from latentia.exact.compiled_rows import compiled_sums, fits_kernel
from latentia.exact.estep_factors import Tables, counted_tables, make_factors
from latentia.exact.estep_passes import (
    Factors,
    Upward,
    check_possible,
    collect,
    distribute,
    marginal,
    no_probability,
)
from latentia.exact.estep_wiring import Clique, EStep, Pack
from latentia.exact.gaussian_leaves import component_sums, features, leaf_log_likelihoods, log_terms
from latentia.exact.wide_layout import WideLayout, wide_layout
from latentia.exact.wide_rows import wide_sums
from latentia.native.loading import Kernel, kernel
from latentia.typing import Array, Codes

MOST_ROWS, LEAST_ROWS = 2**12, 2**8  # of a block
PRODUCT_CELLS = 2**15  # of one product of a block: what a cache holds
KEPT_CELLS = 2**22  # of all that a block keeps …
MOST_CELLS = 2**24  # … and at the very most, however few rows that leaves
COMPILED_ROWS = 2**18  # given to the kernel at once


def sum_counts(estep: EStep, tables: Tables, rows: Rows) -> Moments:
    """Σ_rows w E[1{parents, variable} | row] for every table, and Σ w log P(row).

    Sums are "counts/<variable>", (parents …, variable), and "log_likelihood", (1,). A missing cell
    of a column without children is left out of its counts: its table says nothing of that row.
    Those of a continuous column are Σ r, Σ r x, Σ r x², (parents …, components, 3).
    """
    return packed_counts(estep, tables, pack_rows(estep, rows))


def pack_rows(estep: EStep, rows: Rows) -> Rows:
    """The joint codes of each pack in place of the columns: done once for many E-steps."""
    graph = estep.graph
    columns: list[Codes] = [np.zeros(0, dtype=np.int8)] * len(graph.names)
    for v, codes in zip(graph.observed, rows.codes, strict=True):
        if v in estep.complete and codes.min(initial=0) < 0:
            raise DataError(
                f"column {graph.names[v]!r} was said to have no missing cells, but has some. "
                "Name it in holes=… when the E-step is compiled."
            )
        columns[v] = codes
    packed = [_pack_codes(estep, p, columns) for p in estep.packs]
    packed += [columns[v] for group in estep.dense for v in group.variables]
    return Rows(tuple(packed), rows.weight)


def _pack_codes(estep: EStep, pack: Pack, columns: Sequence[Codes]) -> Codes:
    kind: Any = np.int16 if pack.codes < 2**15 else np.int64
    joint: Any = 0
    for w in pack.witnesses:
        codes = block_codes(columns, estep.states, w.known)
        if w.holes:
            codes = np.where(codes < 0, w.codes - 1, codes)
        joint = joint * kind(w.codes) + codes.astype(kind)
    return np.asarray(joint)


def packed_counts(
    estep: EStep,
    tables: Tables,
    rows: Rows,
    groups: Codes | None = None,
    single: bool = False,
) -> Moments:
    """`sum_counts` of rows that `pack_rows` has packed.

    `groups`: the log-likelihood by group of rows, (groups,), from the number of each row's group.
    `single`: wide latents in single precision, right to about 1e-6, for climbs that are far from
    their end; narrow ones are counted in double precision all the same.
    """
    layout = wide_layout(estep)
    if layout is not None and (single or kernel() is None or not fits_kernel(estep)):
        return _wide_counts(layout, tables, rows, groups, single)
    return _narrow_counts(estep, tables, rows, groups)


def _wide_counts(
    layout: WideLayout, tables: Tables, rows: Rows, groups: Codes | None, single: bool
) -> Moments:
    """By matrix products; rows that come near the smallest numbers are counted one by one."""
    found = wide_sums(layout, layout.vector(tables), rows, single)
    logs = found.logs * rows.weights
    sums = {f"counts/{v}": x for v, x in sorted(layout.tables(found.counts).items())}
    sums["log_likelihood"] = logs.sum(keepdims=True) if groups is None else _by_group(groups, logs)
    if len(found.lost):
        some = None if groups is None else groups[found.lost]
        more = _narrow_counts(layout.estep, tables, rows.where(found.lost), some, found.lost).sums
        for name, x in sums.items():
            x[: len(more[name])] += more[name]  # the last groups may have lost none
    told = f"expected counts of graph {layout.estep.fingerprint}"
    return Moments(told, rows.total, len(rows), sums)


def _by_group(groups: Codes, values: Array) -> Array:
    return np.asarray(np.bincount(groups, values, int(groups.max(initial=-1)) + 1), dtype=float)


def _narrow_counts(
    estep: EStep,
    tables: Tables,
    rows: Rows,
    groups: Codes | None,
    numbers: Codes | None = None,
) -> Moments:
    """By look-ups and products of a block at a time; `numbers`: by which errors name the rows."""
    both = _Both(estep, tables)
    factors = both.plain
    totals = _Totals(
        [np.zeros(M.shape) for M in factors.maps],
        [np.zeros(t.shape) for t in factors.packs],
        {v: np.zeros(tables[v].shape) for group in estep.dense for v in group.variables},
    )
    by_group = None if groups is None else np.zeros(int(groups.max(initial=-1)) + 1)
    compiled = kernel() if fits_kernel(estep) else None
    start = 0
    while start < len(rows):
        block = rows[start : start + _block_rows(estep, compiled is not None)]
        logs = np.zeros(0) if compiled is None else _add_compiled(compiled, both, block, totals)
        if len(logs) < len(block):
            block = block[len(logs) : len(logs) + _block_rows(estep, False)]
            values = _values(estep, tables, block)
            first = start + len(logs)
            up, used = both.pass_up(values, first if numbers is None else numbers[first:])
            _add(estep, used, up, totals, values, block.weight)
            logs = np.concatenate([logs, up.log])
        if by_group is not None and groups is not None:
            own = slice(start, start + len(logs))
            by_group += np.bincount(groups[own], logs * rows[own].weights, len(by_group))
        start += len(logs)
    totals.log_likelihood += sum(_free_log(factors.packs[p], totals.packs[p]) for p in estep.free)
    sums = counted_tables(estep, factors, totals.pairs, totals.packs)
    sums |= {f"counts/{v}": total for v, total in totals.leaves.items()}
    sums["log_likelihood"] = np.array([totals.log_likelihood]) if by_group is None else by_group
    return Moments(f"expected counts of graph {estep.fingerprint}", rows.total, len(rows), sums)


def passed_up(
    estep: EStep, tables: Tables, rows: Rows
) -> Iterator[tuple[slice, tuple[Any, ...], Upward, Factors]]:
    """Packed rows block by block: which rows, their codes, the pass up, and the factors it took."""
    both = _Both(estep, tables)
    for start, block in _chunks(estep, rows):
        values = _values(estep, tables, block)
        up, used = both.pass_up(values, start)
        yield slice(start, start + len(block)), values.codes, up, used


def latent_posteriors(
    estep: EStep, tables: Tables, rows: Rows, variables: Iterable[int]
) -> dict[int, Array]:
    """P(variable | present cells of the row) of active variables: (states, rows)."""
    both = _Both(estep, tables)
    home = _homes(estep, variables)
    out = {v: np.empty((estep.states[v], len(rows))) for v in home}
    for start, block in _chunks(estep, pack_rows(estep, Rows(rows.codes))):
        part = slice(start, start + len(block))
        up, used = both.pass_up(_values(estep, tables, block), start)
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
    both = _Both(estep, tables)
    home = _homes(estep, variables)
    log = np.full(len(rows), np.nan)
    out = {v: np.full((estep.states[v], len(rows)), np.nan) for v in home}
    with np.errstate(divide="ignore"):
        free = {p: np.log(both.plain.packs[p][0]) for p in estep.free}
    for start, block in _chunks(estep, pack_rows(estep, rows)):
        codes = _values(estep, tables, block).codes
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


def _free_log(table: Array, counts: Array) -> float:
    """Σ counts · log table, of codes that no latent has to do with."""
    met = counts > 0
    if not table[met].min(initial=1.0) > 0:
        raise no_probability("a row")
    return float(counts[met] @ np.log(table[met]))


@final
@dataclass(frozen=True, slots=True)
class _Values:
    """A block of packed rows in the form in which a pass needs them."""

    n: int
    codes: tuple[Any, ...]  # of each pack
    terms: tuple[Sequence[Array], ...]  # of each group: a, b, c of the log densities
    features: tuple[Array, ...]  # … and (1, x, x²), (columns, 3, n)
    dense: tuple[tuple[Array, Array], ...]  # of each group: densities by state and their scale


def _values(estep: EStep, tables: Tables, block: Rows) -> _Values:
    count = len(estep.packs)
    codes = tuple(c.astype(np.intp) for c in block.codes[:count])
    if not estep.dense:
        return _Values(len(block), codes, (), (), ())
    F = features(np.array(block.codes[count:], dtype=float))
    terms = log_terms([tables[v] for group in estep.dense for v in group.variables])
    ends = np.cumsum([len(group.variables) for group in estep.dense])
    parts = [slice(e - len(g.variables), e) for e, g in zip(ends, estep.dense, strict=True)]
    found = []
    for part in parts:
        logs = leaf_log_likelihoods(terms[part], F[part])
        top = logs.max(axis=0)
        found.append((np.exp(logs - top), top))
    grouped = tuple(terms[part] for part in parts)
    return _Values(len(block), codes, grouped, tuple(F[part] for part in parts), tuple(found))


@final
class _Both:
    """The factors of an E-step: plain ones, and careful ones if it should come to that."""

    def __init__(self, estep: EStep, tables: Tables) -> None:
        self.estep = estep
        self.tables = tables
        self.plain = make_factors(estep, tables)

    @cached_property
    def careful(self) -> Factors:
        return make_factors(self.estep, self.tables, careful=True)

    def pass_up(self, values: _Values, first: int | Codes) -> tuple[Upward, Factors]:
        """The pass up, and the factors that it took."""
        used = self.plain
        up = collect(self.estep, used, values.codes, values.n, values.dense)
        if up is None:
            used = self.careful
            up = collect(self.estep, used, values.codes, values.n, values.dense)
        assert up is not None  # careful passes always answer
        check_possible(up, first)
        return up, used


def _block_rows(estep: EStep, compiled: bool) -> int:
    """Rows of a block that fit into a cache; the kernel cuts blocks itself."""
    if compiled and not estep.dense:
        return COMPILED_ROWS
    step = max(LEAST_ROWS, min(MOST_ROWS, PRODUCT_CELLS // estep.widest, KEPT_CELLS // estep.width))
    return max(1, min(step, MOST_CELLS // estep.width))


def _chunks(estep: EStep, rows: Rows) -> Iterator[tuple[int, Rows]]:
    """Blocks of rows, and where they start."""
    step = _block_rows(estep, False)
    for start in range(0, len(rows), step):
        yield start, rows[start : start + step]


# --- beliefs to counts ----------------------------------------------------------------------------


@dataclass
class _Totals:
    """Sums over the blocks of rows done so far."""

    pairs: list[Array]  # Σ D(s) P(u) of each clique, (shared, upper, lower)
    packs: list[Array]  # Σ belief of the scope by code, (states of the scope, codes)
    leaves: dict[int, Array]  # Σ r (1, x, x²) of continuous columns, (parents …, components, 3)
    log_likelihood: float = 0.0


def _add(
    estep: EStep,
    factors: Factors,
    up: Upward,
    totals: _Totals,
    values: _Values,
    weight: Array | None,
) -> None:
    codes = values.codes
    totals.log_likelihood += float(up.log.sum() if weight is None else up.log @ weight)
    for p in estep.free:
        totals.packs[p] += np.bincount(codes[p], weight, totals.packs[p].shape[1])
    for g, group in enumerate(estep.dense):
        if not group.scope:  # no parents: nothing to infer
            share = np.ones(values.n) if weight is None else weight
            totals.log_likelihood += float(values.dense[g][1] @ share)
            _add_leaves(estep, g, totals, values, share[None])
    for k, D, belief in distribute(estep, factors, up, weight):
        clique, n = estep.cliques[k], belief.shape[1]
        if clique.families:
            shared, upper, lower = clique.sizes
            P = up.products[k].reshape(shared, lower, n)
            totals.pairs[k] += np.matmul(D.reshape(shared, upper, n), P.swapaxes(1, 2))
        for x in clique.inputs:
            own = marginal(x.placing, belief) if x.packs or x.dense >= 0 else belief
            if x.dense >= 0:
                _add_leaves(estep, x.dense, totals, values, own)
            for p in x.packs:
                total = totals.packs[p]
                for state, share in enumerate(own):
                    total[state] += np.bincount(codes[p], share, total.shape[1])


def _add_compiled(own: Kernel, both: _Both, block: Rows, totals: _Totals) -> Array:
    """Sums by the kernel; logs of the rows that it did, fewer than all where numbers are tiny."""
    estep, factors, n = both.estep, both.plain, len(block)
    values = _values(estep, both.tables, block) if estep.dense else None
    dense = () if values is None else values.dense
    codes = block.codes[: len(estep.packs)]
    found = compiled_sums(own, estep, factors, codes, block.weight, n, [x for x, _ in dense])
    done = found.done
    if not done:
        return np.zeros(0)
    for total, more in zip(totals.pairs + totals.packs, found.pairs + found.packs, strict=True):
        total += more
    logs, weight = found.logs[:done], None if block.weight is None else block.weight[:done]
    for p in estep.free:
        totals.packs[p] += np.bincount(codes[p][:done], weight, totals.packs[p].shape[1])
    for g, group in enumerate(estep.dense):
        assert values is not None
        part = replace(values, n=done, features=tuple(F[:, :, :done] for F in values.features))
        if group.scope:
            logs = logs + dense[g][1][:done]
            _add_leaves(estep, g, totals, part, found.beliefs[g][:, :done])
        else:
            share = np.ones(done) if weight is None else weight
            totals.log_likelihood += float(dense[g][1][:done] @ share)
            _add_leaves(estep, g, totals, part, share[None])
    totals.log_likelihood += float(logs.sum() if weight is None else logs @ weight)
    return logs


def _add_leaves(estep: EStep, group: int, totals: _Totals, values: _Values, share: Array) -> None:
    """Sums of the continuous columns of a group; `share` is the belief of their parents."""
    found = component_sums(values.terms[group], values.features[group], share)
    for v, own in zip(estep.dense[group].variables, found, strict=True):
        totals.leaves[v] += own.reshape(totals.leaves[v].shape)


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
