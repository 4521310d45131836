"""The most probable states of a forest, by the compiled kernel (native/forest.c).

Where evidence leaves factors of two variables at most, and these make no loop, all of what is asked
for is maximised in one call: Viterbi's algorithm on a chain, its like on a tree. Tables of equal
shape are looked up together, so that a thousand variables cost a few milliseconds.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.exact.reading_evidence import StateCodes
from latentia.native.loading import Kernel
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Codes

TIE = 1e-12  # relative: logarithms that differ by less are equal
MOST_CELLS = 2**24  # of all tables between two variables, each as large as the largest


@final
@dataclass(frozen=True, slots=True)
class BestInForest:
    """The most probable states of a forest."""

    codes: dict[int, int]  # of what is asked for
    log_joint: float  # log P(states, evidence)
    log_evidence: float


@final
@dataclass(frozen=True, slots=True)
class _Batch:
    """Factors of equal shape: tables at the evidence, an axis for each unknown variable."""

    unknown: Codes  # (factors, 0 to 2 variables)
    logs: Array  # (factors, states …)


@final
@dataclass(frozen=True, slots=True)
class _Forest:
    """Variables parents first, each with the place of the one above it, -1 for roots."""

    place: dict[int, int]
    up: list[int]
    settles: bool  # do ties go to the first states, in the order asked?


@final
@dataclass(frozen=True, slots=True)
class PosedForest:
    """A forest and its factors, as logarithms."""

    forest: _Forest
    constant: float
    alone: Array  # (variables, states): what each has alone
    pairs: Array  # (variables, states above, states): … and with the one above


class _Call(ctypes.Structure):
    _fields_ = (
        ("count", ctypes.c_int64),
        ("states", ctypes.c_int64),
        ("tie", ctypes.c_double),
        ("up", ctypes.c_void_p),
        ("pair", ctypes.c_void_p),
        ("sums", ctypes.c_void_p),
        ("bests", ctypes.c_void_p),
        ("from", ctypes.c_void_p),
        ("path", ctypes.c_void_p),
        ("sum", ctypes.c_double),
        ("best", ctypes.c_double),
        ("tied", ctypes.c_int64),
    )


def best_in_forest(
    graph: LatentGraph,
    tables: Mapping[int, Array],
    row: StateCodes,
    weights: Mapping[int, Array],
    kept: Iterable[int],
    free: Sequence[int],
    kernel: Kernel,
) -> BestInForest | None:
    """The best states of `free`, unknown in `row`; None where they make no forest.

    `kept`: the variables whose tables count, all of them known or free. None too where states tie
    and the order asked would settle which of them come first.
    """
    posed = pose_forest(graph, tables, row, weights, kept, free)
    return None if posed is None else _maximised(kernel, posed)


def pose_forest(
    graph: LatentGraph,
    tables: Mapping[int, Array],
    row: StateCodes,
    weights: Mapping[int, Array],
    kept: Iterable[int],
    free: Sequence[int],
) -> PosedForest | None:
    """What the kernel is told of a forest whose first root is the first of `free`; None: no forest.

    `kept`: the variables whose tables count, all of them known or free.
    """
    batches = _batches(graph, tables, row, kept)
    if batches is None:
        return None
    forest = _forest(
        free, (pair for b in batches if b.unknown.shape[1] == 2 for pair in b.unknown.tolist())
    )
    sizes = [graph.states[v] or 1 for v in free]
    if forest is None or len(free) * max(sizes, default=1) ** 2 > MOST_CELLS:
        return None
    constant, alone, pairs = _arrays(forest, dict(zip(free, sizes, strict=True)), batches)
    for v, likelihood in weights.items():
        with np.errstate(divide="ignore"):
            own = np.log(likelihood)
        if v in forest.place:
            alone[forest.place[v], : len(own)] += own
        else:
            constant += float(own[row[v]])
    return PosedForest(forest, constant, alone, pairs)


# --- factors --------------------------------------------------------------------------------------


def _batches(
    graph: LatentGraph, tables: Mapping[int, Array], row: StateCodes, kept: Iterable[int]
) -> list[_Batch] | None:
    """Tables at the evidence, those of equal shape together; None where one ties three unknown."""
    parents, known = graph.parents(), (row >= 0).tolist()
    groups: dict[tuple[int | bool, ...], list[int]] = {}
    for v in kept:
        told = (*[known[u] for u in parents[v]], known[v])
        groups.setdefault((*told, *tables[v].shape), []).append(v)
    found = []
    for kind, variables in groups.items():
        told, shape = kind[: len(kind) // 2], kind[len(kind) // 2 :]
        if told.count(False) > 2:
            return None
        members = np.array([(*parents[v], v) for v in variables])  # (factors, members)
        seen = [k for k, own in enumerate(told) if own]
        unseen = [k for k, own in enumerate(told) if not own]
        stacked = np.concatenate([tables[v] for v in variables]).reshape(-1, *shape)
        stacked = stacked.transpose([0, *(1 + k for k in seen), *(1 + k for k in unseen)])
        at = (np.arange(len(variables)), *row[members[:, seen]].T)
        with np.errstate(divide="ignore"):
            found.append(_Batch(members[:, unseen], np.log(stacked[at])))
    return found


def _forest(free: Sequence[int], pairs: Iterable[Sequence[int]]) -> _Forest | None:
    """Variables in the order asked, if each is tied to one before it at most; or from the first on.

    The first is chosen first in both; where the order is the one asked, ties are settled by it.
    """
    tied = {(a, b) if a < b else (b, a) for a, b in pairs}
    place = {v: k for k, v in enumerate(free)}
    up = [-1] * len(free)
    for a, b in tied:
        above, below = sorted((place[a], place[b]))
        if up[below] >= 0:
            break
        up[below] = above
    else:
        return _Forest(place, up, True)
    near: dict[int, list[int]] = {v: [] for v in free}
    for a, b in tied:
        near[a].append(b)
        near[b].append(a)
    place, up = {}, []
    for root in free:
        ring: list[tuple[int, int | None]] = [] if root in place else [(root, None)]
        for v, before in ring:
            if v in place:
                return None  # reached twice: a loop
            place[v] = len(up)
            up.append(-1 if before is None else place[before])
            ring += [(u, v) for u in near[v] if u != before]
    return _Forest(place, up, False)


# --- the call -------------------------------------------------------------------------------------


def _arrays(
    forest: _Forest, sizes: Mapping[int, int], batches: Iterable[_Batch]
) -> tuple[float, Array, Array]:
    """A constant, what each variable has alone, (variables, states), and with the one above."""
    count, most = len(sizes), max(sizes.values(), default=1)
    place = np.zeros(1 + max(sizes, default=0), dtype=np.int64)
    place[list(forest.place)] = list(forest.place.values())
    alone, pairs, constant = np.zeros((count, most)), np.zeros((count, most, most)), 0.0
    for v, size in sizes.items():
        alone[forest.place[v], size:] = -np.inf
    for batch in batches:
        at, logs = place[batch.unknown.T], batch.logs
        if len(at) == 0:
            constant += float(logs.sum())
        elif len(at) == 1:
            np.add.at(alone[:, : logs.shape[1]], at[0], logs)
        else:
            for some, axes in ((at[0] < at[1], (0, 1, 2)), (at[0] > at[1], (0, 2, 1))):
                own = logs[some].transpose(axes)
                np.add.at(pairs[:, : own.shape[1], : own.shape[2]], at.max(axis=0)[some], own)
    return constant, alone, pairs


def swept(kernel: Kernel, posed: PosedForest) -> tuple[_Call, Array, Codes]:
    """One call: sums and maxima; log Σ of what lies below each state; and the best states."""
    count, most = posed.alone.shape
    up, sums, bests = (
        np.array(posed.forest.up, dtype=np.int64),
        posed.alone.copy(),
        posed.alone.copy(),
    )
    path = np.zeros(count, dtype=np.int64)
    best_from = np.zeros((count, most), dtype=np.int64)
    arrays = (up, posed.pairs, sums, bests, best_from, path)
    call = _Call(count, most, TIE, *(each.ctypes.data for each in arrays))
    kernel.function("forest_best")(ctypes.byref(call))
    return call, sums, path


def _maximised(kernel: Kernel, posed: PosedForest) -> BestInForest | None:
    call, _, path = swept(kernel, posed)
    if call.tied and not posed.forest.settles:
        return None
    states = path.tolist()
    found = {v: states[k] for v, k in posed.forest.place.items()}
    return BestInForest(found, posed.constant + call.best, posed.constant + call.sum)
