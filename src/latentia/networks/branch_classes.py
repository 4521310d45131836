"""Local latent classes: the states of one separator from what its branches say (design 4.3).

Given the state of a separator its branches are independent. Each branch, seen through its canonical
coordinates, is cut into a few codes; then P(codes) = Σ_s P(s) Π_b P(code_b | s), a latent class
model over a handful of cells, whatever the number of rows. It is right up to the cutting, and so
small that many starts cost little: the best of them starts the network.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from latentia.closed_form.evaluating import FeatureValues
from latentia.closed_form.solving import Statistics
from latentia.data.rows import Rows
from latentia.networks.k_means import cluster_all
from latentia.structure.graph import LatentGraph
from latentia.structure.state_network import PositiveNetwork
from latentia.structure.triangulate import Adjacency, moralise
from latentia.typing import Array, Codes

FEWEST_BRANCHES, MOST_BRANCHES = 3, 5  # two do not tell the states; many tell them anyway
MOST_CODES = 8
STARTS = 8
STEPS = 30
PSEUDO_COUNT = 0.1
MOST_WEIGHT = 1e5  # of all rows: products of a few tables then stay within single precision

_Branch = tuple[str, int, int]  # "column", its place; "theta" or "eta", a node, codes to cut into


def local_states(
    found: Statistics,
    network: PositiveNetwork,
    values: FeatureValues,
    rows: Rows,
    soft: Mapping[int, Array],
    rng: np.random.Generator,
) -> dict[int, Array]:
    """Memberships (states, n) of the latents that have enough branches; `soft` is one start."""
    graph = network.graph
    near = moralise(graph)
    sides = _sides(found)
    weight = rows.weights
    place = {graph.names[v]: i for i, v in enumerate(graph.observed)}
    told: dict[int, list[_Branch]] = {}
    for v in sorted(graph.latent):
        branches = [frozenset(place[graph.names[u]] for u in b) for b in _branches(graph, near, v)]
        branches = [b for b in branches if b]
        if FEWEST_BRANCHES <= len(branches) <= MOST_BRANCHES:
            most = min(MOST_CODES, 2 * len(soft[v]))
            seen = [_seen_through(found, sides, b, most) for b in branches]
            if all(b is not None for b in seen):
                told[v] = [b for b in seen if b is not None]
    codes = _codes(found, values, rows, weight, {b for seen in told.values() for b in seen})
    return {
        v: class_shares([codes[b] for b in seen], weight, soft[v], rng) for v, seen in told.items()
    }


def told_by_branches(network: PositiveNetwork) -> bool:
    """Has every latent enough branches to tell its states?"""
    return min(_branch_counts(network.graph), default=FEWEST_BRANCHES) >= FEWEST_BRANCHES


def most_branches(graph: LatentGraph) -> int:
    """Of the latent that has most."""
    return max(_branch_counts(graph), default=0)


def _branch_counts(graph: LatentGraph) -> list[int]:
    near = moralise(graph)
    return [sum(map(bool, _branches(graph, near, v))) for v in graph.latent]


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


def _seen_through(
    found: Statistics,
    sides: Mapping[frozenset[int], tuple[str, int]],
    branch: frozenset[int],
    most: int,
) -> _Branch | None:
    """A branch of one column, or one with coordinates that are to be cut into `most` codes."""
    if len(branch) == 1:
        return ("column", min(branch), 0)
    if branch not in sides or not len(found.basis.correlations[sides[branch][1]]):
        return None
    return (*sides[branch], most)


def _codes(
    found: Statistics, values: FeatureValues, rows: Rows, weight: Array, branches: Iterable[_Branch]
) -> dict[_Branch, Codes]:
    """A code per row: the column's own, or the cluster of the branch's coordinates."""
    codes, cut, clouds = {}, [], []
    for branch in sorted(branches):
        name, k, _ = branch
        if name == "column":
            codes[branch] = rows.codes[k].astype(np.int64) + 1  # a missing cell: a code of its own
        else:
            Z = (values.theta if name == "theta" else values.eta)[k][1:]
            cut.append(branch)
            clouds.append(Z * found.basis.correlations[k][:, None])
    distances = cluster_all(clouds, weight, [most for _, _, most in cut])
    return codes | {b: x.argmin(axis=0) for b, x in zip(cut, distances, strict=True)}


def class_shares(
    codes: Sequence[Codes], weight: Array, soft: Array, rng: np.random.Generator
) -> Array:
    """P(state | codes) of every row, (states, n), under the best local latent class model."""
    codes = [_as_met(c) for c in codes]
    sizes = [int(c.max()) + 1 for c in codes]
    joint = np.ravel_multi_index(tuple(codes), sizes)
    cells, place = np.unique(joint, return_inverse=True)
    counts = np.bincount(place, weight * min(1.0, MOST_WEIGHT / weight.sum())).astype(float)
    marks = [np.eye(m)[c] for m, c in zip(sizes, np.unravel_index(cells, sizes), strict=True)]
    share = _first_shares(marks, place, weight, soft, rng)  # (starts, states, cells)
    starts, states = share.shape[:2]
    # how often each state meets each code, and how often it is met at all: one product for all
    meets = (np.concatenate([np.ones((len(cells), 1)), *marks], axis=1) * counts[:, None]).astype(
        np.float32
    )
    turned = [np.ascontiguousarray(mark.T, dtype=np.float32) for mark in marks]
    flat = share.reshape(starts * states, -1).astype(np.float32)
    for step in range(STEPS + 1):
        met = flat @ meets  # (starts · states, 1 + codes)
        flat, at = met[:, :1] + np.float32(PSEUDO_COUNT), 1
        for mark, size in zip(turned, sizes, strict=True):
            table = met[:, at : at + size] + np.float32(PSEUDO_COUNT)
            table /= met[:, :1] + np.float32(PSEUDO_COUNT * size)
            flat = flat * (table @ mark)
            at += size
        total = flat.reshape(starts, states, -1).sum(axis=1)  # P(codes), up to a constant
        if step < STEPS:
            flat = (flat.reshape(starts, states, -1) / total[:, None]).reshape(flat.shape)
    level = np.log(total.astype(float)) @ counts
    best = int(level.argmax())
    own = flat.reshape(starts, states, -1)[best].astype(float)
    return np.asarray((own / own.sum(axis=0))[:, place], dtype=float)


def _as_met(codes: Codes) -> Codes:
    """Codes numbered in the order in which rows show them, so that their names do not matter.

    >>> _as_met(np.array([3, 3, 0, 5, 0]))
    array([0, 0, 1, 2, 1])
    """
    _, first, place = np.unique(codes, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[place]


def _first_shares(
    marks: Sequence[Array],
    place: Codes,
    weight: Array,
    soft: Array,
    rng: np.random.Generator,
) -> Array:
    """The memberships given, and codes of one branch dealt to the states at random."""
    states = len(soft)
    given = np.stack([np.bincount(place, weight * s) for s in soft])
    starts = [given / np.maximum(np.bincount(place, weight), 1e-300)]
    for k in range(STARTS - 1):
        mark = marks[k % len(marks)]
        dealt = rng.permutation(np.arange(mark.shape[1]) % states)
        starts.append(0.8 * np.eye(states)[:, dealt] @ mark.T + 0.2 / states)
    return np.stack(starts)
