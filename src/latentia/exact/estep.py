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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np

from latentia.data.moments import Moments
from latentia.data.rows import Rows, block_codes
from latentia.errors import DataError
from latentia.exact.compiled_rows import CACHED_SLOTS, compiled_sums, fits_kernel
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
from latentia.exact.estep_wiring import EStep, Pack
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
    kind: type[np.signedinteger[Any]] = np.int16 if pack.codes < 2**15 else np.int64
    joint: Codes | int = 0
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
    cached = kernel() is not None and fits_kernel(estep, CACHED_SLOTS)
    if layout is not None and (single or not cached):
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
    both = BothFactors(estep, tables)
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
        block = rows[start : start + block_rows_of(estep, compiled is not None)]
        logs = np.zeros(0) if compiled is None else _add_compiled(compiled, both, block, totals)
        if len(logs) < len(block):
            block = block[len(logs) : len(logs) + block_rows_of(estep, False)]
            values = block_values(estep, tables, block)
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


def _free_log(table: Array, counts: Array) -> float:
    """Σ counts · log table, of codes that no latent has to do with."""
    met = counts > 0
    if not table[met].min(initial=1.0) > 0:
        raise no_probability("a row")
    return float(counts[met] @ np.log(table[met]))


@final
@dataclass(frozen=True, slots=True)
class BlockValues:
    """A block of packed rows in the form in which a pass needs them."""

    n: int
    codes: tuple[Codes, ...]  # of each pack
    terms: tuple[Sequence[Array], ...]  # of each group: a, b, c of the log densities
    features: tuple[Array, ...]  # … and (1, x, x²), (columns, 3, n)
    dense: tuple[tuple[Array, Array], ...]  # of each group: densities by state and their scale


def block_values(estep: EStep, tables: Tables, block: Rows) -> BlockValues:
    count = len(estep.packs)
    codes = tuple(c.astype(np.intp) for c in block.codes[:count])
    if not estep.dense:
        return BlockValues(len(block), codes, (), (), ())
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
    return BlockValues(len(block), codes, grouped, tuple(F[part] for part in parts), tuple(found))


@final
class BothFactors:
    """The factors of an E-step: plain ones, and careful ones if it should come to that."""

    def __init__(self, estep: EStep, tables: Tables) -> None:
        self.estep = estep
        self.tables = tables
        self.plain = make_factors(estep, tables)

    @cached_property
    def careful(self) -> Factors:
        return make_factors(self.estep, self.tables, careful=True)

    def pass_up(self, values: BlockValues, first: int | Codes) -> tuple[Upward, Factors]:
        """The pass up, and the factors that it took."""
        used = self.plain
        up = collect(self.estep, used, values.codes, values.n, values.dense)
        if up is None:
            used = self.careful
            up = collect(self.estep, used, values.codes, values.n, values.dense)
        assert up is not None  # careful passes always answer
        check_possible(up, first)
        return up, used


def block_rows_of(estep: EStep, compiled: bool) -> int:
    """Rows of a block that fit into a cache; the kernel cuts blocks itself."""
    if compiled and not estep.dense:
        return COMPILED_ROWS
    step = max(LEAST_ROWS, min(MOST_ROWS, PRODUCT_CELLS // estep.widest, KEPT_CELLS // estep.width))
    return max(1, min(step, MOST_CELLS // estep.width))


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
    values: BlockValues,
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


def _add_compiled(own: Kernel, both: BothFactors, block: Rows, totals: _Totals) -> Array:
    """Sums by the kernel; logs of the rows that it did, fewer than all where numbers are tiny."""
    estep, factors, n = both.estep, both.plain, len(block)
    values = block_values(estep, both.tables, block) if estep.dense else None
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


def _add_leaves(
    estep: EStep, group: int, totals: _Totals, values: BlockValues, share: Array
) -> None:
    """Sums of the continuous columns of a group; `share` is the belief of their parents."""
    found = component_sums(values.terms[group], values.features[group], share)
    for v, own in zip(estep.dense[group].variables, found, strict=True):
        totals.leaves[v] += own.reshape(totals.leaves[v].shape)
