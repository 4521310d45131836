"""EM piece by piece with continuous columns: Gaussians on the cells of their grids (leaf_cells.py).

Where a junction tree of the whole graph would be too wide. Every start takes the path of EM; sums
over rows are counts of cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from latentia.errors import DataError
from latentia.networks.em_pieces import PiecesProblem
from latentia.networks.leaf_cells import LeafCells
from latentia.networks.starts import make_starts, spawn_seeds
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Seed

NEAR_A_ROW = 0.5  # how much of a first Gaussian is a row that was drawn; the rest is the column


def check_wishes(
    graph: LatentGraph, leaves: Mapping[int, LeafCells], init: object, mixture: int
) -> None:
    """What EM cannot do with continuous columns where a graph is too wide for a plan."""
    name = graph.names[next(iter(leaves))]
    if mixture != 1:
        raise DataError(
            f"this graph is learned piece by piece, where the continuous column {name!r} has one "
            f"Gaussian for each state of its parents, got mixture={mixture}. Use mixture=1."
        )
    if not isinstance(init, str) or init != "random":
        raise DataError(
            f"expected init='random' with continuous columns such as {name!r}; others start from "
            "tables of discrete columns."
        )


def cell_starts(
    problem: PiecesProblem, restarts: int, random_state: Seed
) -> list[Callable[[], dict[int, Array]]]:
    """Tables at random, Gaussians around rows that are drawn."""
    seeds = [seed.spawn(1)[0] for seed in spawn_seeds(random_state, max(restarts, 1))]
    starts = make_starts(problem.graph, "random", restarts, random_state)
    return [
        partial(_started, start, problem.leaves, problem.marginals, seed)
        for start, seed in zip(starts, seeds, strict=True)
    ]


def _started(
    start: Callable[[], dict[int, Array]],
    leaves: Mapping[int, LeafCells],
    marginals: Mapping[int, Array],
    seed: np.random.SeedSequence,
) -> dict[int, Array]:
    tables, rng = start(), np.random.default_rng(seed)
    for v, leaf in leaves.items():
        share = marginals[v] / marginals[v].sum()
        rows = tables[v].size // leaf.cells
        near = np.eye(leaf.cells)[rng.choice(leaf.cells, rows, p=share)]
        drawn = leaf.masses(NEAR_A_ROW * near + (1.0 - NEAR_A_ROW) * share)
        tables[v] = drawn.reshape(tables[v].shape)
    return tables
