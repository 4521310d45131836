"""EM and stepwise EM on wide latents: vectors and single precision lead where tables did."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows
from latentia.networks import em_problem, stepwise_passes
from latentia.networks.em_climb import climb
from latentia.networks.em_problem import pose
from latentia.networks.starts import random_tables
from latentia.networks.stepwise_passes import climb_stepwise
from latentia.networks.stepwise_wide import wide_steps
from latentia.structure.plan import make_plan
from latentia.structure.reading_graphs import as_graph

LATENTS = {"g": 26, "h": 24}


def posed(smoothing=0.0, holes: float = 0.0):
    columns = [f"x{i}" for i in range(12)]
    text = f"g -> h; g -> {', '.join(columns[:6])}; h -> {', '.join(columns[6:])}"
    graph = as_graph(text, LATENTS)
    graph = replace(graph, states=tuple(LATENTS.get(str(v), 3) for v in graph.names))
    rng = np.random.default_rng(2)
    hidden = rng.integers(3, size=400)
    codes = [np.where(rng.random(400) < 0.6, hidden, rng.integers(3, size=400)) for _ in columns]
    codes = [np.where(rng.random(400) < holes, -1, c).astype(np.int8) for c in codes]
    source = LocalRows(Rows(tuple(codes)), threads=1)
    return pose(make_plan(graph), source, smoothing), random_tables(
        graph, np.random.SeedSequence(1)
    )


@pytest.mark.parametrize(("smoothing", "holes"), [(0.0, 0.0), (2.0, 0.2)])
def test_steps_on_a_vector_are_those_on_tables(smoothing, holes, monkeypatch) -> None:
    """Single precision: 1e-4 after forty steps, each of which rounds to about 1e-6."""
    problem, start = posed(smoothing, holes)
    assert wide_steps(problem) is not None
    found = climb_stepwise(problem, start, 0.7, 20, 2, np.random.default_rng(5))
    monkeypatch.setattr(stepwise_passes, "wide_steps", lambda problem: None)
    plain = climb_stepwise(problem, start, 0.7, 20, 2, np.random.default_rng(5))
    for v, table in plain.tables.items():
        np.testing.assert_allclose(found.tables[v], table, atol=1e-4)
    np.testing.assert_allclose(found.path, plain.path, atol=1e-5)


def test_em_ends_where_it_does_in_double_precision(monkeypatch) -> None:
    problem, start = posed(1.0)
    assert problem.coarse
    found = climb(problem, start, 300, 1e-5)
    monkeypatch.setattr(em_problem, "wide_layout", lambda estep: None)
    assert not problem.coarse
    plain = climb(problem, start, 300, 1e-5)
    assert found.converged
    assert plain.converged
    assert found.path[-1] == pytest.approx(plain.path[-1], abs=1e-4)  # ten times the tolerance
    exact = problem.sum(found.tables).sums["log_likelihood"][0]
    last = found.path[-1] - problem.prior.log_density(found.tables) / problem.weight
    assert last == pytest.approx(exact / problem.weight, abs=1e-12)


def test_a_climb_cut_short_tells_its_level_in_double_precision(monkeypatch) -> None:
    problem, start = posed()
    found = climb(problem, start, 2, 1e-9)
    exact = problem.sum(found.tables).sums["log_likelihood"][0] / problem.weight
    assert not found.converged
    assert found.path[-1] == pytest.approx(exact, abs=1e-12)
