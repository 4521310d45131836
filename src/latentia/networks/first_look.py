"""One pass over the rows: their weight, every column's states and holes, families that are counted.

What a family's joint states say of a member need not be counted again: rows that all have it are
summed over the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

from latentia.data.rows import Source
from latentia.errors import DataError, PlanError
from latentia.networks.em_problem import count_columns, counts_in
from latentia.structure.graph import LatentGraph
from latentia.typing import Array


@final
@dataclass(frozen=True, slots=True)
class SeenRows:
    """What one pass over the rows tells."""

    weight: float  # Σ w
    marginals: Mapping[int, Array]  # column -> how often its states come
    holes: tuple[int, ...]  # columns that some row lacks
    counts: Mapping[int, Array]  # variable of a family -> n(pa, x), rows without a hole there

    def counts_of(self, families: Sequence[int]) -> dict[int, Array]:
        """Of some of the families."""
        return {v: self.counts[v] for v in families}


def count_once(graph: LatentGraph, source: Source, families: Sequence[int] = ()) -> SeenRows:
    """Count columns, and families whose members are all columns (by variable), at once."""
    seen = source.fold(partial(count_columns, graph, families=tuple(families)))
    if not seen.weight > 0:
        raise DataError("there are no rows to learn from, or their weights are all zero.")
    dense = [v for v in graph.observed if f"moments/{v}" in seen.sums]
    if dense:
        names = ", ".join(str(graph.names[v]) for v in dense[:8])
        raise PlanError(
            f"tables are of discrete columns, and {names} is continuous. Bin it "
            "(kinds={...: 'discrete'}), or use lt.EM or lt.PBP."
        )
    marginals = {v: seen.sums[f"column/{v}"] for v in graph.observed}
    for v, count in marginals.items():
        if not count.sum() > 0:
            raise DataError(
                f"no row has a value in {graph.names[v]}. Drop the column from the graph."
            )
    holes = tuple(v for v in graph.observed if seen.sums[f"holes/{v}"][0] > 0)
    return SeenRows(seen.weight, marginals, holes, counts_in(seen))
