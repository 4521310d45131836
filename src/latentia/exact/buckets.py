"""Sums over open variables, row by row: elimination, and beliefs of every factor on the way back.

Factors are logarithms (rows or 1, one axis for each variable of the scope). A variable is summed
out of the product of all factors that hold it, its bucket; what is left is a factor of a later one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from latentia.errors import PlanError
from latentia.typing import Array

MOST_CELLS = 3e7  # of a bucket, for one row


@final
@dataclass(frozen=True, slots=True)
class Factor:
    """The logarithm of a function of some variables."""

    scope: tuple[int, ...]
    log: Array  # (rows or 1, scope …)


@final
@dataclass(frozen=True, slots=True)
class _Bucket:
    scope: tuple[int, ...]  # the variable that is summed out comes first
    log: Array
    message: Factor
    members: tuple[int, ...]  # numbers of the factors


def elimination_order(
    scopes: Iterable[Sequence[int]], sizes: Mapping[int, int], kept: Sequence[int] = ()
) -> tuple[list[int], int]:
    """All variables but those kept, the cheapest first, and the cells of the widest bucket."""
    left = [frozenset(s) for s in scopes if s]
    order: list[int] = []
    widest = math.prod(sizes[v] for v in kept)
    while rest := sorted({v for s in left for v in s} - {*kept}):
        joined = {v: frozenset().union(*(s for s in left if v in s)) for v in rest}
        best = min(rest, key=lambda v: (math.prod(sizes[u] for u in joined[v]), v))
        widest = max(widest, math.prod(sizes[u] for u in joined[best]))
        left = [s for s in left if best not in s] + [joined[best] - {best}]
        order.append(best)
    if widest > MOST_CELLS:
        raise PlanError(
            f"a sum over the open variables takes a table of {widest:.1e} cells (at most "
            f"{MOST_CELLS:.0e}). Observe more columns, or ask for fewer at once."
        )
    return order, widest


def log_total(log: Array, axes: tuple[int, ...]) -> Array:
    """log Σ exp over some axes; -inf where all of it is."""
    top = log.max(axis=axes, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        found = np.log(np.exp(log - top).sum(axis=axes, keepdims=True)) + top
    return np.asarray(found.squeeze(axes))


def _spread(factor: Factor, scope: Sequence[int]) -> Array:
    """A factor with axes for all of a scope."""
    places = [factor.scope.index(v) for v in scope if v in factor.scope]
    log = factor.log.transpose(0, *(1 + k for k in places))
    sizes = iter(log.shape[1:])
    return log.reshape(len(log), *(next(sizes) if v in factor.scope else 1 for v in scope))


def _product(factors: Sequence[Factor], scope: Sequence[int], sizes: Mapping[int, int]) -> Array:
    total: Array = np.zeros((1, *(1 for _ in scope)))
    for factor in factors:
        total = total + _spread(factor, scope)
    whole = (len(total), *(sizes[v] for v in scope))
    return total if total.shape == whole else np.broadcast_to(total, whole)


def _fill(
    factors: Sequence[Factor], order: Sequence[int], sizes: Mapping[int, int]
) -> tuple[list[_Bucket], dict[int, Factor]]:
    """All buckets, and the factors that are left, by number."""
    # numbers of one state lie side by side: sums over few states are fast then
    pool = {k: Factor(f.scope, np.asfortranarray(f.log)) for k, f in enumerate(factors)}
    count, buckets = len(pool), []
    for v in order:
        own = {k: f for k, f in pool.items() if v in f.scope}
        rest = sorted({u for f in own.values() for u in f.scope} - {v})
        log = _product(list(own.values()), (v, *rest), sizes)
        message = Factor(tuple(rest), log_total(log, (1,)))
        buckets.append(_Bucket((v, *rest), log, message, tuple(own)))
        pool = {k: f for k, f in pool.items() if k not in own} | {count: message}
        count += 1
    return buckets, pool


def sum_out(
    factors: Sequence[Factor], order: Sequence[int], kept: Sequence[int], sizes: Mapping[int, int]
) -> Array:
    """log Σ over the variables of the order, (rows or 1, kept …)."""
    _, left = _fill(factors, order, sizes)
    return _product(list(left.values()), kept, sizes)


def beliefs(
    factors: Sequence[Factor], order: Sequence[int], sizes: Mapping[int, int]
) -> tuple[list[Array], Array]:
    """P(scope | row) of every factor, (rows or 1, scope …), and log of the whole sum."""
    buckets, left = _fill(factors, order, sizes)
    whole = _product(list(left.values()), (), sizes)
    first = len(factors)
    logs: dict[int, Array] = {k: np.zeros(1) for k in left}  # beliefs of messages
    told = {k: np.ones(1) for k in left}  # beliefs of factors
    for b in range(len(buckets) - 1, -1, -1):
        bucket, message = buckets[b], buckets[b].message
        with np.errstate(invalid="ignore"):
            change = logs[first + b] - message.log
        change = np.where(np.isfinite(message.log), change, -np.inf)
        log = bucket.log + change[:, None]
        alike: dict[tuple[int, ...], Array] = {}  # factors of one scope have one belief
        for k in bucket.members:
            if k >= first:
                logs[k] = _onto(log, bucket.scope, buckets[k - first].message.scope)
                continue
            scope = factors[k].scope
            if scope not in alike:
                alike[scope] = np.exp(_onto(log, bucket.scope, scope))
            told[k] = alike[scope]
    return [told[k] for k in range(first)], whole


def _onto(log: Array, scope: Sequence[int], kept: Sequence[int]) -> Array:
    """log Σ over all of a scope but what is kept, in its order."""
    gone = tuple(1 + i for i, u in enumerate(scope) if u not in kept)
    there = [u for u in scope if u in kept]
    own = log_total(log, gone) if gone else log
    return own.transpose(0, *(1 + there.index(u) for u in kept))
