"""Families that rows know as a whole are counted, once (design 13).

    T(x | pa) = (n(pa, x) + a μ(x)) / (n(pa) + a)

with a pseudo-counts towards the column's own marginal μ, as EM's M-step has them. A row that lacks
a cell of a family says nothing of its table: exact where nothing hangs below the missing cell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from latentia.data.moments import Moments
from latentia.data.rows import Rows, Source
from latentia.networks.accelerate import Prior, Tables
from latentia.networks.em_problem import counts_in, maximise
from latentia.networks.knowledge import Knowledge
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Codes


def count_families(graph: LatentGraph, families: Sequence[int], source: Source) -> dict[int, Array]:
    """n(pa, x) of families whose members are all columns: variable -> (parents …, variable)."""
    if not families:
        return {}
    return counts_in(source.fold(partial(family_counts, graph, tuple(families))))


def family_counts(graph: LatentGraph, families: Sequence[int], rows: Rows) -> Moments:
    """The sums of one block of rows: "counts/<variable>"."""
    parents, states = graph.parents(), [count or 1 for count in graph.states]
    place = {v: i for i, v in enumerate(graph.observed)}
    holes = {v: bool(rows.codes[i].min(initial=0) < 0) for v, i in place.items()}
    sums = {}
    for v in families:
        family = (*parents[v], v)
        shape = [states[u] for u in family]
        codes = [rows.codes[place[u]] for u in family]
        flat, weight = _flat_codes(codes, shape), rows.weight
        if any(holes[u] for u in family):
            whole = np.logical_and.reduce([c >= 0 for c in codes])
            flat = flat[whole]
            weight = None if weight is None else weight[whole]
        found = np.bincount(flat, weight, math.prod(shape))
        sums[f"counts/{v}"] = found.reshape(shape).astype(float)
    return Moments("families", rows.total, len(rows), sums)


def _flat_codes(codes: Sequence[Codes], shape: Sequence[int]) -> Codes:
    """The joint state as one number, the last column running fastest."""
    flat = codes[0].astype(np.intp)
    for own, size in zip(codes[1:], shape[1:], strict=True):
        flat *= size
        flat += own
    return flat


def tables_of_counts(counts: Tables, prior: Prior, knowledge: Knowledge) -> dict[int, Array]:
    """The M-step of counted families; those of a tied group must all be among them."""
    own = Prior(knowledge.pooled({v: prior.counts[v] for v in counts}))
    tables = maximise(knowledge.pooled(counts), own)
    known = {v: cells for v, cells in knowledge.cells.items() if v in counts}
    return Knowledge(known).held(tables) if known else tables


def log_likelihood_of(counts: Tables, tables: Tables) -> float:
    """Σ n log T."""
    total = 0.0
    for v, n in counts.items():
        met = n > 0
        with np.errstate(divide="ignore"):
            total += float(n[met] @ np.log(tables[v][met]))
    return total
