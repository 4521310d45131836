"""Climbs in lockstep: by the kernel as by numpy, and as each would climb alone."""

import numpy as np
import pytest

from latentia.native.loading import kernel
from latentia.networks.accelerate import Prior, accelerate
from latentia.networks.compiled_lockstep import CompiledLockstep
from latentia.networks.lockstep import Lockstep, in_turn

PRIOR = Prior({0: np.full(3, 0.5), 1: np.full((3, 4), 0.5), 2: np.full((3, 5), 0.5)})
PAIRS = np.random.default_rng(0).integers(0, 40, (4, 5)).astype(float)  # of two columns


def estep(tables):
    """Two columns of one class, told by their pairs."""
    joint = np.einsum("h,ha,hb->hab", *(tables[k] for k in range(3)))
    whole = joint.sum(axis=0)
    belief = joint / whole * PAIRS
    counts = {0: belief.sum((1, 2)), 1: belief.sum(2), 2: belief.sum(1)}
    return counts, float((PAIRS * np.log(whole)).sum())


def starts(count):
    rng = np.random.default_rng(1)
    shapes = {0: (), 1: (3,), 2: (3,)}
    sizes = {0: 3, 1: 4, 2: 5}
    return [{k: rng.dirichlet(np.ones(sizes[k]), shapes[k]) for k in sizes} for _ in range(count)]


def field(way, some, enough):
    many = in_turn(estep, {k: t.shape for k, t in some[0].items()})
    if way == "numpy":
        return Lockstep(some, PRIOR, many, enough)
    own = kernel()
    if own is None:
        pytest.skip("no kernel was built")
    return CompiledLockstep(own, some, PRIOR, many, enough)


@pytest.mark.parametrize("steps", [1, 2, 5, 12])
def test_the_kernel_takes_the_steps_of_numpy(steps):
    """To rounding, which long steps make larger."""
    some = starts(4)
    one, other = field("numpy", some, 1e-6), field("kernel", some, 1e-6)
    for climbs in (one, other):
        climbs.advance(range(4), steps)
    np.testing.assert_allclose(other.level, one.level, rtol=1e-7)
    assert other.steps.tolist() == one.steps.tolist()


@pytest.mark.parametrize("way", ["numpy", "kernel"])
def test_climbs_end_where_each_would_alone(way):
    some = starts(5)
    climbs = field(way, some, 1e-8)
    climbs.advance([0, 2, 4], 300)
    assert climbs.steps[1] == climbs.steps[3] == 1  # left behind
    for k in (0, 2, 4):
        assert climbs.rests[k]
        alone = accelerate(some[k], PRIOR, estep, 1e-8, 300)
        assert climbs.level[k] == pytest.approx(alone.history[-1], abs=1e-4)  # where they rest
        for v, table in alone.tables.items():
            np.testing.assert_allclose(climbs.tables(k)[v].sum(axis=-1), 1.0, atol=1e-12)
            assert table.shape == climbs.tables(k)[v].shape


def test_a_start_without_any_chance_rests_at_once():
    some = starts(2)
    some[1][1][:] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        climbs = field("kernel", some, 1e-6)
        climbs.advance([0, 1], 20)
    assert climbs.level[1] == -np.inf
    assert np.isfinite(climbs.level[0])
