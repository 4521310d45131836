"""Networks that the explorer is tried on: small ones, hostile ones, and alarm."""

from __future__ import annotations

import gzip
import importlib.util
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

import latentia as lt


@cache
def shipped(name: str) -> lt.TabularModel:
    """A network from pgmpy's wheel."""
    spec = importlib.util.find_spec("pgmpy")
    assert spec is not None
    assert spec.submodule_search_locations
    folder = Path(spec.submodule_search_locations[0]) / "utils" / "example_models"
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / f"{name}.bif"
        path.write_bytes(gzip.decompress((folder / f"{name}.bif.gz").read_bytes()))
        model: lt.TabularModel = lt.read(path)
        return model


def random_tables(graph: str, latents: dict[str, int], seed: int = 0) -> lt.TabularModel:
    """Tables drawn at random, with some zeros in them."""
    read = lt.as_graph(graph, latents)
    read = read.with_states({read.names[v]: 3 for v in read.observed})
    rng = np.random.default_rng(seed)
    cpts = {}
    for v, above in enumerate(read.parents()):
        shape = [read.states[u] or 1 for u in (*above, v)]
        table = rng.gamma(0.4, size=shape) * (rng.random(shape) > 0.1) + 1e-9
        cpts[read.names[v]] = table / table.sum(axis=-1, keepdims=True)
    return lt.TabularModel(read, cpts)


HOSTILE = "<script>alert(1)</script>"


def hostile() -> lt.TabularModel:
    """Names and states that would be markup, scripts, ends of strings and lines."""
    names = [HOSTILE, "</script><img src=x onerror=alert(2)>", "a\u2028b'\"`${1}", "\ud800&amp;"]
    edges = [(names[0], name) for name in names[1:]]
    return lt.TabularModel(
        edges,
        {
            names[0]: [0.3, 0.7],
            **{name: [[0.9, 0.1], [0.2, 0.8]] for name in names[1:]},
        },
        latents=[names[0]],
        state_names={names[1]: ["<b>yes</b>", "]]><!--"]},
    )
