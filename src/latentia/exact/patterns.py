"""Patterns of presence: rows that have the same cells are wired alike, or with some others.

One wiring for all rows must sum over every column that any of them lacks, which may be too wide;
one for each pattern may be thousands. Between the two: patterns are split by the column that halves
them best, until what is left together fits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from latentia.typing import Codes

Flags: TypeAlias = NDArray[np.bool_]

ALONE = 500  # rows of one pattern that are worth a wiring of their own


def patterns_of(seen: Flags) -> tuple[Flags, Codes, Codes]:
    """The different rows of (rows, columns), which of them each row is, and how many rows each has.

    >>> patterns, which, counts = patterns_of(
    ...     np.array([[True, False], [True, True], [True, False]])
    ... )
    >>> patterns.tolist(), which.tolist(), counts.tolist()
    ([[True, False], [True, True]], [0, 1, 0], [2, 1])
    """
    if seen.shape[1] == 0:
        return seen[:1], np.zeros(len(seen), dtype=np.int64), np.array([len(seen)])
    packed = np.ascontiguousarray(np.packbits(seen, axis=1))
    keys = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
    _, first, which, counts = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    return seen[first], which.ravel(), counts


def group_patterns(
    patterns: Flags, counts: Codes, fits: Callable[[Flags, int], bool], alone: int = ALONE
) -> list[Codes]:
    """Numbers of patterns that go together; those with many rows stay by themselves.

    `fits` tells whether one wiring for some patterns with so many rows is narrow enough. A single
    pattern is never refused here.
    """
    found = [np.array([k]) for k in np.flatnonzero(counts >= alone)]
    rest = np.flatnonzero(counts < alone)
    todo = [rest] if len(rest) else []
    while todo:
        group = todo.pop()
        if len(group) == 1 or fits(patterns[group], int(counts[group].sum())):
            found.append(group)
            continue
        share = patterns[group].mean(axis=0)
        has = patterns[group, int(np.abs(share - 0.5).argmin())]
        todo += [group[~has], group[has]]
    return found
