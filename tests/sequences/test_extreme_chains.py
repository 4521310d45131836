"""Cells that nearly cannot be, or cannot be at all: logarithms stay right, holes stand in."""

from __future__ import annotations

import numpy as np
import pytest

from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.columns.discrete import DiscreteColumn
from latentia.errors import DataError
from latentia.sequences.chain_questions import Chain, filter_states, smooth_states
from latentia.sequences.slices import read_slice
from latentia.sequences.step_data import Sequences


def narrow_bells(rare: float) -> Chain:
    """Three states that are hardly ever gone back to (0: never), narrow bells."""
    move = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]]) + rare
    move /= move.sum(axis=1, keepdims=True)
    bells = np.array([[[1.0, 0.0, 1e-2]], [[1.0, 5.0, 1e-2]], [[1.0, 10.0, 1e-2]]])
    return Chain(
        read_slice("z -> z', z -> x", {"z": 3}),
        {1: ContinuousColumn("x", 0.0, 1.0, False, -20.0, 20.0, 1.0)},
        {0: np.array([1.0, 0.0, 0.0]), 1: move, 2: bells},
    )


def by_logarithms(chain: Chain, x: np.ndarray) -> tuple[float, np.ndarray]:
    """log P(x) and P(z_t | x), all in logarithms."""
    with np.errstate(divide="ignore"):
        start, move = np.log(chain.tables[0]), np.log(chain.tables[1])
    _, mean, variance = chain.tables[2][:, 0].T
    logs = -0.5 * (np.log(2 * np.pi * variance) + (x[:, None] - mean) ** 2 / variance)
    logs[np.isnan(x)] = 0.0
    alpha, beta = np.empty_like(logs), np.zeros_like(logs)
    alpha[0] = start + logs[0]
    for t in range(1, len(x)):
        alpha[t] = np.logaddexp.reduce(alpha[t - 1][:, None] + move, axis=0) + logs[t]
    for t in range(len(x) - 2, -1, -1):
        beta[t] = np.logaddexp.reduce(move + logs[t + 1] + beta[t + 1], axis=1)
    total = np.logaddexp.reduce(alpha[-1])
    return float(total), np.exp(alpha + beta - total)


def test_far_cells_do_not_underflow() -> None:
    chain = narrow_bells(1e-10)
    # at the first step only state 0 can be, and x lies a hundred of its deviations away
    x = np.array([10.0, 0.0, 5.0, 0.0, np.nan, 10.0, 5.0, 0.0])
    found = smooth_states(chain, Sequences({1: x}, np.array([0, len(x)])))
    level, gamma = by_logarithms(chain, x)
    assert level < -3000  # far below what a float can hold
    assert found.log_scale.sum() == pytest.approx(level, rel=1e-12)
    np.testing.assert_allclose(found.of(0).T, gamma, atol=1e-12)


def test_what_floats_cannot_tell_is_told() -> None:
    """Both ways to explain the cells cost a thousand nats; one of them was forgotten."""
    x = np.array([0.0, 5.0, 0.0, 10.0])
    with pytest.raises(DataError, match="cannot be told in floats"):
        smooth_states(narrow_bells(0.0), Sequences({1: x}, np.array([0, len(x)])))
    near = np.array([0.0, 0.1, 4.9, 5.0])
    chain = narrow_bells(0.0)
    chain.tables[2][..., 2] = 1.0
    found = smooth_states(chain, Sequences({1: near}, np.array([0, len(near)])))
    np.testing.assert_allclose(found.of(0).T, by_logarithms(chain, near)[1], atol=1e-12)


def test_what_cannot_be_is_a_hole() -> None:
    chain = Chain(
        read_slice("z -> z', z -> a", {"z": 2}),
        {1: DiscreteColumn("a", ("p", "q"))},
        {0: np.array([0.5, 0.5]), 1: np.eye(2)[::-1].copy(), 2: np.eye(2)},  # p and q in turns
    )
    offsets = np.array([0, 5, 8])
    odd = Sequences({1: np.array([0, 1, 0, 0, 0, 0, 1, 0])}, offsets)
    hole = Sequences({1: np.array([0, 1, 0, -1, 0, 0, 1, 0])}, offsets)
    found = filter_states(chain, odd)
    np.testing.assert_array_equal(np.isneginf(found.log_scale), np.arange(8) == 3)
    np.testing.assert_array_equal(found.of(0), filter_states(chain, hole).of(0))
    np.testing.assert_array_equal(smooth_states(chain, odd).of(0), smooth_states(chain, hole).of(0))


@pytest.mark.parametrize("steps", [1, 2, 63, 64, 65, 300, 1000])
def test_any_length_in_any_pieces(steps: int) -> None:
    rng = np.random.default_rng(steps)
    K, M = 3, 4
    chain = Chain(
        read_slice("z -> z', z -> a", {"z": K}),
        {1: DiscreteColumn("a", tuple(range(M)))},
        {
            0: rng.dirichlet(np.ones(K)),
            1: rng.dirichlet(np.ones(K), K),
            2: rng.dirichlet(np.ones(M), K),
        },
    )
    x = rng.integers(-1, M, size=steps)
    found = smooth_states(chain, Sequences({1: x}, np.array([0, steps])))
    pi, A, B = (chain.tables[n] for n in range(3))
    alpha, level = np.empty((steps, K)), 0.0
    for t in range(steps):
        a = pi if t == 0 else alpha[t - 1] @ A
        a = a * (B[:, x[t]] if x[t] >= 0 else 1.0)
        level += np.log(a.sum())
        alpha[t] = a / a.sum()
    assert found.log_scale.sum() == pytest.approx(level, rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(found.of(0)[:, -1], alpha[-1], atol=1e-12)
