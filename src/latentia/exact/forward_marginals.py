"""P(variable) before any evidence, where no variable above has more than one parent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from latentia.structure.graph import LatentGraph
from latentia.typing import Array


def forward_marginals(
    graph: LatentGraph, tables: Mapping[int, Array], asked: Iterable[int]
) -> dict[int, Array] | None:
    """Σ over the parent, from the top down; None where a variable on the way has several parents.

    >>> import numpy as np
    >>> chain = LatentGraph(("A", "B"), ((0, 1),), frozenset({0}), (2, 2))
    >>> tables = {0: np.array([0.5, 0.5]), 1: np.array([[0.9, 0.1], [0.3, 0.7]])}
    >>> forward_marginals(chain, tables, [1])
    {1: array([0.6, 0.4])}
    """
    parents = graph.parents()
    found: dict[int, Array] = {}
    wanted = list(asked)
    for last in wanted:
        path, v = list[int](), last
        while v not in found:
            if len(parents[v]) > 1:
                return None
            path.append(v)
            if not parents[v]:
                break
            (v,) = parents[v]
        for v in reversed(path):
            told = tables[v] if not parents[v] else found[parents[v][0]] @ tables[v]
            found[v] = told / told.sum()
    return {v: found[v] for v in wanted}
