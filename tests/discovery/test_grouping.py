"""Recursive grouping: exact distances give the true tree, rows nearly so, odd tables an answer."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import latentia as lt
from latentia.data.moments import Moments
from latentia.discovery.pair_distances import PairDistances, distances_of
from latentia.discovery.recursive_grouping import group_recursively
from latentia.errors import DataError
from latentia.typing import Array

Columns = list[list[int]]
Edges = list[tuple[int, int]]


def random_tree(rng: np.random.Generator, latents: int) -> tuple[Columns, Edges]:
    """Every latent has three neighbours at least, so that it can be told from rows."""
    edges = [(int(rng.integers(i)), i) for i in range(1, latents)]
    ties = np.bincount(np.array(edges, dtype=int).ravel(), minlength=latents)
    columns: Columns = []
    for h in range(latents):
        first = sum(map(len, columns))
        columns.append(list(range(first, first + max(0, 3 - ties[h]) + int(rng.integers(2)))))
    return columns, edges


def exact_pairs(
    rng: np.random.Generator, columns: Columns, edges: Edges, k: int, sizes: list[int]
) -> Array:
    """P(x, y) of all pairs of columns, a block each."""
    home = {c: h for h, own in enumerate(columns) for c in own}
    both = {(0, 0): np.diag(rng.dirichlet(np.full(k, 5.0)))}
    for a, b in edges:
        link = 0.5 * rng.dirichlet(np.full(k, 0.5), size=k) + 0.5 * np.eye(k)
        for other in range(b):
            both[other, b] = both[other, a] @ link
            both[b, other] = both[other, b].T
        both[b, b] = np.diag(both[a, b].sum(axis=0))
    told = [rng.dirichlet(np.full(m, 0.7), size=k) for m in sizes]
    blocks = [
        [told[x].T @ both[home[x], home[y]] @ told[y] for y in range(len(sizes))]
        for x in range(len(sizes))
    ]
    return np.block(blocks)


def splits(columns: Columns, edges: Edges) -> set[frozenset[int]]:
    """How each edge parts the columns, by the side without the first: they are the tree."""
    tree = nx.Graph([(f"h{a}", f"h{b}") for a, b in edges])
    tree.add_edges_from((f"h{h}", c) for h, own in enumerate(columns) for c in own)
    every = {v for v in tree if isinstance(v, int)}
    found = set()
    for a, b in list(tree.edges):
        tree.remove_edge(a, b)
        side = every & nx.node_connected_component(tree, a)
        tree.add_edge(a, b)
        found.add(frozenset(every - side if 0 in side else side))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_exact_sums_give_the_true_tree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k, latents = int(rng.integers(2, 4)), int(rng.integers(1, 8))
    columns, edges = random_tree(rng, latents)
    sizes = [int(m) for m in rng.integers(k, k + 3, size=sum(map(len, columns)))]
    pairs = 1e12 * exact_pairs(rng, columns, edges, k, sizes)
    moments = Moments("pairs of states", 1e12, 1, {"pairs": pairs, "states": np.ones(sum(sizes))})
    between = distances_of(sizes, [], moments, k).between
    found = group_recursively(PairDistances(between, np.ones_like(between)), 1e-6)
    assert splits([list(own) for own in found.columns], list(found.edges)) == splits(columns, edges)


def test_distances_are_those_of_determinants() -> None:
    joint = np.array([[0.3, 0.1], [0.15, 0.45]])
    pairs = np.block([[np.eye(2), joint], [joint.T, np.eye(2)]]) * 1e9
    moments = Moments("pairs of states", 1e9, 1, {"pairs": pairs, "states": np.ones(4)})
    found = distances_of([2, 2], [], moments, 2).between[0, 1]
    margins = joint.sum(axis=0).prod() * joint.sum(axis=1).prod()
    assert found == pytest.approx(-np.log(abs(np.linalg.det(joint)) / np.sqrt(margins)))


def two_groups(n: int = 2000) -> pd.DataFrame:
    """Two causes of three columns each, tied by a third that no column tells."""
    rng = np.random.default_rng(0)
    flip = lambda x, p: np.where(rng.random(n) < p, 1 - x, x)  # noqa: E731
    top = rng.integers(2, size=n)
    mood, health, work = flip(top, 0.15), flip(top, 0.15), flip(top, 0.15)
    causes = {"mood": mood, "health": health, "work": work}
    return pd.DataFrame({f"{c}{i}": flip(x, 0.1) for c, x in causes.items() for i in range(3)})


def test_a_latent_that_tells_latents_only_is_found_and_named() -> None:
    found = lt.learn_structure(two_groups(8000), "grouping", max_states=2)
    assert len(found.latents) == 4
    for cause in ("mood", "health", "work"):
        assert any(
            {b for a, b in found.edges if a == latent} >= {f"{cause}{i}" for i in range(3)}
            for latent in found.latents
        )
    (top,) = (
        h for h in found.latents if not any(a == h and b in found.columns for a, b in found.edges)
    )
    assert top.startswith("latent(")
    assert top.count(",") == 3
    model = lt.LatentModel(found.edges, latents=found.latents).fit(two_groups(500))
    assert model.query("mood0", {"mood1": 1, "mood2": 1}).mode == 1


def test_holes_numbers_and_columns_that_tell_nothing() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=300)
    frame = pd.DataFrame({c: x + rng.normal(size=300) for c in "abc"})
    frame["alone"], frame["same"] = rng.integers(2, size=300), 1
    frame = frame.mask(rng.random(frame.shape) < 0.1)
    found = lt.learn_structure(frame, lt.Structure("grouping").method)
    assert {b for _, b in found.edges} >= set("abc")
    assert "alone" not in {b for _, b in found.edges}
    assert lt.learn_structure(frame[["a", "b"]], "grouping").latents
    assert not lt.learn_structure(frame[["alone", "same"]], "grouping").latents


def test_what_grouping_cannot_be_told() -> None:
    with pytest.raises(DataError, match="require and forbid"):
        lt.learn_structure(two_groups(200), "grouping", forbid=[("mood0", "mood1")])
    wide = pd.DataFrame(np.random.default_rng(0).integers(2, size=(60, 301)))
    with pytest.raises(DataError, match="at most 300 columns"):
        lt.learn_structure(wide, "grouping")
