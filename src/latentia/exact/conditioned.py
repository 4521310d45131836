"""P(v | e) for many rows of evidence at once, with known tables P(v | parents).

The E-step's passes with every unobserved variable as a latent: evidence picks factors by look-up,
and messages are products of matrices. Variables that lie above neither evidence nor question sum
to one and are left out. Plain numbers; rows that underflow are left to the passes in logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from latentia.data.rows import Rows
from latentia.data.sources.all_cores import in_parallel
from latentia.data.sources.memory import told_in_blocks
from latentia.exact.estep_wiring import compile_estep
from latentia.exact.row_posteriors import row_answers
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Codes

PART = 2**12  # rows of a thread's turn


def infer_rows(
    graph: LatentGraph, tables: Mapping[int, Array], codes: Codes, asked: Sequence[int]
) -> tuple[Array, list[Array]]:
    """log P(evidence), (rows,), and P(v | evidence), (states, rows) each; NaN where it underflows.

    `codes` are (rows, variables), -1 where unobserved, with some evidence among them.
    """
    seen = codes >= 0
    some, always = np.asarray(seen.any(axis=0)), np.asarray(seen.all(axis=0))
    kept = _with_ancestors(graph, {*np.flatnonzero(some).tolist(), *asked})
    number = {v: k for k, v in enumerate(kept)}
    small = LatentGraph(
        names=tuple(graph.names[v] for v in kept),
        edges=tuple((number[a], number[b]) for a, b in graph.edges if b in number),
        latent=frozenset(number[v] for v in kept if not some[v]),
        states=tuple(graph.states[v] for v in kept),
    )
    open_ = [v for v in dict.fromkeys(asked) if not always[v]]
    holes = [number[v] for v in kept if some[v] and not always[v]]
    estep = compile_estep(small, holes, [number[v] for v in open_])
    own = {number[v]: tables[v] for v in kept}
    columns = [codes[:, kept[k]] for k in small.observed]
    log, found = (
        np.empty(len(codes)),
        {v: np.empty((graph.states[v] or 1, len(codes))) for v in asked},
    )

    def work(start: int) -> None:
        part = slice(start, start + PART)
        rows = Rows(tuple(c[part] for c in columns))
        log[part], answers = row_answers(estep, own, rows, [number[v] for v in open_])
        for v in open_:
            found[v][:, part] = answers[number[v]]

    starts = range(0, len(codes), PART)
    told_in_blocks(in_parallel(work, starts), len(starts), len(codes))
    for v in found:
        if always[v]:  # observed: certain, but as unsure as its row is
            found[v][:] = np.where(
                np.isnan(log), np.nan, codes[:, v] == np.arange(len(found[v]))[:, None]
            )
    return log, [found[v] for v in asked]


def _with_ancestors(graph: LatentGraph, variables: Iterable[int]) -> list[int]:
    above = graph.parents()
    found, ring = set(variables), list(variables)
    for v in ring:
        fresh = [u for u in above[v] if u not in found]
        found.update(fresh)
        ring += fresh
    return sorted(found)
