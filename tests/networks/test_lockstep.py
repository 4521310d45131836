"""Climbs in lockstep: by the kernel as by numpy, and as each would climb alone."""

import numpy as np
import pytest

from latentia.data.rows import Rows
from latentia.exact.estep import pack_rows, packed_counts
from latentia.exact.estep_wiring import compile_estep
from latentia.native.loading import kernel
from latentia.networks.accelerate import Prior, accelerate
from latentia.networks.compiled_lockstep import CompiledLockstep, compiled_climb
from latentia.networks.em_problem import counts_in
from latentia.networks.lockstep import Lockstep, in_turn
from latentia.networks.many_starts import compiled_starts
from latentia.structure.reading_graphs import as_graph

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


# --- whole climbs in the kernel -------------------------------------------------------------------


def posed(seed=0, tiny=False):
    """A chain of two latents with columns, and the E-steps of starts: compiled, and by folds."""
    if kernel() is None:
        pytest.skip("no kernel was built")
    rng = np.random.default_rng(seed)
    graph = as_graph("h -> i; h -> a, b; i -> c, d", {"h": 2, "i": 3})
    graph = graph.with_states(dict.fromkeys("abcd", 3))
    rows = Rows(tuple(rng.integers(0, 3, 120) for _ in range(4)), rng.gamma(2.0, size=120))
    estep = compile_estep(graph, ())
    packed = pack_rows(estep, rows)

    def alone(tables):
        moments = packed_counts(estep, tables, packed)
        return counts_in(moments), float(moments.sums["log_likelihood"][0])

    sizes = [graph.states[v] for v in range(6)]
    above = graph.parents()
    some = [
        {v: rng.dirichlet(np.ones(sizes[v]), [sizes[u] for u in above[v]]) for v in range(6)}
        for _ in range(3)
    ]
    if tiny:  # products that come too near the smallest numbers, in the first start
        some[0] = {v: t * 1e-120 if graph.names[v] in "ab" else t for v, t in some[0].items()}
    prior = Prior({v: np.full(sizes[v], 0.5) for v in range(6)})
    return some, prior, compiled_starts(estep, packed, some[0], alone), alone


@pytest.mark.parametrize("tiny", [False, True])
@pytest.mark.parametrize("steps", [2, 7, 15])
def test_whole_climbs_in_the_kernel_are_those_step_by_step(steps, tiny):
    """The same points, to rounding; E-steps that need care are taken outside."""
    some, prior, many, alone = posed(tiny=tiny)
    assert many.whole is not None
    shapes = {k: t.shape for k, t in some[0].items()}
    whole = CompiledLockstep(kernel(), some, prior, many, 1e-6)
    single = CompiledLockstep(kernel(), some, prior, in_turn(alone, shapes), 1e-6)
    for climbs in (whole, single):
        climbs.advance([0, 2], steps)
    assert whole.steps.tolist() == single.steps.tolist()
    np.testing.assert_allclose(whole.level, single.level, rtol=1e-9)


@pytest.mark.parametrize("patience", [np.inf, 5.0])
def test_a_compiled_climb_is_an_accelerated_one(patience):
    """Its path as well, which never falls; with little patience it ends as early."""
    some, prior, many, alone = posed(1)
    found = compiled_climb(some[0], prior, many, 0.03, 300, patience)
    right = accelerate(some[0], prior, alone, 0.03, 300, patience=patience)
    assert (found.converged, found.steps) == (right.converged, right.steps)
    assert (np.diff(found.history) >= 0).all()
    np.testing.assert_allclose(found.history, right.history, rtol=1e-6)
    assert found.log_likelihood == pytest.approx(right.log_likelihood, rel=1e-6)
    for v, table in right.tables.items():
        np.testing.assert_allclose(found.tables[v], table, atol=1e-4)  # rounding grows step by step
