"""Panels of pass 1: which blocks are counted together, and how often a column is."""

from __future__ import annotations

import numpy as np
import pytest

from latentia.closed_form.pairs import (
    MOST_PANEL_STATES,
    PANEL_STATES,
    leaf_codes,
    pair_layout,
    sum_pairs,
)
from latentia.data.rows import Rows
from latentia.structure.graph import LatentGraph
from latentia.structure.plan import make_plan
from latentia.structure.reading_graphs import as_graph
from latentia.structure.templates import hidden_markov, latent_class


def hubs(columns: int) -> LatentGraph:
    """Four latents under one, with so many columns each."""
    edges = [("R", f"H{j}") for j in range(4)]
    edges += [(f"H{j}", f"x{j}_{i}") for j in range(4) for i in range(columns)]
    return as_graph(edges, {"R": 2, **{f"H{j}": 2 for j in range(4)}})


def sized(graph: LatentGraph, states: int) -> LatentGraph:
    return graph.with_states({graph.names[v]: states for v in graph.observed})


@pytest.mark.parametrize(
    ("graph", "work"),  # cells of all products, as a multiple of one product of all states
    [(hubs(100), 2.0), (latent_class(400, 2), 2.0), (hidden_markov(400, 2), 0.5)],
)
def test_nodes_that_want_the_same_share_a_panel(graph: LatentGraph, work: float) -> None:
    """Four hubs of a hundred columns took 537 panels, and eighty times the products."""
    layout = pair_layout(make_plan(sized(graph, 5)))
    widths = [layout.width(p) for p in range(len(layout.spans))]
    assert max(widths) <= MOST_PANEL_STATES
    assert sum(w**2 for w in widths) <= work * (5 * 400) ** 2


def test_every_node_finds_its_blocks_in_its_panel() -> None:
    plan = make_plan(sized(hubs(40), 3))
    layout = pair_layout(plan)
    assert max(layout.width(p) for p in range(len(layout.spans))) > PANEL_STATES
    rows = Rows(tuple(np.random.default_rng(0).integers(3, size=(len(plan.leaves), 50))))
    sums = sum_pairs(layout, rows).sums
    for k, node in enumerate(plan.nodes):
        if node.parent == k:
            continue
        counts, found = sums[f"pairs/{layout.panel_of[k]}"], []
        for block in (*node.inside.wide, *node.outside.wide):
            own = layout.span(layout.panel_of[k], block)
            found.append(counts[own, own])
        for block, own in zip((*node.inside.wide, *node.outside.wide), found, strict=True):
            codes = leaf_codes(plan, rows)[block[0]]
            np.testing.assert_array_equal(own, np.diag(np.bincount(codes, minlength=3)))
