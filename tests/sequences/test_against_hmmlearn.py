"""Long sequences: filter, smooth, decode and score as hmmlearn has them, to 1e-9."""

from __future__ import annotations

import numpy as np
import pytest

from latentia.data.columns.continuous import ContinuousColumn
from latentia.data.columns.discrete import DiscreteColumn
from latentia.sequences.chain_questions import Chain, decode_states, filter_states, smooth_states
from latentia.sequences.slices import read_slice
from latentia.sequences.step_data import Sequences

hmm = pytest.importorskip("hmmlearn.hmm")


def tables_of(K: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return rng.dirichlet(np.ones(K)), rng.dirichlet(np.full(K, 0.5), K)


@pytest.mark.parametrize("lengths", [[20_000], [300, 1, 7000, 50], [100] * 60])
def test_discrete(lengths: list[int]) -> None:
    K, M, rng = 5, 7, np.random.default_rng(len(lengths))
    pi, A = tables_of(K, rng)
    B = rng.dirichlet(np.ones(M), K)
    x = rng.integers(M, size=sum(lengths))
    chain = Chain(
        read_slice("z -> z', z -> a", {"z": K}),
        {1: DiscreteColumn("a", tuple(range(M)))},
        {0: pi, 1: A, 2: B},
    )
    sequences = Sequences({1: x}, np.concatenate([[0], np.cumsum(lengths)]))
    model = hmm.CategoricalHMM(K, n_features=M, init_params="")
    model.startprob_, model.transmat_, model.emissionprob_ = pi, A, B
    level, gamma = model.score_samples(x[:, None], lengths)
    found = smooth_states(chain, sequences)
    assert found.log_scale.sum() == pytest.approx(level, rel=1e-12)
    np.testing.assert_allclose(found.of(0).T, gamma, atol=1e-9)
    _, path = decode_states(chain, sequences)
    best = model.decode(x[:, None], lengths)[1]
    first = sequences.first_steps()

    def level_of(z: np.ndarray) -> float:  # paths may tie
        later = np.log(A[z[:-1], z[1:]])[~first[1:]].sum()
        return float(np.log(pi[z[first]]).sum() + later + np.log(B[z, x]).sum())

    assert level_of(path) == pytest.approx(level_of(best), rel=1e-12)
    assert (path == best).mean() > 0.999
    ends = sequences.offsets[1:] - 1  # at the last step filter and smooth agree
    np.testing.assert_allclose(
        filter_states(chain, sequences).of(0)[:, ends].T, gamma[ends], atol=1e-9
    )


@pytest.mark.parametrize("lengths", [[20_000], [500, 20, 3000]])
def test_gaussian(lengths: list[int]) -> None:
    K, D, rng = 4, 3, np.random.default_rng(len(lengths))
    pi, A = tables_of(K, rng)
    mean, var = rng.normal(size=(K, D)), rng.uniform(0.2, 2.0, (K, D))
    x = rng.normal(size=(sum(lengths), D)) * 1.5
    x[5] = 60.0  # far from every state: nothing underflows
    straight = [ContinuousColumn(f"x{d}", 0.0, 1.0, False, -9.0, 9.0, 1.0) for d in range(D)]
    tables = {0: pi, 1: A}
    for d in range(D):
        tables[2 + d] = np.stack([np.ones(K), mean[:, d], var[:, d]], axis=1)[:, None]
    chain = Chain(
        read_slice("z -> z', z -> x0, x1, x2", {"z": K}),
        {d + 1: column for d, column in enumerate(straight)},
        tables,
    )
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    sequences = Sequences({d + 1: x[:, d] for d in range(D)}, offsets)
    model = hmm.GaussianHMM(K, init_params="")
    model.startprob_, model.transmat_, model.means_, model.covars_ = pi, A, mean, var
    level, gamma = model.score_samples(x, lengths)
    found = smooth_states(chain, sequences)
    assert found.log_scale.sum() == pytest.approx(level, rel=1e-12)
    np.testing.assert_allclose(found.of(0).T, gamma, atol=1e-9)
    np.testing.assert_array_equal(decode_states(chain, sequences)[1], model.decode(x, lengths)[1])


def test_a_chain_that_never_forgets() -> None:
    """Pieces cannot be joined: the sequence runs in one."""
    K = 3
    A = np.eye(K)[[1, 2, 0]]  # a clock
    B = np.array([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.3, 0.2, 0.5]])
    B = 0.999 / 3 + 0.001 * B  # that can hardly be seen
    pi = np.array([0.2, 0.3, 0.5])
    x = np.random.default_rng(0).integers(3, size=100_000)
    chain = Chain(
        read_slice("z -> z', z -> a", {"z": K}),
        {1: DiscreteColumn("a", (0, 1, 2))},
        {0: pi, 1: A, 2: B},
    )
    found = smooth_states(chain, Sequences({1: x}, np.array([0, len(x)])))
    logs = np.array([np.log(B[(k + np.arange(len(x))) % K, x]).sum() for k in range(K)]) + np.log(
        pi
    )
    first = np.exp(logs - np.logaddexp.reduce(logs))
    np.testing.assert_allclose(found.of(0)[:, 0], first, atol=1e-9)
    assert found.log_scale.sum() == pytest.approx(np.logaddexp.reduce(logs), rel=1e-12)
