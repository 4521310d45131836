"""Where learning starts: eigenvectors of the closed form, clusters of predictive states, chance."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from latentia.linear_algebra import eig, pseudo_inverse
from latentia.networks.k_means import cluster_distances
from latentia.sequences.chain_counts import chain_counts
from latentia.sequences.chain_wiring import Wired
from latentia.sequences.hidden_states import ChainLayout
from latentia.sequences.packing import Indices
from latentia.sequences.step_data import Sequences
from latentia.sequences.window_moments import StepWindows, indicators
from latentia.typing import Array

BLUR = 0.1  # share of a step that a cluster leaves to all states
FLOOR = 0.02  # of the marginal in emissions of eigenvectors
ROUNDS = 60  # of multiplicative updates


def latent_codes(layout: ChainLayout) -> tuple[Indices, int]:
    """The joint state of the latents alone in every joint state, and how many there are."""
    latents = [h for h in layout.hidden if h[1] == 0 and h[0] in layout.slice.latent]
    found, count = np.zeros(layout.width, dtype=np.intp), 1
    for h in latents:
        found, count = found * layout.sizes[h[0]] + layout.values[h], count * layout.sizes[h[0]]
    return found, count


def counts_of_beliefs(wired: Wired, belief: Array) -> dict[int, Array]:
    """Counts of all tables if the latents' joint states had these beliefs: (joint, steps)."""
    layout = wired.layout
    code, _ = latent_codes(layout)
    gamma = belief[:, wired.packing.order].take(code, axis=0)
    for v in layout.masked:
        x = wired.sequences.cells[v][wired.packing.order]
        gamma = np.where((x < 0) | (layout.values[v, 0][:, None] == x), gamma, 0.0)
    gamma /= np.maximum(gamma.sum(axis=0), 1e-300)
    before = wired.packing.before
    later = np.flatnonzero(before >= 0)
    which = wired.which[later]
    moves = np.empty((layout.move_count, layout.width, layout.width))
    for c in range(len(moves)):
        own = later[which == c]
        moves[c] = gamma[:, before[own]] @ gamma[:, own].T
    return chain_counts(wired, gamma, moves)


def _positions(sequences: Sequences) -> Array:
    """How far each step is through its sequence, from 0 to 1: (steps,)."""
    lengths = np.diff(sequences.offsets)
    at = np.arange(sequences.steps) - np.repeat(sequences.offsets[:-1], lengths)
    return np.asarray((at + 0.5) / np.repeat(lengths, lengths))


def segments(sequences: Sequences, count: int) -> Array:
    """Beliefs of sequences cut into equally long parts, one for each state, in order."""
    label = np.minimum((_positions(sequences) * count).astype(np.intp), count - 1)
    return spread_labels(label, np.arange(sequences.steps), sequences.steps, count)


def by_time(sequences: Sequences, belief: Array) -> Array:
    """The same beliefs, with the states that come early first."""
    middle = (belief @ _positions(sequences)) / np.maximum(belief.sum(axis=1), 1e-300)
    return np.asarray(belief[np.argsort(middle, kind="stable")])


def random_beliefs(
    symbols: Sequence[Indices], counts: Sequence[int], count: int, rng: np.random.Generator
) -> Array:
    """Every symbol has states of its own liking, and every step a little: (states, steps)."""
    belief = rng.dirichlet(np.full(count, 1.0), size=len(symbols[0])).T
    for x, m in zip(symbols, counts, strict=True):
        liking = np.concatenate([rng.dirichlet(np.full(count, 0.3), size=m), np.ones((1, count))])
        belief *= liking.T[:, x] + 1e-3
        belief /= belief.sum(axis=0)
    return np.asarray(belief)


def clustered(
    windows: StepWindows, Z: Array, steps: int, count: int, rng: np.random.Generator, late: int
) -> Array:
    """Beliefs by the nearest centre among the positions of windows; others as good as unknown.

    `late` is how many steps before the position the clustered state is.
    """
    distances = cluster_distances(Z.T[None], np.ones(len(Z)), count, rng)[0]
    return spread_labels(distances.argmin(axis=0), windows.positions - late, steps, count)


