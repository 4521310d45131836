"""P(one variable | one row of evidence) of a forest, by the compiled kernel (native/forest.c).

The forest is hung up at the variable asked for, so that one sweep up tells all of its states. A
thousand hidden states cost a few milliseconds, and no junction tree is made.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from latentia.exact.best_in_forest import pose_forest, swept
from latentia.exact.pieces import with_ancestors
from latentia.exact.reading_evidence import StateCodes
from latentia.native.loading import kernel
from latentia.structure.graph import LatentGraph
from latentia.typing import Array


def one_in_forest(
    graph: LatentGraph,
    tables: Mapping[int, Array],
    row: StateCodes,
    weights: Mapping[int, Array],
    asked: int,
) -> tuple[Array, float] | None:
    """P(asked | row), (states,), and log P(row); None where what is unknown makes no forest.

    `row`: codes (variables,), -1 where unknown; `weights`: likelihoods {variable: (states,)}. None
    too without a kernel, where the answer is known already, and where the row is impossible.
    """
    own = kernel()
    if own is None or row[asked] >= 0:
        return None
    known = np.flatnonzero(row >= 0).tolist()
    kept = with_ancestors(graph.parents(), {*known, *weights, asked})
    free = [asked, *(v for v in sorted(kept) if v != asked and row[v] < 0)]
    posed = pose_forest(graph, tables, row, weights, kept, free)
    if posed is None:
        return None
    call, sums, _ = swept(own, posed)
    log = float(posed.constant + call.sum)
    if not np.isfinite(log):
        return None
    found = np.exp(sums[0, : graph.states[asked]] - sums[0].max())
    return found / found.sum(), log
