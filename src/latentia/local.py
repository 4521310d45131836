"""Local latent classes: the states of one separator from what its branches say (design 4.3).

Given the state of a separator its branches are independent. Each branch, seen through its canonical
coordinates, is cut into a few codes; then P(codes) = Σ_s P(s) Π_b P(code_b | s), a latent class
model over a handful of cells, whatever the number of rows. It is right up to the cutting, and so
small that many starts cost little: the best of them starts the network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from latentia.basis import Values
from latentia.graph import LatentGraph
from latentia.learn import Statistics
from latentia.moments import Rows
from latentia.positive import PositiveNetwork
from latentia.start import cluster_distances
from latentia.triangulate import Adjacency, moralise
from latentia.typing import Array, Codes

__all__ = ["class_shares", "local_states", "told_by_branches"]

FEWEST_BRANCHES, MOST_BRANCHES = 3, 5  # two do not tell the states; many tell them anyway
MOST_CODES = 8
STARTS = 8
STEPS = 30
PSEUDO_COUNT = 0.1


def local_states(
    found: Statistics,
    network: PositiveNetwork,
    values: Values,
    rows: Rows,
    soft: Mapping[int, Array],
    rng: np.random.Generator,
) -> dict[int, Array]:
    """Memberships (states, n) of the latents that have enough branches; `soft` is one start."""
    graph = network.graph
    near = moralise(graph)
    sides = _sides(found)
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    place = {graph.names[v]: i for i, v in enumerate(graph.observed)}
    out: dict[int, Array] = {}
    for v in sorted(graph.latent):
        branches = [frozenset(place[graph.names[u]] for u in b) for b in _branches(graph, near, v)]
        branches = [b for b in branches if b]
        if not FEWEST_BRANCHES <= len(branches) <= MOST_BRANCHES:
            continue
        most = min(MOST_CODES, 2 * len(soft[v]))
        codes = [_codes(found, values, rows, weight, sides, b, most) for b in branches]
        if all(c is not None for c in codes):
            out[v] = class_shares([c for c in codes if c is not None], weight, soft[v], rng)
    return out


def told_by_branches(network: PositiveNetwork) -> bool:
    """Has every latent enough branches to tell its states?"""
    near = moralise(network.graph)
    counts = [sum(map(bool, _branches(network.graph, near, v))) for v in network.graph.latent]
    return min(counts, default=FEWEST_BRANCHES) >= FEWEST_BRANCHES


def _branches(graph: LatentGraph, near: Adjacency, v: int) -> list[list[int]]:
    """Columns that hang together once v is taken out of the moral graph."""
    seen, found = {v}, []
    for start in sorted(near[v]):
        if start in seen:
            continue
        todo, part = [start], []
        seen.add(start)
        while todo:
            u = todo.pop()
            part.append(u)
            new = near[u] - seen
            seen |= new
            todo.extend(new)
        found.append([u for u in part if u not in graph.latent])
    return found


def _sides(found: Statistics) -> dict[frozenset[int], tuple[str, int]]:
    """Which coordinates tell of a set of columns (by place): θ or η of a node."""
    plan = found.layout.plan
    place = {v: i for i, v in enumerate(plan.graph.observed)}
    leaves = [frozenset(place[v] for v in plan.nodes[k].columns) for k in plan.leaves]
    everything = frozenset(range(len(place)))
    sides: dict[frozenset[int], tuple[str, int]] = {}
    for k, node in enumerate(plan.nodes):
        if node.parent != k:
            inside = frozenset().union(*leaves[node.first : node.last])
            sides.setdefault(inside, ("theta", k))
            sides.setdefault(everything - inside, ("eta", k))
    return sides


def _codes(
    found: Statistics,
    values: Values,
    rows: Rows,
    weight: Array,
    sides: Mapping[frozenset[int], tuple[str, int]],
    branch: frozenset[int],
    most: int,
) -> Codes | None:
    """A code per row: the column's own, or the cluster of the branch's coordinates."""
    if len(branch) == 1:
        (place,) = branch
        return rows.codes[place].astype(np.int64) + 1  # a missing cell is a code of its own
    if branch not in sides:
        return None
    name, k = sides[branch]
    Z = ((values.theta if name == "theta" else values.eta)[k][1:]).T * found.basis.correlations[k]
    if Z.shape[1] == 0:
        return None
    return np.asarray(cluster_distances(Z, weight, most).argmin(axis=1), dtype=np.int64)


def class_shares(
    codes: Sequence[Codes], weight: Array, soft: Array, rng: np.random.Generator
) -> Array:
    """P(state | codes) of every row, (states, n), under the best local latent class model."""
    sizes = [int(c.max()) + 1 for c in codes]
    joint = np.ravel_multi_index(tuple(codes), sizes)
    cells, place = np.unique(joint, return_inverse=True)
    counts = np.bincount(place, weight).astype(float)
    marks = [np.eye(m)[c] for m, c in zip(sizes, np.unravel_index(cells, sizes), strict=True)]
    share = _first_shares(marks, counts, place, weight, soft, rng)  # (starts, states, cells)
    level = np.zeros(len(share))
    for _ in range(STEPS):
        whole = share * counts
        joint_p = (whole.sum(axis=2) + PSEUDO_COUNT)[:, :, None]
        joint_p = joint_p / joint_p.sum(axis=1, keepdims=True)
        for mark in marks:
            table = whole @ mark + PSEUDO_COUNT  # (starts, states, codes)
            table /= table.sum(axis=2, keepdims=True)
            joint_p = joint_p * (table @ mark.T)
        total = joint_p.sum(axis=1, keepdims=True)
        share = joint_p / total
        level = np.log(total[:, 0]) @ counts
    best = int(level.argmax())
    return np.asarray(share[best][:, place], dtype=float)


def _first_shares(
    marks: Sequence[Array],
    counts: Array,
    place: Codes,
    weight: Array,
    soft: Array,
    rng: np.random.Generator,
) -> Array:
    """The memberships given, and codes of one branch dealt to the states at random."""
    states = len(soft)
    given = np.stack([np.bincount(place, weight * s, len(counts)) for s in soft])
    starts = [given / np.maximum(counts, 1e-300)]
    for k in range(STARTS - 1):
        mark = marks[k % len(marks)]
        dealt = rng.permutation(np.arange(mark.shape[1]) % states)
        starts.append(0.8 * np.eye(states)[:, dealt] @ mark.T + 0.2 / states)
    return np.stack(starts)