def spread_labels(label: Indices, at: Indices, steps: int, count: int) -> Array:
    """One label for each step of `at`, with a blur; the others know nothing."""
    belief = np.full((count, steps), 1.0 / count)
    belief[:, at] = BLUR / count
    belief[label, at] += 1.0 - BLUR
    return belief


def eigen_emissions(windows: StepWindows, rng: np.random.Generator) -> list[Array]:
    """P(x | state) of every column, (K, symbols): eigenvectors of Σ η_x T_x Q⁺.

    T_x = E[f(t + 1) 1(x_t) p(t)ᵀ] and Q their sum, in canonical coordinates.
    """
    at = np.flatnonzero(np.diff(windows.positions) == 1)  # t and t + 1 both have windows
    t = windows.positions[at]
    f = np.asarray(windows.future[at + 1] @ windows.found.U)
    p = np.asarray(windows.past[at] @ windows.found.V)
    inverse = pseudo_inverse(f.T @ p, cut=1e-3)
    operators, sizes = [], []
    for x, m in zip(windows.symbols, windows.counts, strict=True):
        pick = indicators(x[t], m)
        outer = (f[:, :, None] * p[:, None, :]).reshape(len(t), -1)
        T = np.asarray(pick.T @ outer).reshape(m, f.shape[1], p.shape[1])
        operators.append(T @ inverse)
        sizes.append(m)
    ops = np.concatenate(operators)
    eta = rng.normal(size=len(ops)) * rng.random(len(ops)) ** 2
    w, F = eig(np.tensordot(eta, ops, 1))
    real = np.where(w.imag < 0, F.imag, F.real)  # conjugate pairs span the same plane
    shares = np.einsum("ki,xij,jk->kx", pseudo_inverse(real), ops, real)
    found, start = [], 0
    for x, m in zip(windows.symbols, sizes, strict=True):
        marginal = np.bincount(x[x >= 0], minlength=m) / max(1, int((x >= 0).sum()))
        own = np.clip(shares[:, start : start + m], 0.0, None) + FLOOR * marginal + 1e-9
        found.append(own / own.sum(axis=1, keepdims=True))
        start += m
    return found


def transitions_of(pairs: Array, emission: Array) -> Array:
    """P(z, z′) with emissionᵀ P emission nearest to the shares of pairs (Kullback-Leibler)."""
    K = len(emission)
    J = np.full((K, K), 1.0 / K**2) + np.diag(np.full(K, 1e-3 / K))
    for _ in range(ROUNDS):
        J *= emission @ (pairs / np.maximum(emission.T @ J @ emission, 1e-12)) @ emission.T
        J /= J.sum()
    return J


def eigen_beliefs(
    windows: StepWindows, steps: int, first: Indices, rng: np.random.Generator
) -> Array:
    """Beliefs of every step by the emissions of eigenvectors, one step forward and one back."""
    emissions = eigen_emissions(windows, rng)
    like = np.ones((len(emissions[0]), steps))
    for x, E in zip(windows.symbols, emissions, strict=True):
        like *= np.concatenate([E, np.ones((len(E), 1))], axis=1)[:, x]
        like /= like.sum(axis=0)
    x, E = windows.symbols[0], emissions[0]
    good = (x[:-1] >= 0) & (x[1:] >= 0) & ~first[1:]
    m = windows.counts[0]
    pairs = np.bincount(x[:-1][good] * m + x[1:][good], minlength=m * m).reshape(m, m) + 1e-9
    J = transitions_of(pairs / pairs.sum(), E)
    prior = J.sum(axis=1)
    ahead, back = np.ones_like(like), np.ones_like(like)
    own = like * prior[:, None]
    ahead[:, 1:] = np.where(
        first[1:], prior[:, None], (J / prior[:, None]).T @ (own / own.sum(axis=0))[:, :-1]
    )
    ahead[:, 0] = prior
    back[:, :-1] = np.where(first[1:], 1.0, (J / prior[:, None]) @ like[:, 1:])
    belief = like * ahead * back
    return np.asarray(belief / np.maximum(belief.sum(axis=0), 1e-300))
