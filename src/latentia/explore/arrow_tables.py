"""Lines and logits as tables over the cells of grids, which is how a page answers by them."""

from __future__ import annotations

import numpy as np

from latentia.errors import NotLearnedError
from latentia.exact.arrows import ArrowNetwork, log_factor
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Label

Scope = tuple[int, ...]


def arrow_tables(network: ArrowNetwork) -> tuple[LatentGraph, dict[Scope, Array]]:
    """The graph with a state for every cell of a grid, and P(variable | parents) over these.

    A cell has the mass of its normal, and counts at its middle where it is a parent: what
    `exact.arrow_answers` does for cells that are not seen.
    """
    graph = network.graph
    if network.given:
        raise NotLearnedError(
            f"explore is not made for models with covariates ({_named(network)}): these have no "
            "distribution that a page could start from. Ask with query, predict or profile."
        )
    cells: dict[Label, int] = {graph.names[v]: len(network.axis(v)) for v in sorted(network.dense)}
    wide = graph.with_states(cells)
    above = graph.parents()
    tables: dict[Scope, Array] = {}
    for v in range(len(graph.names)):
        scope = (*above[v], v)
        table = np.exp(log_factor(network, v, {})[0])
        tables[scope] = np.broadcast_to(table, [len(network.axis(u)) for u in scope])
    return wide, tables


def _named(network: ArrowNetwork) -> str:
    return ", ".join(str(network.graph.names[v]) for v in network.given)
