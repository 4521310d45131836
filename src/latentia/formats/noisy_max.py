"""Noisy-MAX nodes of GeNIe: each parent may cause a state of the child, the strongest wins.

States go from the strongest to the weakest; the last of a parent causes nothing. A last column, the
leak, is what happens without any cause. With C the chance of k or weaker,

    C(k | parents) = C_leak(k) ∏ C_i(k | state of parent i)
"""

from __future__ import annotations

import math

import numpy as np

from latentia.formats.file_text import FileText
from latentia.formats.plain_network import Fill
from latentia.typing import Array

GENERAL = "In GeNIe, change its type to General."


def noisy_max(source: FileText, strengths: Array, numbers: Array, line: int) -> Fill:
    """The table of a node with these `strengths` (orders of states) and parameters."""

    def fill(axes: list[tuple[str, ...]]) -> Array:
        *above, count = (len(states) for states in axes)
        if strengths.tolist() != [k for size in above for k in range(size)]:
            source.fail(
                line,
                "expected the states of parents of a noisy-MAX node in order of their strength, "
                f"got another order. {GENERAL}",
            )
        if numbers.size != count * (sum(above) + 1):
            source.fail(
                line,
                f"expected {count * (sum(above) + 1):,} parameters of a noisy-MAX node, for every "
                f"state of every parent and the leak, got {numbers.size:,}. {GENERAL}",
            )
        return _table(source, above, count, numbers.reshape(-1, count), line)

    return fill


def _table(source: FileText, above: list[int], count: int, columns: Array, line: int) -> Array:
    nothing = np.eye(count)[-1]
    at_most = np.flip(np.cumsum(np.flip(columns, axis=1), axis=1), axis=1)  # P(this or weaker)
    found = at_most[-1]
    start = 0
    for k, size in enumerate(above):
        if not np.allclose(columns[start + size - 1], nothing, atol=1e-6):
            source.fail(
                line,
                "expected the weakest state of every parent of a noisy-MAX node to cause nothing, "
                f"got {columns[start + size - 1].tolist()}. {GENERAL}",
            )
        own = at_most[start : start + size]
        shape = [1] * len(above)
        shape[k] = size
        found = found * own.reshape(*shape, count)
        start += size
    found = np.broadcast_to(found, (*above, count)).reshape(math.prod(above), count)
    weaker = np.concatenate([found[:, 1:], np.zeros((len(found), 1))], axis=1)
    return np.asarray((found - weaker).reshape(*above, count))
