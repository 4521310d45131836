"""Networks to read and write: those that pgmpy's wheel carries, and small ones with odd names."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import latentia as lt
from latentia.testing.random_models import random_graph, random_model

NETWORKS = [
    "alarm",
    "andes",
    "asia",
    "barley",
    "cancer",
    "child",
    "diabetes",
    "earthquake",
    "hailfinder",
    "hepar2",
    "insurance",
    "link",
    "mildew",
    "munin",
    "munin1",
    "munin2",
    "munin3",
    "munin4",
    "pathfinder",
    "pigs",
    "sachs",
    "survey",
    "water",
    "win95pts",
]
LARGE = {"barley", "diabetes", "link", "mildew", "munin", "munin2", "munin3", "munin4"} | {
    "munin1",
    "pathfinder",
}
ENDINGS = ["bif", "xmlbif", "xdsl", "net", "uai"]


def network_file(name: str) -> Path:
    """The packed BIF file as pgmpy's wheel carries it (pgmpy itself is not imported)."""
    spec = importlib.util.find_spec("pgmpy")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("needs the networks' BIF files, which come with pgmpy: pip install pgmpy")
    path = Path(spec.submodule_search_locations[0]) / "utils" / "example_models"
    if not (path / f"{name}.bif.gz").exists():
        pytest.skip(f"this version of pgmpy has no {name}.bif.gz; pgmpy 1.1.2 has")
    return path / f"{name}.bif.gz"


def odd_model() -> lt.TabularModel:
    """Three parents of different sizes, in an order that is not that of their names; odd labels."""
    rng = np.random.default_rng(0)
    states = {
        "z last": ["< 5", "5 - 10", "> 10"],
        "b&w": ["it's", "<tag>"],
        "größe": ["0", "1", "2", "3"],
        "x": ["yes", "no"],
        "1st": ["a//b", "(c)", "d;e", "{f}", "g|h"],
    }
    parents = {"z last": [], "b&w": [], "größe": ["b&w"], "x": ["z last", "größe", "b&w"]}
    parents["1st"] = ["x"]
    cpts = {
        name: rng.dirichlet(np.ones(len(states[name])), [len(states[p]) for p in above])
        for name, above in parents.items()
    }
    return lt.TabularModel(parents, cpts, latents=["größe"], state_names=states)


def plain_model(kind: str = "diamond", seed: int = 0) -> lt.TabularModel:
    """A random model; of its states none has a name."""
    rng = np.random.default_rng(seed)
    return random_model(random_graph(rng, kind), rng)


def check_same(found: Any, expected: lt.TabularModel, cells: float = 0.0) -> None:
    """The same variables, states, parents in their order, latents and tables."""
    assert set(found.names) == {str(name) for name in expected.names}
    theirs, ours, cpts = found.graph.parents(), expected.graph.parents(), expected.cpts
    tables = found.cpts
    for v, name in enumerate(expected.names):
        own = found.graph.index(str(name))
        above = [str(expected.names[p]) for p in ours[v]]
        assert [found.names[p] for p in theirs[own]] == above
        assert (own in found.graph.latent) == (v in expected.graph.latent)
        states = expected.state_names.get(name, range(expected.states[v]))
        assert found.state_names[str(name)] == tuple(map(str, states))
        if expected.graph.directed:
            np.testing.assert_allclose(tables[str(name)], cpts[name], rtol=0, atol=cells)
