"""Networks drawn at random in shapes of their own, some of whose nodes are hidden."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from latentia.exact.table_answers import TableAnswers
from latentia.structure.graph import LatentGraph

Edges: TypeAlias = list[tuple[int, int]]
Drawn: TypeAlias = tuple[Edges, frozenset[int], tuple[int, ...]]  # edges, latents, states


def draw_network(shape: str, rng: np.random.Generator) -> TableAnswers:
    """Tables are clear: Dirichlet(1/2) rows."""
    edges, latent, states = SHAPES[shape](rng)
    graph = LatentGraph(
        tuple(f"v{k}" for k in range(len(states))), tuple(sorted(edges)), latent, states
    )
    tables = {
        graph.names[v]: rng.dirichlet(np.full(states[v], 0.5), size=[states[u] for u in above])
        for v, above in enumerate(graph.parents())
    }
    return TableAnswers(graph, tables)


def _polytree(rng: np.random.Generator, size: int = 25, hidden: int = 4) -> Drawn:
    """A tree whose edges run either way; nodes that have a child and two neighbours are hidden."""
    order = rng.permutation(size)
    edges = []
    for k in range(1, size):
        a, b = order[k], order[int(rng.integers(k))]
        edges.append((int(a), int(b)) if rng.random() < 0.5 else (int(b), int(a)))
    edges = _forward(edges, size)
    near = [sum(v in e for e in edges) for v in range(size)]
    fit = [v for v in sorted({a for a, _ in edges}) if near[v] > 2]
    latent = frozenset(rng.choice(fit, min(hidden, len(fit)), replace=False).tolist())
    return edges, latent, tuple(int(k) for k in rng.integers(2, 5, size))


def _forward(edges: Edges, size: int) -> Edges:
    """The same edges with nodes renumbered so that parents come first."""
    above = {v: {a for a, b in edges if b == v} for v in range(size)}
    order: list[int] = []
    while len(order) < size:
        order += [v for v in range(size) if v not in order and above[v] <= set(order)]
    number = {v: k for k, v in enumerate(order)}
    return [(number[a], number[b]) for a, b in edges]


def _causes(rng: np.random.Generator, causes: int = 6, symptoms: int = 20) -> Drawn:
    """Hidden causes, each symptom of two of them."""
    edges = []
    for k in range(symptoms):
        pair = rng.choice(causes, 2, replace=False)
        edges += [(int(c), causes + k) for c in sorted(pair)]
    told = {a for a, _ in edges}
    edges += [(c, causes + int(rng.integers(symptoms))) for c in range(causes) if c not in told]
    return edges, frozenset(range(causes)), (2,) * (causes + symptoms)


def _grid(rng: np.random.Generator, side: int = 3, columns: int = 18) -> Drawn:
    """A 3 x 3 grid of hidden nodes; columns above some, below some, and among each other."""
    top = 4
    cell = {(i, j): top + side * i + j for i, j in itertools.product(range(side), repeat=2)}
    edges = [(cell[i, j], cell[i + 1, j]) for i, j in cell if i + 1 < side]
    edges += [(cell[i, j], cell[i, j + 1]) for i, j in cell if j + 1 < side]
    edges += [(k, cell[0, k % side]) for k in range(top)]
    first = top + side * side
    for k in range(columns):
        hidden = cell[divmod(k % (side * side), side)]
        edges.append((hidden, first + k))
        if k and rng.random() < 0.4:
            edges.append((first + int(rng.integers(k)), first + k))
    size = first + columns
    latent = frozenset(cell.values())
    states = [2 if v in latent else int(rng.integers(2, 4)) for v in range(size)]
    return sorted(set(edges)), latent, tuple(states)


def _tree(rng: np.random.Generator, leaves: int = 4) -> Drawn:
    """Five hidden nodes in a row, and columns below each: nothing but latents has a child."""
    hidden = 5
    edges = [(k, k + 1) for k in range(hidden - 1)]
    edges += [(k % hidden, hidden + k) for k in range(hidden * leaves)]
    states = (*(3,) * hidden, *(int(k) for k in rng.integers(2, 5, hidden * leaves)))
    return edges, frozenset(range(hidden)), states


SHAPES: dict[str, Callable[[np.random.Generator], Drawn]] = {
    "polytree": _polytree,
    "causes": _causes,
    "grid": _grid,
    "latent tree": _tree,
}
