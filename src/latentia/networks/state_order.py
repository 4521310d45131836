"""How the states of latents are numbered, told by their tables and nothing else.

Any renumbering of a latent's states is as likely. So that two fits can be compared, states go by
size, the largest first, or along a column, by its mean in each state. States whose sizes so many
rows cannot tell apart go by content: by where the columns next to the latent stand on average,
between their first state (0) and their last (1), all columns alike, so that neither their order nor
their names matter. Latents without a column next to them go by latents that have such means. Only
states that stand level in this, too, go by the first neighbour that tells them apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import numpy as np

from latentia.errors import PlanError
from latentia.exact.forward_marginals import forward_marginals
from latentia.exact.table_answers import TableAnswers
from latentia.networks.to_operators import CLEAR_GAP
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Bools, Codes

SAME_SIZE = 0.02  # shares that differ by less are equal, however many rows there are …
SURE = 3.0  # … or by less than these standard errors, of rows with known states …
SEEN = 0.05  # … but a reader sees that shares differ by this
LEVEL = 1e-4  # means of positions between 0 and 1 that differ by less are equal


def state_orders(
    graph: LatentGraph,
    tables: Mapping[int, Array],
    along: Mapping[int, int] | None = None,
    values: Mapping[int, Array] | None = None,
    weight: float = math.inf,
) -> dict[int, Codes]:
    """How the states of every latent are to be numbered.

    `along`: latent -> the column whose mean is to rise from state to state; `values`: column -> the
    number at each of its cells, default their codes. All others go by size, largest first, as far
    as `weight` rows tell them apart.
    """

    @cache
    def answers() -> TableAnswers:
        return TableAnswers(graph, {name: tables[v] for v, name in enumerate(graph.names)})

    orders = local_orders(graph, tables)
    known = forward_marginals(graph, tables, graph.latent) or {}
    for h in sorted(graph.latent):
        content, name = np.argsort(orders[h]), graph.names[h]  # place of each state
        try:
            sizes = known[h] if known else answers().posteriors(None, [name])[name][0]
            if along is not None and h in along:
                x = along[h]
                numbers = (values or {}).get(x, np.arange(graph.states[x] or 1, dtype=float))
                means = _means(answers(), h, x, numbers, sizes > 0)
                orders[h] = np.lexsort((content, _size_ranks(sizes, weight), means))
            else:
                orders[h] = np.lexsort((content, _size_ranks(sizes, weight)))
        except PlanError:  # too wide to tell: by content
            continue
    return orders


def _size_ranks(sizes: Array, weight: float) -> Codes:
    """Ranks of states, the largest 0; the same for those that rows do not tell apart.

    >>> _size_ranks(np.array([0.5, 0.1, 0.11, 0.29]), 1e6).tolist()
    [0, 2, 2, 1]
    >>> _size_ranks(np.array([0.54, 0.1, 0.16, 0.2]), 100).tolist()
    [0, 2, 1, 1]
    """
    order = np.argsort(-sizes, kind="stable")
    own = sizes[order]
    gaps, either = own[:-1] - own[1:], own[:-1] + own[1:]
    apart = gaps > np.clip(SURE * np.sqrt(either / weight), SAME_SIZE, SEEN)
    found = np.empty(len(sizes), dtype=np.int64)
    found[order] = np.concatenate([[0], np.cumsum(apart)])
    return found


def _means(answers: TableAnswers, h: int, x: int, numbers: Array, alive: Bools) -> Array:
    """E[column | state] of every state that there is; of others infinity, so that they are last."""
    evidence = np.full((len(alive), len(answers.names)), -1)
    evidence[:, h] = np.arange(len(alive))
    found = np.full(len(alive), np.inf)
    name = answers.names[x]
    found[alive] = answers.posteriors(evidence[alive], [name])[name] @ numbers
    return found


def local_orders(graph: LatentGraph, tables: Mapping[int, Array]) -> dict[int, Codes]:
    """How the states of every latent are to be numbered by content; all latents have one."""
    places: dict[int, Array] = {  # expected position of every state between 0 and 1
        v: np.arange(n := graph.states[v] or 1) / max(n - 1, 1) for v in graph.observed
    }
    orders: dict[int, Codes] = {}
    left = sorted(graph.latent)
    while left:
        told = {h: found for h in left if (found := list(_expected(graph, tables, places, h)))}
        if not told:  # cut off from every column
            return orders | {h: np.arange(graph.states[h] or 1) for h in left}
        for h, found in told.items():
            places[h] = np.add.reduce(found) / len(found)
            ranks = _level_ranks(places[h])
            level = ranks.max(initial=0) + 1 < len(ranks)  # some stand level
            orders[h] = np.lexsort((_clearest(found), ranks)) if level else np.argsort(ranks)
        left = [h for h in left if h not in told]
    return orders


def _level_ranks(means: Array) -> Codes:
    """Ranks of numbers, the same for those that stand level.

    >>> _level_ranks(np.array([0.5, 0.2, 0.50001])).tolist()
    [1, 0, 1]
    """
    order = np.argsort(means, kind="stable")
    found = np.empty(len(means), dtype=np.int64)
    found[order] = np.concatenate([[0], np.cumsum(np.diff(means[order]) > LEVEL)])
    return found


def _clearest(found: Sequence[Array]) -> Array:
    """What the first neighbour says that tells all states apart, or the one that nearly does."""
    gaps = [float(np.diff(np.sort(means)).min(initial=np.inf)) for means in found]
    clear = next((k for k, gap in enumerate(gaps) if gap >= CLEAR_GAP), int(np.argmax(gaps)))
    return found[clear]


def _expected(
    graph: LatentGraph, tables: Mapping[int, Array], places: Mapping[int, Array], h: int
) -> Iterator[Array]:
    """E[position of a neighbour | state of h], others alike: children, then parents."""
    parents = graph.parents()
    children = [v for v in graph.children()[h] if v in places]
    for v in sorted(children, key=lambda v: (len(parents[v]), v)):
        means = tables[v] @ places[v]  # (parents …)
        axis = parents[v].index(h)
        yield means.mean(axis=tuple(k for k in range(means.ndim) if k != axis))
    for axis, u in enumerate(parents[h]):
        if u in places:
            rest = tuple(k for k in range(len(parents[h])) if k != axis)
            joint = tables[h].mean(axis=rest)  # (states of u, states of h)
            yield (places[u] @ joint) / np.maximum(joint.sum(axis=0), 1e-300)
