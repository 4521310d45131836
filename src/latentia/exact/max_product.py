"""The most probable states of some variables of a directed graph: exact, by elimination.

    max over asked  Σ over the rest  ∏_v P(x_v | parents of v)

Evidence is put into the tables, and what lies below neither evidence nor question is dropped. The
rest is summed out one variable after the other, cheapest first; then what is asked for is maximised
out, and the best states are read on the way back. On a chain with all states asked for this is
Viterbi's algorithm; such forests are left to the compiled kernel, where there is one
(best_in_forest.py). Everything is a logarithm, so that long chains do not underflow.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np

from latentia.errors import PlanError
from latentia.exact.best_in_forest import TIE, best_in_forest
from latentia.exact.pieces import with_ancestors
from latentia.exact.reading_evidence import StateCodes
from latentia.native.loading import kernel
from latentia.structure.graph import LatentGraph
from latentia.typing import Array, Codes, Label

LARGEST = 2**24  # cells of a table in between
NARROW = 2**14  # cells up to which variables are maximised in the order that settles ties
LEAST = -1e300  # stands for a logarithm of zero that is taken away

Scope: TypeAlias = tuple[int, ...]  # rising numbers of variables
Neighbours: TypeAlias = dict[int, set[int]]


@final
@dataclass(frozen=True, slots=True)
class BestStates:
    """The most probable states, and what they rest on."""

    codes: tuple[int, ...]  # in the order asked
    log_joint: float  # log P(states, evidence)
    log_evidence: float


@final
@dataclass(frozen=True, slots=True)
class _Factor:
    """A function of some variables, as logarithms."""

    scope: Scope
    logs: Array  # one axis per variable


def max_product_states(
    graph: LatentGraph,
    tables: Mapping[int, Array],
    row: StateCodes,
    weights: Mapping[int, Array],
    asked: Sequence[int],
) -> BestStates:
    """argmax over `asked` of P(asked | row).

    `row`: codes (variables,), -1 where unknown; `weights`: likelihoods {variable: (states,)}. Of
    equally probable states the first ones win, in the order asked, wherever that order is narrow.
    """
    sizes = [count or 1 for count in graph.states]
    row = np.where((row < 0) & (np.array(sizes) == 1), 0, row)
    known = {v: code for v, code in enumerate(row.tolist()) if code >= 0}
    kept = with_ancestors(graph.parents(), {*known, *weights, *asked})
    free = [v for v in asked if v not in known]
    compiled = kernel()
    if compiled is not None and len(kept) == len(known) + len(free):  # nothing is summed out
        quick = best_in_forest(graph, tables, row, weights, kept, free, compiled)
        if quick is not None:
            found = known | quick.codes
            return BestStates(tuple(found[v] for v in asked), quick.log_joint, quick.log_evidence)
    rest = sorted(kept - {*known, *free})
    with np.errstate(divide="ignore"):  # once: thousands of small logarithms follow
        factors = _reduced(graph, tables, weights, kept, known)
        neighbours = _neighbours(factors, [*rest, *free])
        sums, largest = _cheapest(neighbours, sizes, rest)
        _check_width(graph, largest, rest, free)
        order, largest = _order_of_asked(neighbours, sizes, free)
        _check_width(graph, largest, rest, free)
        left, _ = _eliminated(factors, sums, maximise=False)
        total, _ = _eliminated(left, order, maximise=False)
        best, choices = _eliminated(left, order, maximise=True)
    found = known
    for v, scope, choice in reversed(choices):
        found[v] = int(choice[tuple(found[u] for u in scope)])
    return BestStates(tuple(found[v] for v in asked), _constant(best), _constant(total))


def _reduced(
    graph: LatentGraph,
    tables: Mapping[int, Array],
    weights: Mapping[int, Array],
    kept: Iterable[int],
    known: Mapping[int, int],
) -> list[_Factor]:
    """Logarithms of the tables at the evidence, axes in rising order."""
    parents, found = graph.parents(), []
    for v in kept:
        members = (*parents[v], v)
        at = tuple(known.get(u, slice(None)) for u in members)
        scope = [u for u in members if u not in known]
        rising, table = sorted(scope), tables[v][at]
        if rising != scope:
            table = table.transpose([scope.index(u) for u in rising])
        found.append(_Factor(tuple(rising), np.log(table)))
    for v, likelihood in weights.items():
        own = likelihood[known[v]] if v in known else likelihood
        found.append(_Factor(() if v in known else (v,), np.log(own)))
    return found


# --- orders ---------------------------------------------------------------------------------------


def _neighbours(factors: Iterable[_Factor], variables: Iterable[int]) -> Neighbours:
    found: Neighbours = {v: set() for v in variables}
    for factor in factors:
        for v in factor.scope:
            found[v].update(factor.scope)
    return {v: near - {v} for v, near in found.items()}


def _remove(neighbours: Neighbours, v: int) -> set[int]:
    """Take a variable out; those around it are neighbours from then on."""
    near = neighbours.pop(v)
    for u in near:
        neighbours[u] |= near
        neighbours[u] -= {u, v}
    return near


def _cells(neighbours: Neighbours, sizes: Sequence[int], v: int) -> int:
    return sizes[v] * math.prod(sizes[u] for u in neighbours[v])


def _cheapest(
    neighbours: Neighbours, sizes: Sequence[int], variables: Iterable[int]
) -> tuple[list[int], int]:
    """An order in which each next table is the smallest, and its largest; they are taken out."""
    left = set(variables)
    heap = [(_cells(neighbours, sizes, v), v) for v in sorted(left)]
    heapq.heapify(heap)
    order, largest = [], 1
    while left:
        cells, v = heapq.heappop(heap)
        if v not in left or cells != _cells(neighbours, sizes, v):
            continue  # an entry of before its neighbours changed
        left.remove(v)
        order.append(v)
        largest = max(largest, cells)
        for u in _remove(neighbours, v) & left:
            heapq.heappush(heap, (_cells(neighbours, sizes, u), u))
    return order, largest


def _order_of_asked(
    neighbours: Neighbours, sizes: Sequence[int], free: Sequence[int]
) -> tuple[list[int], int]:
    """The last one first, so that the first is chosen first; or the cheapest, if that is wide."""
    own = {v: set(near) for v, near in neighbours.items()}
    largest = 1
    for v in reversed(free):
        largest = max(largest, _cells(own, sizes, v))
        if largest > NARROW:
            return _cheapest(neighbours, sizes, free)
        _remove(own, v)
    return list(reversed(free)), largest


def _check_width(
    graph: LatentGraph, largest: int, rest: Sequence[int], asked: Sequence[int]
) -> None:
    if largest <= LARGEST:
        return
    summed = f"{len(rest)} variables are summed out first ({_some(graph, rest)}). " if rest else ""
    raise PlanError(
        f"the most probable states of {_some(graph, asked)} need a table of {largest:.1e} cells "
        f"(at most {LARGEST:.1e}). {summed}Ask for more of these together, or for fewer at all, "
        "or give evidence on some of them."
    )


def _some(graph: LatentGraph, variables: Sequence[int]) -> str:
    names: list[Label] = [graph.names[v] for v in variables[:6]]
    return ", ".join(map(str, names)) + (" …" if len(variables) > 6 else "")


# --- elimination ----------------------------------------------------------------------------------


def _eliminated(
    factors: Sequence[_Factor], order: Sequence[int], maximise: bool
) -> tuple[list[_Factor], list[tuple[int, Scope, Codes]]]:
    """What is left after variables are summed or maximised out, and each one's best state."""
    buckets: dict[int, list[_Factor]] = {v: [] for v in order}
    place = {v: k for k, v in enumerate(order)}
    left: list[_Factor] = []

    def put(factor: _Factor) -> None:
        places = [place[v] for v in factor.scope if v in place]
        (buckets[order[min(places)]] if places else left).append(factor)

    for factor in factors:
        put(factor)
    choices: list[tuple[int, Scope, Codes]] = []
    for v in order:
        whole = _product(buckets.pop(v))
        axis = whole.scope.index(v)
        others = (*whole.scope[:axis], *whole.scope[axis + 1 :])
        top = np.maximum.reduce(whole.logs, axis=axis, keepdims=True)
        flat = np.maximum(top, LEAST)
        if maximise:
            near = whole.logs >= top - TIE * (1.0 + np.abs(flat))
            choices.append((v, others, near.argmax(axis=axis)))
            found = top.squeeze(axis)
        else:
            shares = np.add.reduce(np.exp(whole.logs - flat), axis=axis)
            found = np.log(shares) + flat.squeeze(axis)
        put(_Factor(others, found))
    return left, choices


def _product(factors: Sequence[_Factor]) -> _Factor:
    """The sum of logarithms over the union of scopes."""
    widest = max((factor.scope for factor in factors), key=len)
    every = {v for factor in factors for v in factor.scope}
    scope = widest if len(widest) == len(every) else tuple(sorted(every))
    total: Array | float = 0.0
    for factor in factors:
        logs = factor.logs
        if factor.scope != scope:
            sizes = dict(zip(factor.scope, logs.shape, strict=True))
            logs = logs.reshape([sizes.get(v, 1) for v in scope])
        total = total + logs
    return _Factor(scope, np.asarray(total))


def _constant(left: Iterable[_Factor]) -> float:
    return float(sum(float(factor.logs) for factor in left))
