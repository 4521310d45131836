"""P(clique) of every clique of a junction tree: collected to the roots, and distributed again.

Which axes are summed and where factors belong depends on the tree and on numbers of states alone:
it is worked out once, for the many tables of one graph that a fit makes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias, final

import numpy as np

from latentia.structure.junction import JunctionTree
from latentia.typing import Array

Scope: TypeAlias = tuple[int, ...]
LEAST = 1e-300


@final
@dataclass(frozen=True, slots=True)
class _Edge:
    """From a clique to the one above: what is summed on either side, and how the rest is spread."""

    clique: int
    above: int
    gone: Scope  # axes of the clique
    gone_above: Scope
    spread: Scope  # shape of what both share, among the clique's axes
    spread_above: Scope


@final
@dataclass(frozen=True, slots=True)
class _Course:
    """Where factors belong, with the order of their axes and shape there; and edges, upward."""

    axes: tuple[Scope, ...]
    shapes: tuple[Scope, ...]
    homes: tuple[tuple[int, Scope, Scope], ...]
    edges: tuple[_Edge, ...]
    roots: Scope


def calibrated(
    tree: JunctionTree, states: Sequence[int], factors: Iterable[tuple[Scope, Array]]
) -> tuple[tuple[Scope, ...], list[Array]]:
    """Variables of each clique, and P(clique) ∝ the product of all factors, summed over the rest.

    A factor comes with its variables, one for each of its axes; some clique holds all of them.
    """
    given = list(factors)
    course = _course(tree, tuple(states), tuple([tuple(family) for family, _ in given]))
    beliefs = [np.ones(shape) for shape in course.shapes]
    for (_, factor), (i, order, shape) in zip(given, course.homes, strict=True):
        beliefs[i] = beliefs[i] * factor.transpose(order).reshape(shape)
    sent: list[Array] = []
    for e in course.edges:
        sent.append(_shares(summed(beliefs[e.clique], e.gone)))
        beliefs[e.above] = beliefs[e.above] * sent[-1].reshape(e.spread_above)
    for i in course.roots:
        beliefs[i] = _shares(beliefs[i])
    for e, message in zip(reversed(course.edges), reversed(sent), strict=True):
        now = summed(beliefs[e.above], e.gone_above) / np.maximum(message, LEAST)
        beliefs[e.clique] = _shares(beliefs[e.clique] * now.reshape(e.spread))
    return course.axes, beliefs


def _shares(table: Array) -> Array:
    """That sum to one: a long way down must not lose all numbers."""
    return np.asarray(table / np.add.reduce(table, axis=None), dtype=float)


def summed(table: Array, gone: Scope) -> Array:
    """Without some of its axes."""
    return np.asarray(np.add.reduce(table, axis=gone), dtype=float) if gone else table


@lru_cache(maxsize=16)
def _course(tree: JunctionTree, states: Scope, families: tuple[Scope, ...]) -> _Course:
    axes = tuple(tuple(sorted(clique)) for clique in tree.cliques)
    homes: dict[int, list[int]] = {}
    for i, clique in enumerate(tree.cliques):
        for v in clique:
            homes.setdefault(v, []).append(i)
    placed = []
    for family in families:
        i = _home(family, homes, tree)
        order = sorted(range(len(family)), key=family.__getitem__)
        placed.append((i, tuple(order), _shape(axes[i], family, states)))
    edges = []
    for i in reversed(tree.order()):
        up, both = tree.parent[i], tree.shared[i]
        if up != i:
            gone = (_others(axes[i], both), _others(axes[up], both))
            spread = (_shape(axes[i], both, states), _shape(axes[up], both, states))
            edges.append(_Edge(i, up, *gone, *spread))
    shapes = tuple(tuple(states[v] for v in own) for own in axes)
    roots = tuple(i for i, up in enumerate(tree.parent) if up == i)
    return _Course(axes, shapes, tuple(placed), tuple(edges), roots)


def _home(family: Sequence[int], homes: Mapping[int, list[int]], tree: JunctionTree) -> int:
    members = frozenset(family)
    scarce = min(family, key=lambda v: len(homes[v]))
    return next(i for i in homes[scarce] if members <= tree.cliques[i])


def _others(axes: Scope, kept: Collection[int]) -> Scope:
    return tuple(k for k, v in enumerate(axes) if v not in kept)


def _shape(axes: Scope, kept: Collection[int], states: Scope) -> Scope:
    return tuple(states[v] if v in kept else 1 for v in axes)
