"""Tables as the factors of an E-step, and sums over rows back as counts of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TypeAlias

import numpy as np

from latentia.exact.estep_passes import Factors
from latentia.exact.estep_wiring import Clique, EStep, Pack, Scope, Witness
from latentia.typing import Array

Tables: TypeAlias = Mapping[int, Array]  # variable -> P(variable | parents), (parents …, variable)

LOWEST_LOG = -1e300


def make_factors(estep: EStep, tables: Tables, careful: bool = False) -> Factors:
    packs = [_pack_table(estep, pack, tables, careful) for pack in estep.packs]
    psi = tuple(_psi(estep, clique, tables) for clique in estep.cliques)
    maps = tuple(_map(clique, x) for clique, x in zip(estep.cliques, psi, strict=True))
    return Factors(tuple(p[0] for p in packs), tuple(p[1] for p in packs), psi, maps, careful)


def _pack_table(
    estep: EStep, pack: Pack, tables: Tables, careful: bool
) -> tuple[Array, Array | None]:
    """Product of the witnesses' factors over their joint codes: (states of the scope, codes)."""
    parts = [_witness_table(estep, pack.scope, w, tables) for w in pack.witnesses]
    if not careful:
        table = parts[0]
        for part in parts[1:]:
            table = (table[:, :, None] * part[:, None, :]).reshape(len(table), -1)
        return table, None
    logs = np.zeros((len(parts[0]), 1))
    with np.errstate(divide="ignore"):
        for part in parts:
            logs = (logs[:, :, None] + np.log(part)[:, None, :]).reshape(len(logs), -1)
    top = np.maximum(logs.max(axis=0), LOWEST_LOG)  # a code that no state allows stays impossible
    return np.exp(logs - top), top


def _witness_table(estep: EStep, scope: Scope, witness: Witness, tables: Tables) -> Array:
    """(states of the scope, codes): the table of a family, or the identity of a column."""
    size = estep.size(scope)
    if witness.seen:
        return np.concatenate([np.eye(size), np.ones((size, 1))], axis=1)
    table = tables[witness.variable]
    if witness.order:
        table = table.transpose(witness.order)
    table = table.reshape(size, -1)
    return np.concatenate([table, np.ones((size, 1))], axis=1) if witness.holes else table


def _psi(estep: EStep, clique: Clique, tables: Tables) -> Array:
    """Product of the tables at home in a clique, on all its axes."""
    psi = np.ones([estep.states[v] for v in clique.variables])
    for f in clique.families:
        psi *= tables[f.variable].transpose(f.order).reshape(f.spread)
    return psi


def _map(clique: Clique, psi: Array) -> Array:
    """M: ψ summed over all but S and U, (shared, upper, lower)."""
    left = psi.sum(axis=clique.sums.gone) if clique.sums.gone else psi
    return np.ascontiguousarray(left.transpose(clique.sums.back[:-1])).reshape(clique.sizes)


def counted_tables(
    estep: EStep, factors: Factors, sums: Sequence[Array], packs: Sequence[Array]
) -> dict[str, Array]:
    """Counts of every table, (parents …, variable).

    `sums` are Σ D(s) P(u) of the cliques, `packs` beliefs of scopes by joint code.
    """
    counts: dict[int, Array] = {}
    for k, clique in enumerate(estep.cliques):
        if clique.families:
            at = clique.sums
            whole = sums[k].reshape(at.sizes).transpose(at.order[:-1]).reshape(at.spread)
            whole = factors.psi[k] * whole
            for f in clique.families:
                own = whole.sum(axis=f.gone) if f.gone else whole
                counts[f.variable] = own.transpose(f.back)
    for pack, total in zip(estep.packs, packs, strict=True):
        by_code = total  # (scope, all codes)
        if len(pack.witnesses) > 1:  # else the joint code is its own, however many there are
            by_code = total @ _code_of(tuple(w.codes for w in pack.witnesses))
        start = 0
        for w in pack.witnesses:
            own = by_code[:, start : start + w.codes - w.holes]
            start += w.codes
            if not w.seen:
                own = own.reshape(w.shape)
                counts[w.variable] = own.transpose(np.argsort(w.order)) if w.order else own
    return {f"counts/{v}": np.ascontiguousarray(counts[v]) for v in sorted(counts)}


@cache
def _code_of(sizes: tuple[int, ...]) -> Array:
    """1 where a joint code has a code of a witness: (joint codes, codes of all witnesses)."""
    joint = np.indices(sizes).reshape(len(sizes), -1)  # (witnesses, joint codes)
    marks = [own[:, None] == np.arange(size) for own, size in zip(joint, sizes, strict=True)]
    return np.concatenate(marks, axis=1).astype(float)
