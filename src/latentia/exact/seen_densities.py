"""Continuous evidence in a network of tables: what a value says of its parents' states.

A continuous column has no children, so that of a seen value nothing but its likelihood matters,
given every state of its parents. The column becomes a variable of two states, seen in the first,
whose probability is that likelihood, scaled by its largest: exact, whatever the density is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from latentia.data.columns.continuous import ContinuousColumn
from latentia.exact.leaf_pieces import leaf_log_density
from latentia.exact.shafer_shenoy import log
from latentia.structure.graph import LatentGraph
from latentia.typing import Array


def log_density(
    column: ContinuousColumn, table: Array, leaf: Array | None, position: float
) -> Array:
    """log p(x | parents) at a position of the grid, per step of it: (parents …).

    By the Gaussian leaf; without one by the masses of the table, straight between grid points.
    """
    if leaf is not None:
        return leaf_log_density(column, leaf, position)
    low = min(int(position), table.shape[-1] - 1)
    high, share = min(low + 1, table.shape[-1] - 1), position - low
    return np.asarray(log((1.0 - share) * table[..., low] + share * table[..., high]))


def log_of_likelihood(table: Array, likelihood: Array) -> Array:
    """log E[likelihood of the cell | parents], (parents …): an interval, or soft evidence."""
    return np.asarray(log(table @ likelihood))


def with_seen(
    graph: LatentGraph, tables: Mapping[int, Array], logs: Mapping[int, Array]
) -> tuple[LatentGraph, dict[int, Array], float]:
    """The same network with two states for each column in `logs`, and the log of what was scaled.

    P(evidence) is that of the first states times the exponential of the number.
    """
    found, states, shift = dict(tables), list(graph.states), 0.0
    for v, own in logs.items():
        top = float(own.max())
        if np.isfinite(top):
            shift += top
            own = own - top
        share = np.exp(own)
        found[v] = np.stack([share, 1.0 - share], axis=-1)
        states[v] = 2
    return replace(graph, states=tuple(states)), found, shift
