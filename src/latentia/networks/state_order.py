"""How the states of latents are numbered, told by the tables around each and nothing else.

Any renumbering of a latent's states is as likely. So that two fits can be compared, states go by
the expected code of a neighbour: first a column that tells them clearly apart, those that hang on
the latent alone before others; latents without such a column go by latents that have their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from latentia.networks.to_operators import CLEAR_GAP
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Codes


def local_orders(graph: LatentGraph, tables: Mapping[int, Array]) -> dict[int, Codes]:
    """How the states of every latent are to be numbered; all latents have one."""
    places: dict[int, Array] = {  # expected position of every state between 0 and 1
        v: _spread(graph.states[v] or 1) for v in graph.observed
    }
    orders: dict[int, Codes] = {}
    left = sorted(graph.latent)
    while left:
        told = {h: codes for h in left if (codes := _told(graph, tables, places, h)) is not None}
        if not told:  # cut off from every column
            return orders | {h: np.arange(graph.states[h] or 1) for h in left}
        for h, codes in told.items():
            orders[h] = np.argsort(codes, kind="stable")
            places[h] = _spread(len(codes))[np.argsort(orders[h])]
        left = [h for h in left if h not in told]
    return orders


def _spread(states: int) -> Array:
    return np.arange(states) / max(states - 1, 1)


def _told(
    graph: LatentGraph, tables: Mapping[int, Array], places: Mapping[int, Array], h: int
) -> Array | None:
    """The clearest of what neighbours say of a latent's states: the first that tells all apart."""
    found = list(_expected(graph, tables, places, h))
    if not found:
        return None
    gaps = [float(np.diff(np.sort(codes)).min(initial=np.inf)) for codes in found]
    clear = next((k for k, gap in enumerate(gaps) if gap >= CLEAR_GAP), int(np.argmax(gaps)))
    return found[clear]


def _expected(
    graph: LatentGraph, tables: Mapping[int, Array], places: Mapping[int, Array], h: int
) -> Iterator[Array]:
    """E[position of a neighbour | state of h], others alike: children, then parents."""
    parents = graph.parents()
    children = [v for v, above in enumerate(parents) if h in above and v in places]
    for v in sorted(children, key=lambda v: len(parents[v])):
        means = tables[v] @ places[v]  # (parents …)
        axis = parents[v].index(h)
        yield means.mean(axis=tuple(k for k in range(means.ndim) if k != axis))
    for axis, u in enumerate(parents[h]):
        if u in places:
            rest = tuple(k for k in range(len(parents[h])) if k != axis)
            joint = tables[h].mean(axis=rest)  # (states of u, states of h)
            yield (places[u] @ joint) / np.maximum(joint.sum(axis=0), 1e-300)
