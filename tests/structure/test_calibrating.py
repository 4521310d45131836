"""Clique marginals against the whole joint table, and on a way so long that it could fade."""

from __future__ import annotations

import numpy as np
import pytest

import latentia as lt
from latentia.structure import templates
from latentia.structure.calibrating import calibrated
from latentia.structure.graph import LatentGraph


def factors_of(graph: LatentGraph, rng: np.random.Generator):
    parents, states = graph.parents(), [n or 1 for n in graph.states]
    return [
        ((*above, v), rng.random([states[u] for u in (*above, v)]))
        for v, above in enumerate(parents)
    ]


@pytest.mark.parametrize(
    "graph",
    [
        templates.grid(2, 2, 2),
        templates.factorial_markov(3, 2, 2),
        lt.as_graph("A->x; A->y; B->z; B->w; A->B; C->u; C->v", {"A": 3, "B": 2, "C": 2}),
    ],
)
def test_cliques_have_the_marginals_of_the_joint(graph: LatentGraph) -> None:
    sized = graph.with_states({graph.names[v]: 2 + v % 2 for v in graph.observed})
    plan = lt.make_plan(sized)
    states = [n or 1 for n in plan.graph.states]
    rng = np.random.default_rng(0)
    for _ in range(2):  # the second time the course is kept
        factors = factors_of(plan.graph, rng)
        axes, beliefs = calibrated(plan.tree, states, iter(factors))
        joint = np.ones([1] * len(states))
        for family, table in factors:
            order = np.argsort(family)
            shape = [states[v] if v in family else 1 for v in range(len(states))]
            joint = joint * table.transpose(order).reshape(shape)
        joint /= joint.sum()
        for own, found in zip(axes, beliefs, strict=True):
            gone = tuple(v for v in range(len(states)) if v not in own)
            np.testing.assert_allclose(found, joint.sum(axis=gone), atol=1e-13)


def test_small_numbers_do_not_fade_on_a_long_way() -> None:
    graph = templates.hidden_markov(400, 2)
    plan = lt.make_plan(graph.with_states({graph.names[v]: 2 for v in graph.observed}))
    rng = np.random.default_rng(1)
    factors = [(family, 1e-9 * table) for family, table in factors_of(plan.graph, rng)]
    _, beliefs = calibrated(plan.tree, [n or 1 for n in plan.graph.states], factors)
    for found in beliefs:
        assert found.sum() == pytest.approx(1.0)
        assert np.isfinite(found).all()
