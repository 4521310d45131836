"""Islands whose latents have equally many states, as one: an M-step on few large arrays.

Features of such islands lie one behind the other, and columns of like shape are handled together
wherever they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from latentia.discovery.cell_bells import joined_lines
from latentia.discovery.island_features import Alike, IslandFeatures, Single


@final
@dataclass(frozen=True, slots=True)
class JoinedIslands:
    """Features of some islands in a row; columns of like shape are one group."""

    islands: tuple[int, ...]
    starts: tuple[int, ...]  # of each island's features, and their end
    states: int  # of every latent
    groups: tuple[Alike, ...]

    def stacked(self, counts: Sequence[Single]) -> Single:
        """Counts of these islands among those of all, (features, k)."""
        return np.concatenate([counts[i] for i in self.islands])

    def parted(self, weights: Single) -> dict[int, Single]:
        """W of each island."""
        ends = zip(self.islands, self.starts, self.starts[1:], strict=False)
        return {i: weights[first:last] for i, first, last in ends}


def join_islands(
    features: Sequence[IslandFeatures], states: Sequence[int]
) -> tuple[JoinedIslands, ...]:
    """Those of equally many states together."""
    found = []
    for k in dict.fromkeys(states):
        own = tuple(i for i, count in enumerate(states) if count == k)
        starts = np.cumsum([0, *(features[i].width for i in own)]).tolist()
        shapes: dict[tuple[int, int, bool, int], list[Alike]] = {}
        for i, start in zip(own, starts, strict=False):
            for group in features[i].groups:
                cells = 0 if group.line is None else group.line.cells
                shape = (group.states, group.parent_states, group.whole, cells)
                shapes.setdefault(shape, []).append(_moved(group, start))
        groups = tuple(map(_joined, shapes.values()))
        found.append(JoinedIslands(own, tuple(starts), k, groups))
    return tuple(found)


def _moved(group: Alike, by: int) -> Alike:
    """The group where its island's features begin later."""
    return replace(
        group,
        own=group.own + by,
        parent=group.parent + by,
        pair=group.pair + by,
        one=group.one + by,
    )


def _joined(groups: Sequence[Alike]) -> Alike:
    """Groups of one shape as one."""
    first, counts = groups[0], [len(group.columns) for group in groups]
    lines = [group.line for group in groups if group.line is not None]
    return replace(
        first,
        columns=tuple(c for group in groups for c in group.columns),
        own=np.concatenate([group.own for group in groups]),
        parent=np.concatenate([group.parent for group in groups]),
        pair=np.concatenate([group.pair for group in groups]),
        one=np.concatenate([group.one for group in groups]),
        head=np.cumsum([0, *counts[:-1]]),
        line=joined_lines(lines) if lines else None,
    )
