"""The mixed synthetic tree against numerical integration and its own samples."""

import itertools

import numpy as np
import pytest

import latentia as lt
from latentia.errors import EvidenceError, UnknownNameError
from latentia.testing.mixed_truth import BRANCH, COLUMNS
from latentia.testing.random_models import mixed_tree

GRID = np.linspace(-40, 260, 6001)
STEP = GRID[1] - GRID[0]


def joint_by_hand(tree, row):
    """p(row) by summing over all 81 states of the latents."""
    total = 0.0
    for h0, *h in itertools.product(range(3), repeat=4):
        p = tree.prior[h0] * np.prod([tree.ways[j][h0, h[j]] for j in range(3)])
        for name, leaf, j in zip(COLUMNS, tree.leaves, BRANCH, strict=True):
            if name in row:
                p *= leaf.density(np.atleast_1d(row[name]))[h[j], 0]
        total += p
    return total


@pytest.mark.parametrize("seed", range(3))
def test_densities_integrate_to_one(seed):
    tree = mixed_tree(seed)
    for name, leaf in zip(COLUMNS, tree.leaves, strict=True):
        at = np.arange(4) if name == "d4" else GRID
        step = 1.0 if name == "d4" else STEP
        np.testing.assert_allclose(leaf.density(at).sum(axis=1) * step, 1.0, atol=2e-3)
        p = tree.posterior(name, {}, at)
        assert abs(p.sum() * step - 1) < 2e-3


@pytest.mark.parametrize("seed", range(3))
def test_posteriors_by_enumeration_and_integration(seed):
    tree = mixed_tree(seed)
    rows = tree.sample(4, np.random.default_rng(seed))
    for i in range(4):
        row = {name: values[i] for name, values in rows.items()}
        np.testing.assert_allclose(
            tree.log_density(row)[0], np.log(joint_by_hand(tree, row)), atol=1e-10
        )
        for asked, seen in (("x0", ("x1", "x3", "d4")), ("d4", ("x5", "x0")), ("x3", ("d4",))):
            evidence = {name: row[name] for name in seen}
            at = np.arange(4) if asked == "d4" else np.linspace(0.5, 99.5, 7)
            below = joint_by_hand(tree, evidence)
            wanted = [joint_by_hand(tree, {**evidence, asked: x}) / below for x in at]
            np.testing.assert_allclose(tree.posterior(asked, evidence, at), wanted, rtol=1e-9)
    # integrating a column out of the joint is leaving it out
    row = {name: rows[name][0] for name in ("x0", "x1", "d4")}
    whole = {**{n: np.full(len(GRID), v) for n, v in row.items()}, "x5": GRID}
    np.testing.assert_allclose(
        np.exp(tree.log_density(whole)).sum() * STEP, np.exp(tree.log_density(row)[0]), rtol=2e-3
    )


def test_samples_follow_the_posteriors():
    tree = mixed_tree(1)
    rows = tree.sample(100_000, np.random.default_rng(0))
    for name in ("x0", "x1", "x5"):
        edges = np.linspace(-40, 260, 61)
        counts = np.histogram(rows[name], edges)[0] / 100_000
        mass = tree.posterior(name, {}, GRID) * STEP
        wanted = np.histogram(GRID, edges, weights=mass)[0]
        assert np.abs(counts - wanted).sum() < 0.03
    # of rows with x0 in a small window: the states of d4
    near = np.abs(rows["x0"] - 30) < 1
    wanted = tree.posterior("d4", {"x0": 30.0}, range(4))
    found = np.bincount(rows["d4"][near], minlength=4) / near.sum()
    assert np.abs(found - wanted).max() < 4 * np.sqrt(0.25 / near.sum()) + 0.01


def test_shapes_and_errors():
    tree = mixed_tree(0)
    rows = tree.sample(6, np.random.default_rng(0))
    assert rows["d4"].dtype.kind == "i"
    assert lt.testing.mixed_tree(0).posterior("x0", {"x1": 20.0}, [1.0, 2.0]).shape == (2,)
    assert tree.posterior("x0", {"x1": rows["x1"], "d4": 2}, [1.0, 2.0]).shape == (6, 2)
    same = mixed_tree(0)
    assert all((a == b).all() for a, b in zip(same.ways, tree.ways, strict=True))
    with pytest.raises(UnknownNameError, match="x9"):
        tree.posterior("x9", {}, 0.0)
    with pytest.raises(EvidenceError, match="asked for and observed"):
        tree.posterior("x0", {"x0": 1.0}, 0.0)
    with pytest.raises(EvidenceError, match="density zero"):
        tree.posterior("x0", {"x1": -5.0}, 0.0)
