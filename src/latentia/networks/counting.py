"""Families that rows know as a whole are counted, once (design 13).

    T(x | pa) = (n(pa, x) + a μ(x)) / (n(pa) + a)

with a pseudo-counts towards the column's own marginal μ, as EM's M-step has them. A row that lacks
a cell of a family says nothing of its table: exact where nothing hangs below the missing cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from latentia.data.moments import Moments
from latentia.data.rows import Rows, Source
from latentia.networks.accelerate import Prior, Tables
from latentia.networks.compiled_counts import count_joint_states
from latentia.networks.em_problem import counts_in, maximise
from latentia.networks.knowledge import Knowledge
from latentia.structure.graph import LatentGraph
from latentia.typing import Array


def count_families(graph: LatentGraph, families: Sequence[int], source: Source) -> dict[int, Array]:
    """n(pa, x) of families whose members are all columns: variable -> (parents …, variable)."""
    if not families:
        return {}
    return counts_in(source.fold(partial(family_counts, graph, tuple(families))))


def family_counts(graph: LatentGraph, families: Sequence[int], rows: Rows) -> Moments:
    """The sums of one block of rows: "counts/<variable>"."""
    parents, place = graph.parents(), {v: i for i, v in enumerate(graph.observed)}
    sizes = [graph.states[v] or 1 for v in graph.observed]
    own = [[place[u] for u in (*parents[v], v)] for v in families]
    found = count_joint_states(rows.codes, sizes, own, rows.weight)
    sums = {f"counts/{v}": n for v, n in zip(families, found, strict=True)}
    return Moments("families", rows.total, len(rows), sums)


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
