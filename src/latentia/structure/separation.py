"""Directed graphs by number: ancestors, descendants, d-separation, cut edges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

Parents: TypeAlias = "Sequence[Sequence[int]]"  # of every variable


def children_of(parents: Parents) -> list[list[int]]:
    """Children of every variable."""
    found: list[list[int]] = [[] for _ in parents]
    for child, above in enumerate(parents):
        for parent in above:
            found[parent].append(child)
    return found


def ancestors(parents: Parents, of: Iterable[int]) -> frozenset[int]:
    """These variables and all above them.

    >>> sorted(ancestors([[], [0], [1], []], [1]))
    [0, 1]
    """
    seen = set(of)
    todo = list(seen)
    while todo:
        for v in parents[todo.pop()]:
            if v not in seen:
                seen.add(v)
                todo.append(v)
    return frozenset(seen)


def descendants(parents: Parents, of: Iterable[int]) -> frozenset[int]:
    """These variables and all below them."""
    return ancestors(children_of(parents), of)


def without_incoming(parents: Parents, into: Iterable[int]) -> list[Sequence[int]]:
    """The graph after an intervention: no arrows into these variables."""
    cut = set(into)
    return [() if v in cut else tuple(above) for v, above in enumerate(parents)]


def without_outgoing(parents: Parents, out_of: Iterable[int]) -> list[Sequence[int]]:
    """Back-door paths alone: no arrows out of these variables."""
    cut = set(out_of)
    return [tuple(p for p in above if p not in cut) for above in parents]


def separated(
    parents: Parents, left: Iterable[int], right: Iterable[int], given: Iterable[int]
) -> bool:
    """Is every path between left and right blocked by what is given (d-separation)?

    A walk over (variable, did we come from below?), which turns at colliders only where one of
    their descendants is given.

    >>> collider = [[], [], [0, 1]]
    >>> separated(collider, [0], [1], []), separated(collider, [0], [1], [2])
    (True, False)
    """
    known, goal = frozenset(given), frozenset(right)
    below = children_of(parents)
    opened = ancestors(parents, known)  # colliders here let a path through
    todo = [(v, True) for v in left if v not in known]
    seen = set(todo)
    while todo:
        v, from_below = todo.pop()
        if v in goal and v not in known:
            return False
        steps: list[tuple[int, bool]] = []
        if v not in known:
            steps += [(c, False) for c in below[v]]
        if (from_below and v not in known) or (not from_below and v in opened):
            steps += [(p, True) for p in parents[v]]
        for step in steps:
            if step not in seen:
                seen.add(step)
                todo.append(step)
    return True
