"""Islands: connected parts of the tree of columns, each told by a latent of its own (design 15).

A tree ties the latents where the columns' tree crosses from island to island. Edges of the columns'
tree within an island may stay: such a column has two parents, its latent and another column.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import final

from latentia.discovery.column_tree import Edge, RootedTree, rooted


@final
@dataclass(frozen=True, slots=True)
class Islands:
    """Which columns each latent tells, and how latents and columns are tied."""

    columns: tuple[tuple[int, ...], ...]  # of each island
    tree: RootedTree  # of the islands
    column_parent: tuple[int, ...]  # another column of the same island, or -1

    @property
    def home(self) -> tuple[int, ...]:
        """The island of each column."""
        found = {c: i for i, own in enumerate(self.columns) for c in own}
        return tuple(found[c] for c in range(len(found)))

    def most_states(self, sizes: Sequence[int], bound: int) -> tuple[int, ...]:
        """States of each latent: `bound`, or the joint states of all columns below, if fewer.

        A column that stands alone needs no latent.
        """
        below = [1.0] * len(self.columns)
        for i in reversed(self.tree.order):
            for c in self.columns[i]:
                below[i] = min(below[i] * sizes[c], 1e9)
            above = self.tree.above[i]
            if above >= 0:
                below[above] = min(below[above] * below[i], 1e9)
        tied = {i for i, above in enumerate(self.tree.above) if above >= 0}
        tied |= {above for above in self.tree.above if above >= 0}
        return tuple(
            int(min(bound, count)) if len(own) > 1 or i in tied else 1
            for i, (own, count) in enumerate(zip(self.columns, below, strict=True))
        )


def cut_islands(
    n: int,
    edges: Sequence[Edge],
    smallest: int,
    inner: bool,
    childless: Collection[int] = (),
    required: Collection[Edge] = (),
) -> Islands:
    """Cut the tree of n columns bottom-up into islands of at least `smallest` columns.

    `inner`: edges within islands stay, except below the `childless` columns (those with holes: what
    hangs on an unseen cell would have to be summed over). Edges that are `required` are never cut,
    and stay in any case.
    """
    if smallest >= n:  # one island, whatever the tree
        return Islands(
            (tuple(range(n)),),
            rooted(1, ()),
            _inner_parents(
                rooted(n, edges), dict.fromkeys(range(n), 0), inner, childless, required
            ),
        )
    tree = rooted(n, edges)
    held = [[v] for v in range(n)]
    found: list[list[int]] = []
    for v in reversed(tree.order):
        above = tree.above[v]
        if len(held[v]) >= smallest and not _among(required, v, above):
            found.append(held[v])
        elif above >= 0:
            held[above] = held[above] + held[v]
        else:
            _settle(found, held[v], edges, smallest)
    columns = tuple(tuple(sorted(own)) for own in found)
    home = {c: i for i, own in enumerate(columns) for c in own}
    across = {(home[a], home[b]) for a, b in edges if home[a] != home[b]}
    return Islands(
        columns,
        rooted(len(columns), sorted(across)),
        _inner_parents(tree, home, inner, childless, required),
    )


def _settle(found: list[list[int]], rest: list[int], edges: Sequence[Edge], smallest: int) -> None:
    """What is left at a root: an island, or part of the smallest one beside it if it is tiny."""
    own = set(rest)
    near = {b if a in own else a for a, b in edges if (a in own) != (b in own)}
    beside = [island for island in found if near & set(island)]
    if beside and len(rest) < max(2, smallest // 2):
        min(beside, key=len).extend(rest)
    else:
        found.append(rest)


def _inner_parents(
    tree: RootedTree,
    home: dict[int, int],
    inner: bool,
    childless: Collection[int],
    required: Collection[Edge],
) -> tuple[int, ...]:
    return tuple(
        p
        if p >= 0
        and home[p] == home[c]
        and p not in childless
        and (inner or _among(required, c, p))
        else -1
        for c, p in enumerate(tree.above)
    )


def _among(edges: Collection[Edge], a: int, b: int) -> bool:
    return (a, b) in edges or (b, a) in edges
