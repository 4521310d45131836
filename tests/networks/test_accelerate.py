"""The climb of the refinement: EM with a memory reaches EM's top, in fewer steps, never falling."""

import itertools
import math

import numpy as np
import pytest

from latentia.data.rows import Rows
from latentia.data.sources.memory import LocalRows, equal_rows, unique_rows
from latentia.linear_algebra import whitener
from latentia.model.trials import prefer_refined
from latentia.networks.accelerate import Prior, accelerate, normalised
from latentia.networks.em_problem import counts_in, pose
from latentia.structure import templates
from latentia.structure.plan import make_plan
from latentia.testing.random_models import random_model

GRAPH = templates.hidden_markov(5, 2).with_states({f"X{t}": 3 for t in range(5)})


def problem_and_start(seed):
    """Rows of a random chain, an E-step over them, and tables at random."""
    rng = np.random.default_rng(seed)
    rows = random_model(GRAPH, rng, 0.5).sample(1500, rng).astype(np.int8)
    problem = pose(make_plan(GRAPH), LocalRows(Rows(tuple(rows.T.copy()))))
    states = [count or 1 for count in GRAPH.states]
    start = {
        v: rng.dirichlet(np.full(states[v], 3.0), size=[states[u] for u in above])
        for v, above in enumerate(GRAPH.parents())
    }
    prior = Prior({v: np.full(states[v], 1.0 / states[v]) for v in range(len(states))})

    def estep(tables):
        moments = problem.sum(tables)
        return counts_in(moments), float(moments.sums["log_likelihood"][0])

    return estep, start, prior


def plain(estep, tables, prior, steps):
    """Plain MAP-EM, written out: the levels before each step."""
    levels = []
    for _ in range(steps):
        counts, fit = estep(tables)
        levels.append(fit + prior.log_density(tables))
        tables = normalised(counts, prior)
    return levels


@pytest.mark.parametrize("seed", range(4))
def test_as_high_as_ten_times_as_many_plain_steps(seed):
    estep, start, prior = problem_and_start(seed)
    found = accelerate(start, prior, estep, enough=0.0, most=60)
    path = found.history
    assert found.steps <= 60
    assert all(b >= a for a, b in itertools.pairwise(path))
    assert path[-1] >= plain(estep, start, prior, 600)[-1] - 0.5


def test_ends_when_little_is_to_come():
    estep, start, prior = problem_and_start(0)
    loose = accelerate(start, prior, estep, enough=0.1)
    close = accelerate(start, prior, estep, enough=1e-3)
    assert loose.converged
    assert close.converged
    assert loose.steps < close.steps
    assert loose.history[-1] <= close.history[-1]


def test_patience_ends_a_climb_that_goes_on_and_on():
    estep, start, prior = problem_and_start(1)
    free = accelerate(start, prior, estep, enough=1e-4)
    short = accelerate(start, prior, estep, enough=1e-4, patience=5.0)
    assert short.steps < free.steps
    assert math.isfinite(short.log_likelihood)


def test_equal_rows_counted_and_sorted_are_the_same():
    rng = np.random.default_rng(0)
    codes = tuple(rng.integers(3, size=500).astype(np.int8) for _ in range(4))
    counted = unique_rows(Rows(codes), [3] * 4)
    first, place = equal_rows(codes, [3] * 4)
    assert [c.tolist() for c in counted.codes] == [c[first].tolist() for c in codes]
    assert counted.weight.tolist() == np.bincount(place).tolist()
    assert all(c.dtype == np.int8 for c in counted.codes)


@pytest.mark.parametrize("rank", [2, 5])
def test_whitening_with_and_without_full_rank(rank):
    """Rᵀ S R = I over as many directions as S has."""
    rng = np.random.default_rng(rank)
    A = rng.normal(size=(5, rank))
    R = whitener(A @ A.T)
    assert R.shape == (5, rank)
    whitened = R.T @ A @ A.T @ R
    assert whitened == pytest.approx(np.eye(rank), abs=1e-8)


@pytest.mark.parametrize(("gain", "chosen"), [(0.05, "refined"), (0.005, "marginal")])
def test_marginals_win_unless_beaten(gain, chosen):
    """A standard error is about .1 here, a fourth of it .025."""
    rng = np.random.default_rng(0)
    spread = rng.normal(size=100)
    spread = (spread - spread.mean()) / spread.std()
    marginal = 5.0 + spread
    losses = {"marginal": marginal, "refined": np.full(100, 5.0 - gain)}
    assert prefer_refined(losses, np.ones(100), 400).chosen == chosen
