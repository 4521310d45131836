"""How the states of latents are numbered, told by their tables and nothing else.

Any renumbering of a latent's states is as likely. So that two fits can be compared, states go by
size, the largest first, or along a column, by its mean in each state. States of nearly the same
size go by the expected code of a neighbour: first a column that tells them clearly apart, those
that hang on the latent alone before others; latents without one go by latents that have an order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from latentia.errors import PlanError
from latentia.exact.table_answers import TableAnswers
from latentia.networks.to_operators import CLEAR_GAP
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Codes

SAME_SIZE = 0.02  # shares that differ by less are equal: rows are a sample


def state_orders(
    graph: LatentGraph,
    tables: Mapping[int, Array],
    along: Mapping[int, int] | None = None,
    values: Mapping[int, Array] | None = None,
) -> dict[int, Codes]:
    """How the states of every latent are to be numbered.

    `along`: latent -> the column whose mean is to rise from state to state; `values`: column -> the
    number at each of its cells, default their codes. All others go by size, largest first.
    """
    answers = TableAnswers(graph, {name: tables[v] for v, name in enumerate(graph.names)})
    orders = local_orders(graph, tables)
    for h in sorted(graph.latent):
        content = np.argsort(orders[h])  # place of each state
        try:
            sizes = answers.posteriors(None, [graph.names[h]])[graph.names[h]][0]
            if along is not None and h in along:
                x = along[h]
                numbers = (values or {}).get(x, np.arange(graph.states[x] or 1, dtype=float))
                means = _means(answers, h, x, numbers, sizes > 0)
                orders[h] = np.lexsort((content, _steps(-sizes), means))
            else:
                orders[h] = np.lexsort((content, _steps(-sizes)))
        except PlanError:  # too wide to tell: by content
            continue
    return orders


def _steps(numbers: Array, near: float = SAME_SIZE) -> Codes:
    """Ranks of numbers, the same for those that follow each other closely.

    >>> _steps(np.array([0.5, 0.1, 0.11, 0.29])).tolist()
    [2, 0, 0, 1]
    """
    order = np.argsort(numbers, kind="stable")
    ranks = np.concatenate([[0], np.cumsum(np.diff(numbers[order]) > near)])
    found = np.empty(len(numbers), dtype=np.int64)
    found[order] = ranks
    return found


def _means(answers: TableAnswers, h: int, x: int, numbers: Array, alive: Array) -> Array:
    """E[column | state] of every state that there is; of others infinity, so that they are last."""
    evidence = np.full((len(alive), len(answers.names)), -1)
    evidence[:, h] = np.arange(len(alive))
    found = np.full(len(alive), np.inf)
    name = answers.names[x]
    found[alive] = answers.posteriors(evidence[alive], [name])[name] @ numbers
    return found


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
