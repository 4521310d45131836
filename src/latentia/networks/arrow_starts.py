"""Where climbs over mixed columns start: memberships by k-means of the columns below, or drawn."""

from __future__ import annotations

import warnings

import numpy as np

from latentia.exact.arrows import ArrowNetwork
from latentia.networks.arrow_blocks import ArrowRows, pose_rows
from latentia.networks.arrow_climb import NEAR, Climbed, climb_arrows, from_memberships
from latentia.typing import Array

STARTS = 8  # half of them by k-means
FIRST_STEPS, FINALISTS = 20, 2  # steps of EM that all starts take, and those who go on
RACE_ROWS = 3000
NEAR_BESIDE = 1e-5  # gain a row of a step, after which names are good enough
SURE = 0.8  # share of the state that k-means tells


def best_climb(
    network: ArrowNetwork,
    cells: Array,
    weight: Array,
    smoothing: float,
    seed: object,
    beside: bool = False,
) -> tuple[Climbed, ArrowRows]:
    """The best of several starts, climbed to the end on all rows.

    What stands `beside` another model, so that latents have names, may rest a little earlier.
    """
    rng = np.random.default_rng(seed)  # type: ignore[arg-type]
    rows = pose_rows(network, cells, weight, smoothing)
    if not network.graph.latent:
        return climb_arrows(from_memberships(network, rows, [{} for _ in rows.blocks]), rows), rows
    some = cells if len(cells) <= RACE_ROWS else cells[rng.permutation(len(cells))[:RACE_ROWS]]
    part = pose_rows(network, some, np.ones(len(some)), smoothing) if some is not cells else rows
    raced = []
    for k in range(STARTS):
        drawn = _memberships(network, part, rng, by_means=k % 2 == 0)
        raced.append(climb_arrows(from_memberships(network, part, drawn), part, FIRST_STEPS))
    best = sorted(raced, key=lambda each: -each.level)[:FINALISTS]
    near = NEAR_BESIDE if beside else NEAR
    ends = [climb_arrows(each.network, rows, near=near) for each in best[: 1 if beside else None]]
    return max(ends, key=lambda each: each.level), rows


def _memberships(
    network: ArrowNetwork, rows: ArrowRows, rng: np.random.Generator, by_means: bool
) -> list[dict[int, Array]]:
    """Shares of the states of every latent in every row, block by block."""
    found: list[dict[int, Array]] = [{} for _ in rows.blocks]
    for h in sorted(network.graph.latent):
        k = network.graph.states[h] or 1
        points = [_features(network, h, dict(b.seen), len(b.weight)) for b in rows.blocks]
        together = np.concatenate(points)
        if by_means and len(together) > k and len(np.unique(together, axis=0)) >= k:
            codes = _clusters(together, k, rng)
            shares = np.full((len(codes), k), (1 - SURE) / max(k - 1, 1))
            shares[np.arange(len(codes)), codes] = SURE if k > 1 else 1.0
        else:
            shares = rng.dirichlet(np.full(k, 0.5), size=len(together))
        at = 0
        for own, block in zip(found, rows.blocks, strict=True):
            own[h] = shares[at : at + len(block.weight)]
            at += len(block.weight)
    return found


def _clusters(points: Array, k: int, rng: np.random.Generator) -> Array:
    from sklearn.cluster import KMeans

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fewer different points than clusters
        means = KMeans(k, n_init=1, random_state=int(rng.integers(2**31)))
        return np.asarray(means.fit_predict(points))


def _features(network: ArrowNetwork, h: int, seen: dict[int, Array], n: int) -> Array:
    """Columns below a latent: values, and marks of states; what is missing is 0, the middle."""
    parts = [np.zeros((n, 1))]
    for v in _columns_below(network, h):
        if v in network.dense:
            parts.append(seen.get(v, np.zeros(n))[:, None])
            continue
        states = network.graph.states[v] or 1
        if v in seen:
            parts.append((seen[v][:, None] == np.arange(states)) - 1.0 / states)
        else:
            parts.append(np.zeros((n, states)))
    return np.concatenate(parts, axis=1)


def _columns_below(network: ArrowNetwork, h: int) -> list[int]:
    """The columns that hang on a latent, or, without any, those that hang on latents below it."""
    children = network.graph.children()
    found, seen, waiting = set[int](), {h}, [h]
    while waiting:
        below = children[waiting.pop()]
        columns = [v for v in below if v not in network.graph.latent]
        found.update(columns)
        if not columns:
            waiting.extend(v for v in below if v not in seen)
            seen.update(below)
    return sorted(found)
